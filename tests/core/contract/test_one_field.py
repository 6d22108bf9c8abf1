"""Tests that one wrong field is one finding, and that it hides no other fault.

Whatever else does not fit because of the field is a consequence: later events, and other rules.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

import pytest

from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract
from tests.checking import (
    answer,
    call,
    check,
    event,
    log,
    one_step,
    one_turn,
    prompt,
    repair,
    replace,
    result,
    rules,
    turn_end,
    turn_start,
    violations,
    wrapped_result,
)
from tests.core.contract.goal_logs import begin, create, then
from tests.core.contract.inboxes import claim, insert
from tests.core.contract.retries import header, retry, started
from tests.core.contract.test_llm import chunks, delta, end, finish, packed, reply, start

if TYPE_CHECKING:
    from dsh_core.contract.findings import Finding
    from tests.strategies import Event, Events

V0, V4 = Contract.V0, Contract.V4
GONE: Final = object()

CALLS: Final = log(
    turn_start(1),
    *one_step(
        1,
        1,
        answer(1, 1, "a", "b"),
        call(1, 1, "a"),
        result(1, 1, "a"),
        call(1, 1, "b"),
        result(1, 1, "b"),
        answer(1, 1, "a"),
        call(1, 1, "a"),
        result(1, 1, "a"),
    ),
    *one_step(1, 2, result(1, 2, "x", op=replace(9, 9))),
    turn_end(1),
)
CALLS[9]["data"]["message"]["id"] = "r-9"
CALLS[12] = {
    **copy.deepcopy(CALLS[9]),
    **{key: CALLS[12][key] for key in ("seq", "time", "surfaceOp")},
}
CALLS[12]["sourceEventSeqs"] = [9]
"""Two calls, one whose id was used before, and the replacement of its result."""

REPAIRED: Final = log(*one_turn(1, answer(1, 1, "a"), repair(1, 1, "a")))
OLD_CALLS: Final = log(*one_turn(1, call(1, 1, "a"), wrapped_result(1, 1, "a")))
RETRIES: Final = log(
    *one_turn(
        1, header(), *[item for n in (1, 2, 3, 4) for item in (retry(n), started(n))], answer(1, 1)
    )
)
BLOCKS: Final = (start(0), delta(0), end(0), start(1), delta(1), end(1), finish())
STORED: Final = log(*one_turn(1, reply(stream=packed(*BLOCKS))))
CHUNKED: Final = log(*one_turn(1, *chunks(*BLOCKS), reply()))
QUEUED: Final = log(
    insert("m"),
    insert("n", "o", target="next-step"),
    turn_start(1),
    claim(1),
    claim(2, "next-step"),
)
GOAL: Final = log(create(), then("pause", 2), then("resume", 3), turn_start(1), begin(revision=3))


def changed(events: Events, seq: int, path: str, value: Any) -> Events:
    """Return a log with another value in one field."""
    found = copy.deepcopy(events)
    *above, last = path.split(".")
    place: Any = found[seq]["data"]
    for name in above:
        place = place[int(name) if name.isdecimal() else name]
    if value is GONE:
        del place[last]
    else:
        place[last] = value
    return found


def found_in(events: Events, contract: Contract, **options: Any) -> list[Finding]:
    return violations(check(events, contract, **options))


@pytest.mark.parametrize("events", [CALLS, REPAIRED, RETRIES, STORED, QUEUED, GOAL])
def test_the_logs_used_here_are_legal(events: Events) -> None:
    assert found_in(events, V4) == []
    assert found_in(OLD_CALLS, V0) == found_in(CHUNKED, V0) == found_in(RETRIES, V0) == []


@pytest.mark.parametrize("source", list(SourceKind))
@pytest.mark.parametrize(
    ("events", "seq", "path", "values", "rule"),
    [
        (CALLS, 3, "callId", ("", GONE, None), "tool.call-id-empty"),
        (CALLS, 8, "callId", ("", GONE, None), "tool.call-id-empty"),
        (CALLS, 3, "callId", ("z",), "tool.call-not-advertised"),
        (CALLS, 2, "message.content.1.id", ("z",), "tool.call-not-advertised"),
        (CALLS, 2, "message.content", (5, None, {}), "message.shape"),
        (CALLS, 2, "message", (5, None, GONE), "message.shape"),
        (CALLS, 2, "turn", (2, GONE), "step.event-outside"),
        (CALLS, 7, "step", (0, 2, GONE), "step.event-outside"),
        (CALLS, 3, "step", (0, 2, GONE), "step.event-outside"),
        (CALLS, 8, "step", (0, 2, GONE), "step.event-outside"),
        (CALLS, 4, "step", (0, 2, GONE), "step.event-outside"),
        (CALLS, 9, "turn", (0, 2, GONE), "step.event-outside"),
        (CALLS, 4, "message", (5, None, GONE), "message.shape"),
        (CALLS, 9, "message", (5, None, GONE), "message.shape"),
        (CALLS, 9, "message.id", ("", GONE), "message.shape"),
        (CALLS, 9, "message.toolCallId", ("", GONE, "z", "b"), "message.shape"),
        (CALLS, 4, "message.toolCallId", ("z", "b"), "message.shape"),
        (CALLS, 6, "message.toolCallId", ("z", "a"), "message.shape"),
        (CALLS, 6, "message.source.callId", ("z", "a"), "message.shape"),
        (REPAIRED, 3, "message", (5, GONE), "message.shape"),
        (REPAIRED, 3, "message.id", ("", GONE), "message.shape"),
        (REPAIRED, 3, "message.content", ("x", GONE), "message.shape"),
        (REPAIRED, 3, "message.toolCallId", ("z",), "message.shape"),
        (REPAIRED, 3, "message.isError", (GONE, False), "tool.error-without-flag"),
        (REPAIRED, 3, "message.isError", ("", None, 5), "message.shape"),
        (REPAIRED, 2, "message.content", (5,), "message.shape"),
        (REPAIRED, 2, "step", (2,), "step.event-outside"),
        (RETRIES, 2, "header.config.provider", ("", 5, GONE), "envelope.invalid"),
        *[
            (RETRIES, seq, path, values, rule)
            for seq in (3, 5, 7)
            for path, values, rule in (
                ("retry", (0, True, "1", GONE), "retry.fields"),
                ("retry", (9,), "retry.sequence"),
                ("retryId", ("", 5), "retry.fields"),
                ("provider", ("", 5), "retry.fields"),
                ("provider", ("q",), "retry.provider"),
                ("policyKey", ("j",), "retry.sequence"),
                ("turn", (0, 2, GONE), "retry.outside-step"),
                ("step", (0, 2, GONE), "retry.outside-step"),
            )
        ],
        (RETRIES, 5, "retryId", ("z",), "retry.chain-id"),
        (RETRIES, 3, "retryId", ("z",), "retry.started-unpaired"),
        (STORED, 2, "stream.0.chunk.index", (-1, "x", GONE), "llm.index"),
        (STORED, 2, "stream.0.chunk.index", (1,), "llm.delta-without-block"),
        (STORED, 2, "stream.2.chunk.index", (-1, "x", GONE), "llm.index"),
        (STORED, 2, "stream.2.chunk.index", (1, 7), "llm.block-end-mismatch"),
        (STORED, 2, "stream.3.chunk.index", (-1,), "llm.index"),
        (STORED, 2, "stream.5.chunk.index", (0, -1), ("llm.block-end-mismatch", "llm.index")),
        (STORED, 2, "stream.3.chunk.blockType", ("reasoning",), "llm.delta-without-block"),
        (STORED, 2, "stream.5.chunk.block.type", ("reasoning",), "llm.block-end-mismatch"),
        (QUEUED, 0, "inserted", ([],), "inbox.noop"),
        (QUEUED, 3, "removedCount", (GONE, 0), "inbox.noop"),
        (GOAL, 0, "goal.revision", (2, 9), "goal.create"),
        (GOAL, 1, "goal.revision", (3, 9), "goal.revision"),
        (GOAL, 2, "goal.revision", (4, 9), "goal.revision"),
    ],
)
def test_one_wrong_field(
    events: Events,
    seq: int,
    path: str,
    values: tuple[Any, ...],
    rule: str | tuple[str, ...],
    source: SourceKind,
) -> None:
    for value in values:
        found = rules(found_in(changed(events, seq, path, value), V4, source=source))
        assert len(found) == 1, (value, found)
        assert found[0] in rule


@pytest.mark.parametrize("field", ["turn", "step"])
@pytest.mark.parametrize("at", range(len(BLOCKS)))
def test_a_chunk_that_lies_elsewhere(at: int, field: str) -> None:
    for value in (0, 2, GONE):
        found = found_in(changed(CHUNKED, 2 + at, field, value), V0)
        assert rules(found) == ["step.event-outside"]


@pytest.mark.parametrize("contract", [Contract.SEED, V0])
def test_a_call_without_an_id_before_v4(contract: Contract) -> None:
    found = found_in(changed(OLD_CALLS, 2, "callId", ""), contract)
    assert rules(found) == ["tool.call-id-empty"]


def test_a_title_and_the_request_for_it() -> None:
    source = {"kind": "fallback"}
    frame = prompt(source={"kind": "dsh-session-title-llm"})[1]
    items = (
        prompt(),
        event("session/title-llm-request", {"messageSeqs": [0], "messages": [frame]}),
        event("session/title", {"title": "t", "messageSeqs": [0], "source": source}),
    )
    assert found_in(log(*items), V4) == []
    odd = changed(log(*items), 0, "source.kind", "machine")
    assert rules(found_in(odd, V4)) == ["title.sources"]


def twice(events: Events, *changes: tuple[int, str, Any]) -> Events:
    for seq, path, value in changes:
        events = changed(events, seq, path, value)
    return events


def without(events: Events, *seqs: int) -> Events:
    """Return a log in which some events were never written."""
    kept: list[Event] = [copy.copy(one) for one in events if one["seq"] not in seqs]
    for seq, one in enumerate(kept):
        one["seq"] = seq
    return kept


def again(events: Events, seq: int) -> Events:
    """Return a log in which an event was written twice."""
    found = [copy.deepcopy(one) for one in (*events[: seq + 1], *events[seq:])]
    for number, one in enumerate(found):
        one["seq"] = number
    return found


SHORT: Final = [*CALLS[:7], *log(*one_step(1, 1)[1:], turn_end(1), first=7)]
"""The two calls alone."""


@pytest.mark.parametrize(
    ("events", "due"),
    [
        (
            without(changed(SHORT, 3, "callId", ""), 6),
            ["tool.call-id-empty", "tool.unresolved"],
        ),
        (
            again(changed(SHORT, 3, "callId", ""), 4),
            ["tool.call-id-empty", "tool.result-duplicate"],
        ),
        (
            twice(SHORT, (3, "callId", ""), (5, "callId", "")),
            ["tool.call-id-empty", "tool.call-id-empty"],
        ),
        (
            without(changed(SHORT, 2, "message.content.1.id", "z"), 6),
            ["tool.call-not-advertised", "tool.unresolved"],
        ),
        (
            without(changed(SHORT, 4, "message.toolCallId", "z"), 6),
            ["message.shape", "tool.unresolved"],
        ),
        (again(changed(SHORT, 4, "message.id", ""), 6), ["message.shape", "tool.result-duplicate"]),
        (again(changed(SHORT, 3, "step", 2), 4), ["step.event-outside", "tool.result-duplicate"]),
        (
            twice(SHORT, (4, "message.role", "user"), (5, "name", "z")),
            ["message.shape", "tool.call-not-advertised"],
        ),
        (
            twice(RETRIES, (3, "provider", ""), (7, "retry", 7)),
            ["retry.fields", "retry.sequence"],
        ),
        (twice(RETRIES, (5, "retry", 7), (9, "retry", 9)), ["retry.sequence", "retry.sequence"]),
        (twice(RETRIES, (5, "step", 2), (9, "retry", 9)), ["retry.outside-step", "retry.sequence"]),
        (twice(RETRIES, (5, "retryId", "z"), (9, "retryId", "y")), ["retry.chain-id"] * 2),
        (
            twice(STORED, (2, "stream.2.chunk.index", 7), (2, "stream.5.chunk.index", 8)),
            ["llm.block-end-mismatch"] * 2,
        ),
        (
            twice(STORED, (2, "stream.1.index", -1), (2, "stream.5.chunk.index", 0)),
            ["llm.index", "llm.block-end-mismatch"],
        ),
        (
            twice(GOAL, (0, "goal.revision", 2), (2, "goal.revision", 9)),
            ["goal.create", "goal.revision"],
        ),
        (
            twice(GOAL, (0, "goal.revision", 2), (1, "goal.phase", "active")),
            ["goal.create", "goal.phase"],
        ),
        (
            twice(QUEUED, (0, "inserted", []), (4, "removedCount", 3)),
            ["inbox.noop", "inbox.bounds"],
        ),
    ],
)
def test_another_fault_is_not_hidden(events: Events, due: list[str]) -> None:
    assert rules(found_in(events, V4)) == due
