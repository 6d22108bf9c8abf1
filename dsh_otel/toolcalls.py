"""Tool calls: the ``execute_tool`` spans that wait for their result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dsh_core.codes import Family
from dsh_core.failures import failure_of
from dsh_otel.names import Attr, Outcome, Span
from dsh_otel.spans import SessionSpan

if TYPE_CHECKING:
    from collections import Counter

    from dsh_core.events import ToolCall, ToolResult
    from dsh_otel.spans import Session
    from dsh_otel.starter import SpanStarter

MAX_OPEN: Final = 1024
"""Tool spans that may be open at once; the oldest is closed when there are more."""

_OUTCOMES: Final = {
    Family.CANCELLED: Outcome.CANCELLED,
    Family.UNKNOWN_OUTCOME: Outcome.UNKNOWN,
}
REPAIRED: Final = ("TOOL_NOT_STARTED", "TOOL_OUTCOME_UNKNOWN")
"""Codes of results that crash repair writes."""


class ToolCalls:
    """The open tool spans of a session.

    A call stays open when its step ends, so that a late result still closes it; it is given up when
    its turn ends, or when its id is used again.

    Args:
        session: The session.
        starter: Starts the spans.
        unclosed: Counts spans that the log never closed, by kind.

    Attributes:
        only: The one open call; None if there are none or several.
    """

    def __init__(self, session: Session, starter: SpanStarter, unclosed: Counter[str]) -> None:
        self._session = session
        self._starter = starter
        self._unclosed = unclosed
        self._open: dict[str, SessionSpan] = {}
        self.only: SessionSpan | None = None

    def __bool__(self) -> bool:
        """Whether any call is open."""
        return bool(self._open)

    def _changed(self) -> None:
        self.only = next(iter(self._open.values())) if len(self._open) == 1 else None

    def open(
        self, event: ToolCall, parent: SessionSpan | None, now_ns: int, before_ns: int
    ) -> SessionSpan:
        """Open the span of a call.

        Args:
            event: The call.
            parent: The span it belongs to.
            now_ns: Time of the call, Unix time in ns.
            before_ns: Time of the event before it.
        """
        data = event.data
        before = self._open.pop(data.call_id, None)
        if before is None and len(self._open) >= MAX_OPEN:
            before = self._open.pop(next(iter(self._open)))
        if before is not None:
            self._give_up(before, before_ns)
        name = data.name or Span.UNKNOWN_TOOL
        span = SessionSpan(self._session, "tool", now_ns, data.turn, data.step, name, data.call_id)
        attributes: dict[str, Any] = {
            Attr.TOOL: name,
            Attr.TOOL_CALL_ID: data.call_id,
            Attr.TOOL_TYPE: "function",
            Attr.SEQ_START: event.seq,
        }
        if self._session.content:
            attributes[Attr.TOOL_ARGUMENTS] = data.arguments
        self._starter.start(span, parent, attributes, data.step, data.call_id, event.seq)
        self._open[data.call_id] = span
        self._changed()
        return span

    def take(self, event: ToolResult) -> SessionSpan | None:
        """Return the span that a result closes, None if its call is not open."""
        data = event.data
        call_id = data.call_id
        span = self._open.get(call_id)
        if span is None or (span.turn, span.step) != (data.turn, data.step):
            return None
        del self._open[call_id]
        self._changed()
        return span

    def close(self, end_ns: int) -> None:
        """Give up all open calls.

        Args:
            end_ns: When they end, Unix time in ns.
        """
        spans, self._open, self.only = self._open, {}, None
        for span in spans.values():
            self._give_up(span, end_ns)

    def _give_up(self, span: SessionSpan, end_ns: int) -> None:
        span.set(Attr.TOOL_OUTCOME, Outcome.UNANSWERED)
        span.mark(Attr.UNCLOSED)
        self._unclosed[span.kind] += 1
        span.end(end_ns)


def describe_result(span: SessionSpan, event: ToolResult, *, content: bool) -> None:
    """Write on a tool span how the call went.

    Args:
        span: The span of the call, or of a result without one.
        event: The result.
        content: Whether the result's text may be exported.
    """
    data = event.data
    failure = failure_of(event) if data.failed else None
    outcome = Outcome.OK
    if failure is not None:
        found = failure.classification
        outcome = _OUTCOMES.get(found.family, Outcome.ERROR)
        if found.code in REPAIRED:
            span.mark(Attr.SYNTHETIC)
    span.set(Attr.TOOL_OUTCOME, outcome)
    span.set(Attr.SEQ_END, event.seq)
    if content:
        span.set(Attr.TOOL_RESULT, data.text())
