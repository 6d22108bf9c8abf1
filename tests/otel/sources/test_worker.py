"""The worker: it never blocks, never raises, and drops what finds no room, counting it."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from dsh_otel.sources.worker import Worker

if TYPE_CHECKING:
    import pytest

    from tests.otel.conftest import Logged


class Work:
    """Notes what it is given; waits for `gate` before each item, and looks when told to."""

    def __init__(self) -> None:
        self.taken: list[object] = []
        self.gate = threading.Event()
        self.gate.set()
        self.due: list[float] = []
        self.looks = 0
        self.closed = 0

    @property
    def waiting(self) -> bool:
        return bool(self.due)

    def take(self, item: object, /) -> None:
        self.gate.wait(10)
        if item == "bad":
            raise ValueError(item)
        self.taken.append(item)

    def look(self) -> float | None:
        self.looks += 1
        if self.due and self.due[0] <= time.monotonic():
            self.due.pop(0)
        return self.due[0] if self.due else None

    def close(self) -> None:
        self.closed += 1


def test_items_are_worked_off_in_order() -> None:
    work = Work()
    worker: Worker[int] = Worker(lambda: work)
    for number in range(100):
        worker.put(number)
    assert worker.flush(10)
    assert work.taken == list(range(100))
    assert worker.close(10)
    assert work.closed == 1


def test_what_finds_no_room_is_dropped_counted_and_told_once(logged: Logged) -> None:
    work = Work()
    work.gate.clear()
    worker: Worker[int] = Worker(lambda: work, max_queued=3)
    worker.put(0)
    while worker._queue:
        time.sleep(0.001)
    for number in range(1, 10):
        worker.put(number)
    worker.put(10, always=True)
    work.gate.set()
    assert worker.flush(10)
    assert work.taken == [0, 1, 2, 3, 10]
    assert worker.dropped == 6
    (message,) = logged.take()
    assert "cannot keep up" in message


def test_so_is_what_is_too_large(logged: Logged) -> None:
    work = Work()
    worker: Worker[int] = Worker(lambda: work, max_bytes=10)
    worker.put(1, 11)
    worker.put(2, 10)
    assert worker.flush(10)
    assert work.taken == [2]
    assert worker.dropped == 1
    assert len(logged.take()) == 1


def test_work_that_fails_is_counted_and_told_once_and_goes_on(logged: Logged) -> None:
    work = Work()
    worker: Worker[object] = Worker(lambda: work)
    for item in ("bad", "bad", "good"):
        worker.put(item)
    assert worker.flush(10)
    assert work.taken == ["good"]
    assert worker.errors == 2
    assert logged.take() == ["telemetry failed, spans may be missing: ValueError('bad')"]


def test_it_looks_again_when_something_is_due() -> None:
    work = Work()
    worker: Worker[int] = Worker(lambda: work)
    work.due = [time.monotonic() + 0.05]
    worker.put(1)
    assert worker.flush(10)
    assert work.looks >= 2
    assert time.monotonic() < worker._clock() + 1


def test_a_flush_waits_for_what_is_due_but_not_for_ever() -> None:
    work = Work()
    worker: Worker[int] = Worker(lambda: work)
    work.due = [time.monotonic() + 60]
    worker.put(1)
    begin = time.monotonic()
    assert not worker.flush(0.1)
    assert time.monotonic() - begin < 5


def test_the_end_is_put_off_no_longer_than_asked() -> None:
    work = Work()
    work.gate.clear()
    worker: Worker[int] = Worker(lambda: work)
    worker.put(1)
    begin = time.monotonic()
    assert not worker.close(0.1)
    assert time.monotonic() - begin < 5
    work.gate.set()


def test_after_the_end_nothing_is_taken_and_nothing_starts() -> None:
    made: list[Work] = []

    def make() -> Work:
        made.append(Work())
        return made[-1]

    worker: Worker[int] = Worker(make)
    assert worker.close(1)
    worker.put(1)
    assert worker.flush(1)
    assert made[0].taken == []
    assert worker._thread is None


def test_without_items_there_is_no_thread() -> None:
    worker: Worker[int] = Worker(Work)
    assert worker._thread is None
    assert worker.close(0)


def test_a_fork_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a child the thread is gone, and its locks may be held for ever."""
    made: list[Work] = []

    def make() -> Work:
        made.append(Work())
        return made[-1]

    worker: Worker[int] = Worker(make)
    made[0].gate.clear()
    worker.put(1)
    worker._changed.acquire()
    held = worker._changed
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert worker.close(0)
    worker.put(2)
    assert worker.flush(10)
    held.release()
    made[0].gate.set()
    assert made[1].taken == [2]
    assert worker.close(10)
