"""The work behind ``dsh-otel run``."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec

from dsh_otel.cli.exits import CannotTellError, ExitCode, describe, say
from dsh_otel.cli.following import Following
from dsh_otel.cli.live_lines import LinePrinter
from dsh_otel.cli.output import console, opened, wants_colour

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from dsh_otel.cli.choices import FailOn
    from dsh_otel.cli.following import Plan
    from dsh_otel.export.sink import Sink
    from dsh_otel.sources.facts import Fact

NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
BY_SIGNAL: Final = 128
FORWARDED: Final = (signal.SIGTERM, *((signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ()))
"""Signals that only we get; those of the terminal reach the command by themselves."""


def environment(home: Path | None) -> Mapping[str, str]:
    """Return the environment that the command runs in.

    Args:
        home: The DSH home, if it is another than the environment's.
    """
    if home is None:
        return os.environ
    return {**os.environ, "DSH_HOME": os.path.abspath(home)}  # noqa: PTH100 - links stay as they are


def alone(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a command with nothing followed; return its exit code."""
    process = _start(command, environ)
    if isinstance(process, int):
        return process
    with _forwarding(process, threading.Event()):
        return _code(process.wait())


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A command, and the sessions of its home.

    Attributes:
        command: The command and its arguments.
        environ: Its environment.
        plan: What is followed, and how.
        sink: Where spans go.
        fail_on: The least severe finding that counts.
        jsonl: The file that facts go to, besides the lines.
        quiet: Whether to print no lines.
    """

    command: Sequence[str]
    environ: Mapping[str, str]
    plan: Plan
    sink: Sink | None
    fail_on: FailOn
    jsonl: Path | None
    quiet: bool

    def run(self) -> int:
        """Run it; return the exit code."""
        stop = threading.Event()
        with ExitStack() as stack:
            facts = stack.enter_context(opened(self.jsonl, exact=True)) if self.jsonl else None
            following = Following(self.plan, self.sink, self._teller(facts), stop)
            # What the command begins with must not be missed.
            following.begin()
            process = _start(self.command, self.environ)
            if isinstance(process, int):
                following.end(final=True)
                return process
            with _forwarding(process, stop), _ended_in_time(process, stop, self.plan.timeout_s / 2):
                safely = _Safely()
                while process.poll() is None:
                    safely(following.step)
                begin = time.monotonic()
                safely(following.catch_up)
                left_s = self.plan.timeout_s - (time.monotonic() - begin)
                summary = following.end(final=True, timeout_s=left_s)
            if facts is not None:
                with contextlib.suppress(OSError):
                    facts.write(summary.as_json() + "\n")
        if not self.quiet or not summary.complete:
            summary.tell()
        code = _code(process.returncode)
        counts = any(self.fail_on.counts(severity) for severity in summary.findings)
        return ExitCode.FAILED if counts and not code else code

    def _teller(self, facts: IO[str] | None) -> Callable[[Fact], object]:
        tellers: list[Callable[[Fact], object]] = []
        if not self.quiet and sys.stderr is not None:
            tellers.append(LinePrinter(console(sys.stderr, colour=wants_colour(sys.stderr))))
        if facts is not None:
            encode = msgspec.json.Encoder().encode
            tellers.append(lambda fact: facts.write(encode(fact).decode() + "\n"))

        def tell(fact: Fact) -> None:
            for one in tellers:
                with contextlib.suppress(OSError):
                    one(fact)

        return tell


class _Safely:
    """Does what must not end the command; what goes wrong is said once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, action: Callable[[], object]) -> None:
        try:
            action()
        except BrokenPipeError:
            self._say("nobody reads the spans any more")
        except Exception as error:  # noqa: BLE001 - the command goes on
            self._say(f"following failed: {type(error).__name__}: {error}. Please report it.")

    def _say(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            say(message)


@contextmanager
def _ended_in_time(
    process: subprocess.Popen[bytes], stop: threading.Event, timeout_s: float
) -> Iterator[None]:
    """Have the following end soon after the command, whatever it waits for."""

    def wait() -> None:
        process.wait()
        stop.wait(timeout_s)
        stop.set()

    threading.Thread(target=wait, name="dsh-otel-run", daemon=True).start()
    yield


def _start(command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes] | int:
    try:
        return subprocess.Popen(list(command), env=dict(environ))  # noqa: S603 - what it is for
    except FileNotFoundError as error:
        say(describe(error))
        return NOT_FOUND
    except OSError as error:
        say(describe(error))
        return NOT_EXECUTABLE
    except ValueError as error:
        raise CannotTellError(f"that is no command: {error}") from error


@contextmanager
def _forwarding(process: subprocess.Popen[bytes], stop: threading.Event) -> Iterator[None]:
    """Hand signals on to the command, which decides what they mean; after its end they are ours."""

    def forward(number: int, _frame: Any) -> None:  # noqa: ANN401 - a frame
        if process.poll() is not None:
            stop.set()
        elif number in FORWARDED:
            with contextlib.suppress(OSError):
                process.send_signal(number)

    numbers = [n for n in (*FORWARDED, signal.SIGINT) if signal.getsignal(n) != signal.SIG_IGN]
    before = {number: signal.signal(number, forward) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _code(returned: int) -> int:
    return BY_SIGNAL - returned if returned < 0 else returned
