"""Numbering a part of a log anew, so that it is a proper log again.

Seqs, turns and steps are numbered in one of several ways each, from one that leaves no trace of
what was left out to the numbers as they were: some findings are about numbers, and only the later
ways keep those.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from dsh_core.events import MAX_SAFE_INTEGER
from dsh_core.logs.lines import HEAD
from dsh_core.shrink.rows import ENVELOPE, PLACE, Row, boundary, number

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dsh_core.shrink.rows import Place


class Way(IntEnum):
    """How numbers are given.

    Attributes:
        DENSE: In the order of the log, without gaps.
        RANKS: The same number to what had the same one, a higher one to what had a higher one,
            without gaps.
        GAPS: As before, but a number is left out where the log had left out some.
        KEPT: As they were.
    """

    DENSE = 0
    RANKS = 1
    GAPS = 2
    KEPT = 3


Ways = tuple[Way, Way]
"""How to number seqs, and how to number turns and steps."""

ALL_WAYS: Final[Sequence[Ways]] = tuple(itertools.product(Way, Way))
"""All ways, from the one that changes most."""

AS_IT_IS: Final = (Way.KEPT, Way.KEPT)

_LISTS: Final = ("messageSeqs", "shadowedSeqs")
_SINGLE: Final = ("headerSeq", "throughSeq", "sourceEventSeq")
_STARTS: Final = ("startSeq", "start")
_ENDS: Final = ("endSeq", "end")


class Known:
    """The numbers that a log uses: what else would be a number is missing in it.

    They are looked for only when somebody asks.

    Args:
        rows: The log.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    @cached_property
    def seqs(self) -> Sequence[int]:
        """The seqs, in their order."""
        return sorted(set(_seqs(self._rows)))

    @cached_property
    def turns(self) -> Sequence[int]:
        """The numbers of turns that start, in their order."""
        return sorted({place.turn for place in self._starts("turn") if place.turn is not None})

    @cached_property
    def steps(self) -> Mapping[int, Sequence[int]]:
        """The numbers of steps that start, in their order, by turn."""
        found: dict[int, set[int]] = {}
        for _, turn, step in self._starts("step"):
            if turn is not None and step is not None:
                found.setdefault(turn, set()).add(step)
        return {turn: sorted(steps) for turn, steps in found.items()}

    def _starts(self, what: str) -> Iterable[Place]:
        rows = (row for row in self._rows if boundary(row.raw) == f"{what}/start")
        return (place for place in (row.place for row in rows) if place.starts)


def _seqs(rows: Iterable[Row]) -> Iterable[int]:
    for row in rows:
        for first, count in row.numbers:
            if first is not None and 0 <= first <= MAX_SAFE_INTEGER:
                yield from range(first, first + count)


def _ranks(numbers: Iterable[int], first: int, known: Sequence[int] | None) -> dict[int, int]:
    """Number some numbers anew in their order.

    Args:
        numbers: The numbers.
        first: The first new number.
        known: Where to leave a number out: wherever these do not have all numbers.
    """
    new: dict[int, int] = {}
    last = first - 1
    for old in sorted(set(numbers)):
        if known is not None:
            between = bisect_left(known, old) - bisect_right(known, last)
            first += between < old - last - 1
        new[old] = first
        first += 1
        last = old
    return new


class Seqs:
    """New seqs of some rows.

    Args:
        rows: The rows.
        way: How to number them.
        known: The numbers that the log uses.
    """

    def __init__(self, rows: Sequence[Row], way: Way, known: Known) -> None:
        self._dense = way is Way.DENSE
        if self._dense:
            self._new: dict[int, int] = {}
            following = 0
            for row in rows:
                for first, count in row.numbers:
                    if first is not None:
                        for k in range(count):
                            self._new.setdefault(first + k, following + k)
                    following += count
        else:
            self._new = _ranks(_seqs(rows), 0, known.seqs if way is Way.GAPS else None)
        self._old = sorted(self._new)
        self._unused = max(self._new.values(), default=-1) + 1

    def own(self, old: int | None, following: int) -> int | None:
        """Return the new seq of an event, None to leave it as it is.

        Args:
            old: Its seq, None if it has none that can be read.
            following: How many events come before it.
        """
        if old is None:
            return None
        return following if self._dense else self._new.get(old)

    def at_most(self, old: int) -> int:
        """Return the new seq of an event, or else of the one before it that is still there.

        What lies behind all events gets a number that no event has.
        """
        place = bisect_right(self._old, old)
        if place == len(self._old) and old not in self._new:
            return self._unused
        return self._new[self._old[place - 1]] if place else -1

    def at_least(self, old: int) -> int:
        """Return the new seq of an event, or else of the one behind it that is still there."""
        place = bisect_left(self._old, old)
        return self._new[self._old[place]] if place < len(self._old) else self._unused

    def cited(self, items: Iterable[Any], own: int | None) -> list[Any]:
        """Return a list of seqs and ranges with new numbers; what is not there is left out.

        Args:
            items: The list, of whatever shape.
            own: The seq of the event that cites: what it cites too early stays.
        """
        found: list[Any] = []
        for item in items:
            seq = number(item)
            if seq is not None:
                if seq in self._new or (own is not None and seq >= own):
                    found.append(self.at_most(seq))
            elif isinstance(item, list) and [type(end) for end in item] == [int, int]:
                first, last = item
                here = bisect_right(self._old, last) - bisect_left(self._old, first)
                if last < first:
                    found.append(item)
                elif here > 0 or (own is not None and last >= own):
                    found.append([self.at_least(first), self.at_most(last)])
            else:
                found.append(item)
        return found


class Places:
    """New turns and steps of some rows.

    Args:
        rows: The rows.
        way: How to number them.
        known: The numbers that the log uses.
    """

    def __init__(self, rows: Sequence[Row], way: Way, known: Known) -> None:
        starts: dict[int, None] = {}
        named: dict[int, dict[int, None]] = {}
        begun: dict[int, dict[int, None]] = {}
        for row in rows:
            what, turn, step = row.place
            if turn is None:
                continue
            steps = named.setdefault(turn, {})
            if what == "turn":
                starts[turn] = None
            elif step is not None:
                steps[step] = None
                if what == "step":
                    begun.setdefault(turn, {})[step] = None
        gaps = way is Way.GAPS
        if way is Way.DENSE:
            self._turns = _started(starts, named)
            self._steps = {turn: _started(begun.get(turn, {}), named[turn]) for turn in named}
            return
        self._turns = _ranks(named, 1, known.turns if gaps else None)
        self._steps = {
            turn: _ranks(steps, 1, known.steps.get(turn, []) if gaps else None)
            for turn, steps in named.items()
        }

    def turn(self, turn: int) -> int:
        """Return the new number of a turn."""
        return self._turns.get(turn, turn)

    def step(self, turn: int, step: int) -> int:
        """Return the new number of a step."""
        return self._steps.get(turn, {}).get(step, step)


def _started(starts: Iterable[int], named: Iterable[int]) -> dict[int, int]:
    """Number what is started first, in that order, and what is only named behind it."""
    order = dict.fromkeys([*starts, *sorted(named)])
    return {old: new for new, old in enumerate(order, 1)}


def render(header: Row | None, rows: Sequence[Row], ways: Ways, known: Known) -> list[bytes]:
    """Return the lines of a log of some rows, numbered anew.

    Args:
        header: The header row, if there is one.
        rows: The other rows.
        ways: How to number them.
        known: The numbers that the log uses.
    """
    if ways == AS_IT_IS:
        return [row.raw for row in ([header] if header else []) + list(rows)]
    seqs = None if ways[0] is Way.KEPT else Seqs(rows, ways[0], known)
    places = None if ways[1] is Way.KEPT else Places(rows, ways[1], known)
    lines = [] if header is None else [_header(header, seqs)]
    following = 0
    for row in rows:
        if row.value is None:
            lines.append(_patched(row, seqs, places, following))
        else:
            lines.append(_line(row, seqs, places, following))
        following += sum(count for _, count in row.numbers)
    return lines


def _header(header: Row, seqs: Seqs | None) -> bytes:
    value = header.value
    inherited = None if value is None else number(value.get("seedLength"))
    if seqs is None or value is None or inherited is None:
        return header.raw
    return header.with_value(value | {"seedLength": seqs.at_least(inherited)}).raw


def _line(row: Row, seqs: Seqs | None, places: Places | None, following: int) -> bytes:
    old = row.value or {}
    new = dict(old)
    data = old.get("data")
    if isinstance(data, dict):
        new["data"] = data = dict(data)
    else:
        data = {}
    if places is not None:
        _move(data, row, places)
    if seqs is not None:
        own = row.numbers[0][0]
        seq = seqs.own(own, following)
        if seq is not None:
            new["seq0" if row.is_packed else "seq"] = seq
        _refer(new, data, seqs, own)
    return row.raw if new == old else row.with_value(new).raw


def _move(data: dict[str, Any], row: Row, places: Places) -> None:
    """Give an event's payload its new coordinates."""
    _, turn, step = row.place
    if turn is not None:
        data["turn"] = places.turn(turn)
        if step is not None:
            data["step"] = places.step(turn, step)


def _refer(event: dict[str, Any], data: dict[str, Any], seqs: Seqs, own: int | None) -> None:
    """Give what an event says of other events their new seqs."""
    cited = event.get("sourceEventSeqs")
    if isinstance(cited, list):
        event["sourceEventSeqs"] = seqs.cited(cited, own)
        if cited and not event["sourceEventSeqs"]:
            del event["sourceEventSeqs"]
    if isinstance(event.get("surfaceOp"), dict):
        event["surfaceOp"] = _span(event["surfaceOp"], seqs)
    for name in _LISTS:
        if isinstance(data.get(name), list):
            data[name] = seqs.cited(data[name], own)
    if isinstance(data.get("shadowedRange"), dict):
        data["shadowedRange"] = _span(data["shadowedRange"], seqs)
    _replace(data, _SINGLE, seqs.at_most)
    if isinstance(data.get("targets"), list):
        data["targets"] = [_target(target, seqs) for target in data["targets"]]


def _target(target: Any, seqs: Seqs) -> Any:  # noqa: ANN401 - any JSON value
    if not isinstance(target, dict):
        return target
    target = dict(target)
    _replace(target, ("seq",), seqs.at_most)
    return target


def _span(span: Mapping[str, Any], seqs: Seqs) -> dict[str, Any]:
    found = dict(span)
    _replace(found, _STARTS, seqs.at_least)
    _replace(found, _ENDS, seqs.at_most)
    return found


def _replace(fields: dict[str, Any], names: Iterable[str], new: Callable[[int], int]) -> None:
    for name in names:
        old = number(fields.get(name))
        if old is not None:
            fields[name] = new(old)


def _patched(row: Row, seqs: Seqs | None, places: Places | None, following: int) -> bytes:
    """Put new numbers into a line that is no JSON, where an event can be recognised in it."""
    raw, rest = row.raw[:HEAD], row.raw[HEAD:]
    if seqs is not None:
        numbered = itertools.count(following)
        raw = ENVELOPE.sub(
            lambda found: found[1] + _digits(seqs.own(int(found[2]), next(numbered)), found[2]), raw
        )
    if places is not None:
        raw = PLACE.sub(lambda found: _patched_place(found, places), raw)
    return raw + rest


def _patched_place(match: re.Match[bytes], places: Places) -> bytes:
    turn = int(match[2])
    found = match[1] + _digits(places.turn(turn), match[2])
    if match[4]:
        found += match[3] + _digits(places.step(turn, int(match[4])), match[4])
    return found


def _digits(new: int | None, old: bytes) -> bytes:
    return old if new is None else str(new).encode()
