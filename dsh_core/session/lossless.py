"""Whether a value survives being written as JSON and read again."""

from __future__ import annotations

import math
import re
from typing import Any, Final

import msgspec

MAX_DEPTH: Final = 256
"""Deepest nesting of a payload."""

MAX_PATH: Final = 1024
"""Longest path in an error, in characters."""

_LONG_INT: Final = 16
_LONG: Final = re.compile(rb"[0-9]{16}")
"""Digits of an integer that may be too large."""

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
    try:
        row = _encode(value)
        # What comes back equal is plain: a tuple, a set, NaN, a key that is no string do not. Of an
        # integer that only Python represents, equality says nothing.
        if _decode(row) == value and (len(row) < _LONG_INT or _LONG.search(row) is None):
            return
    except (msgspec.MsgspecError, RecursionError, TypeError, ValueError, OverflowError):
        pass
    # Something is wrong, or unusual: look at it piece by piece.
    _inspect(value, path, 0, set())


def _inspect(value: Any, path: str, depth: int, above: set[int]) -> None:  # noqa: ANN401 - as above
    if isinstance(value, dict | list):
        if depth >= MAX_DEPTH:
            raise DataError(path, f"is nested deeper than {MAX_DEPTH} levels")
        if id(value) in above:
            raise DataError(path, "contains itself")
        above.add(id(value))
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            _inspect(item, _place(path, key, value), depth + 1, above)
        above.discard(id(value))
        return
    problem = _problem(value)
    if problem:
        raise DataError(path, problem)


def _place(path: str, key: object, above: object) -> str:
    if isinstance(above, list):
        return f"{path}[{key}]"
    if type(key) is not str or (problem := _problem(key)):
        kind = f"type {type(key).__name__}" if type(key) is not str else problem
        raise DataError(path, f"has a key of {kind}, not a string")
    return f"{path}.{key}"[:MAX_PATH]


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
