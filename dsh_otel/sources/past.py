"""What of a log is dealt with, and what of it still matters: the turn that is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_core.events import TurnStart
from dsh_core.faults import Fault

if TYPE_CHECKING:
    from dsh_core.events import SessionEvent


class Past:
    """What a log holds that is dealt with, as far as its events tell.

    Args:
        seq: Events up to this one are of the past.
        turn: Turns up to this one are.
        since_ms: Turns that began before are.
        exported: Whether the spans of the past have been exported.

    Attributes:
        held: The events of the turn that is open.
        open: Whether one is.
    """

    def __init__(
        self,
        *,
        seq: int | None = None,
        turn: int | None = None,
        since_ms: int | None = None,
        exported: bool = False,
    ) -> None:
        self._seq = seq
        self._turn = turn
        self._since_ms = since_ms
        self.exported = exported
        self.held: list[tuple[SessionEvent | Fault, int]] = []
        self.open = False

    def holds(self, item: SessionEvent | Fault) -> bool:
        """Whether something is of the past; what holds for an event holds for those before it."""
        if isinstance(item, Fault):
            return True
        if self._seq is not None:
            return item.seq <= self._seq
        if isinstance(item, TurnStart):
            if self._turn is not None:
                return item.data.turn <= self._turn
            if self._since_ms is not None:
                return item.time < self._since_ms
        return True
