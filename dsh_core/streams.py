"""Model streams: their chunks, and the arrays that store them from v2 on. Texts are not decoded."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec
from msgspec import Raw

from dsh_core.parts import ABSENT, NO_NUMBER, Failure, Part


class Chunk(Part, tag_field="type"):
    """Base of the chunks of a model stream; texts are not decoded.

    Attributes:
        index: Index of the block that a chunk is about.
    """

    index: int = NO_NUMBER


class TextDelta(Chunk, tag="text-delta"):
    """A piece of text."""


class ReasoningDelta(Chunk, tag="reasoning-delta"):
    """A piece of reasoning."""


class ToolCallDelta(Chunk, tag="tool-call-delta"):
    """A piece of a tool call's arguments."""


class BlockStart(Chunk, tag="block-start"):
    """A block opens."""

    block_type: str = ""


class BlockType(Part):
    """A settled block of which only the type matters."""

    type: str = ""


class BlockEnd(Chunk, tag="block-end"):
    """A block closes."""

    block: BlockType | None = None


class UsageChunk(Chunk, tag="usage"):
    """Token counts."""

    usage: Raw = ABSENT


class Finish(Chunk, tag="finish"):
    """The stream's end."""

    reason: Raw = ABSENT


DELTAS: Final = (TextDelta, ReasoningDelta, ToolCallDelta)
"""Chunks that only carry a piece of text; nearly all do."""
AnyChunk: TypeAlias = (
    TextDelta | ReasoningDelta | ToolCallDelta | BlockStart | BlockEnd | UsageChunk | Finish
)
"""A chunk of a type that dsh writes."""


class FinishReason(Part):
    """Why a model stream ended (June keeps message and code flat, later generations nest them)."""

    kind: str = ""
    failure: Failure | None = None
    message: str = ""
    code: str = ""


class Usage(Part):
    """Token counts; the input parts are disjoint, reasoning is a part of the output."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


class StreamEntry(Part):
    """One entry of a packed `stream` array; a run of deltas has `time0`, a single chunk `time`."""

    type: str = ""
    time: int | None = None
    time0: int | None = None
    index: int = NO_NUMBER
    chunk: AnyChunk | None = None


_decode_entry = msgspec.json.Decoder(StreamEntry).decode
decode_raws = msgspec.json.Decoder(list[Raw]).decode


def stream_ends(stream: Raw) -> tuple[StreamEntry | None, StreamEntry | None]:
    """Decode the first and the last entry of a packed stream; the many between stay as they are.

    Args:
        stream: The stream; one of another shape has no ends.
    """
    if stream is ABSENT:
        return None, None
    try:
        entries = decode_raws(stream)
        if not entries:
            return None, None
        return _decode_entry(entries[0]), _decode_entry(entries[-1])
    except (msgspec.MsgspecError, RecursionError):
        return None, None
