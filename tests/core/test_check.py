"""Tests of checking whole logs: reader and checker put together."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

import pytest

from dsh_core.check import SessionReport, check_session
from dsh_core.contract.catalogue import CATALOGUE
from dsh_core.contract.findings import Severity
from dsh_core.events import Contract
from dsh_core.logs.find import LogFile, find_logs
from tests.checking import chunk, log, one_turn, step_start, turn_start
from tests.strategies import Event, header_row, to_lines

if TYPE_CHECKING:
    from pathlib import Path

GOOD = log(*one_turn(1, chunk(1, 1)))
STRAY = log(chunk(7, 7), first=5)


def write(folder: Path, data: bytes, name: str = "s-1.jsonl") -> str:
    """Write a log and return its path."""
    path = folder / name
    path.write_bytes(data)
    return str(path)


def rules(report: SessionReport) -> list[str]:
    """Return the rules of a report."""
    return [finding.rule for finding in report.findings]


class TestReport:
    """What a report says."""

    def test_a_clean_log(self, tmp_path: Path) -> None:
        """Session, format, contract and number of events, and nothing else."""
        path = write(tmp_path, to_lines(GOOD))
        report = check_session(path)
        assert report == SessionReport(
            path=path,
            session_id="s-1",
            format="seed",
            contract="seed",
            events=5,
            evaluated=report.evaluated,
        )

    def test_it_says_which_rules_were_evaluated(self, tmp_path: Path) -> None:
        """A rule was if an event came that it listens to, in a contract that has it."""
        path = write(tmp_path, to_lines(GOOD))
        found = check_session(path).evaluated
        assert {"seq.duplicate", "turn.overlap", "step.end-mismatch", "line.nul"} <= found
        assert not found & {"turn.unclosed", "turn.number", "tool.call-id-empty", "approval.asked"}
        assert "turn.unclosed" in check_session(path, final=True).evaluated
        chosen = frozenset({"turn.overlap", "tool.call-id-empty"})
        assert check_session(path, chosen=chosen).evaluated == {"turn.overlap"}

    def test_a_log_of_october(self, tmp_path: Path) -> None:
        """The header tells who it is and what it is held to."""
        report = check_session(write(tmp_path, to_lines(GOOD[:2], header_row(Contract.V4)), "x"))
        assert (report.session_id, report.format, report.contract) == ("s-1", "v4", "v4")

    def test_another_contract(self, tmp_path: Path) -> None:
        """A log may be held to the contract of another generation."""
        path = write(tmp_path, to_lines(log(*one_turn(7))))
        assert rules(check_session(path)) == []
        report = check_session(path, contract=Contract.V0)
        assert (report.contract, report.format) == ("v0", "seed")
        assert rules(report) == ["turn.number"]

    def test_findings_are_in_the_order_of_the_log(self, tmp_path: Path) -> None:
        """Verdicts that had to wait stand where their event does."""
        from tests.checking import flat_result

        events = log(*one_turn(1, flat_result(1, 1, "c"), chunk(9, 9)))
        report = check_session(write(tmp_path, to_lines(events)))
        assert [(f.rule, f.line) for f in report.findings] == [
            ("tool.result-without-call", 3),
            ("step.event-outside", 4),
        ]

    def test_damage_and_violations(self, tmp_path: Path) -> None:
        """What the reader says and what the rules say come together."""
        data = to_lines(GOOD) + b"Traceback\n" + to_lines(STRAY)
        report = check_session(write(tmp_path, data))
        assert rules(report) == ["line.not-json", "step.event-outside"]
        assert report.count(Severity.DAMAGE) == report.count(Severity.VIOLATION) == 1
        assert report.count(Severity.ADVICE) == 0
        assert report.events == 6

    def test_chosen_rules(self, tmp_path: Path) -> None:
        """Only the rules that were asked for report."""
        data = to_lines(GOOD) + b"Traceback\n" + to_lines(STRAY)
        path = write(tmp_path, data)
        assert rules(check_session(path, chosen=CATALOGUE.select(["line.*"]))) == ["line.not-json"]

    @pytest.mark.parametrize(("final", "count"), [(False, 0), (True, 2)])
    def test_declared_ends(self, tmp_path: Path, final: bool, count: int) -> None:
        """An open turn is worth a word only when nothing will follow."""
        path = write(tmp_path, to_lines(log(turn_start(1), step_start(1, 1))))
        assert len(check_session(path, final=final).findings) == count

    def test_progress(self, tmp_path: Path) -> None:
        """Whoever waits is told how many events were read."""
        seen: list[int] = []
        many = log(*(item for turn in range(1, 2001) for item in one_turn(turn, chunk(turn, 1))))
        check_session(write(tmp_path, to_lines(many)), progress=seen.append)
        assert sum(seen) == len(many)
        assert len(seen) > 1


class TestErrors:
    """Logs of which nothing can be said."""

    def test_a_missing_file(self, tmp_path: Path) -> None:
        """A log that is not there is an error of the report, not an exception."""
        path = str(tmp_path / "gone.jsonl")
        report = check_session(path)
        assert (report.reason, report.events) == ("No such file or directory", 0)

    def test_the_error_of_a_report_carries_the_path_and_the_reason_does_not(
        self, tmp_path: Path
    ) -> None:
        path = str(tmp_path / "gone.jsonl")
        report = check_session(path)
        assert report.error == f"{path}: No such file or directory"
        assert report.reason == "No such file or directory"
        assert check_session(write(tmp_path, to_lines(GOOD))).error == ""

    def test_a_folder(self, tmp_path: Path) -> None:
        """So is something that is no file."""
        assert check_session(str(tmp_path)).reason == "Is a directory"

    def test_an_unknown_generation(self, tmp_path: Path) -> None:
        """A log of the future cannot be judged."""
        row: Event = {"type": "session", "version": 9, "id": "x"}
        report = check_session(write(tmp_path, to_lines(GOOD, row)))
        assert report.reason == "format version 9 is newer than this release knows (4)"
        assert report.findings == []

    @pytest.mark.parametrize("data", [b"", b"\n\n"])
    def test_an_empty_log(self, tmp_path: Path, data: bytes) -> None:
        """An empty log is not the same as a clean one."""
        assert check_session(write(tmp_path, data)).reason == "the log is empty"

    def test_a_log_of_nothing_but_its_header(self, tmp_path: Path) -> None:
        """Nothing can be said yet of a session in which nothing happened."""
        report = check_session(write(tmp_path, to_lines([], header_row(Contract.V4))))
        assert (report.findings, report.session_id) == ([], "s-1")
        assert report.reason == "the log holds no events yet"

    def test_a_log_of_nothing_but_damage(self, tmp_path: Path) -> None:
        """Damage is something to say, but no verdict on a session."""
        report = check_session(write(tmp_path, bytes(300)))
        assert (report.reason, rules(report)) == ("no event can be read", ["line.nul"])

    @pytest.mark.parametrize("patterns", [[], ["turn.*"]])
    def test_a_header_and_damage(self, tmp_path: Path, patterns: list[str]) -> None:
        """Whichever rules are chosen, a log without a readable event is no clean one."""
        data = to_lines([], header_row(Contract.V4)) + b"garbage\n"
        chosen = CATALOGUE.select(patterns)
        report = check_session(write(tmp_path, data), chosen=chosen)
        assert report.reason == "no event can be read"

    def test_a_path_that_no_file_can_have(self) -> None:
        """A NUL byte in a path is an error of the report, not an exception."""
        assert "null byte" in check_session("a\0b.jsonl").reason

    def test_a_pipe_in_a_folder(self, tmp_path: Path) -> None:
        """A check of a folder does not wait for whoever may write to a pipe in it."""
        os.mkfifo(tmp_path / "x.jsonl")
        (log_file,) = find_logs([str(tmp_path)])
        assert check_session(log_file).reason == "not a regular file"

    def test_an_error_while_reading(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A disk that fails in the middle is an error of the report."""

        class Failing(io.BytesIO):
            """A file that breaks after its first block."""

            def read(self, size: int | None = -1, /) -> bytes:
                if self.tell():
                    raise OSError(5, "Input/output error")
                return super().read(size)

        monkeypatch.setattr(LogFile, "open", lambda _self: Failing(to_lines(GOOD)))
        assert check_session(write(tmp_path, b"")).reason == "Input/output error"


def test_standard_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A dash reads the log from standard input."""
    path = write(tmp_path, to_lines(GOOD))
    with open(path) as text:  # noqa: PTH123 - as the interpreter opens it
        monkeypatch.setattr(sys, "stdin", text)
        report = check_session("-")
    assert (report.events, report.error) == (5, "")
    # Two sessions that come this way must not share an id.
    assert report.session_id.startswith("stdin-")
