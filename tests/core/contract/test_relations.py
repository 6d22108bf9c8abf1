"""Tests of what October says of developer messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from dsh_core.contract.rules import relations
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract
from dsh_core.faults import Fault
from tests.checking import Item, check, event, log, one_turn, prompt, rules
from tests.strategies import MODEL, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_core.contract.findings import Finding

V0, V4 = Contract.V0, Contract.V4
ODD: Final[tuple[Any, ...]] = (None, True, 0, 1, -1, 1.5, 2**53, "", "x", [], {}, [{}], [[0]])
NO_TEXTS: Final[tuple[Any, ...]] = (..., None, 5, {})
NO_OBJECTS: Final[tuple[Any, ...]] = (..., None, "{}", [])


def tool(name: Any = "bash", **more: Any) -> dict[str, Any]:
    """Return a complete definition; a field that is `...` is left out."""
    whole = {"name": name, "description": "Runs", "parameters": {"type": "object"}, **more}
    return {key: value for key, value in whole.items() if value is not ...}


def header(*tools: Any, **more: Any) -> Item:
    whole = {"config": MODEL, "tools": list(tools), **more}
    return event("request/header", {"header": whole, "reason": "initial"})


def add(name: Any = "bash", **more: Any) -> dict[str, Any]:
    return {"type": "tool-addition", "toolName": name, **more}


def remove(name: Any = "bash") -> dict[str, Any]:
    return {"type": "tool-removal", "toolName": name}


def developer(*content: Any, seq: Any = ..., turn: int = 1, **message: Any) -> Item:
    """Return a developer message about the header with some seq."""
    whole = {"id": "d", "role": "developer", "source": {"kind": "tool-registry"}}
    data = {"turn": turn, "step": 1, "message": {**whole, "content": list(content), **message}}
    if seq is not ...:
        data["headerSeq"] = seq
    return event("developer/message", data, surfaceOp="append")


def found_in(*items: Item) -> list[Finding]:
    """Check what follows a header of three tools, the third of which is defined twice."""
    tools = (tool(), tool("read"), tool("twice"), tool("twice"))
    return check(log(*one_turn(1, header(*tools), *items)), V4)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (developer(add()), "headerSeq is nothing, which is not earlier"),
        (developer(add(), seq=None), "headerSeq is nothing, which is not earlier"),
        (developer(add(), seq=3), "headerSeq is 3, which is not earlier"),
        (developer(add(), seq=9), "headerSeq is 9, which is not earlier"),
        (developer(add(), seq=-1), "headerSeq is -1, which is not earlier"),
        (developer(add(), seq=1.5), "headerSeq is 1.5, which is not earlier"),
        (developer(add(), seq="2"), "headerSeq is '2', which is not earlier"),
        (developer(add(), seq=[2]), "headerSeq is a list, which is not earlier"),
        (developer(add(), seq=0), "headerSeq is 0, which is no request/header"),
        (developer(add(), seq=1), "headerSeq is 1, which is no request/header"),
        (developer(*text("hi"), seq=2), "headerSeq without added tools"),
        (developer(remove(), seq=2), "headerSeq without added tools"),
        (developer(seq=None), "headerSeq without added tools"),
        *[
            (developer(change(odd), seq=2), "a tool is added or removed without a name")
            for change in (add, remove)
            for odd in ("", None, 5, ["bash"])
        ],
        (developer(add(tool=tool()), seq=2), "an added tool brings its definition along"),
        (developer(add("zz"), seq=2), "'zz' is not just one complete tool of request/header 2"),
        (
            developer(add(), add("twice"), seq=2),
            "'twice' is not just one complete tool of request/header 2",
        ),
    ],
)
def test_each_fault_is_named(item: Item, message: str) -> None:
    """A message that adds tools names the header that defines each of them once."""
    assert [(f.rule, f.seq, f.message) for f in found_in(item)] == [
        ("developer.header", 3, message)
    ]


@pytest.mark.parametrize(
    "broken",
    [
        *[tool(description=odd) for odd in NO_TEXTS],
        *[tool(parameters=odd) for odd in NO_OBJECTS],
        *[tool(name=odd) for odd in (..., None, 5, "", "Bash")],
        "bash",
        None,
    ],
)
def test_a_tool_is_defined_completely(broken: Any) -> None:
    """Description and parameters belong to it."""
    items = one_turn(1, header(broken, tool("read")), developer(add(), seq=2))
    found = check(log(*items), V4)
    assert [(f.rule, f.seq) for f in found] == [("developer.header", 3)]
    whole = one_turn(1, header(broken, tool("read")), developer(add("read"), seq=2))
    assert check(log(*whole), V4) == []


@pytest.mark.parametrize("tools", [..., None, "bash", {}, []])
def test_without_tools_a_header_defines_none(tools: Any) -> None:
    """Tools are a list."""
    (kind, data, envelope) = header()
    data["header"]["tools"] = tools
    if tools is ...:
        del data["header"]["tools"]
    items = one_turn(1, (kind, data, envelope), developer(add(), seq=2))
    assert [(f.rule, f.seq) for f in check(log(*items), V4)] == [("developer.header", 3)]


@pytest.mark.parametrize(
    "items",
    [
        (developer(*text("hi")),),
        (developer(),),
        (developer(add(), seq=2),),
        (developer(add(), seq=2.0),),
        (developer(add(), add("read"), add(), remove("zz"), seq=2), developer(add(), seq=2)),
        (developer(remove("zz"), remove("zz")),),
        (developer(5, None, {"type": ["tool-addition"]}, {"type": "later", "toolName": ""}),),
        (header(tool("new", extra=1)), developer(add(), seq=2), developer(add("new"), seq=3)),
        (header(tool(description="", deferLoading=True)), developer(add(), seq=3)),
    ],
)
def test_what_merely_looks_odd_is_legal(items: Sequence[Item]) -> None:
    """Additions may be repeated, and name any earlier header."""
    assert found_in(*items) == []


def test_the_header_of_an_earlier_turn_will_do() -> None:
    items = (*one_turn(1, header(tool())), *one_turn(2, developer(add(), seq=2, turn=2)))
    assert check(log(*items), V4) == []


@pytest.mark.parametrize("odd", [False, None, 1, "true", {}])
def test_a_tool_is_deferred_or_not(odd: Any) -> None:
    """`deferLoading` is true where it is present, whoever asks for the tool."""
    items = one_turn(1, header(tool(), tool("read", deferLoading=odd)))
    found = check(log(*items), V4)
    assert [(f.rule, f.seq, f.message) for f in found] == [
        ("developer.header", 2, "deferLoading of a tool is not true")
    ]


def test_a_message_without_shape_is_not_judged_twice() -> None:
    assert rules(found_in(developer(add(), role="user"))) == ["message.shape", "developer.header"]
    assert rules(found_in(developer(content=None, role=""))) == ["message.shape"]
    bare = event("developer/message", {"turn": 1, "step": 1}, surfaceOp="append")
    assert rules(found_in(bare)) == ["message.shape"]


def test_the_tools_of_many_headers_are_not_all_remembered() -> None:
    many = [header() for _ in range(relations.MAX_READ)]
    assert found_in(*many, developer(add("zz"), seq=2)) == []
    assert rules(found_in(*many, developer(add("zz"), seq=3))) == ["developer.header"]
    more = [header() for _ in range(relations.MAX_HEADERS)]
    assert found_in(*more, developer(add(), seq=0), developer(add(), seq=2)) == []


def test_the_tools_of_a_huge_header_are_not_judged() -> None:
    tools = [tool(f"t{k}") for k in range(relations.MAX_TOOLS + 1)]
    assert found_in(header(*tools), developer(add("zz"), seq=3)) == []
    assert rules(found_in(header(*tools[:-1]), developer(add("zz"), seq=3))) == ["developer.header"]


class TestMissing:
    """What was not seen is not missed."""

    @pytest.mark.parametrize("seq", [0, 5])
    def test_a_header_may_have_been_in_a_gap(self, seq: int) -> None:
        events = log(*one_turn(1, prompt(), developer(add(), seq=seq)))
        for late in events[3:]:
            late["seq"] += 7
        assert check(events, V4, source=SourceKind.STREAM) == []
        assert rules(check(events, V4)) == ["seq.gap"]
        lost = Fault("line.not-json", "not JSON", 4, lost=True)
        assert rules(check(events, V4, faults={3: lost})) == ["line.not-json"]

    def test_what_was_seen_is_judged_all_the_same(self) -> None:
        turns = (*one_turn(1, header(tool())), *one_turn(2, developer(add("zz"), seq=2, turn=2)))
        events = log(*turns)
        for late in events[5:]:
            late["seq"] += 7
        assert rules(check(events, V4, source=SourceKind.STREAM)) == ["developer.header"]

    def test_a_header_that_could_not_be_read_defines_anything(self) -> None:
        events = log(*one_turn(1, header(), developer(add(), seq=2)))
        events[2]["data"] = 5
        assert rules(check(events, V4)) == ["envelope.invalid"]

    def test_a_burst_repeats_what_is_known(self) -> None:
        events = log(*one_turn(1, header(tool()), developer(add(), seq=2)))
        events[4:4] = events[2:4]
        assert rules(check(events, V4)) == ["seq.regressed"]


@pytest.mark.parametrize("odd", ODD)
def test_nothing_is_too_odd(odd: Any) -> None:
    """Whatever a field holds, or the payload itself, there is a verdict."""
    (kind, data, envelope) = developer(add(), seq=2)
    for name in data["message"]:
        changed = {**data, "message": {**data["message"], name: odd}}
        assert {f.owner for f in found_in((kind, changed, envelope))} <= {"session", "log"}
    for name in data:
        found_in((kind, {**data, name: odd}, envelope))
    for shape in ({"header": odd}, {"header": {"tools": odd}}, {"header": {"tools": [odd]}}):
        items = one_turn(1, event("request/header", shape), developer(add(), seq=2))
        # A header without provider and model is at fault by itself.
        assert rules(check(log(*items), V4)) == ["envelope.invalid", "developer.header"]


def test_others_have_no_such_rule() -> None:
    items = one_turn(1, header(tool(deferLoading=False)), developer(add("zz"), seq=0))
    assert check(log(*items), Contract.V0) == []


CONFIG: Final = {"provider": "p", "model": "m", "maxTokens": 5, "reasoningEffort": "high"}


@pytest.mark.parametrize(
    "change",
    [
        *({"reason": odd} for odd in ("fallback", *ODD)),
        *({"startsSeries": odd} for odd in (False, 1, "true", None)),
        *({"adapterDefaults": odd} for odd in (*ODD, {"maxTokens": 1})),
        *({"adapterDefaults": {odd: True}} for odd in ("temperature", "model", "x")),
        *({"config": {**CONFIG, "reasoningEffort": odd}} for odd in ("", 5, None)),
        {"config": {**MODEL}, "adapterDefaults": {"maxTokens": True}},
    ],
)
def test_what_a_request_header_says_of_itself(change: dict[str, Any]) -> None:
    def request(**more: Any) -> Item:
        inner = {"config": CONFIG, "adapterDefaults": {"maxTokens": True}}
        data = {"header": inner, "reason": "initial", "startsSeries": True}
        for name, value in more.items():
            (data if name in data else inner)[name] = value
        return event("request/header", data)

    assert check(log(*one_turn(1, request())), V4) == []
    assert rules(check(log(*one_turn(1, request(**change))), V4)) == ["envelope.invalid"]
    assert check(log(*one_turn(1, request(**change))), V0) == []
