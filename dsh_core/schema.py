"""What a tool takes: specs, the rules that arguments must keep, and the JSON Schema for the model.

A spec maps the name of each property to what is said of it::

    {"path": {"type": "string", "required": True, "description": "File to read"}}

A property has a ``type`` (string, number, boolean, object, array) and may have ``required`` (True),
``description``, ``enum`` (strings), ``default``, ``properties`` (of an object: a spec) and
``items`` (of an array: a property).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from json import dumps
from typing import Any, Final

from dsh_core.violations import Violations

__all__ = [
    "ABSENT",
    "MAX_DEPTH",
    "MAX_PROPERTIES",
    "Prop",
    "Schema",
    "SchemaSpec",
    "SpecError",
    "check_spec",
    "json_copy",
    "json_schema",
    "shown",
    "violations",
]

SchemaSpec = Mapping[str, Mapping[str, Any]]
"""Properties by name, see the module's text."""

MAX_DEPTH: Final = 32
"""How deep properties (and defaults) may lie within each other."""

MAX_PROPERTIES: Final = 10_000
"""How many properties a spec may have in all."""

ABSENT: Final[Any] = type("Absent", (), {"__repr__": lambda _: "ABSENT"})()
"""Stands for a default that is not there; None is one."""

_KINDS: Final[Mapping[str, tuple[str, tuple[type, ...]]]] = {
    "string": ("a string", (str,)),
    "number": ("a number", (int, float)),
    "boolean": ("a boolean", (bool,)),
    "object": ("an object", (dict,)),
    "array": ("an array", (list,)),
}
_SCALARS: Final = frozenset({"string", "number", "boolean"})
_KEYS: Final = frozenset(
    {"type", "required", "description", "enum", "default", "properties", "items"}
)
_MAX_SHOWN: Final = 100


class SpecError(ValueError):
    """A spec, or a function that stands for one, says what cannot be said.

    Args:
        path: Of the property, empty for the whole.
        problem: What is wrong.
    """

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f'spec of "{path}": {problem}' if path else f"spec: {problem}")


@dataclass(frozen=True, slots=True)
class Prop:
    """A property; what a spec says of it, and what only annotations can say.

    Attributes:
        type: string, number, boolean, object or array.
        required: Whether it must be there.
        description: For the model.
        enum: The strings it may be.
        default: For the model, `ABSENT` if there is none.
        properties: Of an object, None if it may hold anything.
        items: What every element of an array is, None for anything.
        whole: A number must be whole. No part of a spec.
        values: What every value of an object is that has no properties. No part of a spec.
        nullable: What is not there counts as None. No part of a spec.
    """

    type: str
    required: bool = False
    description: str | None = None
    enum: tuple[str, ...] | None = None
    default: Any = ABSENT
    properties: Mapping[str, Prop] | None = None
    items: Prop | None = None
    whole: bool = False
    values: Prop | None = None
    nullable: bool = False
    _allowed: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A long enum would be searched from its start for each element of a long array.
        object.__setattr__(self, "_allowed", frozenset(self.enum or ()))

    def allows(self, value: object) -> bool:
        """Tell whether a value that is no object and no array is one of `enum`, if there is one."""
        return self.enum is None or value in self._allowed

    def spec(self) -> dict[str, Any]:
        """Return what a spec says of it; a copy."""
        said: dict[str, Any] = {"type": self.type}
        if self.required:
            said["required"] = True
        said |= self._remarks()
        if self.properties is not None:
            said["properties"] = {name: prop.spec() for name, prop in self.properties.items()}
        if self.items is not None:
            said["items"] = self.items.spec()
        return said

    def json_schema(self) -> dict[str, Any]:
        """Return it as JSON Schema."""
        schema = {"type": self.type, **self._remarks()}
        if self.properties is not None:
            schema |= _members(self.properties)
        if self.items is not None:
            schema["items"] = self.items.json_schema()
        return schema

    def _remarks(self) -> dict[str, Any]:
        """Return what a spec and JSON Schema say in the same words."""
        remarks: dict[str, Any] = {}
        if self.description is not None:
            remarks["description"] = self.description
        if self.enum is not None:
            remarks["enum"] = list(self.enum)
        if self.default is not ABSENT:
            remarks["default"] = json_copy(self.default, "")
        return remarks


@dataclass(frozen=True, slots=True)
class Schema:
    """A spec that is known to be sound.

    Attributes:
        properties: By name, in the order of the spec.
    """

    properties: Mapping[str, Prop]

    @classmethod
    def of(cls, spec: SchemaSpec) -> Schema:
        """Read a spec; later changes of it change nothing here.

        Args:
            spec: Properties by name.

        Raises:
            SpecError: It is malformed.
        """
        return cls(_Reader().properties(spec, "", 0))

    def spec(self) -> dict[str, dict[str, Any]]:
        """Return the spec; a copy."""
        return {name: prop.spec() for name, prop in self.properties.items()}

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments; a copy."""
        return {"type": "object", **_members(self.properties)}

    def violations(self, value: object) -> list[str]:
        """Return one sentence for each rule that arguments break, see `violations`.

        Args:
            value: The arguments, any JSON value.
        """
        if not isinstance(value, dict):
            return ['"arguments" must be an object']
        found = Violations()
        _check_members(self.properties, value, None, found)
        return found.texts


def check_spec(spec: SchemaSpec) -> dict[str, dict[str, Any]]:
    """Check that a spec is sound.

    Args:
        spec: Properties by name.

    Returns:
        A plain copy of it.

    Raises:
        SpecError: It is malformed.
    """
    return Schema.of(spec).spec()


def violations(spec: SchemaSpec, value: object) -> list[str]:
    """Return one sentence for each rule that arguments break.

    Args:
        spec: Properties by name.
        value: The arguments, any JSON value.

    Returns:
        All of them, depth first in the order of the spec; empty if the arguments are fine. Beyond
        `MAX_VIOLATION_CHARS` a last sentence says that there are more.

    Raises:
        SpecError: The spec is malformed.
    """
    return Schema.of(spec).violations(value)


def json_schema(spec: SchemaSpec) -> dict[str, Any]:
    """Return the JSON Schema of a spec.

    Args:
        spec: Properties by name.

    Raises:
        SpecError: The spec is malformed.
    """
    return Schema.of(spec).json_schema()


def shown(key: object) -> str:
    """Return a key for a message: not longer than people read, since it comes from outside."""
    text = key if isinstance(key, str) else repr(key)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def json_copy(value: object, path: str, depth: int = 0) -> Any:  # noqa: ANN401 - any JSON value
    """Copy a value of a spec.

    Args:
        value: Any JSON value.
        path: Where it stands, for the message.
        depth: How deep it lies.

    Raises:
        SpecError: It is none: of another type, no finite number, no Unicode, or too deep.
    """
    if depth > MAX_DEPTH:
        raise SpecError(path, f"nests deeper than {MAX_DEPTH} levels")
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list):
        return [json_copy(item, path, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_text(key, path): json_copy(item, path, depth + 1) for key, item in value.items()}
    raise SpecError(path, f"default must be a JSON value, not {type(value).__name__}")


# ------------------------------------------------------------------------------ reading a spec


class _Reader:
    """Reads one spec, and refuses to read on without end."""

    def __init__(self) -> None:
        self._left = MAX_PROPERTIES

    def properties(self, spec: object, path: str, depth: int) -> dict[str, Prop]:
        if not isinstance(spec, Mapping):
            raise SpecError(path, f"properties must be a mapping, not {type(spec).__name__}")
        read: dict[str, Prop] = {}
        for name, prop in spec.items():
            if not isinstance(name, str):
                raise SpecError(path, f"a property's name must be a string, not {shown(name)}")
            where = f"{path}.{name}" if depth else name
            read[_text(name, where)] = self.prop(prop, where, depth + 1)
        return read

    def prop(self, said: object, path: str, depth: int) -> Prop:
        self._left -= 1
        if depth > MAX_DEPTH:
            raise SpecError(path, f"nests deeper than {MAX_DEPTH} levels")
        if self._left < 0:
            raise SpecError(path, f"there are more than {MAX_PROPERTIES} properties")
        if not isinstance(said, Mapping):
            raise SpecError(path, f"a property must be a mapping, not {type(said).__name__}")
        for key in said:
            if key not in _KEYS:
                raise SpecError(path, f"unknown key {shown(repr(key))}")
        kind = said.get("type")
        if not isinstance(kind, str) or kind not in _KINDS:
            raise SpecError(path, f"type must be one of {', '.join(_KINDS)}, not {_brief(kind)}")
        if said.get("required", True) is not True:
            raise SpecError(path, "required must be True or left out")
        for key, owner in (("properties", "object"), ("items", "array")):
            if key in said and kind != owner:
                raise SpecError(path, f"only an {owner} has {key}")
        return Prop(
            type=kind,
            required="required" in said,
            description=_description(said["description"], path) if "description" in said else None,
            enum=_enum(said["enum"], path) if "enum" in said else None,
            default=json_copy(said["default"], path) if "default" in said else ABSENT,
            properties=(
                self.properties(said["properties"], path, depth) if "properties" in said else None
            ),
            items=self.prop(said["items"], f"{path}[]", depth + 1) if "items" in said else None,
        )


def _description(value: object, path: str) -> str:
    if not isinstance(value, str) or not value:
        raise SpecError(path, "description must be a string that is not empty")
    return _text(value, path)


def _enum(value: object, path: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise SpecError(path, "enum must be a list of strings")
    return tuple(_text(one, path) for one in value)


def _text(value: object, path: str) -> str:
    """Return a text that can be sent; a lone half of a surrogate pair cannot."""
    if not isinstance(value, str):
        raise SpecError(path, f"keys must be strings, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise SpecError(path, f"{_brief(value)} is no valid Unicode") from None
    return str.__str__(value)


def _brief(value: object) -> str:
    return shown(ascii(value))


# -------------------------------------------------------------------------- checking arguments


def _check_members(
    properties: Mapping[str, Prop], value: dict[str, Any], parent: str | None, found: Violations
) -> None:
    for name, prop in properties.items():
        if found.full:
            return
        path = name if parent is None else f"{parent}.{name}"
        if name in value:
            _check(prop, value[name], path, found)
        elif prop.required:
            found.add(f'missing required property "{path}"')


def _check(prop: Prop, value: Any, path: str, found: Violations) -> None:  # noqa: ANN401 - JSON
    if not _is_a(prop.type, value):
        found.add(f'"{path}" must be {_KINDS[prop.type][0]}')
        return
    if prop.whole and not (isinstance(value, int) or value.is_integer()):
        found.add(f'"{path}" must be a whole number')
    if prop.type in _SCALARS and not prop.allows(value):
        allowed = dumps(prop.enum, ensure_ascii=False, separators=(",", ":"))
        found.add(f'"{path}" must be one of {allowed}')
    if prop.properties is not None:
        _check_members(prop.properties, value, path, found)
    elif prop.values is not None:
        _check_all(prop.values, ((f"{path}.{shown(key)}", value[key]) for key in value), found)
    elif prop.items is not None:
        _check_all(prop.items, ((f"{path}[{at}]", item) for at, item in enumerate(value)), found)


def _is_a(kind: str, value: object) -> bool:
    # To Python, True is a number.
    return isinstance(value, _KINDS[kind][1]) and not (kind == "number" and isinstance(value, bool))


def _check_all(prop: Prop, members: Any, found: Violations) -> None:  # noqa: ANN401 - (path, value)
    for path, value in members:
        if found.full:
            return
        _check(prop, value, path, found)


def _members(properties: Mapping[str, Prop]) -> dict[str, Any]:
    required = [name for name, prop in properties.items() if prop.required]
    schema: dict[str, Any] = {
        "properties": {name: prop.json_schema() for name, prop in properties.items()}
    }
    if required:
        schema["required"] = required
    return schema
