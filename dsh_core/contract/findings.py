"""Findings: what a check has to say, as data."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Severity(StrEnum):
    """How bad a finding is, worst first."""

    VIOLATION = "violation"
    DAMAGE = "damage"
    ADVICE = "advice"

    @property
    def code(self) -> str:
        """The code that findings of this severity carry."""
        return _CODES[self]


_CODES = {
    Severity.VIOLATION: "INVARIANT",
    Severity.DAMAGE: "LOG_DAMAGE",
    Severity.ADVICE: "ADVICE",
}


class Finding(msgspec.Struct, kw_only=True):
    """One fault and everything that follows from it.

    `count`, `first_seq` and `last_seq` grow while the checker folds consequences into the finding:
    they are final once the session is finished. Everything else is fixed.

    Attributes:
        rule: Id of the rule in the catalogue.
        owner: The package that owns the rule.
        severity: How bad it is.
        code: Stable code: ``INVARIANT``, ``LOG_DAMAGE`` or ``ADVICE``.
        message: What is wrong, in one clause.
        seq: Seq of the offending event, None if it cannot be read.
        line: 1-based line of the offending event, None if it came from no file.
        turn: Turn that the event names or lies in.
        step: Step that the event names or lies in.
        call_id: Tool call concerned.
        count: Number of events that this finding stands for.
        first_seq: The lowest seq among them, None if the fault itself has none.
        last_seq: The highest seq among them.
        expected: What the contract wants here.
        got: What is there instead.
    """

    rule: str
    owner: str
    severity: Severity
    code: str
    message: str
    seq: int | None = None
    line: int | None = None
    turn: int | None = None
    step: int | None = None
    call_id: str | None = None
    count: int = 1
    first_seq: int | None = None
    last_seq: int | None = None
    expected: str = ""
    got: str = ""

    def fold(self, seq: int) -> None:
        """Count one more event as a consequence of this finding."""
        self.count += 1
        if seq < 0:
            return
        if self.last_seq is None or seq > self.last_seq:
            self.last_seq = seq
        if self.first_seq is not None and seq < self.first_seq:
            self.first_seq = seq

    @property
    def place(self) -> tuple[int, int]:
        """Sort key: the order in which a reader of the log meets the findings."""
        return (self.line or 0, self.seq if self.seq is not None else -1)


def unreported(rule: str) -> Finding:
    """Return a finding that explains what follows from something without being told to anybody.

    Args:
        rule: What it would be called.
    """
    return Finding(rule=rule, owner="", severity=Severity.ADVICE, code="", message="not reported")
