"""Tests of the rules of the ``reader``: damage, as the reader reports it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

import pytest
import zstandard

from dsh_core.contract.run import Run  # noqa: F401
from dsh_core.events import Contract
from dsh_core.logs.reader import Batch, SessionLog
from tests.checking import (
    answer,
    call,
    chunk,
    event,
    log,
    make_checker,
    one_turn,
    prompt,
    result,
    rules,
    summary,
    violations,
)
from tests.strategies import Event, header_row, to_line, to_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_core.contract.findings import Finding

LOG: Final = log(*one_turn(1, chunk(1, 1)), *one_turn(2, chunk(2, 1)))
LINES: Final = [to_line(event) for event in LOG]


def joined(*lines: bytes) -> bytes:
    """Return lines as one log."""
    return b"".join(line + b"\n" for line in lines)


def with_text(text: bytes) -> bytes:
    """Return a log in which one event has a text, put in as it is."""
    odd = LINES[2].replace(b'"x"', b'"' + text + b'"')
    return joined(*LINES[:2], odd, *LINES[3:])


def packed(dt: bytes) -> bytes:
    """Return a v0 log with a packed row."""
    row = (
        b'{"type":"text-chunks","seq0":2,"time0":1780000000002,"data":{"turn":1,"step":1,'
        b'"index":0,"dt":%s,"texts":["a","b","c"]}}' % dt
    )
    rest = log(*one_turn(1))[2:]
    tail = [{**event, "seq": event["seq"] + 3, "time": event["time"] + 9} for event in rest]
    return to_lines([], header_row(Contract.V0)) + joined(*LINES[:2], row, *map(to_line, tail))


def frames(*parts: bytes) -> bytes:
    """Return each part as a zstd frame of its own."""
    compressor = zstandard.ZstdCompressor(write_checksum=True)
    return b"".join(compressor.compress(part) for part in parts)


DEEP = b"[" * 20_000 + b"]" * 20_000
THREE = frames(joined(*LINES[:5]), joined(*LINES[5:8]), joined(*LINES[8:]))
BROKEN = bytearray(THREE)
BROKEN[len(frames(joined(*LINES[:5]))) + 20] ^= 0xFF


def check_bytes(data: bytes, *, final: bool = False, name: str = "s-1.jsonl") -> list[Finding]:
    """Read and check a log with a limit of 100,000 bytes a line."""
    source = SessionLog(io.BytesIO(data), name, max_line=100_000)
    contract = source.header.contract
    checker = make_checker(contract, header=source.header_row)
    found: list[Finding] = []
    for item in source.read():
        if isinstance(item, Batch):
            found += checker.observe_all(item.events, item.lines)
        else:
            found += checker.observe_fault(item)
    return found + checker.finish(final=final)


class TestConsequences:
    """What follows from damage is no news."""

    @pytest.mark.parametrize("place", range(1, 9))
    @pytest.mark.parametrize("contract", [Contract.SEED, Contract.V0])
    def test_a_lost_event_gives_no_violation(self, place: int, contract: Contract) -> None:
        """Whichever event of a log is lost to damage, only the damage is reported."""
        lines = [*LINES[:place], b"Traceback", *LINES[place + 1 :]]
        data = to_lines([], header_row(contract)) + joined(*lines)
        found = check_bytes(data)
        assert rules(found) == ["line.not-json"]
        assert found[0].line == place + (1 if contract is Contract.SEED else 2)

    def test_it_counts_them(self) -> None:
        """The finding of the damage counts the events that do not fit any more."""
        lines = [LINES[0], b"Traceback", *LINES[2:]]
        found = check_bytes(joined(*lines))
        assert summary(found) == [("line.not-json", 3, None, 3)]

    def test_a_fault_two_turns_later_is_found(self) -> None:
        """From the next turn on everything is judged again."""
        stray = log(chunk(1, 1), first=10)
        found = check_bytes(joined(LINES[0], b"Traceback", *LINES[2:], *map(to_line, stray)))
        assert rules(found) == ["line.not-json", "step.event-outside"]

    def test_damage_that_cost_no_event_explains_nothing(self) -> None:
        """If no number is missing, what does not fit is the session's own fault."""
        stray = {**LOG[2], "data": {"turn": 5, "step": 1}}
        found = check_bytes(joined(*LINES[:2], b"Traceback", to_line(stray), *LINES[3:]))
        assert rules(found) == ["line.not-json", "step.event-outside"]

    def test_a_stretch_of_damaged_lines_is_one_finding(self) -> None:
        """Foreign lines that follow each other have one cause."""
        foreign = [b"Traceback (most recent call last):", b"  File x", b"ValueError"]
        found = check_bytes(joined(*LINES[:5], *foreign, *LINES[5:]))
        assert [(f.rule, f.line, f.count) for f in found] == [("line.not-json", 6, 3)]

    def test_two_stretches_are_two_findings(self) -> None:
        """With events in between there are two causes."""
        found = check_bytes(joined(*LINES[:5], b"x", LINES[5], b"y", *LINES[6:]))
        assert [(f.rule, f.line) for f in found] == [("line.not-json", 6), ("line.not-json", 8)]

    def test_one_fault_line_after_line_is_one_finding(self) -> None:
        """What one writer gets wrong in one way is one cause, though every line is an event."""
        found = check_bytes(joined(*LINES, *[b"{}"] * 1000))
        assert [(f.rule, f.line, f.count) for f in found] == [
            ("envelope.invalid", len(LINES) + 1, 1000)
        ]

    def test_they_keep_first_and_last(self) -> None:
        """The finding says how far the run reaches."""
        odd = [to_line({**event, "time": "x"}) for event in LOG[2:5]]
        found = check_bytes(joined(*LINES[:2], *odd, *LINES[5:]))
        assert [(f.rule, f.line, f.count, f.first_seq, f.last_seq) for f in found] == [
            ("envelope.invalid", 3, 3, 2, 4)
        ]

    def test_two_messages_are_two_findings(self) -> None:
        """What is wrong in different ways has different causes."""
        odd = [to_line({**LOG[2], "time": "x"}), to_line({**LOG[3], "time": True})]
        found = check_bytes(joined(*LINES[:2], *odd, *LINES[4:]))
        assert [(f.rule, f.line) for f in found] == [
            ("envelope.invalid", 3),
            ("envelope.invalid", 4),
        ]


class TestAltered:
    """Bad bytes inside of an event."""

    EVENTS: Final = log(
        event("sandbox/mode", {"mode": "read-only"}),
        *one_turn(1, prompt(), answer(1, 1, "c"), call(1, 1, "c"), result(1, 1, "c")),
        event("plan/mode", {"active": True}),
        *one_turn(2),
    )

    @pytest.mark.parametrize("bad", [b"\x02", b"\xff\xfe", b"\0"], ids=["control", "utf8", "nul"])
    @pytest.mark.parametrize("place", range(len(EVENTS)))
    def test_they_are_one_cause_wherever_they_are(self, place: int, bad: bytes) -> None:
        """Whatever the bytes made of a type, a key or an id, it is explained."""
        lines = [to_line(event) for event in self.EVENTS]
        line = lines[place]
        for at in range(1, len(line), 2):
            odd = [*lines[:place], line[:at] + bad + line[at:], *lines[place + 1 :]]
            found = check_bytes(to_lines([], header_row(Contract.V4)) + joined(*odd))
            assert len(found) == 1, (at, rules(found))

    @pytest.mark.parametrize("bad", [b"\x02", b"\xff\xfe", b"\0"], ids=["control", "utf8", "nul"])
    def test_a_damaged_header_explains_what_is_judged_by_it(self, bad: bytes) -> None:
        """Whose log it is, and whether it is a fork, nobody knows then."""
        told = {"throughSeq": 0, "sessionId": "s-1", "sessionFormatVersion": 4}
        job = {"jobId": "j", "owner": "s-1", "label": "ls", "startedAt": 1}
        events = log(
            *(*one_turn(1), event("session/end-seed", {"inherited": True}), *one_turn(2)),
            event("session-log-deepseek/delivery-accepted", told),
            event("job/registered", job),
        )
        row = {**(header_row(Contract.V4) or {}), "isSeeded": True, "parentSession": "s-0"}
        line, rest = to_line(row), joined(*map(to_line, events))
        for at in range(1, len(line)):
            odd = line[:at] + bad + line[at:] + b"\n" + rest
            found = check_bytes(odd, name="s-1/session.v4.jsonl")
            assert len(found) == 1, (at, rules(found))

    def test_a_bad_text_hides_nothing_else(self) -> None:
        """What a text says opens and closes nothing: later events are judged."""
        stray = {**LOG[3], "data": {"turn": 1, "step": 5}}
        lines = [*LINES[:3], to_line(stray), *LINES[4:]]
        lines[2] = to_line({**LOG[2], "data": {**LOG[2]["data"], "text": "@"}})
        lines[2] = lines[2].replace(b"@", b"\xff")
        assert "step.end-mismatch" in rules(check_bytes(joined(*lines)))

    @pytest.mark.parametrize(
        ("odd", "expected"),
        [
            (lambda row: row.replace(b'"b"', b'"\\ud83d"'), ["text.lone-surrogate"]),
            (lambda row: row.replace(b'"b"', b'"\x01"'), ["line.control-char"]),
            (lambda row: row.replace(b'"b"', b'"\xff"'), ["line.invalid-utf8"]),
            (lambda row: bytes(20) + row, ["line.nul"]),
            (lambda row: row[:-1], ["line.welded"]),
        ],
        ids=["surrogate", "control", "utf8", "nul", "welded"],
    )
    def test_a_packed_row_is_unpacked_all_the_same(
        self, odd: Callable[[bytes], bytes], expected: list[str]
    ) -> None:
        """What can be read of a damaged row is read, so nothing is missing behind it."""
        lines = packed(b"[1,1]").splitlines(keepends=True)
        place = next(n for n, line in enumerate(lines) if b"seq0" in line)
        lines[place] = odd(lines[place])
        found = [f for f in check_bytes(b"".join(lines)) if f.rule != "seed.cut"]
        assert [(f.rule, f.count) for f in found] == [(rule, 1) for rule in expected]


class TestPartial:
    """Events of which only the head could be read."""

    def long(self, event: Event) -> bytes:
        """Return the line of an event with a field that makes it too long."""
        return to_line({**event, "more": "x" * 200_000})

    @pytest.mark.parametrize("place", range(10))
    @pytest.mark.parametrize("contract", [Contract.SEED, Contract.V0, Contract.V4])
    def test_the_head_is_enough_for_turns_and_steps(self, place: int, contract: Contract) -> None:
        """An event whose head was read keeps its place in turn and step."""
        lines = [*LINES[:place], self.long(LOG[place]), *LINES[place + 1 :]]
        if contract is Contract.V4:
            lines = [line.replace(b"assistant/chunk", b"assistant/attempt") for line in lines]
            lines = [line.replace(b'"chunk":', b'"stream":[],"chunk":') for line in lines]
        found = check_bytes(to_lines([], header_row(contract)) + joined(*lines))
        assert rules(found) == ["line.too-long"]
        assert [f.seq for f in found] == [place]

    def test_a_message_whose_content_was_not_read_is_not_judged(self) -> None:
        """Nothing is said of fields that were not read: no answer, no advertised calls."""
        inside = (prompt(), answer(1, 1, "c"), call(1, 1, "c"), result(1, 1, "c"))
        events = log(*one_turn(1, *inside))
        for place in (2, 3, 4, 5):
            lines = [to_line(event) for event in events]
            lines[place] = self.long(events[place])
            if place in (2, 3, 5):
                # The head ends before the message.
                data = {"turn": 1, "step": 1, "more": "x" * 200_000, **events[place]["data"]}
                lines[place] = to_line({**events[place], "data": data})
            found = check_bytes(to_lines([], header_row(Contract.V4)) + joined(*lines))
            assert rules(violations(found)) == []
            assert rules(found) == ["line.too-long"]
