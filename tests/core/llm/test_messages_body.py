"""The body of a request to the Messages API."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.errors import LlmError
from dsh_core.llm import GenerateOptions
from dsh_core.llm.messages_body import request_body


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def call(call_id: str, arguments: str = "{}") -> dict[str, Any]:
    return {"type": "tool-call", "id": call_id, "name": "read", "arguments": arguments}


def result(call_id: str, *blocks: Any, is_error: bool = False) -> dict[str, Any]:
    return {
        "type": "tool-result",
        "toolCallId": call_id,
        "content": list(blocks),
        "isError": is_error,
    }


def body(*messages: Any, **options: Any) -> Any:
    return json.loads(request_body(GenerateOptions("m", messages, **options), 100))


def sent(*messages: Any, **options: Any) -> Any:
    return body(*messages, **options)["messages"]


def refused(*messages: Any, **options: Any) -> LlmError:
    with pytest.raises(LlmError) as caught:
        body(*messages, **options)
    return caught.value


class TestOptions:
    def test_the_least_request_has_model_limit_and_messages(self) -> None:
        assert body(user(text("hi"))) == {
            "model": "m",
            "max_tokens": 100,
            "stream": True,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        }

    def test_all_options_are_sent(self) -> None:
        tool = {"name": "read", "description": "Reads.", "parameters": {"type": "object"}}
        found = body(
            user(text("hi")),
            system="Be brief.",
            tools=[tool],
            temperature=0.5,
            max_tokens=7,
            stop=["END"],
        )
        del found["messages"]
        assert found == {
            "model": "m",
            "max_tokens": 7,
            "stream": True,
            "system": "Be brief.",
            "tools": [
                {"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}
            ],
            "temperature": 0.5,
            "stop_sequences": ["END"],
        }

    def test_a_prefill_is_the_last_message(self) -> None:
        assert sent(user(text("hi")), prefill="{")[-1] == {
            "role": "assistant",
            "content": [{"type": "text", "text": "{"}],
        }

    def test_system_messages_join_the_system_text(self) -> None:
        message = {"role": "system", "content": [text("More.")]}
        assert body(message, user(text("hi")), system="Be brief.")["system"] == "Be brief.\n\nMore."


class TestMessages:
    def test_tool_calls_become_tool_use(self) -> None:
        found = sent(assistant(call("c1", '{"path":"/x"}')), user(result("c1", text("ok"))))
        assert found == [
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "/x"}}
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "content": [{"type": "text", "text": "ok"}],
                    }
                ],
            },
        ]

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ("", {}),
            (" ", {}),
            ("{bad", {"arguments": "{bad"}),
            ("[1]", {"arguments": "[1]"}),
            ('{"a":NaN}', {"arguments": '{"a":NaN}'}),
            ('{"a":1e999}', {"arguments": '{"a":1e999}'}),
            ("[" * 100_000, {"arguments": "[" * 100_000}),
        ],
        ids=lambda value: str(value)[:20],
    )
    def test_arguments_are_always_sent_as_an_object(self, arguments: str, expected: Any) -> None:
        found = sent(assistant(call("c1", arguments)), user(result("c1")))
        assert found[0]["content"][0]["input"] == expected

    def test_a_failed_result_says_so(self) -> None:
        found = sent(assistant(call("c1")), user(result("c1", text("no"), is_error=True)))
        assert found[1]["content"][0]["is_error"] is True

    def test_an_empty_result_has_no_content(self) -> None:
        found = sent(assistant(call("c1")), user(result("c1")))
        assert found[1]["content"] == [{"type": "tool_result", "tool_use_id": "c1"}]

    def test_a_message_of_role_tool_is_a_result_too(self) -> None:
        message = {"role": "tool", "toolCallId": "c1", "content": [text("no")], "isError": True}
        assert sent(assistant(call("c1")), message)[1] == {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "content": [{"type": "text", "text": "no"}],
                    "is_error": True,
                }
            ],
        }

    def test_adjacent_messages_of_one_role_are_merged(self) -> None:
        found = sent(user(text("a")), user(text("b")), assistant(text("c")), assistant(text("d")))
        assert [(m["role"], [p["text"] for p in m["content"]]) for m in found] == [
            ("user", ["a", "b"]),
            ("assistant", ["c", "d"]),
        ]

    def test_results_come_before_all_else(self) -> None:
        found = sent(
            assistant(call("c1"), call("c2")),
            user(text("by the way")),
            user(result("c1")),
            user(result("c2")),
        )
        assert [part["type"] for part in found[1]["content"]] == [
            "tool_result",
            "tool_result",
            "text",
        ]

    def test_a_call_without_a_result_gets_one(self) -> None:
        answer = {
            "type": "tool_result",
            "tool_use_id": "c2",
            "content": "no result was recorded",
            "is_error": True,
        }
        calls = assistant(call("c1"), call("c2"))
        assert answer in sent(calls, user(result("c1")))[1]["content"]
        assert answer in sent(calls, user(text("go on")))[1]["content"]
        assert answer in sent(calls)[1]["content"]

    def test_blank_text_is_left_out(self) -> None:
        assert sent(user(text(""), text(" \n"), text("a"))) == [
            {"role": "user", "content": [{"type": "text", "text": "a"}]}
        ]

    def test_a_message_without_anything_is_left_out(self) -> None:
        found = sent(user(text("a")), assistant(), user(text("b")))
        assert [m["role"] for m in found] == ["user"]

    def test_content_may_be_a_string(self) -> None:
        message = {"role": "user", "content": "hi"}
        assert sent(message)[0]["content"] == [{"type": "text", "text": "hi"}]

    def test_the_messages_given_are_not_changed(self) -> None:
        given_ = [user(text("a")), user(text("b")), assistant(call("c1"))]
        before = json.dumps(given_)
        body(*given_)
        assert json.dumps(given_) == before


class TestReasoning:
    def test_reasoning_with_a_signature_is_sent_back(self) -> None:
        block = {"type": "reasoning", "text": "hm", "signature": "s"}
        assert sent(assistant(block))[0]["content"] == [
            {"type": "thinking", "thinking": "hm", "signature": "s"}
        ]

    def test_reasoning_without_a_signature_is_left_out(self) -> None:
        assert sent(assistant({"type": "reasoning", "text": "hm"}, text("a")))[0]["content"] == [
            {"type": "text", "text": "a"}
        ]

    def test_hidden_reasoning_is_sent_back(self) -> None:
        block = {"type": "reasoning", "text": "", "redactedData": "xyz"}
        assert sent(assistant(block))[0]["content"] == [
            {"type": "redacted_thinking", "data": "xyz"}
        ]


class TestImages:
    def test_an_image_on_the_web_is_sent_as_its_address(self) -> None:
        assert sent(user({"type": "image", "url": "https://x/y.png"}))[0]["content"] == [
            {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}
        ]

    def test_an_image_in_a_data_address_is_sent_as_data(self) -> None:
        assert sent(user({"type": "image", "url": "data:image/png;base64,AAAA"}))[0]["content"] == [
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
            }
        ]

    def test_an_image_in_a_result_is_sent(self) -> None:
        image = {"type": "image", "url": "https://x"}
        found = sent(assistant(call("c1")), user(result("c1", image)))
        assert found[1]["content"][0]["content"][0]["type"] == "image"

    @pytest.mark.parametrize(
        "block",
        [
            {"type": "image", "url": "file:///etc/passwd"},
            {"type": "image", "attachment": {"attachmentId": "a"}},
            {"type": "file"},
            {"type": "plugin:x"},
        ],
        ids=str,
    )
    def test_what_the_api_cannot_take_is_refused(self, block: Any) -> None:
        assert refused(user(block)).code == "UNSUPPORTED_CONTENT"


def left_out(what: str) -> dict[str, Any]:
    return text(f"[a {what} was left out: the API cannot take it]")


class TestOddBlocks:
    """What once is in a log must not have all later requests refused."""

    @pytest.mark.parametrize(
        ("block", "what"),
        [
            ({"type": "file", "name": "a.txt"}, "block of type 'file'"),
            ({"type": "image"}, "block of type 'image'"),
            ({"type": "image", "attachment": {"attachmentId": "a"}}, "block of type 'image'"),
            ({"type": "image", "url": "file:///etc/passwd"}, "block of type 'image'"),
            ({"type": "plugin:chart", "points": [1]}, "block of type 'plugin:chart'"),
            ({"type": "reasoning", "text": "hm", "signature": "s"}, "block of type 'reasoning'"),
            ({"type": "text"}, "block of type 'text'"),
            ({"type": "text", "text": 7}, "block of type 'text'"),
            ({"type": "x" * 1000}, f"block of type '{'x' * 79}"),
            ({"type": ["text"]}, "malformed block"),
            ({}, "malformed block"),
            (7, "malformed block"),
        ],
        ids=lambda value: str(value)[:60],
    )
    def test_one_in_a_result_becomes_a_text_that_says_so(self, block: Any, what: str) -> None:
        found = sent(assistant(call("c1")), user(result("c1", text("a"), block, text("b"))))
        assert found[1]["content"][0]["content"] == [text("a"), left_out(what), text("b")]

    def test_one_in_a_message_of_role_tool_becomes_a_text_that_says_so(self) -> None:
        message = {"role": "tool", "toolCallId": "c1", "content": [{"type": "file"}]}
        found = sent(assistant(call("c1")), message)
        assert found[1]["content"][0]["content"] == [left_out("block of type 'file'")]

    @pytest.mark.parametrize(
        ("block", "what"),
        [
            ({"type": "image", "url": "https://x/y.png"}, "block of type 'image'"),
            ({"type": "file"}, "block of type 'file'"),
            ({"type": "plugin:chart"}, "block of type 'plugin:chart'"),
            (result("c1", text("a")), "block of type 'tool-result'"),
            ({"type": "tool-call", "id": "c"}, "block of type 'tool-call'"),
            ({**call("c"), "id": ["c"]}, "block of type 'tool-call'"),
            ({**call("c"), "name": None}, "block of type 'tool-call'"),
            ({**call("c"), "arguments": {}}, "block of type 'tool-call'"),
            ({"type": "reasoning", "signature": "s"}, "block of type 'reasoning'"),
            ({"type": "reasoning", "text": "", "redactedData": 7}, "block of type 'reasoning'"),
            ({"type": "text"}, "block of type 'text'"),
            ({"type": None}, "malformed block"),
            (None, "malformed block"),
        ],
        ids=lambda value: str(value)[:60],
    )
    def test_one_in_an_answer_becomes_a_text_that_says_so(self, block: Any, what: str) -> None:
        found = sent(user(text("hi")), assistant(text("a"), block))
        assert found[1] == {"role": "assistant", "content": [text("a"), left_out(what)]}

    def test_arguments_as_deep_as_can_be_read_can_be_sent(self) -> None:
        # Somewhere in between, what can be read cannot be written.
        for depth in [1, *range(300, 1_100, 3), 100_000]:
            arguments = '{"a":' * depth + "1" + "}" * depth
            request_body(GenerateOptions("m", [assistant(call("c1", arguments))]), 9)

    @given(
        st.lists(
            st.none()
            | st.integers()
            | st.dictionaries(
                st.sampled_from(
                    ["type", "text", "id", "name", "arguments", "url", "signature", "content"]
                ),
                st.sampled_from(["text", "tool-call", "tool-result", "reasoning", "image", "{}"])
                | st.none()
                | st.just([]),
            ),
            max_size=4,
        )
    )
    def test_no_block_of_an_answer_or_a_result_has_a_request_refused(
        self, blocks: list[Any]
    ) -> None:
        assert isinstance(sent(assistant(*blocks)), list)
        assert len(sent(assistant(call("c1")), user(result("c1", *blocks)))) == 2


class TestMalformed:
    @pytest.mark.parametrize(
        "message",
        [
            {},
            7,
            {"role": "user"},
            {"role": "robot", "content": []},
            {"role": ["user"], "content": []},
            {"role": "user", "content": 7},
            {"role": "user", "content": [7]},
            {"role": "user", "content": [{}]},
            {"role": "user", "content": [{"type": "text"}]},
            {"role": "user", "content": [{"type": "text", "text": 7}]},
            {"role": "assistant"},
            {"role": "assistant", "content": 7},
            {"role": "tool", "content": []},
            {"role": "user", "content": [{"type": "tool-result", "toolCallId": "c"}]},
        ],
        ids=str,
    )
    def test_a_malformed_message_is_an_invalid_request(self, message: Any) -> None:
        assert refused(message).code == "INVALID_REQUEST"

    def test_what_json_cannot_say_is_an_invalid_request(self) -> None:
        assert refused(user(text("a")), temperature=float("nan")).code == "INVALID_REQUEST"
        assert refused(user(text("a")), tools=[{"name": "x"}]).code == "INVALID_REQUEST"

    def test_a_result_within_a_result_is_left_out(self) -> None:
        found = sent(assistant(call("c1")), user(result("c1", result("c2", text("a")))))
        assert found[1]["content"][0]["content"] == [left_out("block of type 'tool-result'")]

    def test_half_a_character_is_replaced(self) -> None:
        assert sent(user(text("a\ud83d")))[0]["content"][0]["text"] == "a\ufffd"

    @given(
        st.lists(
            st.fixed_dictionaries(
                {
                    "role": st.sampled_from(["user", "assistant", "tool", "system"]),
                    "content": st.lists(
                        st.dictionaries(
                            st.sampled_from(
                                ["type", "text", "id", "name", "arguments", "toolCallId", "content"]
                            ),
                            st.sampled_from(["text", "tool-call", "tool-result", "reasoning", "{}"])
                            | st.none()
                            | st.just([]),
                        ),
                        max_size=3,
                    ),
                }
            ),
            max_size=4,
        )
    )
    def test_any_messages_are_sent_or_refused(self, messages: list[Any]) -> None:
        try:
            roles = [message["role"] for message in sent(*messages)]
        except LlmError:
            return
        assert all(one != other for one, other in pairwise(roles))
