"""Facts as lines for people."""

from __future__ import annotations

import pytest

from dsh_otel.cli.live_lines import line_of
from dsh_otel.sources.facts import Fact

TIME = 1_700_000_000_000


def line(event: str, **values: object) -> str:
    """Return a line without the time of day."""
    made = Fact(event=event, session="s-1", time=TIME, **values)  # type: ignore[arg-type]
    return line_of(made).plain.partition("  ")[2]


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        ({"event": "dsh.turn.started", "turn": 3, "agent": "coder"}, "s-1  turn 3  started  coder"),
        (
            {
                "event": "dsh.turn.ended",
                "turn": 3,
                "reason": "completed",
                "duration_ms": 8200,
                "steps": 3,
                "tools": 1,
                "failures": 1,
                "violations": 2,
            },
            "s-1  turn 3  completed  8.2 s, 3 steps, 1 tool result, 1 failed, 2 violations",
        ),
        (
            {"event": "dsh.turn.ended", "turn": 1, "reason": "error", "code": "SERVER"}
            | {"family": "transient", "route": "retry"},
            "s-1  turn 1  error  0 ms, 0 steps, 0 tool results  SERVER  transient → retry",
        ),
        (
            {"event": "dsh.tool.error", "turn": 1, "step": 2, "tool": "read", "code": "EACCES"}
            | {"family": "denied", "route": "ask", "inferred": True},
            "s-1  turn 1 step 2  read failed: EACCES  denied, inferred → ask",
        ),
        (
            {"event": "dsh.model.error", "turn": 1, "step": 1, "code": "SERVER"}
            | {"family": "transient", "route": "retry"},
            "s-1  turn 1 step 1  model failed: SERVER  transient → retry",
        ),
        (
            {"event": "dsh.violation", "severity": "violation", "rule": "turn.overlap"}
            | {"message": "turn 2 starts", "seq": 9},
            "s-1  violation turn.overlap: turn 2 starts  seq 9",
        ),
    ],
)
def test_each_fact_has_a_line(fact: dict[str, object], said: str) -> None:
    assert line(**fact) == said  # type: ignore[arg-type]


def test_long_ids_are_cut_and_nothing_drives_the_terminal() -> None:
    fact = Fact(event="dsh.tool.error", session="x" * 40, time=TIME, tool="a\x1b[31m\nb")
    said = line_of(fact).plain
    assert "x" * 11 + "…" in said
    assert "\x1b" not in said
    assert "\n" not in said


@pytest.mark.parametrize("time", [-1, 2**60])
def test_times_without_a_date_have_none(time: int) -> None:
    fact = Fact(event="dsh.turn.started", session="s", time=time)
    assert line_of(fact).plain.startswith("--:--:--")
