"""A span while it is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode

from dsh_otel.processors.base import SessionSpanProcessor
from dsh_otel.spans import MAX_TIME_MS, SessionSpan, to_ns
from tests.otel.support import V4, Script, Tracing, attributes, only

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.trace import ReadableSpan

    from dsh_core.events import SessionEvent


class Acting(SessionSpanProcessor):
    """Does something with the span of a turn when it opens."""

    def __init__(self, action: Callable[[SessionSpan], object]) -> None:
        self.action = action

    def on_event(self, event: SessionEvent, span: SessionSpan) -> None:
        if event.type == "turn/start":
            self.action(span)


def turn_after(action: Callable[[SessionSpan], object], **options: Any) -> ReadableSpan:
    script = Script()
    script.turn_start()
    script.turn_end()
    return only(Tracing(V4, Acting(action), **options).run(script.events), "invoke_agent")


def test_what_is_set_last_counts() -> None:
    def write(span: SessionSpan) -> None:
        span.set("app.colour", "red")
        span.set("app.colour", "green")
        assert span.get("app.colour") == "green"
        assert span.get("app.other") is None

    assert attributes(turn_after(write))["app.colour"] == "green"


def test_a_mark_is_true() -> None:
    assert attributes(turn_after(lambda span: span.mark("app.seen")))["app.seen"] is True


def test_the_first_failure_describes_the_span() -> None:
    def fail(span: SessionSpan) -> None:
        assert not span.failed
        span.fail("first")
        span.fail("second")
        assert span.failed

    turn = turn_after(fail)
    assert turn.status.status_code is StatusCode.ERROR
    assert turn.status.description == "first"


def test_a_span_holds_so_many_events_and_none_is_pushed_out() -> None:
    spans: list[SessionSpan] = []

    def write(span: SessionSpan) -> None:
        kept = [span.add_event(f"app.{n}", {}, span.session.now_ns) for n in range(130)]
        assert kept == [True] * 128 + [False] * 2
        spans.append(span)

    turn = turn_after(write)
    assert [event.name for event in turn.events] == [f"app.{n}" for n in range(128)]
    assert turn.dropped_events == 0
    assert spans[0].dropped_events == 2


def test_what_waits_for_the_end_runs_in_its_order_while_the_span_is_writable() -> None:
    done: list[int] = []

    def write(span: SessionSpan) -> None:
        span.before_end(lambda: done.append(1))
        span.before_end(lambda: span.set("app.done", len(done)))

    assert attributes(turn_after(write))["app.done"] == 1


def test_a_span_ends_once() -> None:
    spans: list[SessionSpan] = []
    turn_after(spans.append)
    (span,) = spans
    assert span.ended
    span.end(span.start_ns)


def test_a_processor_can_remember_something_about_span_and_session() -> None:
    first, second = object(), object()

    def write(span: SessionSpan) -> None:
        assert span.notes == {}
        span.notes[first] = 1
        span.session.notes[second] = 2

    spans: list[SessionSpan] = []
    tracing = Tracing(V4, Acting(write), Acting(spans.append))
    tracing.tracer.observe(Script().turn_start())
    assert spans[0].notes == {first: 1}
    assert tracing.tracer.session.notes == {second: 2}


@pytest.mark.parametrize(("sampler", "recording"), [(None, True), (ALWAYS_OFF, False)])
def test_only_a_sampled_span_keeps_what_is_written(sampler: Any, *, recording: bool) -> None:
    seen: list[bool] = []
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    tracing = Tracing(V4, Acting(lambda span: seen.append(span.recording)), provider=provider)
    tracing.run([Script().turn_start()])
    assert seen == [recording]


def test_outside_all_spans_asking_whether_it_records_starts_the_span() -> None:
    class Asking(SessionSpanProcessor):
        def on_event(self, event: SessionEvent, span: SessionSpan) -> None:
            assert not span.started
            assert span.recording
            assert span.started

    script = Script()
    script.add("sandbox/mode")
    (span,) = Tracing(V4, Asking()).run(script.events)
    assert span.name == "dsh.orphan"


def test_outside_all_spans_every_way_to_write_starts_the_span_once() -> None:
    class Writing(SessionSpanProcessor):
        def on_event(self, event: SessionEvent, span: SessionSpan) -> None:
            span.fail("bad")
            span.add_event("app.seen", {}, span.session.now_ns)
            span.set("app.colour", "green")

    script = Script()
    script.add("sandbox/mode")
    (span,) = Tracing(V4, Writing()).run(script.events)
    assert span.status.status_code is StatusCode.ERROR
    assert [event.name for event in span.events] == ["app.seen"]
    assert attributes(span)["app.colour"] == "green"


@pytest.mark.parametrize(
    ("ms", "ns"),
    [
        (0, 0),
        (1, 1_000_000),
        (-1, 0),
        (-(2**63), 0),
        (MAX_TIME_MS, MAX_TIME_MS * 1_000_000),
        (MAX_TIME_MS + 1, MAX_TIME_MS * 1_000_000),
        (2**70, MAX_TIME_MS * 1_000_000),
    ],
)
def test_times_are_moved_into_what_otlp_can_carry(ms: int, ns: int) -> None:
    assert to_ns(ms) == ns < 2**63


def test_a_processor_that_does_nothing_is_a_processor() -> None:
    script = Script().opened()
    tracing = Tracing(V4, SessionSpanProcessor())
    assert len(tracing.run(script.events)) == 2
