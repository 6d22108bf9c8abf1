"""A compaction, as its events tell of it: what is read of them, and what the rules remember."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw, Struct

from dsh_core.contract.fields import is_whole, plain, shown
from dsh_core.contract.surface import HEAD
from dsh_core.parts import ABSENT

if TYPE_CHECKING:
    from dsh_core.contract.surface import Surface

UNKNOWN: Final = b"?"
"""Stands for the turn of a compaction whose start was not seen."""


class Payload(Struct, rename="camel", gc=False):
    """What is read of the payload of a compaction's events."""

    compaction_id: Raw = ABSENT
    source_command_id: Raw = ABSENT
    turn: Raw = ABSENT
    error: Raw = ABSENT
    shadowed_seqs: Raw = ABSENT
    shadowed_range: Raw = ABSENT
    shadowed_token_count: Raw = ABSENT

    def shadow_problem(self, *, legacy: bool) -> str:
        """Say what is wrong in itself with what is shadowed; nothing if it is fine.

        Args:
            legacy: Whether fields may be missing.
        """
        seqs, span = plain(self.shadowed_seqs), plain(self.shadowed_range)
        if legacy and ABSENT in (self.shadowed_seqs, self.shadowed_range):
            return ""
        if not isinstance(seqs, list) or not isinstance(span, dict):
            return f"shadowedSeqs is {shown(seqs)}, shadowedRange {shown(span)}"
        if not seqs:
            return "shadowedSeqs is empty"
        ends = (span.get("start"), span.get("end"))
        if not all(is_whole(seq) for seq in (*seqs, *ends)):
            return "shadowedSeqs or shadowedRange holds what is no seq"
        if (seqs[0], seqs[-1]) != ends:
            return "shadowedRange is not from the first to the last of shadowedSeqs"
        return ""

    def count_problem(self, *, legacy: bool) -> str:
        """Say what is wrong with the number of tokens that are shadowed.

        Args:
            legacy: Whether it may be missing.
        """
        count = self.shadowed_token_count
        if is_whole(plain(count)) or (legacy and count is ABSENT):
            return ""
        return "shadowedTokenCount is no count"

    def differs(self, surface: Surface) -> str:
        """Say how what is shadowed differs from what the model sees, as far as that is known.

        Args:
            surface: What it sees; there must be no `shadow_problem`.
        """
        seqs: list[Any] = plain(self.shadowed_seqs)
        if not surface.knows(seqs):
            return ""
        span = surface.span(int(seqs[0]), int(seqs[-1]))
        if span is None:
            return "the shadowed span is not on the surface"
        first, last = span
        if surface.seqs[first : last + 1].tolist() != seqs:
            return "shadowedSeqs is not what stands in its span of the surface"
        if first == 0 and surface.kinds[0] == HEAD:
            return "the protected system message is shadowed"
        return ""


read_payload: Final = msgspec.json.Decoder(Payload).decode
"""Decodes a payload, or raises `msgspec.MsgspecError` if it is no object."""


class Compaction(Struct):
    """A compaction that has started.

    Attributes:
        id: Its id; None if its start did not say.
        command: Id of the command that asked for it.
        turn: The turn that it names.
        gaps: How many gaps there were when it started.
        summarized: Whether it was summed up.
        crossed: Type, seq, line and turn of a turn boundary since, which may yet turn out legal.
        excused: Whether something known explains what is missing of it.
    """

    id: Hashable
    command: Hashable
    turn: int | bytes | None
    gaps: int
    summarized: bool = False
    crossed: tuple[str, int, int, int] | None = None
    excused: bool = False

    @property
    def name(self) -> str:
        """Its id as messages show it."""
        return shown(self.id if isinstance(self.id, str) else None)

    @property
    def key(self) -> Hashable:
        """Blames a finding for what goes wrong with its other events."""
        return key_of(self.id)


def key_of(id_: Hashable) -> Hashable:
    """Return what blames a finding for events of a compaction."""
    return ("compaction", hash(id_))


def name_of(raw: Raw) -> Hashable:
    """Return a text, or the bytes of what stands in its place."""
    value = plain(raw)
    return value if isinstance(value, str) else bytes(raw)


def turn_of(raw: Raw) -> int | bytes | None:
    """Return the turn that a compaction names, None if it says null, else its bytes."""
    value = plain(raw)
    if is_whole(value):
        return int(value)
    return None if value is None and raw is not ABSENT else bytes(raw)
