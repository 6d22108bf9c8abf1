"""Rules of the ``commands`` package: what a user typed, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from dsh_core.contract.fields import fields, is_filled, is_whole, shown
from dsh_core.contract.newest import Ids, Seqs
from dsh_core.contract.rule import LATER, Rule, RuleSet
from dsh_core.events import Contract

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import SessionEvent

MAX_RUNS: Final = 256
"""How many commands are followed."""

MAX_SEQS: Final = 512
"""How many events of commands are known as such."""

NAMELESS: Final = "command-run"
"""Blames a finding for the ends of a command of which no run is known."""


class Rules(RuleSet):
    """Each command runs once, and what is done was run before."""

    owner = "commands"
    rules: ClassVar = (
        Rule(
            "command.run-duplicate",
            "a command runs under an id that was used before, or under none",
            "Give each run a fresh commandId.",
            on=("command/run",),
            contracts=LATER,
        ),
        Rule(
            "command.done-unpaired",
            "a command is done that never ran, or its result cites what cannot be one",
            "Log command/run first; cite an earlier event that is none of a command, on success"
            " only.",
            on=("command/done",),
            contracts=LATER,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        self._runs = Ids(MAX_RUNS)
        self._seqs = Seqs(MAX_SEQS)

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {"command/run": self._run, "command/done": self._done}

    def _run(self, event: SessionEvent, line: int) -> None:
        if self.run.repeating:
            return
        id_ = fields(event.data).get("commandId")
        key = _key(id_)
        if self.run.contract is Contract.V4 and not is_filled(id_):
            finding = self.trip("command.run-duplicate", "commandId is empty", event, line)
            self.run.blame(finding or self.run.cause, NAMELESS)
        elif key in self._runs:
            self.trip("command.run-duplicate", f"{shown(id_)} has run already", event, line)
        self._runs.add(key)
        self._seqs.add(event.seq)

    def _done(self, event: SessionEvent, line: int) -> None:
        if self.run.repeating:
            return
        data = fields(event.data)
        id_ = data.get("commandId")
        key = _key(id_)
        problem = self._source_problem(event, data)
        known = key in self._runs or self._runs.dropped
        if not known and self.run.explained(event, NAMELESS, (NAMELESS, key)) is None:
            problem = problem if self.run.unseen(event) else f"{shown(id_)} never ran"
        if problem:
            finding = self.trip("command.done-unpaired", problem, event, line)
            # That it is done may be said more than once.
            self.run.blame(finding, (NAMELESS, key))
        self._seqs.add(event.seq)

    def _source_problem(self, event: SessionEvent, data: Mapping[str, Any]) -> str:
        """Return what is wrong with the event that a command cites as its result."""
        if "sourceEventSeq" not in data:
            return ""
        seq, kind = data["sourceEventSeq"], data.get("kind")
        if not is_whole(seq) or seq >= event.seq:
            return f"sourceEventSeq {shown(seq)} is not earlier"
        if kind != "success":
            return f"an event is cited, but the kind is {shown(kind)}"
        return f"sourceEventSeq {shown(seq)} is a command's own event" if seq in self._seqs else ""


def _key(id_: object) -> Hashable:
    """Return what stands for an id, of whatever kind it is."""
    return (type(id_).__name__, None if isinstance(id_, dict | list) else id_)
