"""Tests of turns: their steps, how they go on, and how they end."""

from __future__ import annotations

import asyncio
import errno
import json
from typing import Any

import pytest

from dsh_core import invariants
from dsh_core.abort import AbortError
from dsh_core.errors import HarnessError
from dsh_core.llm import calls, fails
from tests.core.agent.support import (
    done,
    of_type,
    reasons,
    sync,
    texts,
    types,
    until,
    world,
)

ABORTED = {"kind": "aborted", "reason": {"kind": "user"}}
DISPOSED = {"kind": "aborted", "reason": {"kind": "disposed"}}
COMPLETED = {"kind": "completed"}


def refuse(*_: Any) -> None:
    raise ValueError("no")


@sync
async def test_the_log_of_a_turn_is_this_one() -> None:
    async with world("done") as w:
        agent = w.agent(system_prompt="be good")
        await w.say(agent)
        rows = [json.loads(entry.row) for entry in agent.session.events]
    time = 1_750_000_000_000
    said = {
        "id": "id-1",
        "role": "user",
        "content": [{"type": "text", "text": "hi"}],
        "source": {"kind": "user"},
    }
    model = {"provider": "scripted", "model": "m"}
    expected: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        (
            "agent/inbox/spliced",
            {"target": "next-turn", "start": 0, "inserted": [said]},
            {},
        ),
        ("turn/start", {"turn": 1}, {}),
        (
            "agent/inbox/spliced",
            {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []},
            {},
        ),
        ("step/start", {"turn": 1, "step": 1}, {}),
        (
            "system/message",
            {
                "turn": 1,
                "step": 1,
                "message": {
                    "id": "id-2",
                    "role": "system",
                    "content": [{"type": "text", "text": "be good"}],
                    "source": {"kind": "system-prompt"},
                },
            },
            {"surfaceOp": "append"},
        ),
        ("user/message", said, {"surfaceOp": "append"}),
        (
            "request/header",
            {"header": {"config": model, "tools": []}, "reason": "initial"},
            {},
        ),
        ("request/context", model, {}),
        (
            "assistant/message",
            {
                "turn": 1,
                "step": 1,
                "message": {
                    "id": "id-3",
                    "role": "assistant",
                    "content": [{"type": "text", "text": "done"}],
                    "source": {"kind": "model", **model},
                },
                "usage": {"inputTokens": 15, "outputTokens": 8},
                "stream": [
                    {
                        "type": "chunk",
                        "time": time,
                        "chunk": {"type": "block-start", "index": 0, "blockType": "text"},
                    },
                    {"type": "text-chunks", "time0": time, "index": 0, "dt": [], "texts": ["done"]},
                    {
                        "type": "chunk",
                        "time": time,
                        "chunk": {
                            "type": "block-end",
                            "index": 0,
                            "block": {"type": "text", "text": "done"},
                        },
                    },
                    {
                        "type": "chunk",
                        "time": time,
                        "chunk": {
                            "type": "usage",
                            "usage": {"inputTokens": 15, "outputTokens": 8},
                        },
                    },
                    {
                        "type": "chunk",
                        "time": time,
                        "chunk": {"type": "finish", "reason": {"kind": "stop"}},
                    },
                ],
            },
            {"surfaceOp": "append"},
        ),
        ("step/end", {"turn": 1, "step": 1}, {}),
        ("turn/end", {"turn": 1, "reason": {"kind": "completed"}}, {}),
    ]
    assert rows == [
        {"type": type_, "seq": seq, "time": time, "data": data, **more}
        for seq, (type_, data, more) in enumerate(expected)
    ]


# Events


@sync
async def test_the_events_of_the_bus_and_the_log_come_in_this_order() -> None:
    async with world(calls(("now", {})), "done") as w:
        w.tool("now", lambda _: "now")
        order: list[Any] = []
        w.ctx.on("session/event", lambda _, entry: order.append(entry.type))
        for name in (
            "agent/created",
            "agent/status",
            "agent/queued",
            "agent/turn-start",
            "agent/step-start",
            "agent/step-end",
            "agent/turn-end",
        ):
            w.ctx.on(name, lambda *args, name=name: order.append((name, *args[1:])))
        w.ctx.on("session/flush", lambda session: order.append(("flush", types(session)[-1])))
        await w.say(w.agent())
        order[2] = order[2][:1]
        assert order == [
            ("agent/created",),
            "agent/inbox/spliced",
            ("agent/queued",),
            ("agent/status", "running"),
            "turn/start",
            ("agent/turn-start", 1),
            "agent/inbox/spliced",
            ("agent/step-start", 1, 1),
            "step/start",
            "system/message",
            "user/message",
            "request/header",
            "request/context",
            "assistant/message",
            "tool/call",
            "tool/result",
            "step/end",
            ("agent/step-end", 1, 1),
            ("agent/step-start", 1, 2),
            "step/start",
            "assistant/message",
            "step/end",
            ("agent/step-end", 1, 2),
            "turn/end",
            ("agent/turn-end", 1),
            ("flush", "turn/end"),
            ("agent/status", "idle"),
        ]


@sync
async def test_the_events_of_agents_are_emitted_or_waterfalls_as_follows() -> None:
    async with world(calls(("steer", {})), "done", fails("SERVER")) as w:
        modes: dict[str, set[str]] = {}
        w.ctx.on(
            "internal/dispatch", lambda mode, name, *_: modes.setdefault(name, set()).add(mode)
        )
        w.tool("steer", lambda execution: execution.agent.steer("left"))
        agent = w.agent()
        await w.say(agent)
        await w.say(agent)
        agent.dispose()
        await until(lambda: w.ctx.agents.get("a") is None)
        assert {name: mode for name, mode in modes.items() if name.startswith("agent/")} == {
            "agent/created": {"emit"},
            "agent/disposed": {"emit"},
            "agent/status": {"emit"},
            "agent/queued": {"emit"},
            "agent/turn-start": {"emit"},
            "agent/turn-end": {"emit"},
            "agent/step-start": {"emit"},
            "agent/step-end": {"emit"},
            "agent/stream-chunk": {"emit"},
            "agent/steering": {"emit"},
            "agent/error": {"emit"},
            "agent/request": {"waterfall"},
            "agent/step-result": {"waterfall"},
            "agent/turn-continuation": {"waterfall"},
        }


@sync
async def test_step_start_is_emitted_before_the_log_says_it_and_step_end_after() -> None:
    async with world("done") as w:
        last: list[tuple[str, str]] = []
        for name in ("agent/step-start", "agent/step-end"):
            w.ctx.on(
                name, lambda agent, *_, name=name: last.append((name, types(agent.session)[-1]))
            )
        agent = w.agent()
        await w.say(agent)
        assert last == [
            ("agent/step-start", "agent/inbox/spliced"),
            ("agent/step-end", "step/end"),
        ]


@pytest.mark.parametrize("script", [fails("SERVER"), ValueError("x")])
@sync
async def test_step_end_and_turn_end_are_told_of_a_failed_turn_too(script: Any) -> None:
    async with world(script) as w:
        order: list[str] = []
        w.ctx.on("session/event", lambda _, entry: order.append(entry.type))
        for name in ("agent/step-end", "agent/turn-end", "agent/error"):
            w.ctx.on(name, lambda *_, name=name: order.append(name))
        await w.say(w.agent())
        assert order[8:] == [
            "assistant/attempt",
            "agent/error",
            "step/end",
            "agent/step-end",
            "turn/end",
            "agent/turn-end",
        ]


# Going on


@sync
async def test_the_turn_goes_on_if_there_were_tool_calls() -> None:
    async with world(calls(("now", {})), calls(("now", {})), "done") as w:
        w.tool("now", lambda _: "now")
        agent = w.agent()
        await w.say(agent)
        assert of_type(agent.session, "step/start") == [
            {"turn": 1, "step": 1},
            {"turn": 1, "step": 2},
            {"turn": 1, "step": 3},
        ]


@sync
async def test_the_turn_ends_if_there_were_neither_tool_calls_nor_steering() -> None:
    async with world("done", "never") as w:
        agent = w.agent()
        await w.say(agent)
        assert of_type(agent.session, "step/start") == [{"turn": 1, "step": 1}]
        assert reasons(agent.session) == [COMPLETED]


@pytest.mark.parametrize("is_async", [False, True])
@sync
async def test_turn_continuation_can_add_a_step(is_async: bool) -> None:
    async with world("one", "two") as w:
        asked: list[bool] = []

        def more(_agent: Any, next_: Any) -> bool:
            asked.append(next_())
            return len(asked) == 1

        async def later(agent: Any, next_: Any) -> bool:
            return more(agent, next_)

        w.ctx.on("agent/turn-continuation", later if is_async else more)
        agent = w.agent()
        await w.say(agent)
        assert asked == [False, False]
        assert texts(agent.session, "assistant/message") == ["one", "two"]


@sync
async def test_turn_continuation_can_end_a_turn_that_called_tools() -> None:
    async with world(calls(("now", {})), "never") as w:
        w.tool("now", lambda _: "now")
        w.ctx.on("agent/turn-continuation", lambda _agent, _next: False)
        agent = w.agent()
        await w.say(agent)
        assert (len(w.script.requests), reasons(agent.session)) == (1, [COMPLETED])


@sync
async def test_a_negative_decision_is_overridden_by_pending_steering() -> None:
    async with world("one", "two") as w:
        w.ctx.on("agent/turn-continuation", lambda _agent, _next: False)
        w.ctx.once("agent/stream-chunk", lambda agent, _: agent.steer("left"))
        agent = w.agent()
        await w.say(agent)
        assert texts(agent.session, "assistant/message") == ["one", "two"]
        assert texts(agent.session) == ["hi", "left"]
        # Not in a turn of its own, which is what becomes of steering that is not heeded.
        assert of_type(agent.session, "turn/start") == [{"turn": 1}]


@sync
async def test_turn_continuation_is_told_whether_there_were_tool_calls_or_steering() -> None:
    async with world(calls(("now", {})), "one", "two") as w:
        w.tool("now", lambda _: "now")
        told: list[bool] = []

        def listener(_agent: Any, next_: Any) -> bool:
            told.append(next_())
            return told[-1]

        def steer(agent: Any, chunk: Any) -> None:
            if chunk["type"] == "text-delta" and chunk["text"] == "one":
                agent.steer("left")

        w.ctx.on("agent/turn-continuation", listener)
        w.ctx.on("agent/stream-chunk", steer)
        agent = w.agent()
        await w.say(agent)
        assert told == [True, True, False]
        assert of_type(agent.session, "turn/start") == [{"turn": 1}]


@sync
async def test_asynchronous_listeners_around_each_other_are_waited_for() -> None:
    async with world("one") as w:

        async def passes(*args: Any) -> Any:
            return args[-1]()

        for name in ("agent/turn-continuation", "agent/request", "agent/step-result"):
            w.ctx.on(name, passes)
            w.ctx.on(name, passes)
        agent = w.agent()
        await w.say(agent)
        assert texts(agent.session, "assistant/message") == ["one"]
        assert reasons(agent.session) == [COMPLETED]


# Ends


@sync
async def test_a_turn_of_a_disposed_agent_ends_as_disposed() -> None:
    async with world(calls(("leave", {}))) as w:
        w.tool("leave", lambda execution: execution.agent.dispose())
        w.hear("agent/error")
        agent = w.agent()
        await w.say(agent)
        await until(lambda: reasons(agent.session))
        assert reasons(agent.session) == [DISPOSED]
        assert w.heard == []


@sync
async def test_a_turn_whose_signal_fired_ends_as_aborted_whatever_was_raised() -> None:
    async with world(calls(("now", {}))) as w:

        def listener(execution: Any, _next: Any) -> None:
            execution.agent.abort()
            raise OSError(errno.EPIPE, "broken")

        w.ctx.on("tools/execute", listener)
        w.tool("now", lambda _: "now")
        w.hear("agent/error")
        agent = w.agent()
        await w.say(agent)
        assert reasons(agent.session) == [ABORTED]
        assert w.heard == []


@sync
async def test_another_failure_ends_the_turn_with_its_error_and_is_told() -> None:
    async with world(fails("RATE_LIMIT", "slow down", status=429, retry_after_ms=1500)) as w:
        errors: list[Any] = []
        w.ctx.on("agent/error", lambda agent, error: errors.append((agent, error.code)))
        agent = w.agent()
        await w.say(agent)
        assert reasons(agent.session) == [
            {
                "kind": "error",
                "error": {
                    "message": "slow down",
                    "code": "RATE_LIMIT",
                    "status": 429,
                    "providerRetryAfterMs": 1500,
                },
            }
        ]
        assert errors == [(agent, "RATE_LIMIT")]
        assert "error" not in types(agent.session)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (HarnessError("m", "SOME"), "SOME"),
        (OSError(errno.ENOENT, "m"), "ENOENT"),
        (OSError("m"), "UNKNOWN"),
        (ValueError("m"), "UNKNOWN"),
        (AbortError("m"), "ABORTED"),
        (HarnessError("m", 5), "5"),  # type: ignore[arg-type]
        (HarnessError("\ud800", "\ud800"), "\ufffd"),
    ],
    ids=repr,
)
@sync
async def test_the_error_of_a_turn_has_the_code_of_what_was_raised(
    error: Exception, code: str
) -> None:
    async with world() as w:

        def fail(*_: Any) -> None:
            raise error

        w.ctx.on("agent/request", fail)
        agent = w.agent()
        await w.say(agent)
        (reason,) = reasons(agent.session)
        assert (reason["kind"], reason["error"]["code"]) == ("error", code)


@sync
async def test_an_agent_without_a_model_fails_without_a_code_of_its_own() -> None:
    async with world() as w:
        agent = w.agent(model="")
        await w.say(agent)
        (reason,) = reasons(agent.session)
        assert reason["error"]["code"] == "UNKNOWN"
        assert reason["error"]["message"].startswith('agent "a" has no model')


@pytest.mark.parametrize("name", ["turn-start", "step-start", "turn-continuation"])
@sync
async def test_a_listener_that_raises_ends_the_turn_and_loses_no_message(name: str) -> None:
    async with world("one", "two") as w:
        stop = w.ctx.on(f"agent/{name}", refuse)
        agent = w.agent()
        await w.say(agent)
        assert reasons(agent.session) == [
            {"kind": "error", "error": {"message": "no", "code": "UNKNOWN"}}
        ]
        assert texts(agent.session) == ["hi"]
        stop()
        await w.say(agent, "again")
        assert reasons(agent.session)[1] == COMPLETED


@pytest.mark.parametrize("seq", range(1, 14))
@sync
async def test_a_listener_of_the_log_that_raises_anywhere_leaves_a_legal_log(seq: int) -> None:
    async with world(calls(("now", {}), ("now", {})), "done", "again") as w:
        w.tool("now", lambda _: "now")

        def fail(_session: Any, entry: Any) -> None:
            if entry.seq == seq:
                raise ValueError("no")

        w.ctx.on("session/event", fail)
        w.hear("agent/error")
        agent = w.agent()
        await w.say(agent)
        assert [(name, str(error)) for name, error in w.heard] == [("agent/error", "no")]
        assert texts(agent.session) == ["hi"]
        assert len(reasons(agent.session)) == 1


@sync
async def test_a_listener_of_the_log_cannot_keep_a_turn_from_being_closed() -> None:
    async with world(calls(("now", {}))) as w:
        agent = w.agent()
        w.tool("now", lambda _: w.ctx.on("session/event", refuse) and None)
        await w.say(agent)
        assert types(agent.session)[-3:] == ["tool/result", "step/end", "turn/end"]
        assert reasons(agent.session)[0]["error"]["message"] == "no"


@sync
async def test_an_answer_that_is_too_long_ends_the_turn_as_max_tokens() -> None:
    call = {"type": "tool-call", "id": "c", "name": "now", "arguments": "{"}
    script: list[Any] = [
        {"type": "block-end", "index": 0, "block": {"type": "text", "text": "well"}},
        {"type": "block-end", "index": 1, "block": call},
        {"type": "finish", "reason": {"kind": "max-tokens"}},
    ]
    async with world(script, "never") as w:
        agent = w.agent()
        await w.say(agent)
        assert reasons(agent.session) == [{"kind": "max-tokens"}]
        (answer,) = of_type(agent.session, "assistant/message")
        assert answer["message"]["content"] == [{"type": "text", "text": "well"}]
        assert "tool/call" not in types(agent.session)


@sync
async def test_what_a_tool_cancels_of_its_own_is_an_error_and_not_the_end() -> None:
    async with world(calls(("cancel", {})), "two") as w:

        async def cancel(_execution: Any) -> None:
            raise asyncio.CancelledError

        w.tool("cancel", cancel)
        agent = w.agent()
        await w.say(agent)
        await w.say(agent)
        first, second = reasons(agent.session)
        assert first["error"] == {"message": "cancelled from within", "code": "CANCELLED"}
        assert second == COMPLETED


@sync
async def test_the_turns_of_a_log_are_counted_on() -> None:
    async with world("one", "two", "three") as w:
        agent = w.agent()
        for _ in range(3):
            await w.say(agent)
        assert [data["turn"] for data in of_type(agent.session, "turn/start")] == [1, 2, 3]
        assert [data["step"] for data in of_type(agent.session, "step/start")] == [1, 1, 1]


# Flushing


@sync
async def test_the_session_is_flushed_after_each_turn() -> None:
    async with world("one", "two") as w:
        flushed: list[tuple[Any, str]] = []
        w.ctx.on("session/flush", lambda session: flushed.append((session, types(session)[-1])))
        agent = w.agent()
        await w.say(agent)
        await w.say(agent)
        assert flushed == [(agent.session, "turn/end")] * 2


@sync
async def test_flush_is_emitted_with_parallel_also_after_a_turn_that_failed_or_was_aborted() -> (
    None
):
    async with world(fails("SERVER"), calls(("abort", {})), calls(("leave", {}))) as w:
        w.tool("abort", lambda execution: execution.agent.abort())
        w.tool("leave", lambda execution: execution.agent.dispose())
        w.hear("agent/error")
        agent, seen = w.agent(), list[tuple[Any, ...]]()

        def announced(mode: str, name: str, args: Any, _scope: Any) -> None:
            if name == "session/flush":
                seen.append((mode, args, types(agent.session)[-1], len(reasons(agent.session))))

        w.ctx.on("internal/dispatch", announced)
        for _ in range(3):
            await w.say(agent)
        await until(lambda: len(seen) == 3)
        assert seen == [("parallel", (agent.session,), "turn/end", n) for n in (1, 2, 3)]
        assert [reason["kind"] for reason in reasons(agent.session)] == [
            "error",
            "aborted",
            "aborted",
        ]


@sync
async def test_a_failure_to_flush_is_logged_and_told_but_not_fatal() -> None:
    async with world("one", "two") as w:

        async def full(_session: Any) -> None:
            raise OSError(errno.ENOSPC, "disk full")

        w.ctx.once("session/flush", full)
        w.hear("agent/error")
        agent = w.agent()
        await w.say(agent)
        last = agent.session.events[-1]
        assert (last.type, last.ignorable) == ("plugin:dsh-core/flush-failed", True)
        assert last.data == {"message": "[Errno 28] disk full", "code": "ENOSPC"}
        assert [(name, error.errno) for name, error in w.heard] == [("agent/error", errno.ENOSPC)]
        assert reasons(agent.session) == [COMPLETED]
        await w.say(agent)
        assert reasons(agent.session) == [COMPLETED, COMPLETED]


@sync
async def test_what_a_failure_to_flush_says_is_bounded_and_fit_to_be_logged() -> None:
    async with world("one") as w:

        def fail(_session: Any) -> None:
            raise HarnessError("\ud800" * 5000, 5)  # type: ignore[arg-type]

        w.ctx.on("session/flush", fail)
        agent = w.agent()
        await w.say(agent)
        (data,) = of_type(agent.session, "plugin:dsh-core/flush-failed")
        assert (len(data["message"]), data["code"]) == (2000, "5")


# The contract


@sync
async def test_with_the_invariants_a_fault_ends_the_turn_with_their_code() -> None:
    async with world(calls(("break", {})), "two") as w:
        await w.ctx.plugin(invariants)
        agent = w.agent()
        w.ctx.on("tools/execute", lambda *_: agent.session.append("turn/start", {"turn": 5}))
        await w.say(agent)
        assert reasons(agent.session)[0]["error"]["code"] == "INVARIANT"
        assert "turn.overlap" in reasons(agent.session)[0]["error"]["message"]
        # This log is not legal.
        w.sessions.clear()


@pytest.mark.parametrize(
    ("type_", "data"),
    [
        ("step/start", {}),
        ("assistant/message", {"turn": 1, "step": 1}),
        ("tool/call", {"callId": 5}),
        ("request/header", {}),
        ("system/message", {"message": 5}),
    ],
)
@sync
async def test_what_others_log_into_a_turn_cannot_keep_it_from_ending(
    type_: str, data: dict[str, Any]
) -> None:
    async with world("one", "two") as w:
        agent = w.agent(system_prompt="be good")
        w.ctx.once("agent/step-start", lambda agent, *_: agent.session.append(type_, data))
        await w.say(agent)
        await w.say(agent)
        assert len(reasons(agent.session)) == 2
        # The log is not legal, and that is not the agent's fault.
        w.sessions.clear()


@sync
async def test_two_agents_take_their_turns_side_by_side() -> None:
    async with world("one", "two") as w:
        one, two = w.agent("1"), w.agent("2")
        one.send("hi")
        two.send("hi")
        await until(lambda: len(w.script.requests) == 2)
        await done(one)
        await done(two)
        assert [reasons(agent.session) for agent in (one, two)] == [[COMPLETED], [COMPLETED]]


@sync
async def test_a_listener_of_errors_that_raises_is_logged_and_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world(fails("SERVER"), "two") as w:
        w.ctx.on("agent/error", refuse)
        agent = w.agent()
        await w.say(agent)
        await w.say(agent)
        assert [reason["kind"] for reason in reasons(agent.session)] == ["error", "completed"]
        assert [record.message for record in caplog.records] == [
            "a listener of 'agent/error' failed: ValueError('no')"
        ]
