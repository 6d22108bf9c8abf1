"""Tests of the rules about compactions: each of them, and what is legal."""

from __future__ import annotations

import pytest

from dsh_core.contract.surface import MAX_SURFACE
from dsh_core.events import Contract
from tests.checking import (
    Item,
    check,
    log,
    prompt,
    rules,
    step_end,
    step_start,
    system,
    turn_end,
    turn_start,
    violations,
)
from tests.core.contract.compactions import (
    BEGIN,
    SEED,
    checkpoint,
    end,
    failed,
    logged,
    prune,
    replacing,
    shadow,
    start,
    summed,
    without,
)
from tests.strategies import header_row

V0, V4 = Contract.V0, Contract.V4
V3_HEADER = {**(header_row(V0) or {}), "version": 3, "isSeeded": False}
HEADERS = {V0: V3_HEADER, V4: header_row(V4)}

LEGAL: dict[str, tuple[Item, ...]] = {
    "whole": (start(), summed(), checkpoint(), end()),
    "with a command": (
        *(start(sourceCommandId="k"), summed(sourceCommandId="k")),
        *(checkpoint(sourceCommandId="k"), end(sourceCommandId="k")),
    ),
    "failed": (start(), failed()),
    "failed for no reason": (start(), end(error=None)),
    "failed with a summary": (start(), summed(), failed()),
    "an id again": (start(), failed(), start(), failed()),
    "between turns": (turn_end(1), start(turn=None), failed(turn=None), turn_start(2), turn_end(2)),
    "a number with a point": (start(turn=1.0), failed()),
    "a checkpoint before the summary": (start(), checkpoint(), failed()),
    "a part of the surface": (start(), summed([3]), end()),
    "a replacement by somebody else": (replacing({"kind": "plugin:other"}),),
    "an appended checkpoint": (prompt(source={"kind": "compact-checkpoint"}),),
    "an orphan": (start(), turn_end(1, "interrupted"), SEED, turn_start(2), turn_end(2)),
    "an orphan two boundaries later": (start(), turn_end(1), turn_start(2), SEED, turn_end(2)),
    "an orphan between turns": (
        *(turn_end(1), start(turn=None), SEED, turn_start(2), start(turn=2)),
        *(failed(turn=2), turn_end(2)),
    ),
}


@pytest.mark.parametrize("contract", HEADERS)
@pytest.mark.parametrize("items", LEGAL.values(), ids=LEGAL)
def test_what_is_legal_is_silent(items: tuple[Item, ...], contract: Contract) -> None:
    found = check(logged(*items), contract, header=HEADERS[contract])
    assert rules(violations(found)) == []


BROKEN: dict[str, dict[str, tuple[int, str, tuple[Item, ...]]]] = {
    "ids": {
        "start without": (
            *(5, "compactionId is empty"),
            (without(start(), "compactionId"), without(failed(), "compactionId")),
        ),
        "start": (5, "compactionId is empty", (start(""), failed())),
        "summary": (6, "compactionId is empty", (start(), summed(id_=""), end())),
        "checkpoint": (7, "compactionId is empty", (start(), summed(), checkpoint(""), end())),
        "end": (6, "compactionId is empty", (start(), failed(""))),
        "no text": (6, "compactionId is empty", (start(), failed(5))),
        "all": (5, "compactionId is empty", (start(""), summed(id_=""), checkpoint(""), end(""))),
    },
    "overlap": {
        "one": (6, "a compaction starts while 'c' is open", (start(), start("d"), failed("d"))),
        "both end": (
            *(6, "a compaction starts while 'c' is open"),
            (start(), start("d"), failed("c"), failed("d")),
        ),
    },
    "owner": {
        "null in a turn": (
            *(5, "a compaction names no turn while turn 1 is open"),
            (start(turn=None), failed(turn=None)),
        ),
        "another turn": (
            *(5, "a compaction names turn 2 while turn 1 is open"),
            (start(turn=2), failed(turn=2)),
        ),
        "another turn at the start only": (
            *(5, "a compaction names turn 2 while turn 1 is open"),
            (start(turn=2), failed()),
        ),
        "a turn between turns": (
            *(6, "a compaction names turn 1 while no turn is open"),
            (turn_end(1), start(), failed()),
        ),
        "no turn": (
            *(5, "a compaction names turn nothing while turn 1 is open"),
            (without(start(), "turn"), without(failed(), "turn")),
        ),
        "true": (
            *(5, "a compaction names turn true while turn 1 is open"),
            (start(turn=True), failed(turn=True)),
        ),
        "another turn at the end": (
            *(6, "the end of 'c' names another turn than its start"),
            (start(), failed(turn=2)),
        ),
        "null at the end": (
            *(6, "the end of 'c' names another turn than its start"),
            (start(), failed(turn=None)),
        ),
    },
    "mismatch": {
        "summary": (5, "a summary of 'c' while no compaction is open", (summed(), end())),
        "checkpoint": (5, "a checkpoint of 'c' while no compaction is open", (checkpoint(),)),
        "end": (5, "an end of 'c' while no compaction is open", (failed(),)),
        "second end": (
            *(7, "an end of 'c' while no compaction is open"),
            (start(), failed(), failed()),
        ),
        "end of an orphan": (
            *(7, "an end of 'c' while no compaction is open"),
            (start(), SEED, failed()),
        ),
        "another summary": (
            *(6, "a summary of 'd' while 'c' is open"),
            (start(), summed(id_="d"), end()),
        ),
        "another checkpoint": (
            *(7, "a checkpoint of 'd' while 'c' is open"),
            (start(), summed(), checkpoint("d"), end()),
        ),
        "another end": (
            *(6, "an end of 'd' while 'c' is open"),
            (start(), failed("d"), start("e"), failed("e")),
        ),
        "command of the summary": (
            *(6, "a summary of 'c' names another command than its start"),
            (start(), summed(sourceCommandId="k"), end()),
        ),
        "command of the checkpoint": (
            *(7, "a checkpoint of 'c' names another command than its start"),
            (start(), summed(), checkpoint(sourceCommandId="k"), end()),
        ),
        "command of the end": (
            *(6, "an end of 'c' names another command than its start"),
            (start(sourceCommandId="k"), failed(sourceCommandId="l")),
        ),
        "no command at the end": (
            *(6, "an end of 'c' names another command than its start"),
            (start(sourceCommandId="k"), failed()),
        ),
    },
    "summary-twice": {
        "one": (7, "'c' is summed up again", (start(), summed(), summed(), end())),
        "with a checkpoint between": (
            *(8, "'c' is summed up again"),
            (start(), summed(), checkpoint(), summed(), end()),
        ),
    },
    "shadow": {
        "nothing": (
            *(6, "shadowedSeqs is empty"),
            (start(), summed(**shadow([], {"start": 2, "end": 3})), end()),
        ),
        "another first": (
            *(6, "shadowedRange is not from the first to the last of shadowedSeqs"),
            (start(), summed(**shadow([2, 3], {"start": 3, "end": 3})), end()),
        ),
        "another last": (
            *(6, "shadowedRange is not from the first to the last of shadowedSeqs"),
            (start(), summed(**shadow([2, 3], {"start": 2, "end": 2})), end()),
        ),
        "no list": (
            *(6, "shadowedSeqs is nothing, shadowedRange an object"),
            (start(), without(summed(), "shadowedSeqs"), end()),
        ),
        "no span": (
            *(6, "shadowedSeqs is a list, shadowedRange nothing"),
            (start(), without(summed(), "shadowedRange"), end()),
        ),
        "no seqs": (
            *(6, "shadowedSeqs or shadowedRange holds what is no seq"),
            (start(), summed(["x"]), end()),
        ),
    },
    "end-without-summary": {
        "one": (6, "'c' succeeds without a summary", (start(), end())),
        "with a checkpoint": (7, "'c' succeeds without a summary", (start(), checkpoint(), end())),
    },
    "turn-boundary": {
        "turn end": (6, "turn/end of turn 1 while 'c' is open", (start(), turn_end(1))),
        "ended later": (
            *(6, "turn/end of turn 1 while 'c' is open"),
            (start(), turn_end(1), failed(), SEED),
        ),
        "never ended": (
            *(6, "turn/end of turn 1 while 'c' is open"),
            (start(), turn_end(1), start("d", None), failed("d", None)),
        ),
        "the next one an orphan": (
            *(6, "turn/end of turn 1 while 'c' is open"),
            (start(), turn_end(1), start("d", None), SEED),
        ),
        "summed up later": (
            *(6, "turn/end of turn 1 while 'c' is open"),
            (start(), turn_end(1), summed(), SEED),
        ),
        "turn start": (
            *(7, "turn/start of turn 2 while 'c' is open"),
            (turn_end(1), start(turn=None), turn_start(2), turn_end(2)),
        ),
        "a repair that nothing marks": (
            *(6, "turn/end of turn 1 while 'c' is open"),
            (start(), turn_end(1, "interrupted")),
        ),
    },
}
"""By rule and name: index of the event, message, and what comes after `BEGIN`."""

CASES = {f"{rule}: {name}": (rule, *case) for rule in BROKEN for name, case in BROKEN[rule].items()}


@pytest.mark.parametrize("contract", HEADERS)
@pytest.mark.parametrize(("rule", "index", "message", "items"), CASES.values(), ids=CASES)
def test_what_is_illegal_is_found_once_in_its_place(
    rule: str, index: int, message: str, items: tuple[Item, ...], contract: Contract
) -> None:
    (found,) = violations(check(logged(*items), contract, header=HEADERS[contract]))
    assert (found.rule, found.owner) == (f"compaction.{rule}", "compaction")
    assert (found.seq, found.line, found.message) == (index, index + 1, message)


COMMANDS: dict[str, tuple[int, tuple[Item, ...]]] = {
    "start": (5, (start(sourceCommandId=""), failed())),
    "summary": (6, (start(), summed(sourceCommandId=""), end())),
    "checkpoint": (7, (start(), summed(), checkpoint(sourceCommandId=""), end())),
    "end": (6, (start(), failed(sourceCommandId=""))),
}


@pytest.mark.parametrize(("index", "items"), COMMANDS.values(), ids=COMMANDS)
def test_an_empty_command_is_none(index: int, items: tuple[Item, ...]) -> None:
    (found,) = violations(check(logged(*items), V0, header=HEADERS[V0]))
    assert (found.rule, found.seq) == ("compaction.ids", index)
    assert found.message == "sourceCommandId is empty"


@pytest.mark.parametrize("items", [items for _, items in COMMANDS.values()], ids=COMMANDS)
def test_october_wants_the_same_everywhere_be_it_empty(items: tuple[Item, ...]) -> None:
    (found,) = violations(check(logged(*items), V4, header=HEADERS[V4]))
    assert found.rule == "compaction.mismatch"
    whole = (
        *(start(sourceCommandId=""), summed(sourceCommandId="")),
        *(checkpoint(sourceCommandId=""), end(sourceCommandId="")),
    )
    assert check(logged(*whole), V4, header=HEADERS[V4]) == []


# What the model sees

HEAD = (turn_start(1), step_start(1, 1), system(1, 1), prompt(), prompt(), step_end(1, 1))
"""The same with a system message: those of seq 2, 3 and 4 are on the surface."""

SPANS: dict[str, tuple[str, tuple[int, ...]]] = {
    "hole": ("shadowedSeqs is not what stands in its span of the surface", (3, 5)),
    "again": ("shadowedSeqs is not what stands in its span of the surface", (3, 3, 4)),
    "order": ("the shadowed span is not on the surface", (4, 3)),
    "no message": ("the shadowed span is not on the surface", (1, 3)),
    "to come": ("the shadowed span is not on the surface", (3, 99)),
    "head": ("the protected system message is shadowed", (2, 3)),
}
MORE = (*HEAD[:-1], prompt(), HEAD[-1])


@pytest.mark.parametrize("kind", ["summary", "prune"])
@pytest.mark.parametrize(("message", "seqs"), SPANS.values(), ids=SPANS)
def test_only_an_exact_span_of_the_surface_is_shadowed_in_v4(
    message: str, seqs: tuple[int, ...], kind: str
) -> None:
    items = (start(), summed(seqs), end()) if kind == "summary" else (prune(seqs),)
    events = log(*MORE, *items, turn_end(1))
    (found,) = violations(check(events, V4))
    assert (found.rule, found.message) == ("compaction.shadow", message)
    assert found.seq == (8 if kind == "summary" else 7)
    earlier = check(events, V0, header=V3_HEADER)
    assert "compaction.shadow" not in rules(earlier)


@pytest.mark.parametrize("seqs", [(3,), (3, 4), (3.0, 4, 5), (5,)])
def test_any_span_behind_the_head_may_be_shadowed(seqs: tuple[int, ...]) -> None:
    events = log(*MORE, start(), summed(seqs), end(), prune(seqs), turn_end(1))
    assert rules(violations(check(events, V4))) == []


def test_a_prune_is_held_to_its_range_in_v4_only() -> None:
    events = logged(prune([2, 3], {"start": 2, "end": 2}), prune([], {"start": 2, "end": 2}))
    assert rules(violations(check(events, V4))) == ["compaction.shadow"] * 2
    assert violations(check(events, V0, header=V3_HEADER)) == []


def test_a_prune_may_stand_anywhere() -> None:
    events = logged(start(), prune([2, 3]), failed(), turn_end(1), prune([2]))
    assert violations(check(events, V4)) == []


def test_a_span_that_may_be_forgotten_is_not_judged() -> None:
    many = [prompt() for _ in range(MAX_SURFACE + 1)]
    events = log(turn_start(1), step_start(1, 1), *many, step_end(1, 1), prune([7, 9]), turn_end(1))
    assert violations(check(events, V4)) == []


@pytest.mark.parametrize("count", [-1, 1.5, None, "9", True, []])
def test_the_number_of_tokens_is_judged_until_v3(count: object) -> None:
    events = logged(start(), summed(shadowedTokenCount=count), end())
    (found,) = violations(check(events, V0))
    assert (found.rule, found.seq) == ("compaction.shadow", 6)
    assert found.message == "shadowedTokenCount is no count"
    assert violations(check(events, V4)) == []


# Earlier generations


def test_july_left_fields_out() -> None:
    lacking = ("compactionId", "turn", "shadowedSeqs", "shadowedTokenCount")
    events = logged(*(without(item, *lacking) for item in (start(), summed(), end())))
    assert violations(check(events, V0)) == []
    assert violations(check(events, V0, header=V3_HEADER)) != []


def test_what_july_did_write_is_judged() -> None:
    for rule, items in {
        "compaction.ids": (start(""), failed("")),
        "compaction.owner": (start(turn=2), failed(turn=2)),
        "compaction.shadow": (start(), summed(**shadow([], {})), end()),
    }.items():
        assert rules(violations(check(logged(*items), V0))) == [rule]
    assert rules(violations(check(logged(start(), failed(turn=2)), V0))) == ["compaction.owner"]


def test_a_turn_that_july_left_out_is_not_compared() -> None:
    events = logged(start(), without(failed(), "turn"))
    assert violations(check(events, V0)) == []
    found = check(events, V0, header=V3_HEADER)
    assert rules(violations(found)) == ["compaction.owner"]


def test_a_log_of_july_that_is_held_to_v4_needs_ids() -> None:
    events = logged(without(start(), "compactionId"), without(failed(), "compactionId"))
    found = rules(violations(check(events, V4, header=header_row(V0))))
    assert found == ["header.invalid", "compaction.ids"]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ({"kind": "plugin", "plugin": "compact", "compactionId": "d"}, ["compaction.mismatch"]),
        ({"kind": "plugin", "plugin": "compact", "compactionId": ""}, ["compaction.ids"]),
        ({"kind": "plugin", "plugin": "compact", "compactionId": "c"}, []),
        ({"kind": "plugin", "plugin": "compact"}, []),
        ({"kind": "plugin", "plugin": "other", "compactionId": "d"}, []),
        ({"kind": "user", "plugin": "compact", "compactionId": "d"}, []),
    ],
)
def test_checkpoints_were_a_plugins_messages_until_v3(
    source: dict[str, str], found: list[str]
) -> None:
    events = logged(start(), summed(), replacing(source), end())
    assert rules(violations(check(events, V0, header=V3_HEADER))) == found


def test_a_checkpoint_of_v4_has_an_id() -> None:
    events = logged(start(), summed(), replacing({"kind": "compact-checkpoint"}), end())
    assert rules(violations(check(events, V4))) == ["compaction.ids"]


def test_june_has_no_compactions() -> None:
    assert violations(check(log(*BEGIN, start(""), turn_end(1)), Contract.SEED)) == []
