"""Everything that an agent needs, as one plugin: sessions, models, tools, agents and their loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_core.agent import AgentLoop, AgentRegistry
from dsh_core.llm import Llm
from dsh_core.session import SessionStore
from dsh_core.tools import ToolRegistry

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_core.context import Context

name = "program"


async def apply(ctx: Context, _config: object = None) -> None:
    """Offer the services ``sessions``, ``llm``, ``tools``, ``agents`` and ``agent_loop``.

    Args:
        ctx: The plugin's context.
    """
    await start(ctx)


async def start(
    ctx: Context,
    *,
    clock: Callable[[], int] | None = None,
    new_id: Callable[[], str] | None = None,
) -> None:
    """Offer the services, with a clock and ids of one's own.

    Args:
        ctx: The context that they live in.
        clock: Returns Unix time in milliseconds; the system's by default.
        new_id: Returns ids for messages; random ones by default.
    """

    def sessions(inner: Context) -> None:
        SessionStore(inner) if clock is None else SessionStore(inner, clock=clock)

    def loop(inner: Context) -> None:
        AgentLoop(inner) if new_id is None else AgentLoop(inner, new_id=new_id)

    await ctx.plugin(sessions)
    for plugin in (Llm, ToolRegistry, AgentRegistry):
        await ctx.plugin(plugin)
    loop.inject = AgentLoop.inject  # type: ignore[attr-defined]
    await ctx.plugin(loop)
