"""Whether a part of a log still gives the finding that the whole log gives."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dsh_core.check import check_session
from dsh_core.contract.catalogue import CATALOGUE, Catalogue
from dsh_core.contract.findings import Severity
from dsh_core.contract.run import SourceKind
from dsh_core.shrink.source import InMemory, NothingToShrinkError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dsh_core.check import SessionReport
    from dsh_core.contract.findings import Finding
    from dsh_core.events import Contract
    from dsh_core.logs.find import LogFile

MAX_SEEN: Final = 100_000
"""How many logs that did not give the finding are remembered."""

MAX_KEPT: Final = 64
"""How many that did are, with their reports."""


class EnoughError(Exception):
    """As many logs were checked as are allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of a log.

    Attributes:
        contract: The contract to hold it to; None for that of its generation.
        wanted: Ids of the rules of which the first finding counts; None for any: then advice counts
            only if there is nothing else.
        final: Whether the end of the log is declared.
        catalogue: Where the rules come from.
        presets: Names of the permission presets that are configured; None if that is not known.
        source: Whether the log is complete, or a stream that somebody wrote down.
    """

    contract: Contract | None = None
    wanted: frozenset[str] | None = None
    final: bool = False
    catalogue: Catalogue = CATALOGUE
    presets: frozenset[str] | None = None
    source: SourceKind = SourceKind.LOG

    def check(self, log: LogFile) -> SessionReport:
        """Check a log."""
        return check_session(
            log,
            contract=self.contract,
            final=self.final,
            catalogue=self.catalogue,
            presets=self.presets,
            source=self.source,
        )

    def first(self, findings: Sequence[Finding]) -> int | None:
        """Return the place of the finding that counts, None if there is none."""
        wanted = self.wanted
        if wanted is not None:
            return next((k for k, one in enumerate(findings) if one.rule in wanted), None)
        serious = (k for k, one in enumerate(findings) if one.severity is not Severity.ADVICE)
        return next(serious, 0 if findings else None)


class Judge:
    """Tells whether logs give the same finding first.

    Args:
        question: What is asked.
        report: What the whole log gives.
        name: The name that the logs go by.
        progress: Called before each check with the number of checks, and of lines.

    Raises:
        NothingToShrinkError: It gives no such finding, or a rule failed.

    Attributes:
        target: The finding in the whole log.
        checks: How many logs were checked.
        limit: The most logs to check, None for no limit.
    """

    def __init__(
        self,
        question: Question,
        report: SessionReport,
        *,
        name: str,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        if report.disabled:
            owners = ", ".join(report.disabled)
            raise NothingToShrinkError(f"the rules of {owners} failed and were switched off")
        place = question.first(report.findings)
        if place is None:
            raise NothingToShrinkError(_no_finding(question))
        self._question = question
        self._report = report
        self._name = name
        self._progress = progress
        self._seen: set[int] = set()
        self._kept: dict[int, SessionReport] = {}
        self.target = report.findings[place]
        # What may stand in front of a finding that was asked for.
        self._before = {one.rule for one in report.findings[:place]}
        self.checks = 0
        self.limit: int | None = None

    def check(self, lines: Sequence[bytes]) -> SessionReport | None:
        """Check a log.

        Args:
            lines: Its lines.

        Returns:
            The report if the log gives the same finding first, else None.

        Raises:
            EnoughError: As many logs were checked as are allowed.
        """
        data = b"".join(lines)
        key = hash(data)
        if key in self._seen:
            return None
        if key in self._kept:
            return self._kept[key]
        if self.limit is not None and self.checks >= self.limit:
            raise EnoughError
        if self._progress is not None:
            self._progress(self.checks, len(lines))
        self.checks += 1
        report = self._question.check(InMemory(self._name, data=data))
        if self._is_same(report):
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            self._kept[key] = report
            return report
        if len(self._seen) < MAX_SEEN:
            self._seen.add(key)
        return None

    def _is_same(self, report: SessionReport) -> bool:
        whole = self._report
        if report.reason or report.disabled:
            return False
        if (report.contract, report.format) != (whole.contract, whole.format):
            return False
        place = self._question.first(report.findings)
        if place is None or report.findings[place].rule != self.target.rule:
            return False
        before = report.findings[:place]
        return all(one.severity is Severity.ADVICE or one.rule in self._before for one in before)

    def finding(self, report: SessionReport) -> Finding:
        """Return the finding of a log that gives the same one."""
        place = self._question.first(report.findings)
        return report.findings[place or 0]


def adds_nothing(report: SessionReport, before: SessionReport) -> bool:
    """Whether a log has no finding of a rule that there was not before, nor more of them."""
    return Counter(one.rule for one in report.findings) <= Counter(
        one.rule for one in before.findings
    )


def _no_finding(question: Question) -> str:
    if question.wanted is None:
        return "the log has no finding: there is nothing to shrink it to"
    names = sorted(question.wanted)
    if len(names) == 1:
        return f"the log has no finding of {names[0]}"
    return f"the log has no finding of these {len(names)} rules"
