"""One cause, one finding: faults whose consequences must not be reported as well."""

from __future__ import annotations

import copy
from typing import Final

import pytest

from dsh_core.events import Contract
from tests.checking import (
    Item,
    answer,
    call,
    check,
    chunk,
    event,
    flat_result,
    log,
    one_step,
    prompt,
    result,
    rules,
    step_end,
    step_start,
    summary,
    turn_end,
    turn_start,
    violations,
    wrapped_result,
)
from tests.strategies import MODEL, Events, renumbered

SEED = Contract.SEED
V0 = Contract.V0
V4 = Contract.V4


def june_turn(turn: int) -> list[Item]:
    """Return a June turn of two steps."""

    def inside(step: int) -> list[Item]:
        place = {"turn": turn, "step": step}
        return [
            chunk(turn, step),
            chunk(turn, step),
            event("assistant/message", {**place, "content": []}),
            event("usage", {**place, "usage": {}}),
            call(turn, step, "a"),
            flat_result(turn, step, "a"),
            call(turn, step, "b"),
            call(turn, step, "c"),
            flat_result(turn, step, "c"),
            flat_result(turn, step, "b"),
        ]

    steps = (*one_step(turn, 1, *inside(1)), *one_step(turn, 2, *inside(2)))
    return [event("user/message", {"content": []}), turn_start(turn), *steps, turn_end(turn)]


def august_turn(turn: int) -> list[Item]:
    """Return an August turn of two steps."""

    def inside(step: int) -> list[Item]:
        return [
            prompt(),
            event("request/header", {"header": {"config": MODEL}}),
            event("request/context", MODEL),
            chunk(turn, step),
            chunk(turn, step),
            answer(turn, step, "a", "b", "c"),
            call(turn, step, "a"),
            wrapped_result(turn, step, "a"),
            call(turn, step, "b"),
            event("todo/write", {"todos": []}),
            call(turn, step, "c"),
            wrapped_result(turn, step, "c"),
            wrapped_result(turn, step, "b"),
        ]

    steps = (*one_step(turn, 1, *inside(1)), *one_step(turn, 2, *inside(2)))
    return [turn_start(turn), *steps, turn_end(turn)]


def october_turn(turn: int) -> list[Item]:
    """Return an October turn of two steps."""

    def inside(step: int) -> list[Item]:
        return [
            prompt(),
            event("request/header", {"header": {"config": MODEL}}),
            event("request/context", MODEL),
            event("assistant/attempt", {"turn": turn, "step": step, "stream": []}),
            answer(turn, step, "a", "b", "c"),
            call(turn, step, "a"),
            result(turn, step, "a"),
            call(turn, step, "b"),
            call(turn, step, "c"),
            result(turn, step, "c"),
            result(turn, step, "b"),
        ]

    steps = (*one_step(turn, 1, *inside(1)), *one_step(turn, 2, *inside(2)))
    return [turn_start(turn), *steps, turn_end(turn)]


TURN: Final = {SEED: june_turn, V0: august_turn, V4: october_turn}
ALL = pytest.mark.parametrize("contract", list(Contract))


def four_turns(contract: Contract) -> tuple[Events, int]:
    """Return a legal log of four turns, and how many events a turn has."""
    events = log(*(item for turn in (1, 2, 3, 4) for item in TURN[contract](turn)))
    return events, len(events) // 4


def with_late_fault(events: Events) -> Events:
    """Add a fault of its own at the end, to see that the checker is back in step."""
    stray = {"turn": 4, "step": 1, "callId": "z", "name": "bash", "arguments": "{}"}
    last = events[-1]
    late = {"type": "tool/call", "data": stray, "time": last["time"], "seq": last["seq"] + 1}
    return [*events, late]


@ALL
def test_the_logs_used_here_are_legal(contract: Contract) -> None:
    """Without a fault nothing is found; the late fault alone is found."""
    events, _ = four_turns(contract)
    assert check(events, contract) == []
    assert rules(check(with_late_fault(events), contract)) == ["step.event-outside"]


class TestAnyOneFault:
    """Whatever is done to any one event of turn 2: one finding at most, and turn 4 is judged."""

    def assert_one(
        self, contract: Contract, changed: list[Events], at_least: int, also: str = ""
    ) -> None:
        """Check logs with a fault in turn 2; `at_least` so many must have a violation."""
        hits = 0
        for events in changed:
            found = violations(check(with_late_fault(events), contract))
            assert (found[-1].rule, found[-1].count) == ("step.event-outside", 1), events
            assert found[-1].seq == events[-1]["seq"] + 1
            others = [finding for finding in found[:-1] if finding.rule != also]
            assert len(others) <= 1, (summary(found), events)
            hits += bool(found[:-1])
        assert hits >= at_least

    @ALL
    def test_missing(self, contract: Contract) -> None:
        """An event that was never written."""
        events, size = four_turns(contract)
        places = range(size, 2 * size)
        changed = [renumbered(events[:k] + events[k + 1 :]) for k in places]
        self.assert_one(contract, changed, {SEED: 9, V0: 9, V4: 14}[contract])

    @ALL
    def test_removed(self, contract: Contract) -> None:
        """An event that was taken out of the log."""
        events, size = four_turns(contract)
        changed = [events[:k] + events[k + 1 :] for k in range(size, 2 * size)]
        self.assert_one(contract, changed, 9 if contract is SEED else size)

    @ALL
    def test_written_twice(self, contract: Contract) -> None:
        """An event that was written twice, under two numbers."""
        events, size = four_turns(contract)
        changed = [renumbered(events[: k + 1] + events[k:]) for k in range(size, 2 * size)]
        self.assert_one(contract, changed, 18)

    @ALL
    def test_repeated(self, contract: Contract) -> None:
        """An event that was written twice, under one number."""
        events, size = four_turns(contract)
        changed = [events[: k + 1] + events[k:] for k in range(size, 2 * size)]
        self.assert_one(contract, changed, size)

    @ALL
    def test_too_late(self, contract: Contract) -> None:
        """An event that was written after the one that follows it."""
        events, size = four_turns(contract)
        changed = [
            renumbered([*events[:k], events[k + 1], events[k], *events[k + 2 :]])
            for k in range(size, 2 * size)
        ]
        self.assert_one(contract, changed, 9)

    @ALL
    def test_two_that_changed_places(self, contract: Contract) -> None:
        """Two events in the wrong order, with their numbers.

        June has no rule about gaps: what the first of the two breaks may be found before the way
        back of the numbers is.
        """
        events, size = four_turns(contract)
        changed = [
            [*events[:k], events[k + 1], events[k], *events[k + 2 :]] for k in range(size, 2 * size)
        ]
        also = "seq.regressed" if contract is SEED else ""
        self.assert_one(contract, changed, size, also)

    @ALL
    @pytest.mark.parametrize("field", ["turn", "step"])
    @pytest.mark.parametrize("off", [-1, 1, 7])
    def test_wrong_coordinates(self, contract: Contract, field: str, off: int) -> None:
        """An event that names another turn or step than its own."""
        events, size = four_turns(contract)
        changed = []
        for place in range(size, 2 * size):
            if field in events[place]["data"]:
                odd = copy.deepcopy(events[place])
                odd["data"][field] += off
                changed.append([*events[:place], odd, *events[place + 1 :]])
        self.assert_one(contract, changed, 16)

    @ALL
    def test_wrong_call(self, contract: Contract) -> None:
        """A call under another id: its result has no call; from v4 on it was not asked for."""
        events, size = four_turns(contract)
        calls = [k for k in range(size, 2 * size) if events[k]["type"] == "tool/call"]
        for place in calls:
            odd = copy.deepcopy(events[place])
            odd["data"]["callId"] = "z"
            changed = [*events[:place], odd, *events[place + 1 :]]
            found = violations(check(with_late_fault(changed), contract))
            due = ["tool.result-without-call", "step.event-outside"]
            if contract is V4:
                due = ["tool.call-not-advertised", due[1]]
            assert rules(found) == due


class TestCounts:
    """What the one finding says."""

    def find(self, *items: Item, contract: Contract = V0) -> list[tuple[object, ...]]:
        """Check events and return what is said of them."""
        return [tuple(line) for line in summary(check(log(*items), contract))]

    def test_a_missing_step_start(self) -> None:
        """All events of the step are counted, and the next step has the next number."""
        step = [chunk(1, 1), call(1, 1, "c"), wrapped_result(1, 1, "c"), step_end(1, 1)]
        found = self.find(turn_start(1), *step, *one_step(1, 2), turn_end(1))
        assert found == [("step.event-outside", 4, 1, 4)]

    def test_a_missing_turn_start(self) -> None:
        """All of its steps and its end are counted, and the next turn has the next number."""
        steps = [*one_step(1, 1, chunk(1, 1), event("request/context")), *one_step(1, 2)]
        found = self.find(*steps, turn_end(1), turn_start(2), turn_end(2))
        assert found == [("step.outside-turn", 7, 0, 6)]

    def test_a_missing_step_end(self) -> None:
        """The next step starts while this one is open; nothing else is wrong."""
        items = (turn_start(1), step_start(1, 1), chunk(1, 1), *one_step(1, 2), turn_end(1))
        assert self.find(*items) == [("step.overlap", 1, 3, 3)]

    def test_events_of_a_step_that_was_never_closed(self) -> None:
        """What still names the overlapped step is counted."""
        items = (turn_start(1), step_start(1, 1), step_start(1, 2), chunk(1, 1), step_end(1, 1))
        found = self.find(*items, step_end(1, 2), turn_end(1))
        assert found == [("step.overlap", 3, 2, 4)]

    def test_a_missing_turn_end(self) -> None:
        """The next turn starts while this one is open; its numbers are right."""
        items = (turn_start(1), *one_step(1, 1), turn_start(2), *one_step(2, 1), turn_end(2))
        assert self.find(*items, turn_start(3), turn_end(3)) == [("turn.overlap", 1, 3, 3)]

    def test_events_of_a_turn_that_was_never_closed(self) -> None:
        """What still names the overlapped turn is counted."""
        items = (turn_start(1), step_start(1, 1), turn_start(2), chunk(1, 1), step_end(1, 1))
        found = self.find(*items, turn_end(1), turn_end(2))
        assert found == [("turn.overlap", 4, 2, 5)]

    def test_a_turn_that_is_started_twice(self) -> None:
        """A repeated start lets the turn's steps go on counting."""
        items = (turn_start(1), *one_step(1, 1), turn_start(1), *one_step(1, 2), turn_end(1))
        assert self.find(*items) == [("turn.overlap", 2, 3, 4)]

    def test_a_turn_that_begins_anew(self) -> None:
        """And it lets them begin anew, as after a crash."""
        items = (turn_start(1), *one_step(1, 1), turn_start(1), *one_step(1, 1), turn_end(1))
        assert self.find(*items) == [("turn.overlap", 1, 3, 3)]

    def test_a_step_that_is_started_twice(self) -> None:
        """Calls made before the second start may be answered after it."""
        inside = (call(1, 1, "c"), step_start(1, 1), wrapped_result(1, 1, "c"))
        found = self.find(turn_start(1), *one_step(1, 1, *inside), turn_end(1))
        assert found == [("step.overlap", 1, 3, 3)]

    def test_a_wrong_turn_number(self) -> None:
        """A turn whose start has the wrong number goes on under the right one."""
        items = (turn_start(9), *one_step(1, 1, chunk(1, 1)), turn_end(1), turn_start(2))
        found = self.find(*items, *one_step(2, 1), turn_end(2))
        assert found == [("turn.number", 6, 0, 5)]

    def test_a_turn_that_keeps_its_wrong_number(self) -> None:
        """The turns after it count on from there."""
        items = (turn_start(9), *one_step(9, 1), turn_end(9), turn_start(10), turn_end(10))
        assert self.find(*items) == [("turn.number", 1, 0, 0)]

    def test_a_wrong_step_number(self) -> None:
        """A step whose start has the wrong number goes on under the right one."""
        items = (turn_start(1), step_start(1, 9), chunk(1, 1), step_end(1, 1), *one_step(1, 2))
        found = self.find(*items, turn_end(1))
        assert found == [("step.number", 4, 1, 4)]

    def test_a_step_start_with_the_wrong_turn(self) -> None:
        """The step's events, which name the right turn, are consequences."""
        items = (turn_start(1), step_start(7, 1), chunk(1, 1), step_end(1, 1), *one_step(1, 2))
        found = self.find(*items, turn_end(1))
        assert found == [("step.outside-turn", 3, 1, 3)]

    def test_a_turn_end_with_the_wrong_number(self) -> None:
        """The turn is closed by the next start."""
        items = (turn_start(1), turn_end(7), turn_start(2), turn_end(2))
        assert self.find(*items) == [("turn.end-mismatch", 2, 1, 2)]

    def test_a_step_end_with_the_wrong_number(self) -> None:
        """The step is closed by the next start or by the end of its turn."""
        items = (turn_start(1), step_start(1, 1), step_end(1, 7), turn_end(1))
        assert self.find(*items) == [("step.end-mismatch", 2, 2, 3)]

    def test_a_turn_end_that_nothing_started(self) -> None:
        """A turn of which only the end is there has been."""
        items = (turn_start(1), turn_end(1), turn_end(2), turn_start(3), turn_end(3))
        assert self.find(*items) == [("turn.end-mismatch", 1, 2, 2)]

    def test_a_turn_end_that_comes_twice(self) -> None:
        """The turn after it has the next number."""
        items = (turn_start(1), turn_end(1), turn_end(1), turn_start(2), turn_end(2))
        assert self.find(*items) == [("turn.end-mismatch", 1, 2, 2)]

    def test_a_cancelled_turn_that_closes_nothing(self) -> None:
        """The step that stays open is the one fault; its call has no further one."""
        items = (turn_start(1), step_start(1, 1), call(1, 1, "c"), turn_end(1, "aborted"))
        found = self.find(*items, wrapped_result(1, 1, "c"), step_end(1, 1), contract=SEED)
        assert found == [("turn.end-open-step", 3, 3, 5)]


class TestResynchronise:
    """After a fault the checker is back in step with the log."""

    @pytest.mark.parametrize(
        ("fault", "rule"),
        [
            ((turn_start(9),), "turn.overlap"),
            ((step_start(9, 9), chunk(9, 9)), "step.outside-turn"),
            ((chunk(9, 9), chunk(9, 9)), "step.event-outside"),
            ((turn_end(9),), "turn.end-mismatch"),
            ((step_end(9, 9),), "step.end-mismatch"),
            ((call(9, 9, "a"),), "step.event-outside"),
            ((flat_result(9, 9, "z"),), "step.event-outside"),
        ],
    )
    def test_the_same_fault_two_turns_later_is_found_again(
        self, fault: tuple[Item, ...], rule: str
    ) -> None:
        """What explains consequences in one turn explains nothing in a later one."""
        turns = [june_turn(turn) for turn in (1, 2, 3, 4)]
        turns[0][5:5] = fault
        turns[2][5:5] = fault
        found = check(log(*(item for turn in turns for item in turn)))
        assert rules(violations(found)) == [rule, rule]
