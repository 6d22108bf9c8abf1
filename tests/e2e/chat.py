"""The same answers over the Chat Completions API, which runtimes before 0.2 speak."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.model_server import Event, Reply

PATH: Final = "/chat/completions"
STOPS: Final = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}


def lines(reply: Reply) -> Iterator[bytes]:
    """Return what a reply is as a stream of that API."""
    calls: dict[int, int] = {}
    for event in reply.events:
        delta = _delta(event, calls)
        if delta is not None:
            yield _line({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        if event["type"] == "message_delta":
            reason = STOPS[event["delta"]["stop_reason"]]
            usage = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}
            choice = {"index": 0, "delta": {}, "finish_reason": reason}
            yield _line({"choices": [choice], "usage": usage})
    yield b"data: [DONE]\n\n"


def _delta(event: Event, calls: dict[int, int]) -> dict[str, Any] | None:
    if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
        block = event["content_block"]
        number = calls[event["index"]] = len(calls)
        function = {"name": block["name"], "arguments": ""}
        call = {"index": number, "id": block["id"], "type": "function", "function": function}
        return {"tool_calls": [call]}
    if event["type"] != "content_block_delta":
        return None
    delta = event["delta"]
    if delta["type"] == "input_json_delta":
        function = {"arguments": delta["partial_json"]}
        return {"tool_calls": [{"index": calls[event["index"]], "function": function}]}
    if delta["type"] == "thinking_delta":
        return {"reasoning_content": delta["thinking"]}
    return {"content": delta["text"]}


def _line(chunk: dict[str, Any]) -> bytes:
    whole = {"id": "chat-1", "object": "chat.completion.chunk", "model": "played", **chunk}
    return f"data: {json.dumps(whole)}\n\n".encode()
