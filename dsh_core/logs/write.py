"""Writing session logs of the current generation, as the runtime does."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
import zstandard

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from dsh_core.events import SessionHeader

VERSION: Final = 4
"""The generation that is written."""

NO_CWD: Final = "_no-cwd"
"""Project folder of sessions without a working directory."""

MAX_KEY: Final = 251
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
    name = {".": "~002E", "..": "~002E~002E"}.get(header.id) or _encoded(header.id)
    return root / project_key(header.cwd) / name


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


class LogWriter:
    """Appends to the log of one session; a file that is there is continued, never rewritten.

    A compressed log is one frame for the header, and one for each batch.

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
        suffix = ".zstd" if compress else ""
        self.path = folder / f"session.v{VERSION}.jsonl{suffix}"
        self._compress = compress
        if not self.path.exists() or self.path.stat().st_size == 0:
            self._write(msgspec.json.encode(header_row(header)) + b"\n")

    def write(self, rows: Iterable[Row]) -> None:
        """Append a batch.

        Args:
            rows: The events.

        Raises:
            OSError: The file cannot be written; nothing of the batch is in it then.
        """
        data = b"".join(one.row + b"\n" for one in rows)
        if data:
            self._write(data)

    def _write(self, data: bytes) -> None:
        if self._compress:
            # The runtime's readers expect a checksum, and no size in the frame's header.
            compressor = zstandard.ZstdCompressor(write_checksum=True, write_content_size=False)
            data = compressor.compress(data)
        with self.path.open("ab", buffering=0) as file:
            start = file.tell()
            try:
                done = 0
                while done < len(data):
                    done += file.write(data[done:])
                os.fsync(file.fileno())
            except OSError:
                # Half a batch would be a torn tail.
                file.truncate(start)
                raise
