"""Tests of ``dsh-otel rules``."""

from __future__ import annotations

import json

import pytest

from dsh_core.contract.catalogue import CATALOGUE
from dsh_otel.cli.rules import SOURCES
from tests.cli.helpers import run


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
        keys = ["id", "owner", "contracts", "severity", "code", "source", "fault", "advice"]
        for rule in document["rules"]:
            assert list(rule) == keys
            assert all(rule.values())


class TestOne:
    """One rule in full."""

    def test_all_is_told(self) -> None:
        """Fault, advice, severity, owner, contracts and source are told."""
        rule = CATALOGUE.entries["turn.unclosed"].rule
        assert run("rules", "turn.unclosed").stdout.splitlines() == [
            "turn.unclosed",
            f"  fault       {rule.fault}",
            f"  what to do  {rule.advice}",
            "  severity    advice (code ADVICE)",
            "  owner       session",
            "  contracts   all",
            f"  source      {SOURCES['end']}",
        ]

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


class TestUnknown:
    """Rules that there are not."""

    def test_close(self) -> None:
        """A mistyped id ends with 2 and the ids that come close."""
        outcome = run("rules", "turn.overlop")
        assert (outcome.exit_code, outcome.stdout) == (2, "")
        assert outcome.stderr.startswith(
            "dsh-otel: no rule is called 'turn.overlop'; did you mean turn.overlap"
        )

    @pytest.mark.parametrize("id_", ["zzzzzzzz", "owner:nobody", "*.nothing"])
    def test_far(self, id_: str) -> None:
        """An id that is like no other says how to find one."""
        outcome = run("rules", id_, "--json")
        assert (outcome.exit_code, outcome.stdout) == (2, "")
        assert "`dsh-otel rules` lists all" in outcome.stderr
