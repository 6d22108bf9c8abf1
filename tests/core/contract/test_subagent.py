"""Tests of the rules of the ``subagent`` package."""

from __future__ import annotations

from typing import Any, Final

import pytest

from dsh_core.contract.rules import subagent
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract, SubagentCatalog
from tests.checking import Item, build, check, event, log, one_turn, rules
from tests.strategies import START, header_row

V4 = Contract.V4
ODD: Final[tuple[Any, ...]] = (None, True, 0, -1, 1.5, 2**53, "", "x", [], {}, [{}])
FORK: Final = {**(header_row(V4) or {}), "isSeeded": True, "parentSession": "s-0"}
CUT: Final = event("session/end-seed", {"inherited": True})


def child(id_: Any = "c", version: Any = 1, mode: Any = "one-shot", **more: Any) -> Item:
    """Return the record of a child; a field that is `...` is left out."""
    data = {"childId": id_, "version": version, "mode": mode, "childCreatedAt": START, **more}
    return event("subagent/catalog", {k: v for k, v in data.items() if v is not ...})


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (child(id_=...), "childId is nothing"),
        (child(id_=5), "childId is 5"),
        (child(id_={}), "childId is an object"),
        (child(version=...), "version is nothing"),
        (child(version=3), "version is 3"),
        (child(version=True), "version is true"),
        (child(version="1"), "version is '1'"),
        (child(version=1.5), "version is 1.5"),
        (child(mode=...), "mode is nothing"),
        (child(mode="many"), "mode is 'many'"),
        (child(mode=["one-shot"]), "mode is a list"),
        (child(version=2), "mode 'one-shot' in version 2"),
        (child(version=2, mode="unknown"), "mode 'unknown' in version 2"),
        (child(mode="external"), "mode 'external' in version 1"),
        (child(version=0, mode="external"), "mode 'external' in version 0"),
        (child(version=0, mode="unknown"), "mode 'unknown' in version 0"),
        (child(mode="continuable"), "label is nothing"),
        (child(mode="continuable", label=5), "label is 5"),
        (child(label=None), "label is nothing"),
        (child(label=["x"]), "label is a list"),
        (child(childCreatedAt=...), "childCreatedAt is no time"),
        (child(childCreatedAt=-1), "childCreatedAt is no time"),
        (child(childCreatedAt=1.5), "childCreatedAt is no time"),
        (child(childCreatedAt="1"), "childCreatedAt is no time"),
    ],
)
def test_each_odd_field_is_named(item: Item, message: str) -> None:
    """Version, mode and label of a record go together."""
    found = check(log(*one_turn(1), item), V4)
    assert [(f.rule, f.seq, f.message) for f in found] == [("catalog.child", 4, message)]


@pytest.mark.parametrize(
    "item",
    [
        child(),
        child(id_=""),
        child(version=1.0),
        child(version=0),
        child(version=0, mode="continuable", label=""),
        child(mode="unknown"),
        child(mode="unknown", label="l"),
        child(version=2, mode="external"),
        child(childCreatedAt=0, extra=1),
        child(childCreatedAt=5.0),
    ],
)
def test_what_merely_looks_odd_is_legal(item: Item) -> None:
    """Each version has its modes."""
    assert check(log(item), V4) == []


def test_a_child_is_recorded_once() -> None:
    found = check(log(child(), child("d"), child(mode="unknown")), V4)
    assert [(f.rule, f.seq, f.message) for f in found] == [
        ("catalog.child", 2, "child 'c' is recorded already")
    ]


def test_an_odd_record_of_a_known_child_is_one_finding() -> None:
    assert rules(check(log(child(), child(version=3)), V4)) == ["catalog.child"]


def test_old_children_are_forgotten() -> None:
    many = [child(f"c{k}") for k in range(subagent.MAX_CHILDREN + 1)]
    assert check(log(*many, child("c0")), V4) == []
    assert rules(check(log(*many, child("c1")), V4)) == ["catalog.child"]


def test_inherited_records_are_the_parent_s() -> None:
    items = (child(), child(), child("d", version=9), CUT, child(), child("d"))
    assert check(log(*items), V4, header=FORK) == []


def test_a_fork_records_each_child_once_too() -> None:
    found = check(log(child(), CUT, child(), child()), V4, header=FORK)
    assert [(f.rule, f.seq) for f in found] == [("catalog.child", 3)]


def test_a_fork_of_a_fork_inherits_both() -> None:
    items = (child(), CUT, child(), child(), CUT, child())
    assert check(log(*items), V4, header=FORK) == []


def test_a_resume_forgets_nothing() -> None:
    found = check(log(child(), event("session/end-seed"), child()), V4)
    assert [(f.rule, f.seq) for f in found] == [("catalog.child", 2)]


def test_a_burst_repeats_what_is_known() -> None:
    events = log(*one_turn(1), child(), child("d"))
    events[6:6] = events[4:6]
    assert rules(check(events, V4)) == ["seq.regressed"]


def test_gaps_do_not_matter() -> None:
    events = log(child(), *one_turn(1), child("d"), child())
    for late in events[1:]:
        late["seq"] += 7
    assert rules(check(events, V4, source=SourceKind.STREAM)) == ["catalog.child"]


@pytest.mark.parametrize("odd", ODD)
def test_nothing_is_too_odd(odd: Any) -> None:
    """Whatever a field holds, or the payload itself, there is a verdict."""
    sample = child(label="l")
    for name in sample[1]:
        found = check(log(event("subagent/catalog", {**sample[1], name: odd})), V4)
        assert set(rules(found)) <= {"catalog.child"}
    events = log(event("subagent/catalog"))
    events[0]["data"] = odd
    assert set(rules(check(events, V4))) <= {"catalog.child", "envelope.invalid"}


@pytest.mark.parametrize(("id_", "name"), [("c", "c"), (5, ""), (..., ""), ({}, ""), (None, "")])
def test_the_child_s_name_can_be_read(id_: Any, name: str) -> None:
    """What is no text is no name."""
    built, _ = build(log(child(id_))[0], 1)
    assert isinstance(built, SubagentCatalog)
    assert built.data.child_id == name


def test_others_have_no_such_rule() -> None:
    assert check(log(child(), child(version=9)), Contract.V0) == []
