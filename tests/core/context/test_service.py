"""Tests of services: offered under a name, by one plugin at a time."""

from __future__ import annotations

import pytest

from dsh_core.context import Context, FiberState, Service, ServiceError
from tests.core.context.support import NOTHING, leftovers, sync, turn


class Tools(Service):
    """A service as plugins write them."""

    def __init__(self, ctx: Context) -> None:
        super().__init__(ctx, "tools")


class TestService:
    """The base class."""

    @sync
    async def test_a_service_is_found_under_its_name_for_the_life_of_its_plugin(self) -> None:
        ctx = Context()
        fiber = await ctx.plugin(Tools)
        assert isinstance(ctx.tools, Tools)
        assert ctx.tools.ctx is fiber.ctx
        await fiber.dispose()
        assert ctx.get("tools") is None
        await ctx.dispose()
        assert leftovers(ctx) == NOTHING

    def test_a_service_can_be_made_on_the_root(self) -> None:
        ctx = Context()
        tools = Tools(ctx)
        assert ctx.tools is tools
        assert tools.ctx is ctx

    @sync
    async def test_a_second_provider_of_the_same_name_is_refused_and_the_first_named(self) -> None:
        ctx = Context()

        def shed(own: Context) -> None:
            Tools(own)

        await ctx.plugin(shed)
        first = ctx.tools
        with pytest.raises(ServiceError, match=r'^service "tools" has been registered at shed$'):
            Tools(ctx)
        second = ctx.plugin(Tools)
        with pytest.raises(ServiceError, match=r'^service "tools" has been registered at shed$'):
            await second
        assert second.state is FiberState.FAILED
        assert ctx.tools is first

    @sync
    async def test_a_name_is_free_again_when_its_provider_is_gone(self) -> None:
        ctx = Context()
        fiber = await ctx.plugin(Tools)
        await fiber.dispose()
        tools = Tools(ctx)
        assert ctx.tools is tools

    @sync
    async def test_a_service_of_a_plugin_that_fails_is_withdrawn(self) -> None:
        ctx = Context()

        def broken(own: Context) -> None:
            Tools(own)
            raise ValueError("no luck")

        with pytest.raises(ValueError, match="no luck"):
            await ctx.plugin(broken)
        assert ctx.get("tools") is None


class TestProvide:
    """Offering anything."""

    @sync
    async def test_anything_can_be_a_service_until_its_disposer_is_called(self) -> None:
        ctx = Context()
        stop = ctx.provide("answer", 42)
        assert ctx.answer == 42
        await stop()
        assert ctx.get("answer") is None
        assert leftovers(ctx) == NOTHING

    @sync
    async def test_a_late_disposer_does_not_withdraw_the_service_of_another(self) -> None:
        ctx = Context()
        stop = ctx.provide("answer", 42)
        stop()
        ctx.provide("answer", 43)
        stop()
        assert ctx.answer == 43

    @sync
    async def test_none_is_a_service_too(self) -> None:
        ctx, seen = Context(), list[object]()
        ctx.provide("nothing", None)
        fiber = await ctx.inject(["nothing"], lambda own: seen.append(own.nothing))
        assert (fiber.state, seen) == (FiberState.ACTIVE, [None])

    @sync
    async def test_a_service_that_compares_in_its_own_way_does_not_confuse_anybody(self) -> None:
        class Odd:
            def __eq__(self, other: object) -> bool:
                raise RuntimeError("not comparable")

            __hash__ = None  # type: ignore[assignment]

        ctx, loads = Context(), list[object]()
        ctx.provide("odd", Odd())
        fiber = await ctx.inject(["odd", "more"], lambda: loads.append(1))
        stop = ctx.provide("more", 1)
        await fiber
        await stop()
        ctx.provide("more", 1)
        await turn()
        assert loads == [1, 1]
