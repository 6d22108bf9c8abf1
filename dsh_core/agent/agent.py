"""One agent: its messages, its status, its session."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from dsh_core.abort import DEFAULT_REASON, AbortController
from dsh_core.agent.answer import answer_in
from dsh_core.agent.inbox import NEXT_STEP, NEXT_TURN, Inbox
from dsh_core.session.entry import APPEND
from dsh_core.session.messages import tagged

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_core.context import Context
    from dsh_core.session import Session

    Content = str | Sequence[Mapping[str, Any]]

USER: Final = {"kind": "user"}
"""Source of what a person says."""


class AgentStatus(StrEnum):
    """What an agent is doing."""

    IDLE = "idle"
    RUNNING = "running"
    DISPOSED = "disposed"


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What an agent is made with.

    Attributes:
        model: The model that it talks to.
        system_prompt: Standing instructions for the model.
        max_tokens: How long an answer may be, None for the adapter's default.
        temperature: How varied answers may be, None for the provider's default.
        cwd: Working directory that its session is stored under.
        grace_s: How long a tool may take to notice that it is aborted, in seconds; one that waits
            for longer is cancelled.
        patience_s: How long work that is aborted by the agent's end may take to notice, in seconds.
    """

    model: str = ""
    system_prompt: str = ""
    max_tokens: int | None = None
    temperature: float | None = None
    cwd: str = ""
    grace_s: float = 0.1
    patience_s: float = 5.0


def random_id() -> str:
    """Return an id that nothing else has."""
    return str(uuid.uuid4())


class Agent:
    """Who talks to a model.

    Emits ``agent/status`` (agent, status), ``agent/queued`` (agent, message, whether it steers) and
    ``agent/steering`` (agent, message).

    Args:
        ctx: The context that it lives in.
        id: Its id.
        session: Where all it does is logged.
        options: What it is made with.
        new_id: Returns ids for messages.

    Attributes:
        id: Its id.
        session: Its session.
        options: What it is made with.
        inbox: The messages that wait for it.
        new_id: Returns ids for messages.
        work: Aborts what it does; renewed with every step.
        woken: Set when there may be something to do.
    """

    def __init__(
        self,
        ctx: Context,
        id: str,  # noqa: A002 - the name of it
        session: Session,
        options: AgentOptions,
        new_id: Callable[[], str] = random_id,
    ) -> None:
        self.id = id
        self.session = session
        self.options = options
        self.inbox = Inbox(session.append)
        self.new_id = new_id
        self.work = AbortController()
        self.woken = asyncio.Event()
        self._ctx = ctx
        self._status = AgentStatus.IDLE
        self._settled = asyncio.Event()
        self._settled.set()

    @property
    def status(self) -> AgentStatus:
        """What it is doing."""
        return self._status

    @property
    def alive(self) -> bool:
        """Whether anything can be said to it."""
        return self._status is not AgentStatus.DISPOSED

    def become(self, status: AgentStatus) -> None:
        """Change the status and tell everybody, unless there is nothing to change; for the loop."""
        if status is self._status or not self.alive:
            return
        self._status = status
        self._ctx.emit("agent/status", self, status)

    def send(self, content: Content, *, source: Mapping[str, Any] = USER) -> str:
        """Say something to it; a turn begins when it is idle, or with its next one.

        Args:
            content: A text, or content blocks.
            source: Who says it.

        Returns:
            Id of the message.

        Raises:
            RuntimeError: It is disposed.
        """
        return self._queue(NEXT_TURN, content, source)

    async def ask(self, content: Content, *, source: Mapping[str, Any] = USER) -> str:
        """Say something to it, and wait until it has nothing left to do, see `send`, `settled`.

        Args:
            content: A text, or content blocks.
            source: Who says it.

        Returns:
            The text of the last answer since.

        Raises:
            RuntimeError: It is disposed.
            TurnError: The last turn has ended without one.
        """
        start = self.session.seq
        self.send(content, source=source)
        await self.settled()
        return answer_in(self.session.events[start:])

    def steer(self, content: Content, *, source: Mapping[str, Any] = USER) -> str:
        """Say something that the running turn must heed; when it is idle, the same as `send`.

        It joins before the next request to the model, and there will be one. What comes too late
        for that begins a turn of its own.

        Args:
            content: A text, or content blocks.
            source: Who says it.

        Returns:
            Id of the message.

        Raises:
            RuntimeError: It is disposed.
        """
        running = self._status is AgentStatus.RUNNING
        return self._queue(NEXT_STEP if running else NEXT_TURN, content, source)

    def inject(self, content: Content, *, source: Mapping[str, Any]) -> str:
        """Add something for the model to know, at once and without a turn.

        Args:
            content: A text, or content blocks.
            source: Where it comes from; the model is told its kind.

        Returns:
            Id of the message.

        Raises:
            RuntimeError: It is disposed.
        """
        self._require_life()
        inner = tagged("context", str(source.get("kind", "")), _blocks(content))
        message = self._message(inner, source)
        self.session.append("user/message", message, surface_op=APPEND)
        return str(message["id"])

    async def settled(self) -> None:
        """Wait until nothing is left to do, or its life is over."""
        await self._settled.wait()

    def settle(self) -> None:
        """Say that nothing is left to do; for the loop."""
        self._settled.set()

    def abort(self, reason: object = DEFAULT_REASON) -> None:
        """Abort the current step; without one nothing happens.

        Args:
            reason: Why, for people.
        """
        if self._status is AgentStatus.RUNNING:
            self.work.abort(reason)

    def dispose(self) -> None:
        """End its life: nothing can be said to it any more, and what it does is aborted."""
        running = self._status is AgentStatus.RUNNING
        try:
            self.become(AgentStatus.DISPOSED)
        finally:
            if running:
                self.work.abort("disposed")
            self.woken.set()

    def _queue(self, target: str, content: Content, source: Mapping[str, Any]) -> str:
        self._require_life()
        message = self._message(_blocks(content), source)
        self._settled.clear()
        try:
            self.inbox.put(target, message)
            self._ctx.emit("agent/queued", self, message, target == NEXT_STEP)
            if target == NEXT_STEP:
                self._ctx.emit("agent/steering", self, message)
        finally:
            # It is in the list, whatever a listener thinks of that.
            self.woken.set()
        return str(message["id"])

    def _message(self, content: list[Any], source: Mapping[str, Any]) -> dict[str, Any]:
        return {"id": self.new_id(), "role": "user", "content": content, "source": dict(source)}

    def _require_life(self) -> None:
        if not self.alive:
            raise RuntimeError(f'agent "{self.id}" is disposed')


def _blocks(content: Content) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    given: object = content
    if not isinstance(given, Sequence) or not all(map(_is_block, given)):
        raise TypeError("content is a text, or a list of blocks: mappings with a `type`")
    return [dict(block) for block in given]


def _is_block(block: object) -> bool:
    return isinstance(block, Mapping) and isinstance(block.get("type"), str)
