"""Tests of shrinking: the least log that still gives the same first finding."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_core.check import check_session
from dsh_core.contract.findings import Severity
from dsh_core.contract.rules import session as session_rules
from dsh_core.events import Contract
from dsh_core.logs.lines import MAX_LINE
from dsh_core.shrink import (
    InMemory,
    NothingToShrinkError,
    Question,
    Shrunk,
    Stopped,
    shrink,
    source,
)
from dsh_core.shrink.numbers import ALL_WAYS, AS_IT_IS, Known, Way, render
from dsh_core.shrink.rows import Row
from dsh_core.shrink.search import sweep
from tests.checking import (
    answer,
    call,
    chunk,
    event,
    flat_result,
    log,
    one_step,
    one_turn,
    prompt,
    repair,
    replace,
    result,
    step_end,
    step_start,
    turn_end,
    turn_start,
    wrapped_result,
)
from tests.strategies import (
    START,
    Event,
    Events,
    arbitrary_events,
    header_row,
    june_logs,
    legal_logs,
    mutated,
    pack_rows,
    to_lines,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hypothesis.strategies import DataObject

    from dsh_core.contract.findings import Finding
    from tests.checking import Item

WORDS = "my mother's maiden name"
NOTE = event("plan/mode", {"active": True})
"""Something that no other event needs, and that is legal everywhere."""


def in_memory(events: Events, contract: Contract, *, tail: bytes = b"", **header: Any) -> InMemory:
    """A log of a contract's own generation."""
    row = header_row(contract)
    data = to_lines(events, None if row is None else row | header)
    return InMemory("session.jsonl", data=data + tail)


def shrunk(events: Events, generation: Contract = Contract.SEED, **options: Any) -> Shrunk:
    """What is left of a log of a contract's own generation."""
    asked = {name: options.pop(name) for name in ("contract", "wanted", "final") if name in options}
    return shrink(in_memory(events, generation), Question(**asked), **options)


def told(found: Shrunk) -> list[tuple[Any, ...]]:
    """Type, seq and payload of the events that are left, and what else their envelopes have."""
    known = ("type", "seq", "data", "time")
    return [
        (row["type"], row["seq"], row["data"], *(row[key] for key in row if key not in known))
        for row in found.rows
        if row is not None and row["type"] != "session"
    ]


def first(findings: Sequence[Finding]) -> str:
    """The rule of the first finding; advice counts if there is nothing else."""
    serious = [one for one in findings if one.severity is not Severity.ADVICE]
    return (serious or findings)[0].rule


def v4_turn(number: int) -> tuple[Item, ...]:
    """A turn of October with a call."""
    return one_turn(
        number,
        prompt(content=[{"type": "text", "text": WORDS}]),
        answer(number, 1, "c"),
        call(number, 1, "c"),
        result(number, 1, "c"),
    )


def turns(count: int) -> list[Item]:
    """Many turns of October."""
    return [item for number in range(1, count + 1) for item in v4_turn(number)]


class TestWhatIsLeft:
    """The least logs of several faults."""

    def test_of_a_result_without_a_call_its_turn_and_step(self) -> None:
        items = [
            *one_turn(7, chunk(7, 1), call(7, 1, "a"), flat_result(7, 1, "a")),
            turn_start(8),
            *one_step(8, 1, chunk(8, 1), call(8, 1, "a"), flat_result(8, 1, "a")),
            *one_step(8, 2, chunk(8, 2), flat_result(8, 2, "b", words=WORDS), call(8, 2, "c")),
            turn_end(8),
            *one_turn(9, chunk(9, 1)),
        ]
        found = shrunk(log(*items))
        assert told(found) == [
            ("turn/start", 0, {"turn": 1}),
            ("step/start", 1, {"turn": 1, "step": 1}),
            ("tool/result", 2, {"turn": 1, "step": 1, "callId": "b"}),
        ]
        assert (found.finding.rule, found.before, found.after) == (
            "tool.result-without-call",
            len(items),
            3,
        )
        assert (found.finding.seq, found.original.seq) == (2, 15)

    def test_of_an_overlap_deep_in_a_long_log_two_starts(self) -> None:
        items = [*turns(150), turn_start(151), *v4_turn(152), *v4_turn(153)]
        found = shrunk(log(*items), Contract.V4)
        assert told(found) == [("turn/start", 0, {"turn": 1}), ("turn/start", 1, {"turn": 2})]
        assert found.rows[0] == {
            "type": "session",
            "version": 4,
            "id": "s-1",
            "createdAt": START,
            "isSeeded": False,
            "delegationDepth": 0,
        }
        assert found.finding.message == "turn 2 starts while turn 1 is open"
        assert found.checks < 400

    def test_of_a_gap_one_event(self) -> None:
        events = log(*[NOTE] * 60)
        found = shrunk(events[:40] + events[47:], Contract.V0)
        assert [(kind, seq) for kind, seq, _ in told(found)] == [("plan/mode", 1)]
        assert found.finding.message == "seq jumps from -1 to 1: 1 missing"

    def test_of_a_number_that_goes_back_the_event_that_had_it_and_one_between(self) -> None:
        events = log(*[NOTE] * 60)
        found = shrunk(events[:50] + events[30:31] + events[51:], Contract.V0)
        assert [seq for _, seq, _ in told(found)] == [0, 1, 0]
        assert found.finding.rule == "seq.regressed"

    def test_of_a_number_that_is_there_twice_both(self) -> None:
        events = log(*[NOTE] * 60)
        found = shrunk(events[:50] + events[49:], Contract.V0)
        assert [seq for _, seq, _ in told(found)] == [0, 0]

    def test_of_a_wrong_turn_number_the_start(self) -> None:
        found = shrunk(log(*v4_turn(1), *v4_turn(2), *v4_turn(5)), Contract.V4)
        assert told(found) == [("turn/start", 0, {"turn": 2})]

    def test_of_a_wrong_step_number_the_start_in_its_turn(self) -> None:
        steps = [*one_step(3, 1), *one_step(3, 2), *one_step(3, 4)]
        items = [*v4_turn(1), *v4_turn(2), turn_start(3), *steps]
        found = shrunk(log(*items), Contract.V4)
        assert told(found) == [
            ("turn/start", 0, {"turn": 1}),
            ("step/start", 1, {"turn": 1, "step": 2}),
        ]

    def test_of_a_fault_of_the_surface_what_is_cited_under_its_new_number(self) -> None:
        # A result replaces an answer.
        items = [*turns(20), turn_start(21), *one_step(21, 1, answer(21, 1, id="b"))]
        answered = len(items) - 2
        kind, data, _ = result(21, 2, "d")
        wrong = event(
            kind,
            data,
            surfaceOp=replace(answered, answered),
            sourceEventSeqs=[[answered, answered]],
        )
        items += [step_start(21, 2), wrong, step_end(21, 2), turn_end(21), *v4_turn(22)]
        found = shrunk(log(*items), Contract.V4)
        assert found.finding.rule == "surface.tool-result-replace"
        assert [row[:2] for row in told(found)] == [
            ("turn/start", 0),
            ("step/start", 1),
            ("assistant/message", 2),
            ("tool/result", 3),
        ]
        assert told(found)[-1][3:] == (replace(2, 2), [[2, 2]])

    def test_of_a_line_cut_at_the_end_that_line_and_one_event(self) -> None:
        tail = b'{"type":"tool/result","seq":35,"time":1780000000035,"data":{"turn":6,"st'
        found = shrink(in_memory(log(*one_turn(5, chunk(5, 1))), Contract.SEED, tail=tail))
        assert found.finding.rule == "line.torn-tail"
        assert (len(found.lines), found.after) == (2, 1)
        assert not found.data.endswith(b"\n")

    def test_of_bytes_that_are_no_text_the_byte(self) -> None:
        events = log(
            *one_turn(1, flat_result(1, 1, "c", words=f"{WORDS} über {WORDS}")), *one_turn(2)
        )
        data = to_lines(events).replace("ü".encode(), b"\xfc")
        found = shrink(InMemory("s.jsonl", data=data))
        assert found.finding.rule == "line.invalid-utf8"
        head = b'{"type":"tool/result","seq":0,"time":1780000000002,"data":{"turn":1,"step":1'
        assert found.lines == [head + b',"content":[{"text":"\xfc"}]}}\n']

    @pytest.mark.slow
    def test_of_a_line_that_is_too_long_one_that_says_nothing(self) -> None:
        content = [{"type": "text", "text": WORDS + "y" * MAX_LINE}]
        long = event("context/message", {"content": content, "source": {"kind": "user"}})
        found = shrunk(log(NOTE, long, NOTE))
        assert found.finding.rule == "line.too-long"
        assert WORDS.encode() not in found.data
        assert len(found.data) < MAX_LINE + 200
        assert not found.content

    def test_of_a_header_only_what_is_wrong_with_it(self) -> None:
        row = header_row(Contract.V4) or {}
        data = to_lines(log(*turns(3)), row | {"cwd": "not absolute", "parentSession": "p"})
        found = shrink(InMemory("session.v4.jsonl", data=data))
        assert (found.finding.rule, found.after) == ("header.invalid", 1)
        assert found.rows[0] == row | {"cwd": "not absolute"}

    def test_what_nobody_can_leave_out_alone_goes_together(self) -> None:
        """An answer without its call breaks the contract, and so does a call without its result."""
        called = (answer(1, 1, "c"), call(1, 1, "c"), result(1, 1, "c"))
        events = log(turn_start(1), *one_step(1, 1, *called), step_start(1, 2))
        found = shrunk([*events, events[-2]], Contract.V4)
        assert found.finding.rule == "seq.regressed"
        assert [row[0] for row in told(found)] == [
            "turn/start",
            *("step/start", "step/end"),
            *("step/start", "step/end"),
        ]

    def test_what_replaces_still_says_what_it_replaces(self) -> None:
        found = shrunk(log(prompt(), prompt(), prompt(replace(7, 9))), Contract.V4)
        assert found.finding.rule == "surface.replace-range"
        assert [row[3:] for row in told(found)] == [(replace(1, 1),)]

    def test_a_generation_that_only_a_damaged_header_tells_stays(self) -> None:
        header = b'{"type":"session","version":4,"id":"s-1","createdAt":17\n'
        data = header + to_lines(log(*turns(2), turn_start(3), turn_start(4)))
        question = Question(wanted=frozenset({"turn.overlap"}))
        found = shrink(InMemory("s.jsonl", data=data), question)
        assert check_session(InMemory("s.jsonl", data=found.data)).format == "v4"
        assert [row and row["type"] for row in found.rows] == [None, "turn/start", "turn/start"]

    def test_a_packed_row_is_taken_apart(self) -> None:
        events = log(*one_turn(1, *[chunk(1, 1)] * 5), *[chunk(4, 2)] * 8)
        rows = pack_rows(events)
        assert rows[-1]["type"] == "text-chunks"
        found = shrunk(rows, Contract.V0)
        assert [row[:2] for row in told(found)] == [("assistant/chunk", 0)]
        assert (found.before, found.after) == (len(events), 1)

    def test_a_packed_row_that_is_wrong_itself_stays_one(self) -> None:
        rows = pack_rows(log(*one_turn(1, *[chunk(1, 1)] * 5), *one_turn(2)))
        rows[2]["data"]["dt"].pop()
        found = shrunk(rows, Contract.V0)
        assert found.finding.rule == "line.row-malformed"
        assert [row["type"] for row in found.rows if row] == ["session", "text-chunks"]

    def test_of_what_only_the_end_tells_what_is_open(self) -> None:
        events = log(*one_turn(1), *one_turn(2), turn_start(3), step_start(3, 1))
        with pytest.raises(NothingToShrinkError, match="the log has no finding"):
            shrunk(events)
        found = shrunk(events, final=True)
        assert told(found) == [("turn/start", 0, {"turn": 1})]
        assert found.finding.rule == "turn.unclosed"

    def test_a_compressed_log_becomes_a_plain_one(self) -> None:
        plain = in_memory(log(*v4_turn(1), turn_start(2), *v4_turn(3)), Contract.V4)
        packed = zstandard.compress(plain.data[:500]) + zstandard.compress(plain.data[500:])
        assert shrink(InMemory("session.v4.jsonl.zstd", data=packed)) == shrink(
            InMemory("session.v4.jsonl", data=plain.data)
        )

    def test_of_a_file_that_is_broken_what_can_be_read_of_it(self) -> None:
        """Half a line in front of the broken frame is no fault of its own."""
        data = to_lines(log(*one_turn(1), turn_start(2), turn_start(3), *one_turn(4)))
        place = data.index(b"\n", 200) + 1
        frames = (
            zstandard.compress(data[:place] + b'{"type":"turn/st'),
            zstandard.compress(data[place:]),
        )
        broken = InMemory("s.jsonl.zstd", data=bytes(20).join(frames))
        assert check_session(broken).findings[0].rule == "line.frame-corrupt"
        found = shrink(broken, Question(wanted=frozenset({"turn.overlap", "line.not-json"})))
        assert told(found) == [("turn/start", 0, {"turn": 1}), ("turn/start", 1, {"turn": 2})]


class TestNumbers:
    """Numbering anew, and what refers to numbers."""

    @staticmethod
    def numbered(rows: Sequence[Event], ways: tuple[Way, Way], known: Events) -> Events:
        """Some rows of a log, numbered anew."""
        log_rows, some = ([Row(json.dumps(row).encode()) for row in part] for part in (known, rows))
        lines = render(None, some, ways, Known(log_rows))
        return [msgspec.json.decode(line) for line in lines]

    def test_everything_that_names_an_event_follows_it(self) -> None:
        citing = [
            event("user/message", {}, sourceEventSeqs=[1, 3, [4, 6]], surfaceOp=replace(3, 5)),
            event("user/message", {}, surfaceOp={"op": "replace", "start": 5, "end": 8}),
            event("session/title", {"messageSeqs": [2, 3, 8]}),
            event(
                "compaction/prune",
                {"shadowedSeqs": [3, 4, 5], "shadowedRange": {"start": 3, "end": 5}},
            ),
            event("developer/message", {"headerSeq": 5}),
            event("session-log-deepseek/delivery-accepted", {"throughSeq": 9}),
            event("command/done", {"sourceEventSeq": 8}),
            event("image/offload", {"targets": [{"seq": 8, "imageIndexes": [0]}, {"seq": "x"}]}),
        ]
        events = log(*[NOTE] * 10, *citing)
        kept = [one for one in events if one["seq"] in {3, 5, 8} or one["seq"] >= 10]
        new = self.numbered(kept, (Way.DENSE, Way.KEPT), events)
        assert [one["seq"] for one in new] == list(range(11))
        assert [one.get("sourceEventSeqs") for one in new[3:5]] == [[0, [1, 1]], None]
        assert [one.get("surfaceOp") for one in new[3:5]] == [
            replace(0, 1),
            {"op": "replace", "start": 1, "end": 2},
        ]
        assert [one["data"] for one in new[5:]] == [
            {"messageSeqs": [0, 2]},
            {"shadowedSeqs": [0, 1], "shadowedRange": {"start": 0, "end": 1}},
            {"headerSeq": 1},
            {"throughSeq": 2},
            {"sourceEventSeq": 2},
            {"targets": [{"seq": 2, "imageIndexes": [0]}, {"seq": "x"}]},
        ]

    def test_a_citation_of_what_is_gone_goes_too_but_for_one_that_came_too_early(self) -> None:
        events = log(NOTE, NOTE, event("user/message", {}, sourceEventSeqs=[0, 5, [0, 1]]))
        (new,) = self.numbered(events[2:], (Way.DENSE, Way.KEPT), events)
        assert new["sourceEventSeqs"] == [1]
        events = log(NOTE, NOTE, event("user/message", {}, sourceEventSeqs=[0, [0, 1]]))
        (new,) = self.numbered(events[2:], (Way.DENSE, Way.KEPT), events)
        assert "sourceEventSeqs" not in new

    def test_the_length_of_an_inherited_part_follows(self) -> None:
        header = Row(b'{"type":"session","version":0,"seedLength":4}\n')
        events = log(*[NOTE] * 8)
        rows = [Row(json.dumps(one).encode()) for one in events]
        line, *_ = render(header, rows[2:3] + rows[5:], (Way.DENSE, Way.DENSE), Known(rows))
        assert msgspec.json.decode(line)["seedLength"] == 1

    @pytest.mark.parametrize(
        ("way", "seqs"),
        [
            (Way.DENSE, [0, 1, 2, 3, 4]),
            (Way.RANKS, [0, 1, 2, 1, 3]),
            (Way.GAPS, [0, 1, 3, 1, 4]),
            (Way.KEPT, [2, 4, 9, 4, 10]),
        ],
    )
    def test_ways_to_number_events(self, way: Way, seqs: list[int]) -> None:
        numbers = [0, 1, 2, 3, 4, 8, 9, 4, 10]
        events = [{**one, "seq": seq} for one, seq in zip(log(*[NOTE] * 9), numbers, strict=True)]
        kept = [events[2], events[4], *events[6:]]
        new = self.numbered(kept, (way, Way.KEPT), events)
        assert [one["seq"] for one in new] == seqs

    @pytest.mark.parametrize(
        ("way", "places"),
        [
            (Way.DENSE, [(1, None), (1, 1), (3, 1), (2, None)]),
            (Way.RANKS, [(1, None), (1, 1), (2, 1), (3, None)]),
            (Way.GAPS, [(2, None), (2, 2), (4, 2), (5, None)]),
            (Way.KEPT, [(3, None), (3, 4), (5, 2), (6, None)]),
        ],
    )
    def test_ways_to_number_turns_and_steps(
        self, way: Way, places: list[tuple[int, int | None]]
    ) -> None:
        whole = log(turn_start(3), step_start(3, 4), chunk(5, 2), turn_start(6))
        new = self.numbered(whole, (Way.KEPT, way), whole)
        assert [(one["data"]["turn"], one["data"].get("step")) for one in new] == places

    def test_numbers_of_unknown_shape_stay(self) -> None:
        odd: Events = [
            {"type": "turn/start", "seq": "1", "time": 1, "data": {"turn": None}},
            {"type": "step/start", "seq": None, "time": 1, "data": {"turn": -1, "step": True}},
            {"type": 5, "seq": 1.5, "time": 1, "data": [3], "sourceEventSeqs": {"a": 1}},
            {"type": "x", "data": 7, "surfaceOp": [1], "sourceEventSeqs": [[5, 3], "a", [1], None]},
        ]
        for ways in ALL_WAYS:
            assert self.numbered(odd, ways, odd) == odd

    def test_an_event_is_numbered_in_a_line_that_is_no_json(self) -> None:
        line = (
            b'{"type":"tool/call","seq":40,"time":1,"data":{"turn":7,"step":3,"callId":"\xff"}}\n'
        )
        (new,) = render(None, [Row(line)], (Way.DENSE, Way.DENSE), Known([]))
        assert new == line.replace(b"40", b"0").replace(b"7", b"1").replace(b"3", b"1")

    def test_lines_that_need_no_new_number_stay_as_they_are(self) -> None:
        line = b'{ "type": "turn/start", "data": {"turn": 1}, "time": 1, "seq": 0 }\r\n'
        assert render(None, [Row(line)], (Way.DENSE, Way.DENSE), Known([])) == [line]


class TestContent:
    """What people and models wrote."""

    @staticmethod
    def texts(lines: Sequence[bytes]) -> set[str]:
        """All texts but types."""
        found: set[str] = set()

        def look(value: Any) -> None:
            if isinstance(value, str):
                found.add(value)
            elif isinstance(value, dict):
                for key, item in value.items():
                    if key != "type":
                        look(item)
            elif isinstance(value, list):
                for item in value:
                    look(item)

        for line in lines:
            look(msgspec.json.decode(line))
        return found

    def test_what_the_finding_does_not_need_is_gone(self) -> None:
        wrong = one_turn(1, prompt(), answer(1, 1, "c"), result(1, 1, "c"), call(1, 1, "c"))
        events = log(*wrong)
        text = json.dumps(events).replace("done", WORDS).replace("hm", WORDS)
        found = shrunk(json.loads(text), Contract.V4)
        assert WORDS.encode() not in found.data
        assert not found.content
        assert max(map(len, self.texts(found.lines)), default=0) <= 16

    def test_ids_stay_equal_under_a_shorter_name(self) -> None:
        id_ = "call_00_5f0b1c1e-77aa-4d4e-8d77-0c8a5c7f6a55"
        call_twice = (call(1, 1, id_), flat_result(1, 1, id_), flat_result(1, 1, id_))
        found = shrunk(log(*one_turn(1, *call_twice)))
        assert found.finding.rule == "tool.result-duplicate"
        ids = [row["data"]["callId"] for row in found.rows if row and "callId" in row["data"]]
        assert ids == ["x1"] * 3

    def test_different_ids_stay_different(self) -> None:
        one, two = "call_00_0000000000000000", "call_00_1111111111111111"
        found = shrunk(log(*one_turn(1, call(1, 1, one), flat_result(1, 1, two))))
        assert found.finding.rule == "tool.result-without-call"
        assert one not in found.data.decode()
        assert two not in found.data.decode()

    def test_an_id_inside_of_another_one_goes_with_it(self) -> None:
        """A repair's id contains the call's, and it is one only then."""
        id_ = "call_00_5f0b1c1e77aa4d4e"
        repaired = (answer(1, 1, id_), repair(1, 1, id_), result(1, 1, id_))
        found = shrunk(log(*one_turn(1, *repaired)), Contract.V4)
        assert found.finding.rule == "tool.result-duplicate"
        assert id_.encode() not in found.data
        assert b'"interrupted-tool-result-x' in found.data

    def test_no_fault_comes_in_when_something_is_left_out(self) -> None:
        header = (header_row(Contract.V4) or {}) | {"origin": "elsewhere"}
        data = to_lines(log(prompt()), header)
        found = shrink(InMemory("session.v4.jsonl", data=data))
        assert [one.rule for one in found.findings] == ["header.invalid"]
        assert told(found)[0][2].keys() >= {"id", "role", "source"}

    def test_a_text_that_the_finding_needs_stays(self) -> None:
        unknown = event("agent/an-event-nobody-knows", {"text": WORDS})
        found = shrunk(log(NOTE, unknown), Contract.V4)
        assert found.finding.rule == "event.unknown-required"
        assert told(found) == [("x1", 0, {})]
        preset = event("approval/policy", {"policy": "never-ever-under-any-circumstances"})
        found = shrunk(log(preset), Contract.V4)
        assert told(found) == [("approval/policy", 0, {"policy": "x1"})]
        id_ = "interrupted-tool-result-c-7"
        repaired = (answer(1, 1, "c"), repair(1, 1, "c"), result(1, 1, "c"))
        found = shrunk(log(*one_turn(1, *repaired)), Contract.V4)
        assert found.finding.rule == "tool.result-duplicate"
        assert id_.encode()[:-1] in found.data

    def test_arguments_stay_json_and_paths_stay_paths(self) -> None:
        arguments = json.dumps({"path": f"/home/{WORDS}"})
        storm = [
            item
            for step in range(1, 4)
            for item in one_step(
                1,
                step,
                call(1, step, "c", arguments=arguments),
                flat_result(1, step, "c", "ENOENT"),
            )
        ]
        found = shrunk(log(turn_start(1), *storm, turn_end(1)))
        assert found.finding.rule == "tool.retry-storm"
        calls = [row for row in found.rows if row and row["type"] == "tool/call"]
        assert [row["data"]["arguments"] for row in calls] == ['{"x":1}'] * 3
        data = to_lines(log(turn_start(1), turn_start(2)), {"type": "session", "cwd": "/w" * 30})
        kept = shrink(InMemory("session.v4.jsonl", data=data)).rows[0]
        assert kept == {"type": "session"}

    def test_keep_content_leaves_events_as_they_are(self) -> None:
        events = log(*one_turn(4, flat_result(4, 1, "c", words=WORDS)))
        found = shrunk(events, keep_content=True)
        moved = {**events[2], "data": {**events[2]["data"], "turn": 1}}
        assert found.rows[-1] == moved
        assert found.content

    def test_the_finding_keeps_saying_what_is_wrong(self) -> None:
        """Else a payload that is broken on the way would stand for another fault of the rule."""
        wrong = event("user/message", {"role": "tool"}, surfaceOp="append")
        found = shrunk(log(prompt(), wrong, prompt()), Contract.V4)
        assert found.finding.message == "role is not 'user'"
        assert found.rows[-1] is not None
        assert found.rows[-1]["data"] == {"role": "tool"}

    def test_coordinates_stay(self) -> None:
        found = shrunk(log(turn_start(1), turn_start(2)))
        assert [data for _, _, data in told(found)] == [{"turn": 1}, {"turn": 2}]

    def test_half_characters_and_numbers_of_python_are_kept_where_they_are_needed(self) -> None:
        half = b'{"type":"plan/mode","seq":1,"time":1780000000001,"data":{"a":"\\ud83d","b":2}}\n'
        found = shrink(InMemory("s.jsonl", data=to_lines(log(NOTE)) + half))
        assert found.finding.rule == "text.lone-surrogate"
        assert found.lines == [
            b'{"type":"plan/mode","seq":0,"time":1780000000001,"data":{"a":"\\ud83d"}}\n'
        ]
        nan = b'{"type":"plan/mode","seq":1,"time":1780000000001,"data":{"a":NaN,"b":2}}\n'
        found = shrink(InMemory("s.jsonl", data=to_lines(log(NOTE)) + nan))
        assert found.lines == [
            b'{"type":"plan/mode","seq":0,"time":1780000000001,"data":{"a":NaN}}\n'
        ]


class TestChoice:
    """Which finding is kept."""

    ITEMS = (
        *one_turn(1, call(1, 1, "a", arguments="{"), flat_result(1, 1, "a")),
        *one_turn(2, flat_result(2, 1, "b")),
        turn_start(3),
        *one_turn(4),
    )

    def test_the_first_that_is_no_advice(self) -> None:
        assert shrunk(log(*self.ITEMS)).finding.rule == "tool.result-without-call"

    def test_advice_if_there_is_nothing_else(self) -> None:
        found = shrunk(log(*self.ITEMS[:6]))
        assert found.finding.rule == "tool.arguments-invalid-json"
        assert [one.severity for one in found.findings] == [Severity.ADVICE]

    @pytest.mark.parametrize("rule", ["tool.arguments-invalid-json", "turn.overlap"])
    def test_the_first_of_the_rules_that_are_asked_for(self, rule: str) -> None:
        found = shrunk(log(*self.ITEMS), wanted=frozenset({rule, "turn.end-mismatch"}))
        assert [one.rule for one in found.findings] == [rule]

    def test_with_the_contract_that_is_asked_for(self) -> None:
        found = shrunk(log(*self.ITEMS), contract=Contract.V0)
        assert (found.finding.rule, found.question.contract) == (
            "tool.result-without-call",
            Contract.V0,
        )
        found = shrunk(log(*one_turn(0)), contract=Contract.V0)
        assert told(found) == [("turn/start", 0, {"turn": 0})]

    def test_a_generation_that_only_the_name_tells_stays(self, tmp_path: Path) -> None:
        path = tmp_path / "session.v4.jsonl"
        path.write_bytes(to_lines(log(*turns(2))))
        found = shrink(str(path))
        assert (found.name, found.finding.rule, found.after) == (
            "session.v4.jsonl",
            "header.invalid",
            1,
        )


class TestRefusal:
    """What cannot be shrunk."""

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (to_lines(log(*one_turn(1))), "the log has no finding: there is nothing"),
            (b"", "the log is empty"),
            (b"\xff\xff\n", "no event can be read"),
            (b'{"type":"session","version":9}\n', "is newer than this release"),
            (b'{"resourceSpans":[]}\n', "an OTLP file, not a session log"),
        ],
    )
    def test_nothing_to_shrink(self, data: bytes, reason: str) -> None:
        with pytest.raises(NothingToShrinkError, match=reason):
            shrink(InMemory("s.jsonl", data=data))

    def test_no_finding_of_a_rule(self) -> None:
        events = log(turn_start(1), turn_start(2))
        with pytest.raises(NothingToShrinkError, match=r"no finding of step\.overlap"):
            shrunk(events, wanted=frozenset({"step.overlap"}))
        with pytest.raises(NothingToShrinkError, match="no finding of these 2 rules"):
            shrunk(events, wanted=frozenset({"step.overlap", "step.number"}))

    def test_what_is_about_the_compression(self) -> None:
        frames = [zstandard.compress(to_lines(log(*one_turn(1)))) for _ in range(2)]
        broken = frames[0] + frames[1][:-3] + b"\xff" + frames[0]
        reason = "line.frame-corrupt comes from the file as a whole"
        with pytest.raises(NothingToShrinkError, match=reason):
            shrink(InMemory("s.jsonl.zstd", data=broken))

    def test_a_log_that_is_not_there(self) -> None:
        with pytest.raises(FileNotFoundError):
            shrink("nowhere.jsonl")

    def test_too_many_events(self, tmp_path: Path) -> None:
        path = tmp_path / "s.jsonl"
        events = log(*one_turn(1), turn_start(2), turn_start(3))
        path.write_bytes(to_lines(events))
        assert shrink(str(path), max_events=len(events)).before == len(events)
        for most in (1, len(events) - 1):
            with pytest.raises(NothingToShrinkError, match=f"more than {most:,} events"):
                shrink(str(path), max_events=most)

    def test_too_many_bytes_even_if_they_are_few_compressed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(source, "MAX_BYTES", 1 << 20)
        plain, packed = tmp_path / "plain.jsonl", tmp_path / "packed.jsonl.zstd"
        plain.write_bytes(b" " * (1 << 21))
        packed.write_bytes(zstandard.compress(b" " * (1 << 21)))
        for path in (plain, packed):
            with pytest.raises(NothingToShrinkError, match="larger than 1 MiB"):
                shrink(str(path))


class TestBounds:
    """Searches that end early."""

    EVENTS = log(*turns(6), turn_start(7), *v4_turn(8))

    def test_after_as_many_checks_as_are_allowed(self) -> None:
        found = shrunk(self.EVENTS, Contract.V4, max_checks=3)
        assert (found.stopped, found.finding.rule) == (Stopped.CHECKS, "turn.overlap")
        assert 2 < found.after < len(self.EVENTS)

    def test_all_checks_count(self) -> None:
        """Those too that it takes to cut what comes behind the finding."""
        most = []
        for allowed in (4, 5, 6):
            found = shrunk(self.EVENTS, Contract.V4, max_checks=allowed, keep_content=True)
            most.append(found.checks)
        assert most == [4, 5, 6]

    def test_when_interrupted(self) -> None:
        def impatient(checks: int, _lines: int) -> None:
            if checks == 3:
                raise KeyboardInterrupt

        found = shrunk(self.EVENTS, Contract.V4, progress=impatient)
        assert (found.stopped, found.finding.rule) == (Stopped.INTERRUPTED, "turn.overlap")
        assert 2 < found.after < len(self.EVENTS)

    @pytest.mark.parametrize("keep", [True, False])
    def test_texts_are_replaced_in_any_hurry(self, keep: bool) -> None:
        items = [*v4_turn(1), turn_start(2), prompt(content=[{"type": "text", "text": WORDS}])]
        events = log(*items, turn_start(3))
        found = shrunk(events, Contract.V4, max_checks=1, keep_content=keep)
        assert found.stopped is Stopped.CHECKS
        assert (WORDS.encode() in found.data) is keep
        assert found.content is keep

    def test_who_interrupts_twice_is_told_that_texts_may_be_left(self) -> None:
        def impatient(checks: int, _lines: int) -> None:
            if checks >= 2:
                raise KeyboardInterrupt

        found = shrunk(self.EVENTS, Contract.V4, progress=impatient)
        assert (found.stopped, found.content) == (Stopped.INTERRUPTED, True)
        assert found.finding.rule == "turn.overlap"

    def test_an_interruption_before_anything_is_found_goes_on(self) -> None:
        def impatient(_checks: int, _lines: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            shrunk(self.EVENTS, Contract.V4, progress=impatient)

    def test_a_long_log_takes_few_checks_of_all_of_it(self) -> None:
        """What comes behind the finding goes first, then what comes long before."""
        events = log(*turns(400), turn_start(401), *v4_turn(402), *v4_turn(403))
        sizes: list[int] = []
        shrunk(events, Contract.V4, progress=lambda _checks, lines: sizes.append(lines))
        assert sum(size > 100 for size in sizes) == 1


class TestOurErrors:
    """A rule that fails."""

    def test_nothing_can_be_said_then(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(self: session_rules.Rules, event: object, line: int) -> None:
            raise ValueError

        monkeypatch.setattr(session_rules.Rules, "fail", fail, raising=False)
        monkeypatch.setattr(
            session_rules.Rules,
            "handlers",
            lambda self: {"turn/end": vars(type(self))["fail"].__get__(self)},
        )
        with pytest.raises(NothingToShrinkError, match="the rules of session failed"):
            shrunk(log(*one_turn(1, call(1, 1, ""))))


class TestSweep:
    """Leaving out as many units as can be."""

    @given(st.sets(st.integers(0, 30)), st.integers(0, 31))
    @settings(max_examples=40)
    def test_it_finds_what_is_needed(self, needed: set[int], size: int) -> None:
        tests: list[Sequence[int]] = []

        def enough(units: Sequence[int]) -> bool:
            tests.append(units)
            return needed <= set(units)

        assert sweep(range(31), enough, size) == sorted(needed)
        assert len(tests) < 400

    def test_it_looks_again_once_others_are_gone(self) -> None:
        def enough(units: Sequence[int]) -> bool:
            return 1 in units or 0 not in units

        assert list(sweep([0, 1], enough)) == []
        assert list(sweep([0, 1], enough, again=False)) == [1]

    def test_one_unit_of_many_takes_few_tests(self) -> None:
        tests = 0

        def enough(units: Sequence[int]) -> bool:
            nonlocal tests
            tests += 1
            return 77_777 in units

        assert list(sweep(range(100_000), enough)) == [77_777]
        assert tests < 60


def lines_of(events: Events, header: Event | None) -> bytes:
    """Encode a log as Python does, so that nothing is too odd for it."""
    rows = events if header is None else [header, *events]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def assert_least(data: bytes) -> None:
    """Shrink a log, and check what is promised of the result."""
    before = check_session(InMemory("session.jsonl", data=data))
    try:
        found = shrink(InMemory("session.jsonl", data=data))
    except NothingToShrinkError:
        assert before.reason or not before.findings
        return
    after = check_session(InMemory(found.name, data=found.data))
    assert (after.format, after.contract) == (before.format, before.contract)
    assert first(after.findings) == first(before.findings) == found.finding.rule
    assert after.events == found.after <= found.before == before.events
    rows = [Row(line) for line in found.lines]
    header = rows.pop(0) if before.format != "seed" else None
    for k in range(len(rows)):
        fewer = rows[:k] + rows[k + 1 :]
        for ways in {(Way.DENSE, Way.DENSE), AS_IT_IS}:
            lines = render(header, fewer, ways, Known(rows))
            report = check_session(InMemory(found.name, data=b"".join(lines)))
            same = not report.reason and report.format == before.format
            same = same and bool(report.findings) and first(report.findings) == found.finding.rule
            assert not same, f"line {k} of {found.lines} can be left out"


class TestProperties:
    """What holds for any log."""

    @given(st.data(), st.sampled_from(Contract))
    @settings(max_examples=12)
    def test_a_broken_log_shrinks_to_the_same_finding_and_no_event_can_be_left_out(
        self, data: DataObject, contract: Contract
    ) -> None:
        assert_least(lines_of(data.draw(mutated(legal_logs(contract))), header_row(contract)))

    @given(arbitrary_events(), st.sampled_from(Contract))
    @settings(max_examples=12)
    def test_nonsense_does_too(self, events: Events, contract: Contract) -> None:
        assert_least(lines_of(events, header_row(contract)))

    @given(st.data(), st.binary(max_size=3), st.floats(0, 1))
    @settings(max_examples=8)
    def test_so_does_damage(self, data: DataObject, extra: bytes, where: float) -> None:
        whole = to_lines(data.draw(june_logs(1)))
        place = int(where * len(whole))
        assert_least(whole[:place] + extra + whole[place + 1 :])


@pytest.mark.parametrize(
    ("make", "generation"),
    [(flat_result, Contract.SEED), (wrapped_result, Contract.V0), (result, Contract.V4)],
)
def test_results_of_all_generations_are_shrunk(
    make: Callable[..., Item], generation: Contract
) -> None:
    found = shrunk(log(*one_turn(1), turn_start(2), *one_step(2, 1, make(2, 1, "c"))), generation)
    assert found.finding.rule.startswith("tool.")
    assert [row[0] for row in told(found)] == ["turn/start", "step/start", "tool/result"]
