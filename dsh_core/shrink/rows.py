"""The lines of a log, read as far as it takes to number them anew."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from dsh_core.decode import PACKED_ROWS, PackedRow, strict_decoder
from dsh_core.logs import packed
from dsh_core.logs.lines import HEAD, MAX_LINE
from dsh_core.logs.salvage import BOM, SPACE, too_deep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_core.events import AssistantChunk

_BOUNDARY: Final = re.compile(rb'\s*\{\s*"type"\s*:\s*"((?:turn|step)/(?:start|end))"')
ENVELOPE: Final = re.compile(
    rb'(\{\s*"type"\s*:\s*"[^"\\]*"\s*,\s*"seq0?"\s*:\s*)(-?\d{1,19})(?=\s*,)'
)
"""The beginning of an event in a line that is no JSON; the number is its seq."""

PLACE: Final = re.compile(rb'("turn"\s*:\s*)(\d{1,19})\b(?:(\s*,\s*"step"\s*:\s*)(\d{1,19})\b)?')
"""Turn and step of an event in such a line."""

_COMMON: Final = re.compile(rb'\{"type":"[a-z/-]+","seq":(\d{1,15}),"time":\d+,"data":\{')
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_CONTROL: Final = re.compile(r"[\x01-\x1f]")
_HALF: Final = re.compile("[\ud800-\udfff]")
_STAND_IN: Final = 0xDD00
"""Halves of characters from here on stand for control characters: JSON can only escape those."""

_PACKED: Final = {cls.__struct_config__.tag for cls in PACKED_ROWS}
_decode_packed: Final = strict_decoder(packed=True).decode
_encode: Final = msgspec.json.Encoder().encode


class Place(NamedTuple):
    """Where an event says that it lies.

    Attributes:
        starts: ``turn`` or ``step`` if it starts one, else empty.
        turn: The turn that it names, None if it names none.
        step: The step that it names, None if it names none.
    """

    starts: str = ""
    turn: int | None = None
    step: int | None = None


def number(value: object) -> int | None:
    """Return a value that is a whole number, as JavaScript sees it; None for any other value."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


class Row:
    """One line of a log; never changed once it is made.

    Args:
        raw: The line with its newline, if it has one.

    Attributes:
        raw: As above.
    """

    __slots__ = ("_loose", "_numbers", "_place", "_value", "raw")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self._value: Any = _UNREAD
        self._loose = False
        self._numbers: Sequence[tuple[int | None, int]] | None = None
        self._place: Place | None = None

    @property
    def value(self) -> dict[str, Any] | None:
        """The line as a JSON object, None if it is none: then only its bytes can be changed."""
        if self._value is _UNREAD:
            self._value, self._loose = parse(self.raw)
        value: dict[str, Any] | None = self._value
        return value

    def forget(self) -> None:
        """Forget what can be read again."""
        self._value = _UNREAD

    def with_value(self, value: dict[str, Any]) -> Row:
        """Return the row with another JSON object."""
        raw = _dump(value) if self._loose else _compact(value)
        row = Row(raw + b"\n" * self.raw.endswith(b"\n"))
        row._value, row._loose = value, self._loose
        return row

    @property
    def is_packed(self) -> bool:
        """Whether the line is a run of stream deltas."""
        value = self.value
        return value is not None and "seq0" in value and str(value.get("type")) in _PACKED

    @property
    def numbers(self) -> Sequence[tuple[int | None, int]]:
        """The seqs of the line's events, as runs: the first, None if it is none, and how many."""
        if self._numbers is None:
            self._numbers = self._find_numbers()
        return self._numbers

    def _find_numbers(self) -> Sequence[tuple[int | None, int]]:
        if self._value is _UNREAD and (match := _COMMON.match(self.raw)) is not None:
            # No need to read all of a large log just for this.
            return ((int(match[1]), 1),)
        value = self.value
        if value is None:
            return [(int(match[2]), 1) for match in ENVELOPE.finditer(self.raw[:HEAD])]
        if not self.is_packed:
            return ((number(value.get("seq")), 1),)
        data = value.get("data")
        members = data.get("texts", data.get("args")) if isinstance(data, dict) else None
        return ((number(value["seq0"]), len(members) if isinstance(members, list) else 0),)

    @property
    def place(self) -> Place:
        """Where the line's event says that it lies."""
        if self._place is None:
            self._place = self._find_place()
        return self._place

    def _find_place(self) -> Place:
        value = self.value
        if value is None:
            match = PLACE.search(self.raw[:HEAD])
            if match is None:
                return Place()
            return Place("", int(match[2]), int(match[4]) if match[4] else None)
        data = value.get("data")
        if not isinstance(data, dict):
            return Place()
        kind = value.get("type")
        starts = str(kind)[:4] if kind in ("turn/start", "step/start") else ""
        return Place(starts, _coordinate(data.get("turn")), _coordinate(data.get("step")))

    def expanded(self) -> Sequence[Row]:
        """Return the events of a packed row, one a row; the row itself if it is none."""
        if not self.is_packed:
            return (self,)
        try:
            row = _decode_packed(self.raw)
        except (msgspec.MsgspecError, RecursionError):
            return (self,)
        if not isinstance(row, PackedRow) or packed.check(row, 0) is not None:
            return (self,)
        return [Row(_encode(_plain(event)) + b"\n") for event in packed.expand(row)]


def _plain(chunk: AssistantChunk) -> dict[str, Any]:
    data = {"turn": chunk.data.turn, "step": chunk.data.step, "chunk": chunk.data.chunk}
    return {"type": chunk.type, "seq": chunk.seq, "time": chunk.time, "data": data}


_UNREAD: Final = object()


def _coordinate(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def parse(raw: bytes) -> tuple[dict[str, Any] | None, bool]:
    """Read a line as a JSON object.

    Args:
        raw: The line.

    Returns:
        The object, None if the line is no JSON, too long or too deep; and whether it holds what
        JSON does not allow: NaN, half characters, bytes that are no text, control characters.
    """
    line = raw.removeprefix(BOM).strip(SPACE)
    if not line.startswith(b"{") or len(line) > MAX_LINE or too_deep(line):
        return None, False
    try:
        value, loose = msgspec.json.decode(line), False
    except (msgspec.MsgspecError, RecursionError):
        try:
            value, loose = json.loads(_readable(line)), True
        except (ValueError, RecursionError):
            return None, False
    return (value, loose) if isinstance(value, dict) else (None, False)


def _readable(line: bytes) -> str:
    """Return a line with stand-ins for what may not be in a text: bytes, control characters."""
    text = line.decode("utf-8", "surrogateescape")
    return _STRING.sub(lambda string: _CONTROL.sub(_stand_in, string[0]), text)


def _stand_in(control: re.Match[str]) -> str:
    return chr(_STAND_IN + ord(control[0]))


def _compact(value: dict[str, Any]) -> bytes:
    try:
        return _encode(value)
    except (msgspec.MsgspecError, OverflowError):
        # Integers beyond 64 bits.
        return _dump(value)


def _dump(value: dict[str, Any]) -> bytes:
    """Encode an object with everything that stands for something else."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    text = _HALF.sub(_half, text)
    return text.encode("utf-8", "surrogateescape")


def _half(match: re.Match[str]) -> str:
    code = ord(match[0])
    if _STAND_IN <= code < _STAND_IN + 0x20:
        return chr(code - _STAND_IN)
    # Half a character stands for a byte, or for itself.
    return match[0] if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"  # noqa: PLR2004 - PEP 383


def boundary(raw: bytes) -> str:
    """Return the type of a line that starts or ends a turn or step, else an empty text."""
    match = _BOUNDARY.match(raw)
    return match[1].decode() if match else ""
