"""The streaming checker: events in, findings out."""

from __future__ import annotations

import logging
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
    from dsh_core.contract.rule import Handler
    from dsh_core.contract.timeline import Timeline
    from dsh_core.events import Contract, SessionHeader
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
        strict: Let an error inside a rule through instead of switching the rule set off (for tests).

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
        self._order = Order(self._run)
        self._sets: list[RuleSet] = [cls(self._run) for cls in catalogue.sets]
        self._chains: dict[str, Sequence[Handler]] = {}
        self._outside: dict[str, Handler] = {}
        self._handlers: dict[type[SessionEvent], Handler | None] = {}
        self._wire()

    @property
    def contract(self) -> Contract:
        """The contract that the session is held to."""
        return self._run.contract

    def _wire(self) -> None:
        """Lay out what to call by event type: the rules first, then the move of the timeline."""
        timeline = self._run.timeline
        moves = timeline.handlers()
        tables = [rules.handlers() for rules in self._sets]
        outside = [rules.inside_step() for rules in self._sets]
        kinds = {kind for table in (*tables, *outside) for kind in table} | set(moves)
        self._chains, self._outside = {}, {}
        for kind in kinds | set(KNOWN_EVENTS) | {EVERY}:
            chain = [table[key] for table in tables for key in {EVERY, kind} if key in table]
            strays = [table[kind] for table in outside if kind in table]
            if chain and strays:
                chain.append(_if_outside(timeline, _compose(strays)))
            elif strays:
                self._outside[kind] = strays[0] if len(strays) == 1 else _compose(strays)
            if kind in moves:
                chain.append(moves[kind])
            self._chains[kind] = tuple(chain)
        # By class, and complete: a plain subscript is the cheapest look-up there is.
        self._handlers = {
            cls: None if kind in self._outside else _compose(self._chains[kind])
            for kind, cls in KNOWN_EVENTS.items()
        }
        self._handlers[UnknownEvent] = self._unknown

    def _unknown(self, event: SessionEvent, line: int) -> None:
        for handler in self._chains.get(event.type) or self._chains[EVERY]:
            handler(event, line)

    def observe(self, event: SessionEvent, line: int = 0) -> list[Finding]:
        """Check one event.

        Args:
            event: The next event of the session.
            line: Its 1-based line, 0 if it came from no file.

        Returns:
            What became known with it; usually nothing. A finding may concern an earlier event.
        """
        return self.observe_all((event,), (line,))

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

    def observe_fault(self, fault: Fault) -> list[Finding]:
        """Take in what the reader says of bytes that are not a proper event."""
        finding = self._run.report(
            fault.rule,
            fault.message,
            seq=-1 if fault.seq is None else fault.seq,
            line=fault.line,
            expected=fault.expected,
            got=fault.got,
            always=True,
        )
        if fault.lost and finding is not None:
            self._order.lost(finding)
        return self._collect()

    def finish(self, *, final: bool = False) -> list[Finding]:
        """Judge what only the end of the input decides.

        Args:
            final: Whether the end of the log is declared: nothing will follow.
        """
        self._run.cause = None
        for rules in self._sets:
            rules.finish(final=final)
        return self._collect()

    def _collect(self) -> list[Finding]:
        found = self._run.findings
        if found:
            self._run.findings = []
        return found

    def _recover(self, error: Exception, event: SessionEvent, line: int) -> None:
        """Switch off the rule set that raised, and let the others see the event."""
        broken = _rule_set(error.__traceback__)
        if self._strict or broken is None:
            raise error
        chain = self._chains.get(event.type) or self._chains.get(EVERY, ())
        owners = [getattr(handler, "__self__", None) for handler in chain]
        place = owners.index(broken) if broken in owners else len(chain)
        self._sets.remove(broken)
        self.disabled.append(broken.owner)
        _logger.error(
            "a rule of %r raised %s at seq %d and is switched off for this session",
            broken.owner,
            type(error).__name__,
            event.seq,
        )
        self._wire()
        for handler in chain[place + 1 :]:
            if getattr(handler, "__self__", None) is broken:
                continue
            try:
                handler(event, line)
            except Exception as another:  # noqa: BLE001 - as above
                self._recover(another, event, line)
                return


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
    first, second, *rest = chain

    def call_all(event: SessionEvent, line: int) -> None:
        first(event, line)
        second(event, line)
        for handler in rest:
            handler(event, line)

    return call_all


def _if_outside(timeline: Timeline, stray: Handler) -> Handler:
    def call_if_outside(event: SessionEvent, line: int) -> None:
        if not timeline.is_open(event.data.turn, event.data.step):
            stray(event, line)

    return call_if_outside


def _rule_set(traceback: TracebackType | None) -> RuleSet | None:
    while traceback is not None:
        owner = traceback.tb_frame.f_locals.get("self")
        if isinstance(owner, RuleSet):
            return owner
        traceback = traceback.tb_next
    return None
