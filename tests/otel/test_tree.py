"""Where events have their place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from dsh_core.events import UNREADABLE
from tests.otel.support import (
    SEED,
    T0,
    V4,
    Script,
    Tracing,
    attributes,
    end_of,
    expected,
    finish,
    length_ms,
    named,
    only,
    trace,
    tree,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.trace import ReadableSpan

NOTED = (
    "agent/inbox/spliced",
    "approval/asked",
    "approval/decided",
    "compaction/end",
    "compaction/start",
    "error",
    "goal/change",
    "hook/invoked",
    "hook/result",
    "job/registered",
    "job/settled",
    "llm/retry",
    "session/title",
    "todo/write",
)


def counts(script: Script) -> dict[str, int]:
    tracing = Tracing()
    tracing.run(script.events)
    return {fate: number for fate, number in tracing.tracer.counts.items() if number}


def unclosed(script: Script) -> dict[str, int]:
    tracing = Tracing()
    tracing.run(script.events)
    return dict(tracing.tracer.unclosed)


# Overlaps and strays


def test_a_step_that_overlaps_closes_the_one_before_at_its_last_event() -> None:
    script = Script().opened()
    script.add("session/title")
    script.add("step/start", 500, turn=1, step=2)
    first, second = named(trace(script.events), "dsh.step")
    assert end_of(first) == script.events[2].time - T0
    assert attributes(first)["dsh.span.unclosed"] is True
    assert attributes(second)["dsh.step"] == 2
    assert unclosed(script) == {"step": 2, "turn": 1}


def test_the_end_of_a_turn_that_is_not_open_has_no_length_and_closes_nothing() -> None:
    script = Script()
    script.turn_start(1)
    script.turn_end(2)
    script.turn_end(1)
    assert tree(trace(script.events, SEED)) == expected("""
    invoke_agent dsh 1  @0+20  seq 0-2  end=completed
      dsh.orphan 2  @10+0  seq 1-1  synthetic  findings=1
        ! ERROR contract violated
        * dsh.violation violation turn.end-mismatch 1
    """).replace("synthetic  findings=1", "findings=1  synthetic")


def test_the_end_of_a_step_that_is_not_open_has_no_length_and_closes_nothing() -> None:
    script = Script().opened()
    script.step_end(1, 7)
    script.closed()
    spans = trace(script.events)
    step, orphan = only(spans, "dsh.step"), only(spans, "dsh.orphan")
    assert length_ms(step) == 20
    assert "dsh.span.unclosed" not in attributes(step)
    assert length_ms(orphan) == 0
    assert orphan.parent == step.context


def test_a_result_without_a_call_has_no_length_and_the_name_of_what_it_answers() -> None:
    script = Script().opened()
    script.result("lost")
    span = only(trace(script.closed().events), "execute_tool unknown")
    assert length_ms(span) == 0
    assert attributes(span)["gen_ai.tool.call.id"] == "lost"
    assert attributes(span)["dsh.span.synthetic"] is True


def test_a_result_of_another_step_does_not_close_a_call() -> None:
    script = Script().opened()
    script.call("c1")
    script.result("c1", step=2)
    spans = trace(script.closed().events)
    assert attributes(only(spans, "execute_tool read"))["dsh.tool.outcome"] == "unanswered"
    assert attributes(only(spans, "execute_tool unknown"))["dsh.step"] == 2


def test_a_late_result_still_closes_its_call() -> None:
    script = Script().opened()
    script.call()
    script.step_end()
    script.result()
    call = only(trace(script.events), "execute_tool")
    assert attributes(call)["dsh.tool.outcome"] == "ok"
    assert "dsh.span.unclosed" not in attributes(call)


def test_a_call_whose_id_is_used_again_is_given_up() -> None:
    script = Script().opened()
    script.call("c1", "read")
    script.call("c1", "bash")
    script.result("c1")
    spans = trace(script.closed().events)
    assert attributes(only(spans, "execute_tool read"))["dsh.tool.outcome"] == "unanswered"
    assert attributes(only(spans, "execute_tool bash"))["dsh.tool.outcome"] == "ok"


def test_calls_outside_a_turn_are_kept_together_in_a_trace_of_their_own() -> None:
    script = Script()
    script.step_start(3, 1)
    script.call("c1", turn=3)
    script.result("c1", turn=3)
    step, call = only(trace(script.events), "dsh.step"), only(trace(script.events), "execute_tool")
    assert step.parent is None
    assert call.parent == step.context


def test_a_replacing_result_belongs_to_the_span_it_falls_in() -> None:
    script = Script().opened()
    script.result("old").surface_op = Raw(b'{"op":"replace"}')
    assert [span.name for span in trace(script.closed().events)] == [
        "dsh.step",
        "invoke_agent dsh",
    ]


# Attempts


def test_a_second_answer_in_a_step_is_kept_without_length() -> None:
    script = Script().opened()
    script.answer()
    script.add("session/title")
    script.answer()
    first, second = named(trace(script.closed().events), "chat")
    assert attributes(first)["dsh.attempt"] == 1
    assert attributes(second)["dsh.attempt"] == 2
    assert attributes(second)["dsh.span.synthetic"] is True
    assert length_ms(second) == 0


def test_a_step_in_which_no_request_was_sent_has_no_attempt() -> None:
    assert named(trace(Script().opened().closed().events), "chat") == []


def test_an_attempt_that_a_retry_overtakes_is_unclosed() -> None:
    script = Script().opened()
    script.add("session-log-deepseek/delivery-accepted")
    script.add("llm/retry-started", turn=1, step=1, retry=1)
    script.answer()
    first, second = named(trace(script.closed().events), "chat")
    assert attributes(first)["dsh.span.unclosed"] is True
    assert end_of(first) == script.events[3].time - T0
    assert attributes(second)["dsh.attempt"] == 2
    assert unclosed(script) == {"attempt": 1}


def test_the_attempt_of_a_retry_has_the_number_of_the_retry() -> None:
    script = Script().opened()
    script.attempt("SERVER")
    script.add("llm/retry-started", turn=1, step=1, retry=4)
    script.answer()
    assert [attributes(span)["dsh.attempt"] for span in named(trace(script.events), "chat")] == [
        1,
        5,
    ]


def test_the_attempt_of_a_retry_without_a_number_is_the_second() -> None:
    script = Script().opened()
    script.attempt("SERVER")
    script.add("llm/retry-started", turn=1, step=1)
    script.answer()
    assert [attributes(span)["dsh.attempt"] for span in named(trace(script.events), "chat")] == [
        1,
        2,
    ]


def test_a_failed_attempt_of_another_step_has_no_length() -> None:
    script = Script().opened()
    script.attempt("SERVER", step=4)
    orphan = only(trace(script.closed().events), "chat")
    assert length_ms(orphan) == 0
    assert attributes(orphan)["error.type"] == "SERVER"


def test_an_answer_for_another_step_has_no_length() -> None:
    script = Script().opened()
    script.answer(step=4)
    orphan = only(trace(script.closed().events), "chat")
    assert length_ms(orphan) == 0
    assert attributes(orphan)["dsh.step"] == 4


def test_usage_of_june_stands_on_the_answer_before_it() -> None:
    script = Script().opened()
    script.add("assistant/message", turn=1, step=1, content=[])
    usage = {"inputTokens": 5, "outputTokens": 7, "cacheReadTokens": 2, "reasoningTokens": 3}
    script.add("usage", turn=1, step=1, usage=usage)
    chat = attributes(only(trace(script.closed().events, SEED), "chat"))
    assert {name: value for name, value in chat.items() if name.startswith("gen_ai.usage")} == {
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 2,
        "gen_ai.usage.reasoning.output_tokens": 3,
    }


def test_tokens_written_to_a_cache_are_input_too() -> None:
    script = Script().opened()
    script.answer(usage={"inputTokens": 5, "outputTokens": 1, "cacheWriteTokens": 9})
    chat = attributes(only(trace(script.events), "chat"))
    assert chat["gen_ai.usage.input_tokens"] == 14
    assert chat["gen_ai.usage.cache_creation.input_tokens"] == 9


def test_a_stream_of_chunks_is_one_attempt_from_the_first_to_the_finish() -> None:
    script = Script().opened()
    for text in "abc":
        script.add("assistant/chunk", turn=1, step=1, chunk={"type": "text-delta", "text": text})
    script.add(
        "assistant/chunk", turn=1, step=1, chunk={"type": "usage", "usage": {"inputTokens": 3}}
    )
    script.add("assistant/chunk", turn=1, step=1, chunk=finish("stop"))
    chat = only(trace(script.closed().events, SEED), "chat")
    found = attributes(chat)
    assert found["gen_ai.response.time_to_first_chunk"] == 0.01
    assert found["gen_ai.response.finish_reasons"] == ["stop"]
    assert found["gen_ai.usage.input_tokens"] == 3
    assert (found["dsh.seq.start"], found["dsh.seq.end"]) == (2, 6)
    assert length_ms(chat) == 50


def test_a_usage_chunk_is_no_output_of_the_model() -> None:
    script = Script().opened()
    script.add("assistant/chunk", turn=1, step=1, chunk={"type": "usage", "usage": {}})
    script.add("assistant/chunk", turn=1, step=1, chunk=finish("stop"))
    chat = only(trace(script.closed().events, SEED), "chat")
    assert "gen_ai.response.time_to_first_chunk" not in attributes(chat)


def test_an_attempt_is_named_by_the_model_that_the_request_went_to() -> None:
    script = Script()
    script.add("request/context", provider="p", model="asked")
    script.opened()
    script.answer()
    found = attributes(only(trace(script.closed().events), "chat asked"))
    assert found["gen_ai.request.model"] == "asked"
    assert found["gen_ai.response.model"] == "m"
    assert found["gen_ai.provider.name"] == "p"


# Names


@pytest.mark.parametrize(
    ("header", "event", "name"),
    [
        ({}, {}, "invoke_agent dsh"),
        ({"agent_preset": "coder"}, {}, "invoke_agent coder"),
        ({"agent_preset": "coder"}, {"agentPreset": "planner"}, "invoke_agent planner"),
        ({"agent_preset": "coder"}, {"agentPreset": ""}, "invoke_agent coder"),
    ],
)
def test_a_turn_is_named_by_its_agent(
    header: dict[str, Any], event: dict[str, Any], name: str
) -> None:
    script = Script()
    if event:
        script.add("agent-preset/selected", **event)
    script.turn_start()
    (turn,) = Tracing(replace(V4, **header)).run(script.events)
    assert turn.name == name
    assert attributes(turn)["gen_ai.agent.name"] == name.removeprefix("invoke_agent ")


def test_a_call_without_a_name_is_unknown() -> None:
    script = Script().opened()
    script.call("c1", "")
    assert only(trace(script.events), "execute_tool").name == "execute_tool unknown"


# Notes


@pytest.mark.parametrize("kind", NOTED)
def test_what_happens_beside_the_spans_is_noted_on_the_innermost(kind: str) -> None:
    script = Script().opened()
    script.add(kind)
    step = only(Tracing().run(script.closed().events), "dsh.step")
    assert [(event.name, dict(event.attributes or {})) for event in step.events] == [
        (f"dsh.{kind}", {"seq": 2})
    ]


def innermost(write: Callable[[Script], object]) -> str:
    script = Script()
    script.turn_start()
    write(script)
    script.add("todo/write")
    (noted,) = [span for span in Tracing().run(script.events) if span.events]
    return noted.name


def step_with_calls(*call_ids: str) -> Callable[[Script], object]:
    def write(script: Script) -> None:
        script.step_start()
        for call_id in call_ids:
            script.call(call_id)

    return write


def step_with_attempt(*kinds: str) -> Callable[[Script], object]:
    def write(script: Script) -> None:
        script.step_start()
        for kind in kinds:
            script.add(kind, turn=1, step=1)

    return write


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (lambda _: None, "invoke_agent dsh"),
        (step_with_attempt(), "dsh.step"),
        (step_with_attempt("session-log-deepseek/delivery-accepted"), "chat"),
        (step_with_attempt("assistant/message"), "dsh.step"),
        (step_with_calls("a"), "execute_tool read"),
        (step_with_calls("a", "b"), "dsh.step"),
    ],
    ids=["turn", "step", "running attempt", "settled attempt", "one call", "two calls"],
)
def test_which_span_is_the_innermost(write: Callable[[Script], object], name: str) -> None:
    assert innermost(write) == name


# Times


def test_a_clock_that_steps_back_gives_no_negative_length() -> None:
    script = Script()
    script.turn_start()
    script.add("turn/end", -5000, turn=1, reason={"kind": "completed"})
    turn = only(Tracing().run(script.events), "invoke_agent")
    assert length_ms(turn) == 0
    assert attributes(turn)["dsh.time.adjusted"] is True


def test_a_child_starts_no_earlier_than_its_parent() -> None:
    script = Script()
    script.turn_start()
    script.add("step/start", -5000, turn=1, step=1)
    script.add("step/end", 6000, turn=1, step=1)
    script.turn_end()
    spans = Tracing().run(script.events)
    turn, step = only(spans, "invoke_agent"), only(spans, "dsh.step")
    assert step.start_time == turn.start_time
    assert attributes(step)["dsh.time.adjusted"] is True


def test_an_event_is_no_earlier_than_its_span() -> None:
    script = Script()
    script.turn_start()
    script.add("todo/write", -5000)
    script.add("turn/end", 6000, turn=1, reason={"kind": "completed"})
    turn = only(Tracing().run(script.events), "invoke_agent")
    assert length_ms(turn) == 1000
    assert turn.events[0].timestamp == turn.start_time
    assert attributes(turn)["dsh.time.adjusted"] is True


def test_times_that_fit_are_not_marked() -> None:
    for span in Tracing().run(Script().opened().closed().events):
        assert "dsh.time.adjusted" not in attributes(span)


def test_an_event_without_a_readable_time_happens_when_the_one_before_did() -> None:
    script = Script().opened()
    script.answer().time = UNREADABLE
    script.call().time = UNREADABLE
    script.result()
    spans = trace(script.closed().events)
    before = script.events[1].time - T0
    chat, call = only(spans, "chat"), only(spans, "execute_tool")
    assert end_of(chat) == before
    assert end_of(call) - length_ms(call) == before


def test_an_error_event_without_a_readable_time_is_no_earlier_than_the_event_before() -> None:
    script = Script().opened()
    script.call()
    script.result(code="A").time = UNREADABLE
    call = only(trace(script.events), "execute_tool")
    assert "dsh.time.adjusted" in attributes(call)
    assert call.events[0].timestamp == call.end_time


# Limits


def test_a_span_holds_so_many_notes_and_the_others_are_counted() -> None:
    script = Script()
    script.turn_start()
    for _ in range(100):
        script.add("todo/write")
    turn = only(Tracing().run(script.events), "invoke_agent")
    assert len(turn.events) == 64
    assert counts(script) == {"opened": 1, "noted": 64, "overflow": 36}


def test_so_many_calls_may_be_open() -> None:
    script = Script().opened()
    for number in range(1030):
        script.call(f"c{number}")
    tracing = Tracing()
    tracing.run(script.events, close=False)
    spans = tracing.spans
    assert [attributes(span)["gen_ai.tool.call.id"] for span in spans] == [
        f"c{number}" for number in range(6)
    ]
    assert {attributes(span)["dsh.tool.outcome"] for span in spans} == {"unanswered"}
    assert tracing.tracer.unclosed == {"tool": 6}


def test_a_turn_may_have_so_many_orphans_and_the_others_are_counted() -> None:
    script = Script()
    for turn in (1, 2):
        script.turn_start(turn)
        for _ in range(150):
            script.turn_end(9)
        script.turn_end(turn)
    spans = Tracing().run(script.events)
    assert len(named(spans, "dsh.orphan")) == 256
    assert counts(script) == {"opened": 2, "closed": 2, "orphaned": 256, "overflow": 44}


def test_findings_on_orphans_beyond_the_limit_make_no_span() -> None:
    script = Script()
    for number in range(300):
        script.turn_end(number)
    spans = trace(script.events)
    assert len(spans) <= 129


def test_findings_outside_all_spans_make_so_many_spans_and_the_others_are_counted() -> None:
    script = Script()
    for _ in range(300):
        script.seq = 5
        script.add("sandbox/mode")
        script.add("request/header")
    tracing = Tracing()
    tracing.provider.add_span_processor(everywhere())
    tracing = Tracing(V4, processors=[everywhere()])
    spans = tracing.run(script.events)
    assert len(spans) == 128
    assert tracing.tracer.counts == {"outside": 128, "overflow": 472}


def everywhere() -> Any:
    from dsh_otel.processors.base import SessionSpanProcessor

    class Everywhere(SessionSpanProcessor):
        """Writes to every span."""

        def on_event(self, event: Any, span: Any) -> None:
            span.set("app.colour", "green")

    return Everywhere()


# Counting


@pytest.mark.parametrize(
    ("write", "fate"),
    [
        (lambda s: s.turn_start(2), "opened"),
        (lambda s: s.turn_end(), "closed"),
        (lambda s: s.turn_end(2), "orphaned"),
        (lambda s: s.step_start(1, 2), "opened"),
        (lambda s: s.step_end(), "closed"),
        (lambda s: s.step_end(1, 9), "orphaned"),
        (lambda s: s.answer(), "closed"),
        (lambda s: s.answer(step=9), "orphaned"),
        (lambda s: s.attempt("A"), "closed"),
        (lambda s: s.call("c2"), "opened"),
        (lambda s: s.result("c1"), "closed"),
        (lambda s: s.result("c9"), "orphaned"),
        (lambda s: s.add("llm/retry-started", turn=1, step=1, retry=1), "opened"),
        (lambda s: s.add("assistant/chunk", turn=1, step=1, chunk={}), "absorbed"),
        (lambda s: s.add("assistant/chunk", turn=1, step=9, chunk={}), "absorbed"),
        (lambda s: s.add("usage", turn=1, step=1), "absorbed"),
        (lambda s: s.add("request/header"), "absorbed"),
        (lambda s: s.add("request/context", model="m"), "absorbed"),
        (lambda s: s.add("user/message"), "absorbed"),
        (lambda s: s.add("agent-preset/selected"), "absorbed"),
        (lambda s: s.add("session-log-deepseek/delivery-accepted"), "absorbed"),
        (lambda s: s.add("subagent/catalog", childId="x"), "absorbed"),
        (lambda s: s.add("nobody/knows"), "absorbed"),
        (lambda s: s.add("agent/inbox/spliced"), "noted"),
        (lambda s: s.add("todo/write"), "noted"),
    ],
)
def test_an_event_inside_a_step_is_counted_once(
    write: Callable[[Script], object], fate: str
) -> None:
    before, after = Script().opened(), Script().opened()
    for script in (before, after):
        script.call("c1")
    write(after)
    assert _difference(counts(after), counts(before)) == {fate: 1}


@pytest.mark.parametrize(
    ("write", "fate"),
    [
        (lambda s: s.turn_start(), "opened"),
        (lambda s: s.turn_end(), "orphaned"),
        (lambda s: s.step_start(), "opened"),
        (lambda s: s.step_end(), "orphaned"),
        (lambda s: s.answer(), "orphaned"),
        (lambda s: s.attempt("A"), "orphaned"),
        (lambda s: s.call("c2"), "opened"),
        (lambda s: s.result("c1"), "orphaned"),
        (lambda s: s.add("llm/retry-started", turn=1, step=1, retry=1), "outside"),
        (lambda s: s.add("assistant/chunk", turn=1, step=1, chunk={}), "outside"),
        (lambda s: s.add("usage", turn=1, step=1), "outside"),
        (lambda s: s.add("request/header"), "outside"),
        (lambda s: s.add("request/context", model="m"), "outside"),
        (lambda s: s.add("user/message"), "outside"),
        (lambda s: s.add("agent-preset/selected"), "outside"),
        (lambda s: s.add("session-log-deepseek/delivery-accepted"), "outside"),
        (lambda s: s.add("subagent/catalog", childId="x"), "outside"),
        (lambda s: s.add("nobody/knows"), "outside"),
        (lambda s: s.add("agent/inbox/spliced"), "outside"),
        (lambda s: s.add("todo/write"), "outside"),
    ],
)
def test_an_event_outside_all_spans_is_counted_once(
    write: Callable[[Script], object], fate: str
) -> None:
    script = Script()
    write(script)
    assert counts(script) == {fate: 1}


def _difference(after: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {
        fate: after.get(fate, 0) - before.get(fate, 0)
        for fate in after
        if after.get(fate, 0) != before.get(fate, 0)
    }


def test_spans_that_the_log_never_closed_are_counted_by_kind() -> None:
    script = Script().opened()
    script.add("session-log-deepseek/delivery-accepted")
    script.call("a")
    script.call("b")
    assert unclosed(script) == {"turn": 1, "step": 1, "tool": 2, "attempt": 1}


def names(spans: list[ReadableSpan]) -> list[str]:
    return [span.name for span in spans]


def test_children_end_before_their_parents() -> None:
    script = Script().opened()
    script.answer()
    script.call()
    assert names(trace(script.events)) == [
        "chat m",
        "dsh.step",
        "execute_tool read",
        "invoke_agent dsh",
    ]
