"""The command line's entry point; each command has a module of its own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from dsh_otel.cli.check import EPILOG, check
from dsh_otel.cli.codes import codes
from dsh_otel.cli.demo import EPILOG as DEMO_EPILOG
from dsh_otel.cli.demo import demo
from dsh_otel.cli.doctor import EPILOG as DOCTOR_EPILOG
from dsh_otel.cli.doctor import doctor
from dsh_otel.cli.exits import (
    ExitCode,
    exit_code_lines,
    flush_stdout,
    mapped_errors,
    report_internal_error,
    said_logs,
)
from dsh_otel.cli.export import EPILOG as EXPORT_EPILOG
from dsh_otel.cli.export import export
from dsh_otel.cli.quiet import Quiet
from dsh_otel.cli.receive import EPILOG as RECEIVE_EPILOG
from dsh_otel.cli.receive import receive
from dsh_otel.cli.rules import EPILOG as RULES_EPILOG
from dsh_otel.cli.rules import rules
from dsh_otel.cli.run import EPILOG as RUN_EPILOG
from dsh_otel.cli.run import SETTINGS as RUN_SETTINGS
from dsh_otel.cli.run import run
from dsh_otel.cli.shrink import EPILOG as SHRINK_EPILOG
from dsh_otel.cli.shrink import shrink
from dsh_otel.cli.tail import EPILOG as TAIL_EPILOG
from dsh_otel.cli.tail import tail

if TYPE_CHECKING:
    from typing import NoReturn


class Commands(TyperGroup):
    """The group of all commands: the place where errors turn into exit codes."""

    def main(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as in the base class
        """Run a command line.

        Raises:
            SystemExit: Always, with the exit code.
        """
        try:
            return super().main(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever it is, it gets one line and an exit code
            sys.exit(report_internal_error(error))

    def make_context(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as above
        """Read the command line, and print the help if it asks for it."""
        with mapped_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as above
        """Run the command."""
        with mapped_errors(), said_logs():
            return super().invoke(*args, **kwargs)


app = typer.Typer(
    name="dsh-otel",
    cls=Commands,
    epilog=exit_code_lines(),
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from dsh_otel.cli.version import version

        typer.echo(f"dsh-otel {version()}")
        raise typer.Exit


@app.callback()
def dsh_otel(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Tell what dsh sessions did wrong: broken contracts, damaged logs, error codes.

    Data goes to standard output, everything else to standard error.
    """


app.command(epilog=EPILOG)(check)
app.command(epilog=EXPORT_EPILOG)(export)
app.command(epilog=TAIL_EPILOG)(tail)
app.command(epilog=RECEIVE_EPILOG)(receive)
app.command(epilog=RUN_EPILOG, context_settings=RUN_SETTINGS)(run)
app.command(epilog=SHRINK_EPILOG)(shrink)
app.command(epilog=RULES_EPILOG)(rules)
app.command(epilog=exit_code_lines("no family is called so, or wrong usage"))(codes)
app.command(epilog=DOCTOR_EPILOG)(doctor)
app.command(epilog=DEMO_EPILOG)(demo)


def main() -> NoReturn:
    """Run the command line and leave with its exit code."""
    code: str | int | None = ExitCode.OK
    try:
        get_command(app)(prog_name="dsh-otel")
    except SystemExit as ending:
        code = ending.code
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    flushed = flush_stdout()
    # What the command said counts more than a pipe that closed on its last lines.
    sys.exit(code or flushed)
