"""Contexts: where plugins find each other, listen, and leave nothing behind."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from dsh_core.context.bus import Bus
from dsh_core.context.fiber import Fiber, FiberState
from dsh_core.context.plugins import ConfigError, Plugin, names_of
from dsh_core.context.service import Services

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dsh_core.context.bus import Scope
    from dsh_core.context.effects import Disposer


class PropertyError(AttributeError):
    """A service is read that is not there, or that the plugin has not asked for."""


class _Program:
    """What all contexts of one program share."""

    def __init__(self) -> None:
        self.bus = Bus()
        self.services = Services(self.service_changed)
        # Those that need services, in order.
        self.fibers: dict[Fiber, None] = {}
        self._changed: deque[str] = deque()
        self._telling = False

    def available(self, name: str) -> object:
        return self.services.find(name)

    def living(self, fiber: Fiber) -> Iterator[Callable[[], object]]:
        """Keep a fiber informed of services until it is over; an effect."""
        if fiber.inject and fiber.state is not FiberState.FAILED:
            self.fibers[fiber] = None
            yield lambda: self.fibers.pop(fiber, None)
        yield fiber.end

    def service_changed(self, name: str) -> None:
        """Tell the fibers, one change after another: a long chain of them must not recurse."""
        self._changed.append(name)
        if self._telling:
            return
        self._telling = True
        try:
            while self._changed:
                changed = self._changed.popleft()
                for fiber in tuple(self.fibers):
                    if changed in fiber.inject and fiber.state is not FiberState.DISPOSED:
                        fiber.kick()
        finally:
            self._telling = False
            self._changed.clear()


class Context:
    """A plugin's view of the program; the first one, made without arguments, is the root.

    Services are read as attributes: ``ctx.tools``. Everything done through a context is undone when
    its plugin is unloaded.

    Attributes:
        fiber: The plugin's life.
        parent: The context that the plugin was given to, None for the root.
    """

    def __init__(self) -> None:
        self._program = _Program()
        self.parent: Context | None = None
        self.fiber = Fiber(None, None, lambda _: self, self._program.available)

    def _child(self, fiber: Fiber) -> Context:
        child = Context.__new__(Context)
        child._program, child.parent, child.fiber = self._program, self, fiber  # noqa: SLF001 - mine
        return child

    @property
    def root(self) -> Context:
        """The first context."""
        return self if self.parent is None else self.parent.root

    # Services

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the service is
        """Return a service.

        Raises:
            PropertyError: Nobody offers it, or the plugin does not inject it.
        """
        found = None if name.startswith("_") else self._program.services.find(name)
        if found is None or not self._may_read(name, found.provider):
            error = PropertyError(f'cannot get property "{name}" without inject')
            if not name.startswith("_"):
                error.add_note(
                    f"nobody offers {name!r}, or not yet: await the plugin that does"
                    if found is None
                    else f"add {name!r} to the plugin's `inject`"
                )
            raise error
        return found.value

    def _may_read(self, name: str, provider: Fiber) -> bool:
        # What a plugin has not asked for may go while it runs; the root has nothing to lose.
        ctx: Context | None = self
        while ctx is not None and ctx.parent is not None:
            if ctx.fiber is provider or name in ctx.fiber.inject:
                return True
            ctx = ctx.parent
        return self.parent is None or (ctx is not None and ctx.fiber is provider)

    def get(self, name: str) -> Any:  # noqa: ANN401 - whatever the service is
        """Return a service, None if nobody offers it; whether it is injected does not matter."""
        found = self._program.services.find(name)
        return None if found is None else found.value

    def provide(self, name: str, value: object) -> Disposer:
        """Offer a service until the plugin is unloaded.

        Raises:
            ServiceError: Somebody offers it already.
        """
        return self.effect(
            lambda: self._program.services.provide(name, value, self.fiber), f"service {name} of"
        )

    # Plugins

    def plugin(self, plugin: Any, config: object = None) -> Fiber:  # noqa: ANN401 - three forms
        """Add a plugin; it runs soon, once all its services are there.

        Args:
            plugin: A class, a function, or an object with ``apply``; with ``name``, ``inject`` and
                ``Config`` (a pydantic type) if it likes.
            config: Its configuration.

        Returns:
            Its life. With a wrong configuration it has failed; await it to get the error.

        Raises:
            TypeError: It is no plugin.
            ContextError: This context's own plugin is unloaded.
        """
        return self._start(Plugin.of(plugin), config)

    def inject(self, names: Iterable[str], body: Callable[..., Any]) -> Fiber:
        """Run something while some services are there: a plugin without a name."""
        return self._start(Plugin("inject", Plugin.of(body).body, names_of(names), None), None)

    def _start(self, plugin: Plugin, config: object) -> Fiber:
        error = None
        try:
            config = plugin.configured(config)
        except ConfigError as wrong:
            error = wrong
        fiber = Fiber(plugin, config, self._child, self._program.available)
        if error is not None:
            fiber.fail(error)
        fiber.leave = self.effect(lambda: self._program.living(fiber), f"plugin {plugin.name} of")
        if error is None:
            fiber.kick()
        return fiber

    # Effects

    def effect(self, make: Callable[[], Any], label: str = "") -> Disposer:
        """Do something that is undone when the plugin is unloaded.

        Args:
            make: Does it. Returns nothing, what undoes it, an awaitable of that, or a generator,
                plain or asynchronous, that yields what undoes its parts.
            label: For people.

        Returns:
            What undoes it earlier; call it, and await the call to wait until it is over.

        Raises:
            TypeError: `make` returns something else.
            ContextError: The plugin is unloaded (``INACTIVE_EFFECT``).
        """
        return self.fiber.effect(make, label)

    async def dispose(self) -> None:
        """Undo everything done through this context; for the root, end the program."""
        await self.fiber.dispose()
        if self.parent is None:
            await self._program.bus.end()

    # Events

    def on(
        self,
        name: str,
        listener: Callable[..., Any],
        *,
        prepend: bool = False,
        hears_all: bool = False,
    ) -> Disposer:
        """Listen to an event until the plugin is unloaded.

        Args:
            name: The event.
            listener: Called with its arguments.
            prepend: Before all others, not after.
            hears_all: Also events that are meant for other contexts (dsh: ``global``).

        Returns:
            What stops it earlier.
        """
        if not callable(listener):
            raise TypeError(f"a listener of {name!r} is a function, not {listener!r:.80}")
        return self.effect(
            lambda: self._program.bus.add(
                name, listener, self, prepend=prepend, hears_all=hears_all
            ),
            f"listener of {name} of",
        )

    def once(
        self,
        name: str,
        listener: Callable[..., Any],
        *,
        prepend: bool = False,
        hears_all: bool = False,
    ) -> Disposer:
        """Listen to an event once, see `on`."""

        def first(*args: Any) -> Any:  # noqa: ANN401 - whatever the event carries
            stop()
            return listener(*args)

        stop = self.on(name, first, prepend=prepend, hears_all=hears_all)
        return stop

    def listens(self, name: str) -> bool:
        """Whether anybody listens to an event.

        Args:
            name: The event.
        """
        return self._program.bus.listens(name)

    def emit(self, name: str, *args: Any, scope: Scope | None = None) -> None:  # noqa: ANN401
        """Call all listeners in order; the first exception stops the rest and is raised.

        Args:
            name: The event.
            args: What it carries.
            scope: Which contexts hear it; all by default.
        """
        self._program.bus.emit(name, args, scope)

    async def parallel(self, name: str, *args: Any, scope: Scope | None = None) -> None:  # noqa: ANN401
        """Call all listeners at once and wait for all; the first exception is raised."""
        await self._program.bus.parallel(name, args, scope)

    async def serial(self, name: str, *args: Any, scope: Scope | None = None) -> Any:  # noqa: ANN401
        """Call listeners one by one, waiting for each; return the first answer.

        None and False are no answers.
        """
        return await self._program.bus.serial(name, args, scope)

    def bail(self, name: str, *args: Any, scope: Scope | None = None) -> Any:  # noqa: ANN401
        """Call listeners one by one; return the first answer, see `serial`."""
        return self._program.bus.bail(name, args, scope)

    def waterfall(
        self,
        name: str,
        *args: Any,  # noqa: ANN401 - whatever the event carries
        inner: Callable[..., Any],
        scope: Scope | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the listeners return
        """Call the listeners around each other, the first outermost, `inner` within all.

        A listener gets the arguments and ``next``, which calls what lies within it; one that does
        not call it replaces all of that. Asynchronous ones return something to await.
        """
        return self._program.bus.waterfall(name, args, inner, scope)

    def __repr__(self) -> str:
        return f"<Context of {self.fiber.name!r}>"
