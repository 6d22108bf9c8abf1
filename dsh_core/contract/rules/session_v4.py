"""Rules of the ``session`` package that only v4 has: the life of an advertised tool call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from dsh_core.contract.fields import shown
from dsh_core.contract.places import calls_named
from dsh_core.contract.repairs import is_odd_fork_repair, is_repair
from dsh_core.contract.rule import Rule, RuleSet
from dsh_core.contract.rules.results import not_started
from dsh_core.contract.run import CallKey
from dsh_core.events import Contract, StepEnd
from dsh_core.parts import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.findings import Finding
    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import (
        AssistantMessage,
        StepStart,
        ToolCall,
        ToolResult,
        TurnEnd,
        TurnStart,
    )

V4 = (Contract.V4,)
MAX_ADVERTISED: Final = 4096
"""How many advertised calls of one step are followed."""


@dataclass(slots=True)
class _Advertised:
    name: str
    arguments: str | None
    started: bool
    resolved: bool = False
    early: bool = False


class Rules(RuleSet):
    """Every call that a v4 answer advertises is made as advertised and gets one result."""

    owner = "session"
    rules: ClassVar = (
        Rule(
            "tool.unresolved",
            "a step or turn ends and an advertised call has no result",
            "The next request will be refused by the provider: write a result for every call.",
            on=("step/end", "turn/end"),
            contracts=V4,
        ),
        Rule(
            "tool.advertised-duplicate",
            "an answer repeats the id of a call that is still open",
            "The provider numbers calls per answer: make the ids unique within the step.",
            on=("assistant/message",),
            contracts=V4,
        ),
        Rule(
            "tool.call-not-advertised",
            "a call is not the one that the answer advertised",
            "Only calls of the model's answer may run, once, with the model's name and arguments.",
            on=("tool/call",),
            contracts=V4,
        ),
        Rule(
            "tool.result-not-started",
            "a result answers a call that never started",
            "Only the repair of a crash or fork may do so, with error TOOL_NOT_STARTED.",
            on=("tool/result",),
            contracts=V4,
        ),
        Rule(
            "tool.error-without-flag",
            "a result carries an error but is not flagged as one",
            "Set isError on the message, or drop the error.",
            on=("tool/result",),
            contracts=V4,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        self._calls: dict[str, _Advertised] = {}
        self._overflow = False

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        if self.run.contract is not Contract.V4:
            return {}
        return {
            "assistant/message": self._message,
            "tool/call": self._call,
            "tool/result": self._result,
            "step/start": self._step_start,
            "step/end": self._end,
            "turn/end": self._end,
            "turn/start": self._turn_start,
        }

    def _message(self, event: AssistantMessage, line: int) -> None:
        data = event.data
        if self.run.repeating or not self.run.timeline.is_open(data.turn, data.step):
            return
        repeated = []
        for block in data.tool_calls():
            known = self._calls.get(block.id)
            if known is not None and not (
                known.resolved or self.run.explained(event, CallKey("answered", block.id))
            ):
                repeated.append(block.id)
            elif len(self._calls) < MAX_ADVERTISED:
                # A call that came before its answer runs already.
                started = block.id in self.run.timeline.pending
                arguments = "" if block.arguments is ABSENT else block.argument_text
                self._calls[block.id] = _Advertised(block.name, arguments, started)
            else:
                self._overflow = True
        if repeated:
            self.run.report(
                "tool.advertised-duplicate",
                f"{calls_named(repeated)} advertised again while open",
                seq=event.seq,
                line=line,
                call_id=repeated[0],
            )

    def _call(self, event: ToolCall, line: int) -> None:
        data, run = event.data, self.run
        if run.repeating or not run.timeline.is_open(data.turn, data.step):
            return
        known = self._calls.get(data.call_id)
        if known is None:
            self._call_unknown(event, line)
            return
        if known.early:
            # Its result came first, and that was said.
            problem = ""
        elif known.started or known.resolved:
            problem = "was started already"
            if data.call_id in run.timeline.pending and run.enabled("tool.call-id-duplicate"):
                problem = ""
        elif known.name != data.name:
            problem = f"is for {shown(data.name)}, the answer asked for {shown(known.name)}"
        elif known.arguments != data.arguments:
            problem = "has other arguments than the answer"
        else:
            problem = ""
        known.started, known.early = True, False
        if problem and not run.explained(event, CallKey("advertised", data.call_id)):
            self._report_not_advertised(event, line, problem)

    def _call_unknown(self, event: ToolCall, line: int) -> None:
        run, data = self.run, event.data
        # An answer that is missing or misplaced is one cause, however many calls it had.
        answer = ("answer", data.turn, data.step)
        if self._overflow:
            return
        finding = run.explained(event, CallKey("advertised", data.call_id), answer)
        if finding is not None and data.call_id:
            return
        finding = finding or self._report_not_advertised(event, line, "is not in the answer")
        # It may be one of those that wait, under a wrong id.
        waiting = {id_: call for id_, call in self._calls.items() if not call.started}
        same = [
            id_
            for id_, call in waiting.items()
            if call.name == data.name and call.arguments == data.arguments
        ]
        for id_ in same or waiting:
            run.blame(finding, CallKey("call", id_))
            if data.call_id and same:
                # The answer may have it under a wrong id.
                run.blame(finding, CallKey("answered", id_))
            elif id_ in run.timeline.answered:
                run.blame(finding, CallKey("twice", id_))
        if same and not data.call_id:
            run.forgive(CallKey("twice", ""))
        if not self._calls:
            run.blame(finding, answer)

    def _report_not_advertised(self, event: ToolCall, line: int, problem: str) -> Finding | None:
        return self.run.report(
            "tool.call-not-advertised",
            f"call {shown(event.data.call_id)} {problem}",
            seq=event.seq,
            line=line,
            call_id=event.data.call_id,
        )

    def _result(self, event: ToolResult, line: int) -> None:
        data, run = event.data, self.run
        call_id = data.call_id
        message = data.message
        # What is no message, or no flag, is named by `message.shape`.
        flag = None if message is None else message.is_error
        if data.error is not None and flag is not None and not data.failed:
            finding = run.report(
                "tool.error-without-flag",
                f"the result of call {shown(call_id)} has error {shown(data.error.code)} "
                "without isError",
                seq=event.seq,
                line=line,
                call_id=call_id,
            )
            run.blame_for_good(finding, ("message", event.seq))
            if not_started(data, flagged=False):
                run.blame(finding, CallKey("call", call_id))
        if run.repeating or not (event.appends and run.timeline.is_open(data.turn, data.step)):
            return
        known = self._calls.get(call_id)
        if not call_id and (odd := run.blamed(("message", event.seq))) is not None:
            # It may be the repair of any call that never started.
            waiting = (id_ for id_, call in self._calls.items() if not call.started)
            run.blame(odd, *(CallKey("answered", id_) for id_ in waiting))
        if known is None:
            # Without a call, and let pass by the rules of all contracts.
            if not_started(data) and not self._overflow and call_id not in run.timeline.pending:
                answer = ("answer", data.turn, data.step)
                if not run.explained(event, CallKey("advertised", call_id), answer):
                    self._report_not_started(event, line, "was not advertised")
            return
        if known.resolved and not_started(data):
            run.report(
                "tool.result-duplicate",
                f"call {shown(call_id)} is already answered",
                seq=event.seq,
                line=line,
                call_id=call_id,
            )
        elif not known.started and not known.resolved and not is_repair(event, call_id):
            self._report_not_started(event, line, "never started")
            known.early = True
        elif is_odd_fork_repair(event):
            self._report_not_started(event, line, "no fork left like that")
        known.resolved = True

    def _report_not_started(self, event: ToolResult, line: int, why: str) -> None:
        call_id = event.data.call_id
        if self.run.blamed(CallKey("call", call_id)):
            return
        finding = self.run.report(
            "tool.result-not-started",
            f"a result answers call {shown(call_id)}, which {why}",
            seq=event.seq,
            line=line,
            call_id=call_id,
        )
        self.run.blame(finding, CallKey("call", call_id))

    def _end(self, event: StepEnd | TurnEnd, line: int) -> None:
        timeline, run = self.run.timeline, self.run
        step = event.data.step if isinstance(event, StepEnd) else timeline.step
        if event.data.turn != timeline.turn or step != timeline.step:
            return
        calls, self._calls = self._calls, {}
        open_calls = [
            id_
            for id_, call in calls.items()
            if not call.resolved and not run.blamed(CallKey("answered", id_))
        ]
        if not open_calls or run.blamed(("unresolved", timeline.turn, timeline.step)):
            return
        finding = run.report(
            "tool.unresolved",
            f"{event.type} without a result for {calls_named(open_calls)}",
            seq=event.seq,
            line=line,
            call_id=open_calls[0],
            expected="a result for every advertised call",
            got=f"{len(open_calls)} without",
        )
        if finding is not None:
            finding.count = len(open_calls)
            # A result that comes yet is no news.
            run.blame(finding, *(CallKey("call", id_) for id_ in open_calls))

    def _turn_start(self, _event: TurnStart, _line: int) -> None:
        if not self.run.repeating:
            self._forget()

    def _step_start(self, event: StepStart, _line: int) -> None:
        timeline, data = self.run.timeline, event.data
        if data.turn == timeline.turn and data.step != timeline.step and not self.run.repeating:
            self._forget()

    def _forget(self) -> None:
        self._calls = {}
        self._overflow = False
