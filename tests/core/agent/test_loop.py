"""Tests of the loop: how agents come to life, take turns, and end."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from dsh_core import invariants
from dsh_core.agent import AgentLoop, AgentOptions, AgentRegistry, AgentStatus, TurnError
from dsh_core.context import Context
from dsh_core.errors import InvariantError
from dsh_core.llm import Llm, calls, fails
from dsh_core.session import SessionStore
from dsh_core.tools import ToolRegistry
from tests.core.agent.support import (
    MODEL,
    done,
    of_type,
    reasons,
    sync,
    texts,
    types,
    until,
    world,
)

if TYPE_CHECKING:
    from dsh_core.agent import Agent

DISPOSED_REASON = {"kind": "aborted", "reason": {"kind": "disposed"}}


def driver(agent: Agent) -> asyncio.Task[Any]:
    (task,) = (t for t in asyncio.all_tasks() if t.get_name() == f"agent {agent.id}")
    return task


# Creation


@sync
async def test_sessions_llm_tools_agents_and_agent_loop_are_found_as_attributes() -> None:
    async with world() as w:
        found = (w.ctx.sessions, w.ctx.llm, w.ctx.tools, w.ctx.agents, w.ctx.agent_loop)
        assert [type(one) for one in found] == [
            SessionStore,
            Llm,
            ToolRegistry,
            AgentRegistry,
            AgentLoop,
        ]
        assert w.ctx.agent_loop is w.loop


@sync
async def test_create_makes_a_session_named_after_the_agent() -> None:
    async with world() as w:
        agent = w.agent("kim")
        assert agent.session.id == "kim-session"
        assert w.ctx.sessions.get("kim-session") is agent.session


@sync
async def test_create_registers_the_agent() -> None:
    async with world() as w:
        w.hear("agent/created")
        agent = w.agent("kim")
        assert w.ctx.agents.get("kim") is agent
        assert w.heard == [("agent/created",)]


@sync
async def test_create_starts_the_driver() -> None:
    async with world("yes") as w:
        agent = w.agent()
        assert not driver(agent).done()
        await w.say(agent)
        assert texts(agent.session, "assistant/message") == ["yes"]


@sync
async def test_create_takes_model_and_system_prompt() -> None:
    async with world("yes") as w:
        agent = w.loop.create("a", model=MODEL, system_prompt="be good")
        await w.say(agent)
        (request,) = w.script.requests
        assert (request.model, request.system) == (MODEL, "be good")


@sync
async def test_what_the_loop_is_made_with_counts_for_all_agents() -> None:
    async with world() as w:
        loop = AgentLoop.__new__(AgentLoop)
        assert loop.inject == ("sessions", "llm", "tools", "agents")
        agent = w.loop.create("a", max_tokens=7)
        assert agent.options == AgentOptions(patience_s=0.05, max_tokens=7)


@sync
async def test_a_given_session_is_used_and_outlives_the_agent() -> None:
    async with world("yes") as w:
        session = w.ctx.sessions.create("mine")
        agent = w.agent("a", session=session)
        await w.say(agent)
        agent.dispose()
        await until(lambda: w.ctx.agents.get("a") is None)
        assert w.ctx.sessions.get("mine") is session
        assert w.ctx.sessions.get("a-session") is None


@sync
async def test_a_second_agent_of_an_id_is_refused_and_leaves_nothing() -> None:
    async with world() as w:
        w.agent("a")
        with pytest.raises(ValueError, match=r'^session "a-session" already exists$'):
            w.agent("a")
        session = w.ctx.sessions.create("other")
        with pytest.raises(ValueError, match=r'^agent "a" already exists$'):
            w.agent("a", session=session)
        assert [session.id for session in w.ctx.sessions.list()] == ["a-session", "other"]
        assert len(w.ctx.agents.list()) == 1


@pytest.mark.parametrize("id_", ["", "x" * 201])
@sync
async def test_an_id_has_1_to_200_characters(id_: str) -> None:
    async with world() as w:
        with pytest.raises(ValueError, match=r"^an agent's id has 1 to 200 characters$"):
            w.agent(id_)
        assert w.agent("x" * 200).id == "x" * 200


@sync
async def test_an_unknown_option_is_refused_and_leaves_nothing() -> None:
    async with world() as w:
        with pytest.raises(TypeError):
            w.agent(mood="good")
        assert (w.ctx.sessions.list(), w.ctx.agents.list()) == ([], [])


@pytest.mark.parametrize("name", ["session/created", "agent/created"])
@sync
async def test_an_agent_that_a_listener_refuses_leaves_nothing(name: str) -> None:
    async with world() as w:

        def refuse(_: object) -> None:
            raise ValueError("no")

        w.ctx.once(name, refuse)
        refused: list[Agent] = []
        w.ctx.on("agent/created", refused.append, prepend=True)
        with pytest.raises(ValueError, match=r"^no$"):
            w.agent()
        assert (w.ctx.sessions.list(), w.ctx.agents.list()) == ([], [])
        assert all(agent.status is AgentStatus.DISPOSED for agent in refused)
        refused.clear()
        w.agent()


# Turns


@sync
async def test_all_messages_queued_at_the_start_join_one_turn() -> None:
    async with world("yes") as w:
        agent = w.agent()
        for text in ("one", "two", "three"):
            agent.send(text)
        await done(agent)
        assert types(agent.session) == [
            *["agent/inbox/spliced"] * 3,
            "turn/start",
            *["agent/inbox/spliced"] * 3,
            "step/start",
            "system/message",
            *["user/message"] * 3,
            "request/header",
            "request/context",
            "assistant/message",
            "step/end",
            "turn/end",
        ]
        assert texts(agent.session) == ["one", "two", "three"]


@sync
async def test_a_message_that_comes_during_a_turn_waits_for_the_next() -> None:
    async with world("one", "two") as w:
        agent = w.agent()
        w.ctx.once("agent/stream-chunk", lambda agent, _: agent.send("more"))
        await w.say(agent)
        assert of_type(agent.session, "turn/start") == [{"turn": 1}, {"turn": 2}]
        assert texts(agent.session) == ["hi", "more"]


@pytest.mark.parametrize(
    "name", ["session/event", "agent/turn-start", "agent/status", "agent/error", "agent/turn-end"]
)
@sync
async def test_a_listener_that_always_raises_ends_each_turn_but_not_the_loop(name: str) -> None:
    async with world("one", "two") as w:
        agent = w.agent()

        def refuse(*_: Any) -> None:
            raise ValueError("no")

        stop = w.ctx.on(name, refuse)
        if name == "session/event":
            with pytest.raises(ValueError, match=r"^no$"):
                agent.send("hi")
        else:
            agent.send("hi")
        await done(agent)
        assert len(reasons(agent.session)) == 1
        assert texts(agent.session) == ["hi"]
        stop()
        await w.say(agent, "again")
        assert reasons(agent.session)[1] == {"kind": "completed"}
        assert texts(agent.session) == ["hi", "again"]


@sync
async def test_turns_that_fail_at_once_do_not_keep_others_from_running() -> None:
    async with world() as w:
        agent, turns = w.agent(model=""), 0

        def again(agent: Agent, _error: Exception) -> None:
            nonlocal turns
            turns += 1
            agent.send("again")

        stop = w.ctx.on("agent/error", again)
        agent.send("hi")
        await until(lambda: turns > 5)
        stop()
        await done(agent)


# The end


@sync
async def test_the_end_of_the_context_disposes_the_agent_at_once() -> None:
    async with world() as w:
        inner: list[Context] = []
        fiber = await w.ctx.plugin(inner.append)
        agent = w.agent(ctx=inner[0])
        ending = fiber.leave()
        assert agent.status is AgentStatus.DISPOSED
        await ending
        assert (w.ctx.agents.list(), w.ctx.sessions.list()) == ([], [])


@sync
async def test_what_an_agent_logs_at_its_end_is_still_told() -> None:
    async with world(calls(("wait", {}))) as w:
        inner: list[Context] = []
        fiber = await w.ctx.plugin(inner.append)
        w.tool("wait", lambda execution: execution.signal.wait())
        agent = w.agent(ctx=inner[0])
        agent.send("hi")
        await until(lambda: of_type(agent.session, "tool/call"))
        told: list[str] = []
        w.ctx.on("session/event", lambda _, entry: told.append(entry.type))
        for name in ("agent/status", "agent/turn-end", "agent/disposed", "session/closed"):
            w.ctx.on(name, lambda *_, name=name: told.append(name))
        await fiber.dispose()
        assert told == [
            "agent/status",
            "tool/result",
            "step/end",
            "turn/end",
            "agent/turn-end",
            "agent/disposed",
            "session/closed",
        ]
        assert reasons(agent.session) == [DISPOSED_REASON]


@sync
async def test_a_disposed_agent_leaves_registry_and_store_so_that_its_id_is_free() -> None:
    async with world("one", "two") as w:
        agent = w.agent()
        await w.say(agent)
        agent.dispose()
        await until(lambda: w.ctx.agents.get("a") is None)
        assert w.ctx.sessions.get("a-session") is None
        await w.say(w.agent())


@sync
async def test_a_tool_that_ignores_the_abort_is_cancelled_after_a_moment_of_grace() -> None:
    async with world(calls(("never", {}))) as w:
        w.tool("never", lambda _: asyncio.get_running_loop().create_future())
        agent = w.agent(grace_s=0.0, patience_s=5.0)
        agent.send("hi")
        await until(lambda: of_type(agent.session, "tool/call"))
        await w.ctx.dispose()
        (result,) = of_type(agent.session, "tool/result")
        assert result["error"] == {"name": "AbortError", "code": "ABORTED"}
        assert reasons(agent.session) == [DISPOSED_REASON]


@sync
async def test_a_cancelled_driver_closes_the_turn_and_disposes_the_agent() -> None:
    async with world(calls(("never", {}))) as w:
        w.tool("never", lambda _: asyncio.get_running_loop().create_future())
        agent = w.agent()
        agent.send("hi")
        await until(lambda: of_type(agent.session, "tool/call"))
        driver(agent).cancel()
        await agent.settled()
        await until(lambda: w.ctx.agents.get("a") is None)
        assert types(agent.session)[-3:] == ["tool/result", "step/end", "turn/end"]
        assert reasons(agent.session) == [DISPOSED_REASON]
        assert agent.status is AgentStatus.DISPOSED
        with pytest.raises(RuntimeError):
            agent.send("anybody there?")


@sync
async def test_a_listener_that_raises_at_the_end_keeps_nothing_from_ending() -> None:
    async with world() as w:

        def refuse(*_: Any) -> None:
            raise ValueError("no")

        w.hear("agent/error")
        for name in ("agent/status", "agent/disposed", "session/closed"):
            w.ctx.on(name, refuse)
        agent = w.agent()
        task = driver(agent)
        await w.ctx.dispose()
        assert (agent.status, task.done()) == (AgentStatus.DISPOSED, True)
        assert w.ctx.get("agents") is None


@sync
async def test_the_end_of_the_loop_ends_its_agents_wherever_they_live() -> None:
    async with world() as w:
        inner: list[Context] = []
        await w.ctx.plugin(inner.append)

        def second(own: Context) -> None:
            w.loop.ctx = own

        second.inject = AgentLoop.inject  # type: ignore[attr-defined]
        mine = await w.ctx.plugin(second)
        agent = w.agent(ctx=inner[0])
        assert w.ctx.agents.list() == [agent]
        await mine.dispose()
        assert agent.status is AgentStatus.DISPOSED
        assert w.ctx.agents.list() == []


@sync
@pytest.mark.parametrize("way", ["abort", "dispose"])
async def test_what_swallows_its_cancellation_is_given_up(
    way: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsh_core.agent.loop.LAST_PATIENCE_S", 0.01)
    started, stop = asyncio.Event(), asyncio.Event()

    async def deaf(_execution: Any) -> str:
        started.set()
        while not stop.is_set():
            try:
                await stop.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    async with world(calls(("deaf", {})), "next") as w:
        w.tool("deaf", deaf)
        agent = w.agent(grace_s=0.0, patience_s=0.01)
        agent.send("hi")
        await started.wait()
        with caplog.at_level(logging.WARNING, "dsh_core"):
            if way == "abort":
                agent.abort()
                await agent.settled()
                assert await agent.ask("go on") == "next"
            else:
                await w.ctx.dispose()
        (result,) = of_type(agent.session, "tool/result")
        told = (caplog.messages, result["error"]["code"])
        stop.set()
        assert told == (
            (["a tool does not end though it was cancelled 0.01 s ago"], "ABORTED")
            if way == "abort"
            else ([], "TOOL_OUTCOME_UNKNOWN")
        )
        assert reasons(agent.session)[0]["kind"] == "aborted"
        await until(lambda: len(asyncio.all_tasks()) <= (2 if way == "abort" else 1))


# Together with others


@sync
async def test_an_agent_goes_on_in_a_fork_of_its_session() -> None:
    async with world("one", "two", "three") as w:
        agent = w.agent()
        await w.say(agent)
        fork = w.ctx.sessions.fork(agent.session)
        other = w.agent("b", session=fork)
        await w.say(other, "there")
        await w.say(agent, "here")
        assert of_type(fork, "turn/start") == [{"turn": 1}, {"turn": 2}]
        assert texts(fork) == ["hi", "there"]
        assert texts(agent.session) == ["hi", "here"]


@sync
async def test_a_status_that_breaks_the_contract_raises_with_the_invariants() -> None:
    async with world() as w:
        await w.ctx.plugin(invariants)
        agent = w.agent()
        w.ctx.emit("agent/status", agent, AgentStatus.RUNNING)
        with pytest.raises(InvariantError, match=r"agent\.status-noop"):
            w.ctx.emit("agent/status", agent, AgentStatus.RUNNING)


def test_the_loop_takes_its_options_as_a_mapping_or_as_options() -> None:
    async def main() -> None:
        ctx: Any = Context()
        for config in ({"model": "x"}, AgentOptions(model="x"), None):
            AgentLoop(ctx, config)
            assert ctx.agent_loop._defaults.model == ("x" if config else "")
            await ctx.dispose()
            ctx = Context()
        await ctx.dispose()

    asyncio.run(main())


# Others that misbehave


@sync
async def test_two_agents_do_not_share_a_session() -> None:
    async with world() as w:
        agent = w.agent()
        with pytest.raises(ValueError, match='"a-session" is that of agent "a" already'):
            w.agent("b", session=agent.session)
        assert w.ctx.agents.get("b") is None


@sync
@pytest.mark.parametrize("event", ["turn/start", "step/start", "step/end", "turn/end"])
async def test_a_listener_that_raises_a_cancellation_does_not_end_the_agent(event: str) -> None:
    async with world("one", "two") as w:

        def mistaken(_session: Any, entry: Any) -> None:
            if entry.type == event and entry.data["turn"] == 1:
                future = asyncio.get_running_loop().create_future()
                future.cancel()
                future.result()

        w.ctx.on("session/event", mistaken)
        w.hear("agent/error")
        agent = w.agent()
        await w.say(agent)
        await w.say(agent)
        assert reasons(agent.session)[-1] == {"kind": "completed"}
        assert len(w.heard) == 1


@sync
@pytest.mark.parametrize("where", ["its end", "its next chunk"])
async def test_a_model_that_does_not_end_holds_nobody_up(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    stop = asyncio.Event()

    class Stubborn:
        provider = "stubborn"

        async def stream(self, _options: Any) -> Any:
            try:
                yield {"type": "text-delta", "index": 0, "text": "x"}
                while where == "its next chunk" and not stop.is_set():
                    with suppress(asyncio.CancelledError):
                        await stop.wait()
                if where == "its end":
                    await asyncio.Event().wait()
            finally:
                if where == "its end":
                    await stop.wait()

    async with world() as w:
        w.ctx.llm.register_adapter(["stubborn"], Stubborn())
        agent = w.agent(model="stubborn", patience_s=0.01)
        w.ctx.on("agent/stream-chunk", lambda *_: agent.abort())
        agent.send("hi")
        await agent.settled()
        assert reasons(agent.session) == [{"kind": "aborted", "reason": {"kind": "user"}}]
        stop.set()
        await until(lambda: len(asyncio.all_tasks()) <= 2)
    assert all("does not end" in message for message in caplog.messages)


@sync
async def test_what_nobody_listens_to_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with world(fails("RATE_LIMIT", "slow down")) as w:
        await w.say(w.agent())
    assert caplog.messages == ["agent 'a': LlmError: slow down"]


@sync
async def test_the_working_directory_of_an_agent_is_that_of_its_session() -> None:
    async with world() as w:
        assert w.agent(cwd="/srv").session.header.cwd == "/srv"


@sync
async def test_asking_gives_the_answer() -> None:
    async with world("one", calls(("nope", {})), "two") as w:
        agent = w.agent()
        assert await agent.ask("first") == "one"
        assert await agent.ask("second") == "two"


@sync
async def test_asking_raises_what_the_turn_has_failed_with() -> None:
    async with world(fails("RATE_LIMIT", "slow down"), calls(("leave", {}))) as w:
        w.tool("leave", lambda execution: execution.agent.abort())
        w.hear("agent/error")
        agent = w.agent()
        with pytest.raises(TurnError, match="slow down") as caught:
            await agent.ask("hi")
        assert caught.value.code == "RATE_LIMIT"
        with pytest.raises(TurnError) as caught:
            await agent.ask("hi")
        assert caught.value.code == "ABORTED"


@sync
@pytest.mark.parametrize(
    "content", [3, {"type": "text", "text": "x"}, ["x"], [{"text": "x"}], b"x"]
)
async def test_what_is_no_content_is_refused_where_it_is_said(content: Any) -> None:
    async with world() as w:
        with pytest.raises(TypeError, match="content is a text, or a list of blocks"):
            w.agent().send(content)


@sync
@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_flush_that_raises_a_cancellation_does_not_end_the_agent(how: str) -> None:
    async with world("one", "two") as w:

        def mistaken(_session: Any) -> None:
            raise asyncio.CancelledError

        async def mistaken_later(_session: Any) -> None:
            raise asyncio.CancelledError

        w.ctx.on("session/flush", mistaken if how == "sync" else mistaken_later)
        w.hear("agent/error")
        agent = w.agent()
        assert [await agent.ask("hi"), await agent.ask("hi")] == ["one", "two"]
        assert len(w.heard) == 2


@sync
async def test_the_last_turn_decides_what_asking_gives() -> None:
    async with world(fails("RATE_LIMIT", "slow down"), "fine") as w:
        w.hear("agent/error")
        agent = w.agent()
        w.ctx.once("agent/turn-end", lambda *_: agent.send("another"))
        assert await agent.ask("one") == "fine"


@sync
async def test_asking_an_agent_that_is_disposed_before_its_turn_raises() -> None:
    async with world() as w:
        agent = w.agent()
        asked = asyncio.ensure_future(agent.ask("hi"))
        await asyncio.sleep(0)
        agent.dispose()
        with pytest.raises(TurnError, match="disposed before its turn"):
            await asked


@sync
async def test_what_a_tool_does_to_its_task_stays_with_it() -> None:
    async with world(calls(("hasty", {}), ("fine", {})), "done") as w:

        async def hasty(_execution: Any) -> str:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
            return "swallowed"

        w.tool("hasty", hasty)
        w.tool("fine", lambda _: "fine")
        agent = w.agent()
        assert await agent.ask("hi") == "done"
        assert [
            result["message"]["content"][0]["text"]
            for result in of_type(agent.session, "tool/result")
        ] == ["swallowed", "fine"]
