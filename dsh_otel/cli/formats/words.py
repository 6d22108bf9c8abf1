"""Findings in words, as all formats for people say them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsh_core.contract.findings import Severity
from dsh_otel.cli.plain import printable

if TYPE_CHECKING:
    from collections import Counter

    from dsh_core.check import SessionReport
    from dsh_core.contract.findings import Finding
    from dsh_otel.cli.totals import Totals

TIMES: Final = "\N{MULTIPLICATION SIGN}"


def place(path: str, finding: Finding) -> str:
    """Return path and line in the form that editors and compilers use."""
    where = printable(path)
    return where if finding.line is None else f"{where}:{finding.line}"


def whose(report: SessionReport) -> str:
    """Return what says which session of its file a report is about; empty if it is the only one."""
    return f"session {printable(report.session_id)}: " if report.stream else ""


def repeats(finding: Finding) -> str:
    """Return how many events a finding stands for, empty if it is just one."""
    if finding.count == 1:
        return ""
    return f" ({TIMES}{finding.count}{_range(finding)})"


def _range(finding: Finding) -> str:
    first, last = finding.first_seq, finding.last_seq
    if first is None and last is None:
        return ""
    if first is None or last is None or first == last:
        return f", seq {last if first is None else first}"
    return f", seq {first}\N{EN DASH}{last}"


def told(finding: Finding) -> str:
    """Return what a finding says, with its number of events."""
    return printable(finding.message) + repeats(finding)


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def severities(findings: Counter[Severity]) -> str:
    """Return the number of findings by severity, in words."""
    parts = [
        counted(number, severity.value, "" if severity is Severity.VIOLATION else severity.value)
        for severity in Severity
        if (number := findings[severity])
    ]
    return ", ".join(parts) or "no findings"


def switched_off(report: SessionReport) -> str:
    """Say which rules failed on a log, empty if none did."""
    if not report.disabled:
        return ""
    return f"the rules of {', '.join(report.disabled)} failed and were switched off"


def overview(totals: Totals) -> str:
    """Return what was looked at, in words."""
    text = f"{counted(totals.sessions, 'log')}, {counted(totals.events, 'event')}"
    parts = {"unreadable": totals.unreadable, "incomplete": totals.incomplete}
    return text + "".join(f", {number:,} {word}" for word, number in parts.items() if number)


def outcome(totals: Totals) -> str:
    """Return what was found, in words: nothing found is no good news of what was not looked at."""
    if totals.findings or not (totals.unreadable or totals.incomplete):
        return severities(totals.findings)
    if totals.unreadable == totals.sessions:
        return "nothing was checked"
    return "incomplete, no findings in the rest"
