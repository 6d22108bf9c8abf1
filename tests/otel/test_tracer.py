"""The session tracer as a whole: total, repeatable, apart from the host."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace as trace_api
from opentelemetry.exporter.otlp.json.common.trace_encoder import encode_spans as encode_json
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import SpanProcessor

from dsh_core.decode import from_mapping
from dsh_core.events import Contract, SessionHeader
from dsh_core.faults import Fault
from dsh_otel.processors.base import SessionSpanProcessor
from dsh_otel.tracer import SessionTracer
from tests.otel.support import (
    LOGS,
    V4,
    Script,
    Tracing,
    attributes,
    checked,
    ids,
    named,
    only,
    trace,
    trace_log,
)
from tests.strategies import arbitrary_events, header_row, legal_logs, mutated

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hypothesis.strategies import SearchStrategy
    from opentelemetry.sdk.trace import ReadableSpan

    from dsh_core.events import SessionEvent
    from dsh_otel.spans import Session, SessionSpan
    from tests.otel.conftest import Logged

HEADERS: Final = {
    Contract.SEED: SessionHeader(id="s-1"),
    Contract.V0: SessionHeader(id="s-1", version=0),
    Contract.V4: SessionHeader(id="s-1", version=4),
}


class Started(SpanProcessor):
    """Counts the spans that start and end."""

    def __init__(self) -> None:
        self.started: list[tuple[int, int]] = []
        self.ended: list[tuple[int, int]] = []

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self.started.append(ids(span))

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(ids(span))


def built(log: Sequence[dict[str, Any]]) -> list[SessionEvent]:
    return [from_mapping(one)[0] for one in log]


def assert_sound(
    events: Sequence[SessionEvent], header: SessionHeader, **options: Any
) -> list[ReadableSpan]:
    """Trace events, and check what holds for every session whatever is in it."""
    started = Started()
    tracing = checked(header, **options)
    tracing.provider.add_span_processor(started)
    spans = tracing.run(events)
    assert Counter(started.started) == Counter(started.ended), "a span never ends, or ends twice"
    assert len(set(map(ids, spans))) == len(spans), "two spans share an id"
    assert sum(tracing.tracer.counts.values()) == len(events), "an event is not counted once"
    assert min(tracing.tracer.counts.values(), default=0) >= 0
    assert tracing.tracer.guard.errors == {}
    by_id = {ids(span): span for span in spans}
    for span in spans:
        assert_timed(span)
        if span.parent is not None:
            parent = by_id[span.parent.trace_id, span.parent.span_id]
            assert ids(parent)[0] == ids(span)[0]
            assert (parent.start_time or 0) <= (span.start_time or 0)
        assert attributes(span)["gen_ai.conversation.id"] == header.id
    return spans


def assert_timed(span: ReadableSpan) -> None:
    assert span.start_time is not None
    assert span.end_time is not None
    assert 0 <= span.start_time <= span.end_time < 2**63
    for event in span.events:
        assert span.start_time <= event.timestamp < 2**63


# Totality


@given(arbitrary_events(), st.sampled_from(Contract))
def test_events_that_mean_nothing_are_traced(log: list[dict[str, Any]], contract: Contract) -> None:
    assert_sound(built(log), HEADERS[contract])


@pytest.mark.parametrize("contract", Contract)
@given(st.data())
def test_legal_logs_are_traced(contract: Contract, data: st.DataObject) -> None:
    events = built(data.draw(legal_logs(contract)))
    spans = assert_sound(events, HEADERS[contract], header_row=header_row(contract))
    turns = sum(event.type == "turn/start" for event in events)
    assert len(named(spans, "invoke_agent")) == turns
    assert not any(attributes(span).get("dsh.time.adjusted") for span in spans)
    assert not any(span.name == "dsh.orphan" for span in spans)


@pytest.mark.parametrize("contract", Contract)
@given(st.data())
def test_broken_logs_are_traced(contract: Contract, data: st.DataObject) -> None:
    assert_sound(built(data.draw(mutated(legal_logs(contract)))), HEADERS[contract])


def tangled() -> SearchStrategy[list[dict[str, Any]]]:
    """Sequences of the events that move the tree, with numbers, ids and times that collide."""
    number = st.integers(0, 2)
    call = st.sampled_from("ab")
    place = {"turn": number, "step": number}
    failure = st.sampled_from(
        [{"kind": "stop"}, {"kind": "error", "code": "SERVER"}, {"kind": "aborted"}]
    )
    chunk = st.fixed_dictionaries({"type": st.just("finish"), "reason": failure})
    stream = st.lists(st.fixed_dictionaries({"time": st.integers(0, 99), "chunk": chunk}))
    message = st.fixed_dictionaries(
        {"role": st.just("tool"), "toolCallId": call, "isError": st.booleans()}
    )
    kinds: dict[str, dict[str, SearchStrategy[Any]]] = {
        "turn/start": {"turn": number},
        "turn/end": {"turn": number, "reason": failure},
        "step/start": place,
        "step/end": place,
        "assistant/chunk": place | {"chunk": chunk},
        "assistant/message": place | {"stream": stream},
        "assistant/attempt": place | {"stream": stream},
        "tool/call": place | {"callId": call, "name": call},
        "tool/result": place | {"message": message},
        "llm/retry-started": place | {"retry": number},
        "session-log-deepseek/delivery-accepted": {},
        "usage": place | {"usage": st.just({"inputTokens": 1})},
        "request/context": {"model": call, "provider": call},
        "agent/inbox/spliced": {"start": number, "removedCount": number},
        "subagent/catalog": {"childId": call},
        "todo/write": {},
        "nobody/knows": {},
    }
    envelope = {
        "seq": st.integers(0, 9),
        "time": st.integers(0, 99) | st.sampled_from((-1, None, 2**53 - 1, 2**70)),
        "surfaceOp": st.sampled_from(("append", {"op": "replace"})),
    }
    events: list[SearchStrategy[dict[str, Any]]] = [
        st.fixed_dictionaries(
            {"type": st.just(kind), "data": st.fixed_dictionaries(data)} | envelope
        )
        for kind, data in kinds.items()
    ]
    return st.lists(st.one_of(events), max_size=40)


@given(tangled())
def test_tangled_events_are_traced(log: list[dict[str, Any]]) -> None:
    assert_sound(built(log), V4)


@given(tangled(), st.lists(st.integers(0, 40), max_size=6))
def test_damage_anywhere_is_traced(log: list[dict[str, Any]], places: list[int]) -> None:
    started = Started()
    tracing = checked()
    tracing.provider.add_span_processor(started)
    for index, event in enumerate(built(log)):
        for line in range(places.count(index)):
            tracing.tracer.observe_fault(Fault("line.nul", "4 NUL bytes", line, lost=True))
        tracing.tracer.observe(event)
    tracing.tracer.close()
    assert Counter(started.started) == Counter(started.ended)
    assert len(set(started.started)) == len(started.started)
    for span in tracing.spans:
        assert_timed(span)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_every_sample_is_sound(path: Path) -> None:
    from dsh_core.logs.reader import SessionLog

    with path.open("rb") as source:
        log = SessionLog(source, str(path))
        events = list(log)
    assert_sound(events, log.header)


# Repeatability


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_a_log_gives_the_same_bytes_each_time(path: Path) -> None:
    first, second = trace_log(path), trace_log(path)
    assert encode_spans(first).SerializeToString() == encode_spans(second).SerializeToString()
    assert encode_json(first).to_dict() == encode_json(second).to_dict()


# Apart from the host


def test_a_span_of_the_host_does_not_become_the_parent() -> None:
    tracing = Tracing()
    with tracing.provider.get_tracer("app").start_as_current_span("mine") as mine:
        tracing.run(Script().opened().closed().events)
    turn, step = only(tracing.spans, "invoke_agent"), only(tracing.spans, "dsh.step")
    assert turn.parent is None
    assert step.parent == turn.context
    assert ids(turn)[0] != mine.get_span_context().trace_id


def test_the_span_of_the_host_stays_the_current_one() -> None:
    tracing = Tracing()
    with tracing.provider.get_tracer("app").start_as_current_span("mine") as mine:
        for event in Script().opened().closed().events:
            tracing.tracer.observe(event)
            assert trace_api.get_current_span() is mine


def test_without_a_provider_the_global_one_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    tracing = Tracing()
    monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", lambda: tracing.provider)
    tracer = SessionTracer(V4, strict=True)
    tracer.observe(Script().turn_start())
    tracer.close()
    assert [span.name for span in tracing.spans] == ["invoke_agent dsh"]


def test_without_an_sdk_nothing_happens() -> None:
    tracer = SessionTracer(V4, tracer_provider=trace_api.NoOpTracerProvider(), strict=True)
    script = Script().opened()
    script.call()
    script.result()
    for event in script.closed().events:
        tracer.observe(event)
    tracer.close()
    assert sum(tracer.counts.values()) == len(script.events)


def test_a_session_may_be_given_by_its_id_alone() -> None:
    tracing = Tracing("s-9")  # type: ignore[arg-type]
    (turn,) = tracing.run([Script().turn_start()])
    assert attributes(turn)["session.id"] == "s-9"
    assert attributes(turn)["dsh.contract"] == "seed"


# The end


class Ends(SessionSpanProcessor):
    """Notes the ends of sessions, and the spans they are told on."""

    def __init__(self) -> None:
        self.ends: list[tuple[str, str]] = []

    def on_close(self, session: Session, span: SessionSpan) -> None:
        self.ends.append((session.header.id, span.kind))


def test_closing_ends_what_is_open() -> None:
    ends = Ends()
    script = Script().opened()
    script.call()
    spans = Tracing(V4, ends).run(script.events)
    assert {span.name: attributes(span)["dsh.span.unclosed"] for span in spans} == {
        "execute_tool read": True,
        "dsh.step": True,
        "invoke_agent dsh": True,
    }
    assert {span.end_time for span in spans} == {script.now * 1_000_000}
    assert ends.ends == [("s-1", "tool")]


def test_closing_twice_is_closing_once() -> None:
    ends = Ends()
    tracing = Tracing(V4, ends)
    tracing.run(Script().opened().events)
    tracing.tracer.close()
    assert len(tracing.spans) == 2
    assert len(ends.ends) == 1


def test_a_session_that_goes_on_after_its_end_can_be_closed_again() -> None:
    ends = Ends()
    tracing = Tracing(V4, ends)
    tracing.run(Script().opened().events)
    tracing.run(Script().opened().events)
    assert len(tracing.spans) == 4
    assert len(ends.ends) == 2


# Errors of ours


def test_an_event_that_cannot_be_placed_is_counted_and_still_checked(
    monkeypatch: pytest.MonkeyPatch, logged: Logged
) -> None:
    seen: list[str] = []

    class Watcher(SessionSpanProcessor):
        def on_event(self, event: SessionEvent, span: SessionSpan) -> None:
            seen.append(event.type)

    tracing = Tracing(V4, Watcher(), strict=False)

    def fail(_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setitem(tracing.tracer._tree._places, "step/start", fail)
    tracing.run(Script().opened().closed().events)
    assert seen == ["turn/start", "step/start", "step/end", "turn/end"]
    assert tracing.tracer.counts == {"opened": 1, "failed": 1, "orphaned": 1, "closed": 1}
    assert tracing.tracer.guard.errors == {"placing an event": 1}
    assert len(logged.take()) == 1
    assert "invoke_agent dsh" in [span.name for span in tracing.spans]


def test_in_strict_mode_an_error_of_ours_reaches_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tracing = Tracing()

    def fail(_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setitem(tracing.tracer._tree._places, "step/start", fail)
    with pytest.raises(ZeroDivisionError):
        tracing.run(Script().opened().events)


def test_damage_before_the_first_event_lies_where_the_session_was_made() -> None:
    tracing = checked(SessionHeader(id="s-1", version=4, created_at=1_700_000_000_000))
    tracing.tracer.observe_fault(Fault("line.nul", "4 NUL bytes", 2))
    (span,) = tracing.spans
    assert span.start_time == 1_700_000_000_000 * 1_000_000


def test_a_trace_holds_one_turn() -> None:
    script = Script()
    for turn in (1, 2):
        script.turn_start(turn)
        script.step_start(turn)
        script.call(turn=turn)
        script.result(turn=turn)
        script.step_end(turn)
        script.turn_end(turn)
    spans = trace(script.events)
    traces = {attributes(span)["dsh.turn"]: ids(span)[0] for span in spans}
    assert len(set(traces.values())) == 2
    assert all(ids(span)[0] == traces[attributes(span)["dsh.turn"]] for span in spans)
