"""Run all benchmarks: ``python -m benchmarks [check] [check-v4] [tracer] [live] [tail]``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from benchmarks import check_june, check_v4, live_overhead, tail_cost, tracer_overhead

if TYPE_CHECKING:
    from collections.abc import Callable

BENCHMARKS: dict[str, Callable[[], None]] = {
    "check": check_june.run,
    "check-v4": check_v4.run,
    "tracer": tracer_overhead.run,
    "live": live_overhead.run,
    "tail": tail_cost.run,
}


def main() -> None:
    """Run what is named, else everything."""
    names = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"no such benchmark: {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}")
    for name in names:
        BENCHMARKS[name]()
        print()


main()
