"""A v4 log of any size, with the proportions of a working agent: few, large lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 4
"""Steps of a turn; every step but the last calls two tools."""

PIECES = 120
"""Pieces of the stream of an answer."""

COMPACT = 20
"""Turns between two compactions."""

_WORDS = "some words of an answer "
_OUTPUT = "src/module.py:12: a line of the output of a tool\n" * 100
_HEADER = {
    "type": "session",
    "version": 4,
    "id": "bench",
    "createdAt": 1_790_000_000_000,
    "cwd": "/w",
    "isSeeded": False,
    "delegationDepth": 0,
}
_MODEL = {"provider": "p", "model": "m"}


class Writer:
    """Appends events to a v4 log.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")
        self._file.write(json.dumps(_HEADER, separators=(",", ":")) + "\n")
        self.seq = 0
        self.time = 1_790_000_000_000
        self.size = 0
        self.surface: list[int] = []

    def close(self) -> None:
        self._file.close()

    def put(self, kind: str, data: object, **envelope: object) -> int:
        self.time += 7
        event = {"type": kind, "seq": self.seq, "time": self.time, "data": data, **envelope}
        line = json.dumps(event, separators=(",", ":")) + "\n"
        self._file.write(line)
        self.size += len(line)
        self.seq += 1
        return self.seq - 1

    def say(self, kind: str, data: object, **envelope: object) -> int:
        seq = self.put(kind, data, **envelope, surfaceOp="append")
        self.surface.append(seq)
        return seq


def write(path: Path, size: int) -> int:
    """Write a legal v4 log.

    Args:
        path: The file.
        size: Least size in bytes; the last turn is completed.

    Returns:
        The number of events written.
    """
    out = Writer(path)
    out.put("permission/preset", {"preset": "workspace-write"})
    out.put("sandbox/mode", {"mode": "workspace-write"})
    out.put("approval/policy", {"policy": "ask"})
    turn = 0
    while out.size < size:
        turn += 1
        _turn(out, turn)
    out.close()
    return out.seq


def _turn(out: Writer, turn: int) -> None:
    prompt = {
        "id": f"u{turn}",
        "role": "user",
        "source": {"kind": "user"},
        "content": [{"type": "text", "text": "please look at the folder and tidy it up"}],
    }
    insert = {"target": "next-turn", "start": 0, "inserted": [prompt]}
    out.put("agent/inbox/spliced", insert)
    out.put("turn/start", {"turn": turn})
    claim = {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}
    out.put("agent/inbox/spliced", claim)
    if turn % COMPACT == 0:
        _compact(out, turn)
    for step in range(1, STEPS + 1):
        at = {"turn": turn, "step": step}
        out.put("step/start", at)
        if (turn, step) == (1, 1):
            _open(out, at)
        if step == 1:
            out.say("user/message", prompt)
        _answer(out, turn, step)
        out.put("step/end", at)
    out.put("turn/end", {"turn": turn, "reason": {"kind": "completed"}})


def _open(out: Writer, at: dict[str, int]) -> None:
    text = [{"type": "text", "text": "be good " * 200}]
    message = {"id": "y", "role": "system", "source": {"kind": "system-prompt"}, "content": text}
    out.say("system/message", {**at, "message": message})
    tools = [
        {"name": f"tool{k}", "description": "what it does " * 30, "parameters": {"type": "object"}}
        for k in range(20)
    ]
    header = {"config": _MODEL, "tools": tools}
    out.put("request/header", {"header": header, "reason": "initial"})
    out.put("request/context", {**_MODEL, "contextWindow": 1_000_000})


def _answer(out: Writer, turn: int, step: int) -> None:
    at = {"turn": turn, "step": step}
    delivery = {"sessionId": "bench", "sessionFormatVersion": 4, "throughSeq": out.seq - 1}
    out.put("session-log-deepseek/delivery-accepted", delivery)
    text = {"type": "text", "text": _WORDS * PIECES}
    calls = [
        {
            "type": "tool-call",
            "id": f"call_{turn}_{step}_{k}",
            "name": "tool1",
            "arguments": json.dumps({"path": f"notes/{k}.txt", "lines": list(range(40))}),
        }
        for k in range(2 if step < STEPS else 0)
    ]
    message = {
        "id": f"a{turn}.{step}",
        "role": "assistant",
        "source": {"kind": "model", **_MODEL},
        "content": [text, *calls],
    }
    usage = {"inputTokens": 1200, "outputTokens": 80}
    stream = _stream(out.time, [text, *calls], usage)
    out.say("assistant/message", {**at, "message": message, "usage": usage, "stream": stream})
    for call in calls:
        data = {**at, "callId": call["id"], "name": call["name"], "arguments": call["arguments"]}
        seq = out.put("tool/call", data)
        result = {
            "id": f"r{seq}",
            "role": "tool",
            "toolCallId": call["id"],
            "source": {"kind": "tool", "callId": call["id"]},
            "content": [{"type": "text", "text": _OUTPUT}],
            "isError": False,
        }
        out.say("tool/result", {**at, "message": result}, sourceEventSeqs=[seq])


def _stream(time: int, blocks: list[Any], usage: object) -> list[Any]:
    entries: list[Any] = []

    def put(chunk: object) -> None:
        entries.append({"type": "chunk", "time": time, "chunk": chunk})

    for index, block in enumerate(blocks):
        put({"type": "block-start", "index": index, "blockType": block["type"]})
        if block["type"] == "text":
            run = {"index": index, "dt": [3] * (PIECES - 1), "texts": [_WORDS] * PIECES}
            entries.append({"type": "text-chunks", "time0": time, **run})
        else:
            pieces = [block["arguments"][k : k + 8] for k in range(0, len(block["arguments"]), 8)]
            run = {"index": index, "dt": [3] * (len(pieces) - 1), "args": pieces}
            more = {"id": block["id"], "name": block["name"]}
            entries.append({"type": "tool-call-chunks", "time0": time, **run, **more})
        put({"type": "block-end", "index": index, "block": block})
    put({"type": "usage", "usage": usage})
    put({"type": "finish", "reason": {"kind": "tool-calls" if len(blocks) > 1 else "stop"}})
    return entries


def _compact(out: Writer, turn: int) -> None:
    """Replace everything behind the system message by a summary."""
    about = {"compactionId": f"k{turn}"}
    start = out.put("compaction/start", {**about, "turn": turn})
    shadowed = out.surface[1:]
    text = [{"type": "text", "text": "what was done so far " * 100}]
    settled = out.put(
        "compaction/summary",
        {
            **about,
            **_MODEL,
            "summary": text,
            "shadowedRange": {"start": shadowed[0], "end": shadowed[-1]},
            "shadowedSeqs": shadowed,
            "shadowedTokenCount": 9000,
        },
    )
    message = {
        "id": f"k{turn}",
        "role": "user",
        "source": {"kind": "compact-checkpoint", **about},
        "content": text,
    }
    seq = out.put(
        "user/message",
        message,
        sourceEventSeqs=[start, settled, *shadowed],
        surfaceOp={"op": "replace", "startSeq": shadowed[0], "endSeq": shadowed[-1]},
    )
    out.surface[1:] = [seq]
    out.put("compaction/end", {**about, "turn": turn})
