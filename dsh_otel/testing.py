"""For tests of one's own agents, tools and plugins: a whole program that is the same every time.

The clock ticks one millisecond a look, ids are counted, spans are kept in memory, and the contract
is checked. The pytest fixture ``dsh_harness`` makes one for each test.
"""

from __future__ import annotations

import asyncio
import io
import itertools
from typing import TYPE_CHECKING, Any, Final, Self

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from rich.console import Console

from dsh_core import invariants, program
from dsh_core.check import check_session
from dsh_core.context import Context
from dsh_core.contract.checker import Checker
from dsh_core.contract.findings import Finding, Severity
from dsh_core.contract.installed import installed_catalogue
from dsh_core.errors import InvariantError
from dsh_core.llm import ScriptedAdapter
from dsh_core.session import Session
from dsh_otel import plugin
from dsh_otel.export.console import ConsoleTreeExporter
from dsh_otel.ids import DerivedIdGenerator

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

    from dsh_core.agent import Agent
    from dsh_core.llm.scripted import Reply
    from dsh_core.tools import ToolDefinition

START_MS: Final = 1_750_000_000_000
"""When the clock starts: Unix time in milliseconds."""

MODEL: Final = "scripted"
"""Name of the model that a script plays."""

PATIENCE_S: Final = 30.0
"""How long a scenario may take, in seconds."""


MAX_TOLD: Final = 20
"""How many violations an error names."""


class FixedClock:
    """A clock that ticks when somebody looks.

    Args:
        start_ms: What it shows first: Unix time in milliseconds.
        tick_ms: How far it goes on at each look, in milliseconds.
    """

    def __init__(self, start_ms: int = START_MS, tick_ms: int = 1) -> None:
        self._now = start_ms - tick_ms
        self._tick = tick_ms

    def __call__(self) -> int:
        """Return the time, and go on."""
        self._now += self._tick
        return self._now


class CountedIds:
    """Ids that are counted: ``id-1``, ``id-2`` and so on.

    Args:
        prefix: What stands before the number.
    """

    def __init__(self, prefix: str = "id-") -> None:
        self._prefix = prefix
        self._numbers = itertools.count(1)

    def __call__(self) -> str:
        """Return the next id."""
        return f"{self._prefix}{next(self._numbers)}"


class Spans:
    """Finished spans, to look at.

    Args:
        exporter: Where they are.
    """

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def __iter__(self) -> Iterator[ReadableSpan]:
        """Go through all, in the order of their ends."""
        return iter(self._exporter.get_finished_spans())

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._exporter.get_finished_spans())

    def named(self, start: str) -> list[ReadableSpan]:
        """Return the spans whose name begins so, in the order of their starts."""
        found = [span for span in self if span.name.startswith(start)]
        return sorted(found, key=lambda span: span.start_time or 0)

    def one(self, start: str) -> ReadableSpan:
        """Return the one span whose name begins so.

        Raises:
            AssertionError: There is none, or there are several.
        """
        found = self.named(start)
        if len(found) != 1:
            names = ", ".join(span.name for span in self) or "none"
            raise AssertionError(
                f"{len(found)} spans begin with {start!r}, not one; there are: {names}"
            )
        return found[0]

    def codes(self) -> list[str]:
        """Return the error codes of all failed spans, in the order of their starts."""
        spans = sorted(self, key=lambda span: span.start_time or 0)
        found = ((span.attributes or {}).get("dsh.error.code") for span in spans)
        return [str(code) for code in found if code is not None]

    def tree(self) -> str:
        """Return all spans as the tree that ``dsh-otel export --to console`` prints."""
        text = io.StringIO()
        tree = ConsoleTreeExporter(Console(file=text, width=10_000, color_system=None))
        tree.export(list(self))
        tree.shutdown()
        return text.getvalue()


class _NotRunning:
    """Stands for the context of a program that does not run."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - it never returns
        raise RuntimeError("the harness is not running: use it in `run`, or in `async with`")


class Harness:
    """A program of `dsh_core` with its telemetry; use it as ``async with``, or call `run`.

    Args:
        dev_invariants: Whether violations raise where they happen, as `dsh_core.invariants` does.
        content: Whether spans carry prompts, answers, arguments and results.

    Attributes:
        ctx: The root context, while the program runs.
        spans: What was traced and has ended.
        clock: The program's clock.
        errors: What agents have failed with.
    """

    def __init__(self, *, dev_invariants: bool = False, content: bool = False) -> None:
        self.errors: list[Exception] = []
        self.ctx: Any = _NotRunning()
        self.clock = FixedClock()
        self._exporter = InMemorySpanExporter()
        self.spans = Spans(self._exporter)
        self._dev_invariants = dev_invariants
        self._content = content
        self._sessions: list[Session] = []
        self._agents = itertools.count(1)
        self._broken: list[str] = []

    async def __aenter__(self) -> Self:
        """Start the program."""
        self.ctx = Context()
        await program.start(self.ctx, clock=self.clock, new_id=CountedIds())
        self.ctx.on("session/created", self._sessions.append)
        provider = TracerProvider(
            resource=Resource({"service.name": "dsh"}),
            id_generator=DerivedIdGenerator(),
            shutdown_on_exit=False,
        )
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        await self.ctx.plugin(plugin, {"tracer_provider": provider, "content": self._content})
        self.ctx.on("agent/error", lambda _agent, error: self.errors.append(error))
        if self._dev_invariants:
            self.ctx.on(invariants.FINDING, self._found)
            await self.ctx.plugin(invariants)
        return self

    def _found(self, session: Session, finding: Finding) -> None:
        if finding.severity is not Severity.ADVICE:
            self._broken.append(f"session {session.id}: {finding.rule}: {finding.message}")

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the program: all spans end.

        Raises:
            InvariantError: The contract was broken, and `dev_invariants` are on: also where whoever
                broke it has kept the error to itself, as an agent's loop does.
            BaseException: What has ended an agent and was meant to end the test.
        """
        ctx, self.ctx = self.ctx, _NotRunning()
        await ctx.dispose()
        if kind is not None:
            return
        for error in self.errors:
            cause = getattr(error, "cause", None)
            if isinstance(cause, BaseException) and not isinstance(
                cause, Exception | asyncio.CancelledError
            ):
                raise cause
        if self._broken:
            raise InvariantError("; ".join(self._broken[:MAX_TOLD]))

    def run(self, scenario: Callable[[Harness], Awaitable[Any]]) -> Any:  # noqa: ANN401 - its result
        """Start the program, run a scenario in it, and end it.

        Args:
            scenario: An asynchronous function that gets the harness.

        Returns:
            What the scenario returns.

        Raises:
            TimeoutError: It took longer than `PATIENCE_S`.
            BaseException: What leaving ``async with`` raises.
        """

        async def whole() -> Any:  # noqa: ANN401 - as above
            async with self, asyncio.timeout(PATIENCE_S):
                return await scenario(self)

        return asyncio.run(whole())

    def agent(
        self,
        script: Iterable[Reply],
        *,
        tools: Iterable[ToolDefinition | Callable[..., Any]] = (),
        **options: Any,  # noqa: ANN401 - fields of `AgentOptions`
    ) -> Agent:
        """Make an agent whose model says what it is told to.

        Args:
            script: What the model says, one reply for each request; see `dsh_core.llm`.
            tools: Tools to register: definitions, or typed functions.
            options: Fields of `AgentOptions`.
        """
        number = next(self._agents)
        for tool in tools:
            self.ctx.tools.register(tool)
        model = f"{MODEL}-{number}"
        self.ctx.llm.register_adapter([model], ScriptedAdapter(script))
        agent: Agent = self.ctx.agent_loop.create(f"agent-{number}", model=model, **options)
        return agent

    async def turn(self, agent: Agent, text: str) -> None:
        """Say something to an agent, and wait until it has nothing left to do."""
        agent.send(text)
        await agent.settled()

    @property
    def sessions(self) -> Sequence[Session]:
        """All sessions that the program has had."""
        return tuple(self._sessions)

    def findings(self) -> list[Finding]:
        """Return what a check of all sessions finds."""
        return [finding for session in self._sessions for finding in findings_of(session)]

    def assert_no_violations(self) -> None:
        """Fail if any session breaks the contract, see `assert_no_violations`."""
        for session in self._sessions:
            assert_no_violations(session)


def findings_of(session: Session | str | Path) -> list[Finding]:
    """Return what a check of a session finds.

    Args:
        session: A live session, or the path of a log.

    Raises:
        AssertionError: The log cannot be read.
    """
    if not isinstance(session, Session):
        report = check_session(str(session), catalogue=installed_catalogue())
        if report.error:
            raise AssertionError(report.error)
        return list(report.findings)
    checker = Checker(
        session.header,
        header_row=session.header_row,
        catalogue=installed_catalogue(),
        strict=True,
    )
    found = [finding for entry in session.events for finding in checker.observe(entry.event)]
    return found + checker.finish()


def assert_no_violations(session: Session | str | Path) -> None:
    """Fail if a session breaks the contract; advice is no failure.

    Args:
        session: A live session, or the path of a log.

    Raises:
        AssertionError: It does; the error names rule, seq and what is wrong.
    """
    wrong = [one for one in findings_of(session) if one.severity is not Severity.ADVICE]
    if wrong:
        lines = [f"  seq {one.seq}: {one.rule}: {one.message}" for one in wrong[:MAX_TOLD]]
        more = f"\n  and {len(wrong) - MAX_TOLD} more" if len(wrong) > MAX_TOLD else ""
        name = session.id if isinstance(session, Session) else session
        raise AssertionError(f"session {name} breaks the contract:\n" + "\n".join(lines) + more)
