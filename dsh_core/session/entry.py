"""An entry of a live session's log: one event, with everything that it carries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from dsh_core.decode import from_mapping, strict_decoder

if TYPE_CHECKING:
    from dsh_core.events import SessionEvent

APPEND: Final = "append"
"""Surface operation of an event that adds a message for the model."""


class Entry(Struct, rename="camel", frozen=True, gc=True):
    """One event of a live session, as it is logged.

    `SessionEvent` is the partial view of it that is read, checked and traced.

    Attributes:
        type: The event's type.
        seq: Its position in the log, from 0.
        time: Unix time in milliseconds.
        data: Its payload, plain JSON.
        source_event_seqs: Seqs of the events that it comes from; runs of them may be pairs.
        surface_op: ``append``, or what it replaces, if it is a message for the model.
        ignorable: True if a reader that does not know the type may skip it.
    """

    type: str
    seq: int
    time: int
    data: Any
    source_event_seqs: list[int | list[int]] | UnsetType = UNSET
    surface_op: Any | UnsetType = UNSET
    ignorable: bool | UnsetType = UNSET

    @property
    def row(self) -> bytes:
        """The event as one line of a log, without the newline."""
        return _encode(self)

    @property
    def event(self) -> SessionEvent:
        """The event as checks and traces read it."""
        return read_event(_encode(self))


def read_event(row: bytes) -> SessionEvent:
    """Return the event of a row that an `Entry` has written; a wrong shape reads as absent."""
    try:
        event: SessionEvent = _decode(row)
    except msgspec.MsgspecError:
        event, _ = from_mapping(msgspec.json.decode(row))
    return event


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = strict_decoder(packed=False).decode
