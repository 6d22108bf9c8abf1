"""Messages in the form of the GenAI conventions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from dsh_core.parts import ABSENT
from dsh_otel.clean import MAX_CONTENT
from dsh_otel.content import messages_json
from tests.strategies import json_values


def message(content: Any) -> Any:
    return json.loads(messages_json("user", Raw(json.dumps(content).encode())))


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "text", "text": "hi"}, {"type": "text", "content": "hi"}),
        ({"type": "reasoning", "text": "hm"}, {"type": "reasoning", "content": "hm"}),
        (
            {"type": "tool-call", "id": "c1", "name": "read", "arguments": '{"a":1}'},
            {"type": "tool_call", "id": "c1", "name": "read", "arguments": '{"a":1}'},
        ),
        (
            {"type": "tool-call", "id": "c1", "name": "read", "arguments": {"a": 1}},
            {"type": "tool_call", "id": "c1", "name": "read", "arguments": ""},
        ),
    ],
)
def test_a_block_becomes_a_part(block: dict[str, Any], part: dict[str, Any]) -> None:
    assert message([block]) == [{"role": "user", "parts": [part]}]


def test_blocks_that_are_no_text_are_left_out() -> None:
    blocks = [{"type": "image", "attachment": {}}, {"type": "text", "text": "hi"}, {"type": "new"}]
    assert message(blocks) == [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]


@pytest.mark.parametrize("content", [None, "text", 5, {}, [5], [[]]])
def test_content_of_another_shape_is_an_empty_message(content: Any) -> None:
    assert message(content) == [{"role": "user", "parts": []}]


def test_absent_content_is_an_empty_message() -> None:
    assert json.loads(messages_json("assistant", ABSENT)) == [{"role": "assistant", "parts": []}]


def test_early_parts_get_the_room_of_a_long_message() -> None:
    blocks = [{"type": "text", "text": letter * 6000} for letter in "abc"]
    (found,) = message(blocks)
    assert [len(part["content"]) for part in found["parts"]] == [6000, 2192, 0]


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "type": st.sampled_from(("text", "reasoning", "tool-call")),
                "text": st.text(max_size=5).map(lambda text: text * 4000),
                "id": st.text(max_size=3).map(lambda text: text * 200),
                "name": st.text(max_size=3).map(lambda text: text * 200),
                "arguments": st.text(max_size=3).map(lambda text: text * 4000),
            }
        ),
        max_size=8,
    ).map(lambda blocks: blocks * 12)
    | json_values
)
def test_a_message_is_json_and_short_enough_whatever_is_in_it(content: Any) -> None:
    text = messages_json("user", Raw(json.dumps(content).encode()))
    assert len(text) <= MAX_CONTENT
    assert json.loads(text)[0]["role"] == "user"
