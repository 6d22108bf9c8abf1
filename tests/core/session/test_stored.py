"""Sessions on disk: stored turn by turn, and brought back to life."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_core import invariants
from dsh_core.check import check_session
from dsh_core.context import Context
from dsh_core.contract.findings import Severity
from dsh_core.events import SessionHeader
from dsh_core.logs.write import LogWriter, header_row, session_folder
from dsh_core.session import Entry, SessionStore, stored
from dsh_core.session.lock import FolderLock
from dsh_core.session.stored import StoredError, revive
from tests.cli.helpers import run as run_command
from tests.core.context.support import until
from tests.core.session.real import (
    REAL,
    TIME,
    entries_of,
    equals_log,
    lines_of,
    log,
    read_back,
    rows_of,
    types,
    violations,
    with_store,
)

if TYPE_CHECKING:
    from dsh_core.context import Fiber
    from dsh_core.session import Session

PLAIN, ZSTD = "session.v4.jsonl", "session.v4.jsonl.zstd"


async def store_in(ctx: Context, root: Path, *, compress: bool = True) -> Fiber:
    fiber = ctx.plugin(stored, {"root": str(root), "compress": compress})
    await fiber
    return fiber


def file_of(root: Path, session: Session, *, compress: bool = True) -> Path:
    return session_folder(root, session.header) / (ZSTD if compress else PLAIN)


def take_turn(session: Session, turn: int, text: str = "") -> None:
    session.append("turn/start", {"turn": turn})
    session.append("step/start", {"turn": turn, "step": 1})
    session.append("mine", {"text": text}, ignorable=True)
    session.append("step/end", {"turn": turn, "step": 1})
    session.append("turn/end", {"turn": turn, "reason": {"kind": "completed"}})


def wrong_in(path: Path) -> list[str]:
    """Return what a check finds, damage or violation; the end may be open."""
    report = check_session(str(path))
    assert report.reason == "", report
    return [finding.rule for finding in report.findings if finding.severity > Severity.ADVICE]


def refused(sessions: SessionStore, id_: str, **more: Any) -> str:
    """Return why a session is refused; nothing of it is left."""
    with pytest.raises(StoredError) as caught:
        sessions.create(id_, **more)
    assert sessions.get(id_) is None
    return str(caught.value)


@pytest.fixture(params=[True, False], ids=["zstd", "plain"])
def compress(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


# What is written, and when


def test_a_session_is_written_when_it_is_flushed(tmp_path: Path, compress: bool) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path, compress=compress)
        session = sessions.create("s-1", cwd="/srv/a b")
        path = file_of(tmp_path, session, compress=compress)
        assert path.parent == tmp_path / "--srv-a~0020b--" / "s-1"
        take_turn(session, 1)
        assert len(lines_of(path)) == 1
        await ctx.parallel("session/flush", session)
        assert equals_log(path, session)
        session.append("mine", {}, ignorable=True)
        await ctx.parallel("session/flush", session)
        await ctx.parallel("session/flush", session)
        assert equals_log(path, session)
        assert len(read_back(path)) == 6
        assert wrong_in(path) == []

    with_store(main)


def test_a_session_is_written_when_its_life_ends(tmp_path: Path) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path)
        session = sessions.create()
        # Also what is logged at the very end.
        ctx.on("session/closed", lambda session: session.append("mine", {}, ignorable=True))
        take_turn(session, 1)
        sessions.close(session)
        assert session.seq == 6
        assert equals_log(file_of(tmp_path, session), session)

    with_store(main)


def test_a_session_is_written_at_its_end_even_if_another_listener_raises(tmp_path: Path) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        def refuse(session: Session) -> None:
            raise ValueError("no")

        ctx.on("session/closed", refuse)
        await store_in(ctx, tmp_path)
        session = sessions.create()
        take_turn(session, 1)
        with pytest.raises(ValueError, match=r"^no$"):
            sessions.close(session)
        assert equals_log(file_of(tmp_path, session), session)
        sessions.create(session.id, session.events)

    with_store(main)


def test_a_session_is_written_when_the_plugins_life_ends_and_not_after(tmp_path: Path) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        fiber = await store_in(ctx, tmp_path)
        session = sessions.create()
        take_turn(session, 1)
        await fiber.dispose()
        path = file_of(tmp_path, session)
        assert equals_log(path, session)
        take_turn(session, 2)
        await ctx.parallel("session/flush", session)
        sessions.close(session)
        assert len(lines_of(path)) == 6

    with_store(main)


def test_a_turn_that_is_open_when_the_plugins_life_ends_is_written_to_its_end(
    tmp_path: Path,
) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        fiber = await store_in(ctx, tmp_path)
        session = sessions.create()
        session.append("turn/start", {"turn": 1})
        await fiber.dispose()
        path = file_of(tmp_path, session)
        assert len(lines_of(path)) == 2
        session.append("mine", {}, ignorable=True)
        session.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
        take_turn(session, 2)
        sessions.close(session)
        assert [event.type for event in read_back(path)] == ["turn/start", "mine", "turn/end"]

    with_store(main)


def test_a_turn_that_nobody_has_ended_is_written_as_far_as_it_goes(tmp_path: Path) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        fiber = await store_in(ctx, tmp_path)
        session = sessions.create()
        session.append("turn/start", {"turn": 1})
        await fiber.dispose()
        session.append("mine", {}, ignorable=True)
        sessions.close(session)
        assert equals_log(file_of(tmp_path, session), session)

    with_store(main)


def test_a_plugin_that_is_loaded_again_goes_on(tmp_path: Path) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        fiber = await store_in(ctx, tmp_path)
        session = sessions.create()
        for turn in range(1, 4):
            take_turn(session, turn)
            await fiber.dispose()
            take_turn(session, turn + 10)
            fiber = await store_in(ctx, tmp_path)
        await ctx.parallel("session/flush", session)
        assert equals_log(file_of(tmp_path, session), session)

    with_store(main)


def test_sessions_that_live_already_are_stored_too(tmp_path: Path) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        session = sessions.create()
        take_turn(session, 1)
        await store_in(ctx, tmp_path)
        await ctx.parallel("session/flush", session)
        assert equals_log(file_of(tmp_path, session), session)

    with_store(main)


def test_a_session_may_be_stored_in_two_roots(tmp_path: Path) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path / "a")
        await store_in(ctx, tmp_path / "b", compress=False)
        session = sessions.create()
        take_turn(session, 1)
        await ctx.parallel("session/flush", session)
        assert equals_log(file_of(tmp_path / "a", session), session)
        assert equals_log(file_of(tmp_path / "b", session, compress=False), session)

    with_store(main)


def test_a_fork_is_stored_with_what_it_has_inherited(tmp_path: Path) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path)
        parent = sessions.create()
        parent.append("turn/start", {"turn": 1})
        fork = sessions.fork(parent)
        sessions.close(fork)
        path = file_of(tmp_path, fork)
        assert equals_log(path, fork)
        assert wrong_in(path) == []

    with_store(main)


def test_a_folder_that_is_named_relatively_stays_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        monkeypatch.chdir(tmp_path)
        await store_in(ctx, Path("root"))
        session = sessions.create()
        monkeypatch.chdir("/")
        take_turn(session, 1)
        await ctx.parallel("session/flush", session)
        assert equals_log(file_of(tmp_path / "root", session), session)

    with_store(main)


def test_frozen_history_is_written_as_any_other(tmp_path: Path) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        await ctx.plugin(invariants)
        await store_in(ctx, tmp_path)
        session = sessions.create()
        take_turn(session, 1)
        await ctx.parallel("session/flush", session)
        assert equals_log(file_of(tmp_path, session), session)

    with_store(main)


def test_the_command_line_finds_nothing_wrong_with_what_is_written(tmp_path: Path) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path)
        take_turn(sessions.create(cwd="/w"), 1)

    with_store(main)
    outcome = run_command("check", str(tmp_path))
    assert (outcome.exit_code, outcome.stdout) == (0, "1 log, 5 events: no findings\n")


# (a) Files that belong to another history


def stored_before(root: Path, *texts: str, compress: bool = True) -> Path:
    """Store a session ``s-1`` of some events, and end its program."""

    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, root, compress=compress)
        session = sessions.create("s-1")
        for text in texts:
            session.append("mine", {"text": text}, ignorable=True)

    with_store(main)
    return root / "_no-cwd" / "s-1" / (ZSTD if compress else PLAIN)


def test_a_new_session_does_not_go_on_with_the_file_of_an_older_one(
    tmp_path: Path, compress: bool
) -> None:
    path = stored_before(tmp_path, "a", "b", compress=compress)
    before = path.read_bytes()

    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path, compress=compress)
        assert refused(sessions, "s-1") == (
            f"{path} belongs to another history: it has 2 events, the session 0; "
            "revive it to go on with it, or use another id or another root"
        )
        # It can be used all the same, by whoever does as the message says.
        sessions.create("s-2")
        assert revive(sessions, path).seq == 3

    with_store(main)
    assert lines_of(path)[: len(lines_of(path)) - 1][1:] == [
        b'{"type":"mine","seq":0,"time":1790000000000,"data":{"text":"a"},"ignorable":true}',
        b'{"type":"mine","seq":1,"time":1790000000000,"data":{"text":"b"},"ignorable":true}',
    ]
    assert before == path.read_bytes()[: len(before)]


def test_a_session_with_another_last_event_does_not_go_on_with_the_file(tmp_path: Path) -> None:
    path = stored_before(tmp_path, "a", "b")

    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path)
        seed = log(*(("mine", {"text": text}) for text in "abc"))
        why = refused(sessions, "s-1", seed=seed)
        assert why.startswith(f"{path} belongs to another history: its event of seq 1 is another")

    with_store(main)


def test_a_session_that_begins_with_what_is_stored_goes_on_with_the_file(
    tmp_path: Path, compress: bool
) -> None:
    path = stored_before(tmp_path, "a", "b", compress=compress)
    rows = lines_of(path)

    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path, compress=compress)
        session = sessions.create("s-1", entries_of(rows[1:]))
        session.append("mine", {"text": "c"}, ignorable=True)

    with_store(main)
    assert lines_of(path)[:3] == rows
    assert [event.seq for event in read_back(path)] == [0, 1, 2]


def test_events_are_the_same_however_their_lines_are_written(tmp_path: Path) -> None:
    path = stored_before(tmp_path, "a", compress=False)
    header, row = lines_of(path)
    (entry,) = entries_of([row])
    loose = row.replace(b'"seq":0,"time":1790000000000', b'"time": 1790000000000, "seq": 0')
    path.write_bytes(header + b"\n" + loose + b"\n")

    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path, compress=False)
        assert sessions.create("s-1", [entry]).seq == 1

    with_store(main)


def test_a_file_of_another_session_is_refused(tmp_path: Path) -> None:
    path = stored_before(tmp_path, "a", compress=False)
    path.write_bytes(path.read_bytes().replace(b'"id":"s-1"', b'"id":"s-9"'))

    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path, compress=False)
        assert "it is of session 's-9'" in refused(sessions, "s-1")

    with_store(main)


def test_a_file_that_says_another_version_is_refused(tmp_path: Path) -> None:
    path = stored_before(tmp_path, "a", compress=False)
    path.write_bytes(path.read_bytes().replace(b'"version":4', b'"version":5'))

    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path, compress=False)
        assert "its header is not of v4" in refused(sessions, "s-1")

    with_store(main)


def test_a_file_with_a_last_line_that_is_no_event_is_refused(tmp_path: Path) -> None:
    path = stored_before(tmp_path, "a", compress=False)
    path.write_bytes(lines_of(path)[0] + b"\n\xff\n")

    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path, compress=False)
        assert "belongs to another history" in refused(
            sessions, "s-1", seed=log(("mine", {"text": "a"}))
        )

    with_store(main)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = stored_before(tmp_path, "a")
    path.write_bytes(path.read_bytes() + b"garbage")

    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path)
        assert f"{path}:" in refused(sessions, "s-1")

    with_store(main)


def test_a_file_without_events_is_begun_anew_with_the_header_of_its_session(
    tmp_path: Path, compress: bool
) -> None:
    stored_before(tmp_path, compress=compress)

    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path, compress=compress)
        session = sessions.create("s-1", created_at=TIME + 5, origin="subagent")
        take_turn(session, 1)
        await ctx.parallel("session/flush", session)
        assert equals_log(file_of(tmp_path, session, compress=compress), session)

    with_store(main)


def test_a_session_is_not_stored_with_and_without_compression(
    tmp_path: Path, compress: bool
) -> None:
    path = stored_before(tmp_path, "a", compress=compress)

    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path, compress=not compress)
        assert refused(sessions, "s-1") == (
            f"{path} is written {'with' if compress else 'without'} compression: "
            "set `compress` accordingly, or use another root"
        )

    with_store(main)


@pytest.mark.parametrize(
    "name", ["session.jsonl.zstd", "session.v3.jsonl", "session.v5.jsonl.zst", "../s-1.jsonl"]
)
def test_a_session_is_not_stored_beside_a_log_of_another_generation(
    tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "_no-cwd" / "s-1"
    folder.mkdir(parents=True)
    (folder / name).touch()

    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path)
        assert refused(sessions, "s-1").startswith(str((folder / name).resolve()))

    with_store(main)


def test_other_files_of_the_folder_are_nobodys_business(tmp_path: Path) -> None:
    folder = tmp_path / "_no-cwd" / "s-1"
    folder.mkdir(parents=True)
    for name in ("notes.txt", "session.v4.jsonl.zstd.0123456789ab.tmp"):
        (folder / name).touch()

    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path)
        sessions.create("s-1")

    with_store(main)


# (b) Torn tails


@pytest.mark.parametrize("loss", [1, 3, 20])
def test_a_torn_tail_is_cut_off_before_anything_is_appended(
    tmp_path: Path, compress: bool, loss: int
) -> None:
    path = stored_before(tmp_path, "a", "b", compress=compress)
    path.write_bytes(path.read_bytes()[:-loss])

    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path, compress=compress)
        session = revive(sessions, path)
        await ctx.parallel("session/flush", session)
        assert equals_log(path, session)
        # In a torn frame, lines may be whole that are to be written again.
        assert session.seq == ((3 if loss < 4 else 1) if compress else 2)

    with_store(main)
    assert wrong_in(path) == []
    assert sorted(item.name for item in path.parent.iterdir()) == ["session.lock", path.name]


def test_lines_that_were_read_from_a_torn_frame_are_written_again(tmp_path: Path) -> None:
    noise = [os.urandom(100_000).hex() for _ in range(3)]
    path = stored_before(tmp_path, *noise)
    path.write_bytes(path.read_bytes()[:-30_000])

    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path)
        session = revive(sessions, path)
        assert types(session.events) == ["mine", "mine", "session/end-seed"]
        await ctx.parallel("session/flush", session)
        assert equals_log(path, session)

    with_store(main)


def test_a_torn_header_is_written_anew(tmp_path: Path, compress: bool) -> None:
    path = stored_before(tmp_path, compress=compress)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert stored_before(tmp_path, compress=compress).read_bytes() == whole


def test_a_tail_that_cannot_be_cut_off_is_an_os_error_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stored_before(tmp_path, "a", compress=False)
    path.write_bytes(path.read_bytes() + b'{"ty')
    before = path.read_bytes()

    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path, compress=False)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(OSError, match="no space"):
                revive(sessions, path)
        assert path.read_bytes() == before
        assert sessions.list() == []
        session = revive(sessions, path)
        await ctx.parallel("session/flush", session)
        assert equals_log(path, session)

    with_store(main)


# (c) Flushes that fail


def full(_descriptor: int) -> None:
    raise OSError(errno.ENOSPC, "no space left on device")


def test_what_cannot_be_written_raises_out_of_the_flush_and_is_written_by_the_next(
    tmp_path: Path, compress: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path, compress=compress)
        session = sessions.create()
        path = file_of(tmp_path, session, compress=compress)
        take_turn(session, 1)
        await ctx.parallel("session/flush", session)
        before = path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            for turn in (2, 3):
                take_turn(session, turn)
                with pytest.raises(OSError, match="no space"):
                    await ctx.parallel("session/flush", session)
                assert path.read_bytes() == before
        take_turn(session, 4)
        await ctx.parallel("session/flush", session)
        assert equals_log(path, session)
        assert wrong_in(path) == []

    with_store(main)


def test_what_cannot_be_written_at_the_end_is_told_to_the_log_and_ends_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path)
        session = sessions.create("s-1")
        take_turn(session, 1)
        with monkeypatch.context() as patch, caplog.at_level(logging.ERROR, "dsh_core"):
            patch.setattr(os, "fsync", full)
            sessions.close(session)
        # Nothing is left of it: neither events nor the lock.
        assert sessions.create("s-1").seq == 0

    with_store(main)
    assert caplog.messages == [
        "session 's-1': its last events are lost: OSError(28, 'no space left on device')"
    ]


def test_an_event_that_was_changed_into_something_else_than_json_costs_only_its_payload(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path)
        session = sessions.create("s-1")
        session.append("mine", {}, ignorable=True).data["bad"] = object()
        session.append("mine", {"fine": 1}, ignorable=True)
        with caplog.at_level(logging.ERROR, "dsh_core"):
            sessions.close(session)
        written = [msgspec.json.decode(row) for row in lines_of(file_of(tmp_path, session))]
        assert [(row["type"], row["data"]) for row in written[1:]] == [
            (stored.UNREADABLE, {"type": "mine"}),
            ("mine", {"fine": 1}),
        ]
        assert wrong_in(file_of(tmp_path, session)) == []

    with_store(main)
    (message,) = caplog.messages
    assert message.startswith("event 0 was changed after it was logged")


def test_an_event_is_written_a_moment_after_it_is_logged(tmp_path: Path) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        await ctx.plugin(stored, {"root": str(tmp_path), "write_behind_s": 0.001})
        session = sessions.create("s-1")
        session.append("turn/start", {"turn": 1})
        path = file_of(tmp_path, session)
        await until(lambda: len(read_back(path)) == 1)
        session.append("step/start", {"turn": 1, "step": 1})
        await until(lambda: len(read_back(path)) == 2)
        assert wrong_in(path) == []

    with_store(main)


def test_what_cannot_be_written_in_between_is_said_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        await ctx.plugin(stored, {"root": str(tmp_path), "write_behind_s": 0.00001})
        session = sessions.create("s-1")
        failed: list[int] = []

        def full(*_: object) -> None:
            failed.append(1)
            raise OSError(errno.ENOSPC, "no space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(LogWriter, "write", full)
            take_turn(session, 1)
            await until(lambda: len(failed) >= 2)
        await until(lambda: len(read_back(file_of(tmp_path, session))) == session.seq)
        assert equals_log(file_of(tmp_path, session), session)

    with_store(main)
    assert len(caplog.messages) == 1


def test_what_a_session_has_logged_before_is_written_a_moment_later_too(tmp_path: Path) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        session = sessions.create("s-1")
        take_turn(session, 1)
        await ctx.plugin(stored, {"root": str(tmp_path), "write_behind_s": 0.001})
        fork = sessions.fork(session, "s-2")
        for one in (session, fork):
            await until(lambda one=one: equals_log(file_of(tmp_path, one), one))  # type: ignore[misc]

    with_store(main)


def test_without_a_running_loop_an_event_is_written_with_the_next_flush(tmp_path: Path) -> None:
    ctx = Context()

    async def begin() -> Session:
        sessions = SessionStore(ctx)
        await ctx.plugin(stored, {"root": str(tmp_path), "write_behind_s": 0.001})
        return sessions.create("s-1")

    async def end(session: Session) -> None:
        await ctx.parallel("session/flush", session)
        await ctx.dispose()

    with asyncio.Runner() as runner:
        session = runner.run(begin())
        session.append("turn/start", {"turn": 1})
        runner.run(end(session))
    assert equals_log(file_of(tmp_path, session), session)


def test_a_folder_of_a_session_is_enough_to_revive_it(tmp_path: Path, compress: bool) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path, compress=compress)
        session = sessions.create("s-1")
        take_turn(session, 1)
        sessions.close(session)
        folder = file_of(tmp_path, session, compress=compress).parent
        assert types(revive(sessions, folder).events)[:1] == ["turn/start"]
        with pytest.raises(StoredError, match=r"no session\.v4\.jsonl\.zstd or"):
            revive(sessions, tmp_path)

    with_store(main)


def test_a_root_that_cannot_be_written_is_an_os_error_at_creation(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path / "file")
        with pytest.raises(NotADirectoryError):
            sessions.create()
        assert sessions.list() == []

    with_store(main)


# (d) One writer


def test_a_second_plugin_on_a_session_is_refused(tmp_path: Path) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path)
        session = sessions.create("s-1")
        with pytest.raises(StoredError) as caught:
            await store_in(ctx, tmp_path)
        assert str(caught.value) == (
            f'session "s-1" is already owned by another writer: {tmp_path / "_no-cwd" / "s-1"}'
        )
        take_turn(session, 1)
        await ctx.parallel("session/flush", session)
        assert equals_log(file_of(tmp_path, session), session)

    with_store(main)


def test_a_plugin_that_is_loaded_again_with_another_encoding_is_refused(tmp_path: Path) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        fiber = await store_in(ctx, tmp_path)
        sessions.create("s-1")
        await fiber.dispose()
        with pytest.raises(StoredError, match="is written with compression"):
            await store_in(ctx, tmp_path, compress=False)

    with_store(main)


def test_a_second_program_on_a_session_is_refused_until_the_first_ones_session_ends(
    tmp_path: Path,
) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        fiber = await store_in(ctx, tmp_path)
        session = sessions.create("s-1")
        folder = file_of(tmp_path, session).parent

        async def other(_ctx: Context, others: SessionStore) -> None:
            await store_in(_ctx, tmp_path)
            assert refused(others, "s-1") == (
                f'session "s-1" is already owned by another writer: {folder}'
            )

        await asyncio.to_thread(with_store, other)
        # The end of the plugin is not the end of the session.
        await fiber.dispose()
        await asyncio.to_thread(with_store, other)
        sessions.close(session)
        FolderLock(folder).close()

    with_store(main)


def test_a_session_that_somebody_else_refuses_leaves_no_events_and_no_lock(tmp_path: Path) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path)

        def refuse(session: Session) -> None:
            raise ValueError("no")

        stop = ctx.on("session/created", refuse)
        seed = log(("mine", {}))
        with pytest.raises(ValueError, match=r"^no$"):
            sessions.create("s-1", seed)
        stop()
        session = sessions.create("s-1")
        assert len(lines_of(file_of(tmp_path, session))) == 1

    with_store(main)


# (e) Other versions, and what has no place on disk


@pytest.mark.parametrize(("version", "name"), [(3, "v3"), (0, "v0"), (5, "v5"), (None, "seed")])
def test_a_session_of_another_version_is_refused_at_its_creation(
    tmp_path: Path, version: int | None, name: str
) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path)
        assert refused(sessions, "s-1", version=version) == (
            f'session "s-1" is of {name}, only v4 can be stored'
        )

    with_store(main)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("id_", "header"), [("", {}), ("s-1", {"parent_session": "\ud800"}), ("\ud800", {})]
)
def test_a_session_whose_header_cannot_be_written_is_refused(
    tmp_path: Path, id_: str, header: dict[str, Any]
) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path)
        refused(sessions, id_, **header)

    with_store(main)


# Brought back to life


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_every_real_log_can_be_brought_back_to_life(path: Path) -> None:
    header, rows = rows_of(path)

    async def main(ctx: Context, sessions: SessionStore) -> None:
        session = revive(sessions, path)
        assert session.header == header
        assert [msgspec.json.decode(entry.row) for entry in session.events[: len(rows)]] == [
            msgspec.json.decode(row) for row in rows
        ]
        assert session.events[-1] == Entry("session/end-seed", session.seq - 1, TIME, {})
        assert violations(session.header, session.events) == []
        with pytest.raises(ValueError, match="already exists"):
            revive(sessions, path)

    with_store(main)


def test_an_open_turn_is_closed_when_a_session_is_brought_back(tmp_path: Path) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path)
        session = sessions.create("s-1")
        session.append("turn/start", {"turn": 1})
        session.append("step/start", {"turn": 1, "step": 1})
        await ctx.parallel("session/flush", session)
        path = file_of(tmp_path, session)
        before = lines_of(path)
        sessions.close(session)
        again = revive(sessions, path)
        assert types(again.events)[2:] == ["step/end", "turn/end", "session/end-seed"]
        assert again.events[3].data == {"turn": 1, "reason": {"kind": "interrupted"}}
        await ctx.parallel("session/flush", again)
        assert lines_of(path)[:3] == before
        assert equals_log(path, again)
        assert wrong_in(path) == []

    with_store(main)


def test_a_session_whose_mark_is_refused_does_not_live(tmp_path: Path) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        def refuse(session: Session, entry: Entry) -> None:
            raise ValueError("no")

        ctx.on("session/event", refuse)
        with pytest.raises(ValueError, match=r"^no$"):
            revive(sessions, REAL[0])
        assert sessions.list() == []

    with_store(main)


def test_a_session_lives_in_the_context_that_is_named(tmp_path: Path) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        def body(own: Context) -> None:
            revive(sessions, REAL[0], ctx=own)

        fiber = ctx.inject(["sessions"], body)
        await fiber
        assert len(sessions.list()) == 1
        await fiber.dispose()
        assert sessions.list() == []

    with_store(main)


def revived(sessions: SessionStore, path: Path) -> Session | None:
    """Bring a session back to life, if the header of its log is whole."""
    try:
        return revive(sessions, path)
    except StoredError as error:
        if ":1: " not in str(error):
            raise
        return None


CUTS = [path for path in REAL if path.stem in {"crash", "parallel-tools", "multi-turn", "todo"}]


def write_real(folder: Path, path: Path, *, compress: bool) -> bytes:
    """Write a real log as the runtime does, a few events at a time; return the file."""
    header, rows = rows_of(path)
    writer = LogWriter(folder, header, compress=compress)
    entries = entries_of(rows)
    for place in range(0, len(entries), 4):
        writer.write(entries[place : place + 4])
    return writer.path.read_bytes()


@pytest.mark.parametrize("path", CUTS, ids=lambda path: path.stem)
def test_a_log_that_was_cut_at_any_byte_is_brought_back_and_goes_on(
    tmp_path: Path, path: Path, compress: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    header, _ = rows_of(path)
    folder = session_folder(tmp_path, header)
    whole = write_real(folder, path, compress=compress)
    file = folder / (ZSTD if compress else PLAIN)

    async def main(ctx: Context, sessions: SessionStore) -> None:
        await store_in(ctx, tmp_path, compress=compress)
        # Every place would take long; all kinds of places are among these.
        for size in range(0, len(whole), 61 if compress else 389):
            file.write_bytes(whole[:size])
            session = revived(sessions, file)
            if session is None:
                assert size <= (200 if compress else len(msgspec.json.encode(header_row(header))))
                continue
            assert violations(session.header, session.events) == [], size
            sessions.close(session)
            assert equals_log(file, session)
            assert wrong_in(file) == []

    with_store(main)


# Whatever is done


class Program:
    """A random life of one session on disk."""

    def __init__(self, root: Path, ctx: Context, sessions: SessionStore, compress: bool) -> None:
        self.root, self.ctx, self.sessions, self.compress = root, ctx, sessions, compress
        self.session: Session | None = sessions.create("s-1")
        self.path = file_of(root, self.session, compress=compress)
        self.plugin: Fiber | None = None

    async def do(self, action: str, size: int) -> None:
        session = self.session
        if action == "reload" and self.plugin is not None:
            await self.plugin.dispose()
            self.plugin = await store_in(self.ctx, self.root, compress=self.compress)
        elif session is None:
            self.come_back(tear=size if action == "tear" else 0)
        elif action == "close":
            self.sessions.close(session)
            assert equals_log(self.path, session)
            self.session = None
        elif action == "turn":
            numbers = (entry.data["turn"] for entry in session.events if "turn" in entry.data)
            take_turn(session, 1 + max(numbers, default=0), "x" * size * 100)
        elif action == "event":
            session.append("mine", {"n": size, "text": "é\u2028\n" * size}, ignorable=True)
        elif action == "flush":
            await self.ctx.parallel("session/flush", session)
            assert equals_log(self.path, session)

    def come_back(self, *, tear: int) -> None:
        """Go on with what is stored, or anew if not even its header is whole."""
        data = self.path.read_bytes()
        self.path.write_bytes(data[: len(data) - tear])
        self.session = revived(self.sessions, self.path) or self.sessions.create("s-1")


actions = st.lists(
    st.tuples(
        st.sampled_from(["turn", "event", "flush", "close", "revive", "tear", "reload"]),
        st.integers(0, 40),
    ),
    max_size=14,
)


@given(actions, st.booleans())
@settings(max_examples=60)
def test_whatever_is_done_the_file_equals_the_log_at_the_end(
    steps: list[tuple[str, int]], compress: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        root = Path(folder).resolve()

        async def main(ctx: Context, sessions: SessionStore) -> None:
            plugin = await store_in(ctx, root, compress=compress)
            program = Program(root, ctx, sessions, compress)
            program.plugin = plugin
            for action, size in steps:
                await program.do(action, size)
            session = program.session
            if session is None:
                return
            sessions.close(session)
            assert equals_log(program.path, session)
            if session.seq:
                assert wrong_in(program.path) == []
                assert [event.seq for event in read_back(program.path)] == [*range(session.seq)]

        with_store(main)


def test_a_header_is_read_back_as_it_was(tmp_path: Path) -> None:
    header = SessionHeader(
        id="s-1",
        version=4,
        created_at=5,
        cwd="/w",
        parent_session="p",
        origin="subagent",
        delegation_depth=2,
        agent_preset="code",
    )
    LogWriter(tmp_path, header)

    async def main(ctx: Context, sessions: SessionStore) -> None:
        assert revive(sessions, tmp_path / ZSTD).header == header

    with_store(main)
