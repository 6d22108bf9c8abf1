"""``dsh-otel doctor``: whether telemetry would arrive."""

from __future__ import annotations

from typing import Annotated

import typer

from dsh_otel.cli.exits import ExitCode, exit_code_lines
from dsh_otel.cli.quiet import Quiet, is_quiet

EPILOG = exit_code_lines("telemetry would not arrive, or wrong usage")


def doctor(
    context: typer.Context,
    send: Annotated[
        bool, typer.Option("--send/--no-send", help="Send one span to the endpoint.")
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Try the endpoint with one span.

    Says which endpoint and protocol are in use, sends one span, and shows the answer. Rules of
    other packages that cannot be used are named: they keep the plugin from starting.

    The settings are those of OpenTelemetry: OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS, _TIMEOUT and so
    on. The values of headers are never shown.
    """
    from dsh_otel.cli import diagnosis

    report = diagnosis.examine(send=send)
    if json:
        typer.echo(diagnosis.as_json(report))
    elif not is_quiet(context, quiet=quiet):
        diagnosis.show(report)
    raise typer.Exit(ExitCode.OK if report.healthy else ExitCode.CANNOT_TELL)
