"""The options of ``dsh-otel tail`` that need no session to be refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.helpers import run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("command", ["tail", "receive"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--jsonl", "--json"], "exclude each other"),
        (["--jsonl", "--to", "console"], "--jsonl needs standard output"),
        (["--json", "--to", "file", "-o", "-"], "--json needs standard output"),
        (["-o", "spans.json"], "--output goes with --to file"),
        (["--rules", "no.such"], "no rule matches"),
    ],
)
def test_what_cannot_be_is_refused(command: str, options: list[str], said: str) -> None:
    done = run(command, *options)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--since", "yesterday"], "no point in time"),
        (["--since", "1h", "--from-start"], "exclude each other"),
    ],
)
def test_a_beginning_has_to_be_one(options: list[str], said: str, tmp_path: Path) -> None:
    done = run("tail", tmp_path, *options)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())


def test_a_state_of_somebody_else_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_text("hello\n")
    done = run("tail", tmp_path, "--state", state)
    assert done.exit_code == 2
    assert "no state file" in done.stderr
    assert state.read_text() == "hello\n"


def test_switched_off_it_says_so(tmp_path: Path) -> None:
    done = run("tail", tmp_path, env={"DSH_TELEMETRY_DISABLED": "1"})
    assert (done.exit_code, done.stdout) == (0, "")
    assert "DSH_TELEMETRY_DISABLED" in done.stderr
