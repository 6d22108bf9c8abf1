"""From what a user names (a file, a folder, a DSH home, a glob) to the logs to read."""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

STDIN: Final = "-"
_GENERATION: Final = re.compile(r"session(?:\.v(\d+))?\.jsonl(?:\.zstd?)?")
_LOG: Final = re.compile(r".+\.jsonl(?:\.zstd?)?")
_GLOB: Final = re.compile(r"[*?\[]")


class NoLogError(ValueError):
    """A path leads to no session log.

    Args:
        place: The path, as the user named it.
        reason: Why there is no log.
    """

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place = place
        self.reason = reason

    def __str__(self) -> str:
        """Return both on one line."""
        return f"{self.place}: {self.reason}" if self.place else self.reason


@dataclass(frozen=True, slots=True, order=True)
class LogFile:
    """Where one session's log is.

    Attributes:
        path: The file, as the user would name it; ``-`` for standard input.
        named: Whether the user named it, and not a folder or a pattern: only then may it be a
            pipe or a device.
    """

    path: str
    named: bool = field(default=True, compare=False)

    @property
    def identity(self) -> str:
        """What two names of the same file have in common."""
        return self.path if self.path == STDIN else os.path.realpath(self.path)

    def open(self) -> BinaryIO:
        """Open the log for reading bytes.

        Raises:
            OSError: It cannot be opened.
        """
        if self.path == STDIN:
            if sys.stdin is None:
                raise OSError(errno.EBADF, "standard input is closed", STDIN)
            return sys.stdin.buffer
        path = Path(self.path)
        try:
            # To open a pipe is to wait for whoever writes to it.
            if not self.named and not stat.S_ISREG(path.stat().st_mode):
                raise OSError(errno.EINVAL, "not a regular file", self.path)
            return path.open("rb")
        except ValueError as error:
            # A NUL byte, or what the file system's encoding does not have.
            raise OSError(errno.EINVAL, str(error), self.path) from error


def default_home(environ: Mapping[str, str]) -> Path:
    """Return the DSH home: ``DSH_HOME``, else ``~/.dsh``."""
    if home := environ.get("DSH_HOME", ""):
        return Path(home)
    try:
        return Path("~/.dsh").expanduser()
    except RuntimeError:
        # Nobody knows where that is; `find_logs` says so.
        return Path("~/.dsh")


def find_logs(places: Iterable[str]) -> list[LogFile]:
    """Return the logs that some places name, each once, in the order of the places.

    In a folder the newest generation of each session counts; older ones beside it are left out.

    Args:
        places: Files, session folders, DSH homes or any other folder, globs, ``-``.

    Raises:
        NoLogError: A place does not exist, cannot be looked into or holds no log.
    """
    logs, wrong = search_logs(places)
    if wrong:
        raise wrong[0]
    return logs


def search_logs(places: Iterable[str]) -> tuple[list[LogFile], list[NoLogError]]:
    """Look for logs as `find_logs` does, and go on where a place is wrong.

    Args:
        places: As for `find_logs`.

    Returns:
        The logs, and what is wrong with places.
    """
    found: dict[str, LogFile] = {}
    wrong: list[NoLogError] = []
    for place in places:
        known, empty = len(wrong), True

        def refuse(error: OSError, place: str = place) -> None:
            wrong.append(NoLogError(str(error.filename or place), error.strerror or str(error)))

        try:
            for log in _find(place, refuse):
                found.setdefault(log.identity, log)
                empty = False
        except NoLogError as error:
            wrong.append(error)
        except OSError as error:
            refuse(error)
        if empty and len(wrong) == known:
            reason = "no session log there (looked for *.jsonl and *.jsonl.zstd)"
            wrong.append(NoLogError(place, reason))
    return list(found.values()), wrong


def _find(place: str, refuse: Callable[[OSError], None]) -> Iterator[LogFile]:
    if place == STDIN:
        yield LogFile(STDIN)
        return
    if not place:
        raise NoLogError("", "an empty path names no log")
    try:
        path = Path(place).expanduser()
    except RuntimeError as error:
        raise NoLogError(place, str(error)) from error
    if path.is_dir():
        yield from _in_folder(path, refuse)
    elif path.exists():
        yield LogFile(str(path))
    elif _GLOB.search(place):
        hits = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 - takes absolute globs
        if not hits:
            raise NoLogError(place, "the pattern matches nothing")
        for hit in hits:
            hit_path = Path(hit)
            if hit_path.is_dir():
                yield from _in_folder(hit_path, refuse)
            else:
                yield LogFile(hit, named=False)
    else:
        raise NoLogError(place, "no such file or folder")


def _in_folder(folder: Path, refuse: Callable[[OSError], None]) -> Iterator[LogFile]:
    visited: set[tuple[int, int]] = set()
    # A folder that cannot be read must not look like one without logs.
    for root, folders, files in os.walk(folder, onerror=refuse, followlinks=True):
        status = Path(root).stat()
        if (status.st_dev, status.st_ino) in visited:
            folders.clear()
            continue
        visited.add((status.st_dev, status.st_ino))
        # Links last: a log goes by the name of the folder that it really lies in.
        folders.sort(key=lambda name: (Path(root, name).is_symlink(), name))
        generation = newest(files)
        if generation is not None:
            yield LogFile(str(Path(root, generation)), named=False)
        for name in sorted(files):
            if is_log(name) and not is_generation(name):
                yield LogFile(str(Path(root, name)), named=False)


def is_log(name: str) -> bool:
    """Whether a file is a session log, by its name."""
    return _LOG.fullmatch(name) is not None


def is_generation(name: str) -> bool:
    """Whether a file is a generation of the log of the session that its folder is named after."""
    return _GENERATION.fullmatch(name) is not None


def newest(names: Iterable[str]) -> str | None:
    """Return the newest generation out of the names in a folder, None if there is none."""
    return max(filter(is_generation, names), key=_age, default=None)


def _age(name: str) -> tuple[int, str]:
    match = _GENERATION.fullmatch(name)
    return (int(match[1]) if match and match[1] else 0, name)
