"""The sentences on what arguments break, bounded: a model gets them all, and logs keep them."""

from __future__ import annotations

from typing import Final

__all__ = ["MAX_VIOLATION_CHARS", "MORE", "Violations"]

MAX_VIOLATION_CHARS: Final = 64 * 1024
"""Characters that the violations of one call may have together, joined for a message."""

MORE: Final = "there are more violations"
"""Stands last where some were left out."""

_JOINT: Final = len("; ")


class Violations:
    """Collects sentences until there is more than anybody would read.

    Attributes:
        texts: The sentences, in order; if not all found room, the last one says so.
        full: Whether it is of no use to look for more.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.full = False
        self._room = MAX_VIOLATION_CHARS

    def add(self, text: str) -> None:
        """Add a sentence.

        Args:
            text: The sentence. The first one is told in any case, cut if it is too long.
        """
        if self.full:
            return
        self._room -= len(text) + _JOINT
        if self._room < 0:
            self.full = True
            if not self.texts:
                self.texts.append(f"{text[: MAX_VIOLATION_CHARS - 1]}…")
            text = MORE
        self.texts.append(text)
