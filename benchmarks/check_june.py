"""How fast a June log is read and checked, on one core."""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path

import msgspec

from benchmarks import june
from benchmarks.rounds import interleave, ratios
from dsh_core.check import check_session
from dsh_core.contract.catalogue import CATALOGUE
from dsh_core.decode import strict_decoder
from dsh_core.logs.reader import Batch, SessionLog

EVENTS = 1_000_000
GOAL = 1.0
"""Million events per second, with the rules of all owners."""

FEW = ("owner:session", "owner:log", "owner:tools", "owner:reader")
"""Rules of turns, steps and calls alone."""


def run(events: int = EVENTS, rounds: int = 5) -> None:
    """Measure, and print a table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "june.jsonl"
        count = june.write(path, events)
        size = path.stat().st_size
        lines = path.read_bytes().splitlines()[: max(events // 20, 1)]
        decoder = strict_decoder(packed=False)

        def check() -> None:
            report = check_session(str(path))
            assert report.events == count
            assert not report.findings

        few = CATALOGUE.select(FEW)

        def check_few() -> None:
            report = check_session(str(path), chosen=few)
            assert report.events == count
            assert not report.findings

        def read() -> None:
            with path.open("rb") as source:
                log = SessionLog(source, path.name)
                assert sum(len(b.events) for b in log.read() if isinstance(b, Batch)) == count

        def bare() -> None:
            with path.open("rb") as source:
                rest = b""
                while block := source.read(1 << 16):
                    cut = block.rfind(b"\n") + 1
                    decoder.decode_lines(rest + block[:cut])
                    rest = block[cut:]

        def stdlib() -> None:
            for line in lines:
                json.loads(line)

        def untyped() -> None:
            for line in lines:
                msgspec.json.decode(line)

        taken = interleave(
            {
                "check (read, decode, all rules)": check,
                "read and decode": read,
                "bare typed decode, no rules": bare,
                "check, turns, steps and calls only": check_few,
                "json.loads alone": stdlib,
                "msgspec.json.decode alone, untyped": untyped,
            },
            rounds,
        )
    print(f"June log, {count:,} events, {size / 1e6:.0f} MB, one core, {rounds} rounds")
    for name, seconds in taken.items():
        done = count if name in list(taken)[:4] else len(lines)
        best, middle = min(seconds), statistics.median(seconds)
        print(
            f"  {name:<36} {done / middle / 1e6:5.2f} M events/s (best {done / best / 1e6:.2f}),"
            f" {middle / done * 1e9:5.0f} ns an event"
        )
    names = list(taken)
    middle, low, high = ratios(taken[names[0]], taken[names[2]])
    print(f"  check takes {middle:.2f} times the bare decode [{low:.2f} .. {high:.2f}]")
    reached = count / statistics.median(taken[names[0]]) / 1e6
    print(f"  goal {GOAL} M events/s: {'reached' if reached >= GOAL else 'NOT reached'}")


if __name__ == "__main__":
    run()
