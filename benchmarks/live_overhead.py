"""What it costs a live agent to be traced, and to be held to the contract."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import TracerProvider

from benchmarks.rounds import interleave, ratios
from dsh_core import invariants
from dsh_core.context import Context
from dsh_core.session import SessionStore
from dsh_otel import plugin

if TYPE_CHECKING:
    from dsh_core.session import Session

APPENDS = 10_000
EVENT_GOAL_US = 3.0
SPAN_GOAL_US = 30.0

TURN = [
    ("turn/start", {}),
    ("step/start", {"step": 1}),
    (
        "assistant/message",
        {
            "step": 1,
            "message": {
                "id": "m0",
                "role": "assistant",
                "source": {"kind": "model", "provider": "p", "model": "m"},
                "content": [{"type": "tool-call", "id": "c1", "name": "read", "arguments": "{}"}],
            },
            "stream": [],
        },
    ),
    ("tool/call", {"step": 1, "callId": "c1", "name": "read", "arguments": "{}"}),
    (
        "tool/result",
        {
            "step": 1,
            "message": {
                "id": "m1",
                "role": "tool",
                "toolCallId": "c1",
                "source": {"kind": "tool", "callId": "c1"},
                "content": [{"type": "text", "text": "ok"}],
                "isError": False,
            },
        },
    ),
    ("step/end", {"step": 1}),
    ("turn/end", {"reason": {"kind": "completed"}}),
]
QUIET = [
    ("workspace/changes", {"turn": 1}),
    ("request/context", {"provider": "p", "model": "m"}),
    ("todo/write", {"todos": []}),
    ("subagent/model-selection-policy", {"allowedModels": []}),
]
SPANS_A_TURN = 4


ALONE = """
import asyncio, sys, time
from dsh_core.context import Context
from dsh_core.session import SessionStore
if "with" in sys.argv:
    import dsh_core.invariants
async def main():
    ctx = Context()
    SessionStore(ctx)
    append = ctx.sessions.create().append
    def some():
        start = time.perf_counter()
        for _ in range(20_000):
            append("workspace/changes", {"turn": 1})
        return time.perf_counter() - start
    some()
    print(min(some() for _ in range(5)))
asyncio.run(main())
"""


def run(rounds: int = 11) -> None:
    """Measure, and print tables."""
    asyncio.run(_measure(rounds))
    _alone(rounds)


def _alone(rounds: int) -> None:
    """Compare programs that have the invariants' module, not mounted, with some that do not."""
    taken: dict[str, list[float]] = {"without": [], "with": []}
    for _ in range(rounds):
        for how, seconds in taken.items():
            done = subprocess.run(
                [sys.executable, "-c", ALONE, how], capture_output=True, text=True, check=True
            )
            seconds.append(float(done.stdout))
    middle, low, high = ratios(taken["with"], taken["without"])
    print("appends with the module of the invariants there and not mounted, and without it")
    print(f"  {middle:.2f} times [{low:.2f} .. {high:.2f}]")


async def _measure(rounds: int) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    traced = {"tracer_provider": provider, "errors": False, "check": False}
    programs = {
        "no plugin": await _program(),
        "telemetry, spans only": await _program((plugin, traced)),
        "telemetry, errors and all rules": await _program((plugin, {"tracer_provider": provider})),
        "invariants": await _program((invariants, None)),
        "invariants, without freezing": await _program((invariants, {"freeze": False})),
    }
    print(f"{APPENDS:,} appends of events that open no span")
    taken = interleave(
        {name: lambda ctx=ctx: _quiet(ctx) for name, ctx in programs.items()}, rounds
    )
    _table(taken, APPENDS, "an event", EVENT_GOAL_US)
    turns = APPENDS // len(TURN)
    print(f"{turns * len(TURN):,} appends of turns with a step and a tool call each")
    taken = interleave(
        {name: lambda ctx=ctx: _turns(ctx, turns) for name, ctx in programs.items()}, rounds
    )
    _table(taken, turns * SPANS_A_TURN, "a span", SPAN_GOAL_US)
    for ctx in programs.values():
        await ctx.dispose()


async def _program(*plugins: tuple[Any, Any]) -> Context:
    ctx = Context()
    await ctx.plugin(SessionStore)
    for one, config in plugins:
        await ctx.plugin(one, config)
    return ctx


def _quiet(ctx: Any) -> None:  # noqa: ANN401 - services are attributes
    session: Session = ctx.sessions.create()
    session.append("turn/start", {"turn": 1})
    session.append("step/start", {"turn": 1, "step": 1})
    append = session.append
    for _ in range(APPENDS // len(QUIET)):
        for kind, data in QUIET:
            append(kind, data)
    ctx.sessions.close(session)


def _turns(ctx: Any, turns: int) -> None:  # noqa: ANN401 - as above
    session: Session = ctx.sessions.create()
    for turn in range(1, turns + 1):
        for kind, data in TURN:
            more: dict[str, Any] = {}
            if kind in ("assistant/message", "tool/result"):
                more = {"surface_op": "append"}
            if kind == "tool/result":
                more["source_event_seqs"] = [session.seq - 1]
            session.append(kind, {"turn": turn, **data}, **more)
    ctx.sessions.close(session)


def _table(taken: dict[str, list[float]], count: int, unit: str, goal: float) -> None:
    base = taken["no plugin"]
    for name, seconds in taken.items():
        over = statistics.median(
            (mine - bare) / count * 1e6 for mine, bare in zip(seconds, base, strict=True)
        )
        middle, low, high = ratios(seconds, base)
        print(
            f"  {name:<34} +{over:5.1f} µs {unit},"
            f" {middle:.2f} times no plugin [{low:.2f} .. {high:.2f}]"
        )
        if name.startswith("telemetry"):
            verdict = "reached" if over <= goal else "NOT reached"
            print(f"    goal +{goal:g} µs {unit}: {verdict}")


if __name__ == "__main__":
    run()
