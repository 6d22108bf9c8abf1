"""Logs that somebody writes to while they are read."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from dsh_core.faults import Fault
from dsh_core.logs.growing import MAX_MARKS, GrowingLog, Rewritten
from dsh_core.logs.reader import Batch, UnsupportedFormatError
from dsh_core.logs.whole import whole_until
from tests.checking import event, log

if TYPE_CHECKING:
    from pathlib import Path

    from tests.strategies import Event, Events

HEADER: Event = {
    "type": "session",
    "version": 4,
    "id": "s-1",
    "createdAt": 1,
    "isSeeded": False,
    "delegationDepth": 0,
}
EVENTS: Events = log(*[event("plan/mode", {"active": bool(number % 2)}) for number in range(20)])


def line(row: Event) -> bytes:
    return json.dumps(row).encode() + b"\n"


def frame(*rows: Event) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True, write_content_size=False).compress(
        b"".join(map(line, rows))
    )


def plain(*rows: Event) -> bytes:
    return b"".join(map(line, rows))


def read(growing: GrowingLog, until: int | None = None) -> list[Any]:
    """Return the seqs that came, the rules of damage, and where a log began again."""
    found: list[Any] = []
    for item in growing.read(until):
        if isinstance(item, Batch):
            found += [one.seq for one in item.events]
        else:
            found.append(item.rule if isinstance(item, Fault) else item)
    return found


both = pytest.mark.parametrize("packed", [frame, plain])


@both
def test_only_what_is_whole_is_read(packed: Any, tmp_path: Path) -> None:
    path = tmp_path / "log"
    parts = [packed(HEADER), packed(*EVENTS[:2]), packed(*EVENTS[2:5])]
    growing = GrowingLog(str(path))
    for number, part in enumerate(parts):
        for place in range(1, len(part)):
            path.write_bytes(b"".join(parts[:number]) + part[:place])
            if packed is frame:
                assert read(growing) == []
        path.write_bytes(b"".join(parts[: number + 1]))
        read(growing)
        assert growing.mark.offset == len(b"".join(parts[: number + 1]))
    assert growing.log is not None
    assert growing.log.header.id == "s-1"


@both
def test_lines_go_on_counting(packed: Any, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(packed(HEADER, *EVENTS[:2]))
    growing = GrowingLog(str(path))
    read(growing)
    with path.open("ab") as file:
        file.write(packed(*EVENTS[2:4]))
    lines = [number for item in growing.read() if isinstance(item, Batch) for number in item.lines]
    assert lines == [4, 5]


@both
def test_reading_stops_where_it_is_told_to(packed: Any, tmp_path: Path) -> None:
    path, begin = tmp_path / "log", packed(HEADER, *EVENTS[:2])
    path.write_bytes(begin + packed(*EVENTS[2:4]))
    growing = GrowingLog(str(path))
    assert read(growing, len(begin)) == [0, 1]
    assert growing.mark.offset == len(begin)
    assert read(growing) == [2, 3]


@both
def test_a_log_that_was_cut_and_written_on_begins_again(packed: Any, tmp_path: Path) -> None:
    path = tmp_path / "log"
    parts = [packed(HEADER), packed(*EVENTS[:2]), packed(*EVENTS[2:4])]
    growing = GrowingLog(str(path))
    for number in range(1, 4):
        path.write_bytes(b"".join(parts[:number]))
        read(growing)
    kept = len(parts[0] + parts[1])
    # As long as before, and longer: only its bytes tell.
    other = [{**row, "time": row["time"] + 7} for row in EVENTS[2:6]]
    path.write_bytes(parts[0] + parts[1] + packed(*other))
    assert read(growing) == [Rewritten(kept), 0, 1, 2, 3, 4, 5]


@both
def test_a_log_that_is_another_one_has_nothing_in_common(packed: Any, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(packed(HEADER) + packed(*EVENTS[:4]))
    growing = GrowingLog(str(path))
    read(growing)
    path.write_bytes(packed({**HEADER, "id": "s-2"}))
    assert read(growing) == [Rewritten(0)]
    assert growing.log is not None
    assert growing.log.header.id == "s-2"


def test_marks_are_bounded_and_still_find_the_place(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(plain(HEADER))
    growing = GrowingLog(str(path))
    events = log(*[event("plan/mode", {"active": True})] * (2 * MAX_MARKS))
    for row in events:
        with path.open("ab") as file:
            file.write(line(row))
        read(growing)
    path.write_bytes(plain(HEADER, *events[:-3], {**events[-3], "time": 5}))
    again = next(iter(growing.read()))
    assert again == Rewritten(len(plain(HEADER, *events[:-3])))


def test_damage_between_whole_frames_is_told_once(tmp_path: Path) -> None:
    path, bad = tmp_path / "log", bytearray(frame(*EVENTS[2:4]))
    bad[20] ^= 255
    growing = GrowingLog(str(path))
    path.write_bytes(frame(HEADER) + frame(*EVENTS[:2]))
    assert read(growing) == [0, 1]
    with path.open("ab") as file:
        file.write(bad)
        file.write(frame(*EVENTS[4:6]))
    assert read(growing) == ["line.frame-corrupt", 4, 5]
    assert read(growing) == []


def test_what_is_no_frame_is_waited_out_until_one_follows(tmp_path: Path) -> None:
    path = tmp_path / "log"
    growing = GrowingLog(str(path))
    path.write_bytes(frame(HEADER) + b"not a frame")
    assert read(growing) == []
    with path.open("ab") as file:
        file.write(frame(*EVENTS[:2]))
    assert read(growing) == ["line.frame-corrupt", 0, 1]


def test_a_log_of_a_newer_generation_is_refused_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(plain({**HEADER, "version": 99}))
    growing = GrowingLog(str(path))
    for _ in range(2):
        with pytest.raises(UnsupportedFormatError):
            read(growing)
    path.write_bytes(plain(HEADER, EVENTS[0]))
    assert read(growing) == [0]


def test_reading_can_be_broken_off_where_it_can_go_on(tmp_path: Path) -> None:
    path = tmp_path / "log"
    rows = log(*[event("plan/mode", {"note": "x" * 1000})] * 9000)
    path.write_bytes(plain(HEADER, *rows))
    seen: list[int] = []
    growing = GrowingLog(str(path), stop=lambda: bool(seen))
    for item in growing.read():
        if isinstance(item, Batch):
            seen += [one.seq for one in item.events]
    assert 0 < len(seen) < len(rows)
    stopped = len(seen)
    growing = GrowingLog(str(path), stop=lambda: False)
    assert read(growing, None)[stopped] == seen[-1] + 1


@pytest.mark.parametrize("enough", [1, 20, 10_000])
def test_an_over_long_line_is_whole_when_it_ends(enough: int) -> None:
    data = b"x" * 300_000 + b"\nshort\nrest"
    end = whole_until(io.BytesIO(data), 0, len(data), enough)
    assert data[:end].endswith(b"\n")
    assert whole_until(io.BytesIO(data), end, len(data), 10**9) in (end, len(data) - 4)


def test_random_bytes_are_walked_without_an_error() -> None:
    import random

    rng = random.Random(1)
    for _ in range(300):
        data = bytearray(frame(HEADER) + frame(*EVENTS[:3]) + frame(*EVENTS[3:9]))
        for _ in range(rng.randrange(6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        data = data[: rng.randrange(len(data)) + 1]
        end = whole_until(io.BytesIO(bytes(data)), 0, len(data))
        assert 0 <= end <= len(data)
