"""Tests of the registry: how agents are found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsh_core.agent import Agent, AgentOptions
from dsh_core.llm import ScriptedAdapter
from dsh_core.tools import ToolDefinition
from tests.core.agent.support import World, sync, world

if TYPE_CHECKING:
    from dsh_core.context import Context


def bare(w: World, id_: str) -> Agent:
    """Return an agent that nobody drives."""
    return Agent(w.ctx, id_, w.ctx.sessions.create(), AgentOptions())


@sync
async def test_get_and_list_find_what_is_registered_in_its_order() -> None:
    async with world() as w:
        one, two = bare(w, "1"), bare(w, "2")
        w.ctx.agents.register(two)
        w.ctx.agents.register(one)
        assert (w.ctx.agents.get("1"), w.ctx.agents.get("3")) == (one, None)
        assert w.ctx.agents.list() == [two, one]


@sync
async def test_a_second_agent_of_an_id_is_refused() -> None:
    async with world() as w:
        w.ctx.agents.register(bare(w, "1"))
        with pytest.raises(ValueError, match=r'^agent "1" already exists$'):
            w.ctx.agents.register(bare(w, "1"))


@sync
async def test_agent_created_is_emitted_when_an_agent_can_be_found() -> None:
    async with world() as w:
        found: list[Any] = []
        w.ctx.on("agent/created", lambda agent: found.append((agent, w.ctx.agents.get("1"))))
        agent = bare(w, "1")
        w.ctx.agents.register(agent)
        assert found == [(agent, agent)]


@sync
async def test_agent_disposed_is_emitted_when_an_agent_can_be_found_no_more() -> None:
    async with world() as w:
        found: list[Any] = []
        w.ctx.on("agent/disposed", lambda agent: found.append((agent, w.ctx.agents.get("1"))))
        agent = bare(w, "1")
        remove = w.ctx.agents.register(agent)
        assert found == []
        remove()
        remove()
        assert (found, w.ctx.agents.list()) == ([(agent, None)], [])


@sync
async def test_an_agent_is_registered_as_long_as_a_context_lives() -> None:
    async with world() as w:
        inner: list[Context] = []
        fiber = await w.ctx.plugin(inner.append)
        w.ctx.agents.register(bare(w, "1"), ctx=inner[0])
        await fiber.dispose()
        assert w.ctx.agents.list() == []


@sync
async def test_an_agent_that_a_listener_refuses_is_not_registered() -> None:
    async with world() as w:
        w.hear("agent/disposed")

        def refuse(_agent: Agent) -> None:
            raise ValueError("no")

        w.ctx.once("agent/created", refuse)
        with pytest.raises(ValueError, match=r"^no$"):
            w.ctx.agents.register(bare(w, "1"))
        assert w.ctx.agents.list() == []
        assert w.heard == [("agent/disposed",)]
        w.ctx.agents.register(bare(w, "1"))


@sync
async def test_what_a_register_method_returns_works_at_once_and_need_not_be_awaited() -> None:
    async with world() as w:
        removers = [
            w.ctx.agents.register(bare(w, "1")),
            w.ctx.llm.register_adapter(["new"], ScriptedAdapter([])),
            w.ctx.tools.register(ToolDefinition("t", "", {"type": "object"}, print)),
        ]
        assert (len(w.ctx.agents.list()), w.ctx.llm.models()) == (1, ["m", "new"])
        assert w.ctx.tools.get("t") is not None
        for remove in removers:
            remove()
        assert (w.ctx.agents.list(), w.ctx.llm.models(), w.ctx.tools.get("t")) == ([], ["m"], None)
