"""Tests of the rules about calls that a tool makes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from dsh_core.contract.catalogue import CATALOGUE
from dsh_core.contract.rules.ptc_dispatch import MAX_FOLLOWED
from dsh_core.contract.run import SourceKind
from dsh_core.decode import to_raw
from dsh_core.events import Contract
from dsh_core.faults import Fault
from tests.checking import (
    Item,
    answer,
    build,
    call,
    check,
    event,
    log,
    make_checker,
    one_turn,
    result,
    rules,
    step_end,
    step_start,
    summary,
    turn_end,
    turn_start,
    violations,
    wrapped_result,
)
from tests.strategies import Event, Events, header_row

V0, V4 = Contract.V0, Contract.V4
V3_HEADER = {**(header_row(V0) or {}), "version": 3, "isSeeded": False}
FORK = {**(header_row(V4) or {}), "isSeeded": True, "parentSession": "s-0"}
GONE = ...
ODD: list[Any] = [None, True, 0, 1, 1.5, "", [], [1], {}, {"x": [None]}]

BEGIN = (turn_start(1), step_start(1, 1), answer(1, 1, "a"), call(1, 1, "a"))
END = (result(1, 1, "a"), step_end(1, 1), turn_end(1))


def fields(sub: Any, parent: Any, root: Any, more: Event) -> Event:
    data: Event = {"rootCallId": root, "parentCallId": parent, "subCallId": sub}
    data |= {"name": "bash", "arguments": {"command": "ls"}, **more}
    return {key: value for key, value in data.items() if value is not GONE}


def start(sub: Any = "s", parent: Any = "a", root: Any = "a", **more: Any) -> Item:
    return event("tool/ptc-dispatch-start", fields(sub, parent, root, more))


def settle(sub: Any = "s", parent: Any = "a", root: Any = "a", **more: Any) -> Item:
    data = {"isError": False, "content": [], **fields(sub, parent, root, more)}
    return event("tool/ptc-dispatch", data)


def logged(*items: Item) -> Events:
    """Return a log in which a call makes calls of its own."""
    return log(*BEGIN, *items, *END)


def august(events: Events, version: int = 0) -> Events:
    """Return a log as August would have written it; code dispatch is what it said until v2."""
    found = []
    for one in events:
        kind, data = one["type"], one["data"]
        if version < 3:
            kind = kind.replace("ptc-dispatch", "code-dispatch")
        if kind == "tool/result":
            data = wrapped_result(data["turn"], data["step"], "a")[1]
        found.append({**one, "type": kind, "data": data})
    return found


def earlier(events: Events, version: int = 0, **options: Any) -> list[str]:
    """Check a log as one of an earlier generation."""
    header = {**V3_HEADER, "version": version} if version else header_row(V0)
    return rules(violations(check(august(events, version), V0, header=header, **options)))


LEGAL: dict[str, tuple[Item, ...]] = {
    "one": (start(), settle()),
    "failed": (start(), settle(isError=True, error={"name": "E", "code": "X"})),
    "never settled": (start(),),
    "two at once": (start("s"), start("t"), settle("s"), settle("t")),
    "nested": (start("s"), start("t", "s"), settle("t", "s"), settle("s")),
    "child of one that is settled": (start("s"), settle("s"), start("t", "s"), settle("t", "s")),
    "three deep": (start("s"), start("t", "s"), start("u", "t")),
    "a root that is no call": (start("s", "r", "r"), settle("s", "r", "r")),
    "its root's own name": (start("a"), settle("a")),
    "no name or arguments": (
        start(name=GONE, arguments=GONE),
        settle(name=GONE, arguments=GONE),
    ),
    "keys in another order": (
        start(arguments={"a": 1, "b": 2}),
        settle(arguments={"b": 2, "a": 1}),
    ),
    "the same number": (start(arguments=[1, 0, 1e3]), settle(arguments=[1.0, 0.0, 1000])),
    "the same double": (start(arguments=2**53), settle(arguments=2**53 + 1)),
    "any arguments": (start(arguments="[1"), settle(arguments="[1")),
    "settled a turn later": (start(), *END, turn_start(2), settle(), turn_end(2)),
    "settled after a resume": (
        *(start(), *END, event("session/end-seed"), turn_start(2), settle(), turn_end(2)),
    ),
    "outside any step": (*END[:-1], start(), settle(), END[-1]),
}


@pytest.mark.parametrize("items", LEGAL.values(), ids=LEGAL)
def test_what_is_legal_is_silent(items: tuple[Item, ...]) -> None:
    end = () if turn_end(1) in items else END
    events = log(*BEGIN, *items, *end)
    assert rules(violations(check(events, V4))) == []
    assert [earlier(events, version) for version in (0, 2, 3)] == [[], [], []]


IDS = ["rootCallId", "parentCallId", "subCallId"]


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("value", [*ODD, GONE], ids=repr)
@pytest.mark.parametrize("place", [4, 5])
def test_ids_are_texts_that_are_not_empty(name: str, value: Any, place: int) -> None:
    items = [start(**{name: value}), settle()] if place == 4 else [start(), settle(**{name: value})]
    events = logged(*items)
    (found,) = violations(check(events, V4))
    assert (found.rule, found.owner) == ("tools.dispatch-ids", "tools")
    assert (found.seq, found.line, found.message) == (place, place + 1, f"{name} is empty")
    # August took what is no text for one.
    assert earlier(events) == (["tools.dispatch-ids"] if value == "" else [])


@pytest.mark.parametrize("name", IDS)
def test_ids_that_are_empty_everywhere_are_one_fault(name: str) -> None:
    (found,) = violations(check(logged(start(**{name: ""}), settle(**{name: ""})), V4))
    assert summary([found]) == [("tools.dispatch-ids", 2, 4, 5)]


def test_august_did_not_ask_whether_ids_are_there() -> None:
    assert earlier(logged(start(rootCallId=GONE), settle(rootCallId=GONE))) == []


ROOTS: dict[str, tuple[int, str, tuple[Item, ...]]] = {
    "unknown parent": (4, "the parent of 't' is no call below its root", (start("t", "s"),)),
    "itself": (4, "the parent of 's' is no call below its root", (start("s", "s"),)),
    "parent below another root": (
        *(5, "the parent of 't' is no call below its root"),
        (start("s"), start("t", "s", "b")),
    ),
    "parent that comes later": (
        *(4, "the parent of 't' is no call below its root"),
        (start("t", "s"), start("s"), settle("t", "s"), settle("s")),
    ),
    "another root at the end": (
        *(5, "'s' is a call below another root"),
        (start("s"), settle("s", "b", "b")),
    ),
    "another root, from the start": (
        *(6, "'s' is a call below another root"),
        (start("s"), settle("s"), start("s", "b", "b")),
    ),
}


@pytest.mark.parametrize(("index", "message", "items"), ROOTS.values(), ids=ROOTS)
def test_a_call_lies_below_its_root(index: int, message: str, items: tuple[Item, ...]) -> None:
    events = logged(*items)
    (found,) = violations(check(events, V4))
    assert (found.rule, found.seq, found.message) == ("tools.dispatch-root", index, message)
    assert [earlier(events, v) for v in (0, 3)] == [["tools.dispatch-root"]] * 2


UNPAIRED: dict[str, tuple[int, str, tuple[Item, ...]]] = {
    "no start": (4, "'s' settles without a start", (settle(),)),
    "settled twice": (6, "'s' settles again", (start(), settle(), settle())),
}
OTHER = "'s' settles with another parent, name or arguments than it started with"
UNPAIRED_V4: dict[str, tuple[int, str, tuple[Item, ...]]] = {
    "started twice": (5, "'s' starts again", (start(), start(), settle())),
    "started again": (6, "'s' starts again", (start(), settle(), start(), settle())),
    "another parent": (
        *(6, "'t' settles with another parent, name or arguments than it started with"),
        (start("s"), start("t", "s"), settle("t")),
    ),
    "another name": (5, OTHER, (start(), settle(name="read"))),
    "no name": (5, OTHER, (start(), settle(name=GONE))),
    "other arguments": (5, OTHER, (start(), settle(arguments={"command": "rm"}))),
    "no arguments": (5, OTHER, (start(arguments=None), settle(arguments=GONE))),
    "true for one": (5, OTHER, (start(arguments=1), settle(arguments=True))),
    "minus zero": (5, OTHER, (start(arguments=0), settle(arguments=-0.0))),
    "another order": (5, OTHER, (start(arguments=[1, 2]), settle(arguments=[2, 1]))),
    "a list for an object": (5, OTHER, (start(arguments={}), settle(arguments=[]))),
}


@pytest.mark.parametrize(
    ("index", "message", "items"),
    [*UNPAIRED.values(), *UNPAIRED_V4.values()],
    ids=[*UNPAIRED, *UNPAIRED_V4],
)
def test_each_call_starts_once_and_settles_once_as_itself(
    index: int, message: str, items: tuple[Item, ...]
) -> None:
    (found,) = violations(check(logged(*items), V4))
    assert (found.rule, found.seq, found.message) == ("tools.dispatch-unpaired", index, message)


@pytest.mark.parametrize("version", [0, 3])
def test_until_v3_ids_are_unique_in_their_step_only(version: int) -> None:
    for _, _, items in UNPAIRED.values():
        assert earlier(logged(*items), version) == ["tools.dispatch-unpaired"]
    for _, _, items in UNPAIRED_V4.values():
        assert earlier(logged(*items), version) == []


# Outside any turn

OUTSIDE: dict[str, tuple[Events, int]] = {
    "start": (log(start(), *BEGIN, settle(), *END), 0),
    "settlement": (log(*BEGIN, start(), *END, settle()), 8),
    "both": (log(*BEGIN, *END, start(), settle(), *one_turn(2)), 7),
}


@pytest.mark.parametrize(("events", "seq"), OUTSIDE.values(), ids=OUTSIDE)
def test_calls_lie_inside_a_turn(events: Events, seq: int) -> None:
    (found,) = violations(check(events, V4))
    assert (found.rule, found.seq) == ("event.outside-turn", seq)
    for version in (0, 2, 3):
        assert earlier(events, version) == ["tools.dispatch-outside-turn"]


def test_the_packages_rule_finds_what_the_sessions_rule_is_not_asked_for() -> None:
    events, seq = OUTSIDE["both"]
    found = check(events, V4, chosen=CATALOGUE.select(["owner:tools"]))
    assert [(f.rule, f.seq, f.count) for f in found] == [("tools.dispatch-outside-turn", seq, 2)]


# What is missing, and what follows from what

WHOLE = logged(start("s"), start("t", "s"), settle("t", "s"), settle("s"))


def fault(line: int) -> Fault:
    return Fault("line.not-json", "not JSON", line, None, lost=True)


@pytest.mark.parametrize("seq", range(4, 8))
def test_what_is_lost_is_not_held_against_the_rest(seq: int) -> None:
    kept = [one for one in WHOLE if one["seq"] != seq]
    more = log(*one_turn(2), *one_turn(3), first=len(WHOLE))
    found = check([*kept, *more], V4, faults={seq: fault(seq + 1)})
    assert rules(violations(found)) == []
    assert violations(check(kept, V4, source=SourceKind.STREAM)) == []
    assert earlier(kept, source=SourceKind.STREAM) == []


@pytest.mark.parametrize("source", [SourceKind.LOG, SourceKind.STREAM])
@pytest.mark.parametrize("seq", range(4, 8))
def test_nor_where_only_tools_are_judged(seq: int, source: SourceKind) -> None:
    kept = [one for one in WHOLE if one["seq"] != seq]
    chosen = CATALOGUE.select(["tools.dispatch-*"])
    assert check(kept, V4, source=source, chosen=chosen) == []


def test_a_loss_in_an_earlier_turn_counts_too() -> None:
    kept = [one for one in log(*BEGIN, start(), *END, *one_turn(2)) if one["seq"] != 4]
    later = log(turn_start(3), settle(), turn_end(3), first=kept[-1]["seq"] + 1)
    assert rules(violations(check([*kept, *later], V4, faults={4: fault(5)}))) == []


def test_a_burst_that_repeats_calls_is_one_finding() -> None:
    again = [*WHOLE, *WHOLE[4:8], *log(*one_turn(2), first=len(WHOLE))]
    assert rules(violations(check(again, V4))) == ["seq.regressed"]


def test_what_follows_from_a_missing_start_is_no_news() -> None:
    events = logged(
        *(start("t", "s"), start("u", "s"), settle("t", "s"), settle("u", "s")),
        settle("s"),
    )
    (found,) = violations(check(events, V4))
    assert summary([found]) == [("tools.dispatch-root", 5, 4, 8)]


def test_what_follows_from_a_start_without_a_name_is_no_news() -> None:
    events = logged(start(""), start("t", "s"), settle("t", "s"), settle("s"))
    (found,) = violations(check(events, V4))
    assert summary([found]) == [("tools.dispatch-ids", 4, 4, 7)]


def test_a_settlement_in_the_wrong_place_is_one_fault() -> None:
    turns = [item for turn in range(2, 6) for item in one_turn(turn)]
    events = log(*BEGIN, settle(), *END, *turns, turn_start(6), start(), turn_end(6))
    assert [(f.rule, f.seq) for f in violations(check(events, V4))] == [
        ("tools.dispatch-unpaired", 4)
    ]


def test_faults_of_two_calls_are_two_findings() -> None:
    events = logged(settle("s"), start("t"), settle("t", name="x"))
    assert rules(violations(check(events, V4))) == ["tools.dispatch-unpaired"] * 2


def test_the_inherited_part_counts() -> None:
    inherited = (*BEGIN, start(), *END, event("session/end-seed", {"inherited": True}))
    legal = log(*inherited, turn_start(2), settle(), turn_end(2))
    assert violations(check(legal, V4, header=FORK)) == []
    again = log(*inherited, turn_start(2), start(), turn_end(2))
    assert rules(violations(check(again, V4, header=FORK))) == ["tools.dispatch-unpaired"]


def test_of_many_calls_the_newest_are_followed() -> None:
    some = [start(f"s{n}") for n in range(MAX_FOLLOWED)]
    assert rules(violations(check(logged(*some, settle("x")), V4))) == ["tools.dispatch-unpaired"]
    many = [*some, start(f"s{MAX_FOLLOWED}")]
    events = logged(*many, settle("s0"), settle("x"), start("t", "s0"), start(f"s{MAX_FOLLOWED}"))
    (found,) = violations(check(events, V4))
    assert (found.rule, found.message) == (
        "tools.dispatch-unpaired",
        f"'s{MAX_FOLLOWED}' starts again",
    )


# Payloads of any shape


@pytest.mark.parametrize("data", ODD, ids=repr)
@pytest.mark.parametrize("kind", ["code-dispatch", "ptc-dispatch"])
def test_no_payload_breaks_a_rule_set(kind: str, data: Any) -> None:
    odd: list[Item] = [(f"tool/{kind}{suffix}", data, {}) for suffix in ("-start", "")]
    for contract in Contract:
        check(logged(*odd, start(), *odd, settle()), contract)


@pytest.mark.parametrize("value", [value for value in ODD if not isinstance(value, dict)], ids=repr)
def test_what_is_no_object_explains_what_it_leads_to(value: Any) -> None:
    odd: Item = ("tool/ptc-dispatch-start", value, {})
    assert rules(violations(check(logged(odd, settle()), V4))) == ["envelope.invalid"]
    # A reader may hand the payload over as it is.
    raw = [build(one, line)[0] for line, one in enumerate(logged(start(), settle()), 1)]
    raw[4] = structs.replace(raw[4], data=to_raw(value))
    found = make_checker(V4).observe_all(raw, range(1, len(raw) + 1))
    assert rules(violations(found)) == ["envelope.invalid"]


@pytest.mark.parametrize("name", [*IDS, "name", "arguments"])
@pytest.mark.parametrize("value", [*ODD, "x" * 100_000, 2**70], ids=lambda value: repr(value)[:20])
def test_no_field_breaks_a_rule_set(name: str, value: Any) -> None:
    for contract in Contract:
        check(logged(start(**{name: value}), settle(**{name: value}), settle()), contract)


def test_june_knows_no_nested_calls() -> None:
    found = check(log(turn_start(1), start(""), settle("s"), turn_end(1)), Contract.SEED)
    assert violations(found) == []
