"""What exports leave out of messages: where they lie on the surface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MAX_CALLS: Final = 4096
"""How many answered calls of a session are remembered."""

_MESSAGES: Final = frozenset(
    {
        *("assistant/message", "developer/message", "system/message"),
        *("tool/result", "user/message"),
    }
)


class Surfacing:
    """Puts the messages of one session on the surface where an export does not say.

    A message is appended; but a further result of a call that has one replaces it, as when old
    results are pruned. Nothing else can be told apart.
    """

    def __init__(self) -> None:
        """Start with nothing on the surface."""
        # Seq of the last result of each call.
        self._results: dict[str, int] = {}

    def mark(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an event with what it says of the surface.

        Args:
            event: The next event of the session, as exported.
        """
        kind = event.get("type")
        if kind == "tool/call":
            # A model may use an id again.
            self._results.pop(_call_id(event), None)
        if not isinstance(kind, str) or kind not in _MESSAGES or "surfaceOp" in event:
            return event
        call, seq = _call_id(event) if kind == "tool/result" else "", event.get("seq")
        if not call or not isinstance(seq, int):
            return {**event, "surfaceOp": "append"}
        before = self._results.pop(call, None)
        self._results[call] = seq
        if len(self._results) > MAX_CALLS:
            del self._results[next(iter(self._results))]
        if before is None:
            return {**event, "surfaceOp": "append"}
        span = {"op": "replace", "startSeq": before, "endSeq": before}
        return {**event, "surfaceOp": span, "sourceEventSeqs": [before]}


def _call_id(event: Mapping[str, Any]) -> str:
    """Return the call that an event is about, of any generation; empty if none can be told."""
    data = event.get("data")
    if not isinstance(data, Mapping):
        return ""
    message = data.get("message")
    found: object = data.get("callId")
    if isinstance(message, Mapping):
        found = message.get("toolCallId")
        content = message.get("content")
        first = content[0] if isinstance(content, list) and content else None
        if found is None and isinstance(first, Mapping):
            found = first.get("toolCallId", first.get("callId"))
    return found if isinstance(found, str) else ""
