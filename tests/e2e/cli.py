"""The command line, as a process of its own, as it is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

PROGRAM: Final = Path(sys.executable).with_name("dsh-otel")
DEADLINE: Final = 120.0
"""Seconds after which a run counts as hanging."""

_FOREIGN: Final = re.compile(r"OTEL_|DSH_|ROTEL_|.*_PROXY$", re.IGNORECASE)


def environment(**changes: str) -> dict[str, str]:
    """Return the environment without settings that have to do with us, but for these."""
    return {name: value for name, value in os.environ.items() if not _FOREIGN.match(name)} | changes


def start(*arguments: str | Path, env: dict[str, str], **options: Any) -> subprocess.Popen[bytes]:
    """Start ``dsh-otel``."""
    command = [str(PROGRAM), *map(str, arguments)]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment(**env), **{**pipes, **options})


def run(
    *arguments: str | Path, deadline: float = DEADLINE, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run ``dsh-otel`` to its end.

    Args:
        arguments: The command line.
        deadline: Seconds that it may take.
        env: Environment variables.
    """
    return subprocess.run(
        [str(PROGRAM), *map(str, arguments)],
        env=environment(**env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=deadline,
        check=False,
    )


def export(
    *arguments: str | Path, endpoint: str, deadline: float = DEADLINE, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run ``dsh-otel export --to otlp``."""
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, **env}
    return run("export", *arguments, "--to", "otlp", deadline=deadline, **env)


def count(pattern: str, text: str) -> int:
    """Return the number that a message has in front of some words, ``spans? lost`` for example.

    Args:
        pattern: The words after the number.
        text: The message.
    """
    match = re.search(rf"([\d,]+) {pattern}", text)
    assert match is not None, text
    return int(match[1].replace(",", ""))
