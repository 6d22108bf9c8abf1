"""The answer of the Messages API: from its events to chunks."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from dsh_core.errors import LlmError
from dsh_core.events import MAX_SAFE_INTEGER
from dsh_core.llm import chunks as make
from dsh_core.llm.assembler import MAX_BLOCKS
from dsh_core.llm.provider_errors import event_error
from dsh_core.llm.text import valid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dsh_core.llm.chunks import Block, Chunk, TokenUsage
    from dsh_core.llm.sse import SseEvent

_FINISH: Final[Mapping[str, str]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool-calls",
    "max_tokens": "max-tokens",
}
_TYPES: Final[Mapping[str, str]] = {
    "text": "text",
    "thinking": "reasoning",
    "redacted_thinking": "reasoning",
    "tool_use": "tool-call",
}
_REASON: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_USAGE: Final = (
    ("input_tokens", "inputTokens"),
    ("output_tokens", "outputTokens"),
    ("cache_read_input_tokens", "cacheReadTokens"),
    ("cache_creation_input_tokens", "cacheWriteTokens"),
)


MAX_EVENTS: Final = 500_000
"""Events that one answer may have."""


def malformed(what: str) -> LlmError:
    """Return the error for an answer that makes no sense."""
    return LlmError(f"Messages stream: {what}", "MALFORMED_RESPONSE")


@dataclass(slots=True)
class _Open:
    """A block under way; `kind` is empty for one that is of no use here."""

    kind: str
    head: Block
    texts: list[str] = field(default_factory=list)
    signature: list[str] = field(default_factory=list)

    def block(self) -> Block:
        """Return the block as the harness has it."""
        text = "".join(self.texts)
        if self.kind == "tool-call":
            return self.head | {"arguments": text}
        block, signature = self.head | {"text": text}, "".join(self.signature)
        return block | {"signature": signature} if signature else block


class Answer:
    """Turns events into chunks, as they come.

    Attributes:
        over: Whether the answer has ended; nothing may follow.
    """

    def __init__(self) -> None:
        self.over = False
        self._open: dict[int, _Open] = {}
        self._seen: set[int] = set()
        self._events = 0
        self._content = 0
        self._bad_input = False
        self._stop: object = None
        self._usage: dict[str, int] = {}
        self._handlers: dict[str, Callable[[Mapping[str, Any]], Iterator[Chunk]]] = {
            "message_start": self._message_start,
            "content_block_start": self._block_start,
            "content_block_delta": self._block_delta,
            "content_block_stop": self._block_stop,
            "message_delta": self._message_delta,
            "message_stop": self._message_stop,
            "error": self._error,
        }

    def take(self, event: SseEvent) -> Iterator[Chunk]:
        """Take the next event; one of unknown type (``ping``) says nothing.

        Args:
            event: The event.

        Yields:
            The chunks it stands for.

        Raises:
            LlmError: It makes no sense or is one too many (``MALFORMED_RESPONSE``), or reports an
                error.
        """
        self._events += 1
        if self._events > MAX_EVENTS:
            raise malformed(f"more than {MAX_EVENTS} events")
        try:
            data = json.loads(event.data)
        except (ValueError, RecursionError):
            raise malformed("an event is no JSON") from None
        if not isinstance(data, dict):
            raise malformed("an event is no object")
        # The data repeats the type, and some gateways send only that.
        kind = data.get("type", event.event)
        handler = self._handlers.get(kind) if isinstance(kind, str) else None
        if handler is not None:
            yield from handler(data)

    def _message_start(self, data: Mapping[str, Any]) -> Iterator[Chunk]:
        self._count(_object(data, "message").get("usage"))
        yield from ()

    def _block_start(self, data: Mapping[str, Any]) -> Iterator[Chunk]:
        index, source = _index(data), _object(data, "content_block")
        if index in self._seen:
            raise malformed(f"block {index} starts twice")
        if len(self._seen) >= MAX_BLOCKS:
            raise malformed(f"more than {MAX_BLOCKS} blocks")
        self._seen.add(index)
        kind = _TYPES.get(_text(source, "type"), "")
        self._open[index] = opened = _Open(kind, {"type": kind})
        if not kind:
            return
        self._content += 1
        yield make.block_start(index, kind)
        if kind == "tool-call":
            opened.head |= {"id": _text(source, "id"), "name": _text(source, "name")}
            if not opened.head["id"] or not opened.head["name"]:
                raise malformed(f"tool call {index} has no id or no name")
            yield make.tool_call_delta(index, opened.head["id"], "", opened.head["name"])
        elif source["type"] == "redacted_thinking":
            opened.head["redactedData"] = _text(source, "data")
        else:
            opened.signature.append(_text(source, "signature"))
            yield from self._more(index, opened, _text(source, source["type"]))

    def _block_delta(self, data: Mapping[str, Any]) -> Iterator[Chunk]:
        index, delta = _index(data), _object(data, "delta")
        opened = self._open.get(index)
        if opened is None:
            raise malformed(f"a delta for block {index}, which is not open")
        kind = delta.get("type")
        if kind == "text_delta" and opened.kind == "text":
            yield from self._more(index, opened, _text(delta, "text"))
        elif kind == "thinking_delta" and opened.kind == "reasoning":
            yield from self._more(index, opened, _text(delta, "thinking"))
        elif kind == "input_json_delta" and opened.kind == "tool-call":
            yield from self._more(index, opened, _text(delta, "partial_json"))
        elif kind == "signature_delta" and opened.kind == "reasoning":
            opened.signature.append(_text(delta, "signature"))

    def _more(self, index: int, opened: _Open, text: str) -> Iterator[Chunk]:
        if not text:
            return
        opened.texts.append(text)
        if opened.kind == "text":
            yield make.text_delta(index, text)
        elif opened.kind == "reasoning":
            yield make.reasoning_delta(index, text)
        else:
            yield make.tool_call_delta(index, opened.head["id"], text)

    def _block_stop(self, data: Mapping[str, Any]) -> Iterator[Chunk]:
        index = _index(data)
        opened = self._open.pop(index, None)
        if opened is None:
            raise malformed(f"block {index} stops, and is not open")
        if opened.kind:
            block = opened.block()
            if opened.kind == "tool-call":
                self._bad_input |= not _is_json(block["arguments"])
            yield make.block_end(index, block)

    def _message_delta(self, data: Mapping[str, Any]) -> Iterator[Chunk]:
        self._count(data.get("usage"))
        stop = _object(data, "delta").get("stop_reason")
        self._stop = self._stop if stop is None else stop
        yield from ()

    def _message_stop(self, _data: Mapping[str, Any]) -> Iterator[Chunk]:
        if self._open:
            raise malformed("the message stops amid a block")
        if self._usage:
            counts = {"inputTokens": 0, "outputTokens": 0} | self._usage
            yield make.usage_chunk(cast("TokenUsage", counts))
        reason = self._stop
        if not isinstance(reason, str) or not _REASON.fullmatch(reason):
            raise malformed("the message stops without a usable reason")
        kind = _FINISH.get(reason)
        if kind is None:
            raise LlmError(f"the model stopped with reason {reason!r}", reason.upper())
        if not self._content and kind != "max-tokens":
            raise LlmError("the answer has no content", "EMPTY_RESPONSE")
        # Arguments cut off by the limit are no mistake of the model.
        if self._bad_input and kind != "max-tokens":
            raise malformed("the input of a tool is no JSON")
        self.over = True
        yield make.finish(kind)

    def _error(self, data: Mapping[str, Any]) -> Iterator[Chunk]:
        yield from ()
        raise event_error(data)

    def _count(self, usage: object) -> None:
        """Take what is known about usage; later numbers are totals, not additions."""
        if not isinstance(usage, dict):
            return
        for name, ours in _USAGE:
            value = usage.get(name)
            if (
                isinstance(value, int)
                and not isinstance(value, bool)
                and 0 <= value <= MAX_SAFE_INTEGER
            ):
                self._usage[ours] = value


def _index(data: Mapping[str, Any]) -> int:
    index = data.get("index")
    if isinstance(index, int) and not isinstance(index, bool) and 0 <= index <= MAX_SAFE_INTEGER:
        return index
    raise malformed("an event has no usable index")


def _object(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    if not isinstance(value, dict):
        raise malformed(f"an event has no usable {key}")
    return value


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key, "")
    if not isinstance(value, str):
        raise malformed(f"{key} is no text")
    return valid(value)


def _is_json(arguments: str) -> bool:
    if not arguments:
        return True
    try:
        json.loads(arguments)
    except (ValueError, RecursionError):
        return False
    return True
