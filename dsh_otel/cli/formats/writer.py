"""What every format has in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from dsh_core.check import SessionReport
    from dsh_core.contract.catalogue import Entry
    from dsh_core.contract.findings import Finding
    from dsh_otel.cli.choices import FailOn
    from dsh_otel.cli.totals import Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to write.

    Attributes:
        rules: The rules that are applied.
        fail_on: The least severe finding that makes the check fail.
        max_findings: Most findings of a session that formats for people show; 0 for all.
        summary: Whether formats for people end with a summary.
        colour: Whether to use colours.
        hint: Whether a person looks on, who may want to know how to go on.
    """

    rules: Sequence[Entry]
    fail_on: FailOn
    max_findings: int
    summary: bool = True
    colour: bool = False
    hint: bool = False

    def shown(self, findings: Sequence[Finding]) -> Sequence[Finding]:
        """Return those of a session's findings that formats for people show."""
        return findings[: self.max_findings] if self.max_findings else findings


class Writer(Protocol):
    """Writes what a check found, session by session.

    Modules of this package name theirs ``Format``; it is made with the stream and the `Settings`.
    """

    def __init__(self, out: TextIO, settings: Settings) -> None: ...

    def begin(self) -> None:
        """Write what comes before the first session."""

    def session(self, report: SessionReport) -> None:
        """Write one session."""

    def end(self, totals: Totals) -> None:
        """Write what comes after the last session."""
