"""Random session logs: legal ones of three generations, broken ones, and nonsense.

A log is a list of events, an event a plain mapping of the wire's names, as `json.loads` would give
it. Everything here is pure: a strategy never changes what it was given.

Legal logs are written by random programs (turns, steps, streams, calls and results), so that the
events in them refer to each other as they do in real ones. `mutated` breaks one thing in a log;
`arbitrary_events` gives sequences that mean nothing at all.
"""

from __future__ import annotations

import copy
import json
import math
from itertools import cycle, pairwise
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from dsh_core.contract.repairs import INTERRUPTED_PREFIX, NOT_STARTED_TEXT
from dsh_core.events import KNOWN_EVENTS, MAX_SAFE_INTEGER, Contract

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

Event = dict[str, Any]
Events = list[Event]

START: Final = 1_780_000_000_000
"""Time of the first event, in ms."""

TOOLS: Final = ("bash", "read", "write")
ERRORS: Final = (
    {"name": "FsError", "code": "FS_NOT_FOUND"},
    {"name": "ToolArgsError", "code": "INVALID_ARGS"},
    {"name": "TimeoutError", "code": "ETIMEDOUT"},
)
FAILURE: Final = {"message": "Overloaded", "code": "SERVER", "status": 529}
MODEL: Final = {"provider": "p", "model": "m"}


def header_row(contract: Contract, session: str = "s-1") -> Event | None:
    """Return a legal header row of a contract's generation, None for June."""
    row = {"type": "session", "version": 0, "id": session, "createdAt": START, "cwd": "/w"}
    if contract is Contract.SEED:
        return None
    if contract is Contract.V4:
        row |= {"version": 4, "isSeeded": False}
    return row | {"delegationDepth": 0}


def to_line(event: Event) -> bytes:
    """Encode an event as a line of a log, without its newline, as the runtime does."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()


def to_lines(events: Iterable[Event], header: Event | None = None) -> bytes:
    """Encode a log: header row, then one event a line."""
    rows = events if header is None else (header, *events)
    return b"".join(to_line(row) + b"\n" for row in rows)


class Writer:
    """Appends events as a session does: numbered from 0, with times that never go back.

    Attributes:
        events: What was appended.
        surface: Seqs of the messages that the model sees, in their order.
    """

    def __init__(self, contract: Contract, draw: DrawFn) -> None:
        self.contract = contract
        self.draw = draw
        self.events: Events = []
        self.surface: list[int] = []
        self.turn = 0
        self.step = 0
        # A few gaps that repeat: drawing one for every event would take most of the time.
        gaps = draw(st.lists(st.sampled_from((0, 1, 40, 900)), min_size=1, max_size=4), label="ms")
        self._gaps = cycle(gaps)
        self._time = START
        self._ids = 0

    def fresh(self, prefix: str) -> str:
        """Return an id that was not used yet."""
        self._ids += 1
        return f"{prefix}{self._ids}"

    def add(self, kind: str, data: Event, **envelope: Any) -> int:
        """Append an event and return its seq."""
        self._time += next(self._gaps)
        seq = len(self.events)
        event = {"type": kind, "seq": seq, "time": self._time, "data": data, **envelope}
        self.events.append(event)
        return seq

    def say(self, kind: str, data: Event, sources: list[int] | None = None) -> int:
        """Append a message: to the surface from August on."""
        envelope: Event = {}
        if self.contract is not Contract.SEED:
            if sources is not None:
                envelope["sourceEventSeqs"] = sources
            envelope["surfaceOp"] = "append"
        seq = self.add(kind, data, **envelope)
        self.surface.append(seq)
        return seq

    def here(self, **data: Any) -> Event:
        """Return a payload with the coordinates of the open step."""
        return {"turn": self.turn, "step": self.step, **data}

    @property
    def time(self) -> int:
        """Time of the last event."""
        return self._time


def text(words: str) -> list[Event]:
    """Return message content of one text block."""
    return [{"type": "text", "text": words}]


_BOOL: Final = st.booleans()
_FEW: Final = st.integers(0, 2)
_WORDS: Final = st.sampled_from(("x", "hello there", "größe 日本 🙂", 'say "hi"\n', ""))


def _stream(draw: DrawFn, blocks: Sequence[Event], finish: Event) -> Events:
    """Return the chunks of a model stream that gives some content blocks."""
    chunks: Events = []
    for index, block in enumerate(blocks):
        kind = block["type"]
        chunks.append({"type": "block-start", "index": index, "blockType": kind})
        if kind == "tool-call":
            for part in ("", block["arguments"]):
                delta = {"type": "tool-call-delta", "index": index, "id": block["id"]}
                chunks.append({**delta, "name": block["name"], "argumentsDelta": part})
        else:
            parts = draw(st.integers(0, 4), label="deltas")
            for k in range(parts):
                whole = block["text"]
                piece = whole if k == 0 else ""
                chunks.append({"type": f"{kind}-delta", "index": index, "text": piece})
    chunks += [
        {"type": "block-end", "index": index, "block": block} for index, block in enumerate(blocks)
    ]
    if finish["kind"] in {"stop", "tool-calls"}:
        chunks.append({"type": "usage", "usage": {"inputTokens": 3, "outputTokens": 4}})
    chunks.append({"type": "finish", "reason": finish})
    return chunks


def _answer(writer: Writer, ids: Sequence[str]) -> Events:
    """Draw the content blocks of an answer that calls tools under some ids."""
    draw = writer.draw
    blocks: Events = []
    if draw(_BOOL, label="reasoning"):
        blocks.append({"type": "reasoning", "text": draw(_WORDS)})
    if not ids or draw(_BOOL, label="text"):
        blocks.append({"type": "text", "text": draw(_WORDS)})
    for id_ in ids:
        name = draw(st.sampled_from(TOOLS), label="tool")
        arguments = draw(st.sampled_from(("{}", '{"command":"ls"}', '{"file_path":"/x"}')))
        blocks.append({"type": "tool-call", "id": id_, "name": name, "arguments": arguments})
    return blocks


def _call_ids(writer: Writer) -> list[str]:
    """Draw the ids of a step's calls: unique in the step, used again in others."""
    return [f"c{k}" for k in range(writer.draw(st.integers(0, 3), label="calls"))]


def _run_calls(
    writer: Writer,
    blocks: Sequence[Event],
    result: Callable[[Event, int], None],
    *,
    unanswered: bool,
) -> None:
    """Write calls and results: one after the other, or all calls first, results in any order."""
    draw = writer.draw
    calls = [block for block in blocks if block["type"] == "tool-call"]
    started: list[tuple[Event, int]] = []
    parallel = draw(_BOOL, label="parallel")
    for block in calls:
        data = writer.here(callId=block["id"], name=block["name"], arguments=block["arguments"])
        seq = writer.add("tool/call", data)
        if unanswered and draw(st.integers(0, 9), label="no result") == 0:
            continue
        if parallel:
            started.append((block, seq))
        else:
            result(block, seq)
    for block, seq in draw(st.permutations(started), label="order"):
        result(block, seq)


# ------------------------------------------------------------------------------------------- June


@st.composite
def june_logs(draw: DrawFn, max_turns: int = 4) -> Events:
    """Legal logs of the June plugin."""
    writer = Writer(Contract.SEED, draw)
    first = draw(st.integers(0, 1), label="first number")
    for turn in range(draw(st.integers(1, max_turns), label="turns")):
        writer.turn = first + turn
        _june_turn(writer, first)
    return writer.events


def _june_turn(writer: Writer, first: int) -> None:
    draw = writer.draw
    for _ in range(1 + draw(_FEW) // 2):
        writer.say("user/message", {"content": text("hi"), "source": {"kind": "user"}})
    trigger = {"kind": "message", "source": {"kind": "user"}}
    writer.add("turn/start", {"turn": writer.turn, "trigger": trigger})
    failed = False
    for step in range(draw(st.integers(0, 3), label="steps")):
        writer.step = first + step
        failed = draw(st.integers(0, 7), label="fails") == 0
        _june_step(writer, failed=failed)
        if failed:
            break
    reason: Event = {"kind": draw(st.sampled_from(("completed", "completed", "disposed")))}
    if failed:
        writer.add("error", writer.here(message="rate limited", code="RATE_LIMIT"))
        reason = {"kind": "error", "message": "rate limited", "code": "RATE_LIMIT"}
    writer.add("turn/end", {"turn": writer.turn, "reason": reason})
    if draw(st.integers(0, 5), label="context") == 0:
        source = {"kind": "plugin", "plugin": "time"}
        writer.say("context/message", {"content": text("noon"), "source": source})


def _june_step(writer: Writer, *, failed: bool) -> None:
    draw = writer.draw
    writer.add("step/start", writer.here())
    ids = [] if failed else _call_ids(writer)
    blocks = [] if failed else _answer(writer, ids)
    finish = {"kind": "tool-calls" if ids else "stop"}
    if failed:
        finish = {"kind": "error", "message": "rate limited", "code": "RATE_LIMIT"}
    for chunk in _stream(draw, blocks, finish):
        writer.add("assistant/chunk", writer.here(chunk=chunk))
    if not failed:
        writer.say("assistant/message", writer.here(content=blocks))
        usage = {"inputTokens": 3, "outputTokens": 4}
        writer.add("usage", writer.here(usage=usage))

    def result(block: Event, _seq: int) -> None:
        data = writer.here(callId=block["id"], content=text("done"), isError=False)
        if draw(st.integers(0, 3), label="tool fails") == 0:
            data |= {"isError": True, "error": draw(st.sampled_from(ERRORS))}
        writer.say("tool/result", data)

    _run_calls(writer, blocks, result, unanswered=True)
    if draw(st.integers(0, 5), label="steering") == 0:
        steering = {"turn": writer.turn, "content": text("wait"), "source": {"kind": "user"}}
        writer.say("steering/message", steering)
    writer.add("step/end", writer.here())


# ---------------------------------------------------------------------------------- August on


def _queue(writer: Writer) -> Event:
    """Queue a prompt; the loop takes it off when the turn has started."""
    message = {
        "id": writer.fresh("u"),
        "role": "user",
        "source": {"kind": "user"},
        "content": text("hi"),
    }
    insert = {"target": "next-turn", "start": 0, "inserted": [message]}
    writer.add("agent/inbox/spliced", insert)
    return message


def _open_turn(writer: Writer) -> Event:
    message = _queue(writer)
    writer.turn += 1
    writer.step = 0
    writer.add("turn/start", {"turn": writer.turn})
    claim = {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}
    writer.add("agent/inbox/spliced", claim)
    return message


def _open_step(writer: Writer, prompt: Event | None) -> None:
    """Open a step; the first one of a turn begins with the prompt."""
    writer.step += 1
    writer.add("step/start", writer.here())
    first = not any(event["type"] == "request/header" for event in writer.events)
    if first and writer.contract is Contract.V4:
        source = {"kind": "system-prompt"}
        message = {"id": writer.fresh("y"), "role": "system", "source": source}
        writer.say("system/message", writer.here(message={**message, "content": text("be good")}))
    if prompt is not None:
        writer.say("user/message", prompt)
    if first:
        writer.add("request/header", {"header": {"config": MODEL}, "reason": "initial"})
        writer.add("request/context", {**MODEL, "contextWindow": 1000})


def _retry(writer: Writer, number: int, retry_id: str) -> None:
    retry = {
        "provider": MODEL["provider"],
        "mode": "normal",
        "policyKey": "k",
        "maxRetries": 5,
        "delayMs": 12.5,
        "failure": FAILURE,
    }
    writer.add("llm/retry", writer.here(retryId=retry_id, retry=number, **retry))
    writer.add("llm/retry-started", writer.here(retryId=retry_id, retry=number))


def _result_message(
    writer: Writer, id_: str, call_id: str, *, failed: bool, words: str = "done"
) -> Event:
    """Return the message of a tool result: a wrapped block until v3, a message of its own in v4."""
    source = {"kind": "tool", "callId": call_id}
    if writer.contract is Contract.V4:
        message = {"id": id_, "role": "tool", "toolCallId": call_id, "source": source}
        return {**message, "content": text(words), "isError": failed}
    block = {"type": "tool-result", "toolCallId": call_id, "content": text(words)}
    message = {"id": id_, "role": "user", "source": source}
    return {**message, "content": [{**block, "isError": failed}]}


def _later_result(writer: Writer, block: Event, call: int | None) -> None:
    """Write the result of a call, or, without one, the repair of a call that never started."""
    id_ = writer.fresh("r")
    if call is None:
        id_ = f"{INTERRUPTED_PREFIX}{block['id']}-{len(writer.events)}"
        words = NOT_STARTED_TEXT
        message = _result_message(writer, id_, block["id"], failed=True, words=words)
        error = {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}
        writer.say("tool/result", writer.here(message=message, error=error))
        return
    failed = writer.draw(st.integers(0, 3), label="tool fails") == 0
    data = writer.here(message=_result_message(writer, id_, block["id"], failed=failed))
    if failed:
        data["error"] = writer.draw(st.sampled_from(ERRORS))
    writer.say("tool/result", data, [call])


def _settle(writer: Writer, blocks: Events, sources: list[int] | None, more: Event) -> None:
    message = {
        "id": writer.fresh("a"),
        "role": "assistant",
        "source": {"kind": "model", **MODEL},
        "content": blocks,
    }
    usage = {"inputTokens": 3, "outputTokens": 4}
    writer.say("assistant/message", writer.here(message=message, usage=usage, **more), sources)


def _crash(writer: Writer, blocks: Events) -> None:
    """Write what a resume writes after a crash between answer and tools."""
    for block in blocks:
        if block["type"] == "tool-call":
            _later_result(writer, block, None)
    writer.add("step/end", writer.here())
    writer.add("turn/end", {"turn": writer.turn, "reason": {"kind": "interrupted"}})
    writer.add("session/end-seed", {})


def _end_turn(writer: Writer, *, failed: bool) -> None:
    reason: Event = {"kind": "completed"}
    if failed:
        reason = {"kind": "error", "error": FAILURE}
    writer.add("turn/end", {"turn": writer.turn, "reason": reason})


@st.composite
def august_logs(draw: DrawFn, max_turns: int = 3) -> Events:
    """Legal logs of August (format v0)."""
    writer = Writer(Contract.V0, draw)
    for _ in range(draw(st.integers(1, max_turns), label="turns")):
        prompt: Event | None = _open_turn(writer)
        crashed = failed = False
        for _ in range(draw(st.integers(0, 3), label="steps")):
            _open_step(writer, prompt)
            prompt = None
            crashed, failed = _august_step(writer)
            if crashed or failed:
                break
        if not crashed:
            _end_turn(writer, failed=failed)
    return writer.events


def _august_step(writer: Writer) -> tuple[bool, bool]:
    """Write the inside of a step and its end; return whether it crashed, and whether it failed."""
    draw = writer.draw
    error = {"kind": "error", "failure": FAILURE}
    attempts = draw(_FEW, label="failed attempts")
    gives_up = attempts > 0 and draw(st.integers(0, 3), label="gives up") == 0
    retry_id = writer.fresh("retry") if attempts else ""
    for number in range(1, attempts + 1):
        for chunk in _stream(draw, [], error):
            writer.add("assistant/chunk", writer.here(chunk=chunk))
        if number < attempts or not gives_up:
            _retry(writer, number, retry_id)
    if gives_up:
        writer.add("step/end", writer.here())
        return False, True
    ids = _call_ids(writer)
    blocks = _answer(writer, ids)
    chunks = _stream(draw, blocks, {"kind": "tool-calls" if ids else "stop"})
    seqs = [writer.add("assistant/chunk", writer.here(chunk=chunk)) for chunk in chunks]
    _settle(writer, blocks, seqs, {})
    if draw(st.integers(0, 9), label="crash") == 0:
        _crash(writer, blocks)
        return True, False
    _run_calls(
        writer,
        blocks,
        lambda block, seq: _later_result(writer, block, seq),
        unanswered=False,
    )
    if draw(st.integers(0, 4), label="todo") == 0:
        todos = [{"content": "one", "status": "pending"}]
        writer.add("todo/write", {"todos": todos})
    writer.add("step/end", writer.here())
    return False, False


@st.composite
def october_logs(draw: DrawFn, max_turns: int = 3) -> Events:
    """Legal logs of October (format v4), of a session named ``s-1``."""
    writer = Writer(Contract.V4, draw)
    writer.add("permission/preset", {"preset": "workspace-write"})
    writer.add("sandbox/mode", {"mode": "workspace-write"})
    writer.add("approval/policy", {"policy": "ask"})
    for _ in range(draw(st.integers(1, max_turns), label="turns")):
        prompt: Event | None = _open_turn(writer)
        crashed = failed = False
        if len(writer.surface) > 1 and draw(st.integers(0, 2), label="compaction") == 0:
            _compact(writer)
        for _ in range(draw(st.integers(0, 3), label="steps")):
            _open_step(writer, prompt)
            prompt = None
            crashed, failed = _october_step(writer)
            if crashed or failed:
                break
        if not crashed:
            _end_turn(writer, failed=failed)
    return writer.events


def _compact(writer: Writer) -> None:
    """Replace everything behind the system message by a summary."""
    compaction: Event = {"compactionId": writer.fresh("k")}
    start = writer.add("compaction/start", {**compaction, "turn": writer.turn})
    shadowed = writer.surface[1:]
    span = {"start": shadowed[0], "end": shadowed[-1]}
    summary: Event = {"summary": text("short"), "shadowedRange": span, "shadowedSeqs": shadowed}
    summary |= {"shadowedTokenCount": 9, **MODEL}
    settled = writer.add("compaction/summary", {**compaction, **summary})
    message = {
        "id": writer.fresh("u"),
        "role": "user",
        "source": {"kind": "compact-checkpoint", **compaction},
        "content": text("short"),
    }
    seq = writer.add(
        "user/message",
        message,
        sourceEventSeqs=[start, settled, *shadowed],
        surfaceOp={"op": "replace", "startSeq": shadowed[0], "endSeq": shadowed[-1]},
    )
    writer.surface[1:] = [seq]
    writer.add("compaction/end", {**compaction, "turn": writer.turn})


def _october_step(writer: Writer) -> tuple[bool, bool]:
    """Write the inside of a step and its end; return whether it crashed, and whether it failed."""
    draw = writer.draw
    error = {"kind": "error", "failure": FAILURE}
    attempts = draw(_FEW, label="failed attempts")
    gives_up = attempts > 0 and draw(st.integers(0, 3), label="gives up") == 0
    retry_id = writer.fresh("retry") if attempts else ""
    for number in range(1, attempts + 1):
        stream = _packed_stream(_stream(draw, [], error), writer.time)
        writer.add("assistant/attempt", writer.here(stream=stream))
        if number < attempts or not gives_up:
            _retry(writer, number, retry_id)
    if gives_up:
        writer.add("step/end", writer.here())
        return False, True
    through = len(writer.events) - 1
    delivery = {"sessionId": "s-1", "sessionFormatVersion": 4, "throughSeq": through}
    writer.add("session-log-deepseek/delivery-accepted", delivery)
    ids = _call_ids(writer)
    blocks = _answer(writer, ids)
    chunks = _stream(draw, blocks, {"kind": "tool-calls" if ids else "stop"})
    _settle(writer, blocks, None, {"stream": _packed_stream(chunks, writer.time)})
    if draw(st.integers(0, 9), label="crash") == 0:
        _crash(writer, blocks)
        return True, False
    _run_calls(
        writer,
        blocks,
        lambda block, seq: _later_result(writer, block, seq),
        unanswered=False,
    )
    if ids and draw(st.integers(0, 4), label="job") == 0:
        _job(writer)
    writer.add("step/end", writer.here())
    return False, False


def _job(writer: Writer) -> None:
    job: Event = {"jobId": writer.fresh("bash-"), "owner": "s-1", "kind": "bash", "label": "ls"}
    job["startedAt"] = writer.time
    writer.add("job/registered", job)
    end = {"finishedAt": writer.time, "status": "completed", "cause": "producer"}
    writer.add("job/settled", {**job, **end, "producerReported": True, "detail": "exit code: 0"})


def _packed_stream(chunks: Events, time: int) -> Events:
    """Return a stream as v2 and later store it: runs of deltas as one entry, the rest verbatim."""
    entries: Events = []
    for chunk in chunks:
        kind = chunk["type"]
        if not kind.endswith("-delta") or kind == "tool-call-delta":
            entries.append({"type": "chunk", "time": time, "chunk": chunk})
            continue
        last = entries[-1]
        packed = kind.replace("-delta", "-chunks")
        if last["type"] == packed and last["index"] == chunk["index"]:
            last["dt"].append(0)
            last["texts"].append(chunk["text"])
        else:
            run = {"index": chunk["index"], "dt": [], "texts": [chunk["text"]]}
            entries.append({"type": packed, "time0": time, **run})
    return entries


def legal_logs(contract: Contract) -> SearchStrategy[Events]:
    """Legal logs of a contract's generation."""
    return {
        Contract.SEED: june_logs(),
        Contract.V0: august_logs(),
        Contract.V4: october_logs(),
    }[contract]


def pack_rows(events: Events) -> Events:
    """Store a v0 log's runs of three or more text or reasoning deltas as packed rows."""
    rows: Events = []
    run: Events = []

    def flush() -> None:
        if len(run) < 3:
            rows.extend(run)
        else:
            rows.append(_pack(run))
        run.clear()

    for event in events:
        if run and not _joins(run[-1], event):
            flush()
        if _is_delta(event):
            run.append(event)
        else:
            rows.append(event)
    flush()
    return rows


def _is_delta(event: Event) -> bool:
    kinds = {"text-delta", "reasoning-delta"}
    return event["type"] == "assistant/chunk" and event["data"]["chunk"]["type"] in kinds


def _joins(before: Event, event: Event) -> bool:
    if not _is_delta(event) or event["seq"] != before["seq"] + 1:
        return False
    one, two = before["data"], event["data"]
    same = all(one[key] == two[key] for key in ("turn", "step"))
    return same and all(one["chunk"][key] == two["chunk"][key] for key in ("type", "index"))


def _pack(run: Events) -> Event:
    first = run[0]
    data, chunk = first["data"], first["data"]["chunk"]
    times = [event["time"] for event in run]
    return {
        "type": chunk["type"].replace("-delta", "-chunks"),
        "seq0": first["seq"],
        "time0": first["time"],
        "data": {
            "turn": data["turn"],
            "step": data["step"],
            "index": chunk["index"],
            "dt": [b - a for a, b in pairwise(times)],
            "texts": [event["data"]["chunk"]["text"] for event in run],
        },
    }


# -------------------------------------------------------------------------------------- mutations


def renumbered(events: Events) -> Events:
    """Number a log anew from 0."""
    return [{**event, "seq": seq} for seq, event in enumerate(events)]


def _drop(draw: DrawFn, log: Events) -> Events:
    """Leave one event out."""
    place = draw(_place(log))
    return log[:place] + log[place + 1 :]


def _duplicate(draw: DrawFn, log: Events) -> Events:
    """Write one event twice."""
    place = draw(_place(log))
    return log[: place + 1] + log[place:]


def _swap(draw: DrawFn, log: Events) -> Events:
    """Change the order of two neighbours."""
    place = draw(_place(log))
    return log[:place] + log[place : place + 2][::-1] + log[place + 2 :]


def _renumber(draw: DrawFn, log: Events) -> Events:
    """Give one event another number."""
    place = draw(_place(log))
    seq = draw(st.integers(0, len(log) + 5), label="seq")
    return [*log[:place], {**log[place], "seq": seq}, *log[place + 1 :]]


def _jump(draw: DrawFn, log: Events) -> Events:
    """Leave numbers out from one event on."""
    place = draw(_place(log))
    return log[:place] + [{**event, "seq": event["seq"] + 7} for event in log[place:]]


def _coordinates(draw: DrawFn, log: Events) -> Events:
    """Give one event the turn or step of another."""
    places = [k for k, event in enumerate(log) if "turn" in event["data"]]
    place = draw(st.sampled_from(places), label="place")
    event = copy.deepcopy(log[place])
    field = draw(st.sampled_from([f for f in ("turn", "step") if f in event["data"]]))
    event["data"][field] += draw(st.sampled_from((-1, 1, 2)), label="off by")
    return [*log[:place], event, *log[place + 1 :]]


def _call_id(draw: DrawFn, log: Events) -> Events:
    """Give one call or flat result another call's id."""
    places = [k for k, event in enumerate(log) if "callId" in event["data"]]
    if not places:
        return log
    place = draw(st.sampled_from(places), label="place")
    event = copy.deepcopy(log[place])
    event["data"]["callId"] = draw(st.sampled_from(("c0", "c1", "c9", "")), label="id")
    return [*log[:place], event, *log[place + 1 :]]


def _replay(draw: DrawFn, log: Events) -> Events:
    """Write a stretch of the log again right behind it."""
    end = draw(_place(log)) + 1
    length = draw(st.integers(1, min(end, 12)), label="length")
    return log[:end] + log[end - length : end] + log[end:]


def _place(log: Events) -> SearchStrategy[int]:
    return st.integers(0, len(log) - 1)


MUTATIONS: Final[dict[str, Callable[[DrawFn, Events], Events]]] = {
    "drop": _drop,
    "duplicate": _duplicate,
    "swap": _swap,
    "renumber": _renumber,
    "jump": _jump,
    "coordinates": _coordinates,
    "call id": _call_id,
    "replay": _replay,
}
"""What `mutated` can do to a log, by name."""

_KEEPS_NUMBERS: Final = ("renumber", "jump", "coordinates", "call id")


@st.composite
def mutated(draw: DrawFn, logs: SearchStrategy[Events]) -> Events:
    """Logs in which one thing was changed, illegal more often than not.

    Args:
        draw: Given by hypothesis.
        logs: Where the logs come from.
    """
    log = draw(logs)
    name = draw(st.sampled_from(sorted(MUTATIONS)), label="mutation")
    changed = MUTATIONS[name](draw, log)
    # Numbered anew, a change is one of structure alone.
    if name not in _KEEPS_NUMBERS and draw(_BOOL, label="numbered anew"):
        changed = renumbered(changed)
    return changed


# --------------------------------------------------------------------------------------- nonsense

texts: SearchStrategy[str] = st.one_of(
    st.text(max_size=8),
    st.sampled_from(("", "\ud800", "a\udfffb", "\x00", "\x1f\n", "\ufeff", "é" * 40)),
)
"""Short texts, some of which no encoder accepts."""

numbers: SearchStrategy[int | float] = st.one_of(
    st.integers(-2, 40),
    st.integers(),
    st.floats(),
    st.sampled_from((MAX_SAFE_INTEGER, MAX_SAFE_INTEGER + 1, 2**63, -(2**62), 10**30, math.inf)),
)
"""Numbers of any size, NaN and infinities included."""

json_values: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=3,
)
"""Anything that `json.loads` can return."""

_ids: SearchStrategy[Any] = st.sampled_from(("c0", "c0", "c1", "", "\ud800", None, 7))
_small: SearchStrategy[Any] = st.sampled_from((1, 1, 1, 2, 0, 2.0, -1, "1", None, 2**70))
_flag: SearchStrategy[Any] = st.sampled_from((True, False, None, 1))
_block: SearchStrategy[Any] = st.builds(
    lambda kind, id_, words: {
        "type": kind,
        "id": id_,
        "toolCallId": id_,
        "name": words,
        "text": words,
        "arguments": words,
    },
    st.sampled_from(("text", "tool-call", "tool-result", 5)),
    _ids,
    texts,
)
_content: SearchStrategy[Any] = st.lists(_block, max_size=2) | json_values
_message: SearchStrategy[Any] = json_values | st.builds(
    lambda role, kind, id_, content, failed: {
        "id": id_,
        "role": role,
        "source": {"kind": kind, "callId": id_},
        "toolCallId": id_,
        "content": content,
        "isError": failed,
    },
    st.sampled_from(("user", "assistant", "tool", "system", "", None)),
    st.sampled_from(("user", "model", "tool", "", 5)),
    _ids,
    _content,
    _flag,
)
_error: SearchStrategy[Any] = json_values | st.sampled_from(
    (*ERRORS, {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"})
)
_places: SearchStrategy[Any] = st.builds(
    lambda turn, step, id_: {"turn": turn, "step": step, "callId": id_}, _small, _small, _ids
)
_fields: SearchStrategy[Any] = st.dictionaries(
    st.sampled_from(
        ("arguments", "content", "reason", "chunk", "stream", "source", "role", "id", "inserted")
    ),
    json_values,
    max_size=2,
)
_data: SearchStrategy[Any] = st.one_of(
    _places,
    st.builds(
        lambda place, message, error, failed: {
            **place,
            "message": message,
            "error": error,
            "isError": failed,
        },
        _places,
        _message,
        _error,
        _flag,
    ),
    st.builds(lambda place, fields: {**place, **fields}, _places, _fields),
    _message,
    json_values,
)
_surface_op: SearchStrategy[Any] = st.one_of(
    st.just("append"),
    st.builds(
        lambda start, end: {"op": "replace", "startSeq": start, "endSeq": end},
        st.integers(0, 5) | numbers,
        st.integers(0, 5) | numbers,
    ),
    json_values,
)
_kinds: SearchStrategy[Any] = st.one_of(
    st.sampled_from(("turn/start", "turn/end", "step/start", "step/end")),
    st.sampled_from(("tool/call", "tool/result", "assistant/message", "user/message")),
    st.sampled_from(sorted(KNOWN_EVENTS)),
    texts,
    json_values,
)
_times: SearchStrategy[Any] = st.integers(START, START + 9) | numbers | texts


@st.composite
def arbitrary_events(draw: DrawFn, max_size: int = 12) -> Events:
    """Event sequences that mean nothing: any type, payload, number and time.

    The types and fields that the contract is about are more frequent than others, and most numbers
    count upwards, so that such a sequence gets past the first look.
    """
    events: Events = []
    for seq in range(draw(st.integers(0, max_size), label="events")):
        event: Event = {
            "type": draw(_kinds),
            "seq": draw(st.sampled_from((seq, seq, seq, 0)) | numbers),
            "time": draw(_times),
            "data": draw(_data),
        }
        more = draw(st.integers(0, 7), label="more")
        if more < len(_ENVELOPE):
            name, values = _ENVELOPE[more]
            event[name] = draw(values)
        elif more == len(_ENVELOPE):
            del event[draw(st.sampled_from(sorted(event)))]
        events.append(event)
    return events


_ENVELOPE: Final = (
    ("surfaceOp", _surface_op),
    ("sourceEventSeqs", st.lists(st.integers(0, 5), max_size=3) | json_values),
    ("ignorable", _flag | json_values),
)
