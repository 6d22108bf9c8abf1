"""Contract checks as telemetry: findings on the spans where they came to light."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dsh_core.contract.catalogue import CATALOGUE, Catalogue
from dsh_core.contract.checker import Checker
from dsh_core.contract.findings import Severity
from dsh_core.contract.run import SourceKind
from dsh_otel.names import Attr, Event, EventAttr
from dsh_otel.processors.base import SessionSpanProcessor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dsh_core.contract.findings import Finding
    from dsh_core.contract.live import LiveFact
    from dsh_core.events import SessionEvent
    from dsh_core.faults import Fault
    from dsh_otel.spans import Session, SessionSpan

MAX_FINDINGS: Final = 32
"""Findings that one span shows in full; further ones are counted."""

MAX_RULES: Final = 16

RULES_OF: Final = "the rules of "
"""With an owner: what is counted when those rules failed. What was wrong is logged."""


class InvariantSpanProcessor(SessionSpanProcessor):
    """Checks every session that it sees, and writes what it finds.

    A finding becomes a span event ``dsh.violation`` and the span's ``dsh.violation.*`` attributes;
    a violation also sets the span's status. It is written when the span ends, so that consequences
    which were folded into it are counted.

    Args:
        rules: Globs on the rule id, or ``owner:GLOB``; all rules by default.
        exclude: The same, taken away from `rules`.
        source: What kind of source the sessions come from that do not say it themselves.
        final: Whether the end of a session is declared when its tracer is closed.
        on_finding: Called with each finding and its span, as soon as it is known; an error of
            it is counted and goes no further.
        catalogue: Where the rules come from.
        presets: Names of the permission presets that are configured; None if that is not known.

    Raises:
        UnknownRuleError: A pattern matches no rule.
    """

    def __init__(
        self,
        rules: Iterable[str] = (),
        exclude: Iterable[str] = (),
        *,
        source: SourceKind = SourceKind.LOG,
        final: bool = False,
        on_finding: Callable[[Finding, SessionSpan], object] | None = None,
        catalogue: Catalogue = CATALOGUE,
        presets: Iterable[str] | None = None,
    ) -> None:
        self._chosen = catalogue.select(tuple(rules), tuple(exclude))
        self._catalogue = catalogue
        self._presets = None if presets is None else frozenset(presets)
        self._source = source
        self._final = final
        self._on_finding = on_finding

    def _checker(self, session: Session) -> Checker:
        known: Checker | None = session.notes.get(self)
        if known is not None:
            return known
        checker = session.notes[self] = Checker(
            session.header,
            contract=session.contract,
            source=session.source or self._source,
            chosen=self._chosen,
            catalogue=self._catalogue,
            presets=self._presets,
            header_row=session.header_row,
            header_line=session.header_line,
        )
        return checker

    def on_event(self, event: SessionEvent, span: SessionSpan) -> None:
        """Check an event."""
        session = span.session
        checker: Checker = session.notes.get(self) or self._checker(session)
        findings = checker.observe(event, session.line)
        if findings:
            self._write(findings, span)

    def on_fault(self, fault: Fault, span: SessionSpan) -> None:
        """Take in damage."""
        findings = self._checker(span.session).observe_fault(fault)
        if findings:
            self._write(findings, span)

    def on_live(self, fact: LiveFact, span: SessionSpan) -> None:
        """Check a fact that no log holds."""
        findings = self._checker(span.session).observe_live(fact)
        if findings:
            self._write(findings, span)

    def on_close(self, session: Session, span: SessionSpan) -> None:
        """Judge what only the end decides, and forget the session."""
        checker: Checker | None = session.notes.pop(self, None)
        if checker is not None:
            findings = checker.finish(final=self._final)
            for owner in checker.disabled:
                session.guard.count(RULES_OF + owner)
            if findings:
                self._write(findings, span)

    def _write(self, findings: list[Finding], span: SessionSpan) -> None:
        found: _Found | None = span.notes.get(self)
        if found is None:
            found = span.notes[self] = _Found()
            span.before_end(partial(found.write_out, span))
        for finding in findings:
            found.add(finding, span.session.now_ns)
            if finding.severity is Severity.VIOLATION:
                span.fail("contract violated")
            if self._on_finding is not None:
                call = partial(self._on_finding, finding, span)
                span.session.guard.run("on_finding", call)


class _Found:
    """The findings of one span: the first ones in full, all of them as a number."""

    def __init__(self) -> None:
        self.count = 0
        self.rules: list[str] = []
        self.shown: list[tuple[Finding, int]] = []

    def add(self, finding: Finding, time_ns: int) -> None:
        self.count += 1
        if len(self.shown) < MAX_FINDINGS:
            self.shown.append((finding, time_ns))
        if len(self.rules) < MAX_RULES and finding.rule not in self.rules:
            self.rules.append(finding.rule)

    def write_out(self, span: SessionSpan) -> None:
        span.set(Attr.VIOLATION_COUNT, self.count)
        span.set(Attr.VIOLATION_FIRST, self.rules[0])
        span.set(Attr.VIOLATION_RULES, tuple(self.rules))
        for finding, time_ns in self.shown:
            values = _attributes(finding)
            span.add_event(Event.VIOLATION, values, time_ns)


def _attributes(finding: Finding) -> dict[str, Any]:
    values = {
        EventAttr.RULE: finding.rule,
        EventAttr.OWNER: finding.owner,
        EventAttr.SEVERITY: finding.severity.value,
        EventAttr.CODE: finding.code,
        EventAttr.MESSAGE: finding.message,
        EventAttr.SEQ: finding.seq,
        EventAttr.LINE: finding.line,
        EventAttr.TURN: finding.turn,
        EventAttr.STEP: finding.step,
        EventAttr.CALL_ID: finding.call_id,
        EventAttr.COUNT: finding.count,
        EventAttr.FIRST_SEQ: finding.first_seq,
        EventAttr.LAST_SEQ: finding.last_seq,
        EventAttr.EXPECTED: finding.expected or None,
        EventAttr.GOT: finding.got or None,
    }
    return {name: value for name, value in values.items() if value is not None}
