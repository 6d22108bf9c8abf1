"""Shrinking a log, from the file to what is left of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from dsh_core.logs.find import LogFile
from dsh_core.logs.reader import UnsupportedFormatError
from dsh_core.shrink.judge import EnoughError, Judge, Question
from dsh_core.shrink.numbers import AS_IT_IS
from dsh_core.shrink.payloads import MAX_BYTES, MAX_TEXT, Payloads
from dsh_core.shrink.rows import parse
from dsh_core.shrink.search import Search, State
from dsh_core.shrink.source import (
    InMemory,
    NothingToShrinkError,
    load,
    plain_name,
    split,
    too_many_events,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dsh_core.check import SessionReport
    from dsh_core.contract.findings import Finding

MAX_CHECKS: Final = 20_000
"""The most parts of a log that are checked by default."""

MAX_EVENTS: Final = 1_000_000
"""The most events that a log may have by default."""


class Stopped(StrEnum):
    """Why a search ended before it was over."""

    NOT = ""
    CHECKS = "checks"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """What is left of a log.

    Attributes:
        name: A name for the file, from which its generation follows.
        question: What was asked of the log.
        original: The finding in the whole log.
        finding: The finding in what is left.
        findings: All findings in what is left.
        before: Number of events of the whole log.
        after: Number of events that are left.
        lines: The lines that are left, each with its newline if it has one; the header row first.
        checks: How many parts of the log were checked.
        stopped: Why the search ended early, if it did.
        content: Whether texts may be left that a person or a model wrote.
    """

    name: str
    question: Question
    original: Finding
    finding: Finding
    findings: Sequence[Finding]
    before: int
    after: int
    lines: Sequence[bytes] = field(repr=False)
    checks: int
    stopped: Stopped = Stopped.NOT
    content: bool = False

    @property
    def data(self) -> bytes:
        """What is left, as the bytes of a log."""
        return b"".join(self.lines)

    @property
    def rows(self) -> Sequence[dict[str, Any] | None]:
        """The lines as JSON objects; None for one that is none."""
        return [parse(line)[0] for line in self.lines]


ANY: Final = Question()
"""Asks for the first finding, whatever it is."""


def shrink(
    log: str | LogFile,
    question: Question = ANY,
    *,
    keep_content: bool = False,
    max_checks: int = MAX_CHECKS,
    max_events: int = MAX_EVENTS,
    progress: Callable[[int, int], None] | None = None,
) -> Shrunk:
    """Shrink a log to the least that still gives the same first finding.

    The same is one of the same rule, of a log of the same generation held to the same contract,
    with no violation or damage before it. No event of the result can be left out. Whatever else the
    finding does not need is left out as well, and texts of more than 16 characters are replaced by
    short ones unless the finding needs them.

    Args:
        log: The log file, of any generation, plain or zstd; ``-`` for standard input.
        question: What it is held to, and which finding is kept.
        keep_content: Leave the insides of events as they are.
        max_checks: The most parts of the log to check; the least one found by then is the result.
            What comes behind the finding is cut, and texts are replaced, whatever that takes. The
            same goes for a search that is interrupted by a `KeyboardInterrupt`.
        max_events: The most events that the log may have.
        progress: Called before each check with the number of checks so far, and of lines.

    Raises:
        NothingToShrinkError: The log has no such finding, cannot be read, or is too large.
        OSError: The log cannot be opened.
        KeyboardInterrupt: The log is not read yet, or not cut.
    """
    file = load(log if isinstance(log, LogFile) else LogFile(log), max_events)
    name = plain_name(file.path)
    whole = question.check(file)
    if whole.reason:
        raise NothingToShrinkError(whole.reason)
    if whole.events > max_events:
        raise too_many_events(max_events)
    judge = Judge(question, whole, name=name, progress=progress)
    search = _begin(file, judge, whole)
    del file
    judge.limit = max(judge.checks, max_checks)
    stopped, replaced = _run(search, keep_content=keep_content)
    report = search.state.report
    return Shrunk(
        name=name,
        question=question,
        original=judge.target,
        finding=judge.finding(report),
        findings=report.findings,
        before=whole.events,
        after=report.events,
        lines=search.state.lines,
        checks=judge.checks,
        stopped=stopped,
        content=_has_content(search.state, stopped, replaced=replaced),
    )


def _begin(file: InMemory, judge: Judge, whole: SessionReport) -> Search:
    """Return the search at its beginning: what comes behind the finding is cut."""
    try:
        header, rows = split(file)
    except UnsupportedFormatError as error:
        raise NothingToShrinkError(str(error)) from error
    head = rows.pop(header) if header >= 0 else None
    lines = [row.raw for row in ([head] if head else []) + rows]
    search = Search(judge, State(head, rows, lines, whole))
    # The whole log has been checked as a file already: its lines are only if nothing can be cut.
    if not search.cut_tail(judge.target.line or 1) and not search.try_rows(rows, [AS_IT_IS]):
        rule = judge.target.rule
        raise NothingToShrinkError(
            f"{rule} comes from the file as a whole; its lines alone do not give it"
        )
    return search


def _run(search: Search, *, keep_content: bool) -> tuple[Stopped, bool]:
    """Search until nothing more can be left out, or as long as may be.

    Args:
        search: The search, at its beginning.
        keep_content: Whether to leave the insides of events as they are.

    Returns:
        Why it ended early, if it did, and whether no text is left that can be replaced.
    """
    payloads = Payloads(search)
    try:
        search.cut_head()
        before: Sequence[bytes] = ()
        while search.state.lines != before:
            before = search.state.lines
            search.leave_out()
            search.renew()
            if not keep_content:
                payloads.reduce()
    except EnoughError:
        stopped = Stopped.CHECKS
    except KeyboardInterrupt:
        stopped = Stopped.INTERRUPTED
    else:
        return Stopped.NOT, not keep_content
    if keep_content:
        return stopped, False
    # What is private must not stay just because somebody is in a hurry.
    search.judge.limit = None
    try:
        search.renew()
        return stopped, payloads.replace_texts()
    except KeyboardInterrupt:
        return stopped, False


def _has_content(state: State, stopped: Stopped, *, replaced: bool) -> bool:
    """Whether texts may be left that a person or a model wrote."""
    if not replaced:
        return True
    longest = MAX_TEXT if stopped else MAX_BYTES
    return any(
        len(line.strip().rstrip(b"x")) > longest and parse(line)[0] is None for line in state.lines
    )
