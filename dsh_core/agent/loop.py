"""The loop: drives agents from turn to turn."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from dsh_core.abort import RAISED, AbortController
from dsh_core.agent.agent import Agent, AgentOptions, AgentStatus, random_id
from dsh_core.agent.report import report
from dsh_core.agent.turn import Turn
from dsh_core.context import Service
from dsh_core.context.effects import Disposer
from dsh_core.errors import to_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from dsh_core.context import Context
    from dsh_core.session import Session

MAX_ID: Final = 200
"""Characters of an agent's id."""

LAST_PATIENCE_S: Final = 1.0
"""How long work that is cancelled may take to end, at least."""

_logger: Final = logging.getLogger("dsh_core")


class AgentLoop(Service):
    """The service ``agent_loop``: makes agents, and lets them take turns.

    Args:
        ctx: The context that it lives in.
        config: `AgentOptions` for all agents, or a mapping of its fields.
        new_id: Returns ids for messages.
    """

    inject = ("sessions", "llm", "tools", "agents")

    def __init__(
        self,
        ctx: Context,
        config: AgentOptions | dict[str, Any] | None = None,
        *,
        new_id: Callable[[], str] = random_id,
    ) -> None:
        super().__init__(ctx, "agent_loop")
        given = config if isinstance(config, AgentOptions) else AgentOptions(**config or {})
        self._defaults = given
        self._new_id = new_id

    def create(
        self,
        id: str,  # noqa: A002 - the name of it
        *,
        session: Session | None = None,
        ctx: Context | None = None,
        **options: Any,  # noqa: ANN401 - fields of `AgentOptions`
    ) -> Agent:
        """Make an agent, and begin to drive it.

        Args:
            id: Its id.
            session: Its session; a new one, ``<id>-session``, by default.
            ctx: The context that it lives in; the loop's own by default.
            options: Fields of `AgentOptions` that differ from the loop's.

        Raises:
            TypeError: An option is no field of `AgentOptions`.
            ValueError: An agent or session of this id lives, or the session is another agent's.
        """
        if not 0 < len(id) <= MAX_ID:
            raise ValueError(f"an agent's id has 1 to {MAX_ID} characters")
        asked = replace(self._defaults, **options)
        for other in self.ctx.agents.list():
            if other.session is session and other.alive:
                raise ValueError(f'session "{session.id}" is that of agent "{other.id}" already')
        live: Context = self.ctx if ctx is None else ctx
        made: list[Agent] = []

        def effect() -> Iterator[Callable[[], Any]]:
            life, own = _Life(), session
            if own is None:
                store = self.ctx.sessions
                own = store.create(f"{id}-session", ctx=life, cwd=asked.cwd)
                yield lambda: self._guarded(agent, lambda: store.close(own))
            agent = Agent(self.ctx, id, own, asked, self._new_id)
            yield lambda: self._guarded(agent, agent.dispose)
            leave = self.ctx.agents.register(agent, ctx=life)
            yield lambda: self._guarded(agent, leave)
            driver = asyncio.get_running_loop().create_task(self._drive(agent), name=f"agent {id}")
            driver.add_done_callback(lambda _: self._over(agent, driver, ends))
            yield lambda: self._end(agent, driver)
            made.append(agent)

        ends = [live.effect(effect, f"agent {id} of")]
        if live is not self.ctx:
            # Without its loop it could not go on.
            ends.append(self.ctx.effect(lambda: ends[0], f"agent {id} of"))
        return made[0]

    async def _drive(self, agent: Agent) -> None:
        try:
            while agent.alive:
                await agent.woken.wait()
                agent.woken.clear()
                while agent.inbox.waiting() and agent.alive:
                    await self._take_turn(agent)
                self._guarded(agent, lambda: agent.become(AgentStatus.IDLE))
                if not agent.inbox.waiting():
                    agent.settle()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            # Meant to end more than an agent, an interrupted test for example: told before it ends.
            report(self.ctx, agent, to_error(error))
            raise
        finally:
            agent.settle()

    async def _take_turn(self, agent: Agent) -> None:
        agent.work = AbortController()
        self._guarded(agent, lambda: agent.become(AgentStatus.RUNNING))
        if agent.alive:
            await Turn(self.ctx, agent).run()
        # Turns that fail at once, one after another, must not keep everybody else from running.
        await asyncio.sleep(0)

    def _guarded(self, agent: Agent, action: Callable[[], object]) -> None:
        """Do something whose listeners must not end the agent's life, or its end."""
        try:
            action()
        except RAISED as error:
            report(self.ctx, agent, to_error(error))

    def _end(self, agent: Agent, driver: asyncio.Task[None]) -> Awaitable[None] | None:
        """End an agent, and wait for what it does to notice; not for long."""
        self._guarded(agent, agent.dispose)
        return None if driver.done() else _wait_for(agent, driver)

    def _over(self, agent: Agent, driver: asyncio.Task[None], ends: list[Disposer]) -> None:
        """Undo what is left of an agent that nobody drives any more."""
        if not driver.cancelled() and (error := driver.exception()) is not None:
            _logger.error("agent %r has failed: %r", agent.id, error)
        for end in reversed(ends):
            end()


class _Life:
    """Stands in for a context: what ends with an agent ends after it, not at the same time."""

    def effect(self, make: Callable[[], Any], label: str = "") -> Disposer:
        """Do something that only what is returned undoes."""
        del label
        disposer = Disposer(lambda _: None)
        disposer.make(make)
        return disposer


async def _wait_for(agent: Agent, driver: asyncio.Task[None]) -> None:
    patience_s = agent.options.patience_s
    await asyncio.wait([driver], timeout=patience_s)
    if not driver.done():
        driver.cancel()
        await asyncio.wait([driver], timeout=max(patience_s, LAST_PATIENCE_S))
    if not driver.done():
        _logger.error("agent %r does not end: something swallows its cancellation", agent.id)
