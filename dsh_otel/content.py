"""Content in the form of the GenAI conventions; used only when content is switched on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dsh_core.parts import blocks
from dsh_otel.clean import MAX_CONTENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msgspec import Raw

    from dsh_core.parts import Block

_encode: Final = msgspec.json.Encoder().encode
MAX_PARTS: Final = 64


def messages_json(role: str, content: Raw) -> str:
    """Return a message as the JSON that the conventions want, short enough to stay whole.

    Args:
        role: ``user`` or ``assistant``.
        content: The message's content blocks.
    """
    found, room, number = blocks(content), MAX_CONTENT // 2, MAX_PARTS
    while True:
        parts = _parts(found[:number], room)
        text = bytes(_encode([{"role": role, "parts": parts}])).decode()
        if len(text) <= MAX_CONTENT:
            return text
        # Quoting makes some texts many times longer.
        room, number = room // 2, number // 2


def _parts(found: Sequence[Block], room: int) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for block in found:
        part, size = _part(block, room)
        if part is not None:
            parts.append(part)
            room = max(room - size, 0)
    return parts


def _part(block: Block, room: int) -> tuple[dict[str, Any] | None, int]:
    if block.type in ("text", "reasoning"):
        text = block.text[:room]
        return {"type": block.type, "content": text}, len(text)
    if block.type == "tool-call":
        arguments = (block.argument_text or "")[:room]
        part = {
            "type": "tool_call",
            "id": block.id[:256],
            "name": block.name[:256],
            "arguments": arguments,
        }
        return part, len(arguments)
    return None, 0
