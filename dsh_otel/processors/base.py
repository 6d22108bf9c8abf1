"""The base of all session span processors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import SpanProcessor

if TYPE_CHECKING:
    from dsh_core.contract.live import LiveFact
    from dsh_core.events import SessionEvent
    from dsh_core.faults import Fault
    from dsh_otel.spans import Session, SessionSpan


class SessionSpanProcessor(SpanProcessor):
    """A span processor that also sees the session's events.

    The SDK calls a processor for sampled spans only, and forbids writing once a span has ended.
    The session tracer therefore calls these hooks itself: for every event, sampled or not, while
    the span that the event opens, closes or falls in is still writable. One processor may serve
    many sessions.

    Add it to a provider (`TracerProvider.add_span_processor`) or hand it to `SessionTracer`; a
    processor that is given both ways is driven once.

    Attributes:
        watches: Types of the events that it wants to see, None for all.
    """

    watches: frozenset[str] | None = None

    def on_event(self, event: SessionEvent, span: SessionSpan) -> None:
        """See an event.

        Args:
            event: The event.
            span: The span it opens, closes or falls in; for an event outside all spans one that
                starts, with zero length, only if it is written to.
        """

    def on_fault(self, fault: Fault, span: SessionSpan) -> None:
        """See damage that the reader of the log met.

        Args:
            fault: What is wrong.
            span: The innermost open span, or one that starts only if it is written to.
        """

    def on_live(self, fact: LiveFact, span: SessionSpan) -> None:
        """See a fact that no log holds: an agent's status, an attempt to change history.

        Args:
            fact: The fact.
            span: The innermost open span, or one that starts only if it is written to.
        """

    def on_close(self, session: Session, span: SessionSpan) -> None:
        """See the end of a session, before its open spans are ended.

        Args:
            session: The session.
            span: The innermost open span, or one that starts only if it is written to.
        """
