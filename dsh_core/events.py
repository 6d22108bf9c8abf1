"""Session events of every dsh generation, as one family of types.

`SessionEvent` is the base. Each event type that something in this project reads has a subclass with
a typed payload (`dsh_core.payloads`); the other known types share one whose payload is raw JSON.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw, Struct

from dsh_core import payloads as p
from dsh_core.parts import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer that the runtime (JavaScript) represents exactly."""

UNREADABLE: Final = -(2**63)
"""Stands for a seq or time that could not be read; the reader has said so in a fault."""


RESUMING: Final = frozenset(
    {
        *("agent/inbox/spliced", "session/end-seed", "turn/start", "user/message"),
        *("agent-preset/selected", "approval/policy", "command/run", "compaction/start"),
        *("feedback/message-delete", "feedback/message-put", "feedback/record", "goal/change"),
        "job/settled",
        *("model/selection", "permission/preset", "plan/mode", "sandbox/mode", "schedule/change"),
        *("session/title", "subagent/model-selection-policy", "team/member", "team/task"),
        *("team/message/delivered", "team/message/queued", "working-directory/change"),
    }
)
"""What a process may begin with that goes on with a session: what happens between turns."""


class Contract(StrEnum):
    """The contracts an event log can be held to."""

    SEED = "seed"
    V0 = "v0"
    V4 = "v4"


class SessionHeader(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """The first row of a log from August on; made up from the file name for June logs."""

    id: str
    version: int | None = None
    created_at: int = 0
    cwd: str = ""
    parent_session: str = ""
    seed_length: int | None = None
    is_seeded: bool = False
    origin: str = ""
    delegation_depth: int = 0
    agent_preset: str = ""

    @property
    def contract(self) -> Contract:
        """The contract that a log of this generation promises to keep."""
        if self.version is None:
            return Contract.SEED
        return Contract.V4 if self.version >= 4 else Contract.V0  # noqa: PLR2004

    @property
    def format(self) -> str:
        """The name of the log's generation: ``seed``, ``v0`` … ``v4``."""
        return "seed" if self.version is None else f"v{self.version}"


class SessionEvent(Struct, rename="camel", kw_only=True, gc=False):
    """One event of a session log, of any generation.

    Attributes:
        seq: Position in the log, from 0.
        time: Unix time in milliseconds.
        surface_op: Raw JSON of the surface operation, `ABSENT` on log-only events.
        source_event_seqs: Raw JSON list of cited seqs, plain or as ranges.
        ignorable: Raw JSON; readers that do not know the type may skip the event if it is `true`.
    """

    seq: int
    time: int
    surface_op: Raw = ABSENT
    source_event_seqs: Raw = ABSENT
    ignorable: Raw = ABSENT

    if TYPE_CHECKING:

        @property
        def type(self) -> str:
            """The event's type as logged, for example ``tool/call``."""

        @property
        def data(self) -> Any:  # noqa: ANN401 - each subclass narrows it
            """The event's payload."""

    @property
    def appends(self) -> bool:
        """Whether the event adds to the surface instead of replacing a part of it."""
        return self.surface_op is ABSENT or bytes(self.surface_op) == b'"append"'


class KnownEvent(
    SessionEvent, tag_field="type", kw_only=True, gc=False, forbid_unknown_fields=True
):
    """Base of the events whose type is known; the type is the class's tag.

    A row with further keys is read in a slower way, which can tell what is wrong with it.
    """


class TurnStart(KnownEvent, tag="turn/start", gc=False):
    """A turn opens."""

    data: p.TurnStartData


class TurnEnd(KnownEvent, tag="turn/end", gc=False):
    """A turn closes."""

    data: p.TurnEndData


class StepStart(KnownEvent, tag="step/start", gc=False):
    """A step opens."""

    data: p.StepData


class StepEnd(KnownEvent, tag="step/end", gc=False):
    """A step closes."""

    data: p.StepData


class AssistantChunk(KnownEvent, tag="assistant/chunk", gc=False):
    """A piece of a model stream (June to August)."""

    data: p.ChunkData


class AssistantMessage(KnownEvent, tag="assistant/message", gc=False):
    """The model's settled answer."""

    data: p.AssistantMessageData


class AssistantAttempt(KnownEvent, tag="assistant/attempt", gc=False):
    """A model attempt that gave no answer."""

    data: p.AttemptData


class ToolCall(KnownEvent, tag="tool/call", gc=False):
    """A tool starts."""

    data: p.ToolCallData


class ToolResult(KnownEvent, tag="tool/result", gc=False):
    """A tool's result."""

    data: p.ToolResultData


class UserMessage(KnownEvent, tag="user/message", gc=False):
    """A message to the model that is not the model's own."""

    data: p.UserMessageData


class SystemMessage(KnownEvent, tag="system/message", gc=False):
    """The system prompt on the surface (v3 on)."""

    data: p.StepMessageData


class DeveloperMessage(KnownEvent, tag="developer/message", gc=False):
    """Tool additions and removals on the surface (v4)."""

    data: p.DeveloperMessageData


class UsageEvent(KnownEvent, tag="usage", gc=False):
    """Token usage (June)."""

    data: p.UsageData


class ErrorEvent(KnownEvent, tag="error", gc=False):
    """A failure of the loop (June)."""

    data: p.ErrorData


class RequestHeader(KnownEvent, tag="request/header", gc=False):
    """What a model request is made of."""

    data: p.RequestHeaderData


class RequestContext(KnownEvent, tag="request/context", gc=False):
    """Where a model request goes."""

    data: p.ModelConfig


class LlmRetry(KnownEvent, tag="llm/retry", gc=False):
    """A retry is scheduled."""

    data: p.RetryData


class LlmRetryStarted(KnownEvent, tag="llm/retry-started", gc=False):
    """A retry begins."""

    data: p.RetryStartedData


class EndSeed(KnownEvent, tag="session/end-seed", gc=False):
    """End of an inherited prefix, or a resume mark."""

    data: p.EndSeedData


class InboxSpliced(KnownEvent, tag="agent/inbox/spliced", gc=False):
    """Messages are queued or claimed."""

    data: p.InboxData


class SubagentCatalog(KnownEvent, tag="subagent/catalog", gc=False):
    """A child session is recorded in its parent."""

    data: p.CatalogData


class AgentPresetSelected(KnownEvent, tag="agent-preset/selected", gc=False):
    """The agent preset changes."""

    data: p.PresetData


class UnknownEvent(SessionEvent, kw_only=True, gc=False):
    """An event of a type that no dsh generation of ours knows; made by the lenient decoder only."""

    type: str
    data: Raw


UNTYPED: Final = (
    "context/message",
    "steering/message",
    "model/selection",
    "todo/write",
    "compaction/start",
    "compaction/summary",
    "compaction/end",
    "compaction/prune",
    "image/offload",
    "session-log-deepseek/delivery-accepted",
    "web/deepseek-search-llm-request",
    "session/title",
    "session/title-llm-request",
    "tool/code-dispatch-start",
    "tool/code-dispatch",
    "tool/ptc-dispatch-start",
    "tool/ptc-dispatch",
    "job/registered",
    "job/settled",
    "tool-workflow/run-start",
    "tool-workflow/agent-start",
    "tool-workflow/agent-end",
    "tool-workflow/run-end",
    "subagent/descriptor",
    "subagent/model-selection-policy",
    "deliverables/presented",
    "permission/preset",
    "sandbox/mode",
    "approval/policy",
    "approval/asked",
    "approval/decided",
    "plan/mode",
    "command/run",
    "command/done",
    "goal/change",
    "schedule/change",
    "hook/invoked",
    "hook/result",
    "feedback/record",
    "feedback/message-put",
    "feedback/message-delete",
    "team/member",
    "team/task",
    "team/message/queued",
    "team/message/delivered",
    "working-directory/change",
    "workspace/changes",
)
"""Known types whose payload nothing reads here: `data` is the raw JSON."""


def _known_events() -> dict[str, type[KnownEvent]]:
    classes: list[Any] = list(KnownEvent.__subclasses__())
    for tag in UNTYPED:
        name = "".join(word.capitalize() for word in tag.replace("/", "-").split("-"))
        classes.append(
            msgspec.defstruct(
                name, [("data", Raw)], bases=(KnownEvent,), tag=tag, module=__name__, gc=False
            )
        )
    known: dict[str, type[KnownEvent]] = {}
    for cls in classes:
        tag = str(cls.__struct_config__.tag)
        # A class attribute is the cheapest way to answer `event.type` a million times a second.
        cls.type = tag
        known[tag] = cls
    return known


KNOWN_EVENTS: Final[Mapping[str, type[KnownEvent]]] = _known_events()
"""Event class by type, for every type that some dsh generation writes."""
