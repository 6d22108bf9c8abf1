"""Errors as telemetry: codes, families and routes on the spans that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsh_core.codes import Family
from dsh_core.events import ToolResult, TurnStart
from dsh_core.failures import REPORTING, Part, failure_of
from dsh_otel.clean import is_token
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

    watches = REPORTING | {str(TurnStart.type)}

    def on_event(self, event: SessionEvent, span: SessionSpan) -> None:
        """Classify the failure that an event reports, if it reports one."""
        if isinstance(event, TurnStart):
            span.session.notes.pop(self, None)
            return
        failure = failure_of(event)
        if failure is None or not _concerns(failure, span):
            return
        found = failure.classification
        code, name = _named(found.code, span) or OTHER, _named(found.name, span)
        span.set(Attr.ERROR_FAMILY, found.family.value)
        span.set(Attr.ROUTE, found.route.value)
        if found.code is not None:
            span.set(Attr.ERROR_CODE, code)
        if name is not None:
            span.set(Attr.ERROR_NAME, name)
        if found.inferred:
            span.mark(Attr.ERROR_INFERRED)
        if found.family not in _QUIET:
            span.set(Attr.ERROR_TYPE, code)
            span.fail(f"{failure.part.value} failed: {code}")
        if failure.part is Part.TOOL and isinstance(event, ToolResult):
            self._tool_error(event, span, failure, code, name)

    def _tool_error(
        self,
        event: ToolResult,
        span: SessionSpan,
        failure: SessionFailure,
        code: str,
        name: str | None,
    ) -> None:
        found = failure.classification
        # Failures of the open turn, by tool and code.
        counts: dict[tuple[str, str], int] = span.session.notes.setdefault(self, {})
        key = (span.name, code)
        if key in counts or len(counts) < MAX_COUNTED:
            counts[key] = counts.get(key, 0) + 1
        attributes = {
            EventAttr.CODE: code,
            EventAttr.NAME: name,
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


def _named(text: str | None, span: SessionSpan) -> str | None:
    # Where a code or class name should stand, a plugin may write a sentence: that is content.
    if not text:
        return None
    return text if span.session.content or is_token(text) else OTHER
