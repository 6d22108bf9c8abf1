"""The progress of long work, shown on standard error while a person waits."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from rich.console import Console
    from rich.progress import Progress

DELAY: Final = 1.0
"""Work that takes less time, in seconds, shows no progress."""

_INTERVAL: Final = 0.1


class CheckProgress:
    """A bar that appears only when the work turns out to be long, and leaves nothing behind.

    Args:
        console: Where to show it; None to show nothing.
        logs: Number of logs to check.
        shared: Whether results appear on the same screen, and the bar has to make room for them.
        clock: Tells the time in seconds.
    """

    def __init__(
        self,
        console: Console | None,
        logs: int,
        *,
        shared: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._logs = logs
        self._shared = shared
        self._clock = clock
        self._next = clock() + DELAY
        self._done = 0
        self._events = 0
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._hide()

    def read(self, events: int) -> None:
        """Count events that were read."""
        self._events += events
        self._show()

    def checked(self) -> None:
        """Count one more log as done."""
        self._done += 1
        self._show()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Keep the bar off the screen while results are written to it."""
        if self._shared:
            self._hide()
        yield

    def _show(self) -> None:
        if self._console is None or self._clock() < self._next:
            return
        self._next = self._clock() + _INTERVAL
        if self._bar is None:
            self._bar = _make_bar(self._console)
            self._bar.add_task("checking", total=self._logs)
        task = self._bar.task_ids[0]
        self._bar.update(task, completed=self._done, events=f"{self._events:,}")
        self._bar.start()
        self._bar.refresh()

    def _hide(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _make_bar(console: Console) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    return Progress(
        TextColumn("checking"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("logs, {task.fields[events]} events"),
        console=console,
        transient=True,
        auto_refresh=False,
    )
