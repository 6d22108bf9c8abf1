"""Where a command writes, and in which colours."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn, TextIO

from dsh_otel.cli.exits import CannotTellError, silence, unwritable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from rich.console import Console


@contextmanager
def opened(path: Path | None, *, exact: bool) -> Iterator[TextIO]:
    """Open the place for a command's data: a file, or standard output.

    Args:
        path: The file, always in UTF-8; None for standard output.
        exact: See `stdout`.

    Yields:
        The stream.

    Raises:
        CannotTellError: The place cannot be written to.
    """
    if path is None:
        try:
            yield stdout(exact=exact)
        except OSError as error:
            _refuse(error, "")
        return
    try:
        with path.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream
    except OSError as error:
        _refuse(error, str(path))


def _refuse(error: OSError, place: str) -> NoReturn:
    if isinstance(error, BrokenPipeError) or error.filename not in {None, place}:
        raise error
    if not place:
        # What is still buffered would be refused once more at the end.
        silence(sys.stdout)
    raise CannotTellError(unwritable(error, place)) from error


def stdout(*, exact: bool = False) -> TextIO:
    """Return standard output.

    Args:
        exact: Whether programs read it: then UTF-8 and plain newlines on every system. Otherwise
            the terminal's own encoding, and escapes for the characters that it lacks.

    Raises:
        CannotTellError: It is closed.
    """
    stream = sys.stdout
    if stream is None:
        raise CannotTellError("standard output is closed")
    if isinstance(stream, io.TextIOWrapper):
        if exact:
            stream.reconfigure(encoding="utf-8", newline="\n")
        else:
            stream.reconfigure(errors="backslashreplace")
    return stream


def wants_colour(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether a stream is to be coloured.

    ``NO_COLOR`` and ``FORCE_COLOR`` decide, in this order, unless they are empty. Without them a
    terminal is coloured.
    """
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return is_terminal(stream) and environ.get("TERM") != "dumb"


def is_terminal(stream: TextIO | None) -> bool:
    """Tell whether a person looks at a stream."""
    return stream is not None and not stream.closed and stream.isatty()


def console(stream: TextIO, *, colour: bool) -> Console:
    """Return a console that writes what it is given, with nothing highlighted or cut."""
    from rich.console import Console

    class Piped(Console):
        def on_broken_pipe(self) -> None:
            # The base class would end the program, with the exit code of a finding.
            raise BrokenPipeError

    return Piped(
        file=stream,
        color_system="standard" if colour else None,
        force_terminal=colour or None,
        emoji=False,
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
