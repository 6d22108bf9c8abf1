"""Rules of other packages on the command line."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from dsh_core.contract import installed
from dsh_core.contract.rule import Rule, RuleSet
from tests.cli.helpers import CLEAN, OVERLAP, run, write

if TYPE_CHECKING:
    from pathlib import Path


class Raising(RuleSet):
    """A rule that is broken."""

    owner = "acme"
    rules: ClassVar = (Rule("acme.broken", "never", "Never.", on=("turn/start",)),)

    def handlers(self) -> Any:
        return {"turn/start": self._fail}

    def _fail(self, _event: object, _line: int) -> None:
        raise ZeroDivisionError


class Unmade(Raising):
    """A rule set that cannot even start."""

    def __init__(self, run: Any) -> None:
        raise ZeroDivisionError


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what makes entry points be found."""

    def given(*values: str) -> None:
        def entry_points(*, group: str) -> list[EntryPoint]:
            return [EntryPoint("odd", value, group) for value in values]

        monkeypatch.setattr(installed, "entry_points", entry_points)

    return given


RAISING, UNMADE, GONE = f"{__name__}:Raising", f"{__name__}:Unmade", "no_such_package_here:Rules"


@pytest.mark.parametrize("value", [RAISING, UNMADE])
@pytest.mark.parametrize("command", [("check",), ("export",), ("shrink",), ("rules", "--run")])
def test_a_rule_that_fails_is_no_clean_verdict(
    install: Any, tmp_path: Path, value: str, command: tuple[str, ...]
) -> None:
    """Not all was looked at: the command says whose rules failed, and does not end with 0."""
    install(value)
    outcome = run(*command, write(tmp_path / "a.jsonl", *CLEAN))
    assert outcome.exit_code == 2
    said = outcome.stderr.splitlines()
    assert all(line.startswith("dsh-otel: ") for line in said)
    assert "the rules of 'acme' are switched off for this session: ZeroDivisionError" in said[0]
    assert f"{__name__}.{value.partition(':')[2]}, {__file__}:" in said[0]


def test_the_others_judge_all_the_same(install: Any, tmp_path: Path) -> None:
    """A finding that counts beats a check that is not complete."""
    install(RAISING)
    outcome = run("check", write(tmp_path / "a.jsonl", *OVERLAP))
    assert outcome.exit_code == 1
    assert "turn.overlap" in outcome.stdout


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (GONE, "cannot be loaded: ModuleNotFoundError"),
        (UNMADE, "fails when a session starts: ZeroDivisionError"),
    ],
)
def test_the_doctor_names_rules_that_cannot_be_used(install: Any, value: str, problem: str) -> None:
    """They keep the plugin from starting, or from checking."""
    install(value)
    outcome = run("doctor", "--no-send")
    assert outcome.exit_code == 2
    assert f"problem: rules 'odd' ({value}): {problem}" in outcome.stdout


def test_a_rule_of_another_package_has_no_example_here(install: Any) -> None:
    """It is said whose rule it is."""
    install(RAISING)
    outcome = run("rules", "acme.broken", "--example")
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert outcome.stderr == (
        "dsh-otel: there is no example of acme.broken: it is a rule of the package of 'acme', "
        "which brings none\n"
    )
