"""Tests of finding logs: what a user names, and the files that it means."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dsh_core.logs.find import STDIN, LogFile, NoLogError, default_home, find_logs, search_logs
from tests.paths import HOMES


def touch(root: Path, *names: str) -> None:
    """Make files with their own names as content."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def found(root: Path, *places: str | Path) -> list[str]:
    """Return what is found, relative to a root."""
    return [os.path.relpath(log.path, root) for log in find_logs(map(str, places or (root,)))]


class TestFolders:
    """Folders of all kinds."""

    def test_a_session_folder(self, tmp_path: Path) -> None:
        """The folder of a session holds one log."""
        touch(tmp_path, "session.v4.jsonl.zstd", "session.lock")
        assert found(tmp_path) == ["session.v4.jsonl.zstd"]

    def test_a_project_folder(self, tmp_path: Path) -> None:
        """The folder of a project holds its sessions, in the order of their names."""
        touch(tmp_path, "b/session.jsonl.zstd", "a/session.v4.jsonl.zstd")
        assert found(tmp_path) == ["a/session.v4.jsonl.zstd", "b/session.jsonl.zstd"]

    def test_a_dsh_home(self, tmp_path: Path) -> None:
        """A home holds projects, and much that is no log."""
        touch(
            tmp_path,
            "sessions/--srv-ws--/s-2/session.v4.jsonl.zstd",
            "sessions/_no-cwd/s-1/session.v4.jsonl",
            "storages/session_projcache/sessions/s-1.json",
            "profiles/p.json",
            ".anonymous-user-id",
        )
        assert found(tmp_path) == [
            "sessions/--srv-ws--/s-2/session.v4.jsonl.zstd",
            "sessions/_no-cwd/s-1/session.v4.jsonl",
        ]

    def test_the_homes_that_runtimes_wrote(self) -> None:
        """Each real home leads to its sessions."""
        assert len(find_logs([str(HOMES)])) == 29
        names = [Path(log.path).parent.name for log in find_logs([str(HOMES / "subagent")])]
        assert len(names) == 2
        assert "sub-1" in names

    def test_a_folder_of_june_logs(self, tmp_path: Path) -> None:
        """June logs lie side by side, named after their sessions."""
        touch(tmp_path, "b-session.jsonl", "a-session.jsonl", "c.jsonl.zst", "notes.txt")
        assert found(tmp_path) == ["a-session.jsonl", "b-session.jsonl", "c.jsonl.zst"]

    @pytest.mark.parametrize(
        ("names", "newest"),
        [
            (["session.jsonl.zstd", "session.v3.jsonl.zstd"], "session.v3.jsonl.zstd"),
            (["session.v3.jsonl", "session.v4.jsonl", "session.jsonl"], "session.v4.jsonl"),
            (["session.v2.jsonl.zstd", "session.v10.jsonl"], "session.v10.jsonl"),
            (["session.jsonl", "session.jsonl.zstd"], "session.jsonl.zstd"),
        ],
    )
    def test_the_newest_generation_wins(
        self, tmp_path: Path, names: list[str], newest: str
    ) -> None:
        """Of the generations of one session only the newest is read."""
        touch(tmp_path, *names)
        assert found(tmp_path) == [newest]

    @pytest.mark.parametrize(
        "name",
        [
            "session.v4.jsonl.zstd.0123456789ab.tmp",
            "session.migration.0123456789abcdef.jsonl.zstd.tmp",
            "session.v4.jsonl.zstd~",
            "session.json",
            ".jsonl",
        ],
    )
    def test_temporary_files_are_none(self, tmp_path: Path, name: str) -> None:
        """What a writer leaves half done is no log."""
        touch(tmp_path, "session.v3.jsonl", name)
        assert found(tmp_path) == ["session.v3.jsonl"]

    def test_generations_beside_other_logs(self, tmp_path: Path) -> None:
        """Other logs in the folder of a session are read as well."""
        touch(tmp_path, "session.jsonl", "session.v4.jsonl", "copy.jsonl")
        assert found(tmp_path) == ["session.v4.jsonl", "copy.jsonl"]


class TestPlaces:
    """Files, patterns, and several of them."""

    def test_a_file_is_taken_at_its_word(self, tmp_path: Path) -> None:
        """A file that is named is read, whatever its name and generation."""
        touch(tmp_path, "session.jsonl", "session.v4.jsonl", "export.txt")
        assert found(tmp_path, tmp_path / "session.jsonl") == ["session.jsonl"]
        assert found(tmp_path, tmp_path / "export.txt") == ["export.txt"]

    def test_the_order_of_the_places_is_kept(self, tmp_path: Path) -> None:
        """Logs come as they were named."""
        touch(tmp_path, "a.jsonl", "b.jsonl")
        assert found(tmp_path, tmp_path / "b.jsonl", tmp_path / "a.jsonl") == ["b.jsonl", "a.jsonl"]

    def test_each_log_is_found_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A log that is named twice, in whatever way, is read once, under its first name."""
        touch(tmp_path, "p/s/session.jsonl", "p/t/session.jsonl")
        (tmp_path / "link").symlink_to(tmp_path / "p")
        monkeypatch.chdir(tmp_path)
        places = ["p/t", str(tmp_path), "./p/s/session.jsonl", "p/../p", "link", "p/*/*.jsonl"]
        assert [log.path for log in find_logs(places)] == [
            "p/t/session.jsonl",
            str(tmp_path / "p/s/session.jsonl"),
        ]

    def test_patterns(self, tmp_path: Path) -> None:
        """A pattern stands for files and folders."""
        touch(tmp_path, "a1/session.jsonl", "a2/session.v4.jsonl", "b/session.jsonl", "a.jsonl")
        assert found(tmp_path, tmp_path / "a*") == [
            "a.jsonl",
            "a1/session.jsonl",
            "a2/session.v4.jsonl",
        ]
        assert found(tmp_path, tmp_path / "**/session.jsonl") == [
            "a1/session.jsonl",
            "b/session.jsonl",
        ]

    def test_a_name_that_looks_like_a_pattern(self, tmp_path: Path) -> None:
        """What exists under its name is no pattern."""
        touch(tmp_path, "[a].jsonl", "a.jsonl")
        assert found(tmp_path, tmp_path / "[a].jsonl") == ["[a].jsonl"]

    def test_the_home_of_the_user(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A tilde is expanded."""
        touch(tmp_path, "logs/a.jsonl")
        monkeypatch.setenv("HOME", str(tmp_path))
        assert found(tmp_path, "~/logs") == ["logs/a.jsonl"]

    def test_standard_input(self, tmp_path: Path) -> None:
        """A dash is standard input, once."""
        touch(tmp_path, "a.jsonl")
        logs = find_logs([STDIN, str(tmp_path), STDIN])
        assert [log.path for log in logs] == ["-", str(tmp_path / "a.jsonl")]

    @pytest.mark.parametrize(
        ("place", "message"),
        [
            ("nothing", "nothing: no such file or folder"),
            ("no*thing", "no*thing: the pattern matches nothing"),
            ("empty", "empty: no session log there"),
            ("x" * 300, "File name too long"),
        ],
    )
    def test_a_place_without_a_log(self, tmp_path: Path, place: str, message: str) -> None:
        """Whoever names a place wants something to be found there."""
        touch(tmp_path, "empty/notes.txt")
        with pytest.raises(NoLogError) as error:
            find_logs([str(tmp_path / place)])
        assert message in str(error.value)

    def test_a_folder_that_cannot_be_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A folder that cannot be looked into is not the same as one without logs."""
        touch(tmp_path, "a.jsonl", "bad/b.jsonl")
        scan = os.scandir

        def refuse(path: str) -> object:
            if str(path).endswith("bad"):
                raise PermissionError(13, "Permission denied", str(path))
            return scan(path)

        monkeypatch.setattr(os, "scandir", refuse)
        with pytest.raises(NoLogError, match="bad: Permission denied"):
            find_logs([str(tmp_path)])
        logs, (wrong,) = search_logs([str(tmp_path)])
        assert [log.path for log in logs] == [str(tmp_path / "a.jsonl")]
        assert (wrong.place, wrong.reason) == (str(tmp_path / "bad"), "Permission denied")

    def test_a_wrong_place_does_not_hide_the_logs_of_the_others(self, tmp_path: Path) -> None:
        touch(tmp_path, "a.jsonl", "empty/notes.txt")
        places = [str(tmp_path / name) for name in ("no", "a.jsonl", "empty", "x" * 300)]
        logs, wrong = search_logs(["", *places])
        assert [log.path for log in logs] == [places[1]]
        assert [(error.place, error.reason) for error in wrong] == [
            ("", "an empty path names no log"),
            (places[0], "no such file or folder"),
            (places[2], "no session log there (looked for *.jsonl and *.jsonl.zstd)"),
            (places[3], "File name too long"),
        ]


class TestOpen:
    """Opening what was found."""

    def test_a_file(self, tmp_path: Path) -> None:
        """A log is opened for reading bytes."""
        touch(tmp_path, "a.jsonl")
        with find_logs([str(tmp_path)])[0].open() as source:
            assert source.read() == b"a.jsonl"

    def test_standard_input(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Standard input gives its bytes."""
        touch(tmp_path, "a.jsonl")
        with (tmp_path / "a.jsonl").open() as text:
            monkeypatch.setattr(sys, "stdin", text)
            assert LogFile(STDIN).open().read() == b"a.jsonl"

    def test_a_file_that_is_gone(self, tmp_path: Path) -> None:
        """A log may vanish between finding and opening."""
        with pytest.raises(FileNotFoundError):
            LogFile(str(tmp_path / "gone.jsonl")).open()


class TestHome:
    """The DSH home."""

    @pytest.mark.parametrize("environ", [{}, {"DSH_HOME": ""}])
    def test_it_is_below_the_users_home(
        self, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without a setting it is ``~/.dsh``."""
        monkeypatch.setenv("HOME", "/home/dev")
        assert default_home(environ) == Path("/home/dev/.dsh")

    def test_it_may_be_elsewhere(self) -> None:
        """A setting names it."""
        assert default_home({"DSH_HOME": "/srv/dsh"}) == Path("/srv/dsh")


class TestOddFiles:
    """What is no regular file, or no path at all."""

    def test_a_pipe_in_a_folder(self, tmp_path: Path) -> None:
        """It is found, but not opened: nobody knows whether anything ever writes to it."""
        os.mkfifo(tmp_path / "x.jsonl")
        for place in (tmp_path, tmp_path / "*.jsonl"):
            (log,) = find_logs([str(place)])
            with pytest.raises(OSError, match="not a regular file"):
                log.open()

    def test_a_device_that_is_named(self) -> None:
        """What the user names is opened, whatever it is."""
        (log,) = find_logs([os.devnull])
        with log.open() as source:
            assert source.read() == b""

    def test_linked_folders(self, tmp_path: Path) -> None:
        """Links to folders are followed, each folder once, and loops end."""
        touch(tmp_path, "home/b/session.jsonl", "away/c/session.jsonl")
        home = tmp_path / "home"
        (home / "a-loop").symlink_to(home)
        (home / "a-again").symlink_to(home / "b")
        (home / "a-link").symlink_to(tmp_path / "away")
        assert found(home, home) == ["b/session.jsonl", "a-link/c/session.jsonl"]

    def test_an_unknown_user(self) -> None:
        """A home that nobody has holds no log."""
        with pytest.raises(NoLogError, match="~no-such-user-here/x: "):
            find_logs(["~no-such-user-here/x"])

    def test_no_home(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a home the default is as good as any path that leads nowhere."""

        def fail(_self: Path) -> Path:
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.setattr(Path, "expanduser", fail)
        assert default_home({}) == Path("~/.dsh")
        with pytest.raises(NoLogError, match="home directory"):
            find_logs([str(default_home({}))])

    def test_an_empty_path(self) -> None:
        """It does not mean the working folder."""
        with pytest.raises(NoLogError, match="an empty path names no log"):
            find_logs([""])

    def test_no_standard_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A process may have none."""
        monkeypatch.setattr(sys, "stdin", None)
        with pytest.raises(OSError, match="standard input is closed"):
            LogFile(STDIN).open()
