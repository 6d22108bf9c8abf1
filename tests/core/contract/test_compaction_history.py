"""The rules about compactions where not everything is seen, or one fault leads to another."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from dsh_core.check import check_session
from dsh_core.contract.catalogue import CATALOGUE
from dsh_core.contract.run import SourceKind
from dsh_core.decode import to_raw
from dsh_core.events import Contract
from dsh_core.faults import Fault
from tests.checking import (
    Item,
    build,
    call,
    check,
    event,
    log,
    make_checker,
    one_turn,
    rules,
    step_start,
    summary,
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
    start,
    summed,
)
from tests.strategies import MODEL, Events, header_row

if TYPE_CHECKING:
    from pathlib import Path

V0, V4 = Contract.V0, Contract.V4
BOUNDARY = "compaction.turn-boundary"
FORK = {**(header_row(V4) or {}), "isSeeded": True, "parentSession": "s-0"}
CUT = event("session/end-seed", {"inherited": True})


def told(events: Events, **options: Any) -> list[tuple[str, int]]:
    """Check a log event by event; return what is found, each with the event that tells it."""
    checker = make_checker(V4, **options)
    found = [
        (finding.rule, source["seq"])
        for line, source in enumerate(events, 1)
        for finding in violations(checker.observe(build(source, line)[0], line))
    ]
    return [*found, *((f.rule, -1) for f in violations(checker.finish(final=False)))]


# When a turn boundary is judged


@pytest.mark.parametrize(
    ("items", "seq"),
    [
        ((start(), turn_end(1), failed()), 7),
        ((start(), turn_end(1), start("d", None), failed("d", None)), 7),
        ((start(), turn_end(1), summed()), 7),
        ((start(), turn_end(1)), -1),
    ],
)
def test_a_boundary_is_judged_when_it_is_clear_that_no_marker_clears_it(
    items: tuple[Item, ...], seq: int
) -> None:
    assert told(log(*BEGIN, *items)) == [(BOUNDARY, seq)]


@pytest.mark.parametrize("final", [False, True])
def test_the_end_of_a_log_brings_no_marker(final: bool) -> None:
    found = violations(check(log(*BEGIN, start(), turn_end(1)), V4, final=final))
    assert [(f.rule, f.seq, f.line) for f in found] == [(BOUNDARY, 6, 7)]


@pytest.mark.parametrize("final", [False, True])
def test_a_log_may_end_while_a_compaction_is_open(final: bool) -> None:
    assert violations(check(log(*BEGIN, start(), summed()), V4, final=final)) == []


def test_whoever_writes_is_told_of_a_boundary_at_once() -> None:
    events = log(*BEGIN, start(), turn_end(1), turn_start(2), failed())
    assert told(events, source=SourceKind.LIVE) == [(BOUNDARY, 6)]


@pytest.mark.parametrize("kind", ["interrupted", "forked"])
def test_whoever_goes_on_with_a_repaired_session_is_not_blamed(kind: str) -> None:
    events = log(*BEGIN, start(), turn_end(1, kind), SEED, *one_turn(2))
    assert told(events, source=SourceKind.LIVE) == []
    unmarked = log(*BEGIN, start(), turn_end(1, kind), turn_start(2), failed())
    assert told(unmarked, source=SourceKind.LIVE) == [(BOUNDARY, 8)]


def test_whoever_starts_a_turn_meanwhile_is_told_at_once() -> None:
    events = log(*BEGIN, turn_end(1), start(turn=None), turn_start(2), failed(turn=None))
    assert told(events, source=SourceKind.LIVE) == [(BOUNDARY, 7)]


def test_whoever_writes_is_told_of_one_cause_once() -> None:
    events = log(*BEGIN, start(), failed("d"), turn_end(1), turn_start(2))
    assert told(events, source=SourceKind.LIVE) == [("compaction.mismatch", 6)]


def test_a_turn_end_that_ends_nothing_is_no_boundary() -> None:
    events = log(*BEGIN, start(), turn_end(2), failed(), turn_end(1))
    assert rules(violations(check(events, V4))) == ["turn.end-mismatch"]


# What a fork inherits


def test_the_inherited_part_is_judged_too() -> None:
    events = log(*BEGIN, failed(), turn_end(1), CUT, *one_turn(2))
    assert rules(violations(check(events, V4, header=FORK))) == ["compaction.mismatch"]


def test_an_inherited_orphan_is_legal_and_over() -> None:
    orphan = (start(), turn_end(1, "forked"), CUT, turn_start(2))
    assert violations(check(log(*BEGIN, *orphan, turn_end(2)), V4, header=FORK)) == []
    ended = log(*BEGIN, *orphan, failed(), turn_end(2))
    assert rules(violations(check(ended, V4, header=FORK))) == ["compaction.mismatch"]


# What is missing


def lost(events: Events, *seqs: int) -> list[str]:
    """Check a log of which some lines cannot be read; return the violations besides."""
    kept = [one for one in events if one["seq"] not in seqs]
    place = next(place for place, one in enumerate(kept) if one["seq"] > seqs[0])
    fault = Fault("line.not-json", "not JSON", place + 1, None, lost=True)
    return rules(violations(check(kept, V4, faults={place: fault})))


WHOLE = log(
    *(*BEGIN, turn_end(1), turn_start(2)),
    *(start(turn=2), summed(), checkpoint(), end(turn=2), turn_end(2)),
    *(*one_turn(3), start("d", None), failed("d", None)),
)


@pytest.mark.parametrize("seq", range(7, 11))
def test_what_is_lost_is_not_held_against_the_rest(seq: int) -> None:
    assert lost(WHOLE, seq) == []


@pytest.mark.parametrize("seqs", [(7, 8), (8, 9), (9, 10), (7, 8, 9), (8, 9, 10), (10, 11, 12)])
def test_nor_are_several_events(seqs: tuple[int, ...]) -> None:
    assert lost(WHOLE, *seqs) == []


def test_a_marker_may_be_lost() -> None:
    events = log(*BEGIN, start(), turn_end(1, "interrupted"), SEED, turn_start(2), turn_end(2))
    assert lost(events, 7) == []


@pytest.mark.parametrize("seq", range(7, 13))
def test_a_stream_may_leave_anything_out(seq: int) -> None:
    kept = [one for one in WHOLE if one["seq"] != seq]
    assert violations(check(kept, V4, source=SourceKind.STREAM)) == []


def test_a_stream_does_not_show_how_a_crash_was_repaired() -> None:
    events = log(*BEGIN, start(), turn_end(1), SEED, turn_start(2), start("d", 2), failed("d", 2))
    kept = [one for one in events if one["seq"] not in (6, 7)]
    assert violations(check(kept, V4, source=SourceKind.STREAM)) == []


ALONE = CATALOGUE.select(["owner:compaction"])


@pytest.mark.parametrize("source", [SourceKind.LOG, SourceKind.STREAM])
@pytest.mark.parametrize("seq", range(5, 13))
def test_what_is_missing_counts_also_where_only_compactions_are_judged(
    seq: int, source: SourceKind
) -> None:
    kept = [one for one in WHOLE if one["seq"] != seq]
    assert check(kept, V4, source=source, chosen=ALONE) == []


def test_a_resume_that_uses_numbers_again_explains_what_was_open() -> None:
    before = log(*BEGIN, start(), summed())
    after = log(turn_start(2), start("d", 2), failed("d", 2), turn_end(2), first=6)
    later = [{**one, "time": one["time"] + 1000} for one in after]
    events = [*before, *later]
    assert violations(check(events, V4, source=SourceKind.STREAM)) == []


def test_a_turn_whose_start_was_lost_may_own_a_compaction() -> None:
    kept = [one for one in WHOLE if one["seq"] not in (5, 6)]
    assert check(kept, V4, source=SourceKind.STREAM, chosen=ALONE) == []


def test_a_boundary_soon_after_a_loss_is_explained() -> None:
    events = log(*BEGIN, start(), turn_end(1), *one_turn(2), *one_turn(3))
    assert lost(events, 3) == []


def test_what_begins_after_a_loss_is_judged_again() -> None:
    later = (start("d", None), failed("e", None), start("f", None), end("f", None))
    events = log(*BEGIN, turn_end(1), *one_turn(2), *one_turn(3), *later)
    # After a loss nobody can know which compaction an end belongs to; a summary is seen or not.
    assert lost(events, 7) == ["compaction.end-without-summary"]


def test_a_burst_that_repeats_a_compaction_is_one_finding() -> None:
    events = logged(start(), summed(), checkpoint(), end())
    again = [*events, *events[5:], *log(turn_start(2), turn_end(2), first=10)]
    found = check(again, V4)
    assert rules(violations(found)) == ["seq.regressed"]


# One cause, one finding


def test_a_burst_does_not_move_what_is_open() -> None:
    events = log(*BEGIN, start(), summed(), checkpoint(), end(), start("d"))
    for repeated in (events[7:8], events[5:6], events[8:9]):
        again = [*events, *repeated, *log(end("d"), turn_end(1), first=10)]
        found = rules(violations(check(again, V4)))
        assert found == ["seq.regressed", "compaction.end-without-summary"]


def test_a_boundary_explains_what_comes_of_the_compaction_later() -> None:
    events = log(*BEGIN, start(), turn_end(1), start("d", None), failed("c", None))
    found = violations(check([*events, *log(failed("d", None), first=9)], V4))
    assert summary(found) == [(BOUNDARY, 2, 6, 8)]


def test_what_follows_from_an_overlap_is_no_news() -> None:
    events = logged(start(), start("d"), summed(), end(), summed(id_="d"), end("d"))
    (found,) = violations(check(events, V4))
    assert summary([found]) == [("compaction.overlap", 3, 6, 8)]


def test_what_follows_from_a_missing_start_is_no_news() -> None:
    (found,) = violations(check(logged(summed(), checkpoint(), end()), V4))
    assert summary([found]) == [("compaction.mismatch", 3, 5, 7)]


def test_a_summary_in_the_wrong_place_is_one_fault() -> None:
    early = check(logged(summed(), start(), end()), V4)
    assert summary(violations(early)) == [("compaction.mismatch", 2, 5, 7)]
    late = check(logged(start(), end(), summed()), V4)
    assert summary(violations(late)) == [("compaction.end-without-summary", 2, 6, 7)]


@pytest.mark.parametrize(
    ("items", "rule"),
    [
        (
            (
                turn_end(1),
                event("request/header", {"header": {"config": MODEL}}),
                start(turn=2),
                failed(turn=2),
            ),
            "event.outside-turn",
        ),
        ((turn_end(1), step_start(2, 1), start(turn=2), failed(turn=2)), "step.outside-turn"),
        (
            (turn_end(1), turn_start(3), start(turn=2), failed(turn=2), turn_end(3)),
            "turn.number",
        ),
        ((turn_end(2), start(turn=None), failed(turn=None)), "turn.end-mismatch"),
        ((turn_end(2), start(turn=2), failed(turn=2)), "turn.end-mismatch"),
    ],
)
def test_turns_that_are_at_fault_explain_what_compactions_name(
    items: tuple[Item, ...], rule: str
) -> None:
    found = violations(check(log(*BEGIN, *items), V4))
    assert [(f.rule, f.count) for f in found] == [(rule, 2)]


def test_a_turn_whose_end_is_missing_explains_a_compaction_between_turns() -> None:
    events = log(*BEGIN, start(turn=None), failed(turn=None), turn_start(2), turn_end(2))
    (found,) = violations(check(events, V4))
    assert summary([found]) == [("compaction.owner", 2, 5, 7)]


def test_a_turn_whose_start_is_missing_explains_a_compaction_in_it() -> None:
    events = log(*BEGIN, turn_end(1), start(turn=2), failed(turn=2), turn_end(2), *one_turn(3))
    (found,) = violations(check(events, V4))
    assert (found.rule, found.seq) == ("compaction.owner", 6)


def test_a_turn_that_overlaps_explains_a_compaction_that_never_ends() -> None:
    events = log(*BEGIN, start(), turn_start(2), failed(), turn_end(2))
    assert rules(violations(check(events, V4))) == ["turn.overlap"]
    never = log(*BEGIN, start(), turn_start(2), turn_end(2))
    assert rules(violations(check(never, V4))) == ["turn.overlap"]
    found = check(events, V4, chosen=frozenset({BOUNDARY}))
    assert [(f.rule, f.seq) for f in found] == [(BOUNDARY, 6)]


def test_a_boundary_of_a_turn_that_is_not_the_compactions_is_a_consequence() -> None:
    events = log(*BEGIN, turn_end(1), start(turn=2), turn_start(2), failed(turn=2), turn_end(2))
    assert rules(violations(check(events, V4))) == ["compaction.owner"]


def test_other_events_of_the_turn_do_not_matter() -> None:
    events = logged(start(), call(1, 1, "x"), failed())
    assert [f for f in check(events, V4) if f.owner == "compaction"] == []


# Payloads of any shape

ODD: list[Any] = [None, True, 1, 1.5, "", "x", [], [1], {}, {"x": [None]}]
KINDS = ("start", "summary", "end", "prune")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", ODD, ids=repr)
def test_no_payload_breaks_a_rule_set(kind: str, data: Any) -> None:
    odd: Item = (f"compaction/{kind}", data, {})
    for contract in Contract:
        for items in ((odd,), (start(), odd, failed()), (odd, odd, *BEGIN)):
            check(log(*BEGIN, *items, turn_end(1)), contract)


@pytest.mark.parametrize("field", ["compactionId", "sourceCommandId", "turn", "error"])
@pytest.mark.parametrize("value", [*ODD, 2**53, -1], ids=repr)
def test_no_field_breaks_a_rule_set(field: str, value: Any) -> None:
    items = [start(), summed(), end(), prune([2, 3])]
    for place, (kind, data, envelope) in enumerate(items):
        odd = (kind, {**data, field: value}, envelope)
        for contract in Contract:
            check(logged(*items[:place], odd, *items[place + 1 :]), contract)


@pytest.mark.parametrize("field", ["shadowedSeqs", "shadowedRange"])
@pytest.mark.parametrize("value", [*ODD, [2**70], {"start": [], "end": {}}], ids=repr)
def test_no_shadow_breaks_a_rule_set(field: str, value: Any) -> None:
    for contract in (V0, V4):
        found = check(logged(start(), summed(**{field: value}), end()), contract)
        assert rules(violations(found)) == ["compaction.shadow"]


@pytest.mark.parametrize("value", [value for value in ODD if not isinstance(value, dict)], ids=repr)
@pytest.mark.parametrize("place", range(4))
def test_an_event_that_is_no_object_explains_what_it_leads_to(place: int, value: Any) -> None:
    items: list[Item] = [start(), summed(), checkpoint(), end()]
    kind, _, envelope = items[place]
    items[place] = (kind, value, envelope)
    (found,) = violations(check(logged(*items), V4))
    assert found.owner != "compaction"
    raw = [build(one, line)[0] for line, one in enumerate(logged(*items), 1)]
    if place != 2:
        # A reader may hand the payload over as it is.
        raw[5 + place] = structs.replace(raw[5 + place], data=to_raw(value))
    checker = make_checker(V4)
    assert [f.owner for f in violations(checker.observe_all(raw, range(1, 11)))] == ["log"]


# Orphans of a crash


def later(*items: Item, first: int) -> Events:
    """Return what another process goes on with."""
    return [{**one, "time": one["time"] + 1000} for one in log(*items, first=first)]


@pytest.mark.parametrize("after", [(), (turn_start(2),), (turn_start(2), turn_end(2))])
@pytest.mark.parametrize("turn", [None, 1])
def test_what_clears_an_orphan_may_have_the_number_of_what_was_lost(
    turn: int | None, after: tuple[Item, ...]
) -> None:
    inside = (turn_end(1), start("c", None)) if turn is None else (start(), turn_end(1))
    again = (start("d", None), failed("d", None)) if len(after) != 1 else ()
    events = [*log(*BEGIN, *inside), *later(*after, *again, first=len(BEGIN) + 2)]
    assert violations(check(events, V4, source=SourceKind.STREAM)) == []


def test_what_goes_on_behind_a_boundary_is_no_orphan() -> None:
    events = log(*BEGIN, start(), turn_end(1), failed())
    found = violations(check(events, V4, source=SourceKind.STREAM))
    assert [one.rule for one in found] == [BOUNDARY]


def test_two_in_one_turn_are_no_orphans() -> None:
    events = log(*BEGIN, start(), start("d"), failed("d"), turn_end(1))
    found = violations(check(events, V4, source=SourceKind.STREAM))
    assert [one.rule for one in found] == ["compaction.overlap"]


@pytest.mark.parametrize("cut", [1, 20])
def test_a_marker_may_be_torn(tmp_path: Path, cut: int) -> None:
    events = log(*BEGIN, start(), turn_end(1, "interrupted"), SEED)
    rows = [json.dumps(row) for row in (header_row(V4), *events)]
    path = tmp_path / "session.v4.jsonl"
    path.write_text("\n".join([*rows[:-1], rows[-1][:-cut]]))
    found = check_session(str(path)).findings
    assert rules(found) == ["line.torn-tail"]
