"""The work behind the commands that follow logs: a home, its sessions, and where spans go."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dsh_core.contract.findings import Severity
from dsh_core.logs.find import default_home
from dsh_core.logs.tree import MAX_LOGS, LogTree
from dsh_core.logs.watch import watch_logs
from dsh_otel.clean import Privacy, clean_text
from dsh_otel.cli.exits import CannotTellError, say
from dsh_otel.cli.formats.words import counted, severities
from dsh_otel.export.otlp import OtlpSink
from dsh_otel.export.otlp_logs import close as close_logs
from dsh_otel.export.otlp_logs import log_provider
from dsh_otel.processors.errors import ErrorSpanProcessor
from dsh_otel.processors.invariants import InvariantSpanProcessor
from dsh_otel.processors.started import TurnStartedProcessor
from dsh_otel.replay import replay_provider
from dsh_otel.sources.facts import FactProcessor
from dsh_otel.sources.outlet import Counts as Sent
from dsh_otel.sources.outlet import Outlet
from dsh_otel.sources.places import Places, PlacesError
from dsh_otel.sources.tail import Setting, Tail

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from pathlib import Path

    from dsh_core.contract.findings import Finding
    from dsh_core.events import Contract
    from dsh_core.logs.watch import Watch
    from dsh_otel.cli.ruling import Ruling
    from dsh_otel.export.sink import Sink
    from dsh_otel.processors.base import SessionSpanProcessor
    from dsh_otel.sources.facts import Fact
    from dsh_otel.spans import SessionSpan

TIMEOUT_S: Final = 5.0
"""How long the end may take by default, in seconds."""

LEAVING_S: Final = 0.7
"""How much of that is kept for what comes after the last span, in seconds."""

SENT_AGAIN: Final = "after a restart spans will be sent again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is followed, and how.

    Attributes:
        root: A folder with logs, or one log.
        ruling: The rules to apply.
        contract: The contract to hold logs to; None for that of each log's generation.
        content: Whether content may leave.
        state: The file that keeps where sessions stand.
        since_ms: Turns that began before are of the past, Unix time in ms; 0 for none, None for all
            that is there at the beginning.
        poll_s: How often to look, in seconds, instead of being told by the system.
        timeout_s: How long the end may take, in seconds.
        changes_only: Whether a session counts only when it changes, also if a turn of it is open.
    """

    root: str
    ruling: Ruling
    contract: Contract | None = None
    content: bool = False
    state: Path | None = None
    since_ms: int | None = None
    poll_s: float | None = None
    timeout_s: float = TIMEOUT_S
    changes_only: bool = False


class Following:
    """Follows the logs of a home, until it is told to stop.

    Args:
        plan: What is followed, and how.
        sink: Where spans go; None if they go nowhere.
        tell: Called with each fact.
        stop: Set when it is time to end.

    Attributes:
        findings: Findings by severity, of what was news.

    Raises:
        CannotTellError: The state cannot be kept.
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
        self._sink = sink
        now_ms = time.time_ns() // 1_000_000
        try:
            self._places = Places(plan.state, plan.root, now_ms)
        except PlacesError as error:
            raise CannotTellError(str(error)) from error
        self._outlet = None if sink is None else Outlet(sink, self._places.put)
        self._facts = FactProcessor(tell)
        provider = replay_provider(*(() if self._outlet is None else (self._outlet,)))
        checks = InvariantSpanProcessor(
            plan.ruling.chosen,
            catalogue=plan.ruling.catalogue,
            presets=plan.ruling.presets,
            on_finding=self._found,
        )
        processors: list[SessionSpanProcessor] = [ErrorSpanProcessor(), checks, self._facts]
        self._logs = None
        if isinstance(sink, OtlpSink):
            self._logs = log_provider(provider.resource, os.environ)
            if self._logs is not None:
                processors.append(TurnStartedProcessor(self._logs, self._facts))
        own = (
            None if plan.state is None else str(plan.state),
            None if sink is None else sink.target,
        )
        self._tree = LogTree(plan.root, ignored=filter(None, own))
        self._tail = Tail(
            Setting(
                provider=provider,
                processors=processors,
                facts=self._facts,
                outlet=self._outlet,
                places=self._places,
                since_ms=plan.since_ms,
                privacy=lambda: Privacy(content=plan.content),
                contract=plan.contract,
                stop=stop.is_set,
            )
        )
        self._watch: Watch | None = None
        self._awaited = False
        self._told: dict[str, str] = {}

    def _found(self, finding: Finding, span: SessionSpan) -> None:
        if not self._facts.quiet:
            self.findings[finding.severity] += 1
            self._facts.on_finding(finding, span)

    def begin(self) -> str:
        """Take in what is there.

        Returns:
            How it is learnt what changes, for people.
        """
        self._awaited = not os.path.exists(self._plan.root)  # noqa: PTH110 - as named
        self._watch = self._start_watch()
        self._tail.begin(self._tree.look(), changes_only=self._plan.changes_only)
        self._tell_trouble()
        return self._watch.how

    def _start_watch(self) -> Watch:
        return watch_logs(self._plan.root, self._stop, poll_s=self._plan.poll_s)

    def step(self) -> None:
        """Wait a little, and follow what has changed."""
        watch = self._watch
        assert watch is not None  # noqa: S101 - begun before
        changed = watch.wait()
        if self._stop.is_set():
            return
        if self._awaited and os.path.isdir(self._plan.root):  # noqa: PTH112 - as named
            # From now on the system can tell.
            self._watch, self._awaited, changed = self._start_watch(), False, None
        self._tail.follow(self._tree.look() if changed is None else self._tree.look_at(changed))
        self._tell_trouble()

    def catch_up(self) -> None:
        """Follow everything that is there by now."""
        self._tail.follow(self._tree.look())

    def _tell_trouble(self) -> None:
        outlet, places = self._outlet, self._places
        if outlet is not None and outlet.broken:
            raise BrokenPipeError
        failing = "" if outlet is None else outlet.failing
        self._tell("spans", failing and f"{failing}; spans wait", "spans arrive again")
        kept = places.problem and f"{self._plan.state}: {places.problem}; {SENT_AGAIN}"
        self._tell("state", kept, f"{self._plan.state}: written again")
        if self._tree.full:
            self._tell("full", f"more than {MAX_LOGS:,} logs: the rest is not followed", "")
        for path, reason in self._unreadable().items():
            self._tell(path, f"{path}: {reason}", "")

    def _tell(self, what: str, trouble: str, mended: str) -> None:
        """Tell of trouble when it comes, changes and goes."""
        before = self._told.get(what, "")
        if trouble != before:
            self._told[what] = trouble
            if trouble or mended:
                say(trouble or mended)

    def _unreadable(self) -> dict[str, str]:
        return {**self._tree.refused, **self._tail.counts.unreadable}

    def end(self, *, final: bool, timeout_s: float | None = None) -> Summary:
        """End it in time.

        Args:
            final: Whether nothing will follow: what is open ends as unclosed.
            timeout_s: How long it may take, in seconds; as long as planned by default.
        """
        timeout_s = self._plan.timeout_s if timeout_s is None else timeout_s
        # To leave takes time too.
        timeout_s = max(timeout_s - LEAVING_S, timeout_s / 2)
        begin = time.monotonic()
        self._tail.close(final=final)
        sent = Sent()
        if self._outlet is not None:
            left_s = timeout_s - (time.monotonic() - begin)
            sent = self._outlet.close(max(left_s, 0))
        if self._logs is not None:
            close_logs(self._logs, max(timeout_s - (time.monotonic() - begin), 0.1))
        self._places.close()
        places = (
            self._places.problem and f"{self._plan.state}: {self._places.problem}; {SENT_AGAIN}"
        )
        counts = self._tail.counts
        return Summary(
            sessions=counts.sessions,
            events=counts.events,
            turns=counts.turns,
            rewritten=counts.rewritten,
            findings=dict(self.findings),
            target="" if self._sink is None else self._sink.target,
            sent=sent.sent,
            dropped=sent.dropped,
            left=sent.left,
            kept=self._plan.state is not None,
            problem=sent.problem,
            unreadable={clean_text(path, 4096): why for path, why in self._unreadable().items()},
            places=places,
            errors=counts.errors,
        )


class Summary(msgspec.Struct, kw_only=True):
    """What was followed, and what became of it.

    Attributes:
        event: Tells it from facts.
        sessions: Sessions that had events.
        events: Events that were news.
        turns: Turns that ended.
        rewritten: How often a log was found to be another than before.
        findings: Findings by severity.
        target: Where spans went, empty if nowhere.
        sent: Spans that arrived.
        dropped: Spans that were refused.
        left: Spans that could not be sent in time.
        kept: Whether a state is kept: what is left is sent after a restart.
        problem: Why spans did not arrive.
        unreadable: Logs and folders that cannot be read, and why.
        places: Why the state could not be kept, empty if it was.
        errors: Errors of ours and of processors, by place.
    """

    event: str = "dsh.follow.ended"
    sessions: int
    events: int
    turns: int
    rewritten: int
    findings: dict[Severity, int]
    target: str
    sent: int
    dropped: int
    left: int
    kept: bool
    problem: str
    unreadable: dict[str, str]
    places: str
    errors: dict[str, int]

    @property
    def complete(self) -> bool:
        """Whether everything that was seen has arrived."""
        missing = self.dropped or self.left or self.unreadable or self.places or self.errors
        return not missing

    def as_json(self) -> str:
        """Return it as one JSON object."""
        return msgspec.json.encode(self).decode()

    def tell(self) -> None:
        """Say it to people."""
        if self.unreadable:
            say(f"{counted(len(self.unreadable), 'place')} could not be read, as was said")
        if self.places:
            say(self.places)
        for place, count in self.errors.items():
            say(f"{place} failed {counted(count, 'time')} and was left out. Please report it.")
        found = severities(Counter(self.findings))
        say(
            f"{counted(self.sessions, 'session')}, {counted(self.events, 'event')}, "
            f"{counted(self.turns, 'turn')} ended; {found}"
        )
        if not self.target:
            return
        parts = [f"{counted(self.sent, 'span')} sent to {self.target}"]
        if self.dropped:
            parts.append(f"{self.dropped:,} refused")
        if self.left:
            later = "sent after a restart" if self.kept else "lost: --state FILE keeps the place"
            parts.append(f"{self.left:,} left, {later}")
        why = f" ({self.problem})" if self.problem and (self.left or self.dropped) else ""
        say(", ".join(parts) + why)


def root_of(path: str | None, environ: Any = os.environ) -> str:  # noqa: ANN401 - a mapping
    """Return what is followed: what a user named, else the sessions of the DSH home."""
    if path is None:
        return str(default_home(environ) / "sessions")
    if not path:
        raise CannotTellError("an empty path names no folder")
    # The system tells of whole paths.
    return os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 - links stay
