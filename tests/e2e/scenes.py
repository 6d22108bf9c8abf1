"""What models and their tools do to the real runtime, one scene for each kind of it.

Whoever waits here waits for a condition. A shell command that shall last goes on until a file is
gone, so that none outlives its runtime for long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.e2e.driven import RETRIES, session_of
from tests.e2e.model_server import Reply, calls, refuses, says

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tests.e2e.driven import Stage
    from tests.e2e.model_server import Event, ModelRequest
    from tests.e2e.runtime import Message

YES: Final = says("yes")
DOWN: Final = refuses(503, "api_error", "down")
OVERFLOW: Final = refuses(400, "invalid_request_error", "the maximum context length is 9")
LONG: Final = "lorem ipsum dolor " * 300
FLASH: Final = {
    "id": "deepseek-flash",
    "contextWindow": 1_000_000,
    "inputModalities": ["text", "image"],
    "systemPromptUpdate": "in-history",
    "toolUpdate": "addition-only",
}
"""A model that sees images, and that is told of new instructions and tools as they come."""


def change(entry: str, **config: Any) -> Message:
    """Return a change to the profile: the whole configuration of an entry."""
    return {"id": entry, "config": config}


def llm(*, initial: float = 1, longest: float = 2000, **config: Any) -> Message:
    """Return a change to the adapter of the model, with quick retries by default."""
    backoff = {"initialDelayMs": initial, "maxDelayMs": longest}
    policy = {"mode": "normal", "backoff": backoff}
    return change("llm-deepseek", **{"retryPolicy": policy, **config})


def bash(call_id: str, command: str, **arguments: Any) -> tuple[str, str, Message]:
    return call_id, "bash", {"command": command, "description": "d", **arguments}


def read(call_id: str, path: str | Path = "/nope") -> tuple[str, str, Message]:
    return call_id, "read", {"file_path": str(path)}


def lasting(flag: Path) -> str:
    """Return a shell command that goes on until a file is gone."""
    flag.touch()
    return f"while [ -e {flag} ]; do sleep 0.05; done"


def other_than(*names: str) -> Callable[[ModelRequest], bool]:
    """Return what is true of requests about other sessions."""
    return lambda request: session_of(request) not in names


def resume(stage: Stage, *changes: Message, again: bool = True) -> None:
    """Have another runtime go on with all sessions there are."""
    with stage.runtime(*changes) as runtime:
        for name in stage.logs():
            runtime.resume(name)
            if again:
                stage.model.when(name, *[YES] * 5)
                runtime.say(name, "again")


# ------------------------------------------------------------------------------------- answers


def odd_answers() -> dict[str, Reply]:
    """Return answers that are odd in one way each; some are none to the runtime."""
    start, *rest = says("a", "b").events
    head, *deltas, end, stop, last = rest
    usage = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 1}}
    second = [{**event, "index": 5} for event in (head, *deltas, end)]
    whole = (start, head, *deltas, end)
    late = [{**event, "index": 1} for event in (head, *deltas, end)]
    redacted = {"type": "redacted_thinking", "data": "eA=="}
    block = {"type": "content_block_start", "index": 0, "content_block": redacted}
    call = calls(read("c"), text="so", thinking="hm")
    stops = {name: says("a", stop=name) for name in ("max_tokens", "stop_sequence", "refusal")}
    return {
        **stops,
        "a pause": says("a", stop="pause_turn"),
        "a call that is cut off": _stopping(call, "max_tokens"),
        "calls without a reason": _stopping(call, "end_turn"),
        "no content": Reply((start, stop, last)),
        "an early end": says("a", "b").first(4, cut=False),
        "a broken connection": says("a", "b").first(4, cut=True),
        "thoughts alone": Reply((*says("a", thinking="hm").events[:4], stop, last)),
        "no reason": Reply((*whole, usage, last)),
        "numbers that are skipped": Reply((*whole, *second, stop, last)),
        "a block again": Reply((*whole, *whole[1:], stop, last)),
        "an open block": Reply((start, head, *deltas, stop, last)),
        "a stray piece": Reply((start, *deltas, stop, last)),
        "pieces too late": Reply((*whole, stop, last, *late)),
        "two ends": Reply((*whole, stop, stop, last)),
        "a secret thought": Reply((start, block, end, stop, last)),
        "no JSON": Reply((*_with(call, "partial_json", "{"),)),
        "odd numbers": calls(("c", "job_list", {"a": 2**80, "b": -0.0, "c": [[[[]]]]})),
        "no tool": calls(("c", "no such tool", {}), ("d", "read", {})),
        "many calls": calls(*(read(f"c{number}") for number in range(12))),
        "an odd id": calls((" :ptc:1\n", "job_list", {}), ("x" * 3000, "job_list", {})),
        "odd text": says("\0", "\u2028", "", "\U0001f600"),
    }


def _stopping(reply: Reply, reason: str) -> Reply:
    return Reply((*_with(reply, "stop_reason", reason),))


def _with(reply: Reply, name: str, value: str) -> Iterable[Event]:
    for event in reply.events:
        delta = event.get("delta", {})
        yield {**event, "delta": {**delta, name: value}} if name in delta else event


def answers(stage: Stage) -> None:
    """Odd answers, and refusals."""
    kinds = [(400, "a"), (401, "b"), (402, "c"), (403, "d"), (404, "e"), (413, "f"), (529, "g")]
    refusals = [refuses(status, f"{kind}_error", "no") for status, kind in kinds]
    stage.model.when("refused", YES, *refusals, YES)
    stage.model.when("too long", says(LONG), OVERFLOW, says("short"), YES, OVERFLOW, refusals[0])
    with stage.runtime() as runtime:
        for name, reply in odd_answers().items():
            stage.model.when(name, reply, YES, YES)
            runtime.say(name, "go")
        runtime.say("refused", *"abcdefghi")
        runtime.say("too long", *"abc")
    resume(stage, again=False)


def retries(stage: Stage) -> None:
    """Requests that are made again, to no end and to a good one, and others that are not."""
    slow = refuses(429, "rate_limit_error", "slow down", retry_after="0.01")
    stage.model.when("exhausted", *[DOWN] * 6)
    stage.model.when("patient", DOWN, slow, says().first(2, cut=False), YES)
    stage.model.when("too slow", refuses(429, "rate_limit_error", "slow", retry_after="99"))
    with stage.runtime(llm(), RETRIES) as runtime:
        for name in ("exhausted", "patient", "too slow"):
            runtime.say(name, "go")
    always = {"mode": "always", "backoff": {"initialDelayMs": 1, "maxDelayMs": 2}}
    stage.model.when("always", *[refuses(400, "invalid_request_error", "bad")] * 4, YES, YES)
    with stage.runtime(llm(retryPolicy=always), RETRIES) as runtime:
        runtime.say("always", "go", "and on")


# --------------------------------------------------------------------------------------- tools


def tools(stage: Stage) -> None:
    """Jobs in front and behind, calls side by side, lists, and calls that are cancelled."""
    flag, text = stage.cwd / "flag", stage.cwd / "a.txt"
    text.write_text("hello\n")
    todos = [{"content": "x", "status": "pending"}, {"content": "y", "status": "completed"}]
    write = ("w", "todo_write", {"todos": todos})
    stage.model.when(
        "jobs",
        calls(bash("a", lasting(flag), timeoutMs=100)),
        calls(bash("b", "kill -9 $$"), bash("c", "exit 7"), bash("d", " ")),
        calls(bash("e", lasting(flag), run_in_background=True), ("f", "job_list", {})),
        *[YES] * 5,
    )
    stage.model.when(
        "side by side",
        calls(bash("a", "echo 1"), bash("b", "echo 2"), read("c", text), read("d"), write),
        calls(("e", "glob", {"pattern": "*"}), ("f", "grep", {"pattern": "("}), ("g", "x", {})),
        *[YES] * 3,
    )
    stage.model.when("cancelled", calls(bash("a", lasting(flag)), bash("b", "echo"), read("c")))
    stage.model.when("left", calls(bash("a", lasting(flag), run_in_background=True)), YES, YES)
    with stage.runtime() as runtime:
        runtime.send("jobs", "go")
        runtime.send("cancelled", "go")
        runtime.wait_for("jobs", "turn/end")
        runtime.wait_for("cancelled", "job/registered")
        runtime.cancel("cancelled")
        flag.unlink()
        runtime.wait_for("jobs", "job/settled", 4)
        runtime.wait("jobs")
        runtime.say("side by side", "go")
        flag.touch()
        runtime.say("left", "go")
        (job,) = runtime.wait_for("left", "job/registered")
        end = ("k", "job_kill", {"job_id": job["data"]["jobId"], "reason": "enough"})
        stage.model.when("left", calls(end, ("l", "job_output", {"job_id": "nope"})), YES, YES)
        runtime.say("left", "end it")
    flag.unlink()
    resume(stage)


def code(stage: Stage) -> None:
    """Calls that a program makes, with more of them than it waits for."""

    def run(call_id: str, program: str, **more: Any) -> tuple[str, str, Message]:
        return call_id, "run_code", {"code": program, "description": "d", **more}

    sleeping = "await tools.bash({ command: 'sleep 5', description: 'd' })"
    shell = "tools.bash({ command: 'echo ' + i, description: 'd' })"
    stage.model.when(
        "code",
        calls(run("a", "try { await tools.read({ file_path: '/nope' }) } catch {} return 1")),
        calls(run("b", "tools.bash({ command: 'echo', description: 'd' }); throw new Error('x')")),
        calls(run("c", "no program("), run("d", "return await tools.glob({ pattern: '*' })")),
        calls(run("e", sleeping, timeoutMs=200)),
        calls(run("f", f"return await Promise.all([1, 2, 3].map((i) => {shell}))"), read("g")),
        calls(run("h", "await tools.todo_write({ todos: [] }); return await tools.read({})")),
        *[YES] * 3,
    )
    ptc = change("tools", mode="ptc")
    with stage.runtime(ptc) as runtime:
        runtime.say("code", "go")
    resume(stage, ptc)


def approvals(stage: Stage) -> None:
    """Requests for more permissions that are granted, refused, dropped, or left open by a crash."""

    def asks(call_id: str) -> tuple[str, str, Message]:
        wider = {"sandbox_permissions": "danger-full-access", "justification": "so"}
        path = str(stage.cwd.parent / "outside.txt")
        return call_id, "write", {"file_path": path, "content": "x", **wider}

    answer = """
        const outcomes = ['allowed-once', 'rejected', 'cancelled', 'odd'];
        ctx.on('approval/request', () => {
            const outcome = outcomes.shift();
            return outcome === undefined ? new Promise(() => {}) : Promise.resolve(outcome);
        });
    """
    stage.model.when("nobody", calls(asks("a")), YES)
    stage.model.when("somebody", *(calls(asks(call)) for call in "abcd"), YES)
    stage.model.when("cancelled", calls(asks("a"), asks("b")), YES)
    stage.model.when("left", calls(asks("a")), YES)
    mode = {"DSH_PERMISSION_MODE": "workspace-write"}
    with stage.runtime(**mode) as runtime:
        runtime.say("nobody", "go")
        runtime.inside(answer)
        runtime.say("somebody", "go")
        for name in ("cancelled", "left"):
            runtime.send(name, "go")
            runtime.wait_for(name, "approval/asked")
        runtime.cancel("cancelled")
        for preset in ("", "read-only", "danger-full-access", "no such preset"):
            runtime.command("nobody", f"/permission {preset}")
        runtime.kill()
    resume(stage)
