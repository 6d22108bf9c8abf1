"""Tests of packed rows: runs of stream deltas that v0 stores as one line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from dsh_core.decode import PackedRow, strict_decoder
from dsh_core.events import AssistantChunk
from dsh_core.logs import packed
from dsh_core.streams import ReasoningDelta, TextDelta, ToolCallDelta
from tests.strategies import Event, Events, august_logs, pack_rows, to_line

DECODE = strict_decoder(packed=True).decode


def row(kind: str = "text-chunks", *, dt: Any = None, **data: Any) -> PackedRow:
    """Return a row of three text deltas."""
    whole: Event = {"turn": 1, "step": 2, "index": 3, "dt": [5, -2], "texts": ["a", "", "c"]}
    source = {"type": kind, "seq0": 20, "time0": 1000, "data": {**whole, **data}}
    if dt is not None:
        source["dt"] = dt
    decoded = DECODE(to_line(source))
    assert isinstance(decoded, PackedRow)
    return decoded


def unpacked(packed_row: PackedRow) -> list[tuple[int, int, Any]]:
    """Return seq, time and chunk of each member."""
    return [(event.seq, event.time, event.data.chunk) for event in packed.expand(packed_row)]


class TestExpand:
    """What a row stands for."""

    def test_text(self) -> None:
        """Each text is a delta; times are sums of steps, which may be negative."""
        delta = TextDelta(index=3)
        assert unpacked(row()) == [(20, 1000, delta), (21, 1005, delta), (22, 1003, delta)]
        assert packed.check(row(), 1) is None

    def test_reasoning(self) -> None:
        """Reasoning is packed like text."""
        found = [chunk for _, _, chunk in unpacked(row("reasoning-chunks"))]
        assert found == [ReasoningDelta(index=3)] * 3

    @pytest.mark.parametrize("name", [None, "bash", ""])
    def test_tool_calls(self, name: str | None) -> None:
        """Arguments come in pieces, with or without the tool's name."""
        more = {} if name is None else {"name": name}
        found = row("tool-call-chunks", id="c", args=["{", "}"], dt=[1], texts=[], **more)
        assert [chunk for _, _, chunk in unpacked(found)] == [ToolCallDelta(index=3)] * 2

    def test_members_are_events_of_their_step(self) -> None:
        """Members carry the coordinates of the row."""
        event = next(packed.expand(row()))
        assert isinstance(event, AssistantChunk)
        assert (event.data.turn, event.data.step) == (1, 2)

    def test_steps_beside_the_payload(self) -> None:
        """An early shape had the time steps outside of the payload."""
        assert [time for _, time, _ in unpacked(row(dt=[7, 7]))] == [1000, 1007, 1014]


class TestCheck:
    """Rows that contradict themselves."""

    @pytest.mark.parametrize("dt", [[], [5], [5, 5, 5]])
    def test_a_wrong_number_of_steps(self, dt: list[int]) -> None:
        """A fault says so, and the members are read as far as they go."""
        odd = row()
        odd.data.dt = dt
        fault = packed.check(odd, 9)
        assert fault is not None
        assert (fault.rule, fault.line, fault.seq, fault.lost) == (
            "line.row-malformed",
            9,
            20,
            False,
        )
        steps = "1 time step" if dt == [5] else f"{len(dt)} time steps"
        assert fault.message == f"packed row with 3 members and {steps}"
        times = [time for _, time, _ in unpacked(odd)]
        assert times == [[1000] * 3, [1000, 1005, 1005], [1000, 1005, 1010]][min(len(dt), 2)]

    def test_a_row_without_members(self) -> None:
        """Nobody knows how many events such a row stood for."""
        odd = row(texts=[])
        fault = packed.check(odd, 9)
        assert fault is not None
        assert fault.lost
        assert unpacked(odd) == []

    def test_a_single_member(self) -> None:
        """A row of one is complete without steps."""
        odd = row(texts=["x"])
        odd.data.dt = []
        assert packed.check(odd, 1) is None
        assert len(unpacked(odd)) == 1


@given(august_logs())
def test_packing_and_unpacking(events: Events) -> None:
    """A log that was packed unpacks to the events that it was made of."""
    found: list[object] = []
    for source in pack_rows(events):
        decoded = DECODE(to_line(source))
        found += packed.expand(decoded) if isinstance(decoded, PackedRow) else [decoded]
    assert found == [DECODE(to_line(event)) for event in events]
