"""On whose behalf a turn runs: the message that it takes from the inbox tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsh_core.events import InboxSpliced, TurnStart

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

    from dsh_core.events import SessionEvent

MAX_QUEUED: Final = 1024
TURNS: Final = "next-turn"
"""The list of messages that open a turn."""


class Callers:
    """Knows which span of the program stands behind the turns of one session.

    Attributes:
        current: The span behind the turn that started last, None if there is none.
        above: The same of the session that has started this one, if one has.
    """

    def __init__(self) -> None:
        self.current: SpanContext | None = None
        self.above: Callers | None = None
        self._of: dict[str, SpanContext | None] = {}
        self._asked: dict[object, SpanContext | None] = {}
        self._queue: list[str] = []
        self._busy = False

    @property
    def unknown(self) -> bool:
        """Whether there are messages whose ids are not known yet."""
        return bool(self._asked)

    def give_up(self) -> None:
        """Wait for no ids any more."""
        self._asked.clear()

    def ask(self, token: object, caller: SpanContext | None) -> None:
        """Note that a message is on its way."""
        self._asked[token] = caller
        _bound(self._asked)

    def answer(self, token: object, message_id: str | None) -> None:
        """Note the id of a message, None if there is none after all."""
        if token in self._asked:
            caller = self._asked.pop(token)
            if message_id is not None:
                self._of[message_id] = caller
                _bound(self._of)

    def idle(self) -> None:
        """Note that the session has nothing left to do: what comes next is nobody's."""
        self._busy = False

    def see(self, event: SessionEvent) -> None:
        """Take in the next event of the session."""
        if isinstance(event, TurnStart):
            self._turn_start()
        elif isinstance(event, InboxSpliced) and event.data.target == TURNS:
            data = event.data
            start = min(max(data.start, 0), len(self._queue))
            end = min(start + max(data.removed_count, 0), len(self._queue))
            self._queue[start:end] = [message.id for message in data.inserted]
            del self._queue[MAX_QUEUED:]

    def _turn_start(self) -> None:
        first = self._queue[0] if self._queue else ""
        if first in self._of:
            self.current = self._of.pop(first)
        elif not self._busy:
            self.current = None if self.above is None else self.above.current
        self._busy = True


def _bound(known: dict[object, SpanContext | None] | dict[str, SpanContext | None]) -> None:
    while len(known) > MAX_QUEUED:
        del known[next(iter(known))]  # type: ignore[arg-type]
