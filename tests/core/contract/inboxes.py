"""Changes of the inbox, for tests of the rules about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.checking import event, one_step, prompt, turn_end, turn_start
from tests.strategies import text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.checking import Item
    from tests.strategies import Event


def message(id_: Any) -> Event:
    """Return a message that waits."""
    return {"id": id_, "role": "user", "source": {"kind": "user"}, "content": text("hi")}


def splice(target: Any = "next-turn", start: Any = 0, inserted: Any = (), **more: Any) -> Item:
    """Return any change of a list."""
    data = {"target": target, "start": start, **more, "inserted": inserted}
    return event("agent/inbox/spliced", data)


def insert(*ids: Any, target: Any = "next-turn", start: Any = 0, **more: Any) -> Item:
    """Return the insertion of messages with some ids."""
    return splice(target, start, list(map(message, ids)), **more)


def claim(
    count: Any = 1, target: str = "next-turn", start: Any = 0, inserted: Any = (), **more: Any
) -> Item:
    """Return a claim of the loop."""
    return splice(target, start, inserted, removedCount=count, **more)


def cancel(count: Any = 1, target: str = "next-turn", start: Any = 0) -> Item:
    """Return the removal of messages that nobody wants any more."""
    return claim(count, target, start, outcome="canceled")


def turn(*items: Item, n: int = 1, said: Iterable[str] = (), kind: str = "completed") -> list[Item]:
    """Return a turn that begins with some events, and in whose step messages reach the model."""
    messages = [prompt(id=id_) for id_ in said]
    return [turn_start(n), *items, *one_step(n, 1, *messages), turn_end(n, kind)]
