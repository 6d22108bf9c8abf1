"""Bounded memories: the newest of many ids, the newest of many seqs."""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

_LARGEST: Final = 2**32 - 1


class Ids:
    """The newest ids; only their hashes are kept.

    Args:
        most: How many are kept.

    Attributes:
        dropped: Whether any is not kept any more.
    """

    def __init__(self, most: int) -> None:
        self._kept = array("q")
        self._most = most
        self.dropped = False

    def __contains__(self, id_: Hashable) -> bool:
        """Whether an id is kept."""
        return hash(id_) in self._kept

    def add(self, id_: Hashable) -> None:
        """Take in an id."""
        if id_ in self:
            return
        self._kept.append(hash(id_))
        if len(self._kept) > self._most:
            del self._kept[0]
            self.dropped = True


class Seqs:
    """The newest seqs of some events: the highest ones.

    Args:
        most: How many are kept.

    Attributes:
        forgotten: The highest seq that is not kept any more, -1 if all are.
    """

    def __init__(self, most: int) -> None:
        # In their order.
        self._kept = array("I")
        self._most = most
        self.forgotten = -1

    def __contains__(self, seq: float) -> bool:
        """Whether a seq is kept."""
        at = bisect_left(self._kept, seq)
        return at < len(self._kept) and self._kept[at] == seq

    def add(self, seq: int) -> None:
        """Take in a seq."""
        if not 0 <= seq <= _LARGEST:
            self.forgotten = max(self.forgotten, seq)
        elif seq not in self:
            insort(self._kept, seq)
            if len(self._kept) > self._most:
                self.forgotten = max(self.forgotten, self._kept.pop(0))

    def lacks(self, seq: float) -> bool:
        """Whether a seq was never taken in, as far as that is known."""
        return seq > self.forgotten and seq not in self
