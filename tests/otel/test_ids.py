"""Ids that follow from the log."""

from __future__ import annotations

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import INVALID_SPAN_ID, INVALID_TRACE_ID

from dsh_core.events import SessionHeader
from dsh_core.logs.reader import SessionLog
from dsh_otel.ids import DerivedIdGenerator, SpanIds, derive_trace_id, first_turn_of
from dsh_otel.processors.errors import ErrorSpanProcessor
from dsh_otel.processors.invariants import InvariantSpanProcessor
from dsh_otel.replay import replay_provider
from dsh_otel.tracer import SessionTracer
from tests.otel.support import (
    LOGS,
    SESSIONS,
    V4,
    Script,
    Tracing,
    checked,
    ids,
    only,
    session_log,
    trace,
    trace_log,
)

if TYPE_CHECKING:
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan


def test_the_ids_of_a_session_never_change() -> None:
    """Re-exports of later releases must meet the spans that are already stored."""
    spans = trace_log(session_log("text"))
    assert {span.name: f"{ids(span)[0]:032x}-{ids(span)[1]:016x}" for span in spans} == {
        "invoke_agent dsh": "a004efadb14c14e7d8a5f3ac3548bf22-430a9e735925e269",
        "dsh.step": "a004efadb14c14e7d8a5f3ac3548bf22-37d8a6e3d7849227",
        "chat deepseek-v4-flash": "a004efadb14c14e7d8a5f3ac3548bf22-050a8e00c01fb28e",
    }


def test_a_log_gives_the_same_ids_each_time() -> None:
    for path in LOGS:
        assert list(map(ids, trace_log(path))) == list(map(ids, trace_log(path))), path.name


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_live_and_replay_agree_on_ids(path: Path) -> None:
    with path.open("rb") as source:
        log = SessionLog(source, str(path))
        events = list(log)
    live = checked(log.header, header_row=log.header_row).run(events)
    replayed = trace_log(path)
    # A replay sees damage, too, which may lie outside all spans.
    assert set(map(ids, live)) <= set(map(ids, replayed))
    extra = [span for span in replayed if ids(span) not in set(map(ids, live))]
    assert {span.name for span in extra} <= {"dsh.orphan"}


def test_live_and_replay_agree_on_the_ids_of_findings_outside_all_spans(tmp_path: Path) -> None:
    script = Script()
    for number in (0, 0, 7, 7):
        script.seq = number
        script.add("sandbox/mode", mode="read-only")
    path, row = tmp_path / "s-1.jsonl", {"type": "session", "version": 4, "id": "s-1"}
    rows = [
        row,
        *({"type": e.type, "seq": e.seq, "time": e.time, "data": {}} for e in script.events),
    ]
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    live = checked(header_row=row).run(script.events)
    assert len(live) == 3
    assert list(map(ids, live)) == list(map(ids, trace_log(path)))


def test_ids_of_different_sessions_never_collide() -> None:
    seen: dict[tuple[int, int], str] = {}
    for path in SESSIONS:
        for span in trace_log(path):
            session = str((span.attributes or {})["gen_ai.conversation.id"])
            assert seen.setdefault(ids(span), session) == session
    assert len({span_id for _, span_id in seen}) == len(seen)


def test_a_resumed_session_keeps_the_ids_from_before_the_crash() -> None:
    before = {ids(span) for span in trace_log(session_log("crash.before-resume"))}
    after = {ids(span) for span in trace_log(session_log("crash"))}
    assert before < after


def test_a_repeated_turn_number_gets_a_trace_of_its_own() -> None:
    script = Script()
    for _ in range(3):
        script.turn_start()
        script.turn_end()
    traces = [ids(span)[0] for span in trace(script.events)]
    assert traces == [derive_trace_id("s-1", 1, occurrence) for occurrence in (1, 2, 3)]


def test_a_turn_number_that_comes_back_after_a_higher_one_gets_a_new_trace() -> None:
    script = Script()
    for turn in (1, 5, 1, 3, 5, 3):
        script.turn_start(turn)
        script.turn_end(turn)
    spans = trace(script.events)
    assert len({ids(span)[0] for span in spans}) == 6


def test_strays_of_different_gaps_between_turns_never_share_an_id() -> None:
    script = Script()
    for _ in range(3):
        for _ in range(2):
            script.seq = 7
            script.turn_end(9)
            script.add("step/start", turn=9, step=1)
            script.call("c1", turn=9)
            script.step_end(9)
        script.turn_start()
        script.turn_end()
    spans = trace(script.events)
    assert len({ids(span) for span in spans}) == len(spans)


def test_calls_that_repeat_an_id_and_a_seq_are_spans_of_their_own() -> None:
    script = Script().opened()
    for _ in range(3):
        script.seq = 7
        script.call("c1")
    spans = [span for span in trace(script.events) if span.name == "execute_tool read"]
    assert len({ids(span) for span in spans}) == 3


def test_the_first_turn_of_a_session_is_known_before_it_runs() -> None:
    script = Script()
    script.turn_start()
    (turn,) = trace(script.events, SessionHeader(id="child", version=4))
    assert ids(turn) == first_turn_of("child")


class Counting(IdGenerator):
    """Ids of the user's own."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)

    def generate_span_id(self) -> int:
        return next(self.numbers)

    def generate_trace_id(self) -> int:
        return next(self.numbers)


def test_a_provider_with_ids_of_its_own_keeps_them() -> None:
    provider = TracerProvider(id_generator=Counting(), shutdown_on_exit=False)
    spans = Tracing(V4, provider=provider).run(Script().opened().closed().events)
    assert {span.name: ids(span) for span in spans} == {
        "invoke_agent dsh": (1, 2),
        "dsh.step": (1, 3),
    }


def test_without_derived_ids_a_subagent_is_not_linked() -> None:
    provider = TracerProvider(id_generator=Counting(), shutdown_on_exit=False)
    script = Script().opened()
    script.call()
    script.add("subagent/catalog", childId="child")
    script.result()
    call = only(Tracing(V4, provider=provider).run(script.events), "execute_tool")
    assert list(call.links) == []


def test_spans_of_the_user_get_random_ids_from_the_same_provider() -> None:
    provider = replay_provider()
    mine = [provider.get_tracer("app").start_span("mine") for _ in range(2)]
    assert len({span.get_span_context().trace_id for span in mine}) == 2


def test_ids_that_nobody_took_are_not_left_to_the_next_span(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A disabled tracer starts spans without asking for ids."""
    from opentelemetry.sdk.trace import _TracerConfig

    tracing = Tracing()
    tracer = tracing.provider.get_tracer("dsh_otel")
    monkeypatch.setattr(tracer, "_tracer_config", _TracerConfig(is_enabled=False))
    tracing.tracer.observe(Script().turn_start())
    mine = tracing.provider.get_tracer("app").start_span("mine").get_span_context()
    trace_id, span_id = first_turn_of("s-1")
    assert mine.trace_id != trace_id
    assert mine.span_id != span_id


def test_threads_do_not_take_each_others_ids() -> None:
    generator = DerivedIdGenerator()

    def take(number: int) -> tuple[int, int]:
        generator.lay_out(number, number + 1)
        return generator.generate_trace_id(), generator.generate_span_id()

    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(take, range(1, 500)))
    assert taken == [(number, number + 1) for number in range(1, 500)]


def test_an_id_that_is_laid_out_is_used_once() -> None:
    generator = DerivedIdGenerator()
    generator.lay_out(1, 2)
    assert (generator.generate_trace_id(), generator.generate_span_id()) == (1, 2)
    assert generator.generate_trace_id() != 1
    assert generator.generate_span_id() != 2


@given(st.text(), st.integers(), st.integers(1))
def test_ids_are_valid_for_every_session_id(session: str, turn: int, occurrence: int) -> None:
    trace_id = derive_trace_id(session, turn, occurrence)
    assert INVALID_TRACE_ID < trace_id < 2**128
    assert INVALID_SPAN_ID < SpanIds(trace_id).derive("turn") < 2**64


def test_half_characters_in_an_id_tell_sessions_apart() -> None:
    assert derive_trace_id("a\ud800", 1, 1) != derive_trace_id("a\ud801", 1, 1)


def test_a_session_traced_in_two_tracers_of_one_provider_gives_the_same_ids_twice() -> None:
    tracing = Tracing()
    other = SessionTracer(V4, tracer_provider=tracing.provider, strict=True)
    for event in Script().opened().closed().events:
        tracing.tracer.observe(event)
        other.observe(event)
    found: list[ReadableSpan] = tracing.spans
    assert len(found) == 4
    assert len(set(map(ids, found))) == 2


def test_findings_do_not_change_ids() -> None:
    plain = {ids(span) for span in Tracing().run(Script().opened().events)}
    full = Tracing(V4, ErrorSpanProcessor(), InvariantSpanProcessor(final=True))
    assert {ids(span) for span in full.run(Script().opened().events)} == plain
