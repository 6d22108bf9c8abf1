"""Rules of the ``agent`` package about its inbox: two lists of messages that wait for the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import msgspec
from msgspec import Raw, Struct

from dsh_core.contract.fields import fields, fingerprint, is_filled, is_whole, plain, shown
from dsh_core.contract.findings import Severity
from dsh_core.contract.rule import LATER, Rule, RuleSet
from dsh_core.events import Contract
from dsh_core.parts import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsh_core.contract.findings import Finding
    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import InboxSpliced, StepStart, TurnEnd, UserMessage
    from dsh_core.payloads import InboxData

SPLICED: Final = "agent/inbox/spliced"
NEXT_TURN: Final = "next-turn"
NEXT_STEP: Final = "next-step"
LISTS: Final = (NEXT_TURN, NEXT_STEP)

REACHED: Final = ("completed", "max-tokens", "error", "interrupted")
"""Turns that end this way have come to the messages that were claimed for their steps."""

MAX_FOLLOWED: Final = 64
"""How long a list may be whose ids are followed."""

MAX_CLAIMED: Final = 64
"""How many claimed messages are followed until their turn ends."""


class _Inserted(Struct, gc=False):
    id: Raw = ABSENT
    source: Raw = ABSENT

    @property
    def has_producer(self) -> bool:
        """Whether its source names who made it, and not just that a plugin did."""
        kind = fields(self.source).get("kind")
        return is_filled(kind) and kind != "plugin"


_decode_inserted: Final = msgspec.json.Decoder(list[_Inserted]).decode


class Splice(NamedTuple):
    """A change of a list that can be followed.

    Attributes:
        start: Where it is.
        removed: How many messages it takes away.
        inserted: The ids of those that it puts there, None for what is no id.
        marked: Whether it says what became of the messages that it takes away.
        odd: Whether it puts a message there that does not name its producer.
    """

    start: int
    removed: int
    inserted: list[int | None]
    marked: bool
    odd: bool


class Waiting:
    """A list of waiting messages.

    Attributes:
        length: How many there are.
        ids: Their ids, None for one that is not known; None if the list is too long to be followed.
    """

    def __init__(self) -> None:
        self.length = 0
        self.ids: list[int | None] | None = []

    def forget(self) -> None:
        """Keep only how many there are: others may have come and gone."""
        self.ids = None if self.ids is None else [None] * self.length

    def move(self, splice: Splice) -> Sequence[int | None]:
        """Change the list, and return the ids that are taken away, as far as they are known.

        Args:
            splice: The change; the list becomes as long as it takes it for.
        """
        start, end = splice.start, splice.start + splice.removed
        ids = self.ids
        if ids is not None and end <= MAX_FOLLOWED:
            ids += [None] * (end - self.length)
        elif end > self.length:
            ids = None
        self.length = max(self.length, end) - splice.removed + len(splice.inserted)
        taken = [] if ids is None else ids[start:end]
        if ids is not None:
            ids[start:end] = splice.inserted
        elif self.length == len(splice.inserted):
            ids = list(splice.inserted)
        self.ids = None if ids is None or len(ids) > MAX_FOLLOWED else ids
        return taken


class Claim(Struct):
    """A message that the agent has taken.

    Attributes:
        seq: Seq of the event that took it.
        line: Its line.
        stepped: Whether a step has started since.
    """

    seq: int
    line: int
    stepped: bool = False


class Rules(RuleSet):
    """The lists of a session's own; what a fork inherits is not in them."""

    owner = "agent"
    rules: ClassVar = (
        Rule(
            "inbox.bounds",
            "a change of the inbox reaches beyond its list, or cannot be one",
            "Change the lists through the inbox only: it knows what is in them.",
            on=(SPLICED,),
            contracts=LATER,
        ),
        Rule(
            "inbox.duplicate-id",
            "a message is put into the inbox that waits there already",
            "Give each message an id of its own, or take it out before it is put back.",
            on=(SPLICED,),
            contracts=LATER,
        ),
        Rule(
            "inbox.noop",
            "a change of the inbox neither removes nor inserts a message",
            "Write nothing where nothing changes.",
            on=(SPLICED,),
            contracts=LATER,
        ),
        Rule(
            "inbox.claim-order",
            "messages are claimed out of order, outside a turn, or not as many as are due",
            "Claim the first message for the turn, and all at once that wait for the step.",
            on=(SPLICED,),
            contracts=LATER,
        ),
        Rule(
            "inbox.cancel-unmarked",
            "a change of the inbox has an outcome but removes nothing",
            "An outcome says what became of messages that are removed.",
            on=(SPLICED,),
            contracts=LATER,
        ),
        Rule(
            "inbox.claimed-missing",
            "a message was claimed and never reached the model",
            "An interceptor dropped it, or the process died before it was written: send it again.",
            on=(SPLICED,),
            contracts=LATER,
            severity=Severity.ADVICE,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with empty lists."""
        super().__init__(run)
        self._lists = {name: Waiting() for name in LISTS}
        # Whether messages may be in the lists that were not seen.
        self._vague = False
        # By list: a change that may have meant more or less messages than it says.
        self._doubt: dict[str, Finding | None] = {}
        # Where the inherited part ended when the last change came, and whether that was own.
        self._cut: tuple[int | None, bool] = (run.cut, True)
        self._gaps = 0
        # By id, of one turn, and how many gaps there were.
        self._claimed: dict[int, Claim] = {}
        self._claimed_in: tuple[int | None, int] = (None, 0)

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {
            SPLICED: self._spliced,
            "user/message": self._message,
            "step/start": self._step_start,
            "turn/end": self._turn_end,
        }

    def _spliced(self, event: InboxSpliced, line: int) -> None:
        run, data = self.run, event.data
        if run.repeating:
            # It may be news after all.
            self._vague = True
            return
        own = self._cross(event)
        if run.gaps != self._gaps:
            self._gaps = run.gaps
            for one in self._lists.values():
                one.forget()
        splice = read(data, strict=run.contract is Contract.V4)
        if isinstance(splice, str):
            if own:
                self.trip("inbox.bounds", splice, event, line, own=True)
            self._vague = True
            return
        waiting = self._lists[data.target]
        if own:
            self._judge(splice, waiting, event, line)
        taken = waiting.move(splice)
        if own and splice.removed and not splice.marked and not self._vague:
            self._claim(taken, event, line)

    def _cross(self, event: InboxSpliced) -> bool:
        """Return whether a change is the session's own, and begin anew with the first that is."""
        own = self.run.is_own(event)
        before, self._cut = self._cut, (self.run.cut, own)
        if own and before != self._cut:
            # Whether messages are inherited that wait depends on how the fork was made.
            self._vague = self._vague or any(one.length for one in self._lists.values())
            self._lists = {name: Waiting() for name in LISTS}
            self._claimed, self._doubt = {}, {}
        return own

    def _judge(self, splice: Splice, waiting: Waiting, event: InboxSpliced, line: int) -> None:
        end = splice.start + splice.removed
        if end > waiting.length and not self._vague:
            if not (self._doubted(event) or self.run.unseen(event)):
                where = f"position {end} of {waiting.length} messages for the {event.data.target}"
                self.trip("inbox.bounds", f"it reaches to {where}", event, line, own=True)
        elif not splice.removed and not splice.inserted:
            problem = "it removes and inserts nothing"
            finding = self.trip("inbox.noop", problem, event, line, own=True)
            self._doubt[event.data.target] = finding
        elif not splice.removed and splice.marked:
            problem = "it has an outcome and removes nothing"
            self.trip("inbox.cancel-unmarked", problem, event, line, own=True)
        elif splice.removed and not splice.marked:
            self._judge_claim(splice, waiting, event, line)
        elif splice.odd:
            problem = "an inserted message names no producer"
            self.trip("inbox.bounds", problem, event, line, own=True)
        at = self._repeated(splice, waiting)
        if at is not None and not self._vague and not self.run.unseen(event):
            id_ = plain(event.data.raw_inserted)[at].get("id")
            problem = f"another message waits under the id {shown(id_)}"
            self.trip("inbox.duplicate-id", problem, event, line, own=True)

    def _doubted(self, event: InboxSpliced) -> bool:
        """Whether a list has another length because of a change before; fold the event then."""
        finding = self._doubt.pop(event.data.target, None)
        if finding is not None:
            finding.fold(event.seq)
        return finding is not None

    def _judge_claim(
        self, splice: Splice, waiting: Waiting, event: InboxSpliced, line: int
    ) -> None:
        run, target = self.run, event.data.target
        if run.timeline.turn is None:
            if run.explained(event, "outside-turn") or run.unseen(event):
                return
            problem = "messages are claimed outside any turn"
            finding = self.trip("inbox.claim-order", problem, event, line, own=True)
            # The turn's start is missing; what else lies in the turn is a consequence.
            run.blame(finding, "outside-turn", (run.timeline.next_turn, None))
            return
        count = splice.removed
        if splice.start:
            problem = f"messages are claimed from position {splice.start} on"
        elif splice.inserted:
            problem = "messages are claimed and inserted at once"
        elif target == NEXT_TURN and count != 1:
            problem = f"{count} messages are claimed for one turn"
        elif target == NEXT_STEP and count != waiting.length and not self._vague:
            problem = f"{count} of {waiting.length} messages are claimed for the step"
            if self._doubted(event) or run.unseen(event):
                return
        else:
            return
        finding = self.trip("inbox.claim-order", problem, event, line, own=True)
        self._doubt[target] = finding

    def _repeated(self, splice: Splice, waiting: Waiting) -> int | None:
        """Return the index of the first inserted message that waits already, None if none does."""
        waits: set[int | None] = set()
        for one in self._lists.values():
            ids = one.ids or []
            if one is waiting:
                ids = ids[: splice.start] + ids[splice.start + splice.removed :]
            waits.update(ids)
        for index, id_ in enumerate(splice.inserted):
            if id_ is not None and id_ in waits:
                return index
            waits.add(id_)
        return None

    def _claim(self, taken: Sequence[int | None], event: InboxSpliced, line: int) -> None:
        run = self.run
        now = (run.timeline.turn, run.gaps)
        if now != self._claimed_in:
            self._claimed_in, self._claimed = now, {}
        if now[0] is None:
            return
        for id_ in taken:
            if id_ is not None and len(self._claimed) < MAX_CLAIMED:
                self._claimed[id_] = Claim(event.seq, line)

    def _message(self, event: UserMessage, _line: int) -> None:
        if not self._claimed:
            return
        id_ = event.data.id
        if id_:
            self._claimed.pop(fingerprint(Raw(msgspec.json.encode(id_))), None)
        else:
            # It may be any of them.
            self._claimed.clear()

    def _step_start(self, event: StepStart, _line: int) -> None:
        if self._claimed and event.data.turn == self.run.timeline.turn:
            for claim in self._claimed.values():
                claim.stepped = True

    def _turn_end(self, event: TurnEnd, _line: int) -> None:
        turn = event.data.turn
        if turn != self.run.timeline.turn:
            return
        claimed, self._claimed = self._claimed.values(), {}
        if self._claimed_in != (turn, self.run.gaps) or event.data.reason.kind not in REACHED:
            return
        missing: dict[tuple[int, int], int] = {}
        for claim in claimed:
            if claim.stepped:
                place = claim.seq, claim.line
                missing[place] = missing.get(place, 0) + 1
        for (seq, line), count in missing.items():
            self.run.report(
                "inbox.claimed-missing",
                f"{count} of the messages claimed here never came",
                seq=seq,
                line=line,
                expected="a user/message for each",
                got=f"{count} less",
                own=True,
            )


def read(data: InboxData, *, strict: bool) -> Splice | str:
    """Return a change of a list, or what is wrong with it if it cannot be followed.

    Args:
        data: The payload.
        strict: Whether the list of inserted messages may not be missing.
    """
    if data.target not in LISTS:
        return f"the list is {shown(data.target)}"
    start, removed = plain(data.raw_start), plain(data.raw_removed_count)
    if not is_whole(start):
        return f"start is {shown(start)}"
    if removed is not None and not is_whole(removed):
        return f"removedCount is {shown(removed)}"
    inserted: list[_Inserted] = []
    if strict or data.raw_inserted is not ABSENT:
        try:
            inserted = _decode_inserted(data.raw_inserted)
        except (msgspec.MsgspecError, RecursionError):
            return "inserted is no list of messages"
    ids = [_key(one.id) for one in inserted]
    odd = strict and not all(one.has_producer for one in inserted)
    return Splice(int(start), int(removed or 0), ids, data.has_outcome, odd)


def _key(id_: Raw) -> int | None:
    """Return what stands for an id; what is an object is never the same as another."""
    return None if bytes(memoryview(id_)[:1]) in (b"{", b"[") else fingerprint(id_)
