"""Packed rows of v0 and v1: runs of stream deltas stored as one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsh_core.decode import PackedRow, ReasoningChunks, TextChunks, ToolCallChunks
from dsh_core.events import AssistantChunk
from dsh_core.faults import Fault, counted
from dsh_core.payloads import ChunkData
from dsh_core.streams import ReasoningDelta, TextDelta, ToolCallDelta

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_DELTAS: Final[Mapping[type[PackedRow], type[TextDelta | ReasoningDelta | ToolCallDelta]]] = {
    TextChunks: TextDelta,
    ReasoningChunks: ReasoningDelta,
    ToolCallChunks: ToolCallDelta,
}


def members(row: PackedRow) -> int:
    """Return how many events a row stands for."""
    return len(row.data.args if isinstance(row, ToolCallChunks) else row.data.texts)


def check(row: PackedRow, line: int) -> Fault | None:
    """Say what is malformed about a row, if anything."""
    count, gaps = members(row), len(row.dt or row.data.dt)
    if count and gaps == count - 1:
        return None
    message = f"packed row with {counted(count, 'member')} and {counted(gaps, 'time step')}"
    return Fault("line.row-malformed", message, line, row.seq0, lost=not count)


def expand(row: PackedRow) -> Iterator[AssistantChunk]:
    """Yield the events a row stands for; missing time steps count as 0 ms."""
    data = row.data
    steps = row.dt or data.dt
    time = row.time0
    delta = _DELTAS[type(row)]
    for k in range(members(row)):
        if 0 < k <= len(steps):
            time += steps[k - 1]
        yield AssistantChunk(
            seq=row.seq0 + k, time=time, data=ChunkData(data.turn, data.step, delta(data.index))
        )
