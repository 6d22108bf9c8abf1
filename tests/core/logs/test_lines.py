"""Tests of cutting bytes into lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.logs.frames import BadFrame
from dsh_core.logs.lines import HEAD, Lines, Piece, read_lines

BAD = BadFrame(offset=7, reason="broken", torn=False)
TORN = BadFrame(offset=7, reason="torn", torn=True)


def cut(*blocks: bytes | BadFrame, max_line: int = 20_000) -> list[Lines | Piece | BadFrame]:
    """Cut blocks into lines."""
    return list(read_lines(blocks, max_line))


class TestWhole:
    """Lines that are whole."""

    def test_many_at_a_time(self) -> None:
        """The whole lines of a block come as one piece."""
        assert cut(b"a\nb\n\nc\n") == [Lines(b"a\nb\n\nc\n", 1, 4)]

    def test_a_line_over_several_blocks(self) -> None:
        """A line that blocks cut is put together again."""
        assert cut(b"a\nb", b"b", b"b\nc\nd\n") == [
            Lines(b"a\n", 1, 1),
            Lines(b"bbb\n", 2, 1),
            Lines(b"c\nd\n", 3, 2),
        ]

    def test_the_last_line_may_lack_its_newline(self) -> None:
        """The end of the log is known to whoever reads the last piece."""
        assert cut(b"a\nbc") == [Lines(b"a\n", 1, 1), Piece(b"bc", 2, 2, end=True)]

    @pytest.mark.parametrize("blocks", [(), (b"",)])
    def test_nothing(self, blocks: tuple[bytes, ...]) -> None:
        """An empty log has no lines."""
        assert cut(*blocks) == []

    @given(
        st.lists(st.sampled_from([b"", b"a", b"bb", b"{}", b"\r"]), max_size=12),
        st.lists(st.integers(0, 30), max_size=12),
    )
    def test_how_blocks_are_cut_makes_no_difference(
        self, lines: list[bytes], places: list[int]
    ) -> None:
        """Lines, their numbers and their bytes do not depend on the blocks."""
        data = b"\n".join(lines)
        ends = sorted({min(place, len(data)) for place in places} | {len(data)})
        blocks = [data[a:b] for a, b in zip([0, *ends], ends, strict=False)]
        found: dict[int, bytes] = {}
        for item in cut(*blocks):
            assert not isinstance(item, BadFrame)
            if isinstance(item, Piece):
                found[item.line] = item.data
            else:
                assert item.data.count(b"\n") == item.count
                found |= dict(enumerate(item.data.split(b"\n")[:-1], item.first))
        if lines and not lines[-1]:
            lines = lines[:-1]
        assert found == dict(enumerate(lines, 1))


class TestLong:
    """Lines that are too long to be kept."""

    @pytest.mark.parametrize("step", [100, 19_999, 20_000, 20_001, 70_000])
    @pytest.mark.parametrize("end", [b"\n", b""])
    def test_the_head_is_kept(self, step: int, end: bytes) -> None:
        """Of an over-long line the first bytes remain, and its size."""
        line = b"x" * 70_000 + end
        blocks = [line[k : k + step] for k in range(0, len(line), step)]
        found = cut(b"a\n", *blocks, b"b\n" if end else b"")
        long = Piece(b"x" * HEAD, 2, len(line), end=not end)
        rest = [Lines(b"b\n", 3, 1)] if end else []
        if end and step >= len(line):
            # A block holds the whole line anyway.
            long = Lines(line, 2, 1)  # type: ignore[assignment]
        assert found == [Lines(b"a\n", 1, 1), long, *rest]

    def test_a_line_of_just_the_right_length(self) -> None:
        """A line may be as long as the limit, its newline included."""
        line = b"x" * 19_999 + b"\n"
        assert cut(line[:18_000], line[18_000:]) == [Lines(line, 1, 1)]
        longer = b"x" + line
        assert cut(longer[:18_000], longer[18_000:]) == [Piece(longer[:HEAD], 1, 20_001, end=False)]

    def test_two_in_a_row(self) -> None:
        """Each has its own number."""
        found = cut(b"x" * 30_000, b"\n" + b"y" * 30_000, b"\nz\n")
        assert [(type(f).__name__, f.line if isinstance(f, Piece) else 0) for f in found] == [
            ("Piece", 1),
            ("Piece", 2),
            ("Lines", 0),
        ]


class TestBadFrames:
    """Frames that could not be read."""

    def test_between_lines(self) -> None:
        """A loss between lines stands at the line that comes next, and numbering goes on."""
        assert cut(b"a\n", BAD, b"b\n") == [
            Lines(b"a\n", 1, 1),
            BadFrame(7, "broken", torn=False, line=2),
            Lines(b"b\n", 2, 1),
        ]

    def test_inside_a_line(self) -> None:
        """What there is of a line comes first; the loss has the rest of it."""
        assert cut(b"a\nbb", BAD, b"c\n") == [
            Lines(b"a\n", 1, 1),
            Piece(b"bb", 2, 2, end=False, cut=True),
            BadFrame(7, "broken", torn=False, line=2),
            Lines(b"c\n", 3, 1),
        ]

    def test_at_the_end(self) -> None:
        """A torn frame leaves the last line unfinished."""
        assert cut(b"a\nbb", TORN) == [
            Lines(b"a\n", 1, 1),
            Piece(b"bb", 2, 2, end=True, cut=True),
            BadFrame(7, "torn", torn=True, line=2),
        ]

    def test_of_a_long_line(self) -> None:
        """An over-long line that is cut has its head."""
        found = cut(b"x" * 20_000, b"x" * 20_000, BAD)
        assert found[0] == Piece(b"x" * HEAD, 1, 40_000, end=False, cut=True)

    def test_alone(self) -> None:
        """A log of nothing but a broken frame."""
        assert cut(TORN) == [BadFrame(7, "torn", torn=True, line=1)]
