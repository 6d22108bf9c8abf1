"""Fields of payloads that rules judge as they were written.

Where a rule must tell a missing field from one of another kind, or know all keys, the payload is
read as plain JSON. JSON comes from JavaScript here: 3.0 is the integer 3.
"""

from __future__ import annotations

import math
import re
import sys
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import msgspec

from dsh_core.decode import is_minus_zero
from dsh_core.events import MAX_SAFE_INTEGER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msgspec import Raw

_decode: Final = msgspec.json.Decoder().decode
_LARGEST: Final = int(sys.float_info.max)
_WORD: Final = re.compile(r"[\w.:/@-]{1,64}", re.ASCII)

WHITE_SPACE: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""What JavaScript trims off (ECMA-262, String.prototype.trim)."""


def fields(raw: Raw) -> Mapping[str, Any]:
    """Return the fields of a raw object; what is no object has none."""
    found = plain(raw)
    return found if isinstance(found, dict) else {}


def plain(raw: Raw) -> Any:  # noqa: ANN401 - any JSON value
    """Return raw JSON as plain values, None if it cannot be read."""
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        return None


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a finite number."""
    if isinstance(value, int):
        # What no double can hold is infinite to JavaScript.
        return not isinstance(value, bool) and abs(value) <= _LARGEST
    return isinstance(value, float) and math.isfinite(value)


def is_whole(value: object, least: int = 0) -> TypeGuard[int | float]:
    """Whether a value is an exact integer of at least some size."""
    if type(value) is int:
        # Nearly always.
        return least <= value <= MAX_SAFE_INTEGER
    return is_number(value) and least <= value <= MAX_SAFE_INTEGER and value == int(value)


def is_count(value: object) -> TypeGuard[int | float]:
    """Whether a value is an exact integer from 0 on, where minus zero is none."""
    return is_whole(value) and not is_minus_zero(value)


def is_filled(value: object) -> TypeGuard[str]:
    """Whether a value is a text that is not empty."""
    return isinstance(value, str) and value != ""


def is_trimmed(value: object) -> TypeGuard[str]:
    """Whether a value is a text that is not empty and neither begins nor ends with white space."""
    return is_filled(value) and value == value.strip(WHITE_SPACE)


def is_redacted(text: str) -> bool:
    """Whether a note in brackets stands for a text: nothing can be said of what it was."""
    return text.startswith("[") and text.endswith("]") and "\n" not in text


def shown(value: object) -> str:
    """Say what a value is; it is quoted only if it is a word: it may be anything, a prompt too."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value) if is_number(value) else "a number beyond all bounds"
    if isinstance(value, str):
        if not value:
            return "an empty text"
        return repr(value) if _WORD.fullmatch(value) else "another text"
    return "an object" if isinstance(value, dict) else "a list"


def fingerprint(*values: Raw) -> int:
    """Return a number for some raw values: the same for equal ones, whatever their keys' order.

    Numbers are equal if they are for JavaScript, where all are doubles; absent is not null.
    """
    return hash(tuple(_canonical(value) for value in values))


def _canonical(raw: Raw) -> bytes:
    try:
        value = _decode_numbers(raw)
        if _LONG.search(raw):
            value = _as_doubles(value)
        return msgspec.json.encode(value, order="sorted")
    except (msgspec.MsgspecError, RecursionError, OverflowError):
        return bytes(raw)


def _number(text: str) -> int | float:
    """Return a number that is written with a point or an exponent, an integer if it is one."""
    number = float(text)
    plain_integer = number.is_integer() and abs(number) <= MAX_SAFE_INTEGER
    # Minus zero is another number than zero.
    return int(number) if plain_integer and (number or text[0] != "-") else number


def _as_doubles(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a value with the integers that are not exact as the doubles that they are read as."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_SAFE_INTEGER:
        return float(value)
    if isinstance(value, dict):
        return {key: _as_doubles(item) for key, item in value.items()}
    return [_as_doubles(item) for item in value] if isinstance(value, list) else value


_decode_numbers: Final = msgspec.json.Decoder(float_hook=_number).decode
_LONG: Final = re.compile(rb"\d{16}")
