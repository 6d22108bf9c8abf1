"""Chunks of a model's answer: plain dicts in the shape the logs have, and what they say."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final, Literal, NotRequired, TypeAlias, TypedDict

from dsh_core.abort import AbortError
from dsh_core.errors import HarnessError, LlmError
from dsh_core.llm.text import MAX_MESSAGE, clip

Block: TypeAlias = dict[str, Any]
"""A content block: ``text``, ``reasoning``, ``tool-call`` or of another type."""

UNKNOWN: Final = "UNKNOWN"
"""Code of a failure that has none of its own."""

_LONGEST_CHAIN: Final = 8
_ABORTED_TEXT: Final = "model stream aborted"
_FAILED_TEXT: Final = "model stream failed"


class TokenUsage(TypedDict):
    """Tokens of one request; the parts of the prompt are disjoint."""

    inputTokens: int
    outputTokens: int
    totalTokens: NotRequired[int]
    cacheReadTokens: NotRequired[int]
    cacheWriteTokens: NotRequired[int]
    reasoningTokens: NotRequired[int]


class Failure(TypedDict):
    """Why a request failed (dsh: ``LlmFailure``)."""

    message: str
    code: str
    status: NotRequired[int]
    providerRetryAfterMs: NotRequired[float]


class FinishReason(TypedDict):
    """Why a stream ended; June keeps `message` and `code` of a failure here, not in `failure`."""

    kind: str
    failure: NotRequired[Failure]
    message: NotRequired[str]
    code: NotRequired[str]


class BlockStart(TypedDict):
    """A block begins."""

    type: Literal["block-start"]
    index: int
    blockType: str


class TextDelta(TypedDict):
    """More of a text block."""

    type: Literal["text-delta"]
    index: int
    text: str


class ReasoningDelta(TypedDict):
    """More of a reasoning block."""

    type: Literal["reasoning-delta"]
    index: int
    text: str


class ToolCallDelta(TypedDict):
    """More of a tool call's arguments; usually only the first says the tool's name."""

    type: Literal["tool-call-delta"]
    index: int
    id: str
    name: NotRequired[str]
    argumentsDelta: str


class BlockEnd(TypedDict):
    """A block is complete."""

    type: Literal["block-end"]
    index: int
    block: Block


class UsageChunk(TypedDict):
    """What the request used."""

    type: Literal["usage"]
    usage: TokenUsage


class Finish(TypedDict):
    """The stream is over."""

    type: Literal["finish"]
    reason: FinishReason


Chunk: TypeAlias = (
    BlockStart | TextDelta | ReasoningDelta | ToolCallDelta | BlockEnd | UsageChunk | Finish
)
"""One piece of a stream."""


def block_start(index: int, block_type: str) -> BlockStart:
    """Return the chunk that opens a block."""
    return {"type": "block-start", "index": index, "blockType": block_type}


def text_delta(index: int, text: str) -> TextDelta:
    """Return a chunk with more text."""
    return {"type": "text-delta", "index": index, "text": text}


def reasoning_delta(index: int, text: str) -> ReasoningDelta:
    """Return a chunk with more reasoning."""
    return {"type": "reasoning-delta", "index": index, "text": text}


def tool_call_delta(
    index: int, call_id: str, arguments_delta: str, name: str | None = None
) -> ToolCallDelta:
    """Return a chunk with more of a tool call.

    Args:
        index: Index of the block.
        call_id: Id of the call.
        arguments_delta: More of the arguments' JSON text.
        name: Name of the tool, None to leave it out.
    """
    if name is None:
        return {
            "type": "tool-call-delta",
            "index": index,
            "id": call_id,
            "argumentsDelta": arguments_delta,
        }
    return {
        "type": "tool-call-delta",
        "index": index,
        "id": call_id,
        "name": name,
        "argumentsDelta": arguments_delta,
    }


def block_end(index: int, block: Block) -> BlockEnd:
    """Return the chunk that closes a block with what it holds."""
    return {"type": "block-end", "index": index, "block": block}


def usage_chunk(usage: TokenUsage) -> UsageChunk:
    """Return the chunk that says what the request used."""
    return {"type": "usage", "usage": usage}


def finish(kind: str, failure: Failure | None = None) -> Finish:
    """Return the chunk that ends a stream.

    Args:
        kind: ``stop``, ``tool-calls``, ``max-tokens``, ``aborted`` or ``error``.
        failure: What went wrong, for the last two.
    """
    reason: FinishReason = {"kind": kind}
    if failure is not None:
        reason["failure"] = failure
    return {"type": "finish", "reason": reason}


def finish_failed(error: Exception) -> Finish:
    """Return the chunk that ends a stream with an error, or as aborted if that is what it is."""
    kind = "aborted" if isinstance(error, AbortError) else "error"
    return finish(kind, failure_data(error))


def failure_data(error: Exception) -> Failure:
    """Describe any exception as the failure of a request.

    Args:
        error: An error of the harness keeps its code; any other gets ``UNKNOWN``, and a message
            that names what led to it as well.

    Returns:
        The failure, fit to be stored: no empty fields, numbers only where they make sense.
    """
    if not isinstance(error, HarnessError):
        return {"message": _chain(error), "code": UNKNOWN}
    failure: Failure = {
        "message": clip(_text(error.message)) or error.name,
        "code": clip(_text(error.code)) or UNKNOWN,
    }
    if isinstance(error, LlmError):
        return _with_numbers(failure, error.status, error.retry_after_ms)
    return failure


def failure_of(reason: Mapping[str, Any]) -> Failure | None:
    """Read why a stream failed, in the nested and in the flat shape of June.

    Args:
        reason: The reason of a finish chunk; it may be of any quality.

    Returns:
        The failure, None if the stream did not fail.
    """
    kind = reason.get("kind")
    if kind not in {"error", "aborted"}:
        return None
    nested = reason.get("failure")
    source: Mapping[str, Any] = nested if isinstance(nested, Mapping) else reason
    aborted = kind == "aborted"
    failure: Failure = {
        "message": _field(source, "message") or (_ABORTED_TEXT if aborted else _FAILED_TEXT),
        "code": _field(source, "code") or ("ABORTED" if aborted else UNKNOWN),
    }
    return _with_numbers(failure, source.get("status"), source.get("providerRetryAfterMs"))


def finish_error(reason: Mapping[str, Any]) -> Exception | None:
    """Make the exception that the end of a stream stands for.

    Args:
        reason: The reason of a finish chunk.

    Returns:
        An `LlmError` if the stream failed with a code, a plain `RuntimeError` if without, an
        `AbortError` if it was aborted; else None.
    """
    failure = failure_of(reason)
    if failure is None:
        return None
    if reason.get("kind") == "aborted":
        return AbortError(_ABORTED_TEXT)
    nested = reason.get("failure")
    if not _field(nested if isinstance(nested, Mapping) else reason, "code"):
        return RuntimeError(failure["message"])
    return LlmError(
        failure["message"],
        failure["code"],
        status=failure.get("status"),
        retry_after_ms=failure.get("providerRetryAfterMs"),
    )


def _with_numbers(failure: Failure, status: object, wait: object) -> Failure:
    if isinstance(status, int) and not isinstance(status, bool) and 100 <= status <= 599:  # noqa: PLR2004 - HTTP
        failure["status"] = status
    if (
        isinstance(wait, int | float)
        and not isinstance(wait, bool)
        and 0 < wait <= sys.float_info.max
    ):
        failure["providerRetryAfterMs"] = wait
    return failure


def _field(source: Mapping[str, Any], name: str) -> str:
    value = source.get(name)
    return clip(value) if isinstance(value, str) else ""


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a broken __str__ must not replace the failure it describes
        return ""


def _chain(error: BaseException) -> str:
    """Join what an exception and its causes say; one that says nothing is named."""
    texts: list[str] = []
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen and len(texts) < _LONGEST_CHAIN:
        seen.add(id(one))
        texts.append(_text(one)[:MAX_MESSAGE] or type(one).__name__)
        one = one.__cause__
    return clip(": ".join(texts))
