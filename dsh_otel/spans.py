"""A span of a session while it is open: the OpenTelemetry span and what the tracer knows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, Status, StatusCode, set_span_in_context

from dsh_otel.light import write
from dsh_otel.names import Attr

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.trace import Span

    from dsh_core.contract.run import SourceKind
    from dsh_core.events import Contract, SessionHeader
    from dsh_otel.clean import Privacy
    from dsh_otel.guard import Guard

MAX_EVENTS: Final = 128
"""Span events that one span may hold; further ones are counted. The SDK would drop the oldest."""

MAX_NOTES: Final = 64
"""How many of them the tracer may take for itself; findings must find room."""

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
        now_ns: Time of the event under observation, Unix time in ns; before the first, when the
            session was made, as far as the header says.
        source: What kind of source the events come from; None if nobody has said.
        privacy: What may leave.
        guard: Keeps errors of ours away from the host.
        notes: Whatever processors want to remember about the session, by processor.
    """

    __slots__ = (
        "contract",
        "guard",
        "header",
        "header_line",
        "header_row",
        "line",
        "notes",
        "now_ns",
        "privacy",
        "source",
    )

    def __init__(
        self, header: SessionHeader, contract: Contract, privacy: Privacy, guard: Guard
    ) -> None:
        self.header = header
        self.contract = contract
        self.privacy = privacy
        self.guard = guard
        self.notes: dict[object, Any] = {}
        self.now_ns = to_ns(header.created_at)
        self.line = 0
        self.header_row: Mapping[str, object] | None = None
        self.header_line = 0
        self.source: SourceKind | None = None

    @property
    def content(self) -> bool:
        """Whether content is exported; decoding it is left out otherwise."""
        return self.privacy.content


class SessionSpan:
    """One span of the tree.

    Everything written to it passes the privacy rules and the limits.

    Attributes:
        session: The session it belongs to.
        kind: ``turn``, ``step``, ``attempt``, ``tool`` or ``orphan``.
        turn: Turn number, None outside turns.
        step: Step number, None outside steps.
        name: Name of the tool or model, empty for other kinds.
        call_id: Id of the tool call, empty for other kinds.
        start_ns: Start, Unix time in ns.
        otel: The OpenTelemetry span behind it.
        dropped_events: Span events that were over the limit.
        failed: Whether the status is set to ERROR.
        ended: Whether the span has ended.
    """

    # What most spans never change stands here: it costs nothing to make.
    dropped_events = 0
    failed = False
    ended = False
    otel: Span = INVALID_SPAN
    _context: Context | None = None
    _before_end: tuple[Callable[[], None], ...] = ()
    _notes: dict[object, Any] | None = None
    _events = 0
    _noted = 0

    def __init__(
        self,
        session: Session,
        kind: str,
        start_ns: int,
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
        self.start_ns = start_ns
        self._pending: dict[str, Any] = {}

    @property
    def notes(self) -> dict[object, Any]:
        """Whatever processors want to remember about the span, by processor."""
        if self._notes is None:
            self._notes = {}
        return self._notes

    @property
    def trace_id(self) -> int:
        """Id of its trace, 0 before it has started."""
        return self.otel.get_span_context().trace_id

    @property
    def started(self) -> bool:
        """Whether there is an OpenTelemetry span behind it."""
        return self.otel is not INVALID_SPAN

    @property
    def context(self) -> Context:
        """The context that makes a span a child of this one."""
        if self._context is None:
            self._context = set_span_in_context(self.otel, _EMPTY)
        return self._context

    @property
    def recording(self) -> bool:
        """Whether what is written is kept; False for an unsampled span."""
        return self.otel.is_recording()

    def set(self, name: str, value: Any) -> None:  # noqa: ANN401 - cleaned on the way
        """Set an attribute; it is written when the span ends."""
        self._pending[name] = value

    def mark(self, name: str) -> None:
        """Set an attribute to true."""
        self.set(name, value=True)

    def get(self, name: str) -> Any:  # noqa: ANN401 - as it was set
        """Return an attribute that was set while the span was open, None if it was not."""
        return self._pending.get(name)

    def add_event(self, name: str, attributes: dict[str, Any], time_ns: int) -> bool:
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
            if time_ns < self.start_ns:
                time_ns = self.start_ns
                self.mark(Attr.TIME_ADJUSTED)
            span.add_event(name, self.session.privacy.attributes(attributes), time_ns)
        return True

    def note(self, name: str, attributes: dict[str, Any], time_ns: int) -> bool:
        """Add a span event for an event of the log; used by the tracer, see `add_event`."""
        if self._noted >= MAX_NOTES:
            self.dropped_events += 1
            return False
        self._noted += 1
        return self.add_event(name, attributes, time_ns)

    def fail(self, description: str) -> None:
        """Set the status to ERROR; the first description stays."""
        if self.failed:
            return
        self.failed = True
        span = self.otel
        if span.is_recording():
            text = self.session.privacy.text("status", description, "")
            span.set_status(Status(StatusCode.ERROR, text))

    def before_end(self, action: Callable[[], None]) -> None:
        """Run an action just before the span ends, while it is still writable."""
        self._before_end += (action,)

    def end(self, end_ns: int) -> None:
        """End the span; used by the tracer.

        Args:
            end_ns: Unix time in ns; moved to the start if it lies before.
        """
        if self.ended:
            return
        self.ended = True
        for action in self._before_end:
            self.session.guard.run("before_end", action)
        span = self.otel
        if span is INVALID_SPAN:
            return
        if end_ns < self.start_ns:
            end_ns = self.start_ns
            self._pending[Attr.TIME_ADJUSTED] = True
        try:
            if self._pending and span.is_recording():
                write(span, self.session.privacy.attributes(self._pending))
            span.end(end_ns)
        except Exception as error:  # noqa: BLE001 - span processors of others run in here
            self.session.guard.failed("ending a span", error)


class LazySpan(SessionSpan):
    """A span for an event outside the tree: it starts only if somebody writes to it."""

    opener: Callable[[SessionSpan], None] | None = None

    @property
    def recording(self) -> bool:
        """Whether what is written is kept; asking starts the span."""
        self._start()
        return super().recording

    def _start(self) -> None:
        if self.opener is not None:
            opener, self.opener = self.opener, None
            opener(self)

    def set(self, name: str, value: Any) -> None:  # noqa: ANN401 - as in the base class
        """Set an attribute."""
        self._start()
        super().set(name, value)

    def add_event(self, name: str, attributes: dict[str, Any], time_ns: int) -> bool:
        """Add a span event, see the base class."""
        self._start()
        return super().add_event(name, attributes, time_ns)

    def fail(self, description: str) -> None:
        """Set the status to ERROR."""
        self._start()
        super().fail(description)


def to_ns(time_ms: int) -> int:
    """Return a time of the log in ns, moved into what OTLP can carry."""
    return min(max(time_ms, 0), MAX_TIME_MS) * NS_PER_MS
