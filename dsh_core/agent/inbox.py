"""Messages that wait for an agent, and the log of their coming and going."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dsh_core.abort import RAISED
from dsh_core.errors import to_error
from dsh_core.session.lossless import require_lossless

if TYPE_CHECKING:
    from collections.abc import Callable

    Append = Callable[[str, dict[str, Any]], object]
    UserMessage = dict[str, Any]

NEXT_TURN: Final = "next-turn"
NEXT_STEP: Final = "next-step"


class Inbox:
    """Two lists: what begins a turn, and what joins the one that runs.

    The lists move before the log is written: a listener that raises finds them as the log says, and
    no message is lost by it.

    Args:
        append: Logs an event: type and payload.
    """

    def __init__(self, append: Append) -> None:
        self._append = append
        self._lists: dict[str, list[UserMessage]] = {NEXT_TURN: [], NEXT_STEP: []}

    def put(self, target: str, message: UserMessage) -> None:
        """Add a message to the end of a list.

        Raises:
            DataError: JSON cannot carry it; it is not added.
            Exception: What a listener raises; it is added.
        """
        require_lossless({"inserted": [message]})
        waiting = self._lists[target]
        waiting.append(message)
        self._log(target, len(waiting) - 1, inserted=[message])

    def claim_turn(self, into: list[UserMessage]) -> bool:
        """Move the first message that begins a turn to the end of another list.

        Returns:
            Whether there was one.
        """
        waiting = self._lists[NEXT_TURN]
        if not waiting:
            return False
        into.append(waiting.pop(0))
        self._log(NEXT_TURN, 0, removed=1)
        return True

    def claim_step(self, into: list[UserMessage]) -> None:
        """Move all messages that join the running turn to the end of another list."""
        messages, self._lists[NEXT_STEP] = self._lists[NEXT_STEP], []
        into += messages
        if messages:
            self._log(NEXT_STEP, 0, removed=len(messages))

    def postpone(self) -> None:
        """Let what has come too late for its turn begin the next one.

        Raises:
            Exception: The first that a listener raises; all messages are moved nevertheless.
        """
        messages, self._lists[NEXT_STEP] = self._lists[NEXT_STEP], []
        if not messages:
            return
        errors: list[Exception] = []
        moves = [partial(self._log, NEXT_STEP, 0, removed=len(messages), outcome="canceled")]
        moves += [partial(self.put, NEXT_TURN, message) for message in messages]
        for move in moves:
            try:
                move()
            except RAISED as error:
                errors.append(to_error(error))
        if errors:
            raise errors[0]

    def waiting(self, *targets: str) -> int:
        """Return how many messages some lists hold together; all by default."""
        return sum(len(self._lists[target]) for target in targets or self._lists)

    def _log(
        self,
        target: str,
        start: int,
        *,
        removed: int = 0,
        inserted: list[UserMessage] | None = None,
        outcome: str = "",
    ) -> None:
        data: dict[str, Any] = {"target": target, "start": start}
        if removed:
            data["removedCount"] = removed
        data["inserted"] = inserted or []
        if outcome:
            data["outcome"] = outcome
        self._append("agent/inbox/spliced", data)
