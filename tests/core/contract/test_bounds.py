"""What a checker keeps of one session does not grow with it."""

from __future__ import annotations

import gc
import random
import tracemalloc
from typing import TYPE_CHECKING, Any, Final

import pytest

from dsh_core.contract.run import MAX_OF_A_RULE
from dsh_core.events import KNOWN_EVENTS, Contract
from tests.checking import build, check, event, log, make_checker
from tests.strategies import MODEL, START

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dsh_core.contract.findings import Finding
    from tests.strategies import Event, Events

MOST: Final = 100_000
"""Bytes that the state of a legal session may take, however long it is."""

MOST_HOSTILE: Final = 1_000_000
"""Bytes that the state of a session may take in which nearly everything is a fault."""


def kept(contract: Contract, events: Iterable[Event]) -> tuple[int, list[Finding]]:
    """Return how many bytes a checker keeps that has seen some events, and what it first found."""
    found: list[Finding] = []
    events = list(events)
    # What sessions share is there already.
    shared = make_checker(contract)
    for line, source in enumerate(events[:1000], 2):
        shared.observe(build(source, line)[0], line)
    del shared
    gc.collect()
    tracemalloc.start()
    try:
        checker = make_checker(contract)
        for line, source in enumerate(events, 2):
            news = checker.observe(build(source, line)[0], line)
            found = found or news
        # Python keeps freed objects for later; a collection gives them back.
        gc.collect()
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    return size, found


class Session:
    """Writes legal turns with everything that v4 knows, under ids that never come again."""

    def __init__(self) -> None:
        self.events: Events = []
        self.surface: list[int] = []
        self.turn = 0

    def put(self, kind: str, data: Event, **envelope: Any) -> int:
        seq = len(self.events)
        whole = {"type": kind, "seq": seq, "time": START + seq, "data": data, **envelope}
        self.events.append(whole)
        return seq

    def say(self, kind: str, data: Event, **envelope: Any) -> int:
        seq = self.put(kind, data, **envelope, surfaceOp="append")
        self.surface.append(seq)
        return seq

    def id(self, prefix: str = "id") -> str:
        return f"{prefix}-{len(self.events)}"

    def here(self, **data: Any) -> Event:
        return {"turn": self.turn, "step": 1, **data}

    def write_turn(self) -> None:
        """Write a turn of one step."""
        self.turn += 1
        prompt = {"id": self.id(), "role": "user", "source": {"kind": "user"}, "content": []}
        self.put("agent/inbox/spliced", {"target": "next-turn", "start": 0, "inserted": [prompt]})
        self.put("turn/start", {"turn": self.turn})
        claim = {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}
        self.put("agent/inbox/spliced", claim)
        if self.turn % 3 == 0:
            self._compact()
        self.put("step/start", self.here())
        if self.turn == 1:
            source = {"kind": "system-prompt"}
            message = {"id": "y", "role": "system", "source": source, "content": []}
            self.say("system/message", self.here(message=message))
        asked = self.say("user/message", prompt)
        tool = {"name": "t", "description": "d", "parameters": {"type": "object"}}
        header = {"config": MODEL, "tools": [tool]}
        self.put("request/header", {"header": header, "reason": "initial"})
        self.put("request/context", {**MODEL, "contextWindow": 9})
        title = {"title": "t", "messageSeqs": [asked], "source": {"kind": "fallback"}}
        self.put("session/title", title)
        self._retry()
        self._tools()
        self._others()
        self.put("step/end", self.here())
        self.put("turn/end", {"turn": self.turn, "reason": {"kind": "completed"}})

    def _compact(self) -> None:
        about = {"compactionId": self.id("k")}
        start = self.put("compaction/start", {**about, "turn": self.turn})
        seqs = self.surface[1:]
        summary: Event = {**about, **MODEL, "summary": [], "shadowedSeqs": seqs}
        summary |= {"shadowedRange": {"start": seqs[0], "end": seqs[-1]}, "shadowedTokenCount": 1}
        settled = self.put("compaction/summary", summary)
        source = {"kind": "compact-checkpoint", **about}
        message = {"id": self.id(), "role": "user", "source": source, "content": []}
        seq = self.put(
            "user/message",
            message,
            sourceEventSeqs=[start, settled, *seqs],
            surfaceOp={"op": "replace", "startSeq": seqs[0], "endSeq": seqs[-1]},
        )
        self.surface[1:] = [seq]
        self.put("compaction/end", {**about, "turn": self.turn})

    def _retry(self) -> None:
        retry_id, failure = self.id("retry"), {"message": "m", "code": "SERVER"}
        for number in (1, 2):
            self.put("assistant/attempt", self.here(stream=[]))
            retry = {"retryId": retry_id, "retry": number}
            more = {"mode": "always", "policyKey": "k", "delayMs": 1, "failure": failure}
            self.put("llm/retry", self.here(**retry, **more, provider=MODEL["provider"]))
            self.put("llm/retry-started", self.here(**retry))
        marker = {"sessionId": "s-1", "sessionFormatVersion": 4}
        marker["throughSeq"] = len(self.events) - 1
        self.put("session-log-deepseek/delivery-accepted", marker)

    def _tools(self) -> None:
        call, sub = self.id("call"), self.id("sub")
        block = {"type": "tool-call", "id": call, "name": "t", "arguments": "{}"}
        source = {"kind": "model", **MODEL}
        message = {"id": self.id(), "role": "assistant", "source": source, "content": [block]}
        self.say("assistant/message", self.here(message=message, stream=[]))
        seq = self.put("tool/call", self.here(callId=call, name="t", arguments="{}"))
        question = {"id": self.id("q")}
        self.put("approval/asked", {**question, "toolName": "t"})
        self.put("approval/decided", {**question, "outcome": "allowed-once"})
        hook = {"turn": self.turn, "point": "PreToolUse", "handlerId": self.id("h")}
        self.put("hook/invoked", {**hook, "dialect": "codex"})
        self.put("hook/result", {**hook, "decision": "pass", "durationMs": 1})
        dispatch: Event = {"rootCallId": call, "parentCallId": call, "subCallId": sub, "name": "t"}
        self.put("tool/ptc-dispatch-start", {**dispatch, "arguments": {}})
        done: Event = {"arguments": {}, "isError": False, "content": []}
        self.put("tool/ptc-dispatch", {**dispatch, **done})
        job: Event = {"jobId": self.id("bash"), "owner": "s-1", "kind": "bash", "label": "l"}
        job["startedAt"] = 5
        self.put("job/registered", job)
        end = {"finishedAt": 6, "status": "completed", "cause": "producer"}
        self.put("job/settled", {**job, **end, "producerReported": True})
        result: Event = {"id": self.id(), "role": "tool", "toolCallId": call, "content": []}
        result |= {"source": {"kind": "tool", "callId": call}, "isError": False}
        self.say("tool/result", self.here(message=result), sourceEventSeqs=[seq])

    def _others(self) -> None:
        run = {"runId": self.id("run")}
        self.put("tool-workflow/run-start", {**run, "name": "w"})
        child = self.id("child")
        self.put("subagent/catalog", {"version": 0, "childId": child, "mode": "one-shot", **CHILD})
        self.put("tool-workflow/agent-start", {**run, "seq": 1, "label": "l", "childId": child})
        self.put("tool-workflow/agent-end", {**run, "seq": 1, "outcome": "completed"})
        self.put("tool-workflow/run-end", {**run, "stopReason": "completed"})
        command = {"commandId": self.id("cmd")}
        self.put("command/run", {**command, "name": "c", "source": {"kind": "user"}})
        self.put("command/done", {**command, "kind": "success"})
        self.put("todo/write", {"todos": [{"content": self.id(), "status": "pending"}]})
        plan = {"id": self.id("plan"), "kind": "at", "prompt": "p"}
        plan["scheduledAt"] = "2026-10-01T00:00:00.000Z"
        change = {"version": 1, "operation": "create", "schedule": plan}
        self.put("schedule/change", change)
        dispatch = {"version": 1, "operation": "dispatch", "id": plan["id"]}
        self.put("schedule/change", dispatch)
        mail = {"id": self.id("mail"), "senderId": "a", "senderName": "a", "targetId": "b"}
        team = {"version": 2, "teamId": "s-1"}
        self.put("team/message/queued", {**team, "message": {**mail, "content": []}})
        self.put("team/message/delivered", {**team, "messageId": mail["id"], "targetId": "b"})
        self.put("sandbox/mode", {"mode": "read-only"})
        self.put("plan/mode", {"active": True})
        self.put("permission/preset", {"preset": self.id("preset")})


CHILD: Final = {"childCreatedAt": START, "label": "l"}


def test_a_long_legal_session_is_silent_and_stays_small() -> None:
    """Whatever has ids, owners and pairs comes again and again, and nothing is kept of it."""
    session = Session()
    for _ in range(300):
        session.write_turn()
    assert len(session.events) > 10_000
    size, found = kept(Contract.V4, session.events)
    assert [(f.rule, f.message) for f in found] == []
    assert size < MOST


class Odd:
    """Events of all types whose ids never come again: what may grow, grows."""

    def __init__(self) -> None:
        self._random = random.Random(7)
        self._kinds = sorted(set(KNOWN_EVENTS))

    def __call__(self, seq: int) -> Event:
        kind = self._kinds[self._random.randrange(len(self._kinds))]
        unique = f"an-id-that-is-as-long-as-most-{seq}"
        turn, step = seq // 400 + 1, seq // 40 % 10 + 1
        data: Event = dict.fromkeys(NAMES, unique)
        message = {"id": unique, "toolCallId": unique, "content": [self._call(unique)]}
        data |= {"turn": turn, "step": step, "message": message}
        data |= {"source": {"kind": "user"}, "inserted": [{"id": unique}], "seq": seq}
        data |= {"operation": self._random.choice(("create", "delete", "dispatch"))}
        data |= {"retry": 1, "member": {"id": unique, "name": unique, "phase": "provisioning"}}
        data |= {"task": {"id": unique, "revision": 1, "blockedBy": []}, "teamId": "s-1"}
        data |= {"schedule": {"id": unique, "kind": "at"}, "target": "next-turn"}
        event: Event = {"type": kind, "seq": seq, "time": 1_780_000_000_000 + seq, "data": data}
        if kind.endswith("/message") or kind == "tool/result":
            event["surfaceOp"] = "append"
        return event

    def _call(self, unique: str) -> Event:
        return {"type": "tool-call", "id": unique, "name": "bash", "arguments": "{}"}


NAMES: Final = (
    *("id", "callId", "name", "arguments", "retryId", "compactionId", "commandId", "runId"),
    *("jobId", "subCallId", "rootCallId", "parentCallId", "childId", "handlerId", "messageId"),
    *("toolName", "point", "label", "kind", "provider", "policyKey", "content", "prompt"),
)


@pytest.mark.parametrize("contract", list(Contract))
def test_a_session_of_faults_does_not_grow_without_end(contract: Contract) -> None:
    """However many ids, turns, messages and faults there are."""
    assert kept(contract, map(Odd(), range(6_000)))[0] < MOST_HOSTILE


def test_one_thing_that_a_writer_always_gets_wrong_does_not_fill_the_memory() -> None:
    count = MAX_OF_A_RULE + 50
    events = log(
        *[
            event("command/done", {"commandId": f"c{number}", "kind": "success"})
            for number in range(count)
        ]
    )
    found = check(events, Contract.V4)
    assert len(found) == MAX_OF_A_RULE
    assert sum(one.count for one in found) == len(events)
