"""The work behind ``dsh-otel shrink``."""

from __future__ import annotations

import base64
import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Self

from dsh_core.contract.catalogue import UnknownRuleError
from dsh_core.shrink import NothingToShrinkError, Shrunk, Stopped, shrink
from dsh_otel.cli.checking import choose_logs
from dsh_otel.cli.exits import CannotTellError, say
from dsh_otel.cli.formats.fields import SCHEMA_VERSION, dumps
from dsh_otel.cli.formats.words import counted
from dsh_otel.cli.output import console, is_terminal, opened, wants_colour
from dsh_otel.cli.plain import printable
from dsh_otel.cli.progress import DELAY
from dsh_otel.cli.ruling import unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    from rich.console import Console
    from rich.progress import Progress

    from dsh_core.contract.catalogue import Catalogue
    from dsh_core.logs.find import LogFile
    from dsh_core.shrink import Question

_INTERVAL: Final = 0.1


def choose_log(place: str, output: Path | None) -> LogFile:
    """Return the one log that a place names.

    Args:
        place: What the user named.
        output: The file that will be written.

    Raises:
        CannotTellError: There is no log or more than one, or what is written would have no place.
    """
    logs = choose_logs([place], output).logs
    if len(logs) > 1:
        raise CannotTellError(f"{place}: {counted(len(logs), 'log')} there; name one of them")
    # The search may take long: what can be known of its end is said before.
    if output is not None and (output.is_dir() or not output.parent.is_dir()):
        reason = "Is a directory" if output.is_dir() else "No such file or directory"
        raise CannotTellError(f"cannot write {output}: {reason}; name another file with --output")
    return logs[0]


def choose_wanted(catalogue: Catalogue, patterns: Sequence[str]) -> frozenset[str] | None:
    """Return the rules that patterns choose, None for all.

    Args:
        catalogue: The rules to choose from.
        patterns: Globs on the id, or ``owner:GLOB``; none for all.

    Raises:
        CannotTellError: One of them matches no rule.
    """
    if not patterns:
        return None
    try:
        return catalogue.select(patterns)
    except UnknownRuleError as error:
        raise CannotTellError(unknown(catalogue, error.pattern)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrinking:
    """A log to shrink.

    Attributes:
        log: The log.
        question: What it is held to, and which finding is kept.
        options: What the user asked for, as on the command line.
        keep_content: Whether the insides of events stay as they are.
        max_checks: The most parts of the log to check.
        max_events: The most events of the log.
        quiet: Whether to show no progress.
    """

    log: LogFile
    question: Question
    options: Sequence[str]
    keep_content: bool
    max_checks: int
    max_events: int
    quiet: bool

    def run(self) -> Shrunk:
        """Shrink the log.

        Raises:
            CannotTellError: It cannot be shrunk.
        """
        try:
            with ShrinkProgress(self._console()) as progress:
                return shrink(
                    self.log,
                    self.question,
                    keep_content=self.keep_content,
                    max_checks=self.max_checks,
                    max_events=self.max_events,
                    progress=progress.show,
                )
        except NothingToShrinkError as error:
            raise CannotTellError(f"{self.log.path}: {error}") from error
        except OSError as error:
            raise CannotTellError(f"{self.log.path}: {error.strerror or error}") from error

    def _console(self) -> Console | None:
        if self.quiet or not is_terminal(sys.stderr):
            return None
        return console(sys.stderr, colour=wants_colour(sys.stderr))

    @property
    def command(self) -> str:
        """The command line that does this again, without the folder that the log lies in."""
        name = PurePath(self.log.path).name
        return printable(shlex.join(["dsh-otel", "shrink", name, *self.options]))


class ShrinkProgress:
    """A line that appears only when the work turns out to be long, and leaves nothing behind.

    Args:
        console: Where to show it; None to show nothing.
        clock: Tells the time in seconds.
    """

    def __init__(
        self, console: Console | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._clock = clock
        self._next = clock() + DELAY
        self._line: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._line is not None:
            self._line.stop()

    def show(self, checks: int, lines: int) -> None:
        """Show how far the search is.

        Args:
            checks: How many parts of the log were checked.
            lines: How many lines the part has that is checked now.
        """
        if self._console is None or self._clock() < self._next:
            return
        self._next = self._clock() + _INTERVAL
        if self._line is None:
            self._line = _make_line(self._console)
            self._line.add_task("")
        text = f"{counted(checks, 'check')}, now {counted(lines, 'line')}"
        self._line.update(self._line.task_ids[0], description=text)
        self._line.start()
        self._line.refresh()


def _make_line(console: Console) -> Progress:
    from rich.progress import Progress, SpinnerColumn, TextColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("shrinking: {task.description}", markup=False),
        console=console,
        transient=True,
        auto_refresh=False,
    )


def write_text(text: str, output: Path | None) -> None:
    """Write what is made of a log.

    Args:
        text: What to write.
        output: The file; None for standard output.
    """
    with opened(output, exact=True) as out:
        out.write(text)


def write_log(lines: Sequence[bytes], output: Path | None) -> None:
    """Write a log, byte by byte unless a person looks.

    Args:
        lines: Its lines.
        output: The file; None for standard output.
    """
    with opened(output, exact=True) as out:
        if is_terminal(out) or not hasattr(out, "buffer"):
            for line in lines:
                out.write(printable(line.removesuffix(b"\n").decode(errors="replace")) + "\n")
        else:
            out.flush()
            out.buffer.writelines(lines)


def as_json(found: Shrunk, path: str) -> str:
    """Return what is left of a log as a JSON document.

    Args:
        found: What is left.
        path: The log.
    """
    finding, original = found.finding, found.original
    data = found.data.removesuffix(b"\n")
    text = data.decode(errors="replace")
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "path": path,
        "rule": finding.rule,
        "severity": finding.severity,
        "message": finding.message,
        "seq": finding.seq,
        "line": finding.line,
        "original": {"message": original.message, "seq": original.seq, "line": original.line},
        "events": {"before": found.before, "after": found.after},
        "checks": found.checks,
        "stopped": found.stopped or None,
        "may_hold_content": found.content,
        "file_name": found.name,
        "lines": text.split("\n"),
        # Only where the lines are not all that there is.
        "base64": None if _is_whole(found, text) else base64.b64encode(found.data).decode("ascii"),
    }
    return dumps(document) + "\n"


def _is_whole(found: Shrunk, text: str) -> bool:
    """Whether a text, with a newline at its end, is the log."""
    return f"{text}\n".encode() == found.data


def tell(found: Shrunk, output: Path | None) -> None:
    """Tell people what became of the log.

    Args:
        found: What is left of it.
        output: The file that holds it.
    """
    finding = found.finding
    written = "" if output is None else f"; written to {output}"
    say(
        f"{counted(found.before, 'event')} \N{RIGHTWARDS ARROW} {found.after:,}; "
        f"{finding.rule}: {finding.message}{written}"
    )
    if not found.data.endswith(b"\n"):
        say("its last line has no newline, and must not get one")
    if found.stopped is Stopped.CHECKS:
        say(
            f"stopped by --max-checks, after {counted(found.checks, 'check')} with those of the "
            "tail and of texts: less may do, and a larger number allows it"
        )
    if found.stopped is Stopped.INTERRUPTED:
        say("interrupted: this is the least found so far, less may do")
    if found.content and found.stopped:
        say("texts of the log may be left in it")
