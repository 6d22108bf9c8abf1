"""A span of a session while it is open: the OpenTelemetry span and what the tracer knows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, Status, StatusCode, set_span_in_context

from dsh_otel.names import Attr

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.trace import Span

    from dsh_core.events import Contract, SessionHeader
    from dsh_otel.clean import Privacy

MAX_EVENTS: Final = 64
"""Span events that one span may hold; further ones are counted."""

NS_PER_MS: Final = 1_000_000
_EMPTY: Final = Context()
MAX_TIME_MS: Final = (2**63 - 1) // NS_PER_MS
"""Latest time that fits a signed 64-bit number of nanoseconds, in ms."""


class Session:
    """What the tracer tells the processors about the session.

    Attributes:
        header: The session's header.
        contract: The contract that it is held to.
        line: 1-based line of the event under observation, 0 if it came from no file.
        header_row: The header row as logged, if there was one.
        header_line: Its line.
        content: Whether content is exported; decoding it is left out otherwise.
        now_ns: Time of the event under observation, Unix time in ns.
    """

    __slots__ = (
        "content",
        "contract",
        "header",
        "header_line",
        "header_row",
        "line",
        "now_ns",
    )

    def __init__(self, header: SessionHeader, contract: Contract, *, content: bool) -> None:
        self.header = header
        self.contract = contract
        self.content = content
        self.now_ns = 0
        self.line = 0
        self.header_row: Mapping[str, object] | None = None
        self.header_line = 0


class SessionSpan:
    """One span of the tree.

    Everything written to it passes the privacy rules and the limits. A span that stands for an
    event outside the tree starts only if somebody writes to it.

    Attributes:
        session: The session it belongs to.
        kind: ``turn``, ``step``, ``attempt``, ``tool`` or ``orphan``.
        turn: Turn number, None outside turns.
        step: Step number, None outside steps.
        name: Name of the tool or model, empty for other kinds.
        call_id: Id of the tool call, empty for other kinds.
        trace_id: Id of its trace.
        start_ns: Start, Unix time in ns.
        notes: Whatever a processor wants to remember about the span, by the processor.
        dropped_events: Span events that were over the limit.
        failed: Whether the status is set to ERROR.
        ended: Whether the span has ended.
    """

    __slots__ = (
        "_before_end",
        "_context",
        "_events",
        "_open",
        "_pending",
        "_privacy",
        "_span",
        "call_id",
        "dropped_events",
        "ended",
        "failed",
        "kind",
        "name",
        "notes",
        "session",
        "start_ns",
        "step",
        "trace_id",
        "turn",
    )

    def __init__(
        self,
        session: Session,
        privacy: Privacy,
        kind: str,
        start_ns: int,
        *,
        turn: int | None = None,
        step: int | None = None,
        name: str = "",
        call_id: str = "",
    ) -> None:
        self.session = session
        self.kind = kind
        self.turn = turn
        self.step = step
        self.name = name
        self.call_id = call_id
        self.trace_id = 0
        self.start_ns = start_ns
        self.notes: dict[object, Any] = {}
        self.dropped_events = 0
        self.failed = False
        self.ended = False
        self._privacy = privacy
        self._span: Span = INVALID_SPAN
        self._context: Context | None = None
        self._open: Callable[[SessionSpan], None] | None = None
        self._pending: dict[str, Any] = {}
        self._events = 0
        self._before_end: list[Callable[[], None]] = []

    def start(self, span: Span) -> None:
        """Take the OpenTelemetry span; used by the tracer."""
        self._span = span
        self._open = None

    def start_if_written(self, opener: Callable[[SessionSpan], None]) -> None:
        """Start only when somebody writes; used by the tracer."""
        self._open = opener

    @property
    def otel(self) -> Span:
        """The OpenTelemetry span, started if it was not."""
        if self._open is not None:
            opener, self._open = self._open, None
            opener(self)
        return self._span

    @property
    def started(self) -> bool:
        """Whether there is an OpenTelemetry span behind it."""
        return self._span is not INVALID_SPAN

    @property
    def context(self) -> Context:
        """The context that makes a span a child of this one."""
        if self._context is None:
            self._context = set_span_in_context(self._span, _EMPTY)
        return self._context

    @property
    def recording(self) -> bool:
        """Whether what is written is kept; False for an unsampled span."""
        return self.otel.is_recording()

    def set(self, name: str, value: Any) -> None:  # noqa: ANN401 - cleaned on the way
        """Set an attribute; it is written when the span ends."""
        if self._open is not None:
            _ = self.otel
        self._pending[name] = value

    def mark(self, name: str) -> None:
        """Set an attribute to true."""
        self.set(name, value=True)

    def get(self, name: str) -> Any:  # noqa: ANN401 - as it was set
        """Return an attribute that was set while the span was open, None if it was not."""
        return self._pending.get(name)

    def add_event(self, name: str, attributes: Mapping[str, Any], time_ns: int) -> bool:
        """Add a span event.

        Args:
            name: Its name.
            attributes: Its attributes, uncleaned.
            time_ns: Unix time in ns; moved to the span's start if it lies before.

        Returns:
            False if the span holds its fill of events.
        """
        if self._events >= MAX_EVENTS:
            self.dropped_events += 1
            return False
        self._events += 1
        span = self.otel
        if span.is_recording():
            time_ns = max(time_ns, self.start_ns)
            span.add_event(name, self._privacy.attributes(attributes), timestamp=time_ns)
        return True

    def fail(self, description: str) -> None:
        """Set the status to ERROR; the first description stays."""
        if self.failed:
            return
        self.failed = True
        span = self.otel
        if span.is_recording():
            span.set_status(Status(StatusCode.ERROR, self._privacy.text("status", description, "")))

    def before_end(self, action: Callable[[], None]) -> None:
        """Run an action just before the span ends, while it is still writable."""
        self._before_end.append(action)

    def end(self, end_ns: int, guard: Callable[[str, Callable[[], object]], bool]) -> None:
        """End the span; used by the tracer.

        Args:
            end_ns: Unix time in ns; moved to the start if it lies before.
            guard: Runs the actions that wait for the end.
        """
        if self.ended:
            return
        self.ended = True
        for action in self._before_end:
            guard("before_end", action)
        span = self._span
        if span is INVALID_SPAN:
            return
        if end_ns < self.start_ns:
            end_ns = self.start_ns
            self.mark(Attr.TIME_ADJUSTED)
        if span.is_recording():
            span.set_attributes(self._privacy.attributes(self._pending))
        span.end(end_ns)


def to_ns(time_ms: int) -> int:
    """Return a time of the log in ns, moved into what OTLP can carry."""
    return min(max(time_ms, 0), MAX_TIME_MS) * NS_PER_MS
