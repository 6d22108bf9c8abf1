"""Tests of the rules about workflows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from dsh_core.contract.catalogue import CATALOGUE
from dsh_core.contract.rules.tool_workflow import MAX_MEMBERS, MAX_RUNS
from dsh_core.contract.run import SourceKind
from dsh_core.decode import to_raw
from dsh_core.events import Contract
from dsh_core.faults import Fault
from tests.checking import (
    Item,
    build,
    check,
    event,
    log,
    make_checker,
    one_turn,
    rules,
    summary,
    violations,
)
from tests.strategies import header_row

V0, V4 = Contract.V0, Contract.V4
FORK = {**(header_row(V4) or {}), "isSeeded": True, "parentSession": "s-0"}
GONE = ...
ODD: list[Any] = [None, True, 0, -1, 1.5, 2**53, "", [], [1], {}, {"x": [None]}]


def record(kind: str, **data: Any) -> Item:
    return event(
        f"tool-workflow/{kind}", {key: value for key, value in data.items() if value is not GONE}
    )


def begin(run: Any = "r", name: Any = "review") -> Item:
    return record("run-start", runId=run, name=name)


def joins(seq: Any = 1, run: Any = "r", **more: Any) -> Item:
    data = {"label": "reader", "childId": f"child-{seq}"}
    return record("agent-start", runId=run, seq=seq, **(data | more))


def leaves(seq: Any = 1, run: Any = "r", outcome: Any = "completed") -> Item:
    return record("agent-end", runId=run, seq=seq, outcome=outcome)


def over(run: Any = "r", reason: Any = "completed") -> Item:
    return record("run-end", runId=run, stopReason=reason)


LEGAL: dict[str, tuple[Item, ...]] = {
    "one": (begin(), joins(), leaves(), over()),
    "nobody": (begin(), over()),
    "in parallel": (begin(), joins(1), joins(2), leaves(2), leaves(1), over()),
    "any order of numbers": (begin(), joins(7), joins(3), leaves(7), leaves(3), over()),
    "two runs": (begin("a"), begin("b"), joins(1, "a"), joins(1, "b"), leaves(1, "b"), over("b")),
    "never over": (begin(), joins(), *one_turn(1)),
    "cancelled": (begin(), joins(), leaves(outcome="cancelled"), over(reason="cancelled")),
    "in error": (begin(), joins(), leaves(outcome="failed"), over(reason="error")),
    "with a phase": (
        begin(),
        joins(phase="draft"),
        joins(2, phase=""),
        leaves(),
        leaves(2),
        over(),
    ),
    "an empty label": (begin(), joins(label=""), leaves(), over()),
    "a number with a point": (begin(), joins(1.0), leaves(1), over()),
    "turns later": (begin(), *one_turn(1), joins(), *one_turn(2), leaves(), over()),
    "after a resume": (begin(), joins(), event("session/end-seed"), leaves(), over()),
    "inherited": (
        *(begin(), joins(), event("session/end-seed", {"inherited": True})),
        *(leaves(), over()),
    ),
    "news that may be skipped": (event("tool-workflow/paused", {}, ignorable=True),),
}


@pytest.mark.parametrize("contract", [V0, V4])
@pytest.mark.parametrize("items", LEGAL.values(), ids=LEGAL)
def test_what_is_legal_is_silent(items: tuple[Item, ...], contract: Contract) -> None:
    fork = contract is V4 and any(data.get("inherited") for _, data, _ in items)
    found = check(log(*items), contract, header=FORK if fork else None)
    assert violations(found) == []


OPEN = (begin(), joins())
BROKEN: dict[str, dict[str, tuple[int, str, tuple[Item, ...]]]] = {
    "run-start": {
        "no id": (0, "runId is empty", (begin(GONE),)),
        "empty id": (0, "runId is empty", (begin(""), joins(run=""), over(""))),
        "no name": (0, "name is empty", (begin(name=GONE), over())),
        "empty name": (0, "name is empty", (begin(name=""), joins(), leaves(), over())),
        "again": (1, "'r' starts again", (begin(), begin(), over())),
        "again when it is over": (2, "'r' starts again", (begin(), over(), begin(), over())),
    },
    "agent-start": {
        "no run": (0, "'r' has not started", (joins(),)),
        "run over": (2, "'r' is over", (begin(), over(), joins(), leaves())),
        "no id": (1, "runId is empty", (begin(), joins(run=GONE))),
        "number zero": (1, "the number of a member is 0", (begin(), joins(0))),
        "a fraction": (1, "the number of a member is 1.5", (begin(), joins(1.5))),
        "no number": (1, "the number of a member is nothing", (begin(), joins(GONE))),
        "no label": (1, "the label of member 1 is nothing", (begin(), joins(label=GONE), leaves())),
        "odd label": (1, "the label of member 1 is 5", (begin(), joins(label=5), leaves())),
        "odd phase": (1, "the phase of member 1 is 5", (begin(), joins(phase=5), leaves())),
        "null phase": (1, "the phase of member 1 is nothing", (begin(), joins(phase=None))),
        "no child": (1, "member 1 has no childId", (begin(), joins(childId=GONE), leaves())),
        "empty child": (1, "member 1 has no childId", (begin(), joins(childId=""), leaves())),
        "again": (2, "member 1 starts again", (*OPEN, joins(), leaves(), over())),
        "again after its end": (3, "member 1 starts again", (*OPEN, leaves(), joins(), leaves())),
    },
    "agent-end": {
        "no run": (0, "'r' has not started", (leaves(), over())),
        "run over": (2, "'r' is over", (begin(), over(), leaves())),
        "no id": (2, "runId is empty", (*OPEN, leaves(run=""))),
        "odd outcome": (2, "the outcome of member 1 is 'done'", (*OPEN, leaves(outcome="done"))),
        "no outcome": (2, "the outcome of member 1 is nothing", (*OPEN, leaves(outcome=GONE))),
        "no number": (2, "the number of a member is nothing", (*OPEN, leaves(GONE))),
        "not started": (2, "member 2 has not started", (*OPEN, leaves(2), leaves(1), over())),
        "again": (3, "member 1 ends again", (*OPEN, leaves(), leaves(), over())),
    },
    "run-end": {
        "no run": (0, "'r' has not started", (over(),)),
        "over": (2, "'r' is over", (begin(), over(), over())),
        "no id": (1, "runId is empty", (begin(), over(GONE))),
        "odd reason": (1, "the reason is 'done'", (begin(), over(reason="done"))),
        "no reason": (1, "the reason is nothing", (begin(), over(reason=GONE))),
        "members work": (
            *(5, "the run ends while 2 of its members work"),
            (*OPEN, joins(2), joins(3), leaves(1), over(), leaves(2)),
        ),
        "no such record": (0, "there is no 'tool-workflow/paused'", (record("paused"),)),
    },
}
"""By rule and name: index of the event, message, and the log."""

CASES = {f"{rule}: {name}": (rule, *case) for rule in BROKEN for name, case in BROKEN[rule].items()}


@pytest.mark.parametrize("contract", [V0, V4])
@pytest.mark.parametrize(("rule", "index", "message", "items"), CASES.values(), ids=CASES)
def test_what_is_illegal_is_found_once_in_its_place(
    rule: str, index: int, message: str, items: tuple[Item, ...], contract: Contract
) -> None:
    (found,) = violations(check(log(*items), contract))
    assert (found.rule, found.owner) == (f"workflow.{rule}", "tool-workflow")
    assert (found.seq, found.line, found.message) == (index, index + 1, message)


# What is missing, and what follows from what

WHOLE = log(begin(), joins(1), joins(2), leaves(1), leaves(2), over(), *one_turn(1), *one_turn(2))


@pytest.mark.parametrize("seq", range(6))
def test_what_is_lost_is_not_held_against_the_rest(seq: int) -> None:
    kept = [one for one in WHOLE if one["seq"] != seq]
    lost = {seq: Fault("line.not-json", "not JSON", seq + 1, None, lost=True)}
    assert violations(check(kept, V4, source=SourceKind.STREAM)) == []
    assert rules(violations(check(kept, V4, faults=lost))) == []


ALONE = CATALOGUE.select(["owner:tool-workflow"])


@pytest.mark.parametrize("source", [SourceKind.LOG, SourceKind.STREAM])
@pytest.mark.parametrize("seq", range(6))
def test_nor_where_only_workflows_are_judged(seq: int, source: SourceKind) -> None:
    kept = [one for one in WHOLE if one["seq"] != seq]
    assert check(kept, V4, source=source, chosen=ALONE) == []


def test_a_run_that_starts_after_a_loss_is_judged() -> None:
    events = log(*one_turn(1), *one_turn(2), begin(), leaves(), over())
    kept = [one for one in events if one["seq"] != 1]
    found = check(kept, V4, source=SourceKind.STREAM)
    assert rules(violations(found)) == ["workflow.agent-end"]


def test_a_burst_that_repeats_a_run_is_one_finding() -> None:
    again = [*WHOLE, *WHOLE[:6], *log(*one_turn(3), first=len(WHOLE))]
    assert rules(violations(check(again, V4))) == ["seq.regressed"]


def test_what_follows_from_a_missing_start_is_no_news() -> None:
    turns = [item for turn in range(1, 6) for item in one_turn(turn)]
    found = violations(check(log(joins(1), leaves(1), leaves(2), *turns, joins(3), over()), V4))
    assert summary(found) == [("workflow.agent-start", 1, 0, 0)]


def test_a_run_whose_start_is_missing_is_followed_from_its_first_member_on() -> None:
    turns = [item for turn in range(1, 6) for item in one_turn(turn)]
    found = violations(check(log(leaves(1), *turns, leaves(2), over()), V4))
    assert summary(found) == [("workflow.agent-end", 1, 0, 0)]


def test_members_of_a_run_without_a_name_are_one_fault() -> None:
    found = violations(check(log(begin(), joins(run=""), leaves(run=""), over()), V4))
    assert summary(found) == [("workflow.agent-start", 2, 1, 2)]


def test_what_follows_from_a_start_without_a_name_is_no_news() -> None:
    (found,) = violations(check(log(begin(""), joins(), leaves(), over()), V4))
    assert summary([found]) == [("workflow.run-start", 2, 0, 1)]


def test_faults_of_two_members_are_two_findings() -> None:
    events = log(begin(), joins(1, label=5), joins(2, childId=""), leaves(1), leaves(2), over())
    assert rules(violations(check(events, V4))) == ["workflow.agent-start"] * 2


def test_what_nobody_knows_is_one_finding_however_often_it_comes() -> None:
    found = violations(check(log(*[record("paused")] * 3), V4))
    assert summary(found) == [("workflow.run-end", 3, 0, 2)]


def test_types_of_other_packages_are_not_the_workflows() -> None:
    events = log(event("tool-workflow"), event("tool-workflows/x"), event(""))
    assert [f for f in check(events, V4) if f.owner == "tool-workflow"] == []


def test_of_many_runs_the_newest_are_followed() -> None:
    some = [begin(f"r{n}") for n in range(MAX_RUNS)]
    assert rules(violations(check(log(*some, over("x")), V4))) == ["workflow.run-end"]
    many = [*some, begin("last")]
    events = log(*many, over("r0"), over("x"), over("r9"), over("r9"))
    (found,) = violations(check(events, V4))
    assert (found.rule, found.message) == ("workflow.run-end", "'r9' is over")


def test_members_beyond_a_limit_are_not_followed() -> None:
    for far in (MAX_MEMBERS + 1, 2**53 - 1):
        for items in ((joins(far), joins(far), leaves(far), leaves(far)), (leaves(far),)):
            assert violations(check(log(begin(), *items, over()), V4)) == []
    last = MAX_MEMBERS
    for illegal, rule in (
        ((joins(last), over()), "workflow.run-end"),
        ((joins(last), joins(last), leaves(last), over()), "workflow.agent-start"),
        ((joins(last), leaves(last), leaves(last), over()), "workflow.agent-end"),
        ((leaves(last), over()), "workflow.agent-end"),
    ):
        assert rules(violations(check(log(begin(), *illegal), V4))) == [rule]


# Payloads of any shape

KINDS = ("run-start", "agent-start", "agent-end", "run-end", "paused")


@pytest.mark.parametrize("data", ODD, ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_no_payload_breaks_a_rule_set(kind: str, data: Any) -> None:
    odd: Item = (f"tool-workflow/{kind}", data, {})
    for contract in Contract:
        check(log(odd, begin(), odd, joins(), odd, leaves(), odd, over()), contract)


@pytest.mark.parametrize("value", [*ODD, 2**70], ids=repr)
@pytest.mark.parametrize(
    "name", ["runId", "name", "seq", "label", "phase", "childId", "outcome", "stopReason"]
)
def test_no_field_breaks_a_rule_set(name: str, value: Any) -> None:
    items = [(kind, {**data, name: value}, more) for kind, data, more in (*OPEN, leaves(), over())]
    for contract in Contract:
        assert {f.owner for f in check(log(*items), contract)} <= {"tool-workflow"}


@pytest.mark.parametrize("value", [value for value in ODD if not isinstance(value, dict)], ids=repr)
@pytest.mark.parametrize("place", range(4))
def test_what_is_no_object_explains_what_it_leads_to(place: int, value: Any) -> None:
    raw = [build(one, 1)[0] for one in log(*OPEN, leaves(), over())]
    raw[place] = structs.replace(raw[place], data=to_raw(value))
    found = make_checker(V4).observe_all(raw, range(1, 5))
    assert rules(violations(found)) == ["envelope.invalid"]


def test_june_has_no_workflows() -> None:
    assert check(log(over(), record("paused")), Contract.SEED) == []
