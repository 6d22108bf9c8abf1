"""Rules of the ``goal-round-driver`` package: what it says to start a round of the goal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar, Final

from dsh_core.contract.fields import fields, is_redacted, plain
from dsh_core.contract.goals import ACTIVE, CHANGE, GoalFold, read_round
from dsh_core.contract.rule import LATER, Rule, RuleSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.goals import Goal
    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import SessionEvent, UserMessage

_NO_TEXT: Final = frozenset(map(chr, (*range(0xD800, 0xE000), 0xFFFD)))
"""Half characters, and what may stand for one: the same text may be written in several ways."""


class Rules(RuleSet):
    """The prompt of a round names the objective and the round."""

    owner = "goal-round-driver"
    rules: ClassVar = (
        Rule(
            "goal-driver.prompt",
            "the prompt of a round is not one text with the objective and the round's number",
            "Let the driver write it; an interceptor may have changed it.",
            on=("user/message",),
            contracts=LATER,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start without a goal."""
        super().__init__(run)
        self._fold = GoalFold(run)

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {CHANGE: self._change, "user/message": self._message}

    def _change(self, event: SessionEvent, _line: int) -> None:
        if not self._fold.repeats():
            self._fold.change(fields(event.data))

    def _message(self, event: UserMessage, line: int) -> None:
        fold = self._fold
        source = fold.round(event)
        begun = None if source is None else read_round(source)
        goal = fold.current
        if begun is None or goal is None or not fold.known or not event.appends:
            return
        # Of a round of another goal, or of another revision of it, nothing is known.
        if begun[:2] == goal[:2] and goal.phase == ACTIVE:
            problem = _prompt_problem(plain(event.data.content), goal, begun.number)
            if problem:
                self.trip("goal-driver.prompt", problem, event, line)


def _prompt_problem(content: object, goal: Goal, number: int) -> str:
    """Say what is wrong with the prompt of a round, empty if nothing is."""
    block = content[0] if isinstance(content, list) and len(content) == 1 else None
    text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else None
    if not isinstance(text, str):
        return "the prompt is not one block of text"
    if is_redacted(text):
        return ""
    objective = goal.objective
    judged = isinstance(objective, str) and not _NO_TEXT.intersection(objective)
    # As JavaScript writes it: only what must be escaped is.
    if judged and json.dumps(objective, ensure_ascii=False) not in text:
        return "the prompt does not contain the objective"
    if f"Round: {number}/{goal.most}" not in text.split("\n"):
        return f"the prompt does not say that it is round {number}/{goal.most}"
    return ""
