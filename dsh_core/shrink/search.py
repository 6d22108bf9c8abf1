"""Leaving out what a finding does not need: turns, steps, events."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Final, TypeVar

from dsh_core.contract.findings import Severity
from dsh_core.shrink.judge import adds_nothing
from dsh_core.shrink.numbers import ALL_WAYS, AS_IT_IS, Known, Way, render
from dsh_core.shrink.rows import Row, boundary

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from dsh_core.check import SessionReport
    from dsh_core.shrink.judge import Judge
    from dsh_core.shrink.numbers import Ways

T = TypeVar("T")

LARGE: Final = 2000
"""Logs with more rows are numbered in one way only, and what was read of them is not kept."""

MAX_FULL: Final = 64
"""Logs with as many rows are numbered in all ways."""

MAX_RUNS: Final = 40
MAX_PAIRS: Final = 24
MAX_TRIPLES: Final = 10
"""In logs with as many rows, all runs of rows, any two rows, any three are left out at a time."""

_FEW_WAYS: Final[Sequence[Ways]] = (
    (Way.DENSE, Way.DENSE),
    (Way.RANKS, Way.DENSE),
    (Way.GAPS, Way.DENSE),
    (Way.GAPS, Way.GAPS),
    AS_IT_IS,
)


def sweep(
    units: Sequence[T],
    test: Callable[[Sequence[T]], bool],
    size: int = 0,
    *,
    again: bool = True,
) -> Sequence[T]:
    """Leave out units, as many at a time as can be, until none can be left out alone.

    From the last to the first, since what comes later needs what comes before.

    Args:
        units: What there is.
        test: Whether these units are enough; it is called with fewer and fewer.
        size: How many to leave out at first; half of them by default.
        again: Whether to look again at single ones once others are gone.

    Returns:
        The units that are needed.
    """
    size = size or max(len(units) // 2, 1)
    while units:
        end, found = len(units), False
        while end > 0:
            start = max(end - size, 0)
            fewer = [*units[:start], *units[end:]]
            if test(fewer):
                units, found = fewer, True
            end = start
        if size > 1:
            size //= 2
        elif not (found and again):
            break
    return units


@dataclass(frozen=True, slots=True)
class State:
    """A log that gives the finding.

    Attributes:
        header: Its header row, None if it has none.
        rows: The other rows, with the numbers that they had.
        lines: All lines, as they were checked.
        report: What the check gave.
    """

    header: Row | None
    rows: Sequence[Row]
    lines: Sequence[bytes] = field(repr=False)
    report: SessionReport

    def renewed(self) -> State:
        """Return the same log with the rows that were checked."""
        rows = [Row(line) for line in self.lines]
        return State(rows.pop(0) if self.header else None, rows, self.lines, self.report)


class Search:
    """The search for the least log.

    Args:
        judge: Tells whether a log gives the finding.
        state: The log to begin with.

    Attributes:
        judge: As above.
        state: The least log so far.
    """

    def __init__(self, judge: Judge, state: State) -> None:
        self.judge = judge
        self.state = state
        self._known: Known | None = None

    def renew(self) -> None:
        """Take the numbers of the least log so far for the ones that it had."""
        self.state = self.state.renewed()
        self._known = None

    def try_rows(self, rows: Sequence[Row], ways: Iterable[Ways]) -> bool:
        """Take some rows for the least log if they give the finding.

        Args:
            rows: The rows.
            ways: How to number them; the first way that gives the finding counts.
        """
        header = self.state.header
        for way in ways:
            lines = render(header, rows, way, self._numbers())
            report = self.judge.check(lines)
            if len(rows) > LARGE:
                for row in rows:
                    row.forget()
            if report is not None:
                self.state = State(header, rows, lines, report)
                return True
        return False

    def try_exactly(
        self, header: Row | None, rows: Sequence[Row], *, same_words: bool = False
    ) -> bool:
        """Take a log as it is for the least one if it gives the finding and nothing new.

        Args:
            header: Its header row, None if it has none.
            rows: Its other rows.
            same_words: Whether the finding must say the same as before, unless it is damage, which
                says where it is.
        """
        lines = [row.raw for row in ([header] if header else []) + list(rows)]
        report, before = self.judge.check(lines), self.state.report
        if report is None or not adds_nothing(report, before):
            return False
        new, old = self.judge.finding(report), self.judge.finding(before)
        same_words = same_words and old.severity is not Severity.DAMAGE
        if same_words and new.message != old.message:
            return False
        self.state = State(header, rows, lines, report)
        return True

    def _numbers(self) -> Known:
        if self._known is None:
            self._known = Known(self.state.rows)
        return self._known

    def cut_tail(self, line: int) -> bool:
        """Cut what comes after a finding, or as much of it as can be.

        Args:
            line: The 1-based line of the finding, the header row counted.

        Returns:
            Whether anything could be cut.
        """
        rows = self.state.rows
        least, more = line - (self.state.header is not None), 0
        while least + more < len(rows):
            if self.try_rows(rows[: least + more], [AS_IT_IS]):
                return True
            more = max(more * 2, 1)
        return False

    def cut_head(self) -> None:
        """Cut what comes before the last turns, as many of them as the finding needs."""
        rows = self.state.rows
        starts = [k for k, row in enumerate(rows) if boundary(row.raw) == "turn/start"]
        turns = 1
        while turns <= len(starts):
            part = rows[starts[-turns] :]
            if len(part) < len(rows) and self.try_rows(part, _ways(part)):
                return
            turns *= 2

    def leave_out(self) -> None:
        """Leave out turns, then steps, then events, until none can be left out alone."""
        for borders in (_TURNS, _STEPS, ()):
            self._sweep(_grouped(self.state.rows, borders), self._fitting())
        # A packed row may be larger than what it stands for.
        rows = [one for row in self.state.rows for one in row.expanded()]
        if len(rows) != len(self.state.rows) and self.try_rows(rows, _ways(rows)):
            self._sweep(_grouped(rows, ()), self._fitting())
        self._leave_out_groups()
        if len(self.state.rows) <= MAX_FULL:
            self._sweep(_grouped(self.state.rows, ()), ALL_WAYS)

    def _sweep(self, units: Iterable[Sequence[Row]], ways: Sequence[Ways]) -> None:
        sweep(
            list(units),
            lambda fewer: self.try_rows([row for unit in fewer for row in unit], ways),
        )

    def _leave_out_groups(self) -> None:
        """Leave out rows that need each other: a start and its end, a call and its result."""
        found = True
        while found:
            rows, ways = self.state.rows, self._fitting()
            found = any(
                self.try_rows([row for k, row in enumerate(rows) if k not in group], ways)
                for group in _groups(len(rows))
            )

    def _fitting(self) -> Sequence[Ways]:
        """Number the rows in the first way that gives the finding; return all ways that do.

        Of ways that give the same log, only the first counts.
        """
        rows = self.state.rows
        found: list[Ways] = []
        states: list[State] = []
        for ways in _ways(rows):
            if not self.try_rows(rows, [ways]):
                continue
            if any(self.state.lines == state.lines for state in states):
                continue
            found.append(ways)
            states.append(self.state)
            if len(rows) > LARGE:
                break
        if states:
            self.state = states[0]
        return found


def _groups(rows: int) -> Iterable[Collection[int]]:
    """Yield which of some rows to leave out at a time, beyond single ones."""
    if rows <= MAX_RUNS:
        for length in range(rows - 1, 1, -1):
            yield from (range(start, start + length) for start in range(rows - length + 1))
    if rows <= MAX_PAIRS:
        yield from combinations(range(rows), 2)
    if rows <= MAX_TRIPLES:
        yield from combinations(range(rows), 3)


def _ways(rows: Sequence[Row]) -> Sequence[Ways]:
    return _FEW_WAYS if len(rows) > LARGE else ALL_WAYS


_TURNS: Final = ("turn",)
_STEPS: Final = ("turn", "step")


def _grouped(rows: Sequence[Row], borders: Sequence[str]) -> Iterable[Sequence[Row]]:
    """Cut rows at the starts and behind the ends of something; without it, each from the next."""
    unit: list[Row] = []
    for row in rows:
        what, _, side = boundary(row.raw).partition("/")
        border = what in borders
        if unit and (not borders or (border and side == "start")):
            yield unit
            unit = []
        unit.append(row)
        if border and side == "end":
            yield unit
            unit = []
    if unit:
        yield unit
