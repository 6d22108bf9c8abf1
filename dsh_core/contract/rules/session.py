"""Rules of the ``session`` package: numbering, turns, steps, and calls with their results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from dsh_core.contract.findings import Severity
from dsh_core.contract.rule import LATER, Rule, RuleSet
from dsh_core.contract.run import CallKey
from dsh_core.events import (
    AssistantMessage,
    Contract,
    SessionEvent,
    StepEnd,
    StepStart,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
)
from dsh_core.payloads import ABSENT

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from dsh_core.contract.findings import Finding
    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.payloads import ToolResultData

NOT_STARTED: Final = "TOOL_NOT_STARTED"

MAX_AGAIN: Final = 64
"""How many further results of a call that may still follow are counted."""


class Rules(RuleSet):
    """Turn and step boundaries and the call-result pairs inside them."""

    owner = "session"
    rules: ClassVar = (
        Rule(
            "seq.duplicate",
            "an event has the seq of the one before it",
            "Two writers share the log, or an append was repeated: keep one writer per session.",
        ),
        Rule(
            "seq.regressed",
            "an event has a lower seq than the one before it",
            "A part of the log was written again: look for a second writer or a restored tail.",
        ),
        Rule(
            "turn.overlap",
            "a turn starts while another is open",
            "The earlier turn was never closed: its process died, or two loops drive one session.",
        ),
        Rule(
            "turn.number",
            "a turn does not have the next number",
            "A turn is missing from the log, or the writer does not count from 1.",
            contracts=LATER,
        ),
        Rule(
            "turn.end-mismatch",
            "a turn end names a turn that is not open",
            "The turn's start is missing, or the end was written twice.",
        ),
        Rule(
            "turn.end-open-step",
            "a turn ends while one of its steps is open",
            "Close the step first; cancellation paths forget this most often.",
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
        ),
        Rule(
            "step.overlap",
            "a step starts while another is open",
            "The earlier step was never closed.",
        ),
        Rule(
            "step.number",
            "a step does not have the next number in its turn",
            "A step is missing from the log, or the writer does not count from 1.",
            contracts=LATER,
        ),
        Rule(
            "step.end-mismatch",
            "a step end names a step that is not open",
            "The step's start is missing, or the end was written twice.",
        ),
        Rule(
            "step.event-outside",
            "an event names a step that is not open",
            "It was written too late, or with the coordinates of another step.",
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
            contracts=LATER,
        ),
        Rule(
            "tool.result-without-call",
            "a result answers a call that was not made in its step",
            "The call was lost, or a result was made up: the model's history is no longer valid.",
        ),
        Rule(
            "tool.result-duplicate",
            "a call is answered twice",
            "The first result counts; find out who writes the second.",
        ),
        Rule(
            "tool.result-late",
            "a result comes after its step has closed",
            "The tool outlived the step: wait for it, or make it a background job.",
        ),
        Rule(
            "tool.result-before-call",
            "a result comes before its call",
            "The writer orders events by a clock that is not the log's.",
        ),
        Rule(
            "tool.replace-outside-turn",
            "a result is replaced outside a turn",
            "Prune results only while a turn is open.",
            contracts=LATER,
        ),
    )

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        in_turn = ["request/header", "request/context"]
        if self.run.contract is Contract.V0:
            in_turn.append("todo/write")
        if self.run.contract is Contract.V4:
            in_turn += ["tool/ptc-dispatch-start", "tool/ptc-dispatch"]
        found: dict[str, Handler] = {
            "turn/start": self._turn_start,
            "turn/end": self._turn_end,
            "step/start": self._step_start,
            "step/end": self._step_end,
            "tool/call": self._tool_call,
            "tool/result": self._tool_result,
        }
        if self.run.contract is not Contract.SEED:
            found |= dict.fromkeys(in_turn, self._in_turn)
        return found

    def inside_step(self) -> Mapping[str, Handler]:
        """Return what to call for events that do not lie in the step they name."""
        enclosed = ["assistant/chunk", "assistant/message"]
        if self.run.contract is Contract.V4:
            enclosed += ["system/message", "developer/message", "assistant/attempt"]
        return dict.fromkeys(enclosed, self._stray)

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        self._timeline = run.timeline
        self._numbered = run.contract is not Contract.SEED
        # Results whose call may still follow in the step, by call id.
        self._early: dict[str, _Early] = {}

    def _turn_start(self, event: TurnStart, line: int) -> None:
        run, timeline, turn = self.run, self._timeline, event.data.turn
        if self._early:
            self._settle_early()
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
                run.blame(known, *self._misled())
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
            run.blame(finding, *self._misled())
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
        if self._early:
            self._settle_early()

    def _misled(self) -> list[Hashable]:
        """Return what an event that names a turn which is not open makes go wrong with turns."""
        turn = self._timeline.turn
        return ["turn-number", "outside-turn"] if turn is None else [("turn-end", turn)]

    def _step_start(self, event: StepStart, line: int) -> None:
        run, timeline = self.run, self._timeline
        turn, step = event.data.turn, event.data.step
        if self._early:
            self._settle_early()
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
            run.blame(known, (turn, None), ("step-start", timeline.turn), *self._misled())
        run.blame(known, (turn, step))

    def _step_end(self, event: StepEnd, line: int) -> None:
        run, timeline = self.run, self._timeline
        turn, step = event.data.turn, event.data.step
        if timeline.is_open(turn, step):
            if self._early:
                self._settle_early()
            return
        known = run.explained(event, *self._places(turn, step))
        own = known is None or turn == timeline.turn
        if known is None:
            known = run.report(
                "step.end-mismatch",
                f"step {step} of turn {turn} ends while {self._open()} is open",
                seq=event.seq,
                line=line,
                turn=turn,
                step=step,
                expected=self._open(),
                got=f"step {step} of turn {turn}",
            )
            self._blame_turn(known, turn)
        if own and timeline.step is not None:
            run.blame(known, ("step-end", timeline.turn, timeline.step))

    def _open(self) -> str:
        timeline = self._timeline
        if timeline.turn is None:
            return "no turn"
        if timeline.step is None:
            return f"no step of turn {timeline.turn}"
        return f"step {timeline.step} of turn {timeline.turn}"

    def _places(self, turn: int, step: int) -> list[Hashable]:
        """Return what may be blamed for an event that names a step which is not open."""
        places: list[Hashable] = [(turn, step), (turn, None)]
        if turn == self._timeline.turn and self._timeline.step is None:
            places.append(("step-start", turn))
        return places

    def _stray(self, event: SessionEvent, line: int) -> None:
        known = self._outside(event, line)
        if isinstance(event, AssistantMessage) and self.run.contract is Contract.V4:
            # The calls that it advertises may come with the right coordinates.
            for block in event.data.tool_calls() if known is not None else ():
                self.run.blame(known, CallKey("advertised", block.id))

    def _outside(
        self, event: SessionEvent, line: int, call_id: str | None = None
    ) -> Finding | None:
        run, turn, step = self.run, event.data.turn, event.data.step
        known = run.explained(event, *self._places(turn, step))
        if known is None:
            known = run.report(
                "step.event-outside",
                f"{event.type} names step {step} of turn {turn} while {self._open()} is open",
                seq=event.seq,
                line=line,
                turn=turn,
                step=step,
                call_id=call_id,
                expected=self._open(),
                got=f"step {step} of turn {turn}",
            )
            self._blame_turn(known, turn)
        run.blame(known, (turn, step))
        if call_id is not None:
            # Its result may come with the right coordinates.
            run.blame(known, CallKey("call", call_id))
        return known

    def _blame_turn(self, finding: Finding | None, turn: int) -> None:
        """Blame a finding for what else names a turn that is not open."""
        if turn != self._timeline.turn:
            self.run.blame(finding, (turn, None))
        if self._timeline.turn is None:
            self.run.blame(finding, *self._misled())

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

    def _tool_call(self, event: ToolCall, line: int) -> None:
        data, run = event.data, self.run
        timeline = self._timeline
        if data.turn != timeline.turn or data.step != timeline.step or timeline.step is None:
            self._outside(event, line, data.call_id)
            return
        known: Finding | None = None
        if self._early and (early := self._early.pop(data.call_id, None)) is not None:
            known = run.explained(event, CallKey("call", data.call_id)) or early.report(
                run,
                "tool.result-before-call",
                f"the result of call {data.call_id!r} comes before the call",
                expected="the call first",
                got=f"the call at seq {event.seq}",
            )
        if run.blaming:
            run.forgive(CallKey("call", data.call_id), CallKey("answered", data.call_id))
        if known is not None:
            # No result will follow a call that comes after it.
            run.blame(known, CallKey("answered", data.call_id))

    def _tool_result(self, event: ToolResult, line: int) -> None:
        data, timeline = event.data, self._timeline
        if event.surface_op is not ABSENT and not event.appends and self._numbered:
            if timeline.turn is None:
                self.run.report(
                    "tool.replace-outside-turn",
                    "a result is replaced outside any turn",
                    seq=event.seq,
                    line=line,
                    call_id=data.call_id,
                )
            return
        call_id = data.flat_call_id if data.message is None else data.call_id
        if data.step != timeline.step or data.turn != timeline.turn or timeline.step is None:
            self._result_outside(event, line, call_id)
        elif (
            call_id not in timeline.pending
            and not timeline.overflow
            and not (self._numbered and not_started(data))
        ):
            self._result_alone(event, line, call_id)

    def _result_alone(self, event: ToolResult, line: int, call_id: str) -> None:
        """Judge a result in its step to which no call there is open."""
        run, timeline = self.run, self._timeline
        if call_id in timeline.answered and call_id not in self._early:
            if not run.explained(event, CallKey("twice", call_id)):
                run.report(
                    "tool.result-duplicate",
                    f"call {call_id!r} is already answered",
                    seq=event.seq,
                    line=line,
                    call_id=call_id,
                )
            return
        if run.explained(event, CallKey("call", call_id)):
            return
        before = timeline.unanswered_before(call_id)
        if before is not None:
            self._late(event, line, call_id, before)
        elif call_id in self._early:
            self._early[call_id].again(event)
        else:
            early = _Early(call_id, event.seq, line, timeline.turn, timeline.step)
            if run.cause is None:
                self._early[call_id] = early
            else:
                early.without_call(run, always=False)

    def _result_outside(self, event: ToolResult, line: int, call_id: str) -> None:
        key = (event.data.turn, event.data.step)
        if self.run.explained(event, key, CallKey("call", call_id)):
            return
        place, answered = self._timeline.answered_last
        if call_id in self._timeline.unanswered.get(key, ()):
            self._late(event, line, call_id, key)
        elif place == key and call_id in answered:
            known = self.run.report(
                "tool.result-duplicate",
                f"call {call_id!r} was answered in its step already",
                seq=event.seq,
                line=line,
                turn=key[0],
                step=key[1],
                call_id=call_id,
            )
            # Or it is the result of the open step's call of that name.
            self.run.blame(known, CallKey("answered", call_id))
        else:
            self.run.blame(self._outside(event, line), CallKey("answered", call_id))

    def _late(self, event: ToolResult, line: int, call_id: str, key: tuple[int, int]) -> None:
        finding = self.run.report(
            "tool.result-late",
            f"the result of call {call_id!r} comes after step {key[1]} of turn {key[0]} closed",
            seq=event.seq,
            line=line,
            turn=key[0],
            step=key[1],
            call_id=call_id,
            expected=f"before the end of step {key[1]} of turn {key[0]}",
            got=self._open(),
        )
        self.run.blame(finding, CallKey("answered", call_id))

    def _settle_early(self) -> None:
        """Judge the results that waited for their call: the step is over."""
        early, self._early = self._early, {}
        for call_id, result in early.items():
            if not self.run.blamed(CallKey("call", call_id)):
                result.without_call(self.run)

    def finish(self, *, final: bool) -> None:
        """Judge what only the end of the input decides."""
        run, timeline = self.run, self._timeline
        if self._early:
            self._settle_early()
        if not final or timeline.turn is None:
            return
        inside = f"the log ends inside turn {timeline.turn}"
        run.report("turn.unclosed", inside, seq=run.last_seq, line=run.last_line)
        if timeline.step is not None:
            inside += f", step {timeline.step}"
            run.report("step.unclosed", inside, seq=run.last_seq, line=run.last_line)


@dataclass(slots=True)
class _Early:
    """A result whose call may still follow."""

    call_id: str
    seq: int
    line: int
    turn: int | None
    step: int | None
    more: list[int] = field(default_factory=list)

    def again(self, event: ToolResult) -> None:
        """Take in one more result of the same call."""
        if len(self.more) < MAX_AGAIN:
            self.more.append(event.seq)

    def without_call(self, run: Run, *, always: bool = True) -> None:
        """Report that the call was never made."""
        self.report(
            run,
            "tool.result-without-call",
            f"call {self.call_id!r} was never made in this step",
            expected="a tool/call before it",
            got="none",
            always=always,
        )

    def report(
        self, run: Run, rule: str, message: str, *, expected: str, got: str, always: bool = True
    ) -> Finding | None:
        """Report something of the result; what is the cause of faults now came after it."""
        finding = run.report(
            rule,
            message,
            seq=self.seq,
            line=self.line,
            turn=self.turn,
            step=self.step,
            call_id=self.call_id,
            expected=expected,
            got=got,
            always=always,
        )
        if finding is not None:
            for seq in self.more:
                finding.fold(seq)
        return finding


def not_started(data: ToolResultData) -> bool:
    """Whether a result is the repair of a call that never started (August on)."""
    return data.error is not None and data.error.code == NOT_STARTED and data.failed
