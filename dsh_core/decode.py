"""From JSON or plain mappings to `SessionEvent`: strict and fast, or lenient and total."""

from __future__ import annotations

import math
import sys
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin

import msgspec
from msgspec import Raw, Struct

from dsh_core.events import KNOWN_EVENTS, MAX_SAFE_INTEGER, UNREADABLE, KnownEvent, UnknownEvent
from dsh_core.faults import Fault, counted
from dsh_core.halves import half_fault, scrub
from dsh_core.parts import ABSENT, NO_NUMBER, Part
from dsh_core.streams import StreamEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dsh_core.events import SessionEvent

LEGACY_TYPES: Final[Mapping[str, str]] = {
    "compact/start": "compaction/start",
    "compact/summary": "compaction/summary",
    "compact/end": "compaction/end",
    "compact/prune": "compaction/prune",
}
"""Event types of July builds, by the name they have had since."""


class PackedData(Part):
    """Payload of a packed row: `dt[k-1]` ms lie between member k-1 and member k."""

    turn: int = NO_NUMBER
    step: int = NO_NUMBER
    index: int = 0
    dt: list[int] = []  # noqa: RUF012 - msgspec makes a fresh list each time
    texts: list[str] = []  # noqa: RUF012 - as above
    args: list[str] = []  # noqa: RUF012 - as above
    id: str = ""
    name: str | None = None


class PackedRow(Struct, tag_field="type", gc=False):
    """A run of stream deltas that v0 and v1 store as one row."""

    seq0: int
    time0: int
    data: PackedData
    dt: list[int] = []


class TextChunks(PackedRow, tag="text-chunks", gc=False):
    """Packed text deltas."""


class ReasoningChunks(PackedRow, tag="reasoning-chunks", gc=False):
    """Packed reasoning deltas."""


class ToolCallChunks(PackedRow, tag="tool-call-chunks", gc=False):
    """Packed tool-call argument deltas."""


PACKED_ROWS: Final = (TextChunks, ReasoningChunks, ToolCallChunks)


class Envelope(Struct, rename="camel", gc=False):
    """An event of which only the envelope is decoded; `type` may be anything."""

    type: str
    seq: int
    time: int
    data: Raw
    surface_op: Raw = ABSENT
    source_event_seqs: Raw = ABSENT
    ignorable: Raw = ABSENT


class ExactEnvelope(Envelope, gc=False, forbid_unknown_fields=True):
    """The envelope of v4, which has no further keys."""


ENVELOPE_KEYS: Final = frozenset(
    field.encode_name for field in msgspec.structs.fields(ExactEnvelope)
)
"""The keys that a row of v4 may have."""


def strict_decoder(*, packed: bool) -> msgspec.json.Decoder[Any]:
    """Return the decoder of the fast path.

    Args:
        packed: Whether packed rows may occur (v0, v1); they decode to `PackedRow`.
    """
    types: tuple[type, ...] = tuple(KNOWN_EVENTS.values())
    if packed:
        types += PACKED_ROWS
    union: Any = types[0]
    for cls in types[1:]:
        union |= cls
    return msgspec.json.Decoder(union)


def _data_type(cls: type[KnownEvent]) -> Any:  # noqa: ANN401 - a type expression
    return next(f.type for f in msgspec.structs.fields(cls) if f.name == "data")


_DATA_TYPES: Final[Mapping[str, Any]] = {tag: _data_type(cls) for tag, cls in KNOWN_EVENTS.items()}
_DATA_DECODERS: Final[Mapping[str, Callable[[Raw], Any]]] = {
    tag: msgspec.json.Decoder(kind).decode for tag, kind in _DATA_TYPES.items() if kind is not Raw
}
_decode_entries: Final = msgspec.json.Decoder(list[StreamEntry]).decode
_OBJECT_START: Final = b"{"


def from_envelope(envelope: Envelope) -> SessionEvent | None:
    """Build the event of an envelope whose payload has the declared shape.

    Returns:
        The event, or None when its payload is of another shape (use `from_mapping` then).
    """
    kind = LEGACY_TYPES.get(envelope.type, envelope.type)
    data: Any = envelope.data
    if kind in _DATA_DECODERS:
        try:
            data = _DATA_DECODERS[kind](data)
        except (msgspec.MsgspecError, RecursionError):
            return None
    elif not kind or bytes(memoryview(data)[:1]) != _OBJECT_START:
        return None
    return _event(
        kind,
        data,
        envelope.seq,
        envelope.time,
        (envelope.surface_op, envelope.source_event_seqs, envelope.ignorable),
    )


def _event(kind: str, data: Any, seq: int, time: int, more: tuple[Raw, Raw, Raw]) -> SessionEvent:  # noqa: ANN401 - each type has its own
    """Build an event of any type; `more` are the raw fields of its envelope."""
    surface_op, sources, ignorable = more
    cls: Any = KNOWN_EVENTS.get(kind)
    own = {"type": kind} if cls is None else {}
    event: SessionEvent = (cls or UnknownEvent)(
        **own,
        data=data,
        seq=seq,
        time=time,
        surface_op=surface_op,
        source_event_seqs=sources,
        ignorable=ignorable,
    )
    return event


def from_mapping(
    source: Mapping[str, Any], *, line: int = 0, note: str = "", exact: bool = False
) -> tuple[SessionEvent, list[Fault]]:
    """Build an event from any mapping; total: what is wrong becomes a fault, never an exception.

    Args:
        source: The event as a mapping of the wire's names, of whatever quality.
        line: 1-based line for the faults; 0 when the event came from no file.
        note: Something already known to be wrong with the envelope (a NaN, say).
        exact: Whether a key that no envelope has is wrong (v4).

    Returns:
        The event, with `UNREADABLE` for a seq or time that cannot be read, and what is wrong with
        it: half characters, for which U+FFFD stands then, and in one ``envelope.invalid`` fault
        everything else.
    """
    whole = _whole(source)
    faults = [] if whole is source else [half_fault(line)]
    source = whole
    problems = [note] if note else []
    odd = len(source.keys() - ENVELOPE_KEYS) if exact else 0
    if odd:
        problems.append(counted(odd, "unknown key"))
    kind = source.get("type")
    if not isinstance(kind, str) or not kind:
        problems.append(_problem("type", "a string", kind))
        kind = ""
    kind = LEGACY_TYPES.get(kind, kind)
    seq = _integer(source, "seq", problems)
    time = _integer(source, "time", problems)
    data = source.get("data")
    if not isinstance(data, dict):
        problems.append(_problem("data", "an object", data))
        data = {}
    kept = _raw(source, "surfaceOp"), _raw(source, "sourceEventSeqs"), _raw(source, "ignorable")
    event = _event(kind, _lenient(_DATA_TYPES.get(kind, Raw), data), seq, time, kept)
    if not problems:
        return event, faults
    known_seq = seq if seq != UNREADABLE else None
    partial = bool(note) or not kind or not isinstance(source.get("data"), dict)
    message = "; ".join(problems)
    faults.append(Fault("envelope.invalid", message, line, known_seq, partial=partial))
    return event, faults


def _whole(source: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a mapping without half characters: the same one if it has none, as nearly always."""
    try:
        msgspec.json.encode(source, enc_hook=_no_json)
    except UnicodeEncodeError:
        try:
            return dict(scrub(source))
        except RecursionError:
            return source
    except _MISFITS:
        # What it is instead, each part of it shows.
        return source
    return source


def _integer(source: Mapping[str, Any], name: str, problems: list[str]) -> int:
    value = source.get(name)
    # JavaScript knows one number type: 3.0 is the integer 3. What is negative is judged in its
    # place in the log, as it is when the strict decoder lets it through.
    if isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, float) and value.is_integer() and not is_minus_zero(value):
            value = int(value)
        if isinstance(value, int) and abs(value) <= MAX_SAFE_INTEGER:
            return value
        if isinstance(value, int) and value > MAX_SAFE_INTEGER:
            problems.append(f"{name} must be a non-negative integer, not one beyond 2^53 - 1")
            return UNREADABLE
    problems.append(_problem(name, "a non-negative integer", value))
    return UNREADABLE


def is_minus_zero(value: object) -> bool:
    """Whether a value is the number that equals zero and is another to the harness."""
    return isinstance(value, float) and not value and math.copysign(1, value) < 0


def _problem(name: str, wanted: str, value: object) -> str:
    if value is None:
        return f"{name} is missing"
    return f"{name} must be {wanted}, not {_what(value)}"


def _what(value: object) -> str:
    """Say what a value is without quoting it: it may be anything, a prompt too."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if is_minus_zero(value):
            return "minus zero"
        return "a fraction" if math.isfinite(value) else "NaN or infinite"
    if isinstance(value, int):
        return "a number"
    if isinstance(value, str):
        return "a string" if value else "an empty string"
    return "an object" if isinstance(value, dict) else "a list"


def to_raw(value: object) -> Raw:
    """Encode a plain value as raw JSON; what JSON cannot say becomes null."""
    try:
        return Raw(msgspec.json.encode(value, enc_hook=_no_json))
    except (msgspec.MsgspecError, RecursionError, TypeError, ValueError, UnicodeError):
        return Raw(b"null")


def _no_json(_value: object) -> None:
    return None


def _raw(source: Mapping[str, Any], name: str) -> Raw:
    return to_raw(source[name]) if name in source else ABSENT


_LARGEST: Final = int(sys.float_info.max)
ARGUMENTS: Final = "arguments"
_MISFITS: Final = (msgspec.MsgspecError, RecursionError, TypeError, ValueError)


def _lenient(kind: Any, value: Any) -> Any:  # noqa: ANN401 - type expressions and JSON values
    """Convert what fits; a field of another shape keeps its default."""
    if kind is Raw:
        return to_raw(value)
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _lenient_struct(kind, value)
    if get_origin(kind) is list and isinstance(value, list):
        # One odd item must not hide its neighbours.
        return [item for odd in value for item in _lenient_item(get_args(kind)[0], odd)]
    if isinstance(kind, UnionType):
        return None if value is None else _lenient(_option(kind, value), value)
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if kind is int and isinstance(value, int) and abs(value) > _LARGEST:
        # Infinite to JavaScript; Python may refuse to print it.
        raise msgspec.ValidationError
    return msgspec.convert(value, kind)


def _option(kind: UnionType, value: Any) -> Any:  # noqa: ANN401 - as above
    """Return which type of a union a value is meant to be: of several, the one that it names."""
    options = [option for option in get_args(kind) if option is not type(None)]
    if len(options) == 1:
        return options[0]
    named = value.get("type") if isinstance(value, dict) else None
    for option in options:
        if option.__struct_config__.tag == named:
            return option
    raise msgspec.ValidationError


def _lenient_struct(kind: type[Struct], value: Any) -> Struct:  # noqa: ANN401 - a JSON value
    if not isinstance(value, dict):
        raise msgspec.ValidationError
    found = {}
    for field in msgspec.structs.fields(kind):
        if field.encode_name in value:
            given = value[field.encode_name]
            if field.name == ARGUMENTS and field.type is str and isinstance(given, dict | list):
                # An object instead of its JSON text.
                given = bytes(to_raw(given)).decode("utf-8", "replace")
            try:
                found[field.name] = _lenient(field.type, given)
            except _MISFITS:
                if field.type == bool | None:
                    found[field.name] = None
    return kind(**found)


def stream_entries(stream: Raw) -> Sequence[StreamEntry]:
    """Decode a packed stream; of an entry of another shape what fits is kept.

    Args:
        stream: The stream; one of another shape has no entries.
    """
    try:
        return _decode_entries(stream)
    except (msgspec.MsgspecError, RecursionError):
        pass
    try:
        entries = msgspec.json.decode(stream)
    except (msgspec.MsgspecError, RecursionError):
        return ()
    if not isinstance(entries, list):
        return ()
    # What is no entry at all counts as one that cannot be read.
    return [(_lenient_item(StreamEntry, entry) or [StreamEntry()])[0] for entry in entries]


def _lenient_item(kind: Any, value: Any) -> list[Any]:  # noqa: ANN401 - as above
    try:
        return [_lenient(kind, value)]
    except _MISFITS:
        return []
