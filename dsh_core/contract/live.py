"""Facts that no log holds: what agents do, and what is done to history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class StatusChanged:
    """An agent has said what it is doing.

    Attributes:
        agent: Id of the agent.
        status: ``idle``, ``running`` or, of June's agents, ``disposed``.
    """

    agent: str
    status: str


@dataclass(frozen=True, slots=True)
class StatusesUnknown:
    """Nobody has listened to agents for a while: their statuses are free again."""


@dataclass(frozen=True, slots=True)
class HistoryMutated:
    """Somebody was about to change an event that is logged, and was kept from it.

    Attributes:
        seq: Seq of the event.
        operation: What was about to happen, for example ``__setitem__``.
    """

    seq: int
    operation: str


LiveFact: TypeAlias = StatusChanged | StatusesUnknown | HistoryMutated
