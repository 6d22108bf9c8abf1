"""Rules of the ``agent-team`` package: members, tasks and messages of the team a session leads.

Records of other teams, inherited ones among them, are none of its business. What is remembered of
ids and other texts are their hashes.
"""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING, Any, ClassVar, Final

from dsh_core.contract.fields import fields, is_whole, shown
from dsh_core.contract.newest import Ids
from dsh_core.contract.rule import LATER, Rule, RuleSet
from dsh_core.events import MAX_SAFE_INTEGER, Contract

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import SessionEvent

MAX_MEMBERS: Final = 64
MAX_TASKS: Final = 128
MAX_EDGES: Final = 256
"""How many blockers of tasks are followed, all in all."""

MAX_MESSAGES: Final = 128
"""How many messages that wait, and how many that were delivered, are remembered: the newest."""

PHASES: Final = ("provisioning", "active", "failed")
_FIXED: Final = ("name", "provider", "context")
"""What a member keeps."""

_NUMBERED: Final = re.compile(r"task-0*(\d+)", re.ASCII)
_MAX_DIGITS: Final = len(str(MAX_SAFE_INTEGER))
_UNKNOWN: Final = 0
"""Stands for what cannot be compared."""


class Table:
    """Rows of whole numbers by a key; arrays keep many of them small.

    Args:
        width: Numbers in a row.
        limit: Most rows.

    Attributes:
        full: Whether there was a row for which there was no place.
    """

    def __init__(self, width: int, limit: int) -> None:
        self._keys = array("q")
        self._columns = [array("q") for _ in range(width)]
        self._limit = limit
        self.full = False

    def get(self, key: int) -> tuple[int, ...] | None:
        """Return the row of a key, None if there is none."""
        try:
            place = self._keys.index(key)
        except ValueError:
            return None
        return tuple(column[place] for column in self._columns)

    def put(self, key: int, *row: int) -> None:
        """Set the row of a key, unless the table is full."""
        if key in self._keys:
            place = self._keys.index(key)
        elif len(self._keys) < self._limit:
            place = len(self._keys)
            self._keys.append(key)
            for column in self._columns:
                column.append(_UNKNOWN)
        else:
            self.full = True
            return
        for column, value in zip(self._columns, row, strict=True):
            column[place] = value

    def pop(self, key: int) -> tuple[int, ...] | None:
        """Return the row of a key and remove it."""
        row = self.get(key)
        if row is not None:
            place = self._keys.index(key)
            for column in (self._keys, *self._columns):
                del column[place]
        return row

    def others(self, key: int, column: int) -> Sequence[int]:
        """Return what the rows of other keys have in a column."""
        return [
            value
            for other, value in zip(self._keys, self._columns[column], strict=True)
            if other != key
        ]


class Rules(RuleSet):
    """What a session says of its own team."""

    owner = "agent-team"
    rules: ClassVar = (
        Rule(
            "team.member",
            "a member takes the name of another, changes what it keeps, or skips a phase",
            "Give each member a name of its own; it begins as provisioning, and becomes active or "
            "failed once.",
            on=("team/member",),
            contracts=LATER,
        ),
        Rule(
            "team.task",
            "a task is not at its next revision, or waits for what it cannot wait for",
            "Count revisions from 1, and let tasks wait only for tasks that are there and do not "
            "wait for them.",
            on=("team/task",),
            contracts=LATER,
        ),
        Rule(
            "team.message",
            "a message is queued or delivered twice, without having been queued, or to another",
            "Queue each message once, and deliver it once, to the member it is for.",
            on=("team/message/queued", "team/message/delivered"),
            contracts=LATER,
        ),
        Rule(
            "team.version",
            "a record of the session's own team has another version than its generation writes",
            "The runtime takes no such record: write version 1 in format v0, version 2 in v4.",
            on=("team/member", "team/task", "team/message/queued", "team/message/delivered"),
            contracts=LATER,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        if run.contract is Contract.V4:
            self._versions: tuple[int, ...] = (2,)
        else:
            # Which of the formats between changed it is not known.
            self._versions = (1, 2) if run.header.version else (1,)
        # Phase (its place in PHASES, from 1), and what a member keeps.
        self._members = Table(1 + len(_FIXED), MAX_MEMBERS)
        # Revision, and whether the task is deleted.
        self._tasks = Table(2, MAX_TASKS)
        # Pairs: a task, and one that it waits for.
        self._edges = array("q")
        # Whom a message is for that waits.
        self._waiting = Table(1, MAX_MESSAGES)
        self._delivered = Ids(MAX_MESSAGES)
        # Messages that were delivered before they were queued.
        self._early = Ids(MAX_MESSAGES)

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {
            "team/member": self._member,
            "team/task": self._task,
            "team/message/queued": self._queued,
            "team/message/delivered": self._was_delivered,
        }

    def _member(self, event: SessionEvent, line: int) -> None:
        self._judge("team.member", self._member_fault, event, line)

    def _task(self, event: SessionEvent, line: int) -> None:
        self._judge("team.task", self._task_fault, event, line)

    def _queued(self, event: SessionEvent, line: int) -> None:
        self._judge("team.message", self._queue_fault, event, line)

    def _was_delivered(self, event: SessionEvent, line: int) -> None:
        self._judge("team.message", self._delivery_fault, event, line)

    def _judge(
        self,
        rule: str,
        take_in: Callable[[Mapping[str, Any], SessionEvent], str],
        event: SessionEvent,
        line: int,
    ) -> None:
        """Take a record in, and report what is wrong with it: the version before all else."""
        data = fields(event.data)
        if self.run.repeating or data.get("teamId") != self.run.header.id:
            return
        fault = take_in(data, event)
        version = data.get("version")
        if is_whole(version) and version in self._versions:
            if fault:
                self.trip(rule, fault, event, line)
        elif not self.run.explained(event, "team-version"):
            allowed = " or ".join(map(str, self._versions))
            message = f"the version is {shown(version)}, not {allowed}"
            self.run.blame_for_good(self.trip("team.version", message, event, line), "team-version")

    def _member_fault(self, data: Mapping[str, Any], event: SessionEvent) -> str:
        member, id_ = _thing(data.get("member"))
        if id_ is None:
            return ""
        key, phase = hash(id_), member.get("phase")
        place = PHASES.index(phase) + 1 if phase in PHASES else _UNKNOWN
        now = [_mark(member.get(name)) for name in _FIXED]
        row = self._members.get(key)
        is_new = row is None or row[1] != now[0]
        shared = is_new and now[0] != _UNKNOWN and now[0] in self._members.others(key, 1)
        self._members.put(key, place, *now)
        if shared:
            return f"{shown(id_)} has the name of another member"
        if row is None:
            unknown = phase == PHASES[0] or self._members.full or self.run.unseen(event)
            return "" if unknown else f"{shown(id_)} begins as {shown(phase)}"
        before, *kept = row
        for name, old, new in zip(_FIXED, kept, now, strict=True):
            if old != new and _UNKNOWN not in (old, new):
                return f"{shown(id_)} changes its {name}"
        if before == _UNKNOWN or (before == 1 and place > 1):
            return ""
        return f"{shown(id_)} goes from {PHASES[before - 1]} to {shown(phase)}"

    def _task_fault(self, data: Mapping[str, Any], event: SessionEvent) -> str:
        task, id_ = _thing(data.get("task"))
        if id_ is None:
            return ""
        key, revision = hash(id_), task.get("revision")
        known, was_deleted = self._tasks.get(key) or (0, False)
        deleted = task.get("status") == "deleted"
        listed = task.get("blockedBy")
        blockers = [b for b in listed if isinstance(b, str)] if isinstance(listed, list) else []
        before = [] if was_deleted else self._blockers(key)
        self._tasks.put(key, int(revision) if is_whole(revision) else known + 1, deleted)
        self._set_blockers(key, [hash(blocker) for blocker in blockers])
        fault = _number_fault(id_) or self._revision_fault(revision, known, event)
        if not fault and not deleted:
            fault = self._blocker_fault(key, blockers, before, event)
        elif not fault and not was_deleted and self._is_waited_for(key):
            fault = "" if self.run.unseen(event) else "is deleted while another waits for it"
        return f"{shown(id_)} {fault}" if fault else ""

    def _revision_fault(self, revision: object, known: int, event: SessionEvent) -> str:
        """Say what is wrong with a revision that follows a known one, 0 for none."""
        if is_whole(revision):
            if revision == known + 1:
                return ""
            between = revision > known + 1
            if between and ((not known and self._tasks.full) or self.run.unseen(event)):
                return ""
            if not between and self.run.resumed:
                # The task was lost, and its id is used again.
                return ""
        return f"is at revision {shown(revision)}, not {known + 1}"

    def _blocker_fault(
        self, key: int, blockers: Sequence[str], before: Sequence[int], event: SessionEvent
    ) -> str:
        """Say what is wrong with what a task waits for; what it waited for before was judged."""
        new = {hash(blocker): blocker for blocker in blockers if hash(blocker) not in before}
        if key in new:
            return "waits for itself"
        if len(set(blockers)) < len(blockers) and len(set(before)) == len(before):
            return "waits for another twice"
        for blocker, id_ in new.items():
            row = self._tasks.get(blocker)
            gone = "is not there" if row is None else "is deleted" if row[1] else ""
            unknown = row is None and self._tasks.full
            if gone and not unknown and not self.run.unseen(event):
                return f"waits for {shown(id_)}, which {gone}"
        if self._is_reached(key, list(new)) and not self.run.unseen(event):
            return "waits for itself through others"
        return ""

    def _blockers(self, key: int) -> list[int]:
        pairs = zip(self._edges[::2], self._edges[1::2], strict=True)
        return [blocker for task, blocker in pairs if task == key]

    def _set_blockers(self, key: int, blockers: Sequence[int]) -> None:
        pairs = zip(self._edges[::2], self._edges[1::2], strict=True)
        kept = [pair for pair in pairs if pair[0] != key]
        kept += [(key, blocker) for blocker in blockers]
        self._edges = array("q", [number for pair in kept[:MAX_EDGES] for number in pair])

    def _is_waited_for(self, key: int) -> bool:
        """Whether a task that is not deleted waits for one."""
        pairs = zip(self._edges[::2], self._edges[1::2], strict=True)
        waiting = [task for task, blocker in pairs if blocker == key]
        return any(not (self._tasks.get(task) or (0, True))[1] for task in waiting)

    def _is_reached(self, key: int, tasks: list[int]) -> bool:
        """Whether one of some tasks waits for a task, directly or through others."""
        seen: set[int] = set()
        while tasks:
            task = tasks.pop()
            if task == key:
                return True
            if task not in seen and not (self._tasks.get(task) or (0, True))[1]:
                tasks += self._blockers(task)
            seen.add(task)
        return False

    def _queue_fault(self, data: Mapping[str, Any], _event: SessionEvent) -> str:
        message, id_ = _thing(data.get("message"))
        if id_ is None:
            return ""
        if id_ in self._delivered or self._waiting.get(hash(id_)):
            return f"{shown(id_)} is queued twice"
        if id_ in self._early:
            self._delivered.add(id_)
        else:
            self._waiting.put(hash(id_), _mark(message.get("targetId")))
        return ""

    def _delivery_fault(self, data: Mapping[str, Any], event: SessionEvent) -> str:
        id_, target = data.get("messageId"), _mark(data.get("targetId"))
        if not isinstance(id_, str):
            return ""
        queued = self._waiting.pop(hash(id_))
        if queued is not None:
            self._delivered.add(id_)
            same = queued[0] == target or _UNKNOWN in (queued[0], target)
            return "" if same else f"{shown(id_)} is delivered to another than it was queued for"
        if id_ in self._delivered:
            return f"{shown(id_)} is delivered twice"
        unknown = self._delivered.dropped or self._waiting.full or id_ in self._early
        if unknown or self.run.unseen(event):
            return ""
        self._early.add(id_)
        return f"{shown(id_)} is delivered before it is queued"


def _thing(value: object) -> tuple[Mapping[str, Any], str | None]:
    """Return the fields of a member, task or message, and its id; None if it has none."""
    if not isinstance(value, dict):
        return {}, None
    id_ = value.get("id")
    return value, id_ if isinstance(id_, str) else None


def _mark(value: object) -> int:
    """Return what stands for a text."""
    return hash(value) if isinstance(value, str) else _UNKNOWN


def _number_fault(id_: str) -> str:
    """Say what is wrong with the number of a task that has one."""
    match = _NUMBERED.fullmatch(id_)
    if match is None:
        return ""
    digits = match[1]
    large = len(digits) > _MAX_DIGITS or int(digits) > MAX_SAFE_INTEGER
    return "has a number that is no exact integer" if large else ""
