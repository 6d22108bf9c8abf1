"""Tests of the rules about approvals."""

from __future__ import annotations

from typing import Any, Final

import pytest

from dsh_core.contract.findings import Severity
from dsh_core.contract.rules.user_approval import MAX_PENDING
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract
from dsh_core.faults import Fault
from tests.checking import (
    Item,
    check,
    event,
    log,
    rules,
    summary,
    turn_end,
    turn_start,
    violations,
)
from tests.strategies import header_row

V0, V4 = Contract.V0, Contract.V4
STREAM = SourceKind.STREAM
CHILD: Final = {**(header_row(V4) or {}), "isSeeded": True, "parentSession": "s-0"}
both = pytest.mark.parametrize("contract", [V0, V4])


def asked(id_: Any = "q", tool: Any = "bash", **more: Any) -> Item:
    return event("approval/asked", {"id": id_, "toolName": tool, **more})


def decided(id_: Any = "q", outcome: Any = "rejected") -> Item:
    return event("approval/decided", {"id": id_, "outcome": outcome})


def turn(*items: Item, n: int = 1, kind: str = "completed") -> list[Item]:
    return [turn_start(n), *items, turn_end(n, kind)]


def found(*items: Item, contract: Contract = V4, **options: Any) -> list[tuple[str, int | None]]:
    """Check a log and return what is found, and where."""
    return [(f.rule, f.seq) for f in check(log(*items), contract, **options)]


@both
@pytest.mark.parametrize("outcome", ["allowed-once", "rejected", "cancelled", "unavailable"])
def test_legal_questions_are_silent(contract: Contract, outcome: str) -> None:
    one = asked(callId="c", reason="why not"), decided(outcome=outcome)
    two = asked("a"), asked("b"), decided("b", outcome), decided("a", outcome)
    assert found(*turn(*one, *two, *one), *turn(*one, n=2), contract=contract) == []


class TestAsked:
    """Questions."""

    @both
    def test_outside_a_turn(self, contract: Contract) -> None:
        assert found(asked(), contract=contract) == [("approval.asked", 0)]
        assert found(*turn(), asked(), contract=contract) == [("approval.asked", 2)]

    @both
    @pytest.mark.parametrize("tool", [None, "", True, 5, [], {}])
    def test_without_a_tool(self, contract: Contract, tool: Any) -> None:
        items = turn(asked(tool=tool), decided())
        assert found(*items, contract=contract) == [("approval.asked", 1)]

    @both
    def test_while_the_same_is_asked(self, contract: Contract) -> None:
        items = turn(asked(), asked(), decided())
        assert found(*items, contract=contract) == [("approval.asked", 2)]

    def test_in_the_next_turn_the_same_may_wait_still(self) -> None:
        items = *turn(asked()), *turn(asked(), decided(), n=2)
        assert found(*items) == [("approval.undecided", 1), ("approval.asked", 4)]

    @pytest.mark.parametrize("id_", [None, True, 5, 1.5, "", [], {}, [{}]])
    def test_ids_of_any_kind_are_taken(self, id_: Any) -> None:
        assert violations(check(log(*turn(asked(id_), decided(id_))), V4)) == []


class TestDecided:
    """Answers."""

    @both
    def test_outside_a_turn(self, contract: Contract) -> None:
        items = *turn(asked(), kind="aborted"), decided()
        assert found(*items, contract=contract)[-1] == ("approval.decided", 3)

    @both
    @pytest.mark.parametrize(
        "outcome", [None, "", "allowed", "Rejected", True, 5, [], ["rejected"], {}]
    )
    def test_with_an_unknown_outcome(self, contract: Contract, outcome: Any) -> None:
        items = turn(asked(), decided(outcome=outcome))
        assert found(*items, contract=contract) == [("approval.decided", 2)]

    @both
    @pytest.mark.parametrize(
        ("items", "seq"),
        [
            ((decided(),), 1),
            ((asked(), decided("p"), decided()), 2),
            ((asked(), decided(), decided()), 3),
            ((decided(), asked(), decided()), 1),
        ],
    )
    def test_without_a_question(
        self, contract: Contract, items: tuple[Item, ...], seq: int
    ) -> None:
        assert found(*turn(*items), contract=contract) == [("approval.decided", seq)]

    def test_a_question_of_an_earlier_turn_may_be_answered(self) -> None:
        items = *turn(asked(), kind="interrupted"), *turn(decided(), n=2)
        assert violations(check(log(*items), V4)) == []

    def test_one_outside_a_turn_and_its_answer_are_one_cause(self) -> None:
        findings = check(log(*turn(), asked(), decided(), *turn(n=2)), V4)
        assert summary(findings) == [("approval.asked", 2, 2, 3)]

    def test_a_missing_start_of_the_turn_is_one_cause(self) -> None:
        """The end that nothing began says what is wrong with the turn."""
        items = turn(), [turn_end(2), asked("p"), decided("p")], turn(n=3)
        findings = check(log(*(item for part in items for item in part)), V4)
        assert summary(findings) == [("turn.end-mismatch", 3, 2, 4)]

    def test_more_questions_than_are_followed_are_not_guessed_at(self) -> None:
        many = [asked(f"q{number}") for number in range(MAX_PENDING + 1)]
        answers = [decided(f"q{number}") for number in range(MAX_PENDING + 1)]
        assert found(*turn(*many, *answers, decided("other"))) == []
        assert found(*turn(*many[1:], *answers)) == [("approval.decided", MAX_PENDING + 1)]


class TestPolicy:
    """When to ask."""

    @both
    @pytest.mark.parametrize("policy", ["ask", "never"])
    def test_known_ones(self, contract: Contract, policy: str) -> None:
        item = event("approval/policy", {"policy": policy, "source": "delegation"})
        assert found(item, contract=contract) == []

    @both
    @pytest.mark.parametrize("policy", [None, "", "always", "Ask", True, 5, [], ["ask"], {}])
    def test_any_other(self, contract: Contract, policy: Any) -> None:
        item = event("approval/policy", {"policy": policy})
        assert found(item, contract=contract) == [("approval.policy-unknown", 0)]


class TestUndecided:
    """Questions that nobody answers."""

    @both
    @pytest.mark.parametrize("kind", ["completed", "aborted", "error", "interrupted", "blocked"])
    def test_it_is_advice_where_the_question_stands(self, contract: Contract, kind: str) -> None:
        (finding,) = check(log(*turn(asked("p"), decided("p"), asked(), kind=kind)), contract)
        assert (finding.rule, finding.severity) == ("approval.undecided", Severity.ADVICE)
        assert (finding.seq, finding.line, finding.turn) == (3, 4, 1)
        assert finding.message == "'q' was never decided"

    def test_it_is_said_once(self) -> None:
        assert found(*turn(asked()), *turn(n=2)) == [("approval.undecided", 1)]

    def test_an_end_of_another_turn_decides_nothing(self) -> None:
        findings = check(log(turn_start(1), asked(), turn_end(7), decided(), turn_end(1)), V4)
        assert rules(findings) == ["turn.end-mismatch"]

    def test_the_end_of_the_log_decides_nothing(self) -> None:
        assert found(turn_start(1), asked()) == []

    def test_in_a_fork_the_answer_went_to_its_parent(self) -> None:
        cut = event("session/end-seed", {"inherited": True})
        items = turn_start(1), asked(), cut, turn_end(1, "forked")
        assert found(*items, header=CHILD) == []

    def test_the_question_is_not_quoted(self) -> None:
        (finding,) = check(log(*turn(asked("may I?"))), V4)
        assert finding.message == "another text was never decided"


class TestHistory:
    """What was lost or repeated."""

    def test_a_question_may_have_been_lost(self) -> None:
        events = log(*turn(asked("p"), decided("p"), asked(), decided()))
        lost = Fault("line.not-json", "not JSON", 4, lost=True)
        del events[3]
        assert rules(check(events, V4, faults={3: lost})) == ["line.not-json"]
        assert rules(check(events, V4)) == ["seq.gap"]
        assert check(events, V4, source=STREAM) == []

    def test_an_answer_may_have_been_lost(self) -> None:
        events = log(*turn(asked(), decided()), *turn(n=2))
        del events[2]
        assert rules(check(events, V4)) == ["seq.gap"]
        assert check(events, V4, source=STREAM) == []

    def test_a_stream_may_begin_in_a_turn(self) -> None:
        items = asked(), decided(), turn_end(3), *turn(n=4)
        assert check(log(*items, first=9), V4, source=STREAM) == []

    def test_repeated_events_are_no_news(self) -> None:
        events = log(*turn(asked(), decided(), asked("p"), decided("p")))
        again = [*events[:3], *events[1:3], *events[3:]]
        assert rules(check(again, V4)) == ["seq.regressed"]
        assert rules(check([*events[:2], events[1], *events[2:]], V4)) == ["seq.duplicate"]

    def test_questions_that_only_look_repeated_may_be_answered_later(self) -> None:
        events = log(turn_start(1), asked("p"), decided("p"))
        new, tail = log(asked(), first=2), log(decided(), turn_end(1), first=3)
        assert rules(check([*events, *new, *tail], V4)) == ["seq.duplicate"]

    @pytest.mark.parametrize("data", [None, 5, "x", [], [{}]])
    @pytest.mark.parametrize("index", [1, 2])
    def test_what_cannot_be_read_is_one_finding(self, data: Any, index: int) -> None:
        events = log(*turn(asked(), decided()))
        events[index]["data"] = data
        assert rules(check(events, V4)) == ["envelope.invalid"]

    def test_june_knows_no_approvals(self) -> None:
        assert found(asked(), decided(), contract=Contract.SEED) == []
