"""``dsh-otel tail``: sessions as they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from dsh_otel.cli.choices import ContractChoice, Destination
from dsh_otel.cli.exits import ExitCode
from dsh_otel.cli.quiet import Quiet, is_quiet
from dsh_otel.cli.selection import ChosenContract, Excluded, Presets, Rules, Severities

ENDS: Final = """\b
Exit codes:
    0  ended by Ctrl-C or a signal, and everything has arrived
    1  spans did not arrive, or something could not be read
    2  wrong usage, or it cannot begin
  141  whoever read the output stopped before its end, as head does"""

EPILOG: Final = f"""
\b
Examples:
  dsh-otel tail                                    what the sessions of the DSH home do from now on
  dsh-otel tail --to otlp --state ~/.dsh/tail.state  to a collector, over restarts
  dsh-otel tail --since 1h --jsonl | jq .code      one object for each turn, failure and finding

{ENDS}
"""

To = Annotated[
    Destination | None,
    typer.Option(help="Where spans go, besides the lines; nowhere by default.", show_default=False),
]

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="The file for --to file; what is there stays.",
        show_default=False,
    ),
]

Content = Annotated[
    bool,
    typer.Option(
        "--content", help="Export prompts, answers, arguments and results too; off by default."
    ),
]

Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", metavar="SECONDS", min=0, max=600, help="How long sending may take at the end."
    ),
]

PollEvery = Annotated[
    float | None,
    typer.Option(
        "--poll",
        metavar="SECONDS",
        min=0.05,
        max=3600,
        help="Look for changes so often, instead of being told by the system (extra `live`).",
        show_default=False,
    ),
]

AsJsonLines = Annotated[
    bool,
    typer.Option("--jsonl", help="Print one JSON object for each fact, and one at the end."),
]

AsJson = Annotated[
    bool, typer.Option("--json", help="Print only what was done, at the end, as JSON.")
]


def tail(
    context: typer.Context,
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="PATH",
            help="A DSH home, a folder with logs, or one log; the sessions of the DSH home by "
            "default: $DSH_HOME/sessions, else ~/.dsh/sessions.",
            show_default=False,
        ),
    ] = None,
    to: To = None,
    output: Output = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep where each session stands: a restart misses nothing.",
            show_default=False,
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Begin with turns that started since then: 90s, 15m, 2h, 7d, or a date and time.",
            show_default=False,
        ),
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Begin with everything that is there.")
    ] = False,
    jsonl: AsJsonLines = False,
    json: AsJson = False,
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
    """Follow sessions as they run: turns, failures and findings, at once.

    Every session below PATH is followed as its log grows, new ones too. A line is printed for each
    turn that starts or ends, each failure of a tool or model, and each finding; spans go where --to
    says. It begins with what happens from now on, and with turns that are open.

    Ctrl-C or SIGTERM ends it; what has not been sent by then is counted.
    """
    from dsh_otel.cli import tailing
    from dsh_otel.cli.following import Plan, root_of
    from dsh_otel.cli.ruling import choose_rules
    from dsh_otel.sources.since import since_ms

    if since is not None and from_start:
        raise typer.BadParameter("--since and --from-start exclude each other")
    start = 0 if from_start else None
    if since is not None:
        try:
            start = since_ms(since)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
    quiet = is_quiet(context, quiet=quiet)
    told = tailing.telling(jsonl=jsonl, json=json, quiet=quiet, to=to, output=output)
    if tailing.is_disabled():
        raise typer.Exit(ExitCode.OK)
    sink = tailing.make_live_sink(to, output)
    plan = Plan(
        root=root_of(path),
        ruling=choose_rules(rules or (), exclude or (), severity or (), preset or ()),
        contract=tailing.contract_of(contract),
        content=content,
        state=state,
        since_ms=start,
        poll_s=poll,
        timeout_s=timeout,
    )
    told.end(tailing.follow(plan, sink, told.facts(), quiet=quiet))
