"""Random logs of October (format v4), legal ones: whatever a session can hold, in any mixture.

A log is written by a random program that knows what is open, so that its events refer to each
other as they do in real ones. The same seed gives the same log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.e2e.october_writer import (
    DEFERRED,
    FAILURE,
    HUMAN,
    NOT_STARTED,
    REPAIRED,
    START,
    TOOLS,
    UNKNOWN,
    Row,
    Writer,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random


class Log(NamedTuple):
    """A log.

    Attributes:
        header: Its first row.
        events: The others.
    """

    header: Row
    events: list[Row]


def legal(rng: Random, name: str) -> Log:
    """Return a legal log.

    Args:
        rng: Decides everything.
        name: Id of the session.
    """
    generations = rng.choice((0, 0, 0, 1, 1, 2))
    writer = Session(rng, name if generations == 0 else f"{name}-parent")
    writer.live()
    for left in reversed(range(generations)):
        writer.fork(name if left == 0 else f"{name}-{left}")
        writer.live()
    header = {"type": "session", "version": 4, "id": name, "createdAt": START, "cwd": "/w"}
    header |= {"isSeeded": generations > 0, "delegationDepth": 0}
    if generations:
        header["parentSession"] = f"{name}-1" if generations > 1 else f"{name}-parent"
    elif writer.chance(4):
        header |= {"parentSession": "other", "origin": "subagent", "delegationDepth": 1}
    return Log(header, writer.events)


class Session(Writer):
    """Does what sessions do, at random."""

    # Sessions

    def live(self) -> None:
        """Write what a session does: some turns, and what comes between them."""
        for kind, name in (("permission/preset", "preset"), ("sandbox/mode", "mode")):
            self.add(kind, {name: "workspace-write"})
        self.add("approval/policy", {"policy": "ask"})
        if self.chance(3):
            self.add("subagent/descriptor", {"mode": "one-shot", "version": 3, "provider": "spawn"})
        for _ in range(self._rng.randint(1, 3)):
            self._between()
            self._whole_turn()
        self._between()

    def fork(self, name: str) -> None:
        """Make what there is the inherited part of another session; the fork may close a turn."""
        if self.chance(2):
            self._open_turn()
            if self.chance(2):
                self._open_step(self.message("user", HUMAN, text("hi")))
                self._answer()
                self._start_some()
            if self.chance(4):
                self._torn_compaction()
            self._close("forked")
        self._session, self._later = name, []
        self.add("session/end-seed", {"inherited": True})

    def _close(self, kind: str) -> None:
        """Write what closes an open turn after a fork or a crash."""
        for call, started in list(self._calls.items()):
            id_ = f"{kind}-tool-result-{call}-{len(self.events)}"
            words = REPAIRED if started is None and kind == "interrupted" else "not known"
            error = NOT_STARTED if started is None else UNKNOWN
            self._result(call, error, text(words), id_)
        if self._in_step:
            self._end_step()
        self._end_turn({"kind": kind})

    def _between(self) -> None:
        """Write what may come while no turn is open."""
        acts: list[Callable[[], object]] = [self._command, self._user_title, self._compact]
        acts += [self._pending, self._resume, self._goal, self._foreign]
        acts += [self._catalog, self._feedback, self._inject, self._interrupted]
        for act in self._rng.sample(acts, self._rng.randint(0, 3)):
            act()

    def _resume(self) -> None:
        self.add("session/end-seed", {})

    def _inject(self) -> None:
        """Say something to the model before there is a turn."""
        source = {"kind": "webhook", "form": "notice", "summary": "rain"}
        self.say("user/message", self.message("user", source, text("rain")))

    def _interrupted(self) -> None:
        """Be interrupted in a compaction, and resumed."""
        self._torn_compaction()
        self._resume()

    def _foreign(self) -> None:
        self.add("plugin:other/seen", {"turn": 99}, ignorable=True)

    def _pending(self) -> None:
        """Do something that was left for later."""
        if self._later:
            self._later.pop(0)()

    # Turns and steps

    def _whole_turn(self) -> None:
        prompt: Row | None = self._open_turn()
        if self.chance(4):
            self._compact()
        for _ in range(self._rng.randint(0, 3)):
            self._open_step(prompt)
            prompt = None
            if self.chance(6):
                self._give_up()
                return
            if self.chance(7):
                self._crash()
                return
            self._requests()
            self._work()
            if self.chance(8):
                self._answer()
                self._work()
            acts: list[Callable[[], object]] = [self._prune, self._title, self._pending]
            acts += [self._compact, self._developer, self._settle_nested]
            for act in acts:
                if self.chance(5):
                    act()
            self._end_step()
            if self.chance(8):
                self._compact()
        self._end_turn({"kind": "completed"})

    def _open_turn(self) -> Row:
        prompt = self.message("user", HUMAN, text("hi"))
        place: Row = {"target": "next-turn", "start": 0}
        self.add("agent/inbox/spliced", {**place, "inserted": [prompt]})
        self._turn, self._step, self._in_turn = self._turn + 1, 0, True
        self.add("turn/start", {"turn": self._turn})
        self.add("agent/inbox/spliced", {**place, "removedCount": 1, "inserted": []})
        return prompt

    def _end_turn(self, reason: Row) -> None:
        self.add("turn/end", {"turn": self._turn, "reason": reason})
        self._in_turn = False

    def _open_step(self, prompt: Row | None) -> None:
        """Open a step with a request to the model; the first one of a turn begins with a prompt."""
        self._step, self._in_step = self._step + 1, True
        self.add("step/start", self.here())
        source = {"kind": "system-prompt"}
        system = self.here(message=self.message("system", source, text("be good")))
        if not self.surface:
            if not self.chance(8):
                self._head = self.say("system/message", system)
        elif self._head is not None and self.chance(6):
            self._head = self.replace("system/message", system, 0, 0, [])
        elif self._head is not None and self.chance(12):
            # No more than any other message.
            self.say("system/message", system)
        if prompt is not None:
            self._prompts.append(self.say("user/message", prompt))
        if self.chance(3):
            context = {"kind": "runtime-context", "form": "snapshot", "sections": []}
            self.say("user/message", self.message("user", context, text("noon")))
        if self._header is None or self.chance(4):
            self._request()

    def _end_step(self) -> None:
        self.add("step/end", self.here())
        self._in_step = False

    def _request(self) -> None:
        """Write what a request to the model is made with."""
        self._provider = self._rng.choice("pq")
        config: Row = {"provider": self._provider, "model": "m"}
        header: Row = {"config": config, "tools": [*TOOLS, DEFERRED]}
        if self.chance(2):
            config["maxTokens"] = 100
            header["adapterDefaults"] = {"maxTokens": True}
        reason = "initial" if self._header is None else self._rng.choice(("change", "series"))
        self._header = self.add("request/header", {"header": header, "reason": reason})
        if self.chance(2):
            self.add("request/context", {"provider": self._provider, "model": "m"})

    # The model

    def _requests(self) -> None:
        """Write attempts that fail and are repeated, and the one that succeeds."""
        for policy in self._rng.choice(("", "", "a", "ab")):
            chain = self.fresh("retry")
            for number in range(1, self._rng.randint(1, 3) + 1):
                self._retry(policy, chain, number)
        self._answer()

    def _attempt(self) -> None:
        finish = {"type": "finish", "reason": {"kind": "error", "failure": FAILURE}}
        self.add("assistant/attempt", self.here(stream=[self._chunk(finish)]))

    def _retry(self, policy: str, chain: str, number: int) -> None:
        self._attempt()
        retry: Row = {"retryId": chain, "retry": number, "provider": self._provider}
        retry |= {"policyKey": policy, "delayMs": 12.5, "failure": FAILURE, "mode": "always"}
        if policy == "a":
            retry |= {"mode": "normal", "maxRetries": 3}
        self.add("llm/retry", self.here(**retry))
        if not self.chance(8):
            self.add("llm/retry-started", self.here(retryId=chain, retry=number))

    def _give_up(self) -> None:
        """Fail for good; the step may be closed before that is known."""
        chain = self.fresh("retry")
        if self.chance(2):
            self._retry("a", chain, 1)
            self._attempt()
            self._end_step()
        else:
            self._attempt()
            self._end_step()
            self._retry_late(chain)
        self._end_turn({"kind": "error", "error": FAILURE})

    def _retry_late(self, chain: str) -> None:
        retry: Row = {"retryId": chain, "retry": 1, "provider": self._provider, "delayMs": 0}
        more = {"policyKey": "late", "mode": "always", "failure": FAILURE}
        self.add("llm/retry", self.here(**retry, **more))

    def _chunk(self, chunk: Row) -> Row:
        return {"type": "chunk", "time": START + len(self.events), "chunk": chunk}

    def _answer(self) -> None:
        """Write an answer; its calls wait for their tools."""
        if self.chance(2):
            self._deliver()
        blocks = text("well")
        for call in self._rng.sample(("c1", "c2", "c3"), self._rng.choice((0, 1, 1, 2, 3))):
            block = {"type": "tool-call", "id": call, "name": self._rng.choice(("bash", "read"))}
            blocks.append({**block, "arguments": self._rng.choice(("{}", '{"path":"/x"}', "{"))})
            self._calls[call] = None
        stream: list[Row] = []
        for index, block in enumerate(blocks):
            start = {"type": "block-start", "index": index, "blockType": block["type"]}
            end = {"type": "block-end", "index": index, "block": block}
            stream += [self._chunk(start), self._chunk(end)]
        kind = "tool-calls" if self._calls else "stop"
        stream.append(self._chunk({"type": "finish", "reason": {"kind": kind}}))
        source = {"kind": "model", "provider": self._provider, "model": "m"}
        message = self.message("assistant", source, blocks)
        self.say("assistant/message", self.here(message=message, stream=stream))

    def _deliver(self) -> None:
        marker: Row = {"sessionId": self._session, "throughSeq": len(self.events) - 1}
        if self.chance(5):
            # Of another generation: it says nothing about this log.
            marker |= {"sessionId": "other", "throughSeq": 10**6}
        else:
            marker["sessionFormatVersion"] = 4
        self.add("session-log-deepseek/delivery-accepted", marker)

    def _crash(self) -> None:
        """End in the middle of something, and be resumed."""
        if self.chance(3):
            self._torn_compaction()
        else:
            self._answer()
            self._start_some()
        self._close("interrupted")
        self.add("session/end-seed", {})
