"""Tests of ``dsh-otel check``: what it looks at, and how it ends."""

from __future__ import annotations

import json
import re
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsh_core import check as core
from dsh_core.contract import installed
from dsh_core.contract.catalogue import CATALOGUE
from dsh_core.contract.rules import session as session_rules
from dsh_otel.cli import checking
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
    result,
    run,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typer.testing import Result

    from dsh_core.logs.find import LogFile

CASES = Path(__file__).parents[1] / "data" / "cases"


def found(outcome: Result) -> list[str]:
    """The rules of the findings in a JSON document."""
    document = json.loads(outcome.stdout)
    return [finding["rule"] for session in document["sessions"] for finding in session["findings"]]


class TestGrades:
    """Rules with another severity than their own."""

    def test_lowered(self, tmp_path: Path) -> None:
        """What is only advice does not fail the check, and says so."""
        log = write(tmp_path / "a.jsonl", *OVERLAP)
        outcome = run("check", log, "--severity", "turn.*=advice")
        assert outcome.exit_code == 0
        assert "a.jsonl:2: advice turn.overlap: " in outcome.stdout

    def test_raised(self, tmp_path: Path) -> None:
        """What was advice can fail the check; the last grade that fits counts."""
        log = write(tmp_path / "a.jsonl", *ADVICE)
        grades = ("--severity", "owner:tools=damage", "--severity", "tool.call-*=violation")
        outcome = run("check", log, *grades)
        assert outcome.exit_code == 1
        assert "violation tool.call-unanswered" in outcome.stdout

    @pytest.mark.parametrize("text", ["turn.overlap", "turn.overlap=fatal", "=", "turn.*="])
    def test_no_grade(self, tmp_path: Path, text: str) -> None:
        """What is no grade is refused, with what there is."""
        outcome = run("check", write(tmp_path / "a.jsonl", *CLEAN), "--severity", text)
        assert (outcome.exit_code, outcome.stdout) == (2, "")
        assert "a level out of: violation, damage, advice" in outcome.stderr

    def test_of_no_rule(self, tmp_path: Path) -> None:
        """A pattern that matches nothing is refused."""
        outcome = run("check", write(tmp_path / "a.jsonl", *CLEAN), "--severity", "x.y=advice")
        assert outcome.exit_code == 2
        assert "no rule matches 'x.y'" in outcome.stderr


class TestSource:
    """Logs that are complete, and streams that somebody wrote down."""

    def test_a_stream_may_leave_events_out(self, tmp_path: Path) -> None:
        """The same rows are a broken log and a stream with nothing wrong."""
        rows = [json.loads(line) for line in encode(START, STEP, STEP_END, END).splitlines()]
        header = {"type": "session", "version": 0, "id": "s", "createdAt": 0, "delegationDepth": 0}
        for row in rows:
            row["data"] |= {name: 1 for name in ("turn", "step") if name in row["data"]}
        log = tmp_path / "session.jsonl"
        log.write_text("\n".join(map(json.dumps, [header, rows[0], *rows[2:]])) + "\n")
        assert found(run("check", log, "--json")) == ["seq.gap"]
        outcome = run("check", log, "--json", "--source", "stream")
        assert (outcome.exit_code, found(outcome)) == (0, [])
        # So it is with every command that checks.
        stream = ("--source", "stream")
        assert "1 violation" in run("export", log).stderr
        assert "no findings" in run("export", log, *stream).stderr
        assert run("shrink", log).exit_code == 0
        assert "the log has no finding" in run("shrink", log, *stream).stderr
        assert "1 found" in run("rules", "seq.gap", "--run", log).stdout
        assert "never evaluated" in run("rules", "seq.gap", "--run", log, *stream).stdout

    @pytest.mark.parametrize("command", ["check", "export", "shrink", "rules"])
    def test_the_help_says_what_a_stream_looks_like(self, command: str) -> None:
        """Nobody is to try what a web server sends."""
        assert "JSON lines" in run(command, "--help").stdout


class TestInstalled:
    """Rules that other packages bring."""

    @pytest.mark.parametrize("command", ["check", "rules", "export"])
    def test_what_cannot_be_used_stops_the_command(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
    ) -> None:
        """A check without rules that should be there would pass."""

        def entry_points(*, group: str) -> list[EntryPoint]:
            return [EntryPoint("odd", "no_such_package_here:Rules", group)]

        monkeypatch.setattr(installed, "entry_points", entry_points)
        places = () if command == "rules" else (write(tmp_path / "a.jsonl", *CLEAN),)
        outcome = run(command, *places)
        assert (outcome.exit_code, outcome.stdout) == (2, "")
        assert "rules 'odd' (no_such_package_here:Rules): cannot be loaded" in outcome.stderr


class TestVerdict:
    """Exit codes 0, 1 and 2."""

    def test_clean(self, tmp_path: Path) -> None:
        """A session that keeps its contract ends with 0."""
        outcome = run("check", write(tmp_path / "a.jsonl", *CLEAN))
        assert (outcome.exit_code, outcome.stderr) == (0, "")
        assert outcome.stdout == "1 log, 2 events: no findings\n"

    def test_violation(self, tmp_path: Path) -> None:
        """A broken contract ends with 1."""
        assert run("check", write(tmp_path / "a.jsonl", *OVERLAP)).exit_code == 1

    @pytest.mark.parametrize(
        ("level", "codes"),
        [
            ("violation", (1, 0, 0)),
            ("damage", (1, 1, 0)),
            ("advice", (1, 1, 1)),
            ("never", (0, 0, 0)),
        ],
    )
    def test_fail_on(self, tmp_path: Path, level: str, codes: tuple[int, int, int]) -> None:
        """A level counts its own severity and those above it; never counts none."""
        logs = (
            write(tmp_path / "violation.jsonl", *OVERLAP),
            write(tmp_path / "damage.jsonl", *CLEAN, tail=TORN),
            write(tmp_path / "advice.jsonl", *ADVICE),
        )
        assert codes == tuple(run("check", log, "--fail-on", level).exit_code for log in logs)

    def test_damage_shows(self, tmp_path: Path) -> None:
        """Damage that does not fail the check is still reported and counted."""
        outcome = run("check", write(tmp_path / "a.jsonl", *CLEAN, tail=TORN))
        assert outcome.exit_code == 0
        assert ":3: damage line.torn-tail: " in outcome.stdout
        assert re.search(r"^ +1 damage +line\.torn-tail$", outcome.stdout, re.MULTILINE)

    @pytest.mark.parametrize("level", ["violation", "never"])
    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "the log is empty"),
            (b"\n\n", "the log is empty"),
            (b"\x7fELF\x02\x01\x01 not a log\n" * 3, "no line is JSON: not a session log"),
            (b'{"type":"session","version":99}\n', "is newer than this release knows"),
        ],
        ids=["empty", "blank", "binary", "future"],
    )
    def test_unreadable(self, tmp_path: Path, content: bytes, reason: str, level: str) -> None:
        """A log that nothing can be said of never passes, whatever counts as a failure."""
        log = tmp_path / "a.jsonl"
        log.write_bytes(content)
        outcome = run("check", log, "--fail-on", level)
        assert outcome.exit_code == 2
        assert f"{log}: error: " in outcome.stdout
        assert reason in outcome.stdout

    def test_unreadable_among_others(self, tmp_path: Path) -> None:
        """One unreadable log among clean ones is enough for 1, and the others are checked."""
        write(tmp_path / "a.jsonl")
        write(tmp_path / "b.jsonl", *CLEAN)
        outcome = run("check", tmp_path)
        assert outcome.exit_code == 1
        assert outcome.stdout.endswith(
            "\n2 logs, 2 events, 1 unreadable: incomplete, no findings in the rest\n"
        )

    def test_finding_beats_unreadable(self, tmp_path: Path) -> None:
        """A finding that counts is certain, so it outweighs what could not be read."""
        write(tmp_path / "a.jsonl")
        write(tmp_path / "b.jsonl", *OVERLAP)
        assert run("check", tmp_path).exit_code == 1

    def test_no_events(self, tmp_path: Path) -> None:
        """Sessions in which nothing has happened yet give no verdict."""
        log = tmp_path / "session.v4.jsonl"
        log.write_bytes(b'{"type":"session","version":4,"id":"s","createdAt":1,"cwd":"/"}\n')
        outcome = run("check", log, "--rules", "turn.*")
        assert outcome.exit_code == 2
        assert outcome.stdout.startswith(f"{log}: error: the log holds no events yet\n")

    def test_unreadable_in_data(self, tmp_path: Path) -> None:
        """Whoever pipes data away is told on standard error that something could not be read."""
        outcome = run("check", "--json", write(tmp_path / "a.jsonl"))
        assert outcome.exit_code == 2
        assert outcome.stderr == "dsh-otel: 1 log of 1 cannot be read\n"
        assert json.loads(outcome.stdout)["sessions"][0]["error"] == "the log is empty"

    def test_one_log_breaks_us(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An error of ours in one log leaves the others checked, and gives no clean verdict."""
        write(tmp_path / "a.jsonl", *CLEAN)
        write(tmp_path / "b.jsonl", *CLEAN)

        def fail_once(log: LogFile, **options: Any) -> Iterator[core.SessionReport]:
            if log.path.endswith("a.jsonl"):
                raise KeyError("turn")
            return core.check_sessions(log, **options)

        monkeypatch.setattr(checking, "check_sessions", fail_once)
        outcome = run("check", tmp_path)
        assert outcome.exit_code == 2
        assert "a.jsonl: error: internal error: KeyError: 'turn'" in outcome.stdout
        assert "2 logs, 2 events, 1 unreadable" in outcome.stdout
        assert run("check", tmp_path, env={"DSH_OTEL_DEBUG": "1"}).exit_code == 70

    def test_broken_rule(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A rule that fails is no clean verdict either, and says which log made it fail."""

        def fail(self: session_rules.Rules, event: object, line: int) -> None:
            raise ValueError

        monkeypatch.setattr(session_rules.Rules, "fail", fail, raising=False)
        monkeypatch.setattr(
            session_rules.Rules,
            "handlers",
            lambda self: {"turn/end": vars(type(self))["fail"].__get__(self)},
        )
        log = write(tmp_path / "a.jsonl", *CLEAN)
        outcome = run("check", log)
        assert outcome.exit_code == 2
        assert "dsh-otel: the rules of session (" in outcome.stderr
        assert f"dsh-otel: {log} is the first log that was not checked in full" in outcome.stderr


class TestUsage:
    """Wrong usage ends with 2 and a reason."""

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            (["nowhere.jsonl"], "nowhere.jsonl: no such file or folder"),
            (["*.nothing"], "the pattern matches nothing"),
            (["--rules", "turn.nothing", "-"], "no rule matches 'turn.nothing'"),
            (["--exclude", "owner:nobody", "-"], "no rule matches 'owner:nobody'"),
            (["--rules", "turn.*", "--exclude", "*", "-"], "leave no rule to apply"),
            (["--contract", "v9", "-"], "'v9' is not one of"),
            (["--fail-on", "panic", "-"], "'panic' is not one of"),
            (["--format", "yaml", "-"], "'yaml' is not one of"),
            (["--json", "--format", "sarif", "-"], "--json and --format sarif exclude each other"),
            (["--max-findings", "-1", "-"], "--max-findings"),
            (["--output", "/nowhere/report", "-"], "cannot write /nowhere/report: No such file"),
            (["--nonsense"], "No such option"),
        ],
    )
    def test_refused(self, arguments: list[str], reason: str) -> None:
        """Nothing is written to standard output, and the reason to standard error."""
        outcome = run("check", *arguments, stdin=encode(*CLEAN))
        assert (outcome.exit_code, outcome.stdout) == (2, "")
        assert reason in outcome.stderr

    @pytest.mark.parametrize("option", ["--fail-on", "--format", "--contract"])
    def test_a_mistyped_choice_is_told_in_plain_words(self, option: str) -> None:
        outcome = run("check", option, "x", "-")
        assert f"Error: Invalid value for '{option}': 'x' is not one of '" in outcome.stderr

    def test_folder_without_logs(self, tmp_path: Path) -> None:
        """A folder without logs is not a clean one."""
        outcome = run("check", tmp_path)
        assert outcome.exit_code == 2
        assert "no session log there" in outcome.stderr

    def test_overwriting(self, tmp_path: Path) -> None:
        """A log that is to be checked is never overwritten by the report."""
        log = write(tmp_path / "a.jsonl", *CLEAN)
        link = tmp_path / "link"
        link.symlink_to(log)
        for output in (log, link):
            outcome = run("check", tmp_path, "--output", output)
            assert outcome.exit_code == 2
            assert f"{output} is one of the logs to check" in outcome.stderr
        assert log.read_bytes() == encode(*CLEAN)


class TestPlaces:
    """What is checked."""

    def test_stdin(self) -> None:
        """``-`` is standard input."""
        outcome = run("check", "-", stdin=encode(*OVERLAP))
        assert outcome.exit_code == 1
        assert outcome.stdout.startswith("-:2: violation turn.overlap: ")

    def test_home(self, tmp_path: Path) -> None:
        """Without a path the DSH home is checked."""
        write(tmp_path / "sessions" / "--w--" / "s1" / "session.jsonl", *OVERLAP)
        outcome = run("check", "--json", env={"DSH_HOME": str(tmp_path)})
        assert outcome.exit_code == 1
        assert json.loads(outcome.stdout)["sessions"][0]["session_id"] == "s1"

    def test_no_home(self, tmp_path: Path) -> None:
        """A DSH home that is not there says how to name another place."""
        outcome = run("check", env={"DSH_HOME": str(tmp_path / "nowhere")})
        assert outcome.exit_code == 2
        assert "or set DSH_HOME" in outcome.stderr

    def test_several(self, tmp_path: Path) -> None:
        """Files and globs are checked in the order in which they were named, each once."""
        second = write(tmp_path / "b.jsonl", *CLEAN)
        first = write(tmp_path / "a.jsonl", *CLEAN)
        outcome = run("check", "--json", second, tmp_path / "*.jsonl")
        paths = [session["path"] for session in json.loads(outcome.stdout)["sessions"]]
        assert paths == [str(second), str(first)]


class TestOptions:
    """What findings depend on."""

    def test_contract(self, tmp_path: Path) -> None:
        """A log is held to the contract that was named instead of its own."""
        log = write(tmp_path / "a.jsonl", *CLEAN)
        assert found(run("check", "--json", log)) == []
        held = run("check", "--json", log, "--contract", "v0")
        assert "turn.number" in found(held)
        assert json.loads(held.stdout)["sessions"][0]["contract"] == "v0"

    def test_rules(self, tmp_path: Path) -> None:
        """Patterns include and exclude rules by id and by owner."""
        log = write(
            tmp_path / "a.jsonl", START, STEP, call("read"), STEP_END, *OVERLAP[1:], tail=TORN
        )
        every = set(found(run("check", "--json", log)))
        assert {"turn.overlap", "line.torn-tail", "tool.arguments-invalid-json"} <= every
        assert set(found(run("check", "--json", log, "--rules", "turn.*"))) == {"turn.overlap"}
        assert "turn.overlap" not in found(run("check", "--json", log, "--exclude", "turn.*"))
        both = ("--rules", "turn.*", "--rules", "line.*")
        assert set(found(run("check", "--json", log, *both))) == {"turn.overlap", "line.torn-tail"}
        by_owner = set(found(run("check", "--json", log, "--exclude", "owner:session")))
        assert by_owner == {rule for rule in every if CATALOGUE.entries[rule].owner != "session"}

    def test_final(self, tmp_path: Path) -> None:
        """What is still open is a finding only if the log is over."""
        log = write(tmp_path / "a.jsonl", START, STEP)
        assert found(run("check", "--json", log)) == []
        assert "turn.unclosed" in found(run("check", "--json", "--final", log))

    def test_output(self, tmp_path: Path) -> None:
        """A report goes to a file, and the sum to standard error."""
        log, report = write(tmp_path / "a.jsonl", *OVERLAP), tmp_path / "report"
        outcome = run("check", log, "--json", "-o", report)
        assert (outcome.exit_code, outcome.stdout) == (1, "")
        assert outcome.stderr == (f"dsh-otel: 1 log, 3 events: 1 violation; written to {report}\n")
        assert report.read_text() == run("check", log, "--json").stdout

    def test_no_colour_in_files(self, tmp_path: Path) -> None:
        """Text in a file is never coloured."""
        log, report = write(tmp_path / "a.jsonl", *OVERLAP), tmp_path / "report"
        run("check", log, "-o", report, env={"FORCE_COLOR": "1"})
        assert report.read_text().startswith(f"{log}:2: violation turn.overlap: ")

    @pytest.mark.parametrize("arguments", [["check", "-q"], ["--quiet", "check"]])
    def test_quiet(self, tmp_path: Path, arguments: list[str]) -> None:
        """Quiet leaves findings and errors, and nothing else, before and after the command."""
        write(tmp_path / "a.jsonl", *OVERLAP)
        write(tmp_path / "b.jsonl")
        outcome = run(*arguments, tmp_path)
        assert (outcome.exit_code, outcome.stderr) == (1, "")
        first, second = outcome.stdout.splitlines()
        assert first.startswith(f"{tmp_path}/a.jsonl:2: violation turn.overlap: ")
        assert second == f"{tmp_path}/b.jsonl: error: the log is empty"

    def test_quiet_output(self, tmp_path: Path) -> None:
        """Quiet says nothing about a report that was written."""
        log = write(tmp_path / "a.jsonl", *CLEAN)
        outcome = run("check", "-q", log, "-o", tmp_path / "report")
        assert (outcome.exit_code, outcome.output) == (0, "")
        assert (tmp_path / "report").read_text() == ""


class TestText:
    """Lines for people."""

    def test_repeats(self) -> None:
        """A finding that stands for several events says how many, and which."""
        log = CASES / "06-seq-goes-back.jsonl"
        first = run("check", log).stdout.splitlines()[0]
        assert first.startswith(f"{log}:10: violation seq.regressed: ")
        assert re.search(r" \(\u00d7\d+, seq 5\u20138\)$", first)

    def test_cap(self, tmp_path: Path) -> None:
        """Text shows as many findings of a session as wanted, says how many more, counts all."""
        events = [("turn/start", {"turn": turn}) for turn in range(1011)]
        log = write(tmp_path / "a.jsonl", *events)
        lines = run("check", log, "--max-findings", "2").stdout.splitlines()
        assert [line.split(": ")[0] for line in lines[:2]] == [f"{log}:2", f"{log}:3"]
        assert lines[2] == f"{log}: \u2026 1,008 more findings, shown with --max-findings 0"
        assert "1,010 violations" in lines[-1]
        every = run("check", log, "--max-findings", "0").stdout
        assert every.count(": violation turn.overlap: ") == 1010
        usual = run("check", log).stdout
        assert usual.count(": violation turn.overlap: ") == 1000
        assert "\u2026 10 more findings" in usual

    def test_summary(self, tmp_path: Path) -> None:
        """The summary counts by severity and names the most frequent rules."""
        write(tmp_path / "a.jsonl", *OVERLAP)
        write(tmp_path / "b.jsonl", *OVERLAP)
        write(tmp_path / "c.jsonl", START, STEP, result("c9"), STEP_END, END)
        write(tmp_path / "d.jsonl", *ADVICE)
        assert run("check", tmp_path).stdout.split("\n\n")[1].splitlines() == [
            "4 logs, 16 events",
            "      3 violations  turn.overlap \u00d72, tool.result-without-call",
            "      1 advice      tool.call-unanswered",
        ]

    @pytest.mark.parametrize("form", ["text", "json", "jsonl", "github", "junit", "sarif"])
    def test_hostile(self, tmp_path: Path, form: str) -> None:
        """Nothing that a log or a path says acts on the terminal, in any format."""
        evil = "\x1b]0;pwned\x07\x9b31m\u202e\r\nok:1: advice\x00\x7f\u2028\ufeff"
        name = evil.replace("\x00", "").replace("/", "")
        log = write(
            tmp_path / f"{name}.jsonl", START, STEP, call(evil), result(evil), STEP_END, END
        )
        outcome = run("check", log, "--format", form)
        assert outcome.exit_code == 1
        assert "pwned" in outcome.stdout
        assert [char for char in outcome.stdout if not char.isprintable() and char != "\n"] == []

    def test_undecodable_path(self, tmp_path: Path) -> None:
        """A path that is not UTF-8 is shown with escapes and published with a replacement."""
        folder = tmp_path / "\udcff"
        log = write(folder / "a.jsonl", *OVERLAP)
        assert "/\\udcff/a.jsonl:2: violation" in run("check", log).stdout
        assert json.loads(run("check", "--json", log).stdout)["sessions"][0]["path"] == (
            f"{tmp_path}/\ufffd/a.jsonl"
        )
        sarif = json.loads(run("check", "--format", "sarif", log).stdout)
        place = sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"].endswith("/%FF/a.jsonl")


class TestCases:
    """Logs that broke in the hands of people."""

    @pytest.mark.parametrize("name", sorted(json.loads((CASES / "expected.json").read_text())))
    def test_case(self, name: str) -> None:
        """The command reports the violations that each case is about, and ends accordingly."""
        expected = json.loads((CASES / "expected.json").read_text())[name]
        outcome = run("check", "--json", "--contract", expected["contract"], CASES / name)
        violations = {
            finding["rule"]
            for finding in json.loads(outcome.stdout)["sessions"][0]["findings"]
            if finding["severity"] == "violation"
        }
        assert set(expected["violations"]) <= violations
        assert violations <= set(expected["violations"]) | set(expected.get("may", ()))
        assert outcome.exit_code == bool(violations)


class TestStreams:
    """Recorded notifications and OTLP logs."""

    @pytest.fixture
    def recorded(self, tmp_path: Path) -> Path:
        """Notifications of two sessions, in each of which a number comes twice."""
        path = tmp_path / "n.jsonl"
        rows: list[dict[str, Any]] = [
            {"type": "todo/write", "seq": seq, "time": seq, "data": {"todos": []}}
            for seq in (0, 1, 1)
        ]
        told = [
            {"method": "session.event", "payload": {"sessionId": session, "event": row}}
            for session in ("one", "two")
            for row in rows
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in told))
        return path

    @pytest.mark.parametrize(
        ("form", "wanted"),
        [
            ("text", "n.jsonl:6: session two: violation seq.duplicate: seq 1 again"),
            ("github", "line=6,title=seq.duplicate::session two: seq 1 again"),
            ("junit", 'n.jsonl#two"'),
            ("json", '"session_id":"two"'),
            ("jsonl", '"session_id":"two"'),
            ("sarif", '"session_id":"two"'),
        ],
    )
    def test_every_format_names_file_and_session(
        self, recorded: Path, form: str, wanted: str
    ) -> None:
        outcome = run("check", recorded, "--format", form)
        assert outcome.exit_code == 1
        assert wanted in outcome.stdout.replace('": "', '":"')
        assert str(recorded) in outcome.stdout or recorded.as_uri() in outcome.stdout
