"""All sessions that are told in streams, each with a tracer of its own; bounded in number."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from dsh_core.contract.run import SourceKind
from dsh_core.events import SessionHeader
from dsh_otel.clean import Privacy
from dsh_otel.replay import default_processors
from dsh_otel.sources.durable import DurableLog
from dsh_otel.sources.session import WAIT_S, StreamedSession
from dsh_otel.sources.told import Answered, Asked, Ended, Idle, Told
from dsh_otel.tracer import SessionTracer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from opentelemetry.trace import TracerProvider

    from dsh_core.events import Contract
    from dsh_otel.clean import Redactor
    from dsh_otel.processors.base import SessionSpanProcessor
    from dsh_otel.sources.durable import Head
    from dsh_otel.sources.told import Item, Process

MAX_SESSIONS: Final = 512
"""Most sessions that are followed at a time; the one that has been silent longest goes first."""

LINGER_S: Final = 10.0
"""How long a session whose process has ended is kept, in seconds."""

MAX_FORGOTTEN: Final = 8192
"""Of so many that had to go it is known how far they were."""

_Key = tuple["Path | None", str]


@dataclass(frozen=True, slots=True)
class Settings:
    """How sessions are traced.

    Attributes:
        provider: Returns where the spans of a session go that begins now.
        processors: Session span processors besides those of the provider, None for the usual ones.
        contract: What sessions are held to; the contract of their generation by default.
        content: Whether content is exported.
        redact: Sees every name and value that leaves, see `Privacy`.
        as_parent: Whether turns become children of the span that they run on behalf of.
        wait_s: How long what is missing in a stream is waited for, in seconds.
        linger_s: How long a session whose process has ended is kept for one that goes on with it,
            in seconds; what is open ends then.
        lossy: Returns whether something that was told may have been dropped on the way.
        strict: Let errors of ours through (for tests).
    """

    provider: Callable[[], TracerProvider]
    processors: Sequence[SessionSpanProcessor] | None = None
    contract: Contract | None = None
    content: bool = False
    redact: Redactor | None = None
    as_parent: bool = False
    wait_s: float = WAIT_S
    linger_s: float = LINGER_S
    lossy: Callable[[], bool] = lambda: False
    strict: bool = False


@dataclass(slots=True)
class Sessions:
    """Leads what is told to the session that it is about.

    Attributes:
        settings: How sessions are traced.
        clock: Seconds that pass.
        max_sessions: Most sessions that are followed at a time.
        counts: Sessions that were ``forgotten`` because there were too many, events that were
            ``filled`` in from logs, and those that stay ``missing``.
    """

    settings: Settings
    clock: Callable[[], float]
    max_sessions: int = MAX_SESSIONS
    counts: Counter[str] = field(default_factory=Counter)
    _followed: OrderedDict[_Key, StreamedSession] = field(default_factory=OrderedDict)
    _waiting: set[_Key] = field(default_factory=set)
    _lingering: dict[_Key, float] = field(default_factory=dict)
    _forgotten: OrderedDict[_Key, int] = field(default_factory=OrderedDict)

    @property
    def waiting(self) -> bool:
        """Whether something that was told waits to be placed."""
        return bool(self._waiting)

    def take(self, item: Item) -> None:
        """Take in what was told next."""
        if isinstance(item, Ended):
            self._end(item.process)
            return
        key = (item.process.root, item.session_id)
        session = self._session(key, item.process)
        if isinstance(item, Told | Idle):
            session.take(item, self.clock())
        elif isinstance(item, Asked):
            session.callers.ask(item.token, item.caller)
        elif isinstance(item, Answered):
            session.callers.answer(item.token, item.message_id)
            session.advance(self.clock())
        elif item.parent_id != item.session_id:
            parent = self._session((item.process.root, item.parent_id), item.process)
            session.parent, session.callers.above = parent, parent.callers
        self._note(key, session)

    def look(self) -> float | None:
        """Look where something is due, and return when to do it again; None if nothing waits."""
        now = self.clock()
        due: list[float] = []
        for key in tuple(self._waiting):
            session = self._followed[key]
            if session.due is not None and session.due <= now:
                session.advance(now)
            self._note(key, session)
            if session.due is not None:
                due.append(session.due)
        for key, end in tuple(self._lingering.items()):
            if end <= now:
                self._forget(key)
            else:
                due.append(end)
        return min(due, default=None)

    def close(self) -> None:
        """Place what there is, also in the logs, and end all spans."""
        while self._followed:
            _, session = self._followed.popitem(last=False)
            session.finish(self.clock(), lossy=self.settings.lossy())
            session.close()
        self._waiting.clear()
        self._lingering.clear()

    def _session(self, key: _Key, process: Process) -> StreamedSession:
        session = self._followed.get(key)
        if session is None:
            session = self._followed[key] = self._make(key, process)
            while len(self._followed) > max(self.max_sessions, 2):
                self.counts["forgotten"] += 1
                self._forget(next(iter(self._followed)))
        self._followed.move_to_end(key)
        self._lingering.pop(key, None)
        return session

    def _make(self, key: _Key, process: Process) -> StreamedSession:
        session = StreamedSession(
            process,
            DurableLog(*key),
            lambda head: self._tracer(
                head, _made_up(key[1], session) if head is None else head.header
            ),
            self.counts,
            as_parent=self.settings.as_parent,
            seen=self._forgotten.pop(key, 0),
            wait_s=self.settings.wait_s,
        )
        return session

    def _tracer(self, head: Head | None, header: SessionHeader) -> SessionTracer:
        settings = self.settings
        provider = settings.provider()
        processors = settings.processors
        return SessionTracer(
            header,
            tracer_provider=provider,
            processors=default_processors(provider) if processors is None else processors,
            contract=settings.contract,
            privacy=Privacy(content=settings.content, redact=settings.redact),
            header_row=None if head is None else head.row,
            header_line=0 if head is None else head.line,
            source=SourceKind.STREAM,
            strict=settings.strict,
        )

    def _forget(self, key: _Key) -> None:
        session = self._followed.pop(key)
        self._waiting.discard(key)
        self._lingering.pop(key, None)
        session.hurry(self.clock())
        session.close()
        self._forgotten[key] = session.next
        while len(self._forgotten) > MAX_FORGOTTEN:
            self._forgotten.popitem(last=False)

    def _note(self, key: _Key, session: StreamedSession) -> None:
        if session.due is None:
            self._waiting.discard(key)
        else:
            self._waiting.add(key)

    def _end(self, process: Process) -> None:
        for key, session in self._followed.items():
            if session.process is process:
                session.finish(self.clock(), lossy=self.settings.lossy())
                self._note(key, session)
                self._lingering[key] = self.clock() + self.settings.linger_s


def _made_up(session_id: str, session: StreamedSession) -> SessionHeader:
    """Return the header of a session whose log cannot be read, as far as it was told."""
    version, parent = session.process.format, session.parent
    if parent is None:
        return SessionHeader(id=session_id, version=version)
    above = parent.header
    return SessionHeader(
        id=session_id,
        version=version,
        parent_session=parent.id,
        origin="subagent",
        delegation_depth=1 if above is None else above.delegation_depth + 1,
    )
