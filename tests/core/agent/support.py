"""What the tests of agents share: a small program, and the check of every log that it leaves."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dsh_core.agent import Agent, AgentLoop, AgentRegistry, AgentStatus
from dsh_core.context import Context
from dsh_core.contract.checker import Checker
from dsh_core.contract.findings import Finding, Severity
from dsh_core.llm import Llm, ScriptedAdapter
from dsh_core.logs.write import header_row
from dsh_core.session import Session, SessionStore
from dsh_core.tools import ToolRegistry, define_tool
from tests.core.context.support import leftovers, sync, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

__all__ = ["NOW", "World", "assert_legal", "leftovers", "sync", "until", "violations", "world"]

NOW: Final = 1_750_000_000_000
"""The time, always."""

MODEL: Final = "m"
"""The model that the script speaks for."""


def violations(session: Session) -> list[Finding]:
    """Return what is wrong with a session's log, the worst severity only."""
    header = session.header
    checker = Checker(header, header_row=header_row(header), strict=True)
    found: list[Finding] = []
    for entry in session.events:
        found += checker.observe(entry.event)
    found += checker.finish()
    assert checker.disabled == []
    # The grammar of a stream is the model's, and some models here break it.
    return [f for f in found if f.severity is Severity.VIOLATION and f.owner != "llm"]


def assert_legal(*sessions: Session) -> None:
    """Have the logs of sessions checked: advice is fine, violations are not."""
    for session in sessions:
        assert [(f.rule, f.seq, f.message) for f in violations(session)] == []


@dataclass
class World:
    """A program with one agent's worth of everything.

    Attributes:
        ctx: The root.
        llm: Speaks what the script says.
        loop: Drives the agents.
        sessions: All sessions there were.
        heard: What the `hear` listeners heard.
    """

    ctx: Any
    script: ScriptedAdapter
    loop: AgentLoop
    sessions: list[Session] = field(default_factory=list)
    heard: list[Any] = field(default_factory=list)

    def agent(self, id_: str = "a", **options: Any) -> Agent:
        """Make an agent that talks to the script."""
        return self.loop.create(id_, **{"model": MODEL, **options})

    def tool(self, name: str, execute: Callable[..., Any]) -> None:
        """Offer a tool without parameters; it gets its execution."""
        self.ctx.tools.register(
            define_tool(
                name=name,
                description="",
                parameters={},
                execute=lambda _arguments, execution: execute(execution),
            )
        )

    def hear(self, *names: str) -> None:
        """Note the events of some names, in their order, with what they carry."""
        for name in names:
            self.ctx.on(name, lambda *args, name=name: self.heard.append((name, *args[1:])))

    async def say(self, agent: Agent, text: str = "hi") -> None:
        """Say something to an agent, and wait until it is idle again."""
        agent.send(text)
        await done(agent)


async def done(agent: Agent) -> None:
    """Wait until an agent has nothing to do, or is disposed."""
    await until(lambda: not agent.inbox.waiting() and agent.status is not AgentStatus.RUNNING)


@asynccontextmanager
async def world(*script: Any) -> AsyncIterator[World]:
    """Start a program whose model says what a script says; at its end all logs are checked."""
    ctx: Any = Context()
    ids = itertools.count(1)
    SessionStore(ctx, clock=lambda: NOW)
    Llm(ctx)
    ToolRegistry(ctx)
    AgentRegistry(ctx)
    loop = AgentLoop(ctx, {"patience_s": 0.05}, new_id=lambda: f"id-{next(ids)}")
    adapter = ScriptedAdapter(script)
    ctx.llm.register_adapter([MODEL], adapter)
    made = World(ctx, adapter, loop)
    ctx.on("session/created", made.sessions.append)
    try:
        async with asyncio.timeout(20):
            yield made
    finally:
        await ctx.dispose()
    assert_legal(*made.sessions)
    assert asyncio.all_tasks() == {asyncio.current_task()}


def types(session: Session) -> list[str]:
    """Return the types of a log."""
    return [entry.type for entry in session.events]


def of_type(session: Session, type_: str) -> list[Any]:
    """Return the payloads of all events of a type."""
    return [entry.data for entry in session.events if entry.type == type_]


def reasons(session: Session) -> list[dict[str, Any]]:
    """Return why the turns of a session have ended."""
    return [data["reason"] for data in of_type(session, "turn/end")]


def texts(session: Session, type_: str = "user/message") -> list[str]:
    """Return the first text of all messages of a type."""
    found = [data.get("message", data) for data in of_type(session, type_)]
    return [message["content"][0]["text"] for message in found if message["content"]]
