"""Text from logs, made safe for a terminal and for the eyes in front of it."""

from __future__ import annotations

import unicodedata


def printable(text: str) -> str:
    r"""Return a text on one line in which nothing acts on a terminal.

    Control and escape characters, marks that reverse the direction of writing, half characters and
    whatever else shows no sign are written as escapes: ``\x1b``, ``\u202e``, ``\n``.

    Args:
        text: Any string.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or unicodedata.category(char) == "Zs" else _escape(char)
        for char in text
    )


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
