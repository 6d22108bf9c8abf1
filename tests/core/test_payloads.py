"""Tests of payloads: views of data that stay undecoded until somebody asks."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from msgspec import Raw

from dsh_core.parts import ABSENT, Block, blocks
from dsh_core.payloads import AssistantMessageData, InboxData, ToolResultData, TurnEndData
from dsh_core.streams import Finish, stream_ends
from tests.strategies import json_values


def raw(value: Any) -> Raw:
    """Return a value as raw JSON."""
    return Raw(json.dumps(value).encode())


def tool_result(**data: Any) -> ToolResultData:
    """Return the payload of a tool result."""
    return msgspec.json.decode(json.dumps(data), type=ToolResultData)


FLAT = {"callId": "c", "isError": True, "content": [{"type": "text", "text": "flat"}]}
WRAPPED = {
    "message": {
        "role": "user",
        "source": {"kind": "tool", "callId": "c"},
        "content": [
            {
                "type": "tool-result",
                "toolCallId": "c",
                "isError": True,
                "content": [{"type": "text", "text": "wrapped"}],
            }
        ],
    }
}
OWN = {
    "message": {
        "role": "tool",
        "toolCallId": "c",
        "isError": True,
        "content": [{"type": "text", "text": "own"}],
    }
}


class TestBlocks:
    """Content blocks."""

    def test_each_block_is_decoded(self) -> None:
        """Text and calls are typed, arguments and inner content stay raw."""
        found = blocks(
            raw(
                [
                    {"type": "text", "text": "hi"},
                    {"type": "tool-call", "id": "c", "name": "bash", "arguments": "{}"},
                ]
            )
        )
        assert [(b.type, b.text, b.id, b.name) for b in found] == [
            ("text", "hi", "", ""),
            ("tool-call", "", "c", "bash"),
        ]
        assert found[1].argument_text == "{}"

    def test_one_odd_block_does_not_hide_its_neighbours(self) -> None:
        """A block that cannot be decoded is left out."""
        found = blocks(raw([{"type": "text", "text": "a"}, 5, {"type": 7}, {"type": "image"}]))
        assert [b.type for b in found] == ["text", "image"]

    @pytest.mark.parametrize("odd", [None, 5, "text", {"type": "text"}, []])
    def test_content_of_another_shape_has_none(self, odd: Any) -> None:
        """What is no list of blocks has no blocks."""
        assert list(blocks(raw(odd))) == []

    def test_content_that_is_not_there_has_none(self) -> None:
        """An absent field has no blocks."""
        assert list(blocks(ABSENT)) == []

    def test_content_that_is_no_json_has_none(self) -> None:
        """Nor has one that is broken, or nested beyond reason."""
        assert list(blocks(Raw(b'[{"type":'))) == []
        assert list(blocks(Raw(b'[{"type":"text","content":' + b"[" * 20_000))) == []

    @pytest.mark.parametrize(("arguments", "text"), [('"a"', "a"), ("{}", None), ("", None)])
    def test_arguments_are_text_or_nothing(self, arguments: str, text: str | None) -> None:
        """Arguments that are not the model's own text are not compared with any."""
        assert Block(arguments=Raw(arguments.encode())).argument_text == text

    @given(json_values)
    def test_nothing_raises(self, value: Any) -> None:
        """Whatever content holds, it has blocks or not."""
        assert len(blocks(raw(value))) >= 0
        assert len(stream_ends(raw(value))) == 2


class TestStreamEnds:
    """Packed streams."""

    def test_first_and_last(self) -> None:
        """The two ends of a stream say when it began and how it ended."""
        first, last = stream_ends(
            raw(
                [
                    {"type": "chunk", "time": 5, "chunk": {"type": "block-start"}},
                    {"type": "text-chunks", "time0": 6, "texts": ["a"]},
                    {"type": "chunk", "time": 9, "chunk": {"type": "finish", "reason": {}}},
                ]
            )
        )
        assert first is not None
        assert last is not None
        assert (first.time, last.time) == (5, 9)
        assert isinstance(last.chunk, Finish)

    def test_a_single_entry_is_both(self) -> None:
        """A stream may consist of its end."""
        first, last = stream_ends(raw([{"type": "text-chunks", "time0": 6}]))
        assert first == last
        assert first is not None
        assert first.time0 == 6

    @pytest.mark.parametrize("odd", [[], None, {}, [5], "x"])
    def test_other_shapes_have_no_ends(self, odd: Any) -> None:
        """What is no stream has no ends."""
        assert stream_ends(raw(odd)) == (None, None)
        assert stream_ends(ABSENT) == (None, None)


class TestToolResult:
    """Results in the shapes of three generations."""

    @pytest.mark.parametrize(
        ("data", "words"), [(FLAT, "flat"), (WRAPPED, "wrapped"), (OWN, "own")]
    )
    def test_all_generations_say_the_same(self, data: dict[str, Any], words: str) -> None:
        """Call, flag and text are found where the generation keeps them."""
        found = tool_result(**data)
        assert (found.call_id, found.failed, found.text()) == ("c", True, words)

    def test_a_result_that_did_not_fail(self) -> None:
        """Without a flag a result is no failure."""
        assert not tool_result(callId="c").failed
        assert not tool_result(message={"toolCallId": "c"}).failed
        assert not tool_result(message={"content": [{"type": "tool-result"}]}).failed
        assert not tool_result(message={"content": [{"type": "text", "isError": True}]}).failed

    @pytest.mark.parametrize(
        ("message", "call_id"),
        [
            ({"toolCallId": "a", "source": {"callId": "b"}}, "a"),
            ({"source": {"callId": "b"}}, "b"),
            ({"source": {}, "content": [{"toolCallId": "d"}]}, "d"),
            ({"source": None, "content": []}, "flat"),
            ({}, "flat"),
        ],
    )
    def test_where_the_call_is_named(self, message: dict[str, Any], call_id: str) -> None:
        """The message's own id counts first, then its source, its block, and the flat field."""
        assert tool_result(callId="flat", message=message).call_id == call_id

    def test_text_is_cut(self) -> None:
        """At most so many characters of the text are returned."""
        content = [
            {"type": "text", "text": "abc"},
            {"type": "image"},
            {"type": "text", "text": "def"},
        ]
        found = tool_result(content=content)
        assert found.text() == "abc\ndef"
        assert found.text(4) == "abc\nd"
        assert found.text(3) == "abc"


class TestAssistantMessage:
    """Answers."""

    @pytest.mark.parametrize("wrapped", [False, True])
    def test_advertised_calls(self, wrapped: bool) -> None:
        """The calls of an answer are found in flat content and in a message."""
        content = [{"type": "text", "text": "x"}, {"type": "tool-call", "id": "c", "name": "bash"}]
        data: dict[str, Any] = (
            {"message": {"content": content}} if wrapped else {"content": content}
        )
        found = msgspec.json.decode(json.dumps(data), type=AssistantMessageData)
        assert [block.id for block in found.tool_calls()] == ["c"]


class TestTurnReason:
    """Why turns end."""

    @pytest.mark.parametrize(
        ("reason", "code"),
        [
            ({"kind": "error", "message": "m", "code": "FLAT"}, "FLAT"),
            ({"kind": "error", "error": {"message": "m", "code": "NESTED"}}, "NESTED"),
            ({"kind": "error", "message": "m"}, ""),
        ],
    )
    def test_the_failure_of_any_generation(self, reason: dict[str, Any], code: str) -> None:
        """A failure is found flat or nested."""
        found = msgspec.json.decode(json.dumps({"reason": reason}), type=TurnEndData)
        assert found.reason.failure is not None
        assert (found.reason.failure.message, found.reason.failure.code) == ("m", code)

    def test_other_reasons_have_none(self) -> None:
        """A turn that completed has no failure."""
        assert TurnEndData().reason.failure is None


class TestInbox:
    """Changes of the inbox, of which what cannot be read counts as nothing."""

    @pytest.mark.parametrize(
        ("value", "number"),
        [
            *[(5, 5), (-1, -1), (2.0, 2), (2**70, 2**70)],
            *[(None, 0), (True, 0), (1.5, 0), ("5", 0), ([5], 0), ({}, 0)],
        ],
    )
    def test_numbers(self, value: Any, number: int) -> None:
        data = msgspec.json.decode(
            json.dumps({"start": value, "removedCount": value}), type=InboxData
        )
        assert (data.start, data.removed_count) == (number, number)

    @pytest.mark.parametrize(
        ("value", "marked"), [("canceled", True), ("", True), (5, True), (None, False)]
    )
    def test_outcomes(self, value: Any, marked: bool) -> None:
        data = msgspec.json.decode(json.dumps({"outcome": value}), type=InboxData)
        assert data.has_outcome is marked

    def test_of_an_empty_payload_there_is_nothing(self) -> None:
        data = InboxData()
        assert (data.start, data.removed_count, data.has_outcome) == (0, 0, False)
        assert list(data.inserted) == []
