"""Text from elsewhere, made fit to be stored: bounded, and without what UTF-8 cannot say."""

from __future__ import annotations

from typing import Final

MAX_MESSAGE: Final = 2_000
"""Characters of a failure's message that are kept."""

_CUT: Final = "…"


def valid(text: str) -> str:
    """Return a text without lone surrogates: halves that belong together are joined.

    Args:
        text: Any text; JSON may spell half a character.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clip(text: str, limit: int = MAX_MESSAGE) -> str:
    """Return a valid text of at most `limit` characters.

    Args:
        text: Any text.
        limit: How long the result may be.
    """
    text = valid(text[: limit + 1])
    return text if len(text) <= limit else text[: limit - 1] + _CUT
