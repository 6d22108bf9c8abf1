"""What passes between a model's call, the tool it names, and the session's log."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dsh_core.schema import SpecError, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dsh_core.abort import AbortSignal

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

__all__ = ["ToolDefinition", "ToolError", "ToolExecution", "ToolExecutionResult"]


@dataclass(slots=True)
class ToolExecution:
    """A call of a tool. Listeners of ``tools/execute`` may change it before the tool runs.

    Attributes:
        call_id: Id of the model's call.
        name: Which tool.
        arguments: What the model sent, parsed; the bare text if it was no JSON.
        agent: Who calls, if it is known.
        signal: Tells whether the result is still wanted.
    """

    call_id: str
    name: str
    arguments: Any
    agent: Any = None
    signal: AbortSignal | None = None


@dataclass(frozen=True, slots=True)
class ToolError:
    """What a log says of a failure beside its text.

    Attributes:
        name: Class of the error.
        code: Its code.
    """

    name: str
    code: str


@dataclass(frozen=True, slots=True)
class ToolExecutionResult:
    """What a call comes to.

    Attributes:
        call_id: Id of the model's call.
        content: Blocks for the model.
        is_error: Whether the call failed.
        error: Of a failure that has a code.
    """

    call_id: str
    content: list[dict[str, Any]]
    is_error: bool = False
    error: ToolError | None = None


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool.

    Attributes:
        name: What the model calls it by: 1 to 64 letters, digits, ``_`` and ``-``.
        description: For the model.
        parameters: JSON Schema of the arguments.
        execute: Called with the arguments and the `ToolExecution`; plain or asynchronous. Nothing
            checks the arguments before: tools of `define_tool` do it themselves.
        strict: Whether the provider is asked to keep the model to the schema.

    Raises:
        SpecError: Providers would refuse the name or the description, and with it every request.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    execute: Callable[[Any, ToolExecution], Any] = field(repr=False)
    strict: bool = False

    def __post_init__(self) -> None:
        # Whoever does without a type checker may hand in anything.
        name: object = self.name
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise SpecError(
                "", f"a tool's name is 1 to 64 of A-Z, a-z, 0-9, _ and -, not {shown(ascii(name))}"
            )
        description: object = self.description
        if not isinstance(description, str):
            raise SpecError("", f"a description is a text, not {type(description).__name__}")
        try:
            description.encode()
        except UnicodeEncodeError:
            raise SpecError("", "a description is valid Unicode") from None
