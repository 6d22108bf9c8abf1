"""The order of what is told: each event of a session once, late ones in their place.

Transports repeat what they have not heard an answer to, and send things at once that belong one
after the other. What is early waits a short while for what is missing. Numbers that are used again
at a later time are those of another process, which goes on where a crash lost the end.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final

from dsh_core.decode import is_minus_zero
from dsh_core.events import MAX_SAFE_INTEGER, RESUMING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsh_core.logs.told import Told

WINDOW: Final = 256
"""How many events of a session may wait for one that is missing."""

WAIT_S: Final = 1.0
"""How long they may, in seconds."""

MAX_GAPS: Final = 256
"""How many stretches of missing events are remembered: what is late is told from repetitions."""

CHUNK: Final = "assistant/chunk"


class Ordering:
    """Orders what is told of one session.

    Args:
        counts: Counts what is left out: ``duplicate`` if it was told before, ``late`` if what
            follows it has been passed on; and ``missing`` numbers, of which exporters leave many
            out.
        window: How many events may wait.
        wait_s: How long they may, in seconds.

    Attributes:
        size: About how many bytes wait.
    """

    def __init__(self, counts: Counter[str], window: int = WINDOW, wait_s: float = WAIT_S) -> None:
        self.size = 0
        self._counts = counts
        self._window = window
        self._wait_s = wait_s
        self._last = -1
        self._last_time = -MAX_SAFE_INTEGER
        # When the process began that is at work.
        self._since = -MAX_SAFE_INTEGER
        # By seq, with the time of arrival.
        self._held: dict[int, tuple[float, Told]] = {}
        self._gaps: deque[tuple[int, int]] = deque(maxlen=MAX_GAPS)

    @property
    def waiting(self) -> int:
        """How many events wait."""
        return len(self._held)

    def take(self, told: Told, now: float) -> Iterator[Told]:
        """Take an event, and return those whose turn it is.

        Args:
            told: The event.
            now: The time, in seconds of any clock.
        """
        seq, time = _number(told.event.get("seq")), _number(told.event.get("time"))
        if seq is None or seq < 0 or time is None:
            # It has no place of its own: what is wrong with it, the rules say.
            yield from self.release()
            yield told
        elif time < self._since:
            # Of a process that is no more.
            self._leave_out(seq)
        elif seq <= self._last:
            if self._resumes(told.event, time):
                yield from self._restart(told, seq, time)
            else:
                self._leave_out(seq)
        elif any(other >= seq and time > self._time(other) for other in self._held):
            if told.event.get("type") in RESUMING:
                yield from self._restart(told, seq, time)
            elif seq in self._held:
                self._leave_out(seq)
            else:
                yield from self._hold(seq, now, told)
        elif seq in self._held:
            self._counts["duplicate"] += 1
        else:
            yield from self._hold(seq, now, told)
        if len(self._held) > self._window:
            yield from self._until(min(self._held))

    def tick(self, now: float) -> Iterator[Told]:
        """Return what has waited long enough.

        Args:
            now: The time, in seconds of the same clock.
        """
        over = [seq for seq, (came, _) in self._held.items() if now - came >= self._wait_s]
        if over:
            yield from self._until(max(over))

    def release(self) -> Iterator[Told]:
        """Return all that waits."""
        if self._held:
            yield from self._until(max(self._held))

    def forget(self) -> None:
        """Forget which stretches are missing: what is late counts as repeated from now on."""
        self._gaps.clear()

    def _time(self, seq: int) -> int:
        found = self._held[seq][1].event
        # Chunks are stamped where they arrive.
        return MAX_SAFE_INTEGER if found.get("type") == CHUNK else int(found["time"])

    def _resumes(self, event: Any, time: int) -> bool:  # noqa: ANN401 - a mapping
        return time > self._last_time and event.get("type") in RESUMING

    def _restart(self, told: Told, seq: int, time: int) -> Iterator[Told]:
        yield from self.release()
        self._last, self._last_time, self._since = seq, time, time
        self._gaps.clear()
        yield told

    def _leave_out(self, seq: int) -> None:
        late = any(first <= seq <= last for first, last in self._gaps)
        self._counts["late" if late else "duplicate"] += 1

    def _hold(self, seq: int, now: float, told: Told) -> Iterator[Told]:
        self._held[seq] = (now, told)
        self.size += told.size
        yield from self._go_on()

    def _go_on(self) -> Iterator[Told]:
        """Return what follows without a gap."""
        while self._last + 1 in self._held:
            yield self._pass_on(self._last + 1)

    def _until(self, end: int) -> Iterator[Told]:
        """Return all up to some seq, and what follows that without a gap."""
        for seq in sorted(seq for seq in self._held if seq <= end):
            if seq > self._last + 1:
                self._counts["missing"] += seq - self._last - 1
                self._gaps.append((self._last + 1, seq - 1))
            yield self._pass_on(seq)
        yield from self._go_on()

    def _pass_on(self, seq: int) -> Told:
        told = self._held.pop(seq)[1]
        self.size -= told.size
        self._last = seq
        if told.event.get("type") != CHUNK:
            self._last_time = max(self._last_time, int(told.event["time"]))
        return told


def _number(value: object) -> int | None:
    """Return a number of the envelope that can be relied on."""
    if isinstance(value, bool) or not isinstance(value, int | float) or is_minus_zero(value):
        return None
    if isinstance(value, float):
        if not value.is_integer():
            return None
        value = int(value)
    return value if abs(value) <= MAX_SAFE_INTEGER else None
