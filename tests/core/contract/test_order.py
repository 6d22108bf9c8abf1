"""Tests of the order of events: repetitions, losses, outliers, and what they explain."""

from __future__ import annotations

import pytest

from dsh_core.contract.catalogue import CATALOGUE
from dsh_core.contract.run import SourceKind
from dsh_core.decode import from_mapping
from dsh_core.events import MAX_SAFE_INTEGER, Contract
from dsh_core.faults import Fault
from tests.checking import (
    call,
    check,
    chunk,
    event,
    flat_result,
    log,
    make_checker,
    one_step,
    one_turn,
    rules,
    step_end,
    step_start,
    summary,
    turn_end,
    turn_start,
    violations,
)
from tests.strategies import START, Events

SEED = Contract.SEED
V0 = Contract.V0
V4 = Contract.V4
BOTH = pytest.mark.parametrize("contract", [SEED, V0])
# Seqs 0 to 5, 6 to 11, 12 to 17.
TURNS = log(*(item for n in (1, 2, 3) for item in one_turn(n, chunk(n, 1), chunk(n, 1))))
# A fault in a fourth turn.
TAIL = log(*one_turn(4), chunk(4, 1), first=18)


def at(seq: int, events: Events) -> Events:
    """Number events anew from a seq on."""
    return [{**source, "seq": seq + k} for k, source in enumerate(events)]


class TestRepetition:
    """Events that are written again."""

    @BOTH
    @pytest.mark.parametrize("start", range(18))
    def test_a_repeated_tail_is_one_finding(self, start: int, contract: Contract) -> None:
        """From wherever the log is written again, there is one finding that counts the events."""
        found = check([*TURNS, *TURNS[start:], *TAIL], contract)
        rule = "seq.duplicate" if start == 17 else "seq.regressed"
        assert summary(found) == [
            (rule, 18 - start, start, 17),
            ("step.event-outside", 1, 22, 22),
        ]
        assert found[0].line == 19

    @BOTH
    @pytest.mark.parametrize("start", range(18))
    def test_a_stretch_written_twice_is_one_finding(self, start: int, contract: Contract) -> None:
        """The end of the repetition may lie anywhere, also inside a step."""
        for end in range(start + 1, min(start + 8, 18)):
            events = [*TURNS[:end], *TURNS[start:end], *TURNS[end:], *TAIL]
            found = check(events, contract)
            assert [(f.rule, f.seq) for f in found] == [
                ("seq.duplicate" if end == start + 1 else "seq.regressed", start),
                ("step.event-outside", 22),
            ]
            assert (found[0].count, found[0].last_seq) == (end - start, end - 1)

    @BOTH
    def test_a_repetition_repeated_is_one_finding(self, contract: Contract) -> None:
        """However often the tail is written, in one turn there is one cause."""
        found = check([*TURNS, *TURNS[12:], *TURNS[12:], *TURNS[14:]], contract)
        assert summary(found) == [("seq.regressed", 16, 12, 17)]

    @BOTH
    def test_repetitions_in_two_turns_are_two_findings(self, contract: Contract) -> None:
        """A new turn that began properly is a new beginning."""
        found = check([*TURNS[:6], *TURNS[4:10], *TURNS[8:]], contract)
        assert summary(found) == [("seq.regressed", 2, 4, 5), ("seq.regressed", 2, 8, 9)]

    @BOTH
    def test_calls_in_a_repetition_are_answered_as_before(self, contract: Contract) -> None:
        """Calls and results that were written twice are no faults of their own."""
        pairs = [item for id_ in "ab" for item in (call(1, 1, id_), flat_result(1, 1, id_))]
        events = log(*one_turn(1, *pairs))
        owners = CATALOGUE.select(["owner:session", "owner:tools"])
        for end in range(4, 8):
            repeated = [*events[:end], *events[2:end], *events[end:]]
            found = check(repeated, contract, chosen=owners)
            assert summary(found) == [("seq.regressed", end - 2, 2, end - 1)]

    def test_closers_beside_a_live_writer(self) -> None:
        """A turn that recovery closed while its writer went on is one finding to its end."""
        closed = log(turn_start(1), step_start(1, 1), step_end(1, 1), turn_end(1, "interrupted"))
        live = [step_end(1, 1), *one_step(1, 2, chunk(1, 2)), turn_end(1)]
        found = check([*closed, *log(*live, first=2), *log(*one_turn(2), first=7)])
        assert summary(found) == [("seq.regressed", 5, 2, 6)]

    @BOTH
    @pytest.mark.parametrize("shift", [1, 2, 3, 4])
    def test_two_interleaved_writers(self, shift: int, contract: Contract) -> None:
        """Two processes that write the same turn, one a little behind, are one finding."""
        turn = log(*one_turn(1, *(chunk(1, 1) for _ in range(6))))
        mixed = turn[:shift]
        for k, source in enumerate(turn[shift:]):
            mixed += [turn[k], source]
        mixed += turn[len(turn) - shift :]
        found = check([*mixed, *log(*one_turn(2), first=10)], contract)
        assert rules(found) == ["seq.duplicate" if shift == 1 else "seq.regressed"]
        assert (found[0].count, found[0].first_seq, found[0].last_seq) == (10, 0, 9)

    @BOTH
    def test_a_single_wrong_number(self, contract: Contract) -> None:
        """An event whose number is too low did not cost another event its number."""
        for seq in range(7):
            events = [*TURNS[:8], {**TURNS[8], "seq": seq}, *TURNS[9:], *TAIL]
            found = check(events, contract)
            assert summary(found) == [
                ("seq.regressed", 1, seq, seq),
                ("step.event-outside", 1, 22, 22),
            ]

    def test_negative_numbers(self) -> None:
        """No seq is lower than 0."""
        events = [{**TURNS[0], "seq": -4}, *TURNS[1:]]
        assert [(f.rule, f.seq, f.first_seq) for f in check(events)] == [
            ("seq.regressed", None, None)
        ]

    def test_a_filtered_finding_explains_nothing(self) -> None:
        """When nobody asks for repetitions, what they do to turns is found for itself."""
        chosen = frozenset({"turn.overlap", "step.overlap"})
        found = check([*TURNS[:3], *TURNS[:3], *TURNS[3:]], chosen=chosen)
        assert rules(found) == ["turn.overlap"]


class TestLoss:
    """Numbers that are missing."""

    @pytest.mark.parametrize("start", range(1, 17))
    @pytest.mark.parametrize("length", [1, 2, 5, 9])
    def test_a_gap_explains_what_does_not_fit(self, start: int, length: int) -> None:
        """Whatever is cut out of a later log, one finding says so, until the next turn starts."""
        events = [*TURNS[:start], *TURNS[start + length :], *TAIL]
        found = violations(check(events, V0))
        assert rules(found) == ["seq.gap", "step.event-outside"]
        missing = len(TURNS + TAIL) - len(events)
        assert f"{missing} missing" in found[0].message
        assert found[0].seq == events[start]["seq"]
        assert found[1].seq == 22

    @pytest.mark.parametrize("start", range(1, 17))
    def test_a_missing_head(self, start: int) -> None:
        """A later log that begins anywhere has one gap."""
        found = check([*TURNS[start:], *TAIL], V0)
        assert rules(found) == ["seq.gap", "step.event-outside"]
        assert found[0].seq == start

    @pytest.mark.parametrize("start", range(1, 17))
    def test_a_missing_head_of_a_june_log(self, start: int) -> None:
        """June numbers may begin anywhere: at most the open turn is reported, once."""
        found = check([*TURNS[start:], *TAIL])
        inside = start % 6 != 0
        assert len(found) == (2 if inside else 1)
        assert rules(found)[-1] == "step.event-outside"
        if inside:
            assert found[0].seq == start
            assert found[0].count == 6 - start % 6

    def test_a_filtered_gap_explains_nothing(self) -> None:
        """When nobody asks for gaps, what they do to turns is found for itself."""
        chosen = frozenset({"seq.duplicate", "step.event-outside", "step.end-mismatch"})
        found = check([TURNS[0], *TURNS[2:6]], V0, chosen=chosen)
        assert summary(found) == [("step.event-outside", 3, 2, 4)]

    def test_gaps_of_one_turn_are_one_finding(self) -> None:
        """Several gaps before the next turn count as one cause."""
        events = log(*one_turn(1, *(chunk(1, 1) for _ in range(6))))
        found = check([*events[:3], *events[4:5], *events[6:]], V0)
        assert summary(found) == [("seq.gap", 2, 4, 6)]

    def test_gaps_of_two_turns_are_two(self) -> None:
        """The next turn starts afresh."""
        found = check([*TURNS[:2], *TURNS[3:8], *TURNS[9:]], V0)
        assert summary(found) == [("seq.gap", 1, 3, 3), ("seq.gap", 1, 9, 9)]


class TestOutlier:
    """One number that is far too high."""

    @pytest.mark.parametrize("high", [20, 1000, MAX_SAFE_INTEGER])
    @pytest.mark.parametrize("place", range(1, 12))
    def test_in_a_later_log(self, place: int, high: int) -> None:
        """The jump up and the way back are one finding."""
        events = [*TURNS[:place], {**TURNS[place], "seq": high}, *TURNS[place + 1 :], *TAIL]
        found = check(events, V0)
        assert rules(found) == ["seq.gap", "step.event-outside"]
        assert (found[0].count, found[0].seq, found[0].line) == (2, high, place + 1)
        assert found[0].first_seq == place + 1

    @pytest.mark.parametrize("high", [20, 1000, MAX_SAFE_INTEGER])
    @pytest.mark.parametrize("place", range(12))
    def test_in_a_june_log(self, place: int, high: int) -> None:
        """June sees the way back only; counting goes on from there."""
        events = [*TURNS[:place], {**TURNS[place], "seq": high}, *TURNS[place + 1 :], *TAIL]
        found = check(events)
        assert summary(found) == [
            ("seq.regressed", 1, place + 1, place + 1),
            ("step.event-outside", 1, 22, 22),
        ]

    def test_when_nobody_asks_for_it(self) -> None:
        """The way back is not counted as a repetition, either."""
        events = [*TURNS[:4], {**TURNS[4], "seq": 99}, *TURNS[5:], *TAIL]
        found = check(events, chosen=frozenset({"step.event-outside", "turn.overlap"}))
        assert rules(found) == ["step.event-outside"]

    def test_neighbours_that_changed_places(self) -> None:
        """Two events in the wrong order are one finding."""
        events = [*TURNS[:3], TURNS[4], TURNS[3], *TURNS[5:], *TAIL]
        found = check(events, V0)
        assert summary(found)[0] == ("seq.gap", 2, 3, 4)
        assert rules(found) == ["seq.gap", "step.event-outside"]

    def test_a_number_no_float_can_hold(self) -> None:
        """A number that JavaScript cannot count with is reported, and not counted from."""
        built, problems = from_mapping(TURNS[2])
        assert problems == []
        built.seq = MAX_SAFE_INTEGER + 2
        checker = make_checker(V0)
        others = [from_mapping(source)[0] for source in TURNS]
        found = checker.observe_all([*others[:2], built, *others[3:]], range(18))
        assert [(f.rule, f.message) for f in found] == [
            ("envelope.invalid", "seq is larger than an exact integer")
        ]

    def test_a_time_no_float_can_hold(self) -> None:
        """A time that JavaScript cannot count with is reported, and not compared with."""
        built, _ = from_mapping(TURNS[2])
        built.time = MAX_SAFE_INTEGER + 2
        checker = make_checker(V0)
        others = [from_mapping(source)[0] for source in TURNS]
        found = checker.observe_all([*others[:2], built, *others[3:]], range(18))
        assert [(f.rule, f.message) for f in found] == [
            ("envelope.invalid", "time is larger than an exact integer")
        ]


class TestDamage:
    """What the reader reports in between."""

    LOST = Fault("line.not-json", "no JSON", 1, lost=True)

    @BOTH
    @pytest.mark.parametrize("length", [1, 2, 5, 9])
    def test_a_loss_explains_what_does_not_fit(self, length: int, contract: Contract) -> None:
        """Events lost to damage give no violation; the next turn is judged again."""
        for start in range(1, 17):
            events = [*TURNS[:start], *TURNS[start + length :], *TAIL]
            found = check(events, contract, faults={start: self.LOST})
            assert rules(violations(found)) == ["step.event-outside"], start
            assert sorted(rules(found)) == ["line.not-json", "step.event-outside"], start

    @BOTH
    def test_damage_that_cost_nothing(self, contract: Contract) -> None:
        """If numbering goes on, nothing was lost, and nothing is explained."""
        stray = log(chunk(9, 9), first=18)
        found = check([*TURNS, *stray], contract, faults={17: self.LOST})
        assert sorted(rules(found)) == ["line.not-json", "step.event-outside"]

    def test_an_unreadable_number_does_not_settle_it(self) -> None:
        """The next number that can be read shows whether an event was lost."""
        events = [*TURNS[:2], {**TURNS[3], "seq": None}, *TURNS[5:], *TAIL]
        found = check(events, V0, faults={2: self.LOST})
        assert sorted(rules(found)) == [
            "envelope.invalid",
            "line.not-json",
            "step.event-outside",
        ]

    def test_old_damage_does_not_explain_a_new_gap(self) -> None:
        """Damage is settled by the next number, not by one that comes much later."""
        events = [*TURNS[:8], *TURNS[9:]]
        found = check(events, V0, faults={2: self.LOST})
        assert sorted(rules(found)) == ["line.not-json", "seq.gap"]

    def test_damage_that_is_filtered_out_explains_nothing(self) -> None:
        """When nobody asks for damage, a loss is a gap like any other."""
        chosen = frozenset({"seq.gap"})
        found = check([*TURNS[:2], *TURNS[3:]], V0, chosen=chosen, faults={2: self.LOST})
        assert rules(found) == ["seq.gap"]


class TestStream:
    """Sources that leave events out."""

    def test_a_gap_explains_a_turn_that_is_not_closed(self) -> None:
        """Closers that a resume writes are not notified."""
        events = [*TURNS[:3], *log(*one_turn(2), first=40), *log(*one_turn(3), first=44)]
        assert check(events, V4, source=SourceKind.STREAM) == []

    def test_and_a_step(self) -> None:
        """The same holds for the end of a step."""
        open_step = log(turn_start(1), step_start(1, 1))
        more = log(*one_step(1, 2), turn_end(1), first=9)
        assert check([*open_step, *more], V4, source=SourceKind.STREAM) == []

    def test_without_a_gap_there_is_no_excuse(self) -> None:
        """A stream without gaps is judged like a log."""
        found = check(log(turn_start(1), turn_start(2)), V4, source=SourceKind.STREAM)
        assert rules(found) == ["turn.overlap"]

    def test_in_a_log_there_is_none_either(self) -> None:
        """The gap of a log is a finding."""
        events = [*TURNS[:3], *log(*one_turn(2), first=40)]
        assert rules(check(events, V4)) == ["seq.gap"]


class TestTime:
    """Times beside the order of numbers."""

    def test_a_time_before_all_times(self) -> None:
        """No event happened before 1970."""
        events = log(event("context/message", time=-5))
        assert [(f.rule, f.message) for f in check(events)] == [
            ("envelope.invalid", "time is negative")
        ]

    def test_an_odd_time_is_not_compared_with(self) -> None:
        """The event after an unreadable time is compared with the one before it."""
        events = log(*(event("context/message") for _ in range(4)))
        events[1]["time"] = "later"
        events[2]["time"] = START
        assert rules(check(events)) == ["envelope.invalid"]
