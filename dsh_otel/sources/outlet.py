"""Where live spans leave: a bounded queue, a thread that exports, and word of what has arrived.

What a receiver does not take now is tried again; what it refuses is dropped and counted. Whoever
makes spans from a log can wait when the queue is full: nothing is lost that a log still holds.
Where there is no log, what does not fit is dropped and counted.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExportResult

from dsh_otel.replay import BATCH, MAX_BATCH_BYTES, size_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_otel.export.sink import Sink
    from dsh_otel.sources.places import Place

    # A session, and where it stands when the spans before have arrived.
    Token = tuple[str, Place | None]

MAX_WAITING: Final = 16_384
"""Most spans that wait to be exported."""

MAX_WAITING_BYTES: Final = 64 << 20
"""Most bytes that wait, as OTLP JSON."""

FIRST_PAUSE: Final = 0.5
"""Seconds until a failed export is tried again; doubled each time."""

LONGEST_PAUSE: Final = 15.0


@dataclass(slots=True)
class Counts:
    """What became of spans.

    Attributes:
        sent: Accepted by the receiver.
        dropped: Refused by it, for good.
        left: Not sent when it was time to end.
        problem: Why, as far as anybody says.
    """

    sent: int = 0
    dropped: int = 0
    left: int = 0
    problem: str = ""


@dataclass(slots=True)
class _Parcel:
    spans: list[ReadableSpan] = field(default_factory=list)
    size: int = 0
    tokens: list[Token] = field(default_factory=list)


class Outlet(SpanProcessor):
    """Exports spans in the order in which they end.

    Args:
        sink: Where they go.
        arrived: Called, in the thread that exports, with the tokens whose spans have all arrived.
        limit: Most spans that wait.
        lossy: Whether spans are dropped while so many wait: whoever makes them cannot wait.

    Attributes:
        counts: What became of spans so far.
        skipping: Set while spans end that were exported before: they are left out.
        skipped: Number of those.
        failing: Why the receiver takes nothing at the moment; empty if it does.
        broken: Whether nobody reads the output any more.
    """

    def __init__(
        self,
        sink: Sink,
        arrived: Callable[[list[Token]], object] = lambda _tokens: None,
        limit: int = MAX_WAITING,
        *,
        lossy: bool = False,
    ) -> None:
        self.counts = Counts()
        self.skipping = False
        self.skipped = 0
        self.failing = ""
        self.broken = False
        self._sink = sink
        self._arrived = arrived
        self._limit = limit
        self._lossy = lossy
        self._parcels: deque[_Parcel] = deque()
        self._waiting = self._size = 0
        self._change = threading.Condition()
        self._closing = False
        self._hurry = threading.Event()
        self._deadline = 0.0
        self._thread = threading.Thread(target=self._work, name="dsh-otel-export", daemon=True)
        self._thread.start()

    # Called by whoever makes spans

    def on_end(self, span: ReadableSpan) -> None:
        """Take a span."""
        if span.context is None or not span.context.trace_flags.sampled:
            return
        if self.skipping:
            self.skipped += 1
            return
        size = size_of(span)
        with self._change:
            if self._lossy and self.full:
                self.counts.dropped += 1
                self.counts.problem = self.failing or "the receiver is too slow"
                return
            last = self._parcels[-1] if self._parcels else None
            full = last is None or last.tokens or len(last.spans) >= BATCH
            if last is None or full or last.size + size > MAX_BATCH_BYTES:
                last = _Parcel()
                self._parcels.append(last)
            last.spans.append(span)
            last.size += size
            self._waiting += 1
            self._size += size
            self._change.notify_all()

    def mark(self, token: Token) -> None:
        """Have `arrived` called when everything up to here has arrived."""
        with self._change:
            if not self._parcels:
                self._parcels.append(_Parcel())
            self._parcels[-1].tokens.append(token)
            self._change.notify_all()

    @property
    def full(self) -> bool:
        """Whether as much waits as may wait."""
        return self._waiting >= self._limit or self._size >= MAX_WAITING_BYTES

    def wait_for_room(self, timeout_s: float) -> bool:
        """Wait until more may come.

        Returns:
            Whether it may.
        """
        with self._change:
            return self._change.wait_for(lambda: not self.full or self._closing, timeout_s)

    def wait_until_idle(self, timeout_s: float) -> bool:
        """Wait until everything has been dealt with.

        Returns:
            Whether it has.
        """
        with self._change:
            return self._change.wait_for(lambda: not self._parcels, timeout_s)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait until everything has been dealt with.

        Args:
            timeout_millis: How long at most.
        """
        return self.wait_until_idle(timeout_millis / 1000)

    def close(self, timeout_s: float) -> Counts:
        """Export what waits, as far as that can be done in time; safe to call twice.

        Args:
            timeout_s: How long it may take, in seconds; what has not left then is counted.
        """
        if not self._closing:
            self._deadline = time.monotonic() + timeout_s
            with self._change:
                self._closing = True
                self._change.notify_all()
            self._hurry.set()
            self._thread.join(max(self._deadline - time.monotonic(), 0))
            with self._change:
                self.counts.left = self._waiting
                self.counts.problem = self.failing or self.counts.problem
                # One that still waits for an answer is left to itself.
                self._parcels.clear()
            report = self._sink.report()
            refused = min(report.refused, self.counts.sent)
            self.counts.sent -= refused
            self.counts.dropped += refused
            self.counts.problem = self.counts.problem or report.problem
        return self.counts

    def shutdown(self) -> None:
        """Do nothing: `close` ends it, in time."""

    # The thread that exports

    def _work(self) -> None:
        pause = FIRST_PAUSE
        while True:
            with self._change:
                self._change.wait_for(lambda: self._parcels or self._closing)
                if not self._parcels:
                    break
                parcel = self._take()
            if self._export(parcel):
                pause = FIRST_PAUSE
                continue
            if self.broken or (self._closing and time.monotonic() + pause > self._deadline):
                break
            # Going to end hurries the first attempt, not all.
            self._hurry.wait(pause)
            if self._closing:
                time.sleep(min(pause, max(self._deadline - time.monotonic(), 0)))
            pause = min(2 * pause, LONGEST_PAUSE)
        self._sink.exporter.shutdown()

    def _take(self) -> _Parcel:
        """Return what is exported together; it stays in the queue until that is done."""
        first = self._parcels[0]
        # Small ones travel together.
        while len(self._parcels) > 1:
            second = self._parcels[1]
            if (
                len(first.spans) + len(second.spans) > BATCH
                or first.size + second.size > MAX_BATCH_BYTES
            ):
                break
            first.spans += second.spans
            first.size += second.size
            first.tokens += second.tokens
            del self._parcels[1]
        # Nothing is added to what is on its way.
        if len(self._parcels) == 1:
            self._parcels.append(_Parcel())
        return first

    def _export(self, parcel: _Parcel) -> bool:
        """Export; return whether that is dealt with."""
        if parcel.spans and not self._accepted(parcel.spans):
            if not self._sink.hopeless:
                return False
            self.counts.dropped += len(parcel.spans)
            self.counts.problem = self._sink.problem
        else:
            self.counts.sent += len(parcel.spans)
        self.failing = ""
        with self._change:
            if not self._parcels or self._parcels[0] is not parcel:
                # It came too late: counted as left.
                return True
            self._parcels.popleft()
            self._waiting -= len(parcel.spans)
            self._size -= parcel.size
            if len(self._parcels) == 1 and not self._parcels[0].spans:
                parcel.tokens += self._parcels.popleft().tokens
            self._change.notify_all()
        if parcel.tokens:
            self._arrived(parcel.tokens)
        return True

    def _accepted(self, spans: list[ReadableSpan]) -> bool:
        try:
            if self._sink.exporter.export(spans) is SpanExportResult.SUCCESS:
                return True
            self.failing = self._sink.problem or "the exporter does not say why"
        except BrokenPipeError:
            self.broken = True
            self.failing = "nobody reads the output any more"
        except Exception as error:  # noqa: BLE001 - counted, and tried again
            self.failing = f"{type(error).__name__}: {error}"
        return False
