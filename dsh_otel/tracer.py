"""The session tracer: the events of one session in, spans out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import trace

from dsh_core.events import SessionHeader
from dsh_otel.clean import Privacy
from dsh_otel.drivers import Drivers
from dsh_otel.guard import Guard
from dsh_otel.ids import DerivedIdGenerator
from dsh_otel.names import SCOPE
from dsh_otel.spans import Session
from dsh_otel.starter import SpanStarter
from dsh_otel.tree import SpanTree

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Mapping

    from opentelemetry.trace import SpanContext, TracerProvider

    from dsh_core.contract.live import LiveFact
    from dsh_core.contract.run import SourceKind
    from dsh_core.events import Contract, SessionEvent
    from dsh_core.faults import Fault
    from dsh_otel.processors.base import SessionSpanProcessor


class SessionTracer:
    """Turns the events of one session into spans; it judges nothing and never raises.

    Args:
        session: The session's header, or just its id.
        tracer_provider: Where spans go; the global provider by default. One made with a
            `DerivedIdGenerator` gets ids that follow from the log.
        processors: Session span processors, besides those added to the provider.
        contract: The contract the session is held to; the one of its generation by default.
        privacy: What may leave; no content by default.
        header_row: The header row as logged, for the rules about it.
        header_line: Its 1-based line.
        source: What kind of source the events come from; what the checking processor takes for
            granted by default.
        strict: Let errors of ours through (for tests).

    Attributes:
        session: What the processors see of the session.
        guard: Counts errors of ours and of the processors.
    """

    def __init__(
        self,
        session: SessionHeader | str,
        *,
        tracer_provider: TracerProvider | None = None,
        processors: Iterable[SessionSpanProcessor] = (),
        contract: Contract | None = None,
        privacy: Privacy | None = None,
        header_row: Mapping[str, object] | None = None,
        header_line: int = 0,
        source: SourceKind | None = None,
        strict: bool = False,
    ) -> None:
        header = SessionHeader(id=session) if isinstance(session, str) else session
        self.guard = Guard(strict=strict)
        self.session = Session(
            header, contract or header.contract, privacy or Privacy(), self.guard
        )
        self.session.header_row, self.session.header_line = header_row, header_line
        self.session.source = source
        provider = tracer_provider or trace.get_tracer_provider()
        ids = getattr(provider, "id_generator", None)
        self._starter = SpanStarter(
            self.session,
            provider.get_tracer(SCOPE),
            ids if isinstance(ids, DerivedIdGenerator) else None,
        )
        self._drivers = Drivers(provider, processors, self.guard)
        self._tree = SpanTree(self.session, self._starter)
        self._closed = False

    @property
    def counts(self) -> Counter[str]:
        """Events by what became of them, see `SpanTree`; ``failed`` counts errors of ours."""
        return self._tree.counts

    @property
    def unclosed(self) -> Counter[str]:
        """Number of spans that the log never closed, by kind."""
        return self._tree.unclosed

    @property
    def unsampled(self) -> int:
        """Number of spans that sampling, or a switched-off SDK, left out."""
        return self._starter.unsampled

    def call_from(self, caller: SpanContext | None, *, as_parent: bool = False) -> None:
        """Say on whose behalf the turns run that start from now on.

        Args:
            caller: A span of the program that has asked for them, None for nobody's.
            as_parent: Whether they become children of that span, in its trace; else they link to
                it. Their span ids are the same either way.
        """
        self._starter.caller, self._starter.nested = caller, as_parent

    def observe(self, event: SessionEvent, line: int = 0) -> None:
        """Place an event in the tree and show it to the processors.

        Args:
            event: The next event of the session.
            line: Its 1-based line in the log, 0 if it came from no file.
        """
        tree, self._closed = self._tree, False
        try:
            span = tree.place(event)
        except Exception as error:  # noqa: BLE001 - the host must not suffer
            self.counts["failed"] += 1
            self.guard.failed("placing an event", error)
            # To a check, a session that lacks an event looks broken.
            span = tree.innermost()
        if self._drivers.active:
            self.session.line = line
            self._drivers.on_event(event, span)
        if tree.then is not None:
            try:
                tree.settle()
            except Exception as error:  # noqa: BLE001 - as above
                self.guard.failed("ending a span", error)

    def remember(self, event: SessionEvent) -> None:
        """Take in an event of the past, which was or will be traced elsewhere: it makes no spans.

        Args:
            event: The next event of the session.
        """
        self._starter.muted = True
        try:
            self.observe(event)
        finally:
            self._starter.muted = False

    def remember_fault(self, fault: Fault) -> None:
        """Take in damage of the past: it makes no spans."""
        self._starter.muted = True
        try:
            self.observe_fault(fault)
        finally:
            self._starter.muted = False

    def observe_live(self, fact: LiveFact) -> None:
        """Show a fact that no log holds to the processors."""
        self._closed = False
        self._drivers.on_live(fact, self._tree.aside())
        self.guard.run("ending a span", self._tree.settle)

    def observe_fault(self, fault: Fault) -> None:
        """Show damage in the log to the processors."""
        self._closed = False
        self.session.line = fault.line
        self._drivers.on_fault(fault, self._tree.aside())
        self.guard.run("ending a span", self._tree.settle)

    def close(self) -> None:
        """End the session: what is open is ended as unclosed. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._drivers.on_close(self.session, self._tree.aside())
        self.guard.run("ending a span", self._tree.settle)
        self.guard.run("closing", self._tree.close)
