"""Messages that wait for the agent: how long the first message of a turn has queued."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dsh_core.events import InboxSpliced

MAX_QUEUED: Final = 1024
NS_PER_S: Final = 1_000_000_000


class Inbox:
    """Follows the lists of pending messages, leniently."""

    def __init__(self) -> None:
        """Start with empty lists."""
        self._lists: dict[str, list[int]] = {}

    def splice(self, event: InboxSpliced, now_ns: int) -> float | None:
        """Take in a change of a list.

        Args:
            event: The change: messages inserted, removed, or both.
            now_ns: When it happens, Unix time in ns.

        Returns:
            For a claim of the agent's, how long the first claimed message waited, in seconds.
        """
        data = event.data
        times = self._lists.setdefault(data.target[:32], [])
        start = min(max(data.start, 0), len(times))
        end = min(start + max(data.removed_count, 0), len(times))
        removed = times[start:end]
        room = MAX_QUEUED - len(times) + len(removed)
        times[start:end] = [now_ns] * min(len(data.inserted), room)
        if len(self._lists) > 8:  # noqa: PLR2004 - dsh has two; a hostile log may name any
            self._lists.clear()
        if not removed or data.has_outcome:
            return None
        return max(now_ns - removed[0], 0) / NS_PER_S
