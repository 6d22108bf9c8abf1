"""What a tool returns, as content blocks."""

from __future__ import annotations

import json
from typing import Any, Final

from pydantic_core import to_json

__all__ = ["content_of", "text_block"]

_PLUGIN: Final = "plugin:"


def content_of(value: object) -> list[dict[str, Any]]:
    """Return what a tool returned as content.

    Args:
        value: Text becomes a block, None becomes nothing. A list of blocks that a result may hold
            (texts, images, those of plugins) stays as it is. Other values, dataclasses and pydantic
            models among them, are written as compact JSON.

    Raises:
        ValueError: The value cannot be written as JSON.
        TypeError: The same.
        RecursionError: The same.
    """
    if value is None:
        return []
    if isinstance(value, str):
        # The text itself, also of an enum.
        return [text_block(str.__str__(value))]
    # An empty list is a result, such as nothing found, and not the lack of one.
    if value and isinstance(value, list) and all(map(_is_block, value)):
        if not all(map(_is_plain, value)):
            # A log could not hold it, and would say so much later.
            json.dumps(value, allow_nan=False)
        return list(value)
    return [text_block(to_json(value, inf_nan_mode="null").decode())]


def text_block(text: str) -> dict[str, Any]:
    """Return a text block; what is no Unicode, in names of files for example, is replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return {"type": "text", "text": text}


def _is_block(item: object) -> bool:
    """Tell blocks from data: much of what tools find has a type too, files for example."""
    kind = item.get("type") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(kind, str):
        return False
    if kind == "text":
        return isinstance(item.get("text"), str)
    if kind == "image":
        return isinstance(item.get("url"), str) or isinstance(item.get("attachment"), dict)
    return kind.startswith(_PLUGIN)


def _is_plain(block: dict[str, Any]) -> bool:
    return all(isinstance(part, str) for part in block.values())
