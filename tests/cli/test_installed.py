"""Rules of other packages on the command line."""

from __future__ import annotations

import json
import re
import sys
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
    name = f"{__name__}.{value.partition(':')[2]}"
    assert f"the rules of acme ({name}) failed at {__file__}:" in said[0]
    assert "and were switched off: ZeroDivisionError; tell its authors, or exclude" in said[0]


@pytest.mark.parametrize("command", ["check", "export", "rules --run", "demo -o"])
def test_a_rule_that_fails_on_many_logs_is_told_once(
    install: Any, tmp_path: Path, command: str
) -> None:
    """It is one fault; how many logs it concerns is a number."""
    install(RAISING)
    places = [tmp_path / "spans.json"]
    if command != "demo -o":
        places = [write(tmp_path / name, *CLEAN) for name in ("a.jsonl", "b.jsonl")]
    outcome = run(*command.split(), *(places if "rules" not in command else places[:1]))
    assert outcome.exit_code == 2
    assert outcome.stderr.count("were switched off") == 1
    assert "cannot write" not in outcome.stderr
    if command in {"check", "export"}:
        assert "2 incomplete" in outcome.output
    if command == "demo -o":
        assert places[0].stat().st_size


@pytest.mark.parametrize(
    ("output_format", "said"),
    [("junit", 'type="incomplete"'), ("github", "title=incomplete::"), ("sarif", "switched off")],
)
def test_a_log_not_checked_in_full_is_not_an_unreadable_one(
    install: Any, tmp_path: Path, output_format: str, said: str
) -> None:
    """It was read; only some rules are missing."""
    install(RAISING)
    path = write(tmp_path / "a.jsonl", *CLEAN)
    assert said in run("check", path, "--format", output_format).stdout


@pytest.mark.parametrize("value", [RAISING, UNMADE])
def test_the_author_of_a_rule_sees_where_it_fails(install: Any, tmp_path: Path, value: str) -> None:
    """Only on demand: what an error says may quote the log."""
    install(value)
    path = write(tmp_path / "a.jsonl", *CLEAN)
    assert "Traceback" not in run("check", path).stderr
    shown = run("check", path, env={"DSH_OTEL_DEBUG": "1"}).stderr
    assert "\nZeroDivisionError\n" in shown
    moment = "at seq 0" if value == RAISING else "when the session started"
    assert f"it failed {moment}:" in shown


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


def test_the_doctor_lists_rules_that_work(install: Any) -> None:
    """Whoever installed some sees that they are there."""
    install(RAISING)
    outcome = run("doctor", "--no-send")
    assert outcome.exit_code == 0
    assert f"rules of acme  {RAISING}: 1 rule" in re.sub("  +", "  ", outcome.stdout)


@pytest.mark.parametrize("command", [("rules", "--json"), ("doctor", "--json", "--no-send")])
def test_what_a_package_prints_when_it_is_loaded_is_no_data(
    install: Any, tmp_path: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs read standard output."""
    (tmp_path / "loud_rules.py").write_text(
        f"from {__name__} import Raising as Rules\nprint('hello')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "loud_rules", raising=False)
    install("loud_rules:Rules")
    outcome = run(*command)
    assert json.loads(outcome.stdout)["schema_version"] == 1
    assert outcome.stderr == "hello\n"
