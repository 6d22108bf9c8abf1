"""The answer of the Messages API, from events to chunks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.errors import LlmError
from dsh_core.llm import messages_answer
from dsh_core.llm.messages_answer import Answer
from dsh_core.llm.sse import SseEvent
from tests.core.llm.loopback import block, hello, start, stop, text_block


def chunks(*events: Any) -> list[Any]:
    answer = Answer()
    return [
        chunk
        for data in events
        for chunk in answer.take(SseEvent(data.get("type", "message"), json.dumps(data)))
    ]


def failure(*events: Any) -> LlmError:
    with pytest.raises(LlmError) as caught:
        chunks(*events)
    return caught.value


def test_a_text_answer_becomes_chunks() -> None:
    assert chunks(*hello()) == [
        {"type": "block-start", "index": 0, "blockType": "text"},
        {"type": "text-delta", "index": 0, "text": "Hel"},
        {"type": "text-delta", "index": 0, "text": "lo"},
        {"type": "block-end", "index": 0, "block": {"type": "text", "text": "Hello"}},
        {"type": "usage", "usage": {"inputTokens": 10, "outputTokens": 4}},
        {"type": "finish", "reason": {"kind": "stop"}},
    ]


def test_a_tool_use_becomes_a_tool_call() -> None:
    found = chunks(
        start(),
        *block(
            1,
            {"type": "input_json_delta", "partial_json": ""},
            {"type": "input_json_delta", "partial_json": '{"path":'},
            {"type": "input_json_delta", "partial_json": '"/x"}'},
            type="tool_use",
            id="t1",
            name="read",
            input={},
        ),
        *stop("tool_use"),
    )
    assert found == [
        {"type": "block-start", "index": 1, "blockType": "tool-call"},
        {"type": "tool-call-delta", "index": 1, "id": "t1", "name": "read", "argumentsDelta": ""},
        {"type": "tool-call-delta", "index": 1, "id": "t1", "argumentsDelta": '{"path":'},
        {"type": "tool-call-delta", "index": 1, "id": "t1", "argumentsDelta": '"/x"}'},
        {
            "type": "block-end",
            "index": 1,
            "block": {
                "type": "tool-call",
                "id": "t1",
                "name": "read",
                "arguments": '{"path":"/x"}',
            },
        },
        {"type": "finish", "reason": {"kind": "tool-calls"}},
    ]


def test_thinking_becomes_reasoning_with_its_signature() -> None:
    found = chunks(
        *block(
            0,
            {"type": "thinking_delta", "thinking": "h"},
            {"type": "thinking_delta", "thinking": "m"},
            {"type": "signature_delta", "signature": "si"},
            {"type": "signature_delta", "signature": "g"},
            type="thinking",
            thinking="",
            signature="",
        )
    )
    assert found == [
        {"type": "block-start", "index": 0, "blockType": "reasoning"},
        {"type": "reasoning-delta", "index": 0, "text": "h"},
        {"type": "reasoning-delta", "index": 0, "text": "m"},
        {
            "type": "block-end",
            "index": 0,
            "block": {"type": "reasoning", "text": "hm", "signature": "sig"},
        },
    ]


def test_a_signature_in_many_pieces_is_put_together_once() -> None:
    pieces = [{"type": "signature_delta", "signature": "sig-"}] * 10_000
    head = {"type": "thinking", "thinking": "", "signature": "head-"}
    found = chunks(*block(0, *pieces, **head))
    assert found[-1]["block"]["signature"] == "head-" + "sig-" * 10_000


def test_an_endless_answer_is_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages_answer, "MAX_EVENTS", 3)
    assert chunks(*[{"type": "ping"}] * 3) == []
    error = failure(*[{"type": "ping"}] * 4)
    assert (error.code, error.message) == (
        "MALFORMED_RESPONSE",
        "Messages stream: more than 3 events",
    )


def test_thinking_without_a_signature_has_none() -> None:
    found = chunks(*block(0, {"type": "thinking_delta", "thinking": "hm"}, type="thinking"))
    assert found[-1]["block"] == {"type": "reasoning", "text": "hm"}


def test_hidden_thinking_is_kept_as_it_is() -> None:
    found = chunks(*block(0, type="redacted_thinking", data="xyz"))
    assert found[-1]["block"] == {"type": "reasoning", "text": "", "redactedData": "xyz"}


def test_text_in_the_start_of_a_block_counts() -> None:
    found = chunks(*block(0, {"type": "text_delta", "text": "b"}, type="text", text="a"))
    assert found[-1]["block"] == {"type": "text", "text": "ab"}


def test_blocks_of_other_types_are_left_out() -> None:
    found = chunks(
        *block(0, {"type": "input_json_delta", "partial_json": "{"}, type="server_tool_use"),
        *text_block(1, "a"),
        *stop(),
    )
    assert [chunk["type"] for chunk in found] == [
        "block-start",
        "text-delta",
        "block-end",
        "finish",
    ]


def test_deltas_of_other_types_are_left_out() -> None:
    found = chunks(*block(0, {"type": "citations_delta", "citation": {}}, type="text", text=""))
    assert [chunk["type"] for chunk in found] == ["block-start", "block-end"]


@pytest.mark.parametrize("data", [{"type": "ping"}, {"type": "news"}, {"type": 7}, {}], ids=str)
def test_other_events_say_nothing(data: Any) -> None:
    assert chunks(data) == []


def test_half_a_character_is_replaced() -> None:
    assert chunks(*text_block(0, "a\ud83d"))[1]["text"] == "a\ufffd"


class TestUsage:
    def test_all_parts_are_told(self) -> None:
        found = chunks(
            start(
                input_tokens=100,
                output_tokens=1,
                cache_read_input_tokens=64,
                cache_creation_input_tokens=8,
            ),
            *text_block(0, "a"),
            *stop(output_tokens=20),
        )
        assert found[-2] == {
            "type": "usage",
            "usage": {
                "inputTokens": 100,
                "outputTokens": 20,
                "cacheReadTokens": 64,
                "cacheWriteTokens": 8,
            },
        }

    def test_later_numbers_replace_earlier_ones(self) -> None:
        found = chunks(
            start(input_tokens=0, output_tokens=0),
            *text_block(0, "a"),
            *stop(input_tokens=7, output_tokens=9),
        )
        assert found[-2]["usage"] == {"inputTokens": 7, "outputTokens": 9}

    def test_a_number_that_is_not_told_is_zero(self) -> None:
        found = chunks(*text_block(0, "a"), *stop(output_tokens=9))
        assert found[-2]["usage"] == {"inputTokens": 0, "outputTokens": 9}

    def test_without_any_number_there_is_no_usage(self) -> None:
        found = chunks(start(), *text_block(0, "a"), *stop())
        assert [chunk["type"] for chunk in found if chunk["type"] == "usage"] == []

    @pytest.mark.parametrize("value", [-1, 1.5, True, "9", None, 2**60])
    def test_nonsense_is_no_number(self, value: Any) -> None:
        found = chunks(start(input_tokens=value), *text_block(0, "a"), *stop(output_tokens=9))
        assert found[-2]["usage"] == {"inputTokens": 0, "outputTokens": 9}


class TestStopReasons:
    @pytest.mark.parametrize(
        ("reason", "kind"),
        [
            ("end_turn", "stop"),
            ("stop_sequence", "stop"),
            ("tool_use", "tool-calls"),
            ("max_tokens", "max-tokens"),
        ],
    )
    def test_a_stop_reason_gives_the_kind_of_finish(self, reason: str, kind: str) -> None:
        found = chunks(*text_block(0, "a"), *stop(reason))
        assert found[-1] == {"type": "finish", "reason": {"kind": kind}}

    @pytest.mark.parametrize(
        ("reason", "code"),
        [
            ("refusal", "REFUSAL"),
            ("pause_turn", "PAUSE_TURN"),
            ("content_filter", "CONTENT_FILTER"),
            ("insufficient_system_resource", "INSUFFICIENT_SYSTEM_RESOURCE"),
        ],
    )
    def test_any_other_reason_is_an_error_of_that_name(self, reason: str, code: str) -> None:
        assert failure(*text_block(0, "a"), *stop(reason)).code == code

    def test_usage_is_told_before_such_an_error(self) -> None:
        answer = Answer()
        delta, end = stop("refusal", output_tokens=3)
        for data in (*text_block(0, "a"), delta):
            list(answer.take(SseEvent("", json.dumps(data))))
        last = answer.take(SseEvent("", json.dumps(end)))
        assert next(last) == {"type": "usage", "usage": {"inputTokens": 0, "outputTokens": 3}}
        with pytest.raises(LlmError):
            next(last)

    @pytest.mark.parametrize("reason", [None, 7, "", "no good", "x" * 65, "ü"])
    def test_an_unusable_reason_is_malformed(self, reason: Any) -> None:
        assert failure(*text_block(0, "a"), *stop(reason)).code == "MALFORMED_RESPONSE"


class TestEmptyAnswers:
    @pytest.mark.parametrize("reason", ["end_turn", "tool_use", "stop_sequence"])
    def test_an_answer_without_blocks_is_empty(self, reason: str) -> None:
        assert failure(start(), *stop(reason)).code == "EMPTY_RESPONSE"

    def test_an_answer_of_unknown_blocks_is_empty(self) -> None:
        assert failure(*block(0, type="mystery"), *stop()).code == "EMPTY_RESPONSE"

    def test_an_answer_cut_off_before_any_block_is_cut_off(self) -> None:
        assert chunks(start(), *stop("max_tokens"))[-1]["reason"] == {"kind": "max-tokens"}


class TestToolInput:
    BAD = block(
        0,
        {"type": "input_json_delta", "partial_json": "{bad"},
        type="tool_use",
        id="t1",
        name="read",
    )

    def test_input_that_is_no_json_is_malformed(self) -> None:
        error = failure(*self.BAD, *stop("tool_use"))
        assert error.code == "MALFORMED_RESPONSE"
        assert error.message == "Messages stream: the input of a tool is no JSON"

    def test_input_cut_off_by_the_limit_is_kept(self) -> None:
        found = chunks(*self.BAD, *stop("max_tokens"))
        assert found[-2]["block"]["arguments"] == "{bad"

    def test_no_input_is_an_empty_text(self) -> None:
        found = chunks(*block(0, type="tool_use", id="t1", name="read"), *stop("tool_use"))
        assert found[-2]["block"]["arguments"] == ""


class TestMalformed:
    @pytest.mark.parametrize("data", ["", "{", "[1]", "7", "[" * 100_000, '{"a":' * 100_000])
    def test_an_event_that_is_no_json_object_is_malformed(self, data: str) -> None:
        with pytest.raises(LlmError) as caught:
            list(Answer().take(SseEvent("message", data)))
        assert caught.value.code == "MALFORMED_RESPONSE"

    @pytest.mark.parametrize(
        "events",
        [
            [{"type": "message_start"}],
            [{"type": "content_block_start", "index": 0}],
            [{"type": "content_block_start", "content_block": {"type": "text"}}],
            [{"type": "content_block_start", "index": -1, "content_block": {"type": "text"}}],
            [{"type": "content_block_start", "index": True, "content_block": {"type": "text"}}],
            [{"type": "content_block_start", "index": 0, "content_block": {"type": 7}}],
            [{"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use"}}],
            [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}}],
            [{"type": "content_block_delta", "index": 0}],
            [{"type": "content_block_stop", "index": 0}],
            [{"type": "content_block_stop"}],
            [{"type": "message_delta"}],
            block(0, {"type": "text_delta", "text": 7}, type="text"),
            [*text_block(0, "a"), *text_block(0, "b")],
            [*text_block(0, "a")[:-1], *stop()],
        ],
        ids=lambda events: json.dumps(events[-1])[:60],
    )
    def test_an_event_that_makes_no_sense_is_malformed(self, events: list[Any]) -> None:
        assert failure(*events).code == "MALFORMED_RESPONSE"

    def test_the_number_of_blocks_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(messages_answer, "MAX_BLOCKS", 2)
        events = [event for index in range(3) for event in text_block(index, "a")]
        assert failure(*events).message == "Messages stream: more than 2 blocks"

    def test_an_error_event_is_an_error(self) -> None:
        inner = {"type": "overloaded_error", "message": "Overloaded"}
        error = failure({"type": "error", "error": inner})
        assert (error.message, error.code) == ("Overloaded", "SERVER")

    @given(
        st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(
                        [
                            "message_start",
                            "content_block_start",
                            "content_block_delta",
                            "content_block_stop",
                            "message_delta",
                            "message_stop",
                            "error",
                        ]
                    )
                },
                optional={
                    "index": st.integers(-1, 2) | st.none(),
                    "content_block": st.fixed_dictionaries(
                        {"type": st.sampled_from(["text", "tool_use", "thinking", "x", None])},
                        optional={
                            "text": st.text() | st.none(),
                            "id": st.text(),
                            "name": st.text(),
                        },
                    ),
                    "delta": st.dictionaries(
                        st.sampled_from(["type", "text", "thinking", "stop_reason"]),
                        st.sampled_from(["text_delta", "thinking_delta", "end_turn"]) | st.none(),
                    ),
                    "message": st.just({}) | st.none(),
                    "error": st.just({}) | st.text() | st.none(),
                    "usage": st.none() | st.dictionaries(st.just("input_tokens"), st.integers()),
                },
            )
        )
    )
    def test_no_events_raise_anything_but_a_model_error(self, events: list[Any]) -> None:
        try:
            found = chunks(*events)
        except LlmError:
            return
        json.dumps(found)
