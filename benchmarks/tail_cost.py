"""What it costs to follow logs: many that do nothing, and many that grow."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

from benchmarks.rounds import ratios

IDLE = 1000
IDLE_S = 10.0
IDLE_GOAL = 0.01
GROWING = 100
TURNS = 30
"""Turns that each growing log gets, one every tenth of a second."""

PACE_S = 0.1
PROGRAM = (sys.executable, "-m", "dsh_otel")
EVENTS = (
    ("turn/start", {}),
    ("step/start", {"step": 1}),
    ("tool/call", {"step": 1, "callId": "c1", "name": "read", "arguments": "{}"}),
    ("tool/result", {"step": 1, "callId": "c1", "content": [], "isError": False}),
    ("step/end", {"step": 1}),
    ("turn/end", {"reason": {"kind": "completed"}}),
)


def run(rounds: int = 3) -> None:
    """Measure, and print tables."""
    _idle(rounds)
    _growing(rounds)


def _idle(rounds: int) -> None:
    print(f"share of a core that {IDLE:,} sessions cost which do nothing")
    taken: dict[str, list[float]] = {"told by the system": [], "looking every second": []}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for number in range(IDLE):
            _write(_log(root, number), 1)
        for _ in range(rounds):
            for how, shares in taken.items():
                poll = ["--poll", "1"] if "looking" in how else []
                with _tail(root, *poll) as process:
                    before = _cpu_s(process.pid)
                    time.sleep(IDLE_S)
                    shares.append((_cpu_s(process.pid) - before) / IDLE_S)
                    process.terminate()
    for how, shares in taken.items():
        middle = statistics.median(shares)
        verdict = "ok" if middle < IDLE_GOAL else "MISSED"
        print(f"  {how:22} {middle:6.2%} [{min(shares):.2%} .. {max(shares):.2%}]  {verdict}")


def _growing(rounds: int) -> None:
    print(f"{GROWING} sessions, each with a turn every {PACE_S:g} s, {TURNS} turns")
    lags: list[float] = []
    follow: list[float] = []
    once: list[float] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            logs = [_log(root, number) for number in range(GROWING)]
            for log in logs:
                log.touch()
            spans = root / "spans.json"
            with _tail(root, "--jsonl", "--to", "file", "-o", str(spans)) as process:
                before = _cpu_s(process.pid)
                begin = time.monotonic()
                for turn in range(1, TURNS + 1):
                    for log in logs:
                        _write(log, turn)
                    time.sleep(max(begin + turn * PACE_S - time.monotonic(), 0))
                written = time.monotonic()
                ended = 0
                assert process.stdout is not None
                while ended < GROWING * TURNS:
                    ended += b"dsh.turn.ended" in process.stdout.readline()
                lags.append(time.monotonic() - written)
                follow.append(_cpu_s(process.pid) - before)
                process.terminate()
                process.stdout.read()
            done = subprocess.Popen(
                [*PROGRAM, "-q", "export", str(root), "--to", "file", "-o", str(spans)]
            )
            _, _, used = os.wait4(done.pid, 0)
            once.append(used.ru_utime + used.ru_stime)
    total = GROWING * TURNS * len(EVENTS)
    print(
        f"  {total:,} events; the last turn's end is told {statistics.median(lags):.2f} s", end=""
    )
    print(f" [{min(lags):.2f} .. {max(lags):.2f}] after it was written")
    middle, low, high = ratios(follow, once)
    print(f"  processor time: {middle:.2f} times [{low:.2f} .. {high:.2f}] that of one export")


def _log(root: Path, number: int) -> Path:
    folder = root / "sessions" / "--p--" / f"s-{number}"
    folder.mkdir(parents=True)
    return folder / "session.jsonl"


def _write(log: Path, turn: int) -> None:
    first = (turn - 1) * len(EVENTS)
    now = time.time_ns() // 1_000_000
    header = {"type": "session", "version": 0, "id": log.parent.name, "createdAt": now}
    rows: list[dict[str, object]] = [] if first else [{**header, "delegationDepth": 0}]
    rows += [
        {"type": kind, "seq": seq, "time": now, "data": {"turn": turn, **data}}
        for seq, (kind, data) in enumerate(EVENTS, first)
    ]
    with log.open("a") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))


class _tail:  # noqa: N801 - reads as a function
    """A follower that has begun."""

    def __init__(self, root: Path, *options: str) -> None:
        self._process = subprocess.Popen(
            [*PROGRAM, "tail", str(root), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> subprocess.Popen[bytes]:
        said: IO[bytes] | None = self._process.stderr
        assert said is not None
        while b"following" not in (line := said.readline()):
            if not line:
                raise RuntimeError("the follower has ended")
        return self._process

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def _cpu_s(pid: int) -> float:
    """Return the processor time of a process so far, in seconds (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
