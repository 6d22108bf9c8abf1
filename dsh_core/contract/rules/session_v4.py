"""Rules of the ``session`` package that only v4 has: the life of an advertised tool call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from dsh_core.contract.rule import Rule, RuleSet
from dsh_core.events import (
    AssistantMessage,
    Contract,
    SessionEvent,
    ToolCall,
    ToolResult,
)
from dsh_core.payloads import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run

V4 = (Contract.V4,)
MAX_ADVERTISED: Final = 4096
NOT_STARTED: Final = ("ToolNotStartedError", "TOOL_NOT_STARTED")


@dataclass(slots=True)
class _Advertised:
    seq: int
    line: int
    name: str
    arguments: str | None
    started: bool = False
    resolved: bool = False


class Rules(RuleSet):
    """Every call that a v4 answer advertises is made as advertised and gets one result."""

    owner = "session"
    rules: ClassVar = (
        Rule(
            "tool.unresolved",
            "a step or turn ends and an advertised call has no result",
            "The next request will be refused by the provider: write a result for every call.",
            contracts=V4,
        ),
        Rule(
            "tool.advertised-duplicate",
            "an answer repeats the id of a call that is still open",
            "The provider numbers calls per answer: make the ids unique within the step.",
            contracts=V4,
        ),
        Rule(
            "tool.call-not-advertised",
            "a call is not the one that the answer advertised",
            "Only calls of the model's answer may run, once, with the model's name and arguments.",
            contracts=V4,
        ),
        Rule(
            "tool.result-not-started",
            "a result answers a call that never started",
            "Only the repair of a crash or fork may do so, with error TOOL_NOT_STARTED.",
            contracts=V4,
        ),
        Rule(
            "tool.error-without-flag",
            "a result carries an error but is not flagged as one",
            "Set isError on the message, or drop the error.",
            contracts=V4,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        self._calls: dict[str, _Advertised] = {}

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        if self.run.contract is not Contract.V4:
            return {}
        return {
            "assistant/message": self._message,
            "tool/call": self._call,
            "tool/result": self._result,
            "step/end": self._end,
            "turn/end": self._end,
            "turn/start": self._start,
        }

    def _message(self, event: AssistantMessage, line: int) -> None:
        data = event.data
        if not self.run.timeline.is_open(data.turn, data.step):
            return
        for block in data.tool_calls():
            known = self._calls.get(block.id)
            if known is not None and not known.resolved:
                self.run.report(
                    "tool.advertised-duplicate",
                    f"call id {block.id!r} is advertised again while it is open",
                    seq=event.seq,
                    line=line,
                    call_id=block.id,
                )
            elif len(self._calls) < MAX_ADVERTISED:
                self._calls[block.id] = _Advertised(
                    event.seq, line, block.name, block.argument_text
                )

    def _call(self, event: ToolCall, line: int) -> None:
        data = event.data
        if not self.run.timeline.is_open(data.turn, data.step):
            return
        known = self._calls.get(data.call_id)
        if known is None:
            problem = "is not in the answer"
        elif known.started or known.resolved:
            problem = "was started already"
        elif known.name != data.name:
            problem = f"is for {data.name!r}, the answer asked for {known.name!r}"
        elif known.arguments is not None and known.arguments != data.arguments:
            problem = "has other arguments than the answer"
        else:
            known.started = True
            return
        self.run.report(
            "tool.call-not-advertised",
            f"call {data.call_id!r} {problem}",
            seq=event.seq,
            line=line,
            call_id=data.call_id,
        )
        if known is not None:
            known.started = True

    def _result(self, event: ToolResult, line: int) -> None:
        data = event.data
        call_id = data.call_id
        if data.error is not None and not data.failed:
            self.run.report(
                "tool.error-without-flag",
                f"the result of call {call_id!r} has error {data.error.code!r} without isError",
                seq=event.seq,
                line=line,
                call_id=call_id,
            )
        if not event.appends or not self.run.timeline.is_open(data.turn, data.step):
            return
        known = self._calls.get(call_id)
        if known is None:
            if self._is_repair(event, call_id):
                self._report_not_started(event, line, call_id, "was not advertised")
            return
        if known.resolved and not known.started:
            self.run.report(
                "tool.result-duplicate",
                f"call {call_id!r} is already answered",
                seq=event.seq,
                line=line,
                call_id=call_id,
            )
        elif not known.started and not known.resolved and not self._is_repair(event, call_id):
            self._report_not_started(event, line, call_id, "never started")
        known.resolved = True

    def _report_not_started(self, event: SessionEvent, line: int, call_id: str, why: str) -> None:
        self.run.report(
            "tool.result-not-started",
            f"a result answers call {call_id!r}, which {why}",
            seq=event.seq,
            line=line,
            call_id=call_id,
        )

    @staticmethod
    def _is_repair(event: ToolResult, call_id: str) -> bool:
        """Whether a result is what crash or fork repair writes for a call that never started."""
        data = event.data
        error, message = data.error, data.message
        return (
            error is not None
            and (error.name, error.code) == NOT_STARTED
            and data.failed
            and event.source_event_seqs is ABSENT
            and message is not None
            and message.id.startswith(
                (f"interrupted-tool-result-{call_id}-", f"forked-tool-result-{call_id}-")
            )
        )

    def _end(self, event: SessionEvent, line: int) -> None:
        timeline, data = self.run.timeline, event.data
        step = getattr(data, "step", timeline.step)
        if data.turn != timeline.turn or step != timeline.step:
            return
        open_calls = [(id_, call) for id_, call in self._calls.items() if not call.resolved]
        self._calls = {}
        if not open_calls:
            return
        finding = self.run.report(
            "tool.unresolved",
            f"{event.type} while {_names(id_ for id_, _ in open_calls)} has no result",
            seq=event.seq,
            line=line,
            call_id=open_calls[0][0],
            expected="a result for every advertised call",
            got=f"{len(open_calls)} without",
        )
        if finding is not None:
            finding.count = len(open_calls)

    def _start(self, _event: SessionEvent, _line: int) -> None:
        self._calls = {}


def _names(ids: object) -> str:
    shown = [repr(id_) for id_ in ids]  # type: ignore[attr-defined]
    return "call " + ", ".join(shown[:4]) + (" …" if len(shown) > 4 else "")  # noqa: PLR2004
