"""The work behind ``dsh-otel receive``: an endpoint, sessions that it is told of, their spans."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import uvicorn

from dsh_core.contract.findings import Severity
from dsh_otel.clean import Privacy
from dsh_otel.cli.exits import CannotTellError, debugging, say
from dsh_otel.cli.formats.words import counted, severities
from dsh_otel.cli.tailing import Pipe, stopped_by_signals
from dsh_otel.processors.errors import ErrorSpanProcessor
from dsh_otel.processors.invariants import InvariantSpanProcessor
from dsh_otel.replay import replay_provider
from dsh_otel.sources.facts import FactProcessor
from dsh_otel.sources.otlp_logs import Answer
from dsh_otel.sources.outlet import Counts as Sent
from dsh_otel.sources.outlet import Outlet
from dsh_otel.sources.receiver import ENDING, MAX_BYTES, PATH, Intake, make_app, work_on
from dsh_otel.sources.streams import StreamHub, StreamSetting

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_core.contract.findings import Finding
    from dsh_core.events import Contract
    from dsh_core.logs.told import Aside, Told
    from dsh_otel.cli.ruling import Ruling
    from dsh_otel.export.sink import Sink
    from dsh_otel.sources.facts import Fact
    from dsh_otel.sources.receiver import Parcel
    from dsh_otel.spans import SessionSpan

TICK_S: Final = 0.2
"""How often time passes for sessions that nobody tells of, in seconds."""

MAX_CONNECTIONS: Final = 1024
"""More are answered by the server itself, or not at all; far fewer requests are read at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is received, and how.

    Attributes:
        host: Where to listen.
        port: The port; 0 for any.
        token: What clients must show; empty if anybody may come in.
        max_body: Largest request, in bytes.
        ruling: The rules to apply.
        contract: The contract to hold sessions to; None for that of each one's generation.
        content: Whether content may leave.
        timeout_s: How long the end may take, in seconds.
    """

    host: str
    port: int
    token: str
    max_body: int
    ruling: Ruling
    contract: Contract | None
    content: bool
    timeout_s: float


class Summary(msgspec.Struct, kw_only=True):
    """What was received, and what became of it.

    Attributes:
        event: Tells it from facts.
        requests: Requests by the status that they were answered with.
        sessions: Sessions that had events.
        events: Events that were news.
        turns: Turns that ended.
        rejected: Records that are no events.
        asides: What else was told or left out, by kind, see `StreamCounts`.
        findings: Findings by severity.
        target: Where spans went, empty if nowhere.
        sent: Spans that arrived.
        dropped: Spans that were refused, or for which there was no room.
        left: Spans that could not be sent in time.
        unread: Requests that were taken and could not be worked on in time.
        problem: Why spans did not arrive.
        errors: Errors of ours and of processors, by place.
    """

    event: str = "dsh.receive.ended"
    requests: dict[int, int]
    sessions: int
    events: int
    turns: int
    rejected: int
    asides: dict[str, int]
    findings: dict[Severity, int]
    target: str
    sent: int
    dropped: int
    left: int
    unread: int
    problem: str
    errors: dict[str, int]

    @property
    def complete(self) -> bool:
        """Whether everything that was told has arrived."""
        return not (self.dropped or self.left or self.errors)

    def as_json(self) -> str:
        """Return it as one JSON object."""
        return msgspec.json.encode(self).decode()

    def tell(self) -> None:
        """Say it to people."""
        for place, count in self.errors.items():
            say(f"{place} failed {counted(count, 'time')} and was left out. Please report it.")
        asides = self.asides
        out = [
            f"{asides[kind]:,} {word}"
            for kind, word in (("duplicate", "told again"), ("late", "too late"))
            if asides.get(kind)
        ]
        if self.rejected:
            out.append(f"{counted(self.rejected, 'record')} rejected")
        say(
            f"{counted(sum(self.requests.values()), 'request')}: "
            f"{counted(self.sessions, 'session')}, {counted(self.events, 'event')}, "
            f"{counted(self.turns, 'turn')} ended; {severities(Counter(self.findings))}"
            + (f"; {', '.join(out)}" if out else "")
        )
        if self.unread:
            say(f"{counted(self.unread, 'request')} not worked on in time, and told so")
        if not self.target:
            return
        parts = [f"{counted(self.sent, 'span')} sent to {self.target}"]
        if self.dropped:
            parts.append(f"{self.dropped:,} dropped")
        if self.left:
            parts.append(f"{self.left:,} left, lost")
        why = f" ({self.problem})" if self.problem and (self.left or self.dropped) else ""
        say(", ".join(parts) + why)


class _TooLateError(Exception):
    """It is time to end, and not all of a request has been worked on."""


class Receiving:
    """Receives until it is told to stop.

    Args:
        plan: What is received, and how.
        sink: Where spans go; None if they go nowhere.
        tell: Called with each fact.
        stop: Set when it is time to end.

    Attributes:
        findings: Findings by severity.
        url: Where it listens.

    Raises:
        CannotTellError: It cannot listen there.
    """

    def __init__(
        self,
        plan: Plan,
        sink: Sink | None,
        tell: Callable[[Fact], object],
        stop: threading.Event,
    ) -> None:
        self.findings: Counter[Severity] = Counter()
        self._plan = plan
        self._stop = stop
        # When it has to be over, once it is time to end.
        self._deadline: float | None = None
        self._sink = sink
        self._socket = listening(plan.host, plan.port)
        self.url = url_of(self._socket)
        self._outlet = None if sink is None else Outlet(sink, lossy=True)
        self._facts = FactProcessor(tell)
        checks = InvariantSpanProcessor(
            plan.ruling.chosen,
            catalogue=plan.ruling.catalogue,
            presets=plan.ruling.presets,
            on_finding=self._found,
        )
        self._hub = StreamHub(
            StreamSetting(
                provider=replay_provider(*(() if self._outlet is None else (self._outlet,))),
                processors=(ErrorSpanProcessor(), checks, self._facts),
                privacy=lambda: Privacy(content=plan.content),
                contract=plan.contract,
            )
        )
        self._intake = Intake(plan.max_body, max_bytes=max(MAX_BYTES, 2 * plan.max_body))
        self._rejected = self._unread = 0
        self._failing = ""
        self._next_tick = 0.0
        self._server = uvicorn.Server(
            uvicorn.Config(
                make_app(self._intake, plan.token),
                access_log=False,
                lifespan="off",
                limit_concurrency=MAX_CONNECTIONS,
                log_config=None,
                log_level="critical",
                server_header=False,
                timeout_graceful_shutdown=1,
                ws="none",
            )
        )
        self._thread = threading.Thread(target=self._serve, name="dsh-otel-receive", daemon=True)

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def _found(self, finding: Finding, span: SessionSpan) -> None:
        self.findings[finding.severity] += 1
        self._facts.on_finding(finding, span)

    def begin(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def step(self) -> None:
        """Work on a request if there is one, and let time pass."""
        if not self._thread.is_alive():
            raise CannotTellError(f"{self.url}: the endpoint has ended by itself")
        parcel = self._intake.get(TICK_S)
        if parcel is not None:
            self._work_on(parcel)
        if time.monotonic() >= self._next_tick:
            self._next_tick = time.monotonic() + TICK_S
            self._hub.tick()
            self._tell_trouble()

    def _work_on(self, parcel: Parcel) -> None:
        try:
            answer = work_on(parcel, self._plan.max_body, self._tell)
        except _TooLateError:
            self._unread += 1
            answer = ENDING
        except Exception as error:
            if debugging():
                raise
            # To be asked again would not help.
            self._hub.counts.errors[f"reading a request ({type(error).__name__})"] += 1
            answer = Answer(400, "it cannot be dealt with")
        self._rejected += answer.rejected
        parcel.answer(answer)

    def _tell(self, told: Told | Aside) -> None:
        if self._stop.is_set() and time.monotonic() > self._end() - self._plan.timeout_s / 2:
            raise _TooLateError
        self._hub.tell(told)

    def _end(self) -> float:
        """Return when it has to be over, from the moment on when it is known that it ends."""
        if self._deadline is None:
            self._deadline = time.monotonic() + self._plan.timeout_s
        return self._deadline

    def _tell_trouble(self) -> None:
        outlet = self._outlet
        if outlet is None:
            return
        if outlet.broken:
            raise BrokenPipeError
        if outlet.failing != self._failing:
            self._failing = outlet.failing
            waiting = "spans wait as long as there is room"
            say(f"{self._failing}; {waiting}" if self._failing else "spans arrive again")

    def end(self) -> Summary:
        """End it in time: first requests that were taken, then sessions, then spans."""
        deadline = self._end()
        self._intake.end()
        while not self._intake.empty and time.monotonic() < deadline - self._plan.timeout_s / 2:
            parcel = self._intake.get(0.05)
            if parcel is not None:
                self._work_on(parcel)
        while (parcel := self._intake.get(0)) is not None:
            self._unread += 1
            parcel.answer(ENDING)
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(max(min(deadline - time.monotonic(), 1.5), 0))
        self._socket.close()
        self._hub.close()
        sent = Sent()
        if self._outlet is not None:
            sent = self._outlet.close(max(deadline - time.monotonic(), 0))
        counts = self._hub.counts
        return Summary(
            requests=dict(self._intake.answers),
            sessions=counts.sessions,
            events=counts.events,
            turns=counts.turns,
            rejected=self._rejected,
            asides=dict(counts.asides),
            findings=dict(self.findings),
            target="" if self._sink is None else self._sink.target,
            sent=sent.sent,
            dropped=sent.dropped,
            left=sent.left,
            unread=self._unread,
            problem=sent.problem,
            errors=dict(counts.errors),
        )


def receive(
    plan: Plan, sink: Sink | None, tell: Callable[[Fact], object], *, quiet: bool
) -> Summary:
    """Receive until a signal ends it.

    Args:
        plan: What is received, and how.
        sink: Where spans go.
        tell: What tells facts.
        quiet: Whether to leave out what is only good to know.
    """
    stop = threading.Event()
    pipe = Pipe(tell, stop)
    with stopped_by_signals(stop):
        receiving = Receiving(plan, sink, pipe, stop)
        if not plan.token and not is_loopback(plan.host):
            say(f"anybody who reaches {plan.host} may send: set --token, or listen on 127.0.0.1")
        try:
            receiving.begin()
            if not quiet:
                say(f"ready: {receiving.url}; Ctrl-C ends it")
            while not stop.is_set():
                receiving.step()
        finally:
            summary = receiving.end()
    pipe.settle(summary)
    return summary


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Args:
        host: A name or an address.
        port: The port; 0 for any.

    Raises:
        CannotTellError: It cannot be listened there.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=MAX_CONNECTIONS)
    except (OSError, OverflowError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise CannotTellError(f"cannot listen on {host}, port {port}: {why}") from error


def url_of(listener: socket.socket) -> str:
    """Return the URL of the endpoint behind a socket."""
    host, port, *_ = listener.getsockname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
