"""Exit codes: the part of the command line that scripts and gates rely on."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import contextmanager, suppress
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Self, TextIO

import typer

from dsh_otel.cli.plain import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

DEBUG: Final = "DSH_OTEL_DEBUG"
"""Set to anything but ``0``, this environment variable shows where errors come from."""


class ExitCode(IntEnum):
    """How a command ended.

    Attributes:
        meaning: What the code says, in one clause.
    """

    meaning: str

    def __new__(cls, value: int, meaning: str) -> Self:
        """Give the number its meaning."""
        code = int.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning
        return code

    OK = 0, "all is well"
    FAILED = 1, "a finding that counts (--fail-on), an unreadable log, or spans that did not arrive"
    CANNOT_TELL = 2, "no log can be read, a PATH leads to none, wrong usage, or nothing arrived"
    INTERNAL = 70, "an error of dsh-otel itself"
    INTERRUPTED = 130, "interrupted by Ctrl-C"
    PIPE_CLOSED = 141, "whoever read the output stopped before its end, as head does"


class CannotTellError(Exception):
    """A command cannot do what it was asked for; the message says why."""


def exit_code_lines(cannot_tell: str = "", failed: str = "") -> str:
    """Return the exit codes as the help shows them; the mark keeps it from joining the lines.

    Args:
        cannot_tell: What 2 stands for with this command; if given, `failed` counts too.
        failed: What 1 stands for; empty with a command that never ends so.
    """
    meanings = {code: code.meaning for code in ExitCode}
    if cannot_tell:
        meanings |= {ExitCode.FAILED: failed, ExitCode.CANNOT_TELL: cannot_tell}
    lines = (f"{code.value:>5}  {meaning}" for code, meaning in meanings.items() if meaning)
    return "\b\nExit codes:\n" + "\n".join(lines)


def say(message: str) -> None:
    """Print a line for people on standard error, if anybody reads there."""
    with suppress(OSError):
        typer.echo(f"dsh-otel: {printable(message)}", err=True)


class _Saying(logging.Handler):
    """Says what is logged as the command says everything else, and nothing twice."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message in self._said:
            return
        self._said.add(message)
        say(message)
        error = getattr(record, "error", None)
        if debugging() and isinstance(error, Exception):
            seq = getattr(record, "seq", -1)
            say(f"it failed {f'at seq {seq}' if seq >= 0 else 'when the session started'}:")
            sys.excepthook(type(error), error, error.__traceback__)


@contextmanager
def said_logs() -> Iterator[None]:
    """Say meanwhile what our packages log."""
    loggers = [logging.getLogger(name) for name in ("dsh_core", "dsh_otel")]
    handler = _Saying()
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


@contextmanager
def mapped_errors() -> Iterator[None]:
    """End the command with the exit code that an error stands for.

    Raises:
        typer.Exit: Instead of the errors that have an exit code of their own.
    """
    try:
        yield
    except CannotTellError as error:
        say(str(error))
        raise typer.Exit(ExitCode.CANNOT_TELL) from error
    except BrokenPipeError as error:
        silence(sys.stdout)
        raise typer.Exit(ExitCode.PIPE_CLOSED) from error
    except OSError as error:
        # Whatever is read or opened is named; only a stream has no name.
        say(describe(error) if error.filename is not None else unwritable(error))
        if error.filename is None:
            silence(sys.stdout)
        raise typer.Exit(ExitCode.CANNOT_TELL) from error
    except typer.BadParameter as error:
        # The parser's own words, of no use to whoever mistyped a value.
        error.message = error.message.removeprefix("Value error, ")
        raise
    except ValueError as error:
        # OpenTelemetry's SDK names the variable whose value it refuses.
        if not str(error).startswith("OTEL_"):
            raise
        say(str(error))
        raise typer.Exit(ExitCode.CANNOT_TELL) from error


def report_internal_error(error: Exception) -> ExitCode:
    """Tell of an error that should not have happened, and return the exit code for it."""
    if debugging():
        sys.excepthook(type(error), error, error.__traceback__)
    else:
        say(
            f"internal error: {type(error).__name__}: {error}. Please report it, "
            f"with what {DEBUG}=1 shows."
        )
    return ExitCode.INTERNAL


def debugging() -> bool:
    """Tell whether tracebacks of internal errors are wanted."""
    return os.environ.get(DEBUG, "0") not in {"", "0"}


def describe(error: OSError) -> str:
    """Say in one clause what the operating system refused."""
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{error.filename}: {reason}"


def unwritable(error: OSError, place: str = "") -> str:
    """Say that something cannot be written, and how to go on.

    Args:
        error: What the operating system says.
        place: What cannot be written, if the error does not name it; empty for standard output.
    """
    if error.filename is None and not place:
        return f"cannot write standard output: {describe(error)}"
    where = describe(error) if error.filename is not None else f"{place}: {describe(error)}"
    return f"cannot write {where}; name another file with --output"


def flush_stdout() -> ExitCode:
    """Write what is still buffered.

    Python would do so after the last line of the program, where nothing can be caught any more.

    Returns:
        `ExitCode.OK` if it was written.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)
        return ExitCode.PIPE_CLOSED
    except OSError as error:
        silence(sys.stdout)
        say(unwritable(error))
        return ExitCode.CANNOT_TELL
    return ExitCode.OK


def silence(stream: TextIO) -> None:
    """Lead a stream that nobody can write to any more into nothing."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)
