"""Rules of the ``llm`` package: the grammar of model streams.

Until v1 a stream is logged chunk by chunk; it lies between two ends of a stream inside one step.
From v2 on each answer or failed attempt carries its stream as an array.

Logs written by hand or by other tools often hold no more of a stream than a few pieces of text. In
a session that has shown no start of a block yet, a stream that does not begin with one is taken for
such an excerpt, and not judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from dsh_core.contract.rule import Rule, RuleSet
from dsh_core.decode import stream_entries
from dsh_core.events import MAX_SAFE_INTEGER, AssistantAttempt, AssistantMessage
from dsh_core.failures import finish_of
from dsh_core.parts import ABSENT
from dsh_core.streams import (
    DELTAS,
    AnyChunk,
    BlockEnd,
    BlockStart,
    Finish,
    ReasoningDelta,
    StreamEntry,
    TextDelta,
    ToolCallDelta,
    UsageChunk,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsh_core.contract.findings import Finding
    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import AssistantChunk, SessionEvent

MAX_BLOCKS: Final = 1024
"""How many open blocks of a stream are followed."""

_ADDS_TO: Final[Mapping[type[AnyChunk], str]] = {
    TextDelta: "text",
    ReasoningDelta: "reasoning",
    ToolCallDelta: "tool-call",
}
_RUNS: Final[Mapping[str, str]] = {
    "text-chunks": "text",
    "reasoning-chunks": "reasoning",
    "tool-call-chunks": "tool-call",
}
"""Types of the runs of deltas in a stream array, and the type of the block that each adds to."""

_CHUNKS: Final = ("assistant/chunk",)
_STREAMS: Final = ("assistant/message", "assistant/attempt")
_ANY: Final = (*_CHUNKS, *_STREAMS)


class Rules(RuleSet):
    """Blocks open once, take what belongs to them, and are closed when the stream ends."""

    owner = "llm"
    rules: ClassVar = (
        Rule(
            "llm.after-finish",
            "a stream goes on after its end",
            "The adapter must stop at the first finish.",
            on=_STREAMS,
        ),
        Rule(
            "llm.index",
            "a chunk's block index is not a whole number from 0 on",
            "The adapter must number the blocks of an answer.",
            on=_ANY,
        ),
        Rule(
            "llm.block-reopened",
            "a block starts at an index where one is open",
            "End the block first, or give the new one the next index.",
            on=_ANY,
        ),
        Rule(
            "llm.delta-without-block",
            "a piece comes for an index where no block of its kind is open",
            "Start a block before its first piece; two kinds need two blocks.",
            on=_ANY,
        ),
        Rule(
            "llm.block-end-mismatch",
            "a block ends that is not open, or as another kind than it was opened",
            "End each block once, as what it was started.",
            on=_ANY,
        ),
        Rule(
            "llm.usage-twice",
            "a stream counts its tokens twice",
            "Token counts would be doubled: send them once, as totals.",
            on=_ANY,
        ),
        Rule(
            "llm.finish-open-blocks",
            "a stream ends well while blocks are open",
            "End all blocks first; only an error or an abort may leave them open.",
            on=_ANY,
        ),
        Rule(
            "llm.no-finish",
            "an answer settles and its stream has no end",
            "The connection broke and nobody noticed: such an answer may be cut.",
            on=("assistant/message",),
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        self._stream = _Stream(self)
        self._place = (-1, -1)
        self._gaps = 0
        # Nothing can be said of a stream of which a part was not seen.
        self._blind = False
        self._framed = False

    def inside_step(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {
            "assistant/chunk": self._chunk,
            "assistant/message": self._settled,
            "assistant/attempt": self._settled,
        }

    def outside_step(self) -> Mapping[str, Handler]:
        """Return what to call for a chunk that does not lie in the step it names."""
        return {"assistant/chunk": self._lost}

    def _lost(self, _event: AssistantChunk, _line: int) -> None:
        # It may be a piece of the stream at hand.
        self._blind = True

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return dict.fromkeys(("llm/retry", "step/start", "step/end"), self._boundary)

    def _boundary(self, _event: SessionEvent, _line: int) -> None:
        if self.run.repeating:
            return
        if self._stream.begun or self._blind:
            self._restart()

    def _restart(self) -> None:
        self._stream = _Stream(self)
        self._blind = False

    def _chunk(self, event: AssistantChunk, line: int) -> None:
        chunk = event.data.chunk
        if not self._stream.begun:
            self._gaps = self.run.gaps
            self._framed = self._framed or isinstance(chunk, BlockStart)
            self._blind = self._blind or (not self._framed and isinstance(chunk, DELTAS))
        if chunk is None or self.run.repeating or self._gaps != self.run.gaps:
            self._blind = True
        stream = self._stream
        stream.begun = True
        if isinstance(chunk, Finish):
            if not self._blind:
                stream.take(chunk, event, line)
            self._restart()
            return
        if chunk is None or self._blind:
            return
        stream.take(chunk, event, line)
        if isinstance(chunk, DELTAS) and stream.takes(chunk):
            # Nearly all chunks are pieces of the same block.
            self.run.calm = event.data

    def _settled(self, event: AssistantMessage | AssistantAttempt, line: int) -> None:
        data = event.data
        if data.stream is ABSENT:
            stream, whole = self._stream, not self._blind and self._gaps == self.run.gaps
            self._restart()
        else:
            entries = stream_entries(data.stream)
            if _is_sound(entries):
                # Nearly all are.
                return
            stream, whole = _Stream(self), True
            for entry in entries:
                whole = stream.take_entry(entry, event, line) and whole
        if (
            stream.begun
            and whole
            and not stream.finished
            and isinstance(event, AssistantMessage)
            and not event.data.interrupted
        ):
            self.trip("llm.no-finish", "the stream of an answer has no finish", event, line)


class _Stream:
    """One stream as far as it was read: which blocks are open.

    Attributes:
        begun: Whether anything of it was read.
        finished: Whether its end was read.
    """

    __slots__ = ("_blocks", "_counted", "_ends", "_rules", "_said", "_starts", "begun", "finished")

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._blocks: dict[int, str] = {}
        self._counted = False
        # One cause is one finding, however many pieces it spoils.
        self._said: dict[tuple[str, int], Finding | None] = {}
        # What is wrong with starts, and with ends: each explains one that is missing elsewhere.
        self._starts: list[Finding] = []
        self._ends: list[Finding] = []
        self.begun = False
        self.finished = False

    def take_entry(self, entry: StreamEntry, event: SessionEvent, line: int) -> bool:
        """Judge an entry of a stream array; return whether it could be read."""
        self.begun = True
        kind = _RUNS.get(entry.type)
        if kind is not None:
            self._check_open(event, line)
            self._delta(kind, entry.index, event, line)
        elif entry.chunk is not None:
            self._check_open(event, line)
            self.take(entry.chunk, event, line)
        return kind is not None or entry.chunk is not None

    def _check_open(self, event: SessionEvent, line: int) -> None:
        if self.finished:
            self._trip("llm.after-finish", -1, "a chunk follows the finish", event, line)

    def take(self, chunk: AnyChunk, event: SessionEvent, line: int) -> None:
        """Judge a chunk."""
        if isinstance(chunk, BlockStart):
            self._start(chunk, event, line)
        elif isinstance(chunk, BlockEnd):
            self._end(chunk, event, line)
        elif isinstance(chunk, UsageChunk):
            if self._counted:
                self._trip("llm.usage-twice", -1, "tokens are counted again", event, line)
            self._counted = True
        elif isinstance(chunk, Finish):
            self._finish(chunk, event, line)
        else:
            self._delta(_ADDS_TO[type(chunk)], chunk.index, event, line)

    def _start(self, chunk: BlockStart, event: SessionEvent, line: int) -> None:
        index = chunk.index
        if not self._is_index(index, event, line, self._starts):
            return
        if index in self._blocks and not _fold(self._ends, event):
            message = f"block {index} is open"
            self._trip("llm.block-reopened", index, message, event, line, self._starts)
        if len(self._blocks) < MAX_BLOCKS:
            self._blocks[index] = chunk.block_type

    def _delta(self, kind: str, index: int, event: SessionEvent, line: int) -> None:
        if not self._is_index(index, event, line):
            return
        opened = self._blocks.get(index)
        if opened != kind and len(self._blocks) < MAX_BLOCKS:
            is_open = "no block" if opened is None else "a block of another kind"
            message = f"a piece for {kind} block {index}, where {is_open} is open"
            key = ("llm.delta-without-block", index)
            if key in self._said:
                self._trip(*key, message, event, line)
            elif (cause := _fold(self._starts, event)) is not None:
                self._said[key] = cause
            else:
                self._trip(*key, message, event, line, self._ends)

    def takes(self, delta: AnyChunk) -> bool:
        """Whether a piece belongs to an open block, and so do those like it that may follow."""
        return self._blocks.get(delta.index) == _ADDS_TO[type(delta)]

    def _end(self, chunk: BlockEnd, event: SessionEvent, line: int) -> None:
        index = chunk.index
        if not self._is_index(index, event, line, self._ends):
            return
        full = len(self._blocks) >= MAX_BLOCKS
        opened = self._blocks.pop(index, None)
        if ("llm.delta-without-block", index) in self._said:
            return
        if opened is None:
            if not full and not _fold(self._starts, event):
                message = f"block {index} ends and is not open"
                self._trip("llm.block-end-mismatch", index, message, event, line, self._ends)
        elif chunk.block is None or chunk.block.type != opened:
            message = f"block {index} ends as another kind than it was opened"
            self._trip("llm.block-end-mismatch", index, message, event, line)

    def _finish(self, chunk: Finish, event: SessionEvent, line: int) -> None:
        reason = finish_of(chunk)
        failed = reason is not None and reason.kind in ("error", "aborted")
        if len(self._blocks) > len(self._ends) and not failed and not self.finished:
            message = f"the stream ends while block {min(self._blocks)} is open"
            self._trip("llm.finish-open-blocks", -1, message, event, line)
        self.finished = True

    def _is_index(
        self, index: int, event: SessionEvent, line: int, costs: list[Finding] | None = None
    ) -> bool:
        if _is_index(index):
            return True
        self._trip("llm.index", -1, "a chunk has no proper block index", event, line, costs)
        return False

    def _trip(
        self,
        rule: str,
        index: int,
        message: str,
        event: SessionEvent,
        line: int,
        costs: list[Finding] | None = None,
    ) -> None:
        """Report a fault, or fold it into the same one; note what it costs a block elsewhere."""
        key = (rule, index)
        if key in self._said:
            known = self._said[key]
            if known is not None:
                known.fold(event.seq)
        else:
            known = self._said[key] = self._rules.trip(rule, message, event, line)
        if known is not None and costs is not None and len(costs) < MAX_BLOCKS:
            costs.append(known)


def _fold(causes: list[Finding], event: SessionEvent) -> Finding | None:
    """Fold an event into the newest of some causes, which explains nothing further."""
    cause = causes.pop() if causes else None
    if cause is not None and cause.seq != event.seq:
        cause.fold(event.seq)
    return cause


def _is_sound(entries: Sequence[StreamEntry]) -> bool:
    """Whether a stream array is plainly as it should be; what is not is judged entry by entry."""
    if not entries or not isinstance(entries[-1].chunk, Finish):
        return False
    blocks: dict[int, str] = {}
    counted = False
    for entry in entries[:-1]:
        chunk = entry.chunk
        if chunk is None:
            sound = blocks.get(entry.index) == _RUNS.get(entry.type, "?")
        elif isinstance(chunk, BlockStart):
            sound = chunk.index not in blocks and 0 <= chunk.index < MAX_BLOCKS
            blocks[chunk.index] = chunk.block_type
        elif isinstance(chunk, BlockEnd):
            sound = chunk.block is not None and blocks.pop(chunk.index, "?") == chunk.block.type
        elif isinstance(chunk, UsageChunk):
            sound, counted = not counted, True
        else:
            sound = blocks.get(chunk.index) == _ADDS_TO.get(type(chunk), "?")
        if not sound:
            return False
    return not blocks


def _is_index(index: int) -> bool:
    return 0 <= index <= MAX_SAFE_INTEGER
