"""Texts with half a character (a lone surrogate), which JavaScript writes and UTF-8 cannot say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from dsh_core.faults import Fault

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def half_fault(line: int) -> Fault:
    """Return what is said of an event with half a character.

    Args:
        line: 1-based line, 0 if the event came from no file.
    """
    return Fault("text.lone-surrogate", "half a character (lone surrogate) in a text", line)


def scrub(value: Any) -> Any:  # noqa: ANN401 - JSON values
    """Return a JSON value with U+FFFD for half characters; the same one if it has none."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value) if _SURROGATE.search(value) else value
    if isinstance(value, Mapping):
        # Loops, since a comprehension may cost a second frame for every level.
        pairs = {}
        for key, item in value.items():
            pairs[scrub(key)] = scrub(item)
        same = all(a is b for a, b in zip(pairs.values(), value.values(), strict=False))
        return value if same and pairs.keys() == value.keys() else pairs
    if isinstance(value, list | tuple):
        items = []
        for item in value:
            items.append(scrub(item))  # noqa: PERF401 - as above
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return value
