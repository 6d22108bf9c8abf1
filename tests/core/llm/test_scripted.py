"""The model that says what it is told to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dsh_core.abort import AbortController
from dsh_core.errors import LlmError
from dsh_core.llm import BlockAssembler, GenerateOptions, ScriptedAdapter, calls, fails, says
from dsh_core.llm import chunks as make

HI = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
OPTIONS = GenerateOptions("m", [HI])


def play(*script: Any, options: GenerateOptions = OPTIONS) -> list[Any]:
    """Return the chunks of the answer to the last of as many requests as there are replies."""

    async def main() -> list[Any]:
        adapter = ScriptedAdapter(script)
        found: list[Any] = []
        for _ in script:
            found = [chunk async for chunk in adapter.stream(options)]
        return found

    return asyncio.run(main())


def content(*script: Any) -> Any:
    assembler = BlockAssembler()
    for chunk in play(*script):
        assembler.add(chunk)
    return assembler.message()["content"]


def test_a_string_is_a_text_answer_streamed_word_by_word() -> None:
    assert play("Hello, my  world") == [
        {"type": "block-start", "index": 0, "blockType": "text"},
        {"type": "text-delta", "index": 0, "text": "Hello, "},
        {"type": "text-delta", "index": 0, "text": "my  "},
        {"type": "text-delta", "index": 0, "text": "world"},
        {"type": "block-end", "index": 0, "block": {"type": "text", "text": "Hello, my  world"}},
        {"type": "usage", "usage": {"inputTokens": 15, "outputTokens": 11}},
        {"type": "finish", "reason": {"kind": "stop"}},
    ]


def test_a_text_may_have_reasoning_before_it() -> None:
    assert content(says("a", reasoning="hm")) == [
        {"type": "reasoning", "text": "hm"},
        {"type": "text", "text": "a"},
    ]


def test_calls_are_streamed_name_first() -> None:
    assert play(calls(("read", {"path": "/x"})))[:-2] == [
        {"type": "block-start", "index": 0, "blockType": "tool-call"},
        {
            "type": "tool-call-delta",
            "index": 0,
            "id": "call-1-1",
            "name": "read",
            "argumentsDelta": "",
        },
        {
            "type": "tool-call-delta",
            "index": 0,
            "id": "call-1-1",
            "argumentsDelta": '{"path":"/x"}',
        },
        {
            "type": "block-end",
            "index": 0,
            "block": {
                "type": "tool-call",
                "id": "call-1-1",
                "name": "read",
                "arguments": '{"path":"/x"}',
            },
        },
    ]


def test_calls_finish_with_tool_calls() -> None:
    assert play(calls(("a", {})))[-1] == {"type": "finish", "reason": {"kind": "tool-calls"}}


def test_calls_are_numbered_by_request_and_place() -> None:
    two = calls(("a", {}), ("b", {}))
    assert [block["id"] for block in content("first", two)] == ["call-2-1", "call-2-2"]


def test_arguments_given_as_text_are_sent_raw() -> None:
    assert content(calls(("a", "{bad json")))[0]["arguments"] == "{bad json"


def test_text_comes_before_the_calls() -> None:
    blocks = content(calls(("a", {}), text="look", reasoning="hm"))
    assert [block["type"] for block in blocks] == ["reasoning", "text", "tool-call"]


def test_an_empty_text_has_no_blocks() -> None:
    assert play("") == [
        {"type": "usage", "usage": {"inputTokens": 15, "outputTokens": 0}},
        {"type": "finish", "reason": {"kind": "stop"}},
    ]


def test_usage_may_be_given() -> None:
    usage = make.usage_chunk({"inputTokens": 1, "outputTokens": 2, "cacheReadTokens": 3})
    assert usage in play(says("a", usage=usage["usage"]))
    assert usage in play(calls(("a", {}), usage=usage["usage"]))


def test_a_failure_ends_the_stream_with_an_error() -> None:
    assert play(fails("RATE_LIMIT", "slow down", status=429, retry_after_ms=500)) == [
        {
            "type": "finish",
            "reason": {
                "kind": "error",
                "failure": {
                    "message": "slow down",
                    "code": "RATE_LIMIT",
                    "status": 429,
                    "providerRetryAfterMs": 500,
                },
            },
        }
    ]


def test_a_failure_without_a_message_has_one_made_up() -> None:
    failure = play(fails("SERVER"))[0]["reason"]["failure"]
    assert failure == {"message": "scripted failure SERVER", "code": "SERVER"}


def test_an_exception_is_raised() -> None:
    with pytest.raises(ZeroDivisionError, match="boom"):
        play(ZeroDivisionError("boom"))


def test_raw_chunks_are_sent_as_they_are() -> None:
    chunks = [make.text_delta(3, "a"), {"type": "nonsense"}]
    assert play(chunks) == chunks


def test_a_function_gets_the_options_and_returns_the_reply() -> None:
    assert content(lambda options: f"model {options.model}") == [
        {"type": "text", "text": "model m"}
    ]


def test_a_function_may_be_async() -> None:
    async def reply(options: GenerateOptions) -> Any:
        return calls(("a", {}))

    assert content(reply)[0]["type"] == "tool-call"


@pytest.mark.parametrize("reply", [7, None, {"type": "finish"}])
def test_what_is_no_reply_is_refused(reply: Any) -> None:
    with pytest.raises(TypeError, match="reply 1 of the script is no reply"):
        play(reply)


def test_past_the_end_of_the_script_the_response_is_empty() -> None:
    async def main() -> None:
        adapter = ScriptedAdapter(["one"])
        _ = [chunk async for chunk in adapter.stream(OPTIONS)]
        with pytest.raises(LlmError) as caught:
            await anext(adapter.stream(OPTIONS))
        assert caught.value.code == "EMPTY_RESPONSE"
        assert caught.value.message == "the script has 1 replies, this is request 2"

    asyncio.run(main())


def test_all_requests_are_recorded() -> None:
    async def main() -> None:
        adapter = ScriptedAdapter([], provider="p")
        assert adapter.provider == "p"
        other = GenerateOptions("other", [])
        adapter.stream(OPTIONS)
        adapter.stream(other)
        assert adapter.requests == [OPTIONS, other]

    asyncio.run(main())


def test_the_provider_is_scripted_by_default() -> None:
    assert ScriptedAdapter([]).provider == "scripted"


def test_an_abort_ends_the_stream_between_two_chunks() -> None:
    async def main() -> list[Any]:
        controller = AbortController()
        options = GenerateOptions("m", [HI], signal=controller.signal)
        found = []
        async for chunk in ScriptedAdapter(["a b c"]).stream(options):
            found.append(chunk)
            if chunk["type"] == "text-delta":
                controller.abort("user")
        return found

    assert asyncio.run(main()) == [
        {"type": "block-start", "index": 0, "blockType": "text"},
        {"type": "text-delta", "index": 0, "text": "a "},
        {
            "type": "finish",
            "reason": {"kind": "aborted", "failure": {"message": "user", "code": "ABORTED"}},
        },
    ]


def test_others_run_between_two_chunks() -> None:
    async def main() -> list[Any]:
        controller = AbortController()
        options = GenerateOptions("m", [HI], signal=controller.signal)
        asyncio.get_running_loop().call_soon(controller.abort)
        return [chunk async for chunk in ScriptedAdapter(["a b c"]).stream(options)]

    assert asyncio.run(main())[-1]["reason"]["kind"] == "aborted"
