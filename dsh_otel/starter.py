"""Starting OpenTelemetry spans for a session: names, ids, identity attributes, limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from dsh_otel.clean import clean_text
from dsh_otel.ids import DerivedIdGenerator, derive_span_id, derive_trace_id
from dsh_otel.names import Attr, Operation, Span
from dsh_otel.spans import Session, SessionSpan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.trace import Tracer

    from dsh_otel.clean import Privacy

_NO_PARENT: Final = Context()
_PREFIX: Final = {"turn": Span.TURN, "attempt": Span.ATTEMPT, "tool": Span.TOOL}
_OPERATION: Final = {
    "turn": Operation.TURN,
    "attempt": Operation.ATTEMPT,
    "tool": Operation.TOOL,
}
_KIND: Final = {"attempt": SpanKind.CLIENT}
_FULL_NAME: Final = {"step": Span.STEP, "orphan": Span.ORPHAN}


class SpanStarter:
    """Starts the spans of one session.

    Args:
        session: The session.
        tracer: Where spans come from.
        ids: The provider's id generator if it takes derived ids, else None.
        privacy: What may leave.
    """

    def __init__(
        self, session: Session, tracer: Tracer, ids: DerivedIdGenerator | None, privacy: Privacy
    ) -> None:
        self._session = session
        self._tracer = tracer
        self._ids = ids
        self._privacy = privacy
        self._occurrence: dict[int, int] = {}
        self._newest_turn = -1
        self._used: set[int] = set()
        self._trace_id = 0
        self._id = clean_text(session.header.id, 256)
        self._identity = {Attr.CONVERSATION: self._id}

    @property
    def derives_ids(self) -> bool:
        """Whether ids follow from the log."""
        return self._ids is not None

    def new_trace(self, turn: int) -> None:
        """Begin the trace of a turn: spans started from now on belong to it."""
        if turn > self._newest_turn:
            self._newest_turn, occurrence = turn, 1
        else:
            # Only repeated numbers need remembering.
            occurrence = self._occurrence.get(turn, 1) + 1
            self._occurrence[turn] = occurrence
        self._trace_id = derive_trace_id(self._session.header.id, turn, occurrence)
        self._used = set()

    def leave_trace(self) -> None:
        """End the trace of a turn: spans started from now on lie outside turns."""
        self._trace_id = 0

    def make(self, kind: str, start_ns: int, **details: Any) -> SessionSpan:  # noqa: ANN401
        """Return a span that has not started yet."""
        return SessionSpan(self._session, self._privacy, kind, start_ns, **details)

    def start(
        self,
        span: SessionSpan,
        parent: SessionSpan | None,
        attributes: Mapping[str, Any],
        *key: object,
    ) -> None:
        """Start a span.

        Args:
            span: The span, made by `make`.
            parent: Its parent, None for a root.
            attributes: What is known of it so far; sampling can see it.
            key: What tells it apart from others of its kind in the trace.
        """
        if parent is not None and parent.started:
            context, span.trace_id = parent.context, parent.trace_id
            span.start_ns = max(span.start_ns, parent.start_ns)
        else:
            context = _NO_PARENT
            span.trace_id = self._trace_id or self._outside(span, key)
        if self._ids is not None:
            span_id = self._unused(span.trace_id, span.kind, key)
            self._ids.lay_out(span.trace_id if context is _NO_PARENT else None, span_id)
        identity: dict[str, Any] = dict(self._identity)
        operation = _OPERATION.get(span.kind)
        if operation is not None:
            identity[Attr.OPERATION] = operation
        if span.turn is not None:
            identity[Attr.TURN] = span.turn
        if span.step is not None:
            identity[Attr.STEP] = span.step
        identity.update(attributes)
        otel = self._tracer.start_span(
            self._name(span),
            context,
            kind=_KIND.get(span.kind, SpanKind.INTERNAL),
            attributes=self._privacy.attributes(identity),
            start_time=span.start_ns,
        )
        span.start(otel)

    def _outside(self, span: SessionSpan, key: tuple[object, ...]) -> int:
        # What lies outside turns is a trace of its own; what names a turn keeps company.
        if span.turn is not None:
            return derive_trace_id(self._session.header.id, span.turn, 0)
        return derive_trace_id(f"{self._session.header.id}/{span.kind}/{key}", None, 0)

    def _unused(self, trace_id: int, kind: str, key: tuple[object, ...]) -> int:
        span_id = derive_span_id(trace_id, kind, *key)
        again = 1
        while span_id in self._used:
            # The log repeats an event: the repetition is a span of its own.
            again += 1
            span_id = derive_span_id(trace_id, kind, *key, "again", again)
        self._used.add(span_id)
        return span_id

    def _name(self, span: SessionSpan) -> str:
        fixed = _FULL_NAME.get(span.kind)
        if fixed is not None:
            return fixed
        prefix = _PREFIX[span.kind]
        if not span.name:
            return prefix
        name = self._privacy.text("span", span.name, "")
        return f"{prefix} {name}" if name else prefix
