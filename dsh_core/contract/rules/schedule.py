"""Rules of the ``schedule`` package: reminders are created, dispatched and deleted, by their ids.

Later generations may give a reminder a title, and let one recur every minute.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from dsh_core.contract.fields import fields, is_trimmed, is_whole, shown
from dsh_core.contract.newest import Ids
from dsh_core.contract.rule import LATER, Rule, RuleSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import EndSeed, SessionEvent

VERSION: Final = 1
LEAST_EVERY: Final = 300
LEAST_EVERY_LATER: Final = 60
"""The shortest interval of a recurring reminder in s, in format v0 and from v1 on."""

MAX_ACTIVE: Final = 32
"""How many reminders are followed."""

MAX_TAKEN: Final = 256
"""How many ids are remembered as taken, the newest ones."""

_RECORD: Final = ("id", "kind", "prompt", "scheduledAt")
_SECONDS: Final[Mapping[str, str]] = {"after": "afterSeconds", "at": "", "every": "everySeconds"}
"""The kinds of reminders, and the field that only one kind has."""

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):\d\d:\d\d\.\d{3}Z", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_LAST: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MS
"""The last instant that has a year of four digits."""


class Reminder(NamedTuple):
    """A reminder that is active.

    Attributes:
        interval: How often it recurs, in ms: 0 for never, negative if that is not known.
        due: When it is due next, in ms since 1970.
    """

    interval: int
    due: int


UNKNOWN: Final = Reminder(-1, 0)
"""A reminder of which nothing can be said."""


class Rules(RuleSet):
    """The reminders that a session made itself; what a fork inherits is not its own."""

    owner = "schedule"
    rules: ClassVar = (
        Rule(
            "schedule.fold",
            "a reminder's record is malformed, or does not follow from the records before it",
            "Create a reminder under an id of its own; dispatch and delete only active ones, and "
            "recurring ones not before they are due.",
            on=("schedule/change",),
            contracts=LATER,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        # By the hashes of their ids.
        self._active: dict[int, Reminder] = {}
        self._taken = Ids(MAX_TAKEN)
        self._more_active = False
        self._later = (run.header.version or 0) > 0

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {"schedule/change": self._change, "session/end-seed": self._end_seed}

    def _end_seed(self, event: EndSeed, _line: int) -> None:
        if event.data.inherited:
            self._active, self._taken = {}, Ids(MAX_TAKEN)
            self._more_active = False

    def _change(self, event: SessionEvent, line: int) -> None:
        if self.run.repeating or not self.run.is_own(event):
            return
        data = fields(event.data)
        fault = _malformed(data, later=self._later) or self._misplaced(data, event)
        if fault:
            self.trip("schedule.fold", fault, event, line, own=True)
        self._take_in(data)

    def _misplaced(self, data: Mapping[str, Any], event: SessionEvent) -> str:
        """Say what is wrong with a well-formed record after those before, empty if nothing is."""
        if data["operation"] == "create":
            id_ = data["schedule"]["id"]
            return f"{shown(id_)} is created again" if id_ in self._taken else ""
        verb = "deleted" if data["operation"] == "delete" else "dispatched"
        reminder = self._active.get(hash(data["id"]))
        if reminder is None:
            if self._more_active or self.run.unseen(event):
                return ""
            return f"{shown(data['id'])} is {verb} and not active"
        fault = _undue(reminder, data) if verb == "dispatched" else ""
        return f"{shown(data['id'])} {fault}" if fault else ""

    def _take_in(self, data: Mapping[str, Any]) -> None:
        """Go on from what a record says, whether it is right or not."""
        operation, record = data.get("operation"), data.get("schedule")
        id_ = data.get("id")
        if operation == "create" and isinstance(record, dict) and isinstance(record.get("id"), str):
            self._create(record["id"], record)
        elif operation == "delete" and isinstance(id_, str):
            self._active.pop(hash(id_), None)
        elif operation == "dispatch" and isinstance(id_, str):
            self._dispatch(hash(id_), data.get("acceptedAt"))

    def _create(self, id_: str, record: Mapping[str, Any]) -> None:
        self._taken.add(id_)
        due, every = _instant(record.get("scheduledAt")), record.get("everySeconds")
        whole = not _record_fault(record, later=True)
        interval = int(every * 1000) if is_whole(every) else 0
        reminder = Reminder(interval, due) if whole and due is not None else UNKNOWN
        self._activate(hash(id_), reminder)

    def _activate(self, key: int, reminder: Reminder) -> None:
        if key in self._active or len(self._active) < MAX_ACTIVE:
            self._active[key] = reminder
        else:
            self._more_active = True

    def _dispatch(self, key: int, accepted_at: object) -> None:
        interval, due = self._active.get(key, UNKNOWN)
        accepted = _instant(accepted_at)
        if interval < 0:
            # Whoever dispatches it takes it for active; it is not reported again.
            self._activate(key, UNKNOWN)
        elif not interval:
            del self._active[key]
        elif accepted is not None and accepted >= due:
            due += ((accepted - due) // interval + 1) * interval
            if due > _LAST:
                del self._active[key]
            else:
                self._active[key] = Reminder(interval, due)


def _undue(reminder: Reminder, data: Mapping[str, Any]) -> str:
    """Say what is wrong with the dispatch of an active reminder, empty if nothing is."""
    accepted = _instant(data["acceptedAt"]) if "acceptedAt" in data else None
    if reminder.interval < 0:
        return ""
    if not reminder.interval:
        return "" if accepted is None else "is due once and has an acceptedAt"
    if accepted is None:
        return "recurs and has no acceptedAt"
    return "is dispatched before it is due" if accepted < reminder.due else ""


def _malformed(data: Mapping[str, Any], *, later: bool) -> str:
    """Say what is wrong with a record as such, empty if nothing is."""
    version, operation = data.get("version"), data.get("operation")
    if not is_whole(version) or version != VERSION:
        return f"the version is {shown(version)}"
    if operation == "create":
        return _keys_fault(data, ("version", "operation", "schedule")) or _record_fault(
            data["schedule"], later=later
        )
    if operation not in ("delete", "dispatch"):
        return f"the operation is {shown(operation)}"
    optional = ("acceptedAt",) if operation == "dispatch" else ()
    fault = _keys_fault(data, ("version", "operation", "id"), optional)
    if not fault and not is_trimmed(data["id"]):
        return "the id is empty or untrimmed"
    if not fault and "acceptedAt" in data and _instant(data["acceptedAt"]) is None:
        return "acceptedAt is no instant in UTC"
    return fault


def _record_fault(record: object, *, later: bool) -> str:
    """Say what is wrong with the record of a new reminder, empty if nothing is."""
    kind = record.get("kind") if isinstance(record, dict) else None
    if not isinstance(record, dict) or not isinstance(kind, str) or kind not in _SECONDS:
        return f"the kind is {shown(kind)}"
    seconds = _SECONDS[kind]
    needed = (*_RECORD, seconds) if seconds else _RECORD
    fault = _keys_fault(record, needed, ("title",) if later else ())
    if fault:
        return fault
    for name in ("id", "prompt"):
        if not is_trimmed(record[name]):
            return f"the {name} is empty or untrimmed"
    if _instant(record["scheduledAt"]) is None:
        return "scheduledAt is no instant in UTC"
    least = 1 if kind != "every" else LEAST_EVERY_LATER if later else LEAST_EVERY
    if not seconds or _is_interval(record[seconds], least, 1000 if kind == "every" else 1):
        return ""
    return f"{seconds} is {shown(record[seconds])}, not a whole number from {least} on"


def _is_interval(value: object, least: int, factor: int) -> bool:
    return is_whole(value, least) and is_whole(value * factor)


def _keys_fault(
    data: Mapping[str, Any], needed: tuple[str, ...], optional: tuple[str, ...] = ()
) -> str:
    for name in needed:
        if name not in data:
            return f"{name} is missing"
    odd = not data.keys() <= {*needed, *optional}
    return "there is a field that does not belong there" if odd else ""


def _instant(value: object) -> int | None:
    """Return a canonical instant in UTC as ms since 1970, None if it is none."""
    if not isinstance(value, str) or not _INSTANT.fullmatch(value):
        return None
    try:
        return (datetime.fromisoformat(value) - _EPOCH) // _MS
    except ValueError:
        return None
