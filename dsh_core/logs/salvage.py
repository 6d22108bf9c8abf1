"""Reading what can still be read of a line that is not a proper event."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dsh_core.decode import from_mapping
from dsh_core.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsh_core.events import SessionEvent

BOM: Final = b"\xef\xbb\xbf"
EVENT_START: Final = re.compile(r'\{\s*"type"\s*:\s*"')
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_STRING: Final = r'"((?:[^"\\]|\\.)*)"'
_HEAD_TYPE: Final = re.compile(r'\s*\{\s*"type"\s*:\s*' + _STRING)
_HEAD_NUMBER: Final = {
    name: re.compile(rf'"{name}"\s*:\s*(-?\d+)') for name in ("seq", "time", "turn", "step")
}
_HEAD_CALL_ID: Final = re.compile(r'"(?:callId|toolCallId)"\s*:\s*' + _STRING)
_HEAD_NAME: Final = re.compile(r'"name"\s*:\s*' + _STRING)
_MAX_VALUES: Final = 10_000


@dataclass(slots=True)
class Salvage:
    """What one damaged line gave.

    Attributes:
        values: The JSON objects found, in order (usually one).
        faults: What is wrong with the line.
        note: What to add to the envelope's fault (a NaN, say).
        unterminated: Whether the line ends inside a string: the next lines may belong to it.
    """

    values: list[dict[str, Any]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    note: str = ""
    unterminated: bool = False

    def events(self, line: int) -> Iterator[tuple[SessionEvent, list[Fault]]]:
        """Build the events, each with the faults of its envelope."""
        for value in self.values:
            yield from_mapping(value, line=line, note=self.note)


def salvage(data: bytes, line: int) -> Salvage:
    """Read a line by every means that loses nothing silently.

    Args:
        data: The line, without its newline.
        line: 1-based number for the faults.
    """
    found = Salvage()
    if b"\0" in data:
        nuls = data.count(b"\0")
        data = data.replace(b"\0", b"")
        rest = bool(data.strip())
        found.faults.append(
            Fault("line.nul", f"{nuls} NUL bytes (an append was interrupted)", line, lost=not rest)
        )
    if not data.strip():
        return found
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        text = data.decode("utf-8", "replace")
        message = f"not UTF-8: byte 0x{data[error.start]:02x} at column {error.start + 1}"
        found.faults.append(Fault("line.invalid-utf8", message, line))
    _parse(text, line, found)
    return found


def _parse(text: str, line: int, found: Salvage) -> None:
    constants: list[str] = []
    strict = json.JSONDecoder(parse_constant=constants.append)
    loose = json.JSONDecoder(parse_constant=constants.append, strict=False)
    place = 0
    end = len(text)
    lost: Fault | None = None
    while len(found.values) < _MAX_VALUES:
        while place < end and text[place] in " \t\r\n\ufeff":
            place += 1
        if place >= end:
            break
        try:
            value, place = strict.raw_decode(text, place)
        except RecursionError:
            lost = _from_head(text[place:], line, found, "line.too-deep", "nested too deeply")
            break
        except ValueError as error:
            value, place, lost = _second_try(loose, text, place, error, line, found)
            if value is None:
                break
        if not isinstance(value, dict):
            lost = Fault("line.not-json", "not a JSON object", line, lost=True, got=text[:40])
            break
        found.values.append(_clean(value, line, found))
        if len(found.values) == 2:  # noqa: PLR2004 - the second value shows the weld
            found.faults.append(
                Fault("line.welded", "more than one event on the line (a newline is lost)", line)
            )
    if lost is not None:
        found.faults.append(lost)
    if constants:
        found.note = f"{constants[0]} is not JSON"


def _second_try(
    loose: json.JSONDecoder, text: str, place: int, error: ValueError, line: int, found: Salvage
) -> tuple[Any, int, Fault | None]:
    """Decode once more without minding control characters; else look for a later event."""
    try:
        value, after = loose.raw_decode(text, place)
    except (ValueError, RecursionError) as worse:
        reason = getattr(worse, "msg", "") or str(error)
        if reason.startswith("Unterminated string"):
            found.unterminated = True
        again = EVENT_START.search(text, place + 1)
        if again and found.values == [] and not found.unterminated:
            found.faults.append(
                Fault(
                    "line.welded", "an event was cut and the next one welded to it", line, lost=True
                )
            )
            return _resume(loose, text, again.start(), line)
        return None, place, _not_json(text[place:], reason, line)
    control = _CONTROL.search(text, place, after)
    message = f"raw control character 0x{ord(control[0]):02x}" if control else str(error)
    found.faults.append(Fault("line.control-char", message, line))
    return value, after, None


def _resume(
    loose: json.JSONDecoder, text: str, place: int, line: int
) -> tuple[Any, int, Fault | None]:
    try:
        value, after = loose.raw_decode(text, place)
    except (ValueError, RecursionError) as error:
        return None, place, _not_json(text[place:], str(error), line)
    return value, after, None


def _not_json(text: str, reason: str, line: int) -> Fault:
    return Fault("line.not-json", f"not JSON: {reason}", line, lost=True, got=text[:40])


def _clean(value: dict[str, Any], line: int, found: Salvage) -> dict[str, Any]:
    """Replace half characters, which no encoder accepts, by U+FFFD."""
    try:
        cleaned = _scrub(value)
    except RecursionError:
        return value
    if cleaned is not value:
        found.faults.append(
            Fault("text.lone-surrogate", "half a character (lone surrogate) in a text", line)
        )
    return cleaned  # type: ignore[no-any-return]


def _scrub(value: Any) -> Any:  # noqa: ANN401 - JSON values
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value) if _SURROGATE.search(value) else value
    if isinstance(value, dict):
        pairs = {_scrub(k): _scrub(v) for k, v in value.items()}
        same = all(a is b for a, b in zip(pairs.values(), value.values(), strict=False))
        return value if same and pairs.keys() == value.keys() else pairs
    if isinstance(value, list):
        items = [_scrub(item) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return value


def from_head(data: bytes, line: int, size: int) -> Salvage:
    """Read the envelope of an over-long line from its first bytes.

    Args:
        data: The head of the line.
        line: 1-based number.
        size: The line's full length in bytes.
    """
    found = Salvage()
    text = data.decode("utf-8", "replace")
    fault = _from_head(
        text, line, found, "line.too-long", f"{size} bytes long, only its head was read"
    )
    found.faults.append(fault)
    return found


def _from_head(text: str, line: int, found: Salvage, rule: str, message: str) -> Fault:
    text = text[: 1 << 14]
    kind = _HEAD_TYPE.match(text)
    numbers = {name: m for name, p in _HEAD_NUMBER.items() if (m := p.search(text))}
    if kind is None or "seq" not in numbers or "time" not in numbers:
        return Fault(rule, message, line, lost=True)
    data: dict[str, Any] = {n: int(numbers[n][1][:20]) for n in ("turn", "step") if n in numbers}
    if match := _HEAD_CALL_ID.search(text):
        data["callId"] = _unescape(match[1])
    if match := _HEAD_NAME.search(text):
        data["name"] = _unescape(match[1])
    value = {"type": _unescape(kind[1]), "data": data}
    for name in ("seq", "time"):
        value[name] = int(numbers[name][1][:20])
    # The head says nothing of the surface: append is what such events do.
    found.values.append(value)
    return Fault(rule, message, line, seq=value["seq"])


def _unescape(text: str) -> str:
    try:
        value = json.loads(f'"{text}"', strict=False)
    except ValueError:
        return text
    return str(value)
