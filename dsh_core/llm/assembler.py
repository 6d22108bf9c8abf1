"""From chunks to blocks: what an answer is once all of it has arrived."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from dsh_core.errors import LlmError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.llm.chunks import Block, FinishReason, TokenUsage

MAX_BLOCKS: Final = 10_000
"""Blocks that one answer may have."""

MAX_CHARS: Final = 64 * 1024 * 1024
"""Characters that the deltas of one answer may have together."""

MAX_CHUNKS: Final = 1_000_000
"""Chunks that one answer may have."""

_MALFORMED: Final = "MALFORMED_RESPONSE"
_DELTAS: Final = {
    "text-delta": ("text", "text"),
    "reasoning-delta": ("reasoning", "text"),
    "tool-call-delta": ("tool-call", "argumentsDelta"),
}


@dataclass(slots=True)
class _Open:
    """A block under way."""

    index: int
    type: str
    text: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    id: str = ""
    name: str = ""
    block: Block | None = None

    def assembled(self) -> Block:
        """Return the block, from its deltas if it has not been closed."""
        if self.block is not None:
            return self.block
        if self.type in {"text", "reasoning"}:
            return {"type": self.type, "text": "".join(self.text)}
        if self.type == "tool-call":
            return {
                "type": "tool-call",
                "id": self.id or f"call-{self.index}",
                "name": self.name,
                "arguments": "".join(self.arguments),
            }
        raise LlmError(
            f"block {self.index} of type {self.type[:80]!r} was not finished", _MALFORMED
        )


class BlockAssembler:
    """Collects the chunks of one answer.

    It takes streams as they are, also those that break the grammar: blocks without start or end,
    repeated ends, no finish. Only what cannot be placed at all is refused.

    Attributes:
        usage: The last usage that the stream told.
        finish: Why the stream ended, ``stop`` if it does not say.
    """

    def __init__(self) -> None:
        self.usage: TokenUsage | None = None
        self.finish: FinishReason = {"kind": "stop"}
        self._blocks: dict[int, _Open] = {}
        self._order: list[_Open] = []
        self._taken = 0
        self._room = MAX_CHARS
        self._chunks = 0

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Take the next chunk; one of unknown type is ignored.

        Args:
            chunk: The chunk.

        Raises:
            LlmError: It has no usable index or text, or the answer grows out of bounds
                (``MALFORMED_RESPONSE``).
        """
        self._chunks += 1
        if self._chunks > MAX_CHUNKS:
            raise LlmError(f"the answer has more than {MAX_CHUNKS} chunks", _MALFORMED)
        kind = chunk.get("type")
        if kind == "usage":
            self.usage = cast("TokenUsage", _mapping(chunk, "usage"))
        elif kind == "finish":
            self.finish = cast("FinishReason", _mapping(chunk, "reason"))
        elif kind == "block-start":
            self._open(chunk, _string(chunk, "blockType"))
        elif kind == "block-end":
            block = _mapping(chunk, "block")
            opened = self._open(chunk, str(block.get("type", "")))
            if opened.block is None:
                opened.block = block
        elif isinstance(kind, str) and kind in _DELTAS:
            self._delta(chunk, *_DELTAS[kind])

    def message(self) -> dict[str, Any]:
        """Return the assistant's message as far as it has arrived.

        Raises:
            LlmError: An unfinished block is of a type that deltas cannot make.
        """
        return {"role": "assistant", "content": [opened.assembled() for opened in self._order]}

    def take_closed(self) -> list[Block]:
        """Return blocks not returned before, up to the first that is still open."""
        blocks: list[Block] = []
        while self._taken < len(self._order):
            block = self._order[self._taken].block
            if block is None:
                break
            blocks.append(block)
            self._taken += 1
        return blocks

    def take_rest(self) -> list[Block]:
        """Return all blocks not returned before.

        Raises:
            LlmError: As for `message`.
        """
        rest = self._order[self._taken :]
        self._taken = len(self._order)
        return [opened.assembled() for opened in rest]

    def _open(self, chunk: Mapping[str, Any], block_type: str) -> _Open:
        """Return the block of a chunk, a new one if its index is new."""
        index = chunk.get("index")
        if not isinstance(index, int) or isinstance(index, bool) or index < 0:
            raise LlmError("a chunk has no usable block index", _MALFORMED)
        found = self._blocks.get(index)
        if found is None:
            if len(self._order) >= MAX_BLOCKS:
                raise LlmError(f"the answer has more than {MAX_BLOCKS} blocks", _MALFORMED)
            found = self._blocks[index] = _Open(index, block_type)
            self._order.append(found)
        return found

    def _delta(self, chunk: Mapping[str, Any], block_type: str, member: str) -> None:
        text = _string(chunk, member)
        opened = self._open(chunk, block_type)
        if opened.block is not None:
            return
        self._room -= len(text)
        if self._room < 0:
            raise LlmError(f"the answer is longer than {MAX_CHARS} characters", _MALFORMED)
        if block_type == "tool-call":
            opened.arguments.append(text)
            opened.id = opened.id or _optional(chunk, "id")
            opened.name = opened.name or _optional(chunk, "name")
        else:
            opened.text.append(text)


def _mapping(chunk: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = chunk.get(key)
    if not isinstance(value, dict):
        raise LlmError(f"a chunk has no usable {key}", _MALFORMED)
    return value


def _string(chunk: Mapping[str, Any], key: str) -> str:
    value = chunk.get(key)
    if not isinstance(value, str):
        raise LlmError(f"a chunk has no usable {key}", _MALFORMED)
    return value


def _optional(chunk: Mapping[str, Any], key: str) -> str:
    value = chunk.get(key)
    return value if isinstance(value, str) else ""
