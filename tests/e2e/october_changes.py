"""One change to a log of October, illegal more often than not.

What is moved, left out or written twice is mostly numbered anew, and so is every seq that is cited:
the change is then one of structure, and not merely a gap in the numbers.
"""

from __future__ import annotations

import copy
import json
import re
from bisect import bisect
from typing import TYPE_CHECKING, Any, Final

from tests.e2e.october import Log
from tests.e2e.october_writer import FAILURE, REPAIRED, Row, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

LISTS: Final = ("messageSeqs", "shadowedSeqs")
NUMBERS: Final = ("headerSeq", "throughSeq", "sourceEventSeq")
IDS: Final = (
    *("callId", "toolCallId", "id", "retryId", "policyKey", "compactionId", "commandId"),
    *("sourceCommandId", "rootCallId", "parentCallId", "subCallId", "childId", "sessionId"),
    *("provider", "name", "arguments", "toolName", "kind", "mode", "code"),
)
ODD: Final[tuple[Any, ...]] = (None, True, 0, -1, 1.5, "", "x", [], {}, 2**53)
REPAIR_ID: Final = re.compile(r"((?:forked|interrupted)-tool-result-.*-)(\d+)", re.ASCII)
UNREAD: Final = re.compile(
    r"(approval|feedback|goal|job|permission|sandbox|todo)/|subagent/descriptor|plugin:"
)
"""Types whose payload may be anything to the runtime when it reads a log."""

DEEPEST: Final = 4
GONE: Final = object()
"""Stands for a field that is left out."""


def changed(rng: Random, log: Log) -> tuple[str, Log]:
    """Return the name of a change, and what it makes of a log."""
    name = rng.choice(sorted(CHANGES))
    # Read anew, no two places share what they hold.
    found = CHANGES[name](rng, Log(*json.loads(json.dumps(log))))
    if name in STRUCTURE and rng.randrange(6):
        return name, Log(found.header, renumbered(found.events))
    return name, found


def renumbered(events: list[Row]) -> list[Row]:
    """Number a log anew; what cites an event that is gone cites the next one."""
    found = copy.deepcopy(events)
    news: dict[int, int] = {}
    for new, event in enumerate(found):
        news.setdefault(event["seq"], new)
    olds = sorted(news)

    def map_(seq: Any) -> Any:
        if isinstance(seq, list):
            return [map_(one) for one in seq]
        if type(seq) is not int or seq > olds[-1]:
            return seq
        return news[olds[bisect(olds, seq - 1)]]

    for new, event in enumerate(found):
        event["seq"] = new
        for place, key in _cited(event):
            place[key] = map_(place[key])
        message = event["data"].get("message") if event["type"] == "tool/result" else None
        if message and (repair := REPAIR_ID.fullmatch(message["id"])):
            message["id"] = f"{repair[1]}{map_(int(repair[2]))}"
    return found


def _cited(event: Row) -> Iterator[tuple[Row, str]]:
    """Find what holds seqs: pairs of an object and a key."""
    if "sourceEventSeqs" in event:
        yield event, "sourceEventSeqs"
    operation = event.get("surfaceOp")
    if isinstance(operation, dict):
        yield from ((operation, key) for key in ("startSeq", "endSeq"))
    data = event["data"]
    yield from ((data, key) for key in (*LISTS, *NUMBERS) if key in data)
    if "shadowedRange" in data:
        yield from ((data["shadowedRange"], key) for key in ("start", "end"))


# ------------------------------------------------------------------------------------ structure


def _place(rng: Random, events: list[Row]) -> int:
    """Choose an event; one of a rare type as likely as one of a frequent type."""
    kind = rng.choice(sorted({event["type"] for event in events}))
    return rng.choice([place for place, event in enumerate(events) if event["type"] == kind])


def _drop(rng: Random, log: Log) -> Log:
    """Leave one event out."""
    del log.events[_place(rng, log.events)]
    return log


def _duplicate(rng: Random, log: Log) -> Log:
    """Write one event twice, the second time soon or late."""
    place = _place(rng, log.events)
    end = rng.choice((place + 1, len(log.events), rng.randint(place, len(log.events))))
    log.events.insert(end, copy.deepcopy(log.events[place]))
    return log


def _move(rng: Random, log: Log) -> Log:
    """Move one event a little, or far."""
    event = log.events.pop(place := _place(rng, log.events))
    reach = rng.choice((1, 1, 2, 4, 40))
    log.events.insert(max(place + rng.choice((-1, 1)) * reach, 0), event)
    return log


def _replay(rng: Random, log: Log) -> Log:
    """Write a stretch of the log again right behind it."""
    end = rng.randint(1, len(log.events))
    stretch = log.events[max(end - rng.randint(1, 12), 0) : end]
    log.events[end:end] = copy.deepcopy(stretch)
    return log


def _cut_out(rng: Random, log: Log) -> Log:
    """Leave a stretch of the log out."""
    start = rng.randrange(len(log.events))
    del log.events[start : start + rng.randint(2, 12)]
    return log


def _cut(rng: Random, log: Log) -> Log:
    """Leave the end of the log out."""
    del log.events[rng.randint(1, len(log.events)) :]
    return log


def _exchange(rng: Random, log: Log) -> Log:
    """Exchange the payloads of two events of a type."""
    first = log.events[_place(rng, log.events)]
    second = rng.choice([event for event in log.events if event["type"] == first["type"]])
    first["data"], second["data"] = second["data"], first["data"]
    return log


# ---------------------------------------------------------------------------------- single values


def _coordinates(rng: Random, log: Log) -> Log:
    """Put one event in another turn or step."""
    places = [event for event in log.events if type(event["data"].get("turn")) is int]
    data = places[_place(rng, places)]["data"]
    field = rng.choice([field for field in ("turn", "step") if field in data])
    data[field] += rng.choice((-1, 1))
    return log


def _id(rng: Random, log: Log) -> Log:
    """Give one thing the name of another."""
    found = [place for event in log.events for place in _fields(event["data"]) if place[1] in IDS]
    field = rng.choice(sorted({str(key) for _, key in found}))
    same = [(parent, key) for parent, key in found if key == field]
    parent, key = rng.choice(same)
    others = [other for source, _ in same if (other := source[key]) != parent[key]]
    parent[key] = rng.choice([*rng.sample(others, min(len(others), 3)), "", "zz"])
    return log


def _cite(rng: Random, log: Log) -> Log:
    """Cite another event, or one less, or one twice."""
    citing = [event for event in log.events if any(_cited(event))]
    if not citing:
        return _field(rng, log)
    event = citing[_place(rng, citing)]
    parent, key = rng.choice(list(_cited(event)))
    value, own = parent[key], event["seq"]
    if not isinstance(value, list):
        parent[key] = rng.choice((value - 1, value + 1, 0, own - 1, own, own + 1))
    elif not value:
        value.append(rng.randrange(own))
    else:
        k = rng.randrange(len(value))
        before, after = value[:k], value[k + 1 :]
        once = (before + after, value[::-1], [*before, rng.randrange(own), *after])
        parent[key] = rng.choice((*once, [*value, value[k]], [*value, rng.randint(0, own)]))
    return log


def _field(rng: Random, log: Log) -> Log:
    """Leave a field of a payload out, or give it another kind."""
    event = log.events[_place(rng, log.events)]
    found = list(_fields(event["data"]))
    if found and (UNREAD.match(event["type"]) or rng.randrange(15)):
        parent, key = rng.choice(found)
        _set(parent, key, rng.choice((GONE, GONE, rng.choice(ODD))))
    else:
        event["data"] = rng.choice(ODD)
    return log


def _fields(value: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Find the fields of a payload, inner ones too: pairs of what holds them and a key."""
    if depth == DEEPEST or not isinstance(value, dict | list):
        return
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if key != "stream":
            yield from _fields(value[key], depth + 1)


def _set(parent: Any, key: Any, value: Any) -> None:
    if value is GONE:
        del parent[key]
    else:
        parent[key] = value


def _envelope(rng: Random, log: Log) -> Log:
    """Change what stands around a payload."""
    event = log.events[_place(rng, log.events)]
    key = rng.choice([*event, "surfaceOp", "sourceEventSeqs", "ignorable", "odd"])
    odd: dict[str, list[Any]] = {
        "surfaceOp": ["append"],
        "sourceEventSeqs": [[], [0]],
        "ignorable": [True],
    }
    known = sorted({other["type"] for other in log.events})
    values: list[Any] = [GONE] if key in event else []
    # A type that nobody knows breaks no rule, and what a payload holds is changed elsewhere.
    if key == "type":
        values += [rng.choice(known), *(value for value in ODD if not isinstance(value, str))]
    elif key != "data":
        values += [*ODD, *odd.get(key, []) * 3]
    _set(event, key, rng.choice(values))
    return log


def _header(rng: Random, log: Log) -> Log:
    """Change the header row."""
    header = log.header
    key = rng.choice([*sorted(set(header) - {"type", "version"}), "origin", "parentSession", "odd"])
    if key == "id":
        header["id"] += "-other"
    elif key == "isSeeded" and rng.randrange(2):
        header["isSeeded"] = not header["isSeeded"]
    else:
        value = rng.choice((GONE, rng.choice(ODD))) if key in header else rng.choice(ODD)
        _set(header, key, value)
    return log


def _result(rng: Random, log: Log) -> Log:
    """Change what makes a result a failure, or a repair."""
    results = [event for event in log.events if event["type"] == "tool/result"]
    if not results:
        return _field(rng, log)
    repairs = [event for event in results if "-tool-result-" in event["data"]["message"]["id"]]
    event = rng.choice(rng.choice((repairs or results, results)))
    data, message = event["data"], event["data"]["message"]
    call, seq = message["toolCallId"], event["seq"]
    kind = rng.choice(("forked", "interrupted"))
    changes: tuple[Callable[[], object], ...] = (
        lambda: message.update(isError=not message.get("isError")),
        lambda: message.pop("isError", None),
        lambda: data.pop("error", None),
        lambda: data.update(error={"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}),
        lambda: data.update(error=FAILURE),
        lambda: message.update(id=f"{kind}-tool-result-{call}-{seq + rng.choice((-1, 0, 1))}"),
        lambda: message.update(id=f"{kind}-tool-result-{call}-0{seq}"),
        lambda: message.update(content=rng.choice((text(REPAIRED), text("x"), text("x") * 2, []))),
        lambda: event.update(sourceEventSeqs=[rng.randrange(seq)]),
        lambda: event.pop("sourceEventSeqs", None),
    )
    rng.choice(changes)()
    return log


STRUCTURE: Final[dict[str, Callable[[Random, Log], Log]]] = {
    "drop": _drop,
    "duplicate": _duplicate,
    "move": _move,
    "replay": _replay,
    "cut out": _cut_out,
    "cut": _cut,
    "exchange": _exchange,
}
CHANGES: Final[dict[str, Callable[[Random, Log], Log]]] = {
    **STRUCTURE,
    "coordinates": _coordinates,
    "id": _id,
    "cite": _cite,
    "field": _field,
    "envelope": _envelope,
    "header": _header,
    "result": _result,
}
"""What `changed` can do to a log, by name."""
