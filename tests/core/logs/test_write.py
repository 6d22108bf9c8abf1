"""Writing session logs, and where they lie."""

from __future__ import annotations

import errno
import os
import resource
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.events import SessionHeader
from dsh_core.logs.frames import MAGIC
from dsh_core.logs.write import (
    LogWriter,
    cut_log,
    header_row,
    log_path,
    project_key,
    session_folder,
)
from dsh_core.session import Entry
from tests.core.session.real import lines_of, read_back

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HEADER = SessionHeader(id="s-1", version=4, created_at=5)
FIRST = (
    b'{"type":"session","version":4,"id":"s-1","createdAt":5,"isSeeded":false,"delegationDepth":0}'
)


def entry(seq: int, size: int = 0) -> Entry:
    return Entry("mine", seq, 7, {"text": "x" * size}, ignorable=True)


def rows(*entries: Entry) -> list[bytes]:
    return [one.row for one in entries]


# Folders


@pytest.mark.parametrize(
    ("cwd", "key"),
    [
        ("", "_no-cwd"),
        ("/srv/a b", "--srv-a~0020b--"),
        ("/", "--root--"),
        (r"C:\Users\me", "--C-Users-me--"),
        ("a//b:/\\c", "--a-b-c--"),
        ("/AZaz09._-", "--AZaz09._---"),
        ("/a~b", "--a~007Eb--"),
        ("/é", "--~00E9--"),
        ("/\U0001f600", "--~D83D~DE00--"),
        ("/\ud800", "--~D800--"),
        ("---", "--root--"),
        ("/-a", "--a--"),
        ("/" + "x" * 251, "--" + "x" * 251 + "--"),
        ("/" + "x" * 300, "--" + "x" * 251 + "--"),
        ("/" + "~" * 300, "--" + ("~007E" * 51)[:251] + "--"),
    ],
)
def test_the_key_of_a_project_is_made_of_its_folder(cwd: str, key: str) -> None:
    assert project_key(cwd) == key


@pytest.mark.parametrize(
    ("session", "name"),
    [
        ("s-1", "s-1"),
        ("AZaz09._-", "AZaz09._-"),
        (".", "~002E"),
        ("..", "~002E~002E"),
        ("...", "..."),
        ("a/b", "a~002Fb"),
        ("~", "~007E"),
        ("\U0001f600", "~D83D~DE00"),
        ("\x00", "~0000"),
    ],
)
def test_the_folder_of_a_session_is_named_after_its_id(session: str, name: str) -> None:
    header = SessionHeader(id=session, cwd="/w")
    assert session_folder(Path("/r"), header) == Path("/r/--w--") / name


def test_the_folder_of_a_session_without_a_working_directory_lies_apart() -> None:
    assert session_folder(Path("/r"), HEADER) == Path("/r/_no-cwd/s-1")


def test_an_empty_id_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^a session without an id cannot be stored$"):
        session_folder(Path("/r"), SessionHeader(id=""))


@given(st.text(st.characters(), min_size=1), st.text(st.characters()))
def test_no_id_and_no_working_directory_leads_out_of_the_root(session: str, cwd: str) -> None:
    folder = session_folder(Path("/r"), SessionHeader(id=session, cwd=cwd))
    assert folder.parent.parent == Path("/r")
    assert set(folder.parts).isdisjoint({".", ".."})
    assert folder.name.isascii()
    assert len(folder.parent.name) <= 255


@given(st.lists(st.text(st.characters(), min_size=1, max_size=3), min_size=2, max_size=2))
def test_different_ids_have_different_folders(ids: list[str]) -> None:
    one, two = (session_folder(Path("/r"), SessionHeader(id=id_)) for id_ in ids)
    assert (one == two) == (ids[0] == ids[1])


def test_a_log_is_named_after_its_generation_and_its_encoding() -> None:
    assert log_path(Path("/f"), compress=True) == Path("/f/session.v4.jsonl.zstd")
    assert log_path(Path("/f"), compress=False) == Path("/f/session.v4.jsonl")


# Headers


def test_a_header_row_has_the_keys_that_are_required_in_their_order() -> None:
    assert list(header_row(HEADER).items()) == [
        ("type", "session"),
        ("version", 4),
        ("id", "s-1"),
        ("createdAt", 5),
        ("isSeeded", False),
        ("delegationDepth", 0),
    ]


def test_a_header_row_has_the_other_keys_only_if_they_say_something() -> None:
    header = SessionHeader(
        id="s-1",
        version=4,
        created_at=5,
        cwd="/w",
        parent_session="p",
        seed_length=3,
        is_seeded=True,
        origin="subagent",
        delegation_depth=1,
        agent_preset="code",
    )
    assert header_row(header) == {
        "type": "session",
        "version": 4,
        "id": "s-1",
        "createdAt": 5,
        "cwd": "/w",
        "isSeeded": True,
        "delegationDepth": 1,
        "parentSession": "p",
        "origin": "subagent",
        "agentPreset": "code",
    }


# Writing


def test_a_plain_log_is_one_line_for_the_header_and_one_for_each_event(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "a" / "b", HEADER, compress=False)
    assert writer.path == tmp_path / "a" / "b" / "session.v4.jsonl"
    writer.write([entry(0), entry(1)])
    writer.write(iter([entry(2)]))
    assert writer.path.read_bytes().split(b"\n") == [
        FIRST,
        b'{"type":"mine","seq":0,"time":7,"data":{"text":""},"ignorable":true}',
        b'{"type":"mine","seq":1,"time":7,"data":{"text":""},"ignorable":true}',
        b'{"type":"mine","seq":2,"time":7,"data":{"text":""},"ignorable":true}',
        b"",
    ]


def frames(data: bytes) -> list[bytes]:
    """Return what each frame of a compressed log holds."""
    found = []
    while data:
        assert data.startswith(MAGIC)
        parameters = zstandard.get_frame_parameters(data)
        assert parameters.has_checksum
        assert data[4] == 0x04
        decompressor = zstandard.ZstdDecompressor().decompressobj()
        found.append(decompressor.decompress(data))
        data = decompressor.unused_data
    return found


def test_a_compressed_log_is_one_frame_for_the_header_and_one_for_each_batch(
    tmp_path: Path,
) -> None:
    writer = LogWriter(tmp_path, HEADER)
    assert writer.path == tmp_path / "session.v4.jsonl.zstd"
    writer.write([entry(0), entry(1)])
    writer.write([entry(2)])
    assert [data.splitlines() for data in frames(writer.path.read_bytes())] == [
        [FIRST],
        rows(entry(0), entry(1)),
        rows(entry(2)),
    ]


def test_a_large_batch_is_several_frames_that_all_end_at_a_newline(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, HEADER)
    batch = [entry(seq, 300_000) for seq in range(9)]
    writer.write(batch)
    found = frames(writer.path.read_bytes())
    assert [data.count(b"\n") for data in found] == [1, 4, 4, 1]
    assert all(data.endswith(b"\n") for data in found)
    assert [event.seq for event in read_back(writer.path)] == list(range(9))


@pytest.mark.parametrize("compress", [True, False])
def test_a_log_that_is_there_is_continued(tmp_path: Path, compress: bool) -> None:
    LogWriter(tmp_path, HEADER, compress=compress).write([entry(0)])
    LogWriter(tmp_path, HEADER, compress=compress).write([entry(1)])
    path = log_path(tmp_path, compress=compress)
    assert lines_of(path) == [FIRST, *rows(entry(0), entry(1))]


def test_an_empty_file_that_is_there_gets_a_header(tmp_path: Path) -> None:
    (tmp_path / "session.v4.jsonl").touch()
    LogWriter(tmp_path, HEADER, compress=False)
    assert (tmp_path / "session.v4.jsonl").read_bytes() == FIRST + b"\n"


def test_an_empty_batch_writes_nothing(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, HEADER)
    before = writer.path.read_bytes()
    writer.write([])
    assert writer.path.read_bytes() == before


# Writing that fails


@contextmanager
def room(size: int) -> Iterator[None]:
    """Let no file become longer than so many bytes, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def failing(monkeypatch: pytest.MonkeyPatch, name: str, times: int = 1) -> None:
    """Let something of `os` fail as often as that."""
    real, left = getattr(os, name), [times]

    def call(*args: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise OSError(errno.ENOSPC, "no space left on device")
        return real(*args)

    monkeypatch.setattr(os, name, call)


@pytest.mark.parametrize("compress", [True, False])
def test_a_batch_that_does_not_fit_leaves_nothing_of_it(tmp_path: Path, compress: bool) -> None:
    writer = LogWriter(tmp_path, HEADER, compress=compress)
    writer.write([entry(0)])
    before = writer.path.read_bytes()
    with room(len(before) + 10), pytest.raises(OSError, match="File too large"):
        writer.write([entry(1), entry(2, 1000)])
    assert writer.path.read_bytes() == before
    writer.write([entry(1), entry(2, 1000)])
    assert lines_of(writer.path) == [FIRST, *rows(entry(0), entry(1), entry(2, 1000))]


def test_a_large_batch_of_which_only_the_first_pieces_fit_leaves_nothing_either(
    tmp_path: Path,
) -> None:
    writer = LogWriter(tmp_path, HEADER, compress=False)
    with room(2_500_000), pytest.raises(OSError, match="File too large"):
        writer.write(entry(seq, 300_000) for seq in range(12))
    assert writer.path.read_bytes() == FIRST + b"\n"


def test_a_batch_that_does_not_reach_the_disk_leaves_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LogWriter(tmp_path, HEADER)
    before = writer.path.read_bytes()
    failing(monkeypatch, "fsync")
    with pytest.raises(OSError, match="no space"):
        writer.write([entry(0)])
    assert writer.path.read_bytes() == before
    writer.write([entry(0)])
    assert lines_of(writer.path) == [FIRST, *rows(entry(0))]


def test_a_header_that_is_not_written_is_written_by_the_next_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "fsync", 9)
    for _ in range(3):
        with pytest.raises(OSError, match="no space"):
            LogWriter(tmp_path, HEADER)
    monkeypatch.undo()
    assert lines_of(LogWriter(tmp_path, HEADER).path) == [FIRST]


class Bad:
    """A line that cannot be written."""

    @property
    def row(self) -> bytes:
        raise KeyboardInterrupt


def test_a_batch_that_is_broken_off_leaves_nothing_of_it(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, HEADER)
    with pytest.raises(KeyboardInterrupt):
        writer.write([*(entry(seq, 600_000) for seq in range(3)), Bad()])
    assert lines_of(writer.path) == [FIRST]


def test_half_a_batch_that_could_not_be_taken_back_is_taken_back_before_the_next(
    tmp_path: Path,
) -> None:
    writer = LogWriter(tmp_path, HEADER, compress=False)
    with writer.path.open("ab") as file:
        file.write(b'{"type":"mi')
    # As it is left if even the mending of a failed write has failed.
    writer._torn = True
    writer.write([entry(0)])
    assert lines_of(writer.path) == [FIRST, *rows(entry(0))]


@pytest.mark.parametrize("change", [b"", FIRST + b"\n{}\n"])
def test_a_log_that_somebody_else_has_changed_is_not_written_to(
    tmp_path: Path, change: bytes
) -> None:
    writer = LogWriter(tmp_path, HEADER, compress=False)
    writer.path.write_bytes(change)
    with pytest.raises(OSError, match="somebody else has changed the log") as caught:
        writer.write([entry(0)])
    assert caught.value.filename == str(writer.path)
    assert writer.path.read_bytes() == change


def test_a_log_that_somebody_has_removed_is_not_begun_in_the_middle(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, HEADER)
    writer.path.unlink()
    with pytest.raises(FileNotFoundError):
        writer.write([entry(0)])
    assert not writer.path.exists()


def test_a_folder_that_cannot_be_made_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        LogWriter(tmp_path / "file" / "a", HEADER)


# Cutting


def names(folder: Path) -> Sequence[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("size", [0, 1, 5, 9])
def test_a_log_is_cut_after_some_bytes_and_nothing_else_is_left(tmp_path: Path, size: int) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"123456789")
    path.chmod(0o640)
    cut_log(path, size)
    assert path.read_bytes() == b"123456789"[:size]
    assert path.stat().st_mode & 0o777 == 0o640
    assert names(tmp_path) == ["log"]


def test_a_large_log_is_cut_piece_by_piece(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 3_000_000)
    cut_log(path, 2_500_000)
    assert path.stat().st_size == 2_500_000


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_log_that_cannot_be_cut_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"123")
    failing(monkeypatch, name)
    with pytest.raises(OSError, match="no space"):
        cut_log(path, 1)
    assert path.read_bytes() == b"123"
    assert names(tmp_path) == ["log"]
