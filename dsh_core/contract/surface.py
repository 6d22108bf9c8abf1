"""The surface: the messages that the model sees, in their order.

It moves after the rules have judged an event, and moves on legal and illegal sequences alike: a
message whose span cannot be found is appended.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dsh_core.contract.fields import is_whole
from dsh_core.events import (
    MAX_SAFE_INTEGER,
    AssistantMessage,
    DeveloperMessage,
    KnownEvent,
    SessionEvent,
    SystemMessage,
    ToolResult,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from msgspec import Raw

    from dsh_core.contract.rule import Handler
    from dsh_core.contract.timeline import Timeline

MESSAGES: Final[frozenset[type[KnownEvent]]] = frozenset(
    {UserMessage, AssistantMessage, ToolResult, SystemMessage, DeveloperMessage}
)
"""The events that lie on the surface."""

ON_SURFACE: Final = (
    "user/message",
    "assistant/message",
    "tool/result",
    "system/message",
    "developer/message",
)
"""Types of these events."""

STEERING: Final = "steering/message"
"""Was a message of its own to July, and is on the surface of a log of that time."""

MAX_SURFACE: Final = 4096
"""How many messages are followed; of a longer surface the oldest are forgotten."""

ORDINARY: Final = 0
HEAD: Final = 1
_decode: Final = msgspec.json.Decoder().decode


class Surface:
    """What stands on the surface; arrays keep a long session small.

    Args:
        timeline: Says which events repeat earlier ones: these are on the surface already.

    Attributes:
        seqs: Seqs of the messages, in the surface's order.
        kinds: What each of them is: the protected system message at the `HEAD`, a tool result (see
            `kind_of`) or `ORDINARY`.
        forgotten: The highest seq that was forgotten, None if the surface is whole.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.seqs = array("q")
        self.kinds = array("q")
        self.forgotten: int | None = None

    def handlers(self) -> Mapping[str, Handler]:
        """Return the moves by event type."""
        return dict.fromkeys((*ON_SURFACE, STEERING), self.move)

    def move(self, event: SessionEvent, _line: int) -> None:
        """Take in a message."""
        if self._timeline.replaying:
            return
        kind = kind_of(event)
        ends = None if event.appends else ends_of(event.surface_op)
        span = None if ends is None else self.span(*ends)
        if span is None:
            # A system message that finds the surface empty is its head.
            if not self.seqs and isinstance(event, SystemMessage):
                kind = HEAD
            self.seqs.append(_storable(event.seq))
            self.kinds.append(kind)
            if len(self.seqs) > MAX_SURFACE:
                self._forget()
            return
        first, last = span
        if isinstance(event, SystemMessage) and self.has_head and last == 0:
            kind = HEAD
        self.seqs[first : last + 1] = array("q", [_storable(event.seq)])
        self.kinds[first : last + 1] = array("q", [kind])

    @property
    def has_head(self) -> bool:
        """Whether a protected system message stands first."""
        return bool(self.kinds) and self.kinds[0] == HEAD

    def _forget(self) -> None:
        """Forget the older half, but for the head."""
        half = MAX_SURFACE // 2
        self.forgotten = max(self.forgotten or 0, *self.seqs[1:half])
        del self.seqs[1:half], self.kinds[1:half]

    def span(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the places from one seq to another, None if that is no span of the surface."""
        try:
            first, last = self.seqs.index(start), self.seqs.index(end)
        except (ValueError, OverflowError):
            return None
        return (first, last) if first <= last else None

    def knows(self, seqs: Sequence[int]) -> bool:
        """Whether nothing was forgotten that any of some seqs may name."""
        return self.forgotten is None or not seqs or min(seqs) > self.forgotten


def ends_of(operation: Raw) -> tuple[int, int] | None:
    """Return the seqs that an operation replaces the span between, None if it is no replacement."""
    try:
        op: Any = _decode(operation)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if not isinstance(op, dict) or op.get("op") != "replace":
        return None
    start, end = op.get("startSeq", op.get("start")), op.get("endSeq", op.get("end"))
    return (int(start), int(end)) if is_whole(start) and is_whole(end) else None


def kind_of(event: SessionEvent) -> int:
    """Return what a message is; two results are equal if at most their content differs."""
    if not isinstance(event, ToolResult):
        return ORDINARY
    data, message = event.data, event.data.message
    # Until v3 the flag is a part of the content.
    own = () if message is None else (message.id, message.is_error)
    known = (data.call_id, data.turn, data.step, data.error_code, own)
    # Any number but the two above.
    return (hash(known) & 0xFFFF_FFFF) + 2


def _storable(seq: int) -> int:
    """Return a seq that an array takes; one that nothing can cite stands for all odd ones."""
    return seq if 0 <= seq <= MAX_SAFE_INTEGER else -1
