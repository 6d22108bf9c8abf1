"""Interleaved rounds: contenders take turns, so that a noisy machine hits all of them alike."""

from __future__ import annotations

import gc
import statistics
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def interleave(
    contenders: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, list[float]]:
    """Run contenders in turns.

    Args:
        contenders: What to run, by name.
        rounds: How often each one runs, besides one run to warm up.

    Returns:
        Seconds of each run, by name.
    """
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, run in contenders.items():
            gc.collect()
            start = time.perf_counter()
            run()
            if number:
                taken[name].append(time.perf_counter() - start)
    return taken


def ratios(over: list[float], under: list[float]) -> tuple[float, float, float]:
    """Return median, lowest and highest ratio of the rounds of two contenders."""
    found = [a / b for a, b in zip(over, under, strict=True)]
    return statistics.median(found), min(found), max(found)
