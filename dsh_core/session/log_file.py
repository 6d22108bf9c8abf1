"""Logs that are to be continued: strictly read, and what a crash has left of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import msgspec

from dsh_core.logs.find import LogFile
from dsh_core.logs.frames import MAGIC, BadFrame, read_blocks
from dsh_core.logs.lines import Lines, Piece, read_lines
from dsh_core.logs.reader import SessionLog, UnsupportedFormatError
from dsh_core.session.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dsh_core.events import SessionHeader

SUPPORTED: Final = 4
"""The generation that can be continued; older ones can be read and checked only."""

_NAMES_ALL: Final = "`dsh-otel check` names all that is wrong"


class StoredError(ValueError):
    """A session cannot be stored, or a stored one cannot be continued; the message says why."""


class Tail(NamedTuple):
    """What is in a log, as far as it is whole.

    Attributes:
        header: Its first row, None if not even that is whole.
        events: How many events.
        last: The row of the last one, empty if there is none.
        end: Where what is whole ends, in bytes of the file.
        size: How long the file is.
    """

    header: dict[str, Any] | None
    events: int
    last: bytes
    end: int
    size: int


def read_tail(path: Path) -> Tail:
    """Look through a log that is to be continued, in bounded memory.

    Args:
        path: The log; zstd if its name says so.

    Raises:
        OSError: It cannot be read.
        StoredError: It is damaged other than by being cut short.
    """
    with LogFile(str(path), named=False).open() as source:
        head = source.read(len(MAGIC))
        packed = path.suffix != ".jsonl"
        if not head or (packed and len(head) < len(MAGIC) and MAGIC.startswith(head)):
            return Tail(None, 0, b"", 0, len(head))
        if head.startswith(MAGIC) != packed:
            raise StoredError(f"{path}: its name does not say how it is written; rename it")
        return _tail(source, path, packed=packed)


def _tail(source: BinaryIO, path: Path, *, packed: bool) -> Tail:
    source.seek(0)
    scan = _Scan(_Part(source), path)
    found = _counted(scan)
    size = source.seek(0, 2)
    torn = scan.torn
    if isinstance(torn, BadFrame):
        # The lines at the beginning of the torn frame go with it: the file is cut in front of it.
        source.seek(0)
        found = _counted(_Scan(_Part(source, torn.offset), path))
        return Tail(*found, torn.offset, size)
    if torn is not None and packed:
        raise _damaged(path, torn.line, "a frame ends inside a line")
    return Tail(*found, size - (torn.size if torn is not None else 0), size)


def _counted(scan: _Scan) -> tuple[dict[str, Any] | None, int, bytes]:
    header: dict[str, Any] | None = None
    count = -1
    last = b""
    for lines in scan:
        data = lines.data
        if header is None:
            first, _, data = data.partition(b"\n")
            header = _header_row(first, scan.path)
        count += lines.count
        # Kept until the next piece comes: the line alone, not all that it came with.
        last = data[data.rfind(b"\n", 0, -1) + 1 : -1] or last
    return header, max(count, 0), last


def _header_row(row: bytes, path: Path) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(row)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        value = None
    if not isinstance(value, dict) or value.get("type") != "session":
        raise _damaged(path, 1, "no header row")
    return value


class _Scan:
    """The whole lines of a log, many at a time.

    Attributes:
        path: The log.
        torn: Once all are read: what comes after them, None if nothing does.
    """

    def __init__(self, source: _Part, path: Path) -> None:
        self._source = source
        self.path = path
        self.torn: BadFrame | Piece | None = None

    def __iter__(self) -> Iterator[Lines]:
        for item in read_lines(read_blocks(self._source)):
            if isinstance(item, Lines):
                yield item
            elif isinstance(item, BadFrame):
                if not item.torn:
                    raise _damaged(self.path, item.line, f"zstd: {item.reason}")
                self.torn = item
            elif item.end:
                self.torn = item
            elif not item.cut:
                raise _damaged(self.path, item.line, "the line is too long")


class _Part:
    """The beginning of a file."""

    def __init__(self, source: BinaryIO, size: int | None = None) -> None:
        self._source = source
        self._left = size

    def read(self, size: int, /) -> bytes:
        if self._left is None:
            return self._source.read(size)
        data = self._source.read(min(size, self._left))
        self._left -= len(data)
        return data


def read_stored(path: Path) -> tuple[SessionHeader, list[Entry]]:
    """Read a stored session as far as it is whole.

    Args:
        path: Its log.

    Returns:
        Header and events.

    Raises:
        OSError: It cannot be read.
        StoredError: It is of another generation, or damaged other than by being cut short.
    """
    with LogFile(str(path), named=False).open() as source:
        try:
            log = SessionLog(source, str(path))
        except UnsupportedFormatError as error:
            raise StoredError(f"{path}: {error}") from None
        header = log.header
        if header.version != SUPPORTED:
            if header.version is None:
                raise StoredError(f"{path}: no header row: a log of June, or no session log at all")
            raise StoredError(
                f"{path}: a log of {header.format}, only v{SUPPORTED} can be continued; "
                "`dsh-otel check` and `export` read it"
            )
        if log.header_row is None:
            raise _damaged(path, 1, "no header row")
        source.seek(0)
        entries: list[Entry] = []
        first = True
        for lines in _Scan(_Part(source), path):
            rows = lines.data.split(b"\n")[: lines.count]
            if first:
                _header_row(rows.pop(0), path)
                first = False
            for row in rows:
                entries.append(_entry(row, len(entries), path))
    if first:
        raise _damaged(path, 1, "the header row is cut")
    return header, entries


def _entry(row: bytes, seq: int, path: Path) -> Entry:
    # The header is line 1.
    line = seq + 2
    try:
        entry = read_entry(row)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(path, line, f"no event: {error}") from None
    if entry.seq != seq:
        raise _damaged(path, line, f"seq {entry.seq} where {seq} should be")
    if not isinstance(entry.data, dict):
        raise _damaged(path, line, "no event: its data is no object")
    return entry


def read_entry(row: bytes) -> Entry:
    """Read an event as it was logged.

    Raises:
        msgspec.MsgspecError: It is none.
        UnicodeDecodeError: It is no UTF-8.
        RecursionError: It is nested too deeply.
    """
    return _decode(row)


_decode: Final = msgspec.json.Decoder(Entry).decode


def _damaged(path: Path, line: int, what: str) -> StoredError:
    return StoredError(f"{path}:{line}: {what}; {_NAMES_ALL}")
