"""One writer for each session: the lock that the runtime's writers take too."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from io import BufferedWriter
    from pathlib import Path

if sys.platform == "win32":  # pragma: no cover - of another system
    import msvcrt

    def _try_lock(file: BufferedWriter) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(file: BufferedWriter) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


LOCK: Final = "session.lock"
"""The file that is locked, in the session's folder: empty, and there for good."""


class LockedError(Exception):
    """Somebody else has the lock, in this process or in another one."""


class FolderLock:
    """The right to write to a session's folder, from now until it is closed.

    Args:
        folder: The folder.

    Raises:
        LockedError: Somebody else has it.
        OSError: The folder cannot be locked.
    """

    def __init__(self, folder: Path) -> None:
        file = (folder / LOCK).open("ab")
        locked = False
        try:
            locked = _try_lock(file)
        finally:
            if not locked:
                file.close()
        if not locked:
            raise LockedError
        self._file = file

    def close(self) -> None:
        """Give it back; the end of the process does so too."""
        self._file.close()
