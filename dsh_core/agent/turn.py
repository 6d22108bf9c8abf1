"""One turn of an agent: from the messages that wait to the last answer."""

from __future__ import annotations

import asyncio
import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dsh_core.abort import AbortController, AbortError
from dsh_core.agent.inbox import NEXT_STEP
from dsh_core.agent.report import report
from dsh_core.agent.step import Step
from dsh_core.errors import error_code, error_data, to_error
from dsh_core.llm import failure_data
from dsh_core.session.closing import INTERRUPTED, closers
from dsh_core.session.entry import APPEND

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_core.agent.agent import Agent
    from dsh_core.context import Context

COMPLETED: Final = {"kind": "completed"}
MAX_TOKENS: Final = "max-tokens"
FLUSH_FAILED: Final = "plugin:dsh-core/flush-failed"
"""Logged when what was to be stored after a turn was not; other readers may skip it."""

_MAX_TEXT: Final = 2000


class Turn:
    """Runs one turn. Whatever happens in it, the log says how it ended.

    Emits ``agent/turn-start`` and ``agent/turn-end`` (agent, turn), around each step
    ``agent/step-start`` and ``agent/step-end`` (agent, turn, step), ``agent/error`` (agent, error);
    asks ``agent/turn-continuation`` (agent, next) whether there is another step, and lets
    ``session/flush`` (session) store what was logged.

    Args:
        ctx: Where the services are.
        agent: The agent.
    """

    def __init__(self, ctx: Context, agent: Agent) -> None:
        self._ctx = ctx
        self._agent = agent
        self._session = agent.session
        self._claimed: list[dict[str, Any]] = []

    async def run(self) -> None:
        """Run it to its end; only a cancelled task raises."""
        agent = self._agent
        agent.work = AbortController()
        turn = 1 + next(
            (entry.data["turn"] for entry in reversed(self._session.events) if _begins(entry)), 0
        )
        reason: dict[str, Any] = COMPLETED
        try:
            self._session.append("turn/start", {"turn": turn})
            self._ctx.emit("agent/turn-start", agent, turn)
            reason = await self._steps(turn)
        except asyncio.CancelledError:
            self._close(_aborted("disposed"))
            raise
        except Exception as error:  # noqa: BLE001 - it ends the turn, and nothing else
            reason = self._reason(to_error(error))
        self._close(reason)
        self._quietly(lambda: self._ctx.emit("agent/turn-end", agent, turn))
        await self._flush()
        self._quietly(agent.inbox.postpone)

    async def _steps(self, turn: int) -> dict[str, Any]:
        agent, number, again = self._agent, 0, True
        while again:
            number += 1
            self._claim(first=number == 1)
            self._ctx.emit("agent/step-start", agent, turn, number)
            self._session.append("step/start", {"turn": turn, "step": number})
            step = Step(self._ctx, agent, turn, number)
            step.hear(self._claimed)
            kind = await step.run()
            self._session.append("step/end", {"turn": turn, "step": number})
            self._ctx.emit("agent/step-end", agent, turn, number)
            agent.work.signal.raise_if_aborted()
            if kind == MAX_TOKENS:
                return {"kind": MAX_TOKENS}
            again = await self._continues(default=step.called_tools)
            agent.work.signal.raise_if_aborted()
            agent.work = AbortController()
        return COMPLETED

    def _claim(self, *, first: bool) -> None:
        inbox = self._agent.inbox
        while first and (message := inbox.claim_turn()) is not None:
            self._claimed.append(message)
        self._claimed += inbox.claim_step()

    async def _continues(self, *, default: bool) -> bool:
        inbox = self._agent.inbox
        answer = self._ctx.waterfall(
            "agent/turn-continuation",
            self._agent,
            inner=lambda _agent: default or bool(inbox.waiting(NEXT_STEP)),
        )
        if inspect.isawaitable(answer):
            answer = await answer
        # What somebody has said into the turn is heard in it.
        return bool(answer) or bool(inbox.waiting(NEXT_STEP))

    def _reason(self, error: Exception) -> dict[str, Any]:
        agent = self._agent
        if not agent.alive:
            return _aborted("disposed")
        if isinstance(error, AbortError) and agent.work.signal.aborted:
            return _aborted("user")
        report(self._ctx, agent, error)
        failure: dict[str, Any] = dict(failure_data(error))
        # An error of the operating system has a code too, if not one of the harness.
        failure["code"] = error_code(error) or failure["code"]
        return {"kind": "error", "error": failure}

    def _close(self, reason: dict[str, Any]) -> None:
        """Log what ends the turn, and whatever is still missing inside it."""
        append = self._session.append
        while self._claimed:
            said = self._claimed.pop(0)
            self._quietly(partial(append, "user/message", said, surface_op=APPEND))
        for one in closers(self._session.events, INTERRUPTED, reason):
            self._quietly(
                partial(
                    append,
                    one.type,
                    one.data,
                    surface_op=one.surface_op,
                    source_event_seqs=one.sources,
                )
            )

    async def _flush(self) -> None:
        try:
            await self._ctx.parallel("session/flush", self._session)
        except Exception as error:  # noqa: BLE001 - reported; the agent goes on
            data = error_data(error)
            data["message"] = data["message"][:_MAX_TEXT]
            self._quietly(lambda: self._session.append(FLUSH_FAILED, data, ignorable=True))
            report(self._ctx, self._agent, error)

    def _quietly(self, action: Callable[[], object]) -> None:
        """Do something that must be done whatever its listeners raise."""
        try:
            action()
        except Exception as error:  # noqa: BLE001 - reported; what was to be logged is logged
            report(self._ctx, self._agent, error)


def _begins(entry: Any) -> bool:  # noqa: ANN401 - an entry of a log that others may have written
    return entry.type == "turn/start" and type(entry.data.get("turn")) is int


def _aborted(kind: str) -> dict[str, Any]:
    return {"kind": "aborted", "reason": {"kind": kind}}
