"""One form for spans, wherever they were seen, so that they can be compared with their types."""

from __future__ import annotations

import base64
import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dsh_core.logs.find import find_logs
from dsh_otel.replay import replay_provider, trace_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

Value = tuple[str, Any]
"""An attribute value with the name of its type: 1, 1.0 and True are three different things."""

KINDS: Final = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
STATUSES: Final = ("UNSET", "OK", "ERROR")


@dataclass(frozen=True)
class Event:
    """A span event."""

    name: str
    time: int
    attributes: dict[str, Value]


@dataclass(frozen=True)
class Span:
    """All of a span that a receiver gets to know."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: str
    start: int
    end: int
    status: tuple[str, str]
    attributes: dict[str, Value]
    events: tuple[Event, ...]
    scope: str
    resource: dict[str, Value]
    links: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """What no two spans may share."""
        return self.trace_id, self.span_id


def assert_same(arrived: Sequence[Span], expected: Sequence[Span]) -> None:
    """Check that every span arrived, once, unchanged."""
    wanted = {span.key: span for span in expected}
    assert len(wanted) == len(expected), "the log itself gives a span twice"
    found = {span.key: span for span in arrived}
    twice = [key for key, count in Counter(span.key for span in arrived).items() if count > 1]
    assert twice == []
    missing = [span.name for key, span in wanted.items() if key not in found]
    assert (len(missing), missing[:5]) == (0, [])
    strange = [span.name for key, span in found.items() if key not in wanted]
    assert (len(strange), strange[:5]) == (0, [])
    for key, span in wanted.items():
        assert found[key] == span


# ------------------------------------------------------------------- what a log should give


def expected_spans(*places: Path, **options: Any) -> list[Span]:
    """Return the spans of some logs as they leave the tracer, before any exporter sees them."""
    exporter = InMemorySpanExporter()
    provider = replay_provider(SimpleSpanProcessor(exporter))
    for log in find_logs(map(str, places)):
        trace_session(log.path, tracer_provider=provider, **options)
    return [from_sdk(span) for span in exporter.get_finished_spans()]


def from_sdk(span: ReadableSpan) -> Span:
    """Read a span of the SDK."""
    assert span.context is not None
    assert span.instrumentation_scope is not None
    assert span.start_time is not None
    assert span.end_time is not None
    return Span(
        trace_id=f"{span.context.trace_id:032x}",
        span_id=f"{span.context.span_id:016x}",
        parent_id=f"{span.parent.span_id:016x}" if span.parent else "",
        name=span.name,
        kind=span.kind.name,
        start=span.start_time,
        end=span.end_time,
        status=(span.status.status_code.name, span.status.description or ""),
        attributes=_typed(span.attributes),
        events=tuple(
            Event(event.name, event.timestamp, _typed(event.attributes)) for event in span.events
        ),
        scope=span.instrumentation_scope.name,
        resource=_typed(span.resource.attributes),
        links=tuple(
            (f"{one.context.trace_id:032x}", f"{one.context.span_id:016x}") for one in span.links
        ),
    )


def _typed(attributes: Mapping[str, Any] | None) -> dict[str, Value]:
    return {name: _tagged(value) for name, value in (attributes or {}).items()}


def _tagged(value: Any) -> Value:
    if isinstance(value, list | tuple):
        return "array", tuple(_tagged(item) for item in value)
    return {str: "string", bool: "bool", int: "int", float: "double"}[type(value)], value


# ---------------------------------------------------------------------------------- OTLP


def from_json_lines(data: bytes) -> list[Span]:
    """Read OTLP JSON, one request a line; a line that is still being written is left out."""
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    return [span for line in lines for span in _of_request(json.loads(line), _same)]


def from_protobuf(body: bytes) -> list[Span]:
    """Read the body of an OTLP request."""
    request = ExportTraceServiceRequest.FromString(body)
    document = MessageToDict(request, use_integers_for_enums=True)
    # Protobuf's own JSON has ids in base64, OTLP's has them in hexadecimal digits.
    return list(_of_request(document, lambda text: base64.b64decode(text).hex()))


def _same(text: str) -> str:
    return text


def _of_request(request: Mapping[str, Any], to_hex: Callable[[str], str]) -> Iterator[Span]:
    for by_resource in request.get("resourceSpans", ()):
        resource = _read(by_resource.get("resource", {}).get("attributes", ()))
        for by_scope in by_resource.get("scopeSpans", ()):
            scope = by_scope.get("scope", {}).get("name", "")
            for row in by_scope.get("spans", ()):
                status = row.get("status", {})
                yield Span(
                    trace_id=to_hex(row["traceId"]),
                    span_id=to_hex(row["spanId"]),
                    parent_id=to_hex(row.get("parentSpanId", "")),
                    name=row.get("name", ""),
                    kind=KINDS[row.get("kind", 0)],
                    start=int(row["startTimeUnixNano"]),
                    end=int(row["endTimeUnixNano"]),
                    status=(STATUSES[status.get("code", 0)], status.get("message", "")),
                    attributes=_read(row.get("attributes", ())),
                    events=tuple(
                        Event(
                            event.get("name", ""),
                            int(event["timeUnixNano"]),
                            _read(event.get("attributes", ())),
                        )
                        for event in row.get("events", ())
                    ),
                    scope=scope,
                    resource=resource,
                    links=tuple(
                        (to_hex(one["traceId"]), to_hex(one["spanId"]))
                        for one in row.get("links", ())
                    ),
                )


def _read(pairs: Iterable[Mapping[str, Any]]) -> dict[str, Value]:
    values = [(pair["key"], _value(pair["value"])) for pair in pairs]
    found = dict(values)
    assert len(found) == len(values), "an attribute is there twice"
    return found


def _value(value: Mapping[str, Any]) -> Value:
    ((kind, content),) = value.items()
    if kind == "arrayValue":
        return "array", tuple(_value(item) for item in content.get("values", ()))
    if kind == "intValue":
        return "int", int(content)
    if kind == "doubleValue":
        return "double", float(content)
    return {"stringValue": "string", "boolValue": "bool"}[kind], content
