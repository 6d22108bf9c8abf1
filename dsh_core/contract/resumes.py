"""Streams in which another process goes on with a session, and only its first request tells.

After a crash what a process repairs is not told to anybody, and takes the numbers of events that
were told and then lost. If it is as much as was lost, the numbers of the stream go on as if nothing
had happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsh_core.contract.findings import Severity
from dsh_core.contract.run import SourceKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.findings import Finding
    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import RequestHeader, SessionEvent, TurnEnd

_SURE: Final = (
    *("assistant/attempt", "assistant/message", "llm/retry", "llm/retry-started"),
    *("step/end", "tool/call", "tool/result"),
)
"""What a process writes after its first request only."""

_ALONE: Final = ("envelope.ignorable", "envelope.invalid", "message.shape")
"""Violations by an event on its own, whatever came before it."""


class Resumes:
    """Holds findings of a stream back until it is clear that one process wrote their events."""

    def __init__(self, run: Run) -> None:
        self._run = run
        # How many of the findings that are not collected yet are sure, and since which event.
        self._sure = 0
        self._sure_seq = -1
        self._requested = False

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type, after the rules."""
        if self._run.source is not SourceKind.STREAM:
            return {}
        return {
            **dict.fromkeys(_SURE, self._mark),
            "turn/end": self._turn_end,
            "request/header": self._request,
        }

    def _mark(self, event: SessionEvent, _line: int) -> None:
        self._sure, self._sure_seq = len(self._run.findings), event.seq

    def _turn_end(self, event: TurnEnd, line: int) -> None:
        # A process that goes on may end a turn that it asked nothing in.
        if event.seq == self._sure_seq + 1:
            self._mark(event, line)

    def _request(self, event: RequestHeader, line: int) -> None:
        reason = event.data.reason
        begins = reason == "resume" or (reason == "initial" and self._requested)
        # What is told again is not told by another process.
        if begins and not self._run.repeating:
            unsure = self._run.findings[self._sure :]
            self._run.findings[self._sure :] = filter(_stands_alone, unsure)
            self._run.resume()
        self._requested = True
        self._mark(event, line)

    def release(self) -> None:
        """Be sure of everything: nothing will follow."""
        self._sure = len(self._run.findings)

    def collect(self) -> list[Finding]:
        """Return the findings that are sure, and keep the others."""
        if self._run.source is not SourceKind.STREAM:
            found, self._run.findings = self._run.findings, []
            return found
        found = self._run.findings[: self._sure]
        del self._run.findings[: self._sure]
        self._sure = 0
        return found


def _stands_alone(finding: Finding) -> bool:
    return finding.severity is not Severity.VIOLATION or finding.rule in _ALONE
