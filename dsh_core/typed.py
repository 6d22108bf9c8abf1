"""Tools from typed functions: a spec from the annotations, and calls with values of those types.

What can be annotated: ``str``, ``float``, ``int``, ``bool``, ``list[T]``, ``dict[str, T]``,
``Literal`` of strings, enums of strings, typed dictionaries, dataclasses and pydantic models, each
also as ``T | None`` where a property stands. ``Annotated[T, "text"]`` or
``Annotated[T, pydantic.Field(description="text")]`` describes.

A property that may be None, or has a default, is not required. It is None by being left out: null
is no value of any type that a spec knows.
"""

from __future__ import annotations

import functools
import inspect
import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from dsh_core.annotations import Annotations, wire_name
from dsh_core.errors import ToolArgsError
from dsh_core.schema import ABSENT, Prop, Schema, SpecError, shown
from dsh_core.tool_types import ToolExecution
from dsh_core.violations import Violations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dsh_core.schema import SchemaSpec

__all__ = ["TypedFunction", "spec_of"]

EXECUTION: Final = "exec"
"""Name of the parameter that gets the `ToolExecution`, whatever its annotation."""

MAX_VALUES: Final = 100_000
"""Values within one argument that pydantic is given: more than a model writes in one answer.

It notes everything that it finds wrong, and each note takes a hundred times the value's room.
"""

_HANDED_OVER: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter that the model sets.

    Attributes:
        name: In the function.
        wire: In the arguments.
        prop: What it takes.
        adapter: Makes its value, None if JSON is what the function wants.
        info: Knows the default that the function itself does not: one given by `pydantic.Field`.
    """

    name: str
    wire: str
    prop: Prop
    adapter: TypeAdapter[Any] | None
    info: FieldInfo | None


class TypedFunction:
    """A typed function that takes a model's arguments.

    Args:
        function: Any callable with annotated parameters.
        namespace: Names that annotations may use beside the globals of the function's module.

    Attributes:
        schema: What the function takes.

    Raises:
        SpecError: A parameter cannot be expressed in a spec.
    """

    def __init__(
        self, function: Callable[..., Any], namespace: Mapping[str, Any] | None = None
    ) -> None:
        self._function = function
        self._execution: str | None = None
        self._parameters: list[_Parameter] = []
        reader = Annotations(namespace or {})
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError) as error:
            raise SpecError("", f"no signature can be read: {error}") from error
        for parameter in parameters:
            try:
                self._add(parameter, reader)
            except SpecError:
                raise
            except Exception as error:
                # Whatever pydantic, or a type's own hooks, think of the annotation.
                raise SpecError(parameter.name, f"cannot be expressed: {error}") from error
        self.schema = Schema({one.wire: one.prop for one in self._parameters})
        if len(self.schema.properties) < len(self._parameters):
            raise SpecError("", "two parameters have one name in the arguments; change an alias")
        # What holds of every spec must hold of this one: depth, names, descriptions.
        Schema.of(self.schema.spec())

    def call(self, arguments: object, execution: ToolExecution | None) -> Any:  # noqa: ANN401
        """Call the function.

        Args:
            arguments: What the model sent, any JSON value.
            execution: Handed to the parameter that wants it.

        Returns:
            What the function returns, something to await if it is asynchronous.

        Raises:
            ToolArgsError: The arguments do not fit.
        """
        values = self.values(arguments)
        if self._execution is not None:
            values[self._execution] = execution
        return self._function(**values)

    def values(self, arguments: object) -> dict[str, Any]:
        """Return the values of the function's parameters.

        Args:
            arguments: What the model sent, any JSON value.

        Raises:
            ToolArgsError: They do not fit.
        """
        broken = self.schema.violations(arguments)
        if broken or not isinstance(arguments, dict):
            raise ToolArgsError(broken)
        found = Violations()
        values: dict[str, Any] = {}
        for one in self._parameters:
            if one.wire in arguments:
                values[one.name] = _built(one, arguments[one.wire], found)
            elif one.prop.nullable:
                values[one.name] = None
            elif one.info is not None:
                values[one.name] = one.info.get_default(call_default_factory=True)
        if found.texts:
            raise ToolArgsError(found.texts)
        return values

    def _add(self, parameter: inspect.Parameter, reader: Annotations) -> None:
        name, annotation = parameter.name, parameter.annotation
        if parameter.kind not in _HANDED_OVER:
            raise SpecError(
                name, f"{parameter.kind.description} parameters have no name; use an ordinary one"
            )
        if name == EXECUTION or _means_execution(annotation):
            self._execution = name
            return
        if annotation is inspect.Parameter.empty:
            raise SpecError(name, "has no annotation; give it a type")
        annotation = _evaluated(name, annotation, self._function, reader.namespace)
        if _means_execution(annotation):
            self._execution = name
            return
        default = parameter.default
        if default is inspect.Parameter.empty:
            info = FieldInfo.from_annotation(annotation)
        else:
            info = FieldInfo.from_annotated_attribute(annotation, default)
        if info.default_factory_takes_validated_data:
            raise SpecError(name, "a default cannot depend on others; use None for it")
        wire = wire_name(name, info)
        read = reader.field(info, wire)
        own = default is not inspect.Parameter.empty and not isinstance(default, FieldInfo)
        self._parameters.append(
            _Parameter(
                name=name,
                wire=wire,
                prop=read.prop,
                adapter=reader.adapter(read) if read.built else None,
                info=None if own or info.is_required() else info,
            )
        )


def spec_of(function: Callable[..., Any], namespace: Mapping[str, Any] | None = None) -> SchemaSpec:
    """Return the spec that a function's annotations say.

    Args:
        function: Any callable with annotated parameters.
        namespace: Names that annotations may use beside the globals of the function's module; the
            caller's local names by default.

    Raises:
        SpecError: A parameter cannot be expressed.
    """
    if namespace is None:
        namespace = local_names(inspect.currentframe())
    return TypedFunction(function, namespace).schema.spec()


def local_names(frame: Any) -> dict[str, Any]:  # noqa: ANN401 - a frame, or None where there are none
    """Return the local names of whoever called the function that a frame belongs to.

    Annotations that are kept as text may use names of the function in which a tool is defined.
    """
    caller = None if frame is None else frame.f_back
    return {} if caller is None else dict(caller.f_locals)


def _means_execution(annotation: object) -> bool:
    """Tell whether an annotation stands for the execution.

    As text it is recognised by name: linters like such an import to be for type checkers only.
    """
    if isinstance(annotation, str):
        parts = [part.strip().strip("'\"") for part in annotation.split("|")]
        names = {part.rpartition(".")[2] for part in parts}
        return "ToolExecution" in names and names <= {"ToolExecution", "None"}
    return annotation is ToolExecution or set(get_args(annotation)) == {ToolExecution, type(None)}


def _evaluated(
    name: str,
    annotation: object,
    function: Callable[..., Any],
    namespace: Mapping[str, Any],
) -> Any:  # noqa: ANN401 - a type expression
    inner: Any = inspect.unwrap(function)
    while isinstance(inner, functools.partial):
        inner = inspect.unwrap(inner.func)
    inner = getattr(inner, "__func__", inner)
    if not hasattr(inner, "__globals__"):
        inner = getattr(type(inner), "__call__", inner)  # noqa: B004 - its names are wanted
    holder = SimpleNamespace(__annotations__={name: annotation})
    try:
        hints = get_type_hints(
            holder, getattr(inner, "__globals__", {}), dict(namespace), include_extras=True
        )
    except NameError as error:
        raise SpecError(
            name, f"the annotation cannot be read: {error}; import it at run time"
        ) from error
    return hints[name]


# -------------------------------------------------------------------------------------- values


def _prepared(prop: Prop, value: Any) -> Any:  # noqa: ANN401 - any JSON value that fits
    """Copy a value that fits, with numbers of their kind, and None for what is left out."""
    if prop.type == "number":
        return int(value) if prop.whole else _real(value)
    if prop.items is not None:
        return [_prepared(prop.items, item) for item in value]
    if prop.values is not None:
        return {key: _prepared(prop.values, item) for key, item in value.items()}
    if prop.properties is None:
        return value
    ready = dict(value)
    for name, member in prop.properties.items():
        if name in value:
            ready[name] = _prepared(member, value[name])
        elif member.nullable:
            ready[name] = None
    return ready


def _real(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        # What every JSON reader with floats only makes of so many digits.
        return math.inf if value > 0 else -math.inf


def _is_long(value: object) -> bool:
    """Tell whether there are more than `MAX_VALUES` values within a JSON value."""
    left, ahead = MAX_VALUES, [value]
    while ahead:
        one = ahead.pop()
        if isinstance(one, dict | list):
            left -= len(one)
            if left < 0:
                return True
            ahead.extend(one.values() if isinstance(one, dict) else one)
    return False


def _built(parameter: _Parameter, value: Any, found: Violations) -> Any:  # noqa: ANN401 - of its type
    """Return the value that the function wants, or say why there is none."""
    if parameter.adapter is None:
        return _prepared(parameter.prop, value)
    if found.full:
        return ABSENT
    if _is_long(value):
        found.add(f'"{parameter.wire}" must not hold more than {MAX_VALUES} values')
        return ABSENT
    value = _prepared(parameter.prop, value)
    try:
        # The rules of the spec are strict enough: here texts become enums, mappings dataclasses.
        return parameter.adapter.validate_python(value, strict=False, by_alias=True)
    except ValidationError as error:
        for one in error.errors(include_url=False, include_context=False, include_input=False):
            found.add(f'"{_path(parameter.wire, one["loc"])}" {one["msg"]}')
    return ABSENT


def _path(start: str, parts: tuple[int | str, ...]) -> str:
    return start + "".join(
        f"[{part}]" if isinstance(part, int) else f".{shown(part)}" for part in parts
    )
