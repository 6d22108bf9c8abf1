"""Rules of the ``permission-presets`` package: which named set of permissions is in force."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dsh_core.contract.fields import fields, shown
from dsh_core.contract.rule import LATER, Rule, RuleSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.rule import Handler
    from dsh_core.events import SessionEvent


class Rules(RuleSet):
    """A preset is one of those that are configured, which no log says."""

    owner = "permission-presets"
    rules: ClassVar = (
        Rule(
            "permission.preset-unknown",
            "the permission preset is none of the configured ones",
            "Configure the preset, or choose one that is; name those that are with `--preset`.",
            on=("permission/preset",),
            contracts=LATER,
        ),
    )

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type; nothing while no names are known to compare with."""
        return {} if self.run.presets is None else {"permission/preset": self._preset}

    def _preset(self, event: SessionEvent, line: int) -> None:
        preset = fields(event.data).get("preset")
        if not isinstance(preset, str) or preset not in (self.run.presets or ()):
            self.trip("permission.preset-unknown", f"the preset is {shown(preset)}", event, line)
