"""Spans made without the SDK's machinery: nobody can tell the difference."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import (
    ConcurrentMultiSpanProcessor,
    ReadableSpan,
    SpanLimits,
    SpanProcessor,
    TracerProvider,
)
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    ParentBased,
    TraceIdRatioBased,
)
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
from dsh_otel.light import LightSpan, LightTracer, write
from dsh_otel.replay import replay_provider, trace_session
from tests.otel.support import LOGS, V4, Script, Tracing, session_log

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.otel.conftest import Logged

OTHER = SpanContext(7, 8, is_remote=True, trace_flags=TraceFlags(1))


class Watching(SpanProcessor):
    """Sees spans start and end, and writes to them."""

    def __init__(self) -> None:
        self.started: list[Span] = []
        self.seen: list[tuple[str, dict[str, Any], Context | None]] = []

    def on_start(self, span: Any, parent_context: Context | None = None) -> None:
        self.started.append(span)
        self.seen.append((span.name, dict(span.attributes), parent_context))
        span.set_attribute("app.order", len(self.started))

    def _on_ending(self, span: Any) -> None:
        self.seen.append((span.name, {"end": span.end_time}, None))


def everything(span: ReadableSpan) -> dict[str, Any]:
    """Return all that a reader of a span can see, attributes in their order."""
    assert span.context is not None
    return {
        "name": span.name,
        "kind": span.kind,
        "context": (tuple(span.context), span.context.is_remote, span.context.trace_state),
        "parent": span.parent and tuple(span.parent),
        "start": span.start_time,
        "end": span.end_time,
        "attributes": list((span.attributes or {}).items()),
        "events": [
            (one.name, one.timestamp, list((one.attributes or {}).items()), one.dropped_attributes)
            for one in span.events
        ],
        "links": [
            (tuple(one.context), list((one.attributes or {}).items()), one.dropped_attributes)
            for one in span.links
        ],
        "status": (span.status.status_code, span.status.description),
        "scope": span.instrumentation_scope,
        "resource": dict(span.resource.attributes),
        "info": span._instrumentation_info,
        "dropped": (span.dropped_attributes, span.dropped_events, span.dropped_links),
    }


def of_log(path: Path, *processors: SpanProcessor) -> list[dict[str, Any]]:
    exporter = InMemorySpanExporter()
    provider = replay_provider(*processors, SimpleSpanProcessor(exporter))
    trace_session(str(path), tracer_provider=provider, strict=True, privacy=Privacy(content=True))
    return [everything(span) for span in exporter.get_finished_spans()]


def all_by_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LightTracer, "plain", False)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_the_spans_of_a_log_are_those_that_the_sdk_makes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    light = of_log(path)
    all_by_the_sdk(monkeypatch)
    assert light == of_log(path)


def test_a_processor_sees_the_same_at_every_start_and_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = session_log("parallel-tools")
    light, sdk = Watching(), Watching()
    by_us = of_log(path, light)
    all_by_the_sdk(monkeypatch)
    assert by_us == of_log(path, sdk)
    assert [(name, values) for name, values, _ in light.seen] == [
        (name, values) for name, values, _ in sdk.seen
    ]
    assert [context is None for *_, context in light.seen] == [
        context is None for *_, context in sdk.seen
    ]
    assert {type(span) for span in light.started} == {LightSpan}
    assert not any(isinstance(span, LightSpan) for span in sdk.started)


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


def fail_inside(span: Span) -> None:
    with contextlib.suppress(ValueError), span:
        raise ValueError("inside")


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
    "a status that is none": lambda span: span.set_status("ERROR"),  # type: ignore[arg-type]
    "a link that is none": lambda span: span.add_link(None),  # type: ignore[arg-type]
    "an unhashable name": lambda span: span.set_attribute([], 1),  # type: ignore[arg-type]
    "pairs for attributes": lambda span: span.add_event("e", [("a", 1)], 1_500),  # type: ignore[arg-type]
    "an error inside": fail_inside,
}


def start(provider: TracerProvider, *, light: bool) -> Span:
    sdk = provider.get_tracer("dsh_otel", "1", "http://localhost/schema", {"team": "x"})
    if light:
        tracer = LightTracer(sdk)
        assert tracer.plain
        made = tracer.start("n", Context(), None, SpanKind.CLIENT, {"first": 1}, 1_000, (1, 2))
        assert made is not None
        return made
    assert isinstance(provider.id_generator, DerivedIdGenerator)
    provider.id_generator.lay_out(1, 2)
    return sdk.start_span("n", kind=SpanKind.CLIENT, attributes={"first": 1}, start_time=1_000)


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_whatever_is_done_to_a_span_comes_out_as_from_the_sdk(
    action: Callable[[Span], object], logged: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentelemetry.sdk.trace.time_ns", lambda: 1_700)
    results = []
    for light in (False, True):
        exporter = InMemorySpanExporter()
        provider = TracerProvider(id_generator=DerivedIdGenerator(), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        span = start(provider, light=light)
        try:
            action(span)
        except Exception as error:  # noqa: BLE001 - also that must be the same
            results.append(repr(error))
        else:
            recording = span.is_recording()
            results.append(repr((recording, made(span, exporter), logged.take())))
    assert results[0] == results[1]


WRITES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "new ones": {"app.a": "b", "app.c": 2, "app.d": 1.5, "app.e": True, "app.f": ("x", "y")},
    "one again": {"first": 2, "app.a": "b"},
    "too many": many(130),
    "just enough": many(127),
    "one too many": many(128),
    "no name": {"": 1, "app.a": 1},
    "a name of another type": {7: 1},  # type: ignore[dict-item]
}


@pytest.mark.parametrize("values", WRITES.values(), ids=WRITES)
def test_writing_sets_attributes_as_the_sdk_does(values: dict[str, Any], logged: Logged) -> None:
    results = []
    for light in (False, True):
        exporter = InMemorySpanExporter()
        provider = TracerProvider(id_generator=DerivedIdGenerator(), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        span = start(provider, light=light)
        write(span, values)
        results.append((everything_of(span, exporter), logged.take()))
    assert results[0] == results[1]


def everything_of(span: Span, exporter: InMemorySpanExporter) -> str:
    return repr(made(span, exporter))


def test_what_is_written_to_an_ended_span_is_left_out(logged: Logged) -> None:
    provider = TracerProvider(id_generator=DerivedIdGenerator(), shutdown_on_exit=False)
    span: Any = start(provider, light=True)
    span.end(2_000)
    write(span, {"late": 1})
    assert dict(span.attributes) == {"first": 1}
    assert logged.take() == ["Setting attribute on ended span."]


def plain(provider: TracerProvider) -> bool:
    return LightTracer(provider.get_tracer("dsh_otel")).plain


def provider(**options: Any) -> TracerProvider:
    return TracerProvider(shutdown_on_exit=False, **options)


def test_a_default_provider_is_plain_whatever_its_processors() -> None:
    made = provider()
    made.add_span_processor(Watching())
    assert plain(made)
    assert plain(provider(active_span_processor=ConcurrentMultiSpanProcessor(1)))


@pytest.mark.parametrize(
    "options",
    [
        {"sampler": TraceIdRatioBased(0.5)},
        {"sampler": ParentBased(ALWAYS_ON)},
        {"span_limits": SpanLimits(max_span_attribute_length=10)},
        {"span_limits": SpanLimits(max_attribute_length=10)},
    ],
    ids=lambda options: next(iter(options)),
)
def test_settings_that_change_spans_leave_them_to_the_sdk(options: dict[str, Any]) -> None:
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
    assert plain(provider())


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_limits_of_ones_own_hold(limit: int, logged: Logged) -> None:
    limits = SpanLimits(max_span_attributes=limit, max_events=limit, max_links=limit)
    results = []
    for light in (False, True):
        exporter = InMemorySpanExporter()
        made_ = provider(id_generator=DerivedIdGenerator(), span_limits=limits)
        made_.add_span_processor(SimpleSpanProcessor(exporter))
        span = start(made_, light=light)
        write(span, many(2))
        for n in range(5):
            span.add_event(f"e{n}", {}, 1_500)
        results.append((everything_of(span, exporter), len(logged.take())))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "name", ["_span_limits", "_tracer_metrics", "_instrumentation_scope", "_is_enabled"]
)
def test_an_sdk_that_has_changed_makes_all_spans(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracer = provider().get_tracer("dsh_otel")
    monkeypatch.delattr(type(tracer) if name == "_is_enabled" else tracer, name)
    assert not LightTracer(tracer).plain


@pytest.mark.parametrize("name", ["start_span", "sampler"])
def test_what_is_changed_later_counts_from_then_on(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracer: Any = provider().get_tracer("dsh_otel")
    light = LightTracer(tracer)
    assert light.plain
    # As instrumentation that patches the SDK does.
    monkeypatch.setattr(tracer, name, Mock() if name == "start_span" else ALWAYS_OFF)
    assert not light.plain


def test_a_fork_changes_the_resource_of_the_spans_that_start_then() -> None:
    made_ = provider(id_generator=DerivedIdGenerator())
    tracer: Any = made_.get_tracer("dsh_otel", "1", "http://localhost/schema", {"team": "x"})
    before: Any = start(made_, light=True)
    tracer._set_resource(Resource({"app.child": True}))
    after: Any = start(made_, light=True)
    assert "app.child" not in before.resource.attributes
    assert after.resource.attributes["app.child"] is True


@pytest.mark.parametrize(
    "parent",
    [SpanContext(0, 0, is_remote=False), SpanContext(1, 2, is_remote=False)],
    ids=["invalid", "unsampled"],
)
def test_a_parent_out_of_the_ordinary_leaves_the_span_to_the_sdk(parent: SpanContext) -> None:
    light = LightTracer(provider().get_tracer("dsh_otel"))
    assert light.plain
    assert light.start("n", Context(), parent, SpanKind.CLIENT, {}, 1, None) is None


@pytest.mark.parametrize("random", [True, False])
def test_random_trace_ids_are_marked_as_such(random: bool) -> None:
    made_ = provider() if random else provider(id_generator=DerivedIdGenerator())
    exporter = InMemorySpanExporter()
    made_.add_span_processor(SimpleSpanProcessor(exporter))
    Tracing(V4, provider=made_).run(Script().opened().closed().events)
    assert {span.context.trace_flags.random_trace_id for span in exporter.get_finished_spans()} == {
        random
    }


def test_a_provider_of_another_kind_makes_its_own_spans() -> None:
    assert not LightTracer(NoOpTracerProvider().get_tracer("dsh_otel")).plain


class Rough(IdGenerator):
    """Gives ids, and says nothing of them."""

    is_trace_id_random = None  # type: ignore[assignment]

    def generate_span_id(self) -> int:
        return 6

    def generate_trace_id(self) -> int:
        return 5


def test_an_id_generator_that_fails_does_not_reach_the_host(logged: Logged) -> None:
    tracing = Tracing(V4, provider=provider(id_generator=Rough()), strict=False)
    assert tracing.run(Script().opened().closed().events) == []
    assert set(tracing.tracer.guard.errors) == {"starting a span"}
    assert len(logged.take()) == 1


def test_a_generator_that_derives_from_ours_keeps_the_last_word() -> None:
    class Own(DerivedIdGenerator):
        def generate_span_id(self) -> int:
            return super().generate_span_id() | 1

    spans = Tracing(V4, provider=provider(id_generator=Own())).run(
        Script().opened().closed().events
    )
    assert all(span.context is not None and span.context.span_id & 1 for span in spans)
