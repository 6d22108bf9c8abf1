"""Session events in OTLP logs: what the harness's telemetry plugin exports.

Two generations: one exports each event as it is appended, with its payload as the record's body;
the next replays a log when there is feedback, with the whole event as JSON in ``content``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dsh_core.events import SessionHeader
from dsh_core.faults import Fault
from dsh_core.logs.salvage import too_deep
from dsh_core.logs.told import FOREIGN, MAX_KIND, Aside, Told, session_id, version_of, whole_number

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_NESTING: Final = 64
"""How deeply a value may be nested."""

OPS: Final = "/ops"
"""Ends the name of the scope whose records are about the exporter's process."""

_NS_PER_MS: Final = 1_000_000
_NEWEST_VERSION: Final = 4


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A log record, whatever encoding it came in.

    Attributes:
        scope: Name of its scope.
        release: The ``service.version`` of its resource, None if it has none.
        time_ns: When, Unix time in ns; None if that cannot be read.
        attributes: Its attributes as plain values.
        body: Its body as a plain value.
    """

    scope: str
    release: object
    time_ns: int | None
    attributes: Mapping[str, Any]
    body: Any


class TooDeepError(ValueError):
    """A value is nested too deeply."""


def told_by_request(document: object) -> Iterator[Told | Aside | Fault]:
    """Return what one export request tells, record by record; of any document.

    Args:
        document: The request as plain JSON.
    """
    for record in records_of(document):
        yield record if isinstance(record, Fault) else told_by(record)


def records_of(document: object) -> Iterator[LogRecord | Fault]:
    """Return the records of one export request; what is none becomes a fault."""
    for resource in _items(document, "resourceLogs"):
        if resource is None:
            yield refused("a resource is no object")
            continue
        outer = resource.get("resource")
        release = _attributes(outer).get("service.version")
        for scoped in _items(resource, "scopeLogs"):
            if scoped is None:
                yield refused("a scope is no object")
                continue
            scope = scoped.get("scope")
            name = scope.get("name") if isinstance(scope, Mapping) else ""
            for record in _items(scoped, "logRecords"):
                if record is None:
                    yield refused("a record is no object")
                    continue
                yield _record(record, name if isinstance(name, str) else "", release)


def _items(owner: object, name: str) -> Iterator[Mapping[str, Any] | None]:
    """Return the objects of a list; None stands for what is no object."""
    items = owner.get(name) if isinstance(owner, Mapping) else None
    if items is None:
        return
    for item in items if isinstance(items, list) else [None]:
        yield item if isinstance(item, Mapping) else None


def _record(record: Mapping[str, Any], scope: str, release: object) -> LogRecord | Fault:
    try:
        time = whole_number(record.get("timeUnixNano"))
        return LogRecord(
            scope=scope,
            release=release,
            time_ns=time or whole_number(record.get("observedTimeUnixNano")),
            attributes=_attributes(record),
            body=plain(record.get("body")),
        )
    except TooDeepError as error:
        return refused(str(error))


def _attributes(owner: object) -> dict[str, Any]:
    try:
        return _pairs(owner.get("attributes") if isinstance(owner, Mapping) else None, 0)
    except TooDeepError:
        return {}


def _pairs(items: object, depth: int) -> dict[str, Any]:
    if not isinstance(items, list):
        return {}
    return {
        item["key"]: plain(item.get("value"), depth)
        for item in items
        if isinstance(item, Mapping) and isinstance(item.get("key"), str)
    }


def plain(value: object, depth: int = 0) -> Any:  # noqa: ANN401 - a JSON value
    """Return an OTLP value as a plain one; None for what is none.

    Args:
        value: The value, as JSON writes it.
        depth: How deeply it lies in others.

    Raises:
        TooDeepError: It is nested too deeply.
    """
    if depth > MAX_NESTING:
        raise TooDeepError("a value is nested too deeply")
    if not isinstance(value, Mapping) or not value:
        return None
    kind, inner = next(iter(value.items()))
    if kind == "kvlistValue":
        return _pairs(_values(inner), depth + 1)
    if kind == "arrayValue":
        items = _values(inner)
        return [plain(item, depth + 1) for item in items] if isinstance(items, list) else []
    if kind == "intValue":
        return whole_number(inner)
    if kind == "doubleValue":
        return _double(inner)
    scalar = isinstance(inner, bool if kind == "boolValue" else str)
    return inner if scalar and kind in {"boolValue", "stringValue", "bytesValue"} else None


def _values(inner: object) -> object:
    return inner.get("values") if isinstance(inner, Mapping) else None


def _double(inner: object) -> float | int | None:
    if isinstance(inner, str):
        try:
            inner = float(inner)
        except ValueError:
            return None
    if not isinstance(inner, int | float) or isinstance(inner, bool):
        return None
    # JSON has no word for the others.
    return inner if math.isfinite(inner) else None


def told_by(record: LogRecord) -> Told | Aside | Fault:
    """Return what a record tells: an event, something beside events, or why it tells nothing."""
    values = record.attributes
    session = session_id(values.get("session.id")) or session_id(values.get("sessionId"))
    op = values.get("telemetry.op")
    if isinstance(op, str) and (record.scope.endswith(OPS) or op in {"shutdown", "agent-error"}):
        return Aside(op[:MAX_KIND], session)
    if "content" not in values and "event.type" not in values:
        return Aside(FOREIGN)
    if not session:
        return refused("a record without session.id")
    event = _replayed(values["content"]) if "content" in values else _appended(record)
    if not isinstance(event, dict):
        return Aside("elided", session) if event is None else event
    version = whole_number(values.get("session.format_version"))
    if version is None:
        version = version_of(record.release)
    header = SessionHeader(
        id=session,
        version=version if version is None or 0 <= version <= _NEWEST_VERSION else None,
        cwd=_text(values.get("session.cwd")),
        parent_session=session_id(values.get("session.parent_id")),
    )
    return Told(header, event, bare="content" not in values, shuffled=True)


def _appended(record: LogRecord) -> dict[str, Any]:
    values = record.attributes
    return {
        "type": values["event.type"],
        "seq": whole_number(values.get("event.seq")),
        "time": None if record.time_ns is None else record.time_ns // _NS_PER_MS,
        "data": record.body,
    }


def _replayed(content: object) -> dict[str, Any] | Fault | None:
    """Return the event that is written out; None where a note stands for it."""
    if not isinstance(content, str):
        return refused("content is no text")
    if not content.startswith("{"):
        return None
    try:
        data = content.encode()
        event = None if too_deep(data) else msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        event = None
    return event if isinstance(event, dict) else refused("content cannot be read as JSON")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def refused(why: str) -> Fault:
    """Return the fault of a record that tells nothing."""
    return Fault("envelope.invalid", why)
