"""Tests of events: who hears them, in which order, and what comes back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from dsh_core.context import Context
from tests.core.context.support import sync, turn, until


class Only:
    """A scope of some contexts."""

    def __init__(self, *contexts: Context) -> None:
        self.contexts = contexts

    def matches(self, ctx: Context) -> bool:
        return ctx in self.contexts


def noted(log: list[str], what: str, result: object = None) -> Callable[..., Any]:
    """Return a listener that notes that it was called."""

    def listener(*_: object) -> object:
        log.append(what)
        return result

    return listener


MODES = ["emit", "parallel", "serial", "bail", "waterfall"]


async def tell(ctx: Context, mode: str, name: str, *args: Any, **scope: Any) -> None:
    """Tell an event in one of the five ways."""
    if mode == "waterfall":
        scope["inner"] = lambda *_: None
    told = getattr(ctx, mode)(name, *args, **scope)
    if mode in ("parallel", "serial"):
        await told


def failing(error: Exception) -> Callable[..., Any]:
    """Return a listener that fails."""

    def listener(*_: object) -> None:
        raise error

    return listener


class TestOn:
    """Registering."""

    def test_listeners_are_called_in_the_order_of_their_registration(self) -> None:
        ctx, log = Context(), list[str]()
        for name in ("a", "b", "c"):
            ctx.on("event", noted(log, name))
        ctx.emit("event")
        assert log == ["a", "b", "c"]

    def test_prepend_puts_a_listener_at_the_front(self) -> None:
        ctx, log = Context(), list[str]()
        ctx.on("event", noted(log, "a"))
        ctx.on("event", noted(log, "b"), prepend=True)
        ctx.on("event", noted(log, "c"), prepend=True)
        ctx.emit("event")
        assert log == ["c", "b", "a"]

    def test_a_listener_gets_the_arguments(self) -> None:
        ctx, got = Context(), list[tuple[object, ...]]()
        ctx.on("event", lambda *args: got.append(args))
        ctx.emit("event", 1, "two", None)
        assert got == [(1, "two", None)]

    def test_the_disposer_removes_the_listener_and_may_be_called_again(self) -> None:
        ctx, log = Context(), list[str]()
        stop = ctx.on("event", noted(log, "a"))
        ctx.on("event", noted(log, "b"))
        stop()
        stop()
        ctx.emit("event")
        assert log == ["b"]

    def test_the_same_function_registered_twice_is_called_twice_and_removed_once(self) -> None:
        ctx, log = Context(), list[str]()
        listener = noted(log, "a")
        stop = ctx.on("event", listener)
        ctx.on("event", listener)
        ctx.emit("event")
        stop()
        ctx.emit("event")
        assert log == ["a", "a", "a"]

    def test_an_event_that_nobody_hears_is_no_error(self) -> None:
        Context().emit("event", 1)

    @sync
    async def test_the_listeners_of_a_plugin_go_when_it_is_unloaded(self) -> None:
        ctx, log = Context(), list[str]()
        fiber = ctx.plugin(lambda own: own.on("event", noted(log, "plugin")))
        await fiber
        ctx.emit("event")
        await fiber.dispose()
        ctx.emit("event")
        assert log == ["plugin"]

    @sync
    async def test_contexts_share_one_event_table(self) -> None:
        ctx, log, inner = Context(), list[str](), list[Context]()
        ctx.on("event", noted(log, "root"))
        await ctx.plugin(inner.append)
        inner[0].on("event", noted(log, "child"))
        inner[0].emit("event")
        ctx.emit("event")
        assert log == ["root", "child", "root", "child"]


class TestOnce:
    """Listening once."""

    def test_a_listener_of_once_is_called_once(self) -> None:
        ctx, got = Context(), list[object]()
        ctx.once("event", got.append)
        ctx.emit("event", 1)
        ctx.emit("event", 2)
        assert got == [1]

    def test_once_removes_itself_before_the_call(self) -> None:
        ctx, log = Context(), list[str]()

        def again() -> None:
            log.append("called")
            ctx.emit("event")

        ctx.once("event", again)
        ctx.emit("event")
        assert log == ["called"]

    def test_once_hands_on_the_answer(self) -> None:
        ctx = Context()
        ctx.once("event", lambda: "answer")
        assert ctx.bail("event") == "answer"
        assert ctx.bail("event") is None

    def test_once_can_be_prepended_and_stopped_before_it_was_called(self) -> None:
        ctx, log = Context(), list[str]()
        ctx.on("event", noted(log, "on"))
        ctx.once("event", noted(log, "first"), prepend=True)
        stop = ctx.once("event", noted(log, "never"))
        stop()
        ctx.emit("event")
        assert log == ["first", "on"]


class TestEmit:
    """Synchronous, in order, results ignored."""

    def test_emit_ignores_what_listeners_return(self) -> None:
        ctx, log = Context(), list[str]()
        ctx.on("event", noted(log, "a", result="stop?"))
        ctx.on("event", noted(log, "b"))
        ctx.emit("event")
        assert log == ["a", "b"]

    def test_the_first_exception_stops_the_rest_and_reaches_the_emitter(self) -> None:
        ctx, log = Context(), list[str]()
        ctx.on("event", noted(log, "before"))
        ctx.on("event", failing(ValueError("veto")))
        ctx.on("event", noted(log, "after"))
        with pytest.raises(ValueError, match=r"^veto$"):
            ctx.emit("event")
        assert log == ["before"]

    @sync
    async def test_an_asynchronous_listener_of_emit_runs_in_the_background(self) -> None:
        ctx, log = Context(), list[str]()

        async def listener() -> None:
            log.append("began")

        ctx.on("event", listener)
        ctx.emit("event")
        assert log == []
        await until(lambda: log == ["began"])
        await until(lambda: not ctx._program.bus._running)

    @sync
    async def test_the_error_of_an_asynchronous_listener_of_emit_is_logged(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        ctx = Context()

        async def listener() -> None:
            raise ValueError("late")

        ctx.on("session/event", listener)
        ctx.emit("session/event")
        await until(lambda: caplog.records)
        assert [(one.levelno, one.name, one.message) for one in caplog.records] == [
            (
                logging.ERROR,
                "dsh_core",
                "a listener of 'session/event' failed: ValueError('late')",
            )
        ]

    @sync
    async def test_a_cancelled_asynchronous_listener_of_emit_is_not_reported(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        ctx = Context()

        async def listener() -> None:
            raise asyncio.CancelledError

        ctx.on("event", listener)
        ctx.emit("event")
        await until(lambda: not ctx._program.bus._running)
        assert caplog.messages == []


class TestParallel:
    """All at once."""

    @sync
    async def test_parallel_waits_for_all_listeners_at_once(self) -> None:
        ctx, log, gate = Context(), list[str](), asyncio.Event()

        async def waits() -> None:
            log.append("a begins")
            await gate.wait()
            log.append("a ends")

        async def opens() -> None:
            log.append("b")
            gate.set()

        ctx.on("event", waits)
        ctx.on("event", opens)
        ctx.on("event", noted(log, "plain"))
        await ctx.parallel("event")
        assert log == ["a begins", "b", "plain", "a ends"]

    @sync
    async def test_parallel_raises_the_first_error_and_calls_the_others_all_the_same(self) -> None:
        ctx, log = Context(), list[str]()
        ctx.on("event", failing(ValueError("first")))
        ctx.on("event", failing(KeyError("second")))
        ctx.on("event", noted(log, "third"))
        with pytest.raises(ValueError, match=r"^first$"):
            await ctx.parallel("event")
        await turn()
        assert log == ["third"]


class TestSerial:
    """One after another, waiting."""

    @sync
    async def test_serial_returns_the_first_answer_and_calls_nobody_after_it(self) -> None:
        ctx, log = Context(), list[str]()

        async def answers() -> str:
            log.append("b")
            return "answer"

        ctx.on("event", noted(log, "a"))
        ctx.on("event", answers)
        ctx.on("event", noted(log, "c"))
        assert await ctx.serial("event") == "answer"
        assert log == ["a", "b"]

    @sync
    async def test_serial_waits_for_each_listener_before_the_next(self) -> None:
        ctx, log = Context(), list[str]()

        async def slow() -> None:
            await asyncio.sleep(0)
            log.append("slow")

        ctx.on("event", slow)
        ctx.on("event", noted(log, "next"))
        await ctx.serial("event")
        assert log == ["slow", "next"]

    @pytest.mark.parametrize("answer", [0, "", [], {}, True, 0.0])
    @sync
    async def test_all_but_none_and_false_is_an_answer_of_serial(self, answer: object) -> None:
        ctx = Context()
        ctx.on("event", lambda: None)
        ctx.on("event", lambda: False)
        ctx.on("event", lambda: answer)
        ctx.on("event", failing(AssertionError("called")))
        assert await ctx.serial("event") is answer

    @sync
    async def test_serial_without_an_answer_is_none(self) -> None:
        ctx = Context()
        ctx.on("event", lambda: False)
        assert await ctx.serial("event") is None

    @sync
    async def test_serial_raises_what_a_listener_raises(self) -> None:
        ctx, log = Context(), list[str]()
        ctx.on("event", failing(ValueError("no")))
        ctx.on("event", noted(log, "after"))
        with pytest.raises(ValueError, match=r"^no$"):
            await ctx.serial("event")
        assert log == []


class TestBail:
    """One after another, without waiting."""

    @pytest.mark.parametrize("answer", [0, "", [], True])
    def test_all_but_none_and_false_is_an_answer_of_bail(self, answer: object) -> None:
        ctx = Context()
        ctx.on("event", lambda: None)
        ctx.on("event", lambda: False)
        ctx.on("event", lambda: answer)
        ctx.on("event", failing(AssertionError("called")))
        assert ctx.bail("event") is answer

    def test_bail_without_an_answer_is_none(self) -> None:
        ctx = Context()
        ctx.on("event", lambda: False)
        assert ctx.bail("event") is None
        assert ctx.bail("another") is None

    def test_bail_raises_what_a_listener_raises(self) -> None:
        ctx = Context()
        ctx.on("event", failing(ValueError("no")))
        with pytest.raises(ValueError, match=r"^no$"):
            ctx.bail("event")


class TestWaterfall:
    """Around each other."""

    def test_without_listeners_inner_answers(self) -> None:
        assert Context().waterfall("event", 2, 3, inner=lambda a, b: a * b) == 6

    def test_the_first_registered_listener_is_outermost(self) -> None:
        ctx = Context()
        ctx.on("event", lambda value, following: f"a({following()})")
        ctx.on("event", lambda value, following: f"b({following()})")
        assert ctx.waterfall("event", "x", inner=lambda value: value) == "a(b(x))"

    def test_each_listener_gets_the_arguments_and_next(self) -> None:
        ctx, got = Context(), list[tuple[object, ...]]()

        def listener(*args: Any) -> object:
            *rest, following = args
            got.append(tuple(rest))
            return following()

        ctx.on("event", listener)
        ctx.on("event", listener)
        assert ctx.waterfall("event", 1, "two", inner=lambda *args: args) == (1, "two")
        assert got == [(1, "two"), (1, "two")]

    def test_not_calling_next_replaces_everything_within(self) -> None:
        ctx, log = Context(), list[str]()
        ctx.on("event", lambda following: "short")
        ctx.on("event", noted(log, "b"))
        assert ctx.waterfall("event", inner=noted(log, "inner")) == "short"
        assert log == []

    def test_calling_next_twice_advances_past_the_next_listener(self) -> None:
        ctx = Context()
        ctx.on("event", lambda following: [following(), following(), following()])
        ctx.on("event", lambda following: "b")
        assert ctx.waterfall("event", inner=lambda: "inner") == ["b", "inner", "inner"]

    def test_the_exception_of_a_listener_reaches_the_caller(self) -> None:
        ctx = Context()
        ctx.on("event", lambda following: following())
        ctx.on("event", failing(ValueError("no")))
        with pytest.raises(ValueError, match=r"^no$"):
            ctx.waterfall("event", inner=lambda: None)

    def test_a_listener_can_catch_the_exception_of_what_lies_within(self) -> None:
        ctx = Context()

        def guard(following: Callable[[], object]) -> object:
            try:
                return following()
            except ValueError:
                return "caught"

        ctx.on("event", guard)
        assert ctx.waterfall("event", inner=failing(ValueError("no"))) == "caught"

    def test_what_listens_may_also_be_the_innermost(self) -> None:
        ctx = Context()

        def either(following: Callable[[], object] | None = None) -> object:
            return "inner" if following is None else ["around", following()]

        ctx.on("event", either)
        assert ctx.waterfall("event", inner=either) == ["around", "inner"]

    @sync
    async def test_asynchronous_listeners_are_awaited_by_the_caller(self) -> None:
        ctx = Context()

        async def around(value: str, following: Callable[..., Any]) -> str:
            return f"a({await following()})"

        async def inner(value: str) -> str:
            return value

        ctx.on("event", around)
        assert await ctx.waterfall("event", "x", inner=inner) == "a(x)"


class TestSnapshot:
    """Listeners that come and go during a dispatch."""

    def test_a_listener_added_meanwhile_does_not_run(self) -> None:
        ctx, log = Context(), list[str]()
        ctx.on("event", lambda: ctx.on("event", noted(log, "new")))
        ctx.emit("event")
        assert log == []

    def test_a_listener_removed_meanwhile_still_runs(self) -> None:
        ctx, log = Context(), list[str]()
        stops = list[Callable[[], object]]()
        ctx.on("event", lambda: [stop() for stop in stops])
        stops.append(ctx.on("event", noted(log, "removed")))
        ctx.emit("event")
        ctx.emit("event")
        assert log == ["removed"]

    @pytest.mark.parametrize("mode", MODES)
    @sync
    async def test_every_way_to_tell_an_event_keeps_to_the_listeners_of_its_beginning(
        self, mode: str
    ) -> None:
        ctx, log = Context(), list[str]()
        stops = list[Callable[[], object]]()

        def first(*args: Any) -> None:
            ctx.on("event", noted(log, "new"))
            stops[0]()
            for following in args:
                following()

        ctx.on("event", first)
        stops.append(ctx.on("event", noted(log, "removed")))
        await tell(ctx, mode, "event")
        assert log == ["removed"]


class TestDispatch:
    """The event before every event."""

    @sync
    async def test_every_way_to_tell_an_event_is_announced_before_it(self) -> None:
        ctx, log = Context(), list[Any]()
        scope = Only(ctx)
        ctx.on("internal/dispatch", lambda *args: log.append(args))
        for name in ("e", "p", "s", "b", "w"):
            ctx.on(name, lambda *_, name=name: log.append(name))
        ctx.emit("e", 1, scope=scope)
        await ctx.parallel("p", 2)
        await ctx.serial("s", 3)
        ctx.bail("b", 4)
        ctx.waterfall("w", 5, inner=lambda _: None)
        assert log == [
            ("emit", "e", (1,), scope),
            "e",
            ("parallel", "p", (2,), None),
            "p",
            ("serial", "s", (3,), None),
            "s",
            ("bail", "b", (4,), None),
            "b",
            ("waterfall", "w", (5,), None),
            "w",
        ]

    def test_internal_events_are_not_announced(self) -> None:
        ctx, log = Context(), list[Any]()
        ctx.on("internal/dispatch", lambda *args: log.append(args))
        ctx.on("internal/other", noted(log, "other"))
        ctx.emit("internal/other")
        ctx.bail("internal/other")
        assert log == ["other", "other"]

    @pytest.mark.parametrize("mode", MODES)
    @sync
    async def test_a_listener_of_the_announcement_can_veto_the_event(self, mode: str) -> None:
        ctx, log = Context(), list[str]()
        ctx.on("internal/dispatch", failing(ValueError("veto")))
        ctx.on("event", noted(log, "called"))
        with pytest.raises(ValueError, match=r"^veto$"):
            await tell(ctx, mode, "event")
        assert log == []

    def test_also_events_that_nobody_hears_are_announced(self) -> None:
        ctx, log = Context(), list[Any]()
        ctx.on("internal/dispatch", lambda *args: log.append(args))
        ctx.emit("event")
        assert log == [("emit", "event", (), None)]

    @sync
    async def test_an_asynchronous_listener_of_the_announcement_runs_in_the_background(
        self,
    ) -> None:
        ctx, log = Context(), list[str]()

        async def listener(mode: str, name: str, *_: object) -> None:
            log.append(f"{mode} {name}")

        ctx.on("internal/dispatch", listener)
        ctx.emit("event")
        await until(lambda: log == ["emit event"])


class TestScope:
    """Events for some contexts."""

    @sync
    async def test_a_scope_limits_an_event_to_its_contexts(self) -> None:
        ctx, log, inner = Context(), list[str](), list[Context]()
        await ctx.plugin(inner.append)
        ctx.on("event", noted(log, "root"))
        inner[0].on("event", noted(log, "child"))
        ctx.emit("event", scope=Only(inner[0]))
        await ctx.parallel("event", scope=Only(ctx))
        await ctx.serial("event", scope=Only(inner[0]))
        ctx.bail("event", scope=Only(ctx))
        ctx.waterfall("event", inner=lambda: None, scope=Only())
        assert log == ["child", "root", "child", "root"]

    @pytest.mark.parametrize("mode", MODES)
    @sync
    async def test_a_listener_that_hears_all_is_not_limited_by_a_scope(self, mode: str) -> None:
        ctx, log = Context(), list[str]()
        ctx.on("event", noted(log, "scoped"))
        ctx.on("event", noted(log, "all"), hears_all=True)
        await tell(ctx, mode, "event", scope=Only())
        assert log == ["all"]

    def test_once_can_hear_all_too(self) -> None:
        ctx, log = Context(), list[str]()
        ctx.once("event", noted(log, "scoped"))
        ctx.once("event", noted(log, "all"), hears_all=True)
        ctx.emit("event", scope=Only())
        assert log == ["all"]

    def test_without_a_scope_everybody_hears(self) -> None:
        ctx, log = Context(), list[str]()
        ctx.on("event", noted(log, "a"))
        ctx.emit("event")
        assert log == ["a"]


class TestEnd:
    """The end of the program."""

    @sync
    async def test_parallel_waits_for_all_also_when_one_fails(self) -> None:
        ctx, log = Context(), list[str]()

        async def slow() -> None:
            await turn()
            log.append("slow")

        ctx.on("event", failing(ValueError("first")))
        ctx.on("event", slow)
        with pytest.raises(ValueError, match="first"):
            await ctx.parallel("event")
        assert log == ["slow"]
        await ctx.dispose()

    @sync
    async def test_listeners_that_still_run_end_with_it(self) -> None:
        ctx, ended = Context(), list[str]()

        async def endless() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("ended")

        ctx.on("event", endless)
        ctx.emit("event")
        await turn()
        await ctx.dispose()
        assert ended == ["ended"]

    def test_one_can_ask_whether_anybody_listens(self) -> None:
        ctx = Context()
        assert not ctx.listens("event")
        stop = ctx.on("event", noted([], "a"))
        assert ctx.listens("event")
        stop()
        assert not ctx.listens("event")

    def test_a_listener_is_a_function(self) -> None:
        with pytest.raises(TypeError, match="a listener of 'event' is a function, not None"):
            Context().on("event", None)  # type: ignore[arg-type]
