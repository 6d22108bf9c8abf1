"""Effects: what is done together with what undoes it."""

from __future__ import annotations

import asyncio
import inspect
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from dsh_core.abort import RAISED
from dsh_core.errors import to_error

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator

    Undo = Callable[[], Any]
    """Undoes something; what it returns is waited for if it can be."""

_logger: Final = logging.getLogger("dsh_core")


class Done:
    """Something to await that is over already."""

    def __await__(self) -> Generator[Any, None, None]:
        """Return at once."""
        yield from ()


class Ending:
    """Something to await that ends some time, awaited or not.

    Whoever waits for it can be cancelled without ending it half-way for all others.

    Args:
        task: What ends.
    """

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def __await__(self) -> Generator[Any, None, None]:
        """Wait for the end, except in the task itself: that would take for ever."""
        if self._task is not asyncio.current_task():
            yield from asyncio.shield(self._task).__await__()


class Disposer:
    """Undoes an effect, once; call it, and await the call if you care when it is over.

    Args:
        on_over: Called when the effect is undone, also after it has failed.

    Attributes:
        started: The task of an asynchronous effect, None of any other.
        over: Whether the effect is undone.
    """

    def __init__(self, on_over: Callable[[Disposer], None]) -> None:
        self.started: asyncio.Task[None] | None = None
        self.over = False
        self._undo: list[Undo] = []
        self._on_over = on_over
        self._ending: Awaitable[None] | None = None

    def make(self, make: Callable[[], Any]) -> None:
        """Make the effect.

        Args:
            make: Makes it: returns nothing, what undoes it, an awaitable of that, or a generator,
                plain or asynchronous, that yields any number of such.

        Raises:
            TypeError: The effect is something else.
            Exception: What the effect raises; what it had done by then is undone.
        """
        try:
            self._collect(make())
        except BaseException:
            try:
                self()
            except Exception as error:  # noqa: BLE001 - what the effect has raised matters more
                _logger.error("undoing half an effect failed: %r", error)  # noqa: TRY400 - short
            raise

    def _collect(self, made: object) -> None:
        if made is None:
            return
        if inspect.isgenerator(made):
            for undo in made:
                self._add(undo)
        elif inspect.isasyncgen(made):
            self.started = asyncio.ensure_future(self._guarded(self._collect_all(made)))
        elif inspect.isawaitable(made):
            self.started = asyncio.ensure_future(self._guarded(self._collect_one(made)))
        else:
            self._add(made)

    def _add(self, undo: object) -> None:
        if undo is None:
            return
        if not callable(undo):
            raise TypeError("Invalid effect")
        self._undo.append(undo)

    async def _collect_all(self, made: AsyncGenerator[object, Any]) -> None:
        async with aclosing(made):
            async for undo in made:
                self._add(undo)

    async def _collect_one(self, made: Awaitable[object]) -> None:
        self._add(await made)

    async def _guarded(self, collecting: Awaitable[None]) -> None:
        try:
            await collecting
        except BaseException:
            try:
                await self._run()
            except Exception as error:  # noqa: BLE001 - what the effect has raised matters more
                _logger.error("undoing half an effect failed: %r", error)  # noqa: TRY400 - short
            raise

    def __call__(self) -> Awaitable[None]:
        """Undo the effect, in the reverse order of its parts.

        Returns:
            Something to await, also for a second call. Whatever need not wait is undone at once.

        Raises:
            Exception: The first error of what undoes it; the rest is undone all the same.
        """
        if self._ending is None:
            self._ending = Done()
            if self.started is not None and not self.started.done():
                self._ending = Ending(asyncio.create_task(self._run_later(self.started)))
            else:
                self._ending = self._run()
        return self._ending

    async def _run_later(self, started: asyncio.Task[None]) -> None:
        # What an asynchronous effect has failed with is reported where it was made.
        await asyncio.wait([started])
        await self._run()

    def _run(self) -> Awaitable[None]:
        errors: list[Exception] = []
        while self._undo:
            try:
                result = self._undo.pop()()
            except RAISED as error:
                errors.append(to_error(error))
                continue
            if inspect.isawaitable(result):
                return Ending(asyncio.create_task(self._run_rest(result, errors)))
        self._end()
        if errors:
            raise errors[0]
        return Done()

    async def _run_rest(self, result: Awaitable[Any] | None, errors: list[Exception]) -> None:
        while True:
            try:
                if inspect.isawaitable(result):
                    await result
                if not self._undo:
                    break
                result = self._undo.pop()()
            except Exception as error:  # noqa: BLE001 - as above
                errors.append(error)
                result = None
        self._end()
        if errors:
            raise errors[0]

    def _end(self) -> None:
        self.over = True
        self._on_over(self)
