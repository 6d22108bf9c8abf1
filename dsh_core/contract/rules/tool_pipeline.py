"""Rules of the ``tools`` package about executions: their stages, and what becomes of the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from dsh_core.contract.fields import shown
from dsh_core.contract.live import LiveFact, ResultMutated, StatusesUnknown, ToolStage
from dsh_core.contract.rule import Rule, RuleSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.rule import LiveHandler
    from dsh_core.contract.run import Run

MAX_EXECUTIONS: Final = 64
"""Executions of one session whose stages are followed."""

BEFORE: Final[Mapping[str, tuple[str | None, ...]]] = {
    "pre-execute": (None,),
    "execute": ("pre-execute",),
    "post-execute": ("pre-execute", "execute"),
}
"""By stage: what an execution has come to before it, None if it has only begun."""


class Rules(RuleSet):
    """Stages follow each other, and a result is final once it is handed out."""

    owner = "tools"
    rules: ClassVar = (
        Rule(
            "tools.pipeline-order",
            "the execution of a tool comes to a stage twice, or before the stage in front of it",
            "Execute each execution once; make a new one for another attempt.",
            source="live",
        ),
        Rule(
            "tools.result-not-frozen",
            "a tool's result can be changed after it is handed out, or its call has no name or id",
            "Change a result inside tools/execute only, or return one of your own from there.",
            source="live",
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with executions of which nothing is known."""
        super().__init__(run)
        self._stages: dict[int, str] = {}
        # Whether stages may have been missed of what is not followed.
        self._missed = False

    def live(self) -> Mapping[type[LiveFact], LiveHandler]:
        """Return what to call by fact."""
        return {
            ToolStage: self._stage,
            ResultMutated: self._mutated,
            StatusesUnknown: lambda _: self._miss(),
        }

    def _miss(self) -> None:
        self._stages.clear()
        self._missed = True

    def _stage(self, fact: ToolStage) -> None:
        last, due = self._stages.pop(fact.execution, None), BEFORE.get(fact.stage)
        if due is None:
            self._result(fact)
            return
        if last not in due and (last is not None or not self._missed):
            came = last or "no other stage"
            problem = f"{fact.stage} of call {shown(fact.call_id)} after {came}"
            wanted = " or ".join(stage or "no other stage" for stage in due)
            self._report("tools.pipeline-order", problem, fact.call_id, wanted, came)
        self._stages[fact.execution] = fact.stage
        if len(self._stages) > MAX_EXECUTIONS:
            del self._stages[next(iter(self._stages))]
            self._missed = True

    def _result(self, fact: ToolStage) -> None:
        problem = ""
        if fact.changeable:
            problem = f"the {' and the '.join(fact.changeable)} can be changed"
        elif not fact.name:
            problem = "the call names no tool"
        elif not fact.call_id:
            problem = "the call has no id"
        if problem:
            self._report("tools.result-not-frozen", problem, fact.call_id)

    def _mutated(self, fact: ResultMutated) -> None:
        problem = f"{fact.operation} on the result of call {shown(fact.call_id)}"
        self._report("tools.result-not-frozen", problem, fact.call_id)

    def _report(
        self, rule: str, problem: str, call_id: str, wanted: str = "", came: str = ""
    ) -> None:
        self.run.report(
            rule,
            problem,
            seq=self.run.last_seq,
            line=self.run.last_line,
            call_id=call_id or None,
            expected=wanted,
            got=came,
        )
