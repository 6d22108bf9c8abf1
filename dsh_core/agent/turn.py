"""One turn of an agent: from the messages that wait to the last answer."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dsh_core.abort import RAISED, AbortController
from dsh_core.agent.inbox import NEXT_STEP
from dsh_core.agent.report import report
from dsh_core.agent.step import Step
from dsh_core.agent.waiting import settled
from dsh_core.errors import HarnessError, error_code, error_data, to_error
from dsh_core.llm import failure_data
from dsh_core.llm.text import clip
from dsh_core.session.closing import INTERRUPTED, Closer, closers
from dsh_core.session.entry import APPEND

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_core.agent.agent import Agent
    from dsh_core.context import Context

COMPLETED: Final = {"kind": "completed"}
MAX_TOKENS: Final = "max-tokens"
FLUSH_FAILED: Final = "plugin:dsh-core/flush-failed"
"""Logged when what was to be stored after a turn was not; other readers may skip it."""


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
        self._heard = False
        self._step: tuple[int, int] | None = None

    async def run(self) -> None:
        """Run it to its end; only a cancelled task raises, and what stops the interpreter."""
        agent = self._agent
        turn = 1 + next(
            (entry.data["turn"] for entry in reversed(self._session.events) if _begins(entry)), 0
        )
        reason: dict[str, Any] = COMPLETED
        try:
            self._session.append("turn/start", {"turn": turn})
            self._ctx.emit("agent/turn-start", agent, turn)
            reason = await self._steps(turn)
        except Exception as error:  # noqa: BLE001 - it ends the turn, and nothing else
            reason = self._reason(error)
        except BaseException as error:
            if not _is_own(error):
                self._end(turn, _aborted("disposed"))
                raise
            reason = self._reason(HarnessError("cancelled from within", "CANCELLED", cause=error))
        self._end(turn, reason)
        await self._flush()
        self._quietly(agent.inbox.postpone)

    async def _steps(self, turn: int) -> dict[str, Any]:
        agent, number, again = self._agent, 0, True
        while again:
            number += 1
            self._claim(first=number == 1)
            self._step = (turn, number)
            self._ctx.emit("agent/step-start", agent, turn, number)
            self._session.append("step/start", _place(turn, number))
            step = Step(self._ctx, agent, turn, number)
            step.hear(self._claimed)
            kind = await step.run()
            self._session.append("step/end", _place(turn, number))
            self._tell_step_end()
            agent.work.signal.raise_if_aborted()
            if kind == MAX_TOKENS:
                return {"kind": MAX_TOKENS}
            again = await self._continues(default=step.called_tools)
            agent.work.signal.raise_if_aborted()
            agent.work = AbortController()
        return COMPLETED

    def _claim(self, *, first: bool) -> None:
        inbox, self._heard = self._agent.inbox, True
        while first and inbox.claim_turn(self._claimed):
            pass
        inbox.claim_step(self._claimed)

    async def _continues(self, *, default: bool) -> bool:
        inbox = self._agent.inbox
        answer = await settled(
            self._ctx.waterfall(
                "agent/turn-continuation",
                self._agent,
                inner=lambda _agent: default or bool(inbox.waiting(NEXT_STEP)),
            )
        )
        # What somebody has said into the turn is heard in it.
        return bool(answer) or bool(inbox.waiting(NEXT_STEP))

    def _reason(self, error: Exception) -> dict[str, Any]:
        agent = self._agent
        if not agent.alive:
            return _aborted("disposed")
        if agent.work.signal.aborted:
            # Whatever it has raised, it did so because it had to stop.
            return _aborted("user")
        report(self._ctx, agent, error)
        failure: dict[str, Any] = dict(failure_data(error))
        if isinstance(error, OSError):
            # An error of the operating system has a code too, if not one of the harness.
            failure["code"] = error_code(error) or failure["code"]
        return {"kind": "error", "error": failure}

    def _end(self, turn: int, reason: dict[str, Any]) -> None:
        """Log what ends the turn, and whatever is still missing inside it; tell everybody."""
        if self._agent.alive and not self._heard:
            # It failed before it could listen: were they to wait on, turns would never end.
            self._quietly(partial(self._claim, first=True))
        while self._claimed:
            said = self._claimed.pop(0)
            self._quietly(partial(self._log, Closer("user/message", said, None, APPEND)))
        for one in closers(self._session.events, INTERRUPTED, reason):
            self._quietly(partial(self._log, one))
            if one.type == "step/end":
                self._quietly(self._tell_step_end)
        self._quietly(self._tell_step_end)
        self._quietly(lambda: self._ctx.emit("agent/turn-end", self._agent, turn))

    def _log(self, one: Closer) -> None:
        self._session.append(
            one.type, one.data, surface_op=one.surface_op, source_event_seqs=one.sources
        )

    def _tell_step_end(self) -> None:
        """Tell of the end of the step that the start was told of."""
        if self._step is not None:
            step, self._step = self._step, None
            self._ctx.emit("agent/step-end", self._agent, *step)

    async def _flush(self) -> None:
        try:
            await self._ctx.parallel("session/flush", self._session)
        except Exception as error:  # noqa: BLE001 - reported; the agent goes on
            self._flush_failed(error)
        except asyncio.CancelledError as error:
            if not _is_own(error):
                raise
            self._flush_failed(to_error(error))

    def _flush_failed(self, error: Exception) -> None:
        data = {key: clip(str(text)) for key, text in error_data(error).items()}
        self._quietly(lambda: self._session.append(FLUSH_FAILED, data, ignorable=True))
        report(self._ctx, self._agent, error)

    def _quietly(self, action: Callable[[], object]) -> None:
        """Do something that must be done whatever its listeners raise."""
        try:
            action()
        except RAISED as error:
            report(self._ctx, self._agent, to_error(error))


def _begins(entry: Any) -> bool:  # noqa: ANN401 - an entry of a log that others may have written
    return entry.type == "turn/start" and type(entry.data.get("turn")) is int


def _place(turn: int, step: int) -> dict[str, Any]:
    return {"turn": turn, "step": step}


def _is_own(error: BaseException) -> bool:
    """Whether somebody's work was cancelled while this task is not: an ordinary failure."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and not task.cancelling()


def _aborted(kind: str) -> dict[str, Any]:
    return {"kind": "aborted", "reason": {"kind": kind}}
