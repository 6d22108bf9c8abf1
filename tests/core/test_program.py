"""Everything that an agent needs, as one plugin."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from dsh_core import program
from dsh_core.context import Context, FiberState
from dsh_core.llm import ScriptedAdapter

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

SERVICES = ("sessions", "llm", "tools", "agents", "agent_loop")


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main(), debug=True)


def test_it_offers_all_services_and_takes_them_along() -> None:
    async def main() -> None:
        ctx: Any = Context()
        fiber = await ctx.plugin(program)
        assert [name for name in SERVICES if ctx.get(name) is None] == []
        await fiber.dispose()
        assert [name for name in SERVICES if ctx.get(name) is not None] == []
        await ctx.dispose()

    run(main)


def test_a_plugin_beside_it_waits_for_what_it_needs() -> None:
    async def main() -> None:
        ctx: Any = Context()
        seen: list[str] = []

        def needs(inner: Any) -> None:
            seen.append(type(inner.agent_loop).__name__)

        waiting = ctx.inject(["agent_loop", "tools"], needs)
        assert waiting.state is FiberState.PENDING
        await ctx.plugin(program)
        await waiting
        assert seen == ["AgentLoop"]
        await ctx.dispose()

    run(main)


def test_clock_and_ids_of_ones_own_are_in_the_log() -> None:
    async def main() -> None:
        ctx: Any = Context()
        numbers = iter(range(100))
        await program.start(ctx, clock=lambda: 7, new_id=lambda: f"m{next(numbers)}")
        ctx.llm.register_adapter(["m"], ScriptedAdapter(["hello"]))
        agent = ctx.agent_loop.create("a", model="m")
        assert agent.send("hi") == "m0"
        await agent.settled()
        assert {entry.time for entry in agent.session.events} == {7}
        answer = next(e for e in agent.session.events if e.type == "assistant/message")
        assert answer.data["message"]["id"] == "m2"
        await ctx.dispose()

    run(main)
