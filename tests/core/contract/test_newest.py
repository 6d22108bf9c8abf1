"""Tests of the bounded memories."""

from __future__ import annotations

from dsh_core.contract.newest import Ids, Seqs
from dsh_core.events import UNREADABLE


class TestIds:
    """The newest ids."""

    def test_the_oldest_is_dropped(self) -> None:
        ids = Ids(2)
        for id_ in "abca":
            ids.add(id_)
        assert ["a" in ids, "b" in ids, "c" in ids, ids.dropped] == [True, False, True, True]

    def test_an_id_takes_one_place(self) -> None:
        ids = Ids(2)
        for id_ in "abab":
            ids.add(id_)
        assert ["a" in ids, "b" in ids, ids.dropped] == [True, True, False]


class TestSeqs:
    """The newest seqs."""

    def test_what_was_dropped_is_not_known_to_be_missing(self) -> None:
        seqs = Seqs(2)
        for seq in (3, 5, 7):
            seqs.add(seq)
        assert [seq in seqs for seq in (3, 5, 7)] == [False, True, True]
        assert [seq for seq in range(10) if seqs.lacks(seq)] == [4, 6, 8, 9]

    def test_any_number_can_be_asked_for(self) -> None:
        seqs = Seqs(2)
        seqs.add(5)
        assert 5.0 in seqs
        assert seqs.lacks(2.0**60)

    def test_a_seq_beyond_all_bounds_is_dropped_at_once(self) -> None:
        seqs = Seqs(2)
        seqs.add(UNREADABLE)
        assert seqs.lacks(0)
        seqs.add(2**40)
        assert not seqs.lacks(2**40)
        assert seqs.lacks(2**40 + 1)
