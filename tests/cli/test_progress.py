"""Tests of the progress bar."""

from __future__ import annotations

import io

from rich.console import Console

from dsh_otel.cli.progress import DELAY, CheckProgress


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def terminal() -> tuple[Console, io.StringIO]:
    """A terminal and what it shows."""
    screen = io.StringIO()
    return Console(file=screen, force_terminal=True, color_system=None, width=80), screen


class TestProgress:
    """A bar for long work only."""

    def test_short(self) -> None:
        """Work that is done soon shows nothing."""
        console, screen = terminal()
        clock = Clock()
        with CheckProgress(console, 2, clock=clock) as progress:
            progress.read(10)
            progress.checked()
            clock.now += DELAY / 2
            progress.checked()
        assert screen.getvalue() == ""

    def test_long(self) -> None:
        """Long work shows how many logs and events are done, and leaves nothing behind."""
        console, screen = terminal()
        clock = Clock()
        with CheckProgress(console, 3, clock=clock) as progress:
            progress.read(1234)
            progress.checked()
            clock.now += DELAY
            progress.read(1)
            assert "1/3 logs, 1,235 events" in screen.getvalue()
            clock.now += 1
            progress.checked()
            assert "2/3 logs, 1,235 events" in screen.getvalue()
        assert screen.getvalue().endswith("\x1b[2K")

    def test_makes_room(self) -> None:
        """While results are written the bar is gone, and comes back later."""
        console, screen = terminal()
        clock = Clock()
        with CheckProgress(console, 2, clock=clock) as progress:
            clock.now += DELAY
            progress.read(1)
            with progress.hidden():
                assert screen.getvalue().endswith("\x1b[2K")
            screen.truncate(0)
            clock.now += 1
            progress.read(1)
            assert "0/2 logs, 2 events" in screen.getvalue()

    def test_stays(self) -> None:
        """Results that go elsewhere leave the bar where it is."""
        console, screen = terminal()
        clock = Clock()
        with CheckProgress(console, 2, shared=False, clock=clock) as progress:
            clock.now += DELAY
            progress.read(1)
            shown = screen.getvalue()
            with progress.hidden():
                assert screen.getvalue() == shown

    def test_nobody_looks(self) -> None:
        """Without a terminal there is no bar, however long it takes."""
        clock = Clock()
        with CheckProgress(None, 1, clock=clock) as progress:
            clock.now += 10 * DELAY
            progress.read(1)
            progress.checked()
            assert progress._bar is None
