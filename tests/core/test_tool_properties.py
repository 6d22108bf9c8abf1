"""Properties of tools: validator, JSON Schema and typed functions say the same of any arguments.

`jsonschema` is the independent judge. It and the validator differ in one thing, which no generated
spec has therefore: an ``enum`` on an object or an array is ignored by the validator, and refuses
everything in JSON Schema.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NotRequired, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field, create_model
from typing_extensions import TypedDict  # pydantic wants this one within models

from dsh_core.context import Context
from dsh_core.errors import ToolArgsError
from dsh_core.schema import check_spec, json_schema, violations
from dsh_core.tools import ToolError, ToolExecution, ToolRegistry, define_tool
from dsh_core.typed import spec_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_core.tools import ToolExecutionResult

NAMES: Final = ("path", "mode", "a", "b", "file_name")
TEXTS: Final = ("", "red", "blue", "é", "1", "true")
ANY_NUMBER: Final = st.integers() | st.floats()
ANY_JSON: Final = st.recursive(
    st.none() | st.booleans() | ANY_NUMBER | st.sampled_from(TEXTS) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=6,
)
DEFAULTS: Final[dict[str, st.SearchStrategy[Any]]] = {
    "string": st.sampled_from(TEXTS),
    "number": st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False),
    "boolean": st.booleans(),
}


@st.composite
def props(draw: st.DrawFn, depth: int, *, typed: bool) -> dict[str, Any]:
    """Return a property; `typed` ones can be said by annotations too."""
    kinds = ["string", "number", "boolean", *(["object", "array"] if depth else [])]
    kind = draw(st.sampled_from(kinds))
    prop: dict[str, Any] = {"type": kind}
    if draw(st.booleans()):
        prop["description"] = draw(st.sampled_from(["What it is", "é"]))
    if kind in (["string"] if typed else DEFAULTS) and draw(st.integers(0, 2)) == 0:
        # In order: to Python Literal["a", "b"] equals Literal["b", "a"], and Optional[…] of one may
        # be that of the other, whichever was made first.
        prop["enum"] = sorted(draw(st.sets(st.sampled_from(TEXTS), min_size=1)))
    if kind == "object" and draw(st.booleans()):
        prop["properties"] = draw(specs(depth - 1, typed=typed))
    if kind == "array" and draw(st.booleans()):
        prop["items"] = draw(props(depth - 1, typed=typed))
    return prop


@st.composite
def specs(draw: st.DrawFn, depth: int = 2, *, typed: bool = False) -> dict[str, Any]:
    """Return a spec."""
    spec: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True)):
        spec[name] = prop = draw(props(depth, typed=typed))
        state = draw(st.sampled_from(["required", "default", "neither"]))
        if state == "required":
            prop["required"] = True
        elif state == "default" and prop["type"] in DEFAULTS:
            fitting = st.sampled_from(prop["enum"]) if "enum" in prop else DEFAULTS[prop["type"]]
            prop["default"] = draw(fitting)
    return spec


def fitting(prop: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return a strategy for values of a property, mostly good ones."""
    match prop["type"]:
        case "string":
            return st.sampled_from(prop["enum"]) if "enum" in prop else st.sampled_from(TEXTS)
        case "number":
            return ANY_NUMBER
        case "boolean":
            return st.booleans()
        case "array":
            items = fitting(prop["items"]) if "items" in prop else ANY_JSON
            return st.lists(items, max_size=3)
        case _:
            if "properties" in prop:
                return arguments_for(prop["properties"])
            return st.dictionaries(st.sampled_from(NAMES), ANY_JSON, max_size=2)


@st.composite
def arguments_for(draw: st.DrawFn, spec: dict[str, Any]) -> dict[str, Any]:
    """Return arguments that fit, unless an enum stands where it never matches."""
    arguments = {"unknown": draw(ANY_JSON)} if draw(st.booleans()) else {}
    for name, prop in spec.items():
        if "required" in prop or draw(st.booleans()):
            arguments[name] = draw(fitting(prop))
    return arguments


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every container and key in a JSON value."""
    found: list[tuple[Any, Any]]
    if isinstance(value, dict):
        found = [(value, key) for key in value]
    elif isinstance(value, list):
        found = [(value, at) for at in range(len(value))]
    else:
        return []
    return found + [place for key in found for place in places(value[key[1]])]


@st.composite
def cases(draw: st.DrawFn, *, typed: bool = False) -> tuple[dict[str, Any], Any]:
    """Return a spec and arguments: good ones, good ones with one thing changed, or any value."""
    spec = draw(specs(typed=typed))
    kind = draw(st.sampled_from(["good", "changed", "changed", "any"]))
    if kind == "any":
        return spec, draw(ANY_JSON)
    arguments = draw(arguments_for(spec))
    if kind == "changed" and (everywhere := places(arguments)):
        container, key = draw(st.sampled_from(everywhere))
        if draw(st.booleans()):
            del container[key]
        else:
            container[key] = draw(ANY_JSON)
    return spec, arguments


# ----------------------------------------------------------------- typed functions from specs


def annotated(prop: dict[str, Any], style: str) -> Any:
    """Return the annotation that says what a property says."""
    bare = annotated_barely(prop, style)
    if "description" in prop:
        return Annotated[bare, Field(description=prop["description"])]
    return bare


def annotated_barely(prop: dict[str, Any], style: str) -> Any:
    """Return the annotation without its description."""
    match prop["type"]:
        case "string" if "enum" in prop:
            return Literal[tuple(prop["enum"])]
        case "string" | "number" | "boolean":
            return {"string": str, "number": float, "boolean": bool}[prop["type"]]
        case "array":
            return list[annotated(prop["items"], style)] if "items" in prop else list  # type: ignore[misc]
        case _ if "properties" not in prop:
            return dict
    properties: dict[str, Any] = prop["properties"]
    # A typed dictionary has no defaults.
    if style == "model" or any("default" in one for one in properties.values()):
        return model_for(properties, style)
    return keys_for(properties, style)


def model_for(properties: dict[str, Any], style: str) -> Any:
    """Return a model with members."""
    members: dict[str, Any] = {
        name: (member(one, style), one.get("default", ...)) for name, one in properties.items()
    }
    return create_model("Model", **members)


def keys_for(properties: dict[str, Any], style: str) -> Any:
    """Return a typed dictionary with keys."""
    make: Any = TypedDict
    return make(
        "Keys",
        {
            name: annotated(one, style) if "required" in one else NotRequired[annotated(one, style)]
            for name, one in properties.items()
        },
    )


def member(prop: dict[str, Any], style: str) -> Any:
    """Return the annotation of a parameter or a field."""
    annotation = annotated(prop, style)
    if "required" in prop or "default" in prop:
        return annotation
    return Optional[annotation]  # noqa: UP045 - made at run time


def function_for(
    spec: dict[str, Any], style: str, seen: list[dict[str, Any]]
) -> Callable[..., Any]:
    """Return a typed function that says what a spec says."""

    def function(**values: Any) -> str:
        seen.append(values)
        return "called"

    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=prop.get("default", inspect.Parameter.empty),
                annotation=member(prop, style),
            )
            for name, prop in spec.items()
        ]
    )
    return function


def received(value: Any) -> Any:
    """Return JSON again of what a function got, without what stands for nothing."""
    if isinstance(value, BaseModel):
        # Defaults, and None for what may be left out, were not sent.
        told = {name: getattr(value, name) for name in value.model_fields_set}
        return {name: received(one) for name, one in told.items() if one is not None}
    if isinstance(value, dict):
        return {name: received(one) for name, one in value.items()}
    if isinstance(value, list):
        return [received(one) for one in value]
    return value


def sent(prop: dict[str, Any], value: Any) -> Any:
    """Return what a function must get of a value: all that its annotations know."""
    if "properties" in prop:
        members = prop["properties"]
        return {name: sent(members[name], one) for name, one in value.items() if name in members}
    if "items" in prop:
        return [sent(prop["items"], one) for one in value]
    return value


def run_tool(tool: Any, arguments: object) -> ToolExecutionResult:
    """Run a tool in a registry."""

    async def main() -> Any:
        ctx = Context()
        registry = ToolRegistry(ctx)
        registry.register(tool)
        result = await registry.execute(ToolExecution("c1", tool.name, arguments))
        await ctx.dispose()
        return result

    result: ToolExecutionResult = asyncio.run(main())
    return result


# ------------------------------------------------------------------------------------ properties


@given(specs(3))
def test_every_spec_is_sound_and_its_json_schema_valid(spec: dict[str, Any]) -> None:
    assert check_spec(spec) == spec
    Draft202012Validator.check_schema(json_schema(spec))
    json.dumps(json_schema(spec), allow_nan=False)


@given(cases())
def test_validator_and_json_schema_accept_the_same(case: tuple[dict[str, Any], Any]) -> None:
    spec, value = case
    judged = Draft202012Validator(json_schema(spec)).is_valid(value)
    assert (violations(spec, value) == []) == judged


@given(cases())
def test_no_more_properties_are_named_than_json_schema_finds_wrong(
    case: tuple[dict[str, Any], Any],
) -> None:
    spec, value = case
    if not isinstance(value, dict):
        return
    # A wrong type is one violation here, and may break `enum` as well there.
    paths = {
        (tuple(error.absolute_path), error.message if error.validator == "required" else "")
        for error in Draft202012Validator(json_schema(spec)).iter_errors(value)
    }
    assert len(violations(spec, value)) == len(paths)


@given(cases())
def test_arguments_are_never_changed(case: tuple[dict[str, Any], Any]) -> None:
    spec, value = case
    before = repr((spec, value))
    violations(spec, value)
    json_schema(spec)
    assert repr((spec, value)) == before


@pytest.mark.parametrize("style", ["model", "typed dictionary"])
@given(spec=specs(typed=True))
def test_a_function_with_the_annotations_of_a_spec_has_that_spec(
    style: str, spec: dict[str, Any]
) -> None:
    assert spec_of(function_for(spec, style, [])) == spec


@pytest.mark.parametrize("style", ["model", "typed dictionary"])
@given(case=cases(typed=True))
def test_a_typed_function_is_called_if_and_only_if_there_are_no_violations(
    style: str, case: tuple[dict[str, Any], Any]
) -> None:
    spec, value = case
    found = violations(spec, copy.deepcopy(value))
    seen: list[dict[str, Any]] = []
    tool = define_tool(name="t")(function_for(spec, style, seen))
    assert tool.parameters == json_schema(spec)
    if found:
        with pytest.raises(ToolArgsError) as caught:
            tool.execute(value, ToolExecution("c1", "t", value))
        assert list(caught.value.violations) == found
        assert seen == []
        return
    assert tool.execute(value, ToolExecution("c1", "t", value)) == "called"
    got = {name: received(one) for name, one in seen[0].items() if one is not None}
    expected = {name: sent(prop, value[name]) for name, prop in spec.items() if name in value}
    # As text: NaN equals nothing. As floats: a typed function gets no other numbers.
    assert canonical(got) == canonical(expected)


@given(cases(typed=True))
def test_both_forms_of_a_tool_come_to_the_same(case: tuple[dict[str, Any], Any]) -> None:
    spec, value = case
    typed = define_tool(name="t", description="")(function_for(spec, "model", []))
    plain = define_tool(
        name="t", description="", parameters=spec, execute=lambda _args, _exec: "called"
    )
    result = run_tool(typed, value)
    assert result == run_tool(plain, value)
    assert result.is_error == bool(violations(spec, value))
    assert result.error == (ToolError("ToolArgsError", "INVALID_ARGS") if result.is_error else None)


def canonical(value: Any) -> Any:
    """Return a form in which equal values are equal, also if they are NaN."""
    if isinstance(value, dict):
        return {name: canonical(one) for name, one in value.items()}
    if isinstance(value, list):
        return [canonical(one) for one in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(float(value))
    return value
