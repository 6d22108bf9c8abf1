"""Server-sent events, cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.llm.sse import SseError, SseEvent, SseParser


def parse(*pieces: bytes) -> list[tuple[str, str]]:
    parser = SseParser()
    return [(found.event, found.data) for piece in pieces for found in parser.feed(piece)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
def test_lines_end_with_any_line_break(end: bytes) -> None:
    raw = end.join([b"event: a", b"data: 1", b"", b"event: b", b"data: 2", b"", b""])
    assert parse(raw) == [("a", "1"), ("b", "2")]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
def test_bytes_may_come_one_by_one(end: bytes) -> None:
    raw = end.join([b"event: a", "data: grün \U0001f600".encode(), b"", b"data: 2", b"", b""])
    pieces = [bytes([byte]) for byte in raw]
    assert parse(*pieces) == [("a", "grün \U0001f600"), ("message", "2")]


def test_an_event_without_a_type_is_a_message() -> None:
    assert parse(b"data: x\n\n") == [("message", "x")]


def test_several_data_lines_are_joined_by_newlines() -> None:
    assert parse(b"data: a\ndata:\ndata: b\n\n") == [("message", "a\n\nb")]


def test_only_one_space_after_the_colon_is_left_out() -> None:
    assert parse(b"data:  a\ndata:b\n\n") == [("message", " a\nb")]


def test_comments_are_left_out() -> None:
    assert parse(b": keep-alive\n\n:\ndata: a\n: more\n\n") == [("message", "a")]


def test_other_fields_are_left_out() -> None:
    assert parse(b"id: 7\nretry: 10\nnonsense\ndata: a\n\n") == [("message", "a")]


def test_a_type_without_data_is_no_event() -> None:
    assert parse(b"event: a\n\ndata: x\n\n") == [("message", "x")]


def test_a_line_without_a_colon_is_a_field_without_a_value() -> None:
    assert parse(b"data\n\n") == [("message", "")]


def test_a_byte_order_mark_at_the_start_is_left_out() -> None:
    assert parse(b"\xef\xbb", b"\xbfdata: a\n\n") == [("message", "a")]


def test_a_byte_order_mark_elsewhere_is_text() -> None:
    assert parse(b"data: \xef\xbb\xbfa\n\n") == [("message", "\ufeffa")]


def test_what_follows_the_last_blank_line_is_no_event() -> None:
    assert parse(b"data: a\n\ndata: b\n") == [("message", "a")]


def test_bytes_that_are_no_utf_8_are_replaced() -> None:
    assert parse(b"data: \xff\n\n") == [("message", "\ufffd")]


def test_a_line_feed_after_a_cut_carriage_return_is_no_line() -> None:
    assert parse(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == [("message", "a\nb")]


def test_a_finished_line_that_is_too_long_is_refused() -> None:
    parser = SseParser(max_line=10)
    with pytest.raises(SseError, match="longer than 10 bytes"):
        list(parser.feed(b"data: 12345\n"))


def test_an_unfinished_line_that_is_too_long_is_refused() -> None:
    parser = SseParser(max_line=10)
    list(parser.feed(b"data: 1234"))
    with pytest.raises(SseError, match="longer than 10 bytes"):
        list(parser.feed(b"5"))


def test_an_event_that_is_too_long_is_refused() -> None:
    parser = SseParser(max_data=10)
    list(parser.feed(b"data: 1234\n"))
    with pytest.raises(SseError, match="longer than 10 characters"):
        list(parser.feed(b"data: 12345\n"))


def test_an_event_that_has_too_many_lines_is_refused() -> None:
    parser = SseParser(max_lines=3)
    assert list(parser.feed(b"data:\ndata:\n\ndata:\n:\n")) == [SseEvent("message", "\n")]
    list(parser.feed(b"data:\n"))
    with pytest.raises(SseError, match="more than 3 lines"):
        list(parser.feed(b"data:\n"))


@pytest.mark.parametrize("line", [b"data:\n", b":\n", b"\n", b"event: ping\n\n", b"data\r"])
def test_lines_without_end_are_refused_before_they_are_many(line: bytes) -> None:
    parser = SseParser()
    with pytest.raises(SseError, match="more than 262144 lines"):
        list(parser.feed(line * 300_000))


def test_the_bound_counts_for_each_event_alone() -> None:
    parser = SseParser(max_data=6)
    assert list(parser.feed(b"data: 1234\n\ndata: 1234\n\n")) == [SseEvent("message", "1234")] * 2


@given(
    st.lists(
        st.sampled_from(["event: a", "data: x", "data: ü\ufeff", "data", ": c", "", "id: 1", "?"])
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(1, 5)),
    st.booleans(),
)
def test_how_the_bytes_are_cut_does_not_matter(
    lines: list[str], end: str, sizes: list[int], bom: bool
) -> None:
    raw = (b"\xef\xbb\xbf" if bom else b"") + "".join(line + end for line in lines).encode()
    pieces, rest = [], raw
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    assert parse(*pieces, rest) == parse(raw)


@given(st.lists(st.binary()))
def test_any_bytes_can_be_fed(pieces: list[bytes]) -> None:
    assert parse(*pieces) == parse(b"".join(pieces))
