"""``dsh-otel receive``: an endpoint for runtimes that export session events as OTLP logs."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from dsh_otel.cli.choices import ContractChoice
from dsh_otel.cli.exits import CannotTellError, ExitCode
from dsh_otel.cli.quiet import Quiet, is_quiet
from dsh_otel.cli.selection import ChosenContract, Excluded, Presets, Rules, Severities
from dsh_otel.cli.tail import ENDS, AsJson, AsJsonLines, Content, Output, Timeout, To

HOST: Final = "127.0.0.1"
PORT: Final = 4320
"""4317 and 4318 are those of a collector."""

MAX_BODY_MIB: Final = 16

EPILOG: Final = f"""
\b
Examples:
  dsh-otel receive --to otlp                       spans go to a collector on port 4318
  DSH_TELEMETRY_MODE=FULL DSH_TELEMETRY_OTLP_URL=http://127.0.0.1:{PORT}/v1/logs dsh

{ENDS}
"""


def receive(
    context: typer.Context,
    to: To = None,
    output: Output = None,
    host: Annotated[str, typer.Option(metavar="HOST", help="Where to listen.")] = HOST,
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="The port; 0 for any.")
    ] = PORT,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            envvar="DSH_OTEL_TOKEN",
            help="Let in only who sends it as a bearer token.",
            show_default=False,
        ),
    ] = None,
    max_body: Annotated[
        int,
        typer.Option(
            "--max-body", metavar="MIB", min=1, max=1024, help="Largest request, also unpacked."
        ),
    ] = MAX_BODY_MIB,
    jsonl: AsJsonLines = False,
    json: AsJson = False,
    content: Content = False,
    contract: ChosenContract = ContractChoice.AUTO,
    rules: Rules = None,
    exclude: Excluded = None,
    severity: Severities = None,
    preset: Presets = None,
    timeout: Timeout = 5.0,
    quiet: Quiet = False,
) -> None:
    """Receive session events that a runtime exports as OTLP logs over HTTP.

    Point the runtime at it with DSH_TELEMETRY_OTLP_URL. Each event counts once, however often it is
    sent; a line is printed for each turn that starts or ends, each failure of a tool or model, and
    each finding; spans go where --to says.

    What exports leave out is no finding. Ctrl-C or SIGTERM ends it; what has not been sent by then
    is counted.
    """
    from dsh_otel.cli import tailing
    from dsh_otel.cli.ruling import choose_rules
    from dsh_otel.export.sink import MissingExtraError

    if token == "":
        raise typer.BadParameter("--token is empty: leave it out, or give it a value")
    quiet = is_quiet(context, quiet=quiet)
    told = tailing.telling(jsonl=jsonl, json=json, quiet=quiet, to=to, output=output)
    if tailing.is_disabled():
        raise typer.Exit(ExitCode.OK)
    try:
        from dsh_otel.cli import receiving
    except ModuleNotFoundError as error:
        raise CannotTellError(str(MissingExtraError("an endpoint", "receive"))) from error
    plan = receiving.Plan(
        host=host,
        port=port,
        token=token or "",
        max_body=max_body << 20,
        ruling=choose_rules(rules or (), exclude or (), severity or (), preset or ()),
        contract=tailing.contract_of(contract),
        content=content,
        timeout_s=timeout,
    )
    sink = tailing.make_live_sink(to, output)
    told.end(receiving.receive(plan, sink, told.facts(), quiet=quiet))
