"""Rules of the ``agent`` package: what an agent says it is doing."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from dsh_core.contract.fields import shown
from dsh_core.contract.live import LiveFact, StatusChanged, StatusesUnknown
from dsh_core.contract.rule import Rule, RuleSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.rule import LiveHandler
    from dsh_core.contract.run import Run

MAX_AGENTS: Final = 256
"""Agents of one session whose status is followed."""

DISPOSED: Final = "disposed"


class Rules(RuleSet):
    """Status transitions; an agent's first status is free."""

    owner = "agent"
    rules: ClassVar = (
        Rule(
            "agent.status-noop",
            "an agent reports the status that it has already",
            "Emit a status only when it changes; a second driver may run the agent.",
            source="live",
        ),
        Rule(
            "agent.status-after-disposed",
            "an agent that is disposed reports another status",
            "Something still drives the agent: end its loop before it is disposed.",
            source="live",
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with agents of which nothing is known."""
        super().__init__(run)
        self._known: dict[str, str] = {}

    def live(self) -> Mapping[type[LiveFact], LiveHandler]:
        """Return what to call by fact."""
        return {StatusChanged: self._status, StatusesUnknown: lambda _: self._known.clear()}

    def _status(self, fact: StatusChanged) -> None:
        known = self._known.get(fact.agent)
        if known == DISPOSED:
            self._report("agent.status-after-disposed", fact, known)
            return
        if known == fact.status:
            self._report("agent.status-noop", fact, known)
        if known is not None or len(self._known) < MAX_AGENTS:
            self._known[fact.agent] = fact.status

    def _report(self, rule: str, fact: StatusChanged, known: str) -> None:
        self.run.report(
            rule,
            f"agent {shown(fact.agent)} reports {shown(fact.status)} after {shown(known)}",
            seq=self.run.last_seq,
            line=self.run.last_line,
            expected="another status" if rule == "agent.status-noop" else "no further status",
            got=shown(fact.status),
        )
