"""Small logs, and ways to run the command line on them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner, Result

from dsh_otel.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    Event = tuple[str, Mapping[str, Any]]

START: Event = ("turn/start", {"turn": 0})
END: Event = ("turn/end", {"turn": 0, "reason": {"kind": "completed"}})
STEP: Event = ("step/start", {"turn": 0, "step": 0})
STEP_END: Event = ("step/end", {"turn": 0, "step": 0})

CLEAN = (START, END)
# Line 2 breaks the contract.
OVERLAP = (
    *(START, ("turn/start", {"turn": 1})),
    ("turn/end", {"turn": 1, "reason": {"kind": "completed"}}),
)
# The call is never answered.
ADVICE = (
    *(START, STEP),
    ("tool/call", {"turn": 0, "step": 0, "callId": "c1", "name": "read", "arguments": "{}"}),
    *(STEP_END, END),
)
TORN = b'{"type":"turn/sta'
UNSET = dict.fromkeys(("NO_COLOR", "FORCE_COLOR", "TERM", "DSH_HOME", "DSH_OTEL_DEBUG"))


def call(name: str) -> Event:
    """A call that is no JSON: its tool's name is part of what is found."""
    return ("tool/call", {"turn": 0, "step": 0, "callId": "c1", "name": name, "arguments": "{"})


def result(call_id: str) -> Event:
    """A result, of a call that was perhaps never made."""
    return ("tool/result", {"turn": 0, "step": 0, "callId": call_id, "content": []})


def encode(*events: Event, first: int = 0) -> bytes:
    """The lines of a log in the June format, numbered from `first`."""
    rows = (
        {"type": kind, "seq": seq, "time": 1_700_000_000_000 + seq, "data": data}
        for seq, (kind, data) in enumerate(events, first)
    )
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def write(path: Path, *events: Event, tail: bytes = b"") -> Path:
    """Write a log, with bytes after its last line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode(*events) + tail)
    return path


def run(
    *arguments: str | Path, stdin: bytes = b"", env: Mapping[str, str | None] | None = None
) -> Result:
    """Run a command line in this process."""
    runner = CliRunner(env=UNSET | dict(env or {}))
    return runner.invoke(app, [str(argument) for argument in arguments], input=stdin)


def environment(**changes: str) -> dict[str, str]:
    """The environment for a process of its own."""
    return {name: value for name, value in os.environ.items() if name not in UNSET} | changes


def start(*arguments: str | Path, **options: Any) -> subprocess.Popen[bytes]:
    """Start ``python -m dsh_otel`` as a process of its own."""
    command = [sys.executable, "-m", "dsh_otel", *map(str, arguments)]
    return subprocess.Popen(command, **{"env": environment(), **options})
