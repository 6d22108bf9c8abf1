"""``dsh-otel run``: a command with its sessions followed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from dsh_otel.cli.choices import ContractChoice, FailOn
from dsh_otel.cli.quiet import Quiet, is_quiet
from dsh_otel.cli.selection import ChosenContract, Excluded, Presets, Rules, Severities
from dsh_otel.cli.tail import Content, Output, PollEvery, Timeout, To

SETTINGS: Final = {"allow_interspersed_args": False, "ignore_unknown_options": False}
"""Options behind the command are the command's."""

EPILOG: Final = """
\b
Examples:
  dsh-otel run --to otlp -- dsh -p "fix the tests"
  dsh-otel run --fail-on violation --jsonl facts.jsonl -- python app.py

\b
Exit codes:
  the command's own; 128 and the signal's number if a signal ended it
      1  a finding that counts (--fail-on), if the command itself succeeds
    126  the command cannot be executed
    127  there is no such command
      2  wrong usage, or telemetry cannot be set up: the command is not run
"""


def run(
    context: typer.Context,
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="The command and its arguments.")
    ],
    home: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="The DSH home that it uses; $DSH_HOME, else ~/.dsh by default.",
            show_default=False,
        ),
    ] = None,
    to: To = None,
    output: Output = None,
    fail_on: Annotated[
        FailOn,
        typer.Option(help="The least severe finding that makes it end with 1."),
    ] = FailOn.NEVER,
    jsonl: Annotated[
        Path | None,
        typer.Option(
            "--jsonl",
            metavar="FILE",
            help="Write one JSON object for each fact into a file, and one at the end.",
            show_default=False,
        ),
    ] = None,
    content: Content = False,
    contract: ChosenContract = ContractChoice.AUTO,
    rules: Rules = None,
    exclude: Excluded = None,
    severity: Severities = None,
    preset: Presets = None,
    poll: PollEvery = None,
    timeout: Timeout = 5.0,
    quiet: Quiet = False,
) -> None:
    """Run a command, and follow the sessions of the DSH home while it runs.

    What the command says and reads stays its own; lines for people go to standard error. When it is
    over, what is still open is told as never closed, and spans leave within --timeout.

    With --home the command is run with DSH_HOME set to it. Other sessions of the same home are
    followed too.
    """
    from dsh_otel.cli import running
    from dsh_otel.cli.following import Plan, root_of
    from dsh_otel.cli.ruling import choose_rules
    from dsh_otel.cli.tailing import contract_of, is_disabled, make_live_sink

    environ = running.environment(home)
    if is_disabled():
        raise typer.Exit(running.alone(command, environ))
    plan = Plan(
        root=root_of(None, environ),
        ruling=choose_rules(rules or (), exclude or (), severity or (), preset or ()),
        contract=contract_of(contract),
        content=content,
        poll_s=poll,
        timeout_s=timeout,
        changes_only=True,
    )
    work = running.Run(
        command=command,
        environ=environ,
        plan=plan,
        sink=make_live_sink(to, output),
        fail_on=fail_on,
        jsonl=jsonl,
        quiet=is_quiet(context, quiet=quiet),
    )
    raise typer.Exit(work.run())
