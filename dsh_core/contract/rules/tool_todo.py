"""Rules of the ``tool-todo`` package: the list of what is to be done."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from dsh_core.contract.fields import fields, is_redacted, is_trimmed, shown
from dsh_core.contract.rule import LATER, Rule, RuleSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.rule import Handler
    from dsh_core.events import SessionEvent

STATUSES: Final = ("pending", "in_progress", "completed")


class Rules(RuleSet):
    """Each item says something that no other one says, and has a status."""

    owner = "tool-todo"
    rules: ClassVar = (
        Rule(
            "todo.items",
            "the to-do list is no list, or has an item that is empty, repeated or of no status",
            f"Write each item once, as one of: {', '.join(STATUSES)}.",
            on=("todo/write",),
            contracts=LATER,
        ),
    )

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {"todo/write": self._write}

    def _write(self, event: SessionEvent, line: int) -> None:
        problem = _problem(fields(event.data).get("todos"))
        if problem:
            self.trip("todo.items", problem, event, line)


def _problem(todos: object) -> str:
    """Say what is wrong with a to-do list, empty if nothing is."""
    if not isinstance(todos, list):
        return f"todos is {shown(todos)}"
    seen: set[str] = set()
    for number, item in enumerate(todos, 1):
        content = item.get("content") if isinstance(item, dict) else None
        if not is_trimmed(content):
            return f"item {number} is empty, or begins or ends with white space"
        if content in seen:
            return f"item {number} repeats an earlier one"
        if not is_redacted(content):
            seen.add(content)
        if item.get("status") not in STATUSES:
            return f"the status of item {number} is {shown(item.get('status'))}"
    return ""
