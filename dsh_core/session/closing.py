"""Closing what a log has left open: the results that are missing, the step, the turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import UNSET, UnsetType

from dsh_core.contract.repairs import NOT_STARTED, NOT_STARTED_TEXT
from dsh_core.session.entry import APPEND, Entry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsh_core.session.session import Session

INTERRUPTED: Final = "interrupted"
FORKED: Final = "forked"
_NOT_STARTED: Final = dict(zip(("name", "code"), NOT_STARTED, strict=True))
_UNKNOWN: Final = {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"}
_UNKNOWN_TEXT: Final = "Error: the tool was started, and its outcome is not known"


class Closer(NamedTuple):
    """An event that closes something.

    Attributes:
        type: Its type.
        data: Its payload.
        sources: Seqs of the events that it comes from.
        surface_op: Its surface operation.
    """

    type: str
    data: dict[str, Any]
    sources: list[int] | None = None
    surface_op: str | None = None


def closers(
    log: Sequence[Entry], kind: str, reason: Mapping[str, Any] | None = None
) -> list[Closer]:
    """Return what closes the open turn of a log; nothing if none is open.

    Args:
        log: The log.
        kind: Why it is closed: ``interrupted`` or ``forked``.
        reason: Reason of the turn's end; just the kind by default.
    """
    turn, step, start = _open_place(log)
    if turn is None:
        return []
    found: list[Closer] = []
    if step is not None:
        for call_id, call in _unanswered(log, start).items():
            message_id = f"{kind}-tool-result-{call_id}-{len(log) + len(found)}"
            found.append(_missing_result(turn, step, call_id, message_id, call))
        found.append(Closer("step/end", {"turn": turn, "step": step}))
    end = {"kind": kind} if reason is None else dict(reason)
    found.append(Closer("turn/end", {"turn": turn, "reason": end}))
    return found


def closed(log: Sequence[Entry], kind: str) -> list[Entry]:
    """Return a log with its open turn closed, at the time of its last event."""
    entries = list(log)
    time = log[-1].time if log else 0
    for one in closers(log, kind):
        sources: list[int | list[int]] | UnsetType = UNSET
        if one.sources is not None:
            sources = [*one.sources]
        surface_op = UNSET if one.surface_op is None else one.surface_op
        entries.append(Entry(one.type, len(entries), time, one.data, sources, surface_op))
    return entries


def forked(parent: Session, now: int) -> list[Entry]:
    """Return what a fork begins with: all that its parent has logged, closed and marked.

    Args:
        parent: The session to fork.
        now: Unix time in milliseconds.
    """
    log = closed(parent.events, FORKED)
    time = max(now, log[-1].time) if log else now
    return [*log, Entry("session/end-seed", len(log), time, {"inherited": True})]


def open_place(log: Sequence[Entry]) -> tuple[int | None, int | None]:
    """Return the numbers of the open turn and step of a log, None for what is not open."""
    place = _open_place(log)
    return place.turn, place.step


class _Place(NamedTuple):
    turn: int | None = None
    step: int | None = None
    start: int = 0
    """Where the open step starts in the log."""


def _open_place(log: Sequence[Entry]) -> _Place:
    """Find what is open, from the end of the log; an end counts only for what it names."""
    ended: set[tuple[object, ...]] = set()
    step: int | None = None
    start: int | None = None
    for place in range(len(log) - 1, -1, -1):
        entry = log[place]
        kind = entry.type
        if kind in {"step/end", "turn/end"}:
            ended.add(_coordinates(entry))
        elif kind == "step/start" and start is None:
            coordinates = _coordinates(entry)
            start = place
            step = _number(entry, "step") if coordinates not in ended else None
        elif kind == "turn/start":
            turn = _number(entry, "turn")
            if turn is None or (turn,) in ended:
                break
            return _Place(turn, step, start or 0)
    return _Place()


def _coordinates(entry: Entry) -> tuple[object, ...]:
    turn = (_number(entry, "turn"),)
    return turn if entry.type == "turn/end" else (*turn, _number(entry, "step"))


def _number(entry: Entry, name: str) -> int | None:
    # Anybody may append anything: what is no number names nothing.
    value = entry.data.get(name) if isinstance(entry.data, dict) else None
    return value if type(value) is int else None


def _unanswered(log: Sequence[Entry], start: int) -> dict[str, Entry | None]:
    """Return the calls since some place without a result, and for each what started it."""
    calls: dict[str, Entry | None] = {}
    for place in range(start, len(log)):
        entry = log[place]
        if not isinstance(entry.data, dict):
            continue
        if entry.type == "assistant/message":
            for call_id in _advertised(entry.data):
                calls.setdefault(call_id, None)
        elif entry.type == "tool/call":
            started = entry.data.get("callId")
            if isinstance(started, str):
                calls[started] = entry
        elif entry.type == "tool/result":
            message = entry.data.get("message")
            answered = message.get("toolCallId") if isinstance(message, dict) else None
            if isinstance(answered, str):
                calls.pop(answered, None)
    return calls


def _advertised(data: dict[str, Any]) -> list[str]:
    message = data.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [
        block["id"]
        for block in (content if isinstance(content, list) else ())
        if isinstance(block, dict)
        and block.get("type") == "tool-call"
        and isinstance(block.get("id"), str)
    ]


def _missing_result(
    turn: int, step: int, call_id: str, message_id: str, call: Entry | None
) -> Closer:
    text, error = (NOT_STARTED_TEXT, _NOT_STARTED) if call is None else (_UNKNOWN_TEXT, _UNKNOWN)
    message = result_message(message_id, call_id, [{"type": "text", "text": text}], failed=True)
    data = {"turn": turn, "step": step, "message": message, "error": dict(error)}
    return Closer("tool/result", data, None if call is None else [call.seq], APPEND)


def result_message(
    message_id: str, call_id: str, content: list[dict[str, Any]], *, failed: bool
) -> dict[str, Any]:
    """Return the message of a tool's result.

    Args:
        message_id: Id of the message.
        call_id: Id of the call.
        content: What the tool says.
        failed: Whether the call failed.
    """
    return {
        "id": message_id,
        "role": "tool",
        "toolCallId": call_id,
        "source": {"kind": "tool", "callId": call_id},
        "content": content,
        "isError": failed,
    }
