"""Tests of specs: what they may say, which arguments they refuse, and the JSON Schema."""

from __future__ import annotations

import copy
import json
import math
from types import MappingProxyType
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from dsh_core.schema import (
    ABSENT,
    MAX_DEPTH,
    MAX_PROPERTIES,
    Schema,
    SpecError,
    check_spec,
    json_schema,
    violations,
)

KINDS = ["string", "number", "boolean", "object", "array"]
VALUES: dict[str, list[Any]] = {
    "string": ["", "text"],
    "number": [0, -3, 2.5, math.inf],
    "boolean": [True, False],
    "object": [{}, {"any": 1}],
    "array": [[], [1, "two"]],
}
TITLES = {
    "string": "a string",
    "number": "a number",
    "boolean": "a boolean",
    "object": "an object",
    "array": "an array",
}

EDIT: dict[str, Any] = {
    "path": {"type": "string", "required": True, "description": "File to edit"},
    "mode": {"type": "string", "enum": ["replace", "insert"], "default": "replace"},
    "edits": {
        "type": "array",
        "required": True,
        "items": {
            "type": "object",
            "properties": {
                "line": {"type": "number", "required": True},
                "text": {"type": "string"},
            },
        },
    },
    "options": {"type": "object", "properties": {"dry": {"type": "boolean", "required": True}}},
}


def nested(levels: int) -> dict[str, Any]:
    """Return a spec with objects within each other."""
    spec: dict[str, Any] = {"leaf": {"type": "string"}}
    for _ in range(levels):
        spec = {"in": {"type": "object", "properties": spec}}
    return spec


class TestTypes:
    """The type of a property."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_value_of_the_type_is_accepted(self, kind: str) -> None:
        for value in VALUES[kind]:
            assert violations({"x": {"type": kind}}, {"x": value}) == []

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_value_of_any_other_type_is_named_with_the_type_it_must_have(self, kind: str) -> None:
        others = [value for other in KINDS if other != kind for value in VALUES[other]]
        for value in [*others, None]:
            assert violations({"x": {"type": kind}}, {"x": value}) == [
                f'"x" must be {TITLES[kind]}'
            ]

    @pytest.mark.parametrize(
        ("kind", "value"),
        [("number", "3"), ("string", 3), ("boolean", "true"), ("boolean", 1), ("number", True)],
    )
    def test_nothing_is_coerced(self, kind: str, value: object) -> None:
        assert violations({"x": {"type": kind}}, {"x": value}) == [f'"x" must be {TITLES[kind]}']

    def test_a_number_may_be_nan(self) -> None:
        assert violations({"x": {"type": "number"}}, {"x": math.nan}) == []

    @pytest.mark.parametrize("value", [[], None])
    def test_an_object_is_neither_array_nor_null(self, value: object) -> None:
        assert violations({"x": {"type": "object"}}, {"x": value}) == ['"x" must be an object']

    def test_a_tuple_is_no_array(self) -> None:
        assert violations({"x": {"type": "array"}}, {"x": (1,)}) == ['"x" must be an array']

    def test_a_wrong_type_ends_the_checks_of_the_property(self) -> None:
        spec: dict[str, Any] = {
            "mode": {"type": "string", "enum": ["a"]},
            "deep": {
                "type": "object",
                "properties": {"must": {"type": "string", "required": True}},
            },
            "last": {"type": "string"},
        }
        assert violations(spec, {"mode": 1, "deep": [], "last": 2}) == [
            '"mode" must be a string',
            '"deep" must be an object',
            '"last" must be a string',
        ]


class TestTop:
    """The arguments as a whole."""

    @pytest.mark.parametrize("value", ["{}", "not json", 3, True, None, [], [{}], ()])
    def test_arguments_must_be_an_object(self, value: object) -> None:
        spec = {"x": {"type": "string", "required": True}}
        assert violations(spec, value) == ['"arguments" must be an object']

    def test_an_empty_spec_accepts_every_object(self) -> None:
        assert violations({}, {}) == []
        assert violations({}, {"any": [1]}) == []
        assert violations({}, []) == ['"arguments" must be an object']

    def test_unknown_properties_are_accepted(self) -> None:
        spec = {"deep": {"type": "object", "properties": {"a": {"type": "string"}}}}
        assert violations(spec, {"deep": {"a": "x", "b": 1}, "more": None}) == []


class TestRequired:
    """What must be there."""

    def test_a_missing_required_property_is_named_by_its_path(self) -> None:
        spec: dict[str, Any] = {
            "a": {"type": "string", "required": True},
            "b": {"type": "object", "properties": {"c": {"type": "string", "required": True}}},
            "d": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"e": {"type": "string", "required": True}},
                },
            },
        }
        assert violations(spec, {"b": {}, "d": [{"e": "x"}, {}]}) == [
            'missing required property "a"',
            'missing required property "b.c"',
            'missing required property "d[1].e"',
        ]

    def test_a_property_that_is_not_required_may_be_missing(self) -> None:
        assert violations({"a": {"type": "string"}}, {}) == []

    def test_null_is_a_value_of_a_wrong_type_and_not_missing(self) -> None:
        for said in ({"type": "string"}, {"type": "string", "required": True}):
            assert violations({"a": said}, {"a": None}) == ['"a" must be a string']

    def test_required_properties_of_a_missing_object_are_not_missed(self) -> None:
        spec = {"o": {"type": "object", "properties": {"p": {"type": "string", "required": True}}}}
        assert violations(spec, {}) == []

    def test_required_has_no_effect_within_items(self) -> None:
        spec = {"a": {"type": "array", "items": {"type": "string", "required": True}}}
        assert violations(spec, {"a": []}) == []
        assert json_schema(spec)["properties"]["a"] == {
            "type": "array",
            "items": {"type": "string"},
        }


class TestEnum:
    """What a property may be."""

    def test_a_miss_lists_what_is_allowed_as_compact_json(self) -> None:
        spec = {"m": {"type": "string", "enum": ["a", "b"]}}
        assert violations(spec, {"m": "c"}) == ['"m" must be one of ["a","b"]']

    def test_a_hit_is_accepted(self) -> None:
        spec = {"m": {"type": "string", "enum": ["a", "b"]}}
        assert violations(spec, {"m": "b"}) == []

    def test_the_list_is_written_as_json_writes_it(self) -> None:
        spec = {"m": {"type": "string", "enum": ['"', "\n", "é", "\\"]}}
        assert violations(spec, {"m": "x"}) == [r'"m" must be one of ["\"","\n","é","\\"]']

    @pytest.mark.parametrize(
        ("kind", "value", "shown"), [("number", 1, "1"), ("boolean", True, "true")]
    )
    def test_a_value_that_is_no_string_never_matches(
        self, kind: str, value: object, shown: str
    ) -> None:
        spec = {"m": {"type": kind, "enum": [shown, str(value)]}}
        assert violations(spec, {"m": value}) == [
            f'"m" must be one of ["{shown}","{value}"]',
        ]

    @pytest.mark.parametrize(("kind", "value"), [("object", {}), ("array", ["a"])])
    def test_objects_and_arrays_are_not_checked(self, kind: str, value: object) -> None:
        assert violations({"m": {"type": kind, "enum": ["b"]}}, {"m": value}) == []

    def test_an_empty_list_allows_nothing(self) -> None:
        assert violations({"m": {"type": "string", "enum": []}}, {"m": ""}) == [
            '"m" must be one of []'
        ]

    def test_elements_are_checked(self) -> None:
        spec = {"m": {"type": "array", "items": {"type": "string", "enum": ["a"]}}}
        assert violations(spec, {"m": ["a", "b"]}) == ['"m[1]" must be one of ["a"]']


class TestDefault:
    """A default tells the model, and nobody else."""

    def test_it_is_never_applied(self) -> None:
        spec = {"a": {"type": "string", "required": True, "default": "x"}}
        arguments: dict[str, Any] = {}
        assert violations(spec, arguments) == ['missing required property "a"']
        assert arguments == {}

    def test_it_need_not_fit_the_type(self) -> None:
        assert violations({"a": {"type": "string", "default": 3}}, {}) == []


class TestNesting:
    """Objects and arrays."""

    def test_properties_are_checked_to_any_depth(self) -> None:
        assert violations(nested(3), {"in": {"in": {"in": {"leaf": 1}}}}) == [
            '"in.in.in.leaf" must be a string'
        ]

    def test_without_properties_only_the_type_of_an_object_is_checked(self) -> None:
        assert violations({"o": {"type": "object"}}, {"o": {"a": None, "b": [1]}}) == []

    def test_every_element_is_checked(self) -> None:
        spec = {"a": {"type": "array", "items": {"type": "number"}}}
        assert violations(spec, {"a": [1, "2", 3, None]}) == [
            '"a[1]" must be a number',
            '"a[3]" must be a number',
        ]

    def test_without_items_only_the_type_of_an_array_is_checked(self) -> None:
        assert violations({"a": {"type": "array"}}, {"a": [1, None, {}]}) == []

    def test_arrays_of_arrays_have_an_index_for_each(self) -> None:
        spec = {"a": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}}
        assert violations(spec, {"a": [[], ["x", 1]]}) == ['"a[1][1]" must be a string']

    def test_properties_of_elements_have_a_path_of_both(self) -> None:
        assert violations(EDIT, {"path": "p", "edits": [{"line": "1"}]}) == [
            '"edits[0].line" must be a number'
        ]

    def test_a_property_without_a_name_has_a_path_too(self) -> None:
        spec = {"": {"type": "object", "properties": {"": {"type": "string"}}}}
        assert violations(spec, {"": {"": 1}}) == ['"." must be a string']


class TestOrder:
    """Violations come in the order of the spec."""

    def test_all_are_collected_depth_first_in_the_order_of_the_spec(self) -> None:
        arguments = {
            "options": {},
            "edits": [{"text": 1}, 2, {"line": 3, "text": None}],
            "mode": "delete",
        }
        assert violations(EDIT, arguments) == [
            'missing required property "path"',
            '"mode" must be one of ["replace","insert"]',
            'missing required property "edits[0].line"',
            '"edits[0].text" must be a string',
            '"edits[1]" must be an object',
            '"edits[2].text" must be a string',
            'missing required property "options.dry"',
        ]

    def test_no_more_are_collected_than_anybody_would_read(self) -> None:
        spec: dict[str, Any] = {
            "a": {"type": "array", "items": {"type": "string"}},
            "b": {"type": "string", "required": True},
        }
        found = violations(spec, {"a": [0] * 100_000})
        assert found[:-1] == [f'"a[{at}]" must be a string' for at in range(len(found) - 1)]
        assert found[-1] == "there are more violations"
        assert len("; ".join(found[:-1])) <= 65_536 < len("; ".join(found)) + 10

    def test_a_long_enum_is_not_repeated_without_end(self) -> None:
        names = [f"name-{at:05}" for at in range(2_000)]
        items = {"type": "string", "enum": names}
        found = violations({"a": {"type": "array", "items": items}}, {"a": ["x"] * 10_000})
        allowed = json.dumps(names, separators=(",", ":"))
        assert found == [
            f'"a[0]" must be one of {allowed}',
            f'"a[1]" must be one of {allowed}',
            "there are more violations",
        ]

    def test_a_violation_that_is_too_long_itself_is_cut(self) -> None:
        found = violations({"a": {"type": "string", "enum": ["x" * 100_000]}}, {"a": "y"})
        assert found == [
            f'"a" must be one of ["{"x" * 65_514}…',
            "there are more violations",
        ]

    def test_an_enum_is_searched_at_once_however_long_it_is(self) -> None:
        compared = 0

        class Name(str):
            __slots__ = ()

            def __eq__(self, other: object) -> bool:
                nonlocal compared
                compared += 1
                return str.__eq__(self, other)

            __hash__ = str.__hash__

        names = [f"name-{at}" for at in range(2_000)]
        spec = {"a": {"type": "array", "items": {"type": "string", "enum": names}}}
        assert violations(spec, {"a": [Name("name-1999")] * 100}) == []
        assert compared <= 200


class TestJsonSchema:
    """What the model is told."""

    def test_every_key_has_its_place(self) -> None:
        assert json_schema(EDIT) == {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "File to edit"},
                "mode": {"type": "string", "enum": ["replace", "insert"], "default": "replace"},
                "edits": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"line": {"type": "number"}, "text": {"type": "string"}},
                        "required": ["line"],
                    },
                },
                "options": {
                    "type": "object",
                    "properties": {"dry": {"type": "boolean"}},
                    "required": ["dry"],
                },
            },
            "required": ["path", "edits"],
        }

    def test_it_is_valid(self) -> None:
        Draft202012Validator.check_schema(json_schema(EDIT))

    def test_an_empty_list_of_required_names_is_left_out(self) -> None:
        assert json_schema({}) == {"type": "object", "properties": {}}
        assert json_schema({"o": {"type": "object", "properties": {}}}) == {
            "type": "object",
            "properties": {"o": {"type": "object", "properties": {}}},
        }

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_bare_type_is_all_there_is(self, kind: str) -> None:
        assert json_schema({"x": {"type": kind}})["properties"] == {"x": {"type": kind}}

    def test_a_default_is_told_whatever_it_is(self) -> None:
        defaults: list[Any] = [None, False, 0, "", [], {"a": [1]}]
        for default in defaults:
            schema = json_schema({"x": {"type": "string", "default": default}})
            assert schema["properties"]["x"] == {"type": "string", "default": default}

    def test_additional_properties_are_not_mentioned(self) -> None:
        assert "additionalProperties" not in json.dumps(json_schema(EDIT))

    def test_properties_keep_their_order(self) -> None:
        assert list(json_schema(EDIT)["properties"]) == ["path", "mode", "edits", "options"]

    def test_enum_of_an_object_is_told_though_not_checked(self) -> None:
        schema = json_schema({"x": {"type": "object", "enum": ["a"]}})
        assert schema["properties"]["x"] == {"type": "object", "enum": ["a"]}

    def test_changes_of_it_change_nothing_else(self) -> None:
        schema = Schema.of({"x": {"type": "array", "default": [1], "enum": ["a"]}})
        first = schema.json_schema()
        first["properties"]["x"]["default"].append(2)
        first["properties"]["x"]["enum"].append("b")
        assert schema.json_schema()["properties"]["x"] == {
            "type": "array",
            "enum": ["a"],
            "default": [1],
        }


class TestCheckSpec:
    """Specs are checked before anything is called."""

    def test_a_sound_spec_comes_back_as_a_copy(self) -> None:
        before = copy.deepcopy(EDIT)
        checked = check_spec(EDIT)
        assert checked == EDIT
        checked["edits"]["items"]["properties"]["line"]["type"] = "string"
        assert before == EDIT

    def test_any_mapping_may_be_a_spec(self) -> None:
        spec = MappingProxyType({"x": MappingProxyType({"type": "string", "enum": ("a",)})})
        assert check_spec(spec) == {"x": {"type": "string", "enum": ["a"]}}

    def test_later_changes_of_a_spec_change_nothing(self) -> None:
        spec: dict[str, Any] = {"x": {"type": "string"}}
        schema = Schema.of(spec)
        spec["x"]["type"] = "number"
        assert schema.violations({"x": "text"}) == []

    @pytest.mark.parametrize(
        ("said", "problem"),
        [
            ({}, "type must be one of string, number, boolean, object, array, not None"),
            (
                {"type": "int"},
                "type must be one of string, number, boolean, object, array, not 'int'",
            ),
            (
                {"type": ["string"]},
                "type must be one of string, number, boolean, object, array, not ['string']",
            ),
            ("string", "a property must be a mapping, not str"),
            (None, "a property must be a mapping, not NoneType"),
            ({"type": "string", "required": False}, "required must be True or left out"),
            ({"type": "string", "required": 1}, "required must be True or left out"),
            ({"type": "string", "required": None}, "required must be True or left out"),
            (
                {"type": "string", "description": ""},
                "description must be a string that is not empty",
            ),
            (
                {"type": "string", "description": 3},
                "description must be a string that is not empty",
            ),
            ({"type": "string", "enum": "ab"}, "enum must be a list of strings"),
            ({"type": "string", "enum": ["a", 1]}, "enum must be a list of strings"),
            ({"type": "string", "enum": None}, "enum must be a list of strings"),
            ({"type": "string", "items": {"type": "string"}}, "only an array has items"),
            ({"type": "array", "properties": {}}, "only an object has properties"),
            (
                {"type": "object", "properties": ["a"]},
                "properties must be a mapping, not list",
            ),
            ({"type": "string", "desciption": "typo"}, "unknown key 'desciption'"),
            ({"type": "string", 3: "x"}, "unknown key 3"),
            ({"type": "string", "default": {1, 2}}, "default must be a JSON value, not set"),
            ({"type": "number", "default": math.nan}, "default must be a JSON value, not float"),
            ({"type": "object", "default": {1: 2}}, "keys must be strings, not int"),
            ({"type": "string", "description": "\ud800"}, r"'\ud800' is no valid Unicode"),
            ({"type": "string", "enum": ["\udc80"]}, r"'\udc80' is no valid Unicode"),
        ],
        ids=repr,
    )
    def test_what_is_wrong_is_named_with_its_path(self, said: Any, problem: str) -> None:
        with pytest.raises(SpecError) as caught:
            check_spec({"x": said})
        assert (caught.value.path, caught.value.problem) == ("x", problem)
        assert str(caught.value) == f'spec of "x": {problem}'

    def test_the_path_leads_through_objects_and_arrays(self) -> None:
        with pytest.raises(SpecError) as caught:
            check_spec(
                {
                    "a": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"b": {"type": "?"}}},
                    }
                }
            )
        assert caught.value.path == "a[].b"

    @pytest.mark.parametrize("spec", [None, [], "x", 3])
    def test_a_spec_must_be_a_mapping(self, spec: Any) -> None:
        with pytest.raises(SpecError, match=r"^spec: properties must be a mapping, not "):
            check_spec(spec)

    def test_names_must_be_strings(self) -> None:
        bad: Any = {3: {"type": "string"}}
        with pytest.raises(SpecError, match=r"^spec: a property's name must be a string, not 3$"):
            check_spec(bad)

    def test_names_must_be_unicode(self) -> None:
        with pytest.raises(SpecError, match="no valid Unicode"):
            check_spec({"\ud800": {"type": "string"}})

    def test_a_spec_may_nest_up_to_the_limit(self) -> None:
        check_spec(nested(MAX_DEPTH - 1))
        with pytest.raises(SpecError, match=f"nests deeper than {MAX_DEPTH} levels"):
            check_spec(nested(MAX_DEPTH))

    def test_a_spec_that_holds_itself_is_refused(self) -> None:
        spec: dict[str, Any] = {}
        spec["me"] = {"type": "object", "properties": spec}
        with pytest.raises(SpecError, match="nests deeper"):
            check_spec(spec)
        item: dict[str, Any] = {"type": "array"}
        item["items"] = item
        with pytest.raises(SpecError, match="nests deeper"):
            check_spec({"me": item})

    def test_a_default_that_holds_itself_is_refused(self) -> None:
        default: list[Any] = []
        default.append(default)
        with pytest.raises(SpecError, match="nests deeper"):
            check_spec({"x": {"type": "array", "default": default}})

    def test_a_spec_that_unfolds_without_end_is_refused(self) -> None:
        spec: dict[str, Any] = {"leaf": {"type": "string"}}
        for _ in range(MAX_DEPTH - 1):
            shared = {"type": "object", "properties": spec}
            spec = {"left": shared, "right": shared}
        with pytest.raises(SpecError, match=f"more than {MAX_PROPERTIES} properties"):
            check_spec(spec)

    @pytest.mark.parametrize("use", [lambda s: violations(s, {}), json_schema, Schema.of])
    def test_a_malformed_spec_is_refused_by_whatever_reads_it(self, use: Any) -> None:
        with pytest.raises(SpecError):
            use({"x": {"type": "?"}})

    def test_it_is_a_value_error(self) -> None:
        assert issubclass(SpecError, ValueError)

    def test_what_stands_for_no_default_says_so(self) -> None:
        assert repr(ABSENT) == "ABSENT"
