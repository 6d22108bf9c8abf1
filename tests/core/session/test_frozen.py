"""History that cannot be changed."""

from __future__ import annotations

import copy
import json
import operator
import pickle
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.errors import InvariantError
from dsh_core.session import Entry
from dsh_core.session.frozen import FrozenDict, FrozenList, History, freeze, thawed

if TYPE_CHECKING:
    from collections.abc import Callable

PLAIN = {"a": 1, "b": [3, 1, 2, {"c": []}], "d": {"e": None}}


class Frozen:
    """An event's payload, frozen, and what was told of it."""

    def __init__(self, data: Any = None, **more: Any) -> None:
        self.told: list[tuple[int, str]] = []
        original = copy.deepcopy(PLAIN if data is None else data)
        self.entry = Entry("x", 7, 1, original, **more)
        freeze(self.entry, lambda seq, operation: self.told.append((seq, operation)))
        self.data = self.entry.data


CHANGES_DICT: dict[str, Callable[[Any], object]] = {
    "__init__": lambda data: data.__init__({"a": 2}, data._history),
    "__setitem__": lambda data: data.__setitem__("a", 2),
    "__delitem__": lambda data: data.__delitem__("a"),
    "__ior__": lambda data: data.__ior__({"a": 2}),
    "clear": lambda data: data.clear(),
    "pop": lambda data: data.pop("a"),
    "popitem": lambda data: data.popitem(),
    "setdefault": lambda data: data.setdefault("a", 2),
    "update": lambda data: data.update(a=2),
}
CHANGES_LIST: dict[str, Callable[[Any], object]] = {
    "__init__": lambda data: data.__init__([5], data._history),
    "__setitem__": lambda data: data.__setitem__(0, 2),
    "__delitem__": lambda data: data.__delitem__(slice(0, 2)),
    "__iadd__": lambda data: data.__iadd__([1]),
    "__imul__": lambda data: data.__imul__(2),
    "append": lambda data: data.append(1),
    "clear": lambda data: data.clear(),
    "extend": lambda data: data.extend([1]),
    "insert": lambda data: data.insert(0, 1),
    "pop": lambda data: data.pop(),
    "remove": lambda data: data.remove(1),
    "reverse": lambda data: data.reverse(),
    "sort": lambda data: data.sort(key=str),
}
# What every object has, and what only looks.
READS = set(dir(object)) - {"__init__"} | {
    "__class_getitem__",
    "__contains__",
    "__getitem__",
    "__iter__",
    "__len__",
    "__reversed__",
    "copy",
}
READS_DICT = READS | {"__or__", "__ror__", "fromkeys", "get", "items", "keys", "values"}
READS_LIST = READS | {"__add__", "__mul__", "__rmul__", "count", "index"}


def test_every_method_of_dict_is_known_to_change_it_or_not() -> None:
    assert set(dir(dict)) == READS_DICT | set(CHANGES_DICT)


def test_every_method_of_list_is_known_to_change_it_or_not() -> None:
    assert set(dir(list)) == READS_LIST | set(CHANGES_LIST)


@pytest.mark.parametrize("name", CHANGES_DICT)
def test_what_would_change_a_mapping_refuses_and_tells_once(name: str) -> None:
    frozen = Frozen()
    with pytest.raises(InvariantError) as caught:
        CHANGES_DICT[name](frozen.data)
    assert frozen.told == [(7, name)]
    assert (
        str(caught.value)
        == f"invariant violated: history was about to change: {name} on the event of seq 7"
    )
    assert frozen.data == PLAIN


@pytest.mark.parametrize("name", CHANGES_LIST)
def test_what_would_change_a_list_refuses_and_tells_once(name: str) -> None:
    frozen = Frozen()
    with pytest.raises(InvariantError) as caught:
        CHANGES_LIST[name](frozen.data["b"])
    assert frozen.told == [(7, name)]
    assert (
        str(caught.value)
        == f"invariant violated: history was about to change: {name} on the event of seq 7"
    )
    assert frozen.data == PLAIN


def test_statements_that_change_refuse_as_methods_do() -> None:
    frozen = Frozen()
    data = frozen.data
    with pytest.raises(InvariantError):
        data["a"] = 2
    with pytest.raises(InvariantError):
        del data["a"]
    with pytest.raises(InvariantError):
        data |= {"a": 2}
    items = data["b"]
    with pytest.raises(InvariantError):
        items += [1]
    with pytest.raises(InvariantError):
        items *= 2
    with pytest.raises(InvariantError):
        items[1:] = []
    assert [what for _, what in frozen.told] == [
        *("__setitem__", "__delitem__", "__ior__"),
        *("__iadd__", "__imul__", "__setitem__"),
    ]
    assert frozen.entry.data == PLAIN


def test_all_levels_are_frozen() -> None:
    frozen = Frozen()
    for inner in (frozen.data["b"][3], frozen.data["b"][3]["c"], frozen.data["d"]):
        with pytest.raises(InvariantError):
            inner.clear()
    assert frozen.told == [(7, "clear")] * 3


def test_cited_seqs_and_surface_operation_are_frozen_too() -> None:
    frozen = Frozen(source_event_seqs=[1, [3, 5]], surface_op={"op": "replace"})
    for thing in (frozen.entry.source_event_seqs, frozen.entry.surface_op):
        with pytest.raises(InvariantError):
            thing.clear()  # type: ignore[union-attr]
    assert frozen.entry.row == (
        b'{"type":"x","seq":7,"time":1,"data":{"a":1,"b":[3,1,2,{"c":[]}],"d":{"e":null}},'
        b'"sourceEventSeqs":[1,[3,5]],"surfaceOp":{"op":"replace"}}'
    )


def test_they_are_frozen_even_if_the_payload_is_history_already() -> None:
    entry = Entry("y", 8, 1, Frozen().data, source_event_seqs=[7])
    freeze(entry, lambda seq, operation: None)
    assert isinstance(entry.source_event_seqs, FrozenList)


def test_whoever_handed_the_payload_over_may_change_the_original() -> None:
    data: dict[str, Any] = {"a": [1]}
    entry = Entry("x", 7, 1, data)
    freeze(entry, lambda seq, operation: None)
    data["a"].append(2)
    data["b"] = 1
    assert entry.data == {"a": [1]}


def test_freezing_twice_changes_nothing() -> None:
    frozen = Frozen()
    freeze(frozen.entry, lambda seq, operation: None)
    assert frozen.entry.data is frozen.data


@pytest.mark.parametrize("data", [None, 5, "text", True])
def test_a_payload_that_holds_nothing_is_left_as_it_is(data: Any) -> None:
    entry = Entry("x", 7, 1, data)
    freeze(entry, lambda seq, operation: None)
    assert entry.data is data


def is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return type(value) is dict and all(map(is_plain, value.values()))
    if isinstance(value, list):
        return type(value) is list and all(map(is_plain, value))
    return True


@pytest.mark.parametrize(
    "copied",
    [
        copy.deepcopy,
        thawed,
        lambda data: pickle.loads(pickle.dumps(data)),
        lambda data: pickle.loads(pickle.dumps(data, 0)),
        lambda data: json.loads(json.dumps(data)),
        lambda data: msgspec.json.decode(msgspec.json.encode(data)),
        lambda data: msgspec.msgpack.decode(msgspec.msgpack.encode(data)),
        msgspec.to_builtins,
    ],
)
def test_a_deep_copy_is_equal_plain_and_may_be_changed(copied: Callable[[Any], Any]) -> None:
    frozen = Frozen()
    found = copied(frozen.data)
    assert found == PLAIN
    assert is_plain(found)
    found["b"][3]["c"].append(1)
    assert frozen.data == PLAIN


@pytest.mark.parametrize(
    "copied", [copy.copy, dict, lambda data: data.copy(), lambda data: {**data}]
)
def test_a_shallow_copy_of_a_mapping_is_plain_on_its_own_level(copied: Any) -> None:
    found = copied(Frozen().data)
    assert (type(found), found) == (dict, PLAIN)
    assert type(found["b"]) is FrozenList


@pytest.mark.parametrize(
    "copied",
    [copy.copy, list, lambda data: data.copy(), lambda data: data[:], lambda data: [*data]],
)
def test_a_shallow_copy_of_a_list_is_plain_on_its_own_level(copied: Any) -> None:
    found = copied(Frozen().data["b"])
    assert (type(found), found) == (list, PLAIN["b"])
    assert type(found[3]) is FrozenDict


def test_new_values_made_of_history_are_plain() -> None:
    data = Frozen({"a": 1, "b": [3, 1, 2]}).data
    items = data["b"]
    assert type(data | {"c": 1}) is dict
    assert {"c": 1} | data == {"c": 1, "a": 1, "b": [3, 1, 2]}
    assert type({"c": 1} | data) is dict
    assert type(items[1:]) is list
    assert type(operator.add(items, [4])) is list
    assert type(items * 2) is list
    assert type(2 * items) is list
    assert operator.add([0], items) == [0, 3, 1, 2]
    assert sorted(items) == [1, 2, 3]
    assert list(reversed(items)) == [2, 1, 3]
    made = data.fromkeys(["x"], 1)
    assert (type(made), made) == (dict, {"x": 1})


def test_reading_works() -> None:
    data = Frozen().data
    assert data == PLAIN
    assert not data != PLAIN  # noqa: SIM202 - the other operator
    assert (data["a"], data.get("z", 5), "b" in data, len(data)) == (1, 5, True, 3)
    assert (list(data), list(data.keys())) == (["a", "b", "d"], ["a", "b", "d"])
    assert next(iter(data.items())) == ("a", 1)
    assert (data["b"].index(1), data["b"].count(3), data["b"][-2]) == (1, 1, 2)
    assert isinstance(data, dict)
    assert isinstance(data["b"], list)
    assert repr(data) == repr(PLAIN)
    match data:
        case {"a": 1, "b": [3, *rest]}:
            assert rest == [1, 2, {"c": []}]
        case _:
            pytest.fail("no match")


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
        st.recursive(
            st.integers(-9, 9) | st.none() | st.booleans(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.just("k"), inner),
            max_leaves=6,
        ),
    )
)
def test_any_payload_is_written_as_before(data: dict[str, Any]) -> None:
    before = Entry("x", 7, 1, data).row
    frozen = Frozen(data)
    assert frozen.entry.row == before
    assert frozen.entry.data == data
    assert frozen.entry.event.seq == 7
    assert is_plain(copy.deepcopy(frozen.entry.data))


def test_what_a_listener_raises_goes_to_who_tried_and_nothing_changes() -> None:
    def fail(seq: int, operation: str) -> None:
        raise ValueError(f"{operation} of {seq}")

    entry = Entry("x", 7, 1, {"a": 1})
    freeze(entry, fail)
    with pytest.raises(ValueError, match=r"^clear of 7$"):
        entry.data.clear()
    assert entry.data == {"a": 1}


def test_history_knows_its_seq() -> None:
    assert History(3, lambda seq, operation: None).seq == 3
