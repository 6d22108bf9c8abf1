"""Events of compactions, for the tests of the rules about them."""

from __future__ import annotations

from typing import Any, Final

from tests.checking import Item, answer, event, log, prompt, replace, step_end, step_start
from tests.checking import turn_end as ends_turn
from tests.checking import turn_start as starts_turn
from tests.strategies import Event, Events, text

SEED: Final = event("session/end-seed")
BEGIN: Final = (starts_turn(1), step_start(1, 1), prompt(), answer(1, 1), step_end(1, 1))
"""Five events, of which those of seq 2 and 3 are on the surface."""


def start(id_: Any = "c", turn: Any = 1, **more: Any) -> Item:
    return event("compaction/start", {"compactionId": id_, "turn": turn, **more})


def end(id_: Any = "c", turn: Any = 1, **more: Any) -> Item:
    return event("compaction/end", {"compactionId": id_, "turn": turn, **more})


def failed(id_: Any = "c", turn: Any = 1, **more: Any) -> Item:
    """Return the end of a compaction that has come to nothing."""
    return end(id_, turn, error="too long", **more)


def shadow(seqs: Any, span: Any = None) -> Event:
    """Return what says that some seqs are shadowed."""
    span = {"start": seqs[0], "end": seqs[-1]} if span is None else span
    return {"shadowedSeqs": list(seqs), "shadowedRange": span, "shadowedTokenCount": 9}


def summed(seqs: Any = (2, 3), id_: Any = "c", **more: Any) -> Item:
    """Return a summary of what `BEGIN` has on the surface."""
    data = {"compactionId": id_, "summary": text("short"), **shadow(seqs)}
    return event("compaction/summary", {**data, **more})


def checkpoint(id_: Any = "c", cited: tuple[int, ...] = (2, 3), **more: Any) -> Item:
    """Return what takes the place of what `BEGIN` has on the surface."""
    source = {"kind": "compact-checkpoint", "compactionId": id_, **more}
    return replacing(source, cited)


def replacing(source: Event, cited: tuple[int, ...] = (2, 3)) -> Item:
    kind, data, envelope = prompt(op=replace(2, 3), id="k", source=source)
    return kind, data, {**envelope, "sourceEventSeqs": list(cited)}


def prune(seqs: Any, span: Any = None) -> Item:
    return event("compaction/prune", shadow(seqs, span))


def without(item: Item, *names: str) -> Item:
    """Return an event without some fields of its payload."""
    kind, data, envelope = item
    return kind, {key: value for key, value in data.items() if key not in names}, envelope


def logged(*items: Item) -> Events:
    """Return a log that goes on after `BEGIN`; the open turn gets its end if it has none."""
    ends = any(kind == "turn/end" for kind, _, _ in items)
    return log(*BEGIN, *items, *(() if ends else (ends_turn(1),)))
