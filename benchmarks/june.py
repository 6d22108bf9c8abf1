"""A June log of any length, with the proportions of a working agent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 3
"""Steps of a turn; every step but the last calls a tool."""

CHUNKS = 40
"""Stream chunks of a step: a short answer, piece by piece."""


def write(path: Path, events: int) -> int:
    """Write a legal June log.

    Args:
        path: The file.
        events: Least number of events; the last turn is completed.

    Returns:
        The number of events written.
    """
    seq = 0
    time = 1_750_000_000_000
    turn = 0
    with path.open("w", encoding="utf-8") as file:

        def put(kind: str, **data: object) -> None:
            nonlocal seq, time
            time += 7
            event = {"type": kind, "seq": seq, "time": time, "data": data}
            file.write(json.dumps(event, separators=(",", ":")) + "\n")
            seq += 1

        while seq < events:
            turn += 1
            _turn(put, turn)
    return seq


def _turn(put, turn: int) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - the closure above
    source = {"kind": "user"}
    text = {"type": "text", "text": "please look at the folder and tidy it up"}
    put("user/message", content=[text], source=source)
    put("turn/start", turn=turn, trigger={"kind": "message", "source": source})
    for step in range(1, STEPS + 1):
        at = {"turn": turn, "step": step}
        put("step/start", **at)
        put("assistant/chunk", **at, chunk={"type": "block-start", "index": 0, "blockType": "text"})
        for _ in range(CHUNKS):
            delta = {"type": "text-delta", "index": 0, "text": "some words "}
            put("assistant/chunk", **at, chunk=delta)
        block = {"type": "text", "text": "some words " * CHUNKS}
        put("assistant/chunk", **at, chunk={"type": "block-end", "index": 0, "block": block})
        put("assistant/chunk", **at, chunk={"type": "finish", "reason": {"kind": "stop"}})
        content: list[dict[str, object]] = [block]
        call_id = f"call_{turn}_{step}"
        arguments = json.dumps({"path": "notes/a.txt"})
        if step < STEPS:
            content.append(
                {"type": "tool-call", "id": call_id, "name": "read", "arguments": arguments}
            )
        put("assistant/message", **at, content=content)
        put("usage", **at, usage={"inputTokens": 1200, "outputTokens": 80})
        if step < STEPS:
            put("tool/call", **at, callId=call_id, name="read", arguments=arguments)
            result = [{"type": "text", "text": "a line of the file\n" * 5}]
            put("tool/result", **at, callId=call_id, content=result, isError=False)
        put("step/end", **at)
    put("turn/end", turn=turn, reason={"kind": "completed"})
