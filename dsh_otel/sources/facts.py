"""What people want to see at once of sessions that run: turns, failures, findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dsh_core.contract.findings import Severity
from dsh_core.events import TurnEnd, TurnStart
from dsh_otel.clean import clean_text
from dsh_otel.names import Attr, Event
from dsh_otel.processors.base import SessionSpanProcessor
from dsh_otel.spans import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_core.contract.findings import Finding
    from dsh_core.events import SessionEvent
    from dsh_otel.spans import Session, SessionSpan

TURN_ENDED: Final = "dsh.turn.ended"
MODEL_ERROR: Final = "dsh.model.error"
UNCLOSED: Final = "never closed"
"""Why a turn ended whose end nobody has seen."""

MAX_NAME: Final = 200


class Fact(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Something that happened in a session.

    Attributes:
        event: ``dsh.turn.started``, ``dsh.turn.ended``, ``dsh.tool.error``, ``dsh.model.error`` or
            ``dsh.violation``.
        session: Id of the session.
        time: When, Unix time in ms.
        seq: Seq of the event that tells it.
        turn: Turn number.
        step: Step number.
        trace_id: Id of the trace that shows it, in hex.
        span_id: Id of the span, in hex.
        agent: The agent's preset.
        reason: Why the turn ended.
        duration_ms: How long the turn took, in ms.
        steps: How many steps it had.
        tools: How many tool results it had.
        failures: How many of those were failures.
        violations: How many findings of severity violation it had.
        tool: Name of the tool.
        call_id: Id of the call.
        code: The error's code; of a finding the code of its severity.
        family: The error's family.
        route: What is proposed.
        inferred: Whether code or family were read from a text.
        rule: The rule that was broken.
        severity: How bad that is.
        message: What is wrong, in one clause.
        line: Line of the log.
    """

    event: str
    session: str
    time: int
    seq: int | None = None
    turn: int | None = None
    step: int | None = None
    trace_id: str = ""
    span_id: str = ""
    agent: str = ""
    reason: str = ""
    duration_ms: int | None = None
    steps: int | None = None
    tools: int | None = None
    failures: int | None = None
    violations: int | None = None
    tool: str = ""
    call_id: str = ""
    code: str = ""
    family: str = ""
    route: str = ""
    inferred: bool = False
    rule: str = ""
    severity: str = ""
    message: str = ""
    line: int | None = None


class _Turn:
    """What a turn had so far."""

    def __init__(self) -> None:
        self.steps = self.tools = self.failures = self.violations = 0
        self.open: SessionSpan | None = None


class FactProcessor(SessionSpanProcessor):
    """Tells facts as they happen. It must come behind the processor of errors.

    Args:
        tell: Called with each fact.

    Attributes:
        quiet: Set while the events are of the past, or were told before: nothing is told.
    """

    watches = frozenset(
        {
            *("turn/start", "turn/end", "step/start", "tool/result"),
            *("assistant/attempt", "assistant/message", "assistant/chunk"),
        }
    )

    def __init__(self, tell: Callable[[Fact], object]) -> None:
        self._tell = tell
        self.quiet = False

    def on_event(self, event: SessionEvent, span: SessionSpan) -> None:
        """Tell what an event means."""
        turns: dict[object, _Turn] = span.session.notes
        turn = turns.get(self)
        if turn is None or isinstance(event, TurnStart):
            turn = turns[self] = _Turn()
        if isinstance(event, TurnStart):
            turn.open = span
            self._say(span, event, Event.TURN_STARTED, agent=_text(span.get(Attr.AGENT)))
        elif isinstance(event, TurnEnd):
            self._ended(span, event, turn)
        elif event.type == "step/start":
            turn.steps += 1
        elif event.type == "tool/result":
            turn.tools += 1
            if span.get(Attr.ERROR_FAMILY) is not None:
                turn.failures += 1
                tool, call = _text(span.name), _text(span.call_id)
                self._failed(span, event, Event.TOOL_ERROR, tool=tool, call_id=call)
        elif span.kind == "attempt" and span.get(Attr.ERROR_FAMILY) is not None:
            self._failed(span, event, MODEL_ERROR)

    def _ended(self, span: SessionSpan, event: TurnEnd, turn: _Turn) -> None:
        if span.kind == "turn":
            turn.open = None
            reason = _text(span.get(Attr.END_REASON))
            self._failed(span, event, TURN_ENDED, **_totals(span, turn, reason))

    def on_finding(self, finding: Finding, span: SessionSpan) -> None:
        """Tell a finding."""
        turn = span.session.notes.get(self)
        if turn is not None and finding.severity is Severity.VIOLATION:
            turn.violations += 1
        self._say(
            span,
            None,
            Event.VIOLATION,
            seq=finding.seq,
            turn=finding.turn,
            step=finding.step,
            call_id=_text(finding.call_id),
            code=finding.code,
            rule=finding.rule,
            severity=finding.severity.value,
            message=_text(finding.message),
            line=finding.line,
        )

    def on_close(self, session: Session, span: SessionSpan) -> None:
        """Forget the session."""
        del span
        turn: _Turn | None = session.notes.pop(self, None)
        if turn is not None and turn.open is not None:
            span = turn.open
            self._say(span, None, TURN_ENDED, turn=span.turn, **_totals(span, turn, UNCLOSED))

    def _failed(self, span: SessionSpan, event: SessionEvent, what: str, **values: Any) -> None:  # noqa: ANN401
        self._say(
            span,
            event,
            what,
            code=_text(span.get(Attr.ERROR_CODE) or span.get(Attr.ERROR_TYPE)),
            family=_text(span.get(Attr.ERROR_FAMILY)),
            route=_text(span.get(Attr.ROUTE)),
            inferred=bool(span.get(Attr.ERROR_INFERRED)),
            **values,
        )

    def _say(self, span: SessionSpan, event: SessionEvent | None, what: str, **values: Any) -> None:  # noqa: ANN401
        if self.quiet:
            return
        if event is not None:
            values |= {"seq": event.seq, "turn": span.turn, "step": span.step}
        if span.started:
            context = span.otel.get_span_context()
            values["trace_id"] = f"{context.trace_id:032x}"
            values["span_id"] = f"{context.span_id:016x}"
        session = span.session
        self._tell(
            Fact(
                event=what,
                session=_text(session.header.id),
                time=session.now_ns // NS_PER_MS,
                **values,
            )
        )


def _totals(span: SessionSpan, turn: _Turn, reason: str) -> dict[str, Any]:
    return {
        "reason": reason,
        "duration_ms": (span.session.now_ns - span.start_ns) // NS_PER_MS,
        "steps": turn.steps,
        "tools": turn.tools,
        "failures": turn.failures,
        "violations": turn.violations,
    }


def _text(value: object) -> str:
    return "" if value is None else clean_text(str(value), MAX_NAME)
