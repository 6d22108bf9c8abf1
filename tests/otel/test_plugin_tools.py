"""Telemetry of live sessions: what the invariants learn of tools is exported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsh_core.errors import InvariantError
from dsh_core.tools import ToolExecution, ToolRegistry, define_tool
from tests.otel.test_plugin import Program, Somebody, run

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from dsh_core.tools import ToolExecutionResult


async def executed(program: Program, execution: ToolExecution) -> ToolExecutionResult:
    result: ToolExecutionResult = await program.ctx.tools.execute(execution)
    return result


async def begin() -> tuple[Program, ToolExecution, Any]:
    """Return a program with the invariants and a tool, a call of it, and what telemetry is."""
    program = Program()
    ToolRegistry(program.ctx)
    fiber = await program.begin(enforced=True)
    parameters: dict[str, Any] = {}
    program.ctx.tools.register(
        define_tool(name="now", description="", parameters=parameters, execute=lambda _: "noon")
    )
    agent = Somebody(program.ctx.sessions.create("s"))
    return program, ToolExecution("c", "now", {}, agent), fiber


def test_a_call_that_keeps_the_contract_is_no_violation() -> None:
    async def main() -> None:
        program, execution, _ = await begin()
        for _ in range(2):
            await executed(program, execution)
        await program.ctx.dispose()
        assert program.violations() == []

    run(main)


async def _announced_again(program: Program, execution: ToolExecution) -> None:
    program.ctx.emit("tools/pre-execute", execution)
    program.ctx.emit("tools/pre-execute", execution)


async def _changed(program: Program, execution: ToolExecution) -> None:
    (await executed(program, execution)).content.clear()


async def _nameless(program: Program, execution: ToolExecution) -> None:
    execution.name = ""
    await executed(program, execution)


BROKEN: dict[str, tuple[str, Callable[[Program, ToolExecution], Coroutine[Any, Any, None]]]] = {
    "announced again": ("tools.pipeline-order", _announced_again),
    "changed": ("tools.result-not-frozen", _changed),
    "nameless": ("tools.result-not-frozen", _nameless),
}


@pytest.mark.parametrize(("rule", "breaks"), BROKEN.values(), ids=BROKEN)
def test_what_breaks_it_is_raised_and_exported(
    rule: str, breaks: Callable[[Program, ToolExecution], Coroutine[Any, Any, None]]
) -> None:
    async def main() -> None:
        program, execution, _ = await begin()
        with pytest.raises(InvariantError, match=rule):
            await breaks(program, execution)
        await program.ctx.dispose()
        assert [name for name, _ in program.violations()] == [rule]

    run(main)


def test_stages_that_nobody_saw_are_no_violations() -> None:
    async def main() -> None:
        program, execution, fiber = await begin()
        program.ctx.emit("tools/pre-execute", execution)
        await fiber.dispose()
        await program.trace()
        program.ctx.emit("tools/post-execute", execution)
        await program.ctx.dispose()
        assert program.violations() == []

    run(main)
