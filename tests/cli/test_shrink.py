"""Tests of ``dsh-otel shrink``."""

from __future__ import annotations

import base64
import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from dsh_core.check import check_session
from dsh_core.contract.catalogue import CATALOGUE
from dsh_core.contract.rule import Rule, RuleSet
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract
from dsh_core.shrink import MAX_CHECKS, MAX_EVENTS, InMemory, Question
from dsh_core.shrink import shrink as core_shrink
from dsh_otel.cli import shrink as command
from dsh_otel.cli import shrinking
from dsh_otel.cli.as_test import as_test
from dsh_otel.cli.progress import DELAY
from tests.cli.helpers import (
    ADVICE,
    CLEAN,
    END,
    OVERLAP,
    START,
    STEP,
    STEP_END,
    TORN,
    call,
    encode,
    environment,
    result,
    run,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_core.shrink import Shrunk

SAMPLES = Path(shrinking.__file__).parents[1] / "samples/home/sessions/--home-dev-ws--"
BROKEN = SAMPLES / "broken-1/session.v4.jsonl"
LEAST = (
    b'{"type":"turn/start","seq":0,"time":1700000000000,"data":{"turn":1}}\n'
    b'{"type":"turn/start","seq":1,"time":1700000000001,"data":{"turn":2}}\n'
)
LONG = (START, STEP, STEP_END, END, *OVERLAP, END)


def left_of(*events: Any, tail: bytes = b"", **options: Any) -> Shrunk:
    """What is left of a log."""
    keep = options.pop("keep_content", False)
    log = InMemory("a.jsonl", data=encode(*events) + tail)
    return core_shrink(log, Question(**options), keep_content=keep)


class TestLog:
    """The least log, as JSON lines."""

    def test_it_goes_to_standard_output_and_the_sum_to_standard_error(self, tmp_path: Path) -> None:
        outcome = run("shrink", write(tmp_path / "a.jsonl", *OVERLAP))
        assert outcome.exit_code == 0
        assert outcome.stdout_bytes == LEAST
        assert outcome.stderr == (
            "dsh-otel: 3 events \N{RIGHTWARDS ARROW} 2; "
            "turn.overlap: turn 2 starts while turn 1 is open\n"
        )

    def test_the_header_row_comes_first(self) -> None:
        outcome = run("shrink", BROKEN)
        header, *events = map(json.loads, outcome.stdout.splitlines())
        assert (header["type"], header["version"]) == ("session", 4)
        assert [event["type"] for event in events] == ["turn/start"] * 2

    def test_bytes_are_written_as_they_are(self, tmp_path: Path) -> None:
        log = write(tmp_path / "a.jsonl", *CLEAN, tail=b"\x00\n\xff\n" + TORN)
        for rule, end in (("nul", b"\x00\n"), ("torn-tail", b"{")):
            target = tmp_path / f"{rule}.jsonl"
            assert run("shrink", log, "--rule", f"line.{rule}", "-o", target).exit_code == 0
            assert target.read_bytes().endswith(b"}}\n" + end)
            outcome = run("shrink", log, "--rule", f"line.{rule}")
            assert outcome.stdout_bytes == target.read_bytes()

    def test_a_file_gets_it_instead(self, tmp_path: Path) -> None:
        log = write(tmp_path / "a.jsonl", *OVERLAP)
        target = tmp_path / "b.jsonl"
        outcome = run("shrink", log, "--output", target)
        assert (outcome.exit_code, outcome.stdout) == (0, "")
        assert target.read_bytes() == LEAST
        assert outcome.stderr.endswith(f"; written to {target}\n")
        assert run("check", target).stdout.startswith(f"{target}:2: violation turn.overlap: ")

    def test_shrinking_what_is_left_changes_nothing(self, tmp_path: Path) -> None:
        again = tmp_path / "again.jsonl"
        again.write_bytes(LEAST)
        assert run("shrink", again).stdout_bytes == LEAST

    def test_standard_input(self) -> None:
        outcome = run("shrink", "-", stdin=encode(*OVERLAP))
        assert (outcome.exit_code, outcome.stdout_bytes) == (0, LEAST)

    def test_quiet(self, tmp_path: Path) -> None:
        log = write(tmp_path / "a.jsonl", *OVERLAP)
        for arguments in (("shrink", log, "-q"), ("-q", "shrink", log)):
            outcome = run(*arguments)
            assert (outcome.stdout_bytes, outcome.stderr) == (LEAST, "")

    def test_texts_are_gone_unless_they_are_to_be_kept(self, tmp_path: Path) -> None:
        secret = "the secret of the house of Usher"
        data = {"turn": 1, "step": 1, "callId": "c", "content": [{"type": "text", "text": secret}]}
        log = write(tmp_path / "a.jsonl", *CLEAN, ("tool/result", data))
        assert secret not in run("shrink", log).stdout
        assert secret in run("shrink", log, "--keep-content").stdout

    def test_nothing_acts_on_a_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        screen = io.StringIO()
        monkeypatch.setattr(screen, "isatty", lambda: True)
        monkeypatch.setattr(sys, "stdout", screen)
        shrinking.write_log([b'{"a":"\x1b[31m\xe2\x80\xae"}\n', b"\xff\x07"], None)
        assert screen.getvalue() == '{"a":"\\x1b[31m\\u202e"}\n\N{REPLACEMENT CHARACTER}\\x07\n'


class TestChoice:
    """Which finding is kept."""

    EVENTS = (START, STEP, call("read"), result("c2"), STEP_END, *OVERLAP[1:])

    def test_the_first_violation(self, tmp_path: Path) -> None:
        outcome = run("shrink", write(tmp_path / "a.jsonl", *self.EVENTS))
        assert "; tool.result-without-call: " in outcome.stderr

    def test_advice_if_there_is_nothing_else(self, tmp_path: Path) -> None:
        outcome = run("shrink", write(tmp_path / "a.jsonl", *ADVICE))
        assert "; tool.call-unanswered: " in outcome.stderr

    @pytest.mark.parametrize(
        ("pattern", "rule"),
        [
            ("tool.*", "tool.arguments-invalid-json"),
            ("turn.*", "turn.overlap"),
            ("owner:tools", "tool.arguments-invalid-json"),
        ],
    )
    def test_the_first_of_a_pattern(self, tmp_path: Path, pattern: str, rule: str) -> None:
        log = write(tmp_path / "a.jsonl", *self.EVENTS)
        outcome = run("shrink", log, "--rule", pattern)
        assert outcome.exit_code == 0
        assert f"; {rule}: " in outcome.stderr

    def test_the_contract_and_the_end_that_are_named(self, tmp_path: Path) -> None:
        log = write(tmp_path / "a.jsonl", *CLEAN)
        assert "; turn.number: " in run("shrink", log, "--contract", "v0").stderr
        graded = run(
            "shrink", write(tmp_path / "a.jsonl", *self.EVENTS), "--severity", "tool.*=advice"
        )
        assert "; turn.overlap: " in graded.stderr
        log = write(tmp_path / "b.jsonl", *CLEAN, START, STEP)
        assert "1; turn.unclosed: " in run("shrink", log, "--final").stderr


class TestRefusal:
    """What ends with 2."""

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (encode(*CLEAN), "-: the log has no finding"),
            (b"", "-: the log is empty"),
            (b"\xff\xff", "-: no event can be read"),
            (b'{"type":"session","version":99}\n', "-: format version 99 is newer"),
        ],
    )
    def test_a_log_without_a_finding(self, data: bytes, reason: str) -> None:
        outcome = run("shrink", "-", stdin=data)
        assert (outcome.exit_code, outcome.stdout) == (2, "")
        assert outcome.stderr.startswith(f"dsh-otel: {reason}")

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            ([], "Missing argument"),
            (["nowhere.jsonl"], "nowhere.jsonl: no such file or folder"),
            (["-", "--rule", "turn.nothing"], "no rule matches 'turn.nothing'"),
            (["-", "--rule", "step.*"], "-: the log has no finding of these"),
            (["-", "--json", "--pytest"], "--pytest and --json exclude each other"),
            (["-", "--max-checks", "0"], "--max-checks"),
            (["-", "--max-events", "2"], "-: the log has more than 2 events"),
            (["-", "--output", "/nowhere/x"], "cannot write /nowhere/x: No such file or directory"),
            (["-", "--output", "/"], "cannot write /: Is a directory"),
        ],
    )
    def test_wrong_usage(self, arguments: list[str], reason: str) -> None:
        outcome = run("shrink", *arguments, stdin=encode(*OVERLAP))
        assert (outcome.exit_code, outcome.stdout) == (2, "")
        assert reason in outcome.stderr

    def test_a_log_is_never_overwritten(self, tmp_path: Path) -> None:
        log = write(tmp_path / "a.jsonl", *OVERLAP)
        link = tmp_path / "link"
        link.symlink_to(log)
        for output in (log, link):
            outcome = run("shrink", log, "--output", output)
            assert outcome.exit_code == 2
            assert "write elsewhere" in outcome.stderr
        assert log.read_bytes() == encode(*OVERLAP)

    def test_several_logs(self, tmp_path: Path) -> None:
        write(tmp_path / "a.jsonl", *OVERLAP)
        assert run("shrink", tmp_path).exit_code == 0
        write(tmp_path / "b.jsonl", *OVERLAP)
        outcome = run("shrink", tmp_path)
        assert (outcome.exit_code, outcome.stdout) == (2, "")
        assert outcome.stderr == f"dsh-otel: {tmp_path}: 2 logs there; name one of them\n"

    def test_a_log_that_cannot_be_opened(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied", "a.jsonl")

        monkeypatch.setattr(shrinking, "shrink", refuse)
        outcome = run("shrink", write(tmp_path / "a.jsonl", *OVERLAP))
        assert outcome.exit_code == 2
        assert outcome.stderr == f"dsh-otel: {tmp_path / 'a.jsonl'}: Permission denied\n"

    def test_the_limits_are_those_of_the_library(self) -> None:
        """They stand there twice, since the help must not import it."""
        assert (command.MAX_CHECKS, command.MAX_EVENTS) == (MAX_CHECKS, MAX_EVENTS)

    def test_the_help_tells_the_exit_codes(self) -> None:
        stdout = run("shrink", "--help").stdout
        told = re.findall(r"^ +(\d+)  \w", stdout.partition("Exit codes:\n")[2], re.MULTILINE)
        assert told == ["0", "2", "70", "130", "141"]


class TestBounds:
    """Searches that end early."""

    def test_as_many_checks_as_are_allowed(self, tmp_path: Path) -> None:
        outcome = run("shrink", write(tmp_path / "a.jsonl", *LONG), "--max-checks", "2")
        assert outcome.exit_code == 0
        assert re.search(
            r"stopped by --max-checks, after \d checks .*: less may do", outcome.stderr
        )

    def test_a_last_line_without_a_newline_is_told(self, tmp_path: Path) -> None:
        """Nobody is to take it for a slip of the output, or mend it."""
        outcome = run("shrink", write(tmp_path / "a.jsonl", *CLEAN, tail=TORN))
        assert not outcome.stdout.endswith("\n")
        assert "its last line has no newline, and must not get one" in outcome.stderr
        assert "newline" not in run("shrink", write(tmp_path / "b.jsonl", *OVERLAP)).stderr

    @pytest.mark.parametrize("option", ["--rules", "--rule"])
    def test_the_option_is_called_as_elsewhere(self, tmp_path: Path, option: str) -> None:
        """The name that it had stays."""
        log = write(tmp_path / "a.jsonl", *ADVICE, ("turn/start", {"turn": 1}), START)
        assert "; turn.overlap: " in run("shrink", log).stderr
        outcome = run("shrink", log, option, "seq.*", option, "tool.call-*")
        assert "; tool.call-unanswered: " in outcome.stderr

    def test_ctrl_c_prints_the_least_found_so_far(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(_self: object, checks: int, _lines: int) -> None:
            if checks == 3:
                raise KeyboardInterrupt

        monkeypatch.setattr(shrinking.ShrinkProgress, "show", interrupt)
        outcome = run("shrink", write(tmp_path / "a.jsonl", *LONG), "--json")
        assert outcome.exit_code == 130
        document = json.loads(outcome.stdout)
        assert (document["rule"], document["stopped"]) == ("turn.overlap", "interrupted")
        assert document["events"]["after"] >= 2
        assert "interrupted: this is the least found so far" in outcome.stderr

    def test_ctrl_c_before_anything_is_found_prints_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(shrinking.ShrinkProgress, "show", interrupt)
        outcome = run("shrink", write(tmp_path / "a.jsonl", *LONG))
        assert (outcome.exit_code, outcome.stdout) == (130, "")


class TestJson:
    """The document for programs."""

    def test_it_tells_everything(self, tmp_path: Path) -> None:
        log = write(tmp_path / "a.jsonl", *LONG)
        outcome = run("shrink", log, "--json")
        document = json.loads(outcome.stdout)
        assert document.pop("checks") > 10
        assert document == {
            "schema_version": 1,
            "path": str(log),
            "rule": "turn.overlap",
            "severity": "violation",
            "message": "turn 2 starts while turn 1 is open",
            "seq": 1,
            "line": 2,
            "original": {"message": "turn 1 starts while turn 0 is open", "seq": 5, "line": 6},
            "events": {"before": 8, "after": 2},
            "stopped": None,
            "may_hold_content": False,
            "file_name": "session.jsonl",
            "lines": [
                '{"type":"turn/start","seq":0,"time":1700000000004,"data":{"turn":1}}',
                '{"type":"turn/start","seq":1,"time":1700000000005,"data":{"turn":2}}',
            ],
            "base64": None,
        }

    @pytest.mark.parametrize("tail", [TORN, b'{"type":"\xff","seq":2,"time":1,"data":{}}\n'])
    def test_what_lines_cannot_show_is_there_too(self, tmp_path: Path, tail: bytes) -> None:
        log = write(tmp_path / "a.jsonl", *CLEAN, tail=tail)
        document = json.loads(run("shrink", log, "--json").stdout)
        data = base64.b64decode(document["base64"])
        report = check_session(InMemory(document["file_name"], data=data))
        assert report.findings[0].rule == document["rule"]


def run_module(text: str, folder: Path) -> None:
    """Run the test in a module."""
    names: dict[str, Any] = {}
    exec(compile(text, "test_module.py", "exec"), names)
    (test,) = (value for name, value in names.items() if name.startswith("test_"))
    folder.mkdir()
    test(folder)


def is_formatted(text: str) -> bool:
    """Whether ruff would leave a module as it is."""
    ruff = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--isolated", "--stdin-filename", "x.py", "-"],
        input=text,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return ruff.stdout == text


class TestModule:
    """A test with the log in it."""

    def test_it_is_short_and_says_what_made_it(self) -> None:
        outcome = run("shrink", BROKEN, "--pytest")
        assert outcome.exit_code == 0
        times = re.findall(r'"time":(\d+)', outcome.stdout)
        assert (
            outcome.stdout
            == f'''\
"""The least log that gives turn.overlap."""

# dsh-otel shrink session.v4.jsonl --pytest

from dsh_otel.testing import findings_of

LOG = [
    '{{"type":"session","version":4,"id":"broken-1","createdAt":1796055996925,"isSeeded":false,"delegationDepth":0}}',
    '{{"type":"turn/start","seq":0,"time":{times[0]},"data":{{"turn":1}}}}',
    '{{"type":"turn/start","seq":1,"time":{times[1]},"data":{{"turn":2}}}}',
]


def test_turn_overlap(tmp_path):
    path = tmp_path / "session.v4.jsonl"
    path.write_bytes("\\n".join(LOG).encode() + b"\\n")
    findings = findings_of(path)
    assert findings[0].rule == "turn.overlap"
'''
        )

    def test_pytest_runs_it_and_it_can_fail(self, tmp_path: Path) -> None:
        module = tmp_path / "test_bug.py"
        text = run("shrink", BROKEN, "--pytest").stdout
        module.write_text(text, encoding="utf-8")
        other = tmp_path / "test_mended.py"
        other.write_text(text.replace('"turn/start","seq":1', '"turn/end","seq":1'))
        bare = ("-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", tmp_path)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *bare, module, other],
            cwd=tmp_path,
            env=environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"),
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert "1 failed, 1 passed" in done.stdout

    @pytest.mark.parametrize(
        "make",
        [
            lambda: left_of(*OVERLAP),
            lambda: left_of(*CLEAN, tail=TORN),
            lambda: left_of(*CLEAN, tail=b"not json\n"),
            lambda: left_of(*CLEAN, tail=b'{"type":"x","seq":2,"time":1,"data":{"a":"\xff\'"}}\n'),
            lambda: left_of(*CLEAN, tail=b'{"type":"x","seq":2,"time":1,"data":' + b"[" * 500),
            lambda: left_of(
                *CLEAN, tail=b'{"type":"x","seq":2,"time":1,"data":{"a":"\xc3\xbc\x01"}}\n'
            ),
            lambda: left_of(*ADVICE),
            lambda: left_of(START, STEP, call('it\'s \\ a "tool"'), keep_content=True),
            lambda: left_of(START, STEP, result("\x1b\u202e\n\\")),
            lambda: left_of(START, STEP, final=True),
            lambda: left_of(*CLEAN, contract=Contract.V0),
        ],
    )
    def test_it_passes_and_looks_formatted_whatever_the_log(
        self, make: Callable[[], Shrunk], tmp_path: Path
    ) -> None:
        text = as_test(make(), "dsh-otel shrink x --pytest")
        run_module(text, tmp_path / "run")
        assert [char for char in text if not char.isprintable() and char != "\n"] == []
        assert is_formatted(text)

    def test_a_finding_that_is_not_the_first_is_looked_for(self, tmp_path: Path) -> None:
        """A call whose arguments are no JSON is advised against first, and needed."""
        events = (START, STEP, call("read"), call("read"))
        found = left_of(*events, keep_content=True)
        assert [one.rule for one in found.findings][:2] == [
            "tool.arguments-invalid-json",
            "tool.call-id-duplicate",
        ]
        text = as_test(found, "x")
        assert '"tool.call-id-duplicate" in [finding.rule for finding in findings]' in text
        run_module(text, tmp_path / "run")

    def test_what_the_log_is_held_to_is_in_it(self, tmp_path: Path) -> None:
        found = left_of(*OVERLAP)
        presets = frozenset({"workspace-write", "danger-full-access", "what the house allows"})
        source = SourceKind.STREAM
        question = Question(contract=Contract.SEED, final=True, presets=presets, source=source)
        text = as_test(replace(found, question=question), "x")
        assert (
            """
    findings = check_session(
        str(path),
        contract=Contract.SEED,
        final=True,
        presets=frozenset({"danger-full-access", "what the house allows", "workspace-write"}),
        source=SourceKind.STREAM,
    ).findings
"""
            in text
        )
        run_module(text, tmp_path / "run")

    def test_rules_of_other_packages_are_looked_for_where_they_are_installed(self) -> None:
        class Rules(RuleSet):
            owner = "acme"
            rules = (Rule("acme.never", "a turn starts", "Stay in bed.", on=("turn/start",)),)

            def handlers(self) -> dict[str, Callable[[Any, int], None]]:
                return {"turn/start": self._never}

            def _never(self, event: Any, line: int) -> None:
                self.trip("acme.never", "a turn starts", event, line)

        found = left_of(*CLEAN, catalogue=CATALOGUE.extended([Rules]))
        assert (found.finding.rule, found.after) == ("acme.never", 1)
        text = as_test(found, "x")
        assert "check_session(str(path), catalogue=installed_catalogue()).findings" in text
        assert is_formatted(text)

    def test_the_command_is_whole_and_on_one_line(self, tmp_path: Path) -> None:
        log = write(tmp_path / "it's\n\x1b.jsonl", START, STEP)
        options = ("--rules", "turn.*", "--contract", "seed", "--final", "--keep-content")
        text = run("shrink", log, *options, "--pytest").stdout
        command = text.splitlines()[2]
        assert command == (
            "# dsh-otel shrink 'it'\"'\"'s\\n\\x1b.jsonl' --rules 'turn.*' --contract seed --final "
            "--keep-content --pytest"
        )
        assert str(tmp_path) not in text
        run_module(text, tmp_path / "run")


class TestProgress:
    """The line that shows how far a search is."""

    @staticmethod
    def show(*moments: float) -> str:
        """What a terminal gets at some moments, in seconds, one check at each."""
        screen = io.StringIO()
        console = Console(file=screen, force_terminal=True, color_system=None, width=80)
        now = 0.0
        with shrinking.ShrinkProgress(console, clock=lambda: now) as progress:
            for checks, moment in enumerate(moments, 1234):
                now = moment
                progress.show(checks, 5678)
        return screen.getvalue()

    def test_short_work_shows_none(self) -> None:
        assert self.show(0, DELAY / 2) == ""

    def test_long_work_does(self) -> None:
        shown = self.show(0, DELAY, DELAY * 2)
        assert "shrinking: 1,235 checks, now 5,678 lines" in shown
        assert shown.endswith("\x1b[2K")

    def test_nobody_looks(self) -> None:
        with shrinking.ShrinkProgress(None, clock=lambda: 100.0) as progress:
            progress.show(1, 1)
            assert progress._line is None
