"""The streaming checker: events in, findings out."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from dsh_core.contract.catalogue import CATALOGUE, Catalogue
from dsh_core.contract.dispatch import Call, compose, failing, in_order
from dsh_core.contract.foreign import Foreign, is_foreign, stopped, switched_off
from dsh_core.contract.order import Order
from dsh_core.contract.resumes import Resumes
from dsh_core.contract.rule import EVERY, RuleSet
from dsh_core.contract.run import Run, SourceKind
from dsh_core.events import (
    KNOWN_EVENTS,
    MAX_SAFE_INTEGER,
    Contract,
    SessionEvent,
    UnknownEvent,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsh_core.contract.findings import Finding
    from dsh_core.contract.live import LiveFact
    from dsh_core.contract.rule import Handler
    from dsh_core.events import EndSeed, SessionHeader
    from dsh_core.faults import Fault

_logger: Final = logging.getLogger(__name__)


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
        presets: Names of the permission presets that are configured; None if that is not known.
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
        presets: frozenset[str] | None = None,
        strict: bool = False,
    ) -> None:
        chosen = catalogue.select() if chosen is None else chosen
        held_to = contract or header.contract
        self._fresh = partial(Run, catalogue, header, held_to, source, presets=presets)
        self._run = self._fresh(chosen)
        self._run.header_row = header_row
        self._run.header_line = header_line
        self.disabled: list[str] = []
        self.events = 0
        self._strict = strict
        # By rule: its last finding from the reader, the last fault that this stands for, and how
        # many events came before that.
        self._stretches: dict[str, tuple[Finding, Fault, int]] = {}
        self._order = Order(self._run)
        self._origins = catalogue.origins
        self._sets: list[RuleSet] = []
        for cls in catalogue.sets:
            # A set of which nothing applies costs nothing.
            if any(self._run.enabled(rule.id) for rule in cls.rules) or not cls.rules:
                self._add(cls)
        # What the end of the log, and facts that no log holds, have been judged by.
        self._met: set[str] = set()
        self._resumes = Resumes(self._run)
        self._moves = [
            self._run.timeline.handlers(),
            {"session/end-seed": self._end_seed},
            self._resumes.handlers(),
        ]
        if held_to is not Contract.SEED:
            self._moves.append(self._run.surface.handlers())
        self._always: list[tuple[RuleSet, Mapping[str, Handler]]] = []
        self._placed: list[tuple[RuleSet, str, Mapping[str, Handler]]] = []
        # Known types that came.
        self._seen: set[str] = set()
        self._inside: dict[type[SessionEvent], Handler] = {}
        self._outside: dict[type[SessionEvent], Handler] = {}
        self._handlers: dict[type[SessionEvent], Handler | None] = {}
        self._wire()

    @property
    def contract(self) -> Contract:
        """The contract that the session is held to."""
        return self._run.contract

    def evaluated(self) -> frozenset[str]:
        """Return the ids of the rules that had something to judge, whether they tripped or not."""
        found: set[str] = set()
        for rules in self._sets:
            placed = [table for owner, _, table in self._placed if owner is rules]
            listens = {kind for table in (rules.handlers(), *placed) for kind in table}
            seen = self._seen if EVERY in listens else listens & self._seen
            for rule in rules.rules:
                met = seen & set(rule.on)
                anything = EVERY in rule.on and (self.events or self._stretches)
                if self._run.enabled(rule.id) and (met or anything or rule.source in self._met):
                    found.add(rule.id)
        return frozenset(found)

    def _add(self, cls: type[RuleSet]) -> None:
        if not is_foreign(cls):
            self._sets.append(cls(self._run))
            return
        try:
            self._sets.append(Foreign(cls, self._run))
        except Exception as error:
            if self._strict:
                raise
            self._tell(cls, error, self._run.last_seq)

    def _wire(self) -> None:
        """Note who listens to what; what to call for a type is laid out when one comes."""
        tables = [(rules, rules.handlers()) for rules in self._sets]
        placed = [(rules, "inside", rules.inside_step()) for rules in self._sets]
        placed += [(rules, "outside", rules.outside_step()) for rules in self._sets]
        self._always = [(rules, table) for rules, table in tables if table]
        self._placed = [(rules, where, table) for rules, where, table in placed if table]
        self._inside, self._outside = {}, {}
        # By class, and complete: a plain subscript is the cheapest look-up there is.
        self._handlers = dict.fromkeys(KNOWN_EVENTS.values(), self._first)
        self._handlers[UnknownEvent] = self._unknown

    def _calls_for(self, kind: str) -> Sequence[Call]:
        """Return what to call for a type: the rules first, then the moves of the shared state."""
        calls = [
            Call(table[key], rules)
            for rules, table in self._always
            for key in dict.fromkeys((EVERY, kind))
            if key in table
        ]
        calls += [
            Call(table[kind], rules, where) for rules, where, table in self._placed if kind in table
        ]
        calls += [Call(moves[kind]) for moves in self._moves if kind in moves]
        return calls

    def _first(self, event: SessionEvent, line: int) -> None:
        """Lay out what to call for a type that comes for the first time, and call it."""
        self._seen.add(event.type)
        calls, kind = self._calls_for(event.type), type(event)
        if calls and all(call.where != "any" for call in calls):
            self._handlers[kind] = None
            inside = [call.handler for call in calls if call.where == "inside"]
            if inside:
                # Only who listens alone can say that nothing else needs to be judged.
                self._inside[kind] = compose(inside if len(inside) == 1 else [*inside, self._stir])
            self._outside[kind] = compose([c.handler for c in calls if c.where == "outside"])
        else:
            self._handlers[kind] = in_order(calls, self._run.timeline)
        in_order(calls, self._run.timeline)(event, line)

    def _stir(self, _event: SessionEvent, _line: int) -> None:
        self._run.calm = None

    def _unknown(self, event: SessionEvent, line: int) -> None:
        for call in self._calls_for(event.type):
            call.handler(event, line)

    def _end_seed(self, event: EndSeed, _line: int) -> None:
        if event.data.inherited:
            self._run.inherit(event)

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
        if handler is None:
            is_open = run.timeline.is_open(event.data.turn, event.data.step)
            handler = (self._inside if is_open else self._outside).get(type(event))
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
        inside, outside, run = self._inside, self._outside, self._run
        turn, step, calm = timeline.turn, timeline.step, None
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
                # What matters most of such an event is that it lies in the step it names.
                data = event.data
                if data == calm:
                    continue
                if data.step == step and data.turn == turn:
                    handler = inside.get(type(event))
                    if handler is None:
                        continue
                else:
                    handler = outside[type(event)]
            try:
                handler(event, line)
            except Exception as error:  # noqa: BLE001 - a broken rule must not break the host
                if not self._recover(error, event, line):
                    break
                handlers, inside, outside = self._handlers, self._inside, self._outside
            turn, step = timeline.turn, timeline.step
            calm, run.calm = run.calm, None
        order.expected, order.last_time = expected, last_time
        run.last_seq, run.last_line = events[-1].seq, lines[-1]
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
        self._met.add("live")
        for rules in tuple(self._sets):
            handler = rules.live().get(type(fact))
            if handler is None:
                continue
            try:
                handler(fact)
            except Exception as error:  # noqa: BLE001 - a broken rule must not break the host
                if not self._switch_off(rules, error, self._run.last_seq):
                    break
        # They are about no event that another process may have written.
        self._resumes.release()
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
            self._order.partial(finding, vague=fault.lost)
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
        self._order.finish()
        self._run.release()
        if final:
            self._met.add("end")
        for rules in tuple(self._sets):
            try:
                rules.finish(final=final)
            except Exception as error:  # noqa: BLE001 - a broken rule must not break the host
                if not self._switch_off(rules, error, self._run.last_seq):
                    break
        self._resumes.release()
        return self._collect()

    def _collect(self) -> list[Finding]:
        # Never the list that the next findings go into.
        return self._resumes.collect() if self._run.findings else []

    def _recover(self, error: Exception, event: SessionEvent, line: int) -> bool:
        """Switch off the rule set that raised, and let the others see the event.

        Returns:
            Whether the check goes on.
        """
        calls = self._calls_for(event.type)
        while True:
            index = failing(calls, error.__traceback__)
            broken = None if index is None else calls[index].rules
            if not self._switch_off(broken, error, event.seq):
                return False
            calls = [call for call in calls[(index or 0) + 1 :] if call.rules is not broken]
            try:
                in_order(calls, self._run.timeline)(event, line)
            except Exception as another:  # noqa: BLE001 - a broken rule must not break the host
                error = another
            else:
                return True

    def _switch_off(self, broken: RuleSet | None, error: Exception, seq: int) -> bool:
        """Switch off a rule set that raised, None if it was what all rules share.

        Returns:
            Whether the check goes on.
        """
        if self._strict:
            raise error
        suspects = [rules for rules in self._sets if isinstance(rules, Foreign)]
        if suspects and not isinstance(broken, Foreign):
            self._stop(suspects, error, seq)
            return False
        if broken is None:
            raise error
        self._sets.remove(broken)
        self._wire()
        self._tell(broken.cls if isinstance(broken, Foreign) else type(broken), error, seq)
        return True

    def _stop(self, suspects: Sequence[Foreign], error: Exception, seq: int) -> None:
        """Judge nothing any more: somebody else's rules have broken what all rules share."""
        self.disabled += [rules.owner for rules in suspects]
        named = [(rules.cls, self._origins.get(rules.cls, "")) for rules in suspects]
        self._log(stopped(named, error, seq), error, seq)
        found = self._resumes.collect()
        self._run = self._fresh(frozenset())
        self._run.findings = found
        self._order = Order(self._run)
        self._sets, self._moves, self._resumes = [], [], Resumes(self._run)
        self._wire()

    def _tell(self, cls: type[RuleSet], error: Exception, seq: int) -> None:
        self.disabled.append(cls.owner)
        self._log(switched_off(cls, self._origins.get(cls, ""), error), error, seq)

    def _log(self, text: str, error: Exception, seq: int) -> None:
        # The text of the error may quote the session: whoever wants it has to ask for it.
        _logger.error("%s", text, extra={"error": error, "seq": seq})
