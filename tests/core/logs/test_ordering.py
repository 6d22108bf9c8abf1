"""Events that come twice, late, out of order, or from another process."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from dsh_core.events import SessionHeader
from dsh_core.logs.ordering import WAIT_S, WINDOW, Ordering
from dsh_core.logs.told import Told

HEADER = SessionHeader(id="s")


def told(seq: Any, time: Any = None, kind: str = "step/start") -> Told:
    time = 1000 + seq if time is None else time
    return Told(HEADER, {"type": kind, "seq": seq, "time": time, "data": {}})


class Taking:
    """An ordering, and what came of it."""

    def __init__(self, **options: Any) -> None:
        self.counts: Counter[str] = Counter()
        self.ordering = Ordering(self.counts, **options)
        self.out: list[Told] = []

    def take(self, *events: Told, now: float = 0) -> list[Any]:
        for event in events:
            self.out += self.ordering.take(event, now)
        return [one.event["seq"] for one in self.out]

    def end(self) -> list[Any]:
        self.out += self.ordering.release()
        return [one.event["seq"] for one in self.out]


def test_what_comes_in_order_goes_on_at_once() -> None:
    assert Taking().take(*map(told, range(5))) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("seed", range(20))
def test_any_order_within_the_window_becomes_the_right_one(seed: int) -> None:
    seqs = list(range(60))
    random.Random(seed).shuffle(seqs)
    taking = Taking()
    assert taking.take(*map(told, seqs)) == list(range(60))
    assert not taking.counts


@pytest.mark.parametrize("seed", range(20))
def test_what_comes_again_is_left_out(seed: int) -> None:
    rng = random.Random(seed)
    seqs = [*range(40), *rng.choices(range(40), k=30)]
    rng.shuffle(seqs)
    taking = Taking()
    taking.take(*map(told, seqs))
    assert taking.end() == list(range(40))
    assert taking.counts == {"duplicate": 30}


def test_a_gap_is_waited_for_and_then_passed_over() -> None:
    taking = Taking()
    assert taking.take(told(0), told(2), told(3), now=5) == [0]
    taking.out += taking.ordering.tick(5 + WAIT_S / 2)
    assert len(taking.out) == 1
    taking.out += taking.ordering.tick(5 + WAIT_S)
    assert taking.take(told(4)) == [0, 2, 3, 4]
    assert taking.take(told(1)) == [0, 2, 3, 4]
    assert taking.counts == {"missing": 1, "late": 1}


def test_no_more_wait_than_the_window_holds() -> None:
    taking = Taking()
    taking.take(*map(told, range(1, 5 * WINDOW, 2)))
    assert taking.ordering.waiting <= WINDOW


def test_a_number_that_is_used_again_later_is_that_of_another_process() -> None:
    taking = Taking()
    assert taking.take(*map(told, range(5))) == [0, 1, 2, 3, 4]
    taking.take(told(3, 9000, "turn/start"), told(4, 9001))
    assert taking.end() == [0, 1, 2, 3, 4, 3, 4]
    # What the first one told comes again.
    assert taking.take(*map(told, range(8))) == [0, 1, 2, 3, 4, 3, 4]


def test_what_waits_of_the_first_process_comes_before_the_second() -> None:
    taking = Taking()
    taking.take(told(0), told(2), told(1, 9000, "turn/start"), told(2, 9001))
    assert [(one.event["seq"], one.event["time"]) for one in taking.out] == [
        (0, 1000),
        (2, 1002),
        (1, 9000),
        (2, 9001),
    ]


def test_a_used_number_with_which_no_process_begins_is_left_out() -> None:
    taking = Taking()
    assert taking.take(told(0), told(1), told(1, 9000)) == [0, 1]


@pytest.mark.parametrize("seq", [None, "3", -1, 1.5, True, float("nan"), 2**60])
def test_what_has_no_place_is_passed_on(seq: Any) -> None:
    taking = Taking()
    odd = Told(HEADER, {"type": "step/start", "seq": seq, "time": 1000, "data": {}})
    assert taking.take(told(0), told(2), odd) == [0, 2, seq]
