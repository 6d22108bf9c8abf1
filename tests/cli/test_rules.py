"""Tests of ``dsh-otel rules``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from dsh_core.contract import example_logs
from dsh_core.contract.catalogue import CATALOGUE
from dsh_otel.cli.rules import SOURCES
from tests.cli.helpers import OVERLAP, run, write
from tests.paths import CASES

if TYPE_CHECKING:
    from pathlib import Path


class TestList:
    """The catalogue."""

    def test_complete(self) -> None:
        """Every rule is a line with all that matters of it, under a head."""
        head, *lines = run("rules").stdout.splitlines()
        assert head.split() == ["RULE", "OWNER", "SEVERITY", "CONTRACTS", "SOURCE", "FAULT"]
        assert len(lines) == len(CATALOGUE.entries)
        for line, entry in zip(lines, CATALOGUE.entries.values(), strict=True):
            assert line.split()[:3] == [entry.id, entry.owner, entry.rule.severity]
            assert line.endswith(entry.rule.fault)

    def test_contracts(self) -> None:
        """A rule that is part of every contract says so, others name theirs."""
        lines = {line.split()[0]: line for line in run("rules").stdout.splitlines()}
        assert "  all  " in lines["turn.overlap"]
        assert "  v0 v4  " in lines["turn.number"]

    def test_pattern(self) -> None:
        """A pattern lists the rules that check would apply."""
        lines = run("rules", "turn.*").stdout.splitlines()[1:]
        assert len(lines) > 3
        assert all(line.startswith("turn.") for line in lines)
        owned = run("rules", "owner:reader").stdout.splitlines()[1:]
        assert all(line.startswith("line.") for line in owned)

    def test_json(self) -> None:
        """The catalogue as data has the same rules, with advice."""
        document = json.loads(run("rules", "--json").stdout)
        assert document["schema_version"] == 1
        assert [rule["id"] for rule in document["rules"]] == list(CATALOGUE.entries)
        keys = ["id", "owner", "contracts", "severity", "code", "source", "on", "fault", "advice"]
        keys.append("example")
        for rule in document["rules"]:
            assert list(rule) == keys
            assert all(value for key, value in rule.items() if key not in ("on", "example"))


class TestOne:
    """One rule in full."""

    def test_all_is_told(self) -> None:
        """Fault, advice, severity, owner, contracts and source are told."""
        rule = CATALOGUE.entries["turn.unclosed"].rule
        assert run("rules", "turn.unclosed").stdout.splitlines() == [
            "turn.unclosed",
            f"  fault         {rule.fault}",
            f"  what to do    {rule.advice}",
            "  severity      advice (code ADVICE)",
            "  owner         session",
            "  contracts     all",
            f"  source        {SOURCES['end']}",
            "  evaluated at  the end of the log",
            "  example       dsh-otel rules turn.unclosed --example, to be checked with --final",
        ]

    @pytest.mark.parametrize(
        ("id_", "words"),
        [
            ("seq.duplicate", "every event"),
            ("tool.unresolved", "step/end turn/end"),
            ("agent.status-noop", "what a running agent does"),
        ],
    )
    def test_what_it_is_evaluated_at(self, id_: str, words: str) -> None:
        """A rule waits for events of some types, for all, for the end, or for no event at all."""
        assert f"  evaluated at  {words}\n" in run("rules", id_).stdout

    def test_json(self) -> None:
        """One rule as data has the shape of a list of one."""
        document = json.loads(run("rules", "turn.overlap", "--json").stdout)
        assert [rule["id"] for rule in document["rules"]] == ["turn.overlap"]
        assert document["rules"][0]["contracts"] == ["seed", "v0", "v4"]

    @pytest.mark.parametrize("id_", list(CATALOGUE.entries))
    def test_every_rule(self, id_: str) -> None:
        """No rule is unknown to the words that describe rules."""
        outcome = run("rules", id_)
        assert outcome.exit_code == 0
        assert outcome.stdout.startswith(f"{id_}\n")


class TestExample:
    """The log that breaks a rule."""

    def test_it_is_written_as_it_is(self) -> None:
        """Nothing but the log goes to standard output: check finds in it what it shows."""
        example = run("rules", "turn.overlap", "--example").stdout_bytes
        assert example == example_logs.path("turn.overlap").read_bytes()
        assert "turn.overlap" in run("check", "-", stdin=example).stdout

    def test_bytes_that_are_no_text(self) -> None:
        """Damaged bytes are written as they are."""
        example = run("rules", "line.invalid-utf8", "--example").stdout_bytes
        assert example == example_logs.path("line.invalid-utf8").read_bytes()

    @pytest.mark.parametrize("option", ["--json", "--run"])
    def test_it_goes_with_nothing_else(self, option: str) -> None:
        """The log alone is written."""
        more = (option, "x") if option == "--run" else (option,)
        outcome = run("rules", "turn.overlap", "--example", *more)
        assert (outcome.exit_code, outcome.stdout) == (2, "")

    @pytest.mark.parametrize("id_", ["", "turn.*"])
    def test_it_goes_with_one_rule(self, id_: str) -> None:
        """A pattern has no example."""
        outcome = run("rules", *filter(None, [id_]), "--example")
        assert (outcome.exit_code, outcome.stdout) == (2, "")
        assert "--example goes with the id of one rule" in outcome.stderr

    def test_a_rule_that_no_log_can_break(self) -> None:
        """What no log holds has no example, and that is said."""
        outcome = run("rules", "agent.status-noop", "--example")
        assert (outcome.exit_code, outcome.stdout) == (2, "")
        assert "no example of agent.status-noop" in outcome.stderr


class TestRun:
    """What became of the rules on some logs."""

    def test_each_rule_has_its_fate(self, tmp_path: Path) -> None:
        """A rule found something, was silent, or was never evaluated."""
        log = write(tmp_path / "a.jsonl", *OVERLAP)
        lines = run("rules", "turn.*", "--run", log).stdout.splitlines()
        fates = {line.split()[0]: line for line in lines}
        assert "RUN" in fates["RULE"].split()
        assert "  1 found  " in fates["turn.overlap"]
        assert "  silent  " in fates["turn.end-mismatch"]
        # June does not number turns.
        assert "  never evaluated  " in fates["turn.number"]

    def test_as_data(self, tmp_path: Path) -> None:
        """The same as JSON, over several logs."""
        logs = [write(tmp_path / name, *OVERLAP) for name in ("a.jsonl", "b.jsonl")]
        outcome = run("rules", "turn.*", "--json", "--run", logs[0], "--run", logs[1])
        found = {
            rule["id"]: (rule["evaluated"], rule["findings"])
            for rule in json.loads(outcome.stdout)["rules"]
        }
        assert found["turn.overlap"] == (True, 2)
        assert found["turn.end-mismatch"] == (True, 0)
        assert found["turn.number"] == (False, 0)

    def test_one_rule(self, tmp_path: Path) -> None:
        """A single rule tells its fate too."""
        log = write(tmp_path / "a.jsonl", *OVERLAP)
        assert "  run           1 found\n" in run("rules", "turn.overlap", "--run", log).stdout

    def test_a_pattern_does_not_change_what_is_found(self) -> None:
        """What another rule explains is no finding of a rule, alone or among others."""
        log = CASES / "06-seq-goes-back.jsonl"
        for pattern in ("turn.end-mismatch", "turn.*"):
            lines = run("rules", pattern, "--run", log, "--json").stdout
            found = {rule["id"]: rule["findings"] for rule in json.loads(lines)["rules"]}
            assert found["turn.end-mismatch"] == 0

    def test_rules_that_wait_for_the_end_or_for_names(self) -> None:
        """They are evaluated where the end is declared, and where names are given."""
        log = example_logs.path("turn.unclosed")
        assert "never evaluated" in run("rules", "turn.unclosed", "--run", log).stdout
        assert "1 found" in run("rules", "turn.unclosed", "--run", log, "--final").stdout
        log = example_logs.path("permission.preset-unknown")
        rule = "permission.preset-unknown"
        assert "never evaluated" in run("rules", rule, "--run", log).stdout
        assert "1 found" in run("rules", rule, "--run", log, "--preset", "read-only").stdout

    def test_what_could_not_be_looked_at_counts(self, tmp_path: Path) -> None:
        """Exit codes are those of check."""
        good, empty = write(tmp_path / "a.jsonl", *OVERLAP), tmp_path / "b.jsonl"
        empty.touch()
        assert run("rules", "--run", good).exit_code == 0
        assert run("rules", "--run", good, "--run", empty).exit_code == 1
        outcome = run("rules", "--run", good, "--run", tmp_path / "nope")
        assert outcome.exit_code == 2
        assert "no such file" in outcome.stderr

    def test_without_a_readable_log_there_is_no_fate(self, tmp_path: Path) -> None:
        """Nothing was evaluated, so nothing is said."""
        empty = tmp_path / "a.jsonl"
        empty.touch()
        outcome = run("rules", "--run", empty)
        assert (outcome.exit_code, outcome.stdout) == (2, "")
        assert f"{empty}: the log is empty" in outcome.stderr

    def test_programs_learn_what_could_not_be_read(self, tmp_path: Path) -> None:
        """By path, with the reason, also when it is all there is."""
        empty = write(tmp_path / "a.jsonl")
        outcome = run("rules", "turn.overlap", "--run", empty, "--run", tmp_path / "no", "--json")
        assert outcome.exit_code == 2
        document = json.loads(outcome.stdout)
        assert document["unreadable"] == {
            str(tmp_path / "no"): "no such file or folder",
            str(empty): "the log is empty",
        }
        assert document["rules"][0]["evaluated"] is False

    @pytest.mark.parametrize("option", [["--final"], ["--preset", "a"], ["--source", "stream"]])
    def test_options_of_a_run_go_with_one(self, option: list[str]) -> None:
        """They are not passed over in silence."""
        outcome = run("rules", *option)
        assert (outcome.exit_code, outcome.stdout) == (2, "")
        assert "go with --run" in outcome.stderr


class TestUnknown:
    """Rules that there are not."""

    def test_close(self) -> None:
        """A mistyped id ends with 2 and the ids that come close."""
        outcome = run("rules", "turn.overlop")
        assert (outcome.exit_code, outcome.stdout) == (2, "")
        assert outcome.stderr.startswith(
            "dsh-otel: no rule matches 'turn.overlop'; did you mean turn.overlap"
        )

    @pytest.mark.parametrize("id_", ["zzzzzzzz", "owner:nobody", "*.nothing"])
    def test_far(self, id_: str) -> None:
        """An id that is like no other says how to find one."""
        outcome = run("rules", id_, "--json")
        assert (outcome.exit_code, outcome.stdout) == (2, "")
        assert "`dsh-otel rules` lists all" in outcome.stderr
