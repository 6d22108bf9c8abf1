"""Rules of the ``session-log-deepseek`` package: what a provider has been told of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from dsh_core.contract.fields import fields, is_count, is_filled, shown
from dsh_core.contract.rule import Rule, RuleSet
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import SessionEvent

V4 = (Contract.V4,)
FORMAT: Final = 4
"""The session format whose markers are judged."""


class Rules(RuleSet):
    """A delivery is marked behind what was delivered, in the log of its session."""

    owner = "session-log-deepseek"
    rules: ClassVar = (
        Rule(
            "delivery.marker",
            "a delivery names another session, or events that come later than its marker",
            "Mark a delivery after the fact, under the session's own id.",
            on=("session-log-deepseek/delivery-accepted",),
            contracts=V4,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        # Whether the session itself has written a marker.
        self._own = False

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {"session-log-deepseek/delivery-accepted": self._accepted}

    def _accepted(self, event: SessionEvent, line: int) -> None:
        data = fields(event.data)
        version, through = data.get("sessionFormatVersion", 0), data.get("throughSeq")
        if not is_count(version):
            problem = f"sessionFormatVersion is {shown(version)}"
        elif version != FORMAT:
            return
        elif not is_count(through) or through >= event.seq:
            problem = f"throughSeq is {shown(through)}, which is not earlier"
        elif not is_filled(data.get("sessionId")):
            problem = "sessionId is empty"
        else:
            self._judge_session(event, line, data.get("sessionId"))
            return
        self.trip("delivery.marker", problem, event, line)

    def _judge_session(self, event: SessionEvent, line: int, id_: object) -> None:
        run, row = self.run, self.run.header_row or {}
        due = row.get("id", run.header.id)
        parent = row.get("parentSession", run.header.parent_session)
        child = "parentSession" in row or bool(parent)
        # A stream need not tell where the inherited part ends: what has the parent's name is of it.
        untold = run.source is SourceKind.STREAM and id_ == parent and not self._own
        self._own = self._own or id_ == due
        inherited = child and (untold or not run.is_own(event))
        # Of a log without a header row nobody knows whose it is.
        known = run.header_known or run.source is not SourceKind.LOG
        if known and id_ != due and not inherited:
            self.trip(
                "delivery.marker",
                f"the marker names session {shown(id_)}",
                event,
                line,
                expected=shown(due),
                own=child,
            )
