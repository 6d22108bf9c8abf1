"""Tests of the command line as a whole: entry points, streams, exit codes."""

from __future__ import annotations

import errno
import io
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsh_otel.cli import checking
from dsh_otel.cli.app import main
from dsh_otel.cli.complete import complete_codes, complete_families, complete_patterns
from dsh_otel.cli.exits import ExitCode
from tests.cli.helpers import CLEAN, OVERLAP, encode, environment, run, start, write

if TYPE_CHECKING:
    from collections.abc import Callable

# Python installs its own handler only where Ctrl-C is not ignored, as it is in background jobs.
CTRL_C_WORKS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
MAIN = "from dsh_otel.cli.app import main; main()"


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Wait for a process; return its exit code and what it wrote to standard error."""
    _, stderr = process.communicate(timeout=30)
    return process.returncode, stderr.decode()


COMMANDS = ("check", "export", "shrink", "rules", "codes", "doctor", "demo")


class TestEntryPoints:
    """Ways to get in."""

    def test_module(self) -> None:
        """``python -m dsh_otel`` runs the command line."""
        process = start("--version", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        stdout, stderr = process.communicate(timeout=30)
        assert (process.returncode, stderr) == (0, b"")
        assert re.fullmatch(rb"dsh-otel \d+\.\d+\.\d+\S*\n", stdout)

    def test_nothing_asked(self) -> None:
        """Without a command the help appears, and that is wrong usage."""
        result = run()
        assert result.exit_code == 2
        assert result.stdout == ""
        assert "Commands:" in result.stderr

    @pytest.mark.parametrize("option", ["-h", "--help"])
    def test_help(self, option: str) -> None:
        """The help lists the commands and every exit code with its meaning."""
        result = run(option)
        assert (result.exit_code, result.stderr) == (0, "")
        for command in ("check", "rules", "codes"):
            assert re.search(rf"^  {command} ", result.stdout, re.MULTILINE)
        for code in ExitCode:
            assert f"{code.value:>5}  {code.meaning}\n" in result.stdout

    def test_help_of_check(self) -> None:
        """The help of check tells the severities and their order."""
        stdout = run("check", "--help").stdout
        assert (
            stdout.index("  violation  ") < stdout.index("  damage  ") < stdout.index("  advice  ")
        )

    @pytest.mark.parametrize("command", COMMANDS)
    def test_the_help_of_a_command_tells_the_exit_codes_that_it_has(self, command: str) -> None:
        """And nothing of options or spans that only other commands have."""
        stdout = run(command, "--help").stdout
        codes = stdout.partition("Exit codes:\n")[2]
        failed = ["1"] * (command in {"check", "export", "rules"})
        told = re.findall(r"^ +(\d+)  \w", codes, re.MULTILINE)
        assert told == ["0", *failed, "2", "70", "130", "141"]
        assert ("spans" in codes) == (command == "export")
        for option in re.findall(r"--[a-z-]+", codes):
            assert f"  {option} " in stdout

    @pytest.mark.parametrize("command", COMMANDS)
    def test_quiet_goes_with_every_command(self, command: str) -> None:
        """In front of the command and behind it."""
        assert "  -q, --quiet " in run(command, "--help").stdout

    @pytest.mark.parametrize("command", COMMANDS)
    def test_examples_in_the_help_are_explained_in_one_column(self, command: str) -> None:
        """A reader finds what an example does at a glance."""
        examples = run(command, "--help").stdout.partition("Examples:\n")[2].partition("\n\n")[0]
        columns = {len(line) - len(line.split("  ")[-1].lstrip()) for line in examples.splitlines()}
        assert len(columns) <= 1

    def test_unknown_command(self) -> None:
        """A mistyped command is wrong usage, and the right one is proposed."""
        result = run("chek")
        assert result.exit_code == 2
        assert "Did you mean 'check'?" in result.stderr

    def test_light(self) -> None:
        """Help needs none of the heavy modules, whatever else the packages import."""
        code = f"""if True:
            import os, sys, types
            package = types.ModuleType("dsh_otel")
            package.__path__ = [{str(Path(checking.__file__).parents[1])!r}]
            sys.modules["dsh_otel"] = package
            from dsh_otel.cli.app import app
            try:
                app(["--help"])
            except SystemExit:
                heavy = {{"rich", "msgspec", "opentelemetry", "structlog", "dsh_core"}}
                sys.exit(", ".join(sorted(heavy & set(sys.modules))) or 0)
        """
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, env=environment(), check=False
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert b"Exit codes:" in done.stdout

    def test_completion(self) -> None:
        """The shell is told what completes a word."""
        variables = {
            "_DSH_OTEL_COMPLETE": "complete_bash",
            "COMP_WORDS": "dsh-otel rules turn.o",
            "COMP_CWORD": "2",
        }
        process = start(stdout=subprocess.PIPE, env=environment(**variables))
        stdout, _ = process.communicate(timeout=30)
        assert stdout.split() == [b"turn.overlap"]

    @pytest.mark.parametrize(
        ("complete", "word", "found"),
        [
            (complete_patterns, "owner:rea", ["owner:reader"]),
            (complete_patterns, "turn.overl", ["turn.overlap"]),
            (complete_codes, "FS_NOT_F", ["FS_NOT_FOUND"]),
            (complete_families, "sand", ["sandbox-broken"]),
        ],
    )
    def test_words(self, complete: Callable[[str], list[str]], word: str, found: list[str]) -> None:
        """Rules, owners, codes and families complete a word."""
        assert complete(word) == found


class TestInterruption:
    """Work that does not come to its end."""

    def test_ctrl_c(self) -> None:
        """Ctrl-C ends a command that waits for input with 130, without a traceback."""
        process = subprocess.Popen(
            [sys.executable, "-c", CTRL_C_WORKS + MAIN, "check", "--json", "-"],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        # The document is open: what comes next is the wait.
        assert process.stdout.read(1) == b"{"
        process.send_signal(signal.SIGINT)
        assert finish(process) == (130, "")

    def test_reader_gone(self, tmp_path: Path) -> None:
        """A pipe that nobody reads ends a command quietly, and never as a clean check."""
        reading, writing = os.pipe()
        os.close(reading)
        log = write(tmp_path / "a.jsonl", *CLEAN)
        process = start("check", log, stdout=writing, stderr=subprocess.PIPE)
        os.close(writing)
        assert finish(process) == (141, "")

    def test_reader_leaves(self, tmp_path: Path) -> None:
        """A reader that takes the first line only, as head does, gets it and no traceback."""
        events = [("turn/start", {"turn": turn}) for turn in range(5000)]
        log = write(tmp_path / "a.jsonl", *events)
        options = ("--max-findings", "0")
        process = start(
            "check", log, *options, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        assert process.stdout is not None
        assert process.stdout.read(len(str(log))) == str(log).encode()
        process.stdout.close()
        process.stdout = None
        assert finish(process) == (141, "")

    @pytest.mark.parametrize("arguments", [["--help"], ["rules"], ["codes", "--json"]])
    def test_reader_of_a_list_gone(self, arguments: list[str]) -> None:
        """Lists and help are quiet about a closed pipe too."""
        reading, writing = os.pipe()
        os.close(reading)
        process = start(*arguments, stdout=writing, stderr=subprocess.PIPE)
        os.close(writing)
        assert finish(process) == (141, "")

    def test_disk_full(self) -> None:
        """Output that cannot be written is an error with a reason."""
        device = Path("/dev/full")
        if not device.exists():
            pytest.skip("this system has no /dev/full")
        with device.open("wb") as full:
            process = start("rules", "--json", stdout=full, stderr=subprocess.PIPE)
            code, stderr = finish(process)
        assert (code, stderr.count("\n")) == (2, 1)
        assert "No space left on device" in stderr

    def test_no_stdout(self, tmp_path: Path) -> None:
        """Without standard output there is nowhere to put findings."""
        log = write(tmp_path / "a.jsonl", *OVERLAP)
        command = 'exec "$0" -m dsh_otel check "$1" >&-'
        process = subprocess.Popen(
            ["sh", "-c", command, sys.executable, str(log)],
            env=environment(),
            stderr=subprocess.PIPE,
        )
        assert finish(process) == (2, "dsh-otel: standard output is closed\n")


class TestMain:
    """The end of the program, where what is buffered has to be written."""

    class Stream(io.StringIO):
        """A stream that refuses to be flushed once it was written to."""

        def __init__(self, error: OSError) -> None:
            super().__init__()
            self.error = error

        def flush(self) -> None:
            if self.getvalue():
                raise self.error

    @staticmethod
    def _end(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *arguments: str) -> object:
        """Run the program on a stream; return its exit code."""
        monkeypatch.setattr(sys, "argv", ["dsh-otel", *arguments])
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(SystemExit) as ending:
            main()
        return ending.value.code

    def test_all_written(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A program whose output was written ends as its command did."""
        out = io.StringIO()
        assert self._end(monkeypatch, out, "rules", "turn.overlap") == 0
        assert out.getvalue().startswith("turn.overlap\n")
        assert self._end(monkeypatch, io.StringIO(), "rules", "no.such") == 2

    def test_pipe_closed(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A pipe that closes at the very end is noticed, quietly."""
        assert self._end(monkeypatch, self.Stream(BrokenPipeError()), "rules") == 141
        assert capsys.readouterr().err == ""

    def test_disk_full(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A disk that is full at the very end is noticed, with the reason."""
        error = OSError(errno.ENOSPC, "No space left on device")
        assert self._end(monkeypatch, self.Stream(error), "rules") == 2
        assert (
            capsys.readouterr().err
            == "dsh-otel: cannot write standard output: No space left on device\n"
        )


class TestInternalErrors:
    """What should not happen."""

    @pytest.fixture(autouse=True)
    def _broken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object, **__: object) -> None:
            raise RuntimeError("no \x1b[31m way")

        monkeypatch.setattr(checking, "choose_logs", fail)

    def test_one_line(self) -> None:
        """An internal error is one line that says how to report it, and exit code 70."""
        result = run("check")
        assert (result.exit_code, result.stdout) == (70, "")
        assert result.stderr == (
            "dsh-otel: internal error: RuntimeError: no \\x1b[31m way. "
            "Please report it, with what DSH_OTEL_DEBUG=1 shows.\n"
        )

    @pytest.mark.parametrize(("value", "shown"), [("1", True), ("0", False), ("", False)])
    def test_traceback(self, value: str, shown: bool) -> None:
        """The traceback appears only if it is asked for."""
        result = run("check", env={"DSH_OTEL_DEBUG": value})
        assert result.exit_code == 70
        assert ("Traceback" in result.stderr) is shown


class TestColour:
    """Who gets colours."""

    @staticmethod
    def _on_terminal(log: Path, **variables: str) -> bytes:
        """What a terminal gets to see of a check."""
        leader, follower = pty.openpty()
        process = start(
            *("check", log),
            stdout=follower,
            stderr=follower,
            env=environment(**{"TERM": "xterm", **variables}),
        )
        os.close(follower)
        seen = b""
        try:
            while chunk := os.read(leader, 65536):
                seen += chunk
        except OSError:
            # Linux reports the end of a terminal this way.
            pass
        os.close(leader)
        assert process.wait(timeout=30) == 1
        return seen

    def test_terminal(self, tmp_path: Path) -> None:
        """A terminal gets colours and a hint how to go on."""
        seen = self._on_terminal(write(tmp_path / "a.jsonl", *OVERLAP))
        assert b"\x1b[1;31mviolation \x1b[0m" in seen
        assert b"dsh-otel rules turn.overlap" in seen

    @pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
    def test_refused(self, tmp_path: Path, variables: dict[str, str]) -> None:
        """NO_COLOR and dumb terminals are respected."""
        seen = self._on_terminal(write(tmp_path / "a.jsonl", *OVERLAP), **variables)
        assert b"violation turn.overlap:" in seen
        assert b"\x1b" not in seen

    def test_pipe(self, tmp_path: Path) -> None:
        """A pipe gets neither colours nor the hint."""
        stdout = run("check", write(tmp_path / "a.jsonl", *OVERLAP)).stdout
        assert "violation turn.overlap:" in stdout
        assert "\x1b" not in stdout
        assert "dsh-otel rules" not in stdout

    def test_forced(self, tmp_path: Path) -> None:
        """FORCE_COLOR colours a pipe."""
        log = write(tmp_path / "a.jsonl", *OVERLAP)
        assert "\x1b[1;31mviolation" in run("check", log, env={"FORCE_COLOR": "1"}).stdout

    def test_both(self, tmp_path: Path) -> None:
        """NO_COLOR wins over FORCE_COLOR, unless it is empty."""
        log = write(tmp_path / "a.jsonl", *OVERLAP)
        forced = {"FORCE_COLOR": "1", "NO_COLOR": "1"}
        assert "\x1b" not in run("check", log, env=forced).stdout
        assert "\x1b" in run("check", log, env=forced | {"NO_COLOR": ""}).stdout


class TestEncoding:
    """Terminals that cannot show everything."""

    def test_text(self, tmp_path: Path) -> None:
        """Signs that the terminal's encoding lacks become escapes, not an error."""
        log = tmp_path / "\u65e5\u8a18.jsonl"
        log.write_bytes(encode(*OVERLAP))
        process = start(
            *("check", log),
            stdout=subprocess.PIPE,
            env=environment(PYTHONIOENCODING="ascii", PYTHONUTF8="1"),
        )
        stdout, _ = process.communicate(timeout=30)
        assert process.returncode == 1
        assert b"/\\u65e5\\u8a18.jsonl:2: violation" in stdout

    def test_data(self, tmp_path: Path) -> None:
        """Formats for programs are UTF-8 whatever the terminal's encoding."""
        log = tmp_path / "\u65e5\u8a18.jsonl"
        log.write_bytes(encode(*OVERLAP))
        process = start(
            *("check", "--json", log),
            stdout=subprocess.PIPE,
            env=environment(PYTHONIOENCODING="ascii", PYTHONUTF8="1"),
        )
        stdout, _ = process.communicate(timeout=30)
        assert "/\u65e5\u8a18.jsonl".encode() in stdout
