"""The examples of the rules: a shortest log that breaks each, and one that nearly does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from dsh_core.check import SessionReport, check_session
from dsh_core.contract import example_logs as examples
from dsh_core.contract.catalogue import CATALOGUE
from dsh_core.contract.findings import Severity

if TYPE_CHECKING:
    from pathlib import Path

PRESETS: Final = frozenset({"read-only", "workspace-write", "danger-full-access"})
LOGGED: Final = [id_ for id_, entry in CATALOGUE.entries.items() if entry.rule.source != "live"]

INSTEAD: Final = {"tool.result-not-started": "tool.result-without-call"}
"""Rules that name the same fault, one of them only where the other is left out."""


def report(path: Path, rule: str, *, chosen: frozenset[str] | None = None) -> SessionReport:
    """Check an example, with all rules unless some are chosen."""
    found = check_session(
        str(path),
        final=CATALOGUE.entries[rule].rule.source == "end",
        presets=PRESETS,
        chosen=chosen,
    )
    assert (found.error, found.disabled) == ("", [])
    return found


def serious(found: SessionReport) -> list[str]:
    """Return the rules of violations and damage."""
    return [f.rule for f in found.findings if f.severity is not Severity.ADVICE]


@pytest.mark.parametrize("rule", LOGGED)
class TestEachRule:
    """Every rule that a log can break."""

    def test_its_example_trips_it_once_and_nothing_else(self, rule: str) -> None:
        found = report(examples.path(rule), rule)
        tripped = [finding.rule for finding in found.findings]
        assert tripped.count(rule) == 1
        assert set(serious(found)) <= {rule}
        assert rule in found.evaluated

    def test_its_near_miss_trips_nothing_though_it_is_judged(self, rule: str) -> None:
        found = report(examples.path(rule, silent=True), rule)
        assert rule not in [finding.rule for finding in found.findings]
        assert serious(found) == []
        assert rule in found.evaluated

    def test_without_the_rule_its_example_goes_unnoticed(self, rule: str) -> None:
        found = report(examples.path(rule), rule, chosen=CATALOGUE.select((), [rule]))
        # Damage that nobody asks about explains nothing either.
        if not rule.startswith("line."):
            assert set(serious(found)) <= {INSTEAD.get(rule)}
        assert rule not in [finding.rule for finding in found.findings]

    def test_alone_it_finds_what_it_finds_among_others(self, rule: str) -> None:
        found = report(examples.path(rule), rule, chosen=frozenset({rule}))
        assert [finding.rule for finding in found.findings] == [rule]


def test_there_is_no_example_of_anything_else() -> None:
    known = {examples.path(rule, silent=silent).name for rule in LOGGED for silent in (True, False)}
    assert {path.name for path in examples.FOLDER.iterdir()} == known
