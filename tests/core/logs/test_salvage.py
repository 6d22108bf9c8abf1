"""Tests of reading single lines that are no proper events."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.decode import from_mapping
from dsh_core.logs.salvage import MAX_DEPTH, Salvage, from_head, salvage, too_deep
from tests.strategies import Event, json_values, to_line

A: Event = {"type": "turn/start", "seq": 1, "time": 2, "data": {"turn": 1}}
B: Event = {
    "type": "user/message",
    "seq": 2,
    "time": 3,
    "data": {"content": [{"type": "text", "text": "hi"}, {"type": "text", "text": "ho"}]},
}


def faults(found: Salvage) -> list[tuple[str, bool]]:
    """Return the rules of what is wrong, each with whether an event may be lost."""
    return [(fault.rule, fault.lost) for fault in found.faults]


class TestWhole:
    """Lines with one value."""

    @pytest.mark.parametrize("space", [b"", b" ", b"\r", b"\t", b"\xef\xbb\xbf"])
    def test_space_around_it_is_no_damage(self, space: bytes) -> None:
        """Carriage returns, blanks and byte order marks are no content."""
        found = salvage(space + to_line(A) + space, 1)
        assert (found.values, found.faults) == ([A], [])

    @pytest.mark.parametrize("line", [b"", b" ", b"\r", b"\xef\xbb\xbf \t"])
    def test_blank_lines_are_nothing(self, line: bytes) -> None:
        """A line without content has no value and no fault."""
        found = salvage(line, 1)
        assert (found.values, found.faults) == ([], [])

    @pytest.mark.parametrize("line", [b"5", b'"text"', b"[]", b"null", b"NaN", b"Traceback", b"{"])
    def test_anything_else_is_no_event(self, line: bytes) -> None:
        """JSON that is no object is as good as no JSON."""
        found = salvage(line, 7)
        assert (found.values, faults(found)) == ([], [("line.not-json", True)])
        assert found.faults[0].line == 7
        assert found.unreadable


class TestBytes:
    """Bytes that are no text."""

    @pytest.mark.parametrize("place", [0, 5, -1])
    def test_nuls_are_taken_out(self, place: int) -> None:
        """NUL bytes around or in an event do not cost the event."""
        line = to_line(A)
        at = place % len(line)
        found = salvage(line[:at] + bytes(9) + line[at:], 1)
        inside = place != 0
        assert (found.values, faults(found)) == ([A], [("line.nul", inside)])
        assert found.faults[0].partial == inside
        assert found.faults[0].message.startswith("9 NUL bytes")

    def test_one_byte_is_called_a_byte(self) -> None:
        assert salvage(bytes(1), 1).faults[0].message.startswith("1 NUL byte (")
        assert from_head(b"x", 1, 1).faults[0].message.startswith("1 byte long")

    def test_a_block_of_nuls(self) -> None:
        """A line of NUL bytes alone stands for an event that is gone."""
        found = salvage(bytes(300), 1)
        assert (found.values, faults(found)) == ([], [("line.nul", True)])

    def test_nuls_in_what_is_no_event(self) -> None:
        """If the rest is no JSON, the NUL bytes are the reason: one fault, not two."""
        found = salvage(to_line(A)[:20] + bytes(9), 1)
        assert (found.values, faults(found)) == ([], [("line.nul", True)])

    @pytest.mark.parametrize(
        ("bad", "good", "first"),
        [
            (b"caf\xe9", "caf\ufffd", 0xE9),
            (b"\xe4\xb8", "\ufffd", 0xE4),
            (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd", 0xED),
            (b"\xff\xfe", "\ufffd\ufffd", 0xFF),
            (b"\xc0\xaf", "\ufffd\ufffd", 0xC0),
        ],
        ids=["latin-1", "cut character", "surrogate", "byte order mark", "overlong"],
    )
    def test_invalid_utf8_is_replaced(self, bad: bytes, good: str, first: int) -> None:
        """Bytes that are no UTF-8 become U+FFFD, and the event stays."""
        line = to_line({**A, "data": {"text": "@"}}).replace(b"@", bad)
        found = salvage(line, 1)
        assert [value["data"]["text"] for value in found.values] == [good]
        assert faults(found) == [("line.invalid-utf8", False)]
        assert f"byte 0x{first:02x} at column {line.index(bad) + 1 + bad.index(first)}" in (
            found.faults[0].message
        )

    def test_invalid_utf8_in_what_is_no_event(self) -> None:
        """Noise is one fault, not two."""
        found = salvage(b"\x81\x8d\xff noise", 1)
        assert (found.values, faults(found)) == ([], [("line.invalid-utf8", True)])


class TestControl:
    """Control characters that were not escaped."""

    @pytest.mark.parametrize("char", ["\x07", "\n", "\t", "\x1f", "\r"])
    def test_inside_a_string(self, char: str) -> None:
        """The event is read, and the character named."""
        line = to_line({**A, "data": {"text": "a@b"}}).replace(b"@", char.encode())
        found = salvage(line, 1)
        assert [value["data"]["text"] for value in found.values] == [f"a{char}b"]
        assert faults(found) == [("line.control-char", False)]
        assert f"0x{ord(char):02x}" in found.faults[0].message

    def test_a_string_that_stays_open(self) -> None:
        """A line that ends inside a string may go on in the next one."""
        line = to_line(B)
        found = salvage(line[: line.index(b"hi") + 1], 1)
        assert (found.values, found.unterminated) == ([], True)

    def test_a_line_that_ends_elsewhere_does_not(self) -> None:
        """A line that is cut between tokens cannot go on."""
        assert not salvage(to_line(A)[:-1], 1).unterminated


class TestAltered:
    """Bad bytes that may have made another event of it."""

    @pytest.mark.parametrize("bad", [b"\x02", b"\xff"], ids=["control", "utf8"])
    @pytest.mark.parametrize(
        ("event", "altered"),
        [
            ({**A, "type": "turn/@start"}, True),
            ({**A, "data": {"tu@rn": 1}}, True),
            ({**A, "data": {"ids": ["a", "@"]}}, True),
            ({**A, "data": [{"text": "", "id": "@"}]}, True),
            ({**A, "data": [{"text": "a@b", "id": "a"}]}, False),
            ({**A, "data": {"texts": ["a", "@"]}}, False),
        ],
    )
    def test_only_free_texts_can_be_told(self, event: Event, altered: bool, bad: bytes) -> None:
        """A text is what it is; of a name, a key or an id nobody knows what it was."""
        found = salvage(to_line(event).replace(b"@", bad), 1)
        assert [(f.partial, f.lost) for f in found.faults] == [(True, altered)]


class TestSurrogates:
    """Halves of characters."""

    @pytest.mark.parametrize(
        ("escaped", "read"),
        [
            ("\\ud83d", "\ufffd"),
            ("\\ude00x", "\ufffdx"),
            ("\\ud83d\\ud83d", "\ufffd\ufffd"),
            ("\\ud83d\\ude00", "\U0001f600"),
        ],
    )
    def test_half_characters_are_replaced(self, escaped: str, read: str) -> None:
        """A lone half becomes U+FFFD, a pair is one character."""
        line = to_line({**A, "data": {"t": ["@"], "k@": 1}}).replace(b"@", escaped.encode())
        found = salvage(line, 1)
        assert found.values == [{**A, "data": {"t": [read], f"k{read}": 1}}]
        lone = "\ufffd" in read
        assert faults(found) == ([("text.lone-surrogate", False)] if lone else [])

    def test_deep_inside(self) -> None:
        """Half a character is found as deep as anything is read."""
        depth = MAX_DEPTH - 2
        deep = b"[" * depth + b'"\\ud800"' + b"]" * depth
        found = salvage(b'{"type":"x","seq":1,"time":2,"data":{"d":%s}}' % deep, 1)
        assert faults(found) == [("text.lone-surrogate", False)]
        event, problems = from_mapping(found.values[0])
        assert (event.type, event.seq, problems) == ("x", 1, [])
        assert "\ufffd" in bytes(event.data).decode()


class TestNumbers:
    """Numbers that JSON does not have, or Python does not like."""

    @pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
    def test_constants_of_javascript(self, word: str) -> None:
        """The event is read, with a note for the fault of its envelope."""
        found = salvage(b'{"type":"x","seq":%s}' % word.encode(), 1)
        assert found.values == [{"type": "x", "seq": None}]
        assert found.note == f"{word} is not JSON"

    def test_numbers_out_of_range(self) -> None:
        """Too large a number is infinite, as in JavaScript."""
        (value,) = salvage(b'{"seq":1e400,"time":-1e400}', 1).values
        assert value == {"seq": math.inf, "time": -math.inf}

    def test_numbers_of_absurd_length(self) -> None:
        """Thousands of digits are no reason to lose an event."""
        (value,) = salvage(b'{"seq":' + b"9" * 10_000 + b"}", 1).values
        assert value == {"seq": math.inf}


class TestWelded:
    """Lines that lost a newline."""

    def test_two_events(self) -> None:
        """Both are read."""
        found = salvage(to_line(A) + to_line(B), 1)
        assert (found.values, faults(found)) == ([A, B], [("line.welded", False)])

    def test_many_events(self) -> None:
        """All are read, and it is one fault."""
        found = salvage(b" ".join([to_line(A)] * 5), 1)
        assert (found.values, faults(found)) == ([A] * 5, [("line.welded", False)])

    def test_a_cut_event_and_a_whole_one(self) -> None:
        """Wherever the first was cut, the second is read, and nothing is made up."""
        for cut in range(1, len(to_line(B))):
            found = salvage(to_line(B)[:cut] + to_line(A), 1)
            assert (found.values, faults(found)) == ([A], [("line.welded", True)]), cut

    def test_whole_cut_whole(self) -> None:
        """What is cut in between costs neither neighbour."""
        for cut in range(1, len(to_line(B))):
            found = salvage(to_line(A) + to_line(B)[:cut] + to_line(A), 1)
            assert (found.values, faults(found)) == ([A, A], [("line.welded", True)]), cut

    def test_garbage_in_front(self) -> None:
        """An event behind something else is read."""
        found = salvage(b"warning: disk full" + to_line(A), 1)
        assert (found.values, faults(found)) == ([A], [("line.welded", True)])

    def test_garbage_behind(self) -> None:
        """An event in front of something else is read, and the rest is a fault."""
        found = salvage(to_line(A) + b"Traceback", 1)
        assert (found.values, faults(found)) == ([A], [("line.not-json", True)])

    def test_a_packed_row_is_an_event_as_well(self) -> None:
        """A cut event may be welded to a packed row."""
        row = {"type": "text-chunks", "seq0": 4, "time0": 5, "data": {}}
        found = salvage(to_line(B)[:50] + to_line(row), 1)
        assert (found.values, faults(found)) == ([row], [("line.welded", True)])

    def test_too_many_to_be_true(self) -> None:
        """A line of ten thousand values is read so far, and the rest is a fault."""
        found = salvage(b"{}" * 10_005, 1)
        assert len(found.values) == 10_000
        assert ("line.not-json", True) in faults(found)

    @pytest.mark.parametrize(
        ("size", "rule"), [(MAX_DEPTH // 2, "line.not-json"), (MAX_DEPTH * 3 // 2, "line.too-deep")]
    )
    def test_a_nest_of_beginnings(self, size: int, rule: str) -> None:
        """A line that begins event after event and ends none of them is no endless search."""
        found = salvage(b'{"type":"a","seq":1,"d":[' * size + b"!", 1)
        assert found.values == []
        assert (rule, True) in faults(found)


class TestDeep:
    """Nesting that no decoder follows."""

    DEEP = b"[" * 20_000 + b"]" * 20_000

    def test_the_head_of_the_event_is_read(self) -> None:
        """Type, numbers, coordinates and call survive."""
        line = (
            b'{"type":"tool/result","seq":7,"time":8,"data":{"turn":1,"step":2,"callId":"c\\u0031",'
            b'"content":%s}}' % self.DEEP
        )
        found = salvage(line, 1)
        assert found.values == [
            {
                "type": "tool/result",
                "seq": 7,
                "time": 8,
                "data": {"turn": 1, "step": 2, "callId": "c1"},
            }
        ]
        (fault,) = found.faults
        assert (fault.rule, fault.seq, fault.partial, fault.lost) == (
            "line.too-deep",
            7,
            True,
            False,
        )

    @pytest.mark.parametrize("frames", [0, 300])
    @pytest.mark.parametrize(
        ("data", "deep"),
        [
            (b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, False),
            (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), True),
            (b"\xef\xbb\xbf " + b'{"a":' * (MAX_DEPTH + 1), True),
            (b'{"a":' * (MAX_DEPTH + 1), True),
            (b"[" + b"[]," * 900 + b"[]]", False),
            (b'["' + b'[{\\"' * 900 + b'"]', False),
            (b'["' + b'[{\\"' * 900 + b"\\", False),
            (b"x" + b"[" * 900, False),
        ],
    )
    def test_the_bytes_decide(self, data: bytes, deep: bool, frames: int) -> None:
        """It is brackets outside of strings that count, not what a decoder has left."""

        def at(depth: int) -> tuple[bool, Salvage]:
            return at(depth - 1) if depth else (too_deep(data), salvage(data, 1))

        found, salvaged = at(frames)
        assert found is deep
        assert [fault.rule for fault in salvaged.faults].count("line.too-deep") == deep
        assert not any("recursion" in fault.message for fault in salvaged.faults)

    def test_without_a_head_the_event_is_lost(self) -> None:
        """An event that does not begin like one cannot be told."""
        found = salvage(b'{"data":%s,"type":"x","seq":1,"time":2}' % self.DEEP, 1)
        assert (found.values, faults(found)) == ([], [("line.too-deep", True)])


class TestHead:
    """Lines of which only the head was kept."""

    def test_what_the_head_says(self) -> None:
        """A call keeps its name and id, whatever escapes are in them."""
        head = b'{"type":"tool/call","seq":3,"time":-4,"data":{"turn":5,"step":6,"callId":"a\\"b",'
        found = from_head(head + b'"name":"ba\\tsh","arguments":"{\\"x', 1, 99_000_000)
        assert found.values == [
            {
                "type": "tool/call",
                "seq": 3,
                "time": -4,
                "data": {"turn": 5, "step": 6, "callId": 'a"b', "name": "ba\tsh"},
            }
        ]
        (fault,) = found.faults
        assert (fault.rule, fault.seq, fault.partial) == ("line.too-long", 3, True)
        assert fault.message.startswith("99000000 bytes long")

    @pytest.mark.parametrize(
        "head",
        [
            b"",
            b"\xff\xff",
            b'{"type":"x","time":1,"data":"',
            b'{"type":"x","seq":1,"data":"',
            b'{"type":5,"seq":1,"time":1,"data":"',
            b'{"seq":1,"time":1,"type":"x","data":"',
        ],
    )
    def test_a_head_without_an_envelope(self, head: bytes) -> None:
        """Without type, seq and time in their places, the event is lost."""
        found = from_head(head, 4, 50_000)
        assert (found.values, faults(found)) == ([], [("line.too-long", True)])
        assert found.faults[0].line == 4

    @pytest.mark.parametrize("odd", ["\\ud800", "\\q", "\\u12"])
    def test_odd_escapes(self, odd: str) -> None:
        """A name that is no proper string is taken as it stands, and can be encoded."""
        head = b'{"type":"tool/call","seq":1,"time":1,"data":{"name":"%s"' % odd.encode()
        (value,) = from_head(head, 1, 50_000).values
        value["data"]["name"].encode()

    def test_numbers_that_go_on_and_on(self) -> None:
        """Of an endless number the beginning is enough to see that it is wrong."""
        (value,) = from_head(b'{"type":"x","seq":%s,"time":1' % (b"9" * 9000), 1, 50_000).values
        assert value["seq"] == int("9" * 20)


@given(json_values, st.data())
def test_any_json_is_read(value: Any, data: st.DataObject) -> None:
    """Whatever JSON a line holds, damaged or not, it is read or reported, and nothing raises."""
    text = json.dumps({"type": "x", "seq": 1, "data": value}).encode("utf-8", "surrogatepass")
    found = salvage(text, 1)
    assert len(found.values) == 1
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    noise = data.draw(st.binary(max_size=3))
    found = salvage(text[:start] + noise + text[end:], 1)
    assert found.values or found.faults or not (text[:start] + noise + text[end:]).strip()
