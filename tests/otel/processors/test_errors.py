"""Failures as telemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Raw
from opentelemetry.trace import StatusCode

from dsh_otel.processors.errors import ErrorSpanProcessor
from dsh_otel.tracer import SessionTracer
from tests.otel.support import (
    SEED,
    V4,
    Script,
    Tracing,
    attributes,
    event_attributes,
    finish,
    named,
    only,
    session_log,
    trace_log,
)

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from dsh_core.events import SessionHeader

SECRET = "the-secret-of-the-log"


def spans_of(script: Script, header: SessionHeader = V4) -> list[ReadableSpan]:
    return Tracing(header, ErrorSpanProcessor()).run(script.events)


def failed_call(**result: Any) -> ReadableSpan:
    script = Script().opened()
    script.call()
    script.result(**result)
    return only(spans_of(script), "execute_tool")


def errors(span: ReadableSpan) -> dict[str, Any]:
    return {
        name: value
        for name, value in attributes(span).items()
        if name.startswith(("error.", "dsh.error.", "dsh.route"))
    }


# Tool calls


def test_a_failed_call_says_what_failed_and_what_to_do() -> None:
    span = failed_call(code="FS_NOT_FOUND", name="FsError", text="no such file")
    assert errors(span) == {
        "error.type": "FS_NOT_FOUND",
        "dsh.error.code": "FS_NOT_FOUND",
        "dsh.error.name": "FsError",
        "dsh.error.family": "missing",
        "dsh.route": "replan",
    }
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "tool failed: FS_NOT_FOUND"
    assert event_attributes(span, "dsh.tool.error") == [
        {
            "code": "FS_NOT_FOUND",
            "name": "FsError",
            "family": "missing",
            "route": "replan",
            "inferred": False,
            "tool": "read",
            "call_id": "c1",
            "attempt_count": 1,
        }
    ]
    assert span.events[0].timestamp == span.end_time


def test_a_code_that_stands_only_in_the_text_is_marked_as_inferred() -> None:
    span = failed_call(failed=True, text="Error: EACCES: permission denied, open '/x'")
    assert errors(span) == {
        "error.type": "EACCES",
        "dsh.error.code": "EACCES",
        "dsh.error.family": "denied",
        "dsh.error.inferred": True,
        "dsh.route": "ask",
    }
    (event,) = event_attributes(span, "dsh.tool.error")
    assert event["inferred"] is True
    assert "name" not in event


def test_a_failure_without_any_code_is_other_and_uncoded() -> None:
    span = failed_call(failed=True, text=SECRET)
    assert errors(span) == {
        "error.type": "_OTHER",
        "dsh.error.family": "uncoded",
        "dsh.route": "report",
    }
    assert span.status.description == "tool failed: _OTHER"
    (event,) = event_attributes(span, "dsh.tool.error")
    assert event["code"] == "_OTHER"


@pytest.mark.parametrize("code", ["TOOL_NOT_STARTED", "ABORTED", "ABORTED_BEFORE_DISPATCH"])
def test_what_was_cancelled_has_not_failed(code: str) -> None:
    span = failed_call(code=code)
    assert span.status.status_code is StatusCode.UNSET
    assert errors(span) == {
        "dsh.error.code": code,
        "dsh.error.family": "cancelled",
        "dsh.route": "rerun",
    }
    assert [event["code"] for event in event_attributes(span, "dsh.tool.error")] == [code]


def test_a_call_that_went_well_says_nothing_of_errors() -> None:
    span = failed_call(text="Error: EACCES: permission denied")
    assert errors(span) == {}
    assert span.status.status_code is StatusCode.UNSET
    assert list(span.events) == []


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ({}, "ok"),
        ({"failed": True}, "error"),
        ({"code": "FS_NOT_FOUND"}, "error"),
        ({"code": "ABORTED"}, "cancelled"),
        ({"code": "TOOL_OUTCOME_UNKNOWN"}, "unknown"),
        ({"failed": True, "text": "Error: EINTR: interrupted"}, "unknown"),
        ({"failed": True, "text": "approval for 'bash' was cancelled"}, "cancelled"),
    ],
)
def test_the_outcome_of_a_call(result: dict[str, Any], outcome: str) -> None:
    assert attributes(failed_call(**result))["dsh.tool.outcome"] == outcome


def test_a_call_without_a_result_has_not_failed() -> None:
    script = Script().opened()
    script.call()
    span = only(spans_of(script.closed()), "execute_tool")
    assert attributes(span)["dsh.tool.outcome"] == "unanswered"
    assert span.status.status_code is StatusCode.UNSET
    assert errors(span) == {}


def attempts_of(script: Script) -> list[tuple[str, str, int]]:
    return [
        (event["tool"], event["code"], event["attempt_count"])
        for span in spans_of(script)
        for event in event_attributes(span, "dsh.tool.error")
    ]


def test_failures_are_counted_by_tool_and_code() -> None:
    script = Script().opened()
    for number, (tool, code) in enumerate(
        [("read", "A"), ("read", "A"), ("bash", "A"), ("read", "B"), ("read", "A")]
    ):
        script.call(f"c{number}", tool)
        script.result(f"c{number}", code=code)
    assert attempts_of(script) == [
        ("read", "A", 1),
        ("read", "A", 2),
        ("bash", "A", 1),
        ("read", "B", 1),
        ("read", "A", 3),
    ]


def test_each_turn_counts_anew() -> None:
    script = Script()
    for turn in (1, 2):
        script.turn_start(turn)
        script.step_start(turn)
        for call_id in ("a", "b"):
            script.call(call_id, turn=turn)
            script.result(call_id, code="A", turn=turn)
        script.step_end(turn)
        script.turn_end(turn)
    assert [count for *_, count in attempts_of(script)] == [1, 2, 1, 2]


def test_a_session_that_is_closed_is_forgotten() -> None:
    script = Script().opened()
    script.call()
    script.result(code="A")
    tracing = Tracing(V4, ErrorSpanProcessor())
    tracing.run(script.events)
    assert tracing.tracer.session.notes == {}


def test_what_is_counted_has_an_end() -> None:
    script = Script().opened()
    for number in range(1100):
        script.call("c", f"tool-{number}")
        script.result("c", code="A")
        script.call("c", f"tool-{number}")
        script.result("c", code="A")
    counts = [count for *_, count in attempts_of(script)]
    assert counts[:2048] == [1, 2] * 1024
    assert set(counts[2048:]) == {1}


@pytest.mark.parametrize("other", ["s-1", "s-2"])
def test_sessions_are_counted_apart(other: str) -> None:
    tracing = Tracing(V4, ErrorSpanProcessor())
    second = SessionTracer(other, tracer_provider=tracing.provider, strict=True)
    script = Script().opened()
    script.call()
    script.result(code="A")
    for event in script.events:
        tracing.tracer.observe(event)
        second.observe(event)
    calls = named(tracing.spans, "execute_tool")
    counts = [event_attributes(span, "dsh.tool.error")[0]["attempt_count"] for span in calls]
    assert counts == [1, 1]


def test_a_replaced_result_is_no_second_failure() -> None:
    script = Script().opened()
    script.call()
    script.result(code="A")
    script.result(code="A").surface_op = Raw(b'{"op":"replace"}')
    assert attempts_of(script) == [("read", "A", 1)]


# Attempts and turns


def test_a_failed_attempt_of_v4() -> None:
    script = Script().opened()
    script.attempt("RATE_LIMIT", SECRET)
    attempt = only(spans_of(script), "chat")
    assert errors(attempt) == {
        "error.type": "RATE_LIMIT",
        "dsh.error.code": "RATE_LIMIT",
        "dsh.error.family": "transient",
        "dsh.route": "retry",
    }
    assert attempt.status.description == "attempt failed: RATE_LIMIT"
    assert list(attempt.events) == []


@pytest.mark.parametrize(
    "reason",
    [
        {"kind": "error", "failure": {"code": "SERVER", "message": SECRET}},
        {"kind": "error", "code": "SERVER", "message": SECRET},
    ],
    ids=["v0: nested", "seed: flat"],
)
def test_a_failed_attempt_of_a_chunked_stream(reason: dict[str, Any]) -> None:
    script = Script().opened()
    script.add("assistant/chunk", turn=1, step=1, chunk={"type": "finish", "reason": reason})
    attempt = only(spans_of(script, SEED), "chat")
    assert errors(attempt)["error.type"] == "SERVER"
    assert attempt.status.description == "attempt failed: SERVER"


def test_an_aborted_stream_has_not_failed() -> None:
    script = Script().opened()
    script.add("assistant/chunk", turn=1, step=1, chunk=finish("aborted"))
    attempt = only(spans_of(script), "chat")
    assert attempt.status.status_code is StatusCode.UNSET
    assert errors(attempt)["dsh.error.family"] == "cancelled"


@pytest.mark.parametrize(
    "reason",
    [{"error": {"code": "QUOTA", "message": SECRET}}, {"code": "QUOTA", "message": SECRET}],
    ids=["v0 and later: nested", "seed: flat"],
)
def test_a_failed_turn(reason: dict[str, Any]) -> None:
    script = Script()
    script.turn_start()
    script.turn_end(1, "error", **reason)
    turn = only(spans_of(script), "invoke_agent")
    assert errors(turn) == {
        "error.type": "QUOTA",
        "dsh.error.code": "QUOTA",
        "dsh.error.family": "exhausted",
        "dsh.route": "operator",
    }
    assert turn.status.description == "turn failed: QUOTA"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("completed", None),
        ("aborted", None),
        ("max-tokens", None),
        ("disposed", None),
        ("interrupted", "EINTR"),
        ("blocked", "EPERM"),
        ("error", "_OTHER"),
    ],
)
def test_which_ends_of_a_turn_are_failures(kind: str, code: str | None) -> None:
    script = Script()
    script.turn_start()
    script.turn_end(1, kind)
    turn = only(spans_of(script), "invoke_agent")
    assert attributes(turn).get("error.type") == code
    assert (turn.status.status_code is StatusCode.ERROR) == (code is not None)


def test_a_failed_attempt_does_not_fail_its_turn() -> None:
    turn = only(trace_log(session_log("retry-529")), "invoke_agent")
    assert turn.status.status_code is StatusCode.UNSET
    assert errors(turn) == {}


# Failures that belong to no span


def test_a_stray_failure_fails_no_other_span() -> None:
    script = Script().opened()
    reason = {"kind": "error", "failure": {"code": "SERVER"}}
    script.add("assistant/chunk", turn=1, step=9, chunk={"type": "finish", "reason": reason})
    script.call()
    script.add("assistant/chunk", turn=1, step=9, chunk={"type": "finish", "reason": reason})
    for span in spans_of(script):
        assert errors(span) == {}, span.name
        assert span.status.status_code is StatusCode.UNSET


def test_a_failure_beyond_the_limit_of_orphans_fails_no_other_span() -> None:
    script = Script().opened()
    script.call("open")
    for number in range(200):
        script.result(f"lost-{number}", code="SERVER")
    spans = spans_of(script)
    assert len(named(spans, "execute_tool unknown")) == 128
    for span in spans:
        if span.name != "execute_tool unknown":
            assert errors(span) == {}, span.name
    assert attributes(only(spans, "execute_tool read"))["dsh.tool.outcome"] == "unanswered"


def test_no_text_of_a_failure_leaves() -> None:
    script = Script().opened()
    script.call()
    script.result(code="A", text=SECRET)
    script.attempt("B", SECRET)
    script.turn_end(1, "error", error={"code": "C", "message": SECRET})
    for span in spans_of(script):
        assert SECRET not in span.to_json()


def test_a_code_as_long_as_a_text_makes_no_long_description() -> None:
    span = failed_call(code="X" * 5000)
    assert span.status.description == "tool failed: _OTHER"


@pytest.mark.parametrize("text", ["cannot open /home/bob: password is hunter2", "é", "a\nb"])
def test_a_sentence_where_a_code_should_stand_is_content(text: str) -> None:
    span = failed_call(code=text)
    assert attributes(span)["error.type"] == "_OTHER"
    assert attributes(span)["dsh.error.code"] == "_OTHER"
    assert text not in str([span.status.description, attributes(span), span.events])
