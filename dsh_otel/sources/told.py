"""What a running harness tells, in the form in which it is handed on to the worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from dsh_core.decode import (
    Envelope,
    ExactEnvelope,
    from_envelope,
    from_mapping,
    strict_decoder,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from opentelemetry.trace import SpanContext

    from dsh_core.events import SessionEvent
    from dsh_core.faults import Fault

_strict = strict_decoder(packed=False)
_MALFORMED = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


@dataclass(frozen=True, slots=True, eq=False)
class Process:
    """A process of the runtime.

    Attributes:
        root: The folder of the sessions that it writes, None if nobody knows it.
        since: When it was started, Unix time in ms.
        format: Generation of the logs that it writes; None if nobody knows it.
    """

    root: Path | None
    since: int
    format: int | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """An event was notified.

    Attributes:
        process: Who told it.
        session_id: Its session.
        event: The event as JSON; as it is where JSON cannot say it.
        faults: What is wrong with it.
    """

    process: Process
    session_id: str
    event: bytes | SessionEvent
    faults: Sequence[Fault] = ()


@dataclass(frozen=True, slots=True)
class Idle:
    """A session has nothing left to do.

    Attributes:
        process: Who told it.
        session_id: The session.
    """

    process: Process
    session_id: str


@dataclass(frozen=True, slots=True)
class Started:
    """A session has started another one.

    Attributes:
        process: Who told it.
        session_id: The one that is started.
        parent_id: The one that starts it.
    """

    process: Process
    session_id: str
    parent_id: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The program is about to say something in a session.

    Attributes:
        process: Whom it asks.
        session_id: The session.
        token: Stands for the message until its id is known.
        caller: The span that is current meanwhile, None if there is none.
    """

    process: Process
    session_id: str
    token: object
    caller: SpanContext | None


@dataclass(frozen=True, slots=True)
class Answered:
    """The program has said something in a session, or failed to.

    Attributes:
        process: Whom it asked.
        session_id: The session.
        token: As in `Asked`.
        message_id: Id of the message, None if there is none.
    """

    process: Process
    session_id: str
    token: object
    message_id: str | None


@dataclass(frozen=True, slots=True)
class Ended:
    """A process of the runtime has ended: its logs are complete.

    Attributes:
        process: The process.
    """

    process: Process


Item = Told | Idle | Started | Asked | Answered | Ended


def notified(process: Process, method: object, payload: Mapping[str, Any]) -> Item | None:
    """Take a notification out of the hands of a program that may change it.

    Args:
        process: Who told it.
        method: Its method.
        payload: Its payload.

    Returns:
        What it tells, None if that is nothing that matters.
    """
    session_id = payload.get("sessionId")
    if method == "subagent.started":
        parent, child = payload.get("parentSessionId"), payload.get("childSessionId")
        if isinstance(parent, str) and isinstance(child, str):
            return Started(process, child, parent)
    elif isinstance(session_id, str):
        event = payload.get("event")
        if method == "session.event" and isinstance(event, dict):
            return told(process, session_id, event)
        if method == "session.status" and payload.get("status") == "idle":
            return Idle(process, session_id)
    return None


def told(process: Process, session_id: str, event: Mapping[str, Any]) -> Told:
    """Take an event out of the hands of a program that may change it.

    Args:
        process: Who told it.
        session_id: Its session.
        event: The event.
    """
    try:
        return Told(process, session_id, msgspec.json.encode(event))
    except (TypeError, ValueError, RecursionError, OverflowError):
        made, faults = from_mapping(event)
        return Told(process, session_id, made, faults)


def read_event(one: Told, *, exact: bool) -> tuple[SessionEvent, Sequence[Fault]]:
    """Return an event as the reader of a log would, and what is wrong with it.

    Args:
        one: What was told.
        exact: Whether a key that no envelope has is wrong (v4).
    """
    data = one.event
    if not isinstance(data, bytes):
        return data, one.faults
    try:
        event: SessionEvent = _strict.decode(data)
    except _MALFORMED:
        pass
    else:
        return event, ()
    try:
        found = from_envelope(msgspec.json.decode(data, type=ExactEnvelope if exact else Envelope))
    except _MALFORMED:
        found = None
    if found is not None:
        return found, ()
    return from_mapping(msgspec.json.decode(data), exact=exact)
