"""How fast a v4 log of large lines is read and checked, on one core."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import msgspec

from benchmarks import october
from benchmarks.rounds import interleave, ratios
from dsh_core.check import check_session
from dsh_core.decode import strict_decoder
from dsh_core.logs.reader import Batch, SessionLog

SIZE = 100_000_000
"""Bytes."""

GOAL = 250
"""MB of decoded JSONL per second."""


def run(size: int = SIZE, rounds: int = 5) -> None:
    """Measure, and print a table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.v4.jsonl"
        count = october.write(path, size)
        size = path.stat().st_size
        decoder = strict_decoder(packed=False)

        def check() -> None:
            report = check_session(str(path))
            assert report.events == count
            assert not report.findings

        def read() -> None:
            with path.open("rb") as source:
                log = SessionLog(source, path.name)
                assert sum(len(b.events) for b in log.read() if isinstance(b, Batch)) == count

        def bare() -> None:
            with path.open("rb") as source:
                source.readline()
                rest = b""
                while block := source.read(1 << 16):
                    cut = block.rfind(b"\n") + 1
                    if cut:
                        decoder.decode_lines(rest + block[:cut])
                        rest = b""
                    rest += block[cut:]

        def untyped() -> None:
            with path.open("rb") as source:
                for line in source:
                    msgspec.json.decode(line)

        taken = interleave(
            {
                "check (read, decode, all rules)": check,
                "read and decode": read,
                "bare typed decode, no rules": bare,
                "msgspec.json.decode alone, untyped": untyped,
            },
            rounds,
        )
    print(
        f"v4 log, {count:,} events of {size / count:,.0f} bytes, {size / 1e6:.0f} MB, one core, "
        f"{rounds} rounds"
    )
    for name, seconds in taken.items():
        best, middle = min(seconds), statistics.median(seconds)
        print(
            f"  {name:<36} {size / middle / 1e6:5.0f} MB/s (best {size / best / 1e6:.0f}),"
            f" {middle / count * 1e6:5.2f} µs an event"
        )
    names = list(taken)
    middle, low, high = ratios(taken[names[0]], taken[names[2]])
    print(f"  check takes {middle:.2f} times the bare decode [{low:.2f} .. {high:.2f}]")
    reached = size / statistics.median(taken[names[0]]) / 1e6
    print(f"  goal {GOAL} MB/s: {'reached' if reached >= GOAL else 'NOT reached'}")


if __name__ == "__main__":
    run()
