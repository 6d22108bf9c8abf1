"""The logs below a folder, as they come, grow, give way to a newer generation, and go."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from dsh_core.logs.find import is_generation, is_log, newest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_DEPTH: Final = 16
"""How deep below the root logs are looked for: links may lead in circles."""

MAX_LOGS: Final = 100_000
"""How many logs are followed."""


@dataclass(frozen=True, slots=True)
class Change:
    """What has become of one log.

    Attributes:
        key: What stays the same when a session goes on in a newer generation: the folder of the
            session; of logs that are not named by generation, the file.
        path: The newest log there, None if it has gone.
        size: Its size in bytes.
    """

    key: str
    path: str | None
    size: int = 0


@dataclass(slots=True)
class _Folder:
    mtime: int
    depth: int
    keys: dict[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()


class LogTree:
    """Looks for logs and for what has changed since it looked last.

    Looking costs two or three system calls for each log; a folder is only read if it has changed.

    Args:
        root: A folder, or one log. It need not be there yet.
        ignored: Files that are no logs, whatever they are called.

    Attributes:
        root: The same.
        full: Whether there are more logs than are followed.
        refused: Folders that cannot be read, and why.
    """

    def __init__(self, root: str, ignored: Iterable[str] = ()) -> None:
        self.root = os.path.abspath(root)  # noqa: PTH100 - links stay as they are
        # What links lead to is followed under its own name, if that is here too.
        self._inside = os.path.realpath(root)
        self._led_to: dict[str, str] = {}
        self._ignored = frozenset(map(os.path.realpath, ignored))
        self.full = False
        self.refused: dict[str, str] = {}
        self._folders: dict[str, _Folder] = {}
        # By path: size and time of the last change, as far as anything was reported.
        self._files: dict[str, tuple[int, int]] = {}
        self._keys: dict[str, str] = {}
        # Keys that were found while looking for what has changed.
        self._found: list[str] = []

    def look(self) -> list[Change]:
        """Return what has changed anywhere."""
        changes: list[Change] = []
        self._found.clear()
        if not os.path.isdir(self.root):  # noqa: PTH112 - hot: no Path for each of many calls
            if self._folders:
                changes += self._forget(self.root)
            elif os.path.isfile(self.root):  # noqa: PTH113 - as above
                self._keys.setdefault(self.root, self.root)
            changes += self._grown(list(self._keys))
            return changes
        changes += self._walk(self.root, 0)
        changes += self._grown(list(self._keys))
        return changes

    def look_at(self, paths: Iterable[str]) -> list[Change]:
        """Return what has changed at some places that something happened at."""
        changes: list[Change] = []
        keys: dict[str, None] = {}
        self._found.clear()
        for path in paths:
            parent = os.path.dirname(path)  # noqa: PTH120 - as above
            for key in (path, parent):
                if key in self._keys:
                    keys[key] = None
            known = self._keys.get(parent) == path or path in self._keys
            if not known or not os.path.exists(path):  # noqa: PTH110 - as above
                nearest = self._nearest(path)
                if nearest is not None:
                    depth = self._folders[nearest].depth if nearest in self._folders else 0
                    changes += self._walk(nearest, depth, anew=True)
        keys |= dict.fromkeys(self._found)
        changes += self._grown([key for key in keys if key in self._keys])
        return changes

    def _nearest(self, path: str) -> str | None:
        """Return the innermost known folder that a path lies in."""
        while path not in self._folders and path != self.root:
            above = os.path.dirname(path)  # noqa: PTH120 - as above
            if above == path:
                return None
            path = above
        return path

    def _walk(self, path: str, depth: int, *, anew: bool = False) -> Iterator[Change]:
        """Find what has come and gone in a folder and those below."""
        try:
            mtime = os.stat(path).st_mtime_ns  # noqa: PTH116 - as above
        except OSError:
            yield from self._forget(path)
            return
        known = self._folders.get(path)
        if known is None or known.mtime != mtime or anew:
            yield from self._read(path, mtime, depth)
        if depth < MAX_DEPTH and path in self._folders:
            for below in self._folders[path].folders:
                yield from self._walk(below, depth + 1)

    def _read(self, path: str, mtime: int, depth: int) -> Iterator[Change]:
        before = self._folders.get(path)
        folders: list[str] = []
        names: list[str] = []
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.is_symlink() and self._is_known(entry.path):
                        continue
                    if entry.is_dir():
                        folders.append(entry.path)
                    elif is_log(entry.name) and not self._ignores(entry.path):
                        names.append(entry.name)
        except OSError as error:
            self.refused[path] = error.strerror or str(error)
            return
        self.refused.pop(path, None)
        newest_name = newest(names)
        keys = {} if newest_name is None else {path: newest_name}
        keys |= {os.path.join(path, name): name for name in names if not is_generation(name)}  # noqa: PTH118 - as above
        now = _Folder(mtime, depth, keys, tuple(folders))
        self._folders[path] = now
        if before is not None:
            for gone in set(before.folders) - set(folders):
                yield from self._forget(gone)
            for key in set(before.keys) - set(keys):
                yield from self._gone(key)
        for key, name in keys.items():
            file = os.path.join(path, name)  # noqa: PTH118 - as above
            if key not in self._keys and len(self._keys) >= MAX_LOGS:
                self.full = True
            elif self._keys.get(key) != file:
                # An older generation is not looked at any more.
                self._files.pop(self._keys.get(key, ""), None)
                self._keys[key] = file
                self._found.append(key)

    def _is_known(self, link: str) -> bool:
        """Whether what a link leads to is followed already, under another name."""
        target = os.path.realpath(link)
        inside = target == self._inside or target.startswith(os.path.join(self._inside, ""))  # noqa: PTH118
        return inside or self._led_to.setdefault(target, link) != link

    def _ignores(self, path: str) -> bool:
        return bool(self._ignored) and os.path.realpath(path) in self._ignored

    def _grown(self, keys: list[str]) -> Iterator[Change]:
        for key in keys:
            path = self._keys[key]
            try:
                status = os.stat(path)  # noqa: PTH116 - as above
            except OSError:
                yield from self._gone(key)
                continue
            if not stat.S_ISREG(status.st_mode):
                continue
            now = (status.st_size, status.st_mtime_ns)
            if self._files.get(path) != now:
                self._files[path] = now
                yield Change(key, path, status.st_size)

    def _forget(self, path: str) -> Iterator[Change]:
        folder = self._folders.pop(path, None)
        if folder is None:
            return
        for below in folder.folders:
            yield from self._forget(below)
        for key in folder.keys:
            yield from self._gone(key)

    def _gone(self, key: str) -> Iterator[Change]:
        path = self._keys.pop(key, None)
        if path is not None and self._files.pop(path, None) is not None:
            yield Change(key, None)
