"""Reading what can still be read of a line that is not a proper event."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field, replace
from typing import Any, Final

from dsh_core.faults import Fault, counted
from dsh_core.halves import half_fault, scrub

BOM: Final = b"\xef\xbb\xbf"
SPACE: Final = b" \t\r\n"
"""What JSON takes for white space."""

EVENT_START: Final = re.compile(r'\{\s*"type"\s*:\s*"')
# An event, as against the blocks and chunks inside of one.
_ENVELOPE_START: Final = re.compile(r'\{\s*"type"\s*:\s*"[^"\\]*"\s*,\s*"seq0?"\s*:')
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_SPACE: Final = re.compile("[ \t\r\n\ufeff]*")
_STRING: Final = r'"((?:[^"\\]|\\.)*)"'
_HEAD_TYPE: Final = re.compile(r'\s*\{\s*"type"\s*:\s*' + _STRING)
_HEAD_NUMBER: Final = {
    name: re.compile(rf'"{name}"\s*:\s*(-?\d+)') for name in ("seq", "time", "turn", "step")
}
_HEAD_CALL_ID: Final = re.compile(r'"(?:callId|toolCallId)"\s*:\s*' + _STRING)
_HEAD_NAME: Final = re.compile(r'"name"\s*:\s*' + _STRING)
_MAX_HEAD: Final = 1 << 14
_MAX_DIGITS: Final = 20
_MAX_VALUES: Final = 10_000
MAX_DEPTH: Final = 384
"""How deeply a line may be nested; every decoder manages this much, wherever it is called from."""

_FREE: Final = ("text", "texts")
"""Keys of texts of which nothing but what they say depends."""

_DEEP_LINE: Final = 2 * MAX_DEPTH
"""A line that is too deep is longer than this, in bytes."""

# Runs of brackets outside of strings, and what is in front of them.
_BRACKETS: Final = re.compile(
    r'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z))*+([\[{]++|[\]}]|\Z)', re.DOTALL
)


@dataclass(slots=True)
class Salvage:
    """What one damaged line gave.

    Attributes:
        values: The JSON objects found, in order (usually one).
        faults: What is wrong with the line.
        note: What to add to the envelope's fault (a NaN, say).
        unterminated: Whether the line ends inside a string: the next lines may belong to it.
        unreadable: Whether a part of the line is no JSON.
        begins: Whether the line begins with the first value.
    """

    values: list[dict[str, Any]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    note: str = ""
    unterminated: bool = False
    unreadable: bool = False
    begins: bool = False

    @property
    def altered(self) -> bool:
        """Whether a fault of the line is why its first event may have been read wrongly."""
        return any(fault.partial for fault in self.faults)


def salvage(data: bytes, line: int) -> Salvage:
    """Read a line by every means that loses nothing silently.

    Args:
        data: The line, without its newline.
        line: 1-based number for the faults.
    """
    found = Salvage()
    if b"\0" in data:
        nuls, inside = data.count(b"\0"), b"\0" in data.strip(SPACE + b"\0")
        data = data.replace(b"\0", b"")
        message = f"{counted(nuls, 'NUL byte')} (an append was interrupted)"
        lost = inside or not data.strip(SPACE)
        found.faults.append(Fault("line.nul", message, line, lost=lost, partial=inside))
    if not data.strip(SPACE):
        return found
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        text = data.decode("utf-8", "replace")
        message = f"not UTF-8: byte 0x{data[error.start]:02x} at column {error.start + 1}"
        found.faults.append(Fault("line.invalid-utf8", message, line, partial=True))
    bad_bytes = len(found.faults)
    _Parser(text, line, found).parse()
    if found.unreadable and bad_bytes:
        # The bad bytes are why it is no JSON: one cause, one fault.
        cause, others = replace(found.faults[0], lost=True), found.faults[bad_bytes:]
        found.faults = [cause, *(f for f in others if f.rule != "line.not-json")]
    elif found.altered and any(_holds(value, "\ufffd") for value in found.values):
        # Nobody knows what was there.
        found.faults = [replace(f, lost=f.lost or f.partial) for f in found.faults]
    return found


def _holds(value: Any, odd: str) -> bool:  # noqa: ANN401 - a JSON value
    """Whether a character stands in a value anywhere but in free text: in a name, a key, an id."""
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, dict):
            if any(odd in key for key in item):
                return True
            left += [part for key, part in item.items() if key not in _FREE]
        elif isinstance(item, list):
            left += item
        elif isinstance(item, str) and odd in item:
            return True
    return False


def too_deep(data: bytes) -> bool:
    """Whether the JSON value on a line is nested too deeply to be decoded."""
    # Replacing is several times as fast as counting.
    openers = 2 * len(data) - len(data.replace(b"{", b"")) - len(data.replace(b"[", b""))
    if openers <= MAX_DEPTH:
        return False
    text = data.decode("utf-8", "replace")
    match = _SPACE.match(text)
    return _is_deep(text, 0 if match is None else match.end())


def has_deep_line(data: bytes) -> bool:
    """Whether one of some lines is nested too deeply; only long lines need a look."""
    size, end = len(data), _DEEP_LINE
    place = 0
    while end < size:
        after = data.rfind(b"\n", place, end) + 1
        if not after:
            after = data.find(b"\n", end) + 1 or size
            if too_deep(data[place:after]):
                return True
        place, end = after, after + _DEEP_LINE
    return False


def _is_deep(text: str, place: int) -> bool:
    """Whether the JSON value that begins at a place is nested too deeply."""
    if text[place : place + 1] not in ("{", "["):
        return False
    depth = 0
    for match in _BRACKETS.finditer(text, place):
        run = match[1]
        depth += -1 if run in ("]", "}") else len(run)
        if depth > MAX_DEPTH or not depth:
            break
    return depth > MAX_DEPTH


class _Parser:
    """Reads the JSON values of one damaged line, one after the other.

    Args:
        text: The line.
        line: 1-based number for the faults.
        found: Where values and faults go.
    """

    def __init__(self, text: str, line: int, found: Salvage) -> None:
        self._text = text
        self._line = line
        self._found = found
        self._constants: list[str] = []
        self._weld: Fault | None = None
        self._skipped = False
        # Most lines have too few brackets to be looked at more closely.
        self._may_be_deep = text.count("{") + text.count("[") > MAX_DEPTH
        self._strict = self._decoder(strict=True)
        self._loose = self._decoder(strict=False)

    def _decoder(self, *, strict: bool) -> json.JSONDecoder:
        return json.JSONDecoder(
            parse_constant=self._constants.append, parse_int=_integer, strict=strict
        )

    def parse(self) -> None:
        """Read values until the line ends or nothing more can be read."""
        text, found, place = self._text, self._found, 0
        for _ in range(_MAX_VALUES):
            place = self._skip_space(place)
            if place == len(text):
                break
            after, reason = self._value(place)
            if after is None:
                again = _ENVELOPE_START.search(text, place + 1)
                if again is None:
                    self._not_json(reason)
                    break
                after = again.start()
                self._skipped = True
                self._welded("an event was cut and the next one welded to it", lost=True)
            elif len(found.values) > 1:
                self._welded("more than one event on the line (a newline is lost)", lost=False)
            place = after
        else:
            self._not_json(f"more than {_MAX_VALUES} values on the line")
        if self._weld is not None:
            found.faults.append(self._weld)
        if self._constants:
            found.note = f"{self._constants[0]} is not JSON"

    def _skip_space(self, place: int) -> int:
        match = _SPACE.match(self._text, place)
        return place if match is None else match.end()

    def _value(self, place: int) -> tuple[int | None, str]:
        """Read one value; return where it ends, or None and why it cannot be read."""
        text, line, found = self._text, self._line, self._found
        if self._may_be_deep and _is_deep(text, place):
            found.faults.append(_from_head(text[place:], line, found, "line.too-deep", _DEEP))
            return len(text), ""
        try:
            value, after = self._strict.raw_decode(text, place)
        except ValueError as error:
            try:
                value, after = self._loose.raw_decode(text, place)
            except ValueError as worse:
                reason = getattr(worse, "msg", "") or str(worse)
                found.unterminated = reason.startswith("Unterminated string")
                return None, reason
            control = _CONTROL.search(text, place, after)
            message = f"raw control character 0x{ord(control[0]):02x}" if control else str(error)
            lost = control is None or _holds(value, control[0])
            fault = Fault("line.control-char", message, line, lost=lost, partial=True)
            found.faults.append(fault)
        if not isinstance(value, dict):
            return None, "not an object"
        if not found.values:
            found.begins = not self._skipped
        whole = scrub(value)
        if whole is not value:
            found.faults.append(half_fault(line))
        found.values.append(whole)
        return after, ""

    def _welded(self, message: str, *, lost: bool) -> None:
        if self._weld is None or (lost and not self._weld.lost):
            self._weld = Fault("line.welded", message, self._line, lost=lost)

    def _not_json(self, reason: str) -> None:
        self._found.unreadable = True
        message = f"the line is no JSON object, but broken off or other text ({reason})"
        fault = Fault("line.not-json", message, self._line, lost=True)
        self._found.faults.append(fault)


_DEEP: Final = "nested too deeply"


def _integer(digits: str) -> float:
    try:
        return int(digits)
    except ValueError:
        # More digits than Python is willing to read.
        return math.inf


def from_head(data: bytes, line: int, size: int) -> Salvage:
    """Read the envelope of an over-long line from its first bytes.

    Args:
        data: The head of the line.
        line: 1-based number.
        size: The line's full length in bytes.
    """
    found = Salvage()
    text = data.decode("utf-8", "replace")
    message = f"{counted(size, 'byte')} long, only its head was read"
    found.faults.append(_from_head(text, line, found, "line.too-long", message))
    return found


def _from_head(text: str, line: int, found: Salvage, rule: str, message: str) -> Fault:
    text = text[:_MAX_HEAD]
    kind = _HEAD_TYPE.match(text)
    numbers = {
        name: int(match[1][:_MAX_DIGITS])
        for name, pattern in _HEAD_NUMBER.items()
        if (match := pattern.search(text))
    }
    if kind is None or "seq" not in numbers or "time" not in numbers:
        return Fault(rule, message, line, lost=True)
    data: dict[str, Any] = {name: numbers[name] for name in ("turn", "step") if name in numbers}
    if match := _HEAD_CALL_ID.search(text):
        data["callId"] = _unescape(match[1])
    if match := _HEAD_NAME.search(text):
        data["name"] = _unescape(match[1])
    # The head says nothing of the surface: append is what such events do.
    value = {
        "type": _unescape(kind[1]),
        "seq": numbers["seq"],
        "time": numbers["time"],
        "data": data,
    }
    found.values.append(value)
    return Fault(rule, message, line, seq=numbers["seq"], partial=True)


def _unescape(text: str) -> str:
    try:
        value = json.loads(f'"{text}"', strict=False)
    except ValueError:
        return text
    return str(scrub(value))
