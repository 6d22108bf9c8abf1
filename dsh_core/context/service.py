"""Services: what plugins offer to each other by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dsh_core.context.context import Context
    from dsh_core.context.fiber import Fiber


class ServiceError(RuntimeError):
    """A service cannot be registered."""


@dataclass(frozen=True, slots=True, eq=False)
class Provided:
    """A service and who offers it; equal to nothing but itself, however the service compares."""

    value: object
    provider: Fiber


class Services:
    """The services of one program.

    Args:
        changed: Called with the name of a service that has come or gone.
    """

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self._provided: dict[str, Provided] = {}

    def find(self, name: str) -> Provided | None:
        """Return a service and who provides it, None if nobody does."""
        return self._provided.get(name)

    def provide(self, name: str, value: object, fiber: Fiber) -> Iterator[Callable[[], None]]:
        """Offer a service until it is undone; an effect.

        Raises:
            ServiceError: Somebody offers it already.
        """
        known = self._provided.get(name)
        if known is not None:
            raise ServiceError(f'service "{name}" has been registered at {known.provider.name}')
        mine = Provided(value, fiber)
        self._provided[name] = mine
        yield lambda: self._withdraw(name, mine)
        self._changed(name)

    def _withdraw(self, name: str, mine: Provided) -> None:
        if self._provided.get(name) is mine:
            del self._provided[name]
            self._changed(name)


class Service:
    """Base of the services: registers itself for as long as its plugin lives.

    Args:
        ctx: The context of the plugin that offers it.
        name: What it is found by: ``ctx.<name>``.

    Raises:
        ServiceError: The name is taken.
    """

    def __init__(self, ctx: Context, name: str) -> None:
        self.ctx: Any = ctx
        ctx.provide(name, self)
