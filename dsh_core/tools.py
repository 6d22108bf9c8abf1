"""Tools: how they are defined, found and run."""

from __future__ import annotations

import copy
import functools
import inspect
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, overload

from dsh_core.context import Service
from dsh_core.errors import HarnessError, ToolArgsError, error_code
from dsh_core.schema import Schema, SpecError
from dsh_core.tool_content import content_of, text_block
from dsh_core.tool_types import ToolDefinition, ToolError, ToolExecution, ToolExecutionResult
from dsh_core.typed import TypedFunction, local_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_core.context import Context, Disposer
    from dsh_core.schema import SchemaSpec

__all__ = [
    "TOOLS_CHANGE",
    "TOOLS_EXECUTE",
    "ToolDefinition",
    "ToolError",
    "ToolExecution",
    "ToolExecutionResult",
    "ToolRegistry",
    "define_tool",
]

TOOLS_CHANGE: Final = "tools/change"
"""Emitted when a tool is added or removed."""

TOOLS_EXECUTE: Final = "tools/execute"
"""Waterfall around every call; listeners get the `ToolExecution` and ``next``."""


@overload
def define_tool(function: Callable[..., Any], /) -> ToolDefinition: ...


@overload
def define_tool(
    *, name: str | None = None, description: str | None = None, strict: bool = False
) -> Callable[[Callable[..., Any]], ToolDefinition]: ...


@overload
def define_tool(
    *,
    name: str,
    description: str,
    parameters: SchemaSpec,
    execute: Callable[[Any, ToolExecution], Any] | Callable[[Any], Any],
    strict: bool = False,
) -> ToolDefinition: ...


def define_tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: SchemaSpec | None = None,
    execute: Callable[..., Any] | None = None,
    strict: bool = False,
) -> ToolDefinition | Callable[[Callable[..., Any]], ToolDefinition]:
    """Define a tool that checks its arguments.

    From a spec: ``define_tool(name=…, description=…, parameters=SPEC, execute=f)``, where ``f``
    gets the arguments, and the execution if it takes two. From a typed function: ``@define_tool``,
    or ``@define_tool(name=…)``; its annotations are the spec, and its parameter ``exec`` gets the
    execution. Functions may be asynchronous; plain ones run in the thread of the event loop.

    What a function returns becomes content: text a text block, a list of blocks (texts, images,
    those of plugins) is taken as it is, None is no block, and anything else is written as JSON.

    Args:
        function: The typed function.
        name: What the model calls it by: 1 to 64 letters, digits, ``_`` and ``-``; by default the
            function's name.
        description: For the model; by default the first paragraph of the function's docstring.
        parameters: The spec.
        execute: What to call.
        strict: Whether the provider is asked to keep the model to the schema.

    Returns:
        The tool; without `function` and `execute` a decorator that makes it.

    Raises:
        SpecError: The spec, the name or the description is malformed, or the function's parameters
            cannot be expressed.
        TypeError: The two forms are mixed up.
    """
    if execute is not None or parameters is not None:
        if function is not None or execute is None or parameters is None:
            raise TypeError("a tool has either parameters and execute, or a typed function")
        if name is None or description is None:
            raise TypeError("a tool with a spec needs a name and a description")
        schema = Schema.of(parameters)
        checked = _Checked(schema, _with_execution(execute))
        return ToolDefinition(_named(name), description, schema.json_schema(), checked, strict)

    namespace = local_names(inspect.currentframe())

    def of(typed: Callable[..., Any]) -> ToolDefinition:
        reads = TypedFunction(typed, namespace)
        return ToolDefinition(
            _named(getattr(typed, "__name__", None) if name is None else name),
            _first_paragraph(typed) if description is None else description,
            reads.schema.json_schema(),
            reads.call,
            strict,
        )

    return of if function is None else of(function)


class _Checked:
    """Calls a function with arguments that fit a schema.

    Args:
        schema: What they must fit.
        execute: The function.
    """

    def __init__(self, schema: Schema, execute: Callable[[Any, ToolExecution], Any]) -> None:
        self._schema = schema
        self._execute = execute

    def __call__(self, arguments: object, execution: ToolExecution) -> Any:  # noqa: ANN401 - as is
        """Check, then call.

        Raises:
            ToolArgsError: The arguments do not fit.
        """
        if found := self._schema.violations(arguments):
            raise ToolArgsError(found)
        return self._execute(arguments, execution)


class ToolRegistry(Service):
    """The tools that there are; found as ``ctx.tools``.

    Args:
        ctx: The context of the plugin that offers it.
        config: None; there is nothing to configure.
    """

    def __init__(self, ctx: Context, config: object = None) -> None:  # noqa: ARG002 - plugins get one
        self._tools: dict[str, ToolDefinition] = {}
        super().__init__(ctx, "tools")

    def register(self, tool: ToolDefinition | Callable[..., Any]) -> Disposer:
        """Add a tool, for as long as the registry is there.

        A plugin whose tools are to go with it writes
        ``ctx.effect(lambda: ctx.tools.register(tool))``.

        Args:
            tool: The tool, or a typed function to make one of, see `define_tool`.

        Returns:
            What removes it earlier.

        Raises:
            SpecError: The function's parameters cannot be expressed.
            ValueError: There is a tool of this name.
        """
        definition = tool if isinstance(tool, ToolDefinition) else define_tool(tool)
        name = definition.name
        if name in self._tools:
            raise ValueError(f'tool "{name}" is already registered')

        def remove() -> None:
            del self._tools[name]
            self.ctx.emit(TOOLS_CHANGE)

        def add() -> Any:  # noqa: ANN401 - an effect
            self._tools[name] = definition
            yield remove
            self.ctx.emit(TOOLS_CHANGE)

        disposer: Disposer = self.ctx.effect(add, f"tool {name} of")
        return disposer

    def get(self, name: str) -> ToolDefinition | None:
        """Return a tool, None if there is none of this name."""
        return self._tools.get(name)

    def schemas(self) -> list[dict[str, Any]]:
        """Return what a model is told of the tools, in the order of their registration.

        Returns:
            Name, description and parameters (JSON Schema) of each; ``strict`` where it is set.
        """
        return [_told(definition) for definition in self._tools.values()]

    async def execute(self, execution: ToolExecution) -> ToolExecutionResult:
        """Run a tool, within the listeners of ``tools/execute``.

        A listener denies a call by returning a `ToolExecutionResult` of its own instead of calling
        ``next``; what it raises ends the step.

        A listener gets the execution and ``next``; it may change the execution first, return a
        result of its own instead of what ``await next()`` returns, or change that.

        Args:
            execution: The call.

        Returns:
            What it comes to; a tool that raises comes to an error.

        Raises:
            Exception: What a listener raises.
            TypeError: A listener returns no result.
        """
        result = self.ctx.waterfall(TOOLS_EXECUTE, execution, inner=self._run)
        if inspect.isawaitable(result):
            result = await result
        if not isinstance(result, ToolExecutionResult):
            kind = type(result).__name__
            raise TypeError(f"a listener of {TOOLS_EXECUTE} returned no result but {kind}")
        return result

    async def _run(self, execution: ToolExecution) -> ToolExecutionResult:
        definition = self._tools.get(execution.name)
        if definition is None:
            return _failed(execution, f'unknown tool "{execution.name}"')
        try:
            value = definition.execute(execution.arguments, execution)
            if inspect.isawaitable(value):
                value = await value
            content = content_of(value)
        except Exception as error:  # noqa: BLE001 - what a tool raises is a result, whatever it is
            return _failed(execution, _message(error), _tool_error(error))
        return ToolExecutionResult(execution.call_id, content)


def _failed(
    execution: ToolExecution, message: str, error: ToolError | None = None
) -> ToolExecutionResult:
    content = [text_block(f"Error: {message}")]
    return ToolExecutionResult(execution.call_id, content, is_error=True, error=error)


def _message(error: Exception) -> str:
    try:
        text = error.message if isinstance(error, HarnessError) else str(error)
        # Many exceptions of Python have no text; their class is all they say.
        return str(text) if text or isinstance(error, HarnessError) else type(error).__name__
    except Exception:  # noqa: BLE001 - a broken exception must not break the loop
        return f"<unprintable {type(error).__name__}>"


def _tool_error(error: Exception) -> ToolError | None:
    try:
        code = error_code(error)
        name = error.name if isinstance(error, HarnessError) else type(error).__name__
    except Exception:  # noqa: BLE001 - as above
        return None
    return ToolError(name, code) if isinstance(code, str) and isinstance(name, str) else None


def _told(definition: ToolDefinition) -> dict[str, Any]:
    told = {
        "name": definition.name,
        "description": definition.description,
        # A copy: whoever shapes it for a provider must not shape the tool.
        "parameters": copy.deepcopy(dict(definition.parameters)),
    }
    return {**told, "strict": True} if definition.strict else told


def _named(name: object) -> str:
    if not isinstance(name, str) or not name or name == "<lambda>":
        raise SpecError("", "a tool needs a name; give it one with name=…")
    return name


def _with_execution(execute: Callable[..., Any]) -> Callable[[Any, ToolExecution], Any]:
    """Return a function of arguments and execution, whichever of the two forms is given."""
    if not callable(execute):
        raise TypeError(f"execute must be a function, not {type(execute).__name__}")
    try:
        takes = inspect.signature(execute).bind
    except (TypeError, ValueError, NameError):
        # Some that are written in C do not say.
        return execute
    with suppress(TypeError):
        takes(None, None)
        return execute
    with suppress(TypeError):
        takes(None)
        return lambda arguments, _: execute(arguments)
    raise SpecError("", "execute must take the arguments, and the execution if it wants it")


def _first_paragraph(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    text = inspect.getdoc(function) or ""
    return " ".join(text.partition("\n\n")[0].split())
