"""A command whose sessions are followed: exit code, signals and output stay its own."""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests import paths
from tests.e2e import cli, logs
from tests.e2e.receivers import HOST, Sink, free_ports

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

pytestmark = pytest.mark.e2e

GOOD: Final = paths.DECODED / "tool-success.jsonl"
BAD: Final = next(paths.CASES.glob("01-*.jsonl"))
WRITES: Final = """
import os, pathlib, sys
source, code = pathlib.Path(sys.argv[1]), int(sys.argv[2])
folder = pathlib.Path(os.environ["DSH_HOME"], "sessions", "--p--", source.stem)
folder.mkdir(parents=True)
for line in source.read_bytes().splitlines(keepends=True):
    with open(folder / "session.v4.jsonl", "ab") as file:
        file.write(line)
print("said by the command")
print(sys.stdin.read(), end="")
sys.exit(code)
"""
"""Writes a log, says something, echoes its input, and ends with a code."""

WAITS: Final = """
import signal, sys, time
def end(*_):
    print("asked to end", flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
time.sleep(60)
"""


def run(home: Path, *options: Any, log: Path = GOOD, code: int = 0, **env: Any) -> Any:
    command = (sys.executable, "-c", WRITES, log, str(code))
    return cli.run("run", "--home", home, *options, "--", *command, **env)


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_and_the_output_are_those_of_the_command(code: int, tmp_path: Path) -> None:
    facts = tmp_path / "facts.jsonl"
    done = run(tmp_path / "home", "--jsonl", facts, code=code)
    assert (done.returncode, done.stdout) == (code, "said by the command\n")
    rows = [json.loads(line) for line in facts.read_text().splitlines()]
    assert [row["event"] for row in rows] == [
        "dsh.turn.started",
        "dsh.turn.ended",
        "dsh.follow.ended",
    ]
    assert rows[-1]["turns"] == 1
    assert "turn 1  completed" in done.stderr


def test_its_spans_arrive_before_it_ends(tmp_path: Path) -> None:
    with Sink() as sink:
        done = run(tmp_path / "home", "--to", "otlp", OTEL_EXPORTER_OTLP_ENDPOINT=sink.endpoint)
        assert done.returncode == 0
        assert {span.name for span in sink.spans()} >= {"invoke_agent dsh", "execute_tool bash"}


def test_a_finding_that_counts_makes_it_fail_unless_the_command_fails_itself(
    tmp_path: Path,
) -> None:
    options = ("--fail-on", "violation")
    assert run(tmp_path / "a", *options, log=GOOD).returncode == 0
    assert run(tmp_path / "b", *options, log=BAD).returncode == 1
    assert run(tmp_path / "c", *options, log=BAD, code=4).returncode == 4
    assert run(tmp_path / "d", log=BAD).returncode == 0


def test_what_the_command_left_open_is_told(tmp_path: Path) -> None:
    done = run(tmp_path / "home", log=paths.DECODED / "crash.before-resume.jsonl")
    assert "never closed" in done.stderr


@pytest.mark.parametrize(
    ("command", "code"), [(("no such command",), 127), (("/etc/passwd",), 126)]
)
def test_what_cannot_be_run_is_said(command: tuple[str, ...], code: int, tmp_path: Path) -> None:
    done = cli.run("run", "--home", tmp_path, "--", *command)
    assert done.returncode == code
    assert command[0] in done.stderr


def test_options_behind_the_command_are_its_own(tmp_path: Path) -> None:
    done = cli.run("run", "--home", tmp_path, sys.executable, "-c", "print('--to')", "--to")
    assert (done.returncode, done.stdout) == (0, "--to\n")


def started(home: Path) -> subprocess.Popen[bytes]:
    process = cli.start("run", "--home", home, "--", sys.executable, "-c", WAITS, env={})
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def test_a_signal_is_handed_on_and_the_command_decides(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
        assert (process.returncode, out) == (7, b"asked to end\n")


def test_a_signal_that_ends_the_command_is_told(tmp_path: Path) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    done = cli.run("run", "--home", tmp_path, "--", sys.executable, "-c", code)
    assert done.returncode == 128 + signal.SIGKILL


def test_a_dead_endpoint_costs_five_seconds_and_not_the_exit_code(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    begin = time.monotonic()
    done = run(
        tmp_path / "home",
        *("--to", "otlp"),
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://{HOST}:{port}",
    )
    assert done.returncode == 0
    assert time.monotonic() - begin < 15
    assert "15 left" in done.stderr


def test_a_full_queue_does_not_hold_it_up(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    source = logs.write(tmp_path / "many.jsonl", logs.turns(12_000))
    where = tmp_path / "home" / "sessions"
    where.mkdir(parents=True)
    code = f"import shutil; shutil.copy({str(source)!r}, {str(where / 'many.jsonl')!r})"
    begin = time.monotonic()
    done = cli.run(
        *("run", "-q", "--home", tmp_path / "home", "--to", "otlp", "--"),
        *(sys.executable, "-c", code),
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://{HOST}:{port}",
    )
    assert done.returncode == 0
    assert time.monotonic() - begin < 25
    assert "left" in done.stderr


def test_turns_of_others_that_are_open_are_not_its_business(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "sessions" / "--p--" / "other"
    folder.mkdir(parents=True)
    (folder / "session.v4.jsonl").write_bytes(
        (paths.DECODED / "crash.before-resume.jsonl").read_bytes()
    )
    done = run(tmp_path / "home")
    assert "never closed" not in done.stderr


def test_with_telemetry_switched_off_the_command_runs_all_the_same(tmp_path: Path) -> None:
    done = run(
        tmp_path / "home", "--fail-on", "advice", log=BAD, code=5, DSH_TELEMETRY_DISABLED="1"
    )
    assert (done.returncode, done.stdout) == (5, "said by the command\n")
    assert "switched off" in done.stderr
    assert "turn 1" not in done.stderr


def test_an_output_that_cannot_be_written_stops_it_before_the_command(tmp_path: Path) -> None:
    output = tmp_path / "missing" / "spans.json"
    done = run(tmp_path / "home", "--to", "file", "-o", output)
    assert (done.returncode, done.stdout) == (2, "")
    assert not (tmp_path / "home").exists()
