"""Server-sent events: from bytes, cut anywhere, to events."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LINE: Final = 8 * 1024 * 1024
"""Bytes that a line may have."""

MAX_DATA: Final = 16 * 1024 * 1024
"""Characters that the data of an event may have."""

MAX_LINES: Final = 256 * 1024
"""Lines that an event may have, with comments and blank lines before it."""

_BOM: Final = b"\xef\xbb\xbf"
_BREAK: Final = re.compile(rb"\r\n|\n|\r")


class SseError(ValueError):
    """The stream is beyond its bounds."""


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event.

    Attributes:
        event: Its type, ``message`` if the stream names none.
        data: Its data; lines are joined by newlines.
    """

    event: str
    data: str


class SseParser:
    """Reads a stream of server-sent events as it arrives.

    Bytes that are no UTF-8 are replaced. Ids and retry times are of no use here and left out. What
    follows the last blank line is no event: a stream that ends there was cut.

    Args:
        max_line: Bytes that a line may have.
        max_data: Characters that the data of an event may have.
        max_lines: Lines that an event may have, with comments and blank lines before it.
    """

    def __init__(
        self,
        *,
        max_line: int = MAX_LINE,
        max_data: int = MAX_DATA,
        max_lines: int = MAX_LINES,
    ) -> None:
        self._max_line = max_line
        self._max_data = max_data
        self._max_lines = max_lines
        self._lines_seen = 0
        self._rest = bytearray()
        # Where to go on looking for a line break, so that a long line is searched once.
        self._seen = 0
        self._at_start = True
        self._after_cr = False
        self._event = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[SseEvent]:
        """Take the next bytes.

        Args:
            data: Any number of them.

        Yields:
            The events that are complete now.

        Raises:
            SseError: A line or an event is too long, or an event has too many lines.
        """
        self._rest += data
        for line in self._lines():
            self._lines_seen += 1
            if self._lines_seen > self._max_lines:
                raise SseError(f"an event has more than {self._max_lines} lines")
            event = self._line(line)
            if event is not None:
                self._lines_seen = 0
                yield event

    def _lines(self) -> Iterator[bytes]:
        rest, start = self._rest, 0
        if self._at_start:
            if len(rest) < len(_BOM) and _BOM.startswith(rest):
                return
            start = len(_BOM) if rest.startswith(_BOM) else 0
            self._at_start = False
        if self._after_cr and rest:
            # The first half of this line break came with the last bytes.
            start += rest.startswith(b"\n")
            self._after_cr = False
        found = _BREAK.search(rest, max(start, self._seen))
        while found:
            self._check(found.start() - start)
            yield bytes(rest[start : found.start()])
            start = found.end()
            self._after_cr = found.group() == b"\r" and start == len(rest)
            found = _BREAK.search(rest, start)
        del rest[:start]
        self._seen = len(rest)
        self._check(len(rest))

    def _check(self, length: int) -> None:
        if length > self._max_line:
            raise SseError(f"a line of the stream is longer than {self._max_line} bytes")

    def _line(self, raw: bytes) -> SseEvent | None:
        if not raw:
            return self._dispatch()
        name, _, value = raw.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        # A comment has an empty name.
        if name == "event":
            self._event = value
        elif name == "data":
            self._size += len(value) + 1
            if self._size > self._max_data:
                raise SseError(f"an event is longer than {self._max_data} characters")
            self._data.append(value)
        return None

    def _dispatch(self) -> SseEvent | None:
        event = SseEvent(self._event or "message", "\n".join(self._data)) if self._data else None
        self._event, self._data, self._size = "", [], 0
        return event
