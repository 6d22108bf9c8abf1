"""The work behind ``dsh-otel export``."""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import typer

from dsh_core.contract.findings import Severity
from dsh_core.contract.run import SourceKind
from dsh_core.logs.reader import UnsupportedFormatError
from dsh_otel.clean import Privacy, clean_text
from dsh_otel.cli.choices import Destination
from dsh_otel.cli.exits import CannotTellError, ExitCode, say, unwritable
from dsh_otel.cli.formats.words import counted, severities
from dsh_otel.cli.output import console, is_terminal, stdout, wants_colour
from dsh_otel.cli.progress import CheckProgress
from dsh_otel.export.sink import MissingExtraError
from dsh_otel.processors.errors import ErrorSpanProcessor
from dsh_otel.processors.invariants import RULES_OF, InvariantSpanProcessor
from dsh_otel.replay import ReplaySpanProcessor, replay_provider, trace_sessions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from dsh_core.contract.findings import Finding
    from dsh_core.events import Contract
    from dsh_core.logs.find import LogFile
    from dsh_otel.cli.ruling import Ruling
    from dsh_otel.export.sink import Sink
    from dsh_otel.replay import Replay
    from dsh_otel.spans import SessionSpan


NAMED = 3
"""Most sessions with several logs, and most of their logs, that are named."""

MAX_PATH = 4096
"""Longest path in the summary, in characters."""


@dataclass(slots=True)
class Result:
    """What an export did.

    Attributes:
        target: Where the spans went.
        sessions: Logs exported.
        missing: Places without a log, with the reason.
        unreadable: Logs that could not be read, with the reason, by path.
        skipped: Logs that were not tried any more since the receiver did not answer.
        events: Events read.
        sent: Spans that arrived.
        lost: Spans of requests that the receiver did not take.
        refused: Spans that it refused out of requests that it took.
        unsampled: Spans that sampling left out.
        findings: Findings by severity.
        incomplete: Sessions of which something of ours failed: not all was looked at.
        logs: The logs of each session that was exported, by its id.
        problem: Why spans were lost or refused.
    """

    target: str
    sessions: int = 0
    missing: dict[str, str] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    skipped: int = 0
    events: int = 0
    sent: int = 0
    lost: int = 0
    refused: int = 0
    unsampled: int = 0
    findings: Counter[Severity] = field(default_factory=Counter)
    incomplete: int = 0
    logs: dict[str, list[str]] = field(default_factory=dict)
    problem: str = ""

    @property
    def complete(self) -> bool:
        """Whether everything there is has arrived."""
        unseen = self.missing or self.unreadable or self.skipped or self.incomplete
        return not (unseen or self.lost or self.refused) and self.sent > 0

    @property
    def verdict(self) -> ExitCode:
        """How the command ends if something is missing."""
        arrived = self.sessions and self.sent and not self.missing and not self.incomplete
        return ExitCode.FAILED if arrived else ExitCode.CANNOT_TELL


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """An export of several logs.

    Attributes:
        logs: What to export.
        missing: Places without a log, with the reason.
        contract: The contract to hold the logs to; None for that of each log's generation.
        ruling: The rules to apply.
        content: Whether content may leave.
        final: Whether the logs are over.
        quiet: Whether to show no progress.
        source: Whether the logs are complete, or streams that somebody wrote down.
    """

    logs: Sequence[LogFile]
    missing: Mapping[str, str] = field(default_factory=dict)
    contract: Contract | None
    ruling: Ruling
    content: bool
    final: bool
    quiet: bool
    source: SourceKind = SourceKind.LOG

    def run(self, sink: Sink) -> Result:
        """Export all logs.

        Args:
            sink: Where to.
        """
        result = Result(sink.target, missing=dict(self.missing))

        def count(finding: Finding, _span: SessionSpan) -> None:
            result.findings[finding.severity] += 1

        processors = [
            ErrorSpanProcessor(),
            InvariantSpanProcessor(
                self.ruling.chosen,
                catalogue=self.ruling.catalogue,
                presets=self.ruling.presets,
                source=self.source,
                final=self.final,
                on_finding=count,
            ),
        ]
        writer = ReplaySpanProcessor(sink.exporter)
        provider = replay_provider(writer)
        privacy = Privacy(content=self.content)
        try:
            with self._progress(sink) as progress:
                for log in self.logs:
                    if writer.gave_up:
                        result.skipped += 1
                        continue
                    try:
                        for done in trace_sessions(
                            log,
                            tracer_provider=provider,
                            processors=processors,
                            contract=self.contract,
                            privacy=privacy,
                            progress=progress.read,
                        ):
                            _add(result, log.path, done)
                    except UnsupportedFormatError as error:
                        result.unreadable[log.path] = str(error)
                    except OSError as error:
                        result.unreadable[log.path] = error.strerror or str(error)
                    progress.checked()
        finally:
            provider.shutdown()
            report = sink.report()
            # What a receiver says of itself may be more than it was given.
            result.refused = min(report.refused, writer.counts.sent)
            result.sent, result.lost = writer.counts.sent - result.refused, writer.counts.lost
            result.problem = report.problem or writer.counts.last_error
        if writer.counts.pipe_closed or report.pipe_closed:
            raise BrokenPipeError
        return result

    def _progress(self, sink: Sink) -> CheckProgress:
        visible = not self.quiet and is_terminal(sys.stderr) and sink.target != "console"
        return CheckProgress(console(sys.stderr, colour=True) if visible else None, len(self.logs))


def _add(result: Result, path: str, done: Replay) -> None:
    path = f"{path}#{done.session_id}" if done.stream else path
    if done.reason:
        result.unreadable[path] = done.reason
        return
    result.sessions += 1
    result.logs.setdefault(done.session_id, []).append(path)
    result.events += done.events
    result.unsampled += done.unsampled
    result.incomplete += bool(done.errors)
    for place, count in done.errors.items():
        if place.startswith(RULES_OF):
            continue
        say(f"{path}: {place} failed {counted(count, 'time')} and was left out. Please report it.")


def make_sink(to: Destination, path: Path, *, append: bool = False) -> Sink:
    """Return the destination that a user chose.

    Args:
        to: Which kind.
        path: The file, if it is one.
        append: Whether what is in the file stays.

    Raises:
        CannotTellError: It cannot be used here.
    """
    # The exporters log every problem with a traceback; here each gets one line at the end.
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    logging.getLogger("opentelemetry").propagate = False
    try:
        if to is Destination.FILE:
            from dsh_otel.export.file import FileSink

            try:
                return FileSink(str(path), append=append)
            except OSError as error:
                raise CannotTellError(unwritable(error)) from error
        if to is Destination.OTLP:
            from dsh_otel.export.otlp import OtlpSink, SettingError

            try:
                return OtlpSink()
            except SettingError as error:
                raise CannotTellError(str(error)) from error
        from dsh_otel.export.console import ConsoleSink

        out = stdout()
        return ConsoleSink(console(out, colour=wants_colour(out)))
    except MissingExtraError as error:
        raise CannotTellError(str(error)) from error


def tell(result: Result, *, json: bool, quiet: bool, console: bool) -> None:
    """Say what was done.

    Args:
        result: What the export did.
        json: Whether to say it as JSON, on standard output.
        quiet: Whether to tell people nothing but problems.
        console: Whether the spans themselves were printed.
    """
    if json:
        typer.echo(msgspec.json.encode(_as_data(result)).decode())
    for path, reason in result.unreadable.items():
        say(f"{path}: {reason}")
    if result.lost or result.refused:
        say(
            f"{counted(result.lost, 'span')} lost, {result.refused:,} refused by {result.target}: "
            f"{result.problem or 'the exporter does not say why'}"
        )
    if result.unsampled:
        say(f"{counted(result.unsampled, 'span')} not sampled: {_why_unsampled()}")
    if result.skipped:
        say(f"{counted(result.skipped, 'log')} not tried any more: the receiver does not answer")
    if not quiet:
        _tell_copies([paths for paths in result.logs.values() if len(paths) > 1])
        say(
            f"{counted(result.sessions, 'log')}: {counted(result.sent, 'span')} "
            f"{'shown' if console else f'went to {result.target}'}; {_found(result)}"
        )


def _found(result: Result) -> str:
    if not result.incomplete:
        return severities(result.findings)
    found = severities(result.findings) if result.findings else "no findings in the rest"
    return f"{result.incomplete:,} incomplete, {found}"


def _tell_copies(copies: Sequence[Sequence[str]]) -> None:
    """Name logs of one session: the ids of spans follow from the session's."""
    for paths in copies[:NAMED]:
        more = f" and {len(paths) - NAMED:,} more" if len(paths) > NAMED else ""
        named = " and ".join(paths) if len(paths) == 2 else ", ".join(paths[:NAMED])  # noqa: PLR2004 - a pair
        say(
            f"{named}{more} are logs of one session: their spans have the same ids, "
            "and a back end keeps one of each"
        )
    if len(copies) > NAMED:
        say(f"{counted(len(copies) - NAMED, 'more session')} with several logs")


def _as_data(result: Result) -> dict[str, Any]:
    """Return what is published of a result. Names of files need not be text."""
    unreadable = result.missing | result.unreadable
    document: dict[str, Any] = {"schema_version": 1, **msgspec.to_builtins(result)}
    del document["missing"], document["logs"]
    document["findings"] = {severity.value: result.findings[severity] for severity in Severity}
    document["target"] = clean_text(result.target, MAX_PATH)
    document["unreadable"] = {clean_text(p, MAX_PATH): why for p, why in unreadable.items()}
    return document


def _why_unsampled() -> str:
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return "OTEL_SDK_DISABLED is true"
    return f"OTEL_TRACES_SAMPLER is {os.environ.get('OTEL_TRACES_SAMPLER', 'not set')}"
