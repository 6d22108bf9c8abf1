"""Annotations as properties of a spec."""

from __future__ import annotations

import dataclasses
import types
from dataclasses import dataclass, replace
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NewType,
    NotRequired,
    Optional,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import typing_extensions
from pydantic import BaseModel, RootModel, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from typing_extensions import ReadOnly

from dsh_core.schema import ABSENT, MAX_DEPTH, MAX_PROPERTIES, Prop, Schema, SpecError, json_copy

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Annotations", "Read", "wire_name"]

_SCALARS: Final[Mapping[Any, Prop]] = {
    str: Prop("string"),
    float: Prop("number"),
    int: Prop("number", whole=True),
    bool: Prop("boolean"),
}
_ANYTHING: Final = (Any, object)
_MARKS: Final = (Required, NotRequired, ReadOnly)
_UNNAMED: Final = "use str, float, int, bool, list, dict, Literal, an enum, a dataclass or a model"
_MAX_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Read:
    """An annotation that was understood.

    Attributes:
        prop: What it says.
        annotation: The same type in a form that pydantic takes.
        built: Whether the values must be made by pydantic; else they are plain JSON.
    """

    prop: Prop
    annotation: Any
    built: bool = False


class Annotations:
    """Reads the annotations of one function.

    Args:
        namespace: Names that types may use beside the globals of their modules.
    """

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self.namespace = dict(namespace)
        self._left = MAX_PROPERTIES

    def field(self, info: FieldInfo, path: str, depth: int = 1) -> Read:
        """Read what pydantic knows of a parameter or a field.

        Args:
            info: What it knows.
            path: Of the property.
            depth: How deep it lies.

        Raises:
            SpecError: It cannot be expressed.
        """
        self._left -= 1
        if self._left < 0:
            raise SpecError(path, f"there are more than {MAX_PROPERTIES} properties")
        read = self._constrained(info, self._type(info.annotation, path, depth))
        default = self._default(info, read, path)
        needed = info.is_required()
        prop = replace(
            read.prop,
            required=needed and not read.prop.nullable,
            # A default, None among them, is filled in by whoever has it.
            nullable=needed and read.prop.nullable,
            default=default,
        )
        return replace(read, prop=prop)

    def adapter(self, read: Read) -> TypeAdapter[Any]:
        """Return what makes the values of a type."""
        adapter: TypeAdapter[Any] = TypeAdapter(read.annotation)
        if not adapter.pydantic_complete:
            adapter.rebuild(raise_errors=True, _types_namespace=self.namespace)
        return adapter

    # Types

    def _type(self, annotation: Any, path: str, depth: int) -> Read:  # noqa: ANN401 - any type
        if depth > MAX_DEPTH:
            raise SpecError(
                path, f"nests deeper than {MAX_DEPTH} levels, or holds itself; use dict there"
            )
        annotation = _without_names(annotation)
        origin, args = get_origin(annotation), get_args(annotation)
        if annotation in (list, dict):
            origin = annotation
        if origin is Annotated:
            info = FieldInfo.from_annotation(annotation)
            return self._constrained(info, self._type(info.annotation, path, depth))
        if origin in (Union, types.UnionType):
            return self._optional(args, path, depth)
        if origin is Literal:
            return _literal(annotation, args, path)
        if origin is list:
            return self._list(args, path, depth)
        if origin is dict:
            return self._dict(args, path, depth)
        return self._class(annotation, path, depth)

    def _constrained(self, info: FieldInfo, read: Read) -> Read:
        """Add what stands beside a type: text for the model, constraints for pydantic."""
        texts = [text for one in info.metadata if (text := _text(one))]
        description = info.description or next(iter(texts), None) or read.prop.description
        constraints = [one for one in info.metadata if _text(one) is None]
        annotation = read.annotation
        if constraints:
            annotation = Annotated[(annotation, *constraints)]
        return Read(
            replace(read.prop, description=description),
            annotation,
            read.built or bool(constraints),
        )

    def _optional(self, args: tuple[Any, ...], path: str, depth: int) -> Read:
        rest = [arg for arg in args if arg is not type(None)]
        if len(rest) != 1 or len(rest) == len(args):
            raise SpecError(
                path, "a union of types cannot be expressed; use one type, or one of them | None"
            )
        read = self._type(rest[0], path, depth)
        return Read(replace(read.prop, nullable=True), Optional[read.annotation], read.built)  # noqa: UP045 - made at run time

    def _part(self, annotation: Any, path: str, depth: int) -> Read:  # noqa: ANN401 - any type
        """Read the type of what cannot be left out."""
        read = self._type(annotation, path, depth)
        if read.prop.nullable:
            raise SpecError(path, "null is no value; use the type without None")
        return read

    def _list(self, args: tuple[Any, ...], path: str, depth: int) -> Read:
        if not args or args[0] in _ANYTHING:
            return Read(Prop("array"), list[Any])
        item = self._part(args[0], f"{path}[]", depth + 1)
        return Read(Prop("array", items=item.prop), list[item.annotation], item.built)  # type: ignore[name-defined]

    def _dict(self, args: tuple[Any, ...], path: str, depth: int) -> Read:
        if args and args[0] is not str:
            raise SpecError(path, "keys are strings in JSON; use dict[str, …]")
        if not args or args[1] in _ANYTHING:
            return Read(Prop("object"), dict[str, Any])
        value = self._part(args[1], f"{path}.*", depth + 1)
        prop = Prop("object", values=value.prop)
        return Read(prop, dict[str, value.annotation], value.built)  # type: ignore[name-defined]

    def _class(self, cls: Any, path: str, depth: int) -> Read:  # noqa: ANN401 - any type
        if cls in _SCALARS:
            return Read(_SCALARS[cls], cls)
        if isinstance(cls, type):
            if issubclass(cls, Enum):
                return _enum(cls, path)
            if typing_extensions.is_typeddict(cls):
                return self._typed_dict(cls, path, depth)
            if issubclass(cls, BaseModel) and not issubclass(cls, RootModel):
                return self._model(cls, path, depth)
            if dataclasses.is_dataclass(cls):
                return self._dataclass(cls, path, depth)
        shown = repr(cls)[:_MAX_SHOWN]
        raise SpecError(path, f"{shown} cannot be expressed; {_UNNAMED}")

    # Types with members

    def _model(self, cls: type[BaseModel], path: str, depth: int) -> Read:
        if not cls.__pydantic_complete__:
            cls.model_rebuild(_types_namespace=self.namespace)
        return self._members(cls, cls.model_fields, path, depth)

    def _dataclass(self, cls: Any, path: str, depth: int) -> Read:  # noqa: ANN401 - a dataclass
        known = vars(cls).get("__pydantic_fields__")
        if isinstance(known, dict) and getattr(cls, "__pydantic_complete__", False):
            return self._members(cls, known, path, depth)
        hints = self._hints(cls, path)
        if any(isinstance(hint, dataclasses.InitVar) for hint in hints.values()):
            raise SpecError(path, "InitVar cannot be expressed; use an ordinary field")
        fields = {
            one.name: FieldInfo.from_annotated_attribute(
                hints[one.name],
                # In a dataclass of the standard library, `= Field(…)` is but a strange default.
                one.default if isinstance(one.default, FieldInfo) else one,
            )
            for one in dataclasses.fields(cls)
            if one.init
        }
        return self._members(cls, fields, path, depth)

    def _members(self, cls: Any, fields: Mapping[str, FieldInfo], path: str, depth: int) -> Read:  # noqa: ANN401 - a class
        properties: dict[str, Prop] = {}
        for name, info in fields.items():
            wire = wire_name(name, info)
            properties[wire] = self.field(info, f"{path}.{wire}", depth + 1).prop
        return Read(Prop("object", properties=properties), cls, built=True)

    def _typed_dict(self, cls: Any, path: str, depth: int) -> Read:  # noqa: ANN401 - a typed dict
        properties: dict[str, Prop] = {}
        members: dict[str, Any] = {}
        for name, hint in self._hints(cls, path).items():
            bare, needed = _without_marks(hint, needed=name in cls.__required_keys__)
            info = FieldInfo.from_annotation(bare)
            where = f"{path}.{name}"
            if wire_name(name, info) != name:
                raise SpecError(where, "a key has no alias; use a dataclass or a model")
            read = self._constrained(info, self._type(info.annotation, where, depth + 1))
            nullable = read.prop.nullable
            properties[name] = replace(
                read.prop, required=needed and not nullable, nullable=needed and nullable
            )
            members[name] = (Required if needed else NotRequired)[read.annotation]
        # The same once more: pydantic does not take those of `typing` on old interpreters.
        make: Any = typing_extensions.TypedDict
        twin = make(cls.__name__, members)
        return Read(Prop("object", properties=properties), twin, built=True)

    def _hints(self, cls: Any, path: str) -> dict[str, Any]:  # noqa: ANN401 - a class
        try:
            return get_type_hints(cls, localns=self.namespace, include_extras=True)
        except NameError as error:
            raise SpecError(
                path, f"an annotation of {cls.__name__} cannot be read: {error}"
            ) from error

    def _default(self, info: FieldInfo, read: Read, path: str) -> Any:  # noqa: ANN401 - JSON
        """Return a default as JSON.

        None is left out, since null is no value; so is what a factory makes anew each time.
        """
        default = info.default
        if default is PydanticUndefined or default is None:
            return ABSENT
        if read.built:
            default = self.adapter(read).dump_python(
                default, mode="json", by_alias=True, exclude_none=True, warnings="error"
            )
        default = _known(read.prop, json_copy(default, path))
        if wrong := Schema({"default": read.prop}).violations({"default": default}):
            raise SpecError(path, f"the default does not fit: {'; '.join(wrong[:3])}; use None")
        return default


def wire_name(name: str, info: FieldInfo) -> str:
    """Return the name that a field has in JSON.

    Args:
        name: Its name in Python.
        info: What pydantic knows of it.

    Raises:
        SpecError: It has several.
    """
    alias = name if info.validation_alias is None else info.validation_alias
    if not isinstance(alias, str):
        raise SpecError(name, "a property has one name; use one alias")
    return alias


def _enum(cls: type[Enum], path: str) -> Read:
    values = [member.value for member in cls]
    if not values or not all(isinstance(value, str) for value in values):
        raise SpecError(path, "an enum lists strings; use one whose values are strings")
    return Read(Prop("string", enum=tuple(map(str.__str__, values))), cls, built=True)


def _literal(annotation: Any, args: tuple[Any, ...], path: str) -> Read:  # noqa: ANN401 - a type
    values = tuple(arg for arg in args if arg is not None)
    if not values or not all(type(value) is str for value in values):
        raise SpecError(path, "an enum lists strings; use Literal of strings")
    return Read(Prop("string", enum=values, nullable=len(values) < len(args)), annotation)


def _text(metadata: object) -> str | None:
    """Return the text of ``Annotated[T, "text"]`` or ``Annotated[T, Doc("text")]``."""
    text = getattr(metadata, "documentation", metadata)
    return text if isinstance(text, str) else None


def _known(prop: Prop, value: Any) -> Any:  # noqa: ANN401 - JSON
    """Leave out of a default what nobody can set: fields that a dataclass fills in itself."""
    if isinstance(value, dict) and prop.properties is not None:
        members = prop.properties
        return {name: _known(members[name], one) for name, one in value.items() if name in members}
    if isinstance(value, list) and prop.items is not None:
        return [_known(prop.items, one) for one in value]
    return value


def _without_names(annotation: Any) -> Any:  # noqa: ANN401 - a type
    """Look through ``NewType`` and ``type X = …``."""
    for _ in range(MAX_DEPTH):
        if isinstance(annotation, NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            # There are two of them: that of `typing`, and its backport.
            annotation = annotation.__value__
        else:
            break
    return annotation


def _without_marks(hint: Any, *, needed: bool) -> tuple[Any, bool]:  # noqa: ANN401 - a type
    """Take ``Required``, ``NotRequired`` and ``ReadOnly`` off a key's type.

    Where annotations are text, `typing` itself does not see them when it makes the class.
    """
    while (origin := get_origin(hint)) in _MARKS:
        needed = needed if origin is ReadOnly else origin is Required
        (hint,) = get_args(hint)
    return hint, needed
