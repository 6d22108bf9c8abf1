"""What the commands that follow logs have in common: output, signals, the switch that is off."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
import typer

from dsh_core.events import Contract
from dsh_otel.cli.choices import ContractChoice, Destination
from dsh_otel.cli.exits import CannotTellError, ExitCode, say
from dsh_otel.cli.exporting import make_sink
from dsh_otel.cli.following import Following, Plan, Summary
from dsh_otel.cli.live_lines import LinePrinter
from dsh_otel.cli.output import console, stdout, wants_colour
from dsh_otel.disabled import DISABLED, telemetry_disabled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dsh_otel.export.sink import Sink
    from dsh_otel.sources.facts import Fact

SIGNALS: Final = (
    *(signal.SIGINT, signal.SIGTERM),
    *((signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ()),
)
DEFAULT_FILE: Final = Path("dsh-traces.otlp.json")
STDOUT: Final = "-"
MAX_UNTOLD: Final = 10_000
"""Most facts that wait to be told."""

UNTOLD_S: Final = 1.0
"""How long they may take at the end, in seconds."""


def is_disabled() -> bool:
    """Tell whether telemetry is switched off, and say so."""
    if not telemetry_disabled(os.environ):
        return False
    say(f"telemetry is switched off: {DISABLED} is set")
    return True


def contract_of(choice: ContractChoice) -> Contract | None:
    """Return the contract that a user chose; None for that of each log's generation."""
    return None if choice is ContractChoice.AUTO else Contract(choice)


def make_live_sink(to: Destination | None, output: Path | None) -> Sink | None:
    """Return where spans go.

    Args:
        to: Which kind; None for nowhere.
        output: The file, if it is one.

    Raises:
        CannotTellError: It cannot be used here.
    """
    if output is not None and to is not Destination.FILE:
        raise typer.BadParameter("--output goes with --to file")
    if to is None:
        return None
    return make_sink(to, output or DEFAULT_FILE, append=True)


@dataclass(frozen=True, slots=True)
class Telling:
    """What is told on standard output.

    Attributes:
        jsonl: Facts and the summary as JSON, one object a line.
        json: The summary alone.
        quiet: Nothing that is only good to know.
        taken: Whether spans go there, and nothing else can.
    """

    jsonl: bool
    json: bool
    quiet: bool
    taken: bool

    def facts(self) -> Callable[[Fact], object]:
        """Return what tells facts."""
        if self.jsonl:
            return _json_lines()
        if self.json or self.quiet or self.taken:
            return lambda _fact: None
        out = stdout()
        return LinePrinter(console(out, colour=wants_colour(out)))

    def end(self, summary: Ended) -> None:
        """Tell the summary, and end the command.

        Raises:
            typer.Exit: With the exit code.
        """
        if self.jsonl or self.json:
            typer.echo(summary.as_json())
        if not self.quiet or not summary.complete:
            summary.tell()
        raise typer.Exit(ExitCode.OK if summary.complete else ExitCode.FAILED)


class Ended(Protocol):
    """What a command did that goes on until it is ended."""

    @property
    def complete(self) -> bool:
        """Whether everything that was seen has arrived."""

    def as_json(self) -> str:
        """Return it as one JSON object."""

    def tell(self) -> None:
        """Say it to people."""


def telling(
    *, jsonl: bool, json: bool, quiet: bool, to: Destination | None, output: Path | None
) -> Telling:
    """Return what is told on standard output.

    Args:
        jsonl: Whether facts are to be told as JSON.
        json: Whether the summary alone is.
        quiet: Whether what is only good to know is left out.
        to: Where spans go.
        output: The file, if it is one.

    Raises:
        typer.BadParameter: Two things would be mixed there.
    """
    taken = to is Destination.CONSOLE or (to is Destination.FILE and str(output) == STDOUT)
    if jsonl and json:
        raise typer.BadParameter("--jsonl and --json exclude each other")
    if taken and (jsonl or json):
        option = "--jsonl" if jsonl else "--json"
        raise typer.BadParameter(f"{option} needs standard output: send the spans elsewhere")
    return Telling(jsonl=jsonl, json=json, quiet=quiet, taken=taken)


def _json_lines() -> Callable[[Fact], object]:
    out = stdout(exact=True)
    encode = msgspec.json.Encoder().encode

    def write(fact: Fact) -> None:
        out.write(encode(fact).decode() + "\n")
        out.flush()

    return write


@contextmanager
def stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    """Have signals end the work in order; a second one ends it at once."""

    def ask(number: int, _frame: Any) -> None:  # noqa: ANN401 - a frame
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    # What is ignored stays ignored, as under nohup.
    numbers = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def follow(
    plan: Plan, sink: Sink | None, tell: Callable[[Fact], object], *, quiet: bool
) -> Summary:
    """Follow until a signal ends it.

    Args:
        plan: What is followed, and how.
        sink: Where spans go.
        tell: What tells facts.
        quiet: Whether to leave out what is only good to know.
    """
    stop = threading.Event()
    pipe = Pipe(tell, stop)
    with stopped_by_signals(stop):
        following = Following(plan, sink, pipe, stop)
        try:
            if plan.since_ms is not None and not quiet:
                say(f"reading what is there below {plan.root}")
            how = following.begin()
            if not quiet:
                there = "" if os.path.exists(plan.root) else ", which is not there yet"  # noqa: PTH110 - as named
                say(f"following {plan.root}{there}: {how}; Ctrl-C ends it")
            while not stop.is_set():
                following.step()
        finally:
            summary = following.end(final=plan.state is None)
    pipe.settle(summary)
    return summary


class Pipe:
    """Tells facts from a thread of its own, so that a slow reader holds nothing up.

    Args:
        tell: What tells them.
        stop: Set when nobody reads any more: then it is time to end.

    Attributes:
        broken: Whether nobody reads.
        problem: Why it cannot be written, empty if it can.
        dropped: Number of facts that found no room.
    """

    def __init__(self, tell: Callable[[Fact], object], stop: threading.Event) -> None:
        self._tell = tell
        self._stop = stop
        self.broken = False
        self.problem = ""
        self.dropped = 0
        self._waiting: queue.Queue[Fact | None] = queue.Queue(MAX_UNTOLD)
        self._thread = threading.Thread(target=self._work, name="dsh-otel-facts", daemon=True)
        self._thread.start()

    def __call__(self, fact: Fact) -> None:
        """Tell one, unless too many wait."""
        try:
            self._waiting.put_nowait(fact)
        except queue.Full:
            self.dropped += 1

    def close(self, timeout_s: float) -> bool:
        """Tell what waits.

        Args:
            timeout_s: How long it may take, in seconds.

        Returns:
            Whether everything was told.
        """
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=timeout_s)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (fact := self._waiting.get()) is not None:
            if self.broken or self.problem:
                continue
            try:
                self._tell(fact)
            except BrokenPipeError:
                self.broken = True
                self._stop.set()
            except OSError as error:
                self.problem = f"standard output: {error.strerror or error}"
                self._stop.set()

    def settle(self, summary: Ended) -> None:
        """End it, and the program if its output is stuck.

        Args:
            summary: What is told in that case.

        Raises:
            BrokenPipeError: Nobody reads.
            CannotTellError: It could not be written.
        """
        told = self.close(UNTOLD_S)
        if self.dropped:
            say(f"{self.dropped:,} facts were not told: standard output is too slow")
        if self.broken:
            raise BrokenPipeError
        if self.problem:
            raise CannotTellError(self.problem)
        if not told:
            summary.tell()
            say("nobody takes what is on standard output; the rest of it is lost")
            # Whoever wrote it last holds a lock that the usual end would wait for.
            os._exit(ExitCode.FAILED)
