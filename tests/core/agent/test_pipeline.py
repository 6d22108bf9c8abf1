"""Tests of the invariants around the execution of tools, with the pipeline as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from dsh_core import invariants
from dsh_core.contract.live import ResultMutated, ToolStage
from dsh_core.errors import InvariantError
from dsh_core.invariants import FINDING, MUTATED, TOOL_FACT
from dsh_core.llm import calls
from dsh_core.session.frozen import FrozenDict, FrozenList
from dsh_core.tools import ToolExecution, ToolExecutionResult
from tests.core.agent.support import World, of_type, reasons, sync, types, world

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

COMPLETED = {"kind": "completed"}
TEXT = {"type": "text", "text": "noon"}


async def guarded(w: World, config: Any = None) -> tuple[list[Any], list[Any]]:
    """Mount the invariants; return what they find, and the facts that they go by."""
    found: list[Any] = []
    facts: list[Any] = []
    await w.ctx.plugin(invariants, config)
    w.ctx.on(FINDING, lambda _session, finding: found.append((finding.rule, finding.message)))
    w.ctx.on(TOOL_FACT, lambda _session, fact: facts.append(fact))
    return found, facts


def executed(w: World, agent: Any, **more: Any) -> ToolExecution:
    """Return an execution of the tool ``now``."""
    given: dict[str, Any] = {"call_id": "c", "name": "now", "arguments": {}, "agent": agent}
    assert w.ctx.tools.get("now") is not None
    return ToolExecution(**(given | more))


# What is legal


@sync
async def test_a_call_comes_to_each_stage_once() -> None:
    async with world(calls(("now", {})), "done") as w:
        w.tool("now", lambda _: "noon")
        found, facts = await guarded(w)
        agent = w.agent()
        await w.say(agent)
        assert reasons(agent.session) == [COMPLETED]
        assert found == []
        assert [fact.stage for fact in facts] == ["pre-execute", "execute", "result"]
        assert {(f.execution, f.call_id, f.name) for f in facts} == {(1, "call-1-1", "now")}
        (result,) = of_type(agent.session, "tool/result")
        assert result["message"]["content"] == [TEXT]


@pytest.mark.parametrize("prepend", [False, True])
@sync
async def test_listeners_may_change_a_result_or_return_another(prepend: bool) -> None:
    async def longer(_: ToolExecution, following: Callable[[], Awaitable[Any]]) -> Any:
        result = await following()
        result.content.append({"type": "text", "text": "more"})
        result.content[0]["text"] = "midnight"
        return replace(result, content=[*result.content, TEXT])

    async with world(calls(("now", {})), "done") as w:
        w.tool("now", lambda _: "noon")
        found, _ = await guarded(w)
        # Also those that come later, and in front of all others.
        w.ctx.on("tools/execute", longer, prepend=prepend)
        w.ctx.on("tools/execute", longer, prepend=prepend)
        agent = w.agent()
        await w.say(agent)
        assert reasons(agent.session) == [COMPLETED]
        assert found == []
        (result,) = of_type(agent.session, "tool/result")
        assert len(result["message"]["content"]) == 5


@sync
async def test_a_listener_may_deny_a_call() -> None:
    async with world(calls(("now", {})), "done") as w:
        w.tool("now", lambda _: "noon")
        found, facts = await guarded(w)
        w.ctx.on("tools/execute", lambda execution, _: ToolExecutionResult(execution.call_id, []))
        agent = w.agent()
        await w.say(agent)
        assert reasons(agent.session) == [COMPLETED]
        assert (found, len(facts)) == ([], 3)


@sync
async def test_a_tool_may_call_another_and_itself() -> None:
    async with world(calls(("outer", {})), "done") as w:
        found, facts = await guarded(w)

        async def outer(execution: ToolExecution) -> Any:
            inner = replace(execution, call_id=f"{execution.call_id}:1", name="now")
            first = await w.ctx.tools.execute(inner)
            second = await w.ctx.tools.execute(replace(inner))
            return [*first.content, *second.content]

        w.tool("outer", outer)
        w.tool("now", lambda _: "noon")
        agent = w.agent()
        await w.say(agent)
        assert (reasons(agent.session), found) == ([COMPLETED], [])
        assert [fact.execution for fact in facts] == [1, 1, 2, 2, 2, 3, 3, 3, 1]


@sync
async def test_an_execution_that_is_over_may_be_run_again() -> None:
    async with world() as w:
        w.tool("now", lambda _: "noon")
        found, facts = await guarded(w)
        execution = executed(w, w.agent())
        for _ in range(2):
            assert (await w.ctx.tools.execute(execution)).content == [TEXT]
        assert [fact.execution for fact in facts] == [1, 1, 1, 2, 2, 2]
        assert found == []


@sync
async def test_an_execution_that_broke_off_may_be_run_again() -> None:
    async with world() as w:
        w.tool("now", lambda _: "noon")
        found, _ = await guarded(w)
        errors = [ValueError("no")]

        def fail_once(_: ToolExecution, following: Callable[[], Awaitable[Any]]) -> Any:
            if errors:
                raise errors.pop()
            return following()

        w.ctx.on("tools/execute", fail_once)
        execution = executed(w, w.agent())
        with pytest.raises(ValueError, match="no"):
            await w.ctx.tools.execute(execution)
        assert (await w.ctx.tools.execute(execution)).content == [TEXT]
        assert found == []


@sync
async def test_plugins_may_announce_more_stages() -> None:
    async with world() as w:
        w.tool("now", lambda _: "noon")
        found, facts = await guarded(w)
        execution = executed(w, w.agent())
        w.ctx.emit("tools/pre-execute", execution)
        result = await w.ctx.tools.execute(execution)
        w.ctx.emit("tools/post-execute", execution, result)
        w.ctx.emit("tools/result", execution, result)
        assert [f.stage for f in facts] == ["pre-execute", "execute", "post-execute", "result"]
        assert {fact.execution for fact in facts} == {1}
        assert found == []


@sync
async def test_calls_of_nobody_are_not_judged() -> None:
    async with world() as w:
        w.tool("now", lambda _: "noon")
        _, facts = await guarded(w)
        for agent in (None, object(), "a"):
            execution = executed(w, agent)
            w.ctx.emit("tools/post-execute", execution)
            assert (await w.ctx.tools.execute(execution)).content == [TEXT]
        w.ctx.emit("tools/post-execute")
        w.ctx.emit("tools/post-execute", "x")
        assert facts == []


# What is not


@sync
async def test_an_execution_that_is_under_way_may_not_be_run_again() -> None:
    async with world(calls(("now", {})), "done") as w:
        ran: list[str] = []
        w.tool("now", lambda execution: ran.append(execution.call_id))

        async def again(execution: ToolExecution, following: Callable[[], Awaitable[Any]]) -> Any:
            await following()
            return await w.ctx.tools.execute(execution)

        w.ctx.on("tools/execute", again)
        found, _ = await guarded(w)
        agent = w.agent()
        await w.say(agent)
        message = "execute of call 'call-1-1' after execute"
        assert found == [("tools.pipeline-order", message)]
        assert len(ran) == 1
        (reason,) = reasons(agent.session)
        assert reason["error"]["message"].endswith(f"tools.pipeline-order: {message}")
        # What the step has left open is closed.
        assert types(agent.session)[-3:] == ["tool/result", "step/end", "turn/end"]


@pytest.mark.parametrize(
    ("before", "name", "message"),
    [
        (["pre-execute"], "pre-execute", "pre-execute of call 'c' after pre-execute"),
        ([], "post-execute", "post-execute of call 'c' after no other stage"),
        (
            ["pre-execute", "post-execute"],
            "post-execute",
            "post-execute of call 'c' after post-execute",
        ),
    ],
)
@sync
async def test_stages_that_plugins_announce_are_in_order(
    before: list[str], name: str, message: str
) -> None:
    async with world() as w:
        w.tool("now", lambda _: "noon")
        found, _ = await guarded(w)
        execution = executed(w, w.agent())
        for stage in before:
            w.ctx.emit(f"tools/{stage}", execution)
        with pytest.raises(InvariantError, match=r"tools\.pipeline-order"):
            w.ctx.emit(f"tools/{name}", execution)
        assert found == [("tools.pipeline-order", message)]


@sync
async def test_an_execution_may_not_run_when_a_plugin_has_announced_its_end() -> None:
    async with world() as w:
        w.tool("now", lambda _: "noon")
        await guarded(w)
        execution = executed(w, w.agent())
        w.ctx.emit("tools/pre-execute", execution)
        w.ctx.emit("tools/post-execute", execution)
        with pytest.raises(InvariantError, match="execute of call 'c' after post-execute"):
            await w.ctx.tools.execute(execution)


@sync
async def test_a_result_that_is_handed_out_cannot_be_changed() -> None:
    async with world() as w:
        w.tool("now", lambda _: [dict(TEXT)])
        found, facts = await guarded(w)
        mutated: list[Any] = []
        w.ctx.on(MUTATED, lambda *args: mutated.append(args))
        result = await w.ctx.tools.execute(executed(w, w.agent()))
        with pytest.raises(InvariantError, match=r"result-not-frozen: append on .* 'c'"):
            result.content.append(TEXT)
        with pytest.raises(InvariantError, match="__setitem__ on the result of call 'c'"):
            result.content[0]["text"] = "midnight"
        assert result.content == [TEXT]
        assert [fact for fact in facts if isinstance(fact, ResultMutated)] == [
            ResultMutated("c", "append"),
            ResultMutated("c", "__setitem__"),
        ]
        assert found == [
            ("tools.result-not-frozen", "append on the result of call 'c'"),
            ("tools.result-not-frozen", "__setitem__ on the result of call 'c'"),
        ]
        # It is no history.
        assert mutated == []


@pytest.mark.parametrize(
    ("handed", "message"),
    [
        (ToolExecutionResult("c", [TEXT]), "the content can be changed"),
        ("noon", "the result can be changed"),
    ],
)
@sync
async def test_a_plugin_may_not_hand_out_what_can_be_changed(handed: Any, message: str) -> None:
    async with world() as w:
        w.tool("now", lambda _: "noon")
        found, _ = await guarded(w)
        execution = executed(w, w.agent())
        with pytest.raises(InvariantError, match=r"tools\.result-not-frozen"):
            w.ctx.emit("tools/result", execution, handed)
        assert found == [("tools.result-not-frozen", message)]


@pytest.mark.parametrize("field", ["call_id", "name"])
@sync
async def test_a_result_is_that_of_a_named_call(field: str) -> None:
    async with world() as w:
        w.tool("now", lambda _: "noon")
        await guarded(w)
        execution = executed(w, w.agent(), **{field: ""})
        with pytest.raises(InvariantError, match=r"tools\.result-not-frozen"):
            await w.ctx.tools.execute(execution)


# How it is set up


@sync
async def test_without_freezing_results_stay_as_they_are() -> None:
    async with world() as w:
        w.tool("now", lambda _: [dict(TEXT)])
        found, _ = await guarded(w, {"freeze": False})
        execution = executed(w, w.agent())
        result = await w.ctx.tools.execute(execution)
        result.content[0]["text"] = "midnight"
        w.ctx.emit("tools/result", execution, result)
        assert found == []


@sync
async def test_only_plain_content_is_frozen() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    odd = [{"type": "plugin:x", "data": deep}]
    async with world() as w:
        w.tool("now", lambda _: "noon")
        await guarded(w)
        results = [ToolExecutionResult("c", odd), ToolExecutionResult("c", ())]  # type: ignore[arg-type]
        w.ctx.on("tools/execute", lambda *_: results[0])
        agent = w.agent()
        assert await w.ctx.tools.execute(executed(w, agent)) is results[0]
        assert await w.ctx.tools.execute(executed(w, agent)) is results.pop(0)
        assert await w.ctx.tools.execute(executed(w, agent)) is results[0]


@sync
async def test_the_content_of_a_result_is_frozen_with_all_that_it_holds() -> None:
    async with world() as w:
        w.tool("now", lambda _: [{"type": "plugin:x", "data": {"a": [1]}}])
        await guarded(w)
        result = await w.ctx.tools.execute(executed(w, w.agent()))
        assert isinstance(result.content, FrozenList)
        assert isinstance(result.content[0]["data"], FrozenDict)
        assert isinstance(result.content[0]["data"]["a"], FrozenList)


@sync
async def test_rules_that_are_blocked_raise_nothing() -> None:
    async with world() as w:
        w.tool("now", lambda _: "noon")
        found, facts = await guarded(w, {"block": ["tools"]})
        w.ctx.emit("tools/post-execute", executed(w, w.agent()))
        assert found == []
        assert facts == [ToolStage(1, "c", "now", "post-execute")]


@sync
async def test_without_the_invariants_nothing_is_seen_of_tools() -> None:
    async with world() as w:
        w.tool("now", lambda _: [dict(TEXT)])
        fiber = w.ctx.plugin(invariants)
        await fiber
        await fiber.dispose()
        result = await w.ctx.tools.execute(executed(w, w.agent()))
        assert type(result.content) is list
        assert not w.ctx.listens("tools/execute")
