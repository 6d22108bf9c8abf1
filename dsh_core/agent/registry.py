"""The agents of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_core.context import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dsh_core.agent.agent import Agent
    from dsh_core.context import Context, Disposer


class AgentRegistry(Service):
    """The service ``agents``: finds agents; emits ``agent/created`` and ``agent/disposed``.

    Args:
        ctx: The context that it lives in.
        config: Not used: there is nothing to configure.
    """

    def __init__(self, ctx: Context, config: object = None) -> None:
        del config
        super().__init__(ctx, "agents")
        self._agents: dict[str, Agent] = {}

    def register(self, agent: Agent, *, ctx: Context | None = None) -> Disposer:
        """Add an agent for as long as a context lives.

        Args:
            agent: The agent.
            ctx: The context; the registry's own by default.

        Returns:
            What takes it out again.

        Raises:
            ValueError: One of this id is there.
        """
        if agent.id in self._agents:
            raise ValueError(f'agent "{agent.id}" already exists')

        def effect() -> Iterator[Callable[[], None]]:
            self._agents[agent.id] = agent
            yield lambda: self._remove(agent)
            self.ctx.emit("agent/created", agent)

        live: Context = self.ctx if ctx is None else ctx
        return live.effect(effect, f"agent {agent.id} of")

    def get(self, id: str) -> Agent | None:  # noqa: A002 - the name of it
        """Return an agent, None if there is none of this id."""
        return self._agents.get(id)

    def list(self) -> Sequence[Agent]:
        """Return the agents in the order of their registration."""
        return [*self._agents.values()]

    def _remove(self, agent: Agent) -> None:
        if self._agents.get(agent.id) is agent:
            del self._agents[agent.id]
            self.ctx.emit("agent/disposed", agent)
