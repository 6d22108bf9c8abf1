"""Sessions that somebody tells of: their events become spans, each once.

What is told may come twice, late or not at all, of many sessions at once, and nobody says when a
session is over. So everything that is remembered has a bound, and what exceeds it is counted.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import msgspec

from dsh_core.contract.run import SourceKind
from dsh_core.events import TurnEnd, TurnStart
from dsh_core.logs.ordering import WAIT_S, WINDOW, Ordering
from dsh_core.logs.told import Aside, Told, decoded, guess_version
from dsh_core.logs.unmarked import Surfacing
from dsh_otel.tracer import SessionTracer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from opentelemetry.trace import TracerProvider

    from dsh_core.events import Contract
    from dsh_otel.clean import Privacy
    from dsh_otel.processors.base import SessionSpanProcessor

MAX_SESSIONS: Final = 512
"""How many sessions are followed at once; the one told of least recently is closed."""

MAX_CLOSED: Final = 4096
"""Of how many closed sessions it is remembered how far they were told."""

MAX_HELD_BYTES: Final = 64 << 20
"""How many bytes may wait for events that are missing."""

IDLE_S: Final = 15 * 60.0
"""After so many seconds without an event a session between turns is closed."""

OPEN_IDLE_S: Final = 12 * 3600.0
"""After so many one is closed whose turn is open: people may be asked in the middle of it."""


@dataclass(slots=True)
class StreamCounts:
    """What was told.

    Attributes:
        sessions: Sessions that had events.
        events: Events that were news.
        turns: Turns that ended.
        asides: What else was told or left out, by kind: ``duplicate`` and ``late`` events,
            ``missing`` seqs, sessions closed because they were ``idle`` or too many (``evicted``),
            and the kinds of `Aside`.
        errors: Errors of ours and of processors, by place.
    """

    sessions: int = 0
    events: int = 0
    turns: int = 0
    asides: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSetting:
    """What all sessions are traced with.

    Attributes:
        provider: Where spans start.
        processors: What sees their events.
        privacy: Makes what says what may leave.
        contract: The contract to hold sessions to, None for that of each one's generation.
        max_sessions: How many are followed at once.
        idle_s: After so many seconds without an event one is closed.
        open_idle_s: After so many one is closed whose turn is open.
        window: How many events of a session may wait for one that is missing.
        wait_s: How long they may, in seconds.
        clock: Tells the time in seconds.
    """

    provider: TracerProvider
    processors: Sequence[SessionSpanProcessor]
    privacy: Callable[[], Privacy]
    contract: Contract | None = None
    max_sessions: int = MAX_SESSIONS
    idle_s: float = IDLE_S
    open_idle_s: float = OPEN_IDLE_S
    window: int = WINDOW
    wait_s: float = WAIT_S
    clock: Callable[[], float] = time.monotonic


class StreamHub:
    """Follows the sessions that a stream tells of; for use in one thread.

    Args:
        setting: What with.

    Attributes:
        counts: What was told.
    """

    def __init__(self, setting: StreamSetting) -> None:
        self.counts = StreamCounts()
        self._setting = setting
        # The ones told of last come last.
        self._open: OrderedDict[str, _Session] = OrderedDict()
        # How far closed ones were told.
        self._closed: OrderedDict[str, Ordering] = OrderedDict()
        self._parents: OrderedDict[str, str] = OrderedDict()
        self._held = 0

    def tell(self, told: Told | Aside) -> None:
        """Take in what is told; never raises.

        Args:
            told: An event, or something beside events.
        """
        try:
            if isinstance(told, Aside):
                self._note(told)
            else:
                self._take(told)
        except Exception as error:  # noqa: BLE001 - whoever tells must not suffer
            self._failed(error)

    def tick(self) -> None:
        """Let time pass: what has waited long enough goes on, and idle sessions are closed."""
        now = self._setting.clock()
        try:
            for session in self._open.values():
                if session.ordering.waiting:
                    self._go_on(session, session.ordering.tick(now))
            self._close_idle(now)
        except Exception as error:  # noqa: BLE001 - as above
            self._failed(error)

    def close(self) -> None:
        """End all sessions: what is open ends as unclosed."""
        while self._open:
            try:
                self._let_go(next(iter(self._open)))
            except Exception as error:  # noqa: BLE001 - as above
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        self.counts.errors[f"following a session ({type(error).__name__})"] += 1

    def _note(self, aside: Aside) -> None:
        self.counts.asides[aside.kind] += 1
        if aside.session and aside.parent:
            self._parents[aside.session] = aside.parent
            if len(self._parents) > MAX_CLOSED:
                self._parents.popitem(last=False)

    def _take(self, told: Told) -> None:
        id_, now = told.header.id, self._setting.clock()
        session = self._open.get(id_)
        if session is None:
            session = self._begin(id_)
        else:
            self._open.move_to_end(id_)
        session.heard = now
        self._go_on(session, session.ordering.take(told, now) if told.shuffled else (told,))
        if self._held > MAX_HELD_BYTES:
            for one in self._open.values():
                self._go_on(one, one.ordering.release())

    def _begin(self, id_: str) -> _Session:
        while len(self._open) >= self._setting.max_sessions:
            self.counts.asides["evicted"] += 1
            self._let_go(next(iter(self._open)))
        ordering = self._closed.pop(id_, None)
        if ordering is None:
            self.counts.sessions += 1
            setting = self._setting
            ordering = Ordering(self.counts.asides, setting.window, setting.wait_s)
        session = self._open[id_] = _Session(ordering)
        return session

    def _go_on(self, session: _Session, told: Iterable[Told]) -> None:
        """Trace what is told in its order."""
        for one in told:
            tracer = session.tracer or self._start(session, one)
            event, faults = decoded(session.surfaced(one), session.version)
            for fault in faults:
                tracer.observe_fault(fault)
            if event is None:
                continue
            tracer.observe(event, one.line)
            self.counts.events += 1
            if isinstance(event, TurnStart):
                session.in_turn = True
            elif isinstance(event, TurnEnd):
                session.in_turn = False
                self.counts.turns += 1
        self._held += session.weigh()

    def _start(self, session: _Session, told: Told) -> SessionTracer:
        header, setting = told.header, self._setting
        version = header.version
        session.version = guess_version([told.event]) if version is None else version
        header = msgspec.structs.replace(
            header,
            version=session.version,
            parent_session=header.parent_session or self._parents.get(header.id, ""),
        )
        session.tracer = SessionTracer(
            header,
            tracer_provider=setting.provider,
            processors=setting.processors,
            contract=setting.contract,
            privacy=setting.privacy(),
            source=SourceKind.STREAM,
        )
        return session.tracer

    def _close_idle(self, now: float) -> None:
        setting = self._setting
        for id_, session in list(self._open.items()):
            silent = now - session.heard
            if silent < setting.idle_s:
                # Those behind it were told of later.
                break
            if silent >= (setting.open_idle_s if session.in_turn else setting.idle_s):
                self.counts.asides["idle"] += 1
                self._let_go(id_)

    def _let_go(self, id_: str) -> None:
        session = self._open.pop(id_)
        try:
            self._go_on(session, session.ordering.release())
        finally:
            session.ordering.forget()
            self._closed[id_] = session.ordering
            if len(self._closed) > MAX_CLOSED:
                self._closed.popitem(last=False)
            if session.tracer is not None:
                session.tracer.close()
                self.counts.errors.update(session.tracer.guard.errors)


class _Session:
    """One session.

    Attributes:
        ordering: Puts its events in order.
        tracer: Traces it; None before the first event.
        version: The version of the log that it is of.
        heard: When it was told of last, in seconds.
        in_turn: Whether a turn is open.
        held: About how many bytes wait for events that are missing.
    """

    __slots__ = ("_surfacing", "heard", "held", "in_turn", "ordering", "tracer", "version")

    def __init__(self, ordering: Ordering) -> None:
        self.ordering = ordering
        self.tracer: SessionTracer | None = None
        self.version: int | None = None
        self.heard = 0.0
        self.in_turn = False
        self.held = 0
        self._surfacing = Surfacing()

    def surfaced(self, told: Told) -> Told:
        """Return an event with what it says of the surface."""
        if not told.bare:
            return told
        return replace(told, event=self._surfacing.mark(told.event))

    def weigh(self) -> int:
        """Note how many bytes wait; return how many more that are."""
        before = self.held
        self.held = self.ordering.size if self.ordering.waiting else 0
        return self.held - before
