"""``dsh-otel export``: session logs as spans."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from dsh_otel.cli.choices import ContractChoice, Destination, Source
from dsh_otel.cli.exits import ExitCode, exit_code_lines, say
from dsh_otel.cli.quiet import Quiet, is_quiet
from dsh_otel.cli.selection import (
    ChosenContract,
    Excluded,
    FromSource,
    IsFinal,
    Presets,
    Rules,
    Severities,
)

DEFAULT_FILE: Final = Path("dsh-traces.otlp.json")

EPILOG: Final = f"""
\b
Destinations:
  console  the tree of turns, steps, attempts and tool calls, for people
  file     OTLP JSON lines, one request a line, as a Collector's otlpjsonfile receiver reads them
  otlp     an OTLP endpoint; OTEL_EXPORTER_OTLP_ENDPOINT and its kin are honoured

\b
Examples:
  dsh-otel export                            the DSH home, as trees
  dsh-otel export runs/ --to file -o t.json  for a Collector
  dsh-otel export runs/ --to otlp            to OTEL_EXPORTER_OTLP_ENDPOINT

{
    exit_code_lines(
        "nothing arrived, a PATH leads to no log, rules failed, or wrong usage",
        "some of the logs cannot be read, or some spans did not arrive",
    )
}
"""


def export(
    context: typer.Context,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", hidden=True),
    ] = None,
    to: Annotated[Destination, typer.Option(help="Where to.")] = Destination.CONSOLE,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help=f"The file for --to file, replaced if it exists; {DEFAULT_FILE} by default, "
            "- is standard output.",
            show_default=False,
        ),
    ] = None,
    content: Annotated[
        bool,
        typer.Option(
            "--content",
            help="Export prompts, answers, arguments and results too; off by default. The console "
            "never shows them.",
        ),
    ] = False,
    contract: ChosenContract = ContractChoice.AUTO,
    rules: Rules = None,
    exclude: Excluded = None,
    severity: Severities = None,
    preset: Presets = None,
    source: FromSource = Source.LOG,
    final: IsFinal = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print what was done as JSON on standard output.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Turn session logs into OpenTelemetry spans.

    PATH is a log, a folder with logs, a DSH home or a glob; - is standard input. Without any, the
    DSH home is exported: $DSH_HOME, else ~/.dsh.

    Each turn becomes a trace of its own, with findings and error codes where they belong. Exporting
    a log again gives the same ids. Spans are written at the pace of the receiver; what it does not
    take is counted. Notifications of the SDK that were written down and OTLP logs, as JSON, are
    exported too.
    """
    from dsh_core.contract.run import SourceKind
    from dsh_core.events import Contract
    from dsh_otel.cli import exporting
    from dsh_otel.cli.checking import choose_logs
    from dsh_otel.cli.needs import idle, told
    from dsh_otel.cli.ruling import choose_rules

    if output is not None and to is not Destination.FILE:
        raise typer.BadParameter("--output goes with --to file")
    ruling = choose_rules(rules or (), exclude or (), severity or (), preset or ())
    quiet = is_quiet(context, quiet=quiet)
    path = output or DEFAULT_FILE
    written = path if to is Destination.FILE and str(path) != "-" else None
    if json and (to is Destination.CONSOLE or (to is Destination.FILE and str(path) == "-")):
        raise typer.BadParameter(
            "--json needs standard output for itself: use --to otlp, or --to file with a name"
        )
    found = choose_logs(paths or (), written, needed=not json)
    held_to = None if contract is ContractChoice.AUTO else Contract(contract)
    unable = idle(ruling, contract=held_to, source=SourceKind(source), final=final)
    notice = told(unable, ruling.chosen, rules or ())
    if notice and not quiet:
        say(notice)
    work = exporting.Export(
        logs=found.logs,
        missing=found.missing,
        contract=held_to,
        ruling=ruling,
        content=content,
        source=SourceKind(source),
        final=final,
        quiet=quiet,
    )
    if content and to is Destination.CONSOLE and not quiet:
        say("the console tree never shows content: --content goes with --to file or --to otlp")
    result = work.run(exporting.make_sink(to, path))
    exporting.tell(result, json=json, quiet=work.quiet, console=to is Destination.CONSOLE)
    raise typer.Exit(ExitCode.OK if result.complete else result.verdict)
