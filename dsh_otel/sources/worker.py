"""A thread that does what a program must not wait for: fed through a bounded queue, never blocking.

Nothing is raised into the program, and nothing holds up its end.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_QUEUED: Final = 10_000
MAX_BYTES: Final = 64 << 20
"""How much may wait for the worker: items, and bytes of them."""

_logger: Final = logging.getLogger("dsh_otel")
_Item = TypeVar("_Item")
_Taken_contra = TypeVar("_Taken_contra", contravariant=True)


class Work(Protocol[_Taken_contra]):
    """What the thread does."""

    @property
    def waiting(self) -> bool:
        """Whether something that was taken is not worked off."""

    def take(self, item: _Taken_contra, /) -> None:
        """Take in an item."""

    def look(self) -> float | None:
        """Do what is due; return when something is due again, None if nothing is."""

    def close(self) -> None:
        """Finish what was begun."""


class Worker(Generic[_Item]):
    """Hands items to a thread of its own.

    A process that is forked starts with an empty queue, new work and no thread.

    Args:
        make_work: Makes what the thread does.
        clock: Seconds that pass, as in `Work.look`.
        max_queued: How many items may wait.
        max_bytes: How many bytes may wait.

    Attributes:
        work: What the thread does.
        dropped: Number of items that found no room.
        errors: How often the work failed, also after it was said once.
    """

    def __init__(
        self,
        make_work: Callable[[], Work[_Item]],
        *,
        clock: Callable[[], float] = time.monotonic,
        max_queued: int = MAX_QUEUED,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._make_work = make_work
        self._clock = clock
        self._max_queued = max_queued
        self._max_bytes = max_bytes
        self.dropped = 0
        self.errors = 0
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._queue: deque[tuple[_Item, int]] = deque()
        self._bytes = 0
        self._busy = self._waits = self._ending = False
        self._thread: threading.Thread | None = None
        self.work = self._make_work()

    def put(self, item: _Item, size: int = 0, *, always: bool = False) -> None:
        """Hand an item over; it is dropped, and counted, where there is no room.

        Args:
            item: The item.
            size: How many bytes it takes.
            always: Whether it finds room where nothing else does; for what is rare and short.
        """
        if self._process != os.getpid():
            # The locks of the process that forked may be held by threads that are not here.
            self._begin()
        first = False
        with self._changed:
            if self._ending:
                return
            full = len(self._queue) >= self._max_queued or self._bytes + size > self._max_bytes
            if full and not always:
                self.dropped += 1
                first = self.dropped == 1
            else:
                self._queue.append((item, size))
                self._bytes += size
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._run, name="dsh-otel-worker", daemon=True
                    )
                    self._thread.start()
                self._changed.notify_all()
        if first:
            _logger.warning(
                "telemetry cannot keep up and drops what it is told: spans may be missing, where "
                "no log can be read to fill the gap"
            )

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything is worked off.

        Args:
            timeout_s: How long to wait at most, in seconds.

        Returns:
            Whether it is.
        """
        if self._process != os.getpid() or self._thread is None:
            return True
        with self._changed:
            return self._changed.wait_for(self._is_calm, timeout_s)

    def close(self, timeout_s: float) -> bool:
        """Work everything off, finish the work, and end the thread; nothing is taken any more.

        Args:
            timeout_s: How long to wait at most, in seconds.

        Returns:
            Whether all was done.
        """
        if self._process != os.getpid():
            return True
        end = self._clock() + timeout_s
        calm = self.flush(timeout_s)
        with self._changed:
            self._ending = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(end - self._clock(), 0.05))
            calm = calm and not thread.is_alive()
        return calm

    def _is_calm(self) -> bool:
        return not (self._queue or self._busy or self._waits)

    def _run(self) -> None:
        changed, work = self._changed, self.work
        due: float | None = None
        while True:
            with changed:
                self._waits = work.waiting
                self._busy = False
                changed.notify_all()
                while not self._queue and not self._ending:
                    pause = None if due is None else max(due - self._clock(), 0)
                    if pause == 0:
                        break
                    changed.wait(pause)
                items, self._queue, self._bytes = self._queue, deque(), 0
                self._busy = True
                if self._ending and not items:
                    break
            for item, _ in items:
                self._safely(partial(work.take, item))
            due = self._safely(work.look)
        self._safely(work.close)

    def _safely(self, action: Callable[[], float | None]) -> float | None:
        try:
            return action()
        except Exception as error:  # noqa: BLE001 - the host must not suffer
            self.errors += 1
            if self.errors == 1:
                _logger.error("telemetry failed, spans may be missing: %r", error)  # noqa: TRY400
            return None
