"""Tests of agents themselves: statuses, and what can be said to them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dsh_core.agent import AgentOptions, AgentStatus
from dsh_core.llm import calls
from dsh_core.session.lossless import DataError
from tests.core.agent.support import (
    NOW,
    World,
    done,
    of_type,
    reasons,
    sync,
    texts,
    types,
    until,
    world,
)

IDLE, RUNNING, DISPOSED = AgentStatus.IDLE, AgentStatus.RUNNING, AgentStatus.DISPOSED


def statuses(w: World) -> list[AgentStatus]:
    """Return a list that all statuses are added to."""
    found: list[AgentStatus] = []
    w.ctx.on("agent/status", lambda _, status: found.append(status))
    return found


# Statuses


@sync
async def test_an_agent_is_idle_initially() -> None:
    async with world() as w:
        assert w.agent().status is IDLE


def test_the_statuses_are_idle_running_and_disposed() -> None:
    assert [str(status) for status in AgentStatus] == ["idle", "running", "disposed"]


@sync
async def test_a_status_is_told_only_when_it_changes() -> None:
    async with world() as w:
        found, agent = statuses(w), w.agent()
        for status in (IDLE, RUNNING, RUNNING, IDLE, IDLE):
            agent.become(status)
        assert found == [RUNNING, IDLE]


@sync
async def test_an_idle_agent_runs_when_a_queued_message_is_taken() -> None:
    async with world("yes") as w:
        agent = w.agent()
        found: list[Any] = []
        w.ctx.on("agent/status", lambda agent, now: found.append((now, types(agent.session))))
        agent.send("hi")
        assert (agent.status, found) == (IDLE, [])
        await done(agent)
        assert found[0] == (RUNNING, ["agent/inbox/spliced"])


@sync
async def test_a_running_agent_is_idle_when_the_queue_is_empty_after_a_turn() -> None:
    async with world("yes") as w:
        found, agent = statuses(w), w.agent()
        ends: list[AgentStatus] = []
        w.ctx.on("agent/turn-end", lambda agent, _: ends.append(agent.status))
        await w.say(agent)
        assert (ends, found) == ([RUNNING], [RUNNING, IDLE])


@sync
async def test_an_agent_stays_running_between_turns_that_follow_each_other() -> None:
    async with world("one", "two") as w:
        found, agent = statuses(w), w.agent()
        w.ctx.once("agent/turn-end", lambda agent, _: agent.send("more"))
        await w.say(agent)
        assert [reason["kind"] for reason in reasons(agent.session)] == ["completed", "completed"]
        assert found == [RUNNING, IDLE]


@sync
async def test_an_agent_is_disposed_once() -> None:
    async with world() as w:
        found, agent = statuses(w), w.agent()
        agent.dispose()
        agent.dispose()
        assert (agent.status, agent.alive, found) == (DISPOSED, False, [DISPOSED])


@sync
async def test_no_agent_ceases_to_be_disposed() -> None:
    async with world() as w:
        found, agent = statuses(w), w.agent()
        agent.dispose()
        agent.become(IDLE)
        agent.become(RUNNING)
        assert (agent.status, found) == (DISPOSED, [DISPOSED])


@sync
async def test_a_listener_that_raises_does_not_keep_an_agent_alive() -> None:
    async with world("yes") as w:

        def refuse(_agent: Any, status: AgentStatus) -> None:
            if status is DISPOSED:
                raise ValueError("no")

        w.ctx.on("agent/status", refuse)
        agent = w.agent()
        with pytest.raises(ValueError, match=r"^no$"):
            agent.dispose()
        assert not agent.alive
        await agent.settled()


@sync
async def test_an_agent_that_is_disposed_when_it_is_about_to_run_takes_no_turn() -> None:
    async with world("yes") as w:
        agent = w.agent()
        w.ctx.once("agent/status", lambda agent, _: agent.dispose())
        agent.send("hi")
        await agent.settled()
        assert types(agent.session) == ["agent/inbox/spliced"]
        assert w.script.requests == []


# send


@sync
async def test_send_says_it_as_the_user_by_default() -> None:
    async with world("yes") as w:
        agent = w.agent()
        id_ = agent.send("hi")
        await done(agent)
        assert of_type(agent.session, "user/message") == [
            {
                "id": id_,
                "role": "user",
                "content": [{"type": "text", "text": "hi"}],
                "source": {"kind": "user"},
            }
        ]


@sync
async def test_send_names_another_source_if_it_is_told_to() -> None:
    async with world("yes") as w:
        agent = w.agent()
        agent.send([{"type": "text", "text": "hi"}], source={"kind": "agent", "agentId": "b"})
        await done(agent)
        (said,) = of_type(agent.session, "user/message")
        assert said["source"] == {"kind": "agent", "agentId": "b"}


@sync
async def test_send_queues_and_says_so_with_steering_false() -> None:
    async with world("yes") as w:
        w.hear("agent/queued", "agent/steering")
        agent = w.agent()
        id_ = agent.send("hi")
        message = {
            "id": id_,
            "role": "user",
            "content": [{"type": "text", "text": "hi"}],
            "source": {"kind": "user"},
        }
        assert w.heard == [("agent/queued", message, False)]
        (entry,) = agent.session.events
        assert (entry.type, entry.time) == ("agent/inbox/spliced", NOW)
        assert entry.data == {"target": "next-turn", "start": 0, "inserted": [message]}
        await done(agent)


@pytest.mark.parametrize("what", ["send", "steer", "inject"])
@sync
async def test_nothing_can_be_said_to_a_disposed_agent(what: str) -> None:
    async with world() as w:
        agent = w.agent()
        agent.dispose()
        with pytest.raises(RuntimeError, match=r'^agent "a" is disposed$'):
            getattr(agent, what)("hi", source={"kind": "user"})
        assert types(agent.session) == []


@pytest.mark.parametrize("what", ["send", "steer"])
@sync
async def test_what_json_cannot_carry_is_refused_and_not_queued(what: str) -> None:
    async with world("yes") as w:
        agent = w.agent()
        with pytest.raises(DataError, match=r"^data\.inserted\[0\]\.content\[0\]\.text is of"):
            getattr(agent, what)([{"type": "text", "text": object()}])
        assert (agent.inbox.waiting(), types(agent.session)) == (0, [])
        await w.say(agent)
        assert texts(agent.session) == ["hi"]


@sync
async def test_what_is_said_is_heard_although_a_listener_of_queued_raises() -> None:
    async with world("yes") as w:

        def refuse(*_: Any) -> None:
            raise ValueError("no")

        w.ctx.on("agent/queued", refuse)
        agent = w.agent()
        with pytest.raises(ValueError, match=r"^no$"):
            agent.send("hi")
        await done(agent)
        assert texts(agent.session) == ["hi"]


# steer


@sync
async def test_steering_an_idle_agent_is_sending() -> None:
    async with world("yes") as w:
        w.hear("agent/queued", "agent/steering")
        agent = w.agent()
        agent.steer("hi")
        assert [(name, *rest[1:]) for name, *rest in w.heard] == [("agent/queued", False)]
        await done(agent)
        first = agent.session.events[0].data
        assert (first["target"], texts(agent.session)) == ("next-turn", ["hi"])


@sync
async def test_steering_a_running_agent_joins_before_the_next_request() -> None:
    async with world(calls(("steer", {})), "yes") as w:
        agent = w.agent()
        w.tool("steer", lambda execution: execution.agent.steer("left"))
        await w.say(agent)
        last = [block for message in w.script.requests[1].messages for block in message["content"]]
        assert last[-1] == {"type": "text", "text": "left"}
        assert types(agent.session)[10:18] == [
            "agent/inbox/spliced",
            "tool/result",
            "step/end",
            "agent/inbox/spliced",
            "step/start",
            "user/message",
            "assistant/message",
            "step/end",
        ]
        assert [data["target"] for data in of_type(agent.session, "agent/inbox/spliced")] == [
            "next-turn",
            "next-turn",
            "next-step",
            "next-step",
        ]


@sync
async def test_steering_is_told_as_queued_and_as_steering() -> None:
    async with world(calls(("steer", {})), "yes") as w:
        w.hear("agent/queued", "agent/steering")
        agent = w.agent()
        w.tool("steer", lambda execution: execution.agent.steer("left"))
        await w.say(agent)
        message = {
            "id": "id-4",
            "role": "user",
            "content": [{"type": "text", "text": "left"}],
            "source": {"kind": "user"},
        }
        assert w.heard[1:] == [("agent/queued", message, True), ("agent/steering", message)]


@sync
async def test_steering_forces_another_step_on_a_turn_without_tools() -> None:
    async with world("one", "two") as w:
        agent = w.agent()
        w.ctx.once("agent/stream-chunk", lambda agent, _: agent.steer("left"))
        await w.say(agent)
        assert texts(agent.session, "assistant/message") == ["one", "two"]
        assert of_type(agent.session, "turn/start") == [{"turn": 1}]


@sync
async def test_steering_that_comes_too_late_becomes_a_queued_message() -> None:
    async with world("one", "two") as w:
        agent = w.agent()
        w.ctx.once("agent/turn-end", lambda agent, _: agent.steer("late"))
        await w.say(agent)
        assert of_type(agent.session, "turn/start") == [{"turn": 1}, {"turn": 2}]
        spliced = of_type(agent.session, "agent/inbox/spliced")
        assert [(s["target"], s.get("removedCount"), s.get("outcome")) for s in spliced] == [
            ("next-turn", None, None),
            ("next-turn", 1, None),
            ("next-step", None, None),
            ("next-step", 1, "canceled"),
            ("next-turn", None, None),
            ("next-turn", 1, None),
        ]
        assert texts(agent.session) == ["hi", "late"]


# inject


@sync
async def test_inject_appends_at_once_and_begins_no_turn() -> None:
    async with world() as w:
        agent = w.agent()
        id_ = agent.inject([{"type": "text", "text": "noon"}], source={"kind": 'the "clock"'})
        (entry,) = agent.session.events
        assert (entry.type, entry.surface_op) == ("user/message", "append")
        assert entry.data == {
            "id": id_,
            "role": "user",
            "content": [
                {"type": "text", "text": '<context source="the \\"clock\\"">'},
                {"type": "text", "text": "noon"},
                {"type": "text", "text": "</context>"},
            ],
            "source": {"kind": 'the "clock"'},
        }
        assert agent.status is IDLE


@sync
async def test_inject_reaches_the_model_with_the_next_request() -> None:
    async with world("yes") as w:
        agent = w.agent()
        agent.inject("noon", source={"kind": "clock"})
        await w.say(agent)
        (request,) = w.script.requests
        assert [block["text"] for block in request.messages[0]["content"]] == [
            '<context source="clock">',
            "noon",
            "</context>",
        ]


# abort


@sync
async def test_abort_has_no_effect_on_an_idle_agent() -> None:
    async with world("yes") as w:
        agent = w.agent()
        agent.abort()
        assert not agent.work.signal.aborted
        await w.say(agent)
        assert reasons(agent.session) == [{"kind": "completed"}]


@pytest.mark.parametrize(
    ("given", "reason"), [((), "aborted"), (("enough",), "enough")], ids=["default", "given"]
)
@sync
async def test_abort_aborts_the_signal_of_the_current_step(
    given: tuple[Any, ...], reason: str
) -> None:
    async with world(calls(("wait", {}))) as w:
        signals: list[Any] = []

        async def wait(execution: Any) -> str:
            signals.append(execution.signal)
            await execution.signal.wait()
            return "stopped"

        w.tool("wait", wait)
        agent = w.agent()
        agent.send("hi")
        await until(lambda: signals)
        agent.abort(*given)
        await done(agent)
        assert (signals[0].aborted, signals[0].reason) == (True, reason)
        assert reasons(agent.session) == [{"kind": "aborted", "reason": {"kind": "user"}}]


@sync
async def test_abort_does_not_reach_the_turn_after_the_next() -> None:
    async with world("yes") as w:
        agent = w.agent()
        w.ctx.once("agent/turn-start", lambda agent, _: agent.abort())
        await w.say(agent)
        await w.say(agent)
        assert [reason["kind"] for reason in reasons(agent.session)] == ["aborted", "completed"]


@sync
async def test_an_agent_that_is_aborted_before_it_asks_does_not_ask() -> None:
    async with world("yes") as w:
        agent = w.agent()
        w.ctx.once("agent/turn-start", lambda agent, _: agent.abort())
        await w.say(agent)
        assert w.script.requests == []
        assert texts(agent.session) == ["hi"]


# Waiting


@sync
async def test_an_agent_is_settled_when_nothing_is_left_to_do() -> None:
    async with world("yes") as w:
        agent = w.agent()
        await agent.settled()
        agent.send("hi")
        await agent.settled()
        assert (agent.status, len(w.script.requests)) == (IDLE, 1)


@sync
async def test_an_agent_is_settled_when_its_life_is_over() -> None:
    async with world(calls(("wait", {}))) as w:
        w.tool("wait", lambda execution: execution.signal.wait())
        agent = w.agent()
        agent.send("hi")
        await until(lambda: of_type(agent.session, "tool/call"))
        waiting = asyncio.ensure_future(agent.settled())
        agent.dispose()
        await waiting
        assert reasons(agent.session) == [{"kind": "aborted", "reason": {"kind": "disposed"}}]


def test_an_agent_is_made_with_nothing_but_defaults() -> None:
    assert AgentOptions() == AgentOptions(
        model="",
        system_prompt="",
        max_tokens=None,
        temperature=None,
        cwd="",
        grace_s=0.1,
        patience_s=5.0,
    )
