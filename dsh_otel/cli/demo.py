"""``dsh-otel demo``: the sample sessions, checked and shown."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from dsh_otel.cli.exits import exit_code_lines
from dsh_otel.cli.quiet import Quiet, is_quiet
from dsh_otel.cli.selection import STDOUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_core.logs.find import LogFile
    from dsh_otel.cli.exporting import Export
    from dsh_otel.cli.ruling import Ruling

SAMPLES: Final = "samples/home"
EPILOG: Final = exit_code_lines("the file cannot be written, rules failed, or wrong usage")
DEFAULT_FILE: Final = Path("dsh-otel-demo.otlp.json")


def demo(
    context: typer.Context,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The OTLP file to write; - writes it to standard output, and nothing else.",
        ),
    ] = DEFAULT_FILE,
    quiet: Quiet = False,
) -> None:
    """Check and show the sample sessions.

    Checks the sessions that come with dsh-otel, shows their trees, and writes an OTLP file.

    The samples are real dsh sessions: failing tools, a retry, parallel calls, a crash with its
    repair, an August log with packed rows; and one that was broken on purpose.
    """
    from dsh_core.logs.find import find_logs
    from dsh_otel.cli import exporting
    from dsh_otel.cli.choices import Destination
    from dsh_otel.cli.exits import CannotTellError
    from dsh_otel.cli.formats.words import counted
    from dsh_otel.cli.ruling import choose_rules
    from dsh_otel.export.sink import MissingExtraError

    told = output != STDOUT and not is_quiet(context, quiet=quiet)
    with as_file(files("dsh_otel") / SAMPLES) as home:
        logs = find_logs([str(home)])
        ruling = choose_rules()
        work = exporting.Export(
            logs=logs, contract=None, ruling=ruling, content=False, final=False, quiet=True
        )
        if told:
            _show(home, logs, ruling, work)
        try:
            sink = exporting.make_sink(Destination.FILE, output)
        except CannotTellError as error:
            if not told or not isinstance(error.__cause__, MissingExtraError):
                raise
            _title(f"The OTLP file is left out: {error}")
            return
        if told:
            _title(f"$ dsh-otel export {home} --to file --output {output}")
        result = work.run(sink)
    if result.lost or not result.sent:
        problem = result.problem or "there are no spans, as `dsh-otel doctor` explains"
        raise CannotTellError(f"cannot write {sink.target}: {problem}")
    if told:
        typer.echo(f"{result.sent:,} spans of {result.sessions} sessions are in {output}.")
        typer.echo(
            "A Collector reads the file with its otlpjsonfile receiver. To send the same to a\n"
            "collector, Jaeger or Tempo that listens for OTLP over HTTP:\n"
            f"  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 dsh-otel export {home} --to otlp"
        )
    if result.incomplete:
        raise CannotTellError(f"{counted(result.incomplete, 'log')} not checked in full")


def _show(home: Path, logs: Sequence[LogFile], ruling: Ruling, work: Export) -> None:
    """Check the samples, and print their trees."""
    from dsh_otel.cli.checking import Check
    from dsh_otel.cli.choices import Destination, FailOn, OutputFormat
    from dsh_otel.cli.exporting import make_sink
    from dsh_otel.cli.formats import make_writer
    from dsh_otel.cli.formats.writer import Settings
    from dsh_otel.cli.output import stdout, wants_colour

    out = stdout()
    _title(f"$ dsh-otel check {home}")
    settings = Settings(
        rules=ruling.entries,
        fail_on=FailOn.VIOLATION,
        max_findings=20,
        summary=True,
        colour=wants_colour(out),
        hint=False,
    )
    check = Check(logs=logs, ruling=ruling, contract=None, final=False, quiet=True)
    check.run(make_writer(OutputFormat.TEXT, out, settings), out)
    _title(f"$ dsh-otel export {home} --to console")
    work.run(make_sink(Destination.CONSOLE, STDOUT))


def _title(text: str) -> None:
    typer.echo(f"\n{text}\n")
