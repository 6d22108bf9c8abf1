"""The order of events: seq, time, and what a repetition or a loss explains.

A burst of repeated events is one finding, and what repeated events do to turns and steps is its
consequence. A jump of seq shows that events are missing, lost to damage or removed; everything that
does not fit until the next turn starts is a consequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsh_core.contract.findings import unreported
from dsh_core.contract.run import LOST, SourceKind
from dsh_core.events import (
    MAX_SAFE_INTEGER,
    RESUMING,
    UNREADABLE,
    AssistantChunk,
    AssistantMessage,
    Contract,
    LlmRetry,
    StepEnd,
    ToolCall,
    ToolResult,
)
from dsh_core.parts import NO_NUMBER

if TYPE_CHECKING:
    from dsh_core.contract.findings import Finding
    from dsh_core.contract.run import Run
    from dsh_core.events import SessionEvent

_AFTER_CHUNKS: Final = (AssistantMessage, LlmRetry, StepEnd)
FIRST_WITHOUT_CHUNKS: Final = 2
"""The first generation whose streams lie in the answers, and not in events of their own."""

NEVER: Final = -(2**60)
"""An expectation that no event meets: the next event must be judged one by one."""


class Order:
    """Judges seq and time; the checker calls it only when one of them is out of the ordinary.

    Attributes:
        expected: The seq that needs no judging, `NEVER` while every event does.
        last_time: Time of the event before, in ms.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.expected = 0
        self.last_time = 0
        self._last = -1
        self._high = -1
        # The last jump: the numbers between these two were not used. The finding that reported it.
        self._jump = (-1, -1)
        self._gap: Finding | None = None
        # A burst of repeated events lasts until this seq is passed.
        self._burst_until: int | None = None
        self._burst: Finding | None = None
        self._burst_turn = 0
        self._burst_size = 0
        self._before_burst: tuple[int | None, int | None] = (None, None)
        # Damage that may have cost events; the next seq shows whether it did.
        self._lost: Finding | None = None
        # Damage that left only a part of the event that comes next, or perhaps another event.
        self._partial: Finding | None = None
        self._vague = False
        self._misread = False
        # What explains everything until the next turn starts.
        self._tolerated: Finding | None = None
        self._new_turn = False
        self._clock: Finding | None = None

    def lost(self, finding: Finding) -> None:
        """Note that an event may have been lost just here."""
        self._catch_up()
        self._lost = finding
        self.expected = NEVER

    def partial(self, finding: Finding, *, vague: bool = False) -> None:
        """Note that the next event could be read in part only.

        Args:
            finding: The damage.
            vague: Whether it may be another event than it seems.
        """
        self._catch_up()
        self._partial, self._vague = finding, vague
        if vague:
            self._lost = finding
        self.expected = NEVER

    def finish(self) -> None:
        """Note what the end of the input shows: damage there may have cost any event."""
        lost, self._lost = self._lost, None
        if lost is not None:
            self._run.blame_for_good(lost, LOST)
            self._run.miss(explained=True)

    def judge(self, event: SessionEvent, line: int) -> None:
        """Judge seq and time of one event, and set what explains its other faults."""
        run = self._run
        self._catch_up()
        if self._misread:
            # What the event before left behind is not to be relied on.
            run.miss(explained=True)
        partial, self._partial = self._partial, None
        self._misread = partial is not None
        run.counted = False
        run.cause = self._cause()
        self._judge_seq(event, line)
        run.cause = self._cause()
        self._judge_time(event, line)
        if partial is not None:
            self._judge_partial(event, partial)
        run.cause = self._cause() or partial
        busy = run.cause is not None or self._lost is not None
        self.expected = NEVER if busy else self._last + 1

    def _cause(self) -> Finding | None:
        """Return what explains everything just now."""
        return self._tolerated if self._burst_until is None else self._burst

    def _judge_partial(self, event: SessionEvent, finding: Finding) -> None:
        run = self._run
        run.counted = True
        run.blame_for_good(finding, LOST)
        run.miss(explained=True)
        turn = getattr(event.data, "turn", None)
        nameless = isinstance(event, ToolCall | ToolResult) and not event.data.call_id
        if self._vague or turn == NO_NUMBER or nameless or not event.type:
            # It may have opened or closed anything.
            self._tolerate(finding)
        elif isinstance(event, AssistantMessage):
            # The calls that it advertises were not read.
            run.blame(finding, ("answer", turn, event.data.step))

    def _catch_up(self) -> None:
        if self.expected != NEVER:
            self._last = self.expected - 1
            self._high = max(self._high, self._last)

    def _judge_seq(self, event: SessionEvent, line: int) -> None:
        run, seq = self._run, event.seq
        in_burst = self._burst_until is not None
        if self._new_turn and run.timeline.turn is not None and not in_burst:
            self._tolerated, self._new_turn = None, False
            run.cause = None
        if seq == UNREADABLE:
            self._advance(self._last + 1)
        elif seq > MAX_SAFE_INTEGER:
            run.report(
                "envelope.invalid",
                "seq is larger than an exact integer",
                seq=seq,
                line=line,
                always=True,
            )
            self._advance(self._last + 1)
        elif seq <= self._last:
            self._back(event, line)
            return
        else:
            self._forward(event, line)
        if self._burst_until is None and event.type == "turn/start":
            # A turn that starts where numbers go up is a new beginning.
            self._new_turn = self._tolerated is not None

    def _advance(self, seq: int) -> None:
        self._last = seq
        self._high = max(self._high, seq)

    def _forward(self, event: SessionEvent, line: int) -> None:
        run, seq = self._run, event.seq
        if self._burst_until is not None:
            if seq <= self._burst_until:
                self._burst_size += 1
                self._repeat(event)
                return
            self._end_burst()
            self._last = self._high
        lost, self._lost = self._lost, None
        # The far end of an earlier jump may have been used already.
        early = self._last < self._jump[1] < seq
        missing = seq - self._last - 1 - early
        # As many events as are missing may just have had a wrong number.
        misnumbered, self._burst_size = self._burst_size, 0
        if run.source is SourceKind.STREAM:
            # It is far more usual there that events are missing.
            misnumbered = 0
        if missing > misnumbered:
            if lost is not None:
                lost.fold(seq)
                run.counted = True
            else:
                lost = run.report(
                    "seq.gap",
                    f"seq jumps from {self._last} to {seq}: {missing} missing",
                    seq=seq,
                    line=line,
                    expected=str(self._last + 1),
                    got=str(seq),
                )
                run.counted = run.counted or lost is not None
                if run.source is SourceKind.STREAM and not self._skips_chunks(event):
                    # Normal there, and yet it explains what does not fit.
                    lost = unreported("seq.gap")
                    self._miss_closers()
            # Whether it was only chunks nobody knows.
            run.miss(explained=lost is not None)
            self._jump, self._gap = (self._last, seq), lost or run.cause
            if lost is not None:
                run.blame_for_good(lost, LOST)
                self._tolerate(lost)
        elif early and self._gap is not None:
            # What belongs here came too early, where it could do nothing.
            self._tolerate(self._gap)
        self._advance(seq)

    def _skips_chunks(self, event: SessionEvent) -> bool:
        """Whether a stream left out nothing but chunks of the open step, as exporters do."""
        run, data = self._run, event.data
        return (
            run.source is SourceKind.STREAM
            and run.contract is not Contract.V4
            and (run.header.version or 0) < FIRST_WITHOUT_CHUNKS
            and isinstance(event, _AFTER_CHUNKS)
            and not run.timeline.pending
            and run.timeline.is_open(data.turn, data.step)
        )

    def _resumes(self, event: SessionEvent) -> bool:
        """Whether an event with a used number shows that a new process goes on with a session.

        After a crash that lost the end of the log the numbers of what was lost are used again. A
        stream has shown what was lost, and shows nothing of the repair.
        """
        return (
            self._run.source is SourceKind.STREAM
            and event.type in RESUMING
            and event.time > self.last_time
        )

    def _miss_closers(self) -> None:
        """Let a gap of a stream, which is normal, explain that a turn or step is not closed."""
        timeline = self._run.timeline
        unseen = unreported("seq.gap")
        if timeline.turn is not None:
            self._run.blame(unseen, ("turn-end", timeline.turn))
        if timeline.step is not None:
            self._run.blame(unseen, ("step-end", timeline.turn, timeline.step))

    def _tolerate(self, finding: Finding) -> None:
        self._tolerated, self._new_turn = finding, False

    def _back(self, event: SessionEvent, line: int) -> None:
        run, seq = self._run, event.seq
        if self._resumes(event):
            self._miss_closers()
            # A turn that was lost as a whole is not counted.
            run.blame(unreported("seq.gap"), "turn-number")
            run.resume()
            self._last = self._high = seq
            return
        self._burst_size += 1
        if self._burst_until is not None:
            self._repeat(event)
            return
        before, after = self._jump
        unused = before < seq < after
        same = seq == self._last
        if unused and self._gap is not None:
            finding: Finding | None = self._gap
            self._gap.fold(seq)
        elif self._burst is not None and self._burst_turn == run.timeline.next_turn:
            # Two writers that take turns are one cause.
            finding = self._burst
            finding.fold(seq)
        else:
            finding = self._burst = run.report(
                "seq.duplicate" if same else "seq.regressed",
                f"seq {seq} again" if same else f"seq goes back from {self._last} to {seq}",
                seq=seq,
                line=line,
                expected=f"more than {self._last}",
                got=str(seq),
                always=True,
            )
        run.counted = True
        self._burst_turn = run.timeline.next_turn
        if unused:
            # The jump before was the outlier, or this event changed places with it: no number is
            # repeated, and counting goes on from here.
            self._last = self._high = seq
            self._jump = (seq, after)
            self._burst_size = 0
            if finding is not None:
                self._tolerate(finding)
            return
        if finding is not None:
            timeline = run.timeline
            self._burst_until = self._high
            self._before_burst = (timeline.turn, timeline.step)
            timeline.replaying = True
            self._blame(event, finding)
        self._last = seq

    def _repeat(self, event: SessionEvent) -> None:
        if self._burst is not None:
            self._burst.fold(event.seq)
            self._run.counted = True
            self._blame(event, self._burst)
        self._last = event.seq

    def _blame(self, event: SessionEvent, finding: Finding) -> None:
        """Blame a burst for what its writer goes on to write with the same coordinates."""
        timeline, turn = self._run.timeline, getattr(event.data, "turn", None)
        if turn is None:
            return
        if turn != timeline.turn:
            self._run.blame(finding, (turn, None))
        self._run.blame(finding, (turn, getattr(event.data, "step", None)))

    def _end_burst(self) -> None:
        timeline = self._run.timeline
        self._burst_until = None
        timeline.replaying = False
        if self._burst is not None and self._before_burst != (timeline.turn, timeline.step):
            # The repetition left another turn or step open than it found.
            self._tolerate(self._burst)
        # Whether it was told again or written anew, what counts on from it may differ.
        self._run.blame(self._burst, "turn-number", ("restart", timeline.turn))
        self._run.cause = self._tolerated

    def _judge_time(self, event: SessionEvent, line: int) -> None:
        run, time = self._run, event.time
        if time == UNREADABLE:
            return
        # To October any exact integer is a time.
        least = -MAX_SAFE_INTEGER if run.contract is Contract.V4 else 0
        if not least <= time <= MAX_SAFE_INTEGER:
            problem = "negative" if time < 0 else "larger than an exact integer"
            run.report(
                "envelope.invalid",
                f"time is {problem}",
                seq=event.seq,
                line=line,
                always=True,
            )
            return
        if time < self.last_time and self._burst_until is None:
            if isinstance(event, AssistantChunk):
                # Chunks are stamped where they arrive, out of step with the log: dsh allows it.
                return
            if self._clock is not None:
                # One clock that steps back is one cause.
                self._clock.fold(event.seq)
            else:
                self._clock = run.report(
                    "time.regressed",
                    f"time goes back by {self.last_time - time} ms",
                    seq=event.seq,
                    line=line,
                    expected=f"at least {self.last_time}",
                    got=str(time),
                )
        self.last_time = time
