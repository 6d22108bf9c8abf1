"""Facts that no log holds: what agents and tools do, and what is done to history and results."""

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
    """Nobody has listened for a while: statuses of agents and stages of tools are free again."""


@dataclass(frozen=True, slots=True)
class HistoryMutated:
    """Somebody was about to change an event that is logged, and was kept from it.

    Attributes:
        seq: Seq of the event.
        operation: What was about to happen, for example ``__setitem__``.
    """

    seq: int
    operation: str


@dataclass(frozen=True, slots=True)
class ToolStage:
    """The execution of a tool has come to a stage of its pipeline.

    Attributes:
        execution: Number of the execution; no two of a session have the same.
        call_id: Id of the call that is executed.
        name: The tool that the call names.
        stage: ``pre-execute``, ``execute``, ``post-execute`` or ``result``.
        changeable: What can still be changed of a result that is handed out: ``result``,
            ``content``.
    """

    execution: int
    call_id: str
    name: str
    stage: str
    changeable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResultMutated:
    """Somebody was about to change a tool's result that is handed out, and was kept from it.

    Attributes:
        call_id: Id of the call.
        operation: What was about to happen, for example ``append``.
    """

    call_id: str
    operation: str


LiveFact: TypeAlias = StatusChanged | StatusesUnknown | HistoryMutated | ToolStage | ResultMutated
