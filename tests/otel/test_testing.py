"""What is shipped for the tests of others."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from dsh_core.errors import HarnessError, InvariantError
from dsh_core.events import SessionHeader
from dsh_core.llm import calls, fails
from dsh_core.session import Entry, Session
from dsh_core.tools import define_tool
from dsh_otel import testing
from dsh_otel.testing import (
    CountedIds,
    FixedClock,
    Harness,
    assert_no_violations,
    findings_of,
)
from tests.otel.support import case_log, session_log

if TYPE_CHECKING:
    from pathlib import Path

    from tests.otel.conftest import Logged

pytest_plugins = ["pytester"]


def read(path: str) -> str:
    """Read a file."""
    raise FileNotFoundError(2, "No such file or directory", path)


@define_tool
def lock() -> str:
    """Lock the door."""
    raise HarnessError("the door is stuck", "DOOR_STUCK")


SCRIPT: list[Any] = [calls(("read", {"path": "/nope"}), ("lock", {})), "done"]


async def scenario(harness: Harness) -> str:
    agent = harness.agent(SCRIPT, tools=[read, lock])
    await harness.turn(agent, "hi")
    return str(agent.id)


def test_a_clock_ticks_when_somebody_looks() -> None:
    clock = FixedClock(100, 10)
    assert [clock(), clock(), clock()] == [100, 110, 120]
    assert FixedClock()() == testing.START_MS


def test_ids_are_counted() -> None:
    ids = CountedIds("m-")
    assert [ids(), ids()] == ["m-1", "m-2"]


def test_a_scenario_gives_the_same_each_time() -> None:
    runs = []
    for _ in range(2):
        harness = Harness()
        assert harness.run(scenario) == "agent-1"
        log = [entry.row for session in harness.sessions for entry in session.events]
        runs.append((log, [span.to_json() for span in harness.spans]))
    assert runs[0] == runs[1]


def test_the_tree_is_that_of_the_console() -> None:
    harness = Harness()
    harness.run(scenario)
    lines = harness.spans.tree().splitlines()
    assert lines[0] == "session agent-1-session  v4 log, v4 contract"
    assert [line.split("  ")[-2:] for line in lines if "execute_tool" in line] == [
        ["ENOENT", "missing → replan"],
        ["DOOR_STUCK", "unknown-outcome → check-first"],
    ]
    assert len(lines) == 1 + len(harness.spans)


def test_spans_are_found_by_how_their_names_begin() -> None:
    harness = Harness()
    harness.run(scenario)
    spans = harness.spans
    assert [span.name for span in spans.named("execute_tool")] == [
        "execute_tool read",
        "execute_tool lock",
    ]
    assert spans.one("execute_tool lock").name == "execute_tool lock"
    assert spans.codes() == ["ENOENT", "DOOR_STUCK"]
    with pytest.raises(AssertionError, match="2 spans begin with 'execute_tool', not one"):
        spans.one("execute_tool")
    with pytest.raises(AssertionError, match="0 spans begin with 'nope', not one; there are: "):
        spans.one("nope")


def test_it_is_a_context_manager_too() -> None:
    async def main() -> None:
        async with Harness() as harness:
            await scenario(harness)
            assert len(harness.spans.named("invoke_agent")) == 1
        harness.assert_no_violations()

    asyncio.run(main(), debug=True)


def test_the_end_ends_all_spans() -> None:
    async def half(harness: Harness) -> None:
        session = harness.ctx.sessions.create("mine")
        session.append("turn/start", {"turn": 1})

    harness = Harness()
    harness.run(half)
    assert (harness.spans.one("invoke_agent").attributes or {})["dsh.span.unclosed"] is True


def test_an_error_of_the_scenario_comes_out_and_the_program_ends() -> None:
    async def fail(harness: Harness) -> None:
        harness.ctx.sessions.create("mine").append("turn/start", {"turn": 1})
        raise LookupError("mine")

    harness = Harness()
    with pytest.raises(LookupError, match="mine"):
        harness.run(fail)
    assert len(harness.spans) == 1


def test_a_scenario_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(_: Harness) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(testing, "PATIENCE_S", 0.01)
    with pytest.raises(TimeoutError):
        Harness().run(hang)


def test_each_agent_has_a_script_of_its_own() -> None:
    async def two(harness: Harness) -> list[Any]:
        agents = [harness.agent(["one"]), harness.agent([fails("RATE_LIMIT"), "two"])]
        for agent in agents:
            await harness.turn(agent, "hi")
        return [agent.session.events[-1].data["reason"]["kind"] for agent in agents]

    harness = Harness()
    assert harness.run(two) == ["completed", "error"]
    assert harness.spans.codes() == ["RATE_LIMIT"] * 2
    harness.assert_no_violations()


def broken(session: Session) -> None:
    session.append("turn/start", {"turn": 1})
    session.append("turn/start", {"turn": 2})


@pytest.mark.parametrize("enforced", [True, False])
def test_violations_are_raised_only_where_that_is_asked_for(enforced: bool) -> None:
    async def twice(harness: Harness) -> None:
        broken(harness.ctx.sessions.create("mine"))

    harness = Harness(dev_invariants=enforced)
    if enforced:
        with pytest.raises(InvariantError, match=r"turn\.overlap"):
            harness.run(twice)
    else:
        harness.run(twice)
    assert [finding.rule for finding in harness.findings()] == ["turn.overlap"]
    with pytest.raises(AssertionError, match=r"mine breaks the contract:\n  seq 1: turn\.overlap"):
        harness.assert_no_violations()


def test_a_session_of_ones_own_program_is_checked() -> None:
    session = Session("mine")
    broken(session)
    assert [finding.rule for finding in findings_of(session)] == ["turn.overlap"]


def test_a_session_of_june_is_checked_by_its_own_contract() -> None:
    seed = [Entry("turn/start", 0, 1, {"turn": 7})]
    assert findings_of(Session("mine", seed, header=SessionHeader(id="mine"))) == []


def test_logs_are_checked_by_their_path() -> None:
    assert_no_violations(session_log("crash"))
    assert_no_violations(str(session_log("denied-read")))
    with pytest.raises(AssertionError, match="breaks the contract"):
        assert_no_violations(case_log("06"))


def test_a_log_that_cannot_be_read_is_no_success(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"nope\.jsonl"):
        assert_no_violations(tmp_path / "nope.jsonl")


def test_many_violations_are_counted(tmp_path: Path) -> None:
    session = Session("mine")
    for turn in range(1, 30):
        session.append("turn/start", {"turn": turn})
    with pytest.raises(AssertionError, match=r"and 8 more$"):
        assert_no_violations(session)


# The pytest plugin

MINE = """
    def test_mine(dsh_harness):
        async def scenario(harness):
            session = harness.ctx.sessions.create("mine")
            session.append("turn/start", {"turn": 1})
            session.append("turn/start", {"turn": 2})

        dsh_harness.run(scenario)
"""


@pytest.mark.parametrize(("option", "passed"), [((), 1), (("--dsh-invariants",), 0)])
def test_the_fixture_enforces_the_contract_if_it_is_told_to(
    pytester: pytest.Pytester, option: tuple[str, ...], passed: int
) -> None:
    pytester.makepyfile(MINE)
    result = pytester.runpytest_inprocess("-p", "no:randomly", *option)
    result.assert_outcomes(passed=passed, failed=1 - passed)


def test_the_option_explains_itself(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("--help")
    result.stdout.fnmatch_lines(["*--dsh-invariants*raise contract violations*"])


def test_a_breach_that_an_agent_swallows_fails_the_run_all_the_same() -> None:
    async def breach(harness: Harness) -> None:
        def meddle(session: Session, entry: Entry) -> None:
            if entry.type == "step/start":
                session.append("turn/start", {"turn": 9})

        harness.ctx.on("session/event", meddle)
        await harness.turn(harness.agent(["hello"]), "hi")

    with pytest.raises(InvariantError, match=r"turn\.overlap"):
        Harness(dev_invariants=True).run(breach)


def test_an_attempt_to_change_history_fails_the_run_all_the_same() -> None:
    async def meddle(harness: Harness) -> None:
        agent = harness.agent(["hello"])
        await harness.turn(agent, "hi")
        with contextlib.suppress(InvariantError):
            agent.session.events[0].data["target"] = "z"

    with pytest.raises(InvariantError, match=r"agent\.history-mutated"):
        Harness(dev_invariants=True).run(meddle)


def test_errors_of_agents_are_at_hand() -> None:
    async def failing(harness: Harness) -> None:
        await harness.turn(harness.agent([fails("RATE_LIMIT", "slow down")]), "hi")

    harness = Harness()
    harness.run(failing)
    assert [str(error) for error in harness.errors] == ["slow down"]


def test_outside_a_run_it_says_what_to_do() -> None:
    harness = Harness()
    with pytest.raises(RuntimeError, match="the harness is not running: use it in `run`"):
        harness.agent(["x"])


def test_a_breach_fails_the_context_manager_too() -> None:
    async def main() -> None:
        async with Harness(dev_invariants=True) as harness:
            with contextlib.suppress(InvariantError):
                broken(harness.ctx.sessions.create("mine"))

    with pytest.raises(InvariantError, match=r"turn\.overlap"):
        asyncio.run(main())


def test_what_a_tool_raises_to_end_the_test_ends_it(logged: Logged) -> None:
    def forbidden() -> str:
        pytest.fail("must not be called")

    async def call(harness: Harness) -> None:
        await harness.turn(harness.agent([calls(("forbidden", {}))], tools=[forbidden]), "hi")

    with pytest.raises(pytest.fail.Exception, match="must not be called"):
        Harness().run(call)
    assert len(logged.take()) == 1
