"""One session: its log, and appending to it."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, overload

from msgspec import UNSET

from dsh_core.events import SessionHeader
from dsh_core.logs.write import header_row
from dsh_core.session.entry import Entry
from dsh_core.session.lossless import DataError, require_lossless
from dsh_core.session.messages import derive_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dsh_core.events import SessionEvent

    Hook = Callable[["Session", Entry], None]

_logger: Final = logging.getLogger("dsh_core")

VERSION: Final = 4
"""Generation of the events that live sessions consist of."""

MAX_TYPE: Final = 256
"""Longest type of an event, in characters."""

MAX_SOURCES: Final = 1 << 18
"""How many other events an event may cite: the line must be one that readers still read whole."""


def now_ms() -> int:
    """Return the time: Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


class Session:
    """An append-only log of events.

    Args:
        id: The session's id.
        seed: Entries that the log begins with; copied as a list, not one by one.
        header: What else a log file says of the session; of the current generation by default.
        clock: Returns Unix time in milliseconds.

    Attributes:
        header: The session's header.
        closed: Whether its life in a store is over: what is appended then is told to nobody.
        kept: What plugins keep for the session's whole life, by plugin: it outlives the plugin, so
            that one that is loaded again finds it. What has a method ``close`` is closed with the
            session; what has ``abandon`` too is abandoned instead if the session is refused when
            it is created.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 - the name of it
        seed: Iterable[Entry] = (),
        *,
        header: SessionHeader | None = None,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self.header = header or SessionHeader(id=id, version=VERSION, created_at=clock())
        self._log: list[Entry] = list(seed)
        self._view = _View(self._log)
        self._clock = clock
        self._hook: Hook | None = None
        self.closed = False
        self._warned = False
        self.kept: dict[str, Any] = {}
        self._last: tuple[Entry, SessionEvent] | None = None

    def now(self) -> int:
        """Return the time as the log sees it: Unix time in milliseconds."""
        return self._clock()

    @property
    def id(self) -> str:
        """The session's id."""
        return self.header.id

    @property
    def header_row(self) -> dict[str, Any] | None:
        """The header as a log's first row, None for a session of June, which has none."""
        return None if self.header.version is None else header_row(self.header)

    @property
    def events(self) -> Sequence[Entry]:
        """A view of the log: it grows, and cannot be changed."""
        return self._view

    @property
    def seq(self) -> int:
        """The seq that the next event gets: the length of the log."""
        return len(self._log)

    def append(
        self,
        type: str,  # noqa: A002 - the name of it
        data: Any,  # noqa: ANN401 - plain JSON; checked
        *,
        surface_op: str | Mapping[str, Any] | None = None,
        source_event_seqs: Sequence[int] | None = None,
        ignorable: bool = False,
    ) -> Entry:
        """Add an event, and then tell everybody.

        Args:
            type: Its type.
            data: Its payload, plain JSON; it is kept, not copied.
            surface_op: ``append``, or what it replaces, for a message to the model.
            source_event_seqs: Seqs of the events that it comes from.
            ignorable: Whether a reader that does not know the type may skip it.

        Returns:
            The event, which is in the log by now.

        Raises:
            DataError: JSON cannot carry the event; nothing is logged.
            Exception: What a listener raises; the event stays in the log.
        """
        sources = None if source_event_seqs is None else list(source_event_seqs)
        _require_envelope(type, surface_op, sources)
        if not isinstance(data, dict):
            raise DataError("data", "is no mapping")
        require_lossless(data)
        entry = Entry(
            type,
            len(self._log),
            self._clock(),
            data,
            UNSET if sources is None else [*sources],
            UNSET if surface_op is None else surface_op,
            True if ignorable else UNSET,
        )
        self._log.append(entry)
        if self._hook is not None:
            self._hook(self, entry)
        elif self.closed and not self._warned:
            self._warned = True
            _logger.warning(
                "session %r is closed: what is appended now is neither told nor stored", self.id
            )
        return entry

    def holds(self, entry: Entry) -> bool:
        """Whether an entry is the one that the log has in its place."""
        seq, log = entry.seq, self._log
        return 0 <= seq < len(log) and log[seq] is entry

    def event_of(self, entry: Entry) -> SessionEvent:
        """Return an entry as checks and traces read it; the newest one is read once for all."""
        last = self._last
        if last is None or last[0] is not entry:
            last = self._last = (entry, entry.event)
        return last[1]

    def derive_messages(self) -> list[dict[str, Any]]:
        """Return the messages that the log stands for, as copies."""
        return derive_messages(self._log)

    def attach(self, hook: Hook | None) -> None:
        """Have every appended event shown to somebody, or nobody; used by the store."""
        self._hook = hook


def _require_envelope(kind: object, surface_op: object, sources: list[int] | None) -> None:
    """Refuse an event that cannot be written, whatever its payload."""
    if not isinstance(kind, str) or not 0 < len(kind) <= MAX_TYPE:
        raise DataError("type", f"is no text of 1 to {MAX_TYPE} characters")
    if not kind.isascii():
        require_lossless(kind, "type")
    if surface_op is not None:
        require_lossless(surface_op, "surfaceOp")
    if sources is not None:
        if len(sources) > MAX_SOURCES:
            raise DataError("sourceEventSeqs", f"has more than {MAX_SOURCES} items")
        require_lossless(sources, "sourceEventSeqs")


class _View(Sequence[Entry]):
    """What others see of a log."""

    __slots__ = ("_log",)

    def __init__(self, log: list[Entry]) -> None:
        self._log = log

    @overload
    def __getitem__(self, place: int) -> Entry: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Entry]: ...

    def __getitem__(self, place: int | slice) -> Entry | Sequence[Entry]:
        """Return an entry, or a copy of several."""
        return self._log[place]

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._log)
