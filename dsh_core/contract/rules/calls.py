"""Rules of the ``tools`` package about the ids of calls.

They judge before the rules that tell by its id which call is which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dsh_core.contract.fields import shown
from dsh_core.contract.rule import Rule, RuleSet
from dsh_core.contract.run import CallKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.rule import Handler
    from dsh_core.events import ToolCall


class Rules(RuleSet):
    """Each call has an id, and no other call of its step that waits has the same."""

    owner = "tools"
    rules: ClassVar = (
        Rule(
            "tool.call-id-duplicate",
            "a call reuses the id of a call that waits for its result",
            "The provider numbers calls per answer: make the ids unique within the step.",
            on=("tool/call",),
        ),
        Rule(
            "tool.call-id-empty",
            "a call has an empty id",
            "The provider or an adapter dropped the id: results cannot be told apart.",
            on=("tool/call",),
        ),
    )

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {"tool/call": self._call}

    def _call(self, event: ToolCall, line: int) -> None:
        data, run, timeline = event.data, self.run, self.run.timeline
        call_id = data.call_id
        if not call_id:
            problem = f"call of {shown(data.name)} without an id"
            finding = self.trip("tool.call-id-empty", problem, event, line)
            # It is one of those that were advertised, and a result that follows is its own.
            run.blame(finding, CallKey("advertised", ""), CallKey("twice", ""))
        elif call_id in timeline.pending and timeline.is_open(data.turn, data.step):
            if run.explained(event, CallKey("answered", call_id)):
                return
            problem = f"call id {shown(call_id)} is used again before its result"
            finding = self.trip("tool.call-id-duplicate", problem, event, line, call_id=call_id)
            # The result that is one too many follows from this.
            run.blame(finding, CallKey("twice", call_id))
