"""Driving the session span processors: found in one place, each called once, none able to hurt."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from dsh_core.events import UnknownEvent
from dsh_otel.processors.base import SessionSpanProcessor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from opentelemetry.trace import TracerProvider

    from dsh_core.contract.live import LiveFact
    from dsh_core.events import SessionEvent
    from dsh_core.faults import Fault
    from dsh_otel.guard import Guard
    from dsh_otel.spans import Session, SessionSpan

_logger: Final = logging.getLogger("dsh_otel")


class Drivers:
    """The processors of one session tracer, found when it is made.

    A processor that is added to the provider later sees the sessions that start after it: half a
    session would look broken to a check.

    The SDK has no public way to ask a provider for its processors. Its private one is asked here,
    and only here; where that fails, processors must be handed over explicitly, and a warning says
    so.

    Args:
        provider: A provider that session span processors may have been added to.
        processors: Processors handed over explicitly.
        guard: Takes errors; a processor that raises is left out from then on.

    Attributes:
        active: The processors that are driven.
    """

    def __init__(
        self,
        provider: TracerProvider,
        processors: Iterable[SessionSpanProcessor],
        guard: Guard,
    ) -> None:
        self._guard = guard
        found: dict[int, SessionSpanProcessor] = {}
        for processor in (*processors, *added_to(provider)):
            if isinstance(processor, SessionSpanProcessor):
                found.setdefault(id(processor), processor)
        self.active = list(found.values())
        # Who wants to see the events of a class, found out when the first one comes.
        self._watching: dict[type[SessionEvent], Sequence[SessionSpanProcessor]] = {}

    def on_event(self, event: SessionEvent, span: SessionSpan) -> None:
        """Show an event to the processors that want to see it."""
        try:
            processors = self._watching[type(event)]
        except KeyError:
            processors = self._who_watches(event)
        for processor in processors:
            try:
                processor.on_event(event, span)
            except Exception as error:  # noqa: BLE001 - the host must not suffer
                self._failed(processor, error)

    def _who_watches(self, event: SessionEvent) -> Sequence[SessionSpanProcessor]:
        found = [one for one in self.active if one.watches is None or event.type in one.watches]
        if not isinstance(event, UnknownEvent):
            # Unknown events of all types share one class.
            self._watching[type(event)] = found
        return found

    def on_fault(self, fault: Fault, span: SessionSpan) -> None:
        """Show damage to all processors."""
        self._each(lambda processor: processor.on_fault(fault, span))

    def on_live(self, fact: LiveFact, span: SessionSpan) -> None:
        """Show all processors a fact that no log holds."""
        self._each(lambda processor: processor.on_live(fact, span))

    def on_close(self, session: Session, span: SessionSpan) -> None:
        """Show the end of the session to all processors."""
        self._each(lambda processor: processor.on_close(session, span))

    def _each(self, call: Callable[[SessionSpanProcessor], Any]) -> None:
        for processor in self.active:
            try:
                call(processor)
            except Exception as error:  # noqa: BLE001 - the host must not suffer
                self._failed(processor, error)

    def _failed(self, processor: SessionSpanProcessor, error: Exception) -> None:
        self.active = [one for one in self.active if one is not processor]
        self._watching = {}
        self._guard.failed(type(processor).__name__, error)


def added_to(provider: TracerProvider) -> Sequence[object]:
    """Return the span processors that were added to a provider, as far as it shows them."""
    source = getattr(provider, "_active_span_processor", None)
    if source is None:
        # A provider of another kind, which takes no processors: the API's own, for example.
        return ()
    added: Sequence[object] | None = getattr(source, "_span_processors", None)
    if added is None:
        _logger.warning(
            "this OpenTelemetry SDK does not show its span processors: "
            "hand session span processors to SessionTracer(processors=…)"
        )
        return ()
    return added
