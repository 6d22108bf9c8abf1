"""Logs below a folder that come, grow and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsh_core.logs.tree import Change, LogTree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Look = "Callable[[LogTree, list[Path]], list[Change]]"


def everywhere(tree: LogTree, _places: list[Path]) -> list[Change]:
    return tree.look()


def told(tree: LogTree, places: list[Path]) -> list[Change]:
    return tree.look_at(map(str, places))


both = pytest.mark.parametrize("look", [everywhere, told])


def write(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)
    return path


@both
def test_logs_are_found_grow_and_go(look: Callable[..., list[Change]], tmp_path: Path) -> None:
    tree = LogTree(str(tmp_path))
    assert tree.look() == []
    path = write(tmp_path / "a" / "s-1" / "session.v4.jsonl")
    key = str(path.parent)
    assert look(tree, [tmp_path / "a"]) == [Change(key, str(path), 1)]
    assert look(tree, [path]) == []
    write(path)
    assert look(tree, [path]) == [Change(key, str(path), 2)]
    path.unlink()
    assert look(tree, [path]) == [Change(key, None)]
    assert tree.look() == []


@both
def test_a_newer_generation_takes_the_place(
    look: Callable[..., list[Change]], tmp_path: Path
) -> None:
    tree = LogTree(str(tmp_path))
    old = write(tmp_path / "s-1" / "session.jsonl.zstd")
    tree.look()
    new = write(tmp_path / "s-1" / "session.v4.jsonl.zstd")
    write(tmp_path / "s-1" / "session.v4.jsonl.zstd.0123456789ab.tmp")
    assert look(tree, [new]) == [Change(str(old.parent), str(new), 1)]
    write(old)
    assert look(tree, [old]) == []


@both
def test_a_folder_that_goes_takes_its_logs_along(
    look: Callable[..., list[Change]], tmp_path: Path
) -> None:
    tree = LogTree(str(tmp_path))
    path = write(tmp_path / "a" / "s-1" / "session.jsonl")
    tree.look()
    path.unlink()
    path.parent.rmdir()
    path.parent.parent.rmdir()
    assert look(tree, [tmp_path / "a"]) == [Change(str(path.parent), None)]


def test_logs_that_are_not_named_by_generation_stand_for_themselves(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one.jsonl"), write(tmp_path / "two.jsonl.zstd")
    write(tmp_path / "notes.txt")
    changes = LogTree(str(tmp_path)).look()
    assert sorted(change.key for change in changes) == [str(one), str(two)]


def test_one_log_can_be_the_root(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    tree = LogTree(str(path))
    assert tree.look() == []
    write(path)
    assert tree.look() == [Change(str(path), str(path), 1)]
    path.unlink()
    assert tree.look() == [Change(str(path), None)]


def test_a_root_may_come_later_and_go(tmp_path: Path) -> None:
    root = tmp_path / "home"
    tree = LogTree(str(root))
    assert tree.look() == []
    path = write(root / "s-1" / "session.jsonl")
    assert tree.look() == [Change(str(path.parent), str(path), 1)]
    path.unlink()
    path.parent.rmdir()
    root.rmdir()
    assert tree.look() == [Change(str(path.parent), None)]


def test_links_in_circles_end(tmp_path: Path) -> None:
    write(tmp_path / "a" / "session.jsonl")
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    assert LogTree(str(tmp_path)).look()


def test_what_is_no_file_is_no_log(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe.jsonl")
    assert LogTree(str(tmp_path)).look() == []


def test_too_many_logs_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsh_core.logs.tree.MAX_LOGS", 2)
    for number in range(3):
        write(tmp_path / f"{number}.jsonl")
    tree = LogTree(str(tmp_path))
    assert len(tree.look()) == 2
    assert tree.full


def test_files_of_our_own_are_no_logs(tmp_path: Path) -> None:
    own = write(tmp_path / "spans.jsonl")
    write(tmp_path / "s.jsonl")
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    tree = LogTree(str(tmp_path), ignored=[str(link / "spans.jsonl")])
    assert str(own) not in {change.path for change in tree.look()}


@pytest.mark.parametrize("root", [".", "h", "h/"])
def test_a_root_may_be_named_as_people_do(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "h" / "s-1" / "session.jsonl")
    tree = LogTree(root)
    assert [change.path for change in tree.look()] == [str(path)]
    write(path)
    # The system tells of whole paths, some of which are elsewhere.
    assert [change.size for change in tree.look_at([str(path), "/elsewhere", "/"])] == [2]


def test_what_has_two_names_is_followed_under_one(tmp_path: Path) -> None:
    write(tmp_path / "home" / "s-1" / "session.jsonl")
    other = write(tmp_path / "other" / "s-2" / "session.jsonl")
    for name in ("a", "b"):
        (tmp_path / "home" / name).symlink_to(".")
        (tmp_path / "home" / f"o{name}").symlink_to(other.parents[1])
    (tmp_path / "home" / "s.jsonl").symlink_to(tmp_path / "home" / "s-1" / "session.jsonl")
    tree = LogTree(str(tmp_path / "home"))
    assert len(tree.look()) == 2
    assert tree.look() == []
