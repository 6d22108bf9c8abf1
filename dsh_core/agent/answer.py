"""What came of a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsh_core.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dsh_core.session import Entry


class TurnError(HarnessError):
    """A turn has ended without an answer.

    Args:
        message: Why.
        code: Code of the failure; ``ABORTED`` if it was aborted.
    """


def answer_in(events: Iterable[Entry]) -> str:
    """Return the text of the last answer among some events.

    Args:
        events: What a session has logged.

    Raises:
        TurnError: The last turn among them has failed or was aborted, or there is none.
    """
    text, reason = "", None
    for entry in events:
        if entry.type == "assistant/message":
            text = _text(entry.data["message"]["content"])
        elif entry.type == "turn/end":
            reason = entry.data["reason"]
    if reason is None:
        raise TurnError("the agent was disposed before its turn", "ABORTED")
    _require_success(reason)
    return text


def _text(content: list[dict[str, Any]]) -> str:
    return "".join(block.get("text", "") for block in content if block.get("type") == "text")


def _require_success(reason: dict[str, Any]) -> None:
    error = reason.get("error")
    if isinstance(error, dict):
        raise TurnError(str(error.get("message", "")), str(error.get("code", "UNKNOWN")))
    if reason.get("kind") == "aborted":
        raise TurnError("the turn was aborted", "ABORTED")
