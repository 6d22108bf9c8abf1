"""From what a user names (a file, a folder, a DSH home, a glob) to the logs to read."""

from __future__ import annotations

import glob
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

STDIN: Final = "-"
_GENERATION: Final = re.compile(r"session(?:\.v(\d+))?\.jsonl(?:\.zstd?)?")
_LOG: Final = re.compile(r".+\.jsonl(?:\.zstd?)?")
_GLOB: Final = re.compile(r"[*?\[]")


class NoLogError(ValueError):
    """A path leads to no session log."""


@dataclass(frozen=True, slots=True, order=True)
class LogFile:
    """Where one session's log is.

    Attributes:
        path: The file, as the user would name it; ``-`` for standard input.
    """

    path: str

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
            return sys.stdin.buffer
        return Path(self.path).open("rb")


def default_home(environ: Mapping[str, str]) -> Path:
    """Return the DSH home: ``DSH_HOME``, else ``~/.dsh``."""
    home = environ.get("DSH_HOME", "")
    return Path(home) if home else Path("~/.dsh").expanduser()


def find_logs(places: Iterable[str]) -> list[LogFile]:
    """Return the logs that some places name, each once, in the order of the places.

    In a folder the newest generation of each session counts; older ones beside it are left out.

    Args:
        places: Files, session folders, DSH homes or any other folder, globs, ``-``.

    Raises:
        NoLogError: A place does not exist, cannot be looked into or holds no log.
    """
    found: dict[str, LogFile] = {}
    for place in places:
        try:
            logs = list(_find(place))
        except OSError as error:
            message = f"{error.filename or place}: {error.strerror or error}"
            raise NoLogError(message) from error
        if not logs:
            message = f"{place}: no session log there (looked for *.jsonl and *.jsonl.zstd)"
            raise NoLogError(message)
        for log in logs:
            found.setdefault(log.identity, log)
    return list(found.values())


def _find(place: str) -> Iterator[LogFile]:
    if place == STDIN:
        yield LogFile(STDIN)
        return
    path = Path(place).expanduser()
    if path.is_dir():
        yield from _in_folder(path)
    elif path.exists():
        yield LogFile(str(path))
    elif _GLOB.search(place):
        hits = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 - takes absolute globs
        if not hits:
            message = f"{place}: the pattern matches nothing"
            raise NoLogError(message)
        for hit in hits:
            hit_path = Path(hit)
            if hit_path.is_dir():
                yield from _in_folder(hit_path)
            else:
                yield LogFile(hit)
    else:
        message = f"{place}: no such file or folder"
        raise NoLogError(message)


def _in_folder(folder: Path) -> Iterator[LogFile]:
    # A folder that cannot be read must not look like one without logs.
    for root, folders, files in os.walk(folder, onerror=_refuse):
        folders.sort()
        generations = [name for name in files if _GENERATION.fullmatch(name)]
        if generations:
            yield LogFile(str(Path(root, max(generations, key=_age))))
        for name in sorted(files):
            if _LOG.fullmatch(name) and name not in generations:
                yield LogFile(str(Path(root, name)))


def _refuse(error: OSError) -> None:
    raise error


def _age(name: str) -> tuple[int, str]:
    match = _GENERATION.fullmatch(name)
    return (int(match[1]) if match and match[1] else 0, name)
