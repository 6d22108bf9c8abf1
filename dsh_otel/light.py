"""Spans made without the SDK's machinery, wherever nobody could tell the difference.

Most of what the SDK does for a span serves what a plain set-up does not have: a sampler that may
say no, processors that watch a span start, limits that cut, writers in several threads. Where none
of it is there, a span is made here from the SDK's own public parts, for half the price, and reaches
the same processors as the same `ReadableSpan`. Everywhere else the SDK makes it.
"""

from __future__ import annotations

import logging
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import (
    Event,
    ReadableSpan,
    SpanProcessor,
    SynchronousMultiSpanProcessor,
    Tracer,
)
from opentelemetry.sdk.trace import Span as SdkSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, DEFAULT_ON
from opentelemetry.sdk.util import BoundedList
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from dsh_otel.names import SCOPE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opentelemetry.trace import Tracer as AnyTracer

_logger: Final = logging.getLogger("dsh_otel")
LIMIT: Final = 128
"""What the SDK's limits are by default: attributes, events, links of a span, attributes of each."""

_PLAIN: Final = frozenset({str, int, float, bool})
_NAMES: Final = frozenset({str})
_UNSET: Final = Status(StatusCode.UNSET)
_WATCHING: Final = ("on_start", "_on_ending")
_BLIND: Final = (SpanProcessor, SimpleSpanProcessor, BatchSpanProcessor)
"""Kinds of processors that do nothing when a span starts."""


class LightSpan(Span):
    """A span that only its ending shows to anybody.

    Args:
        tracer: What made it.
        name: Its name.
        context: Its ids.
        parent: Its parent's ids, None for a root.
        kind: Its kind.
        attributes: Its first attributes; the span keeps them.
        start_ns: Start, Unix time in ns.
    """

    # What most spans never have stands here: it costs nothing to make.
    _events: Sequence[Event] = ()
    _links: Sequence[Link] = ()
    _status = _UNSET
    _ended = False

    def __init__(
        self,
        tracer: LightTracer,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        kind: SpanKind,
        attributes: dict[str, Any],
        start_ns: int,
    ) -> None:
        self._tracer = tracer
        self._name = name
        self._context = context
        self._parent = parent
        self._kind = kind
        self._attributes = _kept(attributes)
        self._start_ns = start_ns

    def get_span_context(self) -> SpanContext:
        """Return the ids."""
        return self._context

    def is_recording(self) -> bool:
        """Whether what is written is kept: until the end."""
        return not self._ended

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Set attributes; the ones set last come last."""
        if self._is_over("attributes"):
            return
        mine = self._attributes
        if type(mine) is dict and _is_plain(attributes):
            if not mine.keys().isdisjoint(attributes):
                for name in attributes:
                    mine.pop(name, None)
            mine.update(attributes)
            if len(mine) <= LIMIT:
                return
            attributes = {}
        others = {name: value for name, value in mine.items() if name not in attributes}
        self._attributes = _bounded({**others, **attributes})
        self._attributes.dropped += getattr(mine, "dropped", 0)

    def set_attribute(self, key: str, value: Any) -> None:  # noqa: ANN401 - as in the API
        """Set one attribute."""
        self.set_attributes({key: value})

    def add_event(
        self, name: str, attributes: Mapping[str, Any] | None = None, timestamp: int | None = None
    ) -> None:
        """Add an event."""
        if self._is_over("an event"):
            return
        made = Event(name, _kept(dict(attributes or {})), timestamp)
        self._events = [*self._events, made]

    def add_link(self, context: SpanContext, attributes: Mapping[str, Any] | None = None) -> None:
        """Add a link."""
        if self._is_over("a link") or not (context.is_valid or attributes or context.trace_state):
            return
        self._links = [*self._links, Link(context, _kept(dict(attributes or {})))]

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Set the status; OK is final, UNSET changes nothing."""
        if not isinstance(status, Status):
            status = Status(status, description)
        if status.is_unset or self._status.status_code is StatusCode.OK:
            return
        if not self._is_over("a status"):
            self._status = status

    def update_name(self, name: str) -> None:
        """Rename the span."""
        if not self._is_over("a name"):
            self._name = name

    # It needs nothing but `add_event`.
    record_exception = SdkSpan.record_exception

    def end(self, end_time: int | None = None) -> None:
        """End the span, and show it to the processors."""
        if self._is_over("an end"):
            return
        self._ended = True
        events, links, tracer = self._events, self._links, self._tracer
        tracer.processor.on_end(
            ReadableSpan(
                self._name,
                self._context,
                self._parent,
                tracer.sdk.resource,
                self._attributes,
                events if len(events) <= LIMIT else BoundedList.from_seq(LIMIT, events),
                links if len(links) <= LIMIT else BoundedList.from_seq(LIMIT, links),
                self._kind,
                None,
                self._status,
                self._start_ns,
                time_ns() if end_time is None else end_time,
                tracer.scope,
            )
        )

    def _is_over(self, what: str) -> bool:
        if self._ended:
            _logger.warning("%s for a span that has ended is left out", what)
        return self._ended


class LightTracer:
    """Makes light spans for the provider of an SDK tracer, as long as it is a plain one.

    Plain means: on, samples everything, has the default limits, counts no spans of its own, and
    no processor wants to see a span start. The SDK keeps some of it in private attributes; where
    one of them is missing, nothing is plain, and all that is lost is speed.

    Args:
        sdk: The SDK's tracer.

    Attributes:
        sdk: The same.
        processor: Sees the spans that end.
        scope: The spans' instrumentation scope.
    """

    def __init__(self, sdk: Tracer) -> None:
        self.sdk = sdk
        self.processor = sdk.span_processor
        self.scope = InstrumentationScope(SCOPE, "")
        self._settings = _has_plain_settings(sdk)
        self._seen: object = None
        self._blind = False
        self._flags = TraceFlags(
            TraceFlags.SAMPLED
            | (TraceFlags.RANDOM_TRACE_ID if sdk.id_generator.is_trace_id_random() else 0)
        )

    @classmethod
    def of(cls, tracer: AnyTracer) -> LightTracer | None:
        """Return one for a tracer, None if it is not the SDK's."""
        return cls(tracer) if type(tracer) is Tracer else None

    @property
    def plain(self) -> bool:
        """Whether a span may be made here, now."""
        if not self._settings:
            return False
        added = self.processor._span_processors  # noqa: SLF001 - a new tuple whenever one is added
        if added is not self._seen:
            self._seen, self._blind = added, all(map(_is_blind, added))
        return self._blind and self.sdk._is_enabled()  # noqa: SLF001 - no public way

    def start(
        self,
        name: str,
        parent: SpanContext | None,
        kind: SpanKind,
        attributes: dict[str, Any],
        start_ns: int,
        ids: tuple[int, int] | None,
    ) -> LightSpan:
        """Start a span.

        Args:
            name: Its name.
            parent: The ids of its parent, which was made here too; None for a root.
            kind: Its kind.
            attributes: Its attributes; not to be used by the caller any more.
            start_ns: Start, Unix time in ns.
            ids: Trace and span id, None to ask the provider for them.
        """
        if ids is None:
            generator = self.sdk.id_generator
            trace_id = generator.generate_trace_id() if parent is None else parent.trace_id
            span_id = generator.generate_span_id()
        else:
            trace_id, span_id = ids
        context = SpanContext(trace_id, span_id, False, self._flags)  # noqa: FBT003 - not remote
        return LightSpan(self, name, context, parent, kind, attributes, start_ns)


def _has_plain_settings(sdk: Tracer) -> bool:
    limits = getattr(sdk, "_span_limits", None)
    return (
        (sdk.sampler is ALWAYS_ON or sdk.sampler is DEFAULT_ON)
        and type(sdk.span_processor) is SynchronousMultiSpanProcessor
        and hasattr(sdk.span_processor, "_span_processors")
        and hasattr(sdk, "_is_enabled")
        and type(getattr(sdk, "_tracer_metrics", None)).__name__ == "NoOpTracerMetrics"
        and getattr(limits, "max_span_attribute_length", 0) is None
        and getattr(limits, "max_attribute_length", 0) is None
        and all(
            getattr(limits, name, None) == LIMIT
            for name in (
                "max_span_attributes",
                "max_events",
                "max_links",
                "max_event_attributes",
                "max_link_attributes",
            )
        )
    )


def _is_blind(processor: SpanProcessor) -> bool:
    # What stands in the instance itself, as in a mock, has no function behind it.
    return all(
        getattr(getattr(processor, hook), "__func__", None)
        in [getattr(kind, hook, None) for kind in _BLIND]
        for hook in _WATCHING
        if hasattr(SpanProcessor, hook)
    )


def _is_plain(attributes: Mapping[str, Any]) -> bool:
    """Whether the SDK would take the attributes as they are."""
    if "" in attributes or not _NAMES.issuperset(map(type, attributes)):
        return False
    return _PLAIN.issuperset(map(type, attributes.values())) or all(
        type(value) in _PLAIN or (type(value) is tuple and _NAMES.issuperset(map(type, value)))
        for value in attributes.values()
    )


def _kept(attributes: dict[str, Any]) -> Any:  # noqa: ANN401 - the dict itself, or one of the SDK's
    if len(attributes) <= LIMIT and _is_plain(attributes):
        return attributes
    return _bounded(attributes)


def _bounded(attributes: Mapping[str, Any]) -> BoundedAttributes:
    return BoundedAttributes(LIMIT, attributes, immutable=False)
