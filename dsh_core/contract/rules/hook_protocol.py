"""Rules of the ``hook-protocol`` package: a hook is called in a turn, and may say what it found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from dsh_core.contract.fields import fields, is_filled, is_number, is_whole, shown
from dsh_core.contract.places import blame_turn
from dsh_core.contract.rule import LATER, Rule, RuleSet

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import SessionEvent

INVOKED: Final = "hook/invoked"
RESULT: Final = "hook/result"
DIALECTS: Final = ("claude-code", "codex")
MAX_OPEN: Final = 64
"""How many hooks of a turn are followed that have no result."""


class Rules(RuleSet):
    """Hooks lie in the turn they name, and each result belongs to a hook that was called."""

    owner = "hook-protocol"
    rules: ClassVar = (
        Rule(
            "hook.outside-turn",
            "a hook is called, or answers, outside the turn it names",
            "Call hooks while their turn is open, and wait for them before it ends.",
            on=(INVOKED, RESULT),
            contracts=LATER,
        ),
        Rule(
            "hook.fields",
            "a hook is called without a point or handler, or in a dialect that is none",
            f"Name point and handler, and one of the dialects: {', '.join(DIALECTS)}.",
            on=(INVOKED,),
            contracts=LATER,
        ),
        Rule(
            "hook.unpaired",
            "a hook answers that was not called, or more often than it was called",
            "Record the call before the result, and one result for each call.",
            on=(RESULT,),
            contracts=LATER,
        ),
        Rule(
            "hook.duration",
            "the duration of a hook is no number of milliseconds",
            "Measure it with a clock that never goes back.",
            on=(RESULT,),
            contracts=LATER,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        # How often the hooks of a turn were called and have not answered.
        self._turn: int | None = None
        self._open: dict[int, int] = {}
        # Whether hooks were called that are not among them.
        self._more = False

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {INVOKED: self._invoked, RESULT: self._result}

    def _invoked(self, event: SessionEvent, line: int) -> None:
        if self._skips():
            return
        data = fields(event.data)
        point, handler, dialect = data.get("point"), data.get("handlerId"), data.get("dialect")
        key = _key(data)
        if self._is_outside(data, event, line):
            self._more = self._more or key is None
            return
        if not is_filled(point):
            self.trip("hook.fields", f"point is {shown(point)}", event, line)
        elif not is_filled(handler):
            self.trip("hook.fields", f"handlerId is {shown(handler)}", event, line)
        elif dialect not in DIALECTS:
            self.trip("hook.fields", f"the dialect is {shown(dialect)}", event, line)
        if key is None or (key not in self._open and len(self._open) >= MAX_OPEN):
            self._more = True
        else:
            self._open[key] = self._open.get(key, 0) + 1

    def _result(self, event: SessionEvent, line: int) -> None:
        if self._skips():
            return
        data = fields(event.data)
        duration = data.get("durationMs")
        if not is_number(duration) or duration < 0:
            self.trip("hook.duration", f"durationMs is {shown(duration)}", event, line)
        if not self._is_outside(data, event, line):
            self._pair(data, event, line)

    def _pair(self, data: Mapping[str, Any], event: SessionEvent, line: int) -> None:
        key = _key(data)
        count = 0 if key is None else self._open.pop(key, 0)
        if count:
            if key is not None and count > 1:
                self._open[key] = count - 1
            return
        run, blamed = self.run, ("hook", key)
        if self._more or run.explained(event, blamed) or run.unseen(event):
            return
        point, handler = shown(data.get("point")), shown(data.get("handlerId"))
        problem = f"handler {handler} was not called at {point}, or has answered"
        run.blame(self.trip("hook.unpaired", problem, event, line), blamed)

    def _skips(self) -> bool:
        """Whether an event is only repeated; else begin anew if it is the first of a turn."""
        if self.run.repeating:
            # It may be news after all.
            self._more = True
            return True
        if self._turn != self.run.timeline.turn:
            self._turn = self.run.timeline.turn
            self._open, self._more = {}, False
        return False

    def _is_outside(self, data: Mapping[str, Any], event: SessionEvent, line: int) -> bool:
        """Whether an event does not lie in the turn it names; report it then."""
        run, turn, is_open = self.run, data.get("turn"), self.run.timeline.turn
        if is_open is not None and is_whole(turn) and turn == is_open:
            return False
        named = int(turn) if is_whole(turn) else None
        keys: list[Hashable] = [("hook-turn", named), (named, None)]
        if is_open is None:
            keys.append("outside-turn")
        if run.explained(event, *keys) or run.unseen(event):
            return True
        where = "no turn" if is_open is None else f"turn {is_open}"
        finding = self.trip(
            "hook.outside-turn",
            f"{event.type} names turn {shown(turn)} while {where} is open",
            event,
            line,
            expected=where,
            got=f"turn {shown(turn)}",
        )
        # What else this writer says of the turn, and the result if it names the right one.
        run.blame(finding, ("hook-turn", named), ("hook", _key(data)))
        if named is not None:
            blame_turn(run, finding, named)
        return True


def _key(data: Mapping[str, Any]) -> int | None:
    """Return what stands for a hook within its turn, None if it cannot be told from others."""
    point, handler = data.get("point"), data.get("handlerId")
    named = isinstance(point, str) and isinstance(handler, str)
    return hash((point, handler)) if named else None
