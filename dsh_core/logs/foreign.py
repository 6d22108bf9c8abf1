"""Recognising what is no session log at all, so that it is not blamed for being a bad one."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from dsh_core.events import KNOWN_EVENTS

LOOKED_AT: Final = 5
"""How many of the first lines decide."""

_BOM: Final = b"\xef\xbb\xbf"
_SPREAD: Final = 2
"""Least number of lines of a document that is spread over many."""

_OWN_KEY: Final = re.compile(rb'"(?:type|seq0?|time0?|version)"\s*:')
_LOOKS: Final = {
    re.compile(rb'\{\s*"resourceSpans"\s*:'): "an OTLP file",
    re.compile(rb'"method"\s*:\s*"session\.\w+"'): "SDK notifications",
}
_LOOKED_THROUGH: Final = 4096
"""How many bytes of a document tell what it looks like."""

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
    data = data.removeprefix(_BOM)
    rows = [line for line in data.split(b"\n", LOOKED_AT)[:LOOKED_AT] if line.strip()]
    values: list[Any] = []
    for row in rows:
        try:
            values.append(msgspec.json.decode(row))
        except (msgspec.MsgspecError, RecursionError):
            # Damaged, or none of ours: the reader will tell.
            return "" if values else _spread(data)
    if not any(isinstance(v, dict | list) for v in values) or any(map(_is_row, values)):
        return ""
    look = _look(data)
    if look:
        return f"{look}, not a session log"
    return (
        "not a session log: no line has the type of an event; a log has one JSON object a line, "
        "with type, seq, time and data"
    )


def _look(data: bytes) -> str:
    """Say what a document looks like; empty if it is nothing known."""
    head = data[:_LOOKED_THROUGH]
    return next((what for pattern, what in _LOOKS.items() if pattern.search(head)), "")


def _spread(data: bytes) -> str:
    """Say what a JSON document over many lines is; empty if this may be a damaged log.

    The first line of a log may be torn, but then what follows does not go on with it.
    """
    lines = [line for line in map(bytes.strip, data.split(b"\n")) if line]
    if len(lines) < _SPREAD or not lines[0].startswith((b"[", b"{")):
        return ""
    if lines[0].startswith(b"{") and _OWN_KEY.search(lines[0]):
        return ""
    array = lines[0].startswith(b"[")
    # An event ends the line it stands on, but for the last one of an array.
    events = sum(map(_is_event, lines))
    if not _goes_on(data) or (events and (not array or events == len(lines) - 1)):
        return ""
    kind = "array" if array else "document"
    return f"{_look(data) or f'a JSON {kind} over many lines'}, not a session log"


def _goes_on(data: bytes) -> bool:
    """Whether the JSON value at the beginning takes more than one line, or is not over yet."""
    try:
        msgspec.json.decode(data)
    except RecursionError:
        return False
    except msgspec.DecodeError as error:
        if "truncated" in str(error):
            return True
    else:
        return True
    # Several documents, one after the other.
    try:
        text = data.decode("utf-8", "replace").lstrip()
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return "\n" in text[:end]


def _is_event(line: bytes) -> bool:
    """Whether a line could be an event by itself."""
    if not (line.startswith(b"{") and line.endswith(b"}")):
        return False
    try:
        return _is_row(msgspec.json.decode(line))
    except (msgspec.MsgspecError, RecursionError):
        return False


def _is_row(value: object) -> bool:
    """Whether a value could be an event, a packed row or a header, even a bad one."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    known = kind in KNOWN_EVENTS if isinstance(kind, str) else False
    named = {"seq", "seq0", "time", "data", "version"} & value.keys()
    return known or (bool(named) and ("type" in value or len(named) > 1))
