"""Model attempts: the ``chat`` spans of a step.

No event says that a request is sent: an attempt is taken to begin with its step, or with the start
of a retry, and its span starts once there is a sign of it. It settles with the answer, the failed
attempt or the stream's end, and ends with whatever comes next, since facts about it may follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dsh_core.failures import finish_of, usage_of
from dsh_core.parts import NO_NUMBER
from dsh_core.streams import DELTAS, Finish, UsageChunk, stream_ends
from dsh_otel.clean import is_token
from dsh_otel.content import messages_json
from dsh_otel.names import OTHER, Attr
from dsh_otel.spans import SessionSpan, to_ns

if TYPE_CHECKING:
    from dsh_core.events import AssistantAttempt, AssistantChunk, AssistantMessage, SessionEvent
    from dsh_core.streams import FinishReason, Usage
    from dsh_otel.spans import Session
    from dsh_otel.starter import SpanStarter

NS_PER_S: Final = 1_000_000_000
_NO_OUTPUT: Final = (Finish, UsageChunk)
"""Chunks that are no output of the model."""


class Attempts:
    """The attempts of one step at a time.

    Args:
        session: The session.
        starter: Starts the spans.

    Attributes:
        span: The attempt's span, None before there is a sign of it and after it has ended.
        provider: Name of the provider that requests go to, as far as the log says.
        model: Name of the model that requests go to.
    """

    def __init__(self, session: Session, starter: SpanStarter) -> None:
        self.span: SessionSpan | None = None
        self.provider = ""
        self.model = ""
        self._session = session
        self._starter = starter
        self._step: SessionSpan | None = None
        self._number = 0
        self._start_ns: int | None = None
        self._settled_ns: int | None = None
        self._first_chunk = False

    @property
    def settled(self) -> bool:
        """Whether the attempt has its answer and only waits for its end."""
        return self._settled_ns is not None

    def begin(self, step: SessionSpan, number: int, start_ns: int) -> None:
        """Expect an attempt.

        Args:
            step: The step it belongs to.
            number: Its number in the step, from 1.
            start_ns: When it begins, Unix time in ns.
        """
        self._step, self._number, self._start_ns = step, number, start_ns
        self._settled_ns, self._first_chunk = None, False

    def sign(self, event: SessionEvent) -> SessionSpan | None:
        """Take an event as a sign that the expected attempt is under way.

        Returns:
            The attempt's span, None if no attempt can be under way.
        """
        if self.span is None and self._step is not None and self._start_ns is not None:
            span = self._make(self._step, self._start_ns)
            self._begin_span(span, self._step, event)
        return self.span

    def _make(self, step: SessionSpan, start_ns: int) -> SessionSpan:
        return SessionSpan(self._session, "attempt", start_ns, step.turn, step.step, self.model)

    def _begin_span(
        self,
        span: SessionSpan,
        parent: SessionSpan,
        event: SessionEvent,
        **extra: Any,  # noqa: ANN401
    ) -> None:
        attributes: dict[str, Any] = {
            Attr.ATTEMPT: self._number,
            Attr.SEQ_START: event.seq,
            **extra,
        }
        if self.provider:
            attributes[Attr.PROVIDER] = self.provider
        if self.model:
            attributes[Attr.REQUEST_MODEL] = self.model
        self._starter.start(span, parent, attributes, span.step, self._number, event.seq)
        self.span = span

    def chunk(self, event: AssistantChunk) -> SessionSpan | None:
        """Take in a chunk of the stream."""
        span = self.span or self.sign(event)
        if span is None:
            return None
        chunk = event.data.chunk
        if self._first_chunk and isinstance(chunk, DELTAS):
            # Nearly all chunks are deltas, and after the first they say nothing more.
            return span
        time_ns = self._session.now_ns
        if not self._first_chunk and not isinstance(chunk, _NO_OUTPUT):
            self._note_first(span, time_ns)
        self._usage(span, usage_of(chunk.usage) if isinstance(chunk, UsageChunk) else None)
        reason = finish_of(chunk)
        if reason is not None:
            self._settle(span, event, time_ns, reason)
        return span

    def message(self, event: AssistantMessage) -> SessionSpan | None:
        """Take in the settled answer."""
        data = event.data
        source = data.message.source if data.message is not None else None
        if source is not None and source.model and not self.model:
            self.provider, self.model = source.provider, source.model
        span = self._settling(event)
        if span is None:
            return None
        if source is not None and source.model:
            span.set(Attr.RESPONSE_MODEL, source.model)
            if not span.get(Attr.PROVIDER) and source.provider:
                span.set(Attr.PROVIDER, source.provider)
        self._usage(span, usage_of(data.usage))
        self._stream(span, event)
        if self._settled_ns is None:
            self._settle(span, event, self._session.now_ns, None)
        span.set(Attr.SEQ_END, event.seq)
        if self._session.content:
            content = data.content if data.message is None else data.message.content
            span.set(Attr.OUTPUT_MESSAGES, messages_json("assistant", content))
        return span

    def failed(self, event: AssistantAttempt) -> SessionSpan | None:
        """Take in an attempt that gave no answer."""
        span = self._settling(event)
        if span is not None:
            self._stream(span, event)
            self._settle(span, event, self._session.now_ns, None)
        return span

    def _settling(self, event: SessionEvent) -> SessionSpan | None:
        span = self.sign(event)
        if span is None and self._step is not None:
            # A second answer in the step, out of nowhere: kept, but with no length.
            self._number += 1
            span = self._make(self._step, self._session.now_ns)
            self._begin_span(span, self._step, event, **{Attr.SYNTHETIC: True})
        return span

    def usage(self, span: SessionSpan, usage: Usage | None, event: SessionEvent) -> None:
        """Take in token counts that come as an event of their own (June)."""
        self._usage(span, usage)
        span.set(Attr.SEQ_END, event.seq)

    def _usage(self, span: SessionSpan, usage: Usage | None) -> None:
        if usage is None:
            return
        # OpenTelemetry's input count includes cached tokens, dsh's does not.
        total = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        span.set(Attr.INPUT_TOKENS, total)
        span.set(Attr.OUTPUT_TOKENS, usage.output_tokens)
        for name, count in (
            (Attr.CACHE_READ_TOKENS, usage.cache_read_tokens),
            (Attr.CACHE_CREATION_TOKENS, usage.cache_write_tokens),
            (Attr.REASONING_TOKENS, usage.reasoning_tokens),
        ):
            if count:
                span.set(name, count)

    def _stream(self, span: SessionSpan, event: AssistantMessage | AssistantAttempt) -> None:
        head, last = stream_ends(event.data.stream)
        if head is None:
            return
        first = head.time0 if head.time is None else head.time
        if first is not None and not isinstance(head.chunk, _NO_OUTPUT):
            self._note_first(span, to_ns(first))
        reason = finish_of(last.chunk) if last is not None else None
        if reason is not None:
            span.set(Attr.FINISH_REASONS, (_named(reason),))

    def _note_first(self, span: SessionSpan, time_ns: int) -> None:
        if not self._first_chunk:
            self._first_chunk = True
            wait = max(time_ns - span.start_ns, 0) / NS_PER_S
            span.set(Attr.TIME_TO_FIRST_CHUNK, wait)

    def _settle(
        self, span: SessionSpan, event: SessionEvent, time_ns: int, reason: FinishReason | None
    ) -> None:
        self._settled_ns = time_ns
        self._start_ns = None
        span.set(Attr.SEQ_END, event.seq)
        if reason is not None and reason.kind:
            span.set(Attr.FINISH_REASONS, (_named(reason),))

    def finish(self) -> None:
        """End the attempt if it has settled."""
        if self.span is not None and self._settled_ns is not None:
            self.span.end(self._settled_ns)
            self.span, self._settled_ns = None, None

    def close(self, time_ns: int) -> bool:
        """End whatever is under way: the step, or this try of it, is over.

        Args:
            time_ns: When it ends, Unix time in ns.

        Returns:
            Whether an attempt was left without an answer.
        """
        self.finish()
        span, self.span = self.span, None
        if span is not None:
            span.mark(Attr.UNCLOSED)
            span.end(time_ns)
        self._step, self._start_ns, self._settled_ns = None, None, None
        return span is not None


def _named(reason: FinishReason) -> str:
    # Where a name should stand, a provider may write a sentence: that is content.
    return reason.kind if is_token(reason.kind) else OTHER


def retry_number(retry: int) -> int:
    """Return the number of the attempt that a retry starts."""
    return 2 if retry == NO_NUMBER else retry + 1
