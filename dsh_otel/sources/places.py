"""Where a follower of logs stands, kept in a file: a restart neither repeats nor misses.

The file is a journal of JSON lines, the last of each session counts; one that was cut by a crash is
left out. It is written anew when it is opened, and when it has grown.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import IO

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

VERSION: Final = 1
MAX_STATE: Final = 1 << 28
"""How large a state file may be, in bytes."""

MAX_JOURNAL: Final = 1 << 20
"""How large the journal may become beyond what it holds, in bytes."""


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far one session has been followed.

    Attributes:
        file: Name of the log, which changes with its generation.
        offset: Up to where its events are dealt with, in bytes.
        digest: What tells these bytes from others, empty if they were never read.
        seq: Seq of the last event.
        turn: Number of the last turn that has ended, 0 if none has.
        exported: Whether the spans of these bytes have been exported; else they lie before the
            time that somebody began to follow.
    """

    file: str
    offset: int
    digest: str = ""
    seq: int = -1
    turn: int = 0
    exported: bool = False


class _Row(msgspec.Struct, omit_defaults=True):
    key: str | None = None
    place: Place | None = None
    version: int | None = None
    since: int | None = None


class PlacesError(ValueError):
    """A state file cannot be used; the message says why."""


class Places:
    """The places of all sessions.

    Args:
        path: The state file; None to keep nothing.
        root: The folder that keys are relative to.
        now_ms: The time, in ms: when there is no state yet, it is from now on that sessions count.

    Attributes:
        since_ms: When these places were first kept.
        fresh: Whether there was no state.
        problem: Why the file could not be written, empty if it could.

    Raises:
        PlacesError: It is no state file, or somebody else uses it.
        OSError: It cannot be read or written.
    """

    def __init__(self, path: Path | None, root: str, now_ms: int) -> None:
        self._path = path
        self._root = root
        self._known: dict[str, Place] = {}
        # Further on than what is known to have arrived.
        self._expected: dict[str, Place] = {}
        # What has arrived is told by another thread.
        self._mutex = threading.Lock()
        self.problem = ""
        self._file: IO[bytes] | None = None
        self._lock: IO[bytes] | None = None
        self._size = self._least = 0
        self.since_ms = now_ms
        self.fresh = True
        if path is not None:
            self._open(path)

    def _open(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            status = path.stat()
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_STATE:
                raise PlacesError(f"{path} is no state file: choose another --state")
        lock = path.with_name(f"{path.name}.lock").open("ab")
        try:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise PlacesError(
                f"{path} is in use by another follower: stop that, or choose another --state"
            ) from None
        self._lock = lock
        try:
            self._load(path)
            self._rewrite(path)
        except BaseException:
            self._close()
            raise

    def _load(self, path: Path) -> None:
        try:
            rows = path.read_bytes().splitlines()
        except FileNotFoundError:
            return
        decode = msgspec.json.Decoder(_Row).decode
        for number, data in enumerate(rows, 1):
            try:
                row = decode(data)
            except msgspec.MsgspecError:
                if number == 1:
                    raise PlacesError(f"{path} is no state file of dsh-otel tail") from None
                # A crash cut it, or a disk was full; an older one of the session counts.
                continue
            if number == 1:
                if row.version != VERSION or row.since is None:
                    raise PlacesError(
                        f"{path} is no state file that this release knows: choose another --state"
                    )
                self.since_ms, self.fresh = row.since, False
            elif row.key is not None and row.place is not None:
                self._known[row.key] = row.place
            elif row.key is not None:
                self._known.pop(row.key, None)

    def _rewrite(self, path: Path) -> None:
        """Write the journal anew, without what does not count any more."""
        new = path.with_name(f"{path.name}.new")
        rows = [_Row(version=VERSION, since=self.since_ms)]
        rows += [_Row(key, place) for key, place in self._known.items()]
        data = msgspec.json.Encoder().encode_lines(rows)
        with new.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        if self._file is not None:
            self._file.close()
        # Unbuffered: what was written survives the process.
        self._file = path.open("ab", buffering=0)
        self._size = self._least = len(data)

    def _relative(self, key: str) -> str:
        return os.path.relpath(key, self._root)

    def get(self, key: str) -> Place | None:
        """Return where a session stands, None if it was never followed."""
        name = self._relative(key)
        with self._mutex:
            return self._expected.get(name) or self._known.get(name)

    def expect(self, key: str, place: Place) -> None:
        """Note where a session will stand when what it made has arrived."""
        with self._mutex:
            self._expected[self._relative(key)] = place

    def put(self, places: Iterable[tuple[str, Place | None]]) -> None:
        """Keep where sessions stand. What cannot be written is told again some time.

        Args:
            places: The places by key; None for a session that has gone.
        """
        with self._mutex:
            rows = [row for key, place in places if (row := self._put(key, place)) is not None]
            if not rows or self._file is None or self._path is None:
                return
            data = msgspec.json.Encoder().encode_lines(rows)
            self._write(data)

    def _write(self, data: bytes) -> None:
        """Write rows; after a failure everything anew, since nobody knows what is there."""
        assert self._file is not None  # noqa: S101 - asked before
        assert self._path is not None  # noqa: S101 - as above
        try:
            if self.problem or self._size > 2 * self._least + MAX_JOURNAL:
                self._rewrite(self._path)
            elif self._file.write(data) == len(data):
                self._size += len(data)
            else:
                self.problem = os.strerror(errno.ENOSPC)
                return
            self.problem = ""
        except OSError as error:
            self.problem = error.strerror or str(error)

    def _put(self, key: str, place: Place | None) -> _Row | None:
        name = self._relative(key)
        if place is None or self._expected.get(name) == place:
            self._expected.pop(name, None)
        if self._known.get(name) == place:
            return None
        if place is None:
            del self._known[name]
        else:
            self._known[name] = place
        return _Row(name, place)

    def close(self) -> None:
        """Let go of the file."""
        with self._mutex:
            if self.problem and self._file is not None:
                self._write(b"")
            self._close()

    def _close(self) -> None:
        for file in (self._file, self._lock):
            if file is not None:
                file.close()
        self._file = self._lock = None
