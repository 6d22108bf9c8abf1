"""Tests of the rules of the ``log``: envelopes, header row, time, texts."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dsh_core.contract.findings import Severity
from dsh_core.contract.run import SourceKind
from dsh_core.events import MAX_SAFE_INTEGER, Contract, SessionHeader
from dsh_core.faults import Fault
from tests.checking import (
    Item,
    check,
    chunk,
    event,
    log,
    one_turn,
    rules,
    summary,
    violations,
)
from tests.strategies import START, Event, header_row

SEED = Contract.SEED
V0 = Contract.V0
V4 = Contract.V4
TURN = one_turn(1)
HEADER = header_row(V4) or {}
HEADER_V0 = header_row(V0) or {}
SEEDED = {**HEADER, "isSeeded": True}
INHERITED = event("session/end-seed", {"inherited": True})
HALF = Fault("text.lone-surrogate", "half a character", 1, seq=0)


def test_half_characters_are_what_a_reader_says() -> None:
    """The reader replaces half a character; the finding says where, and is advice."""
    found = check(log(*TURN), faults={0: HALF})
    assert [(f.rule, f.severity, f.seq, f.line) for f in found] == [
        ("text.lone-surrogate", Severity.ADVICE, 0, 1)
    ]
    assert check(log(*TURN)) == []


class TestEnvelope:
    """What every event must have."""

    @pytest.mark.parametrize(
        ("field", "value", "problem"),
        [
            ("type", 5, "type must be a string, not a number"),
            ("type", "", "type must be a string, not an empty string"),
            ("type", None, "type is missing"),
            ("seq", True, "seq must be a non-negative integer, not true"),
            ("seq", "4", "seq must be a non-negative integer, not a string"),
            ("seq", 4.5, "seq must be a non-negative integer, not a fraction"),
            ("seq", math.nan, "seq must be a non-negative integer, not NaN or infinite"),
            (
                "seq",
                MAX_SAFE_INTEGER + 1,
                "seq must be a non-negative integer, not one beyond 2^53 - 1",
            ),
            ("time", 1e300, "time must be a non-negative integer, not one beyond 2^53 - 1"),
            ("time", math.inf, "time must be a non-negative integer, not NaN or infinite"),
            ("time", None, "time is missing"),
            ("time", -1, "time is negative"),
            ("data", [], "data must be an object, not a list"),
            ("data", None, "data is missing"),
        ],
    )
    @pytest.mark.parametrize("contract", [SEED, V0])
    def test_each_field_has_its_kind(
        self, field: str, value: Any, problem: str, contract: Contract
    ) -> None:
        """A field of a wrong kind is one violation that says what is wrong."""
        odd = event("context/message")
        events = log(*TURN, odd)
        events[-1] = {**events[-1], field: value}
        found = violations(check(events, contract, chosen=frozenset({"envelope.invalid"})))
        assert rules(found) == ["envelope.invalid"]
        assert problem in found[0].message

    def test_everything_wrong_is_one_finding(self) -> None:
        """An event that lacks everything is one violation."""
        found = check([*log(*TURN), {}])
        assert [(f.rule, f.message) for f in found] == [
            (
                "envelope.invalid",
                "type is missing; seq is missing; time is missing; data is missing",
            )
        ]

    def test_whole_floats_are_integers(self) -> None:
        """JavaScript has one kind of number: 4.0 is the integer 4."""
        events = log(*TURN, event("context/message"))
        events[-1] |= {"seq": 4.0, "time": float(START + 4)}
        assert check(events) == []

    def test_counting_goes_on_after_an_unreadable_number(self) -> None:
        """An event whose seq cannot be read took the next one."""
        events = log(*TURN, *[event("plan/mode", {"active": True})] * 2)
        events[4]["seq"] = "four"
        assert rules(check(events, V0)) == ["envelope.invalid"]

    @pytest.mark.parametrize("field", ["data", "type"])
    def test_a_turn_start_that_cannot_be_read_explains_what_follows(self, field: str) -> None:
        """Until the next turn, nothing that does not fit is news."""
        events = log(*one_turn(1, chunk(1, 1)), *one_turn(2), chunk(1, 1))
        events[0] = {**events[0], field: None}
        found = check(events, V0)
        assert summary(found)[0][0] == "envelope.invalid"
        assert rules(found) == ["envelope.invalid", "step.event-outside"]
        assert found[1].seq == 9

    @pytest.mark.parametrize("raw", [5, "text", [], None])
    def test_payloads_that_nobody_decodes_are_objects_too(self, raw: Any) -> None:
        """The fast decoder lets any payload of such a type pass; the checker does not."""
        from msgspec.json import encode

        from dsh_core.contract.checker import Checker
        from dsh_core.decode import strict_decoder

        line = encode({"type": "todo/write", "seq": 0, "time": 1, "data": raw})
        decoded = strict_decoder(packed=False).decode(line)
        checker = Checker(SessionHeader(id="x"), strict=True)
        assert rules(checker.observe(decoded, 1)) == ["envelope.invalid"]


class TestTypes:
    """Types that no generation knows."""

    def test_one_unknown_type_is_one_finding(self) -> None:
        """However often a type occurs that nobody knows, its cause is one."""
        new = event("brand/new")
        found = check(log(new, new, event("other/new"), new), V4)
        assert summary(found) == [
            ("event.unknown-required", 3, 0, 3),
            ("event.unknown-required", 1, 2, 2),
        ]
        assert [f.severity for f in found] == [Severity.ADVICE] * 2

    def test_june_had_no_such_mark(self) -> None:
        """In June any plugin could write any type."""
        assert check(log(event("brand/new"), event("plan/mode", ignorable=7))) == []

    def test_a_long_type_is_cut(self) -> None:
        """A message stays short, whatever the log holds."""
        found = check(log(event("x" * 5000)), V4)
        assert len(found[0].message) < 120


class TestGap:
    """Numbers that are missing."""

    def test_june_numbers_may_have_gaps(self) -> None:
        """June wants numbers to rise, nothing else."""
        assert check(log(*one_turn(1), event("context/message", seq=70))) == []

    def test_streams_have_gaps(self) -> None:
        """Notifications and exports leave events out; that is no fault of the session."""
        events = log(*TURN, event("plan/mode", {"active": True}, seq=9))
        assert check(events, V4, source=SourceKind.STREAM) == []

    def test_a_log_that_starts_late(self) -> None:
        """A log whose head is missing has a gap before its first event."""
        found = check(log(*TURN, first=30), V0)
        assert [(f.rule, f.message) for f in found] == [
            ("seq.gap", "seq jumps from -1 to 30: 30 missing")
        ]


class TestTime:
    """Times that go back."""

    def test_one_clock_that_was_set_back_is_one_finding(self) -> None:
        """Later steps back of the clock are counted in the first finding."""
        events = log(*(event("context/message") for _ in range(6)))
        for place, time in ((2, START - 50), (4, START - 60)):
            events[place]["time"] = time
        found = check(events)
        assert summary(found) == [("time.regressed", 2, 2, 4)]
        assert found[0].expected == f"at least {START + 1}"

    def test_chunks_are_stamped_elsewhere(self) -> None:
        """Chunks get their time where they arrive, which may be out of step with the log."""
        events = log(*one_turn(1, chunk(1, 1), chunk(1, 1)))
        events[3]["time"] -= 40
        assert check(events) == []

    def test_repeated_events_have_their_old_times(self) -> None:
        """A repetition goes back in time as well, which is no news."""
        events = log(*one_turn(1, chunk(1, 1)))
        assert rules(check([*events, *events[2:]])) == ["seq.regressed"]


class TestHeader:
    """The first row of a log."""

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            ({"id": None}, "id is missing"),
            ({"id": ""}, "id is empty"),
            ({"id": 7}, "id must be a string"),
            ({"createdAt": "now"}, "createdAt must be an integer"),
            ({"createdAt": True}, "createdAt must be an integer"),
            ({"isSeeded": None}, "isSeeded is missing"),
            ({"isSeeded": 0}, "isSeeded must be true or false"),
            ({"delegationDepth": None}, "delegationDepth is missing"),
            ({"cwd": "w"}, "cwd must be an absolute path"),
            ({"cwd": 7}, "cwd must be an absolute path"),
            ({"origin": "me"}, "origin must be subagent"),
            ({"version": 3}, "version must be 4"),
            ({"version": None}, "version is missing"),
            ({"b": 1, "a": 2}, "2 unknown keys"),
            ({"cwd": None}, "cwd must be a string"),
            ({"parentSession": None}, "parentSession must be a string"),
            ({"parentSession": 5}, "parentSession must be a string"),
            ({"agentPreset": None}, "agentPreset must be a string"),
            ({"origin": None}, "origin must be subagent"),
            ({"createdAt": -1}, "createdAt must be a count"),
            ({"createdAt": 2**53}, "createdAt must be a count"),
            ({"delegationDepth": -1}, "delegationDepth must be a count"),
        ],
    )
    def test_october_refuses_such_a_row(self, change: Event, problem: str) -> None:
        """Each field has its kind, and there are no others."""
        found = check(log(*TURN), V4, header={**HEADER, **change})
        assert [(f.rule, f.message, f.seq, f.line) for f in found] == [
            ("header.invalid", problem, None, 1)
        ]

    @pytest.mark.parametrize(
        "change",
        [
            {"cwd": "C:\\work"},
            {"cwd": "\\\\host\\share"},
            {"origin": "subagent", "parentSession": "s-0", "agentPreset": "code"},
        ],
    )
    def test_october_accepts_such_a_row(self, change: Event) -> None:
        """Optional fields may be there or not, and paths may be those of any system."""
        assert check(log(*TURN), V4, header={**HEADER, **change}) == []

    def test_august_wants_a_version(self) -> None:
        """A header names its generation by a number."""
        found = check(log(*TURN), V0, header={**HEADER_V0, "version": "0"}, header_line=1)
        assert [(f.rule, f.message) for f in found] == [
            ("header.invalid", "version must be an integer")
        ]

    def test_no_generation_has_a_negative_version(self) -> None:
        """A number alone is not enough."""
        found = check(log(*TURN), V0, header={**HEADER_V0, "version": -1}, header_line=1)
        assert [(f.rule, f.message) for f in found] == [
            ("header.invalid", "version must not be negative")
        ]

    @pytest.mark.parametrize("name", ["sandboxMode", "approvalPolicy"])
    def test_august_refuses_retired_fields(self, name: str) -> None:
        """Two fields of July must be gone."""
        found = check(log(*TURN), V0, header={**HEADER_V0, name: "x"})
        assert [(f.rule, f.message) for f in found] == [("header.invalid", f"{name} is retired")]

    def test_from_v2_on_a_header_says_whether_it_is_seeded(self) -> None:
        """Formats v2 and v3 keep the August contract but have a newer header."""
        found = check(log(*TURN), V0, header={**HEADER_V0, "version": 3})
        assert [(f.rule, f.message) for f in found] == [("header.invalid", "isSeeded is missing")]

    def test_it_is_judged_even_if_no_event_follows(self) -> None:
        """A log of nothing but a header is judged at its end."""
        assert rules(check([], V4, header={**HEADER, "id": ""})) == ["header.invalid"]

    def test_it_is_judged_once(self) -> None:
        """The end of the log does not repeat what the first event has said."""
        found = check(log(*TURN, *one_turn(2)), V4, header={**HEADER, "id": ""})
        assert rules(found) == ["header.invalid"]

    def test_a_missing_header(self) -> None:
        """A log of a later generation must have one."""
        found = check(log(*TURN), V4, header_row=None)
        assert [(f.rule, f.message) for f in found] == [
            ("header.invalid", "the header row is missing")
        ]

    def test_a_june_log_needs_none(self) -> None:
        """A June log that is held to a later contract has no header, and that is no news."""
        from dsh_core.contract.checker import Checker

        checker = Checker(SessionHeader(id="x"), contract=V0, strict=True)
        assert checker.finish() == []

    def test_damage_explains_a_missing_header(self) -> None:
        """If the first row was lost to damage, its absence is a consequence."""
        lost = Fault("line.not-json", "not JSON", 1, lost=True)
        found = check(log(*TURN), V4, header_row=None, faults={0: lost})
        assert [(f.rule, f.count) for f in found] == [("line.not-json", 2)]


class TestSeed:
    """The inherited part of a forked session."""

    def test_a_seeded_session_must_have_its_mark(self) -> None:
        """A header that speaks of an inherited part wants its end in the log."""
        found = check(log(*TURN), V4, header=SEEDED)
        assert [(f.rule, f.seq) for f in found] == [("seed.cut", 3)]

    @pytest.mark.parametrize("behind", [(), one_turn(2)])
    def test_damage_explains_that_the_mark_is_missing(self, behind: tuple[Item, ...]) -> None:
        """If the mark was lost to damage, in the middle of the log or at its end, that is all."""
        events = log(*TURN, event("session/end-seed", {"inherited": True}), *behind)
        lost = Fault("line.not-json", "not JSON", 6, lost=True)
        found = check([*events[:4], *events[5:]], V4, header=SEEDED, faults={4: lost})
        assert rules(found) == ["line.not-json"]

    def test_a_gap_explains_that_the_mark_is_missing(self) -> None:
        events = log(*TURN, event("session/end-seed", {"inherited": True}), *one_turn(2))
        assert rules(check([*events[:4], *events[5:]], V4, header=SEEDED)) == ["seq.gap"]

    @pytest.mark.parametrize("damaged", [True, False])
    def test_without_a_header_nobody_knows_whether_it_is_seeded(self, damaged: bool) -> None:
        events = log(*TURN, event("session/end-seed", {"inherited": True}))
        lost = {0: Fault("line.not-json", "not JSON", 1, lost=True)} if damaged else {}
        found = check(events, V4, header_row=None, faults=lost)
        assert rules(found) == ["line.not-json" if damaged else "header.invalid"]

    def test_a_resume_mark_is_another_thing(self) -> None:
        """An end-seed without `inherited` marks a resume, in any session."""
        assert check(log(*TURN, event("session/end-seed")), V4) == []

    def test_nothing_is_said_of_an_empty_log(self) -> None:
        """A fork whose events were not written yet is not judged."""
        assert check([], V4, header=SEEDED) == []
