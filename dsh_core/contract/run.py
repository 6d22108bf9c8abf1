"""One check of one session: what rule sets judge with, and where findings come together."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from dsh_core.contract.findings import Finding
from dsh_core.contract.surface import Surface
from dsh_core.contract.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from dsh_core.contract.catalogue import Catalogue
    from dsh_core.events import Contract, SessionEvent, SessionHeader

MAX_BLAMED: Final = 512
MAX_HELD: Final = 64
"""Findings that wait for the end of a forked session's inherited part."""

LOST: Final = "lost"
"""Blames a loss for whatever refers to an event that may have been lost."""

MAX_TEXT: Final = 300
"""Longest message, expected or got text of a finding, in characters."""

MAX_OF_A_RULE: Final = 10_000
"""How many findings of one rule are told apart; further ones are folded into the last."""


class CallKey(NamedTuple):
    """Blames a finding for what goes wrong with one tool call.

    Attributes:
        about: What it explains: that the ``call`` is missing, that it is not ``advertised``, that
            it is never ``answered``, or that it is answered ``twice``.
        call_id: The call's id.
    """

    about: str
    call_id: str


class UndeclaredRuleError(LookupError):
    """A rule set reports a rule that it has not declared: it would never be heard."""


class SourceKind(StrEnum):
    """What a checker may conclude from what it does not see.

    A log is durable and complete; a stream (notifications, OTLP) has gaps and lacks closers. A live
    session is a log while it is written: whoever writes has to be told at once, also where the name
    of a fault would become better with what follows.
    """

    LOG = "log"
    STREAM = "stream"
    LIVE = "live"


class Run:
    """The state of one check.

    Attributes:
        header: The session's header.
        header_row: The header row as logged, None if there is none.
        contract: The contract that the log is held to.
        source: What kind of source the events come from.
        timeline: Where the session stands.
        surface: The messages that the model sees.
        presets: Names of the permission presets that are configured, None if nobody said.
        gaps: How many gaps there were: places where events may be missing.
        resumed: Whether a stream has gone on in another process, which knows nothing of what was
            told last: what it lost may come again.
        cut: Seq of the last inherited event of a forked session; None if it is not known yet.
        calm: Set by a rule that judges an event inside its step: the data of events that need no
            judging if they come right after it.
        cause: A finding that explains everything reported while it is set.
        counted: Whether the cause has counted the event at hand.
        head_damage: Damage in front of the first event, which may have cost the header row.
        findings: Reported and not yet collected.
        only: Ids of the rules that may be reported just now; None for all.
        last_seq: Seq of the last event seen, -1 before the first.
        last_line: Line of the last event seen.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        header: SessionHeader,
        contract: Contract,
        source: SourceKind,
        chosen: frozenset[str],
        *,
        presets: frozenset[str] | None = None,
    ) -> None:
        self.header = header
        self.header_row: Mapping[str, object] | None = None
        self.header_line = 0
        self.contract = contract
        self.source = source
        self.timeline = Timeline()
        self.surface = Surface(self.timeline)
        self.presets = presets
        self.gaps = 0
        self.resumed = False
        self._blind = False
        self.cut = header.seed_length - 1 if header.seed_length else None
        self._cut_known = self.cut is not None or not header.is_seeded
        # Each with the gaps before it.
        self._held: list[tuple[Finding, int]] = []
        self.calm: object = None
        self.cause: Finding | None = None
        self.counted = False
        self.head_damage: Finding | None = None
        self.findings: list[Finding] = []
        self.only: frozenset[str] | None = None
        self.last_seq = -1
        self.last_line = 0
        self._entries = catalogue.entries
        self._enabled = catalogue.applying(
            contract, chosen, durable=source is not SourceKind.STREAM
        )
        # What is blamed for what: since the turn began, in the turn before, and for good.
        self._blame: dict[Hashable, Finding] = {}
        self._older: dict[Hashable, Finding] = {}
        self._lasting: dict[Hashable, Finding] = {}
        # By rule: how many findings there were, and the last of them.
        self._latest: dict[str, tuple[int, Finding | None]] = {}
        # What was folded last, and into which finding.
        self._folded: tuple[Finding | None, SessionEvent | None] = (None, None)

    @property
    def blaming(self) -> bool:
        """Whether anything can be forgiven; ask before building keys on a hot path."""
        return bool(self._blame or self._older)

    def enabled(self, rule: str) -> bool:
        """Whether a rule applies to this session and is not filtered out."""
        return rule in self._enabled

    @property
    def repeating(self) -> bool:
        """Whether the event at hand repeats one that was seen: what it says is known already."""
        return self.timeline.replaying

    @property
    def header_known(self) -> bool:
        """Whether there is a header row, as it was written."""
        damage = self.head_damage
        whole = damage is None or damage.line != self.header_line
        return self.header_row is not None and whole

    def miss(self, *, explained: bool) -> None:
        """Note that events are missing just here.

        Args:
            explained: Whether a finding is blamed for whatever refers to them, see `LOST`.
        """
        self.gaps += 1
        self._blind = self._blind or not explained

    def resume(self) -> None:
        """Note that another process goes on just here, and that some of what was told is lost."""
        self.resumed = True
        self.miss(explained=False)

    def unseen(self, event: SessionEvent) -> bool:
        """Whether what an event refers to may have been in events that are missing.

        Rules ask this before they report that something which should have come before did not. If a
        loss was reported, the event is counted as its consequence.
        """
        return self._blind or self.explained(event, LOST) is not None

    def is_own(self, event: SessionEvent) -> bool:
        """Whether an event was written by this session, not inherited from what it was forked of.

        Of a fork of a fork the end of the inherited part is known only when the last marker has
        come: what lies behind an earlier marker looks own. Report with `own`, and it is forgotten.
        """
        if self.cut is not None:
            return event.seq > self.cut
        return not self.header.is_seeded

    def inherit(self, event: SessionEvent) -> None:
        """Take in a marker: everything up to here is inherited."""
        if not self._cut_known or not self.header_known:
            self.cut = event.seq
            self._held.clear()

    def release(self) -> None:
        """Report what was held back: no further marker will come.

        Behind what lies in front of a gap there may have been one.
        """
        held, self._held = self._held, []
        lost = self.blamed(LOST)
        for finding, gaps in held:
            if gaps == self.gaps:
                self.findings.append(finding)
            elif lost is not None:
                lost.fold(-1 if finding.seq is None else finding.seq)

    def report(  # noqa: PLR0913 - what a finding has
        self,
        rule: str,
        message: str,
        *,
        seq: int,
        line: int = 0,
        turn: int | None = None,
        step: int | None = None,
        call_id: str | None = None,
        expected: str = "",
        got: str = "",
        always: bool = False,
        own: bool = False,
    ) -> Finding | None:
        """Report a fault, unless it is a consequence of a known one.

        Args:
            rule: Id in the catalogue.
            message: What is wrong, in one clause.
            seq: Seq of the offending event; negative if it has none.
            line: 1-based line, 0 if there is none.
            turn: Turn concerned; the open one by default.
            step: Step concerned; the open one by default.
            call_id: Tool call concerned.
            expected: What the contract wants.
            got: What is there instead.
            always: Report even while another finding explains everything.
            own: Forget it if the event turns out to be inherited, see `is_own`.

        Returns:
            The finding, or None if the rule is filtered out or the fault folded into its cause.

        Raises:
            UndeclaredRuleError: No rule set has declared a rule of that id, or another has than the
                one that is at work.
        """
        if self.only is not None and rule not in self.only:
            raise UndeclaredRuleError(f"it reports {rule!r}, which is no rule of its own")
        if rule not in self._enabled:
            if rule not in self._entries:
                raise UndeclaredRuleError(f"{rule!r} is no rule of the catalogue")
            return None
        if self.cause is not None and not always:
            if not self.counted:
                self.cause.fold(seq)
                self.counted = True
            return None
        reported, last = self._latest.get(rule, (0, None))
        if last is not None and reported >= MAX_OF_A_RULE:
            last.fold(seq)
            return last
        entry = self._entries[rule]
        known_seq = seq if seq >= 0 else None
        finding = Finding(
            rule=rule,
            owner=entry.owner,
            severity=entry.rule.severity,
            code=entry.rule.severity.code,
            message=message[:MAX_TEXT],
            seq=known_seq,
            line=line or None,
            turn=self.timeline.turn if turn is None else turn,
            step=self.timeline.step if step is None and turn is None else step,
            call_id=None if call_id is None else call_id[:MAX_TEXT],
            first_seq=known_seq,
            last_seq=known_seq,
            expected=expected[:MAX_TEXT],
            got=got[:MAX_TEXT],
        )
        self._latest[rule] = (reported + 1, finding)
        if own and not self._cut_known and len(self._held) < MAX_HELD:
            self._held.append((finding, self.gaps))
        else:
            self.findings.append(finding)
        return finding

    def blame(self, finding: Finding | None, *keys: Hashable) -> None:
        """Remember a finding as the cause of whatever goes wrong with some coordinates.

        It is remembered until the coordinates are properly open again, and no longer than to the
        end of the turn that comes next.
        """
        if finding is None:
            return
        for key in keys:
            self._blame.pop(key, None)
            self._blame[key] = finding
        _bound(self._blame)

    def blame_for_good(self, finding: Finding | None, key: Hashable) -> None:
        """Remember a finding as the cause of something for the rest of the session."""
        if finding is not None:
            self._lasting[key] = finding
            _bound(self._lasting)

    def forgive(self, *keys: Hashable) -> None:
        """Forget what was blamed for some coordinates: they are properly open again."""
        for key in keys:
            self._blame.pop(key, None)
            self._older.pop(key, None)

    def turn_over(self) -> None:
        """Forget what was blamed before the turn that is over now; for single calls, in it too."""
        self._older = {
            key: finding for key, finding in self._blame.items() if not isinstance(key, CallKey)
        }
        self._blame = {}

    def blamed(self, key: Hashable) -> Finding | None:
        """Return the finding that explains whatever is wrong with some coordinates."""
        return self._blame.get(key) or self._older.get(key) or self._lasting.get(key)

    def explained(self, event: SessionEvent, *keys: Hashable) -> Finding | None:
        """Fold an event into the finding blamed for one of some coordinates, if there is one."""
        if not (self._blame or self._older or self._lasting):
            return None
        for key in keys:
            finding = self.blamed(key)
            if finding is not None:
                self._count(finding, event)
                return finding
        return None

    def _count(self, finding: Finding, event: SessionEvent) -> None:
        """Fold an event into a finding, once however many of its rules the finding explains."""
        if finding is self.cause:
            again, self.counted = self.counted, True
        else:
            again = self._folded[0] is finding and self._folded[1] is event
            again = again or finding.seq == event.seq
            self._folded = (finding, event)
        if not again:
            finding.fold(event.seq)


def _bound(blame: dict[Hashable, Finding]) -> None:
    while len(blame) > MAX_BLAMED:
        del blame[next(iter(blame))]
