"""The tree of a session's spans: where each event has its place.

It is total: whatever comes, legal or not, every event finds a place and every span ends. An
overlapping start closes what is open, a result without a call becomes a span of zero length.
Nothing is judged here.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.trace import SpanContext, TraceFlags

from dsh_core.events import UNREADABLE
from dsh_core.failures import usage_of
from dsh_core.parts import ABSENT
from dsh_otel.attempts import Attempts, retry_number
from dsh_otel.clean import is_token
from dsh_otel.content import messages_json
from dsh_otel.ids import first_turn_of
from dsh_otel.inbox import Inbox
from dsh_otel.names import OTHER, Attr, Event, EventAttr, Span
from dsh_otel.spans import MAX_TIME_MS, NS_PER_MS, Session, SessionSpan, to_ns
from dsh_otel.strays import Strays
from dsh_otel.toolcalls import ToolCalls, describe_result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dsh_core import events as e
    from dsh_core.events import SessionEvent
    from dsh_core.payloads import ModelConfig
    from dsh_otel.starter import SpanStarter

REPAIRS: Final = ("interrupted", "forked")
NOTED: Final = frozenset(
    {
        "agent/inbox/spliced",
        "approval/asked",
        "approval/decided",
        "compaction/end",
        "compaction/start",
        "error",
        "goal/change",
        "hook/invoked",
        "hook/result",
        "job/registered",
        "job/settled",
        "llm/retry",
        "session/title",
        "todo/write",
    }
)
"""Events that become a span event on the innermost open span."""


class SpanTree:
    """The open spans of one session, and the moves between them.

    Args:
        session: The session.
        starter: Starts the spans.

    Attributes:
        counts: Number of events by what became of them: ``opened``, ``closed``, ``noted`` (a span
            event), ``absorbed`` (part of an open span), ``outside`` (of every span), ``orphaned``
            (a span of their own), ``overflow`` (over a limit). Every event is counted once.
        unclosed: Number of spans that the log never closed, by kind.
        then: What ends the spans that this event has closed, None if it has closed none.
    """

    def __init__(self, session: Session, starter: SpanStarter) -> None:
        self.counts: Counter[str] = Counter()
        self.unclosed: Counter[str] = Counter()
        self._session = session
        self._starter = starter
        self._attempts = Attempts(session, starter)
        self._tools = ToolCalls(session, starter, self.unclosed)
        self._inbox = Inbox()
        self._agent = session.header.agent_preset or Span.DEFAULT_AGENT
        self._turn: SessionSpan | None = None
        self._step: SessionSpan | None = None
        self._strays = Strays(session, starter)
        self._now = self._before = session.now_ns
        self._seq: int | None = None
        self._fate = ""
        self.then: Callable[[], object] | None = None
        self._places: Mapping[str, Callable[[Any], SessionSpan]] = {
            "turn/start": self._turn_start,
            "turn/end": self._turn_end,
            "step/start": self._step_start,
            "step/end": self._step_end,
            "assistant/chunk": self._chunk,
            "assistant/message": self._message,
            "assistant/attempt": self._attempt,
            "tool/call": self._tool_call,
            "tool/result": self._tool_result,
            "llm/retry-started": self._retry_started,
            "request/header": self._request_header,
            "request/context": self._request_context,
            "session-log-deepseek/delivery-accepted": self._under_way,
            "user/message": self._user_message,
            "usage": self._usage,
            "agent/inbox/spliced": self._spliced,
            "agent-preset/selected": self._preset,
            "subagent/catalog": self._subagent,
        }

    def place(self, event: SessionEvent) -> SessionSpan:
        """Move the tree by an event.

        Args:
            event: The next event.

        Returns:
            The span that the event opens, closes or falls in, still writable; call `settle` when
            everybody has written to it.
        """
        time = event.time
        self._before, self._seq, self._fate = self._now, event.seq, ""
        fits = 0 <= time <= MAX_TIME_MS
        if fits:
            self._now = self._session.now_ns = time * NS_PER_MS
        elif time != UNREADABLE:
            self._now = self._session.now_ns = to_ns(time)
        place = self._places.get(event.type)
        span = self._other(event) if place is None else place(event)
        self.counts[self._fate or ("absorbed" if span.started else "outside")] += 1
        if not fits and span.started:
            span.mark(Attr.TIME_ADJUSTED)
        return span

    def aside(self) -> SessionSpan:
        """Return the innermost open span for what is no event: damage, or the end."""
        self._seq = None
        return self.innermost()

    def settle(self) -> None:
        """End what the event placed last has closed."""
        if self.then is not None:
            then, self.then = self.then, None
            then()

    def innermost(self) -> SessionSpan:
        """Return the innermost open span; outside all spans, one that starts only if written to."""
        call, step, attempts = self._tools.only, self._step, self._attempts
        # A call that is left over from another step is not what the session is at.
        if call is not None and (step is None or (call.turn, call.step) == (step.turn, step.step)):
            return call
        if attempts.span is not None and not attempts.settled:
            return attempts.span
        return step or self._turn or self._outside()

    def _parent(self) -> SessionSpan | None:
        return self._step or self._turn

    def _outside(self) -> SessionSpan:
        span = self._strays.outside(self._seq, self._refused)
        self.then = partial(span.end, span.start_ns)
        return span

    def _refused(self) -> None:
        if self._seq is not None:
            self.counts["outside"] -= 1
            self.counts["overflow"] += 1

    def _orphan(self, event: SessionEvent, kind: str = "orphan", **details: Any) -> SessionSpan:  # noqa: ANN401
        """Give an event that belongs nowhere a span of zero length."""
        self._fate = "overflow" if self._strays.full else "orphaned"
        span = self._strays.orphan(event, kind, self._parent(), **details)
        self.then = partial(span.end, span.start_ns)
        return span

    # Turns and steps

    def _turn_start(self, event: e.TurnStart) -> SessionSpan:
        if self._turn is not None or self._step is not None or self._tools:
            # What the log never closed lasted until its last sign of life, not until now.
            self.close(end_ns=self._before)
        header = self._session.header
        number = event.data.turn
        self._starter.new_trace(number)
        self._strays.new_turn()
        span = SessionSpan(self._session, "turn", self._now, number, name=self._agent)
        attributes: dict[str, Any] = {
            Attr.AGENT: self._agent,
            Attr.SESSION: header.id,
            Attr.CONTRACT: self._session.contract.value,
            Attr.FORMAT: header.format,
            Attr.DEPTH: header.delegation_depth,
            Attr.SEQ_START: event.seq,
        }
        if header.parent_session:
            attributes[Attr.PARENT_SESSION] = header.parent_session
        self._starter.start(span, None, attributes)
        self._turn = span
        self._fate = "opened"
        return span

    def _turn_end(self, event: e.TurnEnd) -> SessionSpan:
        turn = self._turn
        if turn is None or turn.turn != event.data.turn:
            return self._orphan(event, turn=event.data.turn)
        kind = event.data.reason.kind
        named = kind if is_token(kind) else OTHER
        turn.set(Attr.END_REASON, named if kind else "unknown")
        turn.set(Attr.SEQ_END, event.seq)
        if kind in REPAIRS:
            turn.mark(Attr.SYNTHETIC)
        self._fate = "closed"
        self.then = partial(self.close, closed=True)
        return turn

    def _step_start(self, event: e.StepStart) -> SessionSpan:
        self._close_step(end_ns=self._before)
        data = event.data
        span = SessionSpan(self._session, "step", self._now, data.turn, data.step)
        self._starter.start(span, self._turn, {Attr.SEQ_START: event.seq}, data.step, event.seq)
        self._step = span
        self._attempts.begin(span, 1, span.start_ns)
        self._fate = "opened"
        return span

    def _step_end(self, event: e.StepEnd) -> SessionSpan:
        step, data = self._step, event.data
        if step is None or (step.turn, step.step) != (data.turn, data.step):
            return self._orphan(event, turn=data.turn, step=data.step)
        step.set(Attr.SEQ_END, event.seq)
        self._fate = "closed"
        self.then = partial(self._close_step, closed=True)
        return step

    def _close_step(self, *, closed: bool = False, end_ns: int | None = None) -> None:
        end_ns = self._now if end_ns is None else end_ns
        self._close_attempt(end_ns)
        step, self._step = self._step, None
        if step is not None:
            self._end(step, end_ns, closed=closed)

    def _close_attempt(self, end_ns: int) -> None:
        if self._attempts.close(end_ns):
            self.unclosed["attempt"] += 1

    def close(self, *, closed: bool = False, end_ns: int | None = None) -> None:
        """End everything that is open.

        Args:
            closed: Whether the log itself closes the turn.
            end_ns: When it ends, Unix time in ns; with the last event by default.
        """
        end_ns = self._now if end_ns is None else end_ns
        self._close_step(end_ns=end_ns)
        self._tools.close(end_ns)
        turn, self._turn = self._turn, None
        if turn is not None:
            self._end(turn, end_ns, closed=closed)
        self._starter.leave_trace()

    def _end(self, span: SessionSpan, end_ns: int, *, closed: bool) -> None:
        if not closed:
            span.mark(Attr.UNCLOSED)
            self.unclosed[span.kind] += 1
        span.end(end_ns)

    # Model attempts

    def _chunk(self, event: e.AssistantChunk) -> SessionSpan:
        step, data = self._step, event.data
        span = None
        if step is not None and step.step == data.step and step.turn == data.turn:
            span = self._attempts.chunk(event)
        return span or self.innermost()

    def _message(self, event: e.AssistantMessage) -> SessionSpan:
        return self._settled(event, self._attempts.message)

    def _attempt(self, event: e.AssistantAttempt) -> SessionSpan:
        return self._settled(event, self._attempts.failed)

    def _settled(self, event: Any, settle: Callable[[Any], SessionSpan | None]) -> SessionSpan:  # noqa: ANN401
        step, data = self._step, event.data
        span = None
        if step is not None and (step.turn, step.step) == (data.turn, data.step):
            span = settle(event)
        if span is None:
            return self._orphan(
                event, "attempt", turn=data.turn, step=data.step, name=self._attempts.model
            )
        self._fate = "closed"
        return span

    def _usage(self, event: e.UsageEvent) -> SessionSpan:
        span = self._attempts.span
        if span is None:
            return self._other(event)
        self._attempts.usage(span, usage_of(event.data.usage), event)
        return span

    def _retry_started(self, event: e.LlmRetryStarted) -> SessionSpan:
        if self._step is None:
            return self._other(event)
        step = self._step
        self._close_attempt(self._now)
        self._attempts.begin(step, retry_number(event.data.retry), self._now)
        self._fate = "opened"
        return step

    def _request_header(self, event: e.RequestHeader) -> SessionSpan:
        return self._request(event.data.header.config)

    def _request_context(self, event: e.RequestContext) -> SessionSpan:
        return self._request(event.data)

    def _request(self, to: ModelConfig) -> SessionSpan:
        if to.model:
            self._attempts.provider, self._attempts.model = to.provider, to.model
        return self.innermost()

    def _under_way(self, event: SessionEvent) -> SessionSpan:
        self._attempts.sign(event)
        return self.innermost()

    # Tools

    def _tool_call(self, event: e.ToolCall) -> SessionSpan:
        self._attempts.finish()
        self._fate = "opened"
        return self._tools.open(event, self._parent(), self._now, self._before)

    def _tool_result(self, event: e.ToolResult) -> SessionSpan:
        self._attempts.finish()
        data = event.data
        if event.surface_op is not ABSENT and not event.appends:
            # A replacement prunes the history; the call is long over.
            return self.innermost()
        span = self._tools.take(event)
        if span is None:
            span = self._orphan(
                event,
                "tool",
                turn=data.turn,
                step=data.step,
                name=Span.UNKNOWN_TOOL,
                call_id=data.call_id,
            )
        else:
            self._fate = "closed"
            self.then = partial(span.end, self._now)
        describe_result(span, event, content=self._session.content)
        return span

    # Everything else

    def _user_message(self, event: e.UserMessage) -> SessionSpan:
        self._attempts.finish()
        span, source = self._turn, event.data.source
        if (
            self._session.content
            and span is not None
            and span.get(Attr.INPUT_MESSAGES) is None
            and (source is None or source.kind in ("", "user"))
        ):
            span.set(Attr.INPUT_MESSAGES, messages_json("user", event.data.content))
        return self.innermost()

    def _spliced(self, event: e.InboxSpliced) -> SessionSpan:
        self._attempts.finish()
        wait_s = self._inbox.splice(event, self._now)
        turn = self._turn
        if wait_s is not None and turn is not None and turn.get(Attr.QUEUE_WAIT) is None:
            turn.set(Attr.QUEUE_WAIT, wait_s)
        return self._other(event)

    def _preset(self, event: e.AgentPresetSelected) -> SessionSpan:
        self._agent = event.data.agent_preset or self._agent
        return self.innermost()

    def _subagent(self, event: e.SubagentCatalog) -> SessionSpan:
        span = self._other(event)
        child = event.data.child_id
        if span.kind == "tool" and child and self._starter.derives_ids:
            trace_id, span_id = first_turn_of(child)
            # What a turn in its caller's trace starts belongs there too.
            trace_id = self._starter.outer or trace_id
            context = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(1))
            span.otel.add_link(context)
        return span

    def _other(self, event: SessionEvent) -> SessionSpan:
        if self._attempts.settled:
            self._attempts.finish()
        span = self.innermost()
        if event.type in NOTED and span.started:
            noted = span.note(Event.PREFIX + event.type, {EventAttr.SEQ: event.seq}, self._now)
            self._fate = "noted" if noted else "overflow"
        return span
