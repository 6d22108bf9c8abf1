"""What can be wrong with a file of plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_core.errors import HarnessError
from dsh_core.extras import install_hint

if TYPE_CHECKING:
    from pathlib import Path


class MissingExtraError(HarnessError):
    """PyYAML is not installed.

    Args:
        cause: What importing it has raised.
    """

    def __init__(self, cause: BaseException) -> None:
        super().__init__(
            f"files of plugins need an extra: {install_hint('harness')}",
            "MISSING_EXTRA",
            cause=cause,
        )


class PluginFileError(HarnessError):
    """A file of plugins cannot be used at all.

    Args:
        path: The file.
        line: Where, from 1; 0 if it cannot even be read.
        problem: What is wrong, and what to do.
        cause: What led to it.
    """

    def __init__(
        self, path: Path, line: int, problem: str, *, cause: BaseException | None = None
    ) -> None:
        self.path = path
        self.line = line
        place = f"{path}:{line}" if line else str(path)
        super().__init__(f"{place}: {problem}", "PLUGIN_FILE", cause=cause)


class PluginEntryError(HarnessError):
    """One entry of a file of plugins cannot be used.

    Args:
        path: The file.
        line: Where the entry begins, from 1.
        position: Which entry, from 1.
        entry_id: What it is called.
        problem: What is wrong, and what to do.
        cause: What led to it.
    """

    def __init__(
        self,
        path: Path,
        line: int,
        position: int,
        entry_id: str,
        problem: str,
        *,
        cause: BaseException | None = None,
    ) -> None:
        self.path = path
        self.line = line
        self.position = position
        self.entry_id = entry_id
        super().__init__(
            f"{path}:{line}: entry {position} ({entry_id!r}): {problem}",
            "PLUGIN_ENTRY",
            cause=cause,
        )
