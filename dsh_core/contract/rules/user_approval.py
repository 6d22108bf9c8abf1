"""Rules of the ``user-approval`` package: what was asked, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

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
FORKED: Final = "forked"
"""How a turn ends that goes on in the session that the fork was made of."""

MAX_PENDING: Final = 64
"""How many questions are followed."""


class Question(NamedTuple):
    """A question without an answer.

    Attributes:
        name: Its id as messages show it.
        seq: Seq of the event that asked it.
        line: Its line.
        gaps: How many gaps there were when it was asked.
        due: Whether its turn has not ended yet.
    """

    name: str
    seq: int
    line: int
    gaps: int
    due: bool = True


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
        # The questions without an answer, by the hashes of their ids.
        self._pending: dict[int, Question] = {}
        # Whether there are questions that are not among them.
        self._more = False

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {
            "approval/asked": self._asked,
            "approval/decided": self._decided,
            "approval/policy": self._policy,
            "turn/end": self._turn_end,
        }

    def _asked(self, event: SessionEvent, line: int) -> None:
        if self._repeats():
            return
        data = fields(event.data)
        id_ = data.get("id")
        key = hash(id_) if isinstance(id_, str) else None
        if self.run.timeline.turn is None:
            self._report_outside("approval.asked", "asked outside any turn", event, line)
        elif not is_filled(data.get("toolName")):
            self.trip("approval.asked", "toolName is empty", event, line)
        elif key in self._pending and self._pending[key].gaps == self.run.gaps:
            self.trip("approval.asked", f"{shown(id_)} is asked already", event, line)
        if key is not None and (key in self._pending or len(self._pending) < MAX_PENDING):
            self._pending[key] = Question(shown(id_), event.seq, line, self.run.gaps)
        else:
            self._more = True

    def _decided(self, event: SessionEvent, line: int) -> None:
        if self._repeats():
            return
        data = fields(event.data)
        id_, outcome = data.get("id"), data.get("outcome")
        key = hash(id_) if isinstance(id_, str) else None
        known = key is not None and self._pending.pop(key, None) is not None
        if key is None:
            # It may answer any.
            self._excuse()
        if self.run.timeline.turn is None:
            self._report_outside("approval.decided", "decided outside any turn", event, line)
        elif outcome not in OUTCOMES:
            self.trip("approval.decided", f"the outcome is {shown(outcome)}", event, line)
        elif not known and not self._more and not self.run.unseen(event):
            self.trip("approval.decided", f"{shown(id_)} was not asked", event, line)

    def _repeats(self) -> bool:
        """Whether the event at hand lies in a burst of repeated ones."""
        # It may be news after all.
        self._more = self._more or self.run.repeating
        return self.run.repeating

    def _report_outside(self, rule: str, problem: str, event: SessionEvent, line: int) -> None:
        run = self.run
        if not run.explained(event, "outside-turn") and not run.unseen(event):
            run.blame(self.trip(rule, problem, event, line), "outside-turn")

    def _policy(self, event: SessionEvent, line: int) -> None:
        policy = fields(event.data).get("policy")
        if policy not in POLICIES:
            self.trip("approval.policy-unknown", f"the policy is {shown(policy)}", event, line)

    def _turn_end(self, event: TurnEnd, _line: int) -> None:
        run, data = self.run, event.data
        if data.turn != run.timeline.turn or run.repeating:
            return
        for question in self._pending.values():
            if question.due and question.gaps == run.gaps and data.reason.kind != FORKED:
                run.report(
                    "approval.undecided",
                    f"{question.name} was never decided",
                    seq=question.seq,
                    line=question.line,
                    expected="an approval/decided",
                    got="none",
                )
        # They may be decided yet, which the contract allows.
        self._excuse()

    def _excuse(self) -> None:
        """Say no more of the questions that wait."""
        self._pending = {key: one._replace(due=False) for key, one in self._pending.items()}
