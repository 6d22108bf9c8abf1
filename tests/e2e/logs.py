"""Logs made for these tests: long ones, and ones that nobody would want to meet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import dsh_otel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SAMPLES: Final = Path(dsh_otel.__file__).parent / "samples" / "home"
"""A DSH home with sessions of real runtimes."""

T0: Final = 1_780_000_000_000
"""When made-up sessions begin, in ms."""

Item = tuple[str, dict[str, Any]]
"""Type and payload of an event."""


def write(path: Path, items: Iterable[Item], header: dict[str, Any] | None = None) -> Path:
    """Write a log; of June if it has no header."""
    with path.open("wb") as log:
        if header is not None:
            log.write(to_line({"type": "session", **header}))
        log.writelines(to_lines(items))
    return path


def to_lines(items: Iterable[Item]) -> Iterator[bytes]:
    """Yield the lines of a log, numbered from 0, one event a millisecond."""
    for seq, (kind, data) in enumerate(items):
        event = {"type": kind, "seq": seq, "time": T0 + seq, "data": data}
        yield to_line(event | data.pop("envelope", {}))


def to_line(row: dict[str, Any]) -> bytes:
    """Encode a row as the runtime does: as UTF-8, and half characters as their escapes."""
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def turns(count: int, calls: int = 8, first: int = 0, text: str = "done") -> Iterator[Item]:
    """Yield turns of June, each with one step and some tool calls; every second call fails."""
    for turn in range(first, first + count):
        here = {"turn": turn, "step": 0}
        yield "turn/start", {"turn": turn}
        yield "step/start", dict(here)
        for k in range(calls):
            call = {**here, "callId": f"c{k}"}
            yield (
                "tool/call",
                {
                    **call,
                    "name": "read",
                    "arguments": json.dumps({"path": text}, ensure_ascii=False),
                },
            )
            failed = k % 2 == 1
            result = {**call, "content": [{"type": "text", "text": text}], "isError": failed}
            if failed:
                result["error"] = {"name": "FsError", "code": "FS_NOT_FOUND"}
            yield "tool/result", result
        yield "step/end", dict(here)
        yield "turn/end", {"turn": turn, "reason": {"kind": "completed"}}


def spans_of_turns(count: int, calls: int = 8) -> int:
    """Return how many spans `turns` gives."""
    return count * (2 + calls)


# ------------------------------------------------------------------------------------ hostile logs

LONG: Final = "n" * 100_000
NASTY: Final = (
    "\ud800",  # half a character, which no encoder takes
    "a\udfffb\ud83d",
    "".join(map(chr, range(0x20))) + "\x7f\x85\x9b",
    "\x1b]0;title\x07\x1b[31mred\u202e",
    "\ufffe\uffff\U0010ffff",
    "\N{PILE OF POO}" * 1000,
    LONG,
    "\ud800" * 100_000,
    "\0" * 5000,
    "",
)
HUGE: Final = (2**70, -(2**70), 2**63, -(2**63) - 1, 10**400)


def hostile_june() -> Iterator[Item]:
    """Yield a session of June in which every name, code, id and text is bad in each way."""
    yield "turn/start", {"turn": 0}
    yield "step/start", {"turn": 0, "step": 0}
    here = {"turn": 0, "step": 0}
    for k, bad in enumerate(NASTY):
        id_ = f"{bad}{k}"
        yield "tool/call", {**here, "callId": id_, "name": bad, "arguments": bad}
        yield (
            "tool/result",
            {
                **here,
                "callId": id_,
                "content": [{"type": "text", "text": bad}],
                "isError": True,
                "error": {"name": bad, "code": bad, "message": bad},
            },
        )
        # A result of no call at all becomes a span too.
        yield "tool/result", {**here, "callId": f"stray {id_}", "content": [], "isError": False}
    for number in HUGE:
        yield "tool/call", {**here, "step": number, "callId": f"h{number}", "name": "read"}
        yield "turn/start", {"turn": number}
        yield "turn/end", {"turn": number, "reason": {"kind": "failed", "code": number}}
    for bad in NASTY:
        yield bad or "no/type", {"turn": 0, "whatever": bad}
        reason = {"kind": bad, "error": {"code": bad, "name": bad, "message": bad}}
        yield "turn/end", {"turn": 0, "reason": reason}
        yield "turn/start", {"turn": 0}


def hostile_v4() -> Iterator[Item]:
    """Yield the same for the newest generation, model answers included."""
    for turn, bad in enumerate((*NASTY, *HUGE), 1):
        here = {"turn": turn, "step": 1}
        yield "turn/start", {"turn": turn}
        yield "step/start", dict(here)
        config = {"provider": bad, "model": bad, "maxTokens": bad}
        yield "request/header", {"header": {"config": config, "tools": []}, **here}
        failure = {"code": bad, "message": bad, "name": bad}
        chunk = {"type": "finish", "reason": {"kind": "error", "failure": failure}}
        yield (
            "assistant/attempt",
            {**here, "stream": [{"type": "chunk", "time": T0, "chunk": chunk}]},
        )
        call = {"type": "tool-call", "id": bad, "name": bad, "arguments": bad}
        usage = {"inputTokens": 2**70, "outputTokens": -(2**70), "cacheReadTokens": bad}
        stream = [
            {"type": "usage", "usage": usage},
            {"type": "finish", "reason": {"kind": bad}},
        ]
        message = {
            "id": bad,
            "role": "assistant",
            "source": {"kind": "model", "provider": bad, "model": bad},
            "content": [{"type": "text", "text": bad}, call],
        }
        chunks = [{"type": "chunk", "time": T0 + k, "chunk": one} for k, one in enumerate(stream)]
        yield (
            "assistant/message",
            {**here, "message": message, "stream": chunks, "envelope": {"surfaceOp": "append"}},
        )
        yield "tool/call", {**here, "callId": bad, "name": bad, "arguments": bad}
        result = {
            "id": bad,
            "role": "tool",
            "toolCallId": bad,
            "source": {"kind": "tool", "callId": bad},
            "content": [{"type": "text", "text": bad}],
            "isError": True,
        }
        error = {"name": bad, "code": bad}
        yield (
            "tool/result",
            {**here, "message": result, "error": error, "envelope": {"surfaceOp": "append"}},
        )
        yield "turn/end", {"turn": turn, "reason": {"kind": "failed", "failure": failure}}


def hostile_header() -> dict[str, Any]:
    """Return a header row to go with it."""
    return {
        "version": 4,
        "id": f"s\ud800\0{LONG}",
        "createdAt": 2**70,
        "cwd": "\ud800",
        "isSeeded": False,
        "parentSession": f"p\udfff{LONG}",
        "delegationDepth": 2**70,
        "agentPreset": f"\ud800{LONG}",
    }
