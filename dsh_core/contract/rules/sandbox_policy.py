"""Rules of the ``sandbox-policy`` package: what a session may touch."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from dsh_core.contract.fields import fields, shown
from dsh_core.contract.rule import LATER, Rule, RuleSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.rule import Handler
    from dsh_core.events import SessionEvent

MODES: Final = ("read-only", "workspace-write", "danger-full-access")


class Rules(RuleSet):
    """The sandbox has three modes."""

    owner = "sandbox-policy"
    rules: ClassVar = (
        Rule(
            "sandbox.mode-unknown",
            "the sandbox mode is none of the known ones",
            f"Use one of: {', '.join(MODES)}.",
            on=("sandbox/mode",),
            contracts=LATER,
        ),
    )

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {"sandbox/mode": self._mode}

    def _mode(self, event: SessionEvent, line: int) -> None:
        mode = fields(event.data).get("mode")
        if mode not in MODES:
            self.trip("sandbox.mode-unknown", f"the mode is {shown(mode)}", event, line)
