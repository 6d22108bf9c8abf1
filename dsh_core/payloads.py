"""Payloads of session events: partial, typed views of `data`, see `dsh_core.parts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from dsh_core.parts import (
    ABSENT,
    NO_NUMBER,
    CallBlock,
    ErrorInfo,
    Failure,
    Message,
    Part,
    Source,
    blocks,
    blocks_one_by_one,
    decode_any,
    decode_source,
    decode_text,
    lenient_source,
)
from dsh_core.streams import AnyChunk, decode_raws

if TYPE_CHECKING:
    from collections.abc import Sequence

_decode_calls = msgspec.json.Decoder(list[CallBlock]).decode
# In JavaScript 429.0 is the integer 429.
_decode_failure = msgspec.json.Decoder(Failure, strict=False).decode


class TurnStartData(Part):
    """`turn/start`."""

    turn: int = NO_NUMBER


class TurnReason(Part):
    """Why a turn ended: June keeps message and code flat, later generations nest an `error`."""

    kind: str = ""
    error: Failure | None = None
    message: str = ""
    code: str = ""

    @property
    def failure(self) -> Failure | None:
        """The failure behind reason `error`, of whichever generation."""
        if self.error is not None:
            return self.error
        if self.kind == "error":
            return Failure(message=self.message, code=self.code)
        return None


class TurnEndData(Part):
    """`turn/end`."""

    turn: int = NO_NUMBER
    reason: TurnReason = msgspec.field(default_factory=TurnReason)


class StepData(Part):
    """`step/start`, `step/end`."""

    turn: int = NO_NUMBER
    step: int = NO_NUMBER


class ChunkData(Part):
    """`assistant/chunk`."""

    turn: int = NO_NUMBER
    step: int = NO_NUMBER
    chunk: AnyChunk | None = None


class AssistantMessageData(Part):
    """`assistant/message`: content is flat in June, inside `message` later."""

    turn: int = NO_NUMBER
    step: int = NO_NUMBER
    content: Raw = ABSENT
    message: Message | None = None
    usage: Raw = ABSENT
    stream: Raw = ABSENT
    interrupted: bool = False

    def tool_calls(self) -> Sequence[CallBlock]:
        """Return the tool-call blocks that this message advertises."""
        content = self.content if self.message is None else self.message.content
        try:
            # Texts, which may be long, stay as they are.
            found: Sequence[CallBlock] = _decode_calls(content) if content is not ABSENT else ()
        except (msgspec.MsgspecError, RecursionError):
            found = blocks_one_by_one(content)
        return [block for block in found if block.type == "tool-call"]


class AttemptData(Part):
    """`assistant/attempt`: a failed or cancelled model attempt."""

    turn: int = NO_NUMBER
    step: int = NO_NUMBER
    stream: Raw = ABSENT


class ToolCallData(Part):
    """`tool/call`; `arguments` is the model's own JSON text."""

    turn: int = NO_NUMBER
    step: int = NO_NUMBER
    call_id: str = ""
    name: str = ""
    arguments: str = ""


class ToolResultData(Part):
    """`tool/result`: flat in June, a wrapped block until v3, a message of role `tool` in v4."""

    turn: int = NO_NUMBER
    step: int = NO_NUMBER
    flat_call_id: str = msgspec.field(default="", name="callId")
    content: Raw = ABSENT
    is_error: bool = False
    error: ErrorInfo | None = None
    message: Message | None = None

    @property
    def call_id(self) -> str:
        """The call that this result answers."""
        message = self.message
        if message is None:
            return self.flat_call_id
        if message.tool_call_id:
            return message.tool_call_id
        if message.source is not None and message.source.call_id:
            return message.source.call_id
        return next((b.tool_call_id for b in blocks(message.content)), self.flat_call_id)

    @property
    def error_code(self) -> str:
        """The code of the result's error, empty if it has none."""
        return "" if self.error is None else self.error.code

    @property
    def failed(self) -> bool:
        """Whether the result is flagged as an error."""
        message = self.message
        if message is None:
            return self.is_error
        if message.is_error or message.tool_call_id:
            return bool(message.is_error)
        # The flag sits on the wrapped block until v3.
        return any(b.is_error for b in blocks(message.content) if b.type == "tool-result")

    def text(self, limit: int = 8192) -> str:
        """Return the result's text, at most `limit` characters of it."""
        content = self.content if self.message is None else self.message.content
        parts: list[str] = []
        room = limit
        for block in blocks(content):
            for inner in blocks(block.content) if block.type == "tool-result" else (block,):
                if inner.type == "text" and room > 0:
                    parts.append(inner.text[:room])
                    room -= len(inner.text)
        return "\n".join(parts)


class UserMessageData(Part):
    """`user/message`: a message whose fields lie flat in `data`.

    Attributes:
        raw_source: Who made it, with all that some kinds of messages say there.
    """

    id: str = ""
    role: str = ""
    raw_source: Raw = msgspec.field(default=ABSENT, name="source")
    content: Raw = ABSENT

    @property
    def source(self) -> Source | None:
        """Who made the message, None if it does not say."""
        try:
            return decode_source(self.raw_source)
        except (msgspec.MsgspecError, RecursionError):
            return lenient_source(self.raw_source)


class StepMessageData(Part):
    """`system/message`, `developer/message`."""

    turn: int = NO_NUMBER
    step: int = NO_NUMBER
    message: Message | None = None


class DeveloperMessageData(StepMessageData):
    """`developer/message`."""

    header_seq: Raw = ABSENT


class UsageData(Part):
    """`usage` (June)."""

    turn: int = NO_NUMBER
    step: int = NO_NUMBER
    usage: Raw = ABSENT


class ErrorData(Part):
    """`error` (June)."""

    turn: int = NO_NUMBER
    step: int = NO_NUMBER
    message: str = ""
    code: str = ""


class ModelConfig(Part):
    """Which model a request goes to."""

    provider: str = ""
    model: str = ""


class RequestConfig(ModelConfig):
    """What a request asks of its model; what nobody looks into stays as it is."""

    reasoning_effort: Raw = ABSENT
    max_tokens: Raw = ABSENT


class ToolDefinition(Part):
    """A tool that a request offers; what it says of itself stays as it is."""

    name: str = ""
    description: Raw = ABSENT
    parameters: Raw = ABSENT
    defer_loading: Raw = ABSENT

    @property
    def complete(self) -> bool:
        """Whether it has a text and a schema."""
        kinds = bytes(memoryview(self.description)[:1]) + bytes(memoryview(self.parameters)[:1])
        return kinds == b'"{'


class RequestHeaderBody(Part):
    """The `header` of a `request/header`; its tools may be long."""

    config: RequestConfig = msgspec.field(default_factory=RequestConfig)
    adapter_defaults: Raw = ABSENT
    tools: Raw = ABSENT

    def definitions(self) -> Sequence[ToolDefinition]:
        """Return the tools; one that is none is left out."""
        try:
            return _decode_tools(self.tools)
        except (msgspec.MsgspecError, RecursionError):
            return _tools_one_by_one(self.tools)


def _tools_one_by_one(tools: Raw) -> Sequence[ToolDefinition]:
    found: list[ToolDefinition] = []
    try:
        items = decode_raws(tools)
    except (msgspec.MsgspecError, RecursionError):
        return ()
    for item in items:
        try:
            found.append(_decode_tool(item))
        except (msgspec.MsgspecError, RecursionError):
            continue
    return found


_decode_tool = msgspec.json.Decoder(ToolDefinition).decode
_decode_tools = msgspec.json.Decoder(list[ToolDefinition]).decode


class RequestHeaderData(Part):
    """`request/header`.

    Attributes:
        raw_reason: Raw word for why there is a new one.
    """

    header: RequestHeaderBody = msgspec.field(default_factory=RequestHeaderBody)
    raw_reason: Raw = msgspec.field(default=ABSENT, name="reason")
    starts_series: Raw = ABSENT

    @property
    def reason(self) -> str:
        """Why there is a new header, empty if it does not say."""
        try:
            return decode_text(self.raw_reason)
        except msgspec.MsgspecError:
            return ""


class RetryData(Part):
    """`llm/retry`."""

    turn: int = NO_NUMBER
    step: int = NO_NUMBER
    retry: int = NO_NUMBER
    retry_id: Raw = ABSENT
    provider: Raw = ABSENT
    policy_key: Raw = ABSENT
    mode: Raw = ABSENT
    max_retries: Raw = ABSENT
    delay_ms: float = float(NO_NUMBER)
    raw_failure: Raw = msgspec.field(default=ABSENT, name="failure")

    @property
    def failure(self) -> Failure | None:
        """The failure after which the request is repeated, None if it cannot be read."""
        try:
            return _decode_failure(self.raw_failure)
        except (msgspec.MsgspecError, RecursionError):
            return None


class RetryStartedData(Part):
    """`llm/retry-started`."""

    turn: int = NO_NUMBER
    step: int = NO_NUMBER
    retry: int = NO_NUMBER
    retry_id: Raw = ABSENT


class EndSeedData(Part):
    """`session/end-seed`."""

    inherited: bool = False


class InsertedMessage(Part):
    """A queued message of which only the id matters here."""

    id: str = ""


class InboxData(Part):
    """`agent/inbox/spliced`; what cannot be read counts as nothing where numbers are asked for.

    Attributes:
        target: Name of the list that changes.
        raw_start: Raw position of the change.
        raw_removed_count: Raw number of the messages that it takes away there.
        raw_inserted: Raw list of the messages that it puts there.
        raw_outcome: Raw word for what became of the messages that it takes away.
    """

    target: str = ""
    raw_start: Raw = msgspec.field(default=ABSENT, name="start")
    raw_removed_count: Raw = msgspec.field(default=ABSENT, name="removedCount")
    raw_inserted: Raw = msgspec.field(default=ABSENT, name="inserted")
    raw_outcome: Raw = msgspec.field(default=ABSENT, name="outcome")

    @property
    def start(self) -> int:
        """Where in the list the change is."""
        return _integer(self.raw_start)

    @property
    def removed_count(self) -> int:
        """How many messages it takes away."""
        return _integer(self.raw_removed_count)

    @property
    def inserted(self) -> Sequence[InsertedMessage]:
        """The messages that it puts there; what is no message is left out."""
        try:
            return _decode_inserted(self.raw_inserted)
        except (msgspec.MsgspecError, RecursionError):
            return _inserted_one_by_one(self.raw_inserted)

    @property
    def has_outcome(self) -> bool:
        """Whether it says what became of the messages, as the agent does not of those it takes."""
        return self.raw_outcome is not ABSENT and bytes(self.raw_outcome) != b"null"


_decode_inserted = msgspec.json.Decoder(list[InsertedMessage]).decode


def _integer(raw: Raw) -> int:
    try:
        value = decode_any(raw)
    except (msgspec.MsgspecError, RecursionError):
        return 0
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _inserted_one_by_one(inserted: Raw) -> Sequence[InsertedMessage]:
    # One odd message must not hide its neighbours.
    try:
        items = decode_any(inserted)
    except (msgspec.MsgspecError, RecursionError):
        return ()
    objects = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else ()
    ids = [item.get("id") for item in objects]
    return [InsertedMessage(id_ if isinstance(id_, str) else "") for id_ in ids]


class CatalogData(Part):
    """`subagent/catalog`."""

    version: Raw = ABSENT
    raw_child_id: Raw = msgspec.field(default=ABSENT, name="childId")
    child_created_at: int = NO_NUMBER
    mode: Raw = ABSENT
    label: Raw = ABSENT

    @property
    def child_id(self) -> str:
        """The child session's id, empty if it cannot be read."""
        try:
            return decode_text(self.raw_child_id)
        except msgspec.MsgspecError:
            return ""


class PresetData(Part):
    """`agent-preset/selected`."""

    agent_preset: str = ""
