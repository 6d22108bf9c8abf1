"""``dsh-otel check``: whether session logs keep their contract."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from dsh_otel.cli.choices import ContractChoice, FailOn, OutputFormat, Source
from dsh_otel.cli.exits import CannotTellError, exit_code_lines, say
from dsh_otel.cli.quiet import Quiet, is_quiet
from dsh_otel.cli.selection import (
    ChosenContract,
    Excluded,
    FromSource,
    IsFinal,
    Output,
    Presets,
    Rules,
    Severities,
)

MAX_FINDINGS: Final = 1000
"""Findings of one session that formats for people show unless told otherwise."""

EPILOG: Final = f"""
\b
Severities, worst first:
  violation  the contract is broken
  damage     bytes or lines cannot be read; what follows them is read
  advice     legal, but people get hurt
--fail-on SEVERITY counts that severity and all above it; never counts none.

\b
Examples:
  dsh-otel check                                 all sessions of the DSH home
  dsh-otel check session.jsonl --rules 'turn.*'  one log, some rules
  dsh-otel check --json runs/ | jq .totals       for programs

{
    exit_code_lines(
        "no log can be read, a PATH leads to none, rules failed, or wrong usage",
        "a finding that counts (--fail-on), or some of the logs cannot be read",
    )
}
A PATH that leads to no log outweighs findings; a finding that counts outweighs all else.
"""


def check(
    context: typer.Context,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", hidden=True),
    ] = None,
    contract: ChosenContract = ContractChoice.AUTO,
    rules: Rules = None,
    exclude: Excluded = None,
    severity: Severities = None,
    preset: Presets = None,
    final: IsFinal = False,
    source: FromSource = Source.LOG,
    fail_on: Annotated[
        FailOn, typer.Option(help="Least severity with which a finding fails the check.")
    ] = FailOn.VIOLATION,
    output_format: Annotated[
        OutputFormat | None,
        typer.Option("--format", help="How to write; text by default.", show_default=False),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    output: Output = None,
    max_findings: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Most findings of a session in text and github; 0 for all."
        ),
    ] = MAX_FINDINGS,
    quiet: Quiet = False,
) -> None:
    """Check whether session logs keep their contract.

    PATH is a log, a folder with logs, a DSH home or a glob; - is standard input. Without any, the
    DSH home is checked: $DSH_HOME, else ~/.dsh.

    Reads logs of every dsh generation, plain or zstd, damaged ones too, and says for each finding
    where it is, which rule it breaks, and how many events it stands for. Notifications of the SDK
    that were written down and OTLP logs, as JSON, are known by what they hold; each session counts.
    """
    from dsh_core.contract.run import SourceKind
    from dsh_core.events import Contract
    from dsh_otel.cli import checking
    from dsh_otel.cli.formats import make_writer
    from dsh_otel.cli.formats.writer import Settings
    from dsh_otel.cli.needs import idle, told
    from dsh_otel.cli.output import is_terminal, opened, wants_colour
    from dsh_otel.cli.ruling import choose_rules

    if json and output_format not in {None, OutputFormat.JSON}:
        raise typer.BadParameter(f"--json and --format {output_format} exclude each other")
    chosen = OutputFormat.JSON if json else output_format or OutputFormat.TEXT
    quiet = is_quiet(context, quiet=quiet)
    ruling = choose_rules(rules or (), exclude or (), severity or (), preset or ())
    held_to = None if contract is ContractChoice.AUTO else Contract(contract)
    unable = idle(ruling, contract=held_to, source=SourceKind(source), final=final)
    notice = told(unable, ruling.chosen, rules or ())
    if len(unable) == len(ruling.chosen):
        raise CannotTellError(notice)
    if notice and not quiet:
        say(notice)
    found = checking.choose_logs(paths or (), output, needed=chosen is OutputFormat.TEXT)
    work = checking.Check(
        logs=found.logs,
        missing=found.missing,
        # Whoever reads text has just seen them on standard error.
        list_missing=chosen is not OutputFormat.TEXT,
        ruling=ruling,
        contract=held_to,
        source=SourceKind(source),
        final=final,
        quiet=quiet,
    )
    with opened(output, exact=chosen is not OutputFormat.TEXT) as out:
        settings = Settings(
            rules=ruling.entries,
            fail_on=fail_on,
            max_findings=max_findings,
            summary=not quiet,
            colour=output is None and wants_colour(out),
            hint=output is None and is_terminal(out),
        )
        totals = work.run(make_writer(chosen, out, settings), out)
    if not quiet:
        checking.close(totals, chosen, output)
    raise typer.Exit(totals.verdict(fail_on))
