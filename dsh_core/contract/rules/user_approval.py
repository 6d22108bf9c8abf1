"""Rules of the ``user-approval`` package: what was asked, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from dsh_core.contract.fields import fields, is_filled, shown
from dsh_core.contract.findings import Severity
from dsh_core.contract.rule import LATER, Rule, RuleSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import SessionEvent, TurnEnd

OUTCOMES: Final = ("allowed-once", "rejected", "cancelled", "unavailable")
POLICIES: Final = ("ask", "never")
MAX_PENDING: Final = 256
"""How many questions are followed."""


class Rules(RuleSet):
    """Each question is asked once, in a turn, and answered once."""

    owner = "user-approval"
    rules: ClassVar = (
        Rule(
            "approval.asked",
            "an approval is asked for outside a turn, without a tool, or under an id in use",
            "Ask while a tool call is under way, under an id of its own.",
            on=("approval/asked",),
            contracts=LATER,
        ),
        Rule(
            "approval.decided",
            "a decision answers no question, comes outside a turn, or is none of the known ones",
            f"Decide each question once, as one of: {', '.join(OUTCOMES)}.",
            on=("approval/decided",),
            contracts=LATER,
        ),
        Rule(
            "approval.policy-unknown",
            "the approval policy is none of the known ones",
            f"Use one of: {', '.join(POLICIES)}.",
            on=("approval/policy",),
            contracts=LATER,
        ),
        Rule(
            "approval.undecided",
            "an approval was asked for and the turn is over without a decision",
            "Record a decision when the turn is aborted too: cancelled.",
            on=("turn/end",),
            contracts=LATER,
            severity=Severity.ADVICE,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        # Seq and line of the questions without an answer, by id.
        self._pending: dict[str, tuple[int, int]] = {}

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {
            "approval/asked": self._asked,
            "approval/decided": self._decided,
            "approval/policy": self._policy,
            "turn/end": self._turn_end,
        }

    def _asked(self, event: SessionEvent, line: int) -> None:
        data = fields(event.data)
        id_ = data.get("id")
        if self.run.timeline.turn is None:
            self.trip("approval.asked", "asked outside any turn", event, line)
        elif not is_filled(data.get("toolName")):
            self.trip("approval.asked", "toolName is empty", event, line)
        elif id_ in self._pending and not self.run.repeating:
            self.trip("approval.asked", f"{shown(id_)} is asked already", event, line)
        if isinstance(id_, str) and len(self._pending) < MAX_PENDING:
            self._pending[id_] = (event.seq, line)

    def _decided(self, event: SessionEvent, line: int) -> None:
        data = fields(event.data)
        id_, outcome = data.get("id"), data.get("outcome")
        known = isinstance(id_, str) and self._pending.pop(id_, None) is not None
        if self.run.timeline.turn is None:
            self.trip("approval.decided", "decided outside any turn", event, line)
        elif outcome not in OUTCOMES:
            self.trip("approval.decided", f"the outcome is {shown(outcome)}", event, line)
        elif not known and len(self._pending) < MAX_PENDING and not self.run.unseen(event):
            self.trip("approval.decided", f"{shown(id_)} was not asked", event, line)

    def _policy(self, event: SessionEvent, line: int) -> None:
        policy = fields(event.data).get("policy")
        if policy not in POLICIES:
            self.trip("approval.policy-unknown", f"the policy is {shown(policy)}", event, line)

    def _turn_end(self, event: TurnEnd, _line: int) -> None:
        if event.data.turn != self.run.timeline.turn:
            return
        pending, self._pending = self._pending, {}
        for id_, (seq, line) in pending.items():
            self.run.report(
                "approval.undecided",
                f"{shown(id_)} was never decided",
                seq=seq,
                line=line,
                expected="an approval/decided",
                got="none",
            )
