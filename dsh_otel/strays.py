"""Events without a place in the tree: each gets a span of zero length, up to a limit."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dsh_otel.names import Attr
from dsh_otel.spans import LazySpan, SessionSpan

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_core.events import SessionEvent
    from dsh_otel.spans import Session
    from dsh_otel.starter import SpanStarter

MAX_STRAYS: Final = 128
"""Spans without a place that may start from one turn's start to the next; further ones never do."""


class Strays:
    """The spans without a place of one session.

    Args:
        session: The session.
        starter: Starts the spans.
    """

    def __init__(self, session: Session, starter: SpanStarter) -> None:
        self._session = session
        self._starter = starter
        self._started = 0

    def new_turn(self) -> None:
        """Begin to count anew."""
        self._started = 0

    @property
    def full(self) -> bool:
        """Whether no further one may start."""
        return self._started >= MAX_STRAYS

    def orphan(
        self,
        event: SessionEvent,
        kind: str,
        parent: SessionSpan | None,
        **details: Any,  # noqa: ANN401 - passed on
    ) -> SessionSpan:
        """Return the span of an event that belongs nowhere.

        Args:
            event: The event.
            kind: What it would be part of, ``orphan`` if it stands for nothing else.
            parent: The span it falls in, if there is one.
            details: What else is known of the span.

        Returns:
            The span; over the limit, one that has not started, so that what is written to it is
            lost.
        """
        span = SessionSpan(self._session, kind, self._session.now_ns, **details)
        if self.full:
            return span
        self._started += 1
        attributes: dict[str, Any] = {
            Attr.SYNTHETIC: True,
            Attr.SEQ_START: event.seq,
            Attr.SEQ_END: event.seq,
        }
        if kind == "tool":
            attributes |= {Attr.TOOL: span.name, Attr.TOOL_CALL_ID: span.call_id}
        return self._starter.start(span, parent, attributes, event.type, event.seq)

    def outside(self, seq: int | None, refused: Callable[[], object]) -> SessionSpan:
        """Return a span for what lies outside all spans; it starts if somebody writes to it.

        Args:
            seq: Seq of the event, None if it is about no event.
            refused: Called if somebody writes to it and it is over the limit.
        """
        span = LazySpan(self._session, "orphan", self._session.now_ns)
        span.opener = partial(self._open, seq, refused)
        return span

    def _open(self, seq: int | None, refused: Callable[[], object], span: SessionSpan) -> None:
        if self.full:
            refused()
            return
        self._started += 1
        attributes: dict[str, Any] = {Attr.SYNTHETIC: True, Attr.SESSION: self._session.header.id}
        if seq is not None:
            attributes |= {Attr.SEQ_START: seq, Attr.SEQ_END: seq}
        self._starter.start(span, None, attributes, seq, span.start_ns)
