"""Tests of text that is made safe for a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_otel.cli.plain import printable


class TestPrintable:
    """Nothing acts on the terminal."""

    @pytest.mark.parametrize(
        "text",
        ["", "a b", "r\u00e9sum\u00e9", "\u65e5\u672c\u8a9e\u3000\u5b57", "\U0001f600", "a\u00a0b"],
    )
    def test_kept(self, text: str) -> None:
        """Letters, signs and spaces of any script stay as they are."""
        assert printable(text) == text

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("\x1b[2J", "\\x1b[2J"),
            ("a\nb\tc\r", "a\\nb\\tc\\r"),
            ("\x9b31m", "\\x9b31m"),
            ("abc\u202edef", "abc\\u202edef"),
            ("\ud800", "\\ud800"),
            ("\u2028", "\\u2028"),
        ],
    )
    def test_escaped(self, text: str, shown: str) -> None:
        """Controls, marks of direction, half characters and line separators become escapes."""
        assert printable(text) == shown

    @given(st.text(st.characters()))
    def test_any(self, text: str) -> None:
        """Whatever comes in, what comes out is one line that any UTF-8 terminal shows."""
        shown = printable(text)
        assert len(shown.splitlines()) <= 1
        assert "\x1b" not in shown
        assert shown.encode().decode() == shown
        assert printable(shown) == shown
