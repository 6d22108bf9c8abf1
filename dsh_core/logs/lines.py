"""Cutting a log's bytes into lines, many at a time, within bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from dsh_core.logs.frames import BadFrame

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_LINE: Final = 32 << 20
"""The longest line that is read whole, in bytes (real ones reach a few MiB: screenshots)."""

HEAD: Final = 1 << 14
"""How much of a longer line is kept, in bytes: enough for its envelope and coordinates."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Whole lines, as one piece of bytes.

    Attributes:
        data: The lines, each with its newline; only the last of a log may lack it.
        first: 1-based number of the first line.
        count: How many lines these are.
    """

    data: bytes
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A single line that is not whole.

    Attributes:
        data: What there is of it; of an over-long line only the head.
        line: 1-based number.
        size: Its full length in bytes, as far as it was there.
        end: Whether the log ends here.
        cut: Whether a `BadFrame`, which comes next, has the rest of it.
    """

    data: bytes
    line: int
    size: int
    end: bool
    cut: bool = False


def read_lines(
    blocks: Iterable[bytes | BadFrame], max_line: int = MAX_LINE, line: int = 1
) -> Iterator[Lines | Piece | BadFrame]:
    """Yield the lines of a log in order.

    Args:
        blocks: Pieces of the log, and the frames that could not be decompressed.
        max_line: The longest line that is kept whole, in bytes.
        line: 1-based number of the first line.

    Yields:
        `Lines` for what is whole, a `Piece` for an over-long or unfinished line, every `BadFrame`.
    """
    parts: list[bytes] = []
    size = 0
    for block in blocks:
        if isinstance(block, BadFrame):
            if size:
                yield Piece(_join(parts, size, max_line), line, size, end=block.torn, cut=True)
            yield replace(block, line=line)
            parts, size, line = [], 0, line + (1 if size else 0)
            continue
        cut = block.rfind(b"\n") + 1
        if not cut:
            size += len(block)
            if size <= max_line or not parts:
                parts.append(block)
            elif len(parts) > 1 or len(parts[0]) > HEAD:
                parts = [b"".join(parts)[:HEAD]]
            continue
        start = 0
        if size:
            start = block.index(b"\n") + 1
            size += start
            if size > max_line:
                yield Piece(_join(parts, size, max_line), line, size, end=False)
            else:
                parts.append(block[:start])
                yield Lines(b"".join(parts), line, 1)
            parts, size, line = [], 0, line + 1
        if start < cut:
            data = block if start == 0 and cut == len(block) else block[start:cut]
            # Twice as fast as `count`, which looks at one byte after the other.
            count = len(data) - len(data.replace(b"\n", b""))
            yield Lines(data, line, count)
            line += count
        if cut < len(block):
            parts, size = [block[cut:]], len(block) - cut
    if size:
        yield Piece(_join(parts, size, max_line), line, size, end=True)


def _join(parts: list[bytes], size: int, max_line: int) -> bytes:
    data = b"".join(parts)
    return data if size <= max_line else data[:HEAD]
