"""How far a growing log is whole: to the end of its last complete line or zstd frame.

What lies behind is being written, or was torn by a crash; in both cases the answer is to wait: the
writer goes on where the whole part ends. Frames are walked by their block headers (RFC 8878, 3.1.1)
and not decompressed.
"""

from __future__ import annotations

from typing import BinaryIO, Final

import zstandard

from dsh_core.logs.frames import MAGIC, is_zstd

ENOUGH: Final = 1 << 22
"""About how many bytes are read as one; more only if a frame or line is larger."""

_HEADER: Final = 18
_BLOCK_HEADER: Final = 3
_RLE: Final = 1
_RESERVED: Final = 3
_MAX_BLOCK: Final = 1 << 17
_CHECKSUM: Final = 4
_SKIPPABLE: Final = range(0x184D2A50, 0x184D2A60)
_SEARCHED: Final = 1 << 16
_MAX_SEARCH: Final = 1 << 24
"""How far the next frame is looked for behind a damaged one, in bytes."""

_MAX_TRIES: Final = 64


class _DamagedError(Exception):
    """No frame begins at a place."""


def whole_until(file: BinaryIO, start: int, size: int, enough: int = ENOUGH) -> int:
    """Return where the whole part of a log ends.

    Args:
        file: The log.
        start: Where to begin: 0, or what was returned before.
        size: Where to stop looking, in bytes.
        enough: After how many bytes to stop, at the next end of a frame or line.

    Returns:
        The place behind the last whole frame or line, in bytes; `start` if there is none.
    """
    file.seek(0)
    if is_zstd(file.read(len(MAGIC))):
        return _frames(file, start, size, enough)
    return _lines(file, start, size, enough)


def _lines(file: BinaryIO, start: int, size: int, enough: int) -> int:
    """Look for the last newline, backwards from where it is enough; else for the first behind."""
    for low, high in ((start, min(start + enough, size)), (start + enough, size)):
        end = high
        while end > low:
            begin = max(end - _SEARCHED, low)
            file.seek(begin)
            place = file.read(end - begin).rfind(b"\n")
            if place >= 0:
                return begin + place + 1
            end = begin
    return start


def _frames(file: BinaryIO, start: int, size: int, enough: int) -> int:
    whole = start
    while whole < size and whole - start < enough:
        try:
            end = _frame_end(file, whole, size)
        except _DamagedError:
            end = _behind_damage(file, whole + 1, size)
        if end is None:
            break
        whole = end
    return whole


def _behind_damage(file: BinaryIO, start: int, size: int) -> int | None:
    """Return the end of the first whole frame behind a damaged one."""
    place, tries = start, 0
    while place < min(size, start + _MAX_SEARCH) and tries < _MAX_TRIES:
        file.seek(place)
        found = file.read(min(_SEARCHED, size - place)).find(MAGIC)
        if found < 0:
            # The last bytes may be the beginning of a magic.
            place += _SEARCHED - len(MAGIC) + 1
            continue
        place, tries = place + found, tries + 1
        try:
            end = _frame_end(file, place, size)
        except _DamagedError:
            end = None
        if end is not None:
            return end
        place += 1
    return None


def _frame_end(file: BinaryIO, start: int, size: int) -> int | None:
    """Return where a frame ends, None if the file ends before.

    Raises:
        _DamagedError: No frame begins there.
    """
    file.seek(start)
    head = file.read(min(_HEADER, size - start))
    if len(head) < 2 * len(MAGIC):
        if head[: len(MAGIC)] != MAGIC[: len(head)]:
            raise _DamagedError
        return None
    magic = int.from_bytes(head[:4], "little")
    if magic in _SKIPPABLE:
        end = start + 8 + int.from_bytes(head[4:8], "little")
        return end if end <= size else None
    if not head.startswith(MAGIC):
        raise _DamagedError
    try:
        place = start + zstandard.frame_header_size(head)
        checksum = zstandard.get_frame_parameters(head).has_checksum
    except zstandard.ZstdError:
        if len(head) < _HEADER:
            return None
        raise _DamagedError from None
    last = False
    while not last:
        if place + _BLOCK_HEADER > size:
            return None
        file.seek(place)
        bits = int.from_bytes(file.read(_BLOCK_HEADER), "little")
        last, kind, length = bool(bits & 1), bits >> 1 & 3, bits >> 3
        if kind == _RESERVED or length > _MAX_BLOCK:
            raise _DamagedError
        place += _BLOCK_HEADER + (1 if kind == _RLE else length)
    place += _CHECKSUM if checksum else 0
    return place if place <= size else None
