"""Whether a value survives being written as JSON and read again."""

from __future__ import annotations

import marshal
import math
import re
from typing import Any, Final

import msgspec

MAX_DEPTH: Final = 256
"""Deepest nesting of a payload."""

MAX_PATH: Final = 1024
"""Longest path in an error, in characters."""

MAX_SIZE: Final = 24 << 20
"""Longest JSON of a payload, in bytes: its line must be one that readers still read whole."""

_LONG_INT: Final = 16
_LONG: Final = re.compile(rb"[0-9]{16}")
"""Digits of an integer that may be too large."""

_MARSHAL: Final = 2
"""A format of `marshal` that does not look for repeated objects, which would take time."""

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_MAX_INT: Final = 2**53 - 1
"""The largest integer that every reader of a log represents exactly."""


class DataError(TypeError):
    """A payload is no plain JSON.

    Args:
        path: Where, for example ``data.items[2].price``.
        problem: What is wrong there.
    """

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path} {problem}")


def require_lossless(value: Any, path: str = "data") -> None:  # noqa: ANN401 - that is the question
    """Refuse a value that JSON cannot carry without loss.

    Args:
        value: The value.
        path: What it is called in the error.

    Raises:
        DataError: It cannot; the error says where and why.
    """
    row = b""
    try:
        row = _encode(value)
        # What comes back equal is plain: a tuple, a set, NaN, a key that is no string do not.
        plain = len(row) <= MAX_SIZE and _is_builtin(value) and _decode(row) == value
        # Of an integer that only Python represents, equality says nothing.
        if plain and not _may_be_long(row) and not _is_deep(row, value):
            return
    except (msgspec.MsgspecError, RecursionError, TypeError, ValueError, OverflowError):
        pass
    if len(row) > MAX_SIZE:
        raise DataError(path, f"is larger than {MAX_SIZE >> 20} MiB as JSON")
    # Something is wrong, or unusual: look at it piece by piece.
    _inspect(value, path, 0, set())
    if not row:
        raise DataError(path, "cannot be written as JSON")


def _is_builtin(value: Any) -> bool:  # noqa: ANN401 - that is the question
    """Whether a value consists of nothing but Python's own types: no enums, no subclasses."""
    try:
        # The quickest way to look at all of it.
        marshal.dumps(value, _MARSHAL)
    except ValueError:
        return False
    return True


def _may_be_long(row: bytes) -> bool:
    return len(row) >= _LONG_INT and _LONG.search(row) is not None


def _is_deep(row: bytes, value: object) -> bool:
    """Whether a value, of which this is the JSON, is nested too deeply."""
    if row.count(b"{") + row.count(b"[") <= MAX_DEPTH:
        return False
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for above in level
            for item in (above.values() if isinstance(above, dict) else above)  # type: ignore[attr-defined]
            if isinstance(item, dict | list)
        ]
        if not level:
            return False
    return True


def _inspect(value: Any, path: str, depth: int, above: set[int]) -> None:  # noqa: ANN401 - as above
    if isinstance(value, dict | list):
        if depth >= MAX_DEPTH:
            raise DataError(path, f"is nested deeper than {MAX_DEPTH} levels")
        if id(value) in above:
            raise DataError(path, "contains itself")
        above.add(id(value))
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            _inspect(item, _place(path, key, value)[:MAX_PATH], depth + 1, above)
        above.discard(id(value))
        return
    problem = _problem(value)
    if problem:
        raise DataError(path, problem)


def _place(path: str, key: object, above: object) -> str:
    if isinstance(above, list):
        return f"{path}[{key}]"
    if type(key) is not str:
        raise DataError(path, f"has a key of type {type(key).__name__}, not a string")
    if problem := _problem(key):
        raise DataError(path, f"has a key that {problem}")
    return f"{path}.{key}"


def _problem(value: object) -> str:
    """Say what is wrong with a value that holds no others; nothing if it is plain JSON."""
    kind = type(value)
    if value is None or kind is bool:
        return ""
    if isinstance(value, str) and kind is str:
        return "" if _is_whole(value) else "holds half a character (a lone surrogate)"
    if isinstance(value, int) and kind is int:
        return "" if abs(value) <= _MAX_INT else "is an integer beyond 2^53 - 1"
    if isinstance(value, float) and kind is float:
        return "" if math.isfinite(value) else f"is {value}, which JSON cannot say"
    return f"is of type {kind.__name__}, which JSON does not have"


def _is_whole(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
