"""Telling that something about an agent went wrong."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from dsh_core.abort import RAISED

if TYPE_CHECKING:
    from dsh_core.agent.agent import Agent
    from dsh_core.context import Context

_logger: Final = logging.getLogger("dsh_core")


def report(ctx: Context, agent: Agent, error: Exception) -> None:
    """Emit ``agent/error`` with an agent and an error; what nobody listens to is logged."""
    if not ctx.listens("agent/error"):
        # Half characters, as from file names, cannot be printed.
        told = str(error).encode("utf-8", "replace").decode()
        _logger.warning("agent %r: %s: %s", agent.id, type(error).__name__, told)
    try:
        ctx.emit("agent/error", agent, error)
    except RAISED as another:
        _logger.error("a listener of 'agent/error' failed: %r", another)  # noqa: TRY400 - short
