"""What to call with an event: the handlers of rule sets as one, and which of them failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from dsh_core.contract.rule import Handler, RuleSet
    from dsh_core.contract.timeline import Timeline
    from dsh_core.events import SessionEvent


@dataclass(frozen=True, slots=True)
class Call:
    """One of the things to call with an event.

    Attributes:
        handler: What to call.
        rules: Whose it is, None for a move of the shared state.
        where: With which events to call it: ``any``, those ``inside`` or those ``outside`` the step
            that they name.
    """

    handler: Handler
    rules: RuleSet | None = None
    where: str = "any"


def _ignore(_event: SessionEvent, _line: int) -> None:
    """Stand in where no rule listens."""


def compose(chain: Sequence[Handler]) -> Handler:
    """Make one callable of several; the short ones are spelled out because they are hot."""
    if not chain:
        return _ignore
    if len(chain) == 1:
        return chain[0]
    if len(chain) == 2:  # noqa: PLR2004 - as it says
        one, two = chain

        def call_two(event: SessionEvent, line: int) -> None:
            one(event, line)
            two(event, line)

        return call_two
    if len(chain) == 3:  # noqa: PLR2004 - as it says
        one, two, three = chain

        def call_three(event: SessionEvent, line: int) -> None:
            one(event, line)
            two(event, line)
            three(event, line)

        return call_three
    first, second, *rest = chain

    def call_all(event: SessionEvent, line: int) -> None:
        first(event, line)
        second(event, line)
        for handler in rest:
            handler(event, line)

    return call_all


def in_order(calls: Sequence[Call], timeline: Timeline) -> Handler:
    """Make one callable of several calls: those for some places come last but for the moves."""
    before = [call.handler for call in calls if call.where == "any" and call.rules is not None]
    for where in ("inside", "outside"):
        placed = [call.handler for call in calls if call.where == where]
        if placed:
            before.append(_if_placed(timeline, compose(placed), inside=where == "inside"))
    return compose([*before, *(call.handler for call in calls if call.rules is None)])


def _if_placed(timeline: Timeline, handler: Handler, *, inside: bool) -> Handler:
    def call_if_placed(event: SessionEvent, line: int) -> None:
        if timeline.is_open(event.data.turn, event.data.step) is inside:
            handler(event, line)

    return call_if_placed


def failing(calls: Sequence[Call], traceback: TracebackType | None) -> int | None:
    """Return which of some calls an error came out of, None if of none of them."""
    while traceback is not None:
        frame = traceback.tb_frame
        for place, call in enumerate(calls):
            function = getattr(call.handler, "__func__", call.handler)
            owner = getattr(call.handler, "__self__", None)
            if getattr(function, "__code__", None) is frame.f_code and (
                owner is None or frame.f_locals.get("self") is owner
            ):
                return place
        traceback = traceback.tb_next
    return None
