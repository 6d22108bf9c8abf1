"""Text from elsewhere, made fit to be stored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.llm.text import clip, valid

SURROGATES = st.text(st.characters(categories=["L", "Cs"]))


@pytest.mark.parametrize("text", ["", "plain", "grün", "\U0001f600", "\x00"])
def test_a_valid_text_stays_as_it_is(text: str) -> None:
    assert valid(text) == text


def test_halves_of_a_character_are_joined() -> None:
    assert valid("a\ud83d\ude00b") == "a\U0001f600b"


def test_half_a_character_is_replaced() -> None:
    assert valid("a\ud83db") == "a\ufffdb"


@given(SURROGATES)
def test_every_text_becomes_one_that_utf_8_can_say(text: str) -> None:
    valid(text).encode()


@pytest.mark.parametrize(
    ("text", "result"), [("abcd", "abcd"), ("abcde", "abc…"), ("", ""), ("abcdefgh", "abc…")]
)
def test_a_long_text_is_cut_and_says_so(text: str, result: str) -> None:
    assert clip(text, 4) == result


@given(SURROGATES, st.integers(1, 20))
def test_no_clipped_text_is_longer_than_allowed(text: str, limit: int) -> None:
    short = clip(text, limit)
    short.encode()
    assert len(short) <= limit
