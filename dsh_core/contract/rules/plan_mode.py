"""Rules of the ``plan-mode`` package: whether the agent plans or acts."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dsh_core.contract.fields import fields, shown
from dsh_core.contract.rule import LATER, Rule, RuleSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.rule import Handler
    from dsh_core.events import SessionEvent


class Rules(RuleSet):
    """Plan mode is on or off."""

    owner = "plan-mode"
    rules: ClassVar = (
        Rule(
            "plan.mode-invalid",
            "plan mode is neither on nor off",
            "Say with true or false whether it is active.",
            on=("plan/mode",),
            contracts=LATER,
        ),
    )

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {"plan/mode": self._mode}

    def _mode(self, event: SessionEvent, line: int) -> None:
        active = fields(event.data).get("active")
        if not isinstance(active, bool):
            self.trip("plan.mode-invalid", f"active is {shown(active)}", event, line)
