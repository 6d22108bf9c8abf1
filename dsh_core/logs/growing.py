"""A session log that somebody writes to, read as it grows.

After a crash a writer cuts a torn frame off and goes on in its place; a restored copy may be
shorter than what was read. What is not as it was any more is told, see `Rewritten`.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from dsh_core.logs.reader import Batch, SessionLog
from dsh_core.logs.whole import whole_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dsh_core.faults import Fault

MAX_MARKS: Final = 256
"""How many places are remembered at which a log that was rewritten can be found to be the same."""

_TAIL: Final = 64
_BLOCK: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A log is not what it was: it begins again.

    Attributes:
        kept: Up to where it is as it was, in bytes of the file.
    """

    kept: int


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a log has been read.

    Attributes:
        offset: Bytes of the file.
        digest: What tells these bytes from others.
    """

    offset: int = 0
    digest: str = ""


class GrowingLog:
    """One session log, read again and again as far as it is whole.

    Args:
        path: The file, plain or zstd, of any generation.
        stop: Tells whether to stop reading, at the next place that can be gone on from.

    Attributes:
        path: The same.
        log: What reads it; None as long as it has no whole first line.
        mark: How far it has been read.
    """

    def __init__(self, path: str, stop: Callable[[], bool] = lambda: False) -> None:
        self.path = path
        self._stop = stop
        self._begin()

    def _begin(self) -> None:
        self.log: SessionLog | None = None
        self.mark = Mark()
        self._marks: list[Mark] = []
        self._digest = hashlib.blake2b(digest_size=16)
        self._tail = b""

    def read(self, until: int | None = None) -> Iterator[Batch | Fault | Rewritten]:
        """Yield what has been added; all of it must be taken.

        Args:
            until: Where to stop, in bytes of the file.

        Yields:
            Events and damage; a `Rewritten` first if the log begins again.

        Raises:
            OSError: It cannot be read.
            UnsupportedFormatError: It is of a generation newer than this release, or is no log.
        """
        with Path(self.path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not self._goes_on(file, size):
                yield self._start_again(file, size)
            stop = size if until is None else min(size, until)
            while not self._stop():
                start = self.mark.offset
                end = whole_until(file, start, stop)
                if end <= start:
                    return
                yield from self._take(file, start, end)

    def _take(self, file: BinaryIO, start: int, end: int) -> Iterator[Batch | Fault]:
        digest = self._digest.copy()
        source = _Slice(file, start, end, digest)
        if self.log is None:
            # What is no log stays unread: it may become one.
            self.log = SessionLog(source, self.path)
            yield from self.log.read()
        else:
            yield from self.log.go_on(source)
        self._tail, self._digest = source.tail, digest
        self.mark = Mark(end, self._digest.hexdigest())
        self._marks.append(self.mark)
        if len(self._marks) > MAX_MARKS:
            # Fewer will do for what lies far back.
            self._marks = self._marks[: MAX_MARKS // 2 : 2] + self._marks[MAX_MARKS // 2 :]

    def _goes_on(self, file: BinaryIO, size: int) -> bool:
        """Whether what was read last is still there."""
        if size < self.mark.offset:
            return False
        file.seek(self.mark.offset - len(self._tail))
        return file.read(len(self._tail)) == self._tail

    def _start_again(self, file: BinaryIO, size: int) -> Rewritten:
        kept = 0
        digest = hashlib.blake2b(digest_size=16)
        for mark in self._marks:
            if mark.offset > size:
                break
            _Slice(file, kept, mark.offset, digest).skip()
            if digest.hexdigest() != mark.digest:
                break
            kept = mark.offset
        self._begin()
        return Rewritten(kept)


class _Slice:
    """A part of a file, as a source of bytes that are digested on the way."""

    def __init__(self, file: BinaryIO, start: int, end: int, digest: hashlib.blake2b) -> None:
        self._file = file
        self._place = start
        self._end = end
        self._digest = digest
        self.tail = b""

    def read(self, size: int, /) -> bytes:
        self._file.seek(self._place)
        data = self._file.read(min(size, self._end - self._place))
        self._place += len(data)
        self._digest.update(data)
        self.tail = (self.tail + data[-_TAIL:])[-_TAIL:]
        return data

    def skip(self) -> None:
        while self.read(_BLOCK):
            pass
