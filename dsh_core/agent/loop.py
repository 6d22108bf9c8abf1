"""The loop: drives agents from turn to turn."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from dsh_core.agent.agent import Agent, AgentOptions, AgentStatus, random_id
from dsh_core.agent.inbox import NEXT_TURN
from dsh_core.agent.report import report
from dsh_core.agent.turn import Turn
from dsh_core.context import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dsh_core.context import Context
    from dsh_core.session import Session

MAX_ID: Final = 200


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
            ValueError: An agent or session of this id lives.
        """
        if not 0 < len(id) <= MAX_ID:
            raise ValueError(f"an agent's id has 1 to {MAX_ID} characters")
        live: Context = self.ctx if ctx is None else ctx
        own = session is None
        if session is None:
            session = self.ctx.sessions.create(f"{id}-session", ctx=live)
        agent = Agent(self.ctx, id, session, replace(self._defaults, **options), self._new_id)

        def effect() -> Iterator[Callable[[], Any]]:
            if own:
                yield lambda: self._close_session(session)
            yield self.ctx.agents.register(agent, ctx=live)
            driver = asyncio.get_running_loop().create_task(self._drive(agent))
            yield lambda: _end(agent, driver)

        live.effect(effect, f"agent {id} of")
        return agent

    def _close_session(self, session: Session) -> None:
        store = self.ctx.get("sessions")
        if store is not None:
            store.close(session)

    async def _drive(self, agent: Agent) -> None:
        while agent.alive:
            await agent.woken.wait()
            agent.woken.clear()
            while agent.inbox.waiting(NEXT_TURN) and agent.alive:
                self._guarded(agent, lambda: agent.become(AgentStatus.RUNNING))
                await Turn(self.ctx, agent).run()
            self._guarded(agent, lambda: agent.become(AgentStatus.IDLE))

    def _guarded(self, agent: Agent, action: Callable[[], None]) -> None:
        """Do something whose listeners must not end the agent's life."""
        try:
            action()
        except Exception as error:  # noqa: BLE001 - reported, and the agent lives on
            report(self.ctx, agent, error)


async def _end(agent: Agent, driver: asyncio.Task[None]) -> None:
    """End an agent, and wait for what it does to notice; not for long."""
    agent.dispose()
    if driver is asyncio.current_task():
        return
    await asyncio.wait([driver], timeout=agent.options.patience_s)
    if not driver.done():
        driver.cancel()
        await asyncio.wait([driver])
