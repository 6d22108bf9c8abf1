"""Facts as lines for people who watch: one for each turn, failure and finding."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from rich.text import Text

from dsh_otel.cli.plain import printable
from dsh_otel.export.console import duration
from dsh_otel.names import Event
from dsh_otel.sources.facts import MODEL_ERROR, TURN_ENDED
from dsh_otel.spans import NS_PER_MS

if TYPE_CHECKING:
    from rich.console import Console

    from dsh_otel.sources.facts import Fact

MAX_SESSION: Final = 12
"""How much of a session's id is shown, in characters."""

_STYLE: Final = {"violation": "bold red", "damage": "yellow", "advice": "cyan"}
_LATEST: Final = 253_402_300_799
"""The last second that has a date, Unix time."""


class LinePrinter:
    """Prints facts.

    Args:
        console: Where to.
    """

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, fact: Fact) -> None:
        """Print one."""
        self._console.print(line_of(fact), soft_wrap=True)


def line_of(fact: Fact) -> Text:
    """Return the line that says a fact."""
    line = Text()
    line.append(_clock(fact.time), style="dim")
    line.append("  " + _short(fact.session), style="dim")
    if fact.turn is not None:
        line.append(f"  turn {fact.turn}")
    if fact.step is not None:
        line.append(f" step {fact.step}")
    line.append("  ")
    if fact.event == Event.TURN_STARTED:
        line.append("started")
        line.append("  " + printable(fact.agent), style="dim")
    elif fact.event == TURN_ENDED:
        _ended(line, fact)
    elif fact.event == Event.VIOLATION:
        line.append(fact.severity, style=_STYLE.get(fact.severity, ""))
        line.append(f" {fact.rule}", style="bold")
        line.append(f": {printable(fact.message)}")
        if fact.seq is not None:
            line.append(f"  seq {fact.seq}", style="dim")
    else:
        line.append("model" if fact.event == MODEL_ERROR else printable(fact.tool))
        line.append(" failed: ")
        _code(line, fact)
    return line


def _ended(line: Text, fact: Fact) -> None:
    failed = bool(fact.code)
    line.append(printable(fact.reason) or "ended", style="red" if failed else "green")
    parts = [duration((fact.duration_ms or 0) * NS_PER_MS), _counted(fact.steps, "step")]
    parts.append(_counted(fact.tools, "tool result"))
    line.append("  " + ", ".join(parts), style="dim")
    if fact.failures:
        line.append(f", {fact.failures:,} failed", style="yellow")
    if fact.violations:
        line.append(f", {_counted(fact.violations, 'violation')}", style="bold red")
    if failed:
        line.append("  ")
        _code(line, fact)


def _code(line: Text, fact: Fact) -> None:
    line.append(printable(fact.code) or "no code", style="red")
    inferred = ", inferred" if fact.inferred else ""
    line.append(f"  {fact.family}{inferred} \N{RIGHTWARDS ARROW} {fact.route}", style="dim")


def _counted(number: int | None, noun: str) -> str:
    number = number or 0
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _short(session: str) -> str:
    shown = printable(session)
    return (
        shown if len(shown) <= MAX_SESSION else shown[: MAX_SESSION - 1] + "\N{HORIZONTAL ELLIPSIS}"
    )


def _clock(time_ms: int) -> str:
    seconds = time_ms // 1000
    if not 0 <= seconds <= _LATEST:
        return "--:--:--"
    return time.strftime("%H:%M:%S", time.localtime(seconds))
