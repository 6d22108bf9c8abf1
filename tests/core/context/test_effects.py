"""Tests of effects: what is done is undone, once, in reverse, whatever happens."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from dsh_core.context import Context
from tests.core.context.support import NOTHING, leftovers, sync, turn, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator


def undo(log: list[str], what: str, error: Exception | None = None) -> Callable[[], None]:
    """Return what undoes something and notes it."""

    def run() -> None:
        log.append(what)
        if error is not None:
            raise error

    return run


def slow_undo(
    log: list[str], what: str, gate: asyncio.Event | None = None, error: Exception | None = None
) -> Callable[[], Awaitable[None]]:
    """Return what undoes something, slowly."""

    async def run() -> None:
        log.append(f"{what} begins")
        await (asyncio.sleep(0) if gate is None else gate.wait())
        log.append(f"{what} ends")
        if error is not None:
            raise error

    return run


class TestForms:
    """What an effect may return."""

    @sync
    async def test_an_effect_may_return_nothing(self) -> None:
        ctx, log = Context(), list[str]()
        stop = ctx.effect(lambda: log.append("made"))
        await stop()
        assert log == ["made"]

    @sync
    async def test_an_effect_may_return_what_undoes_it(self) -> None:
        ctx, log = Context(), list[str]()
        stop = ctx.effect(lambda: undo(log, "undone"))
        stop()
        assert log == ["undone"]

    @sync
    async def test_an_effect_may_return_an_awaitable_of_what_undoes_it(self) -> None:
        ctx, log = Context(), list[str]()

        async def make() -> Callable[[], None]:
            log.append("made")
            return undo(log, "undone")

        stop = ctx.effect(make)
        assert log == []
        await until(lambda: log == ["made"])
        await stop()
        assert log == ["made", "undone"]

    @sync
    async def test_an_effect_may_be_a_generator(self) -> None:
        ctx, log = Context(), list[str]()

        def make() -> Iterator[Any]:
            log.append("make 1")
            yield undo(log, "undo 1")
            yield None
            log.append("make 2")
            yield undo(log, "undo 2")

        stop = ctx.effect(make)
        assert log == ["make 1", "make 2"]
        stop()
        assert log == ["make 1", "make 2", "undo 2", "undo 1"]

    @sync
    async def test_an_effect_may_be_an_asynchronous_generator(self) -> None:
        ctx, log = Context(), list[str]()

        async def make() -> AsyncIterator[Any]:
            yield undo(log, "undo 1")
            await asyncio.sleep(0)
            yield undo(log, "undo 2")
            log.append("made")

        stop = ctx.effect(make)
        await until(lambda: log == ["made"])
        await stop()
        assert log == ["made", "undo 2", "undo 1"]

    @pytest.mark.parametrize("wrong", [0, "text", [], object()])
    def test_an_effect_that_returns_anything_else_is_invalid(self, wrong: object) -> None:
        ctx = Context()
        with pytest.raises(TypeError, match=r"^Invalid effect$"):
            ctx.effect(lambda: wrong)
        assert leftovers(ctx) == NOTHING

    @sync
    async def test_a_part_that_is_anything_else_is_invalid_and_the_parts_before_are_undone(
        self,
    ) -> None:
        ctx, log = Context(), list[str]()

        def make() -> Iterator[Any]:
            yield undo(log, "undo 1")
            yield "text"

        with pytest.raises(TypeError, match=r"^Invalid effect$"):
            ctx.effect(make)
        assert log == ["undo 1"]
        assert leftovers(ctx) == NOTHING

    @sync
    async def test_an_asynchronous_effect_of_anything_else_is_reported(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        ctx, log = Context(), list[str]()

        async def make() -> str:
            return "text"

        async def parts() -> AsyncIterator[Any]:
            try:
                yield undo(log, "undo 1")
                yield "text"
            finally:
                log.append("closed")

        ctx.effect(make)
        ctx.effect(parts)
        await until(lambda: len(caplog.messages) == 2)
        assert caplog.messages == ["an effect of 'root' failed: TypeError('Invalid effect')"] * 2
        assert log == ["closed", "undo 1"]
        assert leftovers(ctx) == NOTHING


class TestDisposer:
    """Undoing one effect."""

    @sync
    async def test_a_disposer_works_once(self) -> None:
        ctx, log = Context(), list[str]()
        stop = ctx.effect(lambda: undo(log, "undone"))
        await stop()
        await stop()
        stop()
        assert log == ["undone"]

    @sync
    async def test_a_disposer_can_be_awaited_again_while_it_is_at_work(self) -> None:
        ctx, log, gate = Context(), list[str](), asyncio.Event()
        stop = ctx.effect(lambda: slow_undo(log, "undo", gate))
        first, second = asyncio.ensure_future(stop()), asyncio.ensure_future(stop())
        await turn()
        assert log == ["undo begins"]
        assert not first.done()
        assert not second.done()
        gate.set()
        await asyncio.gather(first, second)
        assert log == ["undo begins", "undo ends"]

    @sync
    async def test_the_result_of_a_disposer_may_be_ignored(self) -> None:
        ctx, log = Context(), list[str]()
        ctx.effect(lambda: slow_undo(log, "undo"))()
        await until(lambda: log == ["undo begins", "undo ends"])

    @sync
    async def test_parts_are_undone_in_reverse_each_awaited_before_the_next(self) -> None:
        ctx, log = Context(), list[str]()

        def make() -> Iterator[Any]:
            yield undo(log, "undo 1")
            yield slow_undo(log, "undo 2")
            yield slow_undo(log, "undo 3")
            yield undo(log, "undo 4")

        await ctx.effect(make)()
        assert log == [
            "undo 4",
            "undo 3 begins",
            "undo 3 ends",
            "undo 2 begins",
            "undo 2 ends",
            "undo 1",
        ]

    @sync
    async def test_a_part_that_cannot_be_undone_does_not_keep_the_next_from_it(self) -> None:
        ctx, log = Context(), list[str]()

        def make() -> Iterator[Any]:
            yield undo(log, "undo 1")
            yield undo(log, "undo 2", ValueError("second"))
            yield undo(log, "undo 3", ValueError("first"))

        with pytest.raises(ValueError, match=r"^first$"):
            ctx.effect(make)()
        assert log == ["undo 3", "undo 2", "undo 1"]

    @sync
    async def test_an_asynchronous_part_that_cannot_be_undone_does_not_either(self) -> None:
        ctx, log = Context(), list[str]()

        def make() -> Iterator[Any]:
            yield undo(log, "undo 1")
            yield undo(log, "undo 2", ValueError("second"))
            yield slow_undo(log, "undo 3", error=ValueError("first"))

        with pytest.raises(ValueError, match=r"^first$"):
            await ctx.effect(make)()
        assert log == ["undo 3 begins", "undo 3 ends", "undo 2", "undo 1"]

    @sync
    async def test_an_effect_that_was_undone_is_not_undone_again_on_unloading(self) -> None:
        ctx, log = Context(), list[str]()
        stop = ctx.effect(lambda: undo(log, "undone"))
        ctx.effect(lambda: undo(log, "other"))
        stop()
        await ctx.dispose()
        assert log == ["undone", "other"]

    @sync
    async def test_an_effect_undone_while_it_is_being_made_is_made_first(self) -> None:
        ctx, log, gate = Context(), list[str](), asyncio.Event()

        async def make() -> Callable[[], None]:
            await gate.wait()
            log.append("made")
            return undo(log, "undone")

        stop = ctx.effect(make)
        over = asyncio.ensure_future(stop())
        await turn()
        assert not over.done()
        gate.set()
        await over
        assert log == ["made", "undone"]

    @sync
    async def test_a_disposer_called_by_what_it_undoes_does_not_wait_for_itself(self) -> None:
        ctx, log = Context(), list[str]()

        async def run() -> None:
            await stop()
            log.append("undone")

        def make() -> Iterator[Any]:
            yield run
            yield undo(log, "first")

        stop = ctx.effect(make)
        await stop()
        assert log == ["first", "undone"]

    @sync
    async def test_cancelling_one_who_waits_does_not_stop_half_way(self) -> None:
        ctx, log, gate = Context(), list[str](), asyncio.Event()

        def make() -> Iterator[Any]:
            yield undo(log, "undo 1")
            yield slow_undo(log, "undo 2", gate)

        stop = ctx.effect(make)
        waiter, other = asyncio.ensure_future(stop()), asyncio.ensure_future(stop())
        await turn()
        waiter.cancel()
        await turn()
        assert waiter.cancelled()
        assert not other.done()
        gate.set()
        await other
        assert log == ["undo 2 begins", "undo 2 ends", "undo 1"]


class TestFailure:
    """Effects that fail half-way."""

    def test_an_effect_that_raises_midway_is_undone_and_its_error_raised(self) -> None:
        ctx, log = Context(), list[str]()

        def make() -> Iterator[Any]:
            yield undo(log, "undo 1")
            yield undo(log, "undo 2")
            raise KeyError("midway")

        with pytest.raises(KeyError, match="midway"):
            ctx.effect(make)
        assert log == ["undo 2", "undo 1"]
        assert leftovers(ctx) == NOTHING

    def test_an_error_of_undoing_half_an_effect_does_not_hide_why(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        ctx, log = Context(), list[str]()

        def make() -> Iterator[Any]:
            yield undo(log, "undo 1", ValueError("besides"))
            raise KeyError("midway")

        with pytest.raises(KeyError, match="midway"):
            ctx.effect(make)
        assert caplog.messages == ["undoing half an effect failed: ValueError('besides')"]

    @sync
    async def test_an_asynchronous_effect_that_raises_midway_is_undone_and_reported(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        ctx, log = Context(), list[str]()

        async def make() -> AsyncIterator[Any]:
            yield undo(log, "undo 1", ValueError("besides"))
            yield slow_undo(log, "undo 2")
            raise KeyError("midway")

        stop = ctx.effect(make)
        await until(lambda: len(caplog.messages) == 2)
        assert log == ["undo 2 begins", "undo 2 ends", "undo 1"]
        assert caplog.messages == [
            "undoing half an effect failed: ValueError('besides')",
            "an effect of 'root' failed: KeyError('midway')",
        ]
        await stop()
        assert log == ["undo 2 begins", "undo 2 ends", "undo 1"]
        assert leftovers(ctx) == NOTHING


class TestUnloading:
    """Undoing all effects of a plugin."""

    @sync
    async def test_unloading_undoes_all_effects_in_reverse_without_waiting_for_each_other(
        self,
    ) -> None:
        ctx, log, gate = Context(), list[str](), asyncio.Event()
        ctx.effect(lambda: undo(log, "a"))
        ctx.effect(lambda: slow_undo(log, "b", gate))
        ctx.effect(lambda: slow_undo(log, "c", gate))
        ctx.effect(lambda: undo(log, "d"))
        over = asyncio.ensure_future(ctx.dispose())
        await turn()
        assert log[:2] == ["d", "a"]
        assert sorted(log[2:]) == ["b begins", "c begins"]
        assert not over.done()
        gate.set()
        await over
        assert sorted(log[4:]) == ["b ends", "c ends"]

    @sync
    async def test_errors_of_unloading_are_logged_and_swallowed(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        ctx, log = Context(), list[str]()
        ctx.effect(lambda: undo(log, "a"))
        ctx.effect(lambda: slow_undo(log, "b", error=ValueError("later")))
        ctx.effect(lambda: undo(log, "c", ValueError("now")))
        await ctx.dispose()
        assert log == ["c", "a", "b begins", "b ends"]
        assert caplog.messages == [
            "unloading 'root' failed: ValueError('now')",
            "unloading 'root' failed: ValueError('later')",
        ]
        assert leftovers(ctx) == NOTHING

    @sync
    async def test_a_throwing_part_of_a_generator_does_not_leak_the_next_one(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        ctx, log = Context(), list[str]()

        def make() -> Iterator[Any]:
            yield undo(log, "undo 1")
            yield undo(log, "undo 2", ValueError("no"))

        ctx.effect(make)
        await ctx.dispose()
        assert log == ["undo 2", "undo 1"]
        assert caplog.messages == ["unloading 'root' failed: ValueError('no')"]

    @sync
    async def test_an_effect_whose_making_unloads_the_plugin_is_undone(self) -> None:
        ctx, log, inner = Context(), list[str](), list[Context]()
        fiber = ctx.plugin(inner.append)
        await fiber

        def make() -> Callable[[], None]:
            fiber.leave()
            log.append("made")
            return undo(log, "undone")

        inner[0].effect(make)
        await fiber.dispose()
        assert log == ["made", "undone"]

    @sync
    async def test_what_is_being_undone_already_is_waited_for(self) -> None:
        ctx, log, gate = Context(), list[str](), asyncio.Event()

        def half() -> Iterator[Any]:
            yield slow_undo(log, "half", gate)
            raise ValueError("midway")

        with pytest.raises(ValueError, match="midway"):
            ctx.effect(half)
        ctx.effect(lambda: slow_undo(log, "whole", gate))()
        over = asyncio.ensure_future(ctx.dispose())
        await turn()
        assert not over.done()
        gate.set()
        await over
        assert log == ["half begins", "whole begins", "half ends", "whole ends"]

    @sync
    async def test_cancelling_one_who_waits_for_the_end_does_not_leave_anything_behind(
        self,
    ) -> None:
        ctx, log, gate = Context(), list[str](), asyncio.Event()

        def make() -> Iterator[Any]:
            yield undo(log, "undo 1")
            yield slow_undo(log, "undo 2", gate)

        ctx.effect(make)
        waiter = asyncio.ensure_future(ctx.dispose())
        await turn()
        waiter.cancel()
        await turn()
        gate.set()
        await ctx.dispose()
        assert log == ["undo 2 begins", "undo 2 ends", "undo 1"]
