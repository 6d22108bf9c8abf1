"""Checking whole logs: reader and checker put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dsh_core.contract.catalogue import CATALOGUE, Catalogue
from dsh_core.contract.checker import Checker
from dsh_core.contract.findings import Finding, Severity
from dsh_core.contract.run import SourceKind
from dsh_core.logs.find import LogFile
from dsh_core.logs.reader import Batch, SessionLog, UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_core.events import Contract


class SessionReport(msgspec.Struct, kw_only=True):
    """What a check says of one log.

    Attributes:
        path: The log, as it was named.
        session_id: The session's id, empty if the log could not be read.
        format: The log's generation: ``seed``, ``v0`` … ``v4``; empty if it could not be read.
        contract: The contract it was held to.
        events: Number of events read.
        findings: What was found, in the order of the log.
        reason: Why nothing can be said of the log; empty if it could be read.
        disabled: Owners of rules that failed and were switched off.
        evaluated: Ids of the rules that had something to judge.
    """

    path: str
    session_id: str = ""
    format: str = ""
    contract: str = ""
    events: int = 0
    findings: list[Finding] = []
    reason: str = ""
    disabled: list[str] = []
    evaluated: frozenset[str] = frozenset()

    @property
    def error(self) -> str:
        """The reason with the log's path; empty if the log could be read."""
        return f"{self.path}: {self.reason}" if self.reason else ""

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        return sum(finding.severity == severity for finding in self.findings)


def why_nothing(events: int, faults: int, *, header: bool) -> str:
    """Say why nothing can be said of a log that was read to its end.

    Args:
        events: Number of events read.
        faults: Number of damaged places met.
        header: Whether it has a header row.

    Returns:
        The reason in one clause; empty if there are events.
    """
    if events:
        return ""
    if faults:
        return "no event can be read"
    return "the log holds no events yet" if header else "the log is empty"


def check_session(
    path: str | LogFile,
    *,
    contract: Contract | None = None,
    chosen: frozenset[str] | None = None,
    final: bool = False,
    catalogue: Catalogue = CATALOGUE,
    presets: frozenset[str] | None = None,
    source: SourceKind = SourceKind.LOG,
    progress: Callable[[int], None] | None = None,
) -> SessionReport:
    """Check one session log.

    Args:
        path: The log file, plain or zstd, of any generation; ``-`` for standard input. Or what
            `find_logs` returned for it.
        contract: The contract to hold it to; the one of its generation by default.
        chosen: Ids of the rules to apply, see `Catalogue.select`; all by default.
        final: Whether the end of the log is declared: nothing will follow.
        catalogue: Where the rules come from.
        presets: Names of the permission presets that are configured; None if that is not known.
        source: Whether the log is complete, or a stream that somebody wrote down.
        progress: Called now and then with the number of events read since the last call.

    Returns:
        The report. A log that cannot be opened or is of an unknown format is reported by its
        `error`; an empty one too, also one of nothing but its header, and one of nothing but
        damage, since nothing can be said of it.
    """
    file = path if isinstance(path, LogFile) else LogFile(path)
    report = SessionReport(path=file.path, findings=[], disabled=[])
    faults = 0
    try:
        with file.open() as stream:
            log = SessionLog(stream, file.path)
            checker = Checker(
                log.header,
                contract=contract,
                chosen=chosen,
                header_row=log.header_row,
                header_line=log.header_line,
                catalogue=catalogue,
                presets=presets,
                source=source,
            )
            report.session_id = log.header.id
            report.format = log.header.format
            report.contract = checker.contract
            for item in log.read():
                if isinstance(item, Batch):
                    report.findings += checker.observe_all(item.events, item.lines)
                    if progress is not None:
                        progress(len(item.events))
                else:
                    faults += 1
                    report.findings += checker.observe_fault(item)
            report.findings += checker.finish(final=final)
    except UnsupportedFormatError as error:
        report.reason = str(error)
    except OSError as error:
        report.reason = error.strerror or str(error)
    else:
        report.events = checker.events
        report.disabled = checker.disabled
        report.evaluated = checker.evaluated()
        report.reason = why_nothing(report.events, faults, header=log.header_row is not None)
    report.findings.sort(key=lambda finding: finding.place)
    return report
