"""From chunks to blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.errors import LlmError
from dsh_core.llm import BlockAssembler, assembler
from dsh_core.llm import chunks as make

if TYPE_CHECKING:
    from collections.abc import Mapping

HELLO = {"type": "text", "text": "hello"}


def assemble(*chunks: Mapping[str, Any]) -> BlockAssembler:
    found = BlockAssembler()
    for chunk in chunks:
        found.add(chunk)
    return found


def content(*chunks: Mapping[str, Any]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = assemble(*chunks).message()["content"]
    return blocks


class TestBlocks:
    def test_the_message_is_the_assistants(self) -> None:
        assert assemble().message() == {"role": "assistant", "content": []}

    def test_blocks_are_ordered_by_first_appearance_of_their_index(self) -> None:
        assert content(
            make.block_start(5, "text"),
            make.text_delta(0, "zero"),
            make.text_delta(5, "five"),
            make.block_end(2, {"type": "text", "text": "two"}),
        ) == [
            {"type": "text", "text": "five"},
            {"type": "text", "text": "zero"},
            {"type": "text", "text": "two"},
        ]

    def test_a_repeated_block_start_is_ignored(self) -> None:
        assert content(
            make.block_start(0, "text"),
            make.text_delta(0, "a"),
            make.block_start(0, "reasoning"),
            make.text_delta(0, "b"),
        ) == [{"type": "text", "text": "ab"}]

    @pytest.mark.parametrize(
        ("delta", "block"),
        [
            (make.text_delta(0, "a"), {"type": "text", "text": "a"}),
            (make.reasoning_delta(0, "a"), {"type": "reasoning", "text": "a"}),
            (
                make.tool_call_delta(0, "c1", "{}", "read"),
                {"type": "tool-call", "id": "c1", "name": "read", "arguments": "{}"},
            ),
        ],
    )
    def test_deltas_without_a_start_create_the_block(
        self, delta: dict[str, Any], block: dict[str, Any]
    ) -> None:
        assert content(delta) == [block]

    def test_a_block_end_without_a_start_creates_the_block(self) -> None:
        assert content(make.block_end(3, HELLO)) == [HELLO]

    def test_the_first_block_end_wins(self) -> None:
        assert content(
            make.block_end(0, HELLO), make.block_end(0, {"type": "text", "text": "other"})
        ) == [HELLO]

    def test_the_block_of_a_block_end_is_taken_verbatim(self) -> None:
        block = {"type": "image", "url": "https://x", "more": [1]}
        found = content(
            make.block_start(0, "text"), make.text_delta(0, "a"), make.block_end(0, block)
        )
        assert found[0] is block

    def test_deltas_after_a_block_end_are_ignored(self) -> None:
        assert content(make.block_end(0, HELLO), make.text_delta(0, "more")) == [HELLO]

    def test_unfinished_text_is_assembled_from_deltas(self) -> None:
        assert content(make.text_delta(0, "hel"), make.text_delta(0, "lo")) == [HELLO]

    def test_unfinished_reasoning_is_assembled_from_deltas(self) -> None:
        assert content(make.reasoning_delta(0, "h"), make.reasoning_delta(0, "m")) == [
            {"type": "reasoning", "text": "hm"}
        ]

    def test_an_unfinished_tool_call_is_assembled_from_deltas(self) -> None:
        assert content(
            make.block_start(0, "tool-call"),
            make.tool_call_delta(0, "c1", "", "read"),
            make.tool_call_delta(0, "c1", '{"a":'),
            make.tool_call_delta(0, "c1", "1}"),
        ) == [{"type": "tool-call", "id": "c1", "name": "read", "arguments": '{"a":1}'}]

    def test_a_missing_id_becomes_call_and_the_index(self) -> None:
        assert content(make.block_start(7, "tool-call"))[0]["id"] == "call-7"
        assert content(make.tool_call_delta(3, "", "{}", "read"))[0]["id"] == "call-3"

    def test_a_missing_name_becomes_empty(self) -> None:
        assert content(make.tool_call_delta(0, "c1", "{}"))[0]["name"] == ""

    def test_an_unfinished_block_without_deltas_is_empty(self) -> None:
        assert content(make.block_start(0, "text")) == [{"type": "text", "text": ""}]

    def test_an_unfinished_block_of_another_type_raises(self) -> None:
        found = assemble(make.block_start(2, "image"))
        with pytest.raises(LlmError) as caught:
            found.message()
        assert caught.value.code == "MALFORMED_RESPONSE"
        assert caught.value.message == "block 2 of type 'image' was not finished"


class TestUsageAndFinish:
    def test_without_usage_there_is_none(self) -> None:
        assert assemble().usage is None

    def test_the_last_usage_wins(self) -> None:
        found = assemble(
            make.usage_chunk({"inputTokens": 1, "outputTokens": 1}),
            make.usage_chunk({"inputTokens": 2, "outputTokens": 3}),
        )
        assert found.usage == {"inputTokens": 2, "outputTokens": 3}

    def test_no_finish_means_stop(self) -> None:
        assert assemble(make.text_delta(0, "a")).finish == {"kind": "stop"}

    def test_the_finish_is_the_streams(self) -> None:
        assert assemble(make.finish("max-tokens")).finish == {"kind": "max-tokens"}


class TestClosedBlocks:
    def test_a_block_is_handed_out_when_it_is_closed(self) -> None:
        found = assemble(make.block_start(0, "text"))
        assert found.take_closed() == []
        found.add(make.block_end(0, HELLO))
        assert found.take_closed() == [HELLO]
        assert found.take_closed() == []

    def test_a_closed_block_waits_for_all_earlier_ones(self) -> None:
        found = assemble(make.block_start(1, "text"), make.block_end(0, HELLO))
        assert found.take_closed() == []
        found.add(make.block_end(1, {"type": "text", "text": "first"}))
        assert found.take_closed() == [{"type": "text", "text": "first"}, HELLO]

    def test_the_rest_has_open_blocks_too(self) -> None:
        found = assemble(make.block_end(0, HELLO), make.text_delta(1, "cut"))
        assert found.take_closed() == [HELLO]
        assert found.take_rest() == [{"type": "text", "text": "cut"}]
        assert found.take_rest() == []


class TestHostileStreams:
    @pytest.mark.parametrize(
        "chunk",
        [
            {"type": "text-delta", "index": "0", "text": "a"},
            {"type": "text-delta", "index": -1, "text": "a"},
            {"type": "text-delta", "index": True, "text": "a"},
            {"type": "text-delta", "index": [], "text": "a"},
            {"type": "text-delta", "text": "a"},
            {"type": "text-delta", "index": 0, "text": 7},
            {"type": "tool-call-delta", "index": 0, "id": "c"},
            {"type": "block-start", "index": 0},
            {"type": "block-end", "index": 0},
            {"type": "usage"},
            {"type": "finish", "reason": "stop"},
        ],
        ids=str,
    )
    def test_a_chunk_that_cannot_be_placed_is_refused(self, chunk: dict[str, Any]) -> None:
        with pytest.raises(LlmError) as caught:
            assemble(chunk)
        assert caught.value.code == "MALFORMED_RESPONSE"

    @pytest.mark.parametrize(
        "chunk", [{}, {"type": "ping"}, {"type": ["x"]}, {"type": None}], ids=str
    )
    def test_a_chunk_of_unknown_type_is_ignored(self, chunk: dict[str, Any]) -> None:
        assert content(chunk) == []

    def test_odd_ids_and_names_count_as_missing(self) -> None:
        delta = {"type": "tool-call-delta", "index": 0, "id": 7, "name": [], "argumentsDelta": ""}
        assert content(delta) == [
            {"type": "tool-call", "id": "call-0", "name": "", "arguments": ""}
        ]

    def test_the_number_of_blocks_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(assembler, "MAX_BLOCKS", 2)
        found = assemble(make.text_delta(0, "a"), make.text_delta(1, "a"))
        with pytest.raises(LlmError, match="more than 2 blocks"):
            found.add(make.text_delta(2, "a"))

    def test_the_length_of_an_answer_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(assembler, "MAX_CHARS", 3)
        found = assemble(make.text_delta(0, "abc"))
        with pytest.raises(LlmError, match="longer than 3 characters"):
            found.add(make.text_delta(1, "d"))

    def test_deltas_after_a_block_end_do_not_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(assembler, "MAX_CHARS", 3)
        assert content(make.block_end(0, HELLO), make.text_delta(0, "abcd")) == [HELLO]

    def test_the_number_of_chunks_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(assembler, "MAX_CHUNKS", 2)
        found = assemble(make.text_delta(0, ""), {"type": "news"})
        with pytest.raises(LlmError, match="more than 2 chunks") as caught:
            found.add(make.text_delta(0, ""))
        assert caught.value.code == "MALFORMED_RESPONSE"

    @given(
        st.lists(
            st.dictionaries(
                st.sampled_from(
                    ["type", "index", "text", "id", "name", "argumentsDelta", "block", "blockType"]
                ),
                st.none()
                | st.integers(-1, 2)
                | st.just({"type": "text"})
                | st.sampled_from(
                    ["text-delta", "tool-call-delta", "block-start", "block-end", "finish", "text"]
                ),
            )
        )
    )
    def test_no_stream_raises_anything_but_a_model_error(self, chunks: list[Any]) -> None:
        found = BlockAssembler()
        try:
            for chunk in chunks:
                found.add(chunk)
            found.message()
        except LlmError as error:
            assert error.code == "MALFORMED_RESPONSE"  # noqa: PT017 - it need not be raised
