"""Tests of how rules read the fields of payloads."""

from __future__ import annotations

import copy
import json
import math
from typing import TYPE_CHECKING, Any, Final

import pytest

from dsh_core.contract.catalogue import CATALOGUE
from dsh_core.contract.example_logs import path
from dsh_core.contract.fields import is_count, is_number, is_whole, shown
from dsh_core.decode import from_mapping
from dsh_core.logs.reader import SessionLog
from tests.checking import build, make_checker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.strategies import Event

HUGE: Final = (10**309, -(10**309), 10**5000)
"""JavaScript reads these as infinite, and a double cannot hold them."""

HUGE_IDS: Final = ("309 digits", "-309 digits", "5000 digits")


@pytest.mark.parametrize(
    "value",
    [*HUGE, math.inf, -math.inf, math.nan, True, "1", None],
    ids=[*HUGE_IDS, "infinite", "-infinite", "nan", "true", "text", "nothing"],
)
def test_what_is_no_number(value: Any) -> None:
    assert not is_number(value)
    assert not is_whole(value)
    assert len(shown(value)) < 40


@pytest.mark.parametrize("value", [0, -1, 1.5, 10**308, 1e308], ids=lambda value: f"{value:g}")
def test_what_is_a_number(value: Any) -> None:
    assert is_number(value)
    assert shown(value) == str(value)


@pytest.mark.parametrize(("value", "counts"), [(0, True), (0.0, True), (3.0, True), (-0.0, False)])
def test_minus_zero_does_not_count(value: Any, counts: bool) -> None:
    assert is_whole(value)
    assert is_count(value) == counts


def numbers(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where in a payload numbers stand."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(item, (*place, key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield place


def samples() -> Iterator[tuple[SessionLog, list[Event], int, tuple[Any, ...]]]:
    """Yield each number of each kind of event once: a log, its events, which one, and where."""
    seen = set()
    for rule in sorted(CATALOGUE.entries):
        file = path(rule, silent=True)
        if file.suffix != ".jsonl" or rule.startswith(("line.", "text.")) or not file.exists():
            continue
        with file.open("rb") as stream:
            source = SessionLog(stream, file.name)
        lines = file.read_text().splitlines()
        events = [row for row in map(json.loads, lines) if "seq" in row]
        for index, event in enumerate(events):
            for place in numbers(event["data"]):
                key = (event["type"], *("" if isinstance(k, int) else k for k in place))
                if key not in seen:
                    seen.add(key)
                    yield source, events, index, place


@pytest.mark.parametrize("huge", HUGE, ids=HUGE_IDS)
def test_no_rule_breaks_at_a_number_of_any_size(huge: int) -> None:
    """Wherever it stands, every rule has a verdict."""
    tried = 0
    for source, events, index, place in samples():
        tried += 1
        changed = copy.deepcopy(events)
        inner = changed[index]["data"]
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = huge
        checker = make_checker(
            source.header.contract, header=source.header_row, header_line=source.header_line
        )
        for line, event in enumerate(changed, 2):
            made = from_mapping(event)[0] if line - 2 == index else build(event, line)[0]
            checker.observe(made, line)
        checker.finish(final=True)
    assert tried > 50
