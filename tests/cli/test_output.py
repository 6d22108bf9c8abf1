"""Where commands write: standard output, files, and places that cannot be written to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.helpers import CLEAN, OVERLAP, run, start, write

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = (
    *(("check", "--json"), ("check",), ("shrink",), ("shrink", "--pytest")),
    *(("export", "--to", "file"), ("demo",)),
)


def arguments(command: Sequence[str], log: Path) -> list[str | Path]:
    """Return a command line that works, but for where it writes."""
    return [*command, *([] if command == ("demo",) else [log])]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_dash_is_standard_output(
    command: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no name of a file, with any command."""
    monkeypatch.chdir(tmp_path)
    log = write(Path("a.jsonl"), *OVERLAP)
    outcome = run(*arguments(command, log), "-o", "-")
    assert outcome.stdout
    assert "written to" not in outcome.stderr
    assert list(Path().iterdir()) == [log]
    if command in {("demo",), ("export", "--to", "file")}:
        assert all(line.startswith('{"resourceSpans"') for line in outcome.stdout.splitlines())


@pytest.mark.parametrize("command", COMMANDS)
def test_a_place_that_cannot_be_written_is_named_with_a_way_out(
    command: Sequence[str], tmp_path: Path
) -> None:
    """Nothing is an error of ours here."""
    log = write(tmp_path / "a.jsonl", *OVERLAP)
    place = tmp_path / "no" / "where"
    outcome = run(*arguments(command, log), "-o", place)
    assert outcome.exit_code == 2
    assert outcome.stderr.splitlines()[-1] == (
        f"dsh-otel: cannot write {place}: No such file or directory; name another file with "
        "--output"
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
@pytest.mark.parametrize("command", [("check", "--json"), ("rules",), ("codes", "--json")])
def test_a_full_device_is_named_once(command: Sequence[str], tmp_path: Path) -> None:
    """Neither what is buffered nor what is written at the end is lost in silence."""
    log = [write(tmp_path / "a.jsonl", *CLEAN)] if command[0] == "check" else []
    with Path("/dev/full").open("wb") as full:
        process = start(*command, *log, stdout=full, stderr=-1)
        _, said = process.communicate()
    assert process.returncode == 2
    assert said == b"dsh-otel: cannot write standard output: No space left on device\n"


@pytest.mark.parametrize("before", ["old\n", None])
def test_a_file_stays_as_it_is_when_no_span_comes(before: str | None, tmp_path: Path) -> None:
    """What is replaced by nothing was the only copy."""
    empty, kept = write(tmp_path / "empty.jsonl"), tmp_path / "keep.json"
    if before is not None:
        kept.write_text(before)
    assert run("export", "--to", "file", "-o", kept, empty).exit_code == 2
    assert (kept.read_text() if kept.exists() else None) == before


def test_a_file_is_replaced_when_spans_come(tmp_path: Path) -> None:
    """Nothing of the old is left, also when it was longer."""
    log, path = write(tmp_path / "a.jsonl", *CLEAN), tmp_path / "spans.json"
    path.write_text("old\n" * 10_000)
    assert run("export", "--to", "file", "-o", path, log).exit_code == 0
    assert "old" not in path.read_text()


def test_the_demo_is_quiet_on_demand(tmp_path: Path) -> None:
    """The file is the data."""
    path = tmp_path / "spans.json"
    outcome = run("demo", "-q", "-o", path)
    assert (outcome.exit_code, outcome.output) == (0, "")
    assert path.stat().st_size


@pytest.mark.parametrize(
    "command",
    [("rules",), ("rules", "turn.overlap"), ("codes",), ("codes", "EACCES"), ("check",)],
)
def test_colours_can_be_forced_and_change_nothing_else(
    command: Sequence[str], tmp_path: Path
) -> None:
    """As in a job of a CI server that shows them; NO_COLOR still counts more."""
    log = [write(tmp_path / "a.jsonl", *OVERLAP)] if command == ("check",) else []
    plain = run(*command, *log).stdout
    forced = run(*command, *log, env={"FORCE_COLOR": "1"}).stdout
    assert forced != plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", forced) == plain
    assert run(*command, *log, env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stdout == plain
