"""The tree on the console: what happened, how long it took, what failed with which code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import StatusCode
from rich.console import Console
from rich.text import Text

from dsh_otel.export.sink import SinkReport
from dsh_otel.names import Attr, Event, EventAttr, Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opentelemetry.sdk.trace import ReadableSpan

MAX_WAITING: Final = 100_000
"""Spans kept while their root is open; more are printed without their parents."""

NS_PER_MS: Final = 1_000_000
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_GUIDES: Final = ("├── ", "│   ", "└── ", "    ")
_ASCII_GUIDES: Final = ("+-- ", "|   ", "`-- ", "    ")
_SEVERITY_STYLE: Final = {"violation": "bold red", "damage": "yellow", "advice": "cyan"}


class ConsoleSink:
    """Prints one tree per trace.

    Args:
        console: Where to print.
    """

    def __init__(self, console: Console) -> None:
        self.target = "console"
        self.problem = ""
        self.hopeless = False
        self._exporter = ConsoleTreeExporter(console)

    @property
    def exporter(self) -> SpanExporter:
        """The exporter that prints."""
        return self._exporter

    def report(self) -> SinkReport:
        """Return nothing: what is printed is not lost."""
        return SinkReport()


class ConsoleTreeExporter(SpanExporter):
    """Collects the spans of a trace until its root comes, then prints them as a tree.

    Args:
        console: Where to print; standard output by default.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = Console() if console is None else console
        self._waiting: dict[int, list[ReadableSpan]] = {}
        self._count = 0
        self._session: object = None

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Take spans; print what is complete."""
        for span in spans:
            if span.context is None:
                continue
            trace_id = span.context.trace_id
            self._waiting.setdefault(trace_id, []).append(span)
            self._count += 1
            if span.parent is None or self._count > MAX_WAITING:
                self._print(trace_id)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Print what never got its root."""
        for trace_id in list(self._waiting):
            self._print(trace_id)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Do nothing: complete trees are printed at once.

        Args:
            timeout_millis: Not used.
        """
        del timeout_millis
        return True

    def _print(self, trace_id: int) -> None:
        spans = self._waiting.pop(trace_id)
        self._count -= len(spans)
        known = {span.context.span_id for span in spans if span.context is not None}
        children: dict[int | None, list[ReadableSpan]] = {}
        for span in sorted(spans, key=lambda s: (s.start_time or 0, _number(s, Attr.SEQ_START))):
            parent = span.parent.span_id if span.parent is not None else None
            children.setdefault(parent if parent in known else None, []).append(span)
        guides = _ASCII_GUIDES if self._console.options.ascii_only else _GUIDES
        for root in children.get(None, ()):
            self._head(root)
            # Line by line: a tree of rich's own is cut off at the width of the console, and so is
            # what goes through a pipe.
            self._console.print(_label(root), soft_wrap=True)
            for line in _branches(root, children, guides):
                self._console.print(line, soft_wrap=True)

    def _head(self, root: ReadableSpan) -> None:
        session = (root.attributes or {}).get(Attr.CONVERSATION)
        if session != self._session:
            self._session = session
            line = Text("session ", style="dim")
            line.append(_plain(session), style="bold")
            attributes = root.attributes or {}
            if Attr.FORMAT in attributes:
                contract = _plain(attributes.get(Attr.CONTRACT))
                line.append(f"  {_plain(attributes[Attr.FORMAT])} log", style="dim")
                line.append(f", {contract} contract", style="dim")
            self._console.print(line, soft_wrap=True)


def _branches(
    root: ReadableSpan,
    children: Mapping[int | None, list[ReadableSpan]],
    guides: Sequence[str],
    lead: str = "",
) -> Iterator[Text]:
    """Return the lines below a span. Their depth is bounded by the tracer: turn, step, call."""
    span_id = root.context.span_id if root.context is not None else None
    items = [*_notes(root), *children.get(span_id, ())]
    for left, item in enumerate(items, 1 - len(items)):
        fork, rail = guides[2:] if left == 0 else guides[:2]
        line = Text()
        line.append(lead + fork, style="dim")
        if isinstance(item, Text):
            yield line.append_text(item)
        else:
            yield line.append_text(_label(item))
            yield from _branches(item, children, guides, lead + rail)


def _label(span: ReadableSpan) -> Text:
    attributes = span.attributes or {}
    label = Text()
    number = _numbering(span.name, attributes)
    if number:
        label.append(number + " ", style="bold")
    label.append(_plain(span.name))
    label.append("  " + duration((span.end_time or 0) - (span.start_time or 0)), style="dim")
    wait = attributes.get(Attr.TIME_TO_FIRST_CHUNK)
    if isinstance(wait, float):
        label.append(f"  first chunk {duration(int(wait * 1e9))}", style="dim")
    if Attr.INPUT_TOKENS in attributes:
        spent = (
            f"{_plain(attributes[Attr.INPUT_TOKENS])} → {_plain(attributes[Attr.OUTPUT_TOKENS])}"
        )
        label.append(f"  {spent} tokens", style="dim")
    if Attr.END_REASON in attributes:
        label.append("  " + _plain(attributes[Attr.END_REASON]))
    _append_error(label, span, attributes)
    if attributes.get(Attr.UNCLOSED):
        label.append("  never closed", style="yellow")
    if attributes.get(Attr.SYNTHETIC):
        label.append("  synthetic", style="dim")
    return label


def _append_error(label: Text, span: ReadableSpan, attributes: Mapping[str, Any]) -> None:
    code = attributes.get(Attr.ERROR_CODE) or attributes.get(Attr.ERROR_TYPE)
    if code is None:
        return
    failed = span.status.status_code is StatusCode.ERROR
    inferred = bool(attributes.get(Attr.ERROR_INFERRED))
    # A code that the log gives can still have a family that only its text tells.
    logged = Attr.ERROR_NAME in attributes
    label.append("  ")
    label.append(_plain(code), style="bold red" if failed else "yellow")
    if inferred and not logged:
        label.append(" (inferred)", style="dim")
    label.append(f"  {_plain(attributes.get(Attr.ERROR_FAMILY))}", style="dim")
    if inferred and logged:
        label.append(" (inferred)", style="dim")
    label.append(f" → {_plain(attributes.get(Attr.ROUTE))}", style="dim")


def _notes(span: ReadableSpan) -> list[Text]:
    notes = []
    for event in span.events:
        if event.name != Event.VIOLATION:
            continue
        found = event.attributes or {}
        severity = _plain(found.get(EventAttr.SEVERITY))
        note = Text()
        note.append(f"{severity} ", style=_SEVERITY_STYLE.get(severity, ""))
        note.append(_plain(found.get(EventAttr.RULE)), style="bold")
        note.append(": " + _plain(found.get(EventAttr.MESSAGE)))
        if EventAttr.SEQ in found:
            note.append(f"  seq {_plain(found[EventAttr.SEQ])}", style="dim")
        count = found.get(EventAttr.COUNT)
        if isinstance(count, int) and count > 1:
            note.append(f"  {count} events", style="dim")
        notes.append(note)
    return notes


def _numbering(name: str, attributes: Mapping[str, Any]) -> str:
    if name.startswith(Span.TURN):
        return f"turn {attributes.get(Attr.TURN)}"
    if name == Span.STEP:
        return f"step {attributes.get(Attr.STEP)}"
    attempt = attributes.get(Attr.ATTEMPT)
    return f"attempt {attempt}" if isinstance(attempt, int) and attempt > 1 else ""


def _number(span: ReadableSpan, name: str) -> int:
    value = (span.attributes or {}).get(name)
    return value if isinstance(value, int) else -1


def _plain(value: object) -> str:
    """Return a text that cannot drive the terminal."""
    return _CONTROL.sub("�", str(value))


def duration(ns: int) -> str:
    """Return a duration for people.

    Args:
        ns: Length in ns.
    """
    ms = round(ns / NS_PER_MS)
    if ms < 1000:  # noqa: PLR2004 - a second
        return f"{ms} ms"
    if ms < 59_950:  # noqa: PLR2004 - a minute, rounded
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"
