"""Rules of the ``subagent`` package: the children that a session knows of."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from dsh_core.contract.fields import is_whole, plain, shown
from dsh_core.contract.newest import Ids
from dsh_core.contract.rule import Rule, RuleSet
from dsh_core.events import Contract
from dsh_core.parts import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import EndSeed, SubagentCatalog
    from dsh_core.payloads import CatalogData

V4 = (Contract.V4,)
VERSIONS: Final = (0, 1, 2)
EXTERNAL: Final = 2
"""The version of records about children outside of dsh."""

MODES: Final = ("continuable", "one-shot", "external", "unknown")
MAX_CHILDREN: Final = 256
"""How many children are remembered."""


class Rules(RuleSet):
    """Each child is recorded once, in a way that its version knows."""

    owner = "subagent"
    rules: ClassVar = (
        Rule(
            "catalog.child",
            "a child session is recorded twice, or with a mode that the record's version lacks",
            "Record each child once; version 2 is for mode external only, and a continuable child"
            " has a label.",
            on=("subagent/catalog",),
            contracts=V4,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        self._children = Ids(MAX_CHILDREN)

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {"subagent/catalog": self._catalog, "session/end-seed": self._end_seed}

    def _end_seed(self, event: EndSeed, _line: int) -> None:
        if event.data.inherited:
            self._children = Ids(MAX_CHILDREN)

    def _catalog(self, event: SubagentCatalog, line: int) -> None:
        if self.run.repeating or not self.run.is_own(event):
            return
        child = plain(event.data.raw_child_id)
        problem = record_problem(event.data)
        if not isinstance(child, str):
            problem = f"childId is {shown(child)}"
        elif not problem and child in self._children:
            problem = f"child {shown(child)} is recorded already"
        if isinstance(child, str):
            self._children.add(child)
        if problem:
            self.trip("catalog.child", problem, event, line, own=True)


def record_problem(data: CatalogData) -> str:
    """Return what is wrong with the record of a child, whoever it is."""
    version, mode, label = plain(data.version), plain(data.mode), plain(data.label)
    if isinstance(version, bool) or version not in VERSIONS:
        return f"version is {shown(version)}"
    if mode not in MODES:
        return f"mode is {shown(mode)}"
    if (version == EXTERNAL) != (mode == "external") or (not version and mode == "unknown"):
        return f"mode {shown(mode)} in version {shown(version)}"
    if not is_whole(data.child_created_at):
        return "childCreatedAt is no time"
    if not isinstance(label, str) and (mode == "continuable" or data.label is not ABSENT):
        return f"label is {shown(label)}"
    return ""
