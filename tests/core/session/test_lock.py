"""One writer for each session."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dsh_core.session.lock import FolderLock, LockedError

if TYPE_CHECKING:
    from pathlib import Path

OTHER = """
import fcntl, sys
file = open(sys.argv[1], "ab")
try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(7)
"""


def other_process(folder: Path) -> int:
    """Return how another process ends that locks a folder as the runtime does."""
    lock = str(folder / "session.lock")
    return subprocess.run([sys.executable, "-c", OTHER, lock], check=False).returncode


def test_a_second_lock_in_the_same_process_is_refused(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    with pytest.raises(LockedError):
        FolderLock(tmp_path)
    lock.close()
    FolderLock(tmp_path).close()


def test_a_writer_in_another_process_is_kept_out_until_the_lock_is_closed(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    assert other_process(tmp_path) == 7
    lock.close()
    assert other_process(tmp_path) == 0


def test_the_locked_file_is_empty_and_stays(tmp_path: Path) -> None:
    FolderLock(tmp_path).close()
    assert (tmp_path / "session.lock").read_bytes() == b""


def test_closing_twice_is_fine(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    lock.close()
    lock.close()


def test_a_folder_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FolderLock(tmp_path / "a")
