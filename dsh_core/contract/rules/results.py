"""Rules of the ``session`` package about tool calls and their results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from dsh_core.contract.fields import shown
from dsh_core.contract.places import open_place, report_outside
from dsh_core.contract.repairs import NOT_STARTED
from dsh_core.contract.rule import LATER, Rule, RuleSet
from dsh_core.contract.run import CallKey, SourceKind
from dsh_core.events import Contract
from dsh_core.parts import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.findings import Finding
    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import SessionEvent, StepEnd, ToolCall, ToolResult, TurnEnd
    from dsh_core.payloads import ToolResultData

MAX_AGAIN: Final = 64
"""How many further results of a call that may still follow are counted."""


class Rules(RuleSet):
    """Each result answers a call of its step, once, and after it."""

    owner = "session"
    rules: ClassVar = (
        Rule(
            "tool.result-without-call",
            "a result answers a call that was not made in its step",
            "The call was lost, or a result was made up: the model's history is no longer valid.",
            on=("tool/result",),
        ),
        Rule(
            "tool.result-duplicate",
            "a call is answered twice",
            "The first result counts; find out who writes the second.",
            on=("tool/result",),
        ),
        Rule(
            "tool.result-late",
            "a result comes after its step has closed",
            "The tool outlived the step: wait for it, or make it a background job.",
            on=("tool/result",),
        ),
        Rule(
            "tool.result-before-call",
            "a result comes before its call",
            "The writer orders events by a clock that is not the log's.",
            on=("tool/result",),
        ),
        Rule(
            "tool.replace-outside-turn",
            "a result is replaced outside a turn",
            "Prune results only while a turn is open.",
            on=("tool/result",),
            contracts=LATER,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        self._timeline = run.timeline
        self._numbered = run.contract is not Contract.SEED
        self._v4 = run.contract is Contract.V4
        # Results whose call may still follow in the step, by call id.
        self._early: dict[str, _Early] = {}

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {
            "turn/start": self._start,
            "turn/end": self._turn_end,
            "step/start": self._start,
            "step/end": self._step_end,
            "tool/call": self._tool_call,
            "tool/result": self._tool_result,
        }

    def _start(self, _event: SessionEvent, _line: int) -> None:
        if self._early:
            self._settle_early()

    def _turn_end(self, event: TurnEnd, _line: int) -> None:
        if self._early and event.data.turn == self._timeline.turn:
            self._settle_early()

    def _step_end(self, event: StepEnd, _line: int) -> None:
        if self._early and self._timeline.is_open(event.data.turn, event.data.step):
            self._settle_early()

    def _tool_call(self, event: ToolCall, line: int) -> None:
        data, run = event.data, self.run
        timeline = self._timeline
        if data.turn != timeline.turn or data.step != timeline.step or timeline.step is None:
            report_outside(run, event, line, data.call_id)
            return
        known: Finding | None = None
        if self._early and (early := self._early.pop(data.call_id, None)) is not None:
            known = run.explained(event, CallKey("call", data.call_id)) or early.report(
                run,
                "tool.result-before-call",
                f"the result of call {shown(data.call_id)} comes before the call",
                expected="the call first",
                got=f"the call at seq {event.seq}",
            )
        if run.blaming and data.call_id:
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
            and not (self._numbered and not_started(data, flagged=not self._v4))
        ):
            self._result_alone(event, line, call_id)

    def _result_alone(self, event: ToolResult, line: int, call_id: str) -> None:
        """Judge a result in its step to which no call there is open."""
        run, timeline = self.run, self._timeline
        if call_id in timeline.answered and call_id not in self._early:
            if not self._is_extra(event, call_id):
                run.report(
                    "tool.result-duplicate",
                    f"call {shown(call_id)} is already answered",
                    seq=event.seq,
                    line=line,
                    call_id=call_id,
                )
            return
        if run.explained(event, CallKey("call", call_id)):
            return
        if self._is_extra(event, ""):
            return
        before = timeline.unanswered_before(call_id)
        if before is not None:
            self._late(event, line, call_id, before)
        elif call_id in self._early:
            self._early[call_id].again(event)
        else:
            early = _Early(call_id, event.seq, line, timeline.turn, timeline.step)
            if run.cause is not None:
                early.without_call(run, always=False)
            elif run.source is SourceKind.LIVE:
                run.blame(early.without_call(run), CallKey("call", call_id))
            else:
                self._early[call_id] = early

    def _is_extra(self, event: ToolResult, call_id: str) -> bool:
        """Whether a result is the one too many that something explains, and fold it then."""
        run = self.run
        keys = [CallKey("twice", call_id)]
        if "" in self._timeline.pending:
            # It may answer the call that has no id.
            keys.append(CallKey("twice", ""))
        if not run.explained(event, *keys):
            return False
        run.forgive(*keys)
        return True

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
                f"call {shown(call_id)} was answered in its step already",
                seq=event.seq,
                line=line,
                turn=key[0],
                step=key[1],
                call_id=call_id,
            )
            # Or it is the result of the open step's call of that name.
            self.run.blame(known, CallKey("answered", call_id))
        else:
            known = report_outside(self.run, event, line)
            self.run.blame(known, CallKey("answered", call_id))
            self.run.blame_for_good(known, ("message", event.seq))

    def _late(self, event: ToolResult, line: int, call_id: str, key: tuple[int, int]) -> None:
        finding = self.run.report(
            "tool.result-late",
            f"the result of call {shown(call_id)} comes after "
            f"step {key[1]} of turn {key[0]} closed",
            seq=event.seq,
            line=line,
            turn=key[0],
            step=key[1],
            call_id=call_id,
            expected=f"before the end of step {key[1]} of turn {key[0]}",
            got=open_place(self._timeline),
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
        del final
        if self._early:
            self._settle_early()


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

    def without_call(self, run: Run, *, always: bool = True) -> Finding | None:
        """Report that the call was never made."""
        return self.report(
            run,
            "tool.result-without-call",
            f"call {shown(self.call_id)} was never made in this step",
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


def not_started(data: ToolResultData, *, flagged: bool = True) -> bool:
    """Whether a result is the repair of a call that never started (August on).

    Args:
        data: The result.
        flagged: Whether it must be flagged as an error.
    """
    is_repair = data.error is not None and data.error.code == NOT_STARTED[1]
    return is_repair and (data.failed or not flagged)
