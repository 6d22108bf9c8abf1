"""Tests of typed functions: the spec that annotations say, and the values that are handed over."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from enum import Enum, IntEnum, StrEnum
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
)

import pydantic
import pytest
import typing_extensions
from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, RootModel
from pydantic.alias_generators import to_camel

from dsh_core.errors import ToolArgsError
from dsh_core.schema import MAX_DEPTH, SpecError
from dsh_core.tool_types import ToolExecution
from dsh_core.typed import TypedFunction, spec_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_core.tool_types import ToolExecution as Execution

    class Unknown:
        """A name for type checkers only."""


def shown(value: object) -> str:
    """Return how a value is named in a test's id: the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


EXECUTION = ToolExecution("c1", "t", {})
Large = Annotated[int, Field(gt=5)]
OFFSET = {"type": "number", "required": True}


class Color(StrEnum):
    """Strings with names."""

    RED = "red"
    BLUE = "blue"


class Level(Enum):
    """Names for strings, without being strings."""

    LOW = "low"
    HIGH = "high"


class Number(IntEnum):
    """Names for numbers."""

    ONE = 1


class Options(BaseModel):
    """A model with everything."""

    depth: int
    color: Color = Color.RED
    ratio: float | None = None
    tags: list[str] = Field(default_factory=list, description="Labels")
    file_path: str | None = Field(alias="filePath", description="Where")


OPTIONS_SPEC = {
    "depth": {"type": "number", "required": True},
    "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
    "ratio": {"type": "number"},
    "tags": {"type": "array", "description": "Labels", "items": {"type": "string"}},
    "filePath": {"type": "string", "description": "Where"},
}


@dataclasses.dataclass
class Range:
    """A plain dataclass."""

    start: int
    end: Annotated[int | None, Field(description="Last line")] = None
    step: int = dataclasses.field(default=1, metadata={"description": "Every nth"})
    seen: list[int] = dataclasses.field(default_factory=list)
    size: int = dataclasses.field(init=False, default=0)


@pydantic.dataclasses.dataclass
class Span:
    """A dataclass of pydantic."""

    start: int = Field(ge=0)
    label: str = Field(default="none", description="Name")


class Edit(TypedDict):
    """A typed dictionary."""

    line: int
    text: Annotated[str, "New text"]
    color: NotRequired[str]
    note: str | None


class Loose(TypedDict, total=False):
    """A typed dictionary whose keys may be missing."""

    path: Required[str]
    at: Range


class Node(BaseModel):
    """A model that holds itself."""

    children: list[Node]


def call(function: Callable[..., Any], arguments: object) -> Any:
    """Call a typed function as a tool would."""
    return TypedFunction(function).call(arguments, EXECUTION)


def refused(function: Callable[..., Any], arguments: object) -> list[str]:
    """Return the violations of arguments."""
    with pytest.raises(ToolArgsError) as caught:
        TypedFunction(function).call(arguments, EXECUTION)
    return list(caught.value.violations)


def taking(annotation: object, default: object = dataclasses.MISSING) -> Callable[..., Any]:
    """Return a function with a parameter x that returns it."""

    def function(x: Any) -> Any:
        return x

    function.__annotations__ = {"x": annotation}
    if default is not dataclasses.MISSING:
        function.__defaults__ = (default,)
    return function


def spec_for(annotation: object, default: object = dataclasses.MISSING) -> Any:
    """Return what the spec says of a parameter."""
    return spec_of(taking(annotation, default))["x"]


class TestSpec:
    """Annotations as a spec."""

    @pytest.mark.parametrize(
        ("annotation", "said"),
        [
            (str, {"type": "string"}),
            (float, {"type": "number"}),
            (int, {"type": "number"}),
            (bool, {"type": "boolean"}),
            (list, {"type": "array"}),
            (list[Any], {"type": "array"}),
            (list[str], {"type": "array", "items": {"type": "string"}}),
            (
                list[list[int]],
                {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
            ),
            (dict, {"type": "object"}),
            (dict[str, Any], {"type": "object"}),
            (dict[str, object], {"type": "object"}),
            (dict[str, int], {"type": "object"}),
            (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
            (Color, {"type": "string", "enum": ["red", "blue"]}),
            (Level, {"type": "string", "enum": ["low", "high"]}),
            (NewType("UserId", str), {"type": "string"}),
            (
                typing_extensions.TypeAliasType("Names", list[str]),
                {"type": "array", "items": {"type": "string"}},
            ),
            (Annotated[str, Field(description="Text")], {"type": "string", "description": "Text"}),
            (Annotated[str, "Text"], {"type": "string", "description": "Text"}),
            (
                Annotated[str, typing_extensions.Doc("Text")],
                {"type": "string", "description": "Text"},
            ),
            (Annotated[int, Field(ge=1)], {"type": "number"}),
            (
                list[Annotated[str, Field(description="One")]],
                {"type": "array", "items": {"type": "string", "description": "One"}},
            ),
            (Options, {"type": "object", "properties": OPTIONS_SPEC}),
            (
                list[Span],
                {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "start": {"type": "number", "required": True},
                            "label": {"type": "string", "description": "Name", "default": "none"},
                        },
                    },
                },
            ),
            (
                Range,
                {
                    "type": "object",
                    "properties": {
                        "start": {"type": "number", "required": True},
                        "end": {"type": "number", "description": "Last line"},
                        "step": {"type": "number", "description": "Every nth", "default": 1},
                        "seen": {"type": "array", "items": {"type": "number"}},
                    },
                },
            ),
            (
                Edit,
                {
                    "type": "object",
                    "properties": {
                        "line": {"type": "number", "required": True},
                        "text": {"type": "string", "required": True, "description": "New text"},
                        "color": {"type": "string"},
                        "note": {"type": "string"},
                    },
                },
            ),
        ],
        ids=shown,
    )
    def test_an_annotation_says_what_is_required(self, annotation: Any, said: Any) -> None:
        assert spec_for(annotation) == {"required": True, **said}

    @pytest.mark.parametrize(
        "annotation",
        [
            str | None,
            Optional[str],  # noqa: UP045 - the old spelling counts too
            None | str,
            Annotated[str | None, Field()],
            Annotated[str, Field()] | None,
        ],
        ids=shown,
    )
    def test_what_may_be_none_is_not_required(self, annotation: object) -> None:
        assert spec_for(annotation) == {"type": "string"}
        assert spec_for(annotation, None) == {"type": "string"}

    def test_literals_may_be_none_too(self) -> None:
        assert spec_for(Literal["a", None]) == {  # noqa: PYI061 - odd, but legal
            "type": "string",
            "enum": ["a"],
        }

    @pytest.mark.parametrize(
        ("annotation", "default", "told"),
        [
            (str, "x", "x"),
            (str | None, "x", "x"),
            (int, 3, 3),
            (bool, False, False),
            (list[str], ["a"], ["a"]),
            (Color, Color.BLUE, "blue"),
            (Literal["a", "b"], "b", "b"),
            (Span, Span(start=1), {"start": 1, "label": "none"}),
            (Range, Range(1), {"start": 1, "step": 1, "seen": []}),
            (str, Field("x"), "x"),
            (Annotated[str, Field(default="x")], dataclasses.MISSING, "x"),
        ],
        ids=shown,
    )
    def test_a_default_is_told_as_json_and_makes_optional(
        self, annotation: object, default: object, told: object
    ) -> None:
        said = spec_for(annotation, default)
        assert said["default"] == told
        assert "required" not in said

    def test_a_default_of_a_factory_is_not_told(self) -> None:
        assert spec_for(list[str], Field(default_factory=list)) == {
            "type": "array",
            "items": {"type": "string"},
        }

    def test_the_order_is_that_of_the_parameters(self) -> None:
        def function(z: str, a: str, *, m: str) -> None: ...

        assert list(spec_of(function)) == ["z", "a", "m"]

    def test_an_alias_is_the_name_in_the_arguments(self) -> None:
        def function(file_path: Annotated[str, Field(alias="filePath")]) -> str:
            return file_path

        assert spec_of(function) == {"filePath": {"type": "string", "required": True}}
        assert call(function, {"filePath": "x"}) == "x"

    def test_the_description_of_the_outer_annotation_wins(self) -> None:
        inner = Annotated[str, "inner"]
        assert spec_for(Annotated[inner | None, "outer"])["description"] == "outer"
        assert spec_for(inner | None)["description"] == "inner"

    def test_keys_of_a_partial_typed_dictionary_are_required_only_if_marked(self) -> None:
        members = spec_for(Loose)["properties"]
        assert members["path"] == {"type": "string", "required": True}
        assert members["at"]["type"] == "object"
        assert "required" not in members["at"]

    def test_a_dataclass_may_use_fields_of_pydantic(self) -> None:
        @dataclasses.dataclass
        class Plain:
            x: int = Field(3, description="X")

        assert spec_for(Plain)["properties"] == {
            "x": {"type": "number", "description": "X", "default": 3}
        }

    def test_names_made_by_the_model_are_used(self) -> None:
        class Camel(BaseModel):
            model_config = ConfigDict(alias_generator=to_camel)
            file_path: str = "x"  # type: ignore[pydantic-alias]

        assert list(spec_for(Camel)["properties"]) == ["filePath"]

    def test_methods_callables_and_partials_are_functions(self) -> None:
        class Owner:
            def method(self, a: str) -> str:
                return a

            def __call__(self, b: int) -> int:
                return b

        assert list(spec_of(Owner().method)) == ["a"]
        assert list(spec_of(Owner())) == ["b"]

        def two(a: str, b: str) -> str:
            return a + b

        assert list(spec_of(functools.partial(two, "x"))) == ["b"]

        @functools.wraps(two)
        def wrapped(*args: Any, **kwargs: Any) -> str:
            return two(*args, **kwargs)

        assert list(spec_of(wrapped)) == ["a", "b"]


class TestRefusals:
    """What cannot be expressed is refused when a tool is defined."""

    @pytest.mark.parametrize(
        ("annotation", "problem"),
        [
            (int | str, "a union of types cannot be expressed; use one type"),
            (int | str | None, "a union of types cannot be expressed; use one type"),
            (None, "use str, float, int"),
            (Any, "use str, float, int"),
            (object, "use str, float, int"),
            (bytes, "use str, float, int"),
            (complex, "use str, float, int"),
            (set[str], "use str, float, int"),
            (tuple[int, int], "use str, float, int"),
            (TypeVar("T"), "use str, float, int"),
            (RootModel[int], "use str, float, int"),
            (list[Any], None),
            (list[str | None], "null is no value; use the type without None"),
            (dict[str, int | None], "null is no value; use the type without None"),
            (dict[int, str], "keys are strings in JSON; use dict"),
            (Literal[1, 2], "use Literal of strings"),
            (Literal["a", 2], "use Literal of strings"),
            (Literal[None], "use Literal of strings"),  # noqa: PYI061 - the odd spelling is the point
            (Number, "use one whose values are strings"),
            (Enum("Empty", []), "use one whose values are strings"),
            (Node, "holds itself; use dict there"),
            (Annotated[str, Field(validation_alias=AliasChoices("a", "b"))], "use one alias"),
            (Annotated[str, Field(pattern="(")], "cannot be expressed: "),
        ],
        ids=shown,
    )
    def test_the_message_says_what_to_use_instead(
        self, annotation: object, problem: str | None
    ) -> None:
        if problem is None:
            assert spec_for(annotation)["type"] == "array"
            return
        with pytest.raises(SpecError) as caught:
            spec_for(annotation)
        assert problem in str(caught.value)
        assert caught.value.path.startswith("x")

    def test_the_path_leads_to_what_is_wrong(self) -> None:
        class Bad(BaseModel):
            inner: list[bytes]

        with pytest.raises(SpecError) as caught:
            spec_for(Bad)
        assert caught.value.path == "x.inner[]"

    def test_a_parameter_without_an_annotation_is_refused(self) -> None:
        def function(x) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001 - the point

        with pytest.raises(SpecError, match=r'^spec of "x": has no annotation'):
            spec_of(function)

    def test_parameters_without_names_are_refused(self) -> None:
        def many(*x: str) -> None: ...
        def named(**x: str) -> None: ...
        def placed(x: str, /) -> None: ...

        for function in (many, named, placed):
            with pytest.raises(SpecError, match=r'^spec of "x": .*use an ordinary one$'):
                spec_of(function)

    def test_an_annotation_that_cannot_be_read_is_refused(self) -> None:
        def function(x: Unknown) -> None: ...

        with pytest.raises(SpecError, match=r'^spec of "x": the annotation cannot be read: name'):
            spec_of(function)

    def test_an_annotation_within_a_class_that_cannot_be_read_is_refused(self) -> None:
        @dataclasses.dataclass
        class Holder:
            x: Unknown

        class Model(BaseModel):
            x: Unknown

        for cls in (Holder, Model):
            with pytest.raises(SpecError, match="Unknown"):
                spec_for(cls)

    @pytest.mark.parametrize(
        ("annotation", "default"),
        [(str, 3), (float, math.inf), (str, object()), (Color, "green"), (int, 2.5)],
        ids=shown,
    )
    def test_a_default_that_does_not_fit_is_refused(
        self, annotation: object, default: object
    ) -> None:
        with pytest.raises(SpecError, match=r'^spec of "x": '):
            spec_for(annotation, default)

    def test_a_default_that_depends_on_others_is_refused(self) -> None:
        def make(values: dict[str, Any]) -> str:
            return str(values)

        with pytest.raises(SpecError, match="cannot depend on others"):
            spec_for(str, Field(default_factory=make))

    def test_two_parameters_of_one_name_are_refused(self) -> None:
        def function(a: str, b: Annotated[str, Field(alias="a")]) -> None: ...

        with pytest.raises(SpecError, match="two parameters have one name"):
            spec_of(function)

    def test_an_alias_of_a_key_is_refused(self) -> None:
        class Aliased(TypedDict):
            a: Annotated[str, Field(alias="b")]

        with pytest.raises(SpecError, match="a key has no alias"):
            spec_of(taking(Aliased))

    def test_fields_that_are_only_passed_on_are_refused(self) -> None:
        @dataclasses.dataclass
        class Passing:
            x: dataclasses.InitVar[int]

        with pytest.raises(SpecError, match="InitVar cannot be expressed"):
            spec_for(Passing)

    def test_types_that_nest_too_deep_are_refused(self) -> None:
        deep: Any = str
        for _ in range(MAX_DEPTH):
            deep = list[deep]
        with pytest.raises(SpecError, match="nests deeper"):
            spec_for(deep)

    def test_types_that_unfold_without_end_are_refused(self) -> None:
        cls: Any = dataclasses.make_dataclass("Leaf", [("a", int), ("b", int)])
        for _ in range(20):
            cls = dataclasses.make_dataclass("Twin", [("left", cls), ("right", cls)])
        with pytest.raises(SpecError, match="there are more than 10000 properties"):
            spec_for(cls)

    @pytest.mark.parametrize("function", [3, "text", None])
    def test_what_is_no_function_is_refused(self, function: Any) -> None:
        with pytest.raises(SpecError, match="no signature can be read"):
            spec_of(function)


class TestExecution:
    """The parameter that gets the execution."""

    def test_it_is_found_by_its_name(self) -> None:
        def function(a: str, exec: Any) -> Any:  # noqa: A002 - the name that is promised
            return a, exec

        assert list(spec_of(function)) == ["a"]
        assert call(function, {"a": "x"}) == ("x", EXECUTION)

    def test_it_is_found_by_its_type(self) -> None:
        def function(call: ToolExecution, a: str) -> Any:
            return call, a

        assert list(spec_of(function)) == ["a"]
        assert call(function, {"a": "x"}) == (EXECUTION, "x")

    @pytest.mark.parametrize(
        "annotation",
        [
            ToolExecution,
            "ToolExecution",
            "tools.ToolExecution",
            "ToolExecution | None",
            "None | 'ToolExecution'",
            Optional[ToolExecution],  # noqa: UP045 - the old spelling counts too
            "Optional[ToolExecution]",
        ],
        ids=shown,
    )
    def test_every_spelling_of_the_type_counts(self, annotation: object) -> None:
        assert call(taking(annotation), {}) is EXECUTION

    def test_a_name_for_type_checkers_only_is_no_other_type(self) -> None:
        def function(call: Execution) -> None: ...

        with pytest.raises(SpecError, match="cannot be read"):
            spec_of(function)

    def test_arguments_cannot_set_it(self) -> None:
        def function(exec: ToolExecution) -> Any:  # noqa: A002 - as above
            return exec

        assert call(function, {"exec": "forged"}) is EXECUTION


class TestWholeNumbers:
    """A spec knows numbers; an int parameter takes whole ones."""

    @pytest.mark.parametrize(
        ("given", "value"),
        [(3, 3), (3.0, 3), (-0.0, 0), (10**30, 10**30), (1e30, int(1e30)), (-7.0, -7)],
    )
    def test_a_whole_number_becomes_an_int(self, given: float, value: int) -> None:
        result = call(taking(int), {"x": given})
        assert (result, type(result)) == (value, int)

    @pytest.mark.parametrize("given", [2.5, math.nan, math.inf, -math.inf, 1e-9])
    def test_any_other_number_is_a_violation(self, given: float) -> None:
        assert refused(taking(int), {"x": given}) == ['"x" must be a whole number']

    @pytest.mark.parametrize("given", ["3", True, None, [3]])
    def test_what_is_no_number_is_told_so(self, given: object) -> None:
        assert refused(taking(int), {"x": given}) == ['"x" must be a number']

    def test_they_are_collected_like_the_others_in_order(self) -> None:
        def function(a: str, b: list[int], c: Options, d: str) -> None: ...

        assert refused(
            function, {"a": 1, "b": [1, 1.5, "x"], "c": {"depth": 0.5, "ratio": "x"}}
        ) == [
            '"a" must be a string',
            '"b[1]" must be a whole number',
            '"b[2]" must be a number',
            '"c.depth" must be a whole number',
            '"c.ratio" must be a number',
            'missing required property "d"',
        ]

    def test_whole_numbers_within_anything_become_ints(self) -> None:
        assert repr(call(taking(list[int]), {"x": [1.0]})) == "[1]"
        assert repr(call(taking(dict[str, int]), {"x": {"a": 1.0}})) == "{'a': 1}"
        edit = {"line": 2.0, "text": "t", "note": "n"}
        assert repr(call(taking(Edit), {"x": edit})["line"]) == "2"
        assert repr(edit["line"]) == "2.0"

    def test_a_float_parameter_gets_a_float(self) -> None:
        result = call(taking(float), {"x": 3})
        assert (result, type(result)) == (3.0, float)

    def test_more_digits_than_a_float_holds_are_infinite(self) -> None:
        assert call(taking(list[float]), {"x": [10**400, -(10**400)]}) == [math.inf, -math.inf]


class TestValues:
    """What the function is called with."""

    def test_arguments_must_be_an_object(self) -> None:
        assert refused(taking(str), "not json") == ['"arguments" must be an object']

    def test_unknown_arguments_are_not_handed_over(self) -> None:
        assert call(taking(str), {"x": "a", "y": 1}) == "a"

    def test_missing_arguments_get_the_functions_own_defaults(self) -> None:
        marker = ["own"]
        assert call(taking(list[str], marker), {}) is marker

    def test_missing_arguments_without_a_default_are_none(self) -> None:
        assert call(taking(str | None), {}) is None
        assert call(taking(Literal["a"] | None), {}) is None

    def test_a_default_of_pydantic_is_applied(self) -> None:
        assert call(taking(str, Field("x")), {}) == "x"
        assert call(taking(Annotated[str, Field(default="y")]), {}) == "y"
        function = taking(list[str], Field(default_factory=list))
        assert call(function, {}) == []
        assert call(function, {}) is not call(function, {})

    def test_null_is_no_way_to_say_none(self) -> None:
        assert refused(taking(str | None), {"x": None}) == ['"x" must be a string']

    def test_texts_become_members_of_enums(self) -> None:
        assert call(taking(Color), {"x": "blue"}) is Color.BLUE
        assert call(taking(list[Level]), {"x": ["low"]}) == [Level.LOW]
        assert refused(taking(Level), {"x": "mid"}) == ['"x" must be one of ["low","high"]']

    def test_objects_become_models(self) -> None:
        value = call(taking(Options), {"x": {"depth": 2, "color": "blue", "filePath": "p"}})
        assert isinstance(value, Options)
        assert value == Options(depth=2, color=Color.BLUE, filePath="p")
        assert value.tags == []

    def test_what_may_be_none_in_a_model_is_none_when_it_is_missing(self) -> None:
        assert call(taking(Options), {"x": {"depth": 2}}).file_path is None

    def test_objects_become_dataclasses(self) -> None:
        assert call(taking(Range), {"x": {"start": 1, "end": 5.0}}) == Range(1, 5)
        assert call(taking(Span), {"x": {"start": 1}}) == Span(1)

    def test_objects_stay_typed_dictionaries(self) -> None:
        given = {"line": 1, "text": "t", "unknown": [1]}
        assert call(taking(Edit), {"x": given}) == {"line": 1, "text": "t", "note": None}

    def test_typed_dictionaries_may_hold_what_must_be_built(self) -> None:
        value = call(taking(Loose), {"x": {"path": "p", "at": {"start": 1}}})
        assert value == {"path": "p", "at": Range(1)}
        assert call(taking(Loose), {"x": {"path": "p"}}) == {"path": "p"}

    def test_values_of_a_dictionary_are_checked_and_built(self) -> None:
        assert call(taking(dict[str, Range]), {"x": {"a": {"start": 1}}}) == {"a": Range(1)}
        assert refused(taking(dict[str, str]), {"x": {"a": "x", "b": 1}}) == [
            '"x.b" must be a string'
        ]

    def test_strict_models_are_built_too(self) -> None:
        class Strict(BaseModel):
            model_config = ConfigDict(strict=True)
            color: Color
            at: Range

        value = call(taking(Strict), {"x": {"color": "red", "at": {"start": 1}}})
        assert value == Strict(color=Color.RED, at=Range(1))

    def test_the_arguments_are_not_changed(self) -> None:
        arguments = {"x": {"depth": 2.0, "tags": ["a"]}}
        call(taking(Options), arguments)
        assert repr(arguments) == "{'x': {'depth': 2.0, 'tags': ['a']}}"

    def test_text_that_is_no_unicode_is_handed_over_as_it_is(self) -> None:
        assert call(taking(str), {"x": "\ud800"}) == "\ud800"

    def test_text_that_pydantic_cannot_read_is_a_violation(self) -> None:
        assert refused(taking(Annotated[str, Field(max_length=3)]), {"x": "\ud800"}) == [
            '"x" Input should be a valid string, unable to parse raw data as a unicode string'
        ]


class TestConstraints:
    """What pydantic still refuses is a violation as well."""

    def test_a_constraint_is_a_violation_with_the_path_and_what_pydantic_says(self) -> None:
        assert refused(taking(Annotated[int, Field(ge=1)]), {"x": 0}) == [
            '"x" Input should be greater than or equal to 1'
        ]

    def test_the_path_leads_through_models_and_lists(self) -> None:
        def function(spans: list[Span], word: Annotated[str, Field(min_length=1)]) -> None: ...

        assert refused(function, {"spans": [{"start": 0}, {"start": -1}], "word": ""}) == [
            '"spans[1].start" Input should be greater than or equal to 0',
            '"word" String should have at least 1 character',
        ]

    def test_a_model_that_forbids_unknown_properties_refuses_them(self) -> None:
        class Closed(BaseModel):
            model_config = ConfigDict(extra="forbid")

        assert refused(taking(Closed), {"x": {"y": 1}}) == ['"x.y" Extra inputs are not permitted']

    def test_long_names_from_outside_are_cut(self) -> None:
        class Closed(BaseModel):
            model_config = ConfigDict(extra="forbid")

        (violation,) = refused(taking(Closed), {"x": {"y" * 1000: 1}})
        assert violation == f'"x.{"y" * 100}…" Extra inputs are not permitted'

    def test_no_more_violations_are_told_than_anybody_would_read(self) -> None:
        def add(numbers: list[Large]) -> None: ...

        found = refused(add, {"numbers": [1] * 100_000})
        assert found[:-1] == [
            f'"numbers[{at}]" Input should be greater than 5' for at in range(len(found) - 1)
        ]
        assert found[-1] == "there are more violations"
        assert len("; ".join(found[:-1])) <= 65_536

    def test_the_bound_is_that_of_all_arguments_together(self) -> None:
        def add(few: list[Large], many: list[Large]) -> None: ...

        found = refused(add, {"few": [1] * 500, "many": [1] * 10_000})
        assert len("; ".join(found[:-1])) <= 65_536
        assert [text.partition("[")[0] for text in found[499:501]] == ['"few', '"many']
        assert found.index("there are more violations") == len(found) - 1

    @pytest.mark.parametrize(
        ("annotation", "value"),
        [
            (list[Large], [6] * 100_001),
            (list[list[Large]], [[6] * 60_000, [6] * 60_000]),
            (dict[str, list[Large]], {"a": [6] * 100_000}),
        ],
        ids=["list", "lists", "dict"],
    )
    def test_more_values_than_a_model_writes_are_not_given_to_pydantic(
        self, annotation: object, value: object
    ) -> None:
        assert refused(taking(annotation), {"x": value}) == [
            '"x" must not hold more than 100000 values'
        ]

    def test_as_many_values_as_a_model_writes_are_given_to_pydantic(self) -> None:
        value = [6] * 100_000
        assert TypedFunction(taking(list[Large])).values({"x": value}) == {"x": value}

    def test_plain_values_may_be_as_many_as_there_are(self) -> None:
        def add(numbers: list[float]) -> None: ...

        values = TypedFunction(add).values({"numbers": [1] * 200_000})
        assert values == {"numbers": [1.0] * 200_000}

    def test_validators_refuse_in_their_own_words(self) -> None:
        def even(value: int) -> int:
            if value % 2:
                raise ValueError("must be even")
            return value

        assert refused(taking(Annotated[int, AfterValidator(even)]), {"x": 3}) == [
            '"x" Value error, must be even'
        ]
        assert call(taking(Annotated[int, AfterValidator(even)]), {"x": 4}) == 4

    def test_they_are_asked_only_when_no_rule_of_the_spec_is_refused(self) -> None:
        def function(a: Annotated[int, Field(ge=1)], b: str) -> None: ...

        assert refused(function, {"a": 0}) == ['missing required property "b"']


class TestNames:
    """Names that annotations use."""

    def test_types_of_the_surrounding_function_are_known(self) -> None:
        @dataclasses.dataclass
        class Inner:
            n: int

        @dataclasses.dataclass
        class Outer:
            inner: Inner

        def function(outer: Outer) -> int:
            return outer.inner.n

        assert spec_of(function) == {
            "outer": {
                "type": "object",
                "required": True,
                "properties": {
                    "inner": {
                        "type": "object",
                        "required": True,
                        "properties": {"n": {"type": "number", "required": True}},
                    }
                },
            }
        }
        typed = TypedFunction(function, {"Outer": Outer, "Inner": Inner})
        assert typed.call({"outer": {"inner": {"n": 3}}}, None) == 3

    def test_names_can_be_given(self) -> None:
        assert spec_of(taking("Elsewhere"), {"Elsewhere": str}) == {
            "x": {"type": "string", "required": True}
        }

    def test_models_that_wait_for_a_name_get_it(self) -> None:
        class Waiting(BaseModel):
            later: Later

        class Later(BaseModel):
            n: int

        typed = TypedFunction(taking(Waiting), {"Later": Later})
        assert typed.call({"x": {"later": {"n": 1}}}, None).later.n == 1
