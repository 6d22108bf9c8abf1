"""What becomes of a session's context, and of a session, one scene for each kind of it."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import TYPE_CHECKING, Final

from tests.e2e.driven import RETRIES
from tests.e2e.model_server import calls, says
from tests.e2e.scenes import (
    DOWN,
    LONG,
    OVERFLOW,
    YES,
    bash,
    change,
    lasting,
    llm,
    other_than,
    read,
    resume,
)

if TYPE_CHECKING:
    from tests.e2e.driven import Driven, Stage
    from tests.e2e.runtime import Message

FLASH: Final = "deepseek-flash"
"""A model that sees images, and that is told of new instructions and tools as they come."""

MODELS: Final = (
    {
        "id": FLASH,
        "contextWindow": 1_000_000,
        "inputModalities": ["text", "image"],
        "systemPromptUpdate": "in-history",
        "toolUpdate": "addition-only",
    },
    {"id": "deepseek-v4-pro", "contextWindow": 1_000_000},
)


def compactions(stage: Stage) -> None:
    """Summaries that are due, fail, and do not help; results that are cut."""
    text = stage.cwd / "long.txt"
    text.write_text(("y" * 100 + "\n") * 200)
    tiny: list[Message] = [
        llm(maxTokens=1000, defaultContextWindow=12_000, models=[]),
        change("compaction-basic", thresholdRatio=0.5, headroomTokens=1000, retainRatio=0.1),
        change("tool-result-pruner", thresholdChars=400, headChars=100, tailChars=100),
    ]
    short = says("short")
    stage.model.when("due", *[says(LONG), short, short, says(LONG), OVERFLOW, short] * 4)
    stage.model.when("cut", calls(read("a", text)), calls(read("b", text)), *[short] * 20)
    with stage.runtime(*tiny) as runtime:
        runtime.say("due", *[LONG] * 6)
        runtime.say("cut", "go", LONG, "and on")
    resume(stage)


def images(stage: Stage) -> None:
    """More images than a request may have."""
    text = stage.cwd / "a.png"
    text.write_bytes(_png(0))
    budget = {"maxInlineRequestImageBytes": 1000, "inlineImageOffloadByteQuantum": 400}
    budget |= {"maxImagesPerRequest": 4, "imageOffloadCountQuantum": 2}
    few = llm(models=MODELS, **budget)
    shown = [calls(("a", "read_image", {"file_path": str(text)})), *[YES] * 9]
    stage.model.when("images", *shown)
    with stage.runtime(few, model=FLASH) as runtime:
        for number in range(4):
            runtime.send("images", "look", _image(2 * number), _image(2 * number + 1))
            runtime.wait("images")
        runtime.command("images", "/compact")
        runtime.say("images", "and on")


def _image(number: int) -> Message:
    data = base64.b64encode(_png(number)).decode()
    return {"type": "image", "mimeType": "image/png", "data": data}


def _png(number: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)

    row = b"\0" + bytes((number, 3, 5)) * 8
    header = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(row * 8)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def new_tools(stage: Stage) -> None:
    """Tools and instructions that come and go, with a model that is told and one that is not."""
    register = """
        globalThis.off ??= {};
        const output = { schema: { type: 'object', properties: {} }, render: () => [] };
        const tool = { name, description: 'd', parameters: {}, output, execute: async () => ({}) };
        off[name] = ctx.get('tools').register(tool);
    """
    section = "ctx.get('systemPrompt').section({ name: 'mine', order: 5, text: () => text ?? '' });"
    adapter = llm(models=MODELS)
    for name, model in (("told", FLASH), ("not told", "deepseek-v4-pro")):
        stage.model.when(name, *[YES] * 30)
        with stage.runtime(adapter, model=model) as runtime:
            runtime.inside(f"globalThis.text = ''; {section}")
            runtime.say(name, "hello")
            runtime.inside(register, name="one")
            runtime.say(name, "one tool more")
            runtime.inside(register, name="two")
            runtime.inside("off.one(); globalThis.text = 'be good';")
            runtime.say(name, "another tool, and instructions")
            runtime.inside("off.two(); globalThis.text = 'be better';")
            runtime.say(name, "a tool less, and new instructions")
            runtime.command(name, "/compact")
            runtime.inside("globalThis.text = '';")
            runtime.say(name, "no instructions")
    with stage.runtime(adapter, model=FLASH) as runtime:
        for name in ("told", "not told"):
            runtime.resume(name)
            runtime.inside(register, name=f"for {name}")
            runtime.say(name, "and on")


# -------------------------------------------------------------------------- ends and new starts

PATIENT: Final = (llm(initial=50_000, longest=50_000), RETRIES)


def ends(stage: Stage) -> None:
    """A runtime that is told to end while it does everything at once."""
    with stage.runtime(*PATIENT) as runtime:
        _be_busy(stage, runtime)
        runtime.shut_down()
    _go_on(stage)


def crashes(stage: Stage) -> None:
    """A runtime that dies while it does everything at once."""
    with stage.runtime(*PATIENT) as runtime:
        _be_busy(stage, runtime)
        runtime.kill()
    _go_on(stage)


def _be_busy(stage: Stage, runtime: Driven) -> None:
    """Bring a session into the middle of each thing."""
    model, flag = stage.model, stage.cwd / "flag"
    answer, call = says("one", "two", thinking="hm"), calls(read("a"), text="so")
    for name, held in {
        "thinking": model.held(answer, 3),
        "talking": model.held(answer, 6),
        "calling": model.held(call, 6),
        "silent": model.held(answer, 1),
    }.items():
        model.when(name, held)
    goal = calls(("a", "create_goal", {"objective": "o"}))
    script = {"script": "return await agent('x')", "meta": {"name": "n", "description": "d"}}
    child = {"description": "d", "prompt": "p"}
    model.when("waiting", DOWN)
    model.when("given up", DOWN)
    model.when("working", calls(bash("a", lasting(flag)), bash("b", "echo"), read("c")))
    model.when("job", calls(bash("a", lasting(flag), run_in_background=True)), YES)
    model.when("goal", goal, YES, model.held(answer, 3))
    model.when("workflow", calls(("a", "workflow", script)))
    model.when("parent", YES, calls(("a", "subagent", child), ("b", "subagent_fork", child)), YES)
    model.when("too much", says(LONG), OVERFLOW, model.held(answer, 6))
    model.when("summing up", says(LONG), model.held(answer, 6))
    names = {"goal", "workflow", "parent", "too much", "summing up", "job", "waiting", "working"}
    names.add("given up")
    model.when(other_than(*names), *[model.held(answer, 6)] * 9)
    for name in ("parent", "too much", "summing up"):
        runtime.say(name, LONG)
    for name, kind in {
        "thinking": "reasoning-delta",
        "talking": "text-delta",
        "calling": "tool-call-delta",
    }.items():
        runtime.watch(name, kind)
        runtime.send(name, "go")
    accepted = "session-log-deepseek/delivery-accepted"
    for name, kind, count in (
        ("silent", accepted, 1),
        ("waiting", "llm/retry", 1),
        ("given up", "llm/retry", 1),
        ("working", "job/registered", 1),
        ("job", "turn/end", 1),
        ("goal", accepted, 3),
        ("workflow", "tool-workflow/agent-start", 1),
        ("parent", "turn/end", 2),
        ("too much", accepted, 2),
    ):
        runtime.send(name, "go")
        runtime.wait_for(name, kind, count)
    runtime.command("summing up", "/compact", wait=False)
    runtime.wait_for("summing up", accepted, 2)
    runtime.cancel("given up")
    for name in ("thinking", "talking", "calling"):
        runtime.watched(name)
    for prompt in ("next", "and next"):
        runtime.send("talking", prompt)


def _go_on(stage: Stage) -> None:
    (stage.cwd / "flag").unlink()
    stage.model.gate.set()
    resume(stage)


def torn(stage: Stage) -> None:
    """A crash that leaves half of what was written last, and a resume without a word."""
    stage.model.when("torn", *[YES] * 9)
    with stage.runtime() as runtime:
        runtime.say("torn", "one", "two")
        runtime.kill()
    log = stage.logs()["torn"]
    log.write_bytes(log.read_bytes()[:-25])
    for again in (False, True):
        resume(stage, again=again)


def forks(stage: Stage) -> None:
    """Forks of a session wherever it can be forked, and forks of these."""
    controller = "@deepseek-ai/dsh-api-session-controller"
    workspace = {"id": "workspace", "name": "@deepseek-ai/dsh-workspace"}
    inserted = {"insert": [workspace, {"id": "controller", "name": controller}]}
    fork = """
        const { sessionId } = await ctx.get('sessionController').fork({ sessionId: id, atSeq });
        const child = ctx.get('agents').get(sessionId);
        child.followup(message(`in-${sessionId}`, 'in the fork'));
        await child.whenIdle();
        return sessionId;
    """
    stage.model.when("source", calls(read("a"), read("b"), text="so"), *[YES] * 9)
    stage.model.when(other_than("source"), *[YES] * 99)
    with stage.runtime(inserted) as runtime:
        # What it asks for beyond the profile is for uploads.
        stub = "{ registerAgentResolver: () => () => {} }"
        runtime.inside(f"ctx.provide('fileUploads', {stub}); await ctx.get('loader').await();")
        runtime.say("source", "one", "two")
        last = runtime.events()["source"][-1]["seq"]
        children = [runtime.agent("source", fork, atSeq=seq) for seq in range(2, last, 2)]
        for child in children[::4]:
            size = runtime.agent(child, "return agent.session.seq;")
            grandchild = runtime.agent(child, fork, atSeq=size - 3)
            runtime.agent(grandchild, fork, atSeq=size - 1)
