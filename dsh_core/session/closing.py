"""Closing what a log has left open: the results that are missing, the step, the turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import UNSET

from dsh_core.session.entry import APPEND, Entry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsh_core.session.session import Session

INTERRUPTED: Final = "interrupted"
FORKED: Final = "forked"
_NOT_STARTED: Final = {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}
_NOT_STARTED_TEXT: Final = "Error: the tool was not started"
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
    turn, step = open_place(log)
    if turn is None:
        return []
    found: list[Closer] = []
    if step is not None:
        for call_id, call in _unanswered(log).items():
            message_id = f"{kind}-tool-result-{call_id}-{len(log) + len(found)}"
            found.append(_missing_result(turn, step, call_id, message_id, call))
        found.append(Closer("step/end", {"turn": turn, "step": step}))
    end = {"kind": kind} if reason is None else dict(reason)
    found.append(Closer("turn/end", {"turn": turn, "reason": end}))
    return found


def closed(log: Sequence[Entry], kind: str) -> list[Entry]:
    """Return a log with its open turn closed, at the time of its last event."""
    entries = list(log)
    time = max((entry.time for entry in log), default=0)
    for one in closers(log, kind):
        sources = UNSET if one.sources is None else one.sources
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
    step: int | None = None
    closed_step = False
    for entry in reversed(log):
        if entry.type == "step/end":
            closed_step = True
        elif entry.type == "step/start" and step is None and not closed_step:
            step = entry.data["step"]
        elif entry.type == "turn/end":
            return None, None
        elif entry.type == "turn/start":
            return entry.data["turn"], step
    return None, None


def _unanswered(log: Sequence[Entry]) -> dict[str, Entry | None]:
    """Return the calls of the open step without a result, and for each what started it."""
    start = next(place for place in range(len(log) - 1, -1, -1) if log[place].type == "step/start")
    calls: dict[str, Entry | None] = {}
    for place in range(start, len(log)):
        entry = log[place]
        if entry.type == "assistant/message":
            for block in entry.data["message"]["content"]:
                if block.get("type") == "tool-call":
                    calls[block["id"]] = None
        elif entry.type == "tool/call":
            calls[entry.data["callId"]] = entry
        elif entry.type == "tool/result":
            calls.pop(entry.data["message"]["toolCallId"], None)
    return calls


def _missing_result(
    turn: int, step: int, call_id: str, message_id: str, call: Entry | None
) -> Closer:
    text, error = (_NOT_STARTED_TEXT, _NOT_STARTED) if call is None else (_UNKNOWN_TEXT, _UNKNOWN)
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
