"""Sessions on disk: stored turn by turn, and brought back to life."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from dsh_core.events import SessionHeader
from dsh_core.logs.write import LogWriter, cut_log, header_row, log_path, session_folder
from dsh_core.session.closing import INTERRUPTED, closed, open_place
from dsh_core.session.entry import Entry
from dsh_core.session.lock import FolderLock, LockedError
from dsh_core.session.log_file import SUPPORTED, StoredError, read_entry, read_stored, read_tail

if TYPE_CHECKING:
    from dsh_core.context import Context
    from dsh_core.session.session import Session
    from dsh_core.session.store import SessionStore

__all__ = ["SUPPORTED", "Config", "StoredError", "apply", "inject", "name", "revive"]

_WHAT_TO_DO: Final = "revive it to go on with it, or use another id or another root"
_LOG: Final = re.compile(r"session(\.v\d+)?\.jsonl(\.zstd?)?")

_logger: Final = logging.getLogger("dsh_core")


class Config(BaseModel):
    """Where sessions are stored.

    Attributes:
        root: The folder of all sessions.
        compress: Whether to write zstd, as the runtime does.
        write_behind_s: How long an event may wait to be written, in seconds; 0 for until its turn
            has ended.
    """

    model_config = ConfigDict(extra="forbid", strict=False)

    root: Path
    compress: bool = True
    write_behind_s: float = Field(default=0.2, ge=0, le=3600)


UNREADABLE: Final = "plugin:dsh-core/unreadable"
"""Stored in place of an event that somebody has made unwritable; other readers may skip it."""

name = "session-store-jsonl"
inject = ("sessions",)


def apply(ctx: Context, config: Config) -> None:
    """Store every live session; a plugin (``ctx.plugin(dsh_core.session.stored, …)``).

    A session's events are written a moment after they are logged (`Config.write_behind_s`), when it
    is flushed, after each turn, and when its life or the plugin's ends; a turn that is open when
    the plugin's ends is written when the session's does. What was stored before is continued.
    Nobody else can write to the session until its life ends: it keeps the lock of its folder even
    if the plugin is unloaded.

    A flush raises `OSError` if it cannot write; the next one writes what is missing.

    Args:
        ctx: The plugin's context.
        config: Where sessions are stored.

    Raises:
        OSError: The folder of a session cannot be written; raised by whoever creates a session
            later on, too.
        StoredError: A session cannot be stored: what is in its place belongs to another one, is
            damaged or in use. Raised by whoever creates a session later on, too.
    """
    keeper = _Keeper(config)
    ctx.effect(lambda: keeper.end)
    ctx.on("session/created", keeper.begin)
    ctx.on("session/flush", keeper.flush)
    if config.write_behind_s:
        ctx.on("session/event", keeper.note)
    for session in ctx.sessions.list():
        keeper.begin(session)


class _Keeper:
    """What one plugin stores."""

    def __init__(self, config: Config) -> None:
        self._root = config.root.resolve()
        self._compress = config.compress
        self._files: dict[Session, _File] = {}
        self._delay_s = config.write_behind_s
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: set[Session] = set()
        self._complained = False

    def begin(self, session: Session) -> None:
        version = session.header.version
        if version != SUPPORTED:
            raise StoredError(
                f'session "{session.id}" is of {session.header.format}, '
                f"only v{SUPPORTED} can be stored"
            )
        try:
            folder = session_folder(self._root, session.header)
        except ValueError as error:
            raise StoredError(str(error)) from None
        key = f"{name} {folder}"
        file = session.kept.get(key)
        if file is None:
            file = session.kept[key] = _File(session, folder, compress=self._compress)
        file.use(self._files, compress=self._compress)
        self._soon(session)

    def flush(self, session: Session) -> None:
        file = self._files.get(session)
        if file is not None:
            file.flush()

    def note(self, session: Session, _entry: Entry) -> None:
        if session in self._files:
            self._soon(session)

    def _soon(self, session: Session) -> None:
        """Write what a session has logged a moment from now, together with others."""
        self._waiting.add(session)
        if self._timer is None and self._delay_s:
            # Without a running loop it is written with the next flush.
            with suppress(RuntimeError):
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(self._delay_s, self._write_behind)

    def _write_behind(self) -> None:
        self._timer = None
        sessions, self._waiting = self._waiting, set()
        for session in sessions:
            try:
                self.flush(session)
            except Exception as error:  # noqa: BLE001 - tried again, and the next flush raises
                self._soon(session)
                if not self._complained:
                    self._complained = True
                    _logger.warning("session %r cannot be written now: %r", session.id, error)
            else:
                self._complained = False

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for file in tuple(self._files.values()):
            file.leave()


class _File:
    """A session's file; kept by the session for its whole life, and used by one plugin at a time.

    Args:
        session: The session.
        folder: Its folder.
        compress: Whether to write zstd.

    Raises:
        OSError: The folder cannot be written.
        StoredError: What is there cannot be continued.
    """

    def __init__(self, session: Session, folder: Path, *, compress: bool) -> None:
        self._session = session
        self._compress = compress
        self._users: dict[Session, _File] | None = None
        self._in_turn = False
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = FolderLock(folder)
        except LockedError:
            raise _in_use(session, folder) from None
        try:
            self._folder = folder
            self._written = _continue(session, folder, compress=compress)
            self._writer = LogWriter(folder, session.header, compress=compress)
        except BaseException as error:
            self._lock.close()
            if isinstance(error, UnicodeEncodeError):
                raise StoredError(
                    f'the header of session "{session.id!r}" is no text: {error}'
                ) from None
            raise

    def use(self, users: dict[Session, _File], *, compress: bool) -> None:
        """Let a plugin use it.

        Args:
            users: The plugin's files; this one is in there until the plugin leaves it.
            compress: What the plugin wants.

        Raises:
            StoredError: Another plugin uses it, or this one wants to write in another way.
        """
        if self._users is not None:
            raise _in_use(self._session, self._folder)
        if compress != self._compress:
            raise _other_way(self._writer.path)
        self._users = users
        self._in_turn = False
        users[self._session] = self

    def flush(self, end: int | None = None) -> None:
        """Write what is not written yet.

        Args:
            end: Seq of the first event that is not to be written; all are by default.

        Raises:
            OSError: It cannot be written; the next call tries again.
        """
        events = self._session.events[self._written : end]
        if events:
            self._writer.write([_writable(entry) for entry in events])
            self._written += len(events)

    def leave(self) -> None:
        """End the use by a plugin: write the rest."""
        if self._users is not None:
            self._flush_last()
            self._in_turn = open_place(self._session.events)[0] is not None
            self._forget()

    def close(self) -> None:
        """End it, with the session's life: write the rest, and let others write."""
        if self._users is None and self._in_turn:
            # A program ends all plugins at once: agents close their turns when this one is gone.
            self._flush_last(self._end_of_turn())
        self.leave()
        self._lock.close()

    def _end_of_turn(self) -> int:
        log = self._session.events
        places = range(self._written, len(log))
        return next((place + 1 for place in places if log[place].type == "turn/end"), len(log))

    def _flush_last(self, end: int | None = None) -> None:
        try:
            self.flush(end)
        except Exception as error:  # noqa: BLE001 - nobody could do anything about it
            _logger.error("session %r: its last events are lost: %r", self._session.id, error)  # noqa: TRY400 - short

    def abandon(self) -> None:
        """End it, with a session that never came to life: write nothing."""
        self._forget()
        self._lock.close()

    def _forget(self) -> None:
        if self._users is not None:
            self._users.pop(self._session, None)
            self._users = None


def _continue(session: Session, folder: Path, *, compress: bool) -> int:
    """Look at what is there, mend it, and return how many of the session's events it has."""
    path = log_path(folder, compress=compress)
    _require_alone(path, other_way=log_path(folder, compress=not compress))
    if not path.exists():
        return 0
    tail = read_tail(path)
    if tail.header is not None and tail.header.get("id") != session.id:
        raise _other_history(path, f"it is of session {tail.header.get('id')!r:.80}")
    if tail.header is not None and tail.header.get("version") != SUPPORTED:
        raise StoredError(f"{path}: its header is not of v{SUPPORTED}; {_WHAT_TO_DO}")
    if tail.events > session.seq:
        raise _other_history(path, f"it has {tail.events} events, the session {session.seq}")
    if tail.events and not _is_same(tail.last, session.events[tail.events - 1].row):
        raise _other_history(path, f"its event of seq {tail.events - 1} is another one")
    end = tail.end
    if not tail.events and tail.header != _plain(session.header):
        # Nothing was ever logged there, by a session that was created at another time, say.
        end = 0
    if end < tail.size:
        cut_log(path, end)
    return tail.events


def _require_alone(path: Path, *, other_way: Path) -> None:
    """Refuse to write a log beside others of the same session."""
    folder = path.parent
    for flat in (f"{folder.name}.jsonl", f"{folder.name}.jsonl.zstd"):
        if (folder.parent / flat).exists():
            raise StoredError(f"{folder.parent / flat}: the session has a log there already")
    for other in sorted(folder.iterdir()):
        if other == other_way:
            raise _other_way(other)
        if other != path and _LOG.fullmatch(other.name):
            raise StoredError(f"{other}: a log of another generation lies there; {_WHAT_TO_DO}")


def _plain(header: SessionHeader) -> dict[str, object]:
    row: dict[str, object] = msgspec.json.decode(msgspec.json.encode(header_row(header)))
    return row


def _is_same(stored: bytes, row: bytes) -> bool:
    if stored == row:
        return True
    try:
        # Another writer may put spaces or escapes where there are none here.
        return read_entry(stored).row == row
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def _other_history(path: Path, why: str) -> StoredError:
    return StoredError(f"{path} belongs to another history: {why}; {_WHAT_TO_DO}")


def _other_way(path: Path) -> StoredError:
    how = "with" if path.suffix != ".jsonl" else "without"
    return StoredError(
        f"{path} is written {how} compression: set `compress` accordingly, or use another root"
    )


def _in_use(session: Session, folder: Path) -> StoredError:
    return StoredError(f'session "{session.id}" is already owned by another writer: {folder}')


def revive(sessions: SessionStore, path: str | Path, *, ctx: Context | None = None) -> Session:
    """Bring a stored session back to life; a turn that its end has left open is closed.

    Args:
        sessions: The store that it lives in.
        path: Its log, plain or zstd, or its folder.
        ctx: The context that it lives in; the store's own by default.

    Returns:
        The session, with a mark where it goes on.

    Raises:
        OSError: The log cannot be read.
        StoredError: It is damaged or of an older generation; the message says what to do.
        ValueError: A session of this id lives.
    """
    header, entries = read_stored(_log_in(Path(path)))
    fields = {field: getattr(header, field) for field in SessionHeader.__struct_fields__}
    fields.pop("id")
    session = sessions.create(header.id, closed(entries, INTERRUPTED), ctx=ctx, **fields)
    try:
        session.append("session/end-seed", {})
    except BaseException:
        # Nobody gets to hold it, so nobody could end it.
        sessions.close(session)
        raise
    return session


def _writable(entry: Entry) -> Entry:
    """Return an event that can be written: itself, or that it cannot."""
    try:
        _ = entry.row
    except Exception:  # noqa: BLE001 - whatever somebody has put in there
        _logger.error(  # noqa: TRY400 - short
            "event %d was changed after it was logged and is no plain JSON any more: "
            "it is stored without its payload",
            entry.seq,
        )
        return Entry(UNREADABLE, entry.seq, entry.time, {"type": entry.type}, ignorable=True)
    return entry


def _log_in(path: Path) -> Path:
    """Return the log in a session's folder; a path of anything else as it is."""
    if not path.is_dir():
        return path
    logs = [log_path(path, compress=compress) for compress in (True, False)]
    found = [log for log in logs if log.exists()]
    if not found:
        raise StoredError(f"{path}: no {logs[0].name} or {logs[1].name} in there")
    return found[0]
