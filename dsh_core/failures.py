"""Failures of every kind and generation, in one shape."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dsh_core.codes import Classification, classify
from dsh_core.events import (
    AssistantAttempt,
    AssistantChunk,
    ToolResult,
    TurnEnd,
)
from dsh_core.parts import ABSENT, Failure
from dsh_core.streams import AnyChunk, Finish, FinishReason, Usage, stream_ends

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from msgspec import Raw

    from dsh_core.events import SessionEvent

_decode_finish: Final = msgspec.json.Decoder(FinishReason).decode
_decode_usage: Final = msgspec.json.Decoder(Usage).decode

INTERRUPTED: Final = "EINTR"
"""Nearest errno of a turn that crash repair closed."""

BLOCKED: Final = "EPERM"
"""Nearest errno of a turn that a hook blocked."""


class Part(StrEnum):
    """What failed."""

    TOOL = "tool"
    ATTEMPT = "attempt"
    TURN = "turn"


@dataclass(frozen=True, slots=True)
class SessionFailure:
    """A failure that an event reports.

    Attributes:
        part: What failed.
        classification: Code, name, family, route.
        text: What the failure says; it may hold content.
        retry_after_ms: How long the provider asks to wait, if it does.
    """

    part: Part
    classification: Classification
    text: str
    retry_after_ms: float | None = None


def failure_of(event: SessionEvent) -> SessionFailure | None:
    """Return the failure that an event reports, None if it reports none.

    Args:
        event: Any event.
    """
    read = _READERS.get(type(event))
    return None if read is None else read(event)


def _of_result(event: ToolResult) -> SessionFailure | None:
    data = event.data
    if not data.failed or not event.appends:
        return None
    error = data.error
    text = data.text()
    code, name = (error.code or None, error.name or None) if error is not None else (None, None)
    return SessionFailure(Part.TOOL, classify(code, name, text), text)


def _of_chunk(event: AssistantChunk) -> SessionFailure | None:
    chunk = event.data.chunk
    return _of_finish(finish_of(chunk)) if isinstance(chunk, Finish) else None


def _of_attempt(event: AssistantAttempt) -> SessionFailure | None:
    _, last = stream_ends(event.data.stream)
    return None if last is None else _of_finish(finish_of(last.chunk))


def _of_finish(reason: FinishReason | None) -> SessionFailure | None:
    if reason is None or reason.kind not in ("error", "aborted"):
        return None
    failure = reason.failure or Failure(message=reason.message, code=reason.code)
    code = failure.code or ("ABORTED" if reason.kind == "aborted" else None)
    return _of_model(Part.ATTEMPT, failure, code)


def _of_turn(event: TurnEnd) -> SessionFailure | None:
    reason = event.data.reason
    failure = reason.failure
    if failure is not None:
        return _of_model(Part.TURN, failure, failure.code or None)
    code = {"interrupted": INTERRUPTED, "blocked": BLOCKED}.get(reason.kind)
    if code is None:
        return None
    found = classify(None, None, f"Error: {code}: {reason.kind}, turn")
    return SessionFailure(Part.TURN, found, reason.kind)


def _of_model(part: Part, failure: Failure, code: str | None) -> SessionFailure:
    return SessionFailure(
        part,
        classify(code, None, failure.message),
        failure.message,
        failure.provider_retry_after_ms,
    )


def finish_of(chunk: AnyChunk | None) -> FinishReason | None:
    """Return why a stream ended, None if the chunk does not end it."""
    if not isinstance(chunk, Finish) or chunk.reason is ABSENT:
        return None
    try:
        return _decode_finish(chunk.reason)
    except (msgspec.MsgspecError, RecursionError):
        return None


def usage_of(raw: Raw) -> Usage | None:
    """Decode token counts, None if there are none."""
    if raw is ABSENT:
        return None
    try:
        return _decode_usage(raw)
    except (msgspec.MsgspecError, RecursionError):
        return None


_READERS: Final[Mapping[type[SessionEvent], Callable[[Any], SessionFailure | None]]] = {
    ToolResult: _of_result,
    AssistantChunk: _of_chunk,
    AssistantAttempt: _of_attempt,
    TurnEnd: _of_turn,
}
"""How to read the events that can report a failure; most events cannot."""

REPORTING: Final = frozenset(str(kind.__struct_config__.tag) for kind in _READERS)
"""Types of these events."""
