"""Tests of the rules about the rounds of a goal, and the prompts that start them."""

from __future__ import annotations

from typing import Any, Final

import pytest

from dsh_core.contract.goals import FIRST_WITH_CHANGES, MAX_OBJECTIVE
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract
from dsh_core.faults import Fault
from tests.checking import Item, check, event, log, prompt, replace, rules, turn_end, turn_start
from tests.core.contract.goal_logs import (
    ABSENT,
    OBJECTIVE,
    begin,
    clear,
    create,
    then,
    turn,
    words,
)
from tests.strategies import header_row, text

V0, V4 = Contract.V0, Contract.V4
STREAM = SourceKind.STREAM
NO_NUMBER: Final[tuple[Any, ...]] = (ABSENT, None, True, 0, -1, 1.5, 2**53, "", "1", [], {})
CHILD: Final = {**(header_row(V4) or {}), "isSeeded": True, "parentSession": "s-0"}
both = pytest.mark.parametrize("contract", [V0, V4])


def header(version: int) -> Any:
    """Return the header row of a session of format v0 to v3."""
    row = {**(header_row(V0) or {}), "version": version}
    return row if version < FIRST_WITH_CHANGES else {**row, "isSeeded": False}


def found(*items: Item, contract: Contract = V4, **options: Any) -> list[tuple[str, int | None]]:
    """Check a log and return what is found, and where."""
    return [(f.rule, f.seq) for f in check(log(*items), contract, **options)]


class TestRounds:
    """Which round of which goal begins."""

    @both
    @pytest.mark.parametrize(
        "items",
        [
            (create(), begin(2)),
            (create(), begin(), begin()),
            (create(), begin(), begin(3)),
            (create(), begin(), begin(2), begin(3), begin(4)),
            (create(), begin(1, 2)),
            (create(), begin(1, 1, "g-2")),
            (create(), clear(), begin()),
            *[(create(), then(op, 2), begin(1, 2)) for op in ("pause", "block", "complete")],
            (create(), begin(), then("edit", 2, rounds=1), begin(1, 2)),
            (
                create(),
                begin(),
                then("edit", 2, rounds=1, maxGoalRounds=1),
                begin(2, 2, content=text(words(2, 1))),
            ),
        ],
    )
    def test_one_that_is_not_next(self, contract: Contract, items: tuple[Item, ...]) -> None:
        assert found(*items, contract=contract) == [("goal.round", len(items) - 1)]

    @both
    @pytest.mark.parametrize("odd", NO_NUMBER)
    def test_a_source_of_no_round(self, contract: Contract, odd: Any) -> None:
        for item in (begin(odd), begin(1, odd), begin(goalId=5 if odd == "1" else odd)):
            assert found(create(), item, contract=contract) == [("goal.round", 1)]

    @both
    @pytest.mark.parametrize(
        "items",
        [
            (begin(), begin(2), begin(3)),
            (begin(1.0, 1.0, content=text(words())),),
            (begin(more=1),),
            (begin(), then("edit", 2, rounds=1), begin(2, 2)),
            (begin(), then("complete", 2, rounds=1), create(id="g-2"), begin(1, 1, "g-2")),
            (begin(), then("pause", 2, rounds=1), then("resume", 3, rounds=1), begin(2, 3)),
        ],
    )
    def test_legal_ones(self, contract: Contract, items: tuple[Item, ...]) -> None:
        assert found(create(), *items, contract=contract) == []

    def test_a_goal_that_was_never_created_is_one_cause(self) -> None:
        assert found(begin(), begin(2), begin(3)) == [("goal.round", 0)]
        assert found(begin(), begin(2), create(), begin(5)) == [
            ("goal.round", 0),
            ("goal.round", 3),
        ]

    def test_a_change_that_was_never_written_is_one_cause(self) -> None:
        items = create(), begin(1, 2), begin(2, 2), then("pause", 3, rounds=2)
        assert found(*items) == [("goal.round", 1)]

    def test_counting_goes_on_from_a_wrong_number(self) -> None:
        assert found(create(), begin(2), begin(3)) == [("goal.round", 1)]

    def test_nothing_is_quoted(self) -> None:
        messages = [
            check(log(create(), item), V4)[0].message
            for item in (begin(1, 1, "some goal"), begin("all of them"), begin(7))
        ]
        assert messages == [
            "another text is not the current goal",
            "no round has goalId 'g-1', revision 1, round another text",
            "round 7 follows round 0",
        ]


class TestPrompts:
    """What starts a round."""

    @both
    @pytest.mark.parametrize(
        "content",
        [
            [],
            [*text(words()), *text("")],
            [{"type": "reasoning", "text": words()}],
            [{"type": "text"}],
            [{"type": "text", "text": 5}],
            [{"text": words()}],
            [words()],
            text(""),
            text("go on"),
            text(words(2)),
            text(words(1, 4)),
            text(words(objective="say done")),
            text(OBJECTIVE + "\nRound: 1/3"),
            text(words().replace("Round: 1/3", "Round: 1/30")),
            text(words().replace("Round: 1/3", " Round: 1/3")),
            text(words().replace("Round:", "round:")),
        ],
    )
    def test_one_that_says_something_else(self, contract: Contract, content: Any) -> None:
        findings = check(log(create(), begin(content=content)), contract)
        assert [(f.rule, f.seq, f.line) for f in findings] == [("goal-driver.prompt", 1, 2)]
        assert findings[0].message.startswith("the prompt ")

    @pytest.mark.parametrize("content", [None, 5, "x", {}])
    def test_content_that_is_no_list(self, content: Any) -> None:
        kind, data, envelope = begin()
        item = kind, {**data, "content": content}, envelope
        assert ("goal-driver.prompt", 1) in found(create(), item)

    @both
    @pytest.mark.parametrize("words", [words(), 'Round: 1/3\nGo for "say \\"done\\"".', "[prompt]"])
    def test_legal_ones(self, contract: Contract, words: str) -> None:
        assert found(create(), begin(content=text(words)), contract=contract) == []

    @pytest.mark.parametrize(
        ("objective", "written"),
        [
            ("a\\b", '"a\\\\b"'),
            ("a/b", '"a/b"'),
            ("a\nb\tc\rd\be\ff", '"a\\nb\\tc\\rd\\be\\ff"'),
            ("a\x01b\x1fc\x7fd", '"a\\u0001b\\u001fc\x7fd"'),
            ("caf\u00e9 \u2028 \U0001f600", '"caf\u00e9 \u2028 \U0001f600"'),
            ("<b>'&'</b>", "\"<b>'&'</b>\""),
        ],
    )
    def test_the_objective_stands_there_as_javascript_writes_it(
        self, objective: str, written: str
    ) -> None:
        right = begin(content=text(f"{written}\nRound: 1/3"))
        assert found(create(objective=objective), right) == []
        wrong = begin(content=text(f'"{objective}x"\nRound: 1/3'))
        assert found(create(objective=objective), wrong) == [("goal-driver.prompt", 1)]

    @pytest.mark.parametrize("objective", ["[objective]", "half \ufffd", "x" * (MAX_OBJECTIVE + 1)])
    def test_an_objective_that_is_not_known_is_not_looked_for(self, objective: str) -> None:
        assert found(create(objective=objective), begin(content=text("Round: 1/3"))) == []
        assert found(create(objective=objective), begin(content=text("Round: 2/3"))) == [
            ("goal-driver.prompt", 1)
        ]

    def test_the_longest_objective_that_is_looked_for(self) -> None:
        items = create(objective="x" * MAX_OBJECTIVE), begin(content=text("Round: 1/3"))
        assert found(*items) == [("goal-driver.prompt", 1)]

    def test_the_last_edit_counts(self) -> None:
        edit = then("edit", 2, objective="other", maxGoalRounds=5)
        new, old = begin(1, 2, content=text(words(1, 5, "other"))), begin(1, 2)
        assert found(create(), edit, new) == []
        assert found(create(), edit, old) == [("goal-driver.prompt", 2)]

    def test_of_a_round_that_is_not_of_the_goal_nothing_is_said(self) -> None:
        for item in (begin(1, 2), begin(1, 1, "g-2"), begin("x")):
            kind, data, envelope = item
            bare = kind, {**data, "content": text("go on")}, envelope
            assert found(create(), bare) == [("goal.round", 1)]

    def test_other_messages_may_say_what_they_want(self) -> None:
        assert found(create(), prompt(), prompt(id="v", source={"kind": "plugin:goal"})) == []

    def test_a_replacement_is_no_prompt(self) -> None:
        kind, data, envelope = begin(2, op=replace(1, 1), content=text("short"))
        cited = kind, data, {**envelope, "sourceEventSeqs": [1]}
        assert found(create(), begin(), cited) == []


class TestHistory:
    """What was inherited, lost, repeated, or told in another way."""

    @pytest.mark.parametrize("version", [0, 1])
    def test_once_messages_told_of_goals(self, version: int) -> None:
        items = begin(4), begin(9, "x"), then("edit", 3, rounds=1), begin(2, 3)
        assert found(*items, contract=V0, header=header(version)) == []
        again = found(*items, begin(2, 3), contract=V0, header=header(version))
        assert again == [("goal.round", 4)]

    @pytest.mark.parametrize("version", [2, 3])
    def test_since_then_only_changes_do(self, version: int) -> None:
        assert found(begin(), contract=V0, header=header(version)) == [("goal.round", 0)]

    def test_with_a_change_it_is_judged_in_old_logs_too(self) -> None:
        items = create(), clear(), begin()
        assert found(*items, contract=V0, header=header(0)) == [("goal.round", 2)]

    def test_a_fork_and_a_resume_go_on_with_the_goal(self) -> None:
        cut, mark = event("session/end-seed", {"inherited": True}), event("session/end-seed")
        assert found(create(), begin(), cut, begin(2), header=CHILD) == []
        assert found(create(), begin(), mark, begin(2)) == []
        assert found(create(), begin(), mark, begin()) == [("goal.round", 3)]

    def test_a_round_may_have_been_lost(self) -> None:
        events = log(create(), *turn(begin()), *turn(begin(2), n=2), *turn(begin(3), n=3))
        lost = Fault("line.not-json", "not JSON", 6, lost=True)
        del events[5]
        assert rules(check(events, V4, faults={5: lost})) == ["line.not-json"]
        assert rules(check(events, V4)) == ["seq.gap"]
        assert check(events, V4, source=STREAM) == []

    def test_a_stream_may_begin_behind_the_goal(self) -> None:
        items = turn_start(4), begin(2), turn_end(4), turn_start(5), begin(3), turn_end(5)
        assert check(log(*items, first=50), V4, source=STREAM) == []

    def test_repeated_rounds_are_no_news(self) -> None:
        events = log(create(), *turn(begin()), *turn(begin(2), n=2))
        assert rules(check([*events[:4], *events[2:]], V4)) == ["seq.regressed"]

    def test_rounds_that_only_look_repeated_may_be_news(self) -> None:
        events = log(create(), *turn(begin()))
        new, tail = log(begin(2), first=2), log(turn_end(1), *turn(begin(3), n=2), first=3)
        assert rules(check([*events[:3], *new, *tail], V4)) == ["seq.duplicate"]

    @pytest.mark.parametrize("source", [None, 5, "goal", [], {}, {"kind": 5}, {"kind": ["goal"]}])
    def test_a_source_that_is_none_is_no_goal(self, source: Any) -> None:
        kind, data, envelope = begin()
        item = kind, {**data, "source": source}, envelope
        assert {rule for rule, _ in found(create(), item)} <= {"message.shape"}
