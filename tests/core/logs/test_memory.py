"""Memory: a log of any size is read and checked within a bound."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LIMIT = 200 << 20

SCRIPT = '''
"""Read a log that is made up on the fly, check it, and print what was found."""

import resource
import sys

from dsh_core.contract.checker import Checker
from dsh_core.logs.reader import Batch, SessionLog


def peak():
    try:
        # Unlike ru_maxrss, this does not count what the parent had before it started us.
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))
    except FileNotFoundError:
        usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return usage if sys.platform == "darwin" else usage << 10


class Many:
    """A June log of about 200 MB: turns of a step with some chunks, a call and its result."""

    def __init__(self):
        self.seq = 0
        self.turn = 0
        self.left = 200 << 20

    def read(self, size):
        if self.left <= 0:
            return b""
        rows = [row for _ in range(40) for row in self.next_turn()]
        data = "".join(rows).encode()
        self.left -= len(data)
        return data

    def next_turn(self):
        self.turn += 1
        place = f'"turn":{self.turn},"step":1'
        chunk = '"chunk":{"type":"text-delta","index":0,"text":"some words of an answer"}'
        for kind, data in (
            ("turn/start", f'"turn":{self.turn}'),
            ("step/start", place),
            *[("assistant/chunk", f"{place},{chunk}")] * 12,
            ("tool/call", f'{place},"callId":"c{self.turn}","name":"bash","arguments":"{{}}"'),
            ("tool/result", f'{place},"callId":"c{self.turn}","content":[],"isError":false'),
            ("step/end", place),
            ("turn/end", f'"turn":{self.turn},"reason":{{"kind":"completed"}}'),
        ):
            yield '{"type":"%s","seq":%d,"time":%d,"data":{%s}}\\n' % (
                kind, self.seq, 1_780_000_000_000 + self.seq, data
            )
            self.seq += 1


class Long:
    """A June log with one event of 100 MB."""

    def __init__(self):
        self.parts = iter(self.make())

    def read(self, size):
        return next(self.parts, b"")

    def make(self):
        yield b'{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}\\n'
        yield b'{"type":"user/message","seq":1,"time":2,"data":{"content":[{"type":"text","text":"'
        for _ in range(1600):
            yield b"x" * 65536
        yield b'"}]}}\\n'
        yield b'{"type":"turn/end","seq":2,"time":3,"data":{"turn":1}}\\n'


log = SessionLog({"many": Many, "long": Long}[sys.argv[1]](), "s-1.jsonl")
checker = Checker(log.header, strict=True)
rules = []
for item in log.read():
    if isinstance(item, Batch):
        found = checker.observe_all(item.events, item.lines)
    else:
        found = checker.observe_fault(item)
    rules += [finding.rule for finding in found]
rules += [finding.rule for finding in checker.finish(final=True)]
print(checker.events, ",".join(rules), peak())
'''


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "least", "rules"), [("many", 1_000_000, ""), ("long", 3, "line.too-long")]
)
def test_a_log_of_any_size_is_read_within_a_bound(kind: str, least: int, rules: str) -> None:
    """A long log and a long line are read and checked in less than 200 MB of memory."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, kind],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    events, found, peak = done.stdout.rstrip("\n").split(" ")
    assert int(events) >= least
    assert found == rules
    assert int(peak) < LIMIT
