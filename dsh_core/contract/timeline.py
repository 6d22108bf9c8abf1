"""Where a session stands: the open turn and step, their numbers, the calls that wait for a result.

The timeline moves after the rules have judged an event, and moves on legal and illegal sequences
alike: an overlapping start closes what is open, an end that matches nothing is ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dsh_core.parts import ABSENT, NO_NUMBER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.rule import Handler
    from dsh_core.events import StepEnd, StepStart, ToolCall, ToolResult, TurnEnd, TurnStart

MAX_PENDING: Final = 4096
"""How many calls of one step are followed."""

MAX_CLOSED: Final = 128
"""How many closed steps with unanswered calls are remembered for results that come late."""

FIRST: Final = 1


class Call(Struct, gc=False):
    """A tool call that was made."""

    seq: int
    line: int
    turn: int
    step: int
    name: str
    arguments: str


class Timeline:
    """The state that rules of several owners share.

    Attributes:
        turn: Number of the open turn, None outside turns.
        step: Number of the open step, None outside steps.
        next_turn: The number that the next turn should have (August on).
        next_step: The number that the next step of the open turn should have (August on).
        pending: Calls of the open step without a result, by id.
        overflow: Whether the open step has more calls than are followed: unknown ids mean nothing.
        answered: Ids answered in the open step.
        unanswered: Calls that closed steps left without a result, by (turn, step) and id.
        answered_last: The ids answered in the step that closed last, by (turn, step).
        replaying: Set while the events are a repetition of earlier ones.
    """

    def __init__(self) -> None:
        self.turn: int | None = None
        self.step: int | None = None
        self.next_turn = FIRST
        self.next_step = FIRST
        self.pending: dict[str, Call] = {}
        self.overflow = False
        self.answered: set[str] = set()
        self.unanswered: dict[tuple[int, int], dict[str, Call]] = {}
        self.answered_last: tuple[tuple[int, int], set[str]] = ((NO_NUMBER, NO_NUMBER), set())
        self.replaying = False

    def handlers(self) -> Mapping[str, Handler]:
        """Return the moves by event type."""
        return {
            "turn/start": self._turn_start,
            "turn/end": self._turn_end,
            "step/start": self._step_start,
            "step/end": self._step_end,
            "tool/call": self._tool_call,
            "tool/result": self._tool_result,
        }

    def is_open(self, turn: int, step: int) -> bool:
        """Whether exactly this step is open."""
        return turn == self.turn and step == self.step

    def unanswered_before(self, call_id: str) -> tuple[int, int] | None:
        """Return turn and step of an earlier, still unanswered call with this id."""
        for place, calls in reversed(self.unanswered.items()):
            if call_id in calls:
                return place
        return None

    def _turn_start(self, event: TurnStart, _line: int) -> None:
        number = event.data.turn
        if self.replaying and self.turn is not None and number <= self.turn:
            return
        self._close_step()
        self.turn = number
        self.next_turn = number + 1
        self.next_step = FIRST

    def _turn_end(self, event: TurnEnd, _line: int) -> None:
        number = event.data.turn
        if number == self.turn:
            self._close_step()
            self.turn = None
        elif self.turn is None and number >= self.next_turn:
            # A turn whose start is missing has been.
            self.next_turn = number + 1

    def _step_start(self, event: StepStart, _line: int) -> None:
        data = event.data
        if data.turn != self.turn or data.step == self.step:
            # Elsewhere, or a repetition of the start.
            return
        if self.replaying and self.step is not None and data.step < self.step:
            return
        self._close_step()
        self.step = data.step
        self.next_step = data.step + 1

    def _step_end(self, event: StepEnd, _line: int) -> None:
        data = event.data
        if data.turn != self.turn:
            return
        if data.step == self.step:
            self._close_step()
        elif self.step is None and data.step >= self.next_step:
            # A step whose start is missing has been.
            self.next_step = data.step + 1

    def _tool_call(self, event: ToolCall, line: int) -> None:
        data = event.data
        turn, step = data.turn, data.step
        if turn != self.turn or step != self.step:
            return
        if len(self.pending) < MAX_PENDING:
            self.pending[data.call_id] = Call(
                event.seq, line, turn, step, data.name, data.arguments
            )
        else:
            self.overflow = True

    def _tool_result(self, event: ToolResult, _line: int) -> None:
        data = event.data
        if event.surface_op is not ABSENT and not event.appends:
            return
        call_id = data.flat_call_id if data.message is None else data.call_id
        if data.step == self.step and data.turn == self.turn:
            self.pending.pop(call_id, None)
            if len(self.answered) < MAX_PENDING:
                self.answered.add(call_id)
        elif self.unanswered:
            calls = self.unanswered.get((data.turn, data.step))
            if calls is not None:
                calls.pop(call_id, None)

    def _close_step(self) -> None:
        if self.step is None or self.turn is None:
            return
        if self.answered:
            self.answered_last = ((self.turn, self.step), self.answered)
            self.answered = set()
        if self.pending:
            self.unanswered[self.turn, self.step] = self.pending
            self.pending = {}
            if len(self.unanswered) > MAX_CLOSED:
                del self.unanswered[next(iter(self.unanswered))]
        self.step = None
        self.overflow = False
