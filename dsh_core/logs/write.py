"""Writing session logs of the current generation, as the runtime does."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
import zstandard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from io import FileIO
    from pathlib import Path

    from dsh_core.events import SessionHeader

VERSION: Final = 4
"""The generation that is written."""

NO_CWD: Final = "_no-cwd"
"""Project folder of sessions without a working directory."""

MAX_KEY: Final = 251
"""Longest name of a project folder, in characters, without the dashes around it."""

PIECE: Final = 1 << 20
"""How much is written or copied at once, in bytes; a line may be longer."""

_SAFE: Final = re.compile(r"[A-Za-z0-9._-]")
_SEPARATORS: Final = re.compile(r"[/\\:]+")


class Row(Protocol):
    """Something that is one line of a log."""

    @property
    def row(self) -> bytes:
        """The line, without its newline."""


def header_row(header: SessionHeader) -> dict[str, Any]:
    """Return the first row of a session's log.

    Args:
        header: The session's header.
    """
    row: dict[str, Any] = {
        "type": "session",
        "version": VERSION,
        "id": header.id,
        "createdAt": header.created_at,
    }
    if header.cwd:
        row["cwd"] = header.cwd
    row |= {"isSeeded": header.is_seeded, "delegationDepth": header.delegation_depth}
    more = {
        "parentSession": header.parent_session,
        "origin": header.origin,
        "agentPreset": header.agent_preset,
    }
    return row | {name: value for name, value in more.items() if value}


def session_folder(root: Path, header: SessionHeader) -> Path:
    """Return the folder of a session.

    Args:
        root: The folder of all sessions.
        header: The session's header.

    Raises:
        ValueError: The session has an empty id.
    """
    if not header.id:
        raise ValueError("a session without an id cannot be stored")
    return root / project_key(header.cwd) / encoded_id(header.id)


def encoded_id(session_id: str) -> str:
    """Return the name of the folder that holds a session."""
    return {".": "~002E", "..": "~002E~002E"}.get(session_id) or _encoded(session_id)


def project_key(cwd: str) -> str:
    """Return the name of the folder that holds the sessions of a working directory."""
    if not cwd:
        return NO_CWD
    key = _encoded(_SEPARATORS.sub("-", cwd)).lstrip("-") or "root"
    return f"--{key[:MAX_KEY]}--"


def _encoded(text: str) -> str:
    # Code units of UTF-16, as the runtime counts.
    units = text.encode("utf-16-be", "surrogatepass")
    characters = (units[k : k + 2] for k in range(0, len(units), 2))
    return "".join(
        chr(unit[1])
        if unit[0] == 0 and _SAFE.fullmatch(chr(unit[1]))
        else f"~{int.from_bytes(unit, 'big'):04X}"
        for unit in characters
    )


def cut_log(path: Path, size: int) -> None:
    """Cut a log after some bytes; whatever happens, the file is there, whole or cut.

    Args:
        path: The log.
        size: How many bytes stay.

    Raises:
        OSError: It cannot be cut, and is as it was.
    """
    # Named as the runtime names its own, so that whoever tidies up knows them.
    new = path.with_name(f"{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        with path.open("rb") as source, new.open("xb") as target:
            while size > 0 and (piece := source.read(min(size, PIECE))):
                target.write(piece)
                size -= len(piece)
            target.flush()
            os.fsync(target.fileno())
        shutil.copymode(path, new)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make sure that a new name is on the disk, where folders can be opened for that."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class LogWriter:
    """Appends to the log of one session; a file that is there is continued, never rewritten.

    A compressed log is one frame for the header, and one for each batch (several if it is large).

    Args:
        folder: The session's folder; made if it is missing.
        header: The session's header.
        compress: Whether to write zstd.

    Attributes:
        path: The file.

    Raises:
        OSError: The folder or file cannot be made.
    """

    def __init__(self, folder: Path, header: SessionHeader, *, compress: bool = True) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = log_path(folder, compress=compress)
        self._compress = compress
        try:
            with self.path.open("xb"):
                pass
            _sync_folder(folder)
        except FileExistsError:
            pass
        # How long the file is, and whether more than that may be in it: half a batch.
        self._size = self.path.stat().st_size
        self._torn = False
        if not self._size:
            self._write([msgspec.json.encode(header_row(header)) + b"\n"])

    def write(self, rows: Iterable[Row]) -> None:
        """Append a batch, as a whole or not at all.

        Args:
            rows: The events.

        Raises:
            OSError: The file cannot be written, or somebody else has changed it; nothing of the
                batch is in it then, or will be after the next one.
        """
        pieces = _pieces(rows)
        first = next(pieces, None)
        if first is not None:
            self._write(chain((first,), pieces))

    def _write(self, pieces: Iterable[bytes]) -> None:
        with self.path.open("r+b", buffering=0) as file:
            self._go_to_end(file)
            self._torn = True
            try:
                for piece in pieces:
                    _write_all(file, self._packed(piece))
                os.fsync(file.fileno())
            except BaseException:
                # Half a batch would be a torn tail in the middle of the file, after the next one.
                file.truncate(self._size)
                self._torn = False
                raise
            self._size = file.tell()
            self._torn = False

    def _go_to_end(self, file: FileIO) -> None:
        size = file.seek(0, os.SEEK_END)
        if self._torn and size > self._size:
            size = file.truncate(self._size)
            file.seek(size)
        if size != self._size:
            raise OSError(errno.EBUSY, "somebody else has changed the log", str(self.path))

    def _packed(self, data: bytes) -> bytes:
        if not self._compress:
            return data
        # The runtime's readers expect a checksum, and no size in the frame's header.
        compressor = zstandard.ZstdCompressor(write_checksum=True, write_content_size=False)
        return compressor.compress(data)


def log_path(folder: Path, *, compress: bool) -> Path:
    """Return where the log of the current generation lies in a session's folder."""
    return folder / f"session.v{VERSION}.jsonl{'.zstd' if compress else ''}"


def _pieces(rows: Iterable[Row]) -> Iterator[bytes]:
    """Put lines together, so many that a piece is worth it and never more than one too many."""
    lines: list[bytes] = []
    size = 0
    for one in rows:
        line = one.row + b"\n"
        lines.append(line)
        size += len(line)
        if size >= PIECE:
            yield b"".join(lines)
            lines, size = [], 0
    if lines:
        yield b"".join(lines)


def _write_all(file: FileIO, data: bytes) -> None:
    done = 0
    while done < len(data):
        done += file.write(data[done:])
