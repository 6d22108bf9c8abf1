"""Checking whole logs: reader and checker put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypedDict

import msgspec

from dsh_core.contract.catalogue import CATALOGUE, Catalogue
from dsh_core.contract.checker import Checker
from dsh_core.contract.findings import Finding, Severity
from dsh_core.contract.run import SourceKind
from dsh_core.logs.find import LogFile
from dsh_core.logs.reader import Batch, SessionLog, UnsupportedFormatError
from dsh_core.logs.stream_file import ToldSession, sessions_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from typing_extensions import Unpack

    from dsh_core.events import Contract


NOT_JSON: Final = "line.not-json"


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
        stream: Whether it is what a stream source told of a session; such a file may hold several.
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
    stream: bool = False

    @property
    def name(self) -> str:
        """The log's path; with the session's id where a file may hold several."""
        return f"{self.path}#{self.session_id}" if self.stream else self.path

    @property
    def error(self) -> str:
        """The reason with the log's path; empty if the log could be read."""
        return f"{self.name}: {self.reason}" if self.reason else ""

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        return sum(finding.severity == severity for finding in self.findings)


class Options(TypedDict, total=False):
    """How to check.

    Attributes:
        contract: The contract to hold a log to; the one of its generation by default.
        chosen: Ids of the rules to apply, see `Catalogue.select`; all by default.
        final: Whether the end of the log is declared: nothing will follow.
        catalogue: Where the rules come from.
        presets: Names of the permission presets that are configured; None if that is not known.
        source: Whether a log is complete, or a stream that somebody wrote down, one event a line.
            Recorded notifications and OTLP logs are streams in any case.
        progress: Called now and then with the number of events read since the last call.
    """

    contract: Contract | None
    chosen: frozenset[str] | None
    final: bool
    catalogue: Catalogue
    presets: frozenset[str] | None
    source: SourceKind
    progress: Callable[[int], None] | None


def why_nothing(events: int, faults: Collection[str], *, header: bool) -> str:
    """Say why nothing can be said of a log that was read to its end.

    Args:
        events: Number of events read.
        faults: Rules of the damaged places met.
        header: Whether it has a header row.

    Returns:
        The reason in one clause; empty if there are events.
    """
    if events:
        return ""
    if not header and set(faults) == {NOT_JSON}:
        return "no line is JSON: not a session log"
    if faults:
        return "no event can be read"
    return "the log holds no events yet" if header else "the log is empty"


def check_session(path: str | LogFile, **options: Unpack[Options]) -> SessionReport:
    """Check one session log.

    Args:
        path: The log file, plain or zstd, of any generation; ``-`` for standard input. Or what
            `find_logs` returned for it. Recorded notifications and OTLP logs, too, if they are of
            one session.
        options: See `Options`.

    Returns:
        The report. A log that cannot be opened or is of an unknown format is reported by its
        `error`; an empty one too, also one of nothing but its header, and one of nothing but
        damage, since nothing can be said of it.
    """
    first, *others = check_sessions(path, **options)
    if not others:
        return first
    reason = next((one.reason for one in (first, *others) if one.reason), "")
    reason = reason or f"it holds {1 + len(others)} sessions; check_sessions tells of each"
    return SessionReport(path=first.path, reason=reason)


def check_sessions(path: str | LogFile, **options: Unpack[Options]) -> Iterator[SessionReport]:
    """Check what a file holds: one session log, or what a stream source told of several sessions.

    Args:
        path: As for `check_session`.
        options: See `Options`.

    Yields:
        The report of each session; of a file that cannot be read in full, one that says so.
    """
    file = path if isinstance(path, LogFile) else LogFile(path)
    whole = SessionReport(path=file.path, findings=[], disabled=[])
    try:
        with file.open() as stream:
            sessions, whole.reason = sessions_in(stream, file.path)
            for session in sessions:
                report = SessionReport(path=file.path, findings=[], disabled=[])
                try:
                    _check(session, report, options)
                except OSError as error:
                    report.reason = error.strerror or str(error)
                report.findings.sort(key=lambda finding: finding.place)
                yield report
    except UnsupportedFormatError as error:
        whole.reason = str(error)
    except OSError as error:
        whole.reason = error.strerror or str(error)
    if whole.reason:
        yield whole


def _check(session: SessionLog | ToldSession, report: SessionReport, options: Options) -> None:
    """Check one session, and write what is found into its report."""
    report.stream = isinstance(session, ToldSession)
    progress = options.get("progress")
    faults: set[str] = set()
    checker = Checker(
        session.header,
        contract=options.get("contract"),
        chosen=options.get("chosen"),
        header_row=session.header_row,
        header_line=session.header_line,
        catalogue=options.get("catalogue", CATALOGUE),
        presets=options.get("presets"),
        source=SourceKind.STREAM if report.stream else options.get("source", SourceKind.LOG),
    )
    report.session_id = session.header.id
    report.format = session.header.format
    report.contract = checker.contract
    for item in session.read():
        if isinstance(item, Batch):
            report.findings += checker.observe_all(item.events, item.lines)
            if progress is not None:
                progress(len(item.events))
        else:
            faults.add(item.rule)
            report.findings += checker.observe_fault(item)
    report.findings += checker.finish(final=options.get("final", False))
    report.events = checker.events
    report.disabled = checker.disabled
    report.evaluated = checker.evaluated()
    report.reason = why_nothing(report.events, faults, header=session.header_row is not None)
