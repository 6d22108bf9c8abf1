"""Following a live session in the order of its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_core.session.entry import Entry
    from dsh_core.session.session import Session


class Cursor:
    """Where somebody stands in a log.

    ``session/event`` does not always come in the order of the log: when a listener appends an
    event, those behind it hear of that one first.

    Args:
        session: The session.
        seen: How many events are known already.

    Attributes:
        seen: How many events have been handed out, from the start.
    """

    def __init__(self, session: Session, seen: int = 0) -> None:
        self._session = session
        self.seen = seen

    def up_to(self, entry: Entry) -> Sequence[Entry]:
        """Return what is news, in order, when somebody hears of an event.

        Args:
            entry: The event.

        Returns:
            Everything up to it; nothing if it is known; just itself if the log holds another event
            in its place.
        """
        if not self._session.holds(entry):
            return (entry,)
        start, end = self.seen, entry.seq + 1
        if end <= start:
            return ()
        self.seen = end
        return (entry,) if end == start + 1 else self._session.events[start:end]

    def rest(self) -> Sequence[Entry]:
        """Return everything that is news."""
        start, self.seen = self.seen, self._session.seq
        return self._session.events[start:]
