"""What the rules say of events that name a turn or step which is not open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsh_core.contract.fields import shown
from dsh_core.contract.run import CallKey

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from dsh_core.contract.findings import Finding
    from dsh_core.contract.run import Run
    from dsh_core.contract.timeline import Timeline
    from dsh_core.events import SessionEvent


MAX_NAMED: Final = 4
"""Most calls that a message names."""


def calls_named(ids: Sequence[str]) -> str:
    """Name calls by their ids."""
    named = ", ".join(shown(id_) for id_ in ids[:MAX_NAMED])
    return f"call{'s' * (len(ids) > 1)} {named}{' …' if len(ids) > MAX_NAMED else ''}"


def open_place(timeline: Timeline) -> str:
    """Say what is open."""
    if timeline.turn is None:
        return "no turn"
    if timeline.step is None:
        return f"no step of turn {timeline.turn}"
    return f"step {timeline.step} of turn {timeline.turn}"


def misled(timeline: Timeline) -> list[Hashable]:
    """Return what an event that names a turn which is not open makes go wrong with turns."""
    turn = timeline.turn
    return ["turn-number", "outside-turn"] if turn is None else [("turn-end", turn)]


def places(timeline: Timeline, turn: int, step: int) -> list[Hashable]:
    """Return what may be blamed for an event that names a step which is not open."""
    found: list[Hashable] = [(turn, step), (turn, None)]
    if turn == timeline.turn and timeline.step is None:
        found.append(("step-start", turn))
    return found


def blame_turn(run: Run, finding: Finding | None, turn: int) -> None:
    """Blame a finding for what else names a turn that is not open."""
    if turn != run.timeline.turn:
        run.blame(finding, (turn, None))
    if run.timeline.turn is None:
        run.blame(finding, *misled(run.timeline))


def report_outside(
    run: Run, event: SessionEvent, line: int, call_id: str | None = None
) -> Finding | None:
    """Report an event that lies outside the step it names, unless that is known.

    Args:
        run: The check.
        event: The event; its data names a turn and a step.
        line: Its 1-based line.
        call_id: The call it makes, if it makes one.

    Returns:
        What explains the event, None if the rule is filtered out.
    """
    turn, step = event.data.turn, event.data.step
    known = run.explained(event, *places(run.timeline, turn, step))
    if known is None:
        is_open = open_place(run.timeline)
        known = run.report(
            "step.event-outside",
            f"{event.type} names step {step} of turn {turn} while {is_open} is open",
            seq=event.seq,
            line=line,
            turn=turn,
            step=step,
            call_id=call_id,
            expected=is_open,
            got=f"step {step} of turn {turn}",
        )
        blame_turn(run, known, turn)
    run.blame(known, (turn, step))
    if call_id is not None:
        # Its result may come with the right coordinates.
        run.blame(known, CallKey("call", call_id))
        if call_id in run.timeline.answered:
            run.blame(known, CallKey("twice", call_id))
    return known
