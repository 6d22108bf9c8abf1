"""Rules of the ``compaction`` package: a summary takes the place of what the model has seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from dsh_core.contract.compacting import (
    UNKNOWN,
    Compaction,
    Payload,
    key_of,
    name_of,
    read_payload,
    turn_of,
)
from dsh_core.contract.fields import is_filled, plain, shown
from dsh_core.contract.places import blame_turn
from dsh_core.contract.rule import LATER, Rule, RuleSet
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract, TurnEnd
from dsh_core.parts import ABSENT

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from msgspec import Raw

    from dsh_core.contract.findings import Finding
    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import EndSeed, SessionEvent, TurnStart, UserMessage

REPAIRS: Final = ("interrupted", "forked")
"""Reasons of turn ends that repair a log; the marker that clears a compaction follows them."""

CHECKPOINT: Final = "compact-checkpoint"
START: Final = "compaction/start"
SUMMARY: Final = "compaction/summary"
END: Final = "compaction/end"
PRUNE: Final = "compaction/prune"


class Rules(RuleSet):
    """A compaction starts, is summed up once and ends, on one side of each turn boundary."""

    owner = "compaction"
    rules: ClassVar = (
        Rule(
            "compaction.ids",
            "a compaction has no id, or the command that asked for it has an empty one",
            "Give each compaction an id; leave sourceCommandId out if no command asked for it.",
            on=(START, SUMMARY, END, "user/message"),
            contracts=LATER,
        ),
        Rule(
            "compaction.overlap",
            "a compaction starts while another is open",
            "End each compaction, with an error if it fails, before the next one starts.",
            on=(START,),
            contracts=LATER,
        ),
        Rule(
            "compaction.owner",
            "a compaction names a turn that is not open, or none while one is open",
            "Name the turn that is open, null between turns, and the same at the end.",
            on=(START, END),
            contracts=LATER,
        ),
        Rule(
            "compaction.mismatch",
            "a summary, checkpoint or end does not belong to the compaction that is open",
            "Carry compactionId and sourceCommandId of the start through to the end.",
            on=(SUMMARY, END, "user/message"),
            contracts=LATER,
        ),
        Rule(
            "compaction.summary-twice",
            "a compaction is summed up twice",
            "Log the summary that is used; a failed one belongs into the error of the end.",
            on=(SUMMARY,),
            contracts=LATER,
        ),
        Rule(
            "compaction.shadow",
            "what is shadowed is empty, contradicts its range or is not what the model sees there",
            "List every message of the span in the surface's order; leave its system head alone.",
            on=(SUMMARY, PRUNE),
            contracts=LATER,
        ),
        Rule(
            "compaction.end-without-summary",
            "a compaction succeeds without a summary",
            "Log the summary first, or say in the end's error why there is none.",
            on=(END,),
            contracts=LATER,
        ),
        Rule(
            "compaction.turn-boundary",
            "a turn starts or ends while a compaction is open",
            "End the compaction first; cancellation paths forget this most often.",
            on=("turn/start", "turn/end"),
            contracts=LATER,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        self._open: Compaction | None = None
        # July builds gave compactions no id, and may lack other fields.
        self._legacy = run.contract is Contract.V0 and not run.header.version

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        if self.run.contract is Contract.SEED:
            return {}
        found: dict[str, Handler] = {
            START: self._start,
            SUMMARY: self._summary,
            END: self._end,
            "user/message": self._message,
            "turn/start": self._boundary,
            "turn/end": self._boundary,
            "session/end-seed": self._end_seed,
        }
        if self.run.contract is Contract.V4:
            found[PRUNE] = self._prune
        return found

    def _read(self, event: SessionEvent) -> Payload | None:
        """Return the payload of an event that is news; None if there is none to judge."""
        if self.run.repeating:
            return None
        try:
            return read_payload(event.data)
        except (msgspec.MsgspecError, RecursionError):
            # It is no object, which is a finding of its own. It may have been anything.
            if event.type == START:
                self._open = Compaction(None, None, UNKNOWN, self.run.gaps, excused=True)
            elif self._open is not None:
                self._open.excused = True
            return None

    def _start(self, event: SessionEvent, line: int) -> None:
        data = self._read(event)
        if data is None:
            return
        last = self._open
        new = self._open = Compaction(
            name_of(data.compaction_id),
            name_of(data.source_command_id),
            turn_of(data.turn),
            self.run.gaps,
        )
        never_ended = None if last is None or self._orphaned(last) or self._settle(last) else last
        if self._ids(event, line, data.compaction_id, data.source_command_id):
            new.id = None
        elif never_ended is not None:
            problem = f"a compaction starts while {never_ended.name} is open"
            known = self.trip("compaction.overlap", problem, event, line)
            self.run.blame(known, never_ended.key)
        elif not (self._legacy and data.turn is ABSENT):
            self._judge_owner(event, line, data.turn, new)

    def _judge_owner(self, event: SessionEvent, line: int, raw: Raw, new: Compaction) -> None:
        """Judge the turn that a compaction starts in; later it must say the same again.

        That the turn is still the open one then is what `compaction.turn-boundary` is about.
        """
        run, is_open, turn = self.run, self.run.timeline.turn, new.turn
        if turn == is_open:
            return
        # What it crosses is a consequence.
        new.excused = True
        keys: list[Hashable] = ["outside-turn"] if is_open is None else [("turn-end", is_open)]
        if isinstance(turn, int):
            keys.append((turn, None))
        if run.explained(event, *keys) or run.unseen(event):
            return
        named = "no turn" if turn is None else f"turn {shown(plain(raw))}"
        known = self.trip(
            "compaction.owner",
            f"a compaction names {named} while {_named(is_open)} is open",
            event,
            line,
            expected=_named(is_open),
            got=named,
        )
        run.blame(known, ("compaction-owner", hash(new.id)))
        if isinstance(turn, int):
            blame_turn(run, known, turn)
        elif turn is None:
            # The end of the turn may be missing.
            run.blame(known, ("turn-end", is_open))

    def _summary(self, event: SessionEvent, line: int) -> None:
        data = self._read(event)
        if data is None:
            return
        is_open = self._open
        belongs = self._belongs(
            "a summary", event, line, data.compaction_id, data.source_command_id
        )
        if is_open is None or not belongs:
            return
        if is_open.turn != self.run.timeline.turn:
            # No marker clears what goes on behind the boundary.
            self._settle(is_open)
        if not is_open.summarized:
            self._judge_shadow(event, line, data)
        elif not is_open.excused:
            problem = f"{is_open.name} is summed up again"
            self.trip("compaction.summary-twice", problem, event, line)
        is_open.summarized = True

    def _message(self, event: UserMessage, line: int) -> None:
        source = event.data.source
        if source is None or event.appends or self.run.repeating:
            return
        if source.kind != CHECKPOINT and not (
            source.kind == "plugin" and plain(source.plugin) == "compact"
        ):
            return
        id_ = source.compaction_id
        if id_ is not ABSENT or self.run.contract is Contract.V4:
            self._belongs("a checkpoint", event, line, id_, source.source_command_id)

    def _end(self, event: SessionEvent, line: int) -> None:
        data = self._read(event)
        if data is None:
            return
        last = self._open
        belongs = self._belongs("an end", event, line, data.compaction_id, data.source_command_id)
        if last is None or not belongs:
            # What stays open is excused.
            return
        self._open = None
        self._settle(last)
        turn = turn_of(data.turn)
        if last.turn not in (turn, UNKNOWN) and not (self._legacy and b"" in (turn, last.turn)):
            if not self.run.explained(event, ("compaction-owner", hash(last.id))):
                problem = f"the end of {last.name} names another turn than its start"
                self.trip("compaction.owner", problem, event, line, got=shown(plain(data.turn)))
        elif data.error is ABSENT and not (
            last.summarized or last.excused or last.gaps != self.run.gaps
        ):
            self._judge_success(event, line, last)

    def _judge_success(self, event: SessionEvent, line: int, last: Compaction) -> None:
        """Report an end without a summary, unless a summary came too early."""
        if not self.run.explained(event, last.key):
            problem = f"{last.name} succeeds without a summary"
            known = self.trip("compaction.end-without-summary", problem, event, line)
            self.run.blame(known, last.key)

    def _ids(self, event: SessionEvent, line: int, id_: Raw, command: Raw) -> bool:
        """Judge ids; return whether they are wrong."""
        if not is_filled(plain(id_)) and not (self._legacy and id_ is ABSENT):
            problem = "compactionId is empty"
        elif plain(command) == "" and self.run.contract is not Contract.V4:
            problem = "sourceCommandId is empty"
        else:
            return False
        key = ("compaction-ids", hash(name_of(id_)))
        if not self.run.explained(event, key):
            self.run.blame(self.trip("compaction.ids", problem, event, line), key)
        if self._open is not None:
            self._open.excused = True
        return True

    def _belongs(self, what: str, event: SessionEvent, line: int, raw: Raw, command: Raw) -> bool:
        """Judge whether an event belongs to the open compaction; return whether it does."""
        run, is_open, id_ = self.run, self._open, name_of(raw)
        if self._ids(event, line, raw, command):
            return False
        if is_open is not None and (id_, name_of(command)) == (is_open.id, is_open.command):
            return True
        if run.explained(event, key_of(id_)):
            return False
        if (is_open is not None and is_open.id is None) or run.unseen(event):
            self._adopt(event, id_, command)
            return False
        if is_open is None:
            problem = f"{what} of {shown(plain(raw))} while no compaction is open"
        elif id_ != is_open.id:
            problem = f"{what} of {shown(plain(raw))} while {is_open.name} is open"
        else:
            problem = f"{what} of {shown(plain(raw))} names another command than its start"
        known = self.trip("compaction.mismatch", problem, event, line)
        run.blame(known, key_of(id_))
        if is_open is not None:
            # It may be meant.
            is_open.excused = True
        return False

    def _adopt(self, event: SessionEvent, id_: Hashable, command: Raw) -> None:
        """Go on with a compaction whose start is missing."""
        new = Compaction(id_, name_of(command), UNKNOWN, self.run.gaps, excused=True)
        self._open = None if event.type == END else new

    def _prune(self, event: SessionEvent, line: int) -> None:
        data = self._read(event)
        if data is not None:
            self._judge_shadow(event, line, data)

    def _judge_shadow(self, event: SessionEvent, line: int, data: Payload) -> None:
        problem = data.shadow_problem(legacy=self._legacy)
        if not problem and self.run.contract is Contract.V4:
            # The number of tokens does not matter to v4 any more.
            problem = data.differs(self.run.surface)
            if problem and self.run.unseen(event):
                return
        elif not problem:
            problem = data.count_problem(legacy=self._legacy)
        if problem:
            self.trip("compaction.shadow", problem, event, line)

    # Turn boundaries

    def _boundary(self, event: TurnStart | TurnEnd, line: int) -> None:
        """Judge a turn boundary; a stream of events does not say yet whether a marker clears it.

        What a crash leaves open is closed up to the turn, and then marked: the marker shows that
        the compaction was an orphan. So the finding waits until the compaction comes to something.
        """
        run, is_open, turn = self.run, self._open, self.run.timeline.turn
        if is_open is None or is_open.crossed is not None or run.repeating:
            return
        ends = isinstance(event, TurnEnd)
        if ends and event.data.turn != turn:
            # Nothing ends.
            return
        if not ends and turn is not None and run.enabled("turn.overlap"):
            # The session's rules say that the end of the turn is missing, and all that it holds.
            is_open.excused = True
            return
        is_open.crossed = (event.type, event.seq, line, event.data.turn)
        waits = run.source is not SourceKind.LIVE or (
            isinstance(event, TurnEnd) and event.data.reason.kind in REPAIRS
        )
        if not waits or run.cause is not None:
            self._settle(is_open, always=False)

    def _orphaned(self, last: Compaction) -> bool:
        """Whether another process may go on: a stream does not show what a repair writes."""
        between = last.turn is None or last.crossed is not None
        return between and self.run.source is SourceKind.STREAM

    def _settle(self, last: Compaction, *, always: bool = True) -> bool:
        """Report the turn boundary that a compaction was open at, if there was one.

        Args:
            last: The compaction.
            always: Whether to report it even while something explains everything.

        Returns:
            Whether anything explains that it has not ended.
        """
        if last.excused or last.gaps != self.run.gaps:
            return True
        if last.crossed is None:
            return False
        kind, seq, line, turn = last.crossed
        finding: Finding | None = self.run.report(
            "compaction.turn-boundary",
            f"{kind} of turn {turn} while {last.name} is open",
            seq=seq,
            line=line,
            turn=turn,
            expected="compaction/end",
            got=kind,
            always=always,
        )
        self.run.blame(finding, last.key)
        last.excused = True
        return True

    def _end_seed(self, _event: EndSeed, _line: int) -> None:
        if not self.run.repeating:
            self._open = None

    def finish(self, *, final: bool) -> None:
        """Judge what only the end of the input decides.

        No marker has come: dsh refuses such a log, whether a crash cut it or not. A stream tells of
        no marker that a repair writes.
        """
        del final
        if self._open is not None and self.run.source is not SourceKind.STREAM:
            self._settle(self._open)


def _named(turn: int | None) -> str:
    return "no turn" if turn is None else f"turn {turn}"
