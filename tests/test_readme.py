"""What the README shows is true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_the_python_example_runs_and_writes_nothing_twice() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    text = run("-c", code, cwd=SAMPLES / "denied-1")
    assert text.count("advice tool.error-uncoded failed result without a code") == 2
    assert text.count('"dsh.violation",') == 2
    assert text.count('"dsh.tool.error",') == 3


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
