"""Rules of the ``session`` package: numbering, turns and steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from dsh_core.contract.findings import Severity
from dsh_core.contract.places import blame_turn, misled, open_place, places, report_outside
from dsh_core.contract.rule import EVERY, LATER, Rule, RuleSet
from dsh_core.contract.run import CallKey
from dsh_core.events import (
    AssistantMessage,
    Contract,
    SessionEvent,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnStart,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from dsh_core.contract.findings import Finding
    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run


ENCLOSED: Final = ("assistant/chunk", "assistant/message")
"""Events that lie inside the step they name."""

ENCLOSED_V4: Final = (*ENCLOSED, "system/message", "developer/message", "assistant/attempt")
IN_TURN: Final = ("request/header", "request/context")
"""Events that lie inside a turn."""

IN_TURN_V0: Final = (*IN_TURN, "todo/write")
IN_TURN_V4: Final = (*IN_TURN, "tool/ptc-dispatch-start", "tool/ptc-dispatch")


class Rules(RuleSet):
    """Turn and step boundaries, and what must lie inside them."""

    owner = "session"
    rules: ClassVar = (
        Rule(
            "seq.duplicate",
            "an event has the seq of the one before it",
            "Two writers share the log, or an append was repeated: keep one writer per session.",
            on=(EVERY,),
        ),
        Rule(
            "seq.regressed",
            "an event has a lower seq than the one before it",
            "A part of the log was written again: look for a second writer or a restored tail.",
            on=(EVERY,),
        ),
        Rule(
            "turn.overlap",
            "a turn starts while another is open",
            "The earlier turn was never closed: its process died, or two loops drive one session.",
            on=("turn/start",),
        ),
        Rule(
            "turn.number",
            "a turn does not have the next number",
            "A turn is missing from the log, or the writer does not count from 1.",
            on=("turn/start",),
            contracts=LATER,
        ),
        Rule(
            "turn.end-mismatch",
            "a turn end names a turn that is not open",
            "The turn's start is missing, or the end was written twice.",
            on=("turn/end",),
        ),
        Rule(
            "turn.end-open-step",
            "a turn ends while one of its steps is open",
            "Close the step first; cancellation paths forget this most often.",
            on=("turn/end",),
        ),
        Rule(
            "turn.unclosed",
            "the log ends inside a turn",
            "The process died in mid-turn; a resume repairs the log.",
            severity=Severity.ADVICE,
            source="end",
        ),
        Rule(
            "step.outside-turn",
            "a step starts in a turn that is not open",
            "The turn's start is missing, or the step carries the wrong turn number.",
            on=("step/start",),
        ),
        Rule(
            "step.overlap",
            "a step starts while another is open",
            "The earlier step was never closed.",
            on=("step/start",),
        ),
        Rule(
            "step.number",
            "a step does not have the next number in its turn",
            "A step is missing from the log, or the writer does not count from 1.",
            on=("step/start",),
            contracts=LATER,
        ),
        Rule(
            "step.end-mismatch",
            "a step end names a step that is not open",
            "The step's start is missing, or the end was written twice.",
            on=("step/end",),
        ),
        Rule(
            "step.event-outside",
            "an event names a step that is not open",
            "It was written too late, or with the coordinates of another step.",
            on=(*ENCLOSED_V4, "tool/call", "tool/result"),
        ),
        Rule(
            "step.unclosed",
            "the log ends inside a step",
            "The process died in mid-step; a resume repairs the log.",
            severity=Severity.ADVICE,
            source="end",
        ),
        Rule(
            "event.outside-turn",
            "an event that belongs inside a turn lies outside",
            "Whoever wrote it did so before the turn started or after it ended.",
            on=(*IN_TURN_V0, *IN_TURN_V4),
            contracts=LATER,
        ),
    )

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        contract = self.run.contract
        found: dict[str, Handler] = {
            "turn/start": self._turn_start,
            "turn/end": self._turn_end,
            "step/start": self._step_start,
            "step/end": self._step_end,
        }
        if contract is not Contract.SEED:
            in_turn = IN_TURN_V4 if contract is Contract.V4 else IN_TURN_V0
            found |= dict.fromkeys(in_turn, self._in_turn)
        return found

    def outside_step(self) -> Mapping[str, Handler]:
        """Return what to call for events that do not lie in the step they name."""
        enclosed = ENCLOSED_V4 if self.run.contract is Contract.V4 else ENCLOSED
        return dict.fromkeys(enclosed, self._stray)

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        self._timeline = run.timeline
        self._numbered = run.contract is not Contract.SEED

    def _turn_start(self, event: TurnStart, line: int) -> None:
        run, timeline, turn = self.run, self._timeline, event.data.turn
        if (
            timeline.turn is None
            and (turn == timeline.next_turn or not self._numbered)
            and not run.blaming
        ):
            return
        known: Finding | None = None
        blamed: list[Hashable] = []
        if timeline.turn is not None:
            known = run.explained(event, ("turn-end", timeline.turn))
            if known is None:
                known = run.report(
                    "turn.overlap",
                    f"turn {turn} starts while turn {timeline.turn} is open",
                    seq=event.seq,
                    line=line,
                    turn=turn,
                    expected=f"turn/end of turn {timeline.turn}",
                    got=f"turn/start of turn {turn}",
                )
                blamed = [(timeline.turn, None), (timeline.turn, timeline.step)]
            if turn == timeline.turn:
                # Its steps may go on counting.
                blamed.append(("restart", turn))
        elif self._numbered and turn != timeline.next_turn:
            known = run.explained(event, "turn-number")
            if known is None:
                known = run.report(
                    "turn.number",
                    f"turn {turn} follows where turn {timeline.next_turn} should",
                    seq=event.seq,
                    line=line,
                    turn=turn,
                    expected=str(timeline.next_turn),
                    got=str(turn),
                )
                # The rest of the turn may have the right number.
                blamed = [(timeline.next_turn, None), ("turn-end", turn)]
        run.forgive(("turn-end", turn), ("restart", turn), "turn-number", "outside-turn")
        if not timeline.replaying:
            run.turn_over()
        run.blame(known, *blamed)
        run.forgive((turn, None))

    def _turn_end(self, event: TurnEnd, line: int) -> None:
        run, timeline, turn = self.run, self._timeline, event.data.turn
        if turn != timeline.turn:
            known = run.explained(event, (turn, None))
            if known is not None:
                # The turn that is open may be the one that started astray.
                run.blame(known, *misled(timeline))
                return
            is_open = "no turn" if timeline.turn is None else f"turn {timeline.turn}"
            finding = run.report(
                "turn.end-mismatch",
                f"turn {turn} ends while {is_open} is open",
                seq=event.seq,
                line=line,
                turn=turn,
                expected=is_open,
                got=f"turn {turn}",
            )
            run.blame(finding, *misled(timeline))
            return
        if timeline.step is not None:
            key = (turn, timeline.step)
            if not run.explained(event, ("step-end", *key)):
                finding = run.report(
                    "turn.end-open-step",
                    f"turn {turn} ends while step {timeline.step} is open",
                    seq=event.seq,
                    line=line,
                    expected=f"step/end of step {timeline.step}",
                    got=f"turn/end of turn {turn}",
                )
                run.blame(finding, key, ("unresolved", *key))

    def _step_start(self, event: StepStart, line: int) -> None:
        run, timeline = self.run, self._timeline
        turn, step = event.data.turn, event.data.step
        if turn != timeline.turn:
            self._step_elsewhere(event, line)
            return
        if (
            timeline.step is None
            and (step == timeline.next_step or not self._numbered)
            and not run.blaming
        ):
            return
        known: Finding | None = None
        blamed: list[Hashable] = []
        if timeline.step is not None:
            if not run.explained(event, ("step-end", turn, timeline.step)):
                known = run.report(
                    "step.overlap",
                    f"step {step} starts while step {timeline.step} is open",
                    seq=event.seq,
                    line=line,
                    turn=turn,
                    step=step,
                    expected=f"step/end of step {timeline.step}",
                    got=f"step/start of step {step}",
                )
                blamed = [(turn, timeline.step)]
        elif (
            self._numbered
            and step != timeline.next_step
            and not run.explained(event, ("restart", turn))
        ):
            known = run.report(
                "step.number",
                f"step {step} follows where step {timeline.next_step} should",
                seq=event.seq,
                line=line,
                turn=turn,
                step=step,
                expected=str(timeline.next_step),
                got=str(step),
            )
            # The rest of the step may have the right number.
            blamed = [(turn, timeline.next_step), ("step-end", turn, step)]
        run.forgive(("step-end", turn, step), ("step-start", turn))
        run.blame(known, *blamed)
        run.forgive((turn, step))

    def _step_elsewhere(self, event: StepStart, line: int) -> None:
        run, timeline = self.run, self._timeline
        turn, step = event.data.turn, event.data.step
        known = run.explained(event, (turn, None))
        if known is None:
            is_open = "no turn" if timeline.turn is None else f"turn {timeline.turn}"
            known = run.report(
                "step.outside-turn",
                f"step {step} of turn {turn} starts while {is_open} is open",
                seq=event.seq,
                line=line,
                turn=turn,
                step=step,
                expected=is_open,
                got=f"turn {turn}",
            )
            # If it belongs to the open turn, what follows there lies in no step.
            run.blame(known, (turn, None), ("step-start", timeline.turn), *misled(timeline))
        run.blame(known, (turn, step))

    def _step_end(self, event: StepEnd, line: int) -> None:
        run, timeline = self.run, self._timeline
        turn, step = event.data.turn, event.data.step
        if timeline.is_open(turn, step):
            return
        known = run.explained(event, *places(timeline, turn, step))
        own = known is None or turn == timeline.turn
        if known is None:
            known = run.report(
                "step.end-mismatch",
                f"step {step} of turn {turn} ends while {open_place(timeline)} is open",
                seq=event.seq,
                line=line,
                turn=turn,
                step=step,
                expected=open_place(timeline),
                got=f"step {step} of turn {turn}",
            )
            blame_turn(run, known, turn)
        if own and timeline.step is not None:
            run.blame(known, ("step-end", timeline.turn, timeline.step))

    def _stray(self, event: SessionEvent, line: int) -> None:
        known = report_outside(self.run, event, line)
        if isinstance(event, AssistantMessage) and self.run.contract is Contract.V4:
            # The calls that it advertises may come with the right coordinates.
            for block in event.data.tool_calls() if known is not None else ():
                self.run.blame(known, CallKey("advertised", block.id))

    def _in_turn(self, event: SessionEvent, line: int) -> None:
        if self._timeline.turn is None and not self.run.explained(event, "outside-turn"):
            finding = self.run.report(
                "event.outside-turn",
                f"{event.type} outside any turn",
                seq=event.seq,
                line=line,
                expected="an open turn",
                got="no turn",
            )
            self.run.blame(finding, "outside-turn")

    def finish(self, *, final: bool) -> None:
        """Judge what only the end of the input decides."""
        run, timeline = self.run, self._timeline
        if not final or timeline.turn is None:
            return
        inside = f"the log ends inside turn {timeline.turn}"
        run.report("turn.unclosed", inside, seq=run.last_seq, line=run.last_line)
        if timeline.step is not None:
            inside += f", step {timeline.step}"
            run.report("step.unclosed", inside, seq=run.last_seq, line=run.last_line)
