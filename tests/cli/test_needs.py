"""Rules that need more than a log, and what is said where they do not get it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsh_core.contract import example_logs
from dsh_core.contract.catalogue import CATALOGUE
from dsh_otel.cli.needs import needed
from tests.cli.helpers import CLEAN, run, write

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = [id_ for id_ in CATALOGUE.entries if example_logs.path(id_).exists()]


@pytest.mark.parametrize("rule", EXAMPLES)
def test_a_check_finds_the_example_of_a_rule_with_the_options_that_are_named_for_it(
    rule: str,
) -> None:
    """Whoever tries an example sees what it is an example of."""
    option = needed(CATALOGUE.entries[rule].rule)
    command = ["check", "--json", "--fail-on", "advice", str(example_logs.path(rule))]
    outcome = run(*command, *option.replace("NAME", "workspace-write").split())
    assert f'"rule":"{rule}"' in outcome.stdout
    if option:
        assert f'"rule":"{rule}"' not in run(*command).stdout
        example = run("rules", rule, "--example")
        assert example.stderr == (
            f"dsh-otel: check it with {option}: {rule} is not evaluated otherwise\n"
        )
        assert example.stdout.encode() == example_logs.path(rule).read_bytes()


IDLE = {
    "turn.unclosed": ([], "needs --final"),
    "permission.preset-unknown": ([], "needs --preset NAME"),
    "agent.status-noop": ([], "needs what no log holds"),
    "tool.unresolved": (["--contract", "v0"], "is no part of contract v0"),
    "seq.gap": (["--source", "stream"], "needs --source log"),
}


@pytest.mark.parametrize("rule", IDLE)
@pytest.mark.parametrize("command", ["check", "shrink"])
def test_rules_that_can_judge_nothing_give_no_clean_verdict(
    rule: str, command: str, tmp_path: Path
) -> None:
    """What was asked for cannot be told, whatever the log holds."""
    options, reason = IDLE[rule]
    log = write(tmp_path / "a.jsonl", *CLEAN)
    outcome = run(command, log, "--rules", rule, *options)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert outcome.stderr == (
        f"dsh-otel: none of the chosen rules can be evaluated here: {rule} {reason}\n"
    )


@pytest.mark.parametrize("command", ["check", "export"])
def test_a_rule_that_is_asked_for_by_name_beside_others_is_a_notice(
    command: str, tmp_path: Path
) -> None:
    """The others judge; one that a pattern merely happens to match is no surprise."""
    log = write(tmp_path / "a.jsonl", *CLEAN)
    named = run(command, log, "--rules", "turn.unclosed", "--rules", "turn.overlap")
    assert named.exit_code == 0
    assert "dsh-otel: not evaluated here: turn.unclosed needs --final\n" in named.stderr
    for silent in (("--rules", "turn.*"), (), ("-q", "--rules", "turn.unclosed", "--rules", "*")):
        assert "not evaluated" not in run(command, log, *silent).stderr


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("turn.overlop", "did you mean turn.overlap"),
        ("TURN.OVERLAP", "did you mean turn.overlap?"),
        ("Turn.*", "did you mean turn.*?"),
        ("owner:Session", "did you mean owner:session?"),
        ("turn.overlap,seq.gap", "give one pattern each, and repeat the option"),
        ("zzzz", "`dsh-otel rules` lists all"),
    ],
)
@pytest.mark.parametrize(
    "command", ["check --rules", "check --exclude", "export --rules", "shrink - --rules", "rules"]
)
def test_a_pattern_that_matches_nothing_comes_with_a_proposal(
    command: str, pattern: str, hint: str
) -> None:
    """Whatever command it is given to."""
    outcome = run(*command.split(), pattern)
    assert outcome.exit_code == 2
    assert outcome.stderr.startswith(f"dsh-otel: no rule matches {pattern!r}; {hint}")
