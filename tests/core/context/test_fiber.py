"""Tests of fibers: what a plugin goes through from start to end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pydantic
import pytest

from dsh_core.context import ConfigError, Context, ContextError, Fiber, FiberState, ServiceError
from dsh_core.errors import HarnessError
from tests.core.context.support import NOTHING, leftovers, sync, turn, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


class Recorder:
    """A plugin that notes when it is loaded and unloaded, and with which service."""

    def __init__(self, *inject: str, name: str = "recorder") -> None:
        self.inject = inject
        self.name = name
        self.log: list[str] = []

    def apply(self, ctx: Context) -> None:
        seen = ", ".join(f"{name}={ctx.get(name)}" for name in self.inject)
        self.log.append(f"load {seen}".strip())
        ctx.effect(lambda: lambda: self.log.append("unload"))


class Gated:
    """A plugin whose body waits for a gate."""

    def __init__(self, *inject: str) -> None:
        self.inject = inject
        self.name = "gated"
        self.gate = asyncio.Event()
        self.log: list[str] = []

    async def apply(self, ctx: Context) -> None:
        ctx.effect(lambda: lambda: self.log.append("unload"))
        self.log.append("begin")
        await self.gate.wait()
        self.log.append("end")


def provider(service: str, value: object) -> Callable[[Context], None]:
    """Return a plugin that provides a service."""

    def plugin(ctx: Context) -> None:
        ctx.provide(service, value)

    return plugin


class TestStates:
    """Where a fiber stands."""

    def test_the_states_are_pending_loading_active_failed_unloading_and_disposed(self) -> None:
        assert [str(state) for state in FiberState] == [
            "pending",
            "loading",
            "active",
            "failed",
            "unloading",
            "disposed",
        ]

    @sync
    async def test_a_plugin_is_pending_until_its_body_has_begun_which_is_not_at_once(self) -> None:
        ctx, recorder = Context(), Recorder()
        fiber = ctx.plugin(recorder)
        assert (fiber.state, recorder.log) == (FiberState.PENDING, [])
        assert await fiber is fiber
        assert (fiber.state, recorder.log) == (FiberState.ACTIVE, ["load"])

    @sync
    async def test_a_plugin_is_loading_while_its_body_runs(self) -> None:
        ctx, gated = Context(), Gated()
        fiber = ctx.plugin(gated)
        await until(lambda: gated.log == ["begin"])
        assert fiber.state == "loading"
        assert fiber.busy
        gated.gate.set()
        await fiber
        assert fiber.state == "active"
        assert not fiber.busy

    @sync
    async def test_a_plugin_is_unloading_while_its_effects_are_undone(self) -> None:
        ctx, gate = Context(), asyncio.Event()
        fiber = ctx.plugin(lambda own: own.effect(lambda: gate.wait) and None)
        await fiber
        over = asyncio.ensure_future(fiber.dispose())
        await turn()
        assert fiber.state == "unloading"
        assert not over.done()
        gate.set()
        await over
        assert fiber.state == "disposed"

    @sync
    async def test_a_plugin_without_its_services_is_pending_and_awaiting_it_ends(self) -> None:
        ctx, recorder = Context(), Recorder("tools")
        fiber = await ctx.plugin(recorder)
        assert (fiber.state, recorder.log) == (FiberState.PENDING, [])

    @sync
    async def test_a_plugin_is_disposed_at_the_end_and_stays_so(self) -> None:
        ctx, recorder = Context(), Recorder("tools")
        fiber = ctx.plugin(recorder)
        ctx.provide("tools", 1)
        await fiber
        await fiber.dispose()
        await fiber.dispose()
        assert fiber.state == "disposed"
        stop = ctx.provide("llm", 2)
        await stop()
        await turn()
        assert recorder.log == ["load tools=1", "unload"]

    @sync
    async def test_a_plugin_disposed_at_once_never_runs(self) -> None:
        ctx, recorder = Context(), Recorder()
        fiber = ctx.plugin(recorder)
        await fiber.dispose()
        assert (fiber.state, recorder.log) == (FiberState.DISPOSED, [])

    @sync
    async def test_the_root_is_active_from_the_start(self) -> None:
        ctx = Context()
        assert await ctx.fiber is ctx.fiber
        assert (ctx.fiber.name, ctx.fiber.state) == ("root", FiberState.ACTIVE)

    @sync
    async def test_a_disposed_plugin_is_forgotten_by_the_context_it_was_given_to(self) -> None:
        ctx = Context()
        for recorder in (Recorder(), Recorder("tools")):
            fiber = ctx.plugin(recorder)
            await fiber
            await fiber.dispose()
        assert leftovers(ctx) == NOTHING


class TestFailing:
    """Plugins that do not work."""

    @sync
    async def test_a_body_that_raises_fails_the_plugin_and_awaiting_it_raises(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        ctx, log = Context(), list[str]()

        def broken(own: Context) -> None:
            own.effect(lambda: lambda: log.append("undone"))
            raise ValueError("no luck")

        fiber = ctx.plugin(broken)
        with pytest.raises(ValueError, match=r"^no luck$"):
            await fiber
        assert fiber.state == "failed"
        assert str(fiber.error) == "no luck"
        assert log == ["undone"]
        assert caplog.messages == ["plugin 'broken' failed: no luck"]

    @sync
    async def test_the_others_are_unaffected(self) -> None:
        ctx, recorder = Context(), Recorder()

        async def broken() -> None:
            raise ValueError("no luck")

        bad, good = ctx.plugin(broken), ctx.plugin(recorder)
        await good
        with pytest.raises(ValueError, match="no luck"):
            await bad
        assert (bad.state, good.state) == (FiberState.FAILED, FiberState.ACTIVE)

    @sync
    async def test_a_wrong_configuration_fails_at_once_is_logged_and_affects_no_other(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        ctx, recorder = Context(), Recorder()

        class Config(pydantic.BaseModel):
            tries: int

        class Strict:
            name = "strict"

            def __init__(self, own: Context, config: Config) -> None:
                raise AssertionError("made")

        Strict.Config = Config  # type: ignore[attr-defined]
        fiber = ctx.plugin(Strict, {"tries": "many"})
        assert fiber.state == "failed"
        problem = "Input should be a valid integer, unable to parse string as an integer"
        assert caplog.messages == [f"plugin 'strict' failed: {problem} (at tries)"]
        await ctx.plugin(recorder)
        with pytest.raises(ConfigError):
            await fiber
        assert recorder.log == ["load"]

    @sync
    async def test_a_plugin_with_a_wrong_configuration_does_not_run_when_its_services_come(
        self,
    ) -> None:
        ctx = Context()

        class Strict:
            inject = ("tools",)
            Config = int

            def __init__(self) -> None:
                raise AssertionError("made")

        fiber = ctx.plugin(Strict, "x")
        ctx.provide("tools", 1)
        await turn()
        assert fiber.state == "failed"
        await fiber.dispose()
        assert fiber.state == "disposed"
        await ctx.dispose()
        assert leftovers(ctx) == NOTHING

    @sync
    async def test_an_asynchronous_effect_of_the_body_that_fails_fails_the_plugin(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        ctx, log = Context(), list[str]()

        async def effect() -> None:
            raise ValueError("effect")

        async def broken(own: Context) -> None:
            own.effect(lambda: lambda: log.append("undone"))
            own.effect(effect)
            # It has failed before the body ends.
            await turn()

        with pytest.raises(ValueError, match="effect"):
            await ctx.plugin(broken)
        assert log == ["undone"]
        assert caplog.messages == ["plugin 'broken' failed: effect"]

    @sync
    async def test_what_else_is_wrong_with_a_failed_plugin_is_logged_too(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        ctx = Context()

        async def effect(text: str) -> None:
            raise ValueError(text)

        def undo() -> None:
            raise ValueError("undo")

        def broken(own: Context) -> None:
            own.effect(lambda: undo)
            own.effect(lambda: effect("one"))
            own.effect(lambda: effect("two"))

        with pytest.raises(ValueError, match="one"):
            await ctx.plugin(broken)
        await until(lambda: len(caplog.messages) == 3)
        assert caplog.messages == [
            "unloading 'broken' failed: ValueError('undo')",
            "plugin 'broken' failed: one",
            "an effect of 'broken' failed: ValueError('two')",
        ]

    @sync
    async def test_a_body_that_is_cancelled_from_within_fails_the_plugin(self) -> None:
        ctx, log = Context(), list[str]()

        async def cancelled(own: Context) -> None:
            own.effect(lambda: lambda: log.append("undone"))
            raise asyncio.CancelledError

        fiber = ctx.plugin(cancelled)
        with pytest.raises(ContextError, match=r"^cancelled while loading$") as caught:
            await fiber
        assert caught.value.code == "CANCELLED"
        assert (fiber.state, log) == (FiberState.FAILED, ["undone"])

    @sync
    async def test_a_failed_plugin_tries_again_when_its_service_is_replaced(self) -> None:
        ctx, seen = Context(), list[object]()

        class Picky:
            inject = ("tools",)

            def __init__(self, own: Context) -> None:
                seen.append(own.tools)
                if own.tools == "bad":
                    raise ValueError("bad tools")

        stop = ctx.provide("tools", "bad")
        fiber = ctx.plugin(Picky)
        with pytest.raises(ValueError, match="bad tools"):
            await fiber
        await stop()
        await fiber
        assert fiber.state == "pending"
        ctx.provide("tools", "good")
        await fiber
        assert (fiber.state, fiber.error, seen) == (FiberState.ACTIVE, None, ["bad", "good"])

    @sync
    async def test_a_failed_plugin_can_be_disposed(self) -> None:
        ctx = Context()

        def broken() -> None:
            raise ValueError("no luck")

        fiber = ctx.plugin(broken)
        with pytest.raises(ValueError, match="no luck"):
            await fiber
        await fiber.dispose()
        assert await fiber is fiber
        assert fiber.state == "disposed"

    def test_a_plugin_that_loads_when_the_program_is_stopped_is_undone(self) -> None:
        log: list[str] = []

        async def main() -> None:
            gated = Gated()
            gated.log = log
            Context().plugin(gated)
            await until(lambda: log)

        asyncio.run(main())
        assert log == ["begin", "unload"]


class TestServices:
    """Loaded only while all services are there."""

    @sync
    async def test_a_plugin_runs_once_all_its_services_are_there(self) -> None:
        ctx, recorder = Context(), Recorder("tools", "llm")
        fiber = ctx.plugin(recorder)
        ctx.provide("tools", 1)
        await turn()
        assert (fiber.state, recorder.log) == (FiberState.PENDING, [])
        ctx.provide("llm", 2)
        await fiber
        assert (fiber.state, recorder.log) == (FiberState.ACTIVE, ["load tools=1, llm=2"])

    @sync
    async def test_a_plugin_is_unloaded_at_once_when_a_service_goes(self) -> None:
        ctx, recorder = Context(), Recorder("tools")
        stop = ctx.provide("tools", 1)
        fiber = await ctx.plugin(recorder)
        stop()
        assert recorder.log == ["load tools=1", "unload"]
        await fiber
        assert fiber.state == "pending"

    @sync
    async def test_a_plugin_is_loaded_again_when_the_service_comes_back(self) -> None:
        ctx, recorder = Context(), Recorder("tools")
        stop = ctx.provide("tools", 1)
        fiber = await ctx.plugin(recorder)
        await stop()
        ctx.provide("tools", 2)
        await fiber
        assert recorder.log == ["load tools=1", "unload", "load tools=2"]

    @sync
    async def test_a_plugin_is_reloaded_when_another_provider_replaces_a_service(self) -> None:
        ctx, recorder = Context(), Recorder("tools")
        first = ctx.plugin(provider("tools", "same"))
        fiber = ctx.plugin(recorder)
        await first
        await fiber
        await first.dispose()
        await ctx.plugin(provider("tools", "same"))
        await fiber
        assert recorder.log == ["load tools=same", "unload", "load tools=same"]

    @sync
    async def test_equal_services_are_not_the_same_service(self) -> None:
        ctx, gated = Context(), Gated("tools")
        stop = ctx.provide("tools", {})
        fiber = ctx.plugin(gated)
        await until(lambda: gated.log)
        await stop()
        ctx.provide("tools", {})
        gated.gate.set()
        await fiber
        assert gated.log == ["begin", "end", "unload", "begin", "end"]

    @sync
    async def test_a_service_that_goes_while_the_plugin_loads_unloads_it_after_that(self) -> None:
        ctx, gated = Context(), Gated("tools")
        stop = ctx.provide("tools", 1)
        fiber = ctx.plugin(gated)
        await until(lambda: gated.log)
        await stop()
        assert fiber.state == "loading"
        gated.gate.set()
        await fiber
        assert (fiber.state, gated.log) == (FiberState.PENDING, ["begin", "end", "unload"])

    @sync
    async def test_a_service_that_goes_and_comes_back_while_the_plugin_unloads_reloads_it(
        self,
    ) -> None:
        ctx, log, gate = Context(), list[object](), asyncio.Event()

        class Slow:
            inject = ("tools",)

            def __init__(self, own: Context) -> None:
                log.append(own.tools)
                own.effect(lambda: gate.wait)

        stop = ctx.provide("tools", 1)
        fiber = await ctx.plugin(Slow)
        await stop()
        ctx.provide("tools", 2)
        await turn()
        assert (fiber.state, log) == (FiberState.UNLOADING, [1])
        gate.set()
        await fiber
        assert (fiber.state, log) == (FiberState.ACTIVE, [1, 2])

    @sync
    async def test_a_plugin_that_injects_what_only_it_provides_never_runs(self) -> None:
        ctx, log = Context(), list[str]()

        class Snake:
            inject = ("tail",)

            def __init__(self, own: Context) -> None:
                log.append("made")
                own.provide("tail", self)

        fiber = await ctx.plugin(Snake)
        assert (fiber.state, log) == (FiberState.PENDING, [])
        ctx.provide("tail", "another")
        with pytest.raises(ServiceError, match='service "tail" has been registered at root'):
            await fiber
        assert log == ["made"]

    @sync
    async def test_plugins_that_need_each_other_never_run(self) -> None:
        ctx, log = Context(), list[str]()

        def needs(service: str, offers: str) -> Fiber:
            def body(own: Context) -> None:
                log.append(offers)
                own.provide(offers, 1)

            return ctx.inject([service], body)

        fibers = [needs("a", "b"), needs("b", "a")]
        for fiber in fibers:
            await fiber
        assert [fiber.state for fiber in fibers] == [FiberState.PENDING, FiberState.PENDING]
        assert log == []

    @sync
    async def test_a_chain_of_services_comes_and_goes_as_a_whole(self) -> None:
        ctx, log = Context(), list[str]()

        def link(number: int) -> Fiber:
            def body(own: Context) -> None:
                own.provide(f"s{number}", number)
                log.append(f"+{number}")
                own.effect(lambda: lambda: log.append(f"-{number}"))

            return ctx.inject([f"s{number - 1}"], body)

        fibers = [link(3), link(2), link(1)]
        stop = ctx.provide("s0", 0)
        await until(lambda: all(fiber.state is FiberState.ACTIVE for fiber in fibers))
        stop()
        assert log == ["+1", "+2", "+3", "-1", "-2", "-3"]
        assert ctx.get("s3") is None

    @sync
    async def test_a_chain_of_services_may_be_long(self, caplog: pytest.LogCaptureFixture) -> None:
        ctx = Context()

        def link(number: int) -> Fiber:
            def body(own: Context) -> None:
                own.provide(f"s{number}", number)

            return ctx.inject([f"s{number - 1}"], body)

        fibers = [link(number) for number in range(1, 401)]
        stop = ctx.provide("s0", 0)
        await until(lambda: all(fiber.state is FiberState.ACTIVE for fiber in fibers))
        stop()
        assert {ctx.get(f"s{number}") for number in range(401)} == {None}
        assert caplog.messages == []


class TestDispose:
    """Unloading for good."""

    @sync
    async def test_dispose_during_load_waits_for_the_body_and_undoes_it(self) -> None:
        ctx, gated = Context(), Gated()
        fiber = ctx.plugin(gated)
        await until(lambda: gated.log)
        over = asyncio.ensure_future(fiber.dispose())
        await turn()
        assert not over.done()
        gated.gate.set()
        await over
        assert (fiber.state, gated.log) == (FiberState.DISPOSED, ["begin", "end", "unload"])
        assert leftovers(ctx) == NOTHING

    @sync
    async def test_a_plugin_may_dispose_itself_in_its_body(self) -> None:
        ctx, log = Context(), list[str]()

        async def leaver(own: Context) -> None:
            own.effect(lambda: lambda: log.append("undone"))
            await own.fiber.dispose()
            await own.dispose()
            log.append("end")

        fiber = ctx.plugin(leaver)
        await fiber
        assert (fiber.state, log) == (FiberState.DISPOSED, ["end", "undone"])
        await until(lambda: leftovers(ctx) == NOTHING)

    @sync
    async def test_a_plugin_may_dispose_itself_while_others_wait_for_its_end(self) -> None:
        ctx, gate, log = Context(), asyncio.Event(), list[str]()

        async def leaver(own: Context) -> None:
            await gate.wait()
            await own.fiber.dispose()
            log.append("end")

        fiber = ctx.plugin(leaver)
        await turn()
        over = asyncio.ensure_future(fiber.dispose())
        await turn()
        gate.set()
        await over
        assert (fiber.state, log) == (FiberState.DISPOSED, ["end"])

    @sync
    async def test_a_plugin_may_end_the_program_in_its_body(self) -> None:
        ctx, log = Context(), list[str]()

        async def last(own: Context) -> None:
            own.effect(lambda: lambda: log.append("undone"))
            await own.root.dispose()
            log.append("end")

        ctx.effect(lambda: lambda: log.append("root undone"))
        fiber = ctx.plugin(last)
        await fiber
        assert log == ["root undone", "end", "undone"]
        await ctx.dispose()
        assert ctx.fiber.state == "disposed"
        assert leftovers(ctx) == NOTHING

    @sync
    async def test_a_listener_may_dispose_the_plugin_it_belongs_to(self) -> None:
        ctx = Context()
        fiber = await ctx.plugin(lambda own: own.on("stop", own.dispose) and None)
        await ctx.parallel("stop")
        assert fiber.state == "disposed"
        assert leftovers(ctx) == NOTHING

    @sync
    async def test_listeners_that_a_body_waits_for_may_dispose_its_plugin(self) -> None:
        ctx, log = Context(), list[str]()

        async def leaver(own: Context) -> None:
            own.on("stop", own.dispose)
            own.on("stop", lambda: own.fiber)
            await own.parallel("stop")
            log.append("end")

        fiber = ctx.plugin(leaver)
        await fiber
        assert (fiber.state, log) == (FiberState.DISPOSED, ["end"])

    @sync
    async def test_a_plugin_that_is_on_its_way_out_is_waited_for_by_the_program(self) -> None:
        ctx, gate = Context(), asyncio.Event()
        fiber = await ctx.plugin(lambda own: own.effect(lambda: gate.wait) and None)
        fiber.leave()
        over = asyncio.ensure_future(ctx.dispose())
        await turn()
        assert not over.done()
        gate.set()
        await over
        assert fiber.state == "disposed"

    @sync
    async def test_plugins_of_a_plugin_end_with_it(self) -> None:
        ctx, recorder, fibers = Context(), Recorder(), list[Fiber]()

        async def outer(own: Context) -> None:
            fibers.append(await own.plugin(recorder))

        fiber = await ctx.plugin(outer)
        await fiber.dispose()
        assert fibers[0].state == "disposed"
        assert recorder.log == ["load", "unload"]

    @sync
    async def test_the_plugins_of_a_plugin_that_fails_end_too(self) -> None:
        ctx, recorder, fibers = Context(), Recorder(), list[Fiber]()

        async def outer(own: Context) -> None:
            fibers.append(await own.plugin(recorder))
            raise ValueError("no luck")

        with pytest.raises(ValueError, match="no luck"):
            await ctx.plugin(outer)
        assert fibers[0].state == "disposed"
        assert recorder.log == ["load", "unload"]

    @sync
    async def test_an_effect_on_a_disposed_plugin_is_refused(self) -> None:
        ctx, inner = Context(), list[Context]()
        fiber = await ctx.plugin(inner.append)
        await fiber.dispose()
        own = inner[0]
        uses: list[Callable[[], object]] = [
            lambda: own.effect(lambda: None, "timer of"),
            lambda: own.on("event", print),
            lambda: own.once("event", print),
            lambda: own.provide("tools", 1),
            lambda: own.plugin(Recorder()),
            lambda: own.inject(["tools"], print),
        ]
        for use in uses:
            with pytest.raises(ContextError) as caught:
                use()
            assert caught.value.code == "INACTIVE_EFFECT"
            assert isinstance(caught.value, HarnessError)
        with pytest.raises(ContextError, match=r"^cannot create effect timer of 'append': "):
            uses[0]()
        assert leftovers(ctx) == NOTHING

    @sync
    async def test_an_effect_is_refused_while_the_plugin_is_unloading(self) -> None:
        ctx, codes = Context(), list[str]()

        def plugin(own: Context) -> None:
            def undo() -> None:
                try:
                    own.effect(lambda: None)
                except ContextError as error:
                    codes.append(error.code)

            own.effect(lambda: undo)

        fiber = await ctx.plugin(plugin)
        await fiber.dispose()
        assert codes == ["INACTIVE_EFFECT"]

    @sync
    async def test_awaiting_waits_also_for_what_begins_meanwhile(self) -> None:
        ctx, recorder = Context(), Recorder("tools")
        stop = ctx.provide("tools", 1)
        fiber = ctx.plugin(recorder)

        def replace(_: object) -> None:
            stop()
            ctx.provide("tools", 2)

        await until(lambda: fiber.busy)
        assert fiber._worker is not None
        fiber._worker.add_done_callback(replace)
        await fiber
        await fiber
        assert recorder.log == ["load tools=1", "unload", "load tools=2"]


class TestRestart:
    """Unloading and loading again."""

    @sync
    async def test_restart_unloads_the_plugin_and_loads_it_again(self) -> None:
        ctx, recorder = Context(), Recorder()
        fiber = await ctx.plugin(recorder)
        await fiber.restart()
        assert recorder.log == ["load", "unload", "load"]
        assert fiber.state == "active"

    @sync
    async def test_restart_tries_a_failed_plugin_again(self) -> None:
        ctx, errors = Context(), [ValueError("first"), ValueError("second")]

        def broken() -> None:
            if errors:
                raise errors.pop(0)

        fiber = ctx.plugin(broken)
        with pytest.raises(ValueError, match="first"):
            await fiber
        with pytest.raises(ValueError, match="second"):
            await fiber.restart()
        await fiber.restart()
        assert (fiber.state, fiber.error) == (FiberState.ACTIVE, None)

    @sync
    async def test_restart_while_the_plugin_loads_loads_it_twice(self) -> None:
        ctx, gated = Context(), Gated()
        fiber = ctx.plugin(gated)
        await until(lambda: gated.log)
        over = asyncio.ensure_future(fiber.restart())
        await turn()
        gated.gate.set()
        await over
        assert gated.log == ["begin", "end", "unload", "begin", "end"]

    @sync
    async def test_restart_of_a_plugin_without_its_services_leaves_it_pending(self) -> None:
        ctx, recorder = Context(), Recorder("tools")
        fiber = await ctx.plugin(recorder)
        await fiber.restart()
        assert (fiber.state, recorder.log) == (FiberState.PENDING, [])
        ctx.provide("tools", 1)
        await fiber
        assert recorder.log == ["load tools=1"]

    @sync
    async def test_restart_does_not_mend_a_wrong_configuration(self) -> None:
        ctx = Context()

        class Strict:
            Config = int

        fiber = ctx.plugin(Strict, "x")
        with pytest.raises(ConfigError):
            await fiber.restart()
        assert fiber.state == "failed"

    @sync
    async def test_what_is_disposed_and_the_root_cannot_be_restarted(self) -> None:
        ctx = Context()
        fiber = await ctx.plugin(Recorder())
        await fiber.dispose()
        for one in (fiber, ctx.fiber):
            with pytest.raises(ContextError) as caught:
                await one.restart()
            assert caught.value.code == "INACTIVE_EFFECT"


class TestBodies:
    """The forms a body may have."""

    @sync
    async def test_the_body_may_be_a_generator_of_what_undoes_it(self) -> None:
        ctx, log = Context(), list[str]()

        def plugin(own: Context) -> Iterator[Any]:
            yield lambda: log.append("undo 1")
            yield lambda: log.append("undo 2")

        fiber = await ctx.plugin(plugin)
        await fiber.dispose()
        assert log == ["undo 2", "undo 1"]

    @sync
    async def test_the_body_may_be_an_asynchronous_generator_and_is_waited_for(self) -> None:
        ctx, log, gate = Context(), list[str](), asyncio.Event()

        async def plugin(own: Context) -> AsyncIterator[Any]:
            yield lambda: log.append("undo 1")
            await gate.wait()
            yield lambda: log.append("undo 2")

        fiber = ctx.plugin(plugin)
        await turn()
        assert fiber.state == "loading"
        gate.set()
        await fiber
        assert fiber.state == "active"
        await fiber.dispose()
        assert log == ["undo 2", "undo 1"]

    @sync
    async def test_a_generator_that_fails_midway_fails_the_plugin_and_is_undone(self) -> None:
        ctx, log = Context(), list[str]()

        async def plugin(own: Context) -> AsyncIterator[Any]:
            yield lambda: log.append("undo 1")
            raise ValueError("midway")

        with pytest.raises(ValueError, match="midway"):
            await ctx.plugin(plugin)
        assert log == ["undo 1"]

    @sync
    async def test_a_plugin_is_loaded_when_the_asynchronous_effects_of_its_body_are_made(
        self,
    ) -> None:
        ctx, gate = Context(), asyncio.Event()

        async def slow() -> None:
            await gate.wait()

        fiber = ctx.plugin(lambda own: own.effect(slow) and None)
        await turn()
        assert fiber.state == "loading"
        gate.set()
        await fiber
        assert fiber.state == "active"

    @sync
    async def test_an_asynchronous_effect_that_fails_later_is_only_logged(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        ctx, inner = Context(), list[Context]()
        fiber = await ctx.plugin(inner.append)

        async def effect() -> None:
            raise ValueError("late")

        inner[0].effect(effect)
        await until(lambda: caplog.messages)
        assert caplog.messages == ["an effect of 'append' failed: ValueError('late')"]
        assert fiber.state == "active"
