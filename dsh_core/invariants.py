"""The contract, enforced while an agent is developed: a plugin that raises.

It only listens. Without it nothing is checked and nothing is frozen, and nothing costs anything.
"""

from __future__ import annotations

import logging
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from dsh_core.abort import RAISED
from dsh_core.contract.catalogue import CATALOGUE
from dsh_core.contract.checker import Checker
from dsh_core.contract.findings import Severity
from dsh_core.contract.live import HistoryMutated, StatusChanged
from dsh_core.contract.run import SourceKind
from dsh_core.errors import InvariantError
from dsh_core.events import Contract
from dsh_core.session.follow import Cursor
from dsh_core.session.frozen import freeze

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dsh_core.agent import Agent
    from dsh_core.context import Context
    from dsh_core.contract.findings import Finding
    from dsh_core.session import Entry, Session

FINDING: Final = "invariants/finding"
"""Emitted with (session, finding) for everything that is found, before anything is raised."""

MUTATED: Final = "session/history-mutated"
"""Emitted with (session, `HistoryMutated`) when somebody was kept from changing history."""

_logger: Final = logging.getLogger("dsh_core")


class Config(BaseModel):
    """What is enforced.

    Attributes:
        enabled: Whether anything is.
        freeze: Whether logged events are made unchangeable.
        contract: What sessions are held to; the contract of their generation by default.
        allow: Owners whose rules apply, as globs; all by default.
        block: Owners whose rules do not, as globs.
    """

    model_config = ConfigDict(extra="forbid")

    enabled: bool = True
    freeze: bool = True
    contract: Contract | None = None
    allow: tuple[str, ...] | None = None
    block: tuple[str, ...] = ()


name = "invariants"
inject = ("sessions",)


def apply(ctx: Context, config: Config) -> None:
    """Check every session that lives, and raise where it breaks the contract.

    A violation is raised as `InvariantError` out of ``session/event`` and ``agent/status``, and so
    reaches whoever appended the event or changed the status. Sessions that exist already, and what
    a session begins with, are read first, so that what follows is judged in its place.

    Args:
        ctx: The plugin's context.
        config: What is enforced.
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


class _Guard:
    """The checkers of the sessions that live."""

    def __init__(self, ctx: Context, config: Config) -> None:
        self._ctx = ctx
        self._config = config
        self._chosen = frozenset(
            entry.id
            for entry in CATALOGUE.entries.values()
            if (config.allow is None or _any_matches(config.allow, entry.owner))
            and not _any_matches(config.block, entry.owner)
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


def _any_matches(globs: Iterable[str], owner: str) -> bool:
    return any(fnmatchcase(owner, glob) for glob in globs)
