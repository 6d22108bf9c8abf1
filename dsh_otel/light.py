"""The SDK's spans, made without asking questions whose answers are known.

Half of what the SDK takes for a span goes into asking a sampler that always agrees and into
cleaning attribute values that are clean. `LightTracer` and `write` leave both out where nobody
could tell the difference: the span is the SDK's own, with its limits, locks and processors.
Everywhere else they leave it to the SDK.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import Span as SdkSpan
from opentelemetry.sdk.trace import Tracer
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, DEFAULT_ON
from opentelemetry.sdk.util import BoundedList
from opentelemetry.trace import INVALID_SPAN_CONTEXT, SpanContext, TraceFlags

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind

_NAMES: Final = frozenset({str})
_START: Final = Tracer.start_span
"""As it was before anybody patched it."""

_OWN: Final = frozenset(
    {"_name", "_context", "_parent", "_kind", "_lock", "_attributes", "_events", "_links"}
)
"""What each span has for itself."""

_NO_METRICS: Final = "NoOpTracerMetrics"
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_SAMPLED_RANDOM: Final = TraceFlags(TraceFlags.SAMPLED | TraceFlags.RANDOM_TRACE_ID)


class LightSpan(SdkSpan):
    """A span of the SDK that was not made by its tracer."""


class LightTracer:
    """Makes the spans of an SDK tracer, as long as it is a plain one.

    Plain means that the answers are known: it is on, samples everything, cuts no values, and counts
    no spans of its own. Some of that stands in private attributes; where one is missing, nothing is
    plain, and all that is lost is speed.

    Args:
        tracer: Any tracer.
    """

    def __init__(self, tracer: object) -> None:
        self._sdk: Any = tracer if type(tracer) is Tracer else None
        # A span that never starts: what all spans of the tracer have in common.
        self._common: dict[str, Any] | None = None
        self._resource: object = None

    @property
    def plain(self) -> bool:
        """Whether a span may be made here, now."""
        sdk = self._sdk
        if (
            sdk is None
            or not (sdk.sampler is DEFAULT_ON or sdk.sampler is ALWAYS_ON)
            or getattr(sdk.start_span, "__func__", None) is not _START
        ):
            return False
        # The resource changes when the process forks.
        if self._common is None or sdk.resource is not self._resource:
            self._resource, self._common = sdk.resource, _common(sdk)
        return bool(self._common) and bool(sdk._is_enabled())  # noqa: SLF001 - no public way

    def start(
        self,
        name: str,
        context: Context,
        parent: SpanContext | None,
        kind: SpanKind,
        attributes: Mapping[str, Any],
        start_ns: int,
        ids: tuple[int, int] | None,
    ) -> LightSpan | None:
        """Start a span as the tracer would.

        Args:
            name: Its name.
            context: The context with its parent, an empty one for a root.
            parent: The parent's ids, None for a root.
            kind: Its kind.
            attributes: Its attributes, named and cleaned by this package, see `Privacy`.
            start_ns: Start, Unix time in ns.
            ids: Trace and span id, None to ask the provider for them.

        Returns:
            The span; None if only the SDK knows what becomes of it.
        """
        sdk, common = self._sdk, self._common
        if not common:
            return None
        state = None
        if parent is None:
            trace_id = sdk.id_generator.generate_trace_id() if ids is None else ids[0]
            flags = _SAMPLED_RANDOM if sdk.id_generator.is_trace_id_random() else _SAMPLED
        elif parent.is_valid and parent.trace_flags & TraceFlags.SAMPLED:
            trace_id, state = parent.trace_id, parent.trace_state
            flags = _SAMPLED_RANDOM if parent.trace_flags & TraceFlags.RANDOM_TRACE_ID else _SAMPLED
        else:
            return None
        span_id = sdk.id_generator.generate_span_id() if ids is None else ids[1]
        span: LightSpan = object.__new__(LightSpan)
        limits = common["_limits"]
        own = span.__dict__
        own.update(common)
        own["_name"] = name
        own["_context"] = SpanContext(trace_id, span_id, False, flags, state)  # noqa: FBT003
        own["_parent"] = parent
        own["_kind"] = kind
        own["_lock"] = Lock()
        own["_events"] = BoundedList(limits.max_events)
        own["_links"] = BoundedList(limits.max_links)
        own["_attributes"] = mine = BoundedAttributes(limits.max_span_attributes, immutable=False)
        if mine.maxlen is None or len(attributes) <= mine.maxlen:
            mine._dict.update(attributes)  # noqa: SLF001 - its public way cleans again
        else:
            mine.update(attributes)
        span.start(start_ns, context)
        return span


def _common(sdk: Any) -> dict[str, Any]:  # noqa: ANN401 - the API's tracer has no such attributes
    """Return what all spans of a tracer have in common; nothing if the SDK is not as known."""
    try:
        limits = sdk._span_limits  # noqa: SLF001 - no public way
        metrics = type(sdk._tracer_metrics).__name__  # noqa: SLF001 - as above
        span = LightSpan(
            name="",
            context=INVALID_SPAN_CONTEXT,
            sampler=sdk.sampler,
            resource=sdk.resource,
            span_processor=sdk.span_processor,
            instrumentation_info=sdk.instrumentation_info,
            limits=limits,
            instrumentation_scope=sdk._instrumentation_scope,  # noqa: SLF001 - as above
            record_end_metrics=_nothing,
        )
    except Exception:  # noqa: BLE001 - an SDK that has changed
        return {}
    common = dict(span.__dict__)
    known = (
        hasattr(sdk, "_is_enabled")
        and limits.max_span_attribute_length is None
        and metrics == _NO_METRICS
    )
    return common if known and set(common) >= _OWN else {}


def _nothing() -> None:
    """Count nothing."""


def write(span: Span, attributes: Mapping[str, Any]) -> None:
    """Set attributes of a span, without cleaning what is clean.

    Args:
        span: The span.
        attributes: The attributes; their values are clean, see `Privacy`.
    """
    if type(span) is LightSpan and _NAMES.issuperset(map(type, attributes)):
        mine: Any = span._attributes  # noqa: SLF001 - its public way cleans again
        known = getattr(mine, "_dict", None)
        if (
            type(known) is dict
            and "" not in attributes
            and (mine.maxlen is None or len(known) + len(attributes) <= mine.maxlen)
        ):
            with span._lock:  # noqa: SLF001 - as above
                if not mine._immutable:  # noqa: SLF001 - as above
                    if not known.keys().isdisjoint(attributes):
                        # What is set last comes last.
                        for name in attributes:
                            known.pop(name, None)
                    known.update(attributes)
                    return
    span.set_attributes(attributes)
