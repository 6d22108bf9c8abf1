"""The goal of a session, as its log tells of it: changes, and the rounds that work on it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dsh_core.contract.fields import fields, is_filled, is_redacted, is_trimmed, is_whole, shown
from dsh_core.contract.newest import Ids
from dsh_core.events import Contract

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.run import Run
    from dsh_core.events import UserMessage

CHANGE: Final = "goal/change"
ACTIVE: Final = "active"
PAUSED: Final = "paused"
BLOCKED: Final = "blocked"
COMPLETE: Final = "complete"
PHASES: Final = (ACTIVE, PAUSED, BLOCKED, COMPLETE)
OPERATIONS: Final = ("create", "edit", "pause", "resume", "complete", "block")
"""The operations that say what has become of a goal; ``clear`` says only which one is gone."""

VERSION: Final = 1
FIRST_WITH_CHANGES: Final = 2
"""The first format in which all that is known of goals stands in changes."""

MAX_USED: Final = 64
"""How many ids are remembered as used, the newest ones."""

MAX_OBJECTIVE: Final = 512
"""Length up to which objectives are kept; of longer ones only the hash is."""

_SNAPSHOT: Final = frozenset(
    ("kind", "version", "operation", "goal", "roundsStarted", "createdAt", "updatedAt")
)
_CLEAR: Final = frozenset(("kind", "version", "operation", "cleared", "clearedAt"))
_GOAL: Final = frozenset(("id", "revision", "objective", "phase", "maxGoalRounds"))
_CODE: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")


class Goal(NamedTuple):
    """A goal, as a well-formed change describes it.

    Attributes:
        id: Hash of its id.
        revision: How often it has changed.
        objective: What is to be reached; None if a note stands for it, a hash if it is long.
        phase: Whether it is worked on.
        most: How many rounds it may take.
        reason: Hashes of code and message of why it is blocked, None if it is not; the second is
            None if a note stands for the message.
        created: When it was created, in ms.
        updated: When it last changed, in ms.
    """

    id: int
    revision: int
    objective: str | int | None
    phase: str
    most: int
    reason: tuple[str | int | None, str | int | None] | None
    created: int
    updated: int

    def same_task(self, other: Goal) -> bool:
        """Whether another snapshot sets the same objective and as many rounds."""
        notes = None in (self.objective, other.objective)
        return self.most == other.most and (notes or self.objective == other.objective)

    def same_state(self, other: Goal) -> bool:
        """Whether another snapshot has the same phase, for the same reason."""
        if self.phase != other.phase:
            return False
        if self.reason is None or other.reason is None:
            return self.reason == other.reason
        notes = None in (self.reason[1], other.reason[1])
        return self.reason[0] == other.reason[0] and (notes or self.reason == other.reason)


class Round(NamedTuple):
    """A round of a goal, as the source of its message describes it.

    Attributes:
        goal: Hash of the goal's id.
        revision: The revision that it works on.
        number: Which round it is.
    """

    goal: int
    revision: int
    number: int


class GoalFold:
    """The current goal; it goes on from what the log says, whether that is right or not.

    Args:
        run: The check.

    Attributes:
        known: Whether it is known which goal is current, if any.
        current: The current goal.
        rounds: How many rounds of it have started.
        used: The ids of goals.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        # A message's source told of goals once; what it told is not followed.
        version = run.header.version or 0
        self._changes_only = run.contract is Contract.V4 or version >= FIRST_WITH_CHANGES
        self.known = True
        self.current: Goal | None = None
        self.rounds = 0
        self.used = Ids(MAX_USED)

    def repeats(self) -> bool:
        """Whether the event at hand, which tells of a goal, lies in a burst of repeated ones."""
        if self._run.repeating:
            # It may be news after all.
            self.known = False
        return self._run.repeating

    def change(self, data: Mapping[str, Any]) -> None:
        """Take in a change.

        Args:
            data: Its payload.
        """
        self._changes_only = True
        whole = not malformed(data)
        record = data.get("goal")
        if isinstance(record, dict) and is_filled(record.get("id")):
            self.used.add(record["id"])
        self.known = whole
        self.current = snapshot(data) if whole and data["operation"] != "clear" else None
        self.rounds = int(data["roundsStarted"]) if self.current is not None else 0

    def round(self, event: UserMessage) -> Mapping[str, Any] | None:
        """Return what the source of a round's message says, None if it is none, or not followed.

        Args:
            event: Any message.
        """
        source = event.data.source
        if source is None or source.kind != "goal":
            return None
        if not self._changes_only:
            self.known = False
            return None
        return None if self.repeats() else fields(event.data.raw_source)

    def start(self, source: Mapping[str, Any]) -> None:
        """Take in a round.

        Args:
            source: What `round` returned.
        """
        begun = read_round(source)
        if begun is not None:
            self.rounds = begun.number


def snapshot(data: Mapping[str, Any]) -> Goal:
    """Return the goal that a well-formed change describes.

    Args:
        data: Its payload; it must not be `malformed`, or a ``clear``.
    """
    record = data["goal"]
    reason = record.get("blockedReason")
    return Goal(
        id=hash(record["id"]),
        revision=int(record["revision"]),
        objective=_kept(record["objective"], MAX_OBJECTIVE),
        phase=record["phase"],
        most=int(record["maxGoalRounds"]),
        reason=None if reason is None else (_kept(reason["code"]), _kept(reason["message"])),
        created=int(data["createdAt"]),
        updated=int(data["updatedAt"]),
    )


def _kept(text: str, most: int = 0) -> str | int | None:
    """Return a text, the hash of a long one, or None for a note that stands for one."""
    if is_redacted(text):
        return None
    return text if len(text) <= most else hash(text)


def read_round(source: Mapping[str, Any]) -> Round | None:
    """Return the round that the source of a message describes, None if it describes none."""
    id_, revision, number = (source.get(name) for name in ("goalId", "revision", "round"))
    if is_filled(id_) and is_whole(revision, 1) and is_whole(number, 1):
        return Round(hash(id_), int(revision), int(number))
    return None


def malformed(data: Mapping[str, Any]) -> str:
    """Say what is wrong with a change as such, empty if nothing is."""
    kind, version, operation = (data.get(name) for name in ("kind", "version", "operation"))
    if kind != CHANGE:
        return f"the kind is {shown(kind)}"
    if not is_whole(version) or version != VERSION:
        return f"the version is {shown(version)}"
    if operation == "clear":
        return _clear_fault(data)
    if operation not in OPERATIONS:
        return f"the operation is {shown(operation)}"
    return (
        _keys_fault(data, _SNAPSHOT, "the change")
        or _goal_fault(data["goal"])
        or _counts_fault(data, ("roundsStarted", "createdAt", "updatedAt"))
        or ("updatedAt is before createdAt" if data["updatedAt"] < data["createdAt"] else "")
    )


def _clear_fault(data: Mapping[str, Any]) -> str:
    cleared = data.get("cleared")
    return (
        _keys_fault(data, _CLEAR, "the change")
        or _keys_fault(cleared, frozenset(("id", "revision")), "what is cleared")
        or ("" if is_filled(data["cleared"]["id"]) else "the id is empty")
        or _counts_fault(data["cleared"], ("revision",), 1)
        or _counts_fault(data, ("clearedAt",))
    )


def _goal_fault(goal: object) -> str:
    phase = goal.get("phase") if isinstance(goal, dict) else None
    needed = _GOAL | {"blockedReason"} if phase == BLOCKED else _GOAL
    fault = _keys_fault(goal, needed, "the goal")
    if fault or not isinstance(goal, dict):
        return fault
    if phase not in PHASES:
        return f"the phase is {shown(phase)}"
    if not is_filled(goal["id"]):
        return "the id is empty"
    if not is_trimmed(goal["objective"]):
        return "the objective is empty, or begins or ends with white space"
    fault = _counts_fault(goal, ("revision", "maxGoalRounds"), 1)
    return fault or (_reason_fault(goal["blockedReason"]) if phase == BLOCKED else "")


def _reason_fault(reason: object) -> str:
    fault = _keys_fault(reason, frozenset(("code", "message")), "the reason")
    if fault or not isinstance(reason, dict):
        return fault
    code = reason["code"]
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        return f"the code of the reason is {shown(code)}, not in lower-kebab-case"
    trimmed = is_trimmed(reason["message"])
    return "" if trimmed else "the message of the reason is empty, or not trimmed"


def _keys_fault(record: object, needed: frozenset[str], what: str) -> str:
    if not isinstance(record, dict):
        return f"{what} is {shown(record)}"
    missing = sorted(needed - record.keys())
    if missing:
        return f"{what} has no {missing[0]}"
    return f"{what} has a field that does not belong there" if record.keys() - needed else ""


def _counts_fault(record: Mapping[str, Any], names: tuple[str, ...], least: int = 0) -> str:
    for name in names:
        if not is_whole(record[name], least):
            return f"{name} is {shown(record[name])}, not a whole number from {least} on"
    return ""
