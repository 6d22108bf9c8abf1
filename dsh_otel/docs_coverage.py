"""What becomes of each of the harness's invariants here: the rules that decide it, or why none can.

Sections and names of rows are those of the harness; `dsh_otel.docs_invariants` makes a page of it.
In which contracts a rule holds, and what it needs, is taken from the rule itself.
"""

from __future__ import annotations

from typing import Final

from dsh_otel.docs_rows import RESULTS, SEQ, STEP_START, TURN_END, V4, Row, Section

_JUNE: Final = (
    Row("seq.monotonic", SEQ, "A stretch that is written again is one finding."),
    Row("turn.no-nesting", ("turn.overlap",)),
    Row("turn.end-matches", TURN_END),
    Row("step.start-placement", STEP_START),
    Row(
        "step.enclosed",
        ("step.end-mismatch", "step.event-outside", "tool.result-late"),
        "A result that comes after the step of its call has a rule of its own.",
    ),
    Row(
        "tool.result-needs-call",
        RESULTS,
        "Told apart by what became of the call. From v0 on a result is exempt that says that its "
        "call was never started.",
    ),
    Row(
        "agent.status-transition",
        ("agent.status-noop", "agent.status-after-disposed"),
        "Statuses are never logged; a live session is judged.",
    ),
    Row(
        "event.frozen",
        ("agent.history-mutated",),
        "About objects in memory; a live session is guarded.",
    ),
)

_SESSION: Final = (
    Row("session.seq", SEQ),
    Row("session.turn-number", ("turn.overlap", "turn.number")),
    Row("session.turn-end", TURN_END),
    Row("session.step-number", (*STEP_START, "step.number")),
    Row("session.step-end", ("step.end-mismatch",)),
    Row("session.step-enclosed", ("step.event-outside", "tool.result-late")),
    Row(
        "session.result-needs-call",
        RESULTS,
        "Whether a call was never started is read where each generation writes it.",
    ),
    Row("session.result-replace-in-turn", ("tool.replace-outside-turn",)),
    Row(
        "session.turn-enclosed",
        ("event.outside-turn",),
        "The list of todos counts in v0 only, nested calls in v4 only.",
    ),
    Row("session.unconstrained", (), "Says what is always legal: there is nothing to decide."),
)

_APPEND: Final = (
    Row(
        "seq.dense",
        ("seq.gap", *SEQ),
        "A gap is a fault of a complete log only: other sources leave events out by nature.",
    ),
    Row(
        "surface.marker",
        ("surface.marker",),
        "The earliest v0 logs may lack it. In v4 an unknown event that may be ignored may have it.",
    ),
    Row("surface.sources", ("surface.sources",)),
    Row("surface.replace-range", ("surface.replace-range",)),
    Row("surface.replace-cites", ("surface.replace-uncited",)),
    Row(
        "surface.tool-result-replace",
        ("surface.tool-result-replace",),
        "Coordinates, ids, flag and code must stay; a change of metadata alone is not seen.",
    ),
    Row(
        "json.lossless",
        ("envelope.invalid", "text.lone-surrogate"),
        "What JSON cannot hold has left its traces: NaN, infinity, numbers too large, half "
        "characters (an advice).",
    ),
    Row(
        "message.shape",
        ("message.shape",),
        "In format v0 a field may be missing, but none may contradict another.",
    ),
    Row(
        "type.known",
        ("event.unknown-required",),
        "An advice: whoever wrote the log may be newer than this checker.",
    ),
    Row("ignorable.literal", ("envelope.ignorable",)),
)

_LLM: Final = (
    Row(
        "llm.after-finish",
        ("llm.after-finish",),
        "In streams that are logged as a whole; chunk by chunk, what follows is the next stream.",
    ),
    Row("llm.index", ("llm.index",)),
    Row("llm.repeat-start", ("llm.block-reopened",)),
    Row("llm.delta-open", ("llm.delta-without-block",)),
    Row("llm.end-open / llm.end-type", ("llm.block-end-mismatch",)),
    Row("llm.usage-once", ("llm.usage-twice",)),
    Row("llm.finish-open-blocks", ("llm.finish-open-blocks",)),
    Row(
        "llm.must-finish",
        ("llm.no-finish",),
        "Exempt are interrupted answers, failed attempts, and what the end of a step or of the log "
        "cuts off.",
    ),
    Row("llm.adapters-readable", (), "Asks the adapters of the running process."),
)

_RETRY: Final = (
    Row(
        "retry.fields",
        ("retry.fields",),
        "In v4 only what retries are paired by: the runtime looks at nothing else.",
    ),
    Row("retry.failure", ("retry.failure",), "The runtime of October never looks at it."),
    Row(
        "retry.in-step",
        ("retry.outside-step",),
        "In v4 the step that was closed last will do too.",
    ),
    Row("retry.provider", ("retry.provider",)),
    Row("retry.sequence", ("retry.sequence",)),
    Row("retry.chain-id", ("retry.chain-id",)),
    Row("retry.started-pairs", ("retry.started-unpaired",)),
)

_TOOLS: Final = (
    Row(
        "tools.pipeline-order",
        ("tools.pipeline-order",),
        "The stages are calls of listeners; a log holds the call and its result only.",
    ),
    Row("tools.result-frozen", ("tools.result-not-frozen",), "About objects in memory."),
    Row("tools.dispatch-ids", ("tools.dispatch-ids",)),
    Row("tools.dispatch-root", ("tools.dispatch-root",)),
    Row(
        "tools.dispatch-in-turn",
        ("tools.dispatch-outside-turn", "event.outside-turn"),
        "In v4 the session's rule speaks first.",
    ),
)

_LOOP: Final = (
    Row("agent.status-repeat", ("agent.status-noop",), "Statuses are never logged."),
    Row("loop.request-frozen", (), "About objects in memory: no log holds requests."),
    Row("loop.request-session", (), "Asks which session is alive when a request is made."),
    Row("loop.request-messages", (), "Needs the messages that were sent, which no log holds."),
    Row("loop.request-header", (), "Needs the request that was sent, which no log holds."),
    Row("scope.carrier", (), "About who sends an event over the bus of the running process."),
    Row(
        "prompt.assembly", (), "About the parts of a prompt; a log holds what they were made into."
    ),
)

_INBOX: Final = (
    Row("inbox.bounds", ("inbox.bounds",)),
    Row("inbox.unique-id", ("inbox.duplicate-id",)),
    Row("inbox.noop", ("inbox.noop",)),
    Row("inbox.claim-fifo", ("inbox.claim-order",)),
    Row("inbox.cancel-marked", ("inbox.cancel-unmarked",)),
    Row(
        "inbox.claimed-appears",
        ("inbox.claimed-missing",),
        "An advice: a listener may have dropped or rewritten it.",
    ),
)

_COMPACTION: Final = (
    Row("compaction.ids", ("compaction.ids",)),
    Row("compaction.no-overlap", ("compaction.overlap",)),
    Row("compaction.owner", ("compaction.owner",)),
    Row("compaction.match", ("compaction.mismatch",)),
    Row("compaction.one-summary", ("compaction.summary-twice",)),
    Row("compaction.shadow", ("compaction.shadow",), "What is on the surface counts in v4 only."),
    Row("compaction.end", ("compaction.end-without-summary", "compaction.owner")),
    Row(
        "compaction.turn-boundary",
        ("compaction.turn-boundary",),
        "Not if a marker that comes later shows that the compaction was given up.",
    ),
    Row("compaction.end-seed", (), "Never a fault: the marker only gives up what is open."),
)

_HOOKS: Final = (
    Row("hook.in-turn", ("hook.outside-turn",)),
    Row("hook.fields", ("hook.fields",)),
    Row("hook.pairs", ("hook.unpaired",)),
    Row("hook.duration", ("hook.duration",)),
)

_POLICY: Final = (
    Row("sandbox.mode", ("sandbox.mode-unknown",)),
    Row(
        "permission.preset-known",
        ("permission.preset-unknown",),
        "Which names are configured no log says: judged only where they are given.",
    ),
    Row("approval.asked", ("approval.asked",)),
    Row("approval.decided", ("approval.decided",)),
    Row("approval.policy", ("approval.policy-unknown",)),
    Row("plan.active-bool", ("plan.mode-invalid",)),
)

_CHILDREN: Final = (
    Row("subagent.provider-registry", (), "About a registry of the running process."),
    Row(
        "subagent.run-pairs",
        (),
        "Runs are objects of the running process; the log of a parent names its children only.",
    ),
    Row("workflow.run", (), "The engine's own events are not logged."),
    Row("workflow.agent", (), "The engine's own events are not logged."),
    Row("workflow.end", (), "The engine's own events are not logged."),
    Row("tool-workflow.run-start", ("workflow.run-start",)),
    Row("tool-workflow.agent-start", ("workflow.agent-start",)),
    Row("tool-workflow.agent-end", ("workflow.agent-end",)),
    Row("tool-workflow.run-end", ("workflow.run-end",)),
)

_GOAL: Final = (
    Row("goal.shape", ("goal.shape",)),
    Row("goal.create", ("goal.create",)),
    Row("goal.next-revision", ("goal.revision",)),
    Row("goal.phase", ("goal.phase",)),
    Row("goal.clear", ("goal.clear",)),
    Row("goal.round", ("goal.round",)),
    Row("goal-driver.prompt", ("goal-driver.prompt",)),
)

_PACKAGES: Final = (
    Row(
        "jobs.id",
        (),
        "August keeps jobs in memory; October logs them, under ids of another form that the rule "
        "would call wrong.",
    ),
    Row("jobs.times", ("job.times",), "August keeps jobs in memory."),
    Row("jobs.owner", ("job.owner",), "August keeps jobs in memory."),
    Row("jobs.settle-pairs", ("job.settle-unpaired",)),
    Row("todo.items", ("todo.items",)),
    Row(
        "time-context.reading",
        ("time-context.reading",),
        "What a reading says is judged, not how it is worded; the earliest v0 logs have shorter "
        "ones.",
    ),
    Row(
        "time-context.zone",
        ("time-context.zone",),
        "An offset that the zone has within a year of it is taken for right.",
    ),
    Row("time-context.baseline", ("time-context.baseline",)),
    Row("commands.run-unique", ("command.run-duplicate",)),
    Row("commands.done-pairs", ("command.done-unpaired",)),
    Row(
        "schedule.fold",
        ("schedule.fold",),
        "From v1 on a reminder may have a title and recur every minute.",
    ),
    Row("title.sources", ("title.sources",)),
)

_TEAM: Final = (
    Row("team.member", ("team.member",)),
    Row("team.task", ("team.task",)),
    Row("team.message", ("team.message",)),
    Row("team.version", ("team.version",), "Version 1 in format v0, 2 in v4, either between."),
)

_HOST: Final = (
    Row("fs.event-target", (), "Events of the file system's bus are not logged."),
    Row("settings.updated", (), "Asks which settings are registered in the running process."),
    Row(
        "credentials.updated / authorization.settled",
        (),
        "About services of the running process.",
    ),
    Row("storage-domain.changed", (), "Compares an event with records in memory."),
    Row("workspace.cache", (), "Compares a record with a cache in memory."),
    Row("agent-preset.mount", (), "About services of the running process."),
    Row(
        "webserver.routes, client-runtime.slots, client-hmr.watchers, client-modules.bundles",
        (),
        "Books that the host keeps for its user interface.",
    ),
)

SECTIONS: Final = (
    Section("1", "The plugin of June", _JUNE),
    Section("2", "The companion of the session", _SESSION),
    Section("2b", "What a session refuses to append or to load", _APPEND),
    Section("3.1", "Streams of a model", _LLM),
    Section("3.2", "Retries", _RETRY),
    Section("3.3", "Tools", _TOOLS),
    Section("3.4", "Agents, their loop, scopes and prompts", _LOOP),
    Section("3.5", "Waiting messages", _INBOX),
    Section("3.6", "Compaction", _COMPACTION),
    Section("3.7", "Hooks", _HOOKS),
    Section("3.8", "Sandbox, permissions, approvals, plans", _POLICY),
    Section("3.9", "Subagents and workflows", _CHILDREN),
    Section("3.10", "Goals", _GOAL),
    Section("3.11", "Jobs, todos, clock, commands, reminders, titles", _PACKAGES),
    Section("3.12", "Teams", _TEAM),
    Section("3.13", "What only the host knows", _HOST),
    Section("4", "Relationships in format v4", V4),
)
"""All invariants of the harness, in its order."""

OURS: Final = (
    Row(
        "tool.call-id-duplicate",
        ("tool.call-id-duplicate",),
        "Before v4 a call may be made again while it waits: nobody can tell whose a result is.",
    ),
    Row(
        "tool.call-id-empty",
        ("tool.call-id-empty",),
        "Nobody can tell whose a result is.",
    ),
)
"""Rules that ask for more than the harness, and why."""
