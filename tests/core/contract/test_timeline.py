"""Tests of the timeline: where a session stands after any sequence of events."""

from __future__ import annotations

import pytest
from hypothesis import given

from dsh_core.contract.timeline import MAX_CLOSED, MAX_PENDING, Timeline
from dsh_core.decode import from_mapping
from tests.checking import (
    Item,
    call,
    flat_result,
    log,
    one_step,
    one_turn,
    replace,
    step_end,
    step_start,
    turn_end,
    turn_start,
    wrapped_result,
)
from tests.strategies import Events, arbitrary_events


def play(*items: Item, timeline: Timeline | None = None) -> Timeline:
    """Move a timeline through events."""
    return move(timeline or Timeline(), log(*items))


def move(timeline: Timeline, events: Events) -> Timeline:
    """Move a timeline through plain mappings."""
    moves = timeline.handlers()
    for line, source in enumerate(events, 1):
        built, _ = from_mapping(source)
        if built.type in moves:
            moves[built.type](built, line)
    return timeline


class TestTurnsAndSteps:
    """What is open."""

    @pytest.mark.parametrize(
        ("items", "turn", "step", "next_turn", "next_step"),
        [
            ([], None, None, 1, 1),
            ([turn_start(1)], 1, None, 2, 1),
            ([turn_start(1), step_start(1, 1)], 1, 1, 2, 2),
            ([turn_start(1), *one_step(1, 1)], 1, None, 2, 2),
            ([*one_turn(1)], None, None, 2, 2),
            # An overlapping start closes what is open.
            ([turn_start(1), step_start(1, 1), turn_start(2)], 2, None, 3, 1),
            ([turn_start(1), step_start(1, 1), step_start(1, 2)], 1, 2, 2, 3),
            ([turn_start(1), step_start(1, 1), turn_end(1)], None, None, 2, 2),
            # What matches nothing is ignored.
            ([turn_start(1), turn_end(2)], 1, None, 2, 1),
            ([turn_start(1), step_start(2, 1)], 1, None, 2, 1),
            ([turn_start(1), step_start(1, 1), step_end(1, 2)], 1, 1, 2, 2),
            ([turn_start(1), step_start(1, 1), step_end(2, 1)], 1, 1, 2, 2),
            # What is missing its start has been.
            ([turn_end(4)], None, None, 5, 1),
            ([turn_start(1), step_end(1, 3)], 1, None, 2, 4),
            ([*one_turn(4), turn_end(2)], None, None, 5, 2),
        ],
    )
    def test_they_move_on_legal_and_illegal_sequences(
        self,
        items: list[Item],
        turn: int | None,
        step: int | None,
        next_turn: int,
        next_step: int,
    ) -> None:
        """After any sequence it is known what is open and what should come next."""
        timeline = play(*items)
        assert (timeline.turn, timeline.step) == (turn, step)
        assert (timeline.next_turn, timeline.next_step) == (next_turn, next_step)

    def test_a_repetition_does_not_open_what_is_open(self) -> None:
        """While events are repeated, starts of what is open or over change nothing."""
        timeline = play(turn_start(2), step_start(2, 1), call(2, 1, "c"))
        timeline.replaying = True
        play(turn_start(1), turn_start(2), step_start(2, 1), timeline=timeline)
        assert timeline.is_open(2, 1)
        assert list(timeline.pending) == ["c"]


class TestCalls:
    """Calls that wait for a result."""

    def test_a_call_waits_for_its_result(self) -> None:
        """Pending calls are those of the open step; answered ids are remembered beside them."""
        timeline = play(turn_start(1), step_start(1, 1), call(1, 1, "a"), call(1, 1, "b", "read"))
        assert [(c.name, c.seq, c.line) for c in timeline.pending.values()] == [
            ("bash", 2, 3),
            ("read", 3, 4),
        ]
        play(flat_result(1, 1, "a"), timeline=timeline)
        assert (list(timeline.pending), timeline.answered) == (["b"], {"a"})

    def test_what_a_step_leaves_open_is_remembered(self) -> None:
        """A result that comes late finds the step that it belongs to."""
        inside = (call(1, 1, "a"), call(1, 1, "b"), flat_result(1, 1, "a"))
        timeline = play(turn_start(1), *one_step(1, 1, *inside))
        assert timeline.unanswered_before("b") == (1, 1)
        assert timeline.unanswered_before("a") is None
        assert timeline.answered_last == ((1, 1), {"a"})
        play(flat_result(1, 1, "b"), timeline=timeline)
        assert timeline.unanswered_before("b") is None

    def test_a_replacement_answers_nothing(self) -> None:
        """A result that replaces another one leaves calls as they are."""
        kind, data, _ = wrapped_result(1, 1, "a")
        pruned = (kind, data, {"surfaceOp": replace(0, 0)})
        timeline = play(turn_start(1), step_start(1, 1), call(1, 1, "a"), pruned)
        assert list(timeline.pending) == ["a"]

    def test_calls_of_other_steps_are_not_followed(self) -> None:
        """A call with wrong coordinates is not pending in the open step."""
        assert play(turn_start(1), step_start(1, 1), call(1, 2, "a")).pending == {}

    def test_memory_for_calls_is_bounded(self) -> None:
        """Calls beyond the limit are not followed, which is known until the step ends."""
        calls = [call(1, 1, f"c{k}") for k in range(MAX_PENDING + 1)]
        timeline = play(turn_start(1), step_start(1, 1), *calls)
        assert (len(timeline.pending), timeline.overflow) == (MAX_PENDING, True)
        play(step_end(1, 1), timeline=timeline)
        assert (len(timeline.pending), timeline.overflow) == (0, False)

    def test_memory_for_steps_is_bounded(self) -> None:
        """Of steps with unanswered calls the oldest are forgotten."""
        steps = [item for k in range(MAX_CLOSED + 5) for item in one_step(1, k, call(1, k, "c"))]
        timeline = play(turn_start(1), *steps)
        assert len(timeline.unanswered) == MAX_CLOSED
        assert (1, 4) not in timeline.unanswered
        assert (1, 5) in timeline.unanswered

    def test_memory_for_answers_is_bounded(self) -> None:
        """Ids of answered calls are remembered up to the limit as well."""
        results = [flat_result(1, 1, f"c{k}") for k in range(MAX_PENDING + 5)]
        timeline = play(turn_start(1), step_start(1, 1), *results)
        assert len(timeline.answered) == MAX_PENDING


@given(arbitrary_events())
def test_nonsense_leaves_it_consistent(events: Events) -> None:
    """Whatever comes, there is no step without a turn and no call without a step."""
    timeline = move(Timeline(), events)
    if timeline.turn is None:
        assert timeline.step is None
    if timeline.step is None:
        assert timeline.pending == {}
    assert not timeline.replaying
