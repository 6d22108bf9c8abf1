"""A session log of any generation, read as batches of events and faults.

Three ways of decoding, from fast to thorough; each gives the same events where the faster one
works: whole batches with the strict decoder, batches whose payloads are decoded one by one (types
or shapes that the strict decoder does not know), and single lines with every means of
`dsh_core.logs.salvage`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dsh_core.decode import (
    PACKED_ROWS,
    Envelope,
    ExactEnvelope,
    PackedRow,
    from_envelope,
    from_mapping,
    strict_decoder,
    to_raw,
)
from dsh_core.events import SessionEvent, SessionHeader
from dsh_core.faults import Fault, counted
from dsh_core.logs import packed
from dsh_core.logs.find import STDIN
from dsh_core.logs.foreign import foreign
from dsh_core.logs.frames import BadFrame, ByteSource, read_blocks
from dsh_core.logs.lines import MAX_LINE, Lines, Piece, read_lines
from dsh_core.logs.salvage import (
    BOM,
    EVENT_START,
    SPACE,
    Salvage,
    from_head,
    has_deep_line,
    salvage,
    too_deep,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

NEWEST_VERSION: Final = 4
_FILE_NAME: Final = re.compile(r"session(?:\.v(\d+))?\.jsonl(?:\.zstd?)?")
_SUFFIX: Final = re.compile(r"\.jsonl(?:\.zstd?)?$")
_MAX_JOINED: Final = 1000
_PACKED_VERSIONS: Final = (0, 1)
_MAX_BLANK: Final = 1 << 20
_HEADER: Final = re.compile(rb'\s*\{.{0,64}"session"', re.DOTALL)
_VERSION: Final = re.compile(rb'"version"\s*:\s*(\d)\b')


class UnsupportedFormatError(ValueError):
    """The log is of a generation that this release does not know."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Events in the order of the log.

    Attributes:
        events: The events.
        lines: The 1-based line of each.
    """

    events: Sequence[SessionEvent]
    lines: Sequence[int]


class SessionLog:
    """One session log, opened for reading once.

    Args:
        source: The log's bytes, plain or zstd.
        name: Path or other name; its last part is the session id of a log without header.
        max_line: The longest line that is read whole, in bytes.

    Attributes:
        header: The header row, or one made up from the name.
        header_line: Line of the header row, 0 if the log has none.
        header_row: The header row as a plain mapping, None if the log has none.

    Raises:
        UnsupportedFormatError: The header names a version newer than this release, or the file is
            no session log at all.
    """

    def __init__(self, source: ByteSource, name: str, max_line: int = MAX_LINE) -> None:
        self.name = name
        self._max_line = max_line
        self._next_line = 1
        self._items = read_lines(read_blocks(source), max_line)
        self._early: tuple[Salvage, int] | None = None
        self._damaged_version: int | None = None
        self._opening = b""
        self.header_row: dict[str, Any] | None = None
        self.header_line = 0
        first = self._first_with_content()
        if isinstance(first, Lines | Piece):
            what = foreign(first.data)
            if what:
                raise UnsupportedFormatError(what)
            self._opening = first.data.lstrip(SPACE)[:MAX_LINE]
        self._first = self._read_header(first)
        self.header = self._make_header()
        expand = self.header.version in _PACKED_VERSIONS
        self._strict = strict_decoder(packed=expand)
        self._decode_lines = self._strict.decode_lines
        self._expand = expand
        self._exact = self.header.version == NEWEST_VERSION
        kind = ExactEnvelope if self._exact else Envelope
        self._envelopes: msgspec.json.Decoder[Envelope] = msgspec.json.Decoder(kind)
        self._held: list[tuple[bytes, int]] = []

    def _first_with_content(self) -> Lines | Piece | BadFrame | None:
        """Return the first item that is more than blank lines, of which there may be many."""
        blank = 0
        for item in self._items:
            if not isinstance(item, Lines) or item.data.removeprefix(BOM).strip(SPACE):
                return item
            blank += len(item.data)
            if blank > _MAX_BLANK:
                return item
        return None

    def _read_header(
        self, first: Lines | Piece | BadFrame | None
    ) -> Lines | Piece | BadFrame | None:
        """Take the header row off the first item, if that begins with one."""
        if not isinstance(first, Lines | Piece):
            return first
        data, line = first.data, first.first if isinstance(first, Lines) else first.line
        data = data.removeprefix(BOM)
        # A lost newline or a flush of nothing must not hide the header.
        blank = data.rfind(b"\n", 0, len(data) - len(data.lstrip(SPACE))) + 1
        line += data.count(b"\n", 0, blank)
        data = data[blank:]
        row, _, rest = data.partition(b"\n")
        value = self._parse_header(row, line)
        if value is not None:
            self.header_row, self.header_line = value, line
            self._next_line = line + 1
            line, data = line + 1, rest
        if not data:
            return None
        if isinstance(first, Piece):
            size = first.size - (len(first.data) - len(data))
            return replace(first, data=data, line=line, size=size)
        return Lines(data, line, first.count - (line - first.first))

    def _parse_header(self, row: bytes, line: int) -> dict[str, Any] | None:
        try:
            value = None if too_deep(row) else msgspec.json.decode(row)
        except (msgspec.MsgspecError, RecursionError):
            found = salvage(row, line)
            if not found.values or not _is_header(found.values[0], damaged=found.altered):
                # What is left of it is read like any line.
                match = _VERSION.search(row) if _HEADER.match(row) else None
                self._damaged_version = int(match[1]) if match else None
                return None
            value = found.values.pop(0)
            # It is no event: what damage cost is the header itself.
            found.faults = [replace(fault, partial=False) for fault in found.faults]
            self._early = (found, line)
            return value
        return value if isinstance(value, dict) and _is_header(value) else None

    def _make_header(self) -> SessionHeader:
        file = PurePath(self.name)
        match = _FILE_NAME.fullmatch(file.name)
        # Generations live in a folder named after the session; June logs are named after it.
        name = (file.parent.name if match else _SUFFIX.sub("", file.name)) or self.name
        if self.name == STDIN:
            # Sessions that come this way must not be taken for one another.
            opening = self._opening.partition(b"\n")[0]
            name = f"stdin-{hashlib.blake2b(opening, digest_size=8).hexdigest()}"
        if self.header_row is None:
            version = int(match[1]) if match and match[1] else self._damaged_version
            _require_known(version)
            return SessionHeader(id=name, version=version)
        row = self.header_row
        _require_known(row.get("version"))
        known = {}
        for field in msgspec.structs.fields(SessionHeader):
            if field.encode_name in row:
                try:
                    known[field.name] = msgspec.convert(row[field.encode_name], field.type)
                except msgspec.ValidationError:
                    continue
        known["id"] = known.get("id") or name
        if not isinstance(known.get("version"), int):
            known["version"] = int(match[1]) if match and match[1] else 0
        return SessionHeader(**known)

    def read(self) -> Iterator[Batch | Fault]:
        """Yield everything the log holds, in its order."""
        if self._early is not None:
            yield from self._salvaged(*self._early)
        if self._first is not None:
            yield from self._read_item(self._first)
        for item in self._items:
            yield from self._read_item(item)
        yield from self._flush()

    def go_on(self, source: ByteSource) -> Iterator[Batch | Fault]:
        """Yield what has been added to the log.

        Args:
            source: What follows on what was read: whole lines, or whole frames of them.
        """
        for item in read_lines(read_blocks(source), self._max_line, self._next_line):
            yield from self._read_item(item)
        yield from self._flush()

    def __iter__(self) -> Iterator[SessionEvent]:
        """Yield the events alone, leaving out what is wrong with the log."""
        for item in self.read():
            if isinstance(item, Batch):
                yield from item.events

    def _read_item(self, item: Lines | Piece | BadFrame) -> Iterator[Batch | Fault]:
        if isinstance(item, Lines):
            self._next_line = item.first + item.count
            slow = self._held or has_deep_line(item.data)
            batch = None if slow else self._read_fast(item)
            if batch is not None:
                yield batch
            else:
                yield from self._read_slowly(item)
        elif isinstance(item, Piece):
            self._next_line = item.line + 1
            yield from self._read_piece(item)
        else:
            yield from self._flush()
            rule = "line.torn-tail" if item.torn else "line.frame-corrupt"
            message = f"zstd frame at byte {item.offset}: {item.reason}"
            yield Fault(rule, message, item.line, lost=True)

    def _read_fast(self, lines: Lines) -> Batch | None:
        data = lines.data
        if not data.isascii():
            try:
                data.decode("utf-8")
            except UnicodeDecodeError:
                return None
        try:
            events = self._decode_lines(data)
        except msgspec.ValidationError:
            return self._read_mixed(lines)
        except (msgspec.DecodeError, RecursionError):
            return None
        if len(events) != lines.count:
            # Blank lines, or several events on a line.
            return None
        if self._expand and not _PACKED.isdisjoint(map(type, events)):
            return self._unpack(events, lines.first)
        return Batch(events, range(lines.first, lines.first + lines.count))

    def _read_mixed(self, lines: Lines) -> Batch | None:
        if self._expand:
            return None
        try:
            envelopes = self._envelopes.decode_lines(lines.data)
        except (msgspec.MsgspecError, RecursionError):
            return None
        if len(envelopes) != lines.count:
            return None
        events = []
        for envelope in envelopes:
            event = from_envelope(envelope)
            if event is None:
                return None
            events.append(event)
        return Batch(events, range(lines.first, lines.first + lines.count))

    def _unpack(self, rows: Sequence[SessionEvent | PackedRow], first: int) -> Batch | None:
        events: list[SessionEvent] = []
        numbers: list[int] = []
        for line, row in enumerate(rows, first):
            if isinstance(row, SessionEvent):
                events.append(row)
                numbers.append(line)
                continue
            if packed.check(row, line) is not None:
                return None
            events.extend(packed.expand(row))
            numbers.extend([line] * packed.members(row))
        return Batch(events, numbers)

    def _read_slowly(self, lines: Lines) -> Iterator[Batch | Fault]:
        for line, data in enumerate(lines.data.split(b"\n")[: lines.count], lines.first):
            yield from self._read_line(data, line)

    def _read_piece(self, piece: Piece) -> Iterator[Batch | Fault]:
        if piece.size > len(piece.data):
            yield from self._flush()
            yield from self._salvaged(from_head(piece.data, piece.line, piece.size), piece.line)
            return
        if piece.end or piece.cut:
            found = salvage(piece.data, piece.line)
            if found.unreadable and not found.values and not self._held:
                # What was cut was never committed, and nobody can tell what it was.
                if not piece.cut:
                    message = f"the last line is cut after {counted(piece.size, 'byte')}"
                    yield Fault("line.torn-tail", message, piece.line, lost=True)
                return
        yield from self._read_line(piece.data, piece.line)

    def _strictly(self, data: bytes) -> SessionEvent | PackedRow | None:
        """Decode one line by the faster ways, if they are enough."""
        if too_deep(data):
            return None
        try:
            if not data.isascii():
                data.decode("utf-8")
            event: SessionEvent | PackedRow = self._strict.decode(data)
        except msgspec.ValidationError:
            try:
                return from_envelope(self._envelopes.decode(data))
            except (msgspec.MsgspecError, RecursionError):
                return None
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None
        return event

    def _read_line(self, data: bytes, line: int) -> Iterator[Batch | Fault]:
        event = self._strictly(data)
        if event is not None:
            yield from self._flush()
            yield from self._whole(event, line)
            return
        if self._held:
            yield from self._continue(data, line)
            return
        if not data.strip(SPACE):
            return
        found = salvage(data, line)
        if found.unterminated and not found.values:
            self._held = [(data, line)]
            return
        yield from self._salvaged(found, line)

    def _continue(self, data: bytes, line: int) -> Iterator[Batch | Fault]:
        """Take a line as part of a string that an earlier line left open, if that makes JSON."""
        text = data.decode("utf-8", "replace")
        if EVENT_START.match(text) or len(self._held) >= _MAX_JOINED:
            yield from self._flush()
            yield from self._read_line(data, line)
            return
        self._held.append((data, line))
        if sum(len(part) for part, _ in self._held) > MAX_LINE:
            yield from self._flush()
            return
        if b'"' not in data:
            return
        first = self._held[0][1]
        found = salvage(b"\n".join(part for part, _ in self._held), first)
        if found.begins:
            self._held = []
            yield from self._salvaged(found, first)
        elif found.values or not found.unterminated:
            # More lines will not help.
            yield from self._flush()

    def _flush(self) -> Iterator[Batch | Fault]:
        """Give up on lines held back for a string that never closed."""
        held, self._held = self._held, []
        for data, line in held:
            yield from self._salvaged(salvage(data, line), line)

    def _whole(self, event: SessionEvent | PackedRow, line: int) -> Iterator[Batch | Fault]:
        if isinstance(event, SessionEvent):
            yield Batch([event], [line])
            return
        fault = packed.check(event, line)
        if fault is not None:
            yield fault
        events = list(packed.expand(event))
        if events:
            yield Batch(events, [line] * len(events))

    def _salvaged(self, found: Salvage, line: int) -> Iterator[Batch | Fault]:
        yield from found.faults
        for value in found.values:
            if value.get("type") in _ROW_TYPES and "seq0" in value:
                yield from self._row(value, line, altered=found.altered)
                continue
            event, faults = from_mapping(value, line=line, note=found.note, exact=self._exact)
            if not found.altered:
                yield from faults
            yield Batch([event], [line])

    def _row(self, value: dict[str, Any], line: int, *, altered: bool) -> Iterator[Batch | Fault]:
        try:
            yield from self._whole(self._strict.decode(to_raw(value)), line)
        except (msgspec.MsgspecError, RecursionError):
            if not altered:
                message = "packed row with fields of a wrong kind"
                yield Fault("line.row-malformed", message, line, lost=True)


def _is_header(row: Mapping[str, Any], *, damaged: bool = False) -> bool:
    """Whether a row is a header; a damaged one may have lost its type."""
    return row.get("type") == "session" or (damaged and "createdAt" in row and "seq" not in row)


def _require_known(version: object) -> None:
    if isinstance(version, int) and not isinstance(version, bool) and version > NEWEST_VERSION:
        message = f"format version {version} is newer than this release knows ({NEWEST_VERSION})"
        raise UnsupportedFormatError(message)


_PACKED: Final = frozenset(PACKED_ROWS)

_ROW_TYPES: Final = ("text-chunks", "reasoning-chunks", "tool-call-chunks")
