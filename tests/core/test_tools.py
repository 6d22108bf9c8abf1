"""Tests of tools: definition, registration, execution, and what their results say."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import functools
import json
from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, Field

from dsh_core.abort import AbortController, AbortError
from dsh_core.context import Context
from dsh_core.errors import HarnessError, ToolArgsError
from dsh_core.schema import SpecError
from dsh_core.tool_content import content_of
from dsh_core.tools import (
    ToolDefinition,
    ToolError,
    ToolExecution,
    ToolExecutionResult,
    ToolRegistry,
    define_tool,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SPEC: dict[str, Any] = {
    "path": {"type": "string", "required": True},
    "lines": {"type": "number"},
}


def text(value: str) -> list[dict[str, Any]]:
    """Return a single text block."""
    return [{"type": "text", "text": value}]


def run(main: Callable[[Context, ToolRegistry], Awaitable[Any]]) -> Any:
    """Run something with a registry."""

    async def body() -> Any:
        ctx = Context()
        try:
            return await main(ctx, ToolRegistry(ctx))
        finally:
            await ctx.dispose()

    return asyncio.run(body())


def tool(execute: Callable[..., Any], name: str = "t") -> ToolDefinition:
    """Return a tool that checks nothing."""
    return ToolDefinition(name, "", {"type": "object", "properties": {}}, execute)


def returning(value: object) -> ToolDefinition:
    """Return a tool with a result."""
    return tool(lambda _args, _exec: value)


def raising(error: BaseException) -> ToolDefinition:
    """Return a tool that fails."""

    def execute(_args: object, _exec: object) -> object:
        raise error

    return tool(execute)


def result_of(definition: ToolDefinition, arguments: object = None) -> ToolExecutionResult:
    """Run a tool in a registry of its own."""

    async def main(_: Context, tools: ToolRegistry) -> ToolExecutionResult:
        tools.register(definition)
        return await tools.execute(ToolExecution("c1", definition.name, arguments))

    result = run(main)
    assert isinstance(result, ToolExecutionResult)
    return result


class TestRegister:
    """Adding and removing tools."""

    def test_a_tool_is_found_by_its_name(self) -> None:
        async def main(_: Context, tools: ToolRegistry) -> None:
            one = tool(print, "one")
            tools.register(one)
            assert tools.get("one") is one
            assert tools.get("two") is None

        run(main)

    def test_the_registry_is_found_as_a_service(self) -> None:
        async def main(ctx: Context, tools: ToolRegistry) -> None:
            assert ctx.tools is tools

        run(main)

    def test_the_registry_is_a_plugin(self) -> None:
        async def main() -> None:
            ctx = Context()
            fiber = await ctx.plugin(ToolRegistry, {"any": "configuration"})
            assert isinstance(ctx.tools, ToolRegistry)
            ctx.tools.register(tool(print))
            await fiber.dispose()
            assert ctx.get("tools") is None
            await ctx.dispose()

        asyncio.run(main())

    def test_a_second_tool_of_a_name_is_refused(self) -> None:
        async def main(_: Context, tools: ToolRegistry) -> None:
            first = tool(print, "bash")
            tools.register(first)
            with pytest.raises(ValueError, match=r'^tool "bash" is already registered$'):
                tools.register(tool(print, "bash"))
            assert tools.get("bash") is first

        run(main)

    def test_a_removed_tool_is_gone_and_its_name_free(self) -> None:
        async def main(_: Context, tools: ToolRegistry) -> None:
            remove = tools.register(tool(print, "bash"))
            remove()
            assert tools.get("bash") is None
            tools.register(tool(print, "bash"))

        run(main)

    def test_removing_twice_does_not_remove_the_next_of_the_name(self) -> None:
        async def main(_: Context, tools: ToolRegistry) -> None:
            remove = tools.register(tool(print, "bash"))
            await remove()
            following = tool(print, "bash")
            tools.register(following)
            await remove()
            assert tools.get("bash") is following

        run(main)

    def test_adding_and_removing_are_told(self) -> None:
        async def main(ctx: Context, tools: ToolRegistry) -> None:
            seen: list[list[str]] = []
            ctx.on("tools/change", lambda: seen.append([one["name"] for one in tools.schemas()]))
            remove = tools.register(tool(print, "a"))
            tools.register(tool(print, "b"))
            remove()
            remove()
            assert seen == [["a"], ["a", "b"], ["b"]]

        run(main)

    def test_a_refused_tool_is_not_told(self) -> None:
        async def main(ctx: Context, tools: ToolRegistry) -> None:
            seen: list[str] = []
            tools.register(tool(print, "a"))
            ctx.on("tools/change", lambda: seen.append("change"))
            with pytest.raises(ValueError, match="already registered"):
                tools.register(tool(print, "a"))
            assert seen == []

        run(main)

    def test_a_tool_that_a_listener_refuses_is_not_added(self) -> None:
        async def main(ctx: Context, tools: ToolRegistry) -> None:
            def refuse() -> None:
                if tools.get("a") is not None:
                    raise LookupError("no")

            ctx.on("tools/change", refuse)
            with pytest.raises(LookupError):
                tools.register(tool(print, "a"))
            assert tools.get("a") is None

        run(main)

    def test_a_plugin_takes_its_tools_with_it(self) -> None:
        async def main(ctx: Context, tools: ToolRegistry) -> None:
            class Plugin:
                inject = ("tools",)

                def __init__(self, ctx: Context, _: object) -> None:
                    ctx.effect(lambda: ctx.tools.register(tool(print, "mine")))

            fiber = await ctx.plugin(Plugin)
            assert tools.get("mine") is not None
            await fiber.dispose()
            assert tools.get("mine") is None

        run(main)


class TestSchemas:
    """What a model is told."""

    def test_definitions_come_in_order_and_without_execute(self) -> None:
        async def main(_: Context, tools: ToolRegistry) -> None:
            schema = {"type": "object", "properties": {}}
            tools.register(ToolDefinition("z", "last letter", schema, print))
            tools.register(ToolDefinition("a", "first letter", schema, print, strict=True))
            assert tools.schemas() == [
                {"name": "z", "description": "last letter", "parameters": schema},
                {"name": "a", "description": "first letter", "parameters": schema, "strict": True},
            ]

        run(main)

    def test_changes_of_it_change_no_tool(self) -> None:
        async def main(_: Context, tools: ToolRegistry) -> None:
            tools.register(tool(print))
            tools.schemas()[0]["parameters"]["properties"]["x"] = {}
            assert tools.schemas()[0]["parameters"]["properties"] == {}

        run(main)


class TestExecute:
    """What a call comes to."""

    def test_an_unknown_name_is_an_error_without_a_code(self) -> None:
        async def main(_: Context, tools: ToolRegistry) -> None:
            result = await tools.execute(ToolExecution("c7", "nope", {}))
            assert result == ToolExecutionResult(
                "c7", text('Error: unknown tool "nope"'), is_error=True, error=None
            )

        run(main)

    def test_content_is_returned_as_it_is(self) -> None:
        blocks: list[dict[str, Any]] = [
            {"type": "text", "text": "one"},
            {"type": "image", "url": "data:", "size": [1, 2]},
            {"type": "image", "attachment": {"attachmentId": "a"}},
            {"type": "plugin:chart", "points": [1.5]},
        ]
        result = result_of(returning(blocks))
        assert result == ToolExecutionResult("c1", blocks, is_error=False, error=None)

    def test_the_tool_gets_arguments_and_execution(self) -> None:
        seen: list[Any] = []

        async def main(_: Context, tools: ToolRegistry) -> None:
            tools.register(tool(lambda *args: seen.extend(args)))
            signal = AbortController().signal
            execution = ToolExecution("c1", "t", {"a": 1}, agent="main", signal=signal)
            await tools.execute(execution)
            assert seen == [{"a": 1}, execution]
            assert seen[1].signal is signal

        run(main)

    def test_an_asynchronous_tool_is_waited_for(self) -> None:
        async def later(_args: object, _exec: object) -> str:
            await asyncio.get_running_loop().run_in_executor(None, int)
            return "done"

        assert result_of(tool(later)).content == text("done")

    def test_a_harness_error_keeps_class_name_and_code(self) -> None:
        class FsError(HarnessError):
            pass

        result = result_of(raising(FsError("cannot read x", "FS_NOT_FOUND")))
        assert result == ToolExecutionResult(
            "c1",
            text("Error: cannot read x"),
            is_error=True,
            error=ToolError("FsError", "FS_NOT_FOUND"),
        )

    def test_an_abort_within_the_tool_is_a_harness_error(self) -> None:
        result = result_of(raising(AbortError("stop")))
        assert result.error == ToolError("AbortError", "ABORTED")

    def test_any_other_exception_has_a_text_and_no_code(self) -> None:
        result = result_of(raising(ValueError("bad value")))
        assert result == ToolExecutionResult(
            "c1", text("Error: bad value"), is_error=True, error=None
        )

    def test_a_system_error_keeps_the_name_of_its_number(self) -> None:
        error = PermissionError(errno.EACCES, "Permission denied", "/x")
        result = result_of(raising(error))
        assert result.content == text("Error: [Errno 13] Permission denied: '/x'")
        assert result.error == ToolError("PermissionError", "EACCES")

    def test_a_system_error_without_a_number_has_no_code(self) -> None:
        result = result_of(raising(OSError("broken")))
        assert (result.content, result.error) == (text("Error: broken"), None)

    def test_an_exception_without_a_text_is_named(self) -> None:
        assert result_of(raising(TimeoutError())).content == text("Error: TimeoutError")

    def test_a_harness_error_without_a_text_stays_without(self) -> None:
        assert result_of(raising(HarnessError("", "X"))).content == text("Error: ")

    def test_an_exception_in_an_asynchronous_tool_is_a_result_too(self) -> None:
        async def fail(_args: object, _exec: object) -> None:
            raise HarnessError("m", "C")

        assert result_of(tool(fail)).error == ToolError("HarnessError", "C")

    @pytest.mark.parametrize(
        "error",
        [
            StopIteration("x"),
            RecursionError("x"),
            MemoryError("x"),
            ExceptionGroup("x", [OSError()]),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_odd_exceptions_are_results(self, error: Exception) -> None:
        result = result_of(raising(error))
        assert result.is_error
        assert result.content[0]["text"].startswith("Error: x")

    @pytest.mark.parametrize("kind", [asyncio.CancelledError, GeneratorExit])
    def test_what_is_no_ordinary_exception_passes_through(self, kind: type[BaseException]) -> None:
        async def main(_: Context, tools: ToolRegistry) -> None:
            tools.register(raising(kind()))
            with pytest.raises(kind):
                await tools.execute(ToolExecution("c1", "t", {}))

        run(main)

    @pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
    def test_what_stops_the_interpreter_is_no_result(self, kind: type[BaseException]) -> None:
        with pytest.raises(kind):
            result_of(raising(kind()))

    def test_cancelling_passes_through_the_tool(self) -> None:
        async def main(_: Context, tools: ToolRegistry) -> None:
            started = asyncio.Event()

            async def hang(_args: object, _exec: object) -> None:
                started.set()
                await asyncio.Event().wait()

            tools.register(tool(hang))
            task = asyncio.ensure_future(tools.execute(ToolExecution("c1", "t", {})))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        run(main)

    def test_the_result_is_frozen(self) -> None:
        result: Any = ToolExecutionResult("c1", [])
        with pytest.raises(dataclasses.FrozenInstanceError):
            result.is_error = True
        assert (result.is_error, result.error) == (False, None)
        assert not hasattr(result, "__dict__")


class Mute(Exception):  # noqa: N818 - no error of anybody's
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise ValueError("no text")


class BareError(HarnessError):
    """A harness error that was never made properly."""

    def __init__(self) -> None:
        pass


class CodedError(HarnessError):
    """A harness error with any code."""

    def __init__(self, code: Any) -> None:
        super().__init__("m", code)


class TestBadTools:
    """A broken tool breaks nothing else."""

    def test_an_exception_that_cannot_be_shown_is_an_error(self) -> None:
        result = result_of(raising(Mute()))
        assert (result.is_error, result.content) == (True, text("Error: <unprintable Mute>"))

    def test_a_harness_error_without_its_fields_is_an_error_without_a_code(self) -> None:
        result = result_of(raising(BareError()))
        assert (result.content, result.error) == (text("Error: <unprintable BareError>"), None)

    def test_a_code_that_is_no_text_is_left_out(self) -> None:
        result = result_of(raising(CodedError(3)))
        assert (result.content, result.error) == (text("Error: m"), None)

    @pytest.mark.parametrize(
        "value", [object(), {"x": object()}, print, [{"type": "image", "x": object()}]]
    )
    def test_a_result_that_is_no_json_is_an_error(self, value: object) -> None:
        result = result_of(returning(value))
        assert (result.is_error, result.error) == (True, None)
        assert result.content[0]["text"].startswith("Error: ")

    def test_a_result_that_holds_itself_is_an_error(self) -> None:
        loop: list[Any] = []
        loop.append(loop)
        assert result_of(returning(loop)).is_error
        block: dict[str, Any] = {"type": "image"}
        block["me"] = block
        assert result_of(returning([block])).is_error

    def test_a_result_that_nests_too_deep_is_an_error(self) -> None:
        deep: list[Any] = []
        for _ in range(10_000):
            deep = [deep]
        assert result_of(returning(deep)).is_error
        assert result_of(returning([{"type": "image", "x": deep}])).is_error

    def test_a_result_whose_awaiting_fails_is_an_error(self) -> None:
        class Broken:
            def __await__(self) -> Any:
                raise OSError(errno.EIO, "broken")

        result = result_of(returning(Broken()))
        assert result.error == ToolError("OSError", "EIO")

    def test_text_that_is_no_unicode_is_replaced(self) -> None:
        assert result_of(returning("a\udc80b")).content == text("a\ufffdb")
        assert result_of(raising(ValueError("\ud800"))).content == text("Error: \ufffd")


class Color(str, Enum):  # noqa: UP042 - what StrEnum does not do is the point
    """An enum whose str() is not its value."""

    RED = "red"


class Point(BaseModel):
    """A model with an alias."""

    x: float
    y_axis: float = Field(alias="yAxis")


@dataclasses.dataclass
class Size:
    """A plain dataclass."""

    width: int


POINT = Point.model_validate({"x": 1, "yAxis": 2})


class TestContent:
    """What a function returns becomes content."""

    @pytest.mark.parametrize(
        ("value", "content"),
        [
            ("text", text("text")),
            ("", text("")),
            (Color.RED, text("red")),
            (None, []),
            ([], text("[]")),
            ({}, text("{}")),
            ({"b": [1, None, True], "a": "é"}, text('{"b":[1,null,true],"a":"é"}')),
            ({"type": "text", "text": "x"}, text('{"type":"text","text":"x"}')),
            ([1, 2], text("[1,2]")),
            ((1, "x"), text('[1,"x"]')),
            (3, text("3")),
            (2.5, text("2.5")),
            (float("nan"), text("null")),
            (True, text("true")),
            (POINT, text('{"x":1.0,"yAxis":2.0}')),
            ([POINT], text('[{"x":1.0,"yAxis":2.0}]')),
            (Size(3), text('{"width":3}')),
        ],
        ids=repr,
    )
    def test_each_value_has_its_form(self, value: object, content: list[dict[str, Any]]) -> None:
        assert result_of(returning(value)).content == content
        assert content_of(value) == content

    @pytest.mark.parametrize(
        "value",
        [
            [{"type": "dir", "name": "src"}],
            [{"type": "text"}],
            [{"type": "text", "text": 3}],
            [{"type": 3}],
            [{"text": "x"}],
            [{"type": "text", "text": "x"}, "y"],
            [{"type": "file", "name": "a.txt"}],
            [{"type": "text", "text": "x"}, {"type": "file", "name": "a.txt"}],
            [{"type": "image", "name": "a.png"}],
            [{"type": "image", "url": None}],
            [{"type": "image", "attachment": "a"}],
            [{"type": "reasoning", "text": "x"}],
            [{"type": "tool-call", "id": "c", "name": "n", "arguments": "{}"}],
            [{"type": "tool-result", "toolCallId": "c", "content": [], "isError": False}],
        ],
        ids=repr,
    )
    def test_a_list_that_is_not_all_blocks_is_data(self, value: object) -> None:
        (block,) = content_of(value)
        assert block["type"] == "text"
        assert json.loads(block["text"]) == value


class TestWaterfall:
    """Listeners around every call."""

    def test_a_listener_wraps_the_call(self) -> None:
        async def main(ctx: Context, tools: ToolRegistry) -> None:
            steps: list[str] = []

            async def around(execution: ToolExecution, proceed: Any) -> ToolExecutionResult:
                steps.append(f"before {execution.name}")
                result: ToolExecutionResult = await proceed()
                steps.append("after")
                return dataclasses.replace(result, content=[*result.content, *text("seen")])

            def work(*_: object) -> str:
                steps.append("run")
                return "done"

            ctx.on("tools/execute", around)
            tools.register(tool(work))
            result = await tools.execute(ToolExecution("c1", "t", {}))
            assert steps == ["before t", "run", "after"]
            assert result.content == text("done") + text("seen")

        run(main)

    def test_the_first_listener_is_outermost(self) -> None:
        async def main(ctx: Context, tools: ToolRegistry) -> None:
            order: list[str] = []
            for name in ("first", "second"):

                def listen(_: ToolExecution, proceed: Any, name: str = name) -> Any:
                    order.append(name)
                    return proceed()

                ctx.on("tools/execute", listen)
            tools.register(returning("x"))
            await tools.execute(ToolExecution("c1", "t", {}))
            assert order == ["first", "second"]

        run(main)

    def test_a_listener_denies_without_calling_the_tool(self) -> None:
        async def main(ctx: Context, tools: ToolRegistry) -> None:
            denied = ToolExecutionResult("c1", text("denied"), is_error=True)
            ctx.on("tools/execute", lambda _execution, _next: denied)
            tools.register(tool(lambda *_: pytest.fail("called")))
            assert await tools.execute(ToolExecution("c1", "t", {})) is denied

        run(main)

    def test_a_listener_rewrites_the_arguments(self) -> None:
        async def main(ctx: Context, tools: ToolRegistry) -> None:
            def rewrite(execution: ToolExecution, proceed: Any) -> Any:
                execution.arguments = {"path": "/safe"}
                return proceed()

            ctx.on("tools/execute", rewrite)
            tools.register(tool(lambda args, _: args["path"]))
            result = await tools.execute(ToolExecution("c1", "t", {"path": "/etc"}))
            assert result.content == text("/safe")

        run(main)

    def test_a_listener_sees_the_failure_of_a_tool_as_a_result(self) -> None:
        async def main(ctx: Context, tools: ToolRegistry) -> None:
            seen: list[ToolExecutionResult] = []

            async def watch(_: ToolExecution, proceed: Any) -> ToolExecutionResult:
                seen.append(await proceed())
                return seen[0]

            ctx.on("tools/execute", watch)
            tools.register(raising(HarnessError("m", "C")))
            await tools.execute(ToolExecution("c1", "t", {}))
            assert seen[0].error == ToolError("HarnessError", "C")

        run(main)

    @pytest.mark.parametrize("later", [False, True])
    def test_an_exception_of_a_listener_is_raised(self, later: bool) -> None:
        async def main(ctx: Context, tools: ToolRegistry) -> None:
            def now(_execution: object, _next: object) -> None:
                raise LookupError("listener")

            async def afterwards(_execution: object, _next: object) -> None:
                raise LookupError("listener")

            ctx.on("tools/execute", afterwards if later else now)
            tools.register(returning("x"))
            with pytest.raises(LookupError, match="listener"):
                await tools.execute(ToolExecution("c1", "t", {}))

        run(main)

    def test_listeners_hear_of_unknown_tools_too(self) -> None:
        async def main(ctx: Context, tools: ToolRegistry) -> None:
            names: list[str] = []

            def listen(execution: ToolExecution, proceed: Any) -> Any:
                names.append(execution.name)
                return proceed()

            ctx.on("tools/execute", listen)
            assert (await tools.execute(ToolExecution("c1", "nope", {}))).is_error
            assert names == ["nope"]

        run(main)

    def test_a_listener_that_returns_no_result_is_named(self) -> None:
        async def main(ctx: Context, tools: ToolRegistry) -> None:
            ctx.on("tools/execute", lambda _execution, _next: None)
            with pytest.raises(TypeError, match="a listener of tools/execute returned no result"):
                await tools.execute(ToolExecution("c1", "t", {}))

        run(main)


class TestDefineFromSpec:
    """Tools from a spec."""

    def test_the_definition_has_the_json_schema(self) -> None:
        made = define_tool(
            name="read", description="Reads", parameters=SPEC, execute=lambda *_: "", strict=True
        )
        assert (made.name, made.description, made.strict) == ("read", "Reads", True)
        assert made.parameters == {
            "type": "object",
            "properties": {"path": {"type": "string"}, "lines": {"type": "number"}},
            "required": ["path"],
        }

    def test_the_function_gets_what_fits(self) -> None:
        seen: list[Any] = []
        made = define_tool(
            name="read", description="", parameters=SPEC, execute=lambda *args: seen.extend(args)
        )
        assert not result_of(made, {"path": "p", "more": 1}).is_error
        assert seen[0] == {"path": "p", "more": 1}
        assert seen[1].name == "read"

    def test_violations_are_a_tool_args_error(self) -> None:
        made = define_tool(
            name="read", description="", parameters=SPEC, execute=lambda *_: pytest.fail("called")
        )
        with pytest.raises(ToolArgsError) as caught:
            made.execute({"lines": "3"}, ToolExecution("c1", "read", {}))
        assert caught.value.violations == (
            'missing required property "path"',
            '"lines" must be a number',
        )

    def test_violations_are_a_result_with_their_code(self) -> None:
        made = define_tool(
            name="read", description="", parameters=SPEC, execute=lambda *_: pytest.fail("called")
        )
        assert result_of(made, {"lines": "3"}) == ToolExecutionResult(
            "c1",
            text(
                'Error: invalid arguments: missing required property "path"; '
                '"lines" must be a number'
            ),
            is_error=True,
            error=ToolError("ToolArgsError", "INVALID_ARGS"),
        )

    def test_arguments_that_were_no_json_must_be_an_object(self) -> None:
        made = define_tool(name="t", description="", parameters={}, execute=lambda *_: "")
        assert result_of(made, '{"cut').content == text(
            'Error: invalid arguments: "arguments" must be an object'
        )

    def test_a_malformed_spec_is_refused_at_once(self) -> None:
        with pytest.raises(SpecError, match=r'^spec of "x": type must be one of'):
            define_tool(name="t", description="", parameters={"x": {}}, execute=print)

    def test_an_asynchronous_function_is_waited_for(self) -> None:
        async def read(args: Any, _exec: ToolExecution) -> str:
            return f"read {args['path']}"

        made = define_tool(name="t", description="", parameters=SPEC, execute=read)
        assert result_of(made, {"path": "p"}).content == text("read p")

    @pytest.mark.parametrize(
        "given",
        [
            {"name": "t", "description": "", "parameters": {}},
            {"name": "t", "description": "", "execute": print},
            {"name": "t", "parameters": {}, "execute": print},
            {"description": "", "parameters": {}, "execute": print},
        ],
        ids=",".join,
    )
    def test_half_a_definition_is_refused(self, given: Any) -> None:
        with pytest.raises(TypeError):
            define_tool(**given)

    def test_a_function_and_a_spec_are_one_too_many(self) -> None:
        anything: Any = define_tool
        with pytest.raises(TypeError, match="either parameters and execute, or a typed function"):
            anything(print, name="t", description="", parameters={}, execute=print)

    def test_a_tool_needs_a_name(self) -> None:
        with pytest.raises(SpecError, match="needs a name"):
            define_tool(name="", description="", parameters={}, execute=print)

    @pytest.mark.parametrize(
        "takes_two",
        [
            lambda *_: "two",
            lambda _args, _exec: "two",
            lambda _args, _exec=None: "two",
            lambda _args, _exec, _more=1: "two",
            lambda _args=1, *_: "two",
        ],
    )
    def test_a_function_of_two_arguments_gets_the_execution(self, takes_two: Any) -> None:
        made = define_tool(name="t", description="", parameters={}, execute=takes_two)
        assert result_of(made, {}).content == text("two")

    @pytest.mark.parametrize("form", ["function", "method", "partial", "callable", "class"])
    def test_a_function_of_one_argument_gets_the_arguments_alone(self, form: str) -> None:
        class Tool:
            def run(self, args: Any) -> Any:
                return args["path"]

            __call__ = run

        forms: dict[str, Any] = {
            "function": lambda args: args["path"],
            "method": Tool().run,
            "partial": functools.partial(lambda _, args: args["path"], 1),
            "callable": Tool(),
            "class": lambda args, /: args["path"],
        }
        made = define_tool(name="t", description="", parameters=SPEC, execute=forms[form])
        assert result_of(made, {"path": "p"}).content == text("p")

    def test_an_asynchronous_function_of_one_argument_is_waited_for(self) -> None:
        async def read(args: Any) -> str:
            return f"read {args['path']}"

        made = define_tool(name="t", description="", parameters=SPEC, execute=read)
        assert result_of(made, {"path": "p"}).content == text("read p")

    @pytest.mark.parametrize(
        "execute",
        [
            lambda: "",
            lambda _args, _exec, _more: "",
            lambda _args, *, more: more,
            lambda **more: more,
        ],
        ids=["none", "three", "keyword", "keywords"],
    )
    def test_a_function_of_any_other_number_of_arguments_is_refused(self, execute: Any) -> None:
        with pytest.raises(
            SpecError, match="execute must take the arguments, and the execution if it wants it"
        ):
            define_tool(name="t", description="", parameters={}, execute=execute)

    def test_a_function_that_does_not_say_what_it_takes_gets_both(self) -> None:
        made = define_tool(name="t", description="", parameters={}, execute=max)
        assert result_of(made, {}).is_error

    def test_what_cannot_be_called_is_refused(self) -> None:
        anything: Any = "read"
        with pytest.raises(TypeError, match="execute must be a function, not str"):
            define_tool(name="t", description="", parameters={}, execute=anything)


BAD_NAMES: list[Any] = [
    "fs.read",
    "read file",
    "read\n",
    "l\u00e9s",
    "\ud800",
    "x" * 65,
    "x" * 5_000,
    "\u0661",
]


class TestNames:
    """What no provider takes is refused before it is sent."""

    @pytest.mark.parametrize("name", ["r", "Read_file-2", "0", "x" * 64])
    def test_letters_digits_underscores_and_hyphens_make_a_name(self, name: str) -> None:
        assert tool(print, name).name == name
        assert define_tool(name=name)(lambda: None).name == name

    @pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
    def test_any_other_name_is_refused_however_the_tool_is_made(self, name: Any) -> None:
        says = r"^spec: a tool's name is 1 to 64 of A-Z, a-z, 0-9, _ and -, not '.{1,100}…?$"
        with pytest.raises(SpecError, match=says):
            define_tool(name=name, description="", parameters={}, execute=print)
        with pytest.raises(SpecError, match=says):
            define_tool(name=name)(lambda: None)
        with pytest.raises(SpecError, match=says):
            tool(print, name)

    @pytest.mark.parametrize("name", ["", None, 7])
    def test_a_definition_needs_a_name(self, name: Any) -> None:
        with pytest.raises(SpecError, match=r"^spec: a tool's name is 1 to 64"):
            tool(print, name)

    def test_a_function_whose_own_name_is_none_is_refused(self) -> None:
        def read() -> None: ...

        read.__name__ = "l\u00e9s"
        with pytest.raises(SpecError, match=r"^spec: a tool's name is 1 to 64"):
            define_tool(read)

    def test_a_description_must_be_text_that_can_be_sent(self) -> None:
        anything: Any = 7
        with pytest.raises(SpecError, match=r"^spec: a description is valid Unicode$"):
            define_tool(name="t", description="\ud800", parameters={}, execute=print)
        with pytest.raises(SpecError, match=r"^spec: a description is valid Unicode$"):
            define_tool(name="t", description="\ud800")(lambda: None)
        with pytest.raises(SpecError, match=r"^spec: a description is a text, not int$"):
            define_tool(name="t", description=anything, parameters={}, execute=print)


class TestDefineFromFunction:
    """Tools from a typed function."""

    def test_name_and_description_are_the_functions_own(self) -> None:
        @define_tool
        def add(left: float, right: float = 1) -> float:
            """Add two
            numbers.

            Not for the model.
            """
            return left + right

        assert isinstance(add, ToolDefinition)
        assert (add.name, add.description, add.strict) == ("add", "Add two numbers.", False)
        assert add.parameters == {
            "type": "object",
            "properties": {
                "left": {"type": "number"},
                "right": {"type": "number", "default": 1},
            },
            "required": ["left"],
        }
        assert result_of(add, {"left": 2}).content == text("3.0")

    def test_name_description_and_strict_can_be_given(self) -> None:
        @define_tool(name="plus", description="Adds", strict=True)
        def add(left: float) -> float:
            """Not this."""
            return left

        assert (add.name, add.description, add.strict) == ("plus", "Adds", True)

    def test_the_decorator_may_be_called_without_anything(self) -> None:
        @define_tool()
        def noop() -> None: ...

        assert (noop.name, noop.description) == ("noop", "")
        assert result_of(noop, {}).content == []

    def test_the_plain_form_takes_any_function(self) -> None:
        def shout(word: str) -> str:
            return word.upper()

        assert result_of(define_tool(shout), {"word": "hi"}).content == text("HI")

    def test_an_asynchronous_function_is_waited_for(self) -> None:
        @define_tool
        async def shout(word: str) -> str:
            return word.upper()

        assert result_of(shout, {"word": "hi"}).content == text("HI")

    def test_the_execution_is_handed_over(self) -> None:
        @define_tool
        def who(exec: ToolExecution) -> str:  # noqa: A002 - the name that is promised
            return f"{exec.call_id} {exec.name}"

        assert who.parameters == {"type": "object", "properties": {}}
        assert result_of(who, {}).content == text("c1 who")

    def test_violations_are_a_result_with_their_code(self) -> None:
        @define_tool
        def repeat(word: str, times: int) -> str:
            return word * times

        assert result_of(repeat, {"times": 1.5}) == ToolExecutionResult(
            "c1",
            text(
                'Error: invalid arguments: missing required property "word"; '
                '"times" must be a whole number'
            ),
            is_error=True,
            error=ToolError("ToolArgsError", "INVALID_ARGS"),
        )

    def test_types_of_the_surrounding_function_are_known(self) -> None:
        class Local(BaseModel):
            x: int

        @define_tool
        def use(local: Local) -> int:
            return local.x

        assert result_of(use, {"local": {"x": 3}}).content == text("3")

    def test_a_function_without_a_name_needs_one(self) -> None:
        with pytest.raises(SpecError, match="needs a name"):
            define_tool(lambda: None)
        assert define_tool(name="quiet")(lambda: None).name == "quiet"

    def test_a_partial_function_has_the_text_of_the_whole(self) -> None:
        def greet(word: str, name: str) -> str:
            """Greets."""
            return f"{word} {name}"

        made = define_tool(name="greet")(functools.partial(greet, "hello"))
        assert made.description == "Greets."
        assert result_of(made, {"name": "you"}).content == text("hello you")

    def test_what_cannot_be_expressed_is_refused_at_once(self) -> None:
        def join(*parts: str) -> str:
            return "".join(parts)

        with pytest.raises(SpecError, match=r'^spec of "parts": '):
            define_tool(join)
