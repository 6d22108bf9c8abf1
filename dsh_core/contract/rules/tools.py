"""Rules of the ``tools`` package: arguments, codes of failures, repeated failures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from dsh_core import codes
from dsh_core.contract.fields import shown
from dsh_core.contract.findings import Finding, Severity
from dsh_core.contract.places import calls_named
from dsh_core.contract.rule import Rule, RuleSet
from dsh_core.contract.run import CallKey
from dsh_core.events import Contract, SessionEvent, ToolCall, ToolResult, TurnEnd

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.contract.timeline import Call

STORM: Final = 3
"""So many identical failures in one turn are a storm."""

MAX_TRACKED: Final = 1024
MAX_HELD: Final = 64
_is_json: Final = msgspec.json.Decoder(msgspec.Raw).decode


class Rules(RuleSet):
    """What can be said of single calls and their results."""

    owner = "tools"
    rules: ClassVar = (
        Rule(
            "tool.call-unanswered",
            "a step ends with an unanswered call and the turn completes",
            "The model's history lacks a result: providers refuse such a request.",
            on=("turn/end",),
            contracts=(Contract.SEED, Contract.V0),
            severity=Severity.ADVICE,
        ),
        Rule(
            "tool.error-uncoded",
            "a failed result has no code",
            "Raise a HarnessError with a code, so that tooling need not parse the text.",
            on=("tool/result",),
            severity=Severity.ADVICE,
        ),
        Rule(
            "tool.arguments-invalid-json",
            "the arguments of a call are not JSON",
            "The model's output was cut or malformed; validation refuses such a call.",
            on=("tool/call",),
            severity=Severity.ADVICE,
        ),
        Rule(
            "tool.retry-storm",
            "the same call fails with the same permanent code three times or more in a turn",
            "Repeating cannot help: change the call, or stop.",
            on=("tool/result",),
            severity=Severity.ADVICE,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        self._unanswered: list[list[tuple[str, Call]]] = []
        # Identical failures of the turn: seq of the first, and how many.
        self._failures: dict[tuple[str, str, str], tuple[int, int]] = {}
        self._storms: dict[tuple[str, str, str], Finding] = {}

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {
            "tool/call": self._call,
            "tool/result": self._result,
            "step/end": self._step_end,
            "turn/start": self._turn_start,
            "turn/end": self._turn_end,
        }

    def _call(self, event: ToolCall, line: int) -> None:
        data, arguments = event.data, event.data.arguments
        # June's loop and its successors take an empty text as no arguments.
        if arguments and not _valid_json(arguments):
            self.run.report(
                "tool.arguments-invalid-json",
                f"arguments of {shown(data.name)} are not JSON",
                seq=event.seq,
                line=line,
                call_id=data.call_id,
            )

    def _result(self, event: ToolResult, line: int) -> None:
        data = event.data
        if not (data.is_error if data.message is None else data.failed) or not event.appends:
            return
        call_id = data.call_id
        code = data.error.code if data.error is not None else ""
        if not code:
            found = codes.classify(None, None, data.text())
            code = found.code or ""
            self.run.report(
                "tool.error-uncoded",
                f"failed result without a code{f' ({code} by its text)' if code else ''}",
                seq=event.seq,
                line=line,
                call_id=call_id,
                expected="error.code",
                got=code,
            )
        call = self.run.timeline.pending.get(call_id)
        if code and call is not None and codes.is_permanent(code):
            self._count(event, line, call_id, (call.name, call.arguments, code))

    def _count(
        self, event: SessionEvent, line: int, call_id: str, key: tuple[str, str, str]
    ) -> None:
        storm = self._storms.get(key)
        if storm is not None:
            storm.fold(event.seq)
            return
        first, count = self._failures.get(key, (event.seq, 0))
        count += 1
        self._failures[key] = (first, count)
        if count >= STORM:
            finding = self.run.report(
                "tool.retry-storm",
                f"the same call of {shown(key[0])} fails with {shown(key[2])} again and again "
                "in this turn",
                seq=event.seq,
                line=line,
                call_id=call_id,
            )
            if finding is not None:
                finding.count, finding.first_seq = count, first
                self._storms[key] = finding
        if len(self._failures) > MAX_TRACKED:
            del self._failures[next(iter(self._failures))]

    def _step_end(self, event: SessionEvent, _line: int) -> None:
        timeline = self.run.timeline
        if timeline.pending and timeline.is_open(event.data.turn, event.data.step):
            calls = self._unexplained(timeline.pending.items())
            if calls and len(self._unanswered) < MAX_HELD:
                self._unanswered.append(calls)

    def _unexplained(self, calls: Iterable[tuple[str, Call]]) -> list[tuple[str, Call]]:
        """Leave out calls whose result went astray, which has been said."""
        return [
            (call_id, call)
            for call_id, call in calls
            if not self.run.blamed(CallKey("answered", call_id))
        ]

    def _turn_start(self, _event: SessionEvent, _line: int) -> None:
        self._unanswered = []
        self._failures = {}
        self._storms = {}

    def _turn_end(self, event: TurnEnd, _line: int) -> None:
        data = event.data
        if data.turn != self.run.timeline.turn:
            return
        held, self._unanswered = self._unanswered, []
        if data.reason.kind != "completed":
            return
        for calls in filter(None, map(self._unexplained, held)):
            named = calls_named([call_id for call_id, _ in calls])
            call_id, first = calls[0]
            finding = self.run.report(
                "tool.call-unanswered",
                f"step {first.step} ended without a result for {named}",
                seq=first.seq,
                line=first.line,
                turn=first.turn,
                step=first.step,
                call_id=call_id,
                expected="a tool/result",
                got="none",
            )
            if finding is not None:
                finding.count, finding.last_seq = len(calls), calls[-1][1].seq


def _valid_json(text: str) -> bool:
    try:
        _is_json(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        # The fast decoder refuses half characters, which JSON allows.
        try:
            json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(constant)
