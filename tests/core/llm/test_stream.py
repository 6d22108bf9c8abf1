"""The `stream` array: runs packed, all else as it is, and back."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.llm import BlockAssembler, StreamError, pack, unpack
from dsh_core.llm import chunks as make
from tests.paths import HOMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

T = 1_790_000_000_000

INDEXES = st.integers(0, 2)
TEXTS = st.sampled_from(["", "a", "{", "grün"])
ODD: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | TEXTS
DELTAS = (
    st.builds(make.text_delta, INDEXES, TEXTS)
    | st.builds(make.reasoning_delta, INDEXES, TEXTS)
    | st.builds(
        make.tool_call_delta,
        INDEXES,
        st.sampled_from(["", "c1", "c2"]),
        TEXTS,
        st.sampled_from([None, "", "read"]),
    )
)
OTHERS = (
    st.builds(make.block_start, INDEXES, st.sampled_from(["text", "image"]))
    | st.builds(make.block_end, INDEXES, st.just({"type": "text", "text": "a"}))
    | st.just(make.finish("stop"))
)
STRANGE = st.dictionaries(
    st.sampled_from(["type", "index", "id", "name", "text", "argumentsDelta", "more"]),
    ODD | st.sampled_from(["text-delta", "reasoning-delta", "tool-call-delta", "text-chunks"]),
)
TIMED = st.lists(st.tuples(st.integers(T, T + 9), DELTAS | DELTAS | OTHERS | STRANGE))


def packed(*chunks: Mapping[str, Any]) -> list[dict[str, Any]]:
    return pack((T + 10 * n, chunk) for n, chunk in enumerate(chunks))


class TestPack:
    def test_no_chunks_make_no_entries(self) -> None:
        assert pack([]) == []

    @pytest.mark.parametrize(
        "chunk",
        [
            make.block_start(0, "text"),
            make.block_end(0, {"type": "text", "text": ""}),
            make.usage_chunk({"inputTokens": 1, "outputTokens": 1}),
            make.finish("stop"),
        ],
        ids=lambda chunk: chunk["type"],
    )
    def test_starts_ends_usage_and_finish_are_kept_verbatim(self, chunk: dict[str, Any]) -> None:
        assert packed(chunk, chunk) == [
            {"type": "chunk", "time": T, "chunk": chunk},
            {"type": "chunk", "time": T + 10, "chunk": chunk},
        ]

    def test_consecutive_text_deltas_make_one_entry(self) -> None:
        assert pack(
            [
                (T, make.text_delta(1, "Let ")),
                (T + 3, make.text_delta(1, "me ")),
                (T + 7, make.text_delta(1, "see")),
            ]
        ) == [
            {
                "type": "text-chunks",
                "time0": T,
                "index": 1,
                "dt": [3, 4],
                "texts": ["Let ", "me ", "see"],
            }
        ]

    def test_consecutive_reasoning_deltas_make_one_entry(self) -> None:
        assert packed(make.reasoning_delta(0, "a"), make.reasoning_delta(0, "b")) == [
            {"type": "reasoning-chunks", "time0": T, "index": 0, "dt": [10], "texts": ["a", "b"]}
        ]

    def test_a_single_delta_is_a_run_of_one(self) -> None:
        assert packed(make.text_delta(0, "a")) == [
            {"type": "text-chunks", "time0": T, "index": 0, "dt": [], "texts": ["a"]}
        ]

    def test_the_name_is_only_in_the_entry_whose_deltas_carried_it(self) -> None:
        assert packed(
            make.tool_call_delta(0, "c1", "", "read"),
            make.tool_call_delta(0, "c1", '{"file_path":'),
            make.tool_call_delta(0, "c1", '"/x"}'),
        ) == [
            {
                "type": "tool-call-chunks",
                "time0": T,
                "index": 0,
                "dt": [],
                "id": "c1",
                "name": "read",
                "args": [""],
            },
            {
                "type": "tool-call-chunks",
                "time0": T + 10,
                "index": 0,
                "dt": [10],
                "id": "c1",
                "args": ['{"file_path":', '"/x"}'],
            },
        ]

    def test_deltas_with_the_same_name_share_an_entry(self) -> None:
        one, other = (make.tool_call_delta(0, "c1", text, "read") for text in "ab")
        assert [entry["args"] for entry in packed(one, other)] == [["a", "b"]]

    @pytest.mark.parametrize(
        "chunk",
        [
            make.tool_call_delta(0, "", "{"),
            make.tool_call_delta(0, "", "{", "read"),
            make.tool_call_delta(0, "c1", "{", ""),
        ],
    )
    def test_tool_deltas_with_an_empty_id_or_name_are_kept_verbatim(
        self, chunk: dict[str, Any]
    ) -> None:
        assert packed(chunk) == [{"type": "chunk", "time": T, "chunk": chunk}]

    @pytest.mark.parametrize(
        "other",
        [
            make.text_delta(1, "b"),
            make.reasoning_delta(0, "b"),
            make.tool_call_delta(0, "c1", "b"),
        ],
        ids=["index", "kind", "call"],
    )
    def test_a_delta_of_another_block_or_kind_starts_an_entry(self, other: dict[str, Any]) -> None:
        assert len(packed(make.text_delta(0, "a"), other, make.text_delta(0, "c"))) == 3

    def test_a_delta_of_another_call_starts_an_entry(self) -> None:
        one, other = (make.tool_call_delta(0, call, "x") for call in ("c1", "c2"))
        assert [entry["id"] for entry in packed(one, other)] == ["c1", "c2"]

    def test_a_verbatim_chunk_ends_a_run(self) -> None:
        delta = make.text_delta(0, "a")
        kinds = [entry["type"] for entry in packed(delta, make.block_start(1, "text"), delta)]
        assert kinds == ["text-chunks", "chunk", "text-chunks"]

    def test_time_steps_may_be_negative(self) -> None:
        delta = make.text_delta(0, "a")
        assert pack([(T, delta), (T - 5, delta)])[0]["dt"] == [-5]

    @pytest.mark.parametrize(
        "chunk",
        [
            {"type": "text-delta", "index": 0, "text": "a", "more": 1},
            {"type": "text-delta", "index": 0, "text": 7},
            {"type": "text-delta", "index": True, "text": "a"},
            {"type": "text-delta", "index": -1, "text": "a"},
            {"type": "text-delta", "text": "a"},
            {"type": "tool-call-delta", "index": 0, "argumentsDelta": "a"},
            {"type": "tool-call-delta", "index": 0, "id": "c", "name": 1, "argumentsDelta": "a"},
            {"type": ["text-delta"]},
            {},
        ],
        ids=str,
    )
    def test_what_a_run_cannot_say_is_kept_verbatim(self, chunk: dict[str, Any]) -> None:
        assert packed(chunk) == [{"type": "chunk", "time": T, "chunk": chunk}]


class TestUnpack:
    def test_members_have_the_sum_of_the_steps_before_them(self) -> None:
        entry = {
            "type": "text-chunks",
            "time0": T,
            "index": 1,
            "dt": [3, 4],
            "texts": ["a", "b", ""],
        }
        assert unpack([entry]) == [
            (T, {"type": "text-delta", "index": 1, "text": "a"}),
            (T + 3, {"type": "text-delta", "index": 1, "text": "b"}),
            (T + 7, {"type": "text-delta", "index": 1, "text": ""}),
        ]

    def test_the_name_is_on_every_member_of_its_entry(self) -> None:
        entry = {
            "type": "tool-call-chunks",
            "time0": T,
            "index": 0,
            "dt": [0],
            "id": "c1",
            "name": "read",
            "args": ["{", "}"],
        }
        assert [chunk["name"] for _, chunk in unpack([entry])] == ["read", "read"]

    @pytest.mark.parametrize(
        ("entry", "text"),
        [
            (7, "stream[0]: not an object"),
            ({}, "stream[0]: of no known type"),
            ({"type": ["chunk"]}, "stream[0]: of no known type"),
            ({"type": "chunk", "time": T}, "stream[0]: chunk is not an object"),
            ({"type": "chunk", "time": "x", "chunk": {}}, "stream[0]: time is not an integer"),
            (
                {"type": "text-chunks", "time0": T, "index": 0, "dt": [], "texts": [1]},
                "stream[0]: texts is not a list of strings",
            ),
            (
                {"type": "text-chunks", "time0": T, "index": 0, "dt": [0.5], "texts": ["", ""]},
                "stream[0]: dt is not a list of integers",
            ),
            (
                {"type": "text-chunks", "time0": T, "index": 0, "dt": [], "texts": ["", ""]},
                "stream[0]: 2 members and 0 time steps",
            ),
            (
                {"type": "text-chunks", "time0": T, "index": 0, "dt": [], "texts": []},
                "stream[0]: 0 members and 0 time steps",
            ),
            (
                {"type": "text-chunks", "time0": T, "index": -1, "dt": [], "texts": [""]},
                "stream[0]: index is not a non-negative integer",
            ),
            (
                {"type": "text-chunks", "time0": None, "index": 0, "dt": [], "texts": [""]},
                "stream[0]: time0 is not an integer",
            ),
            (
                {"type": "tool-call-chunks", "time0": T, "index": 0, "dt": [], "args": [""]},
                "stream[0]: id is not a string",
            ),
        ],
    )
    def test_a_malformed_entry_is_named(self, entry: object, text: str) -> None:
        with pytest.raises(StreamError) as caught:
            unpack([entry])
        assert str(caught.value) == text


@given(TIMED)
def test_what_was_packed_comes_back(timed: list[tuple[int, dict[str, Any]]]) -> None:
    # By text: NaN equals nothing, and True equals 1.
    assert repr(_sorted(unpack(pack(timed)))) == repr(_sorted(timed))


@given(TIMED)
def test_packing_again_changes_nothing(timed: list[tuple[int, dict[str, Any]]]) -> None:
    entries = pack(timed)
    assert repr(pack(unpack(entries))) == repr(entries)


@given(TIMED)
def test_no_two_neighbours_could_share_an_entry(timed: list[tuple[int, dict[str, Any]]]) -> None:
    heads = [
        {key: entry.get(key) for key in ("type", "index", "id", "name")} for entry in pack(timed)
    ]
    assert all(one["type"] == "chunk" or one != other for one, other in pairwise(heads))


def answers() -> Iterator[dict[str, Any]]:
    """Yield the payloads with a stream of all real logs of the fourth generation."""
    for path in sorted(HOMES.rglob("session.v4.jsonl.zstd")):
        with path.open("rb") as file:
            reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
            lines = reader.read().splitlines()
        # The last line of a crashed session may be cut.
        rows = (json.loads(line) for line in lines if line.endswith(b"}"))
        yield from (row["data"] for row in rows if "stream" in row.get("data", {}))


def test_streams_of_real_logs_are_packed_exactly_so() -> None:
    streams = [data["stream"] for data in answers()]
    assert len(streams) > 50
    for stream in streams:
        assert pack(unpack(stream)) == stream


def test_streams_of_real_logs_give_the_messages_of_those_logs() -> None:
    messages = [data for data in answers() if "message" in data]
    assert len(messages) > 50
    for data in messages:
        assembler = BlockAssembler()
        for _, chunk in unpack(data["stream"]):
            assembler.add(chunk)
        if assembler.finish["kind"] != "max-tokens":
            assert assembler.message()["content"] == data["message"]["content"]
            assert assembler.usage == data.get("usage")


def _sorted(timed: list[tuple[int, dict[str, Any]]]) -> list[Any]:
    return [(time, sorted(chunk.items())) for time, chunk in timed]
