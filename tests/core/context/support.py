"""What the tests of contexts share."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, ParamSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from dsh_core.context import Context

P = ParamSpec("P")


def sync(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make a plain test of an asynchronous one."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until something is so."""
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came true")


async def turn() -> None:
    """Let everything run that can run."""
    for _ in range(20):
        await asyncio.sleep(0)


def leftovers(ctx: Context) -> dict[str, Any]:
    """Return what a program still holds: listeners, services, waiting fibers, effects."""
    program = ctx.root._program
    return {
        "listeners": dict(program.bus._ears),
        "services": dict(program.services._provided),
        "fibers": list(program.fibers),
        "effects": list(ctx.fiber._effects),
    }


NOTHING: dict[str, Any] = {"listeners": {}, "services": {}, "fibers": [], "effects": []}
