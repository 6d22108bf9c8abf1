"""The live sessions of a program."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from dsh_core.context import Service
from dsh_core.events import SessionHeader
from dsh_core.session.closing import forked
from dsh_core.session.session import VERSION, Session, now_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dsh_core.context import Context, Disposer
    from dsh_core.session.entry import Entry

_logger: Final = logging.getLogger("dsh_core")


class SessionStore(Service):
    """The service ``sessions``: creates sessions, and finds them again.

    Emits ``session/created`` with the session, and ``session/event`` with session and entry for
    each event that is appended, ``session/closed`` with the session at its end. Whoever drives a
    session calls ``session/flush`` (`parallel`) after each turn.

    Args:
        ctx: The context that it lives in.
        config: Not used: the store has nothing to configure.
        clock: Returns Unix time in milliseconds.
    """

    def __init__(
        self, ctx: Context, config: object = None, *, clock: Callable[[], int] = now_ms
    ) -> None:
        del config
        super().__init__(ctx, "sessions")
        self._clock = clock
        self._live: dict[str, tuple[Session, Disposer]] = {}
        self._count = 0

    def create(
        self,
        id: str | None = None,  # noqa: A002 - the name of it
        seed: Iterable[Entry] = (),
        *,
        ctx: Context | None = None,
        **header: Any,  # noqa: ANN401 - fields of the header
    ) -> Session:
        """Create a session; it lives as long as a context.

        Args:
            id: Its id; ``session-1``, ``session-2`` … by default.
            seed: Entries that its log begins with; nobody is told of them one by one.
            ctx: The context; the store's own by default.
            header: Further fields of its `SessionHeader`.

        Raises:
            ValueError: A session of this id lives.
        """
        if id is None:
            id = self._next_id()  # noqa: A001 - as above
        if id in self._live:
            raise ValueError(f'session "{id}" already exists')
        header.setdefault("version", VERSION)
        header.setdefault("created_at", self._clock())
        session = Session(id, seed, header=SessionHeader(id=id, **header), clock=self._clock)
        session.attach(self._emit)
        live: Context = self.ctx if ctx is None else ctx
        disposer = live.effect(lambda: lambda: self._forget(session), f"session {id} of")
        self._live[id] = (session, disposer)
        try:
            self.ctx.emit("session/created", session)
        except BaseException:
            # Nobody gets to hold it, so nobody could end it.
            _let_go(session, "abandon", "close")
            disposer()
            raise
        return session

    def _next_id(self) -> str:
        while True:
            self._count += 1
            if (id_ := f"session-{self._count}") not in self._live:
                return id_

    def fork(
        self,
        parent: Session,
        id: str | None = None,  # noqa: A002 - as above
        *,
        ctx: Context | None = None,
    ) -> Session:
        """Create a session that begins with all that another has logged.

        A turn that is open in the parent is closed in the copy, as ``forked``.

        Args:
            parent: The other session.
            id: Its id, see `create`.
            ctx: The context that it lives in, see `create`.
        """
        return self.create(
            id,
            forked(parent, self._clock()),
            ctx=ctx,
            cwd=parent.header.cwd,
            parent_session=parent.id,
            is_seeded=True,
            delegation_depth=parent.header.delegation_depth,
        )

    def get(self, id: str) -> Session | None:  # noqa: A002 - the name of it
        """Return a live session, None if there is none of this id."""
        found = self._live.get(id)
        return None if found is None else found[0]

    def list(self) -> Sequence[Session]:
        """Return the live sessions in the order of their creation."""
        return [session for session, _ in self._live.values()]

    def close(self, session: Session) -> None:
        """End a session's life here; its log stays as it is."""
        found = self._live.get(session.id)
        if found is not None and found[0] is session:
            found[1]()

    def _emit(self, session: Session, entry: Entry) -> None:
        self.ctx.emit("session/event", session, entry)

    def _forget(self, session: Session) -> None:
        session.attach(None)
        session.closed = True
        self._live.pop(session.id, None)
        try:
            self.ctx.emit("session/closed", session)
        finally:
            _let_go(session, "close")


def _let_go(session: Session, *ways: str) -> None:
    """End all that plugins keep for a session; each thing in the first way that it has."""
    kept, session.kept = session.kept, {}
    for thing in kept.values():
        way = next((way for name in ways if callable(way := getattr(thing, name, None))), None)
        if way is None:
            continue
        try:
            way()
        except Exception as error:  # noqa: BLE001 - the others must be ended too
            _logger.error("session %r: %r", session.id, error)  # noqa: TRY400 - short
