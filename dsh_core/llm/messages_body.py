"""The body of a request to the Messages API."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dsh_core.errors import LlmError
from dsh_core.llm.text import valid

if TYPE_CHECKING:
    from dsh_core.llm.options import GenerateOptions

Part: TypeAlias = dict[str, Any]
"""A content block or message as the API has it."""

RAW_ARGUMENTS: Final = "arguments"
"""Property that holds the text of a call's arguments when it is no JSON object."""

NO_RESULT: Final = "no result was recorded"
"""Result of a call that has none: the API refuses conversations with unanswered calls."""

_ANSWER: Final = frozenset({"text", "reasoning", "tool-call"})
_RESULT: Final = frozenset({"text", "image"})
_MALFORMED: Final = (TypeError, ValueError, KeyError, AttributeError, RecursionError)
_ODD: Final = (LlmError, *_MALFORMED)
_DATA_URL: Final = re.compile(r"data:(image/[a-z0-9.+-]{1,40});base64,(.*)", re.DOTALL)


def request_body(options: GenerateOptions, max_tokens: int) -> bytes:
    """Return the JSON text of a request.

    Adjacent messages of one role are merged, results of tools before all else, and calls without a
    result get one: the API wants turns to alternate and every call to be answered at once. Blocks
    it refuses are left out: blank text, and reasoning without the signature it came with. Blocks of
    answers and of results that it cannot take, or that are malformed, become a text that says so:
    they stay in the log, and would have every later request refused.

    Args:
        options: The request.
        max_tokens: How long the answer may be if `options` do not say.

    Raises:
        LlmError: The API cannot express what a user says (``UNSUPPORTED_CONTENT``), or the request
            is malformed (``INVALID_REQUEST``).
    """
    try:
        text = json.dumps(
            _body(options, max_tokens), allow_nan=False, ensure_ascii=False, separators=(",", ":")
        )
        # Half a character, once in a conversation, would have every later request refused.
        return valid(text).encode()
    except _MALFORMED as error:
        raise LlmError(
            f"the request is malformed: {type(error).__name__}: {error}", "INVALID_REQUEST"
        ) from error


def _body(options: GenerateOptions, max_tokens: int) -> Part:
    system, messages = _conversation(options)
    body: Part = {
        "model": options.model,
        "max_tokens": max_tokens if options.max_tokens is None else options.max_tokens,
        "stream": True,
        "messages": messages,
    }
    if system:
        body["system"] = system
    if options.tools:
        body["tools"] = [
            {
                "name": tool["name"],
                "description": tool.get("description", ""),
                "input_schema": tool["parameters"],
            }
            for tool in options.tools
        ]
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if options.stop:
        body["stop_sequences"] = list(options.stop)
    return body


def _conversation(options: GenerateOptions) -> tuple[str, list[Part]]:
    """Return the system text and the messages."""
    system = [options.system] if options.system else []
    messages: list[Part] = []
    for message in options.messages:
        role, content = message["role"], message["content"]
        if role in {"system", "developer"}:
            system += [part["text"] for part in _parts(content)]
        elif role == "tool":
            # Generation 4 has the result's fields on the message.
            result = {"type": "tool-result", **message}
            _append(messages, "user", [_result(result | {"isError": message.get("isError")})])
        elif role == "user":
            _append(messages, role, _parts(content))
        elif role == "assistant":
            _append(messages, role, _kept(content, _ANSWER))
        else:
            raise LlmError(f"a message has the role {role!r:.80}", "INVALID_REQUEST")
    if options.prefill:
        _append(messages, "assistant", [{"type": "text", "text": options.prefill}])
    return "\n\n".join(system), _answered(messages)


def _append(messages: list[Part], role: str, parts: list[Part]) -> None:
    if not parts:
        return
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += parts
    else:
        messages.append({"role": role, "content": list(parts)})


def _answered(messages: list[Part]) -> list[Part]:
    """Put results first in their messages, and give one to calls without."""
    done: list[Part] = []
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "user":
            message["content"].sort(key=lambda part: part["type"] != "tool_result")
            present = {part.get("tool_use_id") for part in message["content"]}
            missing = [call for call in open_calls if call not in present]
            message["content"][:0] = map(_no_result, missing)
            open_calls = []
        else:
            open_calls = [part["id"] for part in message["content"] if part["type"] == "tool_use"]
        done.append(message)
    if open_calls:
        done.append({"role": "user", "content": [_no_result(call) for call in open_calls]})
    return done


def _no_result(call: str) -> Part:
    return {"type": "tool_result", "tool_use_id": call, "content": NO_RESULT, "is_error": True}


def _blocks(content: object) -> Sequence[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, Sequence):
        raise LlmError("the content of a message is no list of blocks", "INVALID_REQUEST")
    return content


def _parts(content: object) -> list[Part]:
    return [part for block in _blocks(content) for part in _part(block)]


def _kept(content: object, kinds: frozenset[str]) -> list[Part]:
    """Return the parts of blocks of these types, and a text for each that cannot be sent."""
    parts: list[Part] = []
    for block in _blocks(content):
        kind = block.get("type") if isinstance(block, Mapping) else None
        known = isinstance(kind, str)
        try:
            parts += _part(block) if known and kind in kinds else [_left_out(kind)]
        except _ODD:
            parts.append(_left_out(kind))
    return parts


def _left_out(kind: object) -> Part:
    what = f"block of type {kind!r:.80}" if isinstance(kind, str) else "malformed block"
    return {"type": "text", "text": f"[a {what} was left out: the API cannot take it]"}


def _part(block: Mapping[str, Any]) -> list[Part]:
    """Return the part of a block, nothing for what the API refuses or does not need."""
    kind = block["type"]
    if kind == "text":
        text = _string(block, "text")
        return [{"type": "text", "text": text}] if text.strip() else []
    if kind == "reasoning":
        return _thinking(block)
    if kind == "tool-call":
        return [
            {
                "type": "tool_use",
                "id": _string(block, "id"),
                "name": _string(block, "name"),
                "input": _input(_string(block, "arguments")),
            }
        ]
    if kind == "tool-result":
        return [_result(block)]
    if kind == "image" and isinstance(block.get("url"), str):
        return [_image(block["url"])]
    raise LlmError(f"the API cannot take a block of type {kind!r:.80}", "UNSUPPORTED_CONTENT")


def _string(block: Mapping[str, Any], key: str) -> str:
    value = block[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} is no text")
    return value


def _thinking(block: Mapping[str, Any]) -> list[Part]:
    if block.get("redactedData"):
        return [{"type": "redacted_thinking", "data": _string(block, "redactedData")}]
    if block.get("signature"):
        return [
            {
                "type": "thinking",
                "thinking": _string(block, "text"),
                "signature": _string(block, "signature"),
            }
        ]
    return []


def _input(arguments: str) -> Part:
    """Return a call's arguments as the object that the API insists on."""
    if not arguments.strip():
        return {}
    try:
        found = json.loads(arguments)
        # What cannot be written again (NaN, 1e999, a depth that just could be read) must not fail
        # later: here it stands as deep as it will.
        json.dumps([[[[[[found]]]]]], allow_nan=False)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {RAW_ARGUMENTS: arguments}


def _result(block: Mapping[str, Any]) -> Part:
    part: Part = {"type": "tool_result", "tool_use_id": block["toolCallId"]}
    content = _kept(block["content"], _RESULT)
    if content:
        part["content"] = content
    if block.get("isError"):
        part["is_error"] = True
    return part


def _image(url: str) -> Part:
    found = _DATA_URL.fullmatch(url)
    if found:
        source = {"type": "base64", "media_type": found[1], "data": found[2]}
    elif url.startswith(("https://", "http://")):
        source = {"type": "url", "url": url}
    else:
        raise LlmError("an image has neither a web address nor data", "UNSUPPORTED_CONTENT")
    return {"type": "image", "source": source}
