"""Changes of goals and rounds of them, for tests of the rules about both."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tests.checking import event, prompt, turn_end, turn_start
from tests.strategies import START, text

if TYPE_CHECKING:
    from tests.checking import Item
    from tests.strategies import Event

ABSENT: Final = object()
"""Takes a field away."""

OBJECTIVE: Final = 'say "done"'
STUCK: Final = {"code": "round-limit", "message": "no more"}


def without_absent(fields: Event) -> Event:
    return {name: value for name, value in fields.items() if value is not ABSENT}


def goal(**changes: Any) -> Event:
    """Return a new goal, but for some changes."""
    whole: Event = {
        "id": "g-1",
        "revision": 1,
        "objective": OBJECTIVE,
        "phase": "active",
        "maxGoalRounds": 3,
    }
    return without_absent({**whole, **changes})


def change(operation: Any = "create", *, goal: Any = None, **changes: Any) -> Item:
    """Return a change that says what has become of a goal; of a new one by default."""
    data: Event = {
        "kind": "goal/change",
        "version": 1,
        "operation": operation,
        "goal": goal,
        "roundsStarted": 0,
        "createdAt": START,
        "updatedAt": START,
    }
    return event("goal/change", without_absent({**data, **changes}))


def create(**changes: Any) -> Item:
    """Return the creation of a goal, but for some changes of it."""
    return change(goal=goal(**changes))


def then(operation: str, revision: int, *, rounds: int = 0, **changes: Any) -> Item:
    """Return a later change of a goal."""
    phase = {"pause": "paused", "complete": "complete", "block": "blocked"}.get(operation, "active")
    reason = {"blockedReason": STUCK} if operation == "block" else {}
    whole = goal(**{"revision": revision, "phase": phase, **reason, **changes})
    return change(operation, goal=whole, roundsStarted=rounds, updatedAt=START + revision)


def clear(revision: Any = 2, id_: Any = "g-1", **changes: Any) -> Item:
    """Return the removal of a goal."""
    data: Event = {"kind": "goal/change", "version": 1, "operation": "clear"}
    data |= {"cleared": {"id": id_, "revision": revision}, "clearedAt": START + 9}
    return event("goal/change", without_absent({**data, **changes}))


def words(number: Any = 1, most: Any = 3, objective: str = OBJECTIVE) -> str:
    """Return what the prompt of a round must say."""
    quoted = json.dumps(objective, ensure_ascii=False)
    return f"<goal>\nObjective: {quoted}\nRound: {number}/{most}\n\nGo on.\n</goal>"


def begin(
    number: Any = 1,
    revision: Any = 1,
    id_: Any = "g-1",
    *,
    op: Any = "append",
    content: Any = None,
    **source: Any,
) -> Item:
    """Return the message that starts a round."""
    about = {"kind": "goal", "goalId": id_, "revision": revision, "round": number, **source}
    said = text(words(number)) if content is None else content
    return prompt(op, id=f"r-{number}", source=without_absent(about), content=said)


def turn(*items: Item, n: int = 1) -> list[Item]:
    """Return a turn with some events in it."""
    return [turn_start(n), *items, turn_end(n)]
