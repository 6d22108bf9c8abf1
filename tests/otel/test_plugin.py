"""Telemetry of live sessions: what is raised in the process is exported too."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracerProvider, StatusCode

from dsh_core import invariants
from dsh_core.agent import AgentStatus
from dsh_core.context import Context, ServiceError
from dsh_core.errors import InvariantError
from dsh_core.events import Contract
from dsh_core.llm import ScriptedAdapter, calls
from dsh_core.program import start
from dsh_core.session import Entry, SessionStore
from dsh_otel import plugin
from dsh_otel.ids import DerivedIdGenerator
from dsh_otel.processors.base import SessionSpanProcessor
from dsh_otel.processors.invariants import InvariantSpanProcessor
from dsh_otel.testing import CountedIds, FixedClock, Harness, Spans

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from dsh_core.session import Session
    from tests.otel.conftest import Logged


class Program:
    """A context with sessions, telemetry, and, if asked for, the invariants."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(id_generator=DerivedIdGenerator(), shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.spans = Spans(self.exporter)
        self.ctx: Any = Context()
        self.clock = FixedClock()

    async def begin(self, *, enforced: bool = False, **config: Any) -> Any:
        SessionStore(self.ctx, clock=self.clock)
        fiber = await self.trace(**config)
        if enforced:
            await self.ctx.plugin(invariants)
        return fiber

    async def trace(self, **config: Any) -> Any:
        return await self.ctx.plugin(plugin, {"tracer_provider": self.provider, **config})

    def violations(self) -> list[tuple[str, Any]]:
        return [
            (str(attributes["rule"]), attributes.get("seq"))
            for span in self.spans
            for event in span.events
            if event.name == "dsh.violation"
            for attributes in [event.attributes or {}]
            if attributes["severity"] == "violation"
        ]


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main(), debug=True)


def opened(session: Session) -> Session:
    session.append("turn/start", {"turn": 1})
    session.append("step/start", {"turn": 1, "step": 1})
    return session


def result(call_id: str, seq: int = 1) -> dict[str, Any]:
    return {
        "turn": 1,
        "step": 1,
        "message": {
            "id": f"m{seq}",
            "role": "tool",
            "toolCallId": call_id,
            "source": {"kind": "tool", "callId": call_id},
            "content": [{"type": "text", "text": "ok"}],
            "isError": False,
        },
    }


END = {"turn": 1, "reason": {"kind": "completed"}}


def forged(ctx: Any, session: Session, seq: int) -> None:
    """Tell of an event that the log does not hold: only a bug could."""
    ctx.emit("session/event", session, Entry("workspace/changes", seq, session.now(), {"turn": 1}))


JUNE: dict[str, Callable[[Any, Session], object]] = {
    "seq.regressed": lambda ctx, s: forged(ctx, opened(s), 0),
    "seq.duplicate": lambda ctx, s: forged(ctx, opened(s), 1),
    "turn.overlap": lambda ctx, s: opened(s).append("turn/start", {"turn": 2}),
    "turn.end-mismatch": lambda ctx, s: s.append("turn/end", END),
    "turn.end-open-step": lambda ctx, s: opened(s).append("turn/end", END),
    "step.outside-turn": lambda ctx, s: s.append("step/start", {"turn": 1, "step": 1}),
    "step.overlap": lambda ctx, s: opened(s).append("step/start", {"turn": 1, "step": 2}),
    "step.end-mismatch": lambda ctx, s: opened(s).append("step/end", {"turn": 1, "step": 2}),
    "step.event-outside": lambda ctx, s: opened(s).append(
        "tool/call", {"turn": 1, "step": 7, "callId": "c", "name": "n", "arguments": "{}"}
    ),
    "tool.result-without-call": lambda ctx, s: opened(s).append(
        "tool/result", result("c1"), surface_op="append", source_event_seqs=[1]
    ),
}
"""What breaks each of the six rules of June, by the rules that name it today."""


@pytest.mark.parametrize("rule", JUNE)
def test_what_breaks_a_rule_of_june_is_raised_and_exported(rule: str) -> None:
    async def main() -> None:
        program = Program()
        await program.begin(enforced=True)
        session = program.ctx.sessions.create("s")
        with pytest.raises(InvariantError, match=rf"^invariant violated: {rule}: ") as caught:
            JUNE[rule](program.ctx, session)
        assert caught.value.code == "INVARIANT"
        await program.ctx.dispose()
        assert [name for name, _ in program.violations()][:1] == [rule]

    run(main)


@pytest.mark.parametrize("rule", JUNE)
def test_without_the_invariants_it_is_exported_and_nobody_is_stopped(rule: str) -> None:
    async def main() -> None:
        program = Program()
        await program.begin()
        session = program.ctx.sessions.create("s")
        JUNE[rule](program.ctx, session)
        await program.ctx.dispose()
        assert [name for name, _ in program.violations()][:1] == [rule]

    run(main)


class Somebody:
    """An agent, as far as its status goes."""

    def __init__(self, session: Session) -> None:
        self.id = "a-1"
        self.session = session


STATUSES: dict[str, Sequence[str]] = {
    "agent.status-noop": ["idle", "running", "running"],
    "agent.status-after-disposed": ["running", "disposed", "idle"],
}


@pytest.mark.parametrize("rule", STATUSES)
def test_an_illegal_status_is_raised_and_exported(rule: str) -> None:
    async def main() -> None:
        program = Program()
        await program.begin(enforced=True)
        session = program.ctx.sessions.create("s")
        agent = Somebody(session)
        *legal, illegal = STATUSES[rule]
        for status in legal:
            program.ctx.emit("agent/status", agent, status)
        with pytest.raises(InvariantError, match=rf"^invariant violated: {rule}: "):
            program.ctx.emit("agent/status", agent, AgentStatus(illegal))
        await program.ctx.dispose()
        assert [name for name, _ in program.violations()] == [rule]

    run(main)


def test_the_first_status_is_free_and_each_agent_has_its_own() -> None:
    async def main() -> None:
        program = Program()
        await program.begin(enforced=True)
        one, other = (Somebody(program.ctx.sessions.create(name)) for name in ("s", "t"))
        for agent, status in ((one, "disposed"), (other, "running"), (other, "idle")):
            program.ctx.emit("agent/status", agent, status)
        await program.ctx.dispose()
        assert program.violations() == []

    run(main)


def test_changing_history_is_raised_where_it_is_tried_and_exported() -> None:
    async def main() -> None:
        program = Program()
        await program.begin(enforced=True)
        session = program.ctx.sessions.create("s")
        opened(session)
        with pytest.raises(InvariantError, match="history was about to change: __setitem__"):
            session.events[1].data["step"] = 2
        assert session.events[1].data == {"turn": 1, "step": 1}
        await program.ctx.dispose()
        assert program.violations() == [("agent.history-mutated", 1)]
        assert [span.status.status_code for span in program.spans.named("dsh.step")] == [
            StatusCode.ERROR
        ]

    run(main)


def test_without_freezing_history_can_be_changed() -> None:
    async def main() -> None:
        program = Program()
        await program.begin()
        await program.ctx.plugin(invariants, {"freeze": False})
        session = program.ctx.sessions.create("s")
        opened(session)
        session.events[1].data["step"] = 2
        await program.ctx.dispose()

    run(main)


@pytest.mark.parametrize(
    ("config", "raises"),
    [
        ({}, True),
        ({"enabled": False}, False),
        ({"allow": ["tools"]}, False),
        ({"allow": ["sess*"]}, True),
        ({"block": ["session"]}, False),
        ({"block": ["tools"]}, True),
        ({"allow": ["session"], "block": ["s*"]}, False),
        ({"allow": ["turn.*"]}, True),
        ({"allow": ["step.*"]}, False),
        ({"block": ["turn.overlap"]}, False),
        ({"severities": {"turn.*": "advice"}}, False),
        ({"severities": {"owner:session": "advice", "turn.overlap": "damage"}}, True),
    ],
)
def test_rules_are_allowed_blocked_and_graded(config: dict[str, Any], raises: bool) -> None:
    async def main() -> None:
        ctx: Any = Context()
        SessionStore(ctx)
        await ctx.plugin(invariants, config)
        session = ctx.sessions.create("s")
        opened(session)
        if raises:
            with pytest.raises(InvariantError):
                session.append("turn/start", {"turn": 2})
        else:
            session.append("turn/start", {"turn": 2})
        await ctx.dispose()

    run(main)


@pytest.mark.parametrize("presets", [None, ["read-only"], ["mine"]])
def test_presets_are_checked_where_they_are_named(presets: list[str] | None) -> None:
    async def main() -> None:
        ctx: Any = Context()
        SessionStore(ctx)
        await ctx.plugin(invariants, {"presets": presets})
        session = ctx.sessions.create("s")
        if presets == ["read-only"]:
            with pytest.raises(InvariantError, match=r"permission\.preset-unknown"):
                session.append("permission/preset", {"preset": "mine"})
        else:
            session.append("permission/preset", {"preset": "mine"})
        await ctx.dispose()

    run(main)


def test_a_grade_of_no_rule_fails_at_the_start(logged: Logged) -> None:
    async def main() -> None:
        ctx: Any = Context()
        SessionStore(ctx)
        with pytest.raises(ValueError, match=r"no rule matches 'x\.y'"):
            await ctx.plugin(invariants, {"severities": {"x.y": "advice"}})
        await ctx.dispose()

    run(main)
    assert len(logged.take()) == 1


def test_a_wrong_configuration_fails_alone(logged: Logged) -> None:
    async def main() -> None:
        ctx: Any = Context()
        SessionStore(ctx)
        for one, config, told in (
            (invariants, {"frieze": True}, "Extra inputs are not permitted (at frieze)"),
            (plugin, {"flush_timeout_s": -1}, "greater than or equal to 0 (at flush_timeout_s)"),
        ):
            with pytest.raises(ValueError, match="at f") as caught:
                await ctx.plugin(one, config)
            assert told in str(caught.value)
        ctx.sessions.create("s")
        await ctx.dispose()

    run(main)
    assert len(logged.take()) == 2


def test_findings_are_told_before_anything_is_raised() -> None:
    async def main() -> None:
        program = Program()
        await program.begin(enforced=True)
        told: list[str] = []
        program.ctx.on(invariants.FINDING, lambda session, finding: told.append(finding.rule))
        session = program.ctx.sessions.create("s")
        with pytest.raises(InvariantError):
            session.append("step/start", {"turn": 1, "step": 1})
        assert told == ["step.outside-turn"]
        await program.ctx.dispose()

    run(main)


def test_a_listener_to_findings_that_fails_hides_nothing(logged: Logged) -> None:
    async def main() -> None:
        ctx: Any = Context()
        SessionStore(ctx)
        await ctx.plugin(invariants)

        def mistaken(*_: object) -> None:
            raise asyncio.CancelledError

        ctx.on(invariants.FINDING, mistaken)
        with pytest.raises(InvariantError, match=r"step\.outside-turn"):
            ctx.sessions.create("s").append("step/start", {"turn": 1, "step": 1})
        await ctx.dispose()

    run(main)
    assert logged.take() == ["a listener of 'invariants/finding' failed: CancelledError()"]


def test_a_seed_that_breaks_the_contract_is_refused() -> None:
    async def main() -> None:
        program = Program()
        await program.begin(enforced=True)
        seed = [Entry("turn/start", n, n, {"turn": n + 1}) for n in range(2)]
        with pytest.raises(InvariantError, match=r"turn\.overlap"):
            program.ctx.sessions.create("s", seed)
        assert program.ctx.sessions.get("s") is None
        await program.ctx.dispose()

    run(main)


def test_a_reload_in_the_middle_of_a_turn_rejects_nothing() -> None:
    async def main() -> None:
        ctx: Any = Context()
        SessionStore(ctx)
        fiber = await ctx.plugin(invariants)
        session = ctx.sessions.create("s")
        opened(session)
        await fiber.restart()
        session.append("step/end", {"turn": 1, "step": 1})
        await fiber.dispose()
        session.append("step/start", {"turn": 1, "step": 2})
        await ctx.plugin(invariants)
        session.append("step/end", {"turn": 1, "step": 2})
        session.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
        with pytest.raises(InvariantError, match=r"turn\.number"):
            session.append("turn/start", {"turn": 7})
        await ctx.dispose()

    run(main)


def test_a_listener_that_appends_does_not_turn_the_order_round() -> None:
    """Whoever listens behind it hears of the second event first."""

    async def main() -> None:
        program = Program()
        SessionStore(program.ctx, clock=program.clock)

        def answer(session: Session, entry: Entry) -> None:
            if entry.type == "turn/start":
                session.append("step/start", {"turn": 1, "step": 1})

        program.ctx.on("session/event", answer)
        await program.ctx.plugin(invariants)
        await program.trace()
        session = program.ctx.sessions.create("s")
        session.append("turn/start", {"turn": 1})
        session.append("step/end", {"turn": 1, "step": 1})
        session.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
        await program.ctx.dispose()
        assert program.violations() == []
        assert len(program.spans.named("dsh.step")) == 1

    run(main)


# Telemetry alone


def ended_turn(session: Session) -> None:
    session.append("step/end", {"turn": 1, "step": 1})
    session.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})


@pytest.mark.parametrize("way", ["restart", "dispose and load", "missed events"])
def test_a_hot_reload_neither_closes_nor_doubles_spans(way: str) -> None:
    async def main() -> None:
        program = Program()
        fiber = await program.begin()
        session = program.ctx.sessions.create("s")
        opened(session)
        if way == "restart":
            await fiber.restart()
        else:
            await fiber.dispose()
            if way == "missed events":
                ended_turn(session)
            await program.trace()
        if way != "missed events":
            assert len(program.spans) == 0
            ended_turn(session)
        await program.ctx.dispose()
        turn, step = program.spans.one("invoke_agent"), program.spans.one("dsh.step")
        assert step.parent == turn.context
        for span in (turn, step):
            assert "dsh.span.unclosed" not in (span.attributes or {})
        assert program.violations() == []

    run(main)


def test_the_end_of_a_session_ends_its_spans_also_without_the_plugin() -> None:
    async def main() -> None:
        program = Program()
        fiber = await program.begin()
        session = program.ctx.sessions.create("s")
        opened(session)
        await fiber.dispose()
        session.append("workspace/changes", {"turn": 1})
        program.ctx.sessions.close(session)
        turn = program.spans.one("invoke_agent")
        assert (turn.attributes or {})["dsh.span.unclosed"] is True
        # What the plugin has missed is caught up: the turn lasted until the last event.
        assert turn.end_time == session.events[2].time * 1_000_000
        await program.ctx.dispose()

    run(main)


def test_of_a_session_that_lives_already_the_open_turn_is_traced_whole() -> None:
    async def main() -> None:
        program = Program()
        SessionStore(program.ctx, clock=program.clock)
        session = program.ctx.sessions.create("s")
        opened(session)
        ended_turn(session)
        session.append("turn/start", {"turn": 2})
        session.append("step/start", {"turn": 2, "step": 1})
        await program.trace()
        session.append("step/end", {"turn": 2, "step": 1})
        session.append("turn/end", {"turn": 2, "reason": {"kind": "completed"}})
        session.append("turn/start", {"turn": 9})
        await program.ctx.dispose()
        turns = [(span.attributes or {})["dsh.turn"] for span in program.spans.named("invoke")]
        assert turns == [2, 9]
        assert program.violations() == [("turn.number", 8)]

    run(main)


def test_live_and_replay_give_the_same_spans() -> None:
    async def main() -> None:
        harness = Harness()
        async with harness:
            agent = harness.agent([calls(("nope", {})), "done"])
            await harness.turn(agent, "hi")
            entries = list(agent.session.events)
        again = Program()
        SessionStore(again.ctx)
        await again.trace()
        header = harness.sessions[0].header
        replayed = again.ctx.sessions.create(header.id, created_at=header.created_at)
        for entry in entries:
            again.ctx.emit("session/event", replayed, entry)
        await again.ctx.dispose()
        assert [span.to_json() for span in harness.spans] != []
        assert [_facts(span) for span in harness.spans] == [_facts(span) for span in again.spans]

    run(main)


def _facts(span: Any) -> tuple[Any, ...]:
    return (span.name, span.context, span.start_time, span.end_time, dict(span.attributes))


class Broken(SessionSpanProcessor):
    def on_event(self, event: object, span: object) -> None:
        raise RuntimeError("broken processor")


def test_an_error_of_telemetry_does_not_reach_the_agent(logged: Logged) -> None:
    async def main() -> None:
        program = Program()
        await program.begin(processors=(Broken(),))
        session = program.ctx.sessions.create("s")
        opened(session)
        ended_turn(session)
        await program.ctx.dispose()
        assert len(program.spans) == 2

    run(main)
    assert len(logged.take()) == 1


def test_a_tracer_that_cannot_be_made_is_said_once_and_counted(logged: Logged) -> None:
    class Provider(TracerProvider):
        def get_tracer(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("no tracer")

    async def main() -> None:
        program = Program()
        await program.begin(tracer_provider=Provider(shutdown_on_exit=False))
        session = program.ctx.sessions.create("s")
        opened(session)
        assert program.ctx.telemetry.errors == 3
        await program.ctx.dispose()

    run(main)
    assert logged.take() == ["telemetry failed, spans may be missing: RuntimeError('no tracer')"]


def test_without_an_sdk_it_says_what_to_do(logged: Logged) -> None:
    async def main() -> None:
        program = Program()
        await program.begin(tracer_provider=NoOpTracerProvider())
        opened(program.ctx.sessions.create("s"))
        await program.ctx.dispose()

    run(main)
    (message,) = logged.take()
    assert "set_tracer_provider" in message


def test_the_default_is_the_global_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        program = Program()
        monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", lambda: program.provider)
        SessionStore(program.ctx)
        await program.ctx.plugin(plugin)
        session = program.ctx.sessions.create("s")
        opened(session)
        ended_turn(session)
        await program.ctx.dispose()
        assert len(program.spans) == 2

    run(main)


@pytest.mark.parametrize(
    "config", [{"check": False}, {"exclude": ["turn.*"]}, {"rules": ["seq.*"]}]
)
def test_what_is_not_checked_is_not_exported(config: dict[str, Any]) -> None:
    async def main() -> None:
        program = Program()
        await program.begin(**config)
        session = program.ctx.sessions.create("s")
        session.append("turn/start", {"turn": 1})
        session.append("turn/start", {"turn": 2})
        await program.ctx.dispose()
        assert program.violations() == []

    run(main)


def test_a_check_of_the_providers_own_is_the_only_one() -> None:
    async def main() -> None:
        program = Program()
        program.provider.add_span_processor(InvariantSpanProcessor(exclude=["turn.*"]))
        await program.begin()
        session = program.ctx.sessions.create("s")
        session.append("turn/start", {"turn": 1})
        session.append("turn/start", {"turn": 2})
        await program.ctx.dispose()
        assert program.violations() == []

    run(main)


def test_another_contract_can_be_named() -> None:
    async def main() -> None:
        program = Program()
        await program.begin(contract=Contract.SEED)
        session = program.ctx.sessions.create("s")
        session.append("turn/start", {"turn": 7})
        await program.ctx.dispose()
        assert program.violations() == []
        assert (program.spans.one("invoke").attributes or {})["dsh.contract"] == "seed"

    run(main)


def test_a_rule_that_nobody_knows_fails_at_the_start(logged: Logged) -> None:
    async def main() -> None:
        program = Program()
        with pytest.raises(ValueError, match="no rule matches 'nope'"):
            await program.begin(rules=["nope"])
        await program.ctx.dispose()

    run(main)
    assert len(logged.take()) == 1


@pytest.mark.parametrize("content", [True, False])
def test_content_leaves_only_when_it_is_switched_on(content: bool) -> None:
    harness = Harness(content=content)

    async def scenario(harness: Harness) -> None:
        agent = harness.agent([calls(("nope", {"secret": "4711"})), "done"])
        await harness.turn(agent, "my password is 4711")

    harness.run(scenario)
    text = "".join(span.to_json() for span in harness.spans)
    assert ("4711" in text) is content


# Unloading


def test_unloading_lets_spans_leave() -> None:
    flushed: list[int] = []

    async def main() -> None:
        program = Program()
        program.provider.force_flush = flushed.append  # type: ignore[method-assign, assignment]
        fiber = await program.begin(flush_timeout_s=2)
        await fiber.dispose()
        assert flushed == [2000]
        await program.ctx.dispose()

    run(main)


def test_a_provider_that_hangs_holds_unloading_up_no_longer_than_it_may(logged: Logged) -> None:
    release = threading.Event()

    def hang(_: int) -> bool:
        return release.wait()

    async def main() -> None:
        program = Program()
        program.provider.force_flush = hang  # type: ignore[method-assign, assignment]
        fiber = await program.begin(flush_timeout_s=0.05)
        await fiber.dispose()
        await program.ctx.dispose()

    run(main)
    release.set()
    assert logged.take() == ["spans did not leave within 0.05 s; they are left to the provider"]


def test_a_provider_that_fails_to_flush_is_named(logged: Logged) -> None:
    def fail(_: int) -> bool:
        raise OSError("disk full")

    async def main() -> None:
        program = Program()
        program.provider.force_flush = fail  # type: ignore[method-assign, assignment]
        await (await program.begin()).dispose()
        await program.ctx.dispose()

    run(main)
    assert logged.take() == ["flushing spans failed: OSError('disk full')"]


@pytest.mark.parametrize("timeout_s", [0, 5])
def test_without_anything_to_flush_unloading_is_done_at_once(timeout_s: float) -> None:
    async def main() -> None:
        program = Program()
        program.provider.force_flush = None  # type: ignore[method-assign, assignment]
        await (await program.begin(flush_timeout_s=timeout_s)).dispose()
        await program.ctx.dispose()

    run(main)


def test_an_agent_traced_live_breaks_no_rule() -> None:
    async def main() -> None:
        program = Program()
        await start(program.ctx, clock=program.clock, new_id=CountedIds())
        await program.trace()
        await program.ctx.plugin(invariants)
        program.ctx.llm.register_adapter(["m"], ScriptedAdapter(["hello", "again"]))
        agent = program.ctx.agent_loop.create("a", model="m")
        for text in ("one", "two"):
            agent.send(text)
            await agent.settled()
        await program.ctx.dispose()
        assert program.violations() == []
        assert len(program.spans.named("invoke_agent")) == 2
        assert len(program.spans.named("chat m")) == 2

    run(main)


def test_a_second_telemetry_is_refused(logged: Logged) -> None:
    async def main() -> None:
        program = Program()
        await program.begin()
        with pytest.raises(ServiceError, match='service "telemetry" has been registered'):
            await program.trace()
        await program.ctx.dispose()

    run(main)
    assert len(logged.take()) == 1


def test_statuses_that_nobody_saw_are_no_violations() -> None:
    async def main() -> None:
        program = Program()
        fiber = await program.begin(enforced=False)
        agent = Somebody(program.ctx.sessions.create("s"))
        program.ctx.emit("agent/status", agent, "running")
        await fiber.dispose()
        await program.trace()
        program.ctx.emit("agent/status", agent, "running")
        await program.ctx.dispose()
        assert program.violations() == []

    run(main)


@pytest.mark.parametrize("in_turn", [True, False])
def test_other_settings_count_from_the_next_turn_on_and_privacy_at_once(in_turn: bool) -> None:
    async def main() -> None:
        program, other = Program(), Program()
        fiber = await program.begin(content=True)
        session = program.ctx.sessions.create("s")
        opened(session)
        told = [{"type": "text", "text": "SECRET"}]
        message = {"id": "u", "role": "user", "source": {"kind": "user"}, "content": told}
        session.append("user/message", message, surface_op="append")
        if not in_turn:
            ended_turn(session)
        await fiber.dispose()
        await program.ctx.plugin(plugin, {"tracer_provider": other.provider})
        if in_turn:
            ended_turn(session)
        session.append("turn/start", {"turn": 2})
        session.append("turn/end", {"turn": 2, "reason": {"kind": "completed"}})
        await program.ctx.dispose()
        for one, turn in ((program, 1), (other, 2)):
            assert (one.spans.one("invoke_agent").attributes or {})["dsh.turn"] == turn
            assert one.violations() == []
        assert ("SECRET" in program.spans.one("invoke_agent").to_json()) is not in_turn

    run(main)


def test_the_same_settings_go_on_with_the_same_spans() -> None:
    async def main() -> None:
        program = Program()
        fiber = await program.begin(content=True)
        session = program.ctx.sessions.create("s")
        opened(session)
        live = session.kept[plugin.KEPT].tracer
        await fiber.dispose()
        await program.trace(content=True)
        assert session.kept[plugin.KEPT].tracer is live
        await program.ctx.dispose()

    run(main)


def test_a_session_whose_life_is_over_has_no_second_trace(logged: Logged) -> None:
    async def main() -> None:
        program = Program()
        await program.begin()
        session = program.ctx.sessions.create("s")
        opened(session)
        program.ctx.sessions.close(session)
        program.ctx.emit("agent/status", Somebody(session), "idle")
        session.append("step/end", {"turn": 1, "step": 1})
        await program.ctx.dispose()
        assert len(program.spans.named("invoke_agent")) == 1
        assert len(program.spans.named("dsh.step")) == 1

    run(main)
    assert logged.take() == [
        "session 's' is closed: what is appended now is neither told nor stored"
    ]


class Cancelling(SpanProcessor):
    """Raises a cancellation where nothing is waited for."""

    def on_end(self, span: object) -> None:
        raise asyncio.CancelledError


def test_a_cancellation_raised_by_a_processor_does_not_end_the_agent(logged: Logged) -> None:
    async def main() -> None:
        program = Program()
        program.provider.add_span_processor(Cancelling())
        await start(program.ctx, clock=program.clock, new_id=CountedIds())
        await program.trace()
        program.ctx.llm.register_adapter(["m"], ScriptedAdapter(["hello", "again"]))
        agent = program.ctx.agent_loop.create("a", model="m")
        assert [await agent.ask("one"), await agent.ask("two")] == ["hello", "again"]
        await program.ctx.dispose()

    run(main)
    assert len(logged.take()) >= 1


@pytest.mark.parametrize(
    "config", [{"tracer_provider": "x"}, {"redact": "x"}, {"tracer_provider": 3}]
)
def test_what_is_no_provider_or_function_is_refused_at_the_start(
    config: dict[str, Any], logged: Logged
) -> None:
    async def main() -> None:
        program = Program()
        with pytest.raises(ValueError, match="must be"):
            await program.begin(**config)
        await program.ctx.dispose()

    run(main)
    assert len(logged.take()) == 1


def test_what_was_missed_leaves_under_the_new_settings() -> None:
    async def main() -> None:
        program = Program()
        fiber = await program.begin(content=True)
        session = program.ctx.sessions.create("s")
        await fiber.dispose()
        opened(session)
        told = [{"type": "text", "text": "SECRET"}]
        message = {"id": "u", "role": "user", "source": {"kind": "user"}, "content": told}
        session.append("user/message", message, surface_op="append")
        ended_turn(session)
        await program.trace(content=False)
        await program.ctx.dispose()
        assert "SECRET" not in program.spans.one("invoke_agent").to_json()

    run(main)
