"""The durable log behind a stream: found by the session's id, and read where the stream is short.

Whoever writes it may be at it just now: what cannot be read yet is no fault here, it is asked for
again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsh_core.logs.find import LogFile, find_logs
from dsh_core.logs.reader import Batch, SessionLog
from dsh_core.logs.write import encoded_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsh_core.events import SessionEvent, SessionHeader


@dataclass(frozen=True, slots=True)
class Head:
    """How a log begins.

    Attributes:
        header: The header.
        row: The header row as logged.
        line: Its 1-based line.
    """

    header: SessionHeader
    row: dict[str, Any] | None
    line: int


class DurableLog:
    """The log of one session.

    Nothing is raised here: a log that cannot be read has nothing to say.

    Args:
        root: The folder of all sessions; None if nobody knows it.
        session_id: The session.

    Attributes:
        session_id: The same.
    """

    def __init__(self, root: Path | None, session_id: str) -> None:
        self._root = root if session_id else None
        self.session_id = session_id
        self._folder: Path | None = None
        self._read: tuple[str, int, int] | None = None

    @property
    def known(self) -> bool:
        """Whether it is known where the log would be."""
        return self._root is not None

    def head(self) -> Head | None:
        """Return how the log begins, None if that cannot be read yet."""
        file = self._file()
        if file is None:
            return None
        try:
            with file.open() as source:
                log = SessionLog(source, file.path)
        except (OSError, ValueError):
            return None
        if log.header_row is None or log.header.id != self.session_id:
            return None
        return Head(log.header, log.header_row, log.header_line)

    def events(self, first: int, end: int | None) -> list[SessionEvent]:
        """Return the events with numbers from `first` up to and without `end`, as far as they go.

        Args:
            first: The first number.
            end: The number after the last; None for all there are.
        """
        found: list[SessionEvent] = []
        for event in self._events():
            if end is not None and event.seq >= end:
                break
            if event.seq == first + len(found):
                found.append(event)
        return found

    def changed(self) -> bool:
        """Whether the log is another than when this was asked last."""
        file = self._file()
        before, self._read = self._read, None
        if file is not None:
            try:
                status = Path(file.path).stat()
            except OSError:
                return False
            self._read = (file.path, status.st_size, status.st_mtime_ns)
        return self._read is not None and self._read != before

    def forget(self) -> None:
        """Take the log for changed when that is asked next."""
        self._read = None

    def _events(self) -> Iterator[SessionEvent]:
        file = self._file()
        if file is None:
            return
        try:
            with file.open() as source:
                for item in SessionLog(source, file.path).read():
                    if isinstance(item, Batch):
                        yield from item.events
        except (OSError, ValueError):
            return

    def _file(self) -> LogFile | None:
        try:
            folder = self._find()
            return find_logs([str(folder)])[0] if folder is not None else None
        except (OSError, ValueError):
            return None

    def _find(self) -> Path | None:
        if self._folder is None and self._root is not None:
            name = encoded_id(self.session_id)
            for project in self._root.iterdir():
                if (project / name).is_dir():
                    self._folder = project / name
                    break
        return self._folder
