"""What the tests of streams share: recorded notifications, told at the pace of a made-up clock."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dsh_core.logs.find import find_logs
from dsh_otel.replay import replay_provider, trace_session
from dsh_otel.sources.sessions import Sessions, Settings
from dsh_otel.sources.told import Process, notified
from tests import paths
from tests.otel.support import ids

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

    from dsh_otel.sources.told import Item

RECORDED: Final = sorted(paths.NOTIFICATIONS.glob("*.json"))
"""Notifications of real runtimes."""

Notification = dict[str, Any]
Shown = dict[tuple[int, int], tuple[object, ...]]


def notifications(name: str) -> list[Notification]:
    """Return what a real runtime has told."""
    found: list[Notification] = json.loads((paths.NOTIFICATIONS / f"{name}.json").read_bytes())
    return found


def home(name: str) -> Path:
    """Return the home that it has left behind."""
    return paths.HOMES / name


@dataclass
class Stream:
    """Sessions that are told notification by notification.

    Attributes:
        root: The folder with the logs, None if nobody knows it.
        since: When the runtime was started, Unix time in ms.
        format: Generation of its logs.
        now: The time in seconds.
        options: Further settings.
    """

    root: Path | None = None
    since: int = 0
    format: int | None = 4
    now: float = 0.0
    options: dict[str, Any] = field(default_factory=dict)
    max_sessions: int = 100

    def __post_init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = replay_provider(SimpleSpanProcessor(self.exporter))
        self.process = self.restart()
        settings = Settings(lambda: self.provider, strict=True, **self.options)
        self.sessions = Sessions(settings, lambda: self.now, self.max_sessions)

    def restart(self) -> Process:
        """Begin with another process of the runtime."""
        self.process = Process(self.root, self.since, self.format)
        return self.process

    def tell(self, *items: Notification | Item) -> None:
        """Tell something."""
        for item in items:
            made: Item | None
            if isinstance(item, dict):
                made = notified(self.process, item["method"], item["payload"])
            else:
                made = item
            if made is not None:
                self.sessions.take(made)

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and look whenever something is due."""
        end = self.now + seconds
        while (due := self.sessions.look()) is not None and due <= end:
            self.now = max(due, self.now)
        self.now = end
        self.sessions.look()

    def run(self, told: Iterable[Notification]) -> list[ReadableSpan]:
        """Tell everything, a moment after each other, and return the spans."""
        for one in told:
            self.tell(one)
            self.pass_time(0.01)
        self.pass_time(5)
        self.sessions.close()
        return self.spans

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())


def offline(root: Path, **options: Any) -> list[ReadableSpan]:
    """Return the spans of all logs of a home, as an export makes them."""
    exporter = InMemorySpanExporter()
    provider = replay_provider(SimpleSpanProcessor(exporter))
    for log in find_logs([str(root)]):
        trace_session(log, tracer_provider=provider, strict=True, **options)
    return list(exporter.get_finished_spans())


def shown(spans: Iterable[ReadableSpan]) -> Shown:
    """Return all there is to spans, by their ids."""
    found: Shown = {}
    for span in spans:
        assert ids(span) not in found, f"{span.name} was exported twice"
        found[ids(span)] = (
            span.name,
            None if span.parent is None else (span.parent.trace_id, span.parent.span_id),
            span.start_time,
            span.end_time,
            (span.status.status_code, span.status.description),
            dict(sorted((span.attributes or {}).items())),
            [(one.name, one.timestamp, dict(one.attributes or {})) for one in span.events],
            [(link.context.trace_id, link.context.span_id) for link in span.links],
        )
    return found


def findings(spans: Iterable[ReadableSpan]) -> list[object]:
    """Return the findings that are written on spans."""
    return [
        dict(one.attributes or {})
        for span in spans
        for one in span.events
        if one.name == "dsh.violation"
    ]
