"""Replay: a log in, its spans out, written with backpressure and in a repeatable form."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

from opentelemetry.sdk.resources import (
    SERVICE_NAME,
    TELEMETRY_SDK_LANGUAGE,
    TELEMETRY_SDK_NAME,
    TELEMETRY_SDK_VERSION,
    OTELResourceDetector,
    Resource,
)
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.version import __version__ as sdk_version
from opentelemetry.trace import get_tracer_provider

from dsh_core.check import why_nothing
from dsh_core.contract.run import SourceKind
from dsh_core.logs.find import LogFile
from dsh_core.logs.reader import Batch, UnsupportedFormatError
from dsh_core.logs.stream_file import ToldSession, sessions_in
from dsh_otel.drivers import added_to
from dsh_otel.ids import DerivedIdGenerator
from dsh_otel.processors.errors import ErrorSpanProcessor
from dsh_otel.processors.invariants import InvariantSpanProcessor
from dsh_otel.tracer import SessionTracer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import TracerProvider as AnyTracerProvider
    from typing_extensions import Unpack

    from dsh_core.events import Contract
    from dsh_core.logs.reader import SessionLog
    from dsh_otel.clean import Privacy
    from dsh_otel.processors.base import SessionSpanProcessor

BATCH: int = 256
"""Most spans that are exported together."""

MAX_BATCH_BYTES: int = 768 << 10
"""Most bytes that are exported together, as OTLP JSON and counted generously. The Collector's file
receiver takes lines up to 1 MiB, and drops longer ones in silence."""

_SPAN_BYTES = 700
_ATTRIBUTE_BYTES = 80
_ESCAPED = 6

MAX_FAILURES: int = 3
"""So many lost batches in a row end the attempts."""

DEFAULT_SERVICE = "dsh"


@dataclass(slots=True)
class ExportCounts:
    """What became of exported spans.

    Attributes:
        sent: Accepted by the exporter.
        lost: Not accepted: the exporter failed, or raised.
        last_error: Why, as far as the exporter says.
        pipe_closed: Whether the reader of a pipe has gone; nothing more is written then.
    """

    sent: int = 0
    lost: int = 0
    last_error: str = ""
    pipe_closed: bool = False


class ReplaySpanProcessor(SpanProcessor):
    """Exports spans in batches, in the thread that ends them.

    A full batch is written before the replay goes on: nothing is dropped, and a slow receiver slows
    the replay down. What the exporter refuses is counted.

    Args:
        exporter: Where spans go.
        batch: How many spans are exported together.

    Attributes:
        counts: What became of the spans.
        gave_up: Whether so many batches in a row were lost that no more are tried: a receiver that
            does not answer costs half a minute a batch. Spans are counted as lost from then on.
    """

    def __init__(self, exporter: SpanExporter, batch: int = BATCH) -> None:
        self.counts = ExportCounts()
        self.gave_up = False
        self._failures = 0
        self._exporter = exporter
        self._batch = batch
        self._waiting: list[ReadableSpan] = []
        self._size = 0

    def on_end(self, span: ReadableSpan) -> None:
        """Take a span; export if the batch is full."""
        if span.context is None or not span.context.trace_flags.sampled:
            return
        size = size_of(span)
        if self._size + size > MAX_BATCH_BYTES:
            self._export()
        self._waiting.append(span)
        self._size += size
        if len(self._waiting) >= self._batch:
            self._export()

    def _export(self) -> None:
        spans, self._waiting, self._size = self._waiting, [], 0
        if not spans:
            return
        if not self.gave_up and self._accepted(spans):
            self.counts.sent += len(spans)
            self._failures = 0
            return
        self.counts.lost += len(spans)
        self._failures += 1
        self.gave_up = self.gave_up or self._failures >= MAX_FAILURES

    def _accepted(self, spans: Sequence[ReadableSpan]) -> bool:
        try:
            return self._exporter.export(spans) is SpanExportResult.SUCCESS
        except BrokenPipeError:
            self.counts.pipe_closed = self.gave_up = True
            return False
        except Exception as error:  # noqa: BLE001 - counted, and the replay goes on
            self.counts.last_error = f"{type(error).__name__}: {error}"
            return False

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Export what waits.

        Args:
            timeout_millis: Not used: the exporter has its own timeout.
        """
        del timeout_millis
        self._export()
        return not self.counts.lost

    def shutdown(self) -> None:
        """Export what waits, and shut the exporter down."""
        self._export()
        self._exporter.shutdown()


def size_of(span: ReadableSpan) -> int:
    """Return about how many bytes a span takes as OTLP JSON, rather too many than too few."""
    size = _SPAN_BYTES + _text_size(span.name)
    for attributes in (span.attributes, *(event.attributes for event in span.events)):
        for value in (attributes or {}).values():
            size += _ATTRIBUTE_BYTES
            if isinstance(value, str):
                size += _text_size(value)
            elif isinstance(value, tuple):
                size += sum(_ATTRIBUTE_BYTES + _text_size(str(item)) for item in value)
    return size + len(span.events) * _SPAN_BYTES // 4


def _text_size(text: str) -> int:
    if text.isascii() and text.isprintable():
        # Quotes and backslashes take two bytes.
        return len(text) + text.count('"') + text.count("\\")
    # A code unit of UTF-16 may take six bytes.
    return _ESCAPED * len(text.encode("utf-16-le", "surrogatepass")) // 2


def replay_provider(*processors: SpanProcessor, service_version: str = "") -> TracerProvider:
    """Return a provider whose output depends on the log and the environment's settings alone.

    ``OTEL_SERVICE_NAME``, ``OTEL_RESOURCE_ATTRIBUTES`` and ``OTEL_TRACES_SAMPLER`` are honoured;
    there is no per-process ``service.instance.id``, since a replay is no process that runs.

    Args:
        processors: Span processors to add.
        service_version: Version of the traced harness, if known.
    """
    attributes = {
        TELEMETRY_SDK_LANGUAGE: "python",
        TELEMETRY_SDK_NAME: "opentelemetry",
        TELEMETRY_SDK_VERSION: sdk_version,
        SERVICE_NAME: DEFAULT_SERVICE,
    }
    if service_version:
        attributes["service.version"] = service_version
    resource = Resource(attributes).merge(OTELResourceDetector().detect())
    provider = TracerProvider(
        resource=resource, id_generator=DerivedIdGenerator(), shutdown_on_exit=False
    )
    for processor in processors:
        provider.add_span_processor(processor)
    return provider


@dataclass(slots=True)
class Replay:
    """What a replay did.

    Attributes:
        session_id: The session.
        format: The log's generation.
        events: Number of events read.
        faults: Number of damaged places met.
        reason: Why nothing can be said of the log, as in `SessionReport`; empty if it has events.
        outcomes: Number of events by what became of them, see `SessionTracer.counts`.
        unclosed: Spans that the log never closed, by kind.
        unsampled: Spans that sampling left out.
        errors: Errors of ours and of processors, by place.
        stream: Whether it is what a stream source told; such a file may hold several sessions.
    """

    session_id: str = ""
    format: str = ""
    events: int = 0
    faults: int = 0
    reason: str = ""
    outcomes: dict[str, int] = field(default_factory=dict)
    unclosed: dict[str, int] = field(default_factory=dict)
    unsampled: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    stream: bool = False


def default_processors(provider: AnyTracerProvider) -> list[SessionSpanProcessor]:
    """Return the processors of an ordinary session: errors with their routes, and all checks.

    Args:
        provider: A provider that may have some already; those, with their settings, stay the only
            ones of their kind.
    """
    present = added_to(provider)
    return [
        kind()
        for kind in (ErrorSpanProcessor, InvariantSpanProcessor)
        if not any(isinstance(processor, kind) for processor in present)
    ]


class Options(TypedDict, total=False):
    """How to trace.

    Attributes:
        tracer_provider: Where spans go; the global provider by default.
        processors: Session span processors besides those of the provider; `default_processors`
            by default.
        contract: The contract to hold a session to; the one of its generation by default.
        privacy: What may leave; no content by default.
        progress: Called now and then with the number of events read since the last call.
        strict: Let errors of ours through (for tests).
    """

    tracer_provider: AnyTracerProvider | None
    processors: Iterable[SessionSpanProcessor] | None
    contract: Contract | None
    privacy: Privacy | None
    progress: Callable[[int], None] | None
    strict: bool


def trace_session(path: str | LogFile, **options: Unpack[Options]) -> Replay:
    """Turn a session log into spans.

    Args:
        path: The log file, plain or zstd, of any generation; ``-`` for standard input. Or what
            `find_logs` returned for it. Recorded notifications and OTLP logs, too, if they are of
            one session.
        options: See `Options`.

    Returns:
        What was done.

    Raises:
        OSError: The log cannot be opened.
        UnsupportedFormatError: The log is of a generation newer than this release, the file is no
            session log at all, or it holds several sessions.
    """
    with _sessions(path) as (sessions, problem):
        if problem:
            raise UnsupportedFormatError(problem)
        if len(sessions) > 1:
            raise UnsupportedFormatError(
                f"it holds {len(sessions)} sessions; trace_sessions traces each"
            )
        return _trace(sessions[0], options)


def trace_sessions(path: str | LogFile, **options: Unpack[Options]) -> Iterator[Replay]:
    """Turn what a file holds into spans: a session log, or what a stream source told of several.

    Args:
        path: As for `trace_session`.
        options: See `Options`.

    Yields:
        What was done, for each session; of a file that cannot be read in full, one that says so.

    Raises:
        OSError: The file cannot be opened.
        UnsupportedFormatError: Nothing of the file can be read.
    """
    with _sessions(path) as (sessions, problem):
        for session in sessions:
            yield _trace(session, options)
        if problem:
            yield Replay(reason=problem)


@contextmanager
def _sessions(path: str | LogFile) -> Iterator[tuple[Sequence[SessionLog | ToldSession], str]]:
    file = path if isinstance(path, LogFile) else LogFile(path)
    with file.open() as source:
        yield sessions_in(source, file.path)


def _trace(session: SessionLog | ToldSession, options: Options) -> Replay:
    provider = options.get("tracer_provider") or get_tracer_provider()
    processors = options.get("processors")
    if processors is None:
        processors = default_processors(provider)
    progress = options.get("progress")
    stream = isinstance(session, ToldSession)
    tracer = SessionTracer(
        session.header,
        tracer_provider=provider,
        processors=processors,
        contract=options.get("contract"),
        privacy=options.get("privacy"),
        header_row=session.header_row,
        header_line=session.header_line,
        source=SourceKind.STREAM if stream else None,
        strict=options.get("strict", False),
    )
    done = Replay(session_id=session.header.id, format=session.header.format, stream=stream)
    faults: set[str] = set()
    # What is open ends, even if the log cannot be read to its end.
    with closing(tracer):
        for item in session.read():
            if isinstance(item, Batch):
                for event, line in zip(item.events, item.lines, strict=True):
                    tracer.observe(event, line)
                done.events += len(item.events)
                if progress is not None:
                    progress(len(item.events))
            else:
                tracer.observe_fault(item)
                faults.add(item.rule)
                done.faults += 1
    done.reason = why_nothing(done.events, faults, header=session.header_row is not None)
    done.outcomes = dict(tracer.counts)
    done.unclosed = dict(tracer.unclosed)
    done.unsampled = tracer.unsampled
    done.errors = dict(tracer.guard.errors)
    return done
