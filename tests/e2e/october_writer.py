"""Writes events of October (format v4) that refer to each other as those of a session do."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

Row = dict[str, Any]
"""A row of a log, as `json.loads` would give it."""

START: Final = 1_796_000_000_000
FAILURE: Final = {"message": "Overloaded", "code": "SERVER", "status": 529}
ERRORS: Final = (
    {"name": "FsError", "code": "FS_NOT_FOUND"},
    {"name": "ToolArgsError", "code": "INVALID_ARGS", "reason": "no path"},
)
NOT_STARTED: Final = {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}
UNKNOWN: Final = {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"}
REPAIRED: Final = (
    "The tool call was interrupted before the Harness recorded it as started. "
    "Retry it if it is still needed."
)
TOOLS: Final = tuple(
    {"name": name, "description": "a tool", "parameters": {"type": "object"}}
    for name in ("bash", "read")
)
DEFERRED: Final = {"name": "late", "description": "", "parameters": {}, "deferLoading": True}
HUMAN: Final = {"kind": "user"}


def text(words: str) -> list[Row]:
    """Return content of one text block."""
    return [{"type": "text", "text": words}]


class Writer:
    """Appends events as a session does.

    Attributes:
        events: What was appended.
        surface: Seqs of the messages that the model sees, in their order.
    """

    def __init__(self, rng: Random, session: str) -> None:
        self.events: list[Row] = []
        self.surface: list[int] = []
        self._rng = rng
        self._session = session
        self._ids = self._turn = self._step = 0
        self._in_turn = self._in_step = False
        self._head: int | None = None
        self._header: int | None = None
        self._provider = ""
        self._prompts: list[int] = []
        self._goals = 0
        self._later: list[Callable[[], object]] = []
        self._nested_ones: list[Row] = []
        # Calls of the open step without a result, and the seq of what started each.
        self._calls: dict[str, int | None] = {}

    # The tools of the trade

    def chance(self, parts: int) -> bool:
        """Say yes once in so many times."""
        return self._rng.randrange(parts) == 0

    def add(self, kind: str, data: Any, **envelope: Any) -> int:
        """Append an event and return its seq."""
        seq = len(self.events)
        time = START + 7 * seq
        self.events.append({"type": kind, "seq": seq, "time": time, "data": data, **envelope})
        return seq

    def say(self, kind: str, data: Row, sources: list[int] | None = None) -> int:
        """Append a message to the surface."""
        cited = {} if sources is None else {"sourceEventSeqs": sources}
        seq = self.add(kind, data, **cited, surfaceOp="append")
        self.surface.append(seq)
        return seq

    def replace(self, kind: str, data: Row, first: int, last: int, more: list[int]) -> int:
        """Replace what stands at some places of the surface.

        Args:
            kind: Type of the message.
            data: Its payload.
            first: The first place.
            last: The last one.
            more: What it cites besides.
        """
        shadowed = self.surface[first : last + 1]
        operation = {"op": "replace", "startSeq": shadowed[0], "endSeq": shadowed[-1]}
        sources = [*more, *shadowed]
        self._rng.shuffle(sources)
        seq = self.add(kind, data, sourceEventSeqs=sources, surfaceOp=operation)
        self.surface[first : last + 1] = [seq]
        return seq

    def fresh(self, prefix: str) -> str:
        """Return an id that was not used yet."""
        self._ids += 1
        return f"{prefix}{self._ids}"

    def here(self, **data: Any) -> Row:
        """Return a payload with the coordinates of the open step."""
        return {"turn": self._turn, "step": self._step, **data}

    def message(self, role: str, source: Row, content: list[Row]) -> Row:
        """Return a message of its own id."""
        return {"id": self.fresh("m"), "role": role, "source": source, "content": content}

    # Tools

    def _start_some(self, *, all_of_them: bool = False) -> None:
        """Start calls, and answer some of them."""
        blocks = self.events[self.surface[-1]]["data"]["message"]["content"]
        for block in blocks:
            if block["type"] != "tool-call" or (not all_of_them and self.chance(2)):
                continue
            data = self.here(callId=block["id"], name=block["name"], arguments=block["arguments"])
            self._calls[block["id"]] = self.add("tool/call", data)
            if self.chance(3):
                self._inside(block["id"])
            if self.chance(2):
                self._settle(block["id"])

    def _work(self) -> None:
        """Start and answer all calls of the last answer."""
        self._start_some(all_of_them=True)
        waiting = list(self._calls)
        self._rng.shuffle(waiting)
        for call in waiting:
            self._settle(call)

    def _settle(self, call: str) -> None:
        failed = self.chance(4)
        self._result(call, self._rng.choice(ERRORS) if failed else None, text("done"), None)

    def _result(self, call: str, error: Row | None, content: list[Row], id_: str | None) -> None:
        source = {"kind": "tool", "callId": call}
        message = self.message("tool", source, content) | {"toolCallId": call}
        if error is not None or self.chance(2):
            message["isError"] = error is not None
        if id_ is not None:
            message["id"] = id_
        data = self.here(message=message)
        if error is not None:
            data["error"] = error
        started = self._calls.pop(call)
        cited = None if started is None or self.chance(4) else [started]
        self.say("tool/result", data, cited)

    def _inside(self, call: str) -> None:
        """Write what a running tool may write."""
        for act in self._rng.sample((self._nested, self._approve, self._job, self._todo), 2):
            act(call)
        if self.chance(3):
            self._catalog()

    def _nested(self, call: str) -> None:
        """Write dispatches of a program that calls tools, in each other and side by side."""
        known = [call]
        for _ in range(self._rng.randint(1, 3)):
            ids = {"rootCallId": call, "parentCallId": self._rng.choice(known)}
            inner: Row = {**ids, "subCallId": self.fresh(f"{call}:code:"), "name": "read"}
            inner["arguments"] = {"path": "/x", "deep": [1, {"a": None}]}
            self.add("tool/ptc-dispatch-start", inner)
            known.append(inner["subCallId"])
            self._nested_ones.append(inner)
        for _ in range(self._rng.randint(0, 3)):
            self._settle_nested()

    def _settle_nested(self) -> None:
        """Settle any dispatch that has not settled yet."""
        if self._nested_ones:
            inner = self._nested_ones.pop(self._rng.randrange(len(self._nested_ones)))
            self.add("tool/ptc-dispatch", {**inner, "isError": False, "content": text("x")})

    def _approve(self, call: str) -> None:
        id_ = self.fresh("ask")
        self.add("approval/asked", {"id": id_, "toolName": "bash", "callId": call})
        self.add("approval/decided", {"id": id_, "outcome": "allowed-once"})

    def _job(self, call: str) -> None:
        job: Row = {"jobId": self.fresh("bash-"), "owner": self._session, "kind": "bash"}
        job |= {"label": "ls", "startedAt": START, "toolCall": {"callId": call, "rootCallId": call}}
        self.add("job/registered", job)
        end = {"finishedAt": START + 9, "status": "completed", "cause": "producer"}
        settled = {**job, **end, "producerReported": True}
        self._later.append(lambda: self.add("job/settled", settled))

    def _todo(self, _call: str) -> None:
        self.add("todo/write", {"todos": [{"content": "one", "status": "pending"}]})

    def _developer(self) -> None:
        """Tell the model that tools have come or gone."""
        content: list[Row] = self._rng.choice((text("mind"), [{"type": "tool-removal"}], []))
        content = [
            {**block, "toolName": "read"} if "text" not in block else block for block in content
        ]
        more: Row = {}
        if self.chance(2) and self._header is not None:
            content.append({"type": "tool-addition", "toolName": "late"})
            more["headerSeq"] = self._header
        message = self.message("developer", {"kind": "tool-registry"}, content)
        self.say("developer/message", self.here(message=message, **more))

    # What is not a turn's own

    def _command(self) -> None:
        id_ = self.fresh("command")
        self.add("command/run", {"commandId": id_, "name": "compact", "source": HUMAN})
        done: Row = {"commandId": id_, "kind": "success"}
        if self.chance(3):
            done |= {"kind": "error", "text": "no"}
        elif self.chance(2):
            self._feedback()
            done["sourceEventSeq"] = len(self.events) - 1
        elif self.chance(2):
            self._compact(id_)
        self.add("command/done", done)

    def _feedback(self) -> None:
        self.add("feedback/record", {"text": "good"})

    def _user_title(self) -> None:
        self.add("session/title", {"title": "mine", "messageSeqs": [], "source": HUMAN})

    def _title(self) -> None:
        cited = self._rng.sample(self._prompts, self._rng.randint(1, len(self._prompts)))
        if self.chance(2):
            frame = self.message("user", {"kind": "dsh-session-title-llm"}, text("name it"))
            route = {"provider": "p", "model": "m"}
            asked = {"titleProvider": "llm", "messageSeqs": cited, "route": route, "system": ""}
            self.add("session/title-llm-request", {**asked, "messages": [frame], "maxTokens": 9})
        source: Row = self._rng.choice(
            ({"kind": "fallback"}, {"kind": "provider", "provider": "x"})
        )
        self.add("session/title", {"title": "theirs", "messageSeqs": cited, "source": source})

    def _catalog(self) -> None:
        child: Row = {"childId": self.fresh("child"), "childCreatedAt": START}
        kinds: tuple[Row, ...] = (
            {"version": 0, "mode": "one-shot"},
            {"version": 1, "mode": "continuable", "label": ""},
            {"version": 1, "mode": "unknown", "label": "x"},
            {"version": 2, "mode": "external"},
        )
        self.add("subagent/catalog", {**child, **self._rng.choice(kinds)})

    def _goal(self) -> None:
        """Set a goal; the next one needs it to be complete."""
        goal: Row = {
            "id": self.fresh("goal"),
            "revision": 1,
            "objective": "win",
            "maxGoalRounds": 3,
        }
        times = {"roundsStarted": 0, "createdAt": START, "updatedAt": START}
        change = {"kind": "goal/change", "version": 1, **times}
        for revision, (operation, phase) in enumerate(
            (("create", "active"), ("complete", "complete"))
        ):
            current = {**goal, "revision": revision + 1, "phase": phase}
            self.add("goal/change", {**change, "operation": operation, "goal": current})

    # Compaction

    def _compact(self, command: str | None = None) -> None:
        """Replace a stretch of the surface by a summary, or fail to."""
        ids: Row = {"compactionId": self.fresh("k")}
        if command is not None:
            ids["sourceCommandId"] = command
        owner = {**ids, "turn": self._turn if self._in_turn else None}
        start = self.add("compaction/start", owner)
        lowest = 0 if self._head is None else 1
        if len(self.surface) <= lowest or self._calls or self.chance(4):
            self.add("compaction/end", {**owner, "error": "no"})
            return
        first = self._rng.randrange(lowest, len(self.surface))
        last = self._rng.randrange(first, len(self.surface))
        summary: Row = {"summary": text("short"), "provider": "p", "model": "m"}
        made = self.add("compaction/summary", {**ids, **summary, **self._shadow(first, last)})
        if self.chance(6):
            self.add("compaction/end", {**owner, "error": "late"})
            return
        source = {"kind": "compact-checkpoint", **ids}
        message = self.message("user", source, text("short"))
        self.replace("user/message", message, first, last, [start, made])
        self.add("compaction/end", owner)

    def _torn_compaction(self) -> None:
        """Start a compaction that never ends."""
        turn = self._turn if self._in_turn else None
        self.add("compaction/start", {"compactionId": self.fresh("k"), "turn": turn})

    def _shadow(self, first: int, last: int) -> Row:
        seqs = self.surface[first : last + 1]
        span = {"start": seqs[0], "end": seqs[-1]}
        return {"shadowedRange": span, "shadowedSeqs": seqs, "shadowedTokenCount": 9}

    def _prune(self) -> None:
        """Take the content of an old result away."""
        places = [
            place
            for place, seq in enumerate(self.surface)
            if self.events[seq]["type"] == "tool/result"
            and not self.events[seq]["data"]["message"]["id"].startswith("forked")
        ]
        if not places or self._calls:
            return
        place = self._rng.choice(places)
        data = copy.deepcopy(self.events[self.surface[place]]["data"])
        data["message"]["content"] = text("gone")
        self.add("compaction/prune", self._shadow(place, place))
        self.replace("tool/result", data, place, place, [])
