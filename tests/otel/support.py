"""What the tests of the tracer share: made-up sessions, tracing them, and showing their spans."""

from __future__ import annotations

from dataclasses import dataclass, field
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from dsh_core.decode import from_mapping
from dsh_core.events import SessionHeader
from dsh_otel.processors.errors import ErrorSpanProcessor
from dsh_otel.processors.invariants import InvariantSpanProcessor
from dsh_otel.replay import replay_provider, trace_session
from dsh_otel.tracer import SessionTracer
from tests import paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor, TracerProvider

    from dsh_core.events import SessionEvent

SESSIONS: Final = sorted(paths.DECODED.glob("*.jsonl"))
CASES: Final = sorted(paths.CASES.glob("*.jsonl"))
LOGS: Final = (*SESSIONS, *CASES)
"""Every sample log: sessions of real runtimes, and cases that broke for real people."""

T0: Final = 1_700_000_000_000
"""When made-up sessions begin, in ms."""

NS_PER_MS: Final = 1_000_000
V4: Final = SessionHeader(id="s-1", version=4)
SEED: Final = SessionHeader(id="s-1")


def session_log(name: str) -> Path:
    """Return the log of a real session."""
    return paths.DECODED / f"{name}.jsonl"


def case_log(number: str) -> Path:
    """Return the log of a case by its number."""
    return next(path for path in CASES if path.name.startswith(f"{number}-"))


# Made-up sessions


def event(kind: str, seq: int, time: int, **data: Any) -> SessionEvent:
    """Return one event; names of the payload are those of the wire."""
    made, _ = from_mapping({"type": kind, "seq": seq, "time": time, "data": data})
    return made


@dataclass
class Script:
    """Writes events that follow each other, one every 10 ms."""

    now: int = T0
    seq: int = 0
    events: list[SessionEvent] = field(default_factory=list)

    def add(self, kind: str, after_ms: int = 10, **data: Any) -> SessionEvent:
        """Append an event."""
        self.now += after_ms
        made = event(kind, self.seq, self.now, **data)
        self.seq += 1
        self.events.append(made)
        return made

    def turn_start(self, turn: int = 1) -> SessionEvent:
        return self.add("turn/start", turn=turn)

    def turn_end(self, turn: int = 1, kind: str = "completed", **reason: Any) -> SessionEvent:
        return self.add("turn/end", turn=turn, reason={"kind": kind, **reason})

    def step_start(self, turn: int = 1, step: int = 1) -> SessionEvent:
        return self.add("step/start", turn=turn, step=step)

    def step_end(self, turn: int = 1, step: int = 1) -> SessionEvent:
        return self.add("step/end", turn=turn, step=step)

    def call(self, call_id: str = "c1", name: str = "read", **over: Any) -> SessionEvent:
        data: dict[str, Any] = {"turn": 1, "step": 1, "callId": call_id, "name": name}
        return self.add("tool/call", **data | {"arguments": "{}"} | over)

    def result(
        self, call_id: str = "c1", text: str = "ok", *, failed: bool = False, **over: Any
    ) -> SessionEvent:
        """Append a result in the shape of v4; `code` and `name` make an error of it."""
        error = {key: over.pop(key) for key in ("code", "name") if key in over}
        message = {
            "id": f"m-{self.seq}",
            "role": "tool",
            "toolCallId": call_id,
            "source": {"kind": "tool", "callId": call_id},
            "content": [{"type": "text", "text": text}],
            "isError": failed or bool(error),
        }
        data: dict[str, Any] = {"turn": 1, "step": 1, "message": message}
        if error:
            data["error"] = error
        return self.add("tool/result", **data | over)

    def answer(self, *blocks: dict[str, Any], kind: str = "stop", **over: Any) -> SessionEvent:
        """Append a settled answer in the shape of v4."""
        message = {
            "id": f"m-{self.seq}",
            "role": "assistant",
            "source": {"kind": "model", "provider": "p", "model": "m"},
            "content": list(blocks),
        }
        stream = [{"type": "chunk", "time": self.now, "chunk": finish(kind)}]
        data: dict[str, Any] = {"turn": 1, "step": 1, "message": message, "stream": stream}
        return self.add("assistant/message", **data | over)

    def attempt(self, code: str, message: str = "", **over: Any) -> SessionEvent:
        """Append a failed attempt in the shape of v4."""
        reason = {"kind": "error", "failure": {"code": code, "message": message}}
        chunk = {"type": "finish", "reason": reason}
        stream = [{"type": "chunk", "time": self.now, "chunk": chunk}]
        data: dict[str, Any] = {"turn": 1, "step": 1, "stream": stream}
        return self.add("assistant/attempt", **data | over)

    def opened(self) -> Script:
        """Open a turn and a step."""
        self.turn_start()
        self.step_start()
        return self

    def closed(self) -> Script:
        """Close both."""
        self.step_end()
        self.turn_end()
        return self


def finish(kind: str) -> dict[str, Any]:
    """Return the chunk that ends a model's stream."""
    return {"type": "finish", "reason": {"kind": kind}}


# Tracing


class Tracing:
    """A tracer over the repeatable provider, and the spans it has finished."""

    def __init__(
        self,
        header: SessionHeader = V4,
        *processors: SpanProcessor,
        provider: TracerProvider | None = None,
        strict: bool = True,
        **options: Any,
    ) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = replay_provider() if provider is None else provider
        for processor in (*processors, SimpleSpanProcessor(self.exporter)):
            self.provider.add_span_processor(processor)
        self.tracer = SessionTracer(header, tracer_provider=self.provider, strict=strict, **options)

    def run(self, events: Iterable[SessionEvent], *, close: bool = True) -> list[ReadableSpan]:
        """Trace events, and return all spans that have ended so far."""
        for one in events:
            self.tracer.observe(one)
        if close:
            self.tracer.close()
        return self.spans

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())


def checked(header: SessionHeader = V4, **options: Any) -> Tracing:
    """Return a tracing with the processors of an ordinary session."""
    return Tracing(header, ErrorSpanProcessor(), InvariantSpanProcessor(), **options)


def trace(events: Iterable[SessionEvent], header: SessionHeader = V4) -> list[ReadableSpan]:
    """Return the spans of made-up events, with the processors of an ordinary session."""
    return checked(header).run(events)


def trace_log(path: Path, **options: Any) -> list[ReadableSpan]:
    """Return the spans of a log, as an export makes them."""
    exporter = InMemorySpanExporter()
    provider = replay_provider(SimpleSpanProcessor(exporter))
    options.setdefault("strict", True)
    trace_session(str(path), tracer_provider=provider, **options)
    return list(exporter.get_finished_spans())


# Looking at spans


def attributes(span: ReadableSpan) -> dict[str, Any]:
    """Return the attributes as plain values."""
    return {key: _plain(value) for key, value in (span.attributes or {}).items()}


def event_attributes(span: ReadableSpan, name: str) -> list[dict[str, Any]]:
    """Return the attributes of the span's events of a name."""
    return [
        {key: _plain(value) for key, value in (one.attributes or {}).items()}
        for one in span.events
        if one.name == name
    ]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def ids(span: ReadableSpan) -> tuple[int, int]:
    """Return trace and span id."""
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def named(spans: Iterable[ReadableSpan], name: str) -> list[ReadableSpan]:
    """Return the spans whose name begins so."""
    return [span for span in spans if span.name.startswith(name)]


def only(spans: Iterable[ReadableSpan], name: str) -> ReadableSpan:
    """Return the one span whose name begins so."""
    (span,) = named(spans, name)
    return span


def end_of(span: ReadableSpan) -> int:
    """Return the span's end in ms since `T0`."""
    return ((span.end_time or 0) // NS_PER_MS) - T0


def length_ms(span: ReadableSpan) -> int:
    """Return how long the span lasted."""
    return ((span.end_time or 0) - (span.start_time or 0)) // NS_PER_MS


SHOWN: Final = {
    "dsh.attempt": "attempt",
    "dsh.turn.end_reason": "end",
    "gen_ai.response.finish_reasons": "finish",
    "gen_ai.tool.call.id": "call",
    "dsh.tool.outcome": "outcome",
    "dsh.violation.count": "findings",
}
"""Attributes that a tree shows, by the short name it gives them."""

MARKS: Final = {
    "dsh.span.unclosed": "unclosed",
    "dsh.span.synthetic": "synthetic",
    "dsh.time.adjusted": "adjusted",
}
FAILURE: Final = ("dsh.error.family", "dsh.route")


def tree(spans: Sequence[ReadableSpan]) -> str:
    """Render spans as an indented list, roots in the order of their start.

    A span's line is its name, the turn and step it names, its start (since the first span) and
    length in ms, the seqs that opened and closed it, and its attributes. Below stand, after ``!``,
    how it failed (status or code, family, route), after ``*`` its events, and then its children.
    """
    known = {ids(span) for span in spans}
    below: dict[tuple[int, int] | None, list[ReadableSpan]] = {}
    for span in sorted(spans, key=_order):
        above = (span.parent.trace_id, span.parent.span_id) if span.parent is not None else None
        assert above is None or above in known, f"{span.name} has a parent that was not exported"
        below.setdefault(above, []).append(span)
    first = min((span.start_time or 0 for span in spans), default=0)
    lines: list[str] = []

    def show(span: ReadableSpan, indent: str) -> None:
        lines.append(indent + _line(span, first))
        lines.extend(f"{indent}  ! {text}" for text in _failure(span))
        lines.extend(f"{indent}  * {_event(one)}" for one in span.events)
        for child in below.get(ids(span), ()):
            show(child, indent + "  ")

    for root in below.get(None, ()):
        show(root, "")
    return "\n".join(lines)


def expected(text: str) -> str:
    """Return an expected tree as it stands, indented, in a test."""
    return dedent(text).strip()


def _order(span: ReadableSpan) -> tuple[int, int]:
    seq = attributes(span).get("dsh.seq.start", -1)
    return span.start_time or 0, seq


def _line(span: ReadableSpan, first: int) -> str:
    found = attributes(span)
    place = "/".join(str(found[name]) for name in ("dsh.turn", "dsh.step") if name in found)
    start = ((span.start_time or 0) - first) // NS_PER_MS
    seqs = f"seq {found.get('dsh.seq.start', '?')}-{found.get('dsh.seq.end', '?')}"
    parts = [f"{span.name} {place}".rstrip(), f"@{start}+{length_ms(span)}", seqs]
    parts += [f"{short}={_short(found[name])}" for name, short in SHOWN.items() if name in found]
    parts += [short for name, short in MARKS.items() if found.get(name)]
    return "  ".join(parts)


def _failure(span: ReadableSpan) -> list[str]:
    found = attributes(span)
    what = found.get("dsh.error.code", "")
    if span.status.status_code is not StatusCode.UNSET:
        what = f"{span.status.status_code.name} {span.status.description}"
    verdict = [str(found[name]) for name in FAILURE if name in found]
    if "dsh.error.inferred" in found:
        verdict.append("inferred")
    if verdict:
        what += f" ({', '.join(verdict)})"
    return [what] if what else []


def _event(one: Event) -> str:
    found = dict(one.attributes or {})
    if one.name == "dsh.violation":
        return " ".join([one.name, *(str(found[key]) for key in ("severity", "rule", "seq"))])
    if one.name == "dsh.tool.error":
        return " ".join([one.name, *(str(found[key]) for key in ("code", "attempt_count"))])
    return f"{one.name} {found['seq']}"


def _short(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
