"""Random programs: whatever plugins do, and in whatever order, nothing of them stays behind."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_core.context import Context, Fiber, FiberState
from tests.core.context.support import NOTHING, leftovers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

SERVICES = ("a", "b", "c")
NAMES = st.lists(st.sampled_from(SERVICES), unique=True, max_size=2)


@dataclass(frozen=True)
class Recipe:
    """What a plugin does."""

    inject: list[str]
    provides: list[str]
    pauses: int
    undo_pauses: int
    fails: str
    hosts: Recipe | None


def recipes(inner: st.SearchStrategy[Recipe | None]) -> st.SearchStrategy[Recipe]:
    """Plugins, with plugins of their own."""
    return st.builds(
        Recipe,
        inject=NAMES,
        provides=NAMES,
        pauses=st.integers(0, 3),
        undo_pauses=st.integers(0, 3),
        fails=st.sampled_from(["no", "no", "no", "body", "effect", "undo", "itself"]),
        hosts=inner,
    )


RECIPES = recipes(st.none() | recipes(st.none()))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), RECIPES),
        st.tuples(st.sampled_from(["dispose", "dispose and wait", "restart"]), st.integers(0, 9)),
        st.tuples(st.sampled_from(["provide", "withdraw"]), st.sampled_from(SERVICES)),
        st.tuples(st.just("wait"), st.integers(0, 8)),
    ),
    max_size=20,
)


async def pause(turns: int) -> None:
    """Let others run."""
    for _ in range(turns):
        await asyncio.sleep(0)


@dataclass
class World:
    """A program, and what was seen of it."""

    ctx: Context = field(default_factory=Context)
    fibers: list[Fiber] = field(default_factory=list)
    own: dict[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    background: list[asyncio.Future[Any]] = field(default_factory=list)
    alive: int = 0
    wrong: list[str] = field(default_factory=list)

    def plugin(self, recipe: Recipe) -> Any:
        """Make the plugin of a recipe."""

        async def parts(fails: bool) -> AsyncIterator[Callable[[], Any]]:
            await pause(recipe.pauses)
            self.alive += 1
            yield self._undo(recipe)
            if fails:
                raise ValueError("effect")

        class Plugin:
            inject = tuple(recipe.inject)

            async def apply(plugin, ctx: Context) -> None:  # noqa: N805 - `self` is the world
                missing = [name for name in recipe.inject if ctx.get(name) is None]
                if missing:
                    self.wrong.append(f"ran without {missing}")
                if ctx.fiber.state is not FiberState.LOADING:
                    self.wrong.append(f"ran while {ctx.fiber.state}")
                ctx.on("event", lambda: None)
                self.alive += 1
                ctx.effect(lambda: self._undo(recipe))
                ctx.effect(lambda: parts(recipe.fails == "effect"))
                if recipe.hosts is not None:
                    self.fibers.append(ctx.plugin(self.plugin(recipe.hosts)))
                for name in recipe.provides:
                    ctx.provide(name, object())
                await pause(recipe.pauses)
                if recipe.fails == "itself":
                    await ctx.dispose()
                if recipe.fails == "body":
                    raise ValueError("body")

        return Plugin()

    def _undo(self, recipe: Recipe) -> Callable[[], Coroutine[Any, Any, None]]:
        async def undo() -> None:
            await pause(recipe.undo_pauses)
            self.alive -= 1
            if recipe.fails == "undo":
                raise ValueError("undo")

        return undo

    async def step(self, what: str, with_what: Any) -> None:
        """Do something."""
        if what == "add":
            self.fibers.append(self.ctx.plugin(self.plugin(with_what)))
        elif what == "wait":
            await pause(with_what)
        elif what == "provide":
            if self.ctx.get(with_what) is None:
                self.own[with_what] = self.ctx.provide(with_what, object())
        elif what == "withdraw":
            stop = self.own.pop(with_what, None)
            if stop is not None:
                stop()
        elif self.fibers:
            fiber = self.fibers[with_what % len(self.fibers)]
            if what == "dispose and wait":
                await fiber.dispose()
            else:
                act = fiber.dispose if what == "dispose" else fiber.restart
                self.background.append(asyncio.ensure_future(act()))

    def look(self) -> None:
        """Note active plugins that lack a service."""
        for fiber in self.fibers:
            if fiber.state is FiberState.ACTIVE and any(
                self.ctx.get(name) is None for name in fiber.inject
            ):
                self.wrong.append("active without a service")


async def run(steps: list[tuple[str, Any]]) -> None:
    """Run a program to its end."""
    world = World()
    async with asyncio.timeout(20):
        for what, with_what in steps:
            await world.step(what, with_what)
            world.look()
        await world.ctx.dispose()
    assert world.wrong == []
    assert leftovers(world.ctx) == NOTHING
    assert {fiber.state for fiber in world.fibers} <= {FiberState.DISPOSED}
    assert [list(fiber._effects) for fiber in world.fibers] == [[] for _ in world.fibers]
    assert world.alive == 0
    # Restarts of what fails or has ended raise.
    await asyncio.gather(*world.background, return_exceptions=True)
    await pause(3)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_random_programs_leave_nothing_behind_and_run_only_with_their_services(
    steps: list[tuple[str, Any]],
) -> None:
    logging.disable(logging.CRITICAL)
    try:
        asyncio.run(run(steps))
    finally:
        logging.disable(logging.NOTSET)
