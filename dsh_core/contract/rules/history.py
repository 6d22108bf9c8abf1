"""The rule of the ``session`` package about what is logged already."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dsh_core.contract.live import HistoryMutated, LiveFact
from dsh_core.contract.rule import Rule, RuleSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.rule import LiveHandler


class Rules(RuleSet):
    """History stays as it is."""

    owner = "session"
    rules: ClassVar = (
        Rule(
            "agent.history-mutated",
            "somebody was about to change an event that is logged",
            "Copy what you read from a log before you change it.",
            source="live",
        ),
    )

    def live(self) -> Mapping[type[LiveFact], LiveHandler]:
        """Return what to call by fact."""
        return {HistoryMutated: self._mutated}

    def _mutated(self, fact: HistoryMutated) -> None:
        self.run.report(
            "agent.history-mutated",
            f"{fact.operation} on the event of seq {fact.seq}",
            seq=fact.seq,
            expected="history as it was logged",
            got=fact.operation,
        )
