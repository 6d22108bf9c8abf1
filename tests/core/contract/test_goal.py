"""Tests of the rules about changes of a goal; its rounds have tests of their own."""

from __future__ import annotations

from typing import Any, Final

import pytest

from dsh_core.contract.goals import MAX_OBJECTIVE, MAX_USED
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract
from dsh_core.faults import Fault
from tests.checking import Item, check, event, log, rules, summary
from tests.core.contract.goal_logs import ABSENT, STUCK, begin, change, clear, create, goal, then
from tests.strategies import START, header_row

V0, V4 = Contract.V0, Contract.V4
STREAM = SourceKind.STREAM
NO_COUNT: Final[tuple[Any, ...]] = (ABSENT, None, True, -1, 1.5, 2**53, "", "1", [], {})
NO_TEXT: Final[tuple[Any, ...]] = (ABSENT, None, True, 5, "", [], {})
NO_RECORD: Final[tuple[Any, ...]] = (ABSENT, None, True, 5, "g-1", [], [goal()], {})
CHILD: Final = {**(header_row(V4) or {}), "isSeeded": True, "parentSession": "s-0"}
both = pytest.mark.parametrize("contract", [V0, V4])


def found(*items: Item, contract: Contract = V4, **options: Any) -> list[tuple[str, int | None]]:
    """Check a log and return what is found, and where."""
    return [(f.rule, f.seq) for f in check(log(*items), contract, **options)]


def still_blocked(revision: int, **reason: Any) -> Item:
    """Return an edit of a goal that is blocked, and perhaps of the reason."""
    return then("edit", revision, phase="blocked", blockedReason={**STUCK, **reason})


class TestShape:
    """A change as such."""

    @both
    @pytest.mark.parametrize(
        "item",
        [
            *[change(goal=goal(), kind=odd) for odd in (*NO_TEXT, "goal")],
            *[change(goal=goal(), version=odd) for odd in (*NO_COUNT, 0, 2)],
            *[change(odd, goal=goal()) for odd in (*NO_TEXT, "zap", "CREATE")],
            *[change(goal=odd) for odd in NO_RECORD],
            *[change(goal=goal(), roundsStarted=odd) for odd in NO_COUNT],
            *[change(goal=goal(), createdAt=odd) for odd in NO_COUNT],
            *[change(goal=goal(), updatedAt=odd) for odd in (*NO_COUNT, START - 1)],
            *[create(id=odd) for odd in NO_TEXT],
            *[create(revision=odd) for odd in (*NO_COUNT, 0)],
            *[create(maxGoalRounds=odd) for odd in (*NO_COUNT, 0)],
            *[create(objective=odd) for odd in (*NO_TEXT, " x", "x\n", "\u00a0x")],
            *[create(phase=odd) for odd in (*NO_TEXT, "done", "Active", ["active"])],
            change(goal=goal(), more=1),
            create(more=1),
            create(blockedReason=STUCK),
            change("zap", goal=goal(blockedReason=STUCK)),
        ],
    )
    def test_of_a_goal(self, contract: Contract, item: Item) -> None:
        assert found(item, contract=contract) == [("goal.shape", 0)]

    @both
    @pytest.mark.parametrize(
        "reason",
        [
            *NO_RECORD,
            {"code": "a"},
            {"message": "m"},
            {**STUCK, "more": 1},
            *[{**STUCK, "message": odd} for odd in (*NO_TEXT[1:], " m", "m\n")],
            *[{**STUCK, "code": odd} for odd in (*NO_TEXT[1:], "A", "a_b", "a--b", "-a")],
            *[{**STUCK, "code": odd} for odd in ("a-", "1", "1a", "a\n", "a b", "\u00e9")],
        ],
    )
    def test_of_the_reason_why_it_is_blocked(self, contract: Contract, reason: Any) -> None:
        items = create(), then("block", 2, blockedReason=reason)
        assert found(*items, contract=contract) == [("goal.shape", 1)]

    @both
    @pytest.mark.parametrize(
        "item",
        [
            *[clear(cleared=odd) for odd in NO_RECORD],
            *[clear(cleared=odd) for odd in ({"id": "g-1"}, {"revision": 2})],
            clear(cleared={"id": "g-1", "revision": 2, "more": 1}),
            *[clear(id_=odd) for odd in NO_TEXT[1:]],
            *[clear(odd) for odd in (*NO_COUNT[1:], 0)],
            *[clear(clearedAt=odd) for odd in NO_COUNT],
            clear(goal=goal()),
            clear(createdAt=START),
            clear(version=2),
        ],
    )
    def test_of_a_removal(self, contract: Contract, item: Item) -> None:
        assert found(create(), item, contract=contract) == [("goal.shape", 1)]

    @pytest.mark.parametrize(
        "item",
        [
            change(goal=goal(), version=1.0, updatedAt=START + 5),
            change(goal=goal(), createdAt=0, updatedAt=0),
            create(id=" g", objective="x" * 5000, maxGoalRounds=2**53 - 1, revision=1.0),
            create(objective="[objective]"),
            create(objective="a  b\nc"),
        ],
    )
    def test_legal_goals(self, item: Item) -> None:
        assert found(item) == []

    @pytest.mark.parametrize("code", ["a", "a-1", "a-1b-2", "model-reported", "a" * 300])
    def test_legal_reasons(self, code: str) -> None:
        assert found(create(), then("block", 2, blockedReason={**STUCK, "code": code})) == []

    def test_a_fault_that_the_goal_keeps_is_one_finding(self) -> None:
        items = create(objective=" x"), then("pause", 2, objective=" x"), then("edit", 3)
        assert summary(check(log(*items), V4)) == [("goal.shape", 2, 0, 1)]

    def test_what_follows_from_one_that_cannot_be_read_is_not_judged(self) -> None:
        bad = change(goal=goal(), version=2)
        assert found(bad, then("edit", 7, rounds=2), then("edit", 9)) == [
            ("goal.shape", 0),
            ("goal.revision", 2),
        ]

    def test_nothing_is_quoted(self) -> None:
        (finding,) = check(log(create(phase="very private")), V4)
        assert finding.message == "the phase is another text"


class TestCreate:
    """New goals."""

    @both
    @pytest.mark.parametrize(
        "items",
        [
            (create(revision=2),),
            (create(phase="paused"),),
            (create(phase="complete"),),
            (change(goal=goal(), roundsStarted=1),),
            (create(), create(id="g-2")),
            (create(), then("pause", 2), create(id="g-2")),
            (create(), then("block", 2), create(id="g-2")),
            (create(), create()),
            (create(), then("complete", 2), create()),
            (create(), clear(), create()),
        ],
    )
    def test_one_that_is_not_new(self, contract: Contract, items: tuple[Item, ...]) -> None:
        assert found(*items, contract=contract) == [("goal.create", len(items) - 1)]

    @both
    @pytest.mark.parametrize(
        "items",
        [
            (create(), then("complete", 2), create(id="g-2")),
            (create(), clear(), create(id="g-2")),
            (create(), clear(), change(goal=goal(id="g-2"), createdAt=1, updatedAt=1)),
        ],
    )
    def test_after_another(self, contract: Contract, items: tuple[Item, ...]) -> None:
        assert found(*items, contract=contract) == []

    def test_old_ids_are_forgotten(self) -> None:
        many = [x for k in range(MAX_USED + 1) for x in (create(id=f"g{k}"), clear(id_=f"g{k}"))]
        assert found(*many, create(id="g0")) == []
        assert found(*many, create(id="g1")) == [("goal.create", len(many))]

    def test_the_new_one_is_current_all_the_same(self) -> None:
        items = create(), create(id="g-2"), then("pause", 2, id="g-2")
        assert found(*items) == [("goal.create", 1)]


class TestRevision:
    """Changes, one after the other."""

    @both
    @pytest.mark.parametrize(
        "items",
        [
            (then("edit", 2),),
            (create(), clear(), then("edit", 3)),
            (create(), then("edit", 2, id="g-2")),
            (create(), then("edit", 1)),
            (create(), then("edit", 3)),
            (create(), change("edit", goal=goal(revision=2), createdAt=START - 1)),
            (create(), then("edit", 2), change("edit", goal=goal(revision=3), updatedAt=START + 1)),
            (create(), then("edit", 2, rounds=1)),
            (create(), begin(), then("edit", 2, rounds=0)),
        ],
    )
    def test_one_that_does_not_follow(self, contract: Contract, items: tuple[Item, ...]) -> None:
        assert found(*items, contract=contract) == [("goal.revision", len(items) - 1)]

    @both
    def test_legal_ones(self, contract: Contract) -> None:
        same = change("edit", goal=goal(revision=2))
        items = (
            create(),
            same,
            begin(1, 2),
            then("pause", 3, rounds=1),
            then("complete", 4, rounds=1),
        )
        assert found(*items, contract=contract) == []

    def test_the_log_goes_on_from_what_it_says(self) -> None:
        items = create(), then("edit", 5), then("edit", 6), then("pause", 7)
        assert found(*items) == [("goal.revision", 1)]


class TestPhase:
    """What operations may do."""

    @both
    @pytest.mark.parametrize(
        "items",
        [
            (then("edit", 2, phase="paused"),),
            (then("pause", 2), then("edit", 3)),
            (then("block", 2), still_blocked(3, code="a")),
            (then("block", 2), still_blocked(3, message="a")),
            *[(then(op, 2, objective="x"),) for op in ("pause", "resume", "complete", "block")],
            *[(then(op, 2, maxGoalRounds=9),) for op in ("pause", "resume", "complete", "block")],
            *[(then(op, 2), then("pause", 3)) for op in ("pause", "block", "complete")],
            (then("pause", 2, phase="active"),),
            (then("complete", 2), then("resume", 3)),
            (then("pause", 2), then("resume", 3, phase="paused")),
            (then("complete", 2), then("complete", 3)),
            (then("complete", 2, phase="active"),),
            *[(then(op, 2), then("block", 3)) for op in ("pause", "block", "complete")],
            (then("block", 2, phase="paused", blockedReason=ABSENT),),
            (*[begin(n) for n in (1, 2, 3)], then("resume", 2, rounds=3)),
            (
                begin(),
                then("edit", 2, rounds=1, maxGoalRounds=1),
                then("resume", 3, rounds=1, maxGoalRounds=1),
            ),
        ],
    )
    def test_what_they_may_not(self, contract: Contract, items: tuple[Item, ...]) -> None:
        assert found(create(), *items, contract=contract) == [("goal.phase", len(items))]

    @both
    @pytest.mark.parametrize(
        "items",
        [
            (then("edit", 2, objective="x", maxGoalRounds=1),),
            (then("pause", 2), then("edit", 3, phase="paused", objective="x")),
            (then("block", 2), still_blocked(3)),
            (then("complete", 2), then("edit", 3, phase="complete")),
            *[(then(op, 2), then("resume", 3)) for op in ("pause", "resume", "block")],
            *[(then(op, 2), then("complete", 3)) for op in ("pause", "resume", "block")],
            (begin(), begin(2), then("block", 2, rounds=2), then("resume", 3, rounds=2)),
            (begin(), then("edit", 2, rounds=1, maxGoalRounds=1)),
        ],
    )
    def test_what_they_may(self, contract: Contract, items: tuple[Item, ...]) -> None:
        assert found(create(), *items, contract=contract) == []

    def test_texts_behind_a_note_are_not_compared(self) -> None:
        items = [
            create(),
            then("pause", 2, objective="[objective]"),
            then("resume", 3),
            then("block", 4),
            still_blocked(5, message="[7 characters]"),
            still_blocked(6),
        ]
        assert found(*items) == []

    def test_long_objectives_are_compared_too(self) -> None:
        long = "x" * (MAX_OBJECTIVE + 1)
        items = create(objective=long), then("pause", 2, objective=long)
        assert found(*items) == []
        other = then("resume", 3, objective=f"{long[1:]}y")
        assert found(*items, other) == [("goal.phase", 2)]


class TestClear:
    """Goals that are taken away."""

    @both
    @pytest.mark.parametrize(
        "items",
        [
            (clear(),),
            (create(), clear(1)),
            (create(), clear(3)),
            (create(), clear(id_="g-2")),
            (create(), clear(clearedAt=START - 1)),
            (create(), clear(), clear(3)),
        ],
    )
    def test_one_that_is_not_there(self, contract: Contract, items: tuple[Item, ...]) -> None:
        assert found(*items, contract=contract) == [("goal.clear", len(items) - 1)]

    @both
    @pytest.mark.parametrize(
        "items",
        [
            (clear(),),
            (clear(2.0, clearedAt=START),),
            (then("complete", 2), clear(3)),
            (begin(), clear()),
        ],
    )
    def test_one_that_is(self, contract: Contract, items: tuple[Item, ...]) -> None:
        assert found(create(), *items, contract=contract) == []


class TestHistory:
    """What was inherited, lost or repeated."""

    def test_a_fork_goes_on_with_the_goal(self) -> None:
        cut = event("session/end-seed", {"inherited": True})
        assert found(create(), cut, then("pause", 2), header=CHILD) == []
        assert found(create(), cut, create(id="g-2"), header=CHILD) == [("goal.create", 2)]

    @pytest.mark.parametrize("item", [then("edit", 3), clear(3), then("resume", 3), create(id="x")])
    def test_changes_that_were_lost_explain_what_does_not_fit(self, item: Item) -> None:
        events = log(create(), then("complete", 2), item)
        lost = Fault("line.not-json", "not JSON", 2, lost=True)
        del events[1]
        assert rules(check(events, V4, faults={1: lost})) == ["line.not-json"]
        assert rules(check(events, V4)) == ["seq.gap"]
        assert check(events, V4, source=STREAM) == []

    def test_what_needs_no_history_is_found_all_the_same(self) -> None:
        """Until the next turn starts, a gap explains whatever is wrong."""
        turn = event("turn/start", {"turn": 1})
        events = log(create(), then("complete", 2), turn, create(id="x", revision=4), create(id=""))
        del events[0]
        assert rules(check(events, V4, source=STREAM)) == ["goal.create", "goal.shape"]

    def test_repeated_changes_are_no_news(self) -> None:
        events = log(create(), then("edit", 2), then("edit", 3), then("edit", 4))
        again = [*events[:3], *events[1:]]
        assert rules(check(again, V4)) == ["seq.regressed"]

    @pytest.mark.parametrize("data", [None, 5, "x", [], [{}]])
    def test_a_change_that_cannot_be_read_explains_what_does_not_fit(self, data: Any) -> None:
        events = log(create(), then("edit", 2), then("edit", 3))
        events[1]["data"] = data
        assert rules(check(events, V4)) == ["envelope.invalid"]

    def test_june_knows_no_goals(self) -> None:
        assert found(clear(), begin(), contract=Contract.SEED) == []
