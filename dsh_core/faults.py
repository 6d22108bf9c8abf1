"""What a reader has to say about bytes that are not a proper event."""

from __future__ import annotations

from dataclasses import dataclass


def counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in a log that is not as the format wants it; reading went on after it.

    Attributes:
        rule: Id of the rule in the catalogue, for example ``line.torn-tail``.
        message: What is wrong, in one clause.
        line: 1-based line in the (decompressed) file; 0 when the event came from no file.
        seq: Seq of the event concerned, if one could be read.
        lost: Whether an event may have been lost here (faults after it can be consequences).
        partial: Whether the next event could be read in part only; with `lost`, it may be another
            event than it seems.
        expected: What would have been right, if there is something to say.
        got: What was there instead, short.
    """

    rule: str
    message: str
    line: int = 0
    seq: int | None = None
    lost: bool = False
    partial: bool = False
    expected: str = ""
    got: str = ""
