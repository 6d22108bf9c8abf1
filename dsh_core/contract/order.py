"""The order of events: seq, time, and what a repetition or a loss explains.

A burst of repeated events is one finding, and what repeated events do to turns and steps is its
consequence. After damage that may have cost an event, a jump of seq shows that it did; everything that
does not fit until the next turn starts is a consequence of the damage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsh_core.events import MAX_SAFE_INTEGER, UNREADABLE, AssistantChunk

if TYPE_CHECKING:
    from dsh_core.contract.findings import Finding
    from dsh_core.contract.run import Run
    from dsh_core.events import SessionEvent

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
        self._before_jump = -1
        self._burst_until: int | None = None
        self._burst: Finding | None = None
        self._burst_turn: int | None = None
        self._lost: Finding | None = None
        self._tolerant = False
        self._new_turn = False
        self._clock: Finding | None = None

    def lost(self, finding: Finding) -> None:
        """Note that an event may have been lost just here."""
        self._catch_up()
        self._lost = finding
        self.expected = NEVER

    def judge(self, event: SessionEvent, line: int) -> None:
        """Judge seq and time of one event, and set what explains its other faults."""
        self._catch_up()
        self._judge_seq(event, line)
        self._judge_time(event, line)
        busy = self._burst_until is not None or self._tolerant
        self.expected = NEVER if busy else self._last + 1

    def _catch_up(self) -> None:
        if self.expected != NEVER:
            self._last = self.expected - 1
            self._high = max(self._high, self._last)

    def _judge_seq(self, event: SessionEvent, line: int) -> None:
        run, seq = self._run, event.seq
        if self._tolerant and run.timeline.turn is not None and self._new_turn:
            self._tolerant = False
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
        else:
            self._forward(event, line)
        if self._tolerant and event.type == "turn/start":
            self._new_turn = True

    def _advance(self, seq: int) -> None:
        self._last = seq
        self._high = max(self._high, seq)

    def _forward(self, event: SessionEvent, line: int) -> None:
        run, seq = self._run, event.seq
        if self._burst_until is not None:
            if seq <= self._burst_until:
                if self._burst is not None:
                    self._burst.fold(seq)
                self._last = seq
                return
            self._end_burst()
            self._last = self._high
        missing = seq - self._last - 1
        lost, self._lost = self._lost, None
        if missing > 0:
            if lost is not None:
                lost.fold(seq)
                self._tolerant, self._new_turn = True, False
                run.cause = lost
            elif not self._tolerant:
                run.report(
                    "seq.gap",
                    f"seq jumps from {self._last} to {seq}: {missing} missing",
                    seq=seq,
                    line=line,
                    expected=str(self._last + 1),
                    got=str(seq),
                )
            self._before_jump = self._last
        self._advance(seq)

    def _back(self, event: SessionEvent, line: int) -> None:
        run, seq = self._run, event.seq
        if self._burst_until is not None:
            if self._burst is not None:
                self._burst.fold(seq)
            self._last = seq
            return
        same = seq == self._last
        rule = "seq.duplicate" if same else "seq.regressed"
        known = self._burst
        if known is not None and known.rule == rule and self._burst_turn == run.timeline.turn:
            # Two writers that take turns are one cause.
            known.fold(seq)
            finding: Finding | None = known
        else:
            finding = run.report(
                rule,
                f"seq {seq} again" if same else f"seq goes back from {self._last} to {seq}",
                seq=seq,
                line=line,
                expected=f"more than {self._last}",
                got=str(seq),
                always=True,
            )
        self._burst, self._burst_turn = finding, run.timeline.turn
        if seq == self._before_jump + 1 and self._before_jump >= 0:
            # The jump before was the outlier; counting goes on from here.
            self._last = self._high = seq
            return
        if finding is not None:
            self._burst_until = self._high
            run.cause = finding
            run.timeline.replaying = True
        self._last = seq

    def _end_burst(self) -> None:
        self._burst_until = None
        self._run.cause = None
        self._run.timeline.replaying = False

    def _judge_time(self, event: SessionEvent, line: int) -> None:
        run, time = self._run, event.time
        if time == UNREADABLE:
            return
        if time > MAX_SAFE_INTEGER:
            run.report(
                "envelope.invalid",
                "time is larger than an exact integer",
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
