"""One check of one session: what rule sets judge with, and the place where findings come together."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from dsh_core.contract.findings import Finding
from dsh_core.contract.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Hashable

    from dsh_core.contract.catalogue import Catalogue
    from dsh_core.events import Contract, SessionEvent, SessionHeader

MAX_BLAMED: Final = 512
MAX_TEXT: Final = 300
"""Longest message, expected or got text of a finding, in characters."""


class SourceKind(StrEnum):
    """What a checker may conclude from what it does not see.

    A log is durable and complete; a stream (notifications, OTLP) has gaps and lacks closers.
    """

    LOG = "log"
    STREAM = "stream"


class Run:
    """The state of one check.

    Attributes:
        header: The session's header.
        header_row: The header row as logged, None if there is none.
        contract: The contract that the log is held to.
        source: What kind of source the events come from.
        timeline: Where the session stands.
        cause: A finding that explains everything reported while it is set.
        findings: Reported and not yet collected.
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
    ) -> None:
        self.header = header
        self.header_row: dict[str, object] | None = None
        self.header_line = 0
        self.contract = contract
        self.source = source
        self.timeline = Timeline()
        self.cause: Finding | None = None
        self.findings: list[Finding] = []
        self.last_seq = -1
        self.last_line = 0
        self._entries = catalogue.entries
        self._enabled = frozenset(
            id_
            for id_ in chosen
            if contract in catalogue.entries[id_].rule.contracts
            and (catalogue.entries[id_].rule.source != "log" or source is SourceKind.LOG)
        )
        self._blame: dict[Hashable, Finding] = {}

    @property
    def blaming(self) -> bool:
        """Whether anything is blamed at all; ask before building keys on a hot path."""
        return bool(self._blame)

    def enabled(self, rule: str) -> bool:
        """Whether a rule applies to this session and is not filtered out."""
        return rule in self._enabled

    def report(
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

        Returns:
            The finding, or None if the rule is filtered out or the fault folded into its cause.
        """
        if rule not in self._enabled:
            return None
        if self.cause is not None and not always:
            if self.cause.last_seq != seq:
                self.cause.fold(seq)
            return None
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
        self.findings.append(finding)
        return finding

    def blame(self, finding: Finding | None, *keys: Hashable) -> None:
        """Remember a finding as the cause of whatever goes wrong with some coordinates."""
        if finding is None:
            return
        for key in keys:
            self._blame.pop(key, None)
            self._blame[key] = finding
        while len(self._blame) > MAX_BLAMED:
            del self._blame[next(iter(self._blame))]

    def forgive(self, *keys: Hashable) -> None:
        """Forget what was blamed for some coordinates: they are properly open again."""
        if self._blame:
            for key in keys:
                self._blame.pop(key, None)

    def blamed(self, key: Hashable) -> bool:
        """Whether a finding explains whatever is wrong with some coordinates."""
        return key in self._blame

    def explained(self, event: SessionEvent, *keys: Hashable) -> Finding | None:
        """Fold an event into the finding blamed for one of some coordinates, if there is one."""
        if not self._blame:
            return None
        for key in keys:
            finding = self._blame.get(key)
            if finding is not None:
                finding.fold(event.seq)
                return finding
        return None
