"""Session events in notifications of the runtime, as a program wrote them down.

Each is ``{method, payload}`` as the SDK hands them out, or ``{method, params}`` as JSON-RPC has
them on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from dsh_core.events import SessionHeader
from dsh_core.logs.otlp_json import refused
from dsh_core.logs.told import FOREIGN, MAX_KIND, Aside, Told, session_id

if TYPE_CHECKING:
    from dsh_core.faults import Fault

EVENT: Final = "session.event"
CHILD: Final = "subagent.started"


def told_by_notification(value: object, version: int | None = None) -> Told | Aside | Fault:
    """Return what a notification tells.

    Args:
        value: The notification as plain JSON, of whatever quality.
        version: The version of the logs that the runtime writes, None if unknown.
    """
    if not isinstance(value, Mapping):
        return refused("a notification is no object")
    method = value.get("method")
    payload = value.get("payload", value.get("params"))
    if not isinstance(payload, Mapping):
        payload = {}
    if method == EVENT:
        return _event(payload, version)
    if isinstance(method, str):
        # All others name a session, but for those of a child.
        session = session_id(payload.get("sessionId", payload.get("childSessionId")))
        parent = session_id(payload.get("parentSessionId")) if method == CHILD else ""
        return Aside(method[:MAX_KIND], session, parent)
    # Answers to requests are on the wire too.
    return Aside(FOREIGN) if "id" in value else refused("a notification without method")


def _event(payload: Mapping[str, object], version: int | None) -> Told | Fault:
    session, event = session_id(payload.get("sessionId")), payload.get("event")
    if not session:
        return refused("an event without sessionId")
    if not isinstance(event, Mapping):
        return refused("a notification without event")
    return Told(SessionHeader(id=session, version=version), event)
