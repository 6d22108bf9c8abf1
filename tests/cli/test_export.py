"""``dsh-otel export``, ``doctor`` and ``demo``, without a server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

import pytest
import zstandard
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dsh_otel.cli import demo
from dsh_otel.cli.exits import ExitCode
from dsh_otel.export import otlp
from dsh_otel.export.sink import SinkReport
from tests.cli.helpers import ADVICE, CLEAN, END, OVERLAP, START, environment, run, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def closed_port() -> Iterator[str]:
    """An endpoint on the loopback where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def start(*arguments: str | Path, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Run a command line in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "dsh_otel", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment() if env is None else env,
        text=True,
    )


def test_the_console_is_the_default_and_shows_findings_in_place(tmp_path: Path) -> None:
    log = write(tmp_path / "s.jsonl", *OVERLAP)
    result = run("export", log)
    assert result.exit_code == ExitCode.OK
    assert result.stdout.splitlines() == [
        "session s  seed log, seed contract",
        "turn 0 invoke_agent dsh  0 ms  never closed",
        "turn 1 invoke_agent dsh  1 ms  completed",
        "└── violation turn.overlap: turn 1 starts while turn 0 is open  seq 1",
    ]
    assert "1 log: 2 spans shown; 1 violation" in result.stderr


def test_a_file_holds_otlp_json_lines_and_is_the_same_each_time(tmp_path: Path) -> None:
    log = write(tmp_path / "s.jsonl", *ADVICE)
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    for path in (first, second):
        result = run("export", log, "--to", "file", "--output", path, "--json")
        assert result.exit_code == ExitCode.OK
        told = json.loads(result.stdout)
        assert (told["sent"], told["lost"], told["sessions"]) == (3, 0, 1)
        assert told["findings"] == {"violation": 0, "damage": 0, "advice": 1}
    assert first.read_bytes() == second.read_bytes()
    (line,) = first.read_text().splitlines()
    spans = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [span["name"] for span in spans] == ["dsh.step", "execute_tool read", "invoke_agent dsh"]


def test_content_stays_back_unless_it_is_asked_for(tmp_path: Path) -> None:
    log = write(tmp_path / "s.jsonl", *ADVICE)
    path = tmp_path / "a.json"
    run("export", log, "--to", "file", "-o", path)
    assert "gen_ai.tool.call.arguments" not in path.read_text()
    run("export", log, "--to", "file", "-o", path, "--content")
    assert "gen_ai.tool.call.arguments" in path.read_text()


@pytest.mark.parametrize(
    ("name", "value"), [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_SAMPLER", "always_off")]
)
def test_an_export_of_nothing_is_no_success(name: str, value: str, tmp_path: Path) -> None:
    log = write(tmp_path / "s.jsonl", *CLEAN)
    result = run("export", log, "--to", "file", "-o", tmp_path / "a", env={name: value})
    assert result.exit_code == ExitCode.CANNOT_TELL
    assert "1 span not sampled" in result.stderr
    assert name in result.stderr


def test_where_nobody_listens_the_loss_is_told(closed_port: str, tmp_path: Path) -> None:
    log = write(tmp_path / "s.jsonl", *CLEAN)
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": closed_port, "OTEL_EXPORTER_OTLP_TIMEOUT": "0.2"}
    result = run("export", log, "--to", "otlp", "--json", env=env)
    assert result.exit_code == ExitCode.CANNOT_TELL
    assert "1 span lost" in result.stderr
    assert json.loads(result.stdout)["lost"] == 1


@pytest.mark.parametrize(("options", "told"), [((), True), (("--quiet",), False)])
def test_the_console_says_that_it_never_shows_content(
    options: tuple[str, ...], told: bool, tmp_path: Path
) -> None:
    log = write(tmp_path / "s.jsonl", *ADVICE)
    result = run("export", log, "--content", *options)
    assert result.exit_code == ExitCode.OK
    assert ("the console tree never shows content" in result.stderr) is told
    assert result.stdout == run("export", log).stdout
    elsewhere = run("export", log, "--content", "--to", "file", "-o", tmp_path / "a.json")
    assert "never shows content" not in elsewhere.stderr


def test_logs_of_one_session_are_named_in_one_notice(tmp_path: Path) -> None:
    first = write(tmp_path / "a" / "s.jsonl", *CLEAN)
    second = tmp_path / "b" / "s.jsonl.zstd"
    second.parent.mkdir()
    second.write_bytes(zstandard.compress(first.read_bytes()))
    other = write(tmp_path / "other.jsonl", *CLEAN)
    for to in (("--to", "console"), ("--to", "file", "-o", tmp_path / "out.json")):
        result = run("export", first, other, second, *to)
        assert result.exit_code == ExitCode.OK
        assert result.stderr.count("the same ids") == 1
        assert f"dsh-otel: {first} and {second} are logs of one session: " in result.stderr
        assert "the same ids" not in run("export", first, other, *to).stderr
        assert "the same ids" not in run("export", "-q", first, second, *to).stderr


def test_of_many_logs_of_one_session_three_are_named_and_so_are_three_such_sessions(
    tmp_path: Path,
) -> None:
    for folder in range(5):
        for session in range(5):
            write(tmp_path / str(folder) / f"s{session}.jsonl", *CLEAN)
    told = run("export", tmp_path).stderr
    names = ", ".join(f"{tmp_path}/{folder}/s0.jsonl" for folder in range(3))
    assert f"dsh-otel: {names} and 2 more are logs of one session: " in told
    assert told.count("are logs of one session") == 3
    assert "dsh-otel: 2 more sessions with several logs\n" in told


def test_spans_on_standard_output_are_said_to_be_there(tmp_path: Path) -> None:
    result = run("export", write(tmp_path / "s.jsonl", *CLEAN), "--to", "file", "-o", "-")
    assert "1 span went to standard output" in result.stderr


class Refusing:
    """A destination that takes every request, and refuses some of the spans in it."""

    target = "http://receiver"

    def __init__(self, refused: int) -> None:
        self.exporter = InMemorySpanExporter()
        self._refused = refused

    def report(self) -> SinkReport:
        return SinkReport(refused=self._refused, problem="the receiver says: too old")


@pytest.mark.parametrize(("says", "sent", "refused"), [(2, 97, 2), (99, 0, 99), (500, 0, 99)])
def test_spans_that_the_receiver_refuses_are_not_among_those_that_went(
    says: int, sent: int, refused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "OtlpSink", lambda: Refusing(says))
    with as_file(files("dsh_otel") / demo.SAMPLES) as home:
        result = run("export", home, "--to", "otlp", "--json")
    assert result.exit_code == (ExitCode.FAILED if sent else ExitCode.CANNOT_TELL)
    told = json.loads(result.stdout)
    assert (told["sent"], told["lost"], told["refused"]) == (sent, 0, refused)
    assert f"7 logs: {sent} spans went to http://receiver" in result.stderr
    assert f"{refused} refused by http://receiver: the receiver says: too old" in result.stderr


def test_an_unreadable_log_is_told_and_the_others_are_exported(tmp_path: Path) -> None:
    write(tmp_path / "good.jsonl", *CLEAN)
    (tmp_path / "bad.jsonl").write_text('{"a": 1}\n')
    result = run("export", tmp_path, "--to", "file", "-o", tmp_path / "a.json")
    assert result.exit_code == ExitCode.FAILED
    assert "bad.jsonl: not a session log" in result.stderr
    assert "1 log: 1 span went to" in result.stderr


def test_the_file_of_an_earlier_export_is_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "s.jsonl", *CLEAN)
    for _ in range(2):
        assert run("export", ".", "--to", "file").exit_code == ExitCode.OK
    assert run("check", ".").exit_code == ExitCode.OK


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--output", "x"), "--output goes with --to file"),
        (("--json",), "--json needs standard output"),
        (("--to", "file", "-o", "-", "--json"), "--json needs standard output"),
        (("--to", "nowhere"), "nowhere"),
        (("--rules", "no.such"), "no rule matches"),
    ],
)
def test_wrong_usage_is_told(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    log = write(tmp_path / "s.jsonl", *CLEAN)
    result = run("export", log, *arguments)
    assert result.exit_code == ExitCode.CANNOT_TELL
    assert message in result.stderr


@pytest.mark.parametrize("to", [("console",), ("file", "--output", "-")])
def test_a_reader_that_has_gone_is_not_a_finding(to: tuple[str, ...], tmp_path: Path) -> None:
    log = write(tmp_path / "s.jsonl", *[START, END] * 3000)
    with start("export", log, "--to", *to) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == ExitCode.PIPE_CLOSED


@pytest.mark.parametrize("name", ["OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_LINK_COUNT_LIMIT"])
def test_a_malformed_setting_is_named_and_check_does_not_mind(name: str, tmp_path: Path) -> None:
    log = write(tmp_path / "s.jsonl", *CLEAN)
    for command, code in (("export", ExitCode.CANNOT_TELL), ("check", ExitCode.OK)):
        process = start(command, log, env=environment(**{name: "abc"}))
        _, told = process.communicate(timeout=60)
        assert process.returncode == code
        assert (f"{name} must be" in told) is (command == "export")


def test_a_demo_that_cannot_write_says_so() -> None:
    assert run("demo", "--output", "/dev/full").exit_code == ExitCode.CANNOT_TELL


def test_a_log_is_not_overwritten(tmp_path: Path) -> None:
    log = write(tmp_path / "s.jsonl", *CLEAN)
    before = log.read_bytes()
    assert run("export", log, "--to", "file", "-o", log).exit_code == ExitCode.CANNOT_TELL
    assert log.read_bytes() == before


def test_another_protocol_is_refused(tmp_path: Path) -> None:
    log = write(tmp_path / "s.jsonl", *CLEAN)
    result = run("export", log, "--to", "otlp", env={"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    assert result.exit_code == ExitCode.CANNOT_TELL
    assert "http/protobuf" in result.stderr


def test_the_doctor_names_what_is_wrong(closed_port: str) -> None:
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": closed_port,
        "OTEL_EXPORTER_OTLP_TIMEOUT": "0.2",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20secret",
    }
    result = run("doctor", "--json", env=env)
    assert result.exit_code == ExitCode.CANNOT_TELL
    report = json.loads(result.stdout)
    assert report["endpoint"] == f"{closed_port}/v1/traces"
    assert (report["healthy"], report["status"]) == (False, None)
    assert report["headers"] == ["authorization"]
    assert "secret" not in result.stdout
    assert "is a receiver listening there?" in report["problems"][0]
    assert "no answer" in run("doctor", env=env).stdout


def test_the_doctor_counts_one_log_as_one(tmp_path: Path) -> None:
    write(tmp_path / "s.jsonl", *CLEAN)
    result = run("doctor", "--no-send", env={"DSH_HOME": str(tmp_path)})
    assert f"{tmp_path} (1 log)\n" in result.stdout


def test_the_doctor_may_only_look() -> None:
    result = run("doctor", "--no-send", env={"OTEL_SDK_DISABLED": "false"})
    assert result.exit_code == ExitCode.OK
    assert "nothing stands in the way" in result.stdout


@pytest.mark.parametrize("option", ["--send", "--no-send"])
@pytest.mark.parametrize(
    ("sampler", "argument"),
    [("always_off", ""), ("parentbased_always_off", ""), ("traceidratio", "0")],
)
def test_the_doctor_says_that_no_span_is_sampled_whether_it_sends_or_not(
    sampler: str, argument: str, option: str, closed_port: str
) -> None:
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": closed_port,
        "OTEL_TRACES_SAMPLER": sampler,
        "OTEL_TRACES_SAMPLER_ARG": argument or None,
    }
    result = run("doctor", option, env=env)
    assert result.exit_code == ExitCode.CANNOT_TELL
    assert f"problem: the sampler {sampler} drops every span" in result.stdout
    assert "stands in the way" not in result.stdout
    assert "one span sent" not in result.stdout


def test_the_doctor_does_not_mind_a_sampler_that_drops_most_spans(closed_port: str) -> None:
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": closed_port,
        "OTEL_TRACES_SAMPLER": "traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": "1e-15",
    }
    assert run("doctor", "--no-send", env=env).exit_code == ExitCode.OK
    result = run("doctor", env=env)
    assert result.exit_code == ExitCode.CANNOT_TELL
    assert "problem: the sampler traceidratio left the span out; try again" in result.stdout


@pytest.mark.parametrize("option", ["--send", "--no-send"])
def test_the_doctor_says_that_the_extra_is_missing_whether_it_sends_or_not(
    option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    result = run("doctor", option)
    assert result.exit_code == ExitCode.CANNOT_TELL
    assert "needs an extra: pip install '.[otlp]' in the project's folder" in result.stdout


def test_the_demo_shows_codes_and_a_violation_and_writes_a_file(tmp_path: Path) -> None:
    path = tmp_path / "demo.json"
    result = run("demo", "--output", path)
    assert result.exit_code == ExitCode.OK
    for expected in (
        "violation turn.overlap",
        "FS_NOT_FOUND  missing",
        "EACCES (inferred)  denied",
    ):
        assert expected in result.stdout
    assert "99 spans of 7 sessions are in" in result.stdout
    assert path.read_text().startswith('{"resourceSpans"')


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", *CLEAN)
    os.mkfifo(tmp_path / "b.jsonl")
    result = run("export", tmp_path, "--to", "file", "-o", tmp_path / "out", "--json")
    assert result.exit_code == ExitCode.FAILED
    assert list(json.loads(result.stdout)["unreadable"].values()) == ["not a regular file"]


@pytest.mark.parametrize(
    ("name", "value", "notice"),
    [
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=1, secret", "HEADERS has a part without =, which is"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "secret", "HEADERS has a part without =, which is"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "abc", "TIMEOUT=abc is no number of seconds"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "foo", "foo is not known, and is passed over; use one"),
        ("OTEL_TRACES_SAMPLER", "nope", "OTEL_TRACES_SAMPLER=nope is not known, and is passed"),
        ("DSH_HOME", "/no/such/home", "DSH_HOME names a folder that does not exist: /no/such/home"),
    ],
)
def test_the_doctor_names_settings_that_are_passed_over(
    name: str, value: str, notice: str, closed_port: str
) -> None:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": closed_port, name: value}
    result = run("doctor", "--no-send", env=env)
    assert result.exit_code == ExitCode.OK
    (said,) = [line for line in result.stdout.splitlines() if line.startswith("notice: ")]
    assert notice in said
    assert "secret" not in result.stdout
    plain = run("doctor", "--no-send", env={"OTEL_EXPORTER_OTLP_ENDPOINT": closed_port})
    assert "notice: " not in plain.stdout
