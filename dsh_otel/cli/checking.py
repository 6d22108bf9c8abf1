"""The work behind ``dsh-otel check``."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dsh_core.check import SessionReport, check_sessions
from dsh_core.contract.run import SourceKind
from dsh_core.logs.find import STDIN, LogFile, NoLogError, default_home, search_logs
from dsh_otel.cli.choices import OutputFormat
from dsh_otel.cli.exits import CannotTellError, debugging, say
from dsh_otel.cli.formats.words import counted, outcome, overview, switched_off
from dsh_otel.cli.output import console, is_terminal, wants_colour
from dsh_otel.cli.progress import CheckProgress
from dsh_otel.cli.totals import Totals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TextIO

    from rich.console import Console

    from dsh_core.events import Contract
    from dsh_otel.cli.formats.writer import Writer
    from dsh_otel.cli.ruling import Ruling


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the places that a user named came to.

    Attributes:
        logs: The logs.
        missing: Places without a log, with the reason.
    """

    logs: Sequence[LogFile]
    missing: Mapping[str, str]


def choose_logs(places: Sequence[str], output: Path | None, *, needed: bool = True) -> Chosen:
    """Return the logs to read, and name the places without one on standard error.

    Args:
        places: What the user named; none means the DSH home.
        output: The file that will be written.
        needed: Whether there must be a log; otherwise what is missing is part of the data.

    Raises:
        CannotTellError: There is no log though there must be, or one of them would be overwritten.
    """
    logs, wrong = search_logs(places or [str(default_home(os.environ))])
    if output is not None and any(_is_same(log, output) for log in logs):
        raise CannotTellError(f"{output} is one of the logs to check; write elsewhere")
    missing = {error.place: error for error in wrong}
    said = [f"{error}{_hint(error)}" for error in missing.values()]
    last = said.pop() if needed and not logs else None
    for message in said:
        say(message)
    if last is not None:
        raise CannotTellError(last)
    return Chosen(logs, {place: error.reason for place, error in missing.items()})


def _hint(error: NoLogError) -> str:
    """Say how to go on where there is no DSH home."""
    homes = {default_home(os.environ), default_home({}), Path("~/.dsh")}
    if not error.place or Path(error.place) not in homes:
        return ""
    return "; name a log or a folder, or set DSH_HOME; `dsh-otel demo` shows sample sessions"


def _is_same(log: LogFile, output: Path) -> bool:
    try:
        return log.path != STDIN and output.samefile(log.path)
    except OSError:
        # One of the two is not there.
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check of several logs.

    Attributes:
        logs: What to check.
        missing: Places without a log, with the reason.
        list_missing: Whether the data names those places too.
        ruling: The rules to apply.
        contract: The contract to hold the logs to; None for that of each log's generation.
        final: Whether the logs are over.
        quiet: Whether to show no progress.
        source: Whether the logs are complete, or streams that somebody wrote down.
    """

    logs: Sequence[LogFile]
    missing: Mapping[str, str] = field(default_factory=dict)
    list_missing: bool = False
    ruling: Ruling
    contract: Contract | None
    final: bool
    quiet: bool
    source: SourceKind = SourceKind.LOG

    def run(self, writer: Writer, out: TextIO) -> Totals:
        """Check all logs, and write each one's findings as soon as they are known.

        Args:
            writer: What to write with.
            out: The stream it writes to.
        """
        told: set[str] = set()
        totals = Totals(missing=len(self.missing), chosen=self.ruling.entries)
        with CheckProgress(self._console(), len(self.logs), shared=is_terminal(out)) as progress:
            writer.begin()
            for place, reason in self.missing.items():
                report = SessionReport(path=place, reason=reason)
                totals.add(report)
                if self.list_missing:
                    writer.session(report)
            out.flush()
            for log in self.logs:
                for report in self._check(log, progress, totals):
                    totals.add(report)
                    with progress.hidden():
                        writer.session(report)
                        out.flush()
                        failed = switched_off(report)
                        if failed and failed not in told:
                            told.add(failed)
                            say(f"{report.name} is the first log that was not checked in full")
                progress.checked()
            writer.end(totals)
        return totals

    def _console(self) -> Console | None:
        if self.quiet or not is_terminal(sys.stderr):
            return None
        return console(sys.stderr, colour=wants_colour(sys.stderr))

    def _check(
        self, log: LogFile, progress: CheckProgress, totals: Totals
    ) -> Iterator[SessionReport]:
        try:
            yield from check_sessions(
                log,
                contract=self.contract,
                chosen=self.ruling.chosen,
                catalogue=self.ruling.catalogue,
                presets=self.ruling.presets,
                final=self.final,
                source=self.source,
                progress=progress.read,
            )
        except Exception as error:
            if debugging():
                raise
            # One log that trips over an error of ours must not hide what the others hold.
            totals.incomplete += 1
            reason = f"internal error: {type(error).__name__}: {error}"
            yield SessionReport(path=log.path, reason=reason)


def close(totals: Totals, written: OutputFormat, output: Path | None) -> None:
    """Tell people what they do not see in the data: the sum, and why there is no verdict.

    Args:
        totals: What the check came to.
        written: The format of the data.
        output: The file that holds the data.
    """
    if output is not None:
        say(f"{overview(totals)}: {outcome(totals)}; written to {output}")
        return
    told = {OutputFormat.TEXT, OutputFormat.GITHUB}
    if totals.unreadable > totals.missing and written not in told:
        say(f"{counted(totals.unreadable, 'log')} of {totals.sessions:,} cannot be read")
