"""The contract, enforced while an agent is developed: a plugin that raises.

It only listens. Without it nothing is checked and nothing is frozen, and nothing costs anything.
"""

from __future__ import annotations

import inspect
import logging
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from pydantic import BaseModel, ConfigDict, Field

from dsh_core.abort import RAISED
from dsh_core.context.bus import DISPATCH
from dsh_core.contract.checker import Checker
from dsh_core.contract.findings import Severity
from dsh_core.contract.installed import installed_catalogue
from dsh_core.contract.live import HistoryMutated, ResultMutated, StatusChanged, ToolStage
from dsh_core.contract.run import SourceKind
from dsh_core.errors import InvariantError
from dsh_core.events import Contract
from dsh_core.session.follow import Cursor
from dsh_core.session.frozen import FrozenDict, FrozenList, History, freeze
from dsh_core.tool_types import ToolExecution, ToolExecutionResult
from dsh_core.tools import TOOLS_EXECUTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dsh_core.agent import Agent
    from dsh_core.context import Context
    from dsh_core.contract.findings import Finding
    from dsh_core.session import Entry, Session

FINDING: Final = "invariants/finding"
"""Emitted with (session, finding) for everything that is found, before anything is raised."""

MUTATED: Final = "session/history-mutated"
"""Emitted with (session, `HistoryMutated`) when somebody was kept from changing history."""

TOOL_FACT: Final = "session/tool-fact"
"""Emitted with (session, `ToolStage`) and (session, `ResultMutated`)."""

_STAGES: Final = {
    "tools/pre-execute": "pre-execute",
    "tools/post-execute": "post-execute",
    "tools/result": "result",
}
"""Stages that dsh_core has no events for; plugins that make more of a tool's call announce them."""

MAX_ANNOUNCED: Final = 256
"""How many executions are followed that plugins announce."""

_logger: Final = logging.getLogger("dsh_core")


class Config(BaseModel):
    """What is enforced.

    Attributes:
        enabled: Whether anything is.
        freeze: Whether logged events are made unchangeable.
        contract: What sessions are held to; the contract of their generation by default.
        allow: Globs on the owner or the id of the rules that apply; all by default.
        block: Globs on the owner or the id of those that do not.
        severities: Severities that rules have instead of their own, by glob on the id or
            ``owner:GLOB``; what is only advice is not raised.
        presets: Names of the permission presets that are configured, if that is to be checked.
    """

    model_config = ConfigDict(extra="forbid")

    enabled: bool = True
    freeze: bool = True
    contract: Contract | None = None
    allow: tuple[str, ...] | None = None
    block: tuple[str, ...] = ()
    severities: dict[str, Severity] = Field(default_factory=dict)
    presets: frozenset[str] | None = None


name = "invariants"
inject = ("sessions",)


def apply(ctx: Context, config: Config) -> None:
    """Check every session that lives, and raise where it breaks the contract.

    A violation is raised as `InvariantError` out of ``session/event``, ``agent/status`` and
    ``tools/execute``, and so reaches whoever appended the event, changed the status or ran the
    tool. Sessions that exist already, and what a session begins with, are read first, so that what
    follows is judged in its place.

    Args:
        ctx: The plugin's context.
        config: What is enforced.

    Raises:
        UnknownRuleError: A pattern of `Config.severities` matches no rule.
        BadRulesError: The rules that another package brings cannot be used.
    """
    if not config.enabled:
        return
    guard = _Guard(ctx, config)
    for session in ctx.sessions.list():
        guard.begin(session, strict=False)
    ctx.on("session/created", partial(guard.begin, strict=True))
    ctx.on("session/event", guard.check)
    ctx.on("session/closed", guard.forget)
    ctx.on("agent/status", guard.status)
    ctx.on(DISPATCH, _Pipeline(ctx, guard, freeze=config.freeze).announced)


class _Guard:
    """The checkers of the sessions that live."""

    def __init__(self, ctx: Context, config: Config) -> None:
        self._ctx = ctx
        self._config = config
        self._catalogue = installed_catalogue().graded(config.severities)
        self._chosen = frozenset(
            entry.id
            for entry in self._catalogue.entries.values()
            if (config.allow is None or _any_matches(config.allow, entry.owner, entry.id))
            and not _any_matches(config.block, entry.owner, entry.id)
        )
        self._watched: dict[str, tuple[Checker, Cursor]] = {}

    def begin(self, session: Session, *, strict: bool) -> None:
        """Read what a session has logged already; raise what is wrong with it if that is new."""
        header = session.header
        checker = Checker(
            header,
            contract=self._config.contract,
            source=SourceKind.LIVE,
            chosen=self._chosen,
            catalogue=self._catalogue,
            presets=self._config.presets,
            header_row=session.header_row,
        )
        cursor = Cursor(session)
        self._watched[session.id] = (checker, cursor)
        found: list[Finding] = []
        for entry in cursor.rest():
            self._freeze(session, entry)
            found += checker.observe(entry.event)
        self._report(session, found, strict=strict)

    def check(self, session: Session, entry: Entry) -> None:
        """Judge an event that has been appended."""
        watched = self._watched.get(session.id)
        if watched is None:
            return
        checker, cursor = watched
        found: list[Finding] = []
        for one in cursor.up_to(entry):
            event = session.event_of(one)
            self._freeze(session, one)
            found += checker.observe(event)
        if found:
            self._report(session, found, strict=True)

    def status(self, agent: Agent, status: str) -> None:
        """Judge what an agent says it is doing."""
        watched = self._watched.get(agent.session.id)
        if watched is not None:
            found = watched[0].observe_live(StatusChanged(agent.id, str(status)))
            self._report(agent.session, found, strict=True)

    def watches(self, session: object) -> bool:
        """Whether a session's contract is checked."""
        return getattr(session, "id", None) in self._watched

    def tell(self, session: Session, fact: ToolStage) -> None:
        """Judge a stage that the execution of a tool has come to."""
        if self._ctx.listens(TOOL_FACT):
            self._emit(TOOL_FACT, session, fact)
        watched = self._watched.get(session.id)
        if watched is not None:
            self._report(session, watched[0].observe_live(fact), strict=True)

    def mutated(self, session: Session, fact: ResultMutated) -> None:
        """Take in that somebody was kept from changing a result."""
        # As with history: the error of whoever tried must not be hidden.
        self._emit(TOOL_FACT, session, fact)
        watched = self._watched.get(session.id)
        if watched is not None:
            for finding in watched[0].observe_live(fact):
                self._emit(FINDING, session, finding)

    def forget(self, session: Session) -> None:
        """Forget a session."""
        self._watched.pop(session.id, None)

    def _freeze(self, session: Session, entry: Entry) -> None:
        if self._config.freeze:
            freeze(entry, partial(self._mutated, session))

    def _mutated(self, session: Session, seq: int, operation: str) -> None:
        fact = HistoryMutated(seq, operation)
        watched = self._watched.get(session.id)
        # Whoever tried gets an error of its own; what listeners raise must not hide it.
        self._emit(MUTATED, session, fact)
        if watched is not None:
            for finding in watched[0].observe_live(fact):
                self._emit(FINDING, session, finding)

    def _report(self, session: Session, found: Iterable[Finding], *, strict: bool) -> None:
        broken: Finding | None = None
        for finding in found:
            self._emit(FINDING, session, finding)
            if finding.severity is not Severity.ADVICE and broken is None:
                broken = finding
        if broken is None:
            return
        if strict:
            raise InvariantError(f"{broken.rule}: {broken.message}")
        _logger.warning("session %r: %s: %s", session.id, broken.rule, broken.message)

    def _emit(self, name: str, session: Session, thing: object) -> None:
        try:
            self._ctx.emit(name, session, thing)
        except RAISED as error:
            _logger.error("a listener of %r failed: %r", name, error)  # noqa: TRY400 - short


class _Pipeline:
    """The executions of tools: what they come to, and their results made unchangeable.

    In dsh_core an execution is announced once: ``tools/execute`` stands for the stage before it
    too, and what it returns is handed out. Plugins may announce the other stages.

    Args:
        ctx: The plugin's context.
        guard: Judges the stages.
        freeze: Whether results are made unchangeable.
    """

    def __init__(self, ctx: Context, guard: _Guard, *, freeze: bool) -> None:
        self._ctx = ctx
        self._guard = guard
        self._freeze = freeze
        self._around: Callable[[], object] | None = None
        # By identity, with the execution itself, which keeps the identity its own.
        self._numbers: dict[int, tuple[ToolExecution, int]] = {}
        self._count = 0

    def announced(self, _mode: str, name: str, args: tuple[Any, ...], _scope: object) -> None:
        """See what is about to be announced on the bus."""
        if name == TOOLS_EXECUTE:
            # Around all listeners that there are by now: what they do to a result is legal.
            if self._around is not None:
                self._around()
            self._around = self._ctx.on(TOOLS_EXECUTE, self._execute, prepend=True)
        elif name in _STAGES and args and isinstance(args[0], ToolExecution):
            self._other_stage(args[0], _STAGES[name], args[1:])

    async def _execute(self, execution: ToolExecution, following: Callable[[], Any]) -> Any:  # noqa: ANN401 - as tools/execute
        session = _session_of(execution)
        if not self._guard.watches(session):
            return await _settled(following())
        first = id(execution) not in self._numbers
        number = self._number(execution)
        try:
            if first:
                self._tell(session, number, execution, "pre-execute")
            self._tell(session, number, execution, "execute")
            result = self._sealed(session, await _settled(following()))
            if first:
                self._tell(session, number, execution, "result")
            return result
        finally:
            if first:
                self._numbers.pop(id(execution), None)

    def _other_stage(self, execution: ToolExecution, stage: str, more: tuple[Any, ...]) -> None:
        session = _session_of(execution)
        if not self._guard.watches(session):
            return
        number = self._number(execution)
        if stage == "result":
            del self._numbers[id(execution)]
            handed = more[0] if more and self._freeze else None
            self._tell(session, number, execution, stage, _changeable(handed))
            return
        if len(self._numbers) > MAX_ANNOUNCED:
            del self._numbers[next(iter(self._numbers))]
        self._tell(session, number, execution, stage)

    def _number(self, execution: ToolExecution) -> int:
        known = self._numbers.get(id(execution))
        if known is None:
            self._count += 1
            known = self._numbers[id(execution)] = (execution, self._count)
        return known[1]

    def _tell(
        self,
        session: Any,  # noqa: ANN401 - the agent's, of whatever kind the agent is
        number: int,
        execution: ToolExecution,
        stage: str,
        changeable: tuple[str, ...] = (),
    ) -> None:
        call_id, name = str(execution.call_id), str(execution.name)
        self._guard.tell(session, ToolStage(number, call_id, name, stage, changeable))

    def _sealed(self, session: Any, result: Any) -> Any:  # noqa: ANN401 - what listeners return
        """Return a result with content that cannot be changed."""
        content = result.content if type(result) is ToolExecutionResult else None
        if not self._freeze or type(content) is not list:
            return result
        call_id = str(result.call_id)

        def refused(_seq: int, operation: str) -> None:
            self._guard.mutated(session, ResultMutated(call_id, operation))

        try:
            return replace(result, content=_frozen(content, _Handed(call_id, refused)))
        except RecursionError:
            # What nests too deep for that cannot be logged either.
            return result


class _Handed(History):
    """A result that is handed out, as its frozen content knows it."""

    __slots__ = ("_call_id",)

    def __init__(self, call_id: str, on_change: Callable[[int, str], object]) -> None:
        super().__init__(-1, on_change)
        self._call_id = call_id

    def refuse(self, operation: str) -> NoReturn:
        """Keep somebody from changing the result.

        Raises:
            InvariantError: Always.
        """
        self._on_change(self.seq, operation)
        raise InvariantError(
            f"tools.result-not-frozen: {operation} on the result of call {self._call_id!r}"
        )


def _frozen(value: Any, handed: _Handed) -> Any:  # noqa: ANN401 - JSON values
    if type(value) is dict:
        return FrozenDict({key: _frozen(item, handed) for key, item in value.items()}, handed)
    if type(value) is list:
        return FrozenList([_frozen(item, handed) for item in value], handed)
    return value


def _changeable(result: object) -> tuple[str, ...]:
    """Return what can be changed of a result that a plugin hands out."""
    if result is None:
        return ()
    if not isinstance(result, ToolExecutionResult):
        return ("result",)
    return () if isinstance(result.content, FrozenList | tuple) else ("content",)


def _session_of(execution: ToolExecution) -> Any:  # noqa: ANN401 - the agent's, of whatever kind
    return getattr(getattr(execution, "agent", None), "session", None)


async def _settled(value: Any) -> Any:  # noqa: ANN401 - whatever a listener returns
    return await value if inspect.isawaitable(value) else value


def _any_matches(globs: Iterable[str], *names: str) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs for name in names)
