"""The sum of a check over all its sessions, and the verdict."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dsh_core.contract.findings import Severity
from dsh_otel.cli.exits import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_core.check import SessionReport
    from dsh_core.contract.catalogue import Entry
    from dsh_otel.cli.choices import FailOn


@dataclass(slots=True)
class Totals:
    """What a check has come to so far.

    Attributes:
        sessions: Number of logs checked.
        unreadable: Number of those nothing can be said of.
        incomplete: Number of those that an error of ours kept from being checked in full.
        missing: Number of places without a log; `sessions` and `unreadable` count them too.
        events: Number of events read.
        findings: Number of findings by severity.
        rules: Number of findings by rule.
        chosen: The rules to apply.
        evaluated: Ids of those that had something to judge.
        contracts: What the logs were held to.
    """

    sessions: int = 0
    unreadable: int = 0
    incomplete: int = 0
    missing: int = 0
    events: int = 0
    findings: Counter[Severity] = field(default_factory=Counter)
    rules: Counter[tuple[Severity, str]] = field(default_factory=Counter)
    chosen: Sequence[Entry] = ()
    evaluated: set[str] = field(default_factory=set)
    contracts: set[str] = field(default_factory=set)

    def add(self, report: SessionReport) -> None:
        """Take in one session."""
        self.sessions += 1
        self.unreadable += bool(report.reason)
        self.incomplete += bool(report.disabled)
        self.events += report.events
        self.evaluated |= report.evaluated
        self.contracts.add(report.contract)
        for finding in report.findings:
            self.findings[finding.severity] += 1
            self.rules[finding.severity, finding.rule] += 1

    def verdict(self, fail_on: FailOn) -> ExitCode:
        """Return the exit code.

        Without a readable log there is no verdict, whatever damage was found on the way, nor where
        a place was wrong. Then what was found counts, then what could not be looked at.
        """
        if self.missing or self.unreadable == self.sessions:
            return ExitCode.CANNOT_TELL
        if any(fail_on.counts(severity) for severity in self.findings):
            return ExitCode.FAILED
        if self.incomplete:
            return ExitCode.CANNOT_TELL
        return ExitCode.FAILED if self.unreadable else ExitCode.OK

    def as_data(self) -> dict[str, object]:
        """Return the numbers in the form in which they are published."""
        return {
            "sessions": self.sessions,
            "unreadable": self.unreadable,
            "incomplete": self.incomplete,
            "events": self.events,
            "findings": {severity.value: self.findings[severity] for severity in Severity},
            "rules": {rule: count for (_, rule), count in sorted(self.rules.items())},
            "never_evaluated": self._never_evaluated(),
        }

    def _never_evaluated(self) -> list[str]:
        """Return the rules that had nothing to judge, of those that these logs could break."""
        return [
            entry.id
            for entry in self.chosen
            if entry.id not in self.evaluated
            and entry.rule.source != "live"
            and self.contracts & set(entry.rule.contracts)
        ]
