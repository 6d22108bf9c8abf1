"""JUnit XML, which most CI servers show: a suite a session, a case for each rule that tripped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape, quoteattr

from dsh_otel.cli.formats.words import counted, switched_off, told
from dsh_otel.cli.plain import printable

if TYPE_CHECKING:
    from typing import TextIO

    from dsh_core.check import SessionReport
    from dsh_core.contract.findings import Finding
    from dsh_otel.cli.formats.writer import Settings
    from dsh_otel.cli.totals import Totals

_READABLE: Final = "log is readable"
_MAX_LINES: Final = 100


class Format:
    """Writes a suite as soon as its session is checked.

    Each suite starts with a case for the log itself, so that a clean session is a passed test. A
    rule that tripped fails if its findings fail the check; else it passes, with the findings as
    its output.

    Args:
        out: Where to write.
        settings: How to write.
    """

    def __init__(self, out: TextIO, settings: Settings) -> None:
        self._out = out
        self._fail_on = settings.fail_on

    def begin(self) -> None:
        """Open the document."""
        self._out.write(
            '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="dsh-otel check">\n'
        )

    def session(self, report: SessionReport) -> None:
        """Write one session as a suite."""
        by_rule: dict[str, list[Finding]] = {}
        for finding in report.findings:
            by_rule.setdefault(finding.rule, []).append(finding)
        failures = sum(self._fail_on.counts(found[0].severity) for found in by_rule.values())
        path = _attribute(report.name)
        problem = report.reason or switched_off(report)
        self._out.write(
            f'  <testsuite name={path} tests="{1 + len(by_rule)}" failures="{failures}" '
            f'errors="{int(bool(problem))}" skipped="0">\n'
        )
        self._readable(path, "unreadable" if report.reason else "incomplete", problem)
        for rule, found in by_rule.items():
            self._rule(path, rule, found)
        self._out.write("  </testsuite>\n")

    def end(self, totals: Totals) -> None:  # noqa: ARG002 - see `Writer`
        """Close the document."""
        self._out.write("</testsuites>\n")

    def _readable(self, path: str, kind: str, error: str) -> None:
        case = f"    <testcase classname={path} name={_attribute(_READABLE)}"
        if error:
            problem = f'<error type="{kind}" message={_attribute(error)}/>'
            self._out.write(f"{case}>\n      {problem}\n    </testcase>\n")
        else:
            self._out.write(f"{case}/>\n")

    def _rule(self, path: str, rule: str, found: list[Finding]) -> None:
        severity = found[0].severity
        text = escape("\n".join(_lines(found)))
        if self._fail_on.counts(severity):
            message = told(found[0])
            if len(found) > 1:
                message += f", and {len(found) - 1:,} more"
            start = f"<failure type={_attribute(severity)} message={_attribute(message)}>"
            end = "</failure>"
        else:
            start, end = "<system-out>", "</system-out>"
        self._out.write(
            f"    <testcase classname={path} name={_attribute(rule)}>\n"
            f"      {start}{text}{end}\n    </testcase>\n"
        )


def _lines(found: list[Finding]) -> list[str]:
    lines = [
        told(finding) if finding.line is None else f"line {finding.line}: {told(finding)}"
        for finding in found[:_MAX_LINES]
    ]
    rest = len(found) - len(lines)
    return [*lines, f"… {counted(rest, 'more finding')}"] if rest else lines


def _attribute(text: str) -> str:
    """Quote a text; what XML cannot hold is not printable either."""
    return quoteattr(printable(text))
