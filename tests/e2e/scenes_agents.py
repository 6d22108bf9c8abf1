"""What agents have others do, and what users tell them meanwhile, one scene for each kind of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.e2e.model_server import calls, refuses, says
from tests.e2e.scenes import LONG, YES, change, other_than, resume

if TYPE_CHECKING:
    from tests.e2e.driven import Stage
    from tests.e2e.model_server import ModelRequest
    from tests.e2e.runtime import Message


def goals(stage: Stage) -> None:
    """Goals of a model to the last round, and goals of a user, edited, paused, cleared, left."""
    create = {"objective": " ship it ", "max_goal_rounds": 2}
    stage.model.when("model", calls(("a", "create_goal", create)), *[YES] * 4)
    stage.model.when("user", *[YES] * 20)
    with stage.runtime(change("goal", defaultMaxGoalRounds=2)) as runtime:
        runtime.send("model", "go")
        runtime.wait_for("model", "goal/change", 2)
        runtime.say("user", "hello")
        runtime.command("user", "/goal first")
        runtime.wait_for("user", "goal/change", 2)
        runtime.wait("user")
        for words in ("", "edit other", "resume", "clear", "clear", "second", "pause", "resume"):
            runtime.command("user", f"/goal {words}")
        runtime.cancel("user")
    resume(stage)


def workflows(stage: Stage) -> None:
    """Scripts with members that answer and fail, that break, that run behind, and that stop."""

    def script(call_id: str, text: str, **more: Any) -> tuple[str, str, Message]:
        about = {"name": "some-name", "description": "d"}
        return call_id, "workflow", {"script": text, "meta": about, **more}

    two = "phase('p'); return await Promise.all([agent('x', { label: 'l' }), agent('fail now')])"
    stage.model.when(
        "whole",
        calls(script("a", two), script("b", "throw new Error('no')"), script("c", "}{")),
        *[YES] * 5,
    )
    stage.model.when("behind", calls(script("a", two, run_in_background=True)), *[YES] * 5)
    stage.model.when("cancelled", calls(script("a", "return await agent('hold on')")), *[YES] * 5)
    bad = refuses(400, "invalid_request_error", "bad")
    stage.model.when(lambda request: _hears(request, "fail now"), bad, bad)
    stage.model.when(lambda request: _hears(request, "hold on"), stage.model.held(YES, 3))
    stage.model.when(other_than("whole", "behind", "cancelled"), *[YES] * 5)
    with stage.runtime() as runtime:
        runtime.say("whole", "go")
        runtime.send("behind", "go")
        runtime.wait_for("behind", "turn/end", 2)
        runtime.send("cancelled", "go")
        runtime.wait_for("cancelled", "tool-workflow/agent-start")
        runtime.cancel("cancelled")


def _hears(request: ModelRequest, prompt: str) -> bool:
    """Whether a request is about a session that a script or an agent has made with a prompt."""
    return prompt in request.texts("user")


def subagents(stage: Stage) -> None:
    """Children and forks with children of their own, that hear more, and go on after a resume."""
    depth = change("subagent", maxDepth=4)

    def delegate(kind: str, prompt: str) -> tuple[str, str, Message]:
        return prompt, kind, {"description": "d", "prompt": prompt}

    both = delegate("subagent", "a child"), delegate("subagent_fork", "a fork")
    stage.model.when("parent", YES, calls(*both, ("l", "list_agents", {})), *[YES] * 20)
    fork = calls(delegate("subagent_fork", "a fork of a fork"))
    stage.model.when(lambda request: _hears(request, "a fork"), fork)
    stage.model.when(other_than("parent"), *[YES] * 30)
    with stage.runtime(depth) as runtime:
        runtime.say("parent", "hello", "delegate")
        child = runtime.wait_for("parent", "subagent/catalog", 2)[0]["data"]["childId"]
        more = {"agent_id": child, "message": "more"}
        talk = calls(("m", "send_message", more), ("i", "interrupt_agent", {"agent_id": child}))
        stage.model.when("parent", talk, first=True)
        runtime.say("parent", "talk")
    resume(stage, depth)


def teams(stage: Stage) -> None:
    """A team with a member of each kind, their messages, and tasks in all states."""
    names = ("control", "list-agents", "", "fork")
    single = [f"tool-subagent-{name}".removesuffix("-") for name in names]
    experimental = "@deepseek-ai/dsh-experimental-"
    team: list[Message] = [
        *({"id": entry, "disabled": True} for entry in single),
        {"insert": [{"id": "team", "name": f"{experimental}agent-team"}]},
        {"insert": [{"id": "team-tools", "name": f"{experimental}tool-agent-team"}]},
    ]
    steps = ["claim", "edit", "complete", "reopen", "delete"]

    def spawn(name: str, context: str) -> tuple[str, str, Message]:
        return name, "spawn_teammate", {"name": name, **_about, "context": context, "prompt": "go"}

    def create(call_id: str, *blocked_by: str) -> tuple[str, str, Message]:
        about = {"subject": call_id, **_about, "blocked_by": blocked_by}
        return call_id, "team_task_create", about

    stage.model.when(
        "lead",
        YES,
        calls(spawn("ann", "fresh"), spawn("bob", "fork")),
        calls(spawn("ann", "fork")),
        calls(create("t"), create("u", "task-1"), create("v", "nope")),
        *(calls(_task(number, action)) for number, action in enumerate(steps, 1)),
        calls(_task(1, "claim"), ("m", "send_message", {"target": "ann", "message": "hello"})),
        *[YES] * 9,
    )
    stage.model.when(other_than("lead"), *[YES] * 20)
    with stage.runtime(*team) as runtime:
        runtime.say("lead", "hello", "work")


_about: Final = {"description": "d"}


def _task(revision: int, action: str) -> tuple[str, str, Message]:
    about = {"task_id": "task-1", "expected_revision": revision, "action": action, "subject": "n"}
    return f"{action}-{revision}", "team_task_update", about


def queues(stage: Stage) -> None:
    """Prompts that wait, are put in front, changed, dropped and cancelled; steps not entered."""
    model, name = stage.model, "queue"
    model.when(name, model.held(says("a", "b"), 4), *[YES] * 40)
    mode = """
        globalThis.mode = '';
        ctx.on('agent/pre-step', async (step, next) => {
            const decision = await next();
            const copies = decision.messages?.map((one) => ({ ...one, id: `${one.id}-copy` }));
            if (mode === 'throw') throw new Error('no');
            if (mode === 'reject') return { kind: 'reject' };
            if (mode === 'drop') return { ...decision, messages: [] };
            if (mode === 'copy') return { ...decision, messages: copies };
            if (mode === 'series') return { ...decision, startsRequestSeries: true };
            return decision;
        }, { prepend: true });
    """
    with stage.runtime() as runtime:
        runtime.send(name, "one")
        runtime.wait_for(name, "session-log-deepseek/delivery-accepted")
        for prompt in ("two", "three", "four", "five"):
            runtime.send(name, prompt)
        runtime.agent(name, "agent.steer(message('s', 'x')); agent.inject(message('j', 'x'));")
        runtime.agent(name, "agent.inbox.replace('s', message('s', 'y'));")
        runtime.agent(name, "agent.inbox.splice('next-turn', 1, 2, [message('r', 'x')]);")
        runtime.agent(name, "agent.inbox.prepend('next-step', message('p', 'x'));")
        runtime.agent(name, "agent.inbox.remove('j');")
        model.gate.set()
        runtime.wait(name)
        runtime.inside(mode)
        for each in ("reject", "drop", "copy", "series", "throw", ""):
            runtime.inside("globalThis.mode = each;", each=each)
            runtime.send(name, each or "go on")
            runtime.agent(name, "await agent.whenIdle();")
        runtime.agent(name, "agent.inject(message('i', 'x')); agent.inject(message('k', 'x'));")
        runtime.move(name, stage.cwd.parent)
        runtime.say(name, "and on")
        model.gate.clear()
        model.when("cancelled", model.held(says("a", "b"), 4), *[YES] * 9)
        runtime.send("cancelled", "one")
        runtime.wait_for("cancelled", "session-log-deepseek/delivery-accepted")
        runtime.send("cancelled", "two")
        runtime.cancel("cancelled", keep=True)
        runtime.say("cancelled", "three")
        for prompt in ("left", "left too"):
            runtime.send(name, prompt)
        runtime.kill()
    model.gate.set()
    resume(stage)


def modes(stage: Stage) -> None:
    """Plans that are kept and approved, commands that end well and badly, summaries on demand."""
    leave = [calls((call, "exit_plan_mode", {"plan": "# P\n\nx"})) for call in "abc"]
    review = """
        const keep = { selected: ['Keep planning'], custom: 'more' };
        const answers = [keep, { selected: ['Approve'] }];
        ctx.on('user-questions/request', ({ questions: [question] }) =>
            Promise.resolve({ answers: [{ id: question.id, ...answers.shift() }] }));
    """
    register = """
        const make = (name, handler) =>
            ctx.get('commands').register({ name, description: 'd', handler });
        make('fails', () => { throw new Error('') });
        make('cites', () => ({ kind: 'success', text: '', sourceEventSeq: 3 }));
        make('hangs', () => new Promise(() => {}));
    """
    stage.model.when("plan", YES, *(reply for one in leave for reply in (one, YES)), *[YES] * 9)
    stage.model.when("commands", says(LONG), *[says("short")] * 9)
    with stage.runtime() as runtime:
        runtime.say("plan", "hello")
        runtime.command("plan", "/plan")
        runtime.say("plan", "no one reviews it")
        runtime.inside(review)
        runtime.say("plan", "it is kept", "it is approved")
        for line in ("/plan do it", "/plan off", "/plan off", "/plan"):
            runtime.command("plan", line)
        runtime.wait("plan")
        runtime.say("commands", LONG)
        runtime.inside(register)
        runtime.command("commands", "/hangs", wait=False)
        lines = "/compact /compact /feedback /fails /cites /unknown"
        for line in ("/feedback fine", *lines.split(), "/permission read-only"):
            runtime.command("commands", line)
        runtime.say("commands", "and on")
