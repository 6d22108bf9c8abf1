"""Findings as telemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from opentelemetry.trace import StatusCode

from dsh_core.contract.catalogue import Catalogue, UnknownRuleError
from dsh_core.contract.findings import Severity
from dsh_core.contract.rule import EVERY, Rule, RuleSet
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract, SessionHeader
from dsh_core.faults import Fault
from dsh_otel.processors.invariants import InvariantSpanProcessor
from tests.otel.support import (
    NS_PER_MS,
    SEED,
    V4,
    Script,
    Tracing,
    attributes,
    case_log,
    event_attributes,
    ids,
    named,
    only,
    trace_log,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk.trace import ReadableSpan

    from dsh_core.contract.findings import Finding
    from dsh_core.contract.rule import Handler
    from dsh_core.events import SessionEvent
    from dsh_otel.spans import SessionSpan
    from tests.otel.conftest import Logged


class Rules(RuleSet):
    """Rules that trip on what the test writes: one finding for each count in the event."""

    owner = "test"
    rules: ClassVar = (
        Rule("bad.violation", "it is bad", "Do not."),
        Rule("bad.other", "it is bad otherwise", "Do not."),
        Rule("bad.damage", "it is broken", "Mend it.", severity=Severity.DAMAGE),
        Rule("bad.advice", "it is unwise", "Think.", severity=Severity.ADVICE),
        *(Rule(f"many.{number:02}", "one of many", "Do not.") for number in range(20)),
    )

    def handlers(self) -> Mapping[str, Handler]:
        return {EVERY: self._any}

    def _any(self, event: SessionEvent, line: int) -> None:
        # Nothing of the timeline matters here: an event's type names the rule it trips.
        rule, _, count = event.type.partition("*")
        for _ in range(int(count or 1)):
            if rule in {entry.id for entry in self.rules}:
                finding = self.run.report(rule, f"{rule} here", seq=event.seq, line=line)
                self.run.blame(finding, rule)
            elif rule == "fold":
                self.run.explained(event, "bad.violation")


CHECKS = Catalogue([Rules])


def run(script: Script, *, close: bool = True, **options: Any) -> list[ReadableSpan]:
    return Tracing(V4, InvariantSpanProcessor(catalogue=CHECKS, **options)).run(
        script.events, close=close
    )


def violations(span: ReadableSpan) -> dict[str, Any]:
    return {
        name: value for name, value in attributes(span).items() if name.startswith("dsh.violation.")
    }


# What is written


def test_a_finding_is_an_event_and_attributes_of_its_span() -> None:
    """The names and kinds of values are public."""
    script = Script()
    script.turn_start(1)
    script.turn_start(2)
    script.turn_end(2)
    tracing = Tracing(SEED, InvariantSpanProcessor())
    for line, event in enumerate(script.events, 10):
        tracing.tracer.observe(event, line)
    _, turn = named(tracing.spans, "invoke_agent")
    assert violations(turn) == {
        "dsh.violation.count": 1,
        "dsh.violation.first": "turn.overlap",
        "dsh.violation.rules": ["turn.overlap"],
    }
    assert event_attributes(turn, "dsh.violation") == [
        {
            "rule": "turn.overlap",
            "owner": "session",
            "severity": "violation",
            "code": "INVARIANT",
            "message": "turn 2 starts while turn 1 is open",
            "seq": 1,
            "line": 11,
            "turn": 2,
            "count": 1,
            "first_seq": 1,
            "last_seq": 1,
            "expected": "turn/end of turn 1",
            "got": "turn/start of turn 2",
        }
    ]
    assert turn.events[0].timestamp == script.events[1].time * NS_PER_MS
    assert turn.status.status_code is StatusCode.ERROR
    assert turn.status.description == "contract violated"


def test_what_a_finding_does_not_say_is_left_out() -> None:
    script = Script()
    script.turn_start()
    script.add("bad.advice")
    (finding,) = event_attributes(only(run(script), "invoke_agent"), "dsh.violation")
    assert set(finding) == {
        *("rule", "owner", "severity", "code", "message", "seq", "count"),
        *("first_seq", "last_seq", "turn"),
    }


def test_a_session_that_keeps_the_contract_shows_nothing() -> None:
    for span in trace_log(case_log("00")):
        assert violations(span) == {}
        assert event_attributes(span, "dsh.violation") == []


@pytest.mark.parametrize(
    ("rule", "status", "code"),
    [
        ("bad.violation", StatusCode.ERROR, "INVARIANT"),
        ("bad.damage", StatusCode.UNSET, "LOG_DAMAGE"),
        ("bad.advice", StatusCode.UNSET, "ADVICE"),
    ],
)
def test_only_a_violation_fails_the_span(rule: str, status: StatusCode, code: str) -> None:
    script = Script()
    script.turn_start()
    script.add(rule)
    turn = only(run(script), "invoke_agent")
    assert turn.status.status_code is status
    assert attributes(turn)["dsh.violation.first"] == rule
    assert [found["code"] for found in event_attributes(turn, "dsh.violation")] == [code]


def test_the_first_rule_and_all_rules_once() -> None:
    script = Script()
    script.turn_start()
    for rule in ("bad.advice", "bad.violation", "bad.advice", "bad.other"):
        script.add(rule)
    assert violations(only(run(script), "invoke_agent")) == {
        "dsh.violation.count": 4,
        "dsh.violation.first": "bad.advice",
        "dsh.violation.rules": ["bad.advice", "bad.violation", "bad.other"],
    }


def test_consequences_are_counted_until_the_span_ends() -> None:
    script = Script()
    script.turn_start()
    script.add("bad.violation")
    for _ in range(4):
        script.add("fold")
    script.turn_end()
    script.add("fold")
    turn = only(run(script), "invoke_agent")
    (finding,) = event_attributes(turn, "dsh.violation")
    assert (finding["count"], finding["first_seq"], finding["last_seq"]) == (5, 1, 5)


# Where it is written


def test_a_finding_stands_on_the_innermost_open_span() -> None:
    script = Script()
    script.turn_start()
    script.add("bad.advice")
    script.step_start()
    script.add("bad.advice*2")
    script.call()
    script.add("bad.advice*3")
    spans = run(script)
    assert {span.name: attributes(span).get("dsh.violation.count") for span in spans} == {
        "invoke_agent dsh": 1,
        "dsh.step": 2,
        "execute_tool read": 3,
    }


def test_a_call_that_was_forgotten_does_not_take_the_findings_of_later_steps() -> None:
    script = Script().opened()
    script.call()
    script.step_end()
    script.step_start(1, 2)
    script.add("bad.advice")
    spans = run(script)
    assert violations(only(spans, "execute_tool")) == {}
    _, second = named(spans, "dsh.step")
    assert violations(second)["dsh.violation.count"] == 1


def test_a_violation_outside_all_spans_gets_a_span_without_length() -> None:
    script = Script()
    bad = script.add("bad.violation*2")
    (span,) = run(script)
    assert span.name == "dsh.orphan"
    assert span.parent is None
    assert span.start_time == span.end_time == bad.time * NS_PER_MS
    assert span.status.status_code is StatusCode.ERROR
    assert violations(span)["dsh.violation.count"] == 2
    assert len(event_attributes(span, "dsh.violation")) == 2
    assert attributes(span)["session.id"] == "s-1"


def test_violations_of_several_events_outside_all_spans_have_a_span_each() -> None:
    script = Script()
    for _ in range(3):
        script.add("bad.violation")
    spans = run(script)
    assert [span.name for span in spans] == ["dsh.orphan"] * 3
    assert len(set(map(ids, spans))) == 3


def test_damage_stands_on_the_span_it_was_met_in() -> None:
    tracing = Tracing(V4, InvariantSpanProcessor())
    script = Script().opened()
    for event in script.events:
        tracing.tracer.observe(event)
    tracing.tracer.observe_fault(Fault("line.nul", "4 NUL bytes", 7))
    tracing.tracer.close()
    step = only(tracing.spans, "dsh.step")
    (finding,) = event_attributes(step, "dsh.violation")
    assert (finding["rule"], finding["line"]) == ("line.nul", 7)
    assert step.status.status_code is StatusCode.UNSET


def test_what_only_the_end_decides_stands_on_what_is_still_open() -> None:
    script = Script().opened()
    spans = Tracing(V4, InvariantSpanProcessor(["*.unclosed"], final=True)).run(script.events)
    found = event_attributes(only(spans, "dsh.step"), "dsh.violation")
    assert [finding["rule"] for finding in found] == ["turn.unclosed", "step.unclosed"]


def test_an_end_that_is_not_declared_decides_nothing() -> None:
    spans = Tracing(V4, InvariantSpanProcessor(["*.unclosed"])).run(Script().opened().events)
    assert [violations(span) for span in spans] == [{}, {}]


# Limits


def test_a_span_shows_so_many_findings_and_counts_the_others() -> None:
    script = Script()
    script.turn_start()
    script.add("bad.other")
    script.add("bad.violation*199")
    turn = only(run(script), "invoke_agent")
    assert violations(turn) == {
        "dsh.violation.count": 200,
        "dsh.violation.first": "bad.other",
        "dsh.violation.rules": ["bad.other", "bad.violation"],
    }
    shown = [found["rule"] for found in event_attributes(turn, "dsh.violation")]
    assert shown == ["bad.other"] + ["bad.violation"] * 31


def test_a_span_names_so_many_rules() -> None:
    script = Script()
    script.turn_start()
    for number in range(20):
        script.add(f"many.{number:02}")
    rules = violations(only(run(script), "invoke_agent"))["dsh.violation.rules"]
    assert rules == [f"many.{number:02}" for number in range(16)]


def test_findings_beyond_the_limit_are_not_kept_in_memory() -> None:
    kept: list[object] = []
    checks = InvariantSpanProcessor(
        catalogue=CHECKS, on_finding=lambda _, span: kept.append(span.notes.get(checks))
    )
    script = Script()
    script.turn_start()
    script.add("bad.violation*5000")
    Tracing(V4, checks).run(script.events)
    assert len(kept) == 5000
    assert len(getattr(kept[-1], "shown")) == 32  # noqa: B009 - private to the module


def test_a_span_full_of_notes_still_shows_its_violations() -> None:
    script = Script()
    script.turn_start()
    for _ in range(100):
        script.add("session/title")
    script.add("bad.violation")
    turn = only(run(script), "invoke_agent")
    assert len([event for event in turn.events if event.name == "dsh.session/title"]) == 64
    assert len(event_attributes(turn, "dsh.violation")) == 1


# Settings


def test_every_finding_is_told_as_soon_as_it_is_known() -> None:
    told: list[tuple[str, str, bool]] = []

    def tell(finding: Finding, span: SessionSpan) -> None:
        told.append((finding.rule, span.kind, span.ended))

    script = Script()
    script.add("bad.advice")
    script.turn_start()
    script.add("bad.violation")
    run(script, close=False, on_finding=tell)
    assert told == [("bad.advice", "orphan", False), ("bad.violation", "turn", False)]


def test_rules_can_be_chosen_and_left_out() -> None:
    script = Script()
    script.turn_start()
    for rule in ("bad.advice", "bad.violation", "bad.other", "many.01"):
        script.add(rule)
    turn = only(run(script, rules=["bad.*"], exclude=["bad.other"]), "invoke_agent")
    assert violations(turn)["dsh.violation.rules"] == ["bad.advice", "bad.violation"]


def test_a_pattern_that_matches_no_rule_is_refused_at_once() -> None:
    with pytest.raises(UnknownRuleError, match=r"no rule matches 'turn\.ovrlap'"):
        InvariantSpanProcessor(["turn.ovrlap"])


@pytest.mark.parametrize(
    ("source", "rules"), [(SourceKind.LOG, ["seq.gap"]), (SourceKind.STREAM, [])]
)
def test_a_stream_may_have_gaps(source: SourceKind, rules: list[str]) -> None:
    found: list[str] = []
    checks = InvariantSpanProcessor(
        ["seq.gap"], source=source, on_finding=lambda finding, _: found.append(finding.rule)
    )
    script = Script()
    script.turn_start()
    script.seq = 9
    script.turn_end()
    Tracing(V4, checks).run(script.events)
    assert found == rules


def test_the_contract_of_the_tracer_is_the_one_that_is_checked() -> None:
    found: list[str] = []
    checks = InvariantSpanProcessor(
        ["turn.number"], on_finding=lambda finding, _: found.append(finding.rule)
    )
    header = SessionHeader(id="s", version=4)
    Tracing(header, checks, contract=Contract.SEED).run([Script().turn_start(7)])
    assert found == []
    Tracing(header, checks).run([Script().turn_start(7)])
    assert found == ["turn.number"]


def test_a_session_that_is_closed_is_forgotten() -> None:
    checks = InvariantSpanProcessor()
    for _ in range(2):
        tracing = Tracing(SEED, checks)
        spans = tracing.run(Script().opened().closed().events)
        assert [span.name for span in spans if violations(span)] == []
        assert tracing.tracer.session.notes == {}


# Failures of ours


class Broken(RuleSet):
    """A rule with a bug."""

    owner = "broken"
    rules: ClassVar = (Rule("broken.rule", "it breaks", "Mend it."),)

    def handlers(self) -> Mapping[str, Handler]:
        return {"turn/start": self._fail}

    def _fail(self, event: SessionEvent, line: int) -> None:
        raise ZeroDivisionError


def test_a_rule_that_raises_is_switched_off_and_the_others_go_on(logged: Logged) -> None:
    script = Script()
    for turn in (1, 2):
        script.turn_start(turn)
        script.add("bad.violation")
        script.turn_end(turn)
    checks = InvariantSpanProcessor(catalogue=Catalogue([Broken, Rules]))
    spans = Tracing(V4, checks).run(script.events)
    assert [violations(span)["dsh.violation.count"] for span in spans] == [1, 1]
    (message,) = logged.take()
    assert message.startswith("the rules of broken (")
    assert "were switched off: ZeroDivisionError" in message


def test_a_callback_that_raises_is_said_once_and_hides_no_finding(logged: Logged) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("full")

    script = Script()
    script.turn_start()
    script.add("bad.violation")
    script.add("bad.other")
    checks = InvariantSpanProcessor(catalogue=CHECKS, on_finding=fail)
    turn = only(Tracing(V4, checks, strict=False).run(script.events), "invoke_agent")
    assert violations(turn)["dsh.violation.rules"] == ["bad.violation", "bad.other"]
    assert len(logged.take()) == 1
