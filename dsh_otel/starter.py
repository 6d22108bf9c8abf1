"""Starting OpenTelemetry spans for a session: names, ids, identity attributes, limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, SpanKind, set_span_in_context

from dsh_otel.ids import DerivedIdGenerator, SpanIds, derive_trace_id
from dsh_otel.light import LightTracer
from dsh_otel.names import Attr, Operation, Span

if TYPE_CHECKING:
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import SpanContext, Tracer

    from dsh_otel.spans import Session, SessionSpan

_NO_PARENT: Final = Context()
MAX_NAMES: Final = 256
"""Span names that are remembered."""


class _Kind(NamedTuple):
    """What all spans of a kind have in common."""

    otel: SpanKind
    prefix: str
    identity: dict[str, Any]


class SpanStarter:
    """Starts the spans of one session.

    Args:
        session: The session.
        tracer: Where spans come from.
        ids: The provider's id generator if it takes derived ids, else None.

    Attributes:
        unsampled: Number of spans that are not recorded.
        muted: Whether no span starts: the events are of the past.
        caller: The span on whose behalf the next turns run, if there is one.
        nested: Whether they become its children, in its trace; else they link to it.
        outer: Id of the trace of such a caller that holds the last turn, 0 if it has its own.
    """

    def __init__(self, session: Session, tracer: Tracer, ids: DerivedIdGenerator | None) -> None:
        self._session = session
        self._tracer = tracer
        self._light = LightTracer(tracer)
        self._ids = ids
        # One of another kind may do as it likes with the ids laid out for it.
        self._derives = None if ids is None else type(ids)
        self._occurrence: dict[int, int] = {}
        self._newest_turn = -1
        self._used: set[int] = set()
        self._span_ids = SpanIds(0)
        self.unsampled = 0
        self.muted = False
        self.caller: SpanContext | None = None
        self.nested = False
        self.outer = 0
        self._trace_id = self._last_trace_id = 0
        self._names: dict[tuple[str, str], str] = {}
        identity: dict[str, Any] = {Attr.CONVERSATION: session.header.id}
        # What is the same on all spans is looked at once, unless somebody wants to see each.
        self._identity_is_clean = session.privacy.redact is None
        if self._identity_is_clean:
            identity = session.privacy.attributes(identity)
        internal, client = SpanKind.INTERNAL, SpanKind.CLIENT
        self._kinds = {
            "turn": _Kind(internal, Span.TURN, identity | {Attr.OPERATION: Operation.TURN}),
            "step": _Kind(internal, Span.STEP, identity),
            "attempt": _Kind(client, Span.ATTEMPT, identity | {Attr.OPERATION: Operation.ATTEMPT}),
            "tool": _Kind(internal, Span.TOOL, identity | {Attr.OPERATION: Operation.TOOL}),
            "orphan": _Kind(internal, Span.ORPHAN, identity),
        }

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
        self.outer = self.caller.trace_id if self.nested and self.caller is not None else 0
        if self._ids is not None:
            self._trace_id = derive_trace_id(self._session.header.id, turn, occurrence)
            self._last_trace_id = self._trace_id
            self._used = set()

    def leave_trace(self) -> None:
        """End the trace of a turn: spans started from now on lie outside turns."""
        self._trace_id = 0

    def start(
        self,
        span: SessionSpan,
        parent: SessionSpan | None,
        attributes: dict[str, Any],
        *key: object,
    ) -> SessionSpan:
        """Start a span.

        Args:
            span: The span to start.
            parent: Its parent, None for a root.
            attributes: What is known of it so far; sampling can see it.
            key: What tells it apart from others of its kind in the trace.

        Returns:
            The span.
        """
        if self.muted:
            return span
        if parent is not None:
            if not parent.started:
                parent = None
            elif span.start_ns < parent.start_ns:
                span.start_ns = parent.start_ns
                span.mark(Attr.TIME_ADJUSTED)
        if span.turn is not None:
            attributes[Attr.TURN] = span.turn
            if span.step is not None:
                attributes[Attr.STEP] = span.step
        kind = self._kinds[span.kind]
        if self._identity_is_clean and self._session.privacy.redact is None:
            attributes = self._session.privacy.attributes(attributes)
            attributes.update(kind.identity)
        else:
            attributes = self._session.privacy.attributes(attributes | kind.identity)
        ids = self._next_ids(span, parent, key) if self._ids is not None else None
        try:
            span.otel = self._make(
                span,
                parent,
                self._name(kind, span.name) if span.name else kind.prefix,
                kind.otel,
                attributes,
                ids,
            )
        except Exception as error:  # noqa: BLE001 - samplers and processors of others run in here
            self._session.guard.failed("starting a span", error)
        if not span.otel.is_recording():
            self.unsampled += 1
        return span

    def _make(
        self,
        span: SessionSpan,
        parent: SessionSpan | None,
        name: str,
        kind: SpanKind,
        attributes: dict[str, Any],
        ids: tuple[int, int] | None,
    ) -> OtelSpan:
        context = _NO_PARENT if parent is None else parent.context
        above = None if parent is None else parent.otel.get_span_context()
        links: tuple[Link, ...] | None = None
        if parent is None and self.caller is not None and span.kind == "turn":
            if self.outer:
                context = set_span_in_context(NonRecordingSpan(self.caller), _NO_PARENT)
            else:
                links = (Link(self.caller),)
        elif self._derives in (None, DerivedIdGenerator) and self._light.plain:
            made = self._light.start(name, context, above, kind, attributes, span.start_ns, ids)
            if made is not None:
                return made
        try:
            if self._ids is not None and ids is not None:
                self._ids.lay_out(*ids)
            return self._tracer.start_span(
                name, context, kind, attributes, links, start_time=span.start_ns
            )
        finally:
            if self._ids is not None:
                self._ids.clear()

    def _next_ids(
        self, span: SessionSpan, parent: SessionSpan | None, key: tuple[object, ...]
    ) -> tuple[int, int]:
        if parent is not None:
            trace_id = parent.trace_id
            if self.outer and trace_id == self.outer:
                return trace_id, self._unused(self._last_trace_id, span.kind, key)
        else:
            trace_id = self._trace_id or self._outside(span, key)
        return trace_id, self._unused(trace_id, span.kind, key)

    def _outside(self, span: SessionSpan, key: tuple[object, ...]) -> int:
        # What lies outside turns is a trace of its own; what names a turn keeps company, as long as
        # no other turn comes between.
        place = f"{self._session.header.id}/{self._last_trace_id:x}"
        if span.turn is not None:
            return derive_trace_id(place, span.turn, 0)
        return derive_trace_id(f"{place}/{span.kind}/{key}", None, 0)

    def _unused(self, trace_id: int, kind: str, key: tuple[object, ...]) -> int:
        if self._span_ids.trace_id != trace_id:
            self._span_ids = SpanIds(trace_id)
        span_id = self._span_ids.derive(kind, *key)
        again = 1
        while span_id in self._used:
            # The log repeats an event: the repetition is a span of its own.
            again += 1
            span_id = self._span_ids.derive(kind, *key, "again", again)
        self._used.add(span_id)
        return span_id

    def _name(self, kind: _Kind, name: str) -> str:
        key = (kind.prefix, name)
        known = self._names.get(key)
        if known is None:
            shown = self._session.privacy.text("span", name, "")
            known = f"{kind.prefix} {shown}" if shown else kind.prefix
            if len(self._names) < MAX_NAMES:
                self._names[key] = known
        return known
