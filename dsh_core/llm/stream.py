"""The `stream` array of an answer's log event: chunks with their times, runs of deltas packed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

from dsh_core.events import MAX_SAFE_INTEGER

if TYPE_CHECKING:
    from collections.abc import Iterable

Entry: TypeAlias = dict[str, Any]
"""One entry of the array: a chunk, or a run of deltas."""

TimedChunk: TypeAlias = "tuple[int, Mapping[str, Any]]"
"""When a chunk arrived, in ms since the epoch, and the chunk."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of deltas: how a run of it is stored."""

    delta: str
    entry: str
    member: str
    members: str
    keys: frozenset[str]


_TEXT_KEYS: Final = frozenset({"type", "index", "text"})
_CALL_KEYS: Final = frozenset({"type", "index", "id", "argumentsDelta"})
_NAMED_KEYS: Final = _CALL_KEYS | {"name"}
_KINDS: Final = (
    _Kind("text-delta", "text-chunks", "text", "texts", _TEXT_KEYS),
    _Kind("reasoning-delta", "reasoning-chunks", "text", "texts", _TEXT_KEYS),
    _Kind("tool-call-delta", "tool-call-chunks", "argumentsDelta", "args", _CALL_KEYS),
)
_BY_DELTA: Final = {kind.delta: kind for kind in _KINDS}
_BY_ENTRY: Final = {kind.entry: kind for kind in _KINDS}
_CALL: Final = _BY_DELTA["tool-call-delta"]


class StreamError(ValueError):
    """A `stream` array is malformed."""


def pack(timed_chunks: Iterable[TimedChunk]) -> list[Entry]:
    """Turn chunks into the array that a log stores.

    Args:
        timed_chunks: Arrival time and chunk, in order of arrival. Chunks are not copied.

    Returns:
        The array. Consecutive deltas of one kind, block and call share an entry; whatever is not
        exactly such a delta is stored as it is.
    """
    entries: list[Entry] = []
    run: Entry | None = None
    last = 0
    for time, chunk in timed_chunks:
        kind = _packable(chunk)
        if kind is None:
            run = None
            entries.append({"type": "chunk", "time": time, "chunk": chunk})
            continue
        head = _head(kind, chunk)
        if run is not None and all(run.get(key) == value for key, value in head.items()):
            run["dt"].append(time - last)
            run[kind.members].append(chunk[kind.member])
        else:
            run = _new_run(kind, time, head, chunk)
            entries.append(run)
        last = time
    return entries


def unpack(stream: Sequence[object]) -> list[tuple[int, dict[str, Any]]]:
    """Turn the array of a log back into chunks.

    Args:
        stream: The array, of any origin.

    Returns:
        Arrival time and chunk, in order.

    Raises:
        StreamError: An entry is malformed; the text tells which, and how.
    """
    found: list[tuple[int, dict[str, Any]]] = []
    for place, entry in enumerate(stream):
        try:
            found += _members(entry)
        except StreamError as error:
            raise StreamError(f"stream[{place}]: {error}") from None
    return found


def _packable(chunk: Mapping[str, Any]) -> _Kind | None:
    """Return the kind of a delta that says nothing beyond what a run can store, else None."""
    name = chunk.get("type")
    kind = _BY_DELTA.get(name) if isinstance(name, str) else None
    if kind is None or not _is_index(chunk.get("index")):
        return None
    if not isinstance(chunk.get(kind.member), str):
        return None
    if kind is not _CALL:
        return kind if chunk.keys() == kind.keys else None
    if chunk.keys() == _NAMED_KEYS:
        texts: tuple[Any, ...] = (chunk["id"], chunk["name"])
    elif chunk.keys() == _CALL_KEYS:
        texts = (chunk["id"],)
    else:
        return None
    # An empty id or name cannot be told from a missing one by readers of runs.
    return kind if all(isinstance(text, str) and text for text in texts) else None


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_SAFE_INTEGER


def _head(kind: _Kind, chunk: Mapping[str, Any]) -> Entry:
    """Return what the members of a run have in common."""
    head: Entry = {"type": kind.entry, "index": chunk["index"]}
    if kind is _CALL:
        head |= {"id": chunk["id"], "name": chunk.get("name")}
    return head


def _new_run(kind: _Kind, time: int, head: Entry, chunk: Mapping[str, Any]) -> Entry:
    run: Entry = {"type": kind.entry, "time0": time, "index": head["index"], "dt": []}
    if kind is _CALL:
        run["id"] = head["id"]
        if head["name"] is not None:
            run["name"] = head["name"]
    run[kind.members] = [chunk[kind.member]]
    return run


def _members(entry: object) -> list[tuple[int, dict[str, Any]]]:
    if not isinstance(entry, Mapping):
        raise StreamError("not an object")
    name = entry.get("type")
    if name == "chunk":
        chunk = entry.get("chunk")
        if not isinstance(chunk, Mapping):
            raise StreamError("chunk is not an object")
        return [(_time(entry, "time"), dict(chunk))]
    kind = _BY_ENTRY.get(name) if isinstance(name, str) else None
    if kind is None:
        raise StreamError("of no known type")
    return _run(kind, entry)


def _run(kind: _Kind, entry: Mapping[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    texts, steps = entry.get(kind.members), entry.get("dt")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise StreamError(f"{kind.members} is not a list of strings")
    if not isinstance(steps, list) or not all(_is_integer(step) for step in steps):
        raise StreamError("dt is not a list of integers")
    if len(steps) != len(texts) - 1:
        raise StreamError(f"{len(texts)} members and {len(steps)} time steps")
    if not _is_index(entry.get("index")):
        raise StreamError("index is not a non-negative integer")
    head: dict[str, Any] = {"type": kind.delta, "index": entry["index"]}
    if kind is _CALL:
        for key in ("id", "name"):
            if key in entry or key == "id":
                if not isinstance(entry.get(key), str):
                    raise StreamError(f"{key} is not a string")
                head[key] = entry[key]
    time = _time(entry, "time0")
    found = []
    for step, text in zip([0, *steps], texts, strict=True):
        time += step
        found.append((time, head | {kind.member: text}))
    return found


def _time(entry: Mapping[str, Any], key: str) -> int:
    time = entry.get(key)
    if not _is_integer(time):
        raise StreamError(f"{key} is not an integer")
    return time


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
