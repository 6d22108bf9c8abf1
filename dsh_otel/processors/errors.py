"""Errors as telemetry: codes, families and routes on the spans that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsh_core.codes import Family
from dsh_core.events import ToolResult, TurnStart
from dsh_core.failures import Part, failure_of
from dsh_otel.names import OTHER, Attr, Event, EventAttr
from dsh_otel.processors.base import SessionSpanProcessor

if TYPE_CHECKING:
    from dsh_core.events import SessionEvent
    from dsh_core.failures import SessionFailure
    from dsh_otel.spans import Session, SessionSpan

MAX_COUNTED: Final = 1024
_QUIET: Final = frozenset({Family.CANCELLED})
"""Families that leave the span's status unset: nobody failed."""


class ErrorSpanProcessor(SessionSpanProcessor):
    """Writes what failed, with which code, and what is proposed to do about it.

    On the span: status, ``error.type`` (the code), ``dsh.error.*`` and ``dsh.route``; for tool
    calls a span event ``dsh.tool.error`` too. A route proposes; nothing here acts.
    """

    def on_event(self, event: SessionEvent, span: SessionSpan) -> None:
        """Classify the failure that an event reports, if it reports one."""
        if isinstance(event, TurnStart):
            span.session.notes.pop(self, None)
            return
        failure = failure_of(event)
        if failure is None or not _concerns(failure, span):
            return
        found = failure.classification
        code = found.code or OTHER
        span.set(Attr.ERROR_FAMILY, found.family.value)
        span.set(Attr.ROUTE, found.route.value)
        if found.code is not None:
            span.set(Attr.ERROR_CODE, found.code)
        if found.name:
            span.set(Attr.ERROR_NAME, found.name)
        if found.inferred:
            span.mark(Attr.ERROR_INFERRED)
        if found.family not in _QUIET:
            span.set(Attr.ERROR_TYPE, code)
            span.fail(f"{failure.part.value} failed: {code}")
        if failure.part is Part.TOOL and isinstance(event, ToolResult):
            self._tool_error(event, span, failure)

    def _tool_error(self, event: ToolResult, span: SessionSpan, failure: SessionFailure) -> None:
        found = failure.classification
        # Failures of the open turn, by tool and code.
        counts: dict[tuple[str, str], int] = span.session.notes.setdefault(self, {})
        key = (span.name, found.code or OTHER)
        if key in counts or len(counts) < MAX_COUNTED:
            counts[key] = counts.get(key, 0) + 1
        attributes = {
            EventAttr.CODE: found.code or OTHER,
            EventAttr.NAME: found.name or None,
            EventAttr.FAMILY: found.family.value,
            EventAttr.ROUTE: found.route.value,
            EventAttr.INFERRED: found.inferred,
            EventAttr.TOOL: span.name,
            EventAttr.CALL_ID: event.data.call_id,
            EventAttr.ATTEMPT_COUNT: counts.get(key, 1),
        }
        span.add_event(Event.TOOL_ERROR, attributes, span.session.now_ns)

    def on_close(self, session: Session, span: SessionSpan) -> None:
        """Forget the session."""
        del span
        session.notes.pop(self, None)


def _concerns(failure: SessionFailure, span: SessionSpan) -> bool:
    # A stray failure falls in the span of something else, which has not failed.
    return span.kind == failure.part.value or (span.kind == "orphan" and span.started)
