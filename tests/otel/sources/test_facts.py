"""What people want to see at once of sessions that run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from dsh_otel.processors.errors import ErrorSpanProcessor
from dsh_otel.processors.invariants import InvariantSpanProcessor
from dsh_otel.replay import replay_provider, trace_session
from dsh_otel.sources.facts import Fact, FactProcessor
from tests.otel.support import CASES, case_log, session_log

if TYPE_CHECKING:
    from pathlib import Path


def facts(log: Path, *, quiet: bool = False) -> list[Fact]:
    found: list[Fact] = []
    teller = FactProcessor(found.append)
    teller.quiet = quiet
    checks = InvariantSpanProcessor(on_finding=teller.on_finding)
    trace_session(
        str(log),
        tracer_provider=replay_provider(),
        processors=(ErrorSpanProcessor(), checks, teller),
        strict=True,
    )
    return found


def brief(fact: Fact) -> dict[str, Any]:
    """Return what a fact says, without times and ids."""
    data: dict[str, Any] = msgspec.to_builtins(fact)
    for name in ("session", "time", "trace_id", "span_id", "duration_ms", "call_id"):
        data.pop(name, None)
    return data


def test_a_turn_starts_and_ends_and_its_failures_are_between() -> None:
    assert [brief(fact) for fact in facts(session_log("invalid-args"))][:3] == [
        {"event": "dsh.turn.started", "seq": 4, "turn": 1},
        {
            "event": "dsh.tool.error",
            "seq": 16,
            "turn": 1,
            "step": 1,
            "tool": "read",
            "code": "INVALID_ARGS",
            "family": "bad-args",
            "route": "self-correct",
        },
        {
            "event": "dsh.tool.error",
            "seq": 22,
            "turn": 1,
            "step": 2,
            "tool": "todo_write",
            "code": "INVALID_ARGS",
            "family": "bad-args",
            "route": "self-correct",
        },
    ]
    assert brief(facts(session_log("invalid-args"))[-1]) == {
        "event": "dsh.turn.ended",
        "seq": 40,
        "turn": 1,
        "reason": "completed",
        "steps": 5,
        "tools": 4,
        "failures": 4,
        "violations": 0,
    }


def test_failures_of_the_model_are_told_also_if_the_turn_goes_well() -> None:
    found = [brief(fact) for fact in facts(session_log("retry-529"))]
    assert [(fact["event"], fact.get("code")) for fact in found] == [
        ("dsh.turn.started", None),
        ("dsh.model.error", "SERVER"),
        ("dsh.model.error", "RATE_LIMIT"),
        ("dsh.turn.ended", None),
    ]


def test_a_turn_that_fails_says_with_which_code() -> None:
    last = brief(facts(session_log("stream-drop"))[-1])
    assert (last["reason"], last["code"], last["family"]) == ("error", "STREAM_CLOSED", "transient")


def test_what_was_inferred_says_so() -> None:
    found = [fact for fact in facts(session_log("denied-read")) if fact.code == "EACCES"]
    assert found
    assert all(fact.inferred and fact.family == "denied" for fact in found)


def test_findings_are_told_and_counted() -> None:
    found = facts(case_log("01"))
    broken = [fact for fact in found if fact.event == "dsh.violation"]
    assert broken
    assert all(fact.rule and fact.severity and fact.message for fact in broken)


def test_a_turn_that_never_ends_says_so_at_the_end() -> None:
    last = facts(session_log("crash.before-resume"))[-1]
    assert (last.event, last.reason, last.turn) == ("dsh.turn.ended", "never closed", 1)


def test_nothing_is_told_of_the_past() -> None:
    for log in CASES:
        assert facts(log, quiet=True) == []


def test_facts_name_the_span_that_shows_them() -> None:
    for fact in facts(session_log("fs-errors")):
        assert len(fact.trace_id) == 32
        assert len(fact.span_id) == 16
