"""Programs of `dsh_core` that store their sessions where the runtime finds them."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from dsh_core import program
from dsh_core.context import Context
from dsh_core.llm import ScriptedAdapter, calls, fails, says
from dsh_core.llm import chunks as make
from dsh_core.session import stored
from dsh_core.tools import define_tool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from dsh_core.agent import Agent
    from dsh_core.llm.options import Adapter
    from dsh_core.llm.scripted import Reply
    from dsh_core.session import Session
    from dsh_core.tools import ToolExecution

DEADLINE: Final = 60.0
"""Seconds that a program may run."""

CALL: Final = {"type": "tool-call", "id": "c", "name": "add", "arguments": '{"a":1,"b":1}'}
TEXT: Final = {"type": "text", "text": "so"}


class Ours:
    """A program of ours.

    Args:
        ctx: Its root context.
        cwd: The working directory of its sessions.
    """

    def __init__(self, ctx: Any, cwd: Path) -> None:
        self.ctx = ctx
        self._cwd = str(cwd)
        self._numbers = itertools.count(1)

    def session(self, name: str, **header: Any) -> Session:
        """Create a session."""
        session: Session = self.ctx.sessions.create(name, **{"cwd": self._cwd, **header})
        return session

    def agent(self, session: Session, *script: Reply, **options: Any) -> Agent:
        """Make an agent whose model says what it is told to."""
        return self.agent_with(ScriptedAdapter(script), session, **options)

    def agent_with(self, adapter: Adapter, session: Session, **options: Any) -> Agent:
        """Make an agent with an adapter of one's own."""
        name = f"agent-{next(self._numbers)}"
        self.ctx.llm.register_adapter([name], adapter)
        agent: Agent = self.ctx.agent_loop.create(name, session=session, model=name, **options)
        return agent

    async def say(self, agent: Agent, *texts: str) -> None:
        """Say things to an agent, and wait after each until nothing is left to do."""
        for text in texts:
            agent.send(text)
            await agent.settled()


@asynccontextmanager
async def ours(home: Path, cwd: Path, *, compress: bool = True) -> AsyncIterator[Ours]:
    """Run a program with some tools that stores its sessions.

    Args:
        home: The DSH home with its sessions.
        cwd: Their working directory.
        compress: Whether to write zstd.
    """
    ctx: Any = Context()
    await program.start(ctx)
    await ctx.plugin(stored, {"root": home / "sessions", "compress": compress})
    for tool in (add, look, put, stop, nothing):
        ctx.tools.register(define_tool(tool))
    try:
        async with asyncio.timeout(DEADLINE):
            yield Ours(ctx, cwd)
    finally:
        await ctx.dispose()


def add(a: float, b: float) -> str:
    """Add two numbers."""
    return str(a + b)


def look(path: str) -> str:
    """Look into a file."""
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def put(path: str) -> str:
    """Write a file."""
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def stop(exec: ToolExecution) -> str:  # noqa: A002 - what tools call it
    """Stop the agent."""
    exec.agent.abort("enough")
    return "stopping"


def nothing() -> None:
    """Say nothing."""


# -------------------------------------------------------------------------------- a long story

SAID: Final = [
    *("say hello", "hello"),
    *("do three things", "three at once", "done"),
    *("add", "adding", "mind the gap", "minded"),
    *('<context source="weather">', "the sky is green", "</context>"),
    *("be long", "fail", "stop between"),
    *("say much", "too mu"),
]
"""The texts of the story, as a model gets them."""

CALLED: Final = [
    ("call-2-1", "look", {"path": "/nope"}),
    ("call-2-2", "put", {"path": "/sealed"}),
    ("call-2-3", "add", {"a": 2, "b": 3}),
    ("call-4-1", "add", {"a": 1, "b": 2}),
    ("call-8-1", "stop", {}),
    ("call-8-2", "add", {"a": 1, "b": 1}),
]
"""Its calls."""

NOT_STARTED: Final = (
    "The tool call was interrupted before the Harness recorded it as started. "
    "Retry it if it is still needed."
)

RESULTS: Final = [
    ("call-2-1", "Error: [Errno 2] No such file or directory: '/nope'", True),
    ("call-2-2", "Error: [Errno 13] Permission denied: '/sealed'", True),
    ("call-2-3", "5.0", False),
    ("call-4-1", "3.0", False),
    ("call-8-1", "stopping", False),
    ("call-8-2", NOT_STARTED, True),
]
"""Their results."""

ENDS: Final = [
    *("completed", "completed", "completed"),
    *("aborted", "error", "aborted", "max-tokens"),
]
"""How its turns end."""


async def tell(us: Ours, session: Session) -> None:
    """Fill a session with all that can happen in one."""
    agent = us.agent(
        session,
        says("hello", reasoning="hm"),
        calls(
            ("look", {"path": "/nope"}),
            ("put", {"path": "/sealed"}),
            ("add", {"a": 2, "b": 3}),
            text="three at once",
        ),
        "done",
        lambda _: agent.steer("mind the gap") and calls(("add", {"a": 1, "b": 2}), text="adding"),
        "minded",
        "one two three four five",
        fails("SERVER", "overloaded", status=529, retry_after_ms=1000),
        calls(("stop", {}), ("add", {"a": 1, "b": 1})),
        [
            make.block_start(0, "text"),
            make.text_delta(0, "too mu"),
            make.block_end(0, {"type": "text", "text": "too mu"}),
            make.usage_chunk({"inputTokens": 3, "outputTokens": 2}),
            make.finish("max-tokens"),
        ],
        system_prompt="You are part of a test.",
        max_tokens=100,
        temperature=0.5,
    )
    await us.say(agent, "say hello", "do three things", "add")
    agent.inject("the sky is green", source={"kind": "weather"})

    def second_word(_: Agent, chunk: dict[str, Any]) -> None:
        if chunk.get("text") == "two ":
            agent.abort("too long")

    off = us.ctx.on("agent/stream-chunk", second_word)
    await us.say(agent, "be long")
    off()
    await us.say(agent, "fail", "stop between", "say much")


# --------------------------------------------------------------------------------- odd stories


async def _plain(us: Ours, name: str, *script: Reply, **header: Any) -> None:
    await us.say(us.agent(us.session(name, **header), *script), "hi")


async def _new_instructions(us: Ours, name: str) -> None:
    session = us.session(name)
    for prompt in ("Be good.", "Be better.", ""):
        agent = us.agent(session, "yes", system_prompt=prompt)
        await us.say(agent, "hi")
        agent.dispose()


async def _late_instructions(us: Ours, name: str) -> None:
    session = us.session(name)
    for prompt in ("", "Be good."):
        agent = us.agent(session, "yes", system_prompt=prompt)
        await us.say(agent, "hi")
        agent.dispose()


async def _late_steering(us: Ours, name: str) -> None:
    agent = us.agent(us.session(name), "yes", "again")
    us.ctx.once("agent/turn-end", lambda *_: agent.steer("too late"))
    await us.say(agent, "hi")


async def _waiting(us: Ours, name: str) -> None:
    def end(_: object) -> str:
        agent.send("for the next turn")
        agent.steer("for the next step")
        agent.dispose()
        return "nobody hears this"

    agent = us.agent(us.session(name), end)
    await us.say(agent, "hi")


async def _empty_message(us: Ours, name: str) -> None:
    agent = us.agent(us.session(name), "yes")
    agent.send([])
    await agent.settled()


async def _refusing_listener(us: Ours, name: str) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "no", "/sealed")

    off = us.ctx.on("agent/request", refuse)
    await _plain(us, name, "yes")
    off()


async def _failing_flush(us: Ours, name: str) -> None:
    def fail(_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    agent = us.agent(us.session(name), "yes", "again")
    off = us.ctx.on("session/flush", fail)
    await us.say(agent, "hi")
    off()
    await us.say(agent, "hi again")


async def _open_turn(us: Ours, name: str) -> None:
    # What a program leaves that is killed while a tool runs.
    other = us.session(f"{name} before")
    await us.say(us.agent(other, calls(("add", {"a": 1, "b": 1}), ("nothing", {}))), "hi")
    session = us.session(name)
    for entry in other.events:
        if entry.type == "tool/result":
            break
        marked = "append" if entry.surface_op == "append" else None
        session.append(entry.type, entry.data, surface_op=marked)


def _stream(*blocks: dict[str, Any], end: str = "stop") -> list[Any]:
    numbered = list(enumerate(blocks))
    return [
        *(make.block_start(index, block["type"]) for index, block in numbered),
        *(make.block_end(index, block) for index, block in numbered),
        make.finish(end),
    ]


def _of(*script: Reply, **header: Any) -> Callable[[Ours, str], Awaitable[None]]:
    return lambda us, name: _plain(us, name, *script, **header)


STORIES: Final[dict[str, Callable[[Ours, str], Awaitable[None]]]] = {
    "no working directory": _of("yes", cwd=""),
    "an id/with: odd~things": _of("yes"),
    "no instructions": _of("yes"),
    "new instructions": _new_instructions,
    "late instructions": _late_instructions,
    "late steering": _late_steering,
    "messages still wait": _waiting,
    "an empty message": _empty_message,
    "an empty answer": _of(""),
    "an empty text": _of(_stream({"type": "text", "text": ""})),
    "an empty result": _of(calls(("nothing", {})), "yes"),
    "no JSON": _of(calls(("add", "no JSON"), ("no such tool", {})), "yes"),
    "one id in two steps": _of(*[_stream(CALL, end="tool-calls")] * 2, "yes"),
    "one id twice": _of(_stream(CALL, {**CALL, "id": ""}, CALL, end="tool-calls"), "yes"),
    "a stop between calls": _of(calls(("stop", {}), ("add", {}), ("add", {}))),
    "a signature": _of(_stream({"type": "reasoning", "text": "hm", "signature": "c2ln"}, TEXT)),
    "a redaction": _of(_stream({"type": "reasoning", "text": "", "redactedData": "eA"}, TEXT)),
    "an exception": _of(RuntimeError("boom")),
    "an errno": _of(OSError(errno.ENOSPC, "no room")),
    "no end": _of([make.block_start(0, "text"), make.text_delta(0, "half")]),
    "odd chunks": _of([{"type": "odd"}, make.text_delta(0, "half"), make.finish("stop")]),
    "a listener that refuses": _refusing_listener,
    "a failing flush": _failing_flush,
    "an open turn": _open_turn,
    "a subagent": _of("yes", parent_session="p", origin="subagent", delegation_depth=1),
}
"""Sessions that are odd in one way each."""
