"""One JSON document; each session is written as soon as it is checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_otel.cli.formats.fields import SCHEMA_VERSION, dumps, finding_fields, session_fields

if TYPE_CHECKING:
    from typing import TextIO

    from dsh_core.check import SessionReport
    from dsh_otel.cli.formats.writer import Settings
    from dsh_otel.cli.totals import Totals


class Format:
    """Writes one document, a line a session.

    Args:
        out: Where to write.
        settings: How to write; a document is always complete.
    """

    def __init__(self, out: TextIO, settings: Settings) -> None:  # noqa: ARG002 - see `Writer`
        self._out = out
        self._separator = "\n"

    def begin(self) -> None:
        """Open the document."""
        self._out.write(f'{{"schema_version":{SCHEMA_VERSION},"sessions":[')

    def session(self, report: SessionReport) -> None:
        """Write one session; ``error`` only if nothing can be said of it."""
        fields = {
            **session_fields(report),
            "events": report.events,
            "findings": [finding_fields(finding) for finding in report.findings],
        }
        if report.reason:
            fields["error"] = report.reason
        self._out.write(self._separator + dumps(fields))
        self._separator = ",\n"

    def end(self, totals: Totals) -> None:
        """Close the document."""
        self._out.write(f'\n],"totals":{dumps(totals.as_data())}}}\n')
