"""Fibers: plugins while they live."""

from __future__ import annotations

import asyncio
import inspect
import logging
from contextvars import ContextVar
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from dsh_core.abort import RAISED
from dsh_core.context.effects import Disposer, Ending
from dsh_core.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from dsh_core.context.context import Context
    from dsh_core.context.plugins import Plugin

_logger: Final = logging.getLogger("dsh_core")

_AT_WORK: Final[ContextVar[Fiber | None]] = ContextVar("fiber", default=None)
"""Whose worker a task is, or was begun by."""


class ContextError(HarnessError):
    """A context cannot be used so."""


class FiberState(StrEnum):
    """Where a fiber stands."""

    PENDING = "pending"
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    UNLOADING = "unloading"
    DISPOSED = "disposed"


class Fiber:
    """A plugin while it lives: loaded when all its services are there, unloaded when one goes.

    Await it to wait until nothing about it is under way; that raises what it has failed with.

    Args:
        plugin: The plugin, None for the root.
        config: Its configuration.
        make_context: Makes the context that the plugin gets.
        available: Returns what stands behind a service now, None if nobody offers it.

    Attributes:
        name: The plugin's name.
        state: Where it stands.
        error: What it has failed with.
        ctx: The context that the plugin gets.
        leave: Unloads it for good and makes the context it was given to forget it.
    """

    def __init__(
        self,
        plugin: Plugin | None,
        config: object,
        make_context: Callable[[Fiber], Context],
        available: Callable[[str], object],
    ) -> None:
        self.name = "root" if plugin is None else plugin.name
        self.error: Exception | None = None
        self.state = FiberState.ACTIVE if plugin is None else FiberState.PENDING
        self.ctx = make_context(self)
        self._plugin = plugin
        self._config = config
        self._available = available
        self._effects: list[Disposer] = []
        self.leave: Callable[[], Awaitable[None]] = self.end
        # Asynchronous effects of the plugin's body: it is loaded when they are made.
        self._starting: list[asyncio.Task[None]] = []
        self._doomed = False
        self._again = False
        # What stood behind its services when it was loaded, or failed to; the root needs none.
        self._with: tuple[object, ...] | None = () if plugin is None else None
        self._leaving: list[Awaitable[None]] = []
        self._worker: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether anything about it is under way."""
        return self._worker is not None and not self._worker.done()

    @property
    def inject(self) -> tuple[str, ...]:
        """Names of the services it needs."""
        return () if self._plugin is None else self._plugin.inject

    # Effects

    def effect(self, make: Callable[[], Any], label: str) -> Disposer:
        """Do something that is undone when the plugin is unloaded, see `Context.effect`."""
        if not self._takes_effects():
            raise ContextError(
                f"cannot create effect {label or 'of'} {self.name!r}: it is {self.state}",
                "INACTIVE_EFFECT",
            )
        disposer = Disposer(self._forget)
        try:
            disposer.make(make)
        finally:
            # Also of what has failed something may still be under way.
            if not disposer.over:
                self._take(disposer)
        return disposer

    def _take(self, disposer: Disposer) -> None:
        if not self._takes_effects():
            # Making it has unloaded the plugin, and nobody will come back to undo it.
            self._undo(disposer)
            return
        self._effects.append(disposer)
        if disposer.started is not None:
            if self.state is FiberState.LOADING:
                self._starting.append(disposer.started)
            else:
                disposer.started.add_done_callback(self._report)

    def _takes_effects(self) -> bool:
        return self.state in (FiberState.ACTIVE, FiberState.LOADING)

    def _forget(self, disposer: Disposer) -> None:
        # By identity, from the end: the newest are undone first.
        for place in range(len(self._effects) - 1, -1, -1):
            if self._effects[place] is disposer:
                del self._effects[place]
                return

    def _report(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("an effect of %r failed: %r", self.name, error)

    # Life

    def fail(self, error: Exception) -> None:
        """Take in that the plugin can never run."""
        self.state, self.error = FiberState.FAILED, error
        _logger.error("plugin %r failed: %s", self.name, error)

    def kick(self) -> asyncio.Task[None]:
        """Do what is due: load, unload, or nothing.

        Returns:
            The task that does it.
        """
        if self.state is FiberState.ACTIVE and self._with != self._wanted():
            # At once: what relies on a service that is gone must not run any more.
            self._unload()
        if self._worker is None or self._worker.done():
            self._worker = asyncio.get_running_loop().create_task(self._work())
        return self._worker

    def _wanted(self) -> tuple[object, ...] | None:
        """Return what stands behind the services now; None if the plugin must not run."""
        if self._doomed or self._again or self._plugin is None:
            return None
        # These compare by identity, whatever the services themselves think of equality.
        found = tuple(self._available(name) for name in self.inject)
        return None if None in found else found

    async def _work(self) -> None:
        _AT_WORK.set(self)
        while self.state is not FiberState.DISPOSED:
            wanted = self._wanted()
            if self.state is FiberState.UNLOADING:
                await self._left()
                self.state, self._with = FiberState.PENDING, None
            elif self._doomed:
                if self._effects:
                    self._unload()
                else:
                    self.state = FiberState.DISPOSED
            elif self._again:
                self._again = False
                self._unload()
            elif wanted == self._with:
                return
            elif self.state is FiberState.ACTIVE:
                self._unload()
            elif wanted is None or self._plugin is None:
                # It had failed, and now lacks what it failed with.
                self.state, self._with = FiberState.PENDING, None
            else:
                await self._load(self._plugin, wanted)

    async def _load(self, plugin: Plugin, wanted: tuple[object, ...]) -> None:
        self.state, self.error, self._with = FiberState.LOADING, None, wanted
        try:
            result = plugin.body(self.ctx, self._config)
            if inspect.isgenerator(result) or inspect.isasyncgen(result):
                self.effect(lambda: result, "body of")
            elif inspect.isawaitable(result):
                await result
            # The list may grow meanwhile: effects may have effects.
            for task in self._starting:
                await task
        except asyncio.CancelledError as cancelled:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                # Not the plugin's doing: the program is being stopped.
                self._unload()
                raise
            error = ContextError("cancelled while loading", "CANCELLED", cause=cancelled)
            await self._give_up(error, cancelled)
        except Exception as error:  # noqa: BLE001 - a broken plugin must not break the others
            await self._give_up(error, error)
        else:
            self.state, self._starting = FiberState.ACTIVE, []

    async def _give_up(self, error: Exception, seen: BaseException) -> None:
        """Undo what was loaded of a broken plugin; report what is wrong with it besides."""
        self._unload()
        await self._left()
        starting, self._starting = self._starting, []
        for task in starting:
            if not task.done() or (not task.cancelled() and task.exception() is not seen):
                task.add_done_callback(self._report)
        self.fail(error)

    def _unload(self) -> None:
        """Undo all effects, the newest first, without waiting for each other."""
        self.state = FiberState.UNLOADING
        for disposer in reversed(tuple(self._effects)):
            self._undo(disposer)
        self._effects = []

    def _undo(self, disposer: Disposer) -> None:
        try:
            self._leaving.append(disposer())
        except RAISED as error:
            _logger.error("unloading %r failed: %r", self.name, error)  # noqa: TRY400 - short

    async def _left(self) -> None:
        """Wait until everything that is being undone is undone."""
        while self._leaving:
            leaving, self._leaving = self._leaving, []
            for result in await asyncio.gather(*map(_awaited, leaving), return_exceptions=True):
                if isinstance(result, BaseException):
                    _logger.error("unloading %r failed: %r", self.name, result)

    async def dispose(self) -> None:
        """Unload the plugin for good, and wait until it is over.

        What its own body begins is not waited for: nothing ends before the body has returned.
        """
        over = self.leave()
        if not self._is_asked_by_a_body():
            await over

    def _is_asked_by_a_body(self) -> bool:
        """Whether whoever asks belongs to a body that loads, of this plugin or of one below."""
        fiber = _AT_WORK.get()
        if fiber is None or fiber.state is not FiberState.LOADING:
            return False
        ctx: Context | None = fiber.ctx
        while ctx is not None and ctx.fiber is not self:
            ctx = ctx.parent
        return ctx is not None

    def end(self) -> Awaitable[None]:
        """Begin to unload for good.

        Returns:
            Something to await until it is over.
        """
        self._doomed = True
        return Ending(self.kick())

    async def restart(self) -> None:
        """Unload the plugin and load it again, also after a failure.

        Raises:
            ContextError: It is unloaded for good, or the root, which is never loaded.
            Exception: What the plugin fails with.
        """
        if self._plugin is None:
            raise ContextError("the root cannot be restarted", "INACTIVE_EFFECT")
        if self.state is FiberState.DISPOSED:
            raise ContextError(f"{self.name!r} is disposed", "INACTIVE_EFFECT")
        if self._worker is None and self.error is not None:
            # It has never run: its configuration is wrong, and stays so.
            raise self.error
        self._again = True
        self.kick()
        await self

    def __repr__(self) -> str:
        missing = [name for name in self.inject if self._available(name) is None]
        waits = f", waits for {', '.join(missing)}" if missing else ""
        return f"<Fiber {self.name!r} {self.state}{waits}>"

    def __await__(self) -> Generator[Any, None, Fiber]:
        """Wait until nothing is under way.

        Raises:
            Exception: What the plugin has failed with.
        """
        if not self._is_asked_by_a_body():
            yield from self._quiet().__await__()
        if self.state is FiberState.FAILED and self.error is not None:
            raise self.error
        return self

    async def _quiet(self) -> None:
        # Another one may have begun by the time this one is over.
        while self._worker is not None and not self._worker.done():
            await asyncio.wait([self._worker])


async def _awaited(result: Awaitable[None]) -> None:
    await result
