"""Rules of the ``log`` about what a message itself must be.

They judge before the rules about calls and results do: an odd message explains much of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from dsh_core.contract.fields import is_filled, plain, shown
from dsh_core.contract.rule import LATER, Rule, RuleSet
from dsh_core.contract.run import CallKey
from dsh_core.contract.surface import ON_SURFACE
from dsh_core.events import (
    AssistantAttempt,
    AssistantMessage,
    Contract,
    SessionEvent,
    SystemMessage,
    ToolResult,
    UserMessage,
)
from dsh_core.parts import Message, Source, blocks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msgspec import Raw

    from dsh_core.contract.findings import Finding
    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run

ATTEMPT: Final = "assistant/attempt"
_ROLES: Final[Mapping[type[SessionEvent], str]] = {
    AssistantMessage: "assistant",
    SystemMessage: "system",
}


class Rules(RuleSet):
    """What the session fills in, August and later."""

    owner = "log"
    rules: ClassVar = (
        Rule(
            "message.shape",
            "a message's role, source, ids or content are missing or contradict each other",
            "Write messages through the session, which fills them in.",
            on=(*ON_SURFACE, ATTEMPT),
            contracts=LATER,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        version = run.header.version
        # July builds wrote messages without id or source.
        self._strict = run.contract is Contract.V4 or (version is not None and version > 0)
        self._exact = run.contract is Contract.V4

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        if self.run.contract is Contract.SEED:
            return {}
        attempt: Mapping[str, Handler] = {ATTEMPT: self._attempt} if self._exact else {}
        return {**dict.fromkeys(ON_SURFACE, self._message), **attempt}

    def _attempt(self, event: AssistantAttempt, line: int) -> None:
        if not _is_list(event.data.stream):
            self.trip("message.shape", "stream is not a list", event, line)

    def _message(self, event: SessionEvent, line: int) -> None:
        problem = self._shape_problem(event)
        if not problem:
            return
        call_id = event.data.call_id if isinstance(event, ToolResult) else None
        finding = self.trip("message.shape", problem, event, line, call_id=call_id)
        self.run.blame_for_good(finding, ("message", event.seq))
        if isinstance(event, ToolResult):
            self._blame_result(finding, event)
        elif isinstance(event, AssistantMessage) and not event.data.tool_calls():
            # Calls that it may have advertised.
            self.run.blame(finding, ("answer", event.data.turn, event.data.step))

    def _blame_result(self, finding: Finding | None, event: ToolResult) -> None:
        """Blame a finding for what goes wrong with the calls that an odd result may answer."""
        run, data, message = self.run, event.data, event.data.message
        run.blame(finding, CallKey("call", data.call_id))
        pending = run.timeline.pending
        names = {data.call_id}
        if message is not None:
            source = message.source
            names |= {
                message.tool_call_id,
                _wrapped_call(message),
                source.call_id if source else "",
            }
        cited = plain(event.source_event_seqs)
        if isinstance(cited, list):
            names |= {id_ for id_, call in pending.items() if call.seq in cited}
        names.discard("")
        meant = names or set(pending)
        if data.call_id not in pending or len(meant) > 1:
            # Which of them it answers is not sure.
            for id_ in meant:
                run.blame(finding, CallKey("answered", id_), CallKey("twice", id_))

    def _shape_problem(self, event: SessionEvent) -> str:
        if isinstance(event, UserMessage):
            data = event.data
            return self._problem("user", data.role, data.id, data.source, data.content)
        message: Message | None = event.data.message
        if message is None:
            return "the message is missing" if self._strict else ""
        if isinstance(event, ToolResult):
            return self._result_problem(event, message)
        role = _ROLES.get(type(event), "developer")
        problem = self._problem(role, message.role, message.id, message.source, message.content)
        if problem or message.source is None:
            return problem
        if isinstance(event, SystemMessage):
            return self._system_problem(message.source, message.content)
        return self._answer_problem(event, message.source)

    def _system_problem(self, source: Source, content: Raw) -> str:
        if not self._exact:
            return ""
        if source.kind != "system-prompt":
            return "the source of a system message is not system-prompt"
        for block in plain(content) or ():
            if not isinstance(block, dict) or not is_filled(block.get("type")):
                return "a block of a system message has no type"
            if block["type"] == "text" and not isinstance(block.get("text"), str):
                return "a text block of a system message has no text"
        return ""

    def _answer_problem(self, event: SessionEvent, source: Source) -> str:
        if not isinstance(event, AssistantMessage):
            return ""
        if source.kind != "model":
            return "the source of an answer is not a model"
        if not self._exact:
            return ""
        if not (source.provider and source.model):
            return "the source of an answer names no provider or model"
        return "" if _is_list(event.data.stream) else "stream is not a list"

    def _result_problem(self, event: ToolResult, message: Message) -> str:
        source = message.source
        called = message.tool_call_id or _wrapped_call(message) or event.data.call_id
        if source is not None and source.call_id and source.call_id != called:
            return (
                f"the result of call {shown(called)} has call {shown(source.call_id)} as its source"
            )
        if not self._strict:
            return ""
        if source is not None and source.kind != "tool":
            return "the source of a result is not a tool"
        problems = {
            "toolCallId is missing": not message.tool_call_id,
            "the source of a result names no call": source is not None and not source.call_id,
            "isError is no boolean": message.is_error is None,
        }
        problem = next((text for text, wrong in problems.items() if wrong), "")
        if self._exact and problem:
            return problem
        role = "tool" if self._exact else "user"
        return self._problem(role, message.role, message.id, source, message.content)

    def _problem(
        self, wanted: str, role: str, id_: str, source: Source | None, content: Raw
    ) -> str:
        if role and role != wanted:
            return f"role is not {wanted!r}"
        if not self._strict:
            return ""
        kind = "" if source is None else source.kind
        for name, value in (("role", role), ("id", id_), ("source", kind)):
            if not value:
                return f"{name} is missing"
        if not self._exact:
            return ""
        if kind == "plugin":
            return "the source names no producer of its own"
        return "" if _is_list(content) else "content is not a list"


def _is_list(raw: Raw) -> bool:
    """Whether raw JSON is a list; it may be long, and its first byte is enough."""
    return bytes(memoryview(raw)[:1]) == b"["


def _wrapped_call(message: Message) -> str:
    """Return the call that a result of v3 or earlier names on the block inside its message."""
    wrapped = (b.tool_call_id for b in blocks(message.content) if b.type == "tool-result")
    return next(wrapped, "")
