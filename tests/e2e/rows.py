"""Spans as plain rows that can be compared, wherever they were made."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

Row = dict[str, Any]


def row_of(span: ReadableSpan) -> Row:
    """Return all there is to a span, but for the lines of findings, which only a log has."""
    assert span.context is not None
    events = [
        [one.name, one.timestamp, {k: v for k, v in (one.attributes or {}).items() if k != "line"}]
        for one in span.events
    ]
    made = {
        "trace": f"{span.context.trace_id:032x}",
        "span": f"{span.context.span_id:016x}",
        "parent": None if span.parent is None else f"{span.parent.span_id:016x}",
        "name": span.name,
        "start": span.start_time,
        "end": span.end_time,
        "status": [span.status.status_code.name, span.status.description],
        "attributes": dict(sorted((span.attributes or {}).items())),
        "events": events,
        "links": [
            [f"{one.context.trace_id:032x}", f"{one.context.span_id:016x}"] for one in span.links
        ],
    }
    plain: Row = json.loads(json.dumps(made))
    return plain


class RowExporter(SpanExporter):
    """Writes spans to a file, a line each.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write spans."""
        self._file.writelines(json.dumps(row_of(span)) + "\n" for span in spans)
        self._file.flush()
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Close the file."""
        self._file.close()


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
