"""Tests of the rules of the ``session`` package about turns and steps."""

from __future__ import annotations

import pytest

from dsh_core.contract.findings import Severity
from dsh_core.events import Contract
from tests.checking import (
    check,
    chunk,
    event,
    log,
    one_step,
    one_turn,
    step_start,
    summary,
    turn_end,
    turn_start,
    violations,
)

V0 = Contract.V0
V4 = Contract.V4
TURN = one_turn(1, chunk(1, 1))


class TestNumbers:
    """Numbers of turns and steps."""

    def test_june_turns_and_steps_have_any_number(self) -> None:
        """June checks that ends name what is open, never how turns and steps are counted."""
        items = (turn_start(7), *one_step(7, 0), *one_step(7, 5), turn_end(7), *one_turn(3))
        assert check(log(*items)) == []

    def test_steps_count_anew_in_each_turn(self) -> None:
        """From August on the first step of every turn is step 1."""
        second = (turn_start(2), *one_step(2, 1), *one_step(2, 2), turn_end(2))
        assert check(log(*one_turn(1), *second), V0) == []

    def test_a_turn_without_a_step_is_legal(self) -> None:
        """A turn may end as soon as it has started, when what it was started for is gone."""
        assert check(log(turn_start(1), turn_end(1)), V0) == []

    def test_a_log_may_end_anywhere(self) -> None:
        """An end that nobody declared is not the end of the session: nothing is unclosed."""
        assert check(log(turn_start(1), step_start(1, 1))) == []

    def test_an_unclosed_turn_is_advice(self) -> None:
        """A declared end inside a step gives advice for the turn and for the step."""
        found = check(log(turn_start(1), step_start(1, 1)), final=True)
        assert [(f.rule, f.severity, f.seq) for f in found] == [
            ("turn.unclosed", Severity.ADVICE, 1),
            ("step.unclosed", Severity.ADVICE, 1),
        ]


class TestInTurn:
    """Events that belong inside a turn."""

    @pytest.mark.parametrize(
        ("kind", "contract"),
        [
            ("request/header", V0),
            ("request/context", V0),
            ("todo/write", V0),
            ("request/header", V4),
            ("request/context", V4),
            ("tool/ptc-dispatch-start", V4),
            ("tool/ptc-dispatch", V4),
        ],
    )
    def test_outside_a_turn_they_are_violations(self, kind: str, contract: Contract) -> None:
        """What describes requests and nested calls makes no sense outside a turn."""
        found = violations(check(log(event(kind)), contract, chosen=_ONLY))
        assert summary(found) == [("event.outside-turn", 1, 0, 0)]

    @pytest.mark.parametrize(
        ("kind", "contract"), [("todo/write", V4), ("request/header", Contract.SEED)]
    )
    def test_other_contracts_do_not_mind(self, kind: str, contract: Contract) -> None:
        """October lets todo lists be written any time, June knows no such events."""
        assert check(log(event(kind)), contract, chosen=_ONLY) == []

    def test_outside_the_same_turns_they_are_one_finding(self) -> None:
        """Several such events in a row have one cause; after the next turn it is another."""
        stray = event("request/context")
        items = (stray, stray, *one_turn(1), stray)
        found = check(log(*items), V0)
        assert summary(found) == [("event.outside-turn", 2, 0, 1), ("event.outside-turn", 1, 6, 6)]


_ONLY = frozenset({"event.outside-turn"})
