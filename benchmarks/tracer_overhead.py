"""What the session tracer adds to the same spans made with the bare SDK."""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.trace import Span, SpanKind, Status, set_span_in_context

from benchmarks.rounds import interleave, ratios
from dsh_core.logs.find import find_logs
from dsh_core.logs.reader import Batch, SessionLog
from dsh_otel.export.file import FileSink
from dsh_otel.ids import DerivedIdGenerator
from dsh_otel.processors.errors import ErrorSpanProcessor
from dsh_otel.processors.invariants import InvariantSpanProcessor
from dsh_otel.replay import ReplaySpanProcessor
from dsh_otel.tracer import SessionTracer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace.export import SpanExporter

    from dsh_core.events import SessionEvent, SessionHeader

    _Sessions = Sequence[tuple[SessionHeader, list[SessionEvent]]]

REPEAT = 20
"""How often each session's events come."""

GOAL = 1.25


@dataclass(slots=True)
class _Plan:
    """One span, as the bare SDK is to make it."""

    name: str
    kind: SpanKind
    parent: int | None
    start: int
    end: int
    first: dict[str, Any]
    later: dict[str, Any]
    events: list[tuple[str, dict[str, Any], int]]
    status: Status | None
    children: list[int] = field(default_factory=list)


class _Recorder(SpanProcessor):
    """Notes which attributes a span starts with, and what it is in the end."""

    def __init__(self) -> None:
        self.first: dict[int, dict[str, Any]] = {}
        self.ended: list[ReadableSpan] = []

    def on_start(self, span: Any, parent_context: Context | None = None) -> None:  # noqa: ANN401
        del parent_context
        self.first[span.context.span_id] = dict(span.attributes or {})

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)


def run(rounds: int = 15) -> None:
    """Measure, and print tables."""
    sessions = _sessions()
    plans = _plans(sessions)
    _compare("made, not exported", sessions, plans, rounds, exporter=None)
    _compare(
        "made and written as OTLP JSON, as `export --to file` does",
        sessions,
        plans,
        rounds,
        exporter=FileSink(os.devnull).exporter,
    )


def _compare(
    title: str,
    sessions: _Sessions,
    plans: Sequence[_Plan],
    rounds: int,
    exporter: SpanExporter | None,
) -> None:
    derived, random = _provider(exporter, DerivedIdGenerator()), _provider(exporter, None)
    taken = interleave(
        {
            "bare SDK, the same spans": lambda: _bare(random, plans),
            "bare SDK, with context managers": lambda: _managed(random, plans),
            "session tracer": lambda: _trace(random, sessions),
            "session tracer, derived ids": lambda: _trace(derived, sessions),
            "session tracer, errors and all rules": lambda: _judge(derived, sessions),
        },
        rounds,
    )
    spans = len(plans) * REPEAT
    events = sum(len(events) for _, events in sessions) * REPEAT
    print(f"{spans:,} spans from {events:,} events of the sample sessions, {title}")
    base = taken["bare SDK, the same spans"]
    for name, seconds in taken.items():
        middle, low, high = ratios(seconds, base)
        print(
            f"  {name:<38} {statistics.median(seconds) / spans * 1e6:5.1f} µs a span,"
            f" {middle:.2f} times bare [{low:.2f} .. {high:.2f}]"
        )
    reached = ratios(taken["session tracer"], base)[0]
    print(f"  goal {GOAL} times bare: {'reached' if reached <= GOAL else 'NOT reached'}")


def _provider(exporter: SpanExporter | None, ids: DerivedIdGenerator | None) -> TracerProvider:
    provider = TracerProvider(id_generator=ids, shutdown_on_exit=False)
    if exporter is not None:
        provider.add_span_processor(ReplaySpanProcessor(exporter))
    return provider


def _trace(provider: TracerProvider, sessions: _Sessions) -> None:
    for header, events in sessions:
        # The turns come again and again, as in a session that lives for days.
        tracer = SessionTracer(header, tracer_provider=provider)
        for _ in range(REPEAT):
            for event in events:
                tracer.observe(event)
        tracer.close()


def _judge(provider: TracerProvider, sessions: _Sessions) -> None:
    processors = [ErrorSpanProcessor(), InvariantSpanProcessor()]
    for header, events in sessions:
        for _ in range(REPEAT):
            # Each time a session of its own: repeated events would be findings.
            tracer = SessionTracer(header, tracer_provider=provider, processors=processors)
            for event in events:
                tracer.observe(event)
            tracer.close()


def _bare(provider: TracerProvider, plans: Sequence[_Plan]) -> None:
    tracer = provider.get_tracer("bare")
    for _ in range(REPEAT):
        _make(tracer, plans)


def _managed(provider: TracerProvider, plans: Sequence[_Plan]) -> None:
    tracer = provider.get_tracer("bare")
    for _ in range(REPEAT):
        for number, plan in enumerate(plans):
            if plan.parent is None:
                _manage(tracer, plans, number)


def _sessions() -> list[tuple[SessionHeader, list[SessionEvent]]]:
    found = []
    with as_file(files("dsh_otel") / "samples/home") as home:
        for log in find_logs([str(home)]):
            with log.open() as source:
                session = SessionLog(source, log.path)
                events = [e for b in session.read() if isinstance(b, Batch) for e in b.events]
                found.append((session.header, events))
    return found


def _plans(sessions: _Sessions) -> list[_Plan]:
    recorder = _Recorder()
    provider = TracerProvider(id_generator=DerivedIdGenerator(), shutdown_on_exit=False)
    provider.add_span_processor(recorder)
    for header, events in sessions:
        tracer = SessionTracer(header, tracer_provider=provider, strict=True)
        for event in events:
            tracer.observe(event)
        tracer.close()
    # Parents first: a turn ends last but is made first.
    spans = recorder.ended[::-1]
    depth = {s.context.span_id: 0 for s in spans if s.context is not None}
    for span in spans:
        if span.parent is not None and span.context is not None:
            depth[span.context.span_id] = depth[span.parent.span_id] + 1
    spans.sort(key=lambda s: depth[s.context.span_id] if s.context is not None else 0)
    places = {s.context.span_id: k for k, s in enumerate(spans) if s.context is not None}
    plans: list[_Plan] = []
    for span in spans:
        assert span.context is not None
        first = recorder.first[span.context.span_id]
        attributes = dict(span.attributes or {})
        if span.parent is not None:
            plans[places[span.parent.span_id]].children.append(len(plans))
        plans.append(
            _Plan(
                name=span.name,
                kind=span.kind,
                parent=None if span.parent is None else places[span.parent.span_id],
                start=span.start_time or 0,
                end=span.end_time or 0,
                first=first,
                later={k: v for k, v in attributes.items() if first.get(k) != v},
                events=[(e.name, dict(e.attributes or {}), e.timestamp) for e in span.events],
                status=None if span.status.is_unset else span.status,
            )
        )
    return plans


def _make(tracer: Any, plans: Sequence[_Plan]) -> None:  # noqa: ANN401 - the SDK's tracer
    empty = Context()
    made: list[Span] = []
    for plan in plans:
        context = empty if plan.parent is None else set_span_in_context(made[plan.parent], empty)
        span = tracer.start_span(
            plan.name, context, kind=plan.kind, attributes=plan.first, start_time=plan.start
        )
        for name, attributes, timestamp in plan.events:
            span.add_event(name, attributes, timestamp)
        if plan.status is not None:
            span.set_status(plan.status)
        made.append(span)
    for plan, span in zip(plans, made, strict=True):
        span.set_attributes(plan.later)
        span.end(plan.end)


def _manage(tracer: Any, plans: Sequence[_Plan], number: int) -> None:  # noqa: ANN401 - the SDK's
    plan = plans[number]
    with tracer.start_as_current_span(
        plan.name, kind=plan.kind, attributes=plan.first, start_time=plan.start, end_on_exit=False
    ) as span:
        for child in plan.children:
            _manage(tracer, plans, child)
        for name, attributes, timestamp in plan.events:
            span.add_event(name, attributes, timestamp)
        for name, value in plan.later.items():
            span.set_attribute(name, value)
        if plan.status is not None:
            span.set_status(plan.status)
    span.end(plan.end)


if __name__ == "__main__":
    run()
