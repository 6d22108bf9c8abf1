"""Tests of reading whole logs, in whatever state they are."""

from __future__ import annotations

import gzip
import io
import json
import random
from typing import TYPE_CHECKING, Any, Final

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_core.decode import from_mapping
from dsh_core.events import UNREADABLE, Contract, SessionEvent, UnknownEvent
from dsh_core.logs.reader import Batch, SessionLog, UnsupportedFormatError
from tests.checking import chunk, event, log, one_turn
from tests.strategies import (
    START,
    Event,
    Events,
    arbitrary_events,
    header_row,
    legal_logs,
    mutated,
    pack_rows,
    to_line,
    to_lines,
)

if TYPE_CHECKING:
    from dsh_core.faults import Fault

LOG: Final = log(
    event("user/message", {"content": [{"type": "text", "text": "größe 日本 🙂"}]}),
    *one_turn(1, chunk(1, 1)),
    *one_turn(2, chunk(2, 1)),
)
LINES: Final = [to_line(source) for source in LOG]
DATA: Final = b"".join(line + b"\n" for line in LINES)
HEADER: Final = to_line(header_row(Contract.V4) or {})
COUNT: Final = len(LINES)


def zstd(*parts: bytes) -> bytes:
    """Return each part as a zstd frame of its own, as the runtime writes them."""
    compressor = zstandard.ZstdCompressor(write_checksum=True, write_content_size=False)
    return b"".join(compressor.compress(part) for part in parts)


def joined(*lines: bytes) -> bytes:
    """Return lines as one log."""
    return b"".join(line + b"\n" for line in lines)


class Result:
    """What was read of a log."""

    def __init__(self, data: bytes, name: str = "s.jsonl", max_line: int = 100_000) -> None:
        self.log = SessionLog(io.BytesIO(data), name, max_line)
        self.events: list[SessionEvent] = []
        self.lines: list[int] = []
        self.faults: list[Fault] = []
        for item in self.log.read():
            if isinstance(item, Batch):
                assert len(item.events) == len(item.lines) > 0
                self.events += item.events
                self.lines += item.lines
            else:
                self.faults.append(item)

    @property
    def seqs(self) -> list[int]:
        """Numbers of the events."""
        return [one.seq for one in self.events]

    @property
    def rules(self) -> list[tuple[str, int]]:
        """Rules and lines of the faults."""
        return [(fault.rule, fault.line) for fault in self.faults]


def read(data: bytes, name: str = "s.jsonl", max_line: int = 100_000) -> Result:
    """Read a log."""
    return Result(data, name, max_line)


class TestWhole:
    """Logs without damage."""

    def test_events_and_lines(self) -> None:
        """Every line is an event, and known by its number."""
        found = read(DATA)
        assert found.seqs == list(range(COUNT))
        assert found.lines == list(range(1, COUNT + 1))
        assert found.faults == []
        assert [one.type for one in found.events] == [source["type"] for source in LOG]

    @pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n\n", b"\n \n"])
    def test_ends_of_all_kinds(self, end: bytes) -> None:
        """The last event counts with or without a newline, and with blank lines behind it."""
        found = read(DATA[:-1] + end)
        assert (found.seqs, found.faults) == (list(range(COUNT)), [])

    def test_windows_lines(self) -> None:
        """Lines may end like those of Windows, behind a byte order mark."""
        found = read(b"\xef\xbb\xbf" + DATA.replace(b"\n", b"\r\n"))
        assert (found.seqs, found.faults) == (list(range(COUNT)), [])
        assert found.lines == list(range(1, COUNT + 1))

    @pytest.mark.parametrize("blank", [b"", b" ", b"\r"])
    def test_blank_lines(self, blank: bytes) -> None:
        """Blank lines are counted and nothing else."""
        found = read(joined(LINES[0], blank, LINES[1], blank, blank, LINES[2]))
        assert (found.seqs, found.faults) == ([0, 1, 2], [])
        assert found.lines == [1, 3, 6]

    def test_zstd(self) -> None:
        """Frames make no difference to events and lines."""
        found = read(zstd(*(line + b"\n" for line in LINES)))
        assert (found.seqs, found.faults) == (list(range(COUNT)), [])
        assert found.lines == list(range(1, COUNT + 1))

    def test_lines_over_frames(self) -> None:
        """A line may begin in one frame and end in the next."""
        found = read(zstd(DATA[:150], DATA[150:151], DATA[151:]))
        assert (found.seqs, found.faults) == (list(range(COUNT)), [])

    @pytest.mark.parametrize("data", [b"", b"\n", b" \n\n", zstd(b""), b"\xef\xbb\xbf"])
    def test_empty_logs(self, data: bytes) -> None:
        """A log may hold nothing."""
        found = read(data)
        assert (found.events, found.faults) == ([], [])

    def test_iterating(self) -> None:
        """Whoever does not care about damage gets the events alone."""
        source = SessionLog(io.BytesIO(joined(LINES[0], b"x", LINES[1])), "s.jsonl")
        assert [one.seq for one in source] == [0, 1]


class TestHeader:
    """The first row of a log."""

    def test_it_is_no_event(self) -> None:
        """Events begin on line 2."""
        found = read(HEADER + b"\n" + DATA)
        assert found.lines == list(range(2, COUNT + 2))
        assert found.log.header_row == header_row(Contract.V4)
        assert found.log.header_line == 1
        header = found.log.header
        assert (header.id, header.version, header.created_at) == ("s-1", 4, START)
        assert (header.cwd, header.is_seeded, header.format) == ("/w", False, "v4")
        assert header.contract is Contract.V4

    def test_without_one_it_is_a_june_log(self) -> None:
        """The session is named by the file."""
        header = read(DATA, "/logs/agent-1-session.jsonl").log.header
        assert (header.id, header.version, header.format) == ("agent-1-session", None, "seed")
        assert header.contract is Contract.SEED

    @pytest.mark.parametrize(
        ("name", "session", "version"),
        [
            ("/h/sessions/p/s-7/session.v4.jsonl.zstd", "s-7", 4),
            ("/h/sessions/p/s-7/session.v3.jsonl", "s-7", 3),
            ("/h/sessions/p/s-7/session.jsonl.zstd", "s-7", None),
            ("session.v4.jsonl", "session.v4.jsonl", 4),
            ("my.log.jsonl.zst", "my.log", None),
        ],
    )
    def test_a_missing_header(self, name: str, session: str, version: int | None) -> None:
        """The name of the file says which session and generation it is, if it says so."""
        found = read(DATA, name)
        assert (found.log.header.id, found.log.header.version) == (session, version)
        assert found.log.header_row is None
        assert found.seqs == list(range(COUNT))

    @pytest.mark.parametrize("space", [b"\xef\xbb\xbf", b"\n", b"\r\n\n", b"\xef\xbb\xbf\n", b" "])
    def test_what_stands_in_front_does_not_hide_it(self, space: bytes) -> None:
        """A byte order mark or blank lines come before the first row, not instead of it."""
        found = read(space + HEADER + b"\n" + DATA)
        line = 1 + space.count(b"\n")
        assert (found.log.header.version, found.log.header_line) == (4, line)
        assert found.lines == list(range(line + 1, line + 1 + COUNT))

    def test_alone(self) -> None:
        """A log may consist of its header."""
        for data in (HEADER, HEADER + b"\n", zstd(HEADER + b"\n")):
            found = read(data)
            assert (found.events, found.faults) == ([], [])
            assert found.log.header.version == 4

    @pytest.mark.parametrize(
        ("change", "field", "value"),
        [
            ({"id": 7}, "id", "x"),
            ({"id": ""}, "id", "x"),
            ({"createdAt": "now"}, "created_at", 0),
            ({"isSeeded": None}, "is_seeded", False),
            ({"version": True}, "version", 0),
            ({"version": "4"}, "version", 0),
            ({"version": None}, "version", 0),
            ({"seedLength": 3}, "seed_length", 3),
            ({"parentSession": "p", "unknown": 1}, "parent_session", "p"),
        ],
    )
    def test_odd_fields(self, change: Event, field: str, value: object) -> None:
        """A field of a wrong kind counts as missing; the row stays what it is."""
        row = {**(header_row(Contract.V4) or {}), **change}
        found = read(joined(to_line(row), *LINES), "x.jsonl")
        assert getattr(found.log.header, field) == value
        assert found.log.header_row == row

    @pytest.mark.parametrize("version", [5, 17, 10**30])
    def test_generations_to_come(self, version: int) -> None:
        """A log of a generation that nobody knows yet is refused as a whole."""
        row = to_line({**(header_row(Contract.V4) or {}), "version": version})
        with pytest.raises(UnsupportedFormatError, match=f"version {version} is newer"):
            read(joined(row, *LINES))

    def test_a_generation_that_only_the_name_knows(self) -> None:
        """The same holds if the header is missing and the file is named after the generation."""
        with pytest.raises(UnsupportedFormatError, match="version 5 is newer"):
            read(DATA, "/s/session.v5.jsonl.zstd")

    def test_a_damaged_text_in_it(self) -> None:
        """A header with a bad byte is a header, and the damage is reported."""
        found = read(joined(HEADER.replace(b'"/w"', b'"/w\xe9"'), *LINES))
        assert (found.log.header.version, found.log.header.cwd) == (4, "/w\ufffd")
        assert found.rules == [("line.invalid-utf8", 1)]
        assert found.lines == list(range(2, COUNT + 2))

    def test_a_lost_newline_behind_it(self) -> None:
        """A header and the first event may share a line."""
        found = read(HEADER + DATA)
        assert found.log.header.version == 4
        assert found.seqs == list(range(COUNT))
        assert found.lines == list(range(1, COUNT + 1))
        assert found.rules == [("line.welded", 1)]

    @pytest.mark.parametrize("cut", [30, 60, 90])
    def test_a_cut_header(self, cut: int) -> None:
        """Of a header that was cut the generation remains, and the loss is reported."""
        found = read(joined(HEADER[:cut], *LINES))
        assert found.log.header_row is None
        assert found.log.header.version == 4
        assert found.seqs == list(range(COUNT))
        assert found.rules == [("line.not-json", 1)]

    def test_a_cut_header_and_an_event(self) -> None:
        """A cut header may be welded to the first event."""
        found = read(HEADER[:40] + DATA)
        assert found.log.header.version == 4
        assert found.seqs == list(range(COUNT))
        assert found.rules == [("line.welded", 1)]

    def test_a_frame_that_cannot_be_read(self) -> None:
        """If the first frame is lost, the name of the file says what log it is."""
        data = bytearray(zstd(HEADER + b"\n", DATA))
        data[20] ^= 0xFF
        found = read(bytes(data), "/s/s-7/session.v4.jsonl.zstd")
        assert (found.log.header.id, found.log.header.version) == ("s-7", 4)
        assert found.seqs == list(range(COUNT))
        assert {rule for rule, _ in found.rules} == {"line.frame-corrupt"}

    def test_one_in_the_middle(self) -> None:
        """A second header is no event: whoever appended one log to another is told."""
        found = read(joined(HEADER, *LINES[:3], HEADER, *LINES[3:]))
        assert found.rules == [("envelope.invalid", 5)]
        assert [one.type for one in found.events].count("session") == 1
        assert len(found.events) == COUNT + 1


class TestTorn:
    """Logs whose end is cut."""

    def test_a_plain_log_cut_at_every_byte_of_its_last_line(self) -> None:
        """All other events are read, and the cut is one fault."""
        for cut in range(1, len(LINES[-1])):
            found = read(DATA[: -cut - 1])
            assert found.seqs == list(range(COUNT - 1)), cut
            assert found.rules == [("line.torn-tail", COUNT)], cut
            assert found.faults[0].lost

    LAST: Final = zstd(joined(*LINES[-3:]))

    def test_a_zstd_log_cut_at_every_byte_of_its_last_frame(self) -> None:
        """What is whole in the frame is read, and the cut is one fault."""
        data = zstd(joined(*LINES[:4]), joined(*LINES[4:-3])) + self.LAST
        for cut in range(1, len(self.LAST)):
            found = read(data[:-cut])
            assert found.seqs == list(range(len(found.seqs))), cut
            assert COUNT - 3 <= len(found.seqs) <= COUNT, cut
            assert found.rules == [("line.torn-tail", len(found.seqs) + 1)], cut

    def test_a_torn_frame_with_a_part_of_a_line(self) -> None:
        """The line that a torn frame ends in is part of the same loss."""
        noise = random.Random(3).randbytes(150_000).hex().encode()
        long = LINES[0].replace("größe".encode(), noise)
        data = zstd(joined(*LINES[:4])) + zstd(joined(*LINES[4:6], long))
        found = read(data[:-50], max_line=1 << 20)
        assert found.seqs == list(range(6))
        assert found.rules == [("line.torn-tail", 7)]

    def test_an_event_without_newline_in_a_torn_frame(self) -> None:
        """An event of which only the newline is missing is whole."""
        tail = zstd(LINES[6])
        found = read(zstd(joined(*LINES[:6])) + tail[:-2])
        assert found.seqs == list(range(7))
        assert found.rules == [("line.torn-tail", 7)]

    def test_a_file_that_is_cut_in_its_first_frame(self) -> None:
        """Even then, what is there is read."""
        whole = zstd(DATA)
        for cut in range(1, len(whole)):
            found = read(whole[:-cut])
            assert {rule for rule, _ in found.rules} == {"line.torn-tail"}, cut

    @pytest.mark.parametrize(
        "tail", [b"{", b"\x28\xb5\x2f", b"x", b'{"type":"turn/sta', b"\xff\xfe"]
    )
    def test_a_few_bytes(self, tail: bytes) -> None:
        """A tail of any bytes is torn, not anything worse."""
        for data in (tail, DATA + tail):
            found = read(data)
            assert [rule for rule, _ in found.rules] == ["line.torn-tail"]

    def test_nul_bytes_at_the_end(self) -> None:
        """A file that was extended but never written ends in NUL bytes."""
        found = read(DATA + bytes(4000))
        assert found.seqs == list(range(COUNT))
        assert found.rules == [("line.nul", COUNT + 1)]

    def test_a_string_over_lines_at_the_end(self) -> None:
        """A last event over several lines is read, newline at its end or not."""
        odd = LINES[0].replace("größe".encode(), b"one\ntwo")
        for end in (b"", b"\n"):
            found = read(DATA + odd + end)
            assert found.seqs == [*range(COUNT), 0]
            assert found.rules == [("line.control-char", COUNT + 1)]


class TestDamage:
    """Damage in the middle of a log."""

    @pytest.mark.parametrize("place", range(1, COUNT))
    @pytest.mark.parametrize(
        ("bad", "rule"),
        [
            (bytes(300), "line.nul"),
            (b"Traceback (most recent call last):", "line.not-json"),
            (b"{}{}", "line.welded"),
            (b"\x80\x81", "line.invalid-utf8"),
            (b"5", "line.not-json"),
        ],
    )
    def test_a_foreign_line_anywhere(self, place: int, bad: bytes, rule: str) -> None:
        """All events are read, with their lines, and the foreign line is reported."""
        found = read(joined(*LINES[:place], bad, *LINES[place:]))
        own = [(e.seq, n) for e, n in zip(found.events, found.lines, strict=True) if e.seq >= 0]
        assert own == [(k, k + 1 + (k >= place)) for k in range(COUNT)]
        assert (rule, place + 1) in found.rules

    @pytest.mark.parametrize("place", range(COUNT - 1))
    def test_a_lost_newline_anywhere(self, place: int) -> None:
        """Two events on one line are both read, and have the same line."""
        rest = joined(*LINES[place + 1 :])
        found = read(joined(*LINES[:place]) + LINES[place] + rest)
        assert found.seqs == list(range(COUNT))
        assert found.lines == [k + 1 - (k > place) for k in range(COUNT)]
        assert found.rules == [("line.welded", place + 1)]

    @pytest.mark.parametrize("place", range(COUNT - 1))
    def test_a_cut_event_anywhere(self, place: int) -> None:
        """An event that was cut and welded to the next costs itself, no other."""
        for cut in range(1, len(LINES[place]), 9):
            rest = joined(*LINES[place + 1 :])
            found = read(joined(*LINES[:place]) + LINES[place][:cut] + rest)
            assert found.seqs == [k for k in range(COUNT) if k != place]
            assert found.rules == [("line.welded", place + 1)]
            assert found.faults[0].lost

    @pytest.mark.parametrize("breaks", [1, 2, 5])
    def test_a_raw_newline_in_a_string(self, breaks: int) -> None:
        """An event over several lines is put together; lines after it keep their numbers."""
        odd = LINES[0].replace("größe".encode(), b"one" + b"\nmore" * breaks)
        found = read(joined(odd, *LINES[1:]))
        assert found.seqs == list(range(COUNT))
        assert found.lines == [1, *(k + breaks + 1 for k in range(1, COUNT))]
        assert found.rules == [("line.control-char", 1)]
        text = json.loads(bytes(found.events[0].data.content))[0]["text"]
        assert text == "one" + "\nmore" * breaks + " 日本 🙂"

    def test_quotes_in_a_string_over_lines(self) -> None:
        """Escaped quotes in such a string do not end the search for its end."""
        odd = LINES[0].replace("größe".encode(), b'one\n\\"two\\"\nthree')
        found = read(joined(odd, *LINES[1:]))
        assert found.seqs == list(range(COUNT))
        assert found.rules == [("line.control-char", 1)]
        text = json.loads(bytes(found.events[0].data.content))[0]["text"]
        assert text == 'one\n"two"\nthree 日本 🙂'

    def test_a_string_that_never_closes(self) -> None:
        """Lines that no later line completes are reported, each of them."""
        odd = LINES[0][: LINES[0].index("größe".encode())] + b"one\ntwo\nthree"
        found = read(joined(odd, *LINES[1:]))
        assert found.seqs == list(range(1, COUNT))
        assert found.rules == [("line.not-json", 1), ("line.not-json", 2), ("line.not-json", 3)]

    def test_an_open_string_in_front_of_a_damaged_event(self) -> None:
        """An event that is damaged itself is not taken for the rest of a string."""
        cut = LINES[0][: LINES[0].index("größe".encode())]
        found = read(joined(cut, b"\0" + LINES[1], *LINES[2:]))
        assert found.seqs == list(range(1, COUNT))
        assert found.lines == list(range(2, COUNT + 1))
        assert found.rules == [("line.not-json", 1), ("line.nul", 2)]

    def test_a_string_that_nothing_closes(self) -> None:
        """The same at the end of the log."""
        for end in (b'{"type":"x","data":"abc\n"def\n', b'"abc\n"def\n', b'{"a":"b\n"c\n"d\n"e'):
            found = read(DATA + end)
            assert found.seqs == list(range(COUNT))
            due = [("line.not-json", COUNT + 1 + k) for k in range(len(end.strip().split(b"\n")))]
            assert found.rules == due

    def test_a_text_of_thousands_of_lines(self) -> None:
        """Patience with a string that stays open has an end; nothing is lost but the string."""
        odd = b'{"type":"user/message","data":{"t":"' + b"\n".join([b"text"] * 2500)
        found = read(joined(odd, *LINES))
        assert found.seqs == list(range(COUNT))
        assert len(found.faults) == 2500
        assert {rule for rule, _ in found.rules} == {"line.not-json"}

    def test_a_text_of_many_bytes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """And an end in bytes as well."""
        monkeypatch.setattr("dsh_core.logs.reader.MAX_LINE", 1000)
        odd = b'{"type":"user/message","data":{"t":"' + b"\n".join([b"x" * 400] * 9)
        found = read(joined(odd, *LINES))
        assert found.seqs == list(range(COUNT))
        assert len(found.faults) == 9

    @pytest.mark.parametrize("size", [200_000, 1_000_000])
    @pytest.mark.parametrize("place", [0, 4, COUNT - 1])
    @pytest.mark.parametrize("packed", [False, True])
    def test_a_line_that_is_too_long(self, size: int, place: int, packed: bool) -> None:
        """The head of the event is read, and all others."""
        long = to_line({**LOG[place], "more": "x" * size})
        data = joined(*LINES[:place], long, *LINES[place + 1 :])
        found = read(zstd(data) if packed else data)
        assert found.seqs == list(range(COUNT))
        assert found.lines == list(range(1, COUNT + 1))
        assert found.rules == [("line.too-long", place + 1)]
        assert f"{len(long) + 1} bytes" in found.faults[0].message

    def test_a_last_line_that_is_too_long(self) -> None:
        """Without a newline it is too long all the same."""
        found = read(joined(*LINES[:-1]) + to_line({**LOG[-1], "more": "x" * 200_000}))
        assert found.seqs == list(range(COUNT))
        assert found.rules == [("line.too-long", COUNT)]

    @pytest.mark.parametrize("limit", [100, 300, 1000])
    def test_a_tiny_limit(self, limit: int) -> None:
        """However low the limit for lines is set, each event is read or reported."""

        class Slow(io.BytesIO):
            """A source of small blocks."""

            def read(self, size: int | None = -1, /) -> bytes:
                return super().read(min(size or 0, 64))

        found = SessionLog(Slow(DATA), "s.jsonl", limit)
        items = list(found.read())
        seqs = [one.seq for item in items if isinstance(item, Batch) for one in item.events]
        lost = [item.line - 1 for item in items if not isinstance(item, Batch) and item.lost]
        assert sorted(seqs + lost) == list(range(COUNT))

    def test_deep_nesting(self) -> None:
        """20,000 levels cost what is nested, not the event."""
        deep = LINES[3][:-2] + b',"deep":' + b"[" * 20_000 + b"]" * 20_000 + b"}}"
        found = read(joined(*LINES[:3], deep, *LINES[4:]))
        assert found.seqs == list(range(COUNT))
        assert found.rules == [("line.too-deep", 4)]

    @pytest.mark.parametrize("frames", [0, 300])
    @pytest.mark.parametrize("beside", [b"", b"Traceback\n"])
    @pytest.mark.parametrize(("depth", "rules"), [(380, []), (390, ["line.too-deep"])])
    def test_every_path_reads_as_deeply(
        self, depth: int, rules: list[str], beside: bytes, frames: int
    ) -> None:
        """Neither the way of decoding nor the caller's depth changes what is found."""
        row = {"type": "todo/write", "seq": COUNT, "time": START + 9999, "data": {}}
        deep = to_line(row)[:-2] + b'"d":' + b"[" * depth + b"]" * depth + b"}}\n"

        def at(left: int) -> list[str]:
            return at(left - 1) if left else [rule for rule, _ in read(DATA + deep + beside).rules]

        assert at(frames) == rules + ["line.not-json"] * bool(beside)

    @pytest.mark.parametrize(
        ("odd", "rules"),
        [
            (b'"seq":NaN', ["envelope.invalid"]),
            (b'"seq":Infinity', ["envelope.invalid"]),
            (b'"seq":1e400', ["envelope.invalid"]),
            (b'"seq":99999999999999999999', ["envelope.invalid"]),
            (b'"seq":3.5', ["envelope.invalid"]),
            (b'"seq":true', ["envelope.invalid"]),
            (b'"seq":3.0', []),
            (b'"seq":3e0', []),
        ],
    )
    def test_odd_numbers(self, odd: bytes, rules: list[str]) -> None:
        """A number that is none costs the number, not the event."""
        found = read(joined(*LINES[:3], LINES[3].replace(b'"seq":3', odd), *LINES[4:]))
        assert len(found.events) == COUNT
        assert found.events[3].type == LOG[3]["type"]
        if found.events[3].seq >= 2**53:
            # The strict decoder takes it; the checker says that no float can hold it.
            rules = []
        assert [rule for rule, _ in found.rules] == rules
        assert found.events[3].seq in {3, UNREADABLE, 99999999999999999999}

    @pytest.mark.parametrize(
        ("text", "rule"),
        [
            (b"\\ud83d", "text.lone-surrogate"),
            (b"\xed\xa0\xbd", "line.invalid-utf8"),
            (b"\\ude42", "text.lone-surrogate"),
        ],
    )
    def test_half_characters(self, text: bytes, rule: str) -> None:
        """Escaped or raw, half a character is replaced and reported."""
        found = read(joined(LINES[0].replace("🙂".encode(), text), *LINES[1:]))
        assert found.seqs == list(range(COUNT))
        assert found.rules == [(rule, 1)]
        assert "\ufffd" in json.loads(bytes(found.events[0].data.content))[0]["text"]

    def test_a_frame_with_a_part_of_a_line(self) -> None:
        """A corrupt frame and the line it began or ended in are one loss."""
        first, broken, last = zstd(DATA[:300]), bytearray(zstd(DATA[300:700])), zstd(DATA[700:])
        broken[len(broken) // 2] ^= 0xFF
        found = read(first + bytes(broken) + last)
        begin = DATA[:300].count(b"\n")
        assert found.seqs[:begin] == list(range(begin))
        assert found.seqs[-1] == COUNT - 1
        assert ("line.frame-corrupt", begin + 1) in found.rules
        assert {fault.rule for fault in found.faults} <= {"line.frame-corrupt", "line.not-json"}


class TestFrames:
    """Frames of a zstd log, flipped byte by byte."""

    PARTS: Final = (
        joined(*LINES[:3]),
        joined(*LINES[3:6]),
        joined(*LINES[6:8]),
        joined(*LINES[8:]),
    )
    FRAMES: Final = tuple(map(zstd, PARTS))

    @pytest.mark.parametrize("place", [0, 1, 2, 3])
    def test_every_byte_of_a_frame(self, place: int) -> None:
        """Whatever byte is flipped, later frames are read, and the loss is reported."""
        start = sum(map(len, self.FRAMES[:place]))
        before = sum(part.count(b"\n") for part in self.PARTS[:place])
        after = sum(part.count(b"\n") for part in self.PARTS[place + 1 :])
        for at in range(start, start + len(self.FRAMES[place])):
            data = bytearray(b"".join(self.FRAMES))
            data[at] ^= 0xFF
            found = read(bytes(data), "/s/s-1/session.jsonl.zstd")
            assert found.seqs[:before] == list(range(before))
            if after:
                assert found.seqs[-after:] == list(range(COUNT - after, COUNT))
            assert found.faults or found.seqs == list(range(COUNT))


class TestStrange:
    """Files that are no logs at all."""

    def test_one_byte(self) -> None:
        """A file of one byte is blank, torn or a NUL."""
        for byte in range(256):
            found = read(bytes([byte]))
            assert found.events == []
            rule = "line.nul" if byte == 0 else "line.torn-tail"
            due = [] if byte in b" \t\r\n" else [(rule, 1)]
            assert found.rules == due, byte

    @pytest.mark.parametrize("seed", range(5))
    def test_noise(self, seed: int) -> None:
        """Random bytes give faults, one a line, and no event."""
        noise = random.Random(seed).randbytes(100_000)
        found = read(noise)
        assert found.events == []
        assert len({fault.line for fault in found.faults}) == len(found.faults)
        assert len(found.faults) == len([n for n in noise.split(b"\n") if n.strip(b"\r\t ")])

    @pytest.mark.parametrize(
        ("data", "what"),
        [
            (gzip.compress(DATA * 50, mtime=0), "gzip; decompress it first"),
            (b"SQLite format 3\0" + bytes(90), "a SQLite store"),
            (DATA.decode().encode("utf-16"), "UTF-16 text"),
            (b'{"resourceSpans":[]}\n' * 3, "an OTLP file"),
            (b'{"a":1}\n{"b":2}\n', "not a session log"),
            (b'{"type":"user","message":"hi"}\n', "not a session log"),
            (b"[1, 2]", "not a session log"),
        ],
    )
    def test_files_of_another_kind_are_named(self, data: bytes, what: str) -> None:
        """What is no session log is not blamed for being a bad one."""
        with pytest.raises(UnsupportedFormatError, match=what):
            read(data)

    @pytest.mark.parametrize(
        "first", [b'{"a":1}', b"[]", b'{"seq":0,"time":1}', b'{"type":"session"', b"\x1f\x8b"]
    )
    def test_a_bad_first_line_does_not_make_a_log_foreign(self, first: bytes) -> None:
        """Damage at the head costs a line, not the log."""
        found = read(joined(first, *(to_line(event) for event in LOG[1:])))
        assert found.faults
        assert len(found.events) >= len(LOG) - 1

    def test_pretty_printed_json(self) -> None:
        """An event over many lines is no log; every line of it is reported."""
        text = json.dumps(LOG[1], indent=1).encode()
        found = read(text + b"\n" + DATA)
        assert found.seqs == list(range(COUNT))
        assert len(found.faults) == text.count(b"\n") + 1

    def test_utf16(self) -> None:
        """A log in UTF-16 is full of NUL bytes; without them it can be read."""
        data = joined(*LINES[1:4]).decode().encode("utf-16-le")
        found = read(data)
        assert found.seqs == [1, 2, 3]
        assert {rule for rule, _ in found.rules} == {"line.nul"}


class TestTypes:
    """Types and shapes of events."""

    def test_types_nobody_knows(self) -> None:
        """An event of an unknown type has its type and its raw payload."""
        found = read(joined(LINES[0], b'{"type":"brand/new","seq":1,"time":2,"data":{"a": 1}}'))
        one = found.events[1]
        assert isinstance(one, UnknownEvent)
        assert (one.type, bytes(one.data), found.faults) == ("brand/new", b'{"a": 1}', [])

    def test_types_nobody_knows_beside_blank_lines(self) -> None:
        """Lines are counted right whatever else is in a batch."""
        found = read(joined(LINES[0], b"", b'{"type":"new","seq":1,"time":2,"data":{}}', LINES[2]))
        assert (found.seqs, found.lines, found.faults) == ([0, 1, 2], [1, 3, 4], [])

    @pytest.mark.parametrize("old", ["compact/start", "compact/summary", "compact/end"])
    def test_names_of_july(self, old: str) -> None:
        """Events that were renamed have their new name."""
        line = to_line({"type": old, "seq": 0, "time": 1, "data": {}})
        assert read(joined(line, *LINES)).events[0].type == old.replace("compact/", "compaction/")

    @pytest.mark.parametrize("version", [0, 1])
    def test_packed_rows(self, version: int) -> None:
        """Until v1 a row may stand for many events, which have its line."""
        row: Event = {"type": "text-chunks", "seq0": 2, "time0": START}
        row["data"] = {"turn": 1, "step": 1, "index": 0, "dt": [1, 1], "texts": ["a", "b", "c"]}
        header = {**(header_row(Contract.V0) or {}), "version": version}
        tail = [to_line({**source, "seq": source["seq"] + 5}) for source in LOG[:2]]
        found = read(joined(to_line(header), *LINES[:2], to_line(row), *tail))
        assert found.seqs == [0, 1, 2, 3, 4, 5, 6]
        assert found.lines == [2, 3, 4, 4, 4, 5, 6]
        assert found.faults == []

    @pytest.mark.parametrize(
        ("change", "seqs", "lost"),
        [
            ({"dt": [1]}, [2, 3, 4], False),
            ({"texts": []}, [], True),
            ({"texts": "abc"}, [], True),
            ({"dt": ["1", "1"]}, [], True),
        ],
    )
    def test_malformed_rows(self, change: Event, seqs: list[int], lost: bool) -> None:
        """A row that contradicts itself is read as far as that makes sense."""
        data = {"turn": 1, "step": 1, "index": 0, "dt": [1, 1], "texts": ["a", "b", "c"]}
        row = {"type": "text-chunks", "seq0": 2, "time0": START, "data": {**data, **change}}
        found = read(joined(to_line(header_row(Contract.V0) or {}), *LINES[:2], to_line(row)))
        assert found.seqs == [0, 1, *seqs]
        assert found.rules == [("line.row-malformed", 4)]
        assert found.faults[0].lost is lost

    def test_rows_in_a_later_log(self) -> None:
        """From v2 on there are no packed rows."""
        row = {"type": "text-chunks", "seq0": 2, "time0": START, "data": {"texts": ["a"]}}
        found = read(joined(HEADER, *LINES[:2], to_line(row), LINES[5]))
        assert found.seqs == [0, 1, 5]
        assert found.rules == [("line.row-malformed", 4)]


def read_by_lines(data: bytes, name: str = "s.jsonl") -> list[tuple[SessionEvent, int]]:
    """Read a log whose first line keeps all others from being read in batches."""
    found = SessionLog(io.BytesIO(data + b"5\n"), name)
    return [
        (one, line)
        for item in found.read()
        if isinstance(item, Batch)
        for one, line in zip(item.events, item.lines, strict=True)
    ]


def read_in_batches(data: bytes, name: str = "s.jsonl") -> list[tuple[SessionEvent, int]]:
    """Read a log."""
    found = read(data, name)
    return list(zip(found.events, found.lines, strict=True))


class TestKeys:
    """Rows with keys that no envelope has."""

    @pytest.mark.parametrize("contract", [Contract.SEED, Contract.V0, Contract.V4])
    def test_only_october_minds_them(self, contract: Contract) -> None:
        """Everywhere the event is read; in a log of October the row is at fault."""
        rows = log(*one_turn(1))
        rows[1] = {**rows[1], "host": "h", "ts": 5}
        source = SessionLog(io.BytesIO(to_lines(rows, header_row(contract))), "session.jsonl")
        seqs: list[int] = []
        faults = []
        for item in source.read():
            if isinstance(item, Batch):
                seqs += [event.seq for event in item.events]
            else:
                faults.append((item.rule, item.message, item.seq, item.lost))
        assert seqs == [0, 1, 2, 3]
        due = [("envelope.invalid", "2 unknown keys", 1, False)]
        assert faults == (due if contract is Contract.V4 else [])


class TestDecoders:
    """The three ways of decoding agree."""

    @pytest.mark.parametrize("contract", list(Contract))
    @given(data=st.data())
    def test_legal_logs(self, contract: Contract, data: st.DataObject) -> None:
        """Whole batches and single lines give the same events and lines."""
        events = data.draw(legal_logs(contract))
        lines = to_lines(events, header_row(contract))
        whole = read_in_batches(lines)
        assert whole == read_by_lines(lines)
        assert [one.seq for one, _ in whole] == [source["seq"] for source in events]
        assert [from_mapping(source) for source in events] == [(one, []) for one, _ in whole]

    @given(legal_logs(Contract.V0))
    def test_packed_logs(self, events: Events) -> None:
        """A packed log gives the same events as one that is not."""
        header = header_row(Contract.V0)
        plain = read_in_batches(to_lines(events, header))
        packed = read_in_batches(to_lines(pack_rows(events), header))
        assert [one for one, _ in packed] == [one for one, _ in plain]
        assert packed == read_by_lines(to_lines(pack_rows(events), header))

    @given(mutated(legal_logs(Contract.V4)), st.integers(0, 99), st.booleans())
    def test_logs_with_a_type_nobody_knows(self, events: Events, place: int, packed: bool) -> None:
        """One unknown type in a batch makes no difference to the others."""
        new = {"type": "brand/new", "seq": 5, "time": 6, "data": {"a": [1]}}
        events = [*events[:place], new, *events[place:]]
        header = header_row(Contract.V0 if packed else Contract.V4)
        lines = to_lines(events, header)
        assert read_in_batches(lines) == read_by_lines(lines)
        assert len(read_in_batches(lines)) == len(events)

    @given(arbitrary_events())
    @settings(max_examples=100)
    def test_nonsense(self, events: Events) -> None:
        """Events of any kind are read the same way in a batch, alone, and from a mapping."""
        lines, kept = [], []
        for source in events:
            try:
                line = json.dumps(source).encode()
            except ValueError:
                continue
            if b"NaN" not in line and b"Infinity" not in line and source.get("type") != "session":
                lines.append(line)
                kept.append(source)
        # A file of nothing but foreign rows would be refused.
        anchor = to_line(LOG[1])
        data = joined(anchor, *lines)
        whole = read_in_batches(data)
        assert whole == read_by_lines(data)
        single = [pair for line in lines for pair in read_in_batches(joined(anchor, line))[1:]]
        assert [one for one, _ in whole[1:]] == [one for one, _ in single]
        assert len(whole) == 1 + len(kept)


class TestNothingIsLostSilently:
    """Whatever happens to the bytes of a log, every line is accounted for."""

    def assert_accounted(self, data: bytes, found: Result) -> None:
        """Check that each line that is not blank gave an event or a fault."""
        lines = data.split(b"\n")
        covered = set(found.lines) | {fault.line for fault in found.faults}
        covered.add(found.log.header_line)
        # A string with a raw newline reaches over the lines up to the next event or fault.
        for fault in found.faults:
            if fault.rule == "line.control-char":
                number = fault.line + 1
                while number <= len(lines) and number not in covered:
                    covered.add(number)
                    number += 1
        for number, line in enumerate(lines, 1):
            if line.replace(b"\xef\xbb\xbf", b"").strip(b" \t\r"):
                assert number in covered, (number, line)

    @pytest.mark.parametrize("contract", list(Contract))
    @given(data=st.data())
    @settings(max_examples=100)
    def test_random_damage(self, contract: Contract, data: st.DataObject) -> None:
        """Flipped, deleted, inserted and cut bytes: nothing raises, and nothing is skipped."""
        events = data.draw(legal_logs(contract))
        log_bytes = bytearray(to_lines(events, header_row(contract)))
        for _ in range(data.draw(st.integers(1, 3), label="damages")):
            at = data.draw(st.integers(0, max(len(log_bytes) - 1, 0)), label="at")
            match data.draw(st.sampled_from(("flip", "delete", "nul", "cut", "insert"))):
                case "flip":
                    if log_bytes:
                        log_bytes[at] ^= data.draw(st.integers(1, 255), label="mask")
                case "delete":
                    del log_bytes[at : at + data.draw(st.integers(1, 200), label="size")]
                case "nul":
                    log_bytes[at:at] = bytes(data.draw(st.integers(1, 50), label="size"))
                case "insert":
                    log_bytes[at:at] = data.draw(
                        st.sampled_from((b"\n", b'"', b"\\", b"}", b"\xe9", b'{"type":"x"', b"\r"))
                    )
                case _:
                    del log_bytes[at:]
        damaged = bytes(log_bytes)
        try:
            found = read(damaged)
        except UnsupportedFormatError:
            assert b'"version":4' not in damaged
            return
        self.assert_accounted(damaged, found)

    @given(legal_logs(Contract.V4), st.data())
    def test_random_damage_to_frames(self, events: Events, data: st.DataObject) -> None:
        """The same for compressed logs: undamaged frames are read, the others are reported."""
        lines = [to_line(header_row(Contract.V4) or {}), *map(to_line, events)]
        size = data.draw(st.integers(1, 8), label="lines a frame")
        frames = [zstd(joined(*lines[k : k + size])) for k in range(0, len(lines), size)]
        whole = bytearray(b"".join(frames))
        at = data.draw(st.integers(0, len(whole) - 1), label="at")
        whole[at] ^= data.draw(st.integers(1, 255), label="mask")
        try:
            found = read(bytes(whole), "/s/s-1/session.v4.jsonl.zstd")
        except UnsupportedFormatError:
            return
        if found.seqs != [source["seq"] for source in events]:
            assert found.faults
        start = 0
        for number, one in enumerate(frames):
            if not start <= at < start + len(one):
                first = max(number * size - 1, 0)
                due = [source["seq"] for source in events[first : number * size + size - 1]]
                assert set(due) <= set(found.seqs)
            start += len(one)


def test_any_source_will_do() -> None:
    """A log is read from anything that reads bytes."""

    class Slow:
        """A source that gives a byte at a time."""

        def __init__(self) -> None:
            self._rest = iter(DATA)

        def read(self, _size: int, /) -> bytes:
            byte: Any = next(self._rest, None)
            return b"" if byte is None else bytes([byte])

    found = SessionLog(Slow(), "s.jsonl")
    assert [one.seq for one in found] == list(range(COUNT))


class TestFirstLine:
    """What makes the first line a header row."""

    @pytest.mark.parametrize("blank", [b"", b"\n", b" \t\r\n" * 3, b"\n" * 300_000])
    @pytest.mark.parametrize("end", [b"\n", b""])
    def test_its_type_decides(self, blank: bytes, end: bytes) -> None:
        """Neither the order of its keys nor blank lines in front of it hide a header."""
        row = dict(reversed((header_row(Contract.V4) or {}).items()))
        row = {"cwd": "/" + "x" * 300, **row}
        source = SessionLog(io.BytesIO(blank + to_line(row) + end + (DATA if end else b"")), "x")
        assert source.header_row == row
        assert source.header_line == blank.count(b"\n") + 1
        assert len(list(source)) == (COUNT if end else 0)

    def test_a_text_about_sessions_is_none(self) -> None:
        """An event that has the word somewhere is an event."""
        assert read(DATA.replace(b"x", b'\\"session\\"', 1)).seqs == list(range(COUNT))

    def test_blank_lines_without_end(self) -> None:
        """Too many blank lines are not searched for a header, and lose no event."""
        source = SessionLog(io.BytesIO(b"\n" * (3 << 20) + DATA), "x")
        assert source.header_row is None
        assert len(list(source)) == COUNT

    def test_a_mark_in_front_of_an_only_line(self) -> None:
        """A byte order mark does not make an unfinished line an over-long one."""
        found = read(b"\xef\xbb\xbf" + LINES[0])
        assert (found.seqs, found.rules) == ([0], [])
