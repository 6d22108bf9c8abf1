"""Bytes of a log file: plain, or zstd as a row of independent frames.

Frames are walked block by block (RFC 8878, 3.1.1), so one call never decompresses more than one
block (128 KiB), the place of every frame is known, and one broken frame does not hide the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import zstandard

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC: Final = b"\x28\xb5\x2f\xfd"
READ_SIZE: Final = 1 << 16
MAX_WINDOW: Final = 1 << 26
"""The largest zstd window that is accepted, in bytes: memory that a hostile file can ask for."""

_MAX_HEADER: Final = 18
_BLOCK_HEADER: Final = 3
_RLE: Final = 1
_RESERVED: Final = 3
_MAX_BLOCK: Final = 1 << 17
_CHECKSUM: Final = 4
_MAX_HELD: Final = 1 << 22
"""How much of a frame is held back until its checksum is known to be right, in bytes."""

_MAX_GO_BACK: Final = 1 << 22
_MAX_AGAIN: Final = 1 << 24
"""How much may be read again beyond the file's own length, in bytes: else false magics in a broken
file make the walk quadratic."""

_SKIPPABLE: Final = range(0x184D2A50, 0x184D2A60)


class ByteSource(Protocol):
    """Anything that reads bytes: a file, a pipe, a socket."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, empty at the end."""


@dataclass(frozen=True, slots=True)
class BadFrame:
    """A stretch of a zstd file that could not be decompressed.

    Attributes:
        offset: Where the frame begins, in bytes of the compressed file.
        reason: What is wrong with it.
        torn: Whether the file merely ends inside the frame.
        line: 1-based line at which the loss is, once the lines are counted.
    """

    offset: int
    reason: str
    torn: bool
    line: int = 0


class _Window:
    """A look-ahead buffer over a byte source that knows its offset and can go back a little."""

    def __init__(self, source: ByteSource, head: bytes) -> None:
        self._source = source
        # What is in front of the place in the buffer can be gone back to, as far as the mark.
        self._buffer = bytearray(head)
        self._place = 0
        self._mark = 0
        self._high = 0
        self._again = 0
        self.offset = 0

    def mark(self) -> None:
        """Remember this place for `go_back`."""
        self._mark = self._place

    def go_back(self, start: int) -> None:
        """Return to one byte after the frame that began at `start`, if that is still remembered.

        What was read again too often is not read once more: the walk goes on where it is.
        """
        taken = self._place - self._mark
        if self._again + taken <= self._high + _MAX_AGAIN:
            self._again += taken
            self._place = self._mark
            self.offset -= taken
        self.mark()
        if self.offset == start:
            self.take(1)

    def peek(self, size: int) -> bytes:
        self._fill(size)
        return bytes(self._buffer[self._place : self._place + size])

    def _fill(self, size: int) -> bool:
        """Read ahead; False at the end of the source."""
        if self._mark > READ_SIZE:
            del self._buffer[: self._mark]
            self._place -= self._mark
            self._mark = 0
        while self._ahead() < size:
            data = self._source.read(max(READ_SIZE, size - self._ahead()))
            if not data:
                return False
            self._buffer += data
        return True

    def take(self, size: int) -> bytes:
        data = self.peek(size)
        self._place += len(data)
        self.offset += len(data)
        self._high = max(self._high, self.offset)
        if self._place - self._mark > _MAX_GO_BACK:
            self.mark()
        return data

    def skip_to_magic(self) -> bool:
        """Move to the next frame magic; False at the end of the source."""
        while True:
            place = self._buffer.find(MAGIC, self._place)
            if place >= 0:
                self.take(place - self._place)
                return True
            # The last bytes may be the beginning of a magic.
            self.take(max(self._ahead() - len(MAGIC) + 1, 0))
            if not self._fill(READ_SIZE) and self._buffer.find(MAGIC, self._place) < 0:
                self.take(self._ahead())
                return False

    def _ahead(self) -> int:
        return len(self._buffer) - self._place


def read_blocks(source: ByteSource) -> Iterator[bytes | BadFrame]:
    """Yield the (decompressed) bytes of a log in pieces of bounded size.

    Args:
        source: Opened for reading bytes; whether it is zstd shows in its first bytes.

    Yields:
        Pieces of at most 128 KiB, and a `BadFrame` in place of what cannot be decompressed.
    """
    head = b""
    while len(head) < len(MAGIC):
        data = source.read(READ_SIZE)
        if not data:
            break
        head += data
    if not is_zstd(head):
        while head:
            yield head
            head = source.read(READ_SIZE)
        return
    window = _Window(source, head)
    while window.peek(1):
        start = window.offset
        window.mark()
        try:
            yield from _frame(window)
        except _FrameError as error:
            # A damaged size field may have led past the frames that follow: look for them again.
            window.go_back(start)
            more = window.skip_to_magic()
            yield BadFrame(start, error.reason, error.torn and not more)


def is_zstd(head: bytes) -> bool:
    """Whether the bytes that a log begins with are those of zstd."""
    if int.from_bytes(head[:4], "little") in _SKIPPABLE or head.startswith(MAGIC):
        return True
    # If its first frame is damaged, a later one may tell; no text has such bytes.
    return MAGIC in head and not head.lstrip().startswith(b"{")


class _FrameError(Exception):
    def __init__(self, reason: str, *, torn: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.torn = torn


def _frame(window: _Window) -> Iterator[bytes]:
    head = window.peek(_MAX_HEADER)
    magic = int.from_bytes(head[:4], "little")
    if magic in _SKIPPABLE:
        yield from _skippable(window)
        return
    if not head.startswith(MAGIC):
        if MAGIC.startswith(head):
            reason = "the file ends inside a frame header"
            raise _FrameError(reason, torn=True)
        reason = "no zstd frame begins here"
        raise _FrameError(reason)
    try:
        size = zstandard.frame_header_size(head)
        checksum = zstandard.get_frame_parameters(head).has_checksum
    except zstandard.ZstdError as error:
        torn = len(head) < _MAX_HEADER
        raise _FrameError(_clean(error), torn=torn) from None
    decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW).decompressobj()
    held: list[bytes] = []
    holds = checksum
    try:
        held += _feed(window, decompressor, size)
        last = False
        while not last:
            header = window.peek(_BLOCK_HEADER)
            if len(header) < _BLOCK_HEADER:
                raise _torn()
            last, stored = _block(header)
            held += _feed(window, decompressor, _BLOCK_HEADER + stored)
            holds = holds and sum(map(len, held)) <= _MAX_HELD
            if not holds:
                yield from held
                held.clear()
        if checksum:
            held += _checked(window, decompressor, held)
        yield from held
        held.clear()
    except _FrameError:
        yield from held
        raise
    except zstandard.ZstdError as error:
        yield from held
        raise _FrameError(_clean(error)) from None


def _block(header: bytes) -> tuple[bool, int]:
    """Return whether a block is the last, and how many bytes it takes behind its header."""
    bits = int.from_bytes(header, "little")
    last, kind, size = bool(bits & 1), bits >> 1 & 3, bits >> 3
    if kind == _RESERVED or size > _MAX_BLOCK:
        reason = "a block header is damaged"
        raise _FrameError(reason)
    return last, 1 if kind == _RLE else size


def _checked(
    window: _Window, decompressor: zstandard.ZstdDecompressionObj, held: list[bytes]
) -> list[bytes]:
    try:
        return list(_feed(window, decompressor, _CHECKSUM))
    except zstandard.ZstdError:
        # Some of it is wrong, and nobody knows which.
        held.clear()
        raise


def _feed(
    window: _Window, decompressor: zstandard.ZstdDecompressionObj, size: int
) -> Iterator[bytes]:
    data = window.take(size)
    output = decompressor.decompress(data)
    if output:
        yield output
    if len(data) < size:
        raise _torn()


def _torn() -> _FrameError:
    return _FrameError("the file ends inside a frame", torn=True)


def _skippable(window: _Window) -> Iterator[bytes]:
    size = int.from_bytes(window.take(8)[4:], "little")
    while size > 0:
        taken = len(window.take(min(size, READ_SIZE)))
        if not taken:
            raise _torn()
        size -= taken
    yield from ()


def _clean(error: Exception) -> str:
    return str(error).removeprefix("zstd ").removeprefix("decompressor error: ").rstrip(".")
