"""From a session's log to the messages that a model gets."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from dsh_core.session.entry import APPEND

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dsh_core.session.entry import Entry

_TAGS: Final = {"context/message": "context", "steering/message": "steering"}
"""June's machine-made messages, by the tag that the model sees around them."""


def derive_messages(log: Iterable[Entry]) -> list[dict[str, Any]]:
    """Return the messages that a log stands for.

    Args:
        log: Its entries, in order.

    Returns:
        Mappings of ``role`` and ``content``, deep copies: changing them changes no history.
    """
    return [message for entry in surface(log) if (message := _message(entry)) is not None]


def surface(log: Iterable[Entry]) -> Sequence[Entry]:
    """Return the entries that stand for messages, without those that later ones replace.

    June's entries carry no surface operation; all of them count.
    """
    nodes: list[Entry] = []
    for entry in log:
        operation = entry.surface_op
        if operation is UNSET or operation == APPEND:
            nodes.append(entry)
        elif isinstance(operation, dict):
            _replace(nodes, entry, operation)
    return nodes


def _replace(nodes: list[Entry], entry: Entry, operation: dict[str, Any]) -> None:
    places = {node.seq: place for place, node in enumerate(nodes) if node.surface_op is not UNSET}
    start, end = (
        places.get(seq) if type(seq) is int else None
        for seq in (
            operation.get("startSeq", operation.get("start")),
            operation.get("endSeq", operation.get("end")),
        )
    )
    if start is None or end is None or end < start:
        # It replaces nothing that is there: a check says so, and the message is not lost.
        nodes.append(entry)
        return
    kept = [node for node in nodes[start : end + 1] if node.surface_op is UNSET]
    nodes[start : end + 1] = [entry, *kept]


def _message(entry: Entry) -> dict[str, Any] | None:
    data = entry.data if isinstance(entry.data, dict) else {}
    inner = data.get("message")
    message = inner if isinstance(inner, dict) else data
    content = message.get("content")
    if not isinstance(content, list):
        return None
    if entry.type == "user/message":
        return {"role": "user", "content": deepcopy(content)}
    if entry.type == "assistant/message":
        return {"role": "assistant", "content": deepcopy(content)}
    if entry.type == "tool/result":
        return {"role": "user", "content": [_result(message, content)]}
    if entry.type in _TAGS:
        return {"role": "user", "content": tagged(_TAGS[entry.type], _kind(data), content)}
    return None


def _kind(data: dict[str, Any]) -> str:
    source = data.get("source")
    return str(source.get("kind", "")) if isinstance(source, dict) else ""


def _result(message: dict[str, Any], content: list[Any]) -> dict[str, Any]:
    first = content[0] if content else None
    if isinstance(first, dict) and first.get("type") == "tool-result":
        # August wraps the content in the block itself.
        return deepcopy(first)
    return {
        "type": "tool-result",
        "toolCallId": message.get("toolCallId", message.get("callId", "")),
        "content": deepcopy(content),
        "isError": message.get("isError", False) is True,
    }


def tagged(tag: str, kind: str, content: Sequence[Any]) -> list[Any]:
    """Return content between a tag that tells the model where it comes from.

    Args:
        tag: ``context`` or ``steering``.
        kind: Kind of the source.
        content: Content blocks; copied.
    """
    quoted = json.dumps(kind, ensure_ascii=False)
    return [
        {"type": "text", "text": f"<{tag} source={quoted}>"},
        *deepcopy(list(content)),
        {"type": "text", "text": f"</{tag}>"},
    ]
