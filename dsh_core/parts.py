"""What payloads are made of: failures, sources, messages, content blocks.

Fields nobody reads are skipped by the decoder; content (texts, arguments, streams) stays an
undecoded `msgspec.Raw` until somebody asks for it. Wire names are camelCase, attribute names
snake_case.

A `Raw` keeps the block of input it points into alive: copy it (`Raw.copy()`) before storing it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw, Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

ABSENT: Final = Raw(b"")
"""Marks a raw field that the event does not have."""
NO_NUMBER: Final = -1
"""Stands for a number (turn, step, index) that is missing or not an integer."""


class Part(Struct, rename="camel", gc=False):
    """Base of everything inside an event's `data`: partial, immutable by convention."""


class Failure(Part):
    """A model failure, as dsh logs it."""

    message: str = ""
    code: str = ""
    status: int | None = None
    provider_retry_after_ms: float | None = None
    request_id: str = ""


class ErrorInfo(Part):
    """The structured error of a tool result: class name and stable code."""

    name: str = ""
    code: str = ""


class Source(Part):
    """Who made a message.

    Attributes:
        plugin: Raw name of the plugin that did (kind ``plugin``, until v3).
        compaction_id: Raw id of the compaction that the message belongs to.
        source_command_id: Raw id of the command that asked for the compaction.
    """

    kind: str = ""
    call_id: str = ""
    provider: str = ""
    model: str = ""
    plugin: Raw = ABSENT
    compaction_id: Raw = ABSENT
    source_command_id: Raw = ABSENT


class CallBlock(Part):
    """A content block of which only what a tool call consists of is decoded."""

    type: str = ""
    id: str = ""
    name: str = ""
    arguments: Raw = ABSENT

    @property
    def argument_text(self) -> str | None:
        """The arguments of a tool call as the model wrote them, None if they are no text."""
        try:
            return decode_text(self.arguments)
        except (msgspec.MsgspecError, RecursionError):
            return None


class Block(CallBlock):
    """One content block; `arguments` and `content` stay raw."""

    text: str = ""
    tool_call_id: str = ""
    is_error: bool = False
    content: Raw = ABSENT


class Message(Part):
    """The envelope of a model message.

    Attributes:
        is_error: Whether it is flagged as an error; None if the flag is no boolean.
    """

    id: str = ""
    role: str = ""
    source: Source | None = None
    content: Raw = ABSENT
    tool_call_id: str = ""
    is_error: bool | None = False


_decode_blocks = msgspec.json.Decoder(list[Block]).decode
decode_text = msgspec.json.Decoder(str).decode
decode_source = msgspec.json.Decoder(Source | None).decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
decode_any = msgspec.json.Decoder().decode


def lenient_source(raw: Raw) -> Source | None:
    """Return what fits of a source; a field of another shape keeps its default."""
    try:
        given = _decode_fields(raw)
    except (msgspec.MsgspecError, RecursionError):
        return None
    found: dict[str, object] = {}
    for field in msgspec.structs.fields(Source):
        value = given.get(field.encode_name)
        if value is not None:
            try:
                found[field.name] = value if field.type is Raw else decode_text(value)
            except msgspec.MsgspecError:
                continue
    return msgspec.structs.replace(Source(), **found)


def blocks(content: Raw) -> Sequence[Block]:
    """Decode message content; content of another shape gives no blocks."""
    if content is ABSENT:
        return ()
    try:
        return _decode_blocks(content)
    except (msgspec.MsgspecError, RecursionError):
        return blocks_one_by_one(content)


def blocks_one_by_one(content: Raw) -> Sequence[Block]:
    """Decode message content of which some blocks are of another shape: these are left out."""
    try:
        items = decode_any(content)
    except (msgspec.MsgspecError, RecursionError):
        return ()
    found: list[Block] = []
    for item in items if isinstance(items, list) else ():
        try:
            found.append(_decode_blocks(msgspec.json.encode([item]))[0])
        except (msgspec.MsgspecError, RecursionError):
            continue
    return found
