"""Text for people: a line a finding, ``path:line: severity rule: message``, and a summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsh_core.contract.findings import Severity
from dsh_otel.cli.formats.words import TIMES, counted, outcome, overview, place, repeats, whose
from dsh_otel.cli.output import console
from dsh_otel.cli.plain import printable

if TYPE_CHECKING:
    from typing import TextIO

    from dsh_core.check import SessionReport
    from dsh_otel.cli.formats.writer import Settings
    from dsh_otel.cli.totals import Totals

    Part = tuple[str, str]

STYLES: Final = {
    Severity.VIOLATION: "bold red",
    Severity.DAMAGE: "bold yellow",
    Severity.ADVICE: "bold cyan",
}
_NAMED: Final = 3


class Format:
    """Writes lines that editors can jump to and grep can filter.

    Args:
        out: Where to write.
        settings: How to write.
    """

    def __init__(self, out: TextIO, settings: Settings) -> None:
        self._out = out
        self._settings = settings
        self._console = console(out, colour=True) if settings.colour else None

    def begin(self) -> None:
        """Write nothing."""

    def session(self, report: SessionReport) -> None:
        """Write a session's findings; nothing if there are none."""
        path, session = printable(report.path), whose(report)
        shown = self._settings.shown(report.findings)
        for finding in shown:
            self._line(
                (f"{place(report.path, finding)}: {session}", ""),
                (f"{finding.severity} ", STYLES[finding.severity]),
                (f"{finding.rule}: ", "bold"),
                (printable(finding.message), ""),
                (repeats(finding), "dim"),
            )
        hidden = len(report.findings) - len(shown)
        if hidden:
            more = counted(hidden, "more finding")
            self._line((f"{path}: {session}… {more}, shown with --max-findings 0", "dim"))
        if report.reason:
            self._line(
                (f"{path}: {session}", ""), ("error: ", "bold red"), (printable(report.reason), "")
            )

    def end(self, totals: Totals) -> None:
        """Write the summary."""
        if not self._settings.summary:
            return
        if totals.findings or totals.unreadable:
            self._line()
        if totals.findings or totals.unreadable == totals.sessions:
            self._line((overview(totals), "bold"))
        else:
            self._line((overview(totals), "bold"), (f": {outcome(totals)}", ""))
        for severity in Severity:
            number = totals.findings[severity]
            if number:
                noun = "violations" if severity is Severity.VIOLATION and number > 1 else severity
                rules = _most_frequent(totals, severity)
                self._line((f"{number:>7,} {noun:<10}  ", STYLES[severity]), (rules, ""))
        if self._settings.hint and totals.rules:
            rule = totals.rules.most_common(1)[0][0][1]
            self._line((f"What a rule means and what to do: dsh-otel rules {rule}", "dim"))

    def _line(self, *parts: Part) -> None:
        if self._console is None:
            self._out.write("".join(text for text, _ in parts) + "\n")
            return
        from rich.text import Text

        self._console.print(Text.assemble(*parts))


def _most_frequent(totals: Totals, severity: Severity) -> str:
    """Name the rules of a severity with their numbers, the most frequent first."""
    ranked = [
        (rule, number) for (kind, rule), number in totals.rules.most_common() if kind is severity
    ]
    named = [
        f"{rule} {TIMES}{number:,}" if number > 1 else rule for rule, number in ranked[:_NAMED]
    ]
    rest = len(ranked) - len(named)
    return ", ".join(named) + (f" and {counted(rest, 'more rule')}" if rest else "")
