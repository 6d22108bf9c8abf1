"""Rules of the ``log`` about the surface: the messages that the model sees, and replacements."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from dsh_core.contract.rule import EVERY, LATER, Rule, RuleSet
from dsh_core.contract.surface import MESSAGES, ON_SURFACE, SYSTEM, ends_of, kind_of
from dsh_core.events import (
    AssistantMessage,
    Contract,
    SessionEvent,
    SystemMessage,
    ToolResult,
    UserMessage,
)
from dsh_core.payloads import ABSENT, Message, Source, blocks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from msgspec import Raw

    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run

V4 = (Contract.V4,)
MAX_CITED: Final = 1_000_000
_decode: Final = msgspec.json.Decoder().decode


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
            on=ON_SURFACE,
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
        Rule(
            "message.shape",
            "a message's role, source or ids are missing or contradict each other",
            "Write messages through the session, which fills them in.",
            on=ON_SURFACE,
            contracts=LATER,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        version = run.header.version
        # July builds wrote messages without marker, id or source.
        self._strict = run.contract is Contract.V4 or (version is not None and version > 0)

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {} if self.run.contract is Contract.SEED else {EVERY: self._any}

    def _any(self, event: SessionEvent, line: int) -> None:
        if type(event) in MESSAGES:
            self._message(event, line)
        elif event.surface_op is not ABSENT or event.source_event_seqs is not ABSENT:
            self.run.report(
                "surface.marker",
                f"{event.type[:80]} carries surface fields",
                seq=event.seq,
                line=line,
                expected="none on an event that is no message",
            )

    def _message(self, event: SessionEvent, line: int) -> None:
        if event.surface_op is ABSENT and self._strict:
            self._report("surface.marker", f"{event.type} without surfaceOp", event, line)
        problem = self._shape_problem(event)
        if problem:
            self._report("message.shape", problem, event, line)
        sources = self._sources(event, line)
        if self.run.cause is not None:
            # A repeated message is on the surface already.
            return
        if not event.appends:
            self._replace(event, kind_of(event), sources, line)
        elif self._strict and isinstance(event, SystemMessage) and self.run.surface.seqs:
            self._head("a system message is added behind other messages", event, line)

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
        cited = cited_seqs(raw)
        problem = ""
        if cited is None:
            problem = "sourceEventSeqs is not a list of seqs"
        elif not cited:
            if not isinstance(event, AssistantMessage):
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
        span = None if ends is None else surface.span(*ends)
        if span is None:
            # What it replaces may have been lost, or forgotten.
            if (ends is None or surface.knows(ends)) and not self.run.unseen(event):
                problem = "the replaced span is not on the surface"
                self._report("surface.replace-range", problem, event, line)
            return
        start, end = span
        seqs, kinds = surface.seqs[start : end + 1], surface.kinds[start : end + 1]
        cited = frozenset(sources)
        uncited = [seq for seq in seqs if seq not in cited]
        if uncited:
            problem = f"replaced but not cited: {', '.join(map(str, uncited[:8]))}"
            self._report("surface.replace-uncited", problem, event, line)
        if isinstance(event, ToolResult) and (len(seqs) != 1 or kinds[0] != kind):
            problem = f"the result of call {event.data.call_id!r} replaces something else"
            self._report("surface.tool-result-replace", problem, event, line)
        if SYSTEM in kinds and (len(seqs) != 1 or kind != SYSTEM):
            self._head("the system message is replaced by something else", event, line)
        elif kind == SYSTEM and SYSTEM not in kinds and self._strict:
            self._head("a system message replaces something else", event, line)

    def _shape_problem(self, event: SessionEvent) -> str:
        if isinstance(event, UserMessage):
            data = event.data
            return self._problem("user", data.role, data.id, data.source)
        message: Message | None = event.data.message
        if message is None:
            return "the message is missing" if self._strict else ""
        if isinstance(event, ToolResult):
            return self._result_problem(event, message)
        role = {AssistantMessage: "assistant", SystemMessage: "system"}.get(
            type(event), "developer"
        )
        problem = self._problem(role, message.role, message.id, message.source)
        if problem or role != "assistant" or message.source is None:
            return problem
        return "" if message.source.kind == "model" else "the source of an answer is not a model"

    def _result_problem(self, event: ToolResult, message: Message) -> str:
        source = message.source
        called = message.tool_call_id or _wrapped_call(message) or event.data.call_id
        if source is not None and source.call_id and source.call_id != called:
            return f"the result of call {called!r} has call {source.call_id!r} as its source"
        if not self._strict:
            return ""
        role = "tool" if self.run.contract is Contract.V4 else "user"
        if source is not None and source.kind != "tool":
            return "the source of a result is not a tool"
        if role == "tool" and not message.tool_call_id:
            return "toolCallId is missing"
        return self._problem(role, message.role, message.id, source)

    def _problem(self, wanted: str, role: str, id_: str, source: Source | None) -> str:
        if role and role != wanted:
            return f"role is not {wanted!r}"
        if not self._strict:
            return ""
        if not role:
            return "role is missing"
        if not id_:
            return "id is missing"
        return "source is missing" if source is None or not source.kind else ""


def _wrapped_call(message: Message) -> str:
    """Return the call that a result of v3 or earlier names on the block inside its message."""
    wrapped = (b.tool_call_id for b in blocks(message.content) if b.type == "tool-result")
    return next(wrapped, "")


def cited_seqs(raw: Raw) -> list[int] | None:
    """Return the seqs that an event cites, ranges spelled out.

    Args:
        raw: JSON list of seqs and ``[first, last]`` pairs.

    Returns:
        The seqs in their order, None if the list is of another shape or absurdly long.
    """
    try:
        items = _decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if not isinstance(items, list):
        return None
    found: list[int] = []
    for item in items:
        if isinstance(item, int) and not isinstance(item, bool):
            found.append(item)
        elif isinstance(item, list) and [type(n) for n in item] == [int, int]:
            first, last = item
            if last < first or last - first > MAX_CITED - len(found):
                return None
            found.extend(range(first, last + 1))
        else:
            return None
    return found
