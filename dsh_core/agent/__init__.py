"""Agents: who talks to a model, turn by turn, and the loop that drives them."""

from dsh_core.agent.agent import Agent, AgentOptions, AgentStatus
from dsh_core.agent.answer import TurnError
from dsh_core.agent.loop import AgentLoop
from dsh_core.agent.registry import AgentRegistry

__all__ = ["Agent", "AgentLoop", "AgentOptions", "AgentRegistry", "AgentStatus", "TurnError"]
