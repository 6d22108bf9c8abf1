"""The streaming checker: events in, findings out."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dsh_core.contract.catalogue import CATALOGUE, Catalogue
from dsh_core.contract.order import Order
from dsh_core.contract.rule import EVERY, RuleSet
from dsh_core.contract.run import Run, SourceKind
from dsh_core.events import KNOWN_EVENTS, MAX_SAFE_INTEGER, SessionEvent, UnknownEvent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from dsh_core.contract.findings import Finding
    from dsh_core.contract.live import LiveFact
    from dsh_core.contract.rule import Handler
    from dsh_core.contract.timeline import Timeline
    from dsh_core.events import Contract, SessionHeader
    from dsh_core.faults import Fault

_logger: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Call:
    """One of the things to call with an event.

    Attributes:
        handler: What to call.
        rules: Whose it is, None for the timeline's move.
        stray: Whether to call it only with events outside the step they name.
    """

    handler: Handler
    rules: RuleSet | None = None
    stray: bool = False


class Checker:
    """Checks one session, event by event.

    Args:
        header: The session's header.
        contract: The contract to hold it to; the one of its generation by default.
        source: What kind of source the events come from.
        chosen: Ids of the rules to apply, see `Catalogue.select`; all by default.
        catalogue: Where the rules come from.
        header_row: The header row as logged, for the rules about it.
        header_line: Its 1-based line.
        strict: Let an error inside a rule through, for tests, instead of switching the set off.

    Attributes:
        disabled: Owners with a rule set that raised an error and was switched off.
        events: Number of events seen.
    """

    def __init__(
        self,
        header: SessionHeader,
        *,
        contract: Contract | None = None,
        source: SourceKind = SourceKind.LOG,
        chosen: frozenset[str] | None = None,
        catalogue: Catalogue = CATALOGUE,
        header_row: Mapping[str, object] | None = None,
        header_line: int = 0,
        strict: bool = False,
    ) -> None:
        chosen = catalogue.select() if chosen is None else chosen
        self._run = Run(catalogue, header, contract or header.contract, source, chosen)
        self._run.header_row = header_row
        self._run.header_line = header_line
        self.disabled: list[str] = []
        self.events = 0
        self._strict = strict
        # By rule: its last finding from the reader, the last fault that this stands for, and how
        # many events came before that.
        self._stretches: dict[str, tuple[Finding, Fault, int]] = {}
        self._order = Order(self._run)
        self._sets: list[RuleSet] = [cls(self._run) for cls in catalogue.sets]
        self._moves = self._run.timeline.handlers()
        self._always: list[tuple[RuleSet, Mapping[str, Handler]]] = []
        self._strays: list[tuple[RuleSet, Mapping[str, Handler]]] = []
        self._calls: dict[str, Sequence[_Call]] = {}
        self._outside: dict[str, Handler] = {}
        self._handlers: dict[type[SessionEvent], Handler | None] = {}
        self._wire()

    @property
    def contract(self) -> Contract:
        """The contract that the session is held to."""
        return self._run.contract

    def _wire(self) -> None:
        """Note who listens to what; what to call for a type is laid out when one comes."""
        self._always = [(rules, rules.handlers()) for rules in self._sets]
        self._strays = [(rules, rules.inside_step()) for rules in self._sets]
        self._calls, self._outside = {}, {}
        # By class, and complete: a plain subscript is the cheapest look-up there is.
        self._handlers = dict.fromkeys(KNOWN_EVENTS.values(), self._first)
        self._handlers[UnknownEvent] = self._unknown
        for kind in {kind for _, table in self._strays for kind in table}:
            calls = self._calls_for(kind)
            if all(call.stray for call in calls):
                self._outside[kind] = _compose([call.handler for call in calls])
                self._handlers[KNOWN_EVENTS[kind]] = None

    def _calls_for(self, kind: str) -> Sequence[_Call]:
        """Return what to call for a type: the rules first, then the move of the timeline."""
        calls = self._calls.get(kind)
        if calls is None:
            chain = [
                _Call(table[key], rules)
                for rules, table in self._always
                for key in dict.fromkeys((EVERY, kind))
                if key in table
            ]
            chain += [
                _Call(table[kind], rules, stray=True)
                for rules, table in self._strays
                if kind in table
            ]
            move = self._moves.get(kind)
            calls = (*chain, _Call(move)) if move is not None else tuple(chain)
            if kind in KNOWN_EVENTS:
                self._calls[kind] = calls
        return calls

    def _first(self, event: SessionEvent, line: int) -> None:
        """Lay out what to call for a type that comes for the first time, and call it."""
        handler = _in_order(self._calls_for(event.type), self._run.timeline)
        self._handlers[type(event)] = handler
        handler(event, line)

    def _unknown(self, event: SessionEvent, line: int) -> None:
        for call in self._calls_for(event.type):
            call.handler(event, line)

    def observe(self, event: SessionEvent, line: int = 0) -> list[Finding]:
        """Check one event.

        Args:
            event: The next event of the session.
            line: Its 1-based line, 0 if it came from no file.

        Returns:
            What became known with it; usually nothing. A finding may concern an earlier event.
        """
        # What `observe_all` does for many, without the preparations that only many repay.
        order, run = self._order, self._run
        if event.seq == order.expected and order.last_time <= event.time <= MAX_SAFE_INTEGER:
            order.expected += 1
            order.last_time = event.time
        else:
            order.judge(event, line)
        handler = self._handlers[type(event)]
        if handler is None and not run.timeline.is_open(event.data.turn, event.data.step):
            handler = self._outside[event.type]
        if handler is not None:
            try:
                handler(event, line)
            except Exception as error:  # noqa: BLE001 - a broken rule must not break the host
                self._recover(error, event, line)
        run.last_seq, run.last_line = event.seq, line
        self.events += 1
        return self._collect() if run.findings else []

    def observe_all(self, events: Sequence[SessionEvent], lines: Sequence[int]) -> list[Finding]:
        """Check events in their order.

        Args:
            events: The next events of the session.
            lines: The 1-based line of each.

        Returns:
            What became known with them.
        """
        if not events:
            return []
        order, handlers, timeline = self._order, self._handlers, self._run.timeline
        expected, last_time, latest = order.expected, order.last_time, MAX_SAFE_INTEGER
        turn, step = timeline.turn, timeline.step
        for event, line in zip(events, lines, strict=True):
            if event.seq == expected and last_time <= event.time <= latest:
                expected += 1
                last_time = event.time
            else:
                order.expected, order.last_time = expected, last_time
                order.judge(event, line)
                expected, last_time = order.expected, order.last_time
            handler = handlers[type(event)]
            if handler is None:
                # All that matters of such an event is that it lies in the step it names.
                data = event.data
                if data.step == step and data.turn == turn:
                    continue
                handler = self._outside[event.type]
            try:
                handler(event, line)
            except Exception as error:  # noqa: BLE001 - a broken rule must not break the host
                self._recover(error, event, line)
                handlers = self._handlers
            turn, step = timeline.turn, timeline.step
        order.expected, order.last_time = expected, last_time
        self._run.last_seq, self._run.last_line = events[-1].seq, lines[-1]
        self.events += len(events)
        return self._collect()

    def observe_live(self, fact: LiveFact) -> list[Finding]:
        """Take in a fact that no log holds.

        Args:
            fact: The fact.

        Returns:
            What became known with it.
        """
        self._run.cause = None
        for rules in tuple(self._sets):
            handler = rules.live().get(type(fact))
            if handler is None:
                continue
            try:
                handler(fact)
            except Exception as error:
                if self._strict:
                    raise
                self._disable(rules, error, self._run.last_seq)
        return self._collect()

    def observe_fault(self, fault: Fault) -> list[Finding]:
        """Take in what the reader says of bytes that are not a proper event."""
        finding = self._stretch(fault)
        if finding is not None:
            finding.fold(-1 if fault.seq is None else fault.seq)
        else:
            finding = self._report(fault)
        if finding is not None:
            self._stretches[fault.rule] = (finding, fault, self.events)
            self._explain(fault, finding)
        return self._collect()

    def _stretch(self, fault: Fault) -> Finding | None:
        """Return the finding of the line before if it has the same cause."""
        finding, last, events = self._stretches.get(fault.rule, (None, fault, 0))
        if finding is None or fault.line != last.line + 1:
            return None
        # A stretch of damaged lines, or what one writer gets wrong in one way.
        damaged = fault.lost and last.lost and events == self.events
        return finding if damaged or fault.message == last.message else None

    def _report(self, fault: Fault) -> Finding | None:
        return self._run.report(
            fault.rule,
            fault.message,
            seq=-1 if fault.seq is None else fault.seq,
            line=fault.line,
            expected=fault.expected,
            got=fault.got,
            always=True,
        )

    def _explain(self, fault: Fault, finding: Finding) -> None:
        """Let a finding explain what the bytes that it is about cost."""
        if fault.partial:
            self._order.partial(finding)
        elif fault.lost:
            self._order.lost(finding)
            if not self.events and self._run.head_damage is None:
                self._run.head_damage = finding

    def finish(self, *, final: bool = False) -> list[Finding]:
        """Judge what only the end of the input decides.

        Args:
            final: Whether the end of the log is declared: nothing will follow.
        """
        self._run.cause = None
        for rules in tuple(self._sets):
            try:
                rules.finish(final=final)
            except Exception as error:
                if self._strict:
                    raise
                self._disable(rules, error, self._run.last_seq)
        return self._collect()

    def _collect(self) -> list[Finding]:
        found = self._run.findings
        if not found:
            # Never the list that the next findings go into.
            return []
        self._run.findings = []
        return found

    def _recover(self, error: Exception, event: SessionEvent, line: int) -> None:
        """Switch off the rule set that raised, and let the others see the event."""
        calls = self._calls_for(event.type)
        while True:
            place = _failing(calls, error.__traceback__)
            broken = None if place is None else calls[place].rules
            if place is None or broken is None or self._strict:
                raise error
            self._disable(broken, error, event.seq)
            calls = [call for call in calls[place + 1 :] if call.rules is not broken]
            try:
                _in_order(calls, self._run.timeline)(event, line)
            except Exception as another:  # noqa: BLE001 - a broken rule must not break the host
                error = another
            else:
                return

    def _disable(self, broken: RuleSet, error: Exception, seq: int) -> None:
        self._sets.remove(broken)
        self.disabled.append(broken.owner)
        _logger.error(
            "a rule of %r raised %s at seq %d and is switched off for this session",
            broken.owner,
            type(error).__name__,
            seq,
        )
        self._wire()


def _ignore(_event: SessionEvent, _line: int) -> None:
    """Stand in where no rule listens."""


def _compose(chain: Sequence[Handler]) -> Handler:
    """Make one callable of several; the short ones are spelled out because they are hot."""
    if not chain:
        return _ignore
    if len(chain) == 1:
        return chain[0]
    if len(chain) == 2:  # noqa: PLR2004 - as it says
        one, two = chain

        def call_two(event: SessionEvent, line: int) -> None:
            one(event, line)
            two(event, line)

        return call_two
    if len(chain) == 3:  # noqa: PLR2004 - as it says
        one, two, three = chain

        def call_three(event: SessionEvent, line: int) -> None:
            one(event, line)
            two(event, line)
            three(event, line)

        return call_three
    first, second, *rest = chain

    def call_all(event: SessionEvent, line: int) -> None:
        first(event, line)
        second(event, line)
        for handler in rest:
            handler(event, line)

    return call_all


def _in_order(calls: Sequence[_Call], timeline: Timeline) -> Handler:
    """Make one callable of several calls, of which strays come last but for the move."""
    strays = [call.handler for call in calls if call.stray]
    before = [call.handler for call in calls if not call.stray and call.rules is not None]
    move = [call.handler for call in calls if call.rules is None]
    if strays:
        before.append(_if_outside(timeline, _compose(strays)))
    return _compose([*before, *move])


def _if_outside(timeline: Timeline, stray: Handler) -> Handler:
    def call_if_outside(event: SessionEvent, line: int) -> None:
        if not timeline.is_open(event.data.turn, event.data.step):
            stray(event, line)

    return call_if_outside


def _failing(calls: Sequence[_Call], traceback: TracebackType | None) -> int | None:
    """Return which of some calls an error came out of, None if of none of them."""
    while traceback is not None:
        frame = traceback.tb_frame
        for place, call in enumerate(calls):
            function = getattr(call.handler, "__func__", call.handler)
            owner = getattr(call.handler, "__self__", None)
            if getattr(function, "__code__", None) is frame.f_code and (
                owner is None or frame.f_locals.get("self") is owner
            ):
                return place
        traceback = traceback.tb_next
    return None
