"""What ``check`` and ``export`` make of input that cannot be read, and how they end then."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest
import zstandard

from dsh_otel.cli.exits import ExitCode
from tests.cli.helpers import CLEAN, OVERLAP, encode, run, write

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

HEADER = b'{"type":"session","version":4,"id":"s","createdAt":1,"cwd":"/"}\n'
NOTHING = "no event can be read"
STRANGE = (
    "not a session log: no line has the type of an event; a log has one JSON object a line, with "
    "type, seq, time and data"
)
UNREADABLE = {
    "empty": (b"", "the log is empty"),
    "blank": (b" \n\n", "the log is empty"),
    "header-only": (HEADER, "the log holds no events yet"),
    "header and damage": (HEADER + b"garbage\n", NOTHING),
    "random": (random.Random(7).randbytes(3000), NOTHING),
    "text": (b"Dear diary,\ntoday nothing happened.\n", "no line is JSON: not a session log"),
    "truncated zstd": (zstandard.compress(encode(*CLEAN))[:40], NOTHING),
    "another file": (b'{"a": 1}\n', STRANGE),
}
UNREADABLE_LOGS = pytest.mark.parametrize(
    ("content", "reason"), UNREADABLE.values(), ids=UNREADABLE
)


def export(folder: Path, *places: Path) -> Result:
    """Export to a file, and say what was done as JSON."""
    return run("export", *places, "--to", "file", "-o", folder / "out.json", "--json")


@UNREADABLE_LOGS
def test_export_names_an_unreadable_log_among_good_ones_with_its_reason_and_ends_with_1(
    content: bytes, reason: str, tmp_path: Path
) -> None:
    good, bad = write(tmp_path / "good.jsonl", *CLEAN), tmp_path / "bad.jsonl"
    bad.write_bytes(content)
    result = export(tmp_path, good, bad)
    assert result.exit_code == ExitCode.FAILED
    assert f"dsh-otel: {bad}: {reason}\n" in result.stderr
    told = json.loads(result.stdout)
    assert (told["unreadable"], told["sessions"]) == ({str(bad): reason}, 1)


@UNREADABLE_LOGS
def test_export_of_nothing_but_unreadable_logs_gives_the_reason_of_check_and_ends_with_2(
    content: bytes, reason: str, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(content)
    for result in (export(tmp_path, bad), run("export", bad)):
        assert result.exit_code == ExitCode.CANNOT_TELL
        assert f"dsh-otel: {bad}: {reason}\n" in result.stderr
    checked = run("check", "--json", bad)
    assert json.loads(checked.stdout)["sessions"][0]["error"] == reason


@UNREADABLE_LOGS
@pytest.mark.parametrize("level", ["violation", "damage", "never"])
def test_check_ends_with_2_if_nothing_is_readable_and_with_1_if_others_are(
    level: str, content: bytes, reason: str, tmp_path: Path
) -> None:
    good, bad = write(tmp_path / "good.jsonl", *CLEAN), tmp_path / "bad.jsonl"
    bad.write_bytes(content)
    assert run("check", bad, "--fail-on", level).exit_code == ExitCode.CANNOT_TELL
    result = run("check", bad, good, "--fail-on", level)
    assert result.exit_code == ExitCode.FAILED
    assert f"{bad}: error: {reason}\n" in result.stdout


@pytest.mark.parametrize("log", [CLEAN, OVERLAP])
def test_check_goes_on_past_a_wrong_path_names_it_and_ends_with_2(
    log: tuple[tuple[str, dict[str, object]], ...], tmp_path: Path
) -> None:
    good, nope = write(tmp_path / "good.jsonl", *log), tmp_path / "nope"
    for places in ((good, nope), (nope, good)):
        result = run("check", *places)
        assert result.exit_code == ExitCode.CANNOT_TELL
        assert result.stderr == f"dsh-otel: {nope}: no such file or folder\n"
        assert ("turn.overlap" in result.stdout) is (log is OVERLAP)
        assert f"2 logs, {len(log)} events, 1 unreadable" in result.stdout
        assert str(nope) not in result.stdout


@pytest.mark.parametrize("form", ["json", "jsonl", "github", "junit", "sarif"])
def test_the_data_of_check_names_a_wrong_path_too(form: str, tmp_path: Path) -> None:
    good, nope = write(tmp_path / "good.jsonl", *CLEAN), tmp_path / "nope"
    result = run("check", "--format", form, good, nope)
    assert result.exit_code == ExitCode.CANNOT_TELL
    assert str(nope) in result.stdout
    assert "no such file or folder" in result.stdout


def test_export_goes_on_past_a_wrong_path_names_it_and_ends_with_2(tmp_path: Path) -> None:
    good, nope = write(tmp_path / "good.jsonl", *CLEAN), tmp_path / "nope"
    for places in ((good, nope), (nope, good)):
        result = export(tmp_path, *places)
        assert result.exit_code == ExitCode.CANNOT_TELL
        assert result.stderr.count(f"dsh-otel: {nope}: no such file or folder\n") == 1
        told = json.loads(result.stdout)
        assert told["unreadable"] == {str(nope): "no such file or folder"}
        assert (told["sessions"], told["sent"]) == (1, 1)


@pytest.mark.parametrize("command", ["check", "export"])
def test_each_wrong_path_is_named_once_if_there_is_no_other(command: str, tmp_path: Path) -> None:
    result = run(command, tmp_path / "a", tmp_path / "b*", tmp_path / "a")
    assert (result.exit_code, result.stdout) == (ExitCode.CANNOT_TELL, "")
    assert result.stderr.splitlines() == [
        f"dsh-otel: {tmp_path}/a: no such file or folder",
        f"dsh-otel: {tmp_path}/b*: the pattern matches nothing",
    ]


@pytest.mark.parametrize("command", ["check", "export"])
@pytest.mark.parametrize("named", [(), ("~/.dsh",), ("{home}",), ("{home}/",)])
def test_a_missing_dsh_home_leads_to_the_demo_and_to_dsh_home(
    named: tuple[str, ...], command: str, tmp_path: Path
) -> None:
    home = tmp_path / ".dsh"
    places = [place.format(home=home) for place in named]
    result = run(command, *places, env={"HOME": str(tmp_path)})
    assert result.exit_code == ExitCode.CANNOT_TELL
    assert "`dsh-otel demo`" in result.stderr
    assert "set DSH_HOME" in result.stderr
    elsewhere = run(command, tmp_path / "nope", env={"HOME": str(tmp_path)})
    assert "demo" not in elsewhere.stderr


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        (("check", "--json"), ("sessions", 0, "error")),
        (("check", "--format", "jsonl"), ("error",)),
        (("export", "--to", "otlp", "--json"), ("unreadable", "PLACE")),
        (("rules", "--json", "--run"), ("unreadable", "PLACE")),
    ],
)
def test_programs_get_their_document_also_when_there_is_no_log(
    command: tuple[str, ...], keys: tuple[str | int, ...], tmp_path: Path
) -> None:
    """A pipe into jq says what is wrong, not that it got nothing."""
    place = str(tmp_path / "nowhere")
    outcome = run(*command, place)
    assert outcome.exit_code == 2
    value = json.loads(outcome.stdout)
    for key in keys:
        value = value[place if key == "PLACE" else key]
    assert value == "no such file or folder"
    assert outcome.stderr.startswith(f"dsh-otel: {place}: no such file or folder")
