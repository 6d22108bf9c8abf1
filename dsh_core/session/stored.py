"""Sessions on disk: stored turn by turn, and brought back to life."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pydantic import BaseModel, ConfigDict

from dsh_core.events import SessionHeader
from dsh_core.logs.find import LogFile
from dsh_core.logs.frames import BadFrame, read_blocks
from dsh_core.logs.lines import Lines, read_lines
from dsh_core.logs.reader import Batch, SessionLog
from dsh_core.logs.write import LogWriter, session_folder
from dsh_core.session.closing import INTERRUPTED, closed
from dsh_core.session.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_core.context import Context
    from dsh_core.session.session import Session
    from dsh_core.session.store import SessionStore

SUPPORTED: Final = 4
"""The generation that can be brought back to life; older ones can be read and checked only."""

_logger: Final = logging.getLogger("dsh_core")


class StoredError(ValueError):
    """A stored session cannot be brought back to life."""


class Config(BaseModel):
    """Where sessions are stored.

    Attributes:
        root: The folder of all sessions.
        compress: Whether to write zstd, as the runtime does.
    """

    model_config = ConfigDict(extra="forbid", strict=False)

    root: Path
    compress: bool = True


name = "session-store-jsonl"
inject = ("sessions",)


def apply(ctx: Context, config: Config) -> None:
    """Store every live session; a plugin (``ctx.plugin(dsh_core.session.stored, …)``).

    A session's events are written when it is flushed, after each turn, and when its life or the
    plugin's ends. What was stored before is continued.
    """
    keeper = _Keeper(config)
    for session in ctx.sessions.list():
        keeper.begin(session)
    ctx.on("session/created", keeper.begin)
    ctx.on("session/flush", keeper.flush)
    ctx.on("session/closed", keeper.end)
    ctx.effect(lambda: keeper.end_all)


class _Keeper:
    """The writers of the sessions that live."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._writers: dict[str, tuple[Session, LogWriter, int]] = {}

    def begin(self, session: Session) -> None:
        folder = session_folder(self._config.root, session.header)
        writer = LogWriter(folder, session.header, compress=self._config.compress)
        # What the file has already is not written again.
        known = len(_rows(writer.path)[1]) if session.seq else 0
        self._writers[session.id] = (session, writer, known)

    def flush(self, session: Session) -> None:
        found = self._writers.get(session.id)
        if found is None or found[0] is not session:
            return
        _, writer, written = found
        events = session.events[written:]
        writer.write(events)
        self._writers[session.id] = (session, writer, written + len(events))

    def end(self, session: Session) -> None:
        try:
            self.flush(session)
        except OSError as error:
            _logger.error("session %r: its last events are lost: %s", session.id, error)  # noqa: TRY400
        self._writers.pop(session.id, None)

    def end_all(self) -> None:
        for session, *_ in tuple(self._writers.values()):
            self.end(session)


def revive(sessions: SessionStore, path: str | Path, *, ctx: Context | None = None) -> Session:
    """Bring a stored session back to life; a turn that its end has left open is closed.

    Args:
        sessions: The store that it lives in.
        path: Its log, plain or zstd.
        ctx: The context that it lives in; the store's own by default.

    Returns:
        The session, with a mark where it goes on.

    Raises:
        OSError: The log cannot be read.
        StoredError: It is damaged or of an older generation; the message says what to do.
        ValueError: A session of this id lives.
    """
    header, rows = _read(Path(path))
    seed = closed([_entry(row) for row in rows], INTERRUPTED)
    fields = {name: getattr(header, name) for name in SessionHeader.__struct_fields__}
    fields.pop("id")
    session = sessions.create(header.id, seed, ctx=ctx, **fields)
    session.append("session/end-seed", {})
    return session


def _read(path: Path) -> tuple[SessionHeader, Sequence[dict[str, Any]]]:
    faults = []
    with LogFile(str(path)).open() as source:
        log = SessionLog(source, str(path))
        if log.header.version != SUPPORTED:
            raise StoredError(
                f"{path}: a log of {log.header.format}, only v{SUPPORTED} can be continued; "
                "`dsh-otel check` and `export` read it"
            )
        faults = [item for item in log.read() if not isinstance(item, Batch)]
    lost = [fault for fault in faults if fault.rule != "line.torn-tail"]
    if lost:
        raise StoredError(
            f"{path}:{lost[0].line}: {lost[0].message}; `dsh-otel check` names all that is wrong"
        )
    return log.header, _rows(path)[1]


def _rows(path: Path) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """Return the header row and the events of a log, as far as they are whole."""
    rows: list[dict[str, Any]] = []
    with LogFile(str(path)).open() as source:
        for item in read_lines(read_blocks(source)):
            if isinstance(item, BadFrame) or not isinstance(item, Lines):
                break
            rows += [msgspec.json.decode(line) for line in item.data.splitlines() if line.strip()]
    if rows and rows[0].get("type") == "session":
        return rows[0], rows[1:]
    return None, rows


def _entry(row: dict[str, Any]) -> Entry:
    try:
        return msgspec.convert(row, Entry)
    except msgspec.ValidationError as error:
        raise StoredError(f"seq {row.get('seq')}: no event: {error}") from None
