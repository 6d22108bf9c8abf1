"""Files of stream sources: recorded notifications and OTLP logs, told by what they hold."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dsh_core.faults import Fault, counted
from dsh_core.logs.notifications import told_by_notification
from dsh_core.logs.ordering import Ordering
from dsh_core.logs.otlp_json import told_by_request
from dsh_core.logs.reader import Batch, SessionLog, UnsupportedFormatError
from dsh_core.logs.salvage import BOM, SPACE
from dsh_core.logs.told import Aside, Told, decoded, guess_version
from dsh_core.logs.unmarked import Surfacing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dsh_core.events import SessionHeader
    from dsh_core.logs.frames import ByteSource

LOOKED_AT: Final = 512
"""How many bytes tell what a file is."""

MAX_FILE: Final = 1 << 30
"""Largest file of this kind, in bytes: it is read whole."""

# No event begins with any of these, and no list of them is a log.
_BEGINS: Final = re.compile(
    rb'\s*+(?:\[\s*+)?\{\s*+"(?:resourceLogs|method|jsonrpc|payload|params)"\s*+:'
)
_LIST: Final = re.compile(rb"\s*+\[")


class Ahead:
    """A source of which the first bytes were looked at.

    Args:
        source: The source, at its beginning.

    Attributes:
        head: Its first bytes.
    """

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self.head = source.read(LOOKED_AT)
        self._rest = self.head

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, empty at the end."""
        if self._rest:
            data, self._rest = self._rest[:size], self._rest[size:]
            return data
        return self._source.read(size)


def is_stream_file(head: bytes) -> bool:
    """Whether a file holds notifications or OTLP logs, by its first bytes."""
    return _BEGINS.match(head.removeprefix(BOM)) is not None


@dataclass(slots=True)
class ToldSession:
    """What a file tells of one session.

    Attributes:
        header: Its header, as far as the file says.
        told: Its events, in their order.
        header_row: None: a stream has no header row.
        header_line: 0, for the same reason.
    """

    header: SessionHeader
    told: list[Told] = field(default_factory=list)
    header_row: None = None
    header_line: int = 0

    def read(self) -> Iterator[Batch | Fault]:
        """Return events and faults, as a log does."""
        surfacing = Surfacing()
        for told in self.told:
            if told.bare:
                told = replace(told, event=surfacing.mark(told.event))  # noqa: PLW2901 - the same one
            event, faults = decoded(told, self.header.version)
            yield from faults
            if event is not None:
                yield Batch((event,), (told.line,))


class StreamFile:
    """A file of a stream source, read whole.

    Args:
        source: Its bytes.

    Attributes:
        sessions: The sessions that it tells of, in the order in which they appear.
        events: Number of events that it tells.
        asides: What else it holds, by kind.
        problem: What of it cannot be read, in one clause; empty if all can.

    Raises:
        UnsupportedFormatError: Nothing of it can be read.
    """

    def __init__(self, source: ByteSource) -> None:
        self.asides: Counter[str] = Counter()
        self.problem = ""
        self._sessions: dict[str, ToldSession] = {}
        self._parents: dict[str, str] = {}
        self._refused: list[Fault] = []
        self._ordered: dict[str, Ordering] = {}
        for value, line in _documents(_whole(source)):
            if isinstance(value, Fault):
                self._refused.append(value)
                continue
            for found in _told_by(value):
                self._take(found, line)
        for id_, ordering in self._ordered.items():
            self._sessions[id_].told += ordering.release()
        self._complete()
        self.sessions = tuple(self._sessions.values())
        self.events = sum(len(session.told) for session in self.sessions)
        if not self.sessions:
            raise UnsupportedFormatError(
                self._refused[0].message if self._refused else "no session event in it"
            )
        if self._refused:
            first = self._refused[0]
            place = f"line {first.line}: " if first.line else ""
            self.problem = (
                f"{counted(len(self._refused), 'part')} of it cannot be read; "
                f"the first: {place}{first.message}"
            )

    def _take(self, found: Told | Aside | Fault, line: int) -> None:
        if isinstance(found, Fault):
            self._refused.append(replace(found, line=line))
        elif isinstance(found, Aside):
            self.asides[found.kind] += 1
            if found.parent:
                self._parents[found.session] = found.parent
        else:
            session = self._sessions.get(found.header.id)
            if session is None:
                session = self._sessions[found.header.id] = ToldSession(found.header)
            found = replace(found, line=line)
            if not found.shuffled:
                session.told.append(found)
                return
            ordering = self._ordered.get(found.header.id)
            if ordering is None:
                ordering = self._ordered[found.header.id] = Ordering(self.asides)
            session.told += ordering.take(found, 0)

    def _complete(self) -> None:
        """Say in the headers what only the file as a whole tells."""
        for id_, session in self._sessions.items():
            header = session.header
            version = header.version
            if version is None:
                version = guess_version(told.event for told in session.told)
            session.header = msgspec.structs.replace(
                header,
                version=version,
                parent_session=header.parent_session or self._parents.get(id_, ""),
            )


def sessions_in(source: ByteSource, name: str) -> tuple[Sequence[SessionLog | ToldSession], str]:
    """Return the sessions that a file holds: one if it is a log, several if it is of a stream.

    Args:
        source: Its bytes.
        name: Its path or other name.

    Returns:
        The sessions, and what of the file cannot be read at all; of a log, its session tells.

    Raises:
        UnsupportedFormatError: Nothing of it can be read.
    """
    ahead = Ahead(source)
    if not is_stream_file(ahead.head):
        return (SessionLog(ahead, name),), ""
    file = StreamFile(ahead)
    return file.sessions, file.problem


def _whole(source: ByteSource) -> bytes:
    parts, size = [], 0
    while part := source.read(1 << 20):
        parts.append(part)
        size += len(part)
        if size > MAX_FILE:
            raise UnsupportedFormatError("a recording of more than 1 GiB, which is read whole")
    return b"".join(parts)


def _documents(data: bytes) -> Iterator[tuple[Any, int]]:
    """Return the JSON values of a file, each with its line: those of a list, or one a line."""
    data = data.removeprefix(BOM)
    if _LIST.match(data):
        values = _decode(data)
        for value in values if isinstance(values, list) else [values]:
            yield value, 0
        return
    lines = data.split(b"\n")
    first = next((line for line in lines if line.strip(SPACE)), b"")
    if isinstance(_decode(first), Fault):
        # One document over many lines, or nothing at all.
        yield _decode(data), 0
        return
    for number, line in enumerate(lines, 1):
        if line.strip(SPACE):
            value = _decode(line)
            yield (replace(value, line=number) if isinstance(value, Fault) else value), number


def _decode(data: bytes) -> Any:  # noqa: ANN401 - a JSON value
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        return Fault("line.too-deep", "nested too deeply to be read")
    except (msgspec.MsgspecError, UnicodeError) as error:
        return Fault("line.not-json", f"not JSON: {error}")


def _told_by(value: Any) -> Iterator[Told | Aside | Fault]:  # noqa: ANN401 - as above
    if isinstance(value, dict) and "resourceLogs" in value:
        yield from told_by_request(value)
    else:
        yield told_by_notification(value)
