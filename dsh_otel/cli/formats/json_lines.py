"""JSON lines: one object a finding, and one for each log that cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_otel.cli.formats.fields import dumps, finding_fields, session_fields

if TYPE_CHECKING:
    from typing import TextIO

    from dsh_core.check import SessionReport
    from dsh_otel.cli.formats.writer import Settings
    from dsh_otel.cli.totals import Totals


class Format:
    """Writes lines that can be filtered one by one.

    Args:
        out: Where to write.
        settings: How to write; nothing is left out.
    """

    def __init__(self, out: TextIO, settings: Settings) -> None:  # noqa: ARG002 - see `Writer`
        self._out = out

    def begin(self) -> None:
        """Write nothing."""

    def session(self, report: SessionReport) -> None:
        """Write a session's findings, and a line with ``error`` if it cannot be read."""
        session = session_fields(report)
        for finding in report.findings:
            self._out.write(dumps(session | finding_fields(finding)) + "\n")
        if report.reason:
            self._out.write(dumps(session | {"error": report.reason}) + "\n")

    def end(self, totals: Totals) -> None:
        """Write nothing."""
