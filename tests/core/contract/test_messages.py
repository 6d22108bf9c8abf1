"""Tests of what a message itself must be."""

from __future__ import annotations

from typing import Any

import pytest

from dsh_core.events import Contract
from tests.checking import (
    Item,
    answer,
    call,
    check,
    event,
    log,
    one_turn,
    prompt,
    result,
    rules,
    system,
    wrapped_result,
)
from tests.strategies import header_row

V0 = Contract.V0
V4 = Contract.V4
V3_HEADER = {**(header_row(V0) or {}), "version": 3, "isSeeded": False}


class TestShape:
    """Role, id and source of messages."""

    @pytest.mark.parametrize(
        ("message", "problem"),
        [
            (prompt(role=""), "role is missing"),
            (prompt(id=""), "id is missing"),
            (prompt(source=None), "source is missing"),
            (prompt(source={"kind": ""}), "source is missing"),
            (answer(1, 1, role="user"), "role is not 'assistant'"),
            (answer(1, 1, source={"kind": "user"}), "the source of an answer is not a model"),
            (answer(1, 1, source={"kind": "model", "model": "m"}), "the source of an answer names"),
            (answer(1, 1, source={"kind": "model", "provider": "p"}), "the source of an answer na"),
            (prompt(source={"kind": "plugin"}), "the source names no producer"),
            (prompt(content="hi"), "content is not a list"),
            (prompt(content=None), "content is not a list"),
            (answer(1, 1, content={}), "content is not a list"),
            (event("assistant/message", {"turn": 1, "step": 1}, surfaceOp="append"), "the message"),
        ],
    )
    def test_october_wants_all_of_them(self, message: Item, problem: str) -> None:
        """Each message has the role of its type, an id and a source."""
        found = check(log(*one_turn(1, message)), V4)
        assert rules(found) == ["message.shape"]
        assert found[0].message.startswith(problem)

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            ({"toolCallId": ""}, "toolCallId is missing"),
            ({"source": {"kind": "tool"}}, "the source of a result names no call"),
            ({"content": "done"}, "content is not a list"),
            ({"source": {"kind": "user", "callId": "c"}}, "the source of a result is not a tool"),
            (
                {"source": {"kind": "tool", "callId": "d"}},
                "the result of call 'c' has call 'd' as its source",
            ),
            ({"role": "user"}, "role is not 'tool'"),
        ],
    )
    def test_a_result_names_its_call_twice(self, change: dict[str, Any], problem: str) -> None:
        """Message and source of a result name the same call."""
        odd = result(1, 1, "c", **change)
        found = check(log(*one_turn(1, answer(1, 1, "c"), call(1, 1, "c"), odd)), V4)
        assert [(f.rule, f.message) for f in found] == [("message.shape", problem)]

    def test_a_wrapped_result_names_its_call_twice(self) -> None:
        """Until v3 source and inner block of a result name the same call."""
        inside = (call(1, 1, "c"), wrapped_result(1, 1, "c"))
        assert check(log(*one_turn(1, *inside)), V0) == []
        odd = {"kind": "tool", "callId": "d"}
        inside = (call(1, 1, "d"), wrapped_result(1, 1, "c", source=odd))
        found = check(log(*one_turn(1, *inside)), V0)
        assert [(f.rule, f.message) for f in found] == [
            ("message.shape", "the result of call 'c' has call 'd' as its source")
        ]

    @pytest.mark.parametrize("odd", [None, 5, [], ["x"], {}, {"a": 1}])
    def test_an_id_is_a_text(self, odd: object) -> None:
        """No list or object is read as one."""
        for message in (prompt(id=odd), answer(1, 1, id=odd)):
            assert rules(check(log(*one_turn(1, message)), V4)) == ["message.shape"]
        inside = (answer(1, 1, "c"), call(1, 1, "c"), result(1, 1, "c", id=odd))
        assert rules(check(log(*one_turn(1, *inside)), V4)) == ["message.shape"]

    @pytest.mark.parametrize(
        "block", [None, 5, "x", {}, {"type": ""}, {"type": 5}, {"type": ["text"]}, {"type": "text"}]
    )
    def test_the_blocks_of_a_system_message(self, block: object) -> None:
        """Each has a type, and a text if it is one."""
        kind, data, envelope = system(1, 1)
        odd = {**data, "message": {**data["message"], "content": [block]}}
        assert rules(check(log(*one_turn(1, (kind, odd, envelope))), V4)) == ["message.shape"]
        odd["message"]["content"] = [{"type": "text", "text": ""}, {"type": "other"}]
        assert check(log(*one_turn(1, (kind, odd, envelope))), V4) == []

    @pytest.mark.parametrize("odd", [None, 5, "", "x", [], {}])
    def test_a_flag_is_true_or_false(self, odd: object) -> None:
        """From v4 on it is the message's own."""
        inside = (answer(1, 1, "c"), call(1, 1, "c"), result(1, 1, "c", isError=odd))
        found = check(log(*one_turn(1, *inside)), V4)
        assert [(f.rule, f.message) for f in found] == [("message.shape", "isError is no boolean")]

    def test_july_messages_lack_much(self) -> None:
        """In a v0 log, what is not there is not missed."""
        bare = event("assistant/message", {"turn": 1, "step": 1, "content": []})
        assert check(log(prompt(id="", source=None), *one_turn(1, bare)), V0) == []

    def test_but_what_they_have_is_right(self) -> None:
        """A wrong role is one in any format."""
        assert rules(check(log(prompt(role="tool")), V0)) == ["message.shape"]

    def test_until_v3_a_result_is_a_message_of_the_user(self) -> None:
        """The wrapped result of v3 has role user and source tool."""
        pair = (call(1, 1, "c"), wrapped_result(1, 1, "c"))
        assert check(log(*one_turn(1, *pair)), V0, header=V3_HEADER) == []
        odd = (call(1, 1, "c"), wrapped_result(1, 1, "c", role="tool"))
        found = check(log(*one_turn(1, *odd)), V0, header=V3_HEADER)
        assert rules(found) == ["message.shape"]
