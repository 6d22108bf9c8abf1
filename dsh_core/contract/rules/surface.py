"""Rules of the ``log`` about the surface: the messages that the model sees, and replacements."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Final

from dsh_core.contract.fields import fields, is_whole, plain, shown
from dsh_core.contract.rule import EVERY, LATER, Rule, RuleSet
from dsh_core.contract.surface import HEAD, MESSAGES, ON_SURFACE, STEERING, ends_of, kind_of
from dsh_core.events import (
    AssistantMessage,
    Contract,
    SessionEvent,
    SystemMessage,
    ToolResult,
    UnknownEvent,
)
from dsh_core.parts import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from msgspec import Raw

    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run

V4 = (Contract.V4,)
MAX_CITED: Final = 1_000_000


class Rules(RuleSet):
    """Surface bookkeeping of August and later."""

    owner = "log"
    rules: ClassVar = (
        Rule(
            "surface.marker",
            "surfaceOp is missing on a message, or present on another event",
            "Only messages to and from the model carry it.",
            on=(EVERY,),
            contracts=LATER,
        ),
        Rule(
            "surface.sources",
            "cited seqs are empty, repeated, or not earlier than the event",
            "Cite each source once, and only events already in the log.",
            on=(EVERY,),
            contracts=LATER,
        ),
        Rule(
            "surface.replace-range",
            "a replacement names a span that is not on the surface",
            "Start and end must be on the surface, in its order.",
            on=ON_SURFACE,
            contracts=LATER,
        ),
        Rule(
            "surface.replace-uncited",
            "a replacement does not cite everything it replaces",
            "Cite every replaced event in sourceEventSeqs.",
            on=ON_SURFACE,
            contracts=LATER,
        ),
        Rule(
            "surface.tool-result-replace",
            "a replacing result does not replace just the result of the same call",
            "Replace one result by one result, changing its content only.",
            on=("tool/result",),
            contracts=LATER,
        ),
        Rule(
            "surface.system-head",
            "the protected system message is not the first, or is replaced by something else",
            "Only one system message may replace the one at the head.",
            on=ON_SURFACE,
            contracts=V4,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        version = run.header.version
        # July builds wrote messages without marker.
        self._strict = run.contract is Contract.V4 or (version is not None and version > 0)
        self._exact = run.contract is Contract.V4

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {} if self.run.contract is Contract.SEED else {EVERY: self._any}

    def _any(self, event: SessionEvent, line: int) -> None:
        if type(event) in MESSAGES:
            self._message(event, line)
            return
        if event.surface_op is ABSENT and event.source_event_seqs is ABSENT:
            return
        if event.type == STEERING and not self._strict:
            self._place(event, line)
            return
        # Whoever does not know an event that may be ignored passes it over.
        ignored = isinstance(event, UnknownEvent) and event.ignorable is not ABSENT
        if not (self._exact and ignored):
            self.run.report(
                "surface.marker",
                f"{event.type[:80]} carries surface fields",
                seq=event.seq,
                line=line,
                expected="none on an event that is no message",
            )
        else:
            self._sources(event, line)

    def _message(self, event: SessionEvent, line: int) -> None:
        if event.surface_op is ABSENT and self._strict:
            self._report("surface.marker", f"{event.type} without surfaceOp", event, line)
        self._place(event, line)

    def _place(self, event: SessionEvent, line: int) -> None:
        """Judge what a message cites and replaces."""
        sources = self._sources(event, line)
        if self.run.cause is not None:
            # A repeated message is on the surface already.
            return
        surface = self.run.surface
        if (
            isinstance(event, SystemMessage)
            and self._strict
            and surface.seqs
            and not surface.has_head
            and not self.run.unseen(event)
        ):
            self._head("a system message comes where none is at the head", event, line)
        elif not event.appends:
            self._replace(event, kind_of(event), sources, line)

    def _report(self, rule: str, message: str, event: SessionEvent, line: int) -> None:
        call_id = event.data.call_id if isinstance(event, ToolResult) else None
        self.run.report(rule, message, seq=event.seq, line=line, call_id=call_id)

    def _head(self, message: str, event: SessionEvent, line: int) -> None:
        self._report("surface.system-head", message, event, line)

    def _sources(self, event: SessionEvent, line: int) -> Sequence[int]:
        """Judge the cited seqs and return those that can be read."""
        raw = event.source_event_seqs
        if raw is ABSENT:
            return ()
        cited = cited_seqs(raw, ordered=self._exact)
        problem = ""
        if self._exact and isinstance(event, AssistantMessage):
            problem = "an answer carries its stream, and cites nothing"
        elif cited is None:
            problem = "sourceEventSeqs is not a list of seqs"
        elif not cited:
            if not isinstance(event, AssistantMessage | UnknownEvent):
                problem = "sourceEventSeqs is empty"
        elif len(cited) > 1 and len(set(cited)) != len(cited):
            problem = "sourceEventSeqs repeats a seq"
        elif max(cited) >= event.seq:
            problem = f"sourceEventSeqs cites {max(cited)}, which is not earlier"
        if problem:
            self._report("surface.sources", problem, event, line)
        return cited or ()

    def _replace(self, event: SessionEvent, kind: int, sources: Sequence[int], line: int) -> None:
        surface = self.run.surface
        ends = ends_of(event.surface_op)
        if ends is None or (self._exact and not _is_exact(event.surface_op)):
            problem = "surfaceOp is neither append nor a proper replacement"
            self._report("surface.replace-range", problem, event, line)
            return
        span = surface.span(*ends)
        if span is None:
            # What it replaces may have been lost, or forgotten.
            if surface.knows(ends) and not self.run.unseen(event):
                problem = "the replaced span is not on the surface"
                self._report("surface.replace-range", problem, event, line)
            return
        start, end = span
        seqs, kinds = surface.seqs[start : end + 1], surface.kinds[start : end + 1]
        cited = frozenset(sources)
        uncited = [seq for seq in seqs if seq not in cited]
        # Where events are missing or changed places, the order of the surface is not sure.
        if uncited and not self.run.unseen(event):
            problem = f"replaced but not cited: {', '.join(map(str, uncited[:8]))}"
            self._report("surface.replace-uncited", problem, event, line)
        if (
            isinstance(event, ToolResult)
            and (len(seqs) != 1 or kinds[0] != kind)
            and not self.run.explained(event, ("message", seqs[0]), ("message", event.seq))
        ):
            problem = f"the result of call {shown(event.data.call_id)} replaces something else"
            self._report("surface.tool-result-replace", problem, event, line)
        if HEAD in kinds and (len(seqs) != 1 or not isinstance(event, SystemMessage)):
            self._head("the system message at the head is replaced by something else", event, line)


def _is_exact(operation: Raw) -> bool:
    """Whether a replacement has the keys of v4 and no other."""
    return set(fields(operation)) == {"op", "startSeq", "endSeq"}


def cited_seqs(raw: Raw, *, ordered: bool = False) -> list[int] | None:
    """Return the seqs that an event cites, ranges spelled out.

    Args:
        raw: JSON list of seqs and ``[first, last]`` pairs.
        ordered: Whether a list with pairs must go up.

    Returns:
        The seqs in their order, None if the list is of another shape or absurdly long.
    """
    items = plain(raw)
    if not isinstance(items, list):
        return None
    if len(items) == 1 and type(items[0]) is int and items[0] >= 0:
        # Nearly always.
        return items
    found: list[int] = []
    pairs = False
    for item in items:
        if is_whole(item):
            found.append(int(item))
        elif isinstance(item, list) and len(item) == 2 and all(map(is_whole, item)):  # noqa: PLR2004 - a pair
            first, last = map(int, item)
            if last < first or last - first > MAX_CITED - len(found):
                return None
            pairs = True
            found.extend(range(first, last + 1))
        else:
            return None
    if ordered and pairs and any(one >= two for one, two in pairwise(found)):
        return None
    return found
