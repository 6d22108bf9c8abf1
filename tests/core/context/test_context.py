"""Tests of contexts: services as attributes, plugins added, and everything undone at the end."""

from __future__ import annotations

import asyncio
import copy

import pytest

from dsh_core.context import Context, ContextError, Fiber, FiberState, PropertyError
from tests.core.context.support import NOTHING, leftovers, sync, turn


async def child(ctx: Context, *inject: str) -> Context:
    """Return the context of a plugin that injects something."""
    inner: list[Context] = []
    await ctx.inject(inject, inner.append)
    return inner[0]


class TestProperties:
    """Reading services."""

    def test_a_service_is_read_as_an_attribute(self) -> None:
        ctx = Context()
        ctx.provide("tools", "the tools")
        assert ctx.tools == "the tools"

    def test_a_service_that_is_not_there_cannot_be_read(self) -> None:
        with pytest.raises(PropertyError, match=r'^cannot get property "tools" without inject'):
            _ = Context().tools

    def test_a_service_that_cannot_be_read_says_what_to_do(self) -> None:
        with pytest.raises(PropertyError) as caught:
            _ = Context().toolz
        assert caught.value.__notes__ == [
            "nobody offers 'toolz', or not yet: await the plugin that does"
        ]

    @sync
    async def test_a_service_that_is_not_injected_cannot_be_read(self) -> None:
        ctx = Context()
        await ctx.plugin(lambda own: own.provide("tools", 1) and None)
        own = await child(ctx)
        with pytest.raises(PropertyError, match=r'^cannot get property "tools" without inject'):
            _ = own.tools

    @sync
    async def test_an_injected_service_can_be_read(self) -> None:
        ctx = Context()
        await ctx.plugin(lambda own: own.provide("tools", 1) and None)
        assert (await child(ctx, "tools")).tools == 1

    @sync
    async def test_what_a_plugin_injects_its_own_plugins_can_read_too(self) -> None:
        ctx = Context()
        await ctx.plugin(lambda own: own.provide("tools", 1) and None)
        outer = await child(ctx, "tools")
        assert (await child(outer)).tools == 1

    @sync
    async def test_a_plugin_and_its_own_plugins_can_read_what_it_provides(self) -> None:
        ctx = Context()
        own = await child(ctx)
        own.provide("tools", 1)
        assert own.tools == 1
        assert (await child(own)).tools == 1

    @sync
    async def test_what_a_plugin_of_a_plugin_provides_must_be_injected(self) -> None:
        ctx = Context()
        own = await child(ctx)
        (await child(own)).provide("tools", 1)
        with pytest.raises(PropertyError):
            _ = own.tools
        assert own.get("tools") == 1

    @sync
    async def test_everybody_can_read_what_the_root_provides(self) -> None:
        ctx = Context()
        own = await child(ctx)
        ctx.provide("tools", 1)
        assert own.tools == 1

    @sync
    async def test_the_root_can_read_everything(self) -> None:
        ctx = Context()
        (await child(ctx)).provide("tools", 1)
        assert ctx.tools == 1

    @sync
    async def test_contexts_share_one_store_of_services(self) -> None:
        ctx = Context()
        one, other = await child(ctx), await child(ctx)
        one.provide("tools", 1)
        assert (ctx.get("tools"), one.get("tools"), other.get("tools")) == (1, 1, 1)

    @sync
    async def test_get_returns_a_service_whether_it_is_injected_or_not(self) -> None:
        ctx = Context()
        assert ctx.get("tools") is None
        (await child(ctx)).provide("tools", 1)
        assert (await child(ctx)).get("tools") == 1

    def test_names_with_an_underscore_are_never_services(self) -> None:
        ctx = Context()
        ctx.provide("_private", 1)
        assert not hasattr(ctx, "_private")
        assert copy.copy(ctx).root is not None

    def test_a_missing_service_is_a_missing_attribute(self) -> None:
        ctx = Context()
        assert not hasattr(ctx, "tools")
        assert getattr(ctx, "tools", "default") == "default"

    def test_programs_know_nothing_of_each_other(self) -> None:
        one, other, log = Context(), Context(), list[str]()
        one.provide("tools", 1)
        one.on("event", lambda: log.append("heard"))
        other.emit("event")
        assert other.get("tools") is None
        assert log == []


class TestPlugins:
    """Adding plugins."""

    @sync
    async def test_the_body_runs_after_a_turn_of_the_loop_not_at_once(self) -> None:
        ctx, log = Context(), list[str]()
        ctx.plugin(lambda: log.append("body"))
        log.append("after plugin()")
        await asyncio.sleep(0)
        assert log == ["after plugin()", "body"]

    @sync
    async def test_plugin_returns_a_fiber_that_can_be_awaited(self) -> None:
        ctx, log = Context(), list[str]()
        fiber = ctx.plugin(lambda: log.append("body"))
        assert isinstance(fiber, Fiber)
        assert await fiber is fiber
        assert log == ["body"]

    @sync
    async def test_a_plugin_gets_a_context_of_its_own(self) -> None:
        ctx = Context()
        one = await child(ctx)
        two = await child(one)
        assert (one.parent, two.parent, two.root) == (ctx, one, ctx)
        assert (ctx.parent, ctx.root) == (None, ctx)
        assert one.fiber is not two.fiber
        assert repr(one) == "<Context of 'inject'>"

    @sync
    async def test_inject_runs_a_body_while_services_are_there(self) -> None:
        ctx, log = Context(), list[str]()

        def body(own: Context) -> None:
            log.append(f"with {own.tools}")
            own.effect(lambda: lambda: log.append("without"))

        fiber = ctx.inject(["tools"], body)
        await fiber
        stop = ctx.provide("tools", 1)
        await fiber
        await stop()
        assert log == ["with 1", "without"]
        assert fiber.name == "inject"

    @sync
    async def test_inject_takes_a_mapping_and_a_single_name_too(self) -> None:
        ctx, log = Context(), list[str]()
        ctx.provide("tools", 1)
        assert ctx.inject({"tools": None}, lambda: log.append("mapping")).inject == ("tools",)
        assert ctx.inject("tools", lambda: log.append("name")).inject == ("tools",)
        await turn()
        assert log == ["mapping", "name"]

    @pytest.mark.parametrize("told", [None, {}, {"required": False}, False])
    @sync
    async def test_all_services_of_inject_are_required_whatever_it_maps_them_to(
        self, told: object
    ) -> None:
        ctx, log = Context(), list[str]()
        ctx.provide("tools", 1)
        fiber = await ctx.inject({"tools": None, "llm": told}, lambda: log.append("body"))
        assert (fiber.inject, fiber.state, log) == (("tools", "llm"), FiberState.PENDING, [])
        ctx.provide("llm", 2)
        await fiber
        assert log == ["body"]


class TestDispose:
    """The end."""

    @sync
    async def test_disposing_of_the_root_undoes_everything(self) -> None:
        ctx, log = Context(), list[str]()
        ctx.on("event", print)
        ctx.provide("tools", 1)
        ctx.effect(lambda: lambda: log.append("undone"))
        own = await child(ctx, "tools")
        own.on("event", print)
        own.provide("llm", 2)
        inner = await child(own, "llm")
        inner.effect(lambda: lambda: log.append("inner undone"))
        await ctx.dispose()
        assert sorted(log) == ["inner undone", "undone"]
        assert [one.fiber.state for one in (ctx, own, inner)] == [FiberState.DISPOSED] * 3
        assert leftovers(ctx) == NOTHING
        assert asyncio.all_tasks() == {asyncio.current_task()}

    @sync
    async def test_disposing_of_a_context_unloads_its_plugin_only(self) -> None:
        ctx = Context()
        ctx.provide("tools", 1)
        one, other = await child(ctx), await child(ctx)
        await one.dispose()
        assert one.fiber.state is FiberState.DISPOSED
        assert other.fiber.state is FiberState.ACTIVE
        assert ctx.tools == 1

    @sync
    async def test_disposing_twice_is_disposing_once_and_both_wait(self) -> None:
        ctx, gate, log = Context(), asyncio.Event(), list[str]()
        ctx.effect(lambda: lambda: log.append("undone"))
        ctx.effect(lambda: gate.wait)
        both = [asyncio.ensure_future(ctx.dispose()) for _ in range(2)]
        await turn()
        assert [one.done() for one in both] == [False, False]
        gate.set()
        await asyncio.gather(*both)
        await ctx.dispose()
        assert log == ["undone"]

    @sync
    async def test_nothing_can_be_added_to_a_program_that_has_ended(self) -> None:
        ctx = Context()
        await ctx.dispose()
        with pytest.raises(ContextError) as caught:
            ctx.on("event", print)
        assert caught.value.code == "INACTIVE_EFFECT"
        ctx.emit("event")
