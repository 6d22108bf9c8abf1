"""Recognising what is no session log at all, so that it is not blamed for being a bad one."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from dsh_core.events import KNOWN_EVENTS

LOOKED_AT: Final = 5
"""How many of the first lines decide."""

_MAGIC: Final = {
    b"SQLite format 3\0": "a SQLite store, which is not read; only .jsonl logs are",
    b"\x1f\x8b\x08": "gzip; decompress it first",
    b"\xff\xfe{\0": "UTF-16 text; dsh writes UTF-8",
    b"\xfe\xff\0{": "UTF-16 text; dsh writes UTF-8",
}


def foreign(data: bytes) -> str:
    """Say what the first lines of a file are, if they are no session log.

    Args:
        data: The first lines, as they stand in the file.

    Returns:
        What it is, in one clause; empty if it may be a session log, however damaged.
    """
    for magic, what in _MAGIC.items():
        if data.startswith(magic):
            return what
    rows = [line for line in data.split(b"\n", LOOKED_AT)[:LOOKED_AT] if line.strip()]
    values: list[Any] = []
    for row in rows:
        try:
            values.append(msgspec.json.decode(row))
        except (msgspec.MsgspecError, RecursionError):
            # Damaged, or none of ours: the reader will tell.
            return ""
    if not any(isinstance(v, dict | list) for v in values) or any(map(_is_row, values)):
        return ""
    if isinstance(values[0], dict) and "resourceSpans" in values[0]:
        return "an OTLP file, not a session log"
    return "not a session log: no line has the type of an event"


def _is_row(value: object) -> bool:
    """Whether a value could be an event, a packed row or a header, even a bad one."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    known = kind in KNOWN_EVENTS if isinstance(kind, str) else False
    named = {"seq", "seq0", "time", "data", "version"} & value.keys()
    return known or (bool(named) and ("type" in value or len(named) > 1))
