"""Messages that wait for an agent, and the log of their coming and going."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    Append = Callable[[str, dict[str, Any]], object]
    UserMessage = dict[str, Any]

NEXT_TURN: Final = "next-turn"
NEXT_STEP: Final = "next-step"


class Inbox:
    """Two lists: what begins a turn, and what joins the one that runs.

    The lists move before the log is written: a listener that raises finds them as the log says.

    Args:
        append: Logs an event: type and payload.
    """

    def __init__(self, append: Append) -> None:
        self._append = append
        self._lists: dict[str, list[UserMessage]] = {NEXT_TURN: [], NEXT_STEP: []}

    def put(self, target: str, message: UserMessage) -> None:
        """Add a message to the end of a list."""
        waiting = self._lists[target]
        waiting.append(message)
        self._log(target, len(waiting) - 1, inserted=[message])

    def claim_turn(self) -> UserMessage | None:
        """Take the first message that begins a turn, None if there is none."""
        waiting = self._lists[NEXT_TURN]
        if not waiting:
            return None
        message = waiting.pop(0)
        self._log(NEXT_TURN, 0, removed=1)
        return message

    def claim_step(self) -> list[UserMessage]:
        """Take all messages that join the running turn."""
        messages, self._lists[NEXT_STEP] = self._lists[NEXT_STEP], []
        if messages:
            self._log(NEXT_STEP, 0, removed=len(messages))
        return messages

    def postpone(self) -> None:
        """Let what has come too late for its turn begin the next one."""
        messages, self._lists[NEXT_STEP] = self._lists[NEXT_STEP], []
        if messages:
            self._log(NEXT_STEP, 0, removed=len(messages), outcome="canceled")
        for message in messages:
            self.put(NEXT_TURN, message)

    def waiting(self, target: str) -> int:
        """Return how many messages a list holds."""
        return len(self._lists[target])

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
