"""What a stream source tells: events of sessions whose logs somebody else holds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dsh_core.decode import ExactEnvelope, from_envelope, from_mapping, strict_decoder
from dsh_core.faults import Fault
from dsh_core.logs.salvage import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dsh_core.events import SessionEvent, SessionHeader

MAX_ID: Final = 512
"""Longest session id, in characters."""

FOREIGN: Final = "foreign"
"""Kind of an aside about something that is not about sessions at all."""

MAX_KIND: Final = 64
"""Longest kind of an aside, in characters."""

_RELEASE: Final = re.compile(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})")
# Each with the version of the logs that it was the first to write.
_WRITERS: Final = (((0, 2, 0), 4), ((0, 1, 5), 3), ((0, 0, 0), 0))
_NEWEST: Final = _WRITERS[0][1]
_decode_known: Final = strict_decoder(packed=False).decode
_decode_any: Final = msgspec.json.Decoder(ExactEnvelope).decode


@dataclass(frozen=True, slots=True)
class Told:
    """An event of a session.

    Attributes:
        header: The session's header, as far as the source says; `version` is None if it does not.
        event: The event's envelope, as in a log.
        line: Line of the file that it stands on, 0 if it has none of its own.
        bare: Whether the source leaves out what events say of the surface.
        shuffled: Whether the source may tell things twice, or out of their order.
        size: About how many bytes it takes; 0 if nobody knows.
    """

    header: SessionHeader
    event: Mapping[str, Any]
    line: int = 0
    bare: bool = False
    shuffled: bool = False
    size: int = 0


@dataclass(frozen=True, slots=True)
class Aside:
    """Something that is told beside events.

    Attributes:
        kind: ``session.status``, ``shutdown``, ``agent-error``, or ``elided`` for an event of which
            the source kept nothing; ``foreign`` for what is not about sessions at all.
        session: Id of the session; empty if it concerns none.
        parent: Id of the session that it was started by, if that is what is told.
    """

    kind: str
    session: str = ""
    parent: str = ""


def version_of(release: object) -> int | None:
    """Return the version of the logs that a release of the harness writes, None if unknown.

    Args:
        release: As it names itself, for example ``0.1.2-rc.1``.
    """
    match = _RELEASE.match(release) if isinstance(release, str) else None
    if match is None:
        return None
    number = tuple(map(int, match.groups()))
    return next(version for first, version in _WRITERS if number >= first)


def guess_version(events: Iterable[Mapping[str, Any]]) -> int:
    """Return the version of the log that events are of, by what only some versions have.

    Args:
        events: Events of one session; where they show nothing, the newest is assumed.
    """
    streams = False
    for event in events:
        kind, data = event.get("type"), event.get("data")
        if not isinstance(data, Mapping):
            continue
        if kind == "assistant/chunk":
            return 0
        if kind == "assistant/message":
            streams = streams or "stream" in data
        elif kind == "tool/result":
            message = data.get("message")
            if not isinstance(message, Mapping):
                continue
            if message.get("role") == "tool":
                return _NEWEST
            if streams:
                return 3
            return 0
    return _NEWEST


def session_id(value: object) -> str:
    """Return a session's id; empty if it is none."""
    return value if isinstance(value, str) and len(value) <= MAX_ID else ""


def whole_number(value: object) -> int | None:
    """Return an integer that came as a number or as a text; None if it is none."""
    if isinstance(value, str) and value.isascii() and len(value) < 20:  # noqa: PLR2004 - 64 bits
        try:
            return int(value)
        except ValueError:
            return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def decoded(told: Told, version: int | None) -> tuple[SessionEvent | None, Sequence[Fault]]:
    """Return what is told as an event; total, as `from_mapping`.

    Args:
        told: What is told.
        version: The version of the log that it is of.

    Returns:
        The event, None if it is nested too deeply to be read, and what is wrong with it.
    """
    if is_deep(told.event):
        return None, [Fault("line.too-deep", "nested too deeply to be read", told.line, lost=True)]
    try:
        text = msgspec.json.encode(told.event)
        try:
            event: SessionEvent | None = _decode_known(text)
        except msgspec.ValidationError:
            event = from_envelope(_decode_any(text))
        if event is not None:
            return event, ()
    except (msgspec.MsgspecError, RecursionError, TypeError, ValueError):
        # What is wrong with it, the thorough way finds out.
        pass
    return from_mapping(told.event, line=told.line, exact=version == _NEWEST)


def is_deep(value: object) -> bool:
    """Whether a plain value is nested too deeply for some decoder."""
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
