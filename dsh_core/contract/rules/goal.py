"""Rules of the ``goal`` package: what becomes of a session's goal, change by change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dsh_core.contract.fields import fields, shown
from dsh_core.contract.goals import (
    ACTIVE,
    BLOCKED,
    CHANGE,
    COMPLETE,
    PAUSED,
    Goal,
    GoalFold,
    Round,
    malformed,
    read_round,
    snapshot,
)
from dsh_core.contract.rule import LATER, Rule, RuleSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.findings import Finding
    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import SessionEvent, UserMessage


class Rules(RuleSet):
    """One goal at a time; each change follows from the one before."""

    owner = "goal"
    rules: ClassVar = (
        Rule(
            "goal.shape",
            "a change of the goal has a field missing, too many, or of no legal value",
            "Change goals through their package only.",
            on=(CHANGE,),
            contracts=LATER,
        ),
        Rule(
            "goal.create",
            "a goal is not created afresh, or while another is under way",
            "Complete or clear the current goal, and begin with revision 1 under a new id.",
            on=(CHANGE,),
            contracts=LATER,
        ),
        Rule(
            "goal.revision",
            "a change does not follow from the goal's last revision",
            "Read the goal again before it is changed: something else has changed it.",
            on=(CHANGE,),
            contracts=LATER,
        ),
        Rule(
            "goal.phase",
            "an operation changes what it may not, or does not fit the goal's phase",
            "Pause and block only what is active, resume only while rounds are left, and change "
            "objective and rounds with an edit.",
            on=(CHANGE,),
            contracts=LATER,
        ),
        Rule(
            "goal.clear",
            "a goal is cleared that is not current, or before its last change",
            "Read the goal again before it is cleared.",
            on=(CHANGE,),
            contracts=LATER,
        ),
        Rule(
            "goal.round",
            "a round is not the next one of the active goal",
            "Start rounds one by one, while the goal is active and not for more than it allows.",
            on=("user/message",),
            contracts=LATER,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start without a goal."""
        super().__init__(run)
        self._fold = GoalFold(run)
        # What is wrong with the last change, and the revision that it should have.
        self._doubt: tuple[Finding | None, int] = (None, 0)

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {CHANGE: self._change, "user/message": self._message}

    def _change(self, event: SessionEvent, line: int) -> None:
        fold = self._fold
        if fold.repeats():
            return
        data = fields(event.data)
        problem = malformed(data)
        if not problem:
            self._correct(event, (data.get("cleared") or data["goal"])["revision"] - 1)
        self._doubt = (None, 0)
        if problem:
            self._report_shape(problem, data, event, line)
        elif data["operation"] == "create":
            self._judge_create(data, event, line)
        elif fold.known:
            rule, problem = self._judge_later(data)
            if problem and not self.run.unseen(event):
                finding = self.trip(rule, problem, event, line)
                if fold.current is not None:
                    self._doubt = finding, fold.current.revision + 1
        fold.change(data)

    def _correct(self, event: SessionEvent, revision: float) -> None:
        """Go on from the revision that the last change should have had, if the writer does."""
        (finding, due), goal = self._doubt, self._fold.current
        if finding is not None and goal is not None and due == revision != goal.revision:
            finding.fold(event.seq)
            self._fold.current = goal._replace(revision=due)

    def _report_shape(
        self, problem: str, data: Mapping[str, Any], event: SessionEvent, line: int
    ) -> None:
        record = data.get("goal")
        id_ = record.get("id") if isinstance(record, dict) else None
        # A goal keeps its faults: each change describes it anew.
        key = ("goal-shape", problem, id_ if isinstance(id_, str) else None)
        if not self.run.explained(event, key):
            self.run.blame_for_good(self.trip("goal.shape", problem, event, line), key)

    def _judge_create(self, data: Mapping[str, Any], event: SessionEvent, line: int) -> None:
        fold, goal = self._fold, snapshot(data)
        id_ = shown(data["goal"]["id"])
        problem = ""
        if goal.revision != 1:
            problem = f"a new goal has revision {goal.revision}"
        elif goal.phase != ACTIVE:
            problem = f"a new goal is {goal.phase}"
        elif data["roundsStarted"]:
            problem = f"a new goal has started {shown(data['roundsStarted'])} rounds"
        elif data["goal"]["id"] in fold.used:
            problem = f"{id_} was the id of a goal before"
        elif fold.known and fold.current is not None and fold.current.phase != COMPLETE:
            if self.run.unseen(event):
                return
            problem = f"{id_} is created while another goal is {fold.current.phase}"
        if problem:
            self._doubt = self.trip("goal.create", problem, event, line), 1

    def _judge_later(self, data: Mapping[str, Any]) -> tuple[str, str]:
        """Return what is wrong with a change of a goal that was there before, and which rule says.

        Args:
            data: A well-formed change; what is wrong is empty if nothing is.
        """
        clears, goal = data["operation"] == "clear", self._fold.current
        named, rule = (data["cleared"], "goal.clear") if clears else (data["goal"], "goal.revision")
        if goal is None:
            return rule, "there is no goal"
        if hash(named["id"]) != goal.id:
            return rule, f"{shown(named['id'])} is not the current goal"
        if named["revision"] != goal.revision + 1:
            return rule, f"revision {shown(named['revision'])} follows revision {goal.revision}"
        if clears:
            early = data["clearedAt"] < goal.updated
            return rule, "clearedAt is before the last change" if early else ""
        problem = self._kept_problem(goal, data)
        return (rule, problem) if problem else ("goal.phase", self._phase_problem(goal, data))

    def _kept_problem(self, goal: Goal, data: Mapping[str, Any]) -> str:
        if data["createdAt"] != goal.created:
            return "createdAt is another one"
        if data["updatedAt"] < goal.updated:
            return "updatedAt is before the last change"
        rounds, known = data["roundsStarted"], self._fold.rounds
        return "" if rounds == known else f"roundsStarted is {shown(rounds)}, and not {known}"

    def _phase_problem(self, goal: Goal, data: Mapping[str, Any]) -> str:
        new, operation = snapshot(data), data["operation"]
        if operation == "edit":
            return "" if goal.same_state(new) else "an edit changes the phase, or its reason"
        if not goal.same_task(new):
            return f"a {operation} changes the objective, or how many rounds it may take"
        before, after = goal.phase, new.phase
        legal = {
            "pause": before == ACTIVE and after == PAUSED,
            "resume": before != COMPLETE and after == ACTIVE,
            "complete": before != COMPLETE and after == COMPLETE,
            "block": before == ACTIVE and after == BLOCKED,
        }
        if not legal[operation]:
            return f"a {operation} leads from {before} to {after}"
        if operation == "resume" and self._fold.rounds >= new.most:
            return f"a resume after {self._fold.rounds} of {new.most} rounds"
        return ""

    def _message(self, event: UserMessage, line: int) -> None:
        fold = self._fold
        source = fold.round(event)
        if source is None:
            return
        begun = read_round(source)
        if begun is None:
            names = ("goalId", "revision", "round")
            odd = ", ".join(f"{name} {shown(source.get(name))}" for name in names)
            self.trip("goal.round", f"no round has {odd}", event, line)
            return
        self._correct(event, begun.revision)
        problem = self._task_problem(begun, source) if fold.known else ""
        lasts = bool(problem)
        if fold.known and not problem:
            problem = self._number_problem(begun)
        if problem and not self.run.unseen(event):
            self.trip("goal.round", problem, event, line)
        if lasts:
            # The rounds that follow are of the same kind.
            fold.known = False
        fold.start(source)

    def _task_problem(self, begun: Round, source: Mapping[str, Any]) -> str:
        """Say what is wrong with the goal that a round works on."""
        goal = self._fold.current
        if goal is None:
            return "there is no goal"
        if begun.goal != goal.id:
            return f"{shown(source['goalId'])} is not the current goal"
        if begun.revision != goal.revision:
            return f"the goal has revision {goal.revision}, not {begun.revision}"
        return "" if goal.phase == ACTIVE else f"the goal is {goal.phase}"

    def _number_problem(self, begun: Round) -> str:
        """Say what is wrong with the number of a round of the active goal."""
        goal, rounds, number = self._fold.current, self._fold.rounds, begun.number
        if number != rounds + 1:
            return f"round {number} follows round {rounds}"
        if goal is None or number <= goal.most:
            return ""
        return f"round {number} of {goal.most}"
