"""A model that says what it is told to: for tests and demonstrations."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from dsh_core.abort import AbortError
from dsh_core.errors import LlmError
from dsh_core.llm import chunks as make

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dsh_core.llm.chunks import Chunk, TokenUsage
    from dsh_core.llm.options import GenerateOptions

_CHARS_PER_TOKEN: Final = 4
_PIECES: Final = re.compile(r"\S*\s+|\S+")


@dataclass(frozen=True, slots=True)
class Says:
    """A text answer, see `says`."""

    text: str
    reasoning: str = ""
    usage: TokenUsage | None = None


@dataclass(frozen=True, slots=True)
class Calls:
    """An answer that calls tools, see `calls`."""

    calls: tuple[tuple[str, Mapping[str, Any] | str], ...]
    text: str = ""
    reasoning: str = ""
    usage: TokenUsage | None = None


@dataclass(frozen=True, slots=True)
class Fails:
    """An answer that fails, see `fails`."""

    error: LlmError


Reply: TypeAlias = (
    str | Says | Calls | Fails | Exception | Sequence[Any] | Callable[["GenerateOptions"], Any]
)
"""What a script may hold: a text, what the helpers make, an exception to raise, a list of chunks,
or a function of the options, plain or async, that returns one of these."""


def says(text: str, *, reasoning: str = "", usage: TokenUsage | None = None) -> Says:
    """Return a reply that answers with text.

    Args:
        text: The text; it is streamed word by word.
        reasoning: Thought before it.
        usage: What the request used, None to have it made up.
    """
    return Says(text, reasoning, usage)


def calls(
    *named: tuple[str, Mapping[str, Any] | str],
    text: str = "",
    reasoning: str = "",
    usage: TokenUsage | None = None,
) -> Calls:
    """Return a reply that calls tools.

    Args:
        named: Name and arguments of each call; a string is taken as the arguments' raw JSON text.
        text: Said before the calls.
        reasoning: Thought before all.
        usage: As for `says`.
    """
    return Calls(named, text, reasoning, usage)


def fails(
    code: str, message: str = "", *, status: int | None = None, retry_after_ms: float | None = None
) -> Fails:
    """Return a reply that ends with an error of the provider.

    Args:
        code: Its code, for example ``RATE_LIMIT``.
        message: What it says.
        status: HTTP status it came with.
        retry_after_ms: Wait it asks for.
    """
    message = message or f"scripted failure {code}"
    return Fails(LlmError(message, code, status=status, retry_after_ms=retry_after_ms))


class ScriptedAdapter:
    """Answers each request with the next reply of a script.

    Calls get the ids ``call-<request>-<n>``, both counted from 1. Usage that a reply does not give
    is made up, always the same for the same request: one token for every four characters, or part
    of four, of the request's messages as JSON, and of the answer's blocks.

    Args:
        script: The replies, one for each request.
        provider: Name of the provider.

    Attributes:
        provider: Name of the provider.
        requests: Options of all requests so far.
    """

    def __init__(self, script: Iterable[Reply], provider: str = "scripted") -> None:
        self.provider = provider
        self.requests: list[GenerateOptions] = []
        self._script = list(script)

    def stream(self, options: GenerateOptions) -> AsyncIterator[Chunk]:
        """Answer with the next reply.

        Args:
            options: The request.

        Returns:
            The chunks. Reading them raises what the script tells to raise, an `LlmError`
            (``EMPTY_RESPONSE``) past its end, and a `TypeError` for what is no reply.
        """
        self.requests.append(options)
        return self._answer(len(self.requests), options)

    async def _answer(self, number: int, options: GenerateOptions) -> AsyncIterator[Chunk]:
        signal = options.signal
        if number > len(self._script):
            raise LlmError(
                f"the script has {len(self._script)} replies, this is request {number}",
                "EMPTY_RESPONSE",
            )
        reply = self._script[number - 1]
        if callable(reply):
            reply = reply(options)
            if inspect.isawaitable(reply):
                reply = await reply
        for chunk in _chunks(reply, number, options):
            if signal is not None and signal.aborted:
                yield make.finish_failed(AbortError(signal.reason))
                return
            yield chunk
            # Whoever is to abort, or does anything else, gets its turn between two chunks.
            await asyncio.sleep(0)


def _chunks(reply: object, number: int, options: GenerateOptions) -> Iterable[Chunk]:
    if isinstance(reply, Exception):
        raise reply
    if isinstance(reply, str):
        reply = Says(reply)
    if isinstance(reply, Fails):
        return [make.finish_failed(reply.error)]
    if isinstance(reply, Says):
        return _play(Calls((), reply.text, reply.reasoning, reply.usage), number, options)
    if isinstance(reply, Calls):
        return _play(reply, number, options)
    if isinstance(reply, Sequence):
        return cast("Sequence[Chunk]", reply)
    raise TypeError(f"reply {number} of the script is no reply: {type(reply).__name__}")


def _play(reply: Calls, number: int, options: GenerateOptions) -> Iterable[Chunk]:
    blocks: list[dict[str, Any]] = []
    if reply.reasoning:
        blocks.append({"type": "reasoning", "text": reply.reasoning})
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    for n, (name, arguments) in enumerate(reply.calls, 1):
        text = arguments if isinstance(arguments, str) else _json(dict(arguments))
        call = {"type": "tool-call", "id": f"call-{number}-{n}", "name": name, "arguments": text}
        blocks.append(call)
    for index, block in enumerate(blocks):
        yield make.block_start(index, block["type"])
        yield from _deltas(index, block)
        yield make.block_end(index, block)
    yield make.usage_chunk(
        reply.usage
        or {
            "inputTokens": _tokens(_json([dict(message) for message in options.messages])),
            "outputTokens": _tokens(_json(blocks)) if blocks else 0,
        }
    )
    yield make.finish("tool-calls" if reply.calls else "stop")


def _deltas(index: int, block: Mapping[str, Any]) -> Iterable[Chunk]:
    if block["type"] == "tool-call":
        # As real providers do: the name first, on its own.
        yield make.tool_call_delta(index, block["id"], "", block["name"])
        yield make.tool_call_delta(index, block["id"], block["arguments"])
        return
    delta = make.text_delta if block["type"] == "text" else make.reasoning_delta
    for piece in _PIECES.findall(block["text"]):
        yield delta(index, piece)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _tokens(text: str) -> int:
    return -(-len(text) // _CHARS_PER_TOKEN)
