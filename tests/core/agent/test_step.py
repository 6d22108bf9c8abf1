"""Tests of steps: the request, its answer, and the tools that the answer calls."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from dsh_core.agent import step as step_module
from dsh_core.errors import HarnessError
from dsh_core.llm import calls, fails, says
from dsh_core.llm import chunks as make
from dsh_core.tools import ToolError, ToolExecutionResult, define_tool
from tests.core.agent.support import done, of_type, reasons, sync, texts, types, until, world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ABORTED = {"kind": "aborted", "reason": {"kind": "user"}}
COMPLETED = {"kind": "completed"}


def call(id_: Any, name: Any = "now", arguments: Any = "{}") -> dict[str, Any]:
    """Return the chunk of a whole call; its index is the one after the last."""
    block = {"type": "tool-call", "id": id_, "name": name, "arguments": arguments}
    return {"type": "block-end", "block": block}


def answer(*chunks: Any) -> list[Any]:
    """Return an answer of some chunks, with their indices."""
    numbered = [{**chunk, "index": n} for n, chunk in enumerate(chunks)]
    return [*numbered, make.finish("tool-calls")]


# The request


@sync
async def test_the_request_holds_the_conversation_and_the_tools() -> None:
    async with world(calls(("now", {})), "done") as w:
        w.tool("now", lambda _: "noon")
        await w.say(w.agent(max_tokens=9, temperature=0.5, system_prompt="be good"))
        request = w.script.requests[1]
        assert (request.system, request.max_tokens, request.temperature) == ("be good", 9, 0.5)
        assert [tool["name"] for tool in request.tools] == ["now"]
        assert request.messages == [
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool-call", "id": "call-1-1", "name": "now", "arguments": "{}"}
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool-result",
                        "toolCallId": "call-1-1",
                        "content": [{"type": "text", "text": "noon"}],
                        "isError": False,
                    }
                ],
            },
        ]


@sync
async def test_a_listener_of_request_may_change_it() -> None:
    async with world("yes") as w:
        w.ctx.llm.register_adapter(["other"], w.script)
        w.ctx.on(
            "agent/request",
            lambda _agent, options, _next: replace(options, model="other", stop=["x"]),
        )
        agent = w.agent(temperature=0.5)
        await w.say(agent)
        assert w.script.requests[0].model == "other"
        (header,) = of_type(agent.session, "request/header")
        assert header["header"]["config"] == {
            "provider": "scripted",
            "model": "other",
            "temperature": 0.5,
            "stop": ["x"],
        }
        (said,) = of_type(agent.session, "assistant/message")
        assert said["message"]["source"]["model"] == "other"


@sync
async def test_a_listener_of_request_may_choose_the_model() -> None:
    async with world("yes") as w:
        w.ctx.on("agent/request", lambda _agent, options, _next: replace(options, model="m"))
        agent = w.agent(model="")
        await w.say(agent)
        assert reasons(agent.session) == [COMPLETED]


@pytest.mark.parametrize("odd", [None, "options"])
@sync
async def test_a_listener_of_request_that_returns_no_options_ends_the_turn(odd: Any) -> None:
    async with world("yes") as w:
        w.ctx.on("agent/request", lambda *_: odd)
        agent = w.agent()
        await w.say(agent)
        (reason,) = reasons(agent.session)
        assert (
            reason["error"]["message"] == "a listener of agent/request returned no GenerateOptions"
        )


@sync
async def test_the_header_is_logged_first_and_when_it_changes() -> None:
    async with world("one", "two", "three") as w:
        agent = w.agent()
        await w.say(agent)
        await w.say(agent)
        w.tool("now", lambda _: "noon")
        await w.say(agent)
        headers = of_type(agent.session, "request/header")
        assert [header["reason"] for header in headers] == ["initial", "change"]
        assert (
            of_type(agent.session, "request/context")
            == [{"provider": "scripted", "model": "m"}] * 2
        )


@sync
async def test_a_model_that_nobody_speaks_for_fails_the_attempt() -> None:
    async with world() as w:
        agent = w.agent(model="nobody")
        await w.say(agent)
        (reason,) = reasons(agent.session)
        assert reason["error"]["code"] == "NO_ADAPTER"
        (attempt,) = of_type(agent.session, "assistant/attempt")
        assert [entry["chunk"]["reason"]["kind"] for entry in attempt["stream"]] == ["error"]
        (context,) = of_type(agent.session, "request/context")
        assert context == {"provider": "unknown", "model": "nobody"}


@sync
async def test_standing_instructions_are_logged_once_and_replaced_when_they_change() -> None:
    async with world("one", "two", "three") as w:
        agent = w.agent(system_prompt="be good")
        await w.say(agent)
        await w.say(agent)
        agent.options = replace(agent.options, system_prompt="be better")
        await w.say(agent)
        first, second = (e for e in agent.session.events if e.type == "system/message")
        assert texts(agent.session, "system/message") == ["be good", "be better"]
        assert first.surface_op == "append"
        assert second.surface_op == {"op": "replace", "startSeq": first.seq, "endSeq": first.seq}
        assert second.source_event_seqs == [first.seq]


@sync
async def test_without_standing_instructions_their_place_is_kept_once() -> None:
    async with world("one", "two", "three") as w:
        agent = w.agent()
        await w.say(agent)
        await w.say(agent)
        (head,) = (e for e in agent.session.events if e.type == "system/message")
        assert head.data["message"]["content"] == []
        agent.options = replace(agent.options, system_prompt="be good")
        await w.say(agent)
        assert texts(agent.session, "system/message") == ["be good"]
        last = [e for e in agent.session.events if e.type == "system/message"][-1]
        assert last.surface_op == {"op": "replace", "startSeq": head.seq, "endSeq": head.seq}


@sync
async def test_standing_instructions_are_not_put_behind_a_conversation() -> None:
    async with world("one") as w:
        agent = w.agent(system_prompt="be good")
        agent.inject("noon", source={"kind": "clock"})
        await w.say(agent)
        assert "system/message" not in types(agent.session)
        assert w.script.requests[0].system == "be good"


# The answer


@sync
async def test_each_chunk_of_an_answer_is_told() -> None:
    async with world(says("yes")) as w:
        w.hear("agent/stream-chunk")
        await w.say(w.agent())
        assert [chunk["type"] for _, chunk in w.heard] == [
            "block-start",
            "text-delta",
            "block-end",
            "usage",
            "finish",
        ]


@sync
async def test_step_result_gets_the_message_before_it_is_logged_and_may_change_it() -> None:
    async with world("yes") as w:
        agent = w.agent()
        seen: list[Any] = []

        def listener(_agent: Any, message: Any, _next: Any) -> Any:
            seen.append((message, types(agent.session)[-1]))
            return {"role": "assistant", "content": [{"type": "text", "text": "no"}]}

        w.ctx.on("agent/step-result", listener)
        await w.say(agent)
        message = {"role": "assistant", "content": [{"type": "text", "text": "yes"}]}
        assert seen == [(message, "request/context")]
        assert texts(agent.session, "assistant/message") == ["no"]


@pytest.mark.parametrize("odd", [None, {}, {"content": ["x"]}, {"content": None}])
@sync
async def test_a_listener_of_step_result_that_returns_no_message_ends_the_turn(odd: Any) -> None:
    async with world("yes") as w:
        w.ctx.on("agent/step-result", lambda *_: odd)
        agent = w.agent()
        await w.say(agent)
        (reason,) = reasons(agent.session)
        assert reason["error"]["message"] == "a listener of agent/step-result returned no message"


@sync
async def test_a_failed_attempt_is_logged_with_what_it_had_streamed() -> None:
    async with world([make.text_delta(0, "We"), *[make.finish("error")]]) as w:
        agent = w.agent()
        await w.say(agent)
        (attempt,) = of_type(agent.session, "assistant/attempt")
        assert [entry["type"] for entry in attempt["stream"]] == ["text-chunks", "chunk"]
        assert types(agent.session)[-3:] == ["assistant/attempt", "step/end", "turn/end"]
        assert "assistant/message" not in types(agent.session)


@pytest.mark.parametrize(
    ("chunk", "code"),
    [
        ("text", "MALFORMED_RESPONSE"),
        ({"type": "text-delta", "index": -1, "text": "x"}, "MALFORMED_RESPONSE"),
        ({"type": "usage"}, "MALFORMED_RESPONSE"),
    ],
)
@sync
async def test_a_malformed_chunk_fails_the_attempt_and_is_not_logged(chunk: Any, code: str) -> None:
    async with world([make.text_delta(0, "We"), chunk]) as w:
        agent = w.agent()
        await w.say(agent)
        assert reasons(agent.session)[0]["error"]["code"] == code
        (attempt,) = of_type(agent.session, "assistant/attempt")
        assert [entry["type"] for entry in attempt["stream"]] == ["text-chunks", "chunk"]
        assert attempt["stream"][1]["chunk"]["reason"]["failure"]["code"] == code


@sync
async def test_a_failed_stream_that_is_no_json_is_logged_without_what_is_not() -> None:
    async with world([{"type": "new", "value": object()}, make.finish("error")]) as w:
        agent = w.agent()
        await w.say(agent)
        (attempt,) = of_type(agent.session, "assistant/attempt")
        assert [entry["chunk"]["type"] for entry in attempt["stream"]] == ["finish"]


@sync
async def test_a_stream_without_a_finish_is_an_answer() -> None:
    async with world([make.text_delta(0, "We")]) as w:
        agent = w.agent()
        await w.say(agent)
        assert texts(agent.session, "assistant/message") == ["We"]
        assert reasons(agent.session) == [COMPLETED]


@sync
async def test_an_answer_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_module, "MAX_CHUNKS", 3)
    async with world([make.text_delta(0, "x")] * 5) as w:
        agent = w.agent()
        await w.say(agent)
        (reason,) = reasons(agent.session)
        assert reason["error"] == {
            "message": "an answer of over 3 pieces",
            "code": "MALFORMED_RESPONSE",
        }


@sync
async def test_the_usage_of_an_answer_is_logged_with_it() -> None:
    async with world(says("x", usage={"inputTokens": 1, "outputTokens": 2})) as w:
        agent = w.agent()
        await w.say(agent)
        (said,) = of_type(agent.session, "assistant/message")
        assert said["usage"] == {"inputTokens": 1, "outputTokens": 2}


async def _hangs(_options: Any) -> Any:
    await asyncio.get_running_loop().create_future()


@sync
async def test_a_stream_that_hangs_is_left_when_the_step_is_aborted() -> None:
    async with world(_hangs) as w:
        agent = w.agent()
        agent.send("hi")
        await until(lambda: w.script.requests)
        agent.abort("enough")
        await done(agent)
        assert reasons(agent.session) == [ABORTED]
        (attempt,) = of_type(agent.session, "assistant/attempt")
        assert attempt["stream"][-1]["chunk"]["reason"] == {
            "kind": "aborted",
            "failure": {"message": "enough", "code": "ABORTED"},
        }


@sync
async def test_a_stream_that_never_waits_is_left_when_the_step_is_aborted() -> None:
    async with world() as w:
        closed: list[bool] = []

        async def endless() -> AsyncIterator[Any]:
            try:
                while True:
                    yield make.text_delta(0, "x")
            finally:
                closed.append(True)

        w.ctx.on("llm/stream", lambda *_: endless())
        agent = w.agent()
        agent.send("hi")
        await until(lambda: types(agent.session)[-1] == "request/context")
        agent.abort()
        await done(agent)
        assert (reasons(agent.session), closed) == ([ABORTED], [True])


@sync
async def test_a_stream_is_closed_when_a_listener_of_its_chunks_raises() -> None:
    async with world() as w:
        closed: list[bool] = []

        async def stream() -> AsyncIterator[Any]:
            try:
                yield make.text_delta(0, "x")
                yield make.text_delta(0, "y")
            finally:
                closed.append(True)
                raise ValueError("this hides nothing")

        def fail(*_: Any) -> None:
            raise HarnessError("no", "LISTENER")

        w.ctx.on("llm/stream", lambda *_: stream())
        w.ctx.on("agent/stream-chunk", fail)
        agent = w.agent()
        await w.say(agent)
        assert closed == [True]
        assert reasons(agent.session)[0]["error"]["code"] == "LISTENER"


@sync
async def test_a_stream_that_cancels_itself_has_failed() -> None:
    async with world() as w:

        async def stream() -> AsyncIterator[Any]:
            yield make.text_delta(0, "x")
            raise asyncio.CancelledError

        w.ctx.on("llm/stream", lambda *_: stream())
        agent = w.agent()
        await w.say(agent)
        assert reasons(agent.session)[0]["error"]["code"] == "STREAM_CLOSED"


# The tools


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        ('{"a": 1}', {"a": 1}),
        ("[1]", [1]),
        ("no json", "no json"),
        ("[" * 100_000, "[" * 100_000),
    ],
    ids=["empty", "object", "list", "no json", "too deep"],
)
@sync
async def test_tools_get_their_arguments_parsed_or_raw(text: str, arguments: Any) -> None:
    async with world(calls(("now", text)), "done") as w:
        got: list[Any] = []

        def look(execution: Any, next_: Any) -> Any:
            got.append(execution.arguments)
            return next_()

        w.ctx.on("tools/execute", look)
        agent = w.agent()
        await w.say(agent)
        assert got == [arguments]
        (made,) = of_type(agent.session, "tool/call")
        assert made["arguments"] == text


@sync
async def test_of_arguments_that_are_no_json_the_validator_says_what_is_wrong() -> None:
    async with world(calls(("now", "no json")), "done") as w:
        w.tool("now", lambda _: "noon")
        agent = w.agent()
        await w.say(agent)
        (result,) = of_type(agent.session, "tool/result")
        assert result["error"] == {"name": "ToolArgsError", "code": "INVALID_ARGS"}
        assert texts(agent.session, "tool/result") == [
            'Error: invalid arguments: "arguments" must be an object'
        ]


@sync
async def test_tools_run_one_after_another() -> None:
    async with world(calls(("slow", {}), ("slow", {})), "done") as w:
        order: list[str] = []

        async def slow(execution: Any) -> str:
            order.append(f"{execution.call_id} begins")
            await asyncio.sleep(0)
            order.append(f"{execution.call_id} ends")
            return "done"

        w.tool("slow", slow)
        agent = w.agent()
        await w.say(agent)
        assert order == [
            "call-1-1 begins",
            "call-1-1 ends",
            "call-1-2 begins",
            "call-1-2 ends",
        ]
        assert types(agent.session)[9:13] == [
            "tool/call",
            "tool/result",
            "tool/call",
            "tool/result",
        ]


@sync
async def test_tools_get_the_agent_and_the_signal_of_the_step() -> None:
    async with world(calls(("look", {})), calls(("look", {})), "done") as w:
        seen: list[Any] = []
        agent = w.agent()
        w.tool(
            "look",
            lambda execution: seen.append(
                (execution.agent is agent, execution.signal is agent.work.signal, execution.signal)
            ),
        )
        await w.say(agent)
        assert [one[:2] for one in seen] == [(True, True), (True, True)]
        assert seen[0][2] is not seen[1][2]


@sync
async def test_abort_is_checked_before_each_tool() -> None:
    async with world(calls(("now", {}))) as w:
        w.tool("now", lambda _: "noon")
        agent = w.agent()

        def abort(_session: Any, entry: Any) -> None:
            if entry.type == "assistant/message":
                agent.abort()

        w.ctx.on("session/event", abort)
        await w.say(agent)
        assert "tool/call" not in types(agent.session)
        (result,) = of_type(agent.session, "tool/result")
        assert result["error"] == {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}
        assert reasons(agent.session) == [ABORTED]


@sync
async def test_abort_is_checked_after_each_tool() -> None:
    async with world(calls(("abort", {}), ("abort", {})), "never") as w:
        w.tool("abort", lambda execution: execution.agent.abort())
        agent = w.agent()
        await w.say(agent)
        assert len(of_type(agent.session, "tool/call")) == 1
        first, second = of_type(agent.session, "tool/result")
        assert "error" not in first
        assert second["error"]["code"] == "TOOL_NOT_STARTED"
        assert (reasons(agent.session), len(w.script.requests)) == ([ABORTED], 1)


@sync
async def test_every_call_has_a_result_when_its_step_ends_though_a_listener_raises() -> None:
    async with world(calls(("now", {}), ("now", {}))) as w:

        def fail(*_: Any) -> None:
            raise HarnessError("denied", "DENIED")

        w.ctx.on("tools/execute", fail)
        agent = w.agent()
        await w.say(agent)
        assert [data["error"]["code"] for data in of_type(agent.session, "tool/result")] == [
            "TOOL_OUTCOME_UNKNOWN",
            "TOOL_NOT_STARTED",
        ]
        assert reasons(agent.session)[0]["error"] == {"message": "denied", "code": "DENIED"}


@sync
async def test_an_exception_of_a_listener_of_execute_ends_the_step() -> None:
    async with world(calls(("now", {}), ("now", {})), "never") as w:
        ran: list[str] = []

        def refuse(*_: Any) -> None:
            raise ValueError("no")

        w.ctx.on("tools/execute", refuse)
        w.tool("now", lambda execution: ran.append(execution.call_id))
        agent = w.agent()
        await w.say(agent)
        assert (ran, len(of_type(agent.session, "tool/call"))) == ([], 1)
        assert (of_type(agent.session, "step/start"), len(w.script.requests)) == (
            [{"turn": 1, "step": 1}],
            1,
        )
        assert reasons(agent.session)[0]["error"]["message"] == "no"


@sync
async def test_ids_of_calls_that_are_missing_empty_or_repeated_are_made_unique() -> None:
    script = answer(call("c"), call("c"), call(""), call(None), call("d", None, None))
    async with world(script, "done") as w:
        w.tool("now", lambda _: "noon")
        agent = w.agent()
        await w.say(agent)
        made = [(data["callId"], data["name"]) for data in of_type(agent.session, "tool/call")]
        assert made == [
            ("c", "now"),
            ("call-id-3", "now"),
            ("call-id-4", "now"),
            ("call-id-5", "now"),
            ("d", ""),
        ]
        results = [d["message"]["toolCallId"] for d in of_type(agent.session, "tool/result")]
        assert results == [id_ for id_, _ in made]


@pytest.mark.parametrize(
    ("result", "content", "is_error"),
    [
        (ToolExecutionResult("x", []), [], False),
        (ToolExecutionResult("x", [], is_error=5), [], True),  # type: ignore[arg-type]
        (
            ToolExecutionResult("x", None),  # type: ignore[arg-type]
            "Error: the result cannot be logged: it is no list of content blocks",
            True,
        ),
        (
            ToolExecutionResult("x", [1]),  # type: ignore[list-item]
            "Error: the result cannot be logged: it is no list of content blocks",
            True,
        ),
        (
            ToolExecutionResult("x", [{5: "image"}]),  # type: ignore[dict-item]
            "Error: the result cannot be logged: content[0] has a key of type int, not a string",
            True,
        ),
    ],
)
@sync
async def test_whatever_a_listener_makes_of_a_result_can_be_logged(
    result: ToolExecutionResult, content: Any, is_error: bool
) -> None:
    async with world(calls(("now", {})), "done") as w:
        w.ctx.on("tools/execute", lambda *_: result)
        agent = w.agent()
        await w.say(agent)
        (logged,) = of_type(agent.session, "tool/result")
        text = [{"type": "text", "text": content}] if isinstance(content, str) else content
        assert (logged["message"]["content"], logged["message"]["isError"]) == (text, is_error)
        assert reasons(agent.session) == [COMPLETED]


@pytest.mark.parametrize(
    ("failed", "error", "logged"),
    [
        (True, ToolError("E", "C"), {"name": "E", "code": "C"}),
        (False, ToolError("E", "C"), None),
        (True, None, None),
        (True, ToolError("\ud800", 5), {"name": "\ufffd", "code": "5"}),  # type: ignore[arg-type]
    ],
)
@sync
async def test_the_error_of_a_result_is_logged_if_it_is_one(
    failed: bool, error: ToolError | None, logged: Any
) -> None:
    async with world(calls(("now", {})), "done") as w:
        result = ToolExecutionResult("x", [], is_error=failed, error=error)
        w.ctx.on("tools/execute", lambda *_: result)
        agent = w.agent()
        await w.say(agent)
        (data,) = of_type(agent.session, "tool/result")
        assert data.get("error") == logged


@sync
async def test_a_result_cites_its_call() -> None:
    async with world(calls(("now", {})), "done") as w:
        w.tool("now", lambda _: "noon")
        agent = w.agent()
        await w.say(agent)
        (made,) = (e for e in agent.session.events if e.type == "tool/call")
        (result,) = (e for e in agent.session.events if e.type == "tool/result")
        assert (result.source_event_seqs, result.surface_op) == ([made.seq], "append")


@sync
async def test_a_failed_model_call_after_tools_keeps_what_the_tools_did() -> None:
    async with world(calls(("now", {})), fails("SERVER", "down", status=503)) as w:
        w.ctx.tools.register(
            define_tool(name="now", description="", parameters={}, execute=lambda *_: {"a": 1})
        )
        agent = w.agent()
        await w.say(agent)
        assert [json.loads(text) for text in texts(agent.session, "tool/result")] == [{"a": 1}]
        assert reasons(agent.session)[0]["error"] == {
            "message": "down",
            "code": "SERVER",
            "status": 503,
        }
