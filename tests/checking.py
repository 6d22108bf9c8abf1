"""What tests of rules are made of: short ways to write a log, to check it, and to say what is due.

Events are written as `Item`s, in the shape of the generation that a test is about, and put in order
by `log`, which numbers and stamps them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dsh_core.contract.checker import Checker
from dsh_core.contract.findings import Severity
from dsh_core.contract.repairs import INTERRUPTED_PREFIX, NOT_STARTED_TEXT
from dsh_core.decode import from_mapping, strict_decoder
from dsh_core.events import Contract, SessionHeader
from tests.strategies import MODEL, START, Event, Events, header_row, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dsh_core.contract.findings import Finding
    from dsh_core.events import SessionEvent
    from dsh_core.faults import Fault

Item = tuple[str, Event, Event]
"""Type, payload, and what else the envelope has."""

VERSIONS: Final = {Contract.SEED: None, Contract.V0: 0, Contract.V4: 4}
"""The generation that a contract was made for."""


def event(kind: str, data: Event | None = None, **envelope: Any) -> Item:
    """Return any event."""
    return (kind, data or {}, envelope)


def log(*items: Item, first: int = 0) -> Events:
    """Number and stamp events; what an item's envelope says counts."""
    return [
        {"type": kind, "seq": seq, "time": START + seq, "data": data, **envelope}
        for seq, (kind, data, envelope) in enumerate(items, first)
    ]


def turn_start(turn: int) -> Item:
    return event("turn/start", {"turn": turn})


def turn_end(turn: int, kind: str = "completed") -> Item:
    return event("turn/end", {"turn": turn, "reason": {"kind": kind}})


def step_start(turn: int, step: int) -> Item:
    return event("step/start", {"turn": turn, "step": step})


def step_end(turn: int, step: int) -> Item:
    return event("step/end", {"turn": turn, "step": step})


def chunk(turn: int, step: int) -> Item:
    delta = {"type": "text-delta", "index": 0, "text": "x"}
    return event("assistant/chunk", {"turn": turn, "step": step, "chunk": delta})


def call(turn: int, step: int, id_: str, name: str = "bash", arguments: str = "{}") -> Item:
    data = {"turn": turn, "step": step, "callId": id_, "name": name, "arguments": arguments}
    return event("tool/call", data)


def flat_result(
    turn: int, step: int, id_: str, code: str = "", *, failed: bool = False, words: str = "done"
) -> Item:
    """Return a tool result of June."""
    data = {"turn": turn, "step": step, "callId": id_, "content": text(words)}
    data["isError"] = failed or bool(code)
    if code:
        data["error"] = {"name": "ToolError", "code": code}
    return event("tool/result", data)


def wrapped_result(
    turn: int, step: int, id_: str, code: str = "", *, op: Any = "append", **message: Any
) -> Item:
    """Return a tool result of v0 to v3: a message of role user around a block."""
    block = {"type": "tool-result", "toolCallId": id_, "content": text("done")}
    whole = {
        "id": f"r-{id_}",
        "role": "user",
        "source": {"kind": "tool", "callId": id_},
        "content": [{**block, "isError": bool(code)}],
        **message,
    }
    data = {"turn": turn, "step": step, "message": whole}
    if code:
        data["error"] = {"name": "ToolError", "code": code}
    return event("tool/result", data, surfaceOp=op)


def result(
    turn: int, step: int, id_: str, code: str = "", *, op: Any = "append", **message: Any
) -> Item:
    """Return a tool result of v4: a message of role tool."""
    whole = {
        "id": f"r-{id_}",
        "role": "tool",
        "toolCallId": id_,
        "source": {"kind": "tool", "callId": id_},
        "content": text("done"),
        "isError": bool(code),
        **message,
    }
    data = {"turn": turn, "step": step, "message": whole}
    if code:
        data["error"] = {"name": "ToolError", "code": code}
    return event("tool/result", data, surfaceOp=op)


def repair(turn: int, step: int, id_: str) -> Item:
    """Return the v4 result that a resume writes for a call that never started."""
    message_id = f"{INTERRUPTED_PREFIX}{id_}-7"
    kind, data, envelope = result(turn, step, id_, id=message_id, content=text(NOT_STARTED_TEXT))
    error = {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}
    message = {**data["message"], "isError": True}
    return kind, {**data, "message": message, "error": error}, envelope


def answer(turn: int, step: int, *ids: str, op: Any = "append", **message: Any) -> Item:
    """Return an answer of August or later that calls a tool under each of some ids."""
    tools = [{"type": "tool-call", "id": id_, "name": "bash", "arguments": "{}"} for id_ in ids]
    whole = {
        "id": "a",
        "role": "assistant",
        "source": {"kind": "model", **MODEL},
        "content": [*text("hm"), *tools],
        **message,
    }
    data = {"turn": turn, "step": step, "message": whole, "stream": []}
    return event("assistant/message", data, surfaceOp=op)


def prompt(op: Any = "append", **message: Any) -> Item:
    """Return a user message of August or later."""
    whole = {"id": "u", "role": "user", "source": {"kind": "user"}, "content": text("hi")}
    return event("user/message", {**whole, **message}, surfaceOp=op)


def system(turn: int, step: int, op: Any = "append", **envelope: Any) -> Item:
    """Return a system message (v3 on)."""
    whole = {"id": "y", "role": "system", "source": {"kind": "system-prompt"}}
    data = {"turn": turn, "step": step, "message": {**whole, "content": text("be good")}}
    return event("system/message", data, surfaceOp=op, **envelope)


def replace(start: int, end: int) -> Event:
    """Return the surface operation that replaces a span."""
    return {"op": "replace", "startSeq": start, "endSeq": end}


def one_step(turn: int, step: int, *items: Item) -> tuple[Item, ...]:
    """Return a step with something in it."""
    return (step_start(turn, step), *items, step_end(turn, step))


def one_turn(turn: int, *items: Item) -> tuple[Item, ...]:
    """Return a turn with one step with something in it."""
    return (turn_start(turn), *one_step(turn, 1, *items), turn_end(turn))


def make_checker(contract: Contract, *, header: Event | None = None, **options: Any) -> Checker:
    """Return a strict checker for a session of a contract's own generation."""
    row = header_row(contract) if header is None else header
    known = SessionHeader(id="s-1", version=VERSIONS[contract])
    if row is not None:
        known.id = row.get("id", known.id)
        version = row.get("version", known.version)
        known.version = version if isinstance(version, int) else known.version
        known.is_seeded = row.get("isSeeded", False)
    defaults: Event = {"contract": contract, "header_row": row, "header_line": 1, "strict": True}
    return Checker(known, **{**defaults, **options})


_DECODE: Final = strict_decoder(packed=False).decode


def build(source: Event, line: int) -> tuple[SessionEvent, list[Fault]]:
    """Build an event: the strict way if that will do, which is much faster, else the lenient."""
    number = source.get("seq")
    if isinstance(source.get("data"), dict) and isinstance(number, int) and abs(number) < 1 << 53:
        try:
            return _DECODE(msgspec.json.encode(source)), []
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
            pass
    return from_mapping(source, line=line)


def check(
    events: Iterable[Event],
    contract: Contract = Contract.SEED,
    *,
    final: bool = False,
    faults: Mapping[int, Fault] | None = None,
    **options: Any,
) -> list[Finding]:
    """Check a log and return what was found, in the order of the log.

    Args:
        events: The events; their lines are numbered from 1.
        contract: The contract to hold them to.
        final: Whether the end of the log is declared.
        faults: What the reader says in front of some events, by index; also at the end.
        options: For the checker.
    """
    checker = make_checker(contract, **options)
    found: list[Finding] = []
    left = dict(faults or {})
    for line, source in enumerate(events, 1):
        if line - 1 in left:
            found += checker.observe_fault(left.pop(line - 1))
        built, problems = build(source, line)
        for problem in problems:
            found += checker.observe_fault(problem)
        found += checker.observe(built, line)
    for fault in left.values():
        found += checker.observe_fault(fault)
    found += checker.finish(final=final)
    return sorted(found, key=lambda finding: finding.place)


def violations(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that say that the contract is broken."""
    return [finding for finding in findings if finding.severity is Severity.VIOLATION]


def rules(findings: Iterable[Finding]) -> list[str]:
    """Return the rules of some findings."""
    return [finding.rule for finding in findings]


def summary(findings: Iterable[Finding]) -> list[tuple[str, int, int | None, int | None]]:
    """Return rule, count, first and last seq of some findings."""
    return [(f.rule, f.count, f.first_seq, f.last_seq) for f in findings]
