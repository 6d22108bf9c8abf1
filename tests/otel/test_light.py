"""Spans made without the SDK's machinery: nobody can tell the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from opentelemetry.sdk.trace import (
    ConcurrentMultiSpanProcessor,
    ReadableSpan,
    SpanLimits,
    SpanProcessor,
    TracerProvider,
)
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    NoOpTracerProvider,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)

from dsh_otel.clean import Privacy
from dsh_otel.ids import DerivedIdGenerator
from dsh_otel.light import LightSpan, LightTracer
from dsh_otel.processors.errors import ErrorSpanProcessor
from dsh_otel.processors.invariants import InvariantSpanProcessor
from dsh_otel.replay import ReplaySpanProcessor, replay_provider, trace_session
from tests.otel.support import LOGS, V4, Script, Tracing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.otel.conftest import Logged

OTHER = SpanContext(7, 8, is_remote=True, trace_flags=TraceFlags(1))


class Watching(SpanProcessor):
    """Sees spans start."""

    def __init__(self) -> None:
        self.started: list[Span] = []

    def on_start(self, span: Span, parent_context: object = None) -> None:
        self.started.append(span)


class Ending(SpanProcessor):
    """Sees spans just before they end."""

    def _on_ending(self, span: Span) -> None:
        pass


class Listening(SpanProcessor):
    """Sees spans that have ended."""

    def on_end(self, span: ReadableSpan) -> None:
        pass


def everything(span: ReadableSpan) -> dict[str, Any]:
    """Return all that a reader of a span can see, attributes in their order."""
    assert span.context is not None
    return {
        "name": span.name,
        "kind": span.kind,
        "context": (span.context, span.context.is_remote, span.context.trace_state),
        "parent": span.parent,
        "start": span.start_time,
        "end": span.end_time,
        "attributes": list((span.attributes or {}).items()),
        "events": [
            (one.name, one.timestamp, list((one.attributes or {}).items()), one.dropped_attributes)
            for one in span.events
        ],
        "links": [
            (one.context, list((one.attributes or {}).items()), one.dropped_attributes)
            for one in span.links
        ],
        "status": (span.status.status_code, span.status.description),
        "scope": span.instrumentation_scope,
        "resource": span.resource,
        "dropped": (span.dropped_attributes, span.dropped_events, span.dropped_links),
    }


def of_log(path: Path, *processors: SpanProcessor) -> list[dict[str, Any]]:
    exporter = InMemorySpanExporter()
    provider = replay_provider(SimpleSpanProcessor(exporter), *processors)
    trace_session(str(path), tracer_provider=provider, strict=True, privacy=Privacy(content=True))
    return [everything(span) for span in exporter.get_finished_spans()]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_the_spans_of_a_log_are_those_that_the_sdk_makes(path: Path) -> None:
    watching = Watching()
    assert of_log(path) == of_log(path, watching)
    assert all(not isinstance(span, LightSpan) for span in watching.started)


def made(span: Span, exporter: InMemorySpanExporter) -> dict[str, Any]:
    span.end(2_000)
    (ended,) = exporter.get_finished_spans()
    return everything(ended)


def boom() -> ValueError:
    try:
        raise ValueError("boo")  # noqa: TRY301 - it needs a traceback
    except ValueError as error:
        return error


def many(count: int) -> dict[str, Any]:
    return {f"app.{n}": n for n in range(count)}


def write_late(span: Span) -> None:
    span.end(1_900)
    span.set_attribute("late", 1)
    span.set_attributes({"late": 1})
    span.add_event("late", {}, 1_950)
    span.add_link(OTHER)
    span.set_status(StatusCode.ERROR, "late")
    span.update_name("late")


ACTIONS: dict[str, Callable[[Span], object]] = {
    "nothing": lambda span: None,
    "an attribute": lambda span: span.set_attribute("app.a", "b"),
    "an attribute twice": lambda span: [span.set_attribute("first", n) for n in (1, 2)],
    "attributes": lambda span: span.set_attributes({"first": 3, "app.b": True, "app.c": 1.5}),
    "a list": lambda span: span.set_attribute("app.list", ["a", "b"]),
    "a tuple of numbers": lambda span: span.set_attribute("app.list", (1, 2)),
    "a map": lambda span: span.set_attribute("app.map", {"a": [1]}),
    "a list, then a name": lambda span: [
        span.set_attribute("app.list", ["a"]),
        span.set_attributes({"first": 2, "app.name": "n"}),
    ],
    "too many attributes": lambda span: span.set_attributes(many(130)),
    "too many, one by one": lambda span: [span.set_attribute(*one) for one in many(130).items()],
    "an event": lambda span: span.add_event("app.event", {"a": 1}, 1_500),
    "an event without anything": lambda span: span.add_event("app.event", timestamp=1_500),
    "an event with a list": lambda span: span.add_event("app.event", {"a": ["b"]}, 1_500),
    "an event with too much": lambda span: span.add_event("app.event", many(130), 1_500),
    "too many events": lambda span: [span.add_event(f"e{n}", {}, 1_500) for n in range(130)],
    "a link": lambda span: span.add_link(OTHER, {"a": "b"}),
    "a link to nothing": lambda span: span.add_link(SpanContext(0, 0, is_remote=False)),
    "too many links": lambda span: list(map(span.add_link, [OTHER] * 130)),
    "an error": lambda span: span.set_status(StatusCode.ERROR, "bad"),
    "an error as an object": lambda span: span.set_status(Status(StatusCode.ERROR, "bad")),
    "unset": lambda span: span.set_status(StatusCode.UNSET),
    "an error, then unset": lambda span: [
        span.set_status(StatusCode.ERROR, "bad"),
        span.set_status(StatusCode.UNSET),
    ],
    "ok is final": lambda span: [
        span.set_status(StatusCode.OK),
        span.set_status(StatusCode.ERROR, "bad"),
    ],
    "the last error counts": lambda span: [
        span.set_status(StatusCode.ERROR, "bad"),
        span.set_status(StatusCode.ERROR, "worse"),
    ],
    "a name": lambda span: span.update_name("renamed"),
    "an exception": lambda span: span.record_exception(boom(), {"a": 1}, 1_500),
    "no name for an attribute": lambda span: span.set_attributes({"": 1, "app.a": 1}),
    "a name of another type": lambda span: span.set_attributes({7: 1}),  # type: ignore[dict-item]
    "ended twice": lambda span: [span.end(1_900), span.end(1_950)],
    "written to after the end": write_late,
}


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_whatever_is_done_to_a_span_comes_out_as_from_the_sdk(
    action: Callable[[Span], object], logged: Logged
) -> None:
    results = []
    for light in (False, True):
        exporter = InMemorySpanExporter()
        provider = TracerProvider(id_generator=DerivedIdGenerator(), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        sdk = provider.get_tracer("dsh_otel")
        if light:
            tracer = LightTracer.of(sdk)
            assert tracer is not None
            assert tracer.plain
            span: Span = tracer.start("n", None, SpanKind.CLIENT, {"first": 1}, 1_000, (1, 2))
        else:
            assert isinstance(provider.id_generator, DerivedIdGenerator)
            provider.id_generator.lay_out(1, 2)
            span = sdk.start_span(
                "n", kind=SpanKind.CLIENT, attributes={"first": 1}, start_time=1_000
            )
        action(span)
        recording = span.is_recording()
        results.append((recording, made(span, exporter), len(logged.take()) > 0))
    assert results[0] == results[1]


def test_a_span_ends_now_if_no_time_is_given() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = LightTracer.of(provider.get_tracer("dsh_otel"))
    assert tracer is not None
    tracer.start("n", None, SpanKind.INTERNAL, {}, 1_000, None).end()
    (ended,) = exporter.get_finished_spans()
    assert (ended.end_time or 0) > 1_000


def plain(provider: TracerProvider, *processors: SpanProcessor) -> bool:
    for processor in processors:
        provider.add_span_processor(processor)
    tracer = LightTracer.of(provider.get_tracer("dsh_otel"))
    return tracer is not None and tracer.plain


def provider(**options: Any) -> TracerProvider:
    return TracerProvider(shutdown_on_exit=False, **options)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SimpleSpanProcessor(InMemorySpanExporter()),
        lambda: BatchSpanProcessor(InMemorySpanExporter()),
        lambda: ReplaySpanProcessor(InMemorySpanExporter()),
        ErrorSpanProcessor,
        InvariantSpanProcessor,
        Listening,
    ],
    ids=["simple", "batch", "replay", "errors", "invariants", "listening"],
)
def test_a_processor_that_waits_for_the_end_leaves_a_provider_plain(
    make: Callable[[], SpanProcessor],
) -> None:
    processor = make()
    assert plain(provider(), processor)
    processor.shutdown()


def patched() -> SpanProcessor:
    processor = Listening()
    processor.on_start = lambda span, parent_context=None: None  # type: ignore[method-assign]
    return processor


@pytest.mark.parametrize(
    "make", [Watching, Ending, patched, Mock], ids=["start", "ending", "patched", "mock"]
)
def test_a_processor_that_watches_spans_start_leaves_them_to_the_sdk(
    make: Callable[[], SpanProcessor],
) -> None:
    assert not plain(provider(), make())


@pytest.mark.parametrize(
    "options",
    [
        {"sampler": TraceIdRatioBased(0.5)},
        {"sampler": ParentBased(ALWAYS_ON)},
        {"span_limits": SpanLimits(max_events=3)},
        {"span_limits": SpanLimits(max_span_attributes=500)},
        {"span_limits": SpanLimits(max_span_attribute_length=10)},
        {"span_limits": SpanLimits(max_attribute_length=10)},
        {"active_span_processor": ConcurrentMultiSpanProcessor(1)},
    ],
    ids=lambda options: next(iter(options)),
)
def test_settings_of_ones_own_leave_spans_to_the_sdk(options: dict[str, Any]) -> None:
    assert not plain(provider(**options))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_TRACES_SAMPLER", "parentbased_always_off"),
        ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "20"),
        ("OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED", "true"),
        ("OTEL_SDK_DISABLED", "true"),
    ],
)
def test_settings_of_the_environment_leave_spans_to_the_sdk(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert not plain(provider())


def test_the_default_settings_by_their_names_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_on")
    monkeypatch.setenv("OTEL_SPAN_EVENT_COUNT_LIMIT", "128")
    assert plain(provider())


@pytest.mark.parametrize("name", ["_span_limits", "_tracer_metrics", "_is_enabled"])
def test_an_sdk_that_does_not_say_leaves_spans_to_itself(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = provider()
    tracer = made.get_tracer("dsh_otel")
    where: Any = type(tracer) if name == "_is_enabled" else tracer
    monkeypatch.delattr(where, name)
    light = LightTracer.of(tracer)
    assert light is not None
    assert not light.plain


def test_a_provider_of_another_kind_makes_its_own_spans() -> None:
    assert LightTracer.of(NoOpTracerProvider().get_tracer("dsh_otel")) is None


def test_a_processor_added_in_the_middle_sees_the_spans_that_start_from_then_on() -> None:
    tracing, watching = Tracing(V4), Watching()
    script = Script()
    script.opened()
    tracing.run(script.events, close=False)
    tracing.provider.add_span_processor(watching)
    before = len(script.events)
    script.call()
    script.result()
    script.closed()
    spans = tracing.run(script.events[before:])
    assert [span.get_span_context() for span in watching.started] == [
        span.context for span in spans if span.name.startswith("execute_tool")
    ]
    (turn,) = [span for span in spans if span.name.startswith("invoke_agent")]
    assert all(span.context.trace_id == turn.context.trace_id for span in spans)
