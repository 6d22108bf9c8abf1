"""Processors: found once, driven once, unable to hurt anybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, TraceIdRatioBased
from opentelemetry.trace import NoOpTracerProvider

from dsh_core.faults import Fault
from dsh_otel.processors.base import SessionSpanProcessor
from dsh_otel.processors.invariants import InvariantSpanProcessor
from dsh_otel.replay import replay_provider
from dsh_otel.tracer import SessionTracer
from tests.otel.support import (
    SEED,
    V4,
    Script,
    Tracing,
    attributes,
    case_log,
    event_attributes,
    only,
    trace_log,
)

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.sampling import Sampler

    from dsh_core.contract.findings import Finding
    from dsh_core.events import SessionEvent
    from dsh_otel.spans import Session, SessionSpan
    from tests.otel.conftest import Logged

DAMAGE = Fault("line.nul", "4 NUL bytes", 3)


class Watcher(SessionSpanProcessor):
    """Notes what it sees."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_event(self, event: SessionEvent, span: SessionSpan) -> None:
        self.seen.append(event.type)

    def on_fault(self, fault: Fault, span: SessionSpan) -> None:
        self.seen.append(fault.rule)

    def on_close(self, session: Session, span: SessionSpan) -> None:
        self.seen.append("close")


class Raising(Watcher):
    """Raises in one hook, and notes how often it was called."""

    def __init__(self, hook: str) -> None:
        super().__init__()
        self.hook = hook

    def on_event(self, event: SessionEvent, span: SessionSpan) -> None:
        super().on_event(event, span)
        self.trip("on_event")

    def on_fault(self, fault: Fault, span: SessionSpan) -> None:
        super().on_fault(fault, span)
        self.trip("on_fault")

    def on_close(self, session: Session, span: SessionSpan) -> None:
        super().on_close(session, span)
        self.trip("on_close")

    def trip(self, hook: str) -> None:
        if hook == self.hook:
            raise RuntimeError(hook)


def overlap() -> Script:
    """Two turns, of which the second starts before the first has ended: one violation."""
    script = Script()
    script.turn_start(1)
    script.turn_start(2)
    script.turn_end(2)
    return script


# How processors get in


def test_a_processor_of_the_provider_sees_every_event() -> None:
    watcher = Watcher()
    Tracing(V4, watcher).run(Script().opened().closed().events)
    assert watcher.seen == ["turn/start", "step/start", "step/end", "turn/end", "close"]


def test_a_processor_handed_to_the_tracer_sees_every_event() -> None:
    watcher = Watcher()
    Tracing(V4, processors=[watcher]).run(Script().opened().closed().events)
    assert watcher.seen == ["turn/start", "step/start", "step/end", "turn/end", "close"]


def test_a_processor_given_both_ways_is_driven_once() -> None:
    watcher = Watcher()
    Tracing(V4, watcher, processors=[watcher, watcher]).run(Script().opened().events)
    assert watcher.seen == ["turn/start", "step/start", "close"]


def test_a_processor_that_is_added_later_sees_the_sessions_that_start_after_it() -> None:
    tracing, late = Tracing(), Watcher()
    tracing.provider.add_span_processor(late)
    tracing.run(Script().opened().closed().events)
    assert late.seen == []
    SessionTracer(V4, tracer_provider=tracing.provider).observe(Script().turn_start())
    assert late.seen == ["turn/start"]


def test_processors_see_damage_and_the_end() -> None:
    watcher = Watcher()
    tracing = Tracing(V4, watcher)
    tracing.tracer.observe_fault(DAMAGE)
    tracing.tracer.close()
    assert watcher.seen == ["line.nul", "close"]


def test_a_provider_that_takes_no_processors_leaves_those_that_are_handed_over() -> None:
    watcher = Watcher()
    tracer = SessionTracer(V4, tracer_provider=NoOpTracerProvider(), processors=[watcher])
    tracer.observe(Script().turn_start())
    assert watcher.seen == ["turn/start"]


def test_a_provider_that_hides_its_processors_is_met_with_a_warning(logged: Logged) -> None:
    watcher, provider = Watcher(), TracerProvider(shutdown_on_exit=False)
    provider._active_span_processor = SimpleSpanProcessor(InMemorySpanExporter())  # type: ignore[assignment]
    tracer = SessionTracer(V4, tracer_provider=provider, processors=[watcher])
    (warning,) = logged.take()
    assert "does not show its span processors" in warning
    tracer.observe(Script().turn_start())
    assert watcher.seen == ["turn/start"]


def test_span_processors_of_others_are_left_to_the_sdk() -> None:
    calls: list[str] = []

    class Foreign(SpanProcessor):
        """A plain span processor with methods that are named like ours."""

        def on_start(self, span: object, parent_context: object = None) -> None:
            calls.append("start")

        def on_end(self, span: ReadableSpan) -> None:
            calls.append("end")

        def on_event(self, *_: object) -> None:
            calls.append("event")

        def on_close(self, *_: object) -> None:
            calls.append("close")

    Tracing(V4, Foreign()).run(Script().opened().closed().events)
    assert calls == ["start", "start", "end", "end"]


# What processors write


def test_what_a_processor_writes_is_exported() -> None:
    class Writer(SessionSpanProcessor):
        def on_event(self, event: SessionEvent, span: SessionSpan) -> None:
            if event.type == "step/end":
                span.set("app.colour", "green")
                span.add_event("app.done", {"size": 3}, span.session.now_ns)

    spans = Tracing(V4, Writer()).run(Script().opened().closed().events)
    step = only(spans, "dsh.step")
    assert attributes(step)["app.colour"] == "green"
    assert event_attributes(step, "app.done") == [{"size": 3}]
    assert step.events[0].timestamp == step.end_time


def test_what_a_processor_writes_outside_all_spans_gets_a_span_without_length() -> None:
    class Writer(SessionSpanProcessor):
        def on_event(self, event: SessionEvent, span: SessionSpan) -> None:
            span.set("app.colour", "green")

    script = Script()
    stray = script.add("session/title")
    (span,) = Tracing(V4, Writer()).run(script.events)
    assert span.name == "dsh.orphan"
    assert span.start_time == span.end_time == stray.time * 1_000_000
    assert attributes(span) == {
        "gen_ai.conversation.id": "s-1",
        "session.id": "s-1",
        "dsh.span.synthetic": True,
        "dsh.seq.start": 0,
        "dsh.seq.end": 0,
        "app.colour": "green",
    }


def test_what_nobody_writes_to_outside_all_spans_leaves_no_span() -> None:
    script = Script()
    script.add("session/title")
    assert Tracing(V4, Watcher()).run(script.events) == []


# Several sessions


@pytest.mark.parametrize("other", ["s-1", "s-2"])
def test_sessions_that_share_a_processor_are_kept_apart(other: str) -> None:
    found: list[Finding] = []
    checks = InvariantSpanProcessor(on_finding=lambda finding, _: found.append(finding))
    provider = replay_provider(checks)
    tracers = [
        SessionTracer(session, tracer_provider=provider, strict=True) for session in ("s-1", other)
    ]
    for event in Script().opened().closed().events:
        for tracer in tracers:
            tracer.observe(event)
    for tracer in tracers:
        tracer.close()
    assert found == []


# Sampling


@pytest.mark.parametrize("sampler", [ALWAYS_OFF, TraceIdRatioBased(0.0)])
def test_an_unsampled_session_is_checked_and_not_exported(sampler: Sampler) -> None:
    found: list[str] = []
    checks = InvariantSpanProcessor(on_finding=lambda finding, _: found.append(finding.rule))
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    assert Tracing(V4, checks, provider=provider).run(overlap().events) == []
    assert "turn.overlap" in found


def test_a_disabled_sdk_is_checked_and_not_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    found: list[str] = []
    checks = InvariantSpanProcessor(on_finding=lambda finding, _: found.append(finding.rule))
    assert Tracing(V4, checks).run(overlap().events) == []
    assert "turn.overlap" in found


# Failures


@pytest.mark.parametrize("hook", ["on_event", "on_fault", "on_close"])
def test_a_processor_that_raises_is_left_out_and_the_others_go_on(
    hook: str, logged: Logged
) -> None:
    broken, after = Raising(hook), Watcher()
    tracing = Tracing(V4, broken, after, strict=False)
    script = Script().opened()
    for event in script.events:
        tracing.tracer.observe(event)
    for _ in range(2):
        tracing.tracer.observe_fault(DAMAGE)
    tracing.tracer.close()
    everything = ["turn/start", "step/start", "line.nul", "line.nul", "close"]
    last = {"on_event": "turn/start", "on_fault": "line.nul", "on_close": "close"}[hook]
    assert after.seen == everything
    assert broken.seen == everything[: everything.index(last) + 1]
    assert tracing.tracer.guard.errors == {"Raising": 1}
    (message,) = logged.take()
    assert message == f"Raising failed and is left out from here on: RuntimeError('{hook}')"
    assert [span.name for span in tracing.spans] == ["dsh.step", "invoke_agent dsh"]


@pytest.mark.parametrize("hook", ["on_event", "on_fault", "on_close"])
def test_in_strict_mode_the_error_of_a_processor_reaches_the_caller(hook: str) -> None:
    tracer = Tracing(V4, Raising(hook)).tracer
    with pytest.raises(RuntimeError, match=hook):
        raise_all(tracer)


def raise_all(tracer: SessionTracer) -> None:
    tracer.observe(Script().turn_start())
    tracer.observe_fault(DAMAGE)
    tracer.close()


class BrokenAtTheEnd(SessionSpanProcessor):
    """Raises when its span ends."""

    def on_event(self, event: SessionEvent, span: SessionSpan) -> None:
        if event.type == "step/start":
            span.before_end(self.trip)

    def trip(self) -> None:
        raise RuntimeError("before_end")


def test_a_broken_before_end_costs_neither_the_span_nor_the_others(logged: Logged) -> None:
    class Later(SessionSpanProcessor):
        def on_event(self, event: SessionEvent, span: SessionSpan) -> None:
            if event.type == "step/start":
                span.before_end(lambda: span.set("app.colour", "green"))

    tracing = Tracing(V4, BrokenAtTheEnd(), Later(), strict=False)
    spans = tracing.run(Script().opened().closed().events)
    assert attributes(only(spans, "dsh.step"))["app.colour"] == "green"
    assert tracing.tracer.guard.errors == {"before_end": 1}
    assert len(logged.take()) == 1


def test_in_strict_mode_a_broken_before_end_reaches_the_caller() -> None:
    tracing = Tracing(V4, BrokenAtTheEnd())
    with pytest.raises(RuntimeError, match="before_end"):
        tracing.run(Script().opened().closed().events)


class Foreign(SpanProcessor):
    """Somebody else's span processor, which raises where the SDK calls it."""

    def __init__(self, hook: str) -> None:
        self.hook = hook

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if self.hook == "on_start":
            raise RuntimeError(self.hook)

    def on_end(self, span: ReadableSpan) -> None:
        if self.hook == "on_end":
            raise RuntimeError(self.hook)


@pytest.mark.parametrize(
    ("hook", "place"), [("on_start", "starting a span"), ("on_end", "ending a span")]
)
def test_a_foreign_processor_that_raises_hurts_neither_the_host_nor_the_checks(
    hook: str, place: str, logged: Logged
) -> None:
    found: list[str] = []
    checks = InvariantSpanProcessor(on_finding=lambda finding, _: found.append(finding.rule))
    watcher = Watcher()
    tracing = Tracing(SEED, checks, watcher, Foreign(hook), strict=False)
    script = Script().opened()
    script.call("c1")
    script.call("c2")
    script.turn_end()
    tracing.run(script.events)
    assert watcher.seen == [*(event.type for event in script.events), "close"]
    assert found == ["turn.end-open-step"]
    assert tracing.tracer.guard.errors == {place: 4}
    assert len(logged.take()) == 1
    assert sum(tracing.tracer.counts.values()) == len(script.events)


def test_the_checks_of_a_real_case_survive_a_broken_neighbour(logged: Logged) -> None:
    spans = trace_log(
        case_log("03"), processors=[Raising("on_event"), InvariantSpanProcessor()], strict=False
    )
    found = [attributes(span).get("dsh.violation.first") for span in spans]
    assert found.count("turn.overlap") == 1
    assert len(logged.take()) == 1


class Picky(SessionSpanProcessor):
    """Wants to see steps, and events that only some plugin knows."""

    watches = frozenset({"step/start", "mine/known"})

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_event(self, event: SessionEvent, span: SessionSpan) -> None:
        self.seen.append(event.type)


def test_a_processor_sees_the_events_that_it_watches() -> None:
    picky, script = Picky(), Script()
    script.opened()
    script.add("mine/known")
    script.add("mine/other")
    script.add("mine/known")
    script.closed()
    Tracing(V4, picky).run(script.events)
    assert picky.seen == ["step/start", "mine/known", "mine/known"]
