"""Tests of tables on terminals and elsewhere."""

from __future__ import annotations

import io
import re
import sys

import pytest

from dsh_otel.cli.table import Column, print_fields, print_table

COLUMNS = (
    Column("NAME", style="bold"),
    Column("KIND", styles={"bad": "red"}),
    Column("SAYS", wraps=True),
)
ROWS = (("one", "bad", "a text that is longer than others"), ("three", "good", "short"))


class Terminal(io.StringIO):
    """A terminal that remembers what it was sent."""

    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, out: io.StringIO, width: int) -> list[str]:
    """Print the table; return its lines."""
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    print_table(COLUMNS, ROWS)
    return out.getvalue().splitlines()


class TestTable:
    """Rows under heads."""

    @pytest.mark.parametrize("width", [20, 80])
    def test_pipe(self, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
        """A pipe gets one line a row, however wide the terminal is."""
        assert shown(monkeypatch, io.StringIO(), width) == [
            "NAME   KIND  SAYS",
            "one    bad   a text that is longer than others",
            "three  good  short",
        ]

    def test_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A terminal gets colours, and long cells go on below themselves."""
        monkeypatch.setenv("NO_COLOR", "1")
        lines = shown(monkeypatch, Terminal(), 36)
        assert any("\x1b[31mbad" in line for line in lines)
        assert len(lines) == 4
        assert lines[2].startswith(" " * 13)

    def test_no_colour(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A terminal without colours gets the same lines."""
        out = Terminal()
        shown(monkeypatch, out, 36)
        out.seek(0)
        out.truncate()
        monkeypatch.setenv("NO_COLOR", "1")
        print_table(COLUMNS, ROWS)
        assert [line.rstrip() for line in out.getvalue().splitlines()] == [
            "NAME   KIND  SAYS",
            "one    bad   a text that is longer",
            "             than others",
            "three  good  short",
        ]

    def test_narrow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A terminal that is too narrow loses nothing: it breaks the lines itself."""
        lines = shown(monkeypatch, Terminal(), 30)[1:]
        assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines] == [
            "one    bad   a text that is longer than others",
            "three  good  short",
        ]


class TestFields:
    """One thing in full."""

    def test_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """On a terminal long texts go on below themselves, on a pipe they do not."""
        out = Terminal()
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setenv("COLUMNS", "24")
        monkeypatch.setenv("NO_COLOR", "1")
        print_fields("it", [("name", "one two three four"), ("x", "[bold]y")])
        assert [line.rstrip() for line in out.getvalue().splitlines()] == [
            *("it", "  name  one two three", "        four", "  x     [bold]y")
        ]
        pipe = io.StringIO()
        monkeypatch.setattr(sys, "stdout", pipe)
        print_fields("it", [("name", "one two three four"), ("x", "y")])
        assert pipe.getvalue() == "it\n  name  one two three four\n  x     y\n"
