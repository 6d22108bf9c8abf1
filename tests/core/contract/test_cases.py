"""Logs that broke in the hands of real people; see tests/data/README.md."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from dsh_core.check import SessionReport, check_session
from dsh_core.contract.findings import Severity
from dsh_core.events import Contract
from tests.paths import CASES

if TYPE_CHECKING:
    from collections.abc import Iterable

EXPECTED: dict[str, Any] = json.loads((CASES / "expected.json").read_text())
EACH = pytest.mark.parametrize("name", EXPECTED)


def report(name: str, *, contract: str = "", final: bool = False) -> SessionReport:
    """Check a case as expected.json says."""
    asked = contract or EXPECTED[name]["contract"]
    known = None if asked == "auto" else Contract(asked)
    found = check_session(str(CASES / name), contract=known, final=final)
    assert found.error == ""
    return found


def rules(found: SessionReport, severity: Severity) -> list[str]:
    """Return the rules of a severity that were found."""
    return [f.rule for f in found.findings if f.severity is severity]


def assert_within(found: Iterable[str], due: Iterable[str], may: Iterable[str] = ()) -> None:
    """Check that all of `due` and nothing beyond `may` was found."""
    assert set(due) <= set(found) <= set(due) | set(may)


def test_every_case_has_its_expectation() -> None:
    """No log of the folder is left out."""
    assert {path.name for path in CASES.glob("*.jsonl")} == set(EXPECTED)


@EACH
@pytest.mark.parametrize("final", [False, True])
def test_violations(name: str, final: bool) -> None:
    """Exactly the expected rules are broken."""
    due = EXPECTED[name]
    found = rules(report(name, final=final), Severity.VIOLATION)
    assert_within(found, due["violations"], due.get("may", ()))


@EACH
def test_damage(name: str) -> None:
    """Exactly the expected damage is reported."""
    assert_within(rules(report(name), Severity.DAMAGE), EXPECTED[name].get("damage", ()))


@EACH
def test_advice(name: str) -> None:
    """The expected advice is given, at a declared end some more."""
    due = set(EXPECTED[name].get("advice", ()))
    assert due <= set(rules(report(name), Severity.ADVICE))
    due |= set(EXPECTED[name].get("advice_final", ()))
    assert due <= set(rules(report(name, final=True), Severity.ADVICE))


@EACH
def test_number_of_findings(name: str) -> None:
    """One cause is one finding."""
    found = rules(report(name), Severity.VIOLATION)
    for rule in set(found) - {"envelope.invalid"}:
        assert found.count(rule) <= EXPECTED[name].get("max_findings", {}).get(rule, 1)


@pytest.mark.parametrize("name", [name for name in EXPECTED if "also" in EXPECTED[name]])
def test_other_contracts(name: str) -> None:
    """Held to another contract, further rules are broken."""
    also = EXPECTED[name]["also"]
    found = rules(report(name, contract=also["contract"]), Severity.VIOLATION)
    assert set(also["includes"]) <= set(found)


def test_nothing_is_found_in_the_control() -> None:
    """A legal log with everything that merely looks odd gives no violation and no damage."""
    found = report("00-control-legal.jsonl", final=True)
    assert {f.severity for f in found.findings} <= {Severity.ADVICE}
    assert found.events == 26
