"""Tests of the rules about the surface: the messages that the model sees, and replacements."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from dsh_core.contract.rules.surface import cited_seqs
from dsh_core.decode import from_mapping
from dsh_core.events import Contract
from dsh_core.faults import Fault
from tests.checking import (
    Item,
    answer,
    call,
    check,
    event,
    log,
    make_checker,
    one_step,
    one_turn,
    prompt,
    repair,
    replace,
    result,
    rules,
    system,
    turn_end,
    turn_start,
    violations,
)
from tests.strategies import header_row

V0 = Contract.V0
V4 = Contract.V4
V3_HEADER = {**(header_row(V0) or {}), "version": 3, "isSeeded": False}


def citing(item: Item, *seqs: Any) -> Item:
    """Return an event that cites others."""
    kind, data, envelope = item
    return kind, data, {**envelope, "sourceEventSeqs": list(seqs)}


def replacing(start: int, end: int, *cited: Any, **message: Any) -> Item:
    """Return a user message that replaces a span and cites some events."""
    return citing(prompt(replace(start, end), **message), *cited)


def without(item: Item, name: str) -> Item:
    """Return a message without one field of its envelope."""
    kind, data, envelope = item
    return kind, data, {key: value for key, value in envelope.items() if key != name}


TWO = (prompt(), prompt())
PAIR = (answer(1, 1, "c"), call(1, 1, "c"), result(1, 1, "c"))
STEERING = event("steering/message", {"turn": 1, "content": []}, surfaceOp="append")
PRUNED = citing(result(1, 1, "c", op=replace(4, 4)), 4)


class TestMarker:
    """The surface operation that messages have, and no other event."""

    @pytest.mark.parametrize(
        "message",
        [
            prompt(),
            answer(1, 1),
            repair(1, 1, "c"),
            system(1, 1),
            event(
                "developer/message",
                {"turn": 1, "step": 1, "message": {**prompt()[1], "role": "developer"}},
                surfaceOp="append",
            ),
        ],
        ids=lambda item: item[0],
    )
    def test_october_wants_one_on_every_message(self, message: Item) -> None:
        """Each of the five kinds of messages carries it."""
        chosen = frozenset({"surface.marker"})
        assert check(log(*one_turn(1, message)), V4, chosen=chosen) == []
        bare = without(message, "surfaceOp")
        found = check(log(*one_turn(1, bare)), V4, chosen=chosen)
        assert [(f.rule, f.seq) for f in found] == [("surface.marker", 2)]

    def test_july_wrote_messages_without(self) -> None:
        """In a v0 log a message without the operation is taken to append."""
        assert check(log(without(prompt(), "surfaceOp")), V0) == []

    def test_from_v1_on_there_are_no_such_messages(self) -> None:
        """Later formats of the August contract were written by migration, which adds it."""
        found = check(log(without(prompt(), "surfaceOp")), V0, header=V3_HEADER)
        assert rules(found) == ["surface.marker"]

    @pytest.mark.parametrize("sources", [3, None, "x", {}, True, ["x"], [9], [0, 0], [-1]])
    def test_what_may_be_ignored_cites_properly(self, sources: Any) -> None:
        """Whoever passes an event over has to read its envelope."""
        odd = event("brand/new", {}, sourceEventSeqs=sources, ignorable=True)
        assert rules(check(log(prompt(), odd), V4)) == ["surface.sources"]

    def test_what_may_be_ignored_may_cite_nothing(self) -> None:
        citing = event("brand/new", {}, sourceEventSeqs=[], ignorable=True)
        assert check(log(prompt(), citing), V4) == []

    def test_to_july_steering_is_a_message(self) -> None:
        """It lies on the surface, and may be replaced there."""
        events = log(STEERING, replacing(0, 0, 0))
        assert check(events, V0) == []
        assert rules(check(log(STEERING, prompt(replace(0, 0))), V0)) == ["surface.replace-uncited"]
        found = check(log(citing(STEERING, 0)), V0)
        assert rules(found) == ["surface.sources"]
        assert rules(check(log(STEERING), V0, header=V3_HEADER)) == ["surface.marker"]

    @pytest.mark.parametrize("name", ["surfaceOp", "sourceEventSeqs"])
    def test_in_october_what_may_be_ignored_is(self, name: str) -> None:
        """Nobody looks at the fields of an event that nobody needs to know."""
        assert check(log(prompt(), ("brand/new", {}, {name: [0], "ignorable": True})), V4) == []
        found = check(log(prompt(), ("brand/new", {}, {name: [0]})), V4)
        assert rules(violations(found)) == ["surface.marker"]

    @pytest.mark.parametrize("name", ["surfaceOp", "sourceEventSeqs"])
    def test_other_events_have_neither_field(self, name: str) -> None:
        """Operation and cited events belong to messages."""
        found = check(log(prompt(), ("brand/new", {}, {name: [0], "ignorable": True})), V0)
        assert [(f.rule, f.message) for f in found] == [
            ("surface.marker", "brand/new carries surface fields")
        ]


class TestSources:
    """The events that a message cites."""

    @pytest.mark.parametrize(
        ("cited", "problem"),
        [
            ([], "sourceEventSeqs is empty"),
            ([1, 1], "sourceEventSeqs repeats a seq"),
            ([2], "sourceEventSeqs cites 2, which is not earlier"),
            ([99], "sourceEventSeqs cites 99, which is not earlier"),
            ([[0, 2]], "sourceEventSeqs cites 2, which is not earlier"),
            ([0, [0, 1]], "sourceEventSeqs is not a list of seqs"),
            ([[0, 1], 0], "sourceEventSeqs is not a list of seqs"),
            ([-1], "sourceEventSeqs is not a list of seqs"),
            ([0.5], "sourceEventSeqs is not a list of seqs"),
            (["0"], "sourceEventSeqs is not a list of seqs"),
            ([True], "sourceEventSeqs is not a list of seqs"),
            ([[1, 0]], "sourceEventSeqs is not a list of seqs"),
            ([[0, 10**9]], "sourceEventSeqs is not a list of seqs"),
        ],
    )
    def test_they_are_earlier_and_each_once(self, cited: list[Any], problem: str) -> None:
        """A cited seq is that of an event already in the log."""
        found = check(log(*TWO, citing(prompt(), *cited)), V4)
        assert [(f.rule, f.message, f.seq) for f in found] == [("surface.sources", problem, 2)]

    @pytest.mark.parametrize("value", [None, "0", {"0": 1}])
    def test_they_are_a_list(self, value: Any) -> None:
        """Anything else is a violation."""
        odd = event("user/message", prompt()[1], surfaceOp="append", sourceEventSeqs=value)
        assert rules(check(log(odd), V4)) == ["surface.sources"]

    def test_an_answer_may_cite_nothing(self) -> None:
        """An answer whose stream had no events cites none."""
        assert check(log(*one_turn(1, citing(answer(1, 1)))), V0) == []

    @pytest.mark.parametrize("cited", [(), (0,)])
    def test_an_answer_of_october_cites_nothing(self, cited: tuple[int, ...]) -> None:
        """It carries its stream itself."""
        found = check(log(*one_turn(1, citing(answer(1, 1), *cited))), V4)
        assert rules(found) == ["surface.sources"]
        assert check(log(*one_turn(1, answer(1, 1))), V4) == []

    def test_before_october_pairs_may_come_in_any_order(self) -> None:
        """Only October wants them to go up."""
        assert check(log(*TWO, citing(prompt(), [0, 1])), V0) == []
        assert rules(check(log(*TWO, citing(prompt(), 0, [0, 1])), V0)) == ["surface.sources"]

    @pytest.mark.parametrize(
        ("raw", "seqs"),
        [
            (b"[3,4,9]", [3, 4, 9]),
            (b"[[12,15],3]", [12, 13, 14, 15, 3]),
            (b"[[7,7]]", [7]),
            (b"[]", []),
            (b"[[1,2,3]]", None),
            (b"[[1.5,2]]", None),
            (b"[1.0]", [1]),
            (b"[-1]", None),
            (b"{}", None),
            (b"[", None),
            (b"[[0,2000000]]", None),
            (b"[" * 20_000, None),
        ],
    )
    def test_ranges_are_spelled_out(self, raw: bytes, seqs: list[int] | None) -> None:
        """Runs of seqs are stored as pairs; an absurdly long one is refused, not spelled out."""
        assert cited_seqs(Raw(raw)) == seqs


class TestReplace:
    """Messages that replace a span of the surface."""

    def test_the_replacement_stands_where_the_span_was(self) -> None:
        """A span is named by its ends on the surface as it is now, not by their numbers."""
        items = (
            *(prompt(),) * 4,
            replacing(0, 1, 0, 1),
            # The surface is 4, 2, 3: the span from 4 to 2 has its larger number first.
            replacing(4, 2, 4, 2),
            replacing(5, 3, 5, 3),
        )
        assert check(log(*items), V4) == []

    @pytest.mark.parametrize(
        "op",
        [
            replace(1, 0),
            replace(0, 1) | {"op": "delete"},
            {"op": "replace"},
            {"op": "replace", "startSeq": "0", "endSeq": "1"},
            {"op": "replace", "startSeq": 2**70, "endSeq": 2**70},
            {"op": "replace", "startSeq": -1, "endSeq": -1},
            "prepend",
            None,
            [],
        ],
    )
    def test_the_span_must_be_on_the_surface(self, op: Any) -> None:
        """Ends out of order, unknown seqs and unknown operations are one violation each."""
        found = check(log(*TWO, citing(prompt(op), 0, 1)), V4)
        assert rules(found) == ["surface.replace-range"]

    def test_a_replaced_message_is_gone(self) -> None:
        """What was replaced cannot be replaced again."""
        found = check(log(*TWO, replacing(0, 0, 0), replacing(0, 0, 0)), V4)
        assert [(f.rule, f.seq) for f in found] == [("surface.replace-range", 3)]

    def test_after_a_bad_span_the_message_is_appended(self) -> None:
        """The checker goes on with the message at the end of the surface."""
        found = check(log(*TWO, replacing(7, 8, 0), replacing(1, 2, 1, 2)), V4)
        assert [(f.rule, f.seq) for f in found] == [("surface.replace-range", 2)]

    def test_the_names_of_august(self) -> None:
        """Until v2 the ends of the span are called start and end."""
        old = {"op": "replace", "start": 0, "end": 1}
        assert check(log(*TWO, citing(prompt(old), 0, 1)), V0) == []

    def test_everything_replaced_is_cited(self) -> None:
        """The message names what is not cited, up to eight of them."""
        found = check(log(*(prompt(),) * 12, replacing(0, 11, 3)), V4)
        assert [f.message for f in found] == ["replaced but not cited: 0, 1, 2, 4, 5, 6, 7, 8"]

    def test_citing_nothing_is_one_finding(self) -> None:
        """A replacement without any cited seqs."""
        found = check(log(prompt(), prompt(replace(0, 0))), V4)
        assert rules(found) == ["surface.replace-uncited"]

    def test_further_seqs_may_be_cited(self) -> None:
        """A replacement may cite more than it replaces, in any order."""
        assert (
            check(log(*TWO, event("plan/mode", {"active": True}), replacing(1, 1, 2, 1, 0)), V4)
            == []
        )

    def test_messages_that_changed_places_are_one_cause(self) -> None:
        """What lies in a span is not sure any more, and so is what must be cited."""
        said, pruned = one_turn(1, prompt(), prompt(), prompt()), replacing(2, 3, 2, 3, id="v")
        events = log(*said, *one_turn(2), turn_start(3), pruned, turn_end(3))
        assert violations(check(events, V4)) == []
        events[3], events[4] = events[4], events[3]
        assert rules(check(events, V4)) == ["seq.gap"]

    def test_what_was_lost_cannot_be_on_the_surface(self) -> None:
        """A replacement of messages that were lost is a consequence of the loss."""
        lost = Fault("line.frame-corrupt", "broken", 3, lost=True)
        head = log(*one_turn(1, prompt(), prompt()))
        tail = log(*one_turn(2, replacing(2, 3, 2, 3, id="v")), first=6)
        found = check([*head[:2], *head[4:], *tail], V4, faults={2: lost})
        assert violations(found) == []
        assert [(f.rule, f.count) for f in found] == [("line.frame-corrupt", 3)]


class TestResultReplace:
    """Results that replace results."""

    @pytest.mark.parametrize(
        "odd",
        [
            citing(result(1, 1, "c", op=replace(2, 2)), 2),
            citing(result(1, 1, "d", op=replace(4, 4)), 4),
            citing(result(1, 2, "c", op=replace(4, 4)), 4),
        ],
        ids=["replaces an answer", "is of another call", "is of another step"],
    )
    def test_only_the_content_may_change(self, odd: Item) -> None:
        """A replacing result stands for the same call in the same step."""
        found = check(log(*one_turn(1, *PAIR, odd)), V4)
        assert rules(found) == ["surface.tool-result-replace"]

    def test_other_messages_may_replace_results(self) -> None:
        """Compaction replaces results by a summary."""
        items = one_turn(1, *PAIR, replacing(2, 4, 2, 4))
        assert check(log(*items), V4) == []


class TestSystemHead:
    """The protected system message of v4."""

    HEAD = (turn_start(1), *one_step(1, 1, system(1, 1), prompt()), turn_end(1))

    @pytest.mark.parametrize(
        "odd",
        [
            replacing(2, 2, 2),
            replacing(2, 3, 2, 3),
            citing(system(2, 1, replace(2, 3)), 2, 3),
        ],
    )
    def test_it_stays_at_the_head(self, odd: Item) -> None:
        """Nothing but one other system message takes its place."""
        found = check(log(*self.HEAD, *one_turn(2, odd)), V4)
        assert [(f.rule, f.message) for f in found] == [
            (
                "surface.system-head",
                "the system message at the head is replaced by something else",
            )
        ]

    @pytest.mark.parametrize("odd", [system(1, 1), citing(system(1, 1, replace(2, 2)), 2)])
    def test_without_a_head_there_is_none_any_more(self, odd: Item) -> None:
        """Where other messages stand first, no system message has a place."""
        found = check(log(*one_turn(1, prompt(), odd)), V4)
        assert [(f.rule, f.message) for f in found] == [
            ("surface.system-head", "a system message comes where none is at the head")
        ]

    def test_further_ones_are_messages_like_others(self) -> None:
        """Behind the head they may be added, replaced and compacted."""
        items = (
            system(2, 1),
            citing(system(2, 1, replace(3, 3)), 3),
            replacing(8, 8, 8),
        )
        assert check(log(*self.HEAD, *one_turn(2, *items)), V4) == []

    def test_a_new_one_takes_its_place(self) -> None:
        """One system message may replace the other."""
        items = (*self.HEAD, *one_turn(2, citing(system(2, 1, replace(2, 2)), 2)))
        assert check(log(*items), V4) == []


class TestOdd:
    """Sequences that no runtime writes."""

    @pytest.mark.parametrize("seq", [2**63, -(2**63), -5, 10**30])
    def test_numbers_no_array_takes(self, seq: int) -> None:
        """A message with an absurd number is not the end of the rules."""
        events = log(prompt(), prompt())
        events[0]["seq"] = seq
        found = check(events, V4)
        assert set(rules(found)) <= {"seq.regressed", "seq.duplicate", "envelope.invalid"}
        assert rules(found)

    def test_an_operation_that_is_no_json(self) -> None:
        """An event that was built by hand may hold anything."""
        built, _ = from_mapping(log(prompt())[0])
        built.surface_op = Raw(b'{"op":')
        checker = make_checker(V4)
        assert rules(checker.observe(built)) == ["surface.replace-range"]

    def test_a_repeated_message_is_on_the_surface_once(self) -> None:
        """A repetition changes nothing about the surface."""
        events = log(*TWO, replacing(0, 1, 0, 1))
        found = check([*events[:2], *events[:2], events[2]], V4)
        assert rules(found) == ["seq.regressed"]

    def test_june_has_no_surface(self) -> None:
        """A June log is not judged by rules of the surface."""
        assert check(log(event("user/message", {"content": []}, surfaceOp=5))) == []
