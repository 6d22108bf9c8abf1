"""What the page about the harness's invariants is made of, and its part about format v4."""

from __future__ import annotations

from typing import Final, NamedTuple


class Row(NamedTuple):
    """One invariant.

    Attributes:
        name: Its name.
        rules: Ids of the rules that decide it.
        note: Where they differ from it; why no log can decide it if there are none.
    """

    name: str
    rules: tuple[str, ...] = ()
    note: str = ""


class Section(NamedTuple):
    """Invariants that belong together.

    Attributes:
        number: Its number among the sections of the harness.
        title: What it is about.
        rows: The invariants.
    """

    number: str
    title: str
    rows: tuple[Row, ...]


SEQ: Final = ("seq.duplicate", "seq.regressed")
TURN_END: Final = ("turn.end-mismatch", "turn.end-open-step")
STEP_START: Final = ("step.outside-turn", "step.overlap")
RESULTS: Final = (
    "tool.result-without-call",
    "tool.result-duplicate",
    "tool.result-late",
    "tool.result-before-call",
)

V4: Final = (
    Row("v4.header", ("header.invalid",)),
    Row("v4.dense", ("seq.gap", *SEQ)),
    Row("v4.seed-cut", ("seed.cut",)),
    Row(
        "v4.turn-step",
        (
            *("turn.overlap", "turn.number", *TURN_END),
            *(*STEP_START, "step.number", "step.end-mismatch"),
        ),
    ),
    Row("v4.tools-resolved", ("tool.unresolved",)),
    Row("v4.advertised-unique", ("tool.advertised-duplicate",)),
    Row("v4.call-advertised", ("tool.call-not-advertised", "tool.call-id-duplicate")),
    Row(
        "v4.result-lifecycle",
        ("tool.result-not-started", *RESULTS),
        "Exempt is what a repair writes for a call that was never started.",
    ),
    Row("v4.result-replace", ("tool.replace-outside-turn",)),
    Row("v4.error-needs-flag", ("tool.error-without-flag",)),
    Row("v4.step-events", ("step.event-outside",)),
    Row(
        "v4.system-head",
        ("surface.system-head",),
        "Behind the head a further system message is a message like others.",
    ),
    Row("v4.turn-enclosed", ("event.outside-turn",)),
    Row("v4.ptc", ("tools.dispatch-unpaired", "tools.dispatch-root", "tools.dispatch-ids")),
    Row(
        "v4.retry",
        (
            *("retry.fields", "retry.outside-step", "retry.provider", "retry.sequence"),
            *("retry.chain-id", "retry.started-unpaired"),
        ),
    ),
    Row(
        "v4.commands, v4.title, v4.compaction",
        (
            *("command.run-duplicate", "command.done-unpaired", "title.sources"),
            *("compaction.ids", "compaction.overlap", "compaction.owner", "compaction.mismatch"),
            *("compaction.summary-twice", "compaction.shadow", "compaction.end-without-summary"),
            "compaction.turn-boundary",
        ),
    ),
    Row("v4.developer-header", ("developer.header",)),
    Row("v4.catalog", ("catalog.child",)),
    Row("v4.delivery", ("delivery.marker",), "What a child inherits may name its parent."),
    Row(
        "v4.plugin-type",
        ("event.unknown-required", "envelope.ignorable"),
        "An advice: how plugins name their events is not judged.",
    ),
    Row(
        "v4.stream-equals-content",
        (),
        "Asked of older logs while they are migrated; in a v4 log both may differ.",
    ),
)
"""Relationships in format v4, in the order of the harness."""
