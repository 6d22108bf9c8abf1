"""What the README shows is true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dsh_core.contract.installed import GROUP
from dsh_otel.cli import demo, export
from dsh_otel.export.sink import INSTALL_EXTRA

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SAMPLES = ROOT / "dsh_otel/samples/home/sessions/--home-dev-ws--"


def run(*arguments: str, cwd: Path) -> str:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    ).stdout


TRACING, AGENT, TESTING, PRIVACY = re.findall(r"```python\n(.*?)```", README, re.DOTALL)

AS_NOBODY = """
import contextlib, io, os, pathlib, sys
code = compile(sys.argv[1], "example", "exec")
if os.geteuid() == 0:
    # Once with all rights, so that whatever is imported late is there.
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code, {})
    pathlib.Path("secret.txt").unlink()
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
exec(code, {})
"""


def test_the_python_example_runs_and_writes_nothing_twice() -> None:
    text = run("-c", TRACING, cwd=SAMPLES / "denied-1")
    assert text.count("advice tool.error-uncoded failed result without a code") == 2
    assert text.count('"dsh.violation",') == 2
    assert text.count('"dsh.tool.error",') == 3


def test_the_python_example_sets_the_service_that_the_readme_names() -> None:
    text = run("-c", TRACING, cwd=SAMPLES / "denied-1")
    assert '"service.name": "dsh"' in text
    assert '"service.name": "unknown_service' not in text
    assert "look for service `dsh`" in README


def test_the_example_of_privacy_lets_out_what_it_says() -> None:
    assert "gen_ai.tool.call.arguments" not in run("-c", TRACING, cwd=SAMPLES / "denied-1")
    text = run("-c", TRACING + PRIVACY, cwd=SAMPLES / "denied-1")
    assert text.count('"gen_ai.tool.call.arguments": ') == 3
    assert "gen_ai.tool.call.result" not in text
    assert "/home/dev" not in text


def test_the_example_of_an_agent_tells_what_is_missing_from_what_is_forbidden(
    tmp_path: Path,
) -> None:
    assert len(AGENT.splitlines()) < 40
    tmp_path.chmod(0o777)
    shown = README.split(AGENT, 1)[1].split("```text\n", 1)[1].split("```", 1)[0]
    printed = run("-W", "error", "-c", AS_NOBODY, AGENT, cwd=tmp_path)
    assert _without_durations(printed) == _without_durations(shown)
    assert "ENOENT  missing → replan" in shown
    assert "EACCES  denied → ask" in shown


def _without_durations(text: str) -> str:
    return re.sub(r"\d+(\.\d+)? (ms|µs|s)\b", "…", text)


@pytest.mark.slow
def test_the_example_of_a_test_passes_and_can_fail(tmp_path: Path) -> None:
    file = tmp_path / "test_mine.py"
    file.write_text(TESTING, encoding="utf-8")
    options = ("-m", "pytest", "-q", "--no-cov", "-p", "no:randomly", "-p", "no:cacheprovider")
    assert "1 passed" in run(*options, "--dsh-invariants", str(file), cwd=tmp_path)
    file.write_text(TESTING.replace('["ENOENT"]', '["EACCES"]'), encoding="utf-8")
    assert "1 failed" in run(*options, str(file), cwd=tmp_path)


@pytest.mark.parametrize(
    "name", ["dsh-otel-demo.otlp.json", "dsh-traces.otlp.json", "pip install '.[otlp]'"]
)
def test_it_names_what_the_commands_use_by_default(name: str) -> None:
    said = (str(demo.DEFAULT_FILE), str(export.DEFAULT_FILE), INSTALL_EXTRA)
    assert name in README
    assert any(text.startswith(name) for text in said)


@pytest.mark.parametrize(
    "command", re.findall(r"\$ dsh-otel (check broken-1.*|export denied-1)\n", README)
)
def test_the_examples_of_the_command_line_are_what_it_prints(command: str) -> None:
    shown = README.split(f"$ dsh-otel {command}\n", 1)[1].split("```", 1)[0]
    assert run("-m", "dsh_otel", *command.split(), cwd=SAMPLES) == shown


def test_its_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(links) > 5
    assert [link for link in links if not (ROOT / link).exists()] == []


RECIPES = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs/recipes.md").read_text(encoding="utf-8"), re.DOTALL
)


@pytest.mark.parametrize(
    ("number", "printed"),
    [
        (0, "['dsh_core.program', 'guard'] ['misspelt']\nI may not.\n"),
        (1, "Noted. 2\nNoted. 4\n"),
        (2, "On my way.\nABORTED\n"),
        (3, "3 advice acme.root bash is run as root\n"),
        (5, "TRANSPORT\n"),
    ],
)
def test_the_recipes_do_what_they_say(number: int, printed: str, tmp_path: Path) -> None:
    assert len(RECIPES) == 6
    assert run("-W", "error", "-c", RECIPES[number], cwd=tmp_path) == printed


@pytest.mark.slow
def test_the_recipe_for_a_test_of_a_rule_passes_and_can_fail(tmp_path: Path) -> None:
    (tmp_path / "acme_dsh").mkdir()
    rules = tmp_path / "acme_dsh/rules.py"
    rules.write_text(RECIPES[3].split("\ncall = ")[0], encoding="utf-8")
    file = tmp_path / "test_rules.py"
    file.write_text(RECIPES[4], encoding="utf-8")
    options = ("-m", "pytest", "-q", "--no-cov", "-p", "no:randomly", "-p", "no:cacheprovider")
    assert "2 passed" in run(*options, str(file), cwd=tmp_path)
    rules.write_text(rules.read_text().replace('"sudo"', '"doas"'), encoding="utf-8")
    assert "1 failed" in run(*options, str(file), cwd=tmp_path)


def test_the_recipe_for_a_package_of_rules_names_the_entry_point() -> None:
    text = (ROOT / "docs/recipes.md").read_text(encoding="utf-8")
    (toml,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    project = tomllib.loads(toml)["project"]
    assert project["entry-points"] == {GROUP: {"acme": "acme_dsh.rules:Rules"}}
