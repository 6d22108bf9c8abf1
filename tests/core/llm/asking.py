"""Asking the adapter for the Messages API, and what is asked."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from dsh_core.llm import GenerateOptions
from dsh_core.llm.messages import MessagesAdapter
from tests.core.llm.loopback import (
    Loopback,
    event,
    streams,
)

if TYPE_CHECKING:
    from tests.core.llm.loopback import Play, Request

KEY = "sk-secret-key"
HI = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
OPTIONS = GenerateOptions("m", [HI])


def ask(
    play: Play, options: GenerateOptions = OPTIONS, **adapter: Any
) -> tuple[list[Any], list[Request]]:
    """Return the chunks of one answer, and what the server was asked."""

    async def main() -> tuple[list[Any], list[Request]]:
        async with Loopback(play) as server:
            asked = MessagesAdapter(server.url, KEY, **adapter)
            return [chunk async for chunk in asked.stream(options)], server.requests

    return asyncio.run(main())


def encoded(events: list[dict[str, Any]]) -> bytes:
    return b"".join(map(event, events))


def answer(*pieces: bytes, **more: Any) -> list[Any]:
    return ask(streams(*pieces, **more))[0]


def failure(play: Play, **adapter: Any) -> Any:
    """Return the failure that an answer ends with, after checking that it keeps the key."""
    chunks, _ = ask(play, **adapter)
    assert KEY not in json.dumps(chunks)
    assert chunks[-1]["reason"]["kind"] == "error"
    return chunks[-1]["reason"]["failure"]


HELLO_CHUNKS: list[dict[str, Any]] = [
    {"type": "block-start", "index": 0, "blockType": "text"},
    {"type": "text-delta", "index": 0, "text": "Hel"},
    {"type": "text-delta", "index": 0, "text": "lo"},
    {"type": "block-end", "index": 0, "block": {"type": "text", "text": "Hello"}},
    {"type": "usage", "usage": {"inputTokens": 10, "outputTokens": 4}},
    {"type": "finish", "reason": {"kind": "stop"}},
]
