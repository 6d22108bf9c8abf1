"""Rules of the ``tool-workflow`` package: runs of a workflow, and the agents that work in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec import Struct

from dsh_core.contract.fields import is_filled, is_whole, plain, shown
from dsh_core.contract.rule import LATER, Rule, RuleSet
from dsh_core.events import Contract
from dsh_core.parts import ABSENT

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import SessionEvent

FAMILY: Final = "tool-workflow/"
RUN_START: Final = "tool-workflow/run-start"
AGENT_START: Final = "tool-workflow/agent-start"
AGENT_END: Final = "tool-workflow/agent-end"
RUN_END: Final = "tool-workflow/run-end"
OUTCOMES: Final = ("completed", "failed", "cancelled")
REASONS: Final = ("completed", "cancelled", "error")
NAMELESS: Final = 0
"""Stands for the hash of an id that there is none of."""

MAX_RUNS: Final = 32
"""How many runs are remembered, the newest."""

MAX_MEMBERS: Final = 1024
"""How many members of a run are followed."""


class Rules(RuleSet):
    """Members start and end while their run is open; all of them have ended when it ends."""

    owner = "tool-workflow"
    rules: ClassVar = (
        Rule(
            "workflow.run-start",
            "a run of a workflow has no id or name, or takes the id of another run",
            "Give each run an id of its own.",
            on=(RUN_START,),
            contracts=LATER,
        ),
        Rule(
            "workflow.agent-start",
            "a member starts in no open run, under a number in use, or without label or child",
            "Number the members of a run from 1, and name the session of each.",
            on=(AGENT_START,),
            contracts=LATER,
        ),
        Rule(
            "workflow.agent-end",
            "a member ends that is not at work, or with an outcome that is none of the known ones",
            f"End each member once, as one of: {', '.join(OUTCOMES)}.",
            on=(AGENT_END,),
            contracts=LATER,
        ),
        Rule(
            "workflow.run-end",
            "a run ends that is not open, while members are at work, or for no known reason",
            f"End the members first, then the run, as one of: {', '.join(REASONS)}.",
            on=(RUN_END,),
            contracts=LATER,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        self._runs: dict[int, _Run] = {}
        self._dropped = False

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        if self.run.contract is Contract.SEED:
            return {}
        return _Family(
            {
                RUN_START: self._run_start,
                AGENT_START: self._agent_start,
                AGENT_END: self._agent_end,
                RUN_END: self._run_end,
                FAMILY: self._other,
            }
        )

    def _read(self, event: SessionEvent) -> Mapping[str, Any] | None:
        """Return the payload of an event that is news."""
        if self.run.repeating:
            return None
        data = plain(event.data)
        if isinstance(data, dict):
            return data
        # It is no object, which is a finding of its own. It may have been of any run.
        self._dropped = True
        for one in self._runs.values():
            one.vague = True
        return None

    def _report(
        self, rule: str, problem: str, event: SessionEvent, line: int, data: Mapping[str, Any]
    ) -> None:
        """Report a fault, unless the run or its member is at fault already."""
        run, id_, seq = self.run, data.get("runId"), data.get("seq")
        whole: Hashable = ("workflow", _hash(id_))
        member: Hashable = ("workflow", _hash(id_), seq if is_whole(seq) else None)
        known = _hash(id_) in self._runs
        # One that is not known may have started without a name.
        if run.explained(event, whole, member if known else ("workflow", NAMELESS)):
            return
        finding = self.trip(rule, problem, event, line)
        of_run = rule in ("workflow.run-start", "workflow.run-end") or not known
        run.blame(finding, whole if of_run else member)

    def _run_start(self, event: SessionEvent, line: int) -> None:
        data = self._read(event)
        if data is None:
            return
        id_ = data.get("runId")
        if not is_filled(id_):
            self._report("workflow.run-start", "runId is empty", event, line, data)
            return
        if not is_filled(data.get("name")):
            self._report("workflow.run-start", "name is empty", event, line, data)
        elif _hash(id_) in self._runs:
            self._report("workflow.run-start", f"{shown(id_)} starts again", event, line, data)
        self._take_in(id_, vague=False)

    def _take_in(self, id_: object, *, vague: bool) -> _Run | None:
        """Follow a run from here on; what has no id cannot be followed."""
        if not is_filled(id_):
            return None
        new = self._runs[_hash(id_)] = _Run(self.run.gaps, vague=vague)
        if len(self._runs) > MAX_RUNS:
            del self._runs[next(iter(self._runs))]
            self._dropped = True
        return new

    def _is_vague(self, known: _Run) -> bool:
        """Whether events of a run may be missing."""
        return known.vague or known.gaps != self.run.gaps

    def _closed(self, event: SessionEvent, data: Mapping[str, Any]) -> str:
        """Say that an event names no run that is open; nothing if it does."""
        id_ = data.get("runId")
        if not is_filled(id_):
            return "runId is empty"
        known = self._runs.get(_hash(id_))
        if known is None:
            lost = self._dropped or self.run.unseen(event)
            return "" if lost else f"{shown(id_)} has not started"
        return f"{shown(id_)} is over" if known.over else ""

    def _agent_start(self, event: SessionEvent, line: int) -> None:
        data = self._read(event)
        if data is None:
            return
        seq, label, phase = data.get("seq"), data.get("label"), data.get("phase", "")
        known = self._runs.get(_hash(data.get("runId")))
        problem = self._closed(event, data)
        if problem:
            pass
        elif not is_whole(seq, 1):
            problem = f"the number of a member is {shown(seq)}"
        elif not isinstance(label, str):
            problem = f"the label of member {shown(seq)} is {shown(label)}"
        elif not isinstance(phase, str):
            problem = f"the phase of member {shown(seq)} is {shown(phase)}"
        elif not is_filled(data.get("childId")):
            problem = f"member {shown(seq)} has no childId"
        elif known is not None and known.has(seq):
            problem = f"member {shown(seq)} starts again"
        if problem:
            self._report("workflow.agent-start", problem, event, line, data)
        known = known or self._take_in(data.get("runId"), vague=True)
        if known is not None:
            known.start(seq)

    def _agent_end(self, event: SessionEvent, line: int) -> None:
        data = self._read(event)
        if data is None:
            return
        seq, outcome = data.get("seq"), data.get("outcome")
        known = self._runs.get(_hash(data.get("runId")))
        problem = self._closed(event, data)
        if problem:
            pass
        elif not is_whole(seq, 1):
            problem = f"the number of a member is {shown(seq)}"
        elif outcome not in OUTCOMES:
            problem = f"the outcome of member {shown(seq)} is {shown(outcome)}"
        elif known is not None and known.has(seq):
            problem = "" if known.works(seq) else f"member {shown(seq)} ends again"
        elif known is not None and seq <= MAX_MEMBERS and not self._is_vague(known):
            problem = f"member {shown(seq)} has not started"
        if problem:
            self._report("workflow.agent-end", problem, event, line, data)
        known = known or self._take_in(data.get("runId"), vague=True)
        if known is not None:
            known.end(seq)

    def _run_end(self, event: SessionEvent, line: int) -> None:
        data = self._read(event)
        if data is None:
            return
        reason = data.get("stopReason")
        known = self._runs.get(_hash(data.get("runId")))
        problem = self._closed(event, data)
        if problem:
            pass
        elif reason not in REASONS:
            problem = f"the reason is {shown(reason)}"
        elif known is not None and known.working and not self._is_vague(known):
            problem = f"the run ends while {known.working.bit_count()} of its members work"
        if problem:
            self._report("workflow.run-end", problem, event, line, data)
        if known is not None:
            known.over, known.started, known.working = True, 0, 0

    def _other(self, event: SessionEvent, line: int) -> None:
        """Judge an event of the package that nobody knows; dsh itself may skip ignorable ones."""
        key = ("workflow-type", hash(event.type))
        if event.ignorable is ABSENT and not self.run.explained(event, key):
            problem = f"there is no {shown(event.type)}"
            self.run.blame(self.trip("workflow.run-end", problem, event, line), key)


class _Family(dict[str, Any]):
    """What to call by event type, also for types of the package that nobody knows."""

    def __contains__(self, kind: object) -> bool:
        """Whether a type is the package's."""
        return isinstance(kind, str) and kind.startswith(FAMILY)

    def __missing__(self, kind: str) -> Handler:
        """Return what to call for a type that nobody knows."""
        if kind not in self:
            raise KeyError(kind)
        found: Handler = self[FAMILY]
        return found


class _Run(Struct, gc=False):
    """A run; bit n stands for member n.

    Attributes:
        gaps: How many gaps there were when it was first seen.
        started: Which members have started.
        working: Which of them have not ended.
        over: Whether it has ended.
        vague: Whether its start, or an event that may have been its, was not seen.
    """

    gaps: int
    started: int = 0
    working: int = 0
    over: bool = False
    vague: bool = False

    def has(self, seq: float) -> bool:
        """Whether a member has started."""
        return bool(self.started >> int(seq) & 1)

    def works(self, seq: float) -> bool:
        """Whether a member has not ended."""
        return bool(self.working >> int(seq) & 1)

    def start(self, seq: object) -> None:
        """Take in that a member starts."""
        if is_whole(seq, 1) and seq <= MAX_MEMBERS:
            self.started |= 1 << int(seq)
            self.working |= 1 << int(seq)

    def end(self, seq: object) -> None:
        """Take in that a member ends."""
        if is_whole(seq, 1) and seq <= MAX_MEMBERS:
            self.started |= 1 << int(seq)
            self.working &= ~(1 << int(seq))


def _hash(id_: object) -> int:
    return hash(id_) if is_filled(id_) else NAMELESS
