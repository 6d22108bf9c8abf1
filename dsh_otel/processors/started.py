"""Turns that have begun, as log events: one that never ends is visible all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from opentelemetry._logs import SeverityNumber

from dsh_otel.names import SCOPE, Attr, Event
from dsh_otel.processors.base import SessionSpanProcessor

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider

    from dsh_core.events import SessionEvent
    from dsh_otel.spans import SessionSpan


class Quiet(Protocol):
    """Knows when not to tell.

    Attributes:
        quiet: Whether what comes is known already.
    """

    quiet: bool


class TurnStartedProcessor(SessionSpanProcessor):
    """Emits a log event ``dsh.turn.started`` for each turn that starts, in the turn's trace.

    Args:
        logger_provider: Where log events go.
        facts: Knows whether turns are of the past, or were told before.
    """

    watches = frozenset({"turn/start"})

    def __init__(self, logger_provider: LoggerProvider, facts: Quiet | None = None) -> None:
        self._logger = logger_provider.get_logger(SCOPE)
        self._facts = facts

    def on_event(self, event: SessionEvent, span: SessionSpan) -> None:
        """Tell that a turn has started."""
        if not span.started or (self._facts is not None and self._facts.quiet):
            return
        session = span.session
        attributes = {
            Attr.CONVERSATION: session.header.id,
            Attr.SESSION: session.header.id,
            Attr.TURN: span.turn,
            Attr.SEQ_START: event.seq,
        }
        self._logger.emit(
            timestamp=session.now_ns,
            severity_number=SeverityNumber.INFO,
            event_name=Event.TURN_STARTED,
            attributes=session.privacy.attributes(attributes),
            context=span.context,
        )
