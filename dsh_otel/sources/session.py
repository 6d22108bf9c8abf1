"""One session that is told in a stream, and made whole from its log.

An event is placed when its predecessors are known, or known to be lost: what the stream leaves out
is looked for in the durable log, for a bounded time. Nothing here waits; whoever drives it looks
again when it is due.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from dsh_core.events import UNREADABLE, TurnEnd, TurnStart
from dsh_core.logs.reader import NEWEST_VERSION
from dsh_otel.sources.callers import Callers
from dsh_otel.sources.told import Idle, Told, read_event
from dsh_otel.tree import REPAIRS

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Sequence

    from dsh_core.events import SessionEvent, SessionHeader
    from dsh_otel.sources.durable import DurableLog, Head
    from dsh_otel.sources.told import Process
    from dsh_otel.tracer import SessionTracer

FIRST_LOOK_S: Final = 0.05
LAST_LOOK_S: Final = 0.4
"""How long after a look at the log the next one follows, at first and in the end, in seconds."""

WAIT_S: Final = 2.0
"""How long what is missing is waited for, in seconds; the runtime writes every 200 ms."""


MAX_PENDING: Final = 4096
"""So many events wait for one that is missing; with more of them it is given up."""


class _Patience:
    """A bounded wait for one thing at a time, in which looks become rarer.

    Args:
        limit_s: How long it lasts, in seconds.

    Attributes:
        due: When to look next, None if nothing is waited for.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._what = ""
        self._end = self._pause_s = 0.0
        self.due: float | None = None

    def look(self, now: float, what: str) -> bool:
        """Return whether it is time to look for something."""
        if self.due is None or self._what != what:
            self._what, self._end, self._pause_s = what, now + self._limit_s, FIRST_LOOK_S
            self.due = now
        if now < self.due:
            return False
        self.due = max(min(now + self._pause_s, self._end), now)
        self._pause_s = min(2 * self._pause_s, LAST_LOOK_S)
        return True

    def is_over(self, now: float) -> bool:
        """Return whether the wait has lasted long enough."""
        return self.due is not None and now >= self._end

    def stop(self) -> None:
        """End the wait."""
        self.due = None


class StreamedSession:
    """Puts the events of one session in order, and hands them to its tracer.

    Args:
        process: The process of the runtime that tells it.
        log: Its durable log.
        make_tracer: Makes its tracer, of the log's beginning if that can be read.
        counts: Counts events that were ``filled`` in from logs, and those that stay ``missing``.
        as_parent: Whether turns become children of the span that they run on behalf of.
        seen: Number of events that were placed before the session was forgotten.
        wait_s: How long what is missing is waited for, in seconds.

    Attributes:
        process: The process of the runtime that tells it now.
        id: Its id.
        callers: On whose behalf its turns run.
        parent: The session that has started it, if that was told.
        next: The number that the next event is expected to have.
    """

    def __init__(
        self,
        process: Process,
        log: DurableLog,
        make_tracer: Callable[[Head | None], SessionTracer],
        counts: Counter[str],
        *,
        as_parent: bool = False,
        seen: int = 0,
        wait_s: float = WAIT_S,
    ) -> None:
        self.process = process
        self.id = log.session_id
        self.callers = Callers()
        self.parent: StreamedSession | None = None
        self.next = 0
        self._log = log
        self._make_tracer = make_tracer
        self._counts = counts
        self._as_parent = as_parent
        self._seen = seen
        self._tracer: SessionTracer | None = None
        self._pending: deque[Told | Idle] = deque()
        # Type and time of the event before `next`: whether a log goes on from it.
        self._last: tuple[str, int] | None = None
        self._found: list[SessionEvent] = []
        self._patience = _Patience(wait_s)
        self._final = self._open = False

    @property
    def header(self) -> SessionHeader | None:
        """Its header, None before it is known."""
        return None if self._tracer is None else self._tracer.session.header

    @property
    def due(self) -> float | None:
        """When to look again, None if nothing waits."""
        return self._patience.due if self._pending else None

    def take(self, item: Told | Idle, now: float) -> None:
        """Take in what was told next.

        Args:
            item: What was told.
            now: The time in seconds, on the clock that `due` is on.
        """
        self.process, self._final = item.process, False
        self._pending.append(item)
        self.advance(now)

    def advance(self, now: float) -> None:
        """Place what can be placed by now."""
        while self._pending and self._step(now):
            self._pending.popleft()
            self._patience.stop()

    def hurry(self, now: float) -> None:
        """Place what has been told, without waiting for anything."""
        self._final = True
        self.advance(now)

    def finish(self, now: float, *, lossy: bool) -> None:
        """Place everything, up to the end of the log: nothing more will be told for now.

        Args:
            now: The time.
            lossy: Whether the log is read even if nothing seems to be open.
        """
        self.hurry(now)
        if self._tracer is not None and (self._open or lossy):
            rest = self._rest(None)
            self._counts["filled"] += len(rest)
            for event in rest:
                self._place(self._tracer, event)

    def close(self) -> None:
        """End the session's spans."""
        if self._tracer is not None:
            self._tracer.close()

    def _step(self, now: float) -> bool:
        """Place the first of what waits; False while something is waited for."""
        if self.callers.unknown:
            self._patience.look(now, "the id of a message")
            if not self._over(now):
                return False
            self.callers.give_up()
        item = self._pending[0]
        if isinstance(item, Idle):
            self.callers.idle()
            return True
        tracer = self._begun(now)
        if tracer is None:
            return False
        exact = tracer.session.header.version == NEWEST_VERSION
        event, faults = read_event(item, exact=exact)
        if event.seq > self.next and not self._fill(tracer, event.seq, now):
            return False
        for fault in faults:
            tracer.observe_fault(fault)
        self._place(tracer, event)
        return True

    def _over(self, now: float) -> bool:
        return self._final or len(self._pending) > MAX_PENDING or self._patience.is_over(now)

    def _begun(self, now: float) -> SessionTracer | None:
        """Return the tracer, None while the log's header can be waited for."""
        if self._tracer is None:
            look = self._patience.look(now, "the header")
            head = self._log.head() if look or self._final else None
            if head is None and self._log.known and not self._over(now):
                return None
            self._tracer = self._make_tracer(head)
        return self._tracer

    def _fill(self, tracer: SessionTracer, end: int, now: float) -> bool:
        """Place what the stream has left out; False while the log can be waited for."""
        missing = end - self.next
        if self._log.known:
            look = self._patience.look(now, f"what comes before {end}")
            if (look or self._final) and self._log.changed():
                self._found = self._rest(end)
            if len(self._found) < missing and not self._over(now):
                return False
        found, self._found = self._found, []
        self._log.forget()
        self._counts["filled"] += len(found)
        self._counts["missing"] += missing - len(found)
        news = self._news(tracer, found) if self._last is None else 0
        for place, event in enumerate(found):
            self._place(tracer, event, past=place < news)
        self.next = end
        return True

    def _rest(self, end: int | None) -> list[SessionEvent]:
        """Return what the log has after the event that was placed last, up to a number."""
        if self._last is None:
            return self._log.events(self.next, end)
        last, *rest = self._log.events(self.next - 1, end) or (None,)
        # After a crash a log may lack what was told, and go on in another way.
        same = last is not None and (last.type, last.time) == self._last
        return rest if same else []

    def _news(self, tracer: SessionTracer, events: Sequence[SessionEvent]) -> int:
        """Return where the news begin in the events before the first one that was told.

        What lies before was traced by the process that it happened in.
        """
        if self._seen:
            return min(self._seen, len(events))
        if tracer.session.header.created_at >= self.process.since:
            return 0
        for place in range(len(events) - 1, -1, -1):
            event = events[place]
            if isinstance(event, TurnStart):
                # A turn that is open, or that was closed by whoever goes on with the session.
                return place
            if isinstance(event, TurnEnd) and event.data.reason.kind not in REPAIRS:
                break
        return len(events)

    def _place(self, tracer: SessionTracer, event: SessionEvent, *, past: bool = False) -> None:
        self.callers.see(event)
        if isinstance(event, TurnStart):
            tracer.call_from(self.callers.current, as_parent=self._as_parent)
            self._open = True
        elif isinstance(event, TurnEnd):
            self._open = False
        (tracer.remember if past else tracer.observe)(event)
        if event.seq != UNREADABLE:
            self.next, self._last = event.seq + 1, (event.type, event.time)
