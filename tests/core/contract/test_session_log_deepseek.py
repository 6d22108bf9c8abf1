"""Tests of the rules of the ``session-log-deepseek`` package."""

from __future__ import annotations

from typing import Any, Final

import pytest

from dsh_core.contract.checker import Checker
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract, SessionHeader
from dsh_core.faults import Fault
from tests.checking import Item, build, check, event, log, one_turn, rules, violations
from tests.strategies import header_row

V4 = Contract.V4
ODD: Final[tuple[Any, ...]] = (None, True, 0, -1, 1.5, 2**53, "", "x", [], {}, [{}])
SEEDED: Final = {**(header_row(V4) or {}), "isSeeded": True}
FORK: Final = {**SEEDED, "parentSession": "s-0"}
CUT: Final = event("session/end-seed", {"inherited": True})


def marker(through: Any = 0, id_: Any = "s-1", version: Any = 4) -> Item:
    """Return a marker; a field that is `...` is left out."""
    data = {"throughSeq": through, "sessionId": id_, "sessionFormatVersion": version}
    kept = {key: value for key, value in data.items() if value is not ...}
    return event("session-log-deepseek/delivery-accepted", kept)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (marker(4), "throughSeq is 4, which is not earlier"),
        (marker(5), "throughSeq is 5, which is not earlier"),
        (marker(-1), "throughSeq is -1, which is not earlier"),
        (marker(0.5), "throughSeq is 0.5, which is not earlier"),
        (marker(-0.0), "throughSeq is -0.0, which is not earlier"),
        (marker("0"), "throughSeq is '0', which is not earlier"),
        (marker(...), "throughSeq is nothing, which is not earlier"),
        (marker(id_="s-2"), "the marker names session 's-2'"),
        (marker(id_=""), "sessionId is empty"),
        (marker(id_=...), "sessionId is empty"),
        (marker(id_=5), "sessionId is empty"),
        (marker(id_=["s-1"]), "sessionId is empty"),
        (marker(version="4"), "sessionFormatVersion is '4'"),
        (marker(version=None), "sessionFormatVersion is nothing"),
        (marker(version=-1), "sessionFormatVersion is -1"),
        (marker(version=-0.0), "sessionFormatVersion is -0.0"),
        (marker(version=4.5), "sessionFormatVersion is 4.5"),
        (marker(version=True), "sessionFormatVersion is true"),
    ],
)
def test_each_fault_is_named(item: Item, message: str) -> None:
    """A marker is about its own session, and about what lies before it."""
    found = check(log(*one_turn(1), item), V4)
    assert [(f.rule, f.seq, f.message) for f in found] == [("delivery.marker", 4, message)]


@pytest.mark.parametrize(
    "item",
    [
        marker(),
        marker(3),
        marker(3.0, version=4.0),
        *[marker(99, "s-2", version) for version in (..., 0, 3, 5)],
    ],
)
def test_what_merely_looks_odd_is_legal(item: Item) -> None:
    """Markers of other formats are not judged; without one it is the first."""
    assert check(log(*one_turn(1), item), V4) == []


def test_it_may_be_marked_again() -> None:
    assert check(log(*one_turn(1), marker(2), marker(2), marker(1)), V4) == []


def test_inherited_markers_name_the_parent() -> None:
    items = (*one_turn(1), marker(id_="s-0"), CUT, marker())
    assert check(log(*items), V4, header=FORK) == []
    twice = (*one_turn(1), marker(id_="s-00"), CUT, marker(id_="s-0"), CUT, marker())
    assert check(log(*twice), V4, header=FORK) == []


OLD: Final = (*one_turn(1), marker(id_="s-00"), CUT)
NEWER: Final = (
    marker(id_="s-0"),
    event("job/registered", {"jobId": "j", "owner": "s-0", "label": "ls", "startedAt": 1}),
)


@pytest.mark.parametrize("source", SourceKind)
def test_what_lies_in_front_of_a_gap_may_be_inherited(source: SourceKind) -> None:
    """The last marker of a fork of a fork may be what is missing."""
    events = log(*OLD, *NEWER, CUT, event("plan/mode", {"active": True}))
    del events[-2]
    found = violations(check(events, V4, header=FORK, source=source))
    assert rules(found) == ([] if source is SourceKind.STREAM else ["seq.gap"])


@pytest.mark.parametrize("behind", [(), (event("plan/mode", {"active": True}),)])
def test_a_damaged_marker_explains_what_is_inherited(behind: tuple[Item, ...]) -> None:
    lost = Fault("line.not-json", "not JSON", 9, lost=True)
    events = log(*OLD, *NEWER, CUT, *behind)
    at = len(OLD) + len(NEWER)
    del events[at]
    found = check(events, V4, header=FORK, faults={at: lost})
    assert [(f.rule, f.count) for f in found] == [("line.not-json", 3 + len(behind))]


def test_what_lies_behind_every_gap_is_judged() -> None:
    events = log(*one_turn(1), *one_turn(2), CUT, *NEWER, marker(id_="s-9"))
    del events[1]
    found = violations(check(events, V4, header=FORK, source=SourceKind.STREAM))
    assert {"delivery.marker", "job.owner"} <= set(rules(found))


@pytest.mark.parametrize(
    ("item", "message"),
    [(marker(4), "throughSeq is 4, which is not earlier"), (marker(id_=""), "sessionId is empty")],
)
def test_inherited_markers_are_well_formed_too(item: Item, message: str) -> None:
    """Only the session may be another."""
    found = check(log(*one_turn(1), item, CUT), V4, header=FORK)
    assert [(f.rule, f.seq, f.message) for f in found] == [("delivery.marker", 4, message)]


def test_own_markers_of_a_fork_name_itself() -> None:
    items = (*one_turn(1), marker(id_="s-0"), CUT, marker(id_="s-0"))
    found = check(log(*items), V4, header=FORK)
    assert [(f.rule, f.seq) for f in found] == [("delivery.marker", 6)]


def test_a_copy_without_a_parent_names_itself_everywhere() -> None:
    found = check(log(*one_turn(1), marker(id_="s-0"), CUT), V4, header=SEEDED)
    assert [(f.rule, f.seq) for f in found] == [("delivery.marker", 4)]


def test_without_a_header_row_nobody_knows_whose_log_it_is() -> None:
    events = log(*one_turn(1), marker(id_="s-2"))
    assert rules(check(events, V4, header_row=None)) == ["header.invalid"]
    stream = check(events, V4, header_row=None, source=SourceKind.STREAM)
    assert "delivery.marker" in rules(stream)


def test_a_stream_may_know_its_session_without_the_row() -> None:
    header = SessionHeader(id="s-2", version=4, is_seeded=True, parent_session="s-0")
    chosen = frozenset({"delivery.marker"})
    checker = Checker(header, source=SourceKind.STREAM, chosen=chosen, strict=True)
    items = (*one_turn(1), marker(id_="s-0"), CUT, marker(id_="s-2"), marker(id_="s-0"))
    found = [
        finding
        for line, source in enumerate(log(*items), 1)
        for finding in checker.observe(build(source, line)[0], line)
    ]
    found += checker.finish()
    assert [(f.rule, f.seq) for f in found] == [("delivery.marker", 7)]


@pytest.mark.parametrize("odd", ODD)
def test_nothing_is_too_odd(odd: Any) -> None:
    """Whatever a field holds, or the payload itself, there is a verdict."""
    sample = marker()
    for name in sample[1]:
        changed = event(sample[0], {**sample[1], name: odd})
        found = check(log(*one_turn(1), changed), V4)
        assert set(rules(found)) <= {"delivery.marker"}
    events = log(*one_turn(1), event(sample[0]))
    events[4]["data"] = odd
    assert set(rules(check(events, V4))) <= {"envelope.invalid"}


def test_others_have_no_such_rule() -> None:
    assert check(log(*one_turn(1), marker(9, "s-2")), Contract.V0) == []


def test_in_a_stream_what_has_the_name_of_the_parent_is_inherited() -> None:
    """Of a fork of a fork the last end of the inherited part may not be told."""
    items = (*one_turn(1), marker(id_="s-9"), CUT, marker(id_="s-0"))
    assert check(log(*items), V4, header=FORK, source=SourceKind.STREAM) == []
    found = check(log(*items, marker(id_="s-7")), V4, header=FORK, source=SourceKind.STREAM)
    assert rules(found) == ["delivery.marker"]
