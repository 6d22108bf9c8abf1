"""Faults put into the logs of living agents: the contract names just them, at their place."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_core import invariants
from dsh_core.contract.findings import Severity
from dsh_core.errors import InvariantError
from dsh_core.llm import calls
from dsh_core.session.closing import open_place, result_message
from tests.core.agent.support import violations, world

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_core.contract.findings import Finding
    from dsh_core.session import Session

SCRIPT: Final = (calls(("now", {}), ("now", {})), "one", calls(("now", {})), "two")


@dataclass(frozen=True)
class Fault:
    """What is written to a log that does not belong there.

    Attributes:
        type: Its type.
        data: Its payload.
        rule: What it breaks.
        more: What else its envelope has.
    """

    type: str
    data: dict[str, Any]
    rule: str
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class At:
    """Where in a log somebody is.

    Attributes:
        turn: The open turn.
        step: The open step.
        last: The last turn that was begun.
        steps: Steps that the open turn has begun.
        calls: Calls that were begun in the open step.
        answered: Those of them that are answered.
        advertised: Those that the answer of the open step advertises.
    """

    turn: int | None
    step: int | None
    last: int
    steps: int
    calls: list[str]
    answered: list[str]
    advertised: list[str]

    @property
    def quiet(self) -> bool:
        """Whether no call waits for anything."""
        return set(self.advertised) <= set(self.answered)


def where(session: Session) -> At:
    turn, step = open_place(session.events)
    last = max((e.data["turn"] for e in session.events if e.type == "turn/start"), default=0)
    here = [e for e in session.events if isinstance(e.data, dict) and e.data.get("turn") == last]
    in_step = [e for e in here if step is not None and e.data.get("step") == step]
    return At(
        turn,
        step,
        last,
        len([e for e in here if e.type == "step/start"]),
        [e.data["callId"] for e in in_step if e.type == "tool/call"],
        [e.data["message"]["toolCallId"] for e in in_step if e.type == "tool/result"],
        [
            block["id"]
            for e in in_step
            if e.type == "assistant/message"
            for block in e.data["message"]["content"]
            if block["type"] == "tool-call"
        ],
    )


def _result(at: At, call_id: str, rule: str) -> Fault:
    message = result_message("made-up", call_id, [], failed=False)
    data = {"turn": at.turn, "step": at.step, "message": message}
    return Fault("tool/result", data, rule, {"surface_op": "append"})


def _answer(turn: int, step: int, rule: str) -> Fault:
    source = {"kind": "model", "provider": "p", "model": "m"}
    message = {"id": "made-up", "role": "assistant", "content": [], "source": source}
    data = {"turn": turn, "step": step, "message": message, "stream": []}
    return Fault("assistant/message", data, rule, {"surface_op": "append"})


def _turn_end(turn: int) -> dict[str, Any]:
    return {"turn": turn, "reason": {"kind": "completed"}}


FAULTS: Final[dict[str, Callable[[At], Fault | None]]] = {
    "a second start of a turn": lambda at: (
        None if at.turn is None else Fault("turn/start", {"turn": at.turn + 1}, "turn.overlap")
    ),
    "a turn with a wrong number": lambda at: (
        Fault("turn/start", {"turn": at.last + 5}, "turn.number") if at.turn is None else None
    ),
    "the end of another turn": lambda at: Fault(
        "turn/end", _turn_end(at.last + 7), "turn.end-mismatch"
    ),
    "the end of a turn inside a step": lambda at: (
        Fault("turn/end", _turn_end(at.turn), "turn.end-open-step")
        if at.turn is not None and at.step is not None and at.quiet
        else None
    ),
    "a step inside a step": lambda at: (
        Fault("step/start", {"turn": at.turn, "step": at.steps + 1}, "step.overlap")
        if at.step is not None and at.quiet
        else None
    ),
    "a step outside any turn": lambda at: (
        Fault("step/start", {"turn": at.last + 1, "step": 1}, "step.outside-turn")
        if at.turn is None
        else None
    ),
    "a step with a wrong number": lambda at: (
        Fault("step/start", {"turn": at.turn, "step": at.steps + 3}, "step.number")
        if at.turn is not None and at.step is None
        else None
    ),
    "the end of a step that is not open": lambda at: (
        Fault("step/end", {"turn": at.turn, "step": at.steps + 1}, "step.end-mismatch")
        if at.turn is not None
        else None
    ),
    "an answer that names a closed step": lambda at: (
        _answer(at.turn, at.steps, "step.event-outside")
        if at.turn is not None and at.step is None and at.steps
        else None
    ),
    "an attempt that names a closed turn": lambda at: (
        Fault("assistant/attempt", {"turn": 1, "step": 1, "stream": []}, "step.event-outside")
        if at.last and at.turn != 1
        else None
    ),
    "a result of an unknown call": lambda at: (
        None if at.step is None else _result(at, "nobody", "tool.result-without-call")
    ),
    "a result of an answered call": lambda at: (
        _result(at, at.answered[0], "tool.result-duplicate") if at.answered else None
    ),
    "a result of a call that was not started": lambda at: (
        _result(at, waiting[0], "tool.result-not-started")
        if (waiting := [id_ for id_ in at.advertised if id_ not in at.calls])
        else None
    ),
    "a call that nobody has asked for": lambda at: (
        Fault(
            "tool/call",
            {
                "turn": at.turn,
                "step": at.step,
                "callId": "made-up",
                "name": "now",
                "arguments": "{}",
            },
            "tool.call-not-advertised",
        )
        if at.step is not None
        else None
    ),
    "a header outside any turn": lambda at: (
        Fault("request/context", {"provider": "p", "model": "m"}, "event.outside-turn")
        if at.turn is None
        else None
    ),
    "a message without its mark": lambda at: Fault(
        "user/message",
        {"id": "made-up", "role": "user", "content": [], "source": {"kind": "user"}},
        "surface.marker",
    ),
    "a mark on what is no message": lambda at: Fault(
        "plan/mode", {"active": True}, "surface.marker", {"surface_op": "append"}
    ),
}
AT_ONCE: Final = {"a result of a call that was not started": "tool.result-without-call"}
"""What is said at once, where the whole log allows to say more."""


@dataclass
class Seen:
    """What came of a fault.

    Attributes:
        fault: The fault, None if there was no place for it.
        seq: Its seq.
        raised: What appending it has raised.
        found: What the invariants have found, in order.
        broken: Rule and seq of the violations of the whole log, in order.
    """

    fault: Fault | None = None
    seq: int = -1
    raised: Exception | None = None
    found: list[Finding] = field(default_factory=list)
    broken: list[tuple[str, int | None]] = field(default_factory=list)


def run(kind: str, first: int, *, guarded: bool) -> Seen:
    """Run two turns, and write a fault to their log at the first place from a seq on."""
    seen = Seen()

    async def main() -> None:
        ctx = None
        try:
            async with world(*SCRIPT) as w:
                ctx = w
                w.tool("now", lambda _: "now")
                if guarded:
                    await w.ctx.plugin(invariants)
                w.ctx.on("invariants/finding", lambda _, finding: seen.found.append(finding))
                agent = w.agent()

                def inject(session: Session, entry: Any) -> None:
                    if seen.fault is not None or entry.seq < first:
                        return
                    seen.fault = FAULTS[kind](where(session))
                    if seen.fault is None:
                        return
                    seen.seq = session.seq
                    try:
                        session.append(seen.fault.type, seen.fault.data, **seen.fault.more)
                    except InvariantError as error:
                        seen.raised = error

                w.ctx.on("session/event", inject)
                for _ in range(2):
                    await w.say(agent)
        except AssertionError:
            # The log is not legal: that is the point.
            pass
        assert ctx is not None
        (session,) = ctx.sessions
        found = sorted(violations(session), key=lambda finding: finding.place)
        seen.broken = [(finding.rule, finding.seq) for finding in found]

    logging.disable(logging.CRITICAL)
    try:
        asyncio.run(main())
    finally:
        logging.disable(logging.NOTSET)
    return seen


@pytest.mark.parametrize("kind", FAULTS)
@settings(max_examples=8, deadline=None)
@given(first=st.integers(0, 34))
def test_the_first_violation_of_a_log_is_the_fault_that_was_put_into_it(
    kind: str, first: int
) -> None:
    seen = run(kind, first, guarded=False)
    if seen.fault is None:
        assert seen.broken == []
    else:
        assert seen.broken[0] == (seen.fault.rule, seen.seq)
        assert seen.raised is None


@pytest.mark.parametrize("kind", FAULTS)
@settings(max_examples=6, deadline=None)
@given(first=st.integers(0, 34))
def test_with_the_invariants_the_append_of_a_fault_raises_an_error_that_names_its_rule(
    kind: str, first: int
) -> None:
    seen = run(kind, first, guarded=True)
    if seen.fault is None:
        assert (seen.broken, seen.found) == ([], [])
        return
    assert isinstance(seen.raised, InvariantError)
    rule = AT_ONCE.get(kind, seen.fault.rule)
    assert seen.raised.detail.startswith(f"{rule}: ")
    assert seen.raised.code == "INVARIANT"
    assert seen.broken[0] == (seen.fault.rule, seen.seq)
    first_broken = next(f for f in seen.found if f.severity is not Severity.ADVICE)
    assert first_broken.rule == rule


@pytest.mark.parametrize("kind", FAULTS)
def test_there_is_a_place_for_every_kind_of_fault(kind: str) -> None:
    assert run(kind, 0, guarded=False).fault is not None
