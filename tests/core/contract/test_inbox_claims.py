"""Tests of the advice about messages that are claimed and never reach the model."""

from __future__ import annotations

from typing import Any, Final

import pytest

from dsh_core.contract.findings import Severity
from dsh_core.contract.rules.inbox import MAX_CLAIMED, REACHED
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract
from tests.checking import (
    Item,
    check,
    log,
    one_step,
    prompt,
    step_end,
    step_start,
    turn_end,
    turn_start,
)
from tests.core.contract.inboxes import cancel, claim, insert, turn
from tests.core.contract.test_inbox import CHILD, CUT

V0, V4 = Contract.V0, Contract.V4
NEXT_STEP: Final = "next-step"
both = pytest.mark.parametrize("contract", [V0, V4])


def missing(*items: Item, contract: Contract = V4, **options: Any) -> list[tuple[int | None, str]]:
    """Check a log and return where messages are claimed that never come, and how many."""
    findings = check(log(*items), contract, **options)
    assert {f.severity for f in findings} <= {Severity.ADVICE}
    return [(f.seq, f.message) for f in findings if f.rule == "inbox.claimed-missing"]


def lost(count: int) -> str:
    return f"{count} of the messages claimed here never came"


@both
@pytest.mark.parametrize("kind", REACHED)
def test_a_claimed_message_comes_in_its_turn(contract: Contract, kind: str) -> None:
    queued = insert("u")
    assert missing(queued, *turn(claim(), said=["u"], kind=kind), contract=contract) == []
    assert missing(queued, *turn(claim(), said=["x"], kind=kind), contract=contract) == [
        (2, lost(1))
    ]


def test_where_it_stands_in_the_log_is_said() -> None:
    (finding,) = check(log(insert("u"), *turn(claim(), said=["x"])), V4)
    assert (finding.rule, finding.seq, finding.line, finding.turn) == (
        "inbox.claimed-missing",
        2,
        3,
        1,
    )


def test_messages_that_are_claimed_together_are_one_finding() -> None:
    queued = insert("a", "b", "c", target=NEXT_STEP)
    items = turn(claim(3, target=NEXT_STEP), said=["b"])
    assert missing(queued, *items) == [(2, lost(2))]


def test_each_claim_is_a_finding_of_its_own() -> None:
    queued = insert("u"), insert("a", target=NEXT_STEP)
    items = turn(claim(), claim(target=NEXT_STEP))
    assert missing(*queued, *items) == [(3, lost(1)), (4, lost(1))]


def test_it_may_come_in_a_later_step_or_before_any() -> None:
    queued = insert("u", "v")
    first = turn_start(1), claim(), *one_step(1, 1), *one_step(1, 2, prompt(id="u")), turn_end(1)
    second = turn_start(2), claim(), prompt(id="v"), *one_step(2, 1), turn_end(2)
    assert missing(queued, *first, *second) == []


@pytest.mark.parametrize("kind", ["aborted", "blocked", "disposed", "forked"])
def test_a_turn_that_was_stopped_may_not_have_come_to_it(kind: str) -> None:
    assert missing(insert("u"), *turn(claim(), kind=kind)) == []


def test_it_may_vanish_if_no_step_follows() -> None:
    assert missing(insert("u"), turn_start(1), claim(), turn_end(1)) == []
    late = insert("a", target=NEXT_STEP), claim(target=NEXT_STEP)
    assert missing(turn_start(1), *one_step(1, 1), *late, turn_end(1)) == []


def test_a_step_of_another_turn_is_none() -> None:
    events = log(insert("u"), turn_start(1), claim(), step_start(7, 1), turn_end(1))
    assert [f.rule for f in check(events, V4)] == ["step.outside-turn"]


def test_the_end_of_another_turn_decides_nothing() -> None:
    items = turn_start(1), claim(), step_start(1, 1), turn_end(7), prompt(id="u"), step_end(1, 1)
    events = log(insert("u"), *items, turn_end(1))
    assert [f.rule for f in check(events, V4)] == ["turn.end-mismatch"]


def test_cancelled_messages_are_not_missed() -> None:
    assert missing(insert("u"), *turn(cancel())) == []


def test_in_the_next_turn_it_is_not_looked_for() -> None:
    queued = insert("u", "v")
    assert missing(queued, *turn(claim()), *turn(claim(), n=2, said=["u", "v"])) == [(2, lost(1))]


def test_a_turn_that_never_ended_is_not_judged() -> None:
    crashed = turn_start(1), claim(), step_start(1, 1)
    events = log(insert("u"), *crashed, *turn(n=2, said=["u"]))
    assert [f.rule for f in check(events, V4)] == ["turn.overlap"]


def test_of_messages_without_a_known_id_nothing_is_said() -> None:
    assert missing(insert({}), *turn(claim())) == []


def test_more_messages_than_are_followed_are_not_missed() -> None:
    many = [str(number) for number in range(MAX_CLAIMED)]
    queued = insert("u"), insert(*many, target=NEXT_STEP)
    items = turn(claim(), claim(MAX_CLAIMED, target=NEXT_STEP), said=["u", *many[:-1]])
    assert missing(*queued, *items) == []


def test_a_message_without_an_id_may_be_any() -> None:
    events = log(insert("u"), *turn(claim(), said=[""]))
    assert [f.rule for f in check(events, V4)] == ["message.shape"]


def test_ids_are_compared_as_they_are_meant() -> None:
    assert missing(insert("\u00e9\n"), *turn(claim(), said=["\u00e9\n"])) == []


def test_what_was_inherited_is_not_judged() -> None:
    assert missing(insert("u"), *turn(claim()), CUT, header=CHILD) == []
    cut_short = insert("u"), turn_start(1), claim(), step_start(1, 1), CUT
    assert missing(*cut_short, step_end(1, 1), turn_end(1), header=CHILD) == []


def test_what_looked_own_in_a_fork_of_a_fork_is_forgotten() -> None:
    assert missing(CUT, insert("u"), *turn(claim()), CUT, header=CHILD) == []
    assert missing(CUT, insert("u"), *turn(claim()), header=CHILD) == [(3, lost(1))]


def test_a_gap_may_have_swallowed_it() -> None:
    events = log(insert("u"), *turn(claim(), said=["u"]))
    del events[4]
    assert check(events, V4, source=SourceKind.STREAM) == []
    assert [f.rule for f in check(events, V4)] == ["seq.gap"]


def test_after_a_gap_messages_are_known_that_came_since() -> None:
    second = turn(claim(), n=2, said=["x"])
    events = log(insert("u"), cancel(), insert("v", "w"), *turn(claim(), said=["v"]), *second)
    del events[1]
    found = check(events, V4, source=SourceKind.STREAM)
    assert [(f.rule, f.seq) for f in found] == [("inbox.claimed-missing", 10)]
