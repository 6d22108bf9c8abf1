"""Following session logs: what is written to them becomes spans, each once.

Where a session stands is known by the bytes of its log that are dealt with. After a restart its
past is read again and makes no spans; of a turn that was open, what was not exported yet goes on.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from dsh_core.events import TurnEnd, TurnStart
from dsh_core.faults import Fault
from dsh_core.logs.growing import GrowingLog, Mark, Rewritten
from dsh_core.logs.reader import Batch, UnsupportedFormatError
from dsh_otel.sources.past import Past
from dsh_otel.sources.places import Place
from dsh_otel.tracer import SessionTracer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opentelemetry.trace import TracerProvider

    from dsh_core.events import Contract, SessionEvent
    from dsh_core.logs.tree import Change
    from dsh_otel.clean import Privacy
    from dsh_otel.processors.base import SessionSpanProcessor
    from dsh_otel.sources.facts import FactProcessor
    from dsh_otel.sources.outlet import Outlet
    from dsh_otel.sources.places import Places

MAX_OPEN: Final = 512
"""How many sessions are kept in memory; one that was let go is read again when it grows."""

MAX_HELD: Final = 200_000
"""How many events a turn may have that is open when it is met; a longer one is of the past."""

ROOM_S: Final = 0.2
"""How long to wait for room in one go, in seconds."""


@dataclass(slots=True)
class Counts:
    """What was followed.

    Attributes:
        sessions: Sessions that had events.
        events: Events that were news.
        turns: Turns that ended.
        rewritten: How often a log was found to be another than before.
        unreadable: Logs that cannot be read, and why, by path.
        errors: Errors of ours and of processors, by place.
    """

    sessions: int = 0
    events: int = 0
    turns: int = 0
    rewritten: int = 0
    unreadable: dict[str, str] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all sessions are followed with.

    Attributes:
        provider: Where spans start.
        processors: What sees their events.
        facts: Among those, the one that tells facts.
        outlet: Where spans leave; None if they go nowhere.
        places: Where sessions stand.
        since_ms: Turns that began before are of the past, Unix time in ms; None if everything is
            that is there at the beginning.
        privacy: Makes what says what may leave.
        contract: The contract to hold sessions to, None for that of each log's generation.
        stop: Tells whether it is time to end.
    """

    provider: TracerProvider
    processors: Sequence[SessionSpanProcessor]
    facts: FactProcessor
    outlet: Outlet | None
    places: Places
    since_ms: int | None
    privacy: Callable[[], Privacy]
    contract: Contract | None = None
    stop: Callable[[], bool] = lambda: False


class Tail:
    """Follows many sessions.

    Args:
        setting: What with.

    Attributes:
        counts: What was followed.
    """

    def __init__(self, setting: Setting) -> None:
        self.counts = Counts()
        self._setting = setting
        # The ones that grew last come last.
        self._open: dict[str, _Followed] = {}
        self._seen: set[str] = set()

    def begin(self, changes: Sequence[Change], *, changes_only: bool = False) -> None:
        """Take in what is there before anything is followed.

        Without a state, and unless turns since some time count, what a log holds is of the past,
        but for a turn that is open. A log that cannot be told of yet is not read.
        """
        places = self._setting.places
        if self._setting.since_ms is None and places.fresh:
            places.put(
                (change.key, Place(_name(change.path), change.size))
                for change in changes
                if change.path is not None and change.size
            )
        if not changes_only:
            self.follow(changes)

    def follow(self, changes: Sequence[Change]) -> None:
        """Deal with what has changed, as far as there is room for spans."""
        for change in changes:
            if self._setting.stop():
                return
            followed = self._open.pop(change.key, None)
            if change.path is None:
                self._gone(change.key, followed)
                continue
            if followed is None:
                followed = _Followed(change.key, self._setting, self.counts)
            self._open[change.key] = followed
            followed.advance(change.path)
            if followed.events and change.key not in self._seen:
                self._seen.add(change.key)
                self.counts.sessions += 1
        self._let_go()

    def _gone(self, key: str, followed: _Followed | None) -> None:
        if followed is not None:
            followed.close()
        self._setting.places.put([(key, None)])
        self._seen.discard(key)

    def _let_go(self) -> None:
        """Forget the sessions that have not grown for longest, unless a turn of theirs is open."""
        if len(self._open) <= MAX_OPEN:
            return
        idle = [key for key, one in self._open.items() if one.idle]
        for key in idle[: len(self._open) - MAX_OPEN]:
            self._open.pop(key).forget()

    def close(self, *, final: bool) -> None:
        """End it.

        Args:
            final: Whether nothing will follow: what is open ends as unclosed. Else it is left to
                whoever follows next.
        """
        for followed in self._open.values():
            if final:
                followed.close()
            else:
                followed.forget()
        self._open = {}


class _Followed:
    """One session.

    Attributes:
        events: Number of its events that were news.
        idle: Whether it can be let go: no turn is open.
    """

    def __init__(self, key: str, setting: Setting, counts: Counts) -> None:
        self._key = key
        self._setting = setting
        self._counts = counts
        self._log: GrowingLog | None = None
        self._tracer: SessionTracer | None = None
        self._past: Past | None = None
        self._kept = Mark()
        self._seq = -1
        self._turn = 0
        self.events = 0
        self.idle = True

    def advance(self, path: str) -> None:
        """Deal with what has been added to its newest log."""
        try:
            if self._log is None or self._log.path != path:
                self._log = self._load(path)
            self._read(self._log)
        except UnsupportedFormatError as error:
            self._counts.unreadable[path] = str(error)
            self.forget()
        except OSError as error:
            self._counts.unreadable[path] = error.strerror or str(error)
            self.forget()
        else:
            self._counts.unreadable.pop(path, None)

    # The past

    def _load(self, path: str) -> GrowingLog:
        """Begin with a log, at the place where its session stands."""
        place = self._setting.places.get(self._key)
        self.forget()
        name, log = _name(path), GrowingLog(path, self._setting.stop)
        if place is None:
            if self._setting.since_ms:
                self._pass_by(log, None, Past(since_ms=self._setting.since_ms))
        elif place.file != name:
            # It goes on in a newer generation, where events have other numbers.
            past = Past(turn=place.turn, exported=True)
            if not place.exported:
                past = Past(since_ms=self._setting.places.since_ms)
            self._pass_by(log, None, past)
        elif place.offset:
            self._pass_by(log, place.offset, Past(exported=place.exported))
            if place.digest and log.mark.digest != place.digest:
                # It was written anew while nobody looked.
                self._counts.rewritten += 1
                self.forget()
                log = GrowingLog(path, self._setting.stop)
                self._pass_by(log, None, Past(seq=place.seq, exported=True))
        return log

    def _pass_by(self, log: GrowingLog, until: int | None, past: Past) -> None:
        """Read what is there; what is of the past makes no spans, unless its turn is open."""
        self._past = past
        self._take(log, until)
        self._begin()

    def _begin(self) -> None:
        """Go over to what is news: a turn that is open is traced as a whole."""
        past, self._past = self._past, None
        if past is None or self._tracer is None:
            return
        if not past.open:
            self._remember(past)
            return
        facts, outlet = self._setting.facts, self._setting.outlet
        # That a turn is open is news to whoever was not told.
        facts.quiet = past.exported
        if outlet is not None:
            outlet.skipping = past.exported
        try:
            for item, line in past.held:
                self._observe(self._tracer, item, line)
                facts.quiet = True
        finally:
            facts.quiet = False
            if outlet is not None:
                outlet.skipping = False

    def _pass(self, past: Past, item: SessionEvent | Fault, line: int) -> None:
        if isinstance(item, TurnStart):
            self._remember(past)
            past.open = True
        past.held.append((item, line))
        if isinstance(item, TurnEnd):
            past.open = False
        if not past.open or len(past.held) > MAX_HELD:
            self._remember(past)
            past.open = False

    def _remember(self, past: Past) -> None:
        tracer, facts = self._tracer, self._setting.facts
        assert tracer is not None  # noqa: S101 - made with the first item
        facts.quiet = True
        try:
            for item, _ in past.held:
                if isinstance(item, Fault):
                    tracer.remember_fault(item)
                else:
                    tracer.remember(item)
                    self._note(item)
        finally:
            facts.quiet = False
        past.held.clear()

    # What is news

    def _read(self, log: GrowingLog) -> None:
        self._take(log, None)
        self._keep(log)

    def _keep(self, log: GrowingLog) -> None:
        """Have it known that everything up to here is dealt with, when it is."""
        mark, places = log.mark, self._setting.places
        if mark == self._kept or self._past is not None:
            return
        self._kept = mark
        place = Place(
            _name(log.path), mark.offset, mark.digest, self._seq, self._turn, exported=True
        )
        places.expect(self._key, place)
        if self._setting.outlet is None:
            places.put([(self._key, place)])
        else:
            self._setting.outlet.mark((self._key, place))

    def _take(self, log: GrowingLog, until: int | None) -> None:
        again: Rewritten | None = None
        for item in log.read(until):
            if isinstance(item, Rewritten):
                again = item
                break
            self._keep(log)
            if self._tracer is None:
                self._tracer = self._make(log)
            if isinstance(item, Batch):
                for event, line in zip(item.events, item.lines, strict=True):
                    self._meet(event, line)
            else:
                self._meet(item, item.line)
            self._wait_for_room()
        if again is not None:
            self._counts.rewritten += 1
            self._drop_tracer()
            if again.kept:
                self._pass_by(log, again.kept, Past(exported=True))
            self._take(log, until)

    def _meet(self, item: SessionEvent | Fault, line: int) -> None:
        past, tracer = self._past, self._tracer
        assert tracer is not None  # noqa: S101 - made before
        if past is not None:
            if past.holds(item):
                self._pass(past, item, line)
                return
            self._begin()
        self._observe(tracer, item, line)
        if not isinstance(item, Fault):
            self.events += 1
            self._counts.events += 1
            self._counts.turns += isinstance(item, TurnEnd)

    def _observe(self, tracer: SessionTracer, item: SessionEvent | Fault, line: int) -> None:
        if isinstance(item, Fault):
            tracer.observe_fault(item)
            return
        tracer.observe(item, line)
        self._note(item)
        if isinstance(item, TurnStart):
            self.idle = False

    def _note(self, event: SessionEvent) -> None:
        self._seq = event.seq
        if isinstance(event, TurnEnd):
            self._turn, self.idle = event.data.turn, True

    def _wait_for_room(self) -> None:
        outlet, stop = self._setting.outlet, self._setting.stop
        while outlet is not None and outlet.full and not stop():
            outlet.wait_for_room(ROOM_S)

    def _make(self, log: GrowingLog) -> SessionTracer:
        assert log.log is not None  # noqa: S101 - something came out of it
        setting = self._setting
        return SessionTracer(
            log.log.header,
            tracer_provider=setting.provider,
            processors=setting.processors,
            contract=setting.contract,
            privacy=setting.privacy(),
            header_row=log.log.header_row,
            header_line=log.log.header_line,
        )

    # The end

    def _drop_tracer(self) -> None:
        if self._tracer is not None:
            for place, count in self._tracer.guard.errors.items():
                self._counts.errors[place] = self._counts.errors.get(place, 0) + count
        self._tracer, self.idle = None, True
        self._seq, self._turn = -1, 0

    def forget(self) -> None:
        """Let go of it: what is open is left open."""
        self._drop_tracer()
        self._log = self._past = None
        self._kept = Mark()

    def close(self) -> None:
        """End what is open: nothing will follow."""
        if self._tracer is not None:
            self._tracer.close()
        self.forget()


def _name(path: str) -> str:
    return os.path.basename(path)  # noqa: PTH119 - no Path for each of many
