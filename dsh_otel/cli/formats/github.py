"""Workflow commands of GitHub Actions: findings become annotations at their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsh_core.contract.findings import Severity
from dsh_otel.cli.formats.words import counted, outcome, overview, switched_off, told, whose
from dsh_otel.cli.plain import printable

if TYPE_CHECKING:
    from typing import TextIO

    from dsh_core.check import SessionReport
    from dsh_otel.cli.formats.writer import Settings
    from dsh_otel.cli.totals import Totals

_COMMANDS: Final = {
    Severity.VIOLATION: "error",
    Severity.DAMAGE: "warning",
    Severity.ADVICE: "notice",
}


class Format:
    """Writes one annotation a finding, and a summary for the job's log.

    Args:
        out: Where to write.
        settings: How to write.
    """

    def __init__(self, out: TextIO, settings: Settings) -> None:
        self._out = out
        self._settings = settings

    def begin(self) -> None:
        """Write nothing."""

    def session(self, report: SessionReport) -> None:
        """Write a session's annotations."""
        shown, session = self._settings.shown(report.findings), whose(report)
        for finding in shown:
            command = _COMMANDS[finding.severity]
            self._annotate(
                command, report.path, finding.line, finding.rule, session + told(finding)
            )
        hidden = len(report.findings) - len(shown)
        if hidden:
            message = f"{session}{counted(hidden, 'more finding')}, shown with --max-findings 0"
            self._annotate("notice", report.path, None, "not all shown", message)
        if report.reason:
            self._annotate(
                "error", report.path, None, "unreadable", session + printable(report.reason)
            )
        if report.disabled:
            self._annotate("error", report.path, None, "incomplete", session + switched_off(report))

    def end(self, totals: Totals) -> None:
        """Write the summary as a plain line of the log."""
        if self._settings.summary:
            self._out.write(f"dsh-otel: {overview(totals)}: {outcome(totals)}\n")

    def _annotate(
        self, command: str, path: str, line: int | None, title: str, message: str
    ) -> None:
        properties = [f"file={_escape_property(printable(path))}"]
        if line is not None:
            properties.append(f"line={line}")
        properties.append(f"title={_escape_property(title)}")
        self._out.write(f"::{command} {','.join(properties)}::{_escape(message)}\n")


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")
