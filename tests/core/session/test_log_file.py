"""Logs that are to be continued: what of them is whole, and what is refused."""

from __future__ import annotations

import os
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from dsh_core.session.log_file import StoredError, read_stored, read_tail

if TYPE_CHECKING:
    from pathlib import Path

HEADER = (
    b'{"type":"session","version":4,"id":"s","createdAt":5,"isSeeded":false,"delegationDepth":0}'
)
ROWS = [b'{"type":"mine","seq":%d,"time":7,"data":{"a":"%s"}}' % (k, b"x" * k) for k in range(4)]


def frame(*lines: bytes, end: bytes = b"\n") -> bytes:
    compressor = zstandard.ZstdCompressor(write_checksum=True, write_content_size=False)
    return compressor.compress(b"\n".join(lines) + end)


def plain(folder: Path, data: bytes) -> Path:
    path = folder / "session.v4.jsonl"
    path.write_bytes(data)
    return path


def packed(folder: Path, data: bytes) -> Path:
    path = folder / "session.v4.jsonl.zstd"
    path.write_bytes(data)
    return path


def noise(size: int) -> bytes:
    """Return a row that does not compress, so that its frame has several blocks."""
    return (
        b'{"type":"mine","seq":1,"time":7,"data":{"a":"%s"}}' % os.urandom(size // 2).hex().encode()
    )


def test_a_whole_plain_log_is_whole_to_its_end(tmp_path: Path) -> None:
    data = b"\n".join([HEADER, *ROWS, b""])
    tail = read_tail(plain(tmp_path, data))
    assert tail.header is not None
    assert tail.header["id"] == "s"
    assert tail[1:] == (4, ROWS[3], len(data), len(data))


def test_a_whole_compressed_log_is_whole_to_its_end(tmp_path: Path) -> None:
    data = frame(HEADER) + frame(*ROWS[:3]) + frame(ROWS[3])
    assert read_tail(packed(tmp_path, data))[1:] == (4, ROWS[3], len(data), len(data))


@pytest.mark.parametrize("size", range(len(HEADER) + len(ROWS[0]) + len(ROWS[1]) + 4))
def test_a_plain_log_cut_at_any_byte_is_whole_to_its_last_newline(
    tmp_path: Path, size: int
) -> None:
    data = b"\n".join([HEADER, *ROWS, b""])[:size]
    tail = read_tail(plain(tmp_path, data))
    events = max(data.count(b"\n") - 1, 0)
    assert (tail.events, tail.last) == (events, ROWS[events - 1] if events else b"")
    assert (tail.end, tail.size) == (data.rfind(b"\n") + 1, size)
    assert (tail.header is None) == (b"\n" not in data)


def test_a_compressed_log_cut_at_any_byte_is_whole_to_the_start_of_its_last_frame(
    tmp_path: Path,
) -> None:
    parts = [frame(HEADER), frame(*ROWS[:2]), frame(ROWS[2])]
    starts = [0, len(parts[0]), len(parts[0] + parts[1]), len(b"".join(parts))]
    events = [0, 0, 2, 3]
    for size in range(starts[-1] + 1):
        tail = read_tail(packed(tmp_path, b"".join(parts)[:size]))
        place = max(k for k, start in enumerate(starts) if start <= size)
        assert (tail.end, tail.events, tail.size) == (starts[place], events[place], size), size
        assert (tail.header is None) == (place == 0)


def test_lines_at_the_beginning_of_a_torn_frame_are_not_whole(tmp_path: Path) -> None:
    first = frame(HEADER) + frame(ROWS[0])
    data = first + frame(noise(400_000), ROWS[2], noise(400_000))
    tail = read_tail(packed(tmp_path, data[:-100_000]))
    assert (tail.events, tail.last, tail.end) == (1, ROWS[0], len(first))


def test_what_they_say_is_read_all_the_same(tmp_path: Path) -> None:
    first = frame(HEADER) + frame(ROWS[0])
    data = first + frame(noise(400_000), ROWS[2], noise(400_000))
    _, entries = read_stored(packed(tmp_path, data[:-100_000]))
    assert [entry.seq for entry in entries] == [0, 1, 2]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (frame(HEADER) + frame(ROWS[0], end=b""), "a frame ends inside a line"),
        (frame(HEADER) + b"garbage" * 9, "no zstd frame begins here"),
        (frame(HEADER) + frame(ROWS[0])[:-1] + b"?" + frame(ROWS[1]), "checksum"),
        (b"garbage", "its name does not say how it is written"),
        (HEADER + b"\n", "its name does not say how it is written"),
        (frame(ROWS[0]), "no header row"),
    ],
)
def test_a_compressed_log_that_is_damaged_otherwise_is_refused(
    tmp_path: Path, data: bytes, why: str
) -> None:
    path = packed(tmp_path, data)
    with pytest.raises(StoredError, match=why) as caught:
        read_tail(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (frame(HEADER), "its name does not say how it is written"),
        (ROWS[0] + b"\n", "no header row"),
        (b"[]\n", "no header row"),
        (b"\xff\n", "no header row"),
        (b"\n", "no header row"),
        (b"[" * 100_000 + b"\n", "no header row"),
        (HEADER + b"\n" + b"x" * (33 << 20) + b"\n", "the line is too long"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_plain_log_that_is_damaged_otherwise_is_refused(
    tmp_path: Path, data: bytes, why: str
) -> None:
    path = plain(tmp_path, data)
    with pytest.raises(StoredError, match=why):
        read_tail(path)


def test_looking_through_a_log_does_not_load_it(tmp_path: Path) -> None:
    row = b'{"type":"mine","seq":1,"time":7,"data":{"a":"%s"}}' % (b"x" * 1000)
    path = plain(tmp_path, b"\n".join([HEADER, *[row] * 20_000, b""]))
    tracemalloc.start()
    try:
        assert read_tail(path).events == 20_000
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_header_and_events_are_read(tmp_path: Path) -> None:
    header, entries = read_stored(plain(tmp_path, b"\n".join([HEADER, *ROWS, b""])))
    assert (header.id, header.version, header.created_at) == ("s", 4, 5)
    assert [entry.row for entry in entries] == ROWS


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (b"", "no event"),
        (b"garbage", "no event"),
        (b"[]", "no event"),
        (b'{"type":"a","seq":0,"time":1}', "no event"),
        (b'{"type":"a","seq":0,"time":1,"data":[]}', "no event: its data is no object"),
        (b'{"type":"a","seq":"0","time":1,"data":{}}', "no event"),
        (b'{"type":"a","seq":0,"time":NaN,"data":{}}', "no event"),
        (b'{"type":"a","seq":0,"time":1,"data":{"a":"\xff"}}', "no event"),
        (b'{"type":"a","seq":1,"time":1,"data":{}}', "seq 1 where 0 should be"),
        (b'{"type":"a","seq":0,"time":1,"data":' + b"[" * 10_000 + b"}", "no event"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_line_that_is_no_event_is_refused_by_its_number(
    tmp_path: Path, row: bytes, why: str
) -> None:
    path = plain(tmp_path, HEADER + b"\n" + row + b"\n" + ROWS[1] + b"\n")
    with pytest.raises(StoredError) as caught:
        read_stored(path)
    assert str(caught.value).startswith(f"{path}:2: {why}")
    assert str(caught.value).endswith("`dsh-otel check` names all that is wrong")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "session.v4.jsonl:1: no header row"),
        (HEADER[:-9], "session.v4.jsonl:1: no header row"),
        (HEADER, "session.v4.jsonl:1: the header row is cut"),
        (HEADER.replace(b'"version":4', b'"version":3'), "a log of v3, only v4 can be continued"),
        (HEADER.replace(b'"version":4', b'"version":9'), "session.v4.jsonl: "),
        (b"PK\x03\x04 some archive\n", "session.v4.jsonl"),
    ],
)
def test_a_log_without_a_header_of_generation_4_is_refused(
    tmp_path: Path, data: bytes, why: str
) -> None:
    with pytest.raises(StoredError) as caught:
        read_stored(plain(tmp_path, data))
    assert why in str(caught.value)


def test_a_log_of_june_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s-1.jsonl"
    path.write_bytes(ROWS[0] + b"\n")
    with pytest.raises(StoredError, match="no header row: a log of June, or no session log at all"):
        read_stored(path)


@pytest.mark.parametrize("read", [read_tail, read_stored])
def test_what_is_no_file_is_an_os_error(tmp_path: Path, read: Any) -> None:
    with pytest.raises(OSError, match="No such file"):
        read(tmp_path / "session.v4.jsonl")
    with pytest.raises(OSError, match="not a regular file"):
        read(tmp_path)
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(OSError, match="not a regular file"):
        read(tmp_path / "pipe.jsonl")
