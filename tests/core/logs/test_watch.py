"""Waiting until something happens to logs."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from dsh_core.logs import watch as module
from dsh_core.logs.watch import Notified, Poll, watch_logs

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from dsh_core.logs.watch import Watch


def told_of(watch: Watch, folder: Path) -> bool:
    """Wait until something is told of what lies in a folder."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        paths = watch.wait()
        if paths and any(path.startswith(str(folder)) for path in paths):
            return True
    return False


def test_the_system_tells_what_has_changed(tmp_path: Path) -> None:
    watch = watch_logs(str(tmp_path), threading.Event())
    assert isinstance(watch, Notified)
    path = tmp_path / "a" / "b" / "session.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("x")
    assert told_of(watch, tmp_path / "a")


def test_everything_is_looked_at_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0)
    assert watch_logs(str(tmp_path), threading.Event()).wait() is None


def test_whoever_asks_for_it_looks(tmp_path: Path) -> None:
    watch = watch_logs(str(tmp_path), threading.Event(), poll_s=0.01)
    assert isinstance(watch, Poll)
    assert watch.wait() is None
    assert "0.01 s" in watch.how


def test_what_is_not_there_yet_is_looked_for(tmp_path: Path) -> None:
    assert isinstance(watch_logs(str(tmp_path / "later"), threading.Event()), Poll)


def test_without_the_package_everything_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    assert isinstance(watch_logs(str(tmp_path), threading.Event()), Poll)


def test_where_the_system_has_no_room_everything_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr("watchfiles.watch", refuse)
    assert isinstance(watch_logs(str(tmp_path), threading.Event()), Poll)


def test_a_stop_ends_the_wait(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    begin = time.monotonic()
    for poll_s in (100, None):
        watch_logs(str(tmp_path), stop, poll_s=poll_s).wait()
    assert time.monotonic() - begin < 10
