"""Events: who listens to what, and the ways to tell them."""

from __future__ import annotations

import asyncio
import inspect
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from dsh_core.context.context import Context

    Listener = Callable[..., Any]

DISPATCH: Final = "internal/dispatch"
"""Emitted with (mode, name, args, scope) before every event that is not internal itself."""

END_S: Final = 5.0
"""How long listeners that still run may take to end with the program, in seconds."""

_INTERNAL: Final = "internal/"
_logger: Final = logging.getLogger("dsh_core")


class Scope(Protocol):
    """Limits an event to some contexts."""

    def matches(self, ctx: Context) -> bool:
        """Whether listeners of a context hear the event."""


@dataclass(frozen=True, slots=True, eq=False)
class _Ear:
    """A registered listener."""

    listener: Listener
    ctx: Context
    hears_all: bool


class Bus:
    """The event table that all contexts of one program share."""

    def __init__(self) -> None:
        # Tuples, replaced on every change: what a dispatch iterates over never changes under it.
        self._ears: dict[str, tuple[_Ear, ...]] = {}
        self._running: set[asyncio.Future[Any]] = set()

    def add(
        self, name: str, listener: Listener, ctx: Context, *, prepend: bool, hears_all: bool
    ) -> Callable[[], None]:
        """Register a listener.

        Returns:
            What removes it again.
        """
        ear = _Ear(listener, ctx, hears_all)
        present = self._ears.get(name, ())
        self._ears[name] = (ear, *present) if prepend else (*present, ear)

        def remove() -> None:
            rest = tuple(other for other in self._ears.get(name, ()) if other is not ear)
            if rest:
                self._ears[name] = rest
            else:
                self._ears.pop(name, None)

        return remove

    def listens(self, name: str) -> bool:
        """Whether anybody listens to an event."""
        return name in self._ears

    def emit(self, name: str, args: tuple[Any, ...], scope: Scope | None) -> None:
        """Call all listeners in order; the first exception stops the rest."""
        if DISPATCH in self._ears:
            self._announce("emit", name, args, scope)
        for ear in self._ears.get(name, ()):
            if scope is None or ear.hears_all or scope.matches(ear.ctx):
                result = ear.listener(*args)
                if result is not None and inspect.isawaitable(result):
                    self._let_run(name, result)

    async def parallel(self, name: str, args: tuple[Any, ...], scope: Scope | None) -> None:
        """Call all listeners at once and wait for all; then the first exception is raised."""
        calls = [
            _call(listener, args) for listener in self._listeners("parallel", name, args, scope)
        ]
        # One that fails must not leave the others running on, unseen.
        for result in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def serial(self, name: str, args: tuple[Any, ...], scope: Scope | None) -> Any:  # noqa: ANN401
        """Call listeners one after another until one has an answer."""
        for listener in self._listeners("serial", name, args, scope):
            result = await _call(listener, args)
            if _answers(result):
                return result
        return None

    def bail(self, name: str, args: tuple[Any, ...], scope: Scope | None) -> Any:  # noqa: ANN401
        """Call listeners one after another, without waiting, until one has an answer."""
        for listener in self._listeners("bail", name, args, scope):
            result = listener(*args)
            if _answers(result):
                return result
        return None

    def waterfall(
        self, name: str, args: tuple[Any, ...], inner: Listener, scope: Scope | None
    ) -> Any:  # noqa: ANN401 - whatever the listeners return
        """Call the listeners around each other: the first is outermost, `inner` lies within all."""
        chain: Iterator[Listener] = iter(self._listeners("waterfall", name, args, scope))

        def advance() -> Any:  # noqa: ANN401 - as above
            listener = next(chain, None)
            return inner(*args) if listener is None else listener(*args, advance)

        return advance()

    def _listeners(
        self, mode: str, name: str, args: tuple[Any, ...], scope: Scope | None
    ) -> Sequence[Listener]:
        if DISPATCH in self._ears:
            self._announce(mode, name, args, scope)
        return [
            ear.listener
            for ear in self._ears.get(name, ())
            if scope is None or ear.hears_all or scope.matches(ear.ctx)
        ]

    def _announce(self, mode: str, name: str, args: tuple[Any, ...], scope: Scope | None) -> None:
        if not name.startswith(_INTERNAL):
            self.emit(DISPATCH, (mode, name, args, scope), None)

    async def end(self) -> None:
        """Cancel what runs on: nobody is left that it could be for."""
        running = [one for one in self._running if one is not asyncio.current_task()]
        for one in running:
            one.cancel()
        if running:
            await asyncio.wait(running, timeout=END_S)

    def _let_run(self, name: str, result: Awaitable[Any]) -> None:
        """Let an asynchronous listener of a synchronous event run on; nobody waits for it."""
        future = asyncio.ensure_future(result)
        self._running.add(future)

        def done(_: asyncio.Future[Any]) -> None:
            self._running.discard(future)
            if not future.cancelled() and (error := future.exception()) is not None:
                _logger.error("a listener of %r failed: %r", name, error)

        future.add_done_callback(done)


async def _call(listener: Listener, args: tuple[Any, ...]) -> Any:  # noqa: ANN401 - what it returns
    result = listener(*args)
    return await result if inspect.isawaitable(result) else result


def _answers(result: object) -> bool:
    return result is not None and result is not False
