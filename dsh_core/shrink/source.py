"""Where the lines come from that are shrunk: a log as a whole, in memory."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from dsh_core.logs.find import LogFile
from dsh_core.logs.frames import READ_SIZE, BadFrame, read_blocks
from dsh_core.logs.reader import SessionLog
from dsh_core.shrink.rows import Row

if TYPE_CHECKING:
    from typing import BinaryIO

    from dsh_core.logs.frames import ByteSource

MAX_BYTES: Final = 512 << 20
"""The largest log that is shrunk, in bytes, decompressed: all of it is kept in memory."""

_GENERATION: Final = re.compile(r"session(\.v\d+)?\.jsonl(?:\.zstd?)?")


class NothingToShrinkError(ValueError):
    """A log cannot be shrunk; the message says why, without naming the log."""


@dataclass(frozen=True, slots=True)
class InMemory(LogFile):
    """A log that is no file.

    Attributes:
        data: Its bytes, plain or zstd.
    """

    data: bytes = field(default=b"", compare=False, repr=False)

    def open(self) -> BinaryIO:
        """Open the log for reading bytes."""
        return io.BytesIO(self.data)


def load(log: LogFile, max_events: int) -> InMemory:
    """Read a log into memory, compressed if it is.

    Args:
        log: The log.
        max_events: The most lines that it may have, but for a header row.

    Raises:
        NothingToShrinkError: It is too large.
        OSError: It cannot be read.
    """
    if isinstance(log, InMemory):
        return log
    parts: list[bytes] = []
    size = 0
    with log.open() as source:
        while part := source.read(READ_SIZE):
            parts.append(part)
            size += len(part)
            if size > MAX_BYTES:
                raise _too_many_bytes()
    data = b"".join(parts)
    del parts
    _count(io.BytesIO(data), max_events)
    return InMemory(log.path, log.named, data)


def _count(source: ByteSource, max_events: int) -> None:
    """Refuse a log that is too large once it is decompressed, before all of it is."""
    size = lines = 0
    for block in read_blocks(source):
        if isinstance(block, BadFrame):
            continue
        size += len(block)
        lines += block.count(b"\n")
        if size > MAX_BYTES:
            raise _too_many_bytes()
        if lines > max_events + 1:
            raise too_many_events(max_events)


def _too_many_bytes() -> NothingToShrinkError:
    return NothingToShrinkError(
        f"the log is larger than {MAX_BYTES >> 20} MiB, which is the most that is kept in memory; "
        "cut it behind the line of the finding, or in front of its turn"
    )


def too_many_events(most: int) -> NothingToShrinkError:
    """Return what to raise for a log with more events than are allowed."""
    return NothingToShrinkError(
        f"the log has more than {most:,} events, and all are kept in memory; allow more, "
        "or cut it behind the line of the finding"
    )


def plain_name(path: str) -> str:
    """Return a name for a plain log of the same generation.

    The generation of a log without a header row follows from its name.

    Args:
        path: The log's path.
    """
    match = _GENERATION.fullmatch(PurePath(path).name)
    return f"session{(match[1] if match else None) or ''}.jsonl"


def split(log: InMemory) -> tuple[int, list[Row]]:
    """Return the lines of a log.

    Args:
        log: The log.

    Returns:
        The place of the header row among the lines, -1 if there is none, and the lines; the last
        one may lack its newline. What a broken frame has cut in two is left out.

    Raises:
        UnsupportedFormatError: What is left of a broken file is no log.
    """
    parts: list[bytes] = []
    for block in read_blocks(log.open()):
        if not isinstance(block, BadFrame):
            parts.append(block)
        elif not block.torn:
            _forget_cut_line(parts)
    data = b"".join(parts)
    del parts
    head = SessionLog(io.BytesIO(data), plain_name(log.path))
    # Only a newline ends a line, for the reader too.
    return head.header_line - 1, [Row(line) for line in io.BytesIO(data)]


def _forget_cut_line(parts: list[bytes]) -> None:
    while parts:
        last = parts.pop()
        whole = last[: last.rfind(b"\n") + 1]
        if whole:
            parts.append(whole)
            return
