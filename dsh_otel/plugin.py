"""Telemetry of the sessions that live in this process: a plugin for `dsh_core`.

``ctx.plugin(dsh_otel.plugin, {...})`` traces every session as it happens. It only listens: no error
of its own reaches the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import trace
from pydantic import BaseModel, ConfigDict, Field, field_validator

from dsh_core.abort import RAISED
from dsh_core.contract.findings import Severity
from dsh_core.contract.installed import installed_catalogue
from dsh_core.contract.live import StatusChanged, StatusesUnknown
from dsh_core.events import Contract
from dsh_core.invariants import MUTATED, TOOL_FACT
from dsh_core.session.follow import Cursor
from dsh_otel.clean import Privacy
from dsh_otel.drivers import added_to
from dsh_otel.processors.base import SessionSpanProcessor
from dsh_otel.processors.errors import ErrorSpanProcessor
from dsh_otel.processors.invariants import InvariantSpanProcessor
from dsh_otel.tracer import SessionTracer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opentelemetry.trace import TracerProvider

    from dsh_core.agent import Agent
    from dsh_core.context import Context
    from dsh_core.contract.live import LiveFact
    from dsh_core.session import Entry, Session

KEPT: Final = "dsh_otel.plugin"
"""What the plugin's work is called among the things that a session keeps."""

_logger: Final = logging.getLogger("dsh_otel")


class Config(BaseModel):
    """What is traced, and where it goes.

    Attributes:
        tracer_provider: Where spans go; the global provider by default.
        processors: Session span processors, besides those of the provider.
        errors: Whether failures are written on spans, with code, family and route.
        check: Whether the contract is checked.
        rules: Globs on the rule id, or ``owner:GLOB``, of what is checked; all by default.
        exclude: The same, taken away from `rules`.
        severities: Severities that rules have instead of their own, by such globs.
        presets: Names of the permission presets that are configured, if that is to be checked.
        contract: What sessions are held to; the contract of their generation by default.
        content: Whether prompts, answers, arguments and results are exported.
        redact: Sees every name and value that leaves, see `Privacy`.
        flush_timeout_s: How long unloading may wait for spans to leave, in seconds.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    tracer_provider: Any = None
    processors: tuple[SessionSpanProcessor, ...] = ()
    errors: bool = True
    check: bool = True
    rules: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    severities: dict[str, Severity] = Field(default_factory=dict)
    presets: tuple[str, ...] | None = None
    contract: Contract | None = None
    content: bool = False
    redact: Any = None
    flush_timeout_s: float = Field(default=5.0, ge=0, le=600)

    @field_validator("tracer_provider")
    @classmethod
    def _is_provider(cls, value: object) -> object:
        if value is not None and not callable(getattr(value, "get_tracer", None)):
            raise ValueError("must be an OpenTelemetry TracerProvider")
        return value

    @field_validator("redact")
    @classmethod
    def _is_callable(cls, value: object) -> object:
        if value is not None and not callable(value):
            raise ValueError("must be a function of name and value")
        return value


name = "telemetry"
inject = ("sessions",)


def apply(ctx: Context, config: Config) -> None:
    """Trace every session that lives.

    Of a session that lives already, what its open turn has logged is traced too. When the plugin is
    unloaded and loaded again, open spans stay open, and what was logged meanwhile is caught up.

    Args:
        ctx: The plugin's context.
        config: What is traced, and where it goes.

    Raises:
        ServiceError: There is telemetry already.
        UnknownRuleError: A pattern of the configuration matches no rule.
        BadRulesError: The rules that another package brings cannot be used.
    """
    provider = config.tracer_provider or trace.get_tracer_provider()
    if not hasattr(provider, "add_span_processor"):
        _logger.warning(
            "no OpenTelemetry SDK is set up, spans go nowhere: call trace.set_tracer_provider() "
            "first, or hand a provider over as tracer_provider"
        )
    telemetry = _Telemetry(provider, config)
    # Two of them would see one session's spans half each.
    ctx.provide(name, telemetry)
    for session in ctx.sessions.list():
        telemetry.begin(session)
    # Before all others: an event that somebody refuses is logged all the same.
    ctx.on("session/created", telemetry.begin, prepend=True)
    ctx.on("session/event", telemetry.observe, prepend=True)
    ctx.on("agent/status", telemetry.status, prepend=True)
    ctx.on(MUTATED, telemetry.learnt, prepend=True)
    ctx.on(TOOL_FACT, telemetry.learnt, prepend=True)
    ctx.effect(lambda: lambda: _flush(provider, config.flush_timeout_s))


class Live:
    """The trace of one session, for its whole life.

    Args:
        session: The session.
        make: Makes what makes its spans.
        settings: What that depends on.

    Attributes:
        tracer: Makes its spans.
        settings: What that depends on.
    """

    def __init__(
        self, session: Session, make: Callable[[], SessionTracer], settings: object
    ) -> None:
        self._session = session
        self._cursor = Cursor(session)
        self._next: Callable[[], SessionTracer] | None = None
        self.tracer = make()
        self.settings = settings
        # What the open turn has logged already is traced; what lies before is history.
        entries = self._cursor.rest()
        news = _open_turn(entries)
        self._remember(entries[:news])
        self._observe(entries[news:])

    def _remember(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self.tracer.remember(self._session.event_of(entry))

    def _observe(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if self._next is not None and entry.type == "turn/start":
                self._renew(entry.seq)
            self.tracer.observe(self._session.event_of(entry))

    def allow(self, privacy: Privacy) -> None:
        """Let leave what may leave from now on, also of spans that are open."""
        now = self.tracer.session.privacy
        now.content, now.redact = privacy.content, privacy.redact

    def change(self, make: Callable[[], SessionTracer], settings: object) -> None:
        """Go on with other settings: spans that are open end where they began.

        Args:
            make: Makes what makes spans from the next turn on.
            settings: What that depends on.
        """
        self.settings, self._next = settings, make
        if _open_turn(self._session.events) == self._session.seq:
            self._renew(self._session.seq)

    def _renew(self, seq: int) -> None:
        make, self._next = self._next, None
        if make is not None:
            self.tracer.close()
            self.tracer = make()
            self._remember(self._session.events[:seq])

    def catch_up(self) -> None:
        """Trace what was logged and not seen."""
        self._observe(self._cursor.rest())

    def observe(self, entry: Entry) -> None:
        """Trace an event that has been appended."""
        self._observe(self._cursor.up_to(entry))

    def close(self) -> None:
        """End the spans that are open: the session's life is over."""
        self.catch_up()
        self.tracer.close()


class _Telemetry:
    """Where listeners lead to; nothing is raised out of it.

    Attributes:
        errors: How often something went wrong, also after it was said once.
    """

    def __init__(self, provider: TracerProvider, config: Config) -> None:
        self._provider = provider
        self._config = config
        self._settings = (provider, config)
        self._processors = _processors(provider, config)
        self.errors = 0

    def begin(self, session: Session) -> None:
        self._safely(lambda: self._begin(session))

    def _begin(self, session: Session) -> None:
        live = session.kept.get(KEPT)
        if not isinstance(live, Live):
            self._live(session)
            return
        live.allow(self._privacy())
        live.catch_up()
        live.tracer.observe_live(StatusesUnknown())
        if live.settings != self._settings:
            live.change(partial(self._make, session), self._settings)

    def observe(self, session: Session, entry: Entry) -> None:
        live = session.kept.get(KEPT)
        try:
            if live is None:
                live = self._live(session)
            live.observe(entry)
        except RAISED as error:
            self._complain(error)

    def status(self, agent: Agent, status: str) -> None:
        self._tell(agent.session, StatusChanged(agent.id, str(status)))

    def learnt(self, session: Session, fact: LiveFact) -> None:
        self._tell(session, fact)

    def _tell(self, session: Session, fact: LiveFact) -> None:
        # A session whose life is over has no trace any more.
        if not session.closed:
            self._safely(lambda: self._live(session).tracer.observe_live(fact))

    def _live(self, session: Session) -> Live:
        live = session.kept.get(KEPT)
        if isinstance(live, Live):
            return live
        live = session.kept[KEPT] = Live(session, partial(self._make, session), self._settings)
        return live

    def _privacy(self) -> Privacy:
        return Privacy(content=self._config.content, redact=self._config.redact)

    def _make(self, session: Session) -> SessionTracer:
        return SessionTracer(
            session.header,
            tracer_provider=self._provider,
            processors=self._processors,
            contract=self._config.contract,
            privacy=self._privacy(),
            header_row=session.header_row,
        )

    def _safely(self, action: Callable[[], object]) -> None:
        try:
            action()
        except RAISED as error:
            self._complain(error)

    def _complain(self, error: BaseException) -> None:
        self.errors += 1
        if self.errors == 1:
            _logger.error("telemetry failed, spans may be missing: %r", error)


def _processors(provider: TracerProvider, config: Config) -> Sequence[SessionSpanProcessor]:
    present = (*config.processors, *added_to(provider))
    found = list(config.processors)
    if config.errors and not any(isinstance(one, ErrorSpanProcessor) for one in present):
        found.append(ErrorSpanProcessor())
    if config.check and not any(isinstance(one, InvariantSpanProcessor) for one in present):
        catalogue = installed_catalogue().graded(config.severities)
        found.append(
            InvariantSpanProcessor(
                config.rules, config.exclude, catalogue=catalogue, presets=config.presets
            )
        )
    return found


def _open_turn(events: Sequence[Entry]) -> int:
    """Return where the turn begins that is open at the end; the end if none is."""
    for place in range(len(events) - 1, -1, -1):
        if events[place].type == "turn/end":
            break
        if events[place].type == "turn/start":
            return place
    return len(events)


async def _flush(provider: TracerProvider, timeout_s: float) -> None:
    """Let what has ended leave; a provider that takes too long is left to itself."""
    flush = getattr(provider, "force_flush", None)
    if flush is None or timeout_s <= 0:
        return
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def wait() -> None:
        try:
            flush(int(timeout_s * 1000))
        except Exception as error:  # noqa: BLE001 - the host must not suffer
            _logger.error("flushing spans failed: %r", error)  # noqa: TRY400 - short
        with contextlib.suppress(RuntimeError):
            # The loop may be closed by now.
            loop.call_soon_threadsafe(done.set)

    # The SDK does not keep to its timeout: a thread waits that nobody waits for.
    threading.Thread(target=wait, name="dsh-otel-flush", daemon=True).start()
    try:
        await asyncio.wait_for(done.wait(), timeout_s)
    except TimeoutError:
        _logger.warning("spans did not leave within %g s; they are left to the provider", timeout_s)
