"""Random programs: whatever plugins, models and tools do, logs stay legal and everything ends."""

from __future__ import annotations

import asyncio
import itertools
import logging
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings

from dsh_core import invariants
from dsh_core.agent import Agent, AgentLoop, AgentRegistry, AgentStatus
from dsh_core.context import Context, Fiber
from dsh_core.llm import Llm, ScriptedAdapter
from dsh_core.session import Session, SessionStore
from dsh_core.session.closing import open_place
from dsh_core.tools import ToolDefinition, ToolRegistry
from tests.core.agent.programs import ON_AGENTS, PROGRAMS, TOOLS, Listener, Loop, Program, Stop
from tests.core.agent.support import MODEL, NOW, assert_legal, leftovers
from tests.core.context.support import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

BUDGET: Final = 6
"""What listeners may do to agents in one program: they could go on for ever."""

LEGAL: Final = {
    (AgentStatus.IDLE, AgentStatus.RUNNING),
    (AgentStatus.RUNNING, AgentStatus.IDLE),
    (AgentStatus.IDLE, AgentStatus.DISPOSED),
    (AgentStatus.RUNNING, AgentStatus.DISPOSED),
}


@pytest.fixture(autouse=True)
def _silent() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def run_bounded(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run something in so many iterations of the loop; what nobody looks after is a failure."""
    unseen: list[Any] = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with asyncio.Runner(loop_factory=Loop) as runner:
            runner.get_loop().set_exception_handler(lambda _, what: unseen.append(what))
            runner.run(main())
    assert [str(one.message) for one in warned] == []
    assert [one for one in unseen if not isinstance(one.get("exception"), Stop)] == []


def _ignoring_arguments(tool: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda _arguments, execution: tool(execution)


@dataclass
class Running:
    """A random program while it runs."""

    program: Program
    ctx: Any = field(default_factory=Context)
    fibers: list[Fiber] = field(default_factory=list)
    agents: list[Agent] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    statuses: dict[int, list[AgentStatus]] = field(default_factory=dict)
    said: list[tuple[Agent, str]] = field(default_factory=list)
    stops: list[Any] = field(default_factory=list)
    budget: int = BUDGET
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def whole(self) -> None:
        await self.begin()
        for what, with_what in self.program.steps:
            # Listeners raise.
            with suppress(Exception, asyncio.CancelledError, Stop):
                await self.step(what, with_what)
        for _ in range(200):
            await asyncio.sleep(0)
        await self.ctx.dispose()
        for _ in range(5):
            await asyncio.sleep(0)
        self.judge()

    async def begin(self) -> None:
        ctx, script = self.ctx, ScriptedAdapter(self.program.script)
        ctx.on("session/created", self.sessions.append)
        ctx.on("agent/created", self.note_agent)
        ctx.on("agent/status", lambda agent, status: self.statuses[id(agent)].append(status))

        def sessions(inner: Context) -> None:
            SessionStore(inner, clock=lambda: NOW)

        def loop(inner: Context) -> None:
            config = {"model": MODEL, "patience_s": self.program.patience_s}
            AgentLoop(inner, config, new_id=lambda: f"id-{next(self.ids)}")

        def model(inner: Any) -> None:
            inner.effect(lambda: inner.llm.register_adapter([MODEL], script))

        def tools(inner: Any) -> None:
            for name, tool in TOOLS.items():
                made = ToolDefinition(name, "", {"type": "object"}, _ignoring_arguments(tool))
                inner.effect(lambda made=made: inner.tools.register(made))

        loop.inject = AgentLoop.inject  # type: ignore[attr-defined]
        model.inject, tools.inject = ("llm",), ("tools",)  # type: ignore[attr-defined]
        for plugin in (sessions, Llm, ToolRegistry, AgentRegistry, loop, model, tools):
            self.fibers.append(ctx.plugin(plugin))
        if self.program.guarded:
            self.fibers.append(ctx.plugin(invariants))
        for fiber in self.fibers:
            await fiber
        for listener in self.program.listeners:
            self.listen(listener)
        with suppress(Exception):
            self.create(len(self.program.script) % 3)
            self.do("send", 0)

    def note_agent(self, agent: Agent) -> None:
        self.agents.append(agent)
        self.statuses[id(agent)] = [AgentStatus.IDLE]

    def create(self, place: int, session: Session | None = None) -> None:
        loop = self.ctx.get("agent_loop")
        if loop is not None:
            prompt = f"be good {place}" if place else ""
            id_ = f"a{place}-{next(self.ids)}"
            loop.create(id_, session=session, system_prompt=prompt)

    def listen(self, listener: Listener) -> None:
        count = itertools.count()

        def heard(*args: Any) -> Any:
            due = listener.first <= next(count) < listener.first + listener.times
            next_ = args[-1] if callable(args[-1]) else None
            if not due:
                return None if next_ is None else next_()
            if listener.does in ON_AGENTS:
                self.budget -= 1
                if self.budget >= 0:
                    self.do(listener.does, 0)
                return None
            return listener.answer(next_)

        self.stops.append(self.ctx.on(listener.name, heard))

    def do(self, what: str, place: int) -> None:
        """Do something to an agent."""
        if not self.agents:
            return
        agent = self.agents[place % len(self.agents)]
        if what in {"send", "steer"}:
            waiting = agent.inbox.waiting()
            try:
                self.said.append((agent, getattr(agent, what)("hi")))
            except RuntimeError:
                assert agent.inbox.waiting() >= waiting
                raise
        elif what == "inject":
            agent.inject([{"type": "text", "text": "know"}], source={"kind": "test"})
        else:
            getattr(agent, what)()

    async def step(self, what: str, with_what: Any) -> None:
        """Do what a step says."""
        if what in ON_AGENTS:
            self.do(what, with_what)
        elif what == "wait":
            for _ in range(with_what):
                await asyncio.sleep(0)
        elif what == "listen":
            self.listen(with_what)
        elif what == "unlisten" and self.stops:
            self.stops.pop(with_what % len(self.stops))()
        elif what == "load":
            self.fibers.append(self.ctx.plugin(invariants))
        elif what in {"restart", "unload"}:
            fiber = self.fibers[-1 - with_what % len(self.fibers)]
            await (fiber.restart() if what == "restart" else fiber.dispose())
        elif what == "create":
            self.create(with_what)
        elif self.agents:
            self.handle(what, self.agents[with_what % len(self.agents)])

    def handle(self, what: str, agent: Agent) -> None:
        """Do something that is not nice to an agent, or fork it."""
        if what == "fork":
            self.create(1, self.ctx.get("sessions").fork(agent.session))
        elif what == "bad send":
            agent.send([{"type": "text", "text": object()}])
        else:
            for task in asyncio.all_tasks():
                if task.get_name() == f"agent {agent.id}":
                    task.cancel()

    def judge(self) -> None:
        """Look at what is left."""
        assert leftovers(self.ctx) == NOTHING
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        # A listener of `parallel` that hangs is on its own once another one has raised.
        assert [task for task in tasks if "_call" not in repr(task.get_coro())] == []
        assert_legal(*self.sessions)
        for session in self.sessions:
            assert open_place(session.events) == (None, None)
        for statuses in self.statuses.values():
            assert statuses[-1] is AgentStatus.DISPOSED
            assert set(itertools.pairwise(statuses)) <= LEGAL
        for agent, id_ in self.said:
            waiting = [m["id"] for messages in agent.inbox._lists.values() for m in messages]
            logged = [e.data["id"] for e in agent.session.events if e.type == "user/message"]
            assert [*waiting, *logged].count(id_) == 1


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(PROGRAMS)
def test_no_random_program_breaks_the_contract_hangs_or_leaves_anything_behind(
    program: Program,
) -> None:
    run_bounded(Running(program).whole)
