"""Whether a value survives being written as JSON and read again."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import json
import math
import re
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dsh_core.logs.reader import Batch, SessionLog
from dsh_core.session.frozen import FrozenDict, FrozenList, History
from dsh_core.session.lossless import DataError, require_lossless
from tests.core.session.real import REAL, rows_of


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Real(float):
    pass


class Level(enum.IntEnum):
    LOW = 1


class Kind(enum.StrEnum):
    USER = "user"


class Colour(enum.Enum):
    RED = "red"


class Pair(NamedTuple):
    one: int


@dataclasses.dataclass
class Agreeable:
    """Says that it equals everything."""

    a: int = 1

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=3), inner, max_size=3
        )
    ),
    max_leaves=8,
)

NOT_JSON: list[Any] = [
    math.nan,
    math.inf,
    -math.inf,
    (),
    (1,),
    {1},
    frozenset({"a"}),
    b"bytes",
    bytearray(b"x"),
    memoryview(b"x"),
    1j,
    2**53,
    -(2**53),
    10**30,
    10**400,
    "\ud800",
    "a\udfffb",
    Text("a"),
    Number(1),
    Real(1.5),
    Level.LOW,
    Kind.USER,
    Colour.RED,
    Pair(1),
    Agreeable(),
    decimal.Decimal("1.5"),
    dt.datetime(2025, 1, 1, tzinfo=dt.UTC),
    dt.date(2025, 1, 1),
    msgspec.Raw(b"1"),
    msgspec.UNSET,
    ...,
    object(),
    int,
    collections.deque([1]),
    range(3),
    collections.ChainMap({}),
]
BAD_KEYS: list[Any] = [
    1,
    1.5,
    None,
    True,
    (1,),
    b"a",
    "\ud800",
    Text("a"),
    Number(1),
    Kind.USER,
    Level.LOW,
]


def alike(one: Any, two: Any) -> bool:
    """Whether two values are equal and of the same types all through."""
    if isinstance(one, dict) and isinstance(two, dict):
        return list(one) == list(two) and all(alike(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(alike, one, two))
    return type(one) is type(two) and repr(one) == repr(two)


def refused(value: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        require_lossless(value)
    return caught.value


@given(plain)
@example([True, 1, 1.0, 0, False, 0.0, -0.0, 1e16, 1e22, 5e-324, 1.7976931348623157e308])
@example([2**53 - 1, -(2**53) + 1, "1234567890123456789", 0.1234567890123456789])
def test_what_is_accepted_comes_back_equal_and_with_the_same_types(value: Any) -> None:
    require_lossless(value)
    assert alike(json.loads(json.dumps(value)), value)
    assert alike(msgspec.json.decode(msgspec.json.encode(value)), value)


@given(st.recursive(plain | st.sampled_from(NOT_JSON), st.lists, max_leaves=5))
def test_anything_is_either_accepted_and_comes_back_or_refused(value: Any) -> None:
    try:
        require_lossless(value)
    except DataError:
        return
    assert alike(json.loads(json.dumps(value)), value)
    assert alike(msgspec.json.decode(msgspec.json.encode(value)), value)


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[Any, str]:
    """Return a plain value with something in it that is not, and the path to that."""
    value = draw(st.sampled_from(NOT_JSON))
    path = ""
    for _ in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            before = draw(st.lists(plain, max_size=2))
            value, path = (
                [*before, value, *draw(st.lists(plain, max_size=2))],
                (f"[{len(before)}]{path}"),
            )
        else:
            key = draw(st.sampled_from(["a", "b", "é"]))
            value, path = {"x": draw(plain), key: value, "y": 1}, f".{key}{path}"
    return value, f"data{path}"


@given(spoilt())
def test_whatever_json_cannot_carry_is_refused_with_a_path_that_leads_to_it(
    case: tuple[Any, str],
) -> None:
    value, path = case
    error = refused(value)
    assert error.path == path
    assert str(error) == f"{path} {error.problem}"
    # The path leads there.
    for place in re.findall(r"\.([^.\[]+)|\[(\d+)\]", path):
        value = value[place[0]] if place[0] else value[int(place[1])]
    assert any(value is one for one in NOT_JSON)


@pytest.mark.parametrize("key", BAD_KEYS, ids=repr)
def test_a_key_that_is_no_proper_string_is_refused_with_the_path_of_its_mapping(key: Any) -> None:
    error = refused({"a": [{"b": 1, key: 2}]})
    assert error.path == "data.a[0]"
    assert error.problem.startswith(("has a key of type ", "has a key that "))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (math.nan, "data is nan, which JSON cannot say"),
        (-math.inf, "data is -inf, which JSON cannot say"),
        ((1,), "data is of type tuple, which JSON does not have"),
        ({1}, "data is of type set, which JSON does not have"),
        (b"x", "data is of type bytes, which JSON does not have"),
        (2**53, "data is an integer beyond 2^53 - 1"),
        (-(2**53), "data is an integer beyond 2^53 - 1"),
        ("\ud800", "data holds half a character (a lone surrogate)"),
        (Kind.USER, "data is of type Kind, which JSON does not have"),
        (Level.LOW, "data is of type Level, which JSON does not have"),
        (Text("a"), "data is of type Text, which JSON does not have"),
        (Number(1), "data is of type Number, which JSON does not have"),
        ({1: 2}, "data has a key of type int, not a string"),
        (
            {"\ud800": 2},
            "data has a key that holds half a character (a lone surrogate)",
        ),
    ],
)
def test_the_problem_is_said_in_plain_words(value: Any, problem: str) -> None:
    assert str(refused(value)) == problem


def test_the_path_begins_with_what_the_value_is_called() -> None:
    with pytest.raises(DataError) as caught:
        require_lossless({"a": {1}}, "surfaceOp")
    assert caught.value.path == "surfaceOp.a"


def test_what_contains_itself_directly_is_refused() -> None:
    value: dict[str, Any] = {}
    value["me"] = value
    assert str(refused(value)) == "data.me contains itself"


def test_what_contains_itself_through_lists_is_refused() -> None:
    inner: list[Any] = []
    inner.append([inner])
    assert str(refused({"a": [inner]})) == "data.a[0][0][0] contains itself"


def test_the_same_object_twice_side_by_side_is_no_cycle() -> None:
    shared = {"a": [1]}
    require_lossless([shared, shared, {"b": shared, "c": 2**53 - 1}])


def nested(levels: int, *, lists: bool) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if lists else {"a": value}
    return value


@pytest.mark.parametrize("lists", [True, False])
def test_nesting_of_256_levels_is_accepted_and_read_back_by_the_reader(lists: bool) -> None:
    value = {"a": nested(255, lists=lists)}
    require_lossless(value)
    header = b'{"type":"session","version":4,"id":"s","createdAt":1,"isSeeded":false}\n'
    row = b'{"type":"mine","seq":0,"time":1,"data":' + msgspec.json.encode(value) + b"}\n"
    items = list(SessionLog(Source(header + row), "s").read())
    assert [type(item) for item in items] == [Batch]


class Source:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, size: int, /) -> bytes:
        data, self._data = self._data[:size], self._data[size:]
        return data


@pytest.mark.parametrize("levels", [257, 400, 900, 5_000, 100_000])
@pytest.mark.parametrize("lists", [True, False])
def test_deeper_nesting_is_refused(levels: int, lists: bool) -> None:
    error = refused(nested(levels, lists=lists))
    assert error.problem == "is nested deeper than 256 levels"
    assert len(error.path) <= 1024


def test_many_values_side_by_side_are_not_deep() -> None:
    require_lossless([[{}] for _ in range(1000)])


def test_a_path_is_never_longer_than_1024_characters() -> None:
    assert len(refused({"k" * 2000: {"a": [{1}]}}).path) == 1024


def test_what_is_larger_than_24_mib_as_json_is_refused() -> None:
    require_lossless("x" * ((24 << 20) - 2))
    assert str(refused("x" * ((24 << 20) - 1))) == "data is larger than 24 MiB as JSON"


def test_mappings_and_lists_of_other_classes_are_accepted_if_they_are_written_as_such() -> None:
    history = History(1, lambda seq, operation: None)
    require_lossless(collections.OrderedDict(a=1))
    require_lossless(collections.defaultdict(list, {"a": [1]}))
    require_lossless(FrozenDict({"a": FrozenList([1], history)}, history))


def test_what_is_in_them_is_looked_at_too() -> None:
    assert refused(collections.OrderedDict(a=(1,))).path == "data.a"


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_the_payloads_of_real_logs_are_accepted(path: Any) -> None:
    for row in rows_of(path)[1]:
        require_lossless(json.loads(row))
