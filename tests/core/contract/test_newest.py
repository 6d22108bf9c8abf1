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

    def test_they_may_come_in_any_order(self) -> None:
        seqs = Seqs(3)
        for seq in (7, 3, 7, 9, 5):
            seqs.add(seq)
        assert [seq in seqs for seq in (3, 5, 7, 9)] == [False, True, True, True]
        assert [seq for seq in range(11) if seqs.lacks(seq)] == [4, 6, 8, 10]

    def test_asking_costs_little_however_many_there_are(self) -> None:
        asked = 0

        class Counted(float):
            """Counts how often it is compared."""

            __hash__ = float.__hash__

            def __eq__(self, other: object) -> bool:
                nonlocal asked
                asked += 1
                return float(self) == other

            def __gt__(self, other: float) -> bool:
                nonlocal asked
                asked += 1
                return float(self) > other

        seqs = Seqs(2048)
        for seq in range(0, 4096, 2):
            seqs.add(seq)
        assert seqs.lacks(Counted(4093))
        assert asked < 20

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
