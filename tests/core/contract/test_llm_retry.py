"""Tests of the rules of the ``llm-retry`` package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from dsh_core.contract import retries
from dsh_core.contract.catalogue import CATALOGUE
from dsh_core.contract.rules import llm_retry
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract
from dsh_core.faults import Fault
from tests.checking import (
    Item,
    check,
    event,
    log,
    one_step,
    one_turn,
    rules,
    step_end,
    step_start,
    summary,
    turn_end,
    turn_start,
)
from tests.core.contract.retries import found_in, header, retry, started
from tests.strategies import MODEL, header_row

if TYPE_CHECKING:
    from collections.abc import Sequence


V0, V4 = Contract.V0, Contract.V4
ODD: Final[tuple[Any, ...]] = (None, True, 0, -1, 1.5, 2**53, "", "x", [], {}, [{}])


class TestPlace:
    """Where a retry is scheduled."""

    @pytest.mark.parametrize("contract", [V0, V4])
    @pytest.mark.parametrize(
        ("turn", "step"), [(1, 2), (2, 1), (1, 0), ("1", 1), (1, None), (1, ...)]
    )
    def test_it_names_the_open_step(self, contract: Contract, turn: Any, step: Any) -> None:
        found = found_in(retry(turn=turn, step=step), contract=contract)
        assert [(f.rule, f.seq) for f in found] == [("retry.outside-step", 3)]
        assert found[0].expected == "step 1 of turn 1"

    def test_the_start_of_a_misplaced_retry_is_no_news(self) -> None:
        assert rules(found_in(retry(step=2), started(step=2))) == ["retry.outside-step"]
        assert rules(found_in(retry(step=2), started())) == ["retry.outside-step"]

    def test_misplaced_retries_of_one_step_are_one_cause(self) -> None:
        found = found_in(retry(1, step=2), retry(2, step=2), retry(3, step=2))
        assert summary(found) == [("retry.outside-step", 3, 3, 5)]

    def test_a_misplaced_retry_does_not_disturb_the_chain(self) -> None:
        found = found_in(retry(1), retry(1, "u", step=7), retry(2))
        assert rules(found) == ["retry.outside-step"]

    def test_in_october_the_step_may_just_have_ended(self) -> None:
        items = (turn_start(1), *one_step(1, 1, header()), retry(), started(), turn_end(1))
        assert check(log(*items), V4) == []
        assert rules(check(log(*items), V0)) == ["retry.outside-step"]

    def test_in_october_no_step_need_have_begun(self) -> None:
        items = (turn_start(1), header(), retry(step=0), turn_end(1))
        assert check(log(*items), V4) == []

    @pytest.mark.parametrize(
        "items",
        [
            (turn_start(1), *one_step(1, 1, header()), step_start(1, 2), retry(), step_end(1, 2)),
            (turn_start(1), *one_step(1, 1, header()), *one_step(1, 2), retry(step=1)),
            (*one_turn(1, header()), turn_start(2), retry(turn=1)),
        ],
    )
    def test_an_earlier_step_is_over(self, items: Sequence[Item]) -> None:
        found = check(log(*items), V4)
        assert rules(found) == ["retry.outside-step"]

    def test_after_the_turn_there_is_no_step(self) -> None:
        found = check(log(*one_turn(1, header()), retry()), V4)
        assert [(f.rule, f.expected) for f in found] == [("retry.outside-step", "no turn")]

    def test_a_step_that_was_not_seen_may_have_been_open(self) -> None:
        events = log(turn_start(1), step_start(1, 1), header(), retry(step=2))
        events[3]["seq"] = 9
        assert rules(check(events, V4, source=SourceKind.STREAM)) == []
        assert rules(check(events, V4)) == ["seq.gap"]


class TestProvider:
    """Whose request is repeated."""

    def test_it_is_the_one_of_the_latest_header(self) -> None:
        found = found_in(header("q"), retry())
        assert [(f.rule, f.seq, f.message) for f in found] == [
            ("retry.provider", 4, "a retry names provider 'p', the latest request/header 'q'")
        ]

    def test_without_a_header_there_is_none(self) -> None:
        found = check(log(*one_turn(1, retry())), V0)
        assert [(f.rule, f.message) for f in found] == [
            ("retry.provider", "a retry names provider 'p' before any request/header names one")
        ]

    def test_the_header_of_an_earlier_turn_counts(self) -> None:
        items = (*one_turn(1, header()), event("session/end-seed"), *one_turn(2, retry(turn=2)))
        assert check(log(*items), V4) == []

    def test_a_later_header_does_not(self) -> None:
        assert found_in(retry(), header("q"), retry(1, "u", provider="q")) == []

    def test_the_context_of_a_request_does_not_count(self) -> None:
        assert found_in(event("request/context", {**MODEL, "provider": "q"}), retry()) == []

    def test_the_same_stranger_again_is_one_cause(self) -> None:
        found = found_in(retry(1, provider="q"), retry(2, provider="q"), retry(1, "u"))
        assert summary(found) == [("retry.provider", 2, 3, 4)]

    def test_a_header_that_could_not_be_read_names_anything(self) -> None:
        events = log(*one_turn(1, header(), retry()))
        events[2]["data"] = 5
        assert rules(check(events, V4)) == ["envelope.invalid"]


class TestChains:
    """Numbers and ids of retries that follow each other."""

    @pytest.mark.parametrize("contract", [V0, V4])
    @pytest.mark.parametrize(
        ("numbers", "seq", "message"),
        [
            ((2,), 3, "retry 2 comes after none"),
            ((1, 1), 4, "retry 1 comes after 1"),
            ((1, 3), 4, "retry 3 comes after 1"),
            ((1, 3, 4), 4, "retry 3 comes after 1"),
            ((1, 2, 1, 2), 5, "retry 1 comes after 2"),
        ],
    )
    def test_they_count_from_1(
        self, contract: Contract, numbers: Sequence[int], seq: int, message: str
    ) -> None:
        found = found_in(*[retry(n) for n in numbers], contract=contract)
        assert [(f.rule, f.seq, f.message) for f in found] == [("retry.sequence", seq, message)]

    @pytest.mark.parametrize("contract", [V0, V4])
    @pytest.mark.parametrize(
        ("items", "seq"),
        [
            ((retry(1), retry(2, "u"), retry(3, "u")), 4),
            ((retry(1), retry(1, policyKey="l")), 4),
            ((retry(1), header("q"), retry(1, provider="q")), 5),
            ((retry(1), step_end(1, 1), step_start(1, 2), retry(1, step=2)), 6),
        ],
    )
    def test_each_has_an_id_of_its_own(
        self, contract: Contract, items: Sequence[Item], seq: int
    ) -> None:
        turn = (turn_start(1), step_start(1, 1), header(), *items)
        found = check(log(*turn), contract)
        assert [(f.rule, f.seq) for f in found] == [("retry.chain-id", seq)]

    @pytest.mark.parametrize(
        "items",
        [
            (retry(1), retry(1, "u", policyKey="l"), retry(2), retry(2, "u", policyKey="l")),
            (retry(1), header("q"), retry(1, "u", provider="q")),
            (retry(1), step_end(1, 1), step_start(1, 2), retry(1, "u", step=2)),
            (retry(1), retry(2, mode="always", maxRetries=...)),
        ],
    )
    def test_step_provider_and_policy_make_a_chain(self, items: Sequence[Item]) -> None:
        assert check(log(turn_start(1), step_start(1, 1), header(), *items), V4) == []

    def test_another_number_and_another_id_are_one_fault(self) -> None:
        assert rules(found_in(retry(1), retry(1, "u"), retry(2, "u"))) == ["retry.sequence"]

    def test_what_was_inherited_counts(self) -> None:
        row = {**(header_row(V4) or {}), "isSeeded": True, "parentSession": "s-0"}
        cut = event("session/end-seed", {"inherited": True})
        items = (*one_turn(1, header(), retry(), started()), cut)
        again = check(log(*items, *one_turn(2, retry(turn=2), started())), V4, header=row)
        assert [(f.rule, f.seq) for f in again] == [
            ("retry.chain-id", 10),
            ("retry.started-unpaired", 11),
        ]
        fresh = one_turn(2, retry(1, "u", turn=2), started(1, "u", turn=2))
        assert check(log(*items, *fresh), V4, header=row) == []

    def test_a_chain_goes_on_over_a_resume(self) -> None:
        items = (retry(1), event("session/end-seed"), retry(2))
        assert found_in(*items) == []

    def test_more_chains_than_are_followed_are_not_guessed_at(self) -> None:
        many = [retry(1, f"t{k}", policyKey=f"k{k}") for k in range(llm_retry.MAX_CHAINS)]
        assert found_in(*many, retry(7, "z", policyKey="z")) == []
        assert rules(found_in(*many, retry(7, "t0", policyKey="k0"))) == ["retry.sequence"]

    def test_old_ids_are_forgotten(self) -> None:
        steps = [one_step(1, k, retry(1, f"t{k}", step=k)) for k in range(1, llm_retry.MAX_IDS + 3)]
        items = [item for step in steps for item in step]
        last = llm_retry.MAX_IDS + 3
        for id_, due in (("t1", []), ("t9", ["retry.chain-id"])):
            tail = one_step(1, last, retry(1, id_, step=last))
            assert rules(check(log(turn_start(1), header(), *items, *tail), V4)) == due


class TestStarts:
    """The starts of retries."""

    @pytest.mark.parametrize("contract", [V0, V4])
    @pytest.mark.parametrize(
        ("item", "what"),
        [
            (started(2), "the start of retry 2 of 't' was not scheduled"),
            (started(1, "u"), "the start of retry 1 of 'u' was not scheduled"),
            (started(1, ""), "the start of retry 1 of an empty text was not scheduled"),
            (started(0), "the start of retry 0 of 't' was not scheduled"),
            (started(True), "the start of retry -1 of 't' was not scheduled"),
            (started(step=2), "the start of retry 1 of 't' names step 2 of turn 1"),
            (started(turn=2), "the start of retry 1 of 't' names step 1 of turn 2"),
            (started(turn=...), "the start of retry 1 of 't' names step 1 of turn -1"),
        ],
    )
    def test_each_needs_its_retry(self, contract: Contract, item: Item, what: str) -> None:
        found = found_in(retry(), item, contract=contract)
        assert [(f.rule, f.seq, f.message) for f in found] == [("retry.started-unpaired", 4, what)]

    def test_it_comes_once_and_after_its_retry(self) -> None:
        twice = found_in(retry(), started(), started())
        assert [(f.rule, f.seq, f.message) for f in twice] == [
            ("retry.started-unpaired", 5, "the start of retry 1 of 't' comes again")
        ]
        assert [(f.rule, f.seq) for f in found_in(started(), retry())] == [
            ("retry.started-unpaired", 3)
        ]

    def test_it_may_come_late_or_never(self) -> None:
        items = (turn_start(1), *one_step(1, 1, header(), retry(1), retry(2)), started(2))
        later = (*items, turn_end(1), event("session/end-seed"), turn_start(2), started(1.0))
        assert check(log(*later), V4) == []

    def test_a_retry_that_is_scheduled_again_starts_again(self) -> None:
        found = found_in(retry(), started(), retry(), started())
        assert rules(found) == ["retry.sequence"]

    @pytest.mark.parametrize(
        ("item", "rule"),
        [
            (retry(retryId=""), "retry.fields"),
            (retry("1"), "retry.fields"),
            (retry(2), "retry.sequence"),
            (event("llm/retry", {}), "retry.fields"),
        ],
    )
    def test_a_refused_retry_explains_it(self, item: Item, rule: str) -> None:
        found = found_in(item, started())
        assert (rules(found), found[0].count) == ([rule], 2)

    def test_what_is_no_longer_remembered_is_not_guessed_at(self) -> None:
        many = [retry(k, maxRetries=999) for k in range(1, retries.MAX_SCHEDULED + 2)]
        assert found_in(*many, started(1)) == []
        found = found_in(*many, step_end(1, 1), step_start(1, 2), started(1, "u", step=2))
        assert "retry.started-unpaired" in rules(found)


class TestMissing:
    """What was not seen is not missed."""

    @pytest.mark.parametrize(
        "items",
        [
            (header(), started()),
            (header(), retry(2)),
            (header(), retry(1), retry(3)),
            (header(), retry(1), retry(2, "u")),
            (retry(),),
        ],
    )
    def test_in_a_stream_and_behind_damage(self, items: Sequence[Item]) -> None:
        events = log(turn_start(1), step_start(1, 1), *items)
        events[-1]["seq"] += 5
        assert check(events, V4, source=SourceKind.STREAM) == []
        lost = Fault("line.not-json", "not JSON", len(events), lost=True)
        assert rules(check(events, V4, faults={len(events) - 1: lost})) == ["line.not-json"]

    def test_a_burst_repeats_what_is_known(self) -> None:
        events = log(*one_turn(1, header(), retry(1), started(1), retry(2), started(2)))
        events[5:5] = events[2:5]
        assert rules(check(events, V4)) == ["seq.regressed"]


@pytest.mark.parametrize(
    ("item", "hidden"),
    [
        (retry(3, provider="q"), "retry.provider"),
        (retry(3, step=2), "retry.outside-step"),
        (retry(3, id_=""), "retry.fields"),
    ],
)
def test_a_rule_that_is_filtered_out_explains_nothing(item: Item, hidden: str) -> None:
    assert rules(found_in(item)) != ["retry.sequence"]
    events = log(*one_turn(1, header(), item))
    chosen = CATALOGUE.select(["owner:llm-retry"], [hidden])
    assert rules(check(events, V4, chosen=chosen)) == ["retry.sequence"]


@pytest.mark.parametrize("contract", [V0, V4])
@pytest.mark.parametrize("odd", ODD)
def test_nothing_is_too_odd(contract: Contract, odd: object) -> None:
    """Whatever a field holds, or the payload itself, there is a verdict."""
    for kind, sample in (("llm/retry", retry()), ("llm/retry-started", started())):
        for name in sample[1]:
            items = (retry(), event(kind, {**sample[1], name: odd}), started())
            owners = {f.owner for f in found_in(*items, contract=contract)}
            assert owners <= {"llm-retry"}
        events = log(*one_turn(1, header(), event(kind)))
        events[3]["data"] = odd
        assert {f.owner for f in check(events, contract)} <= {"llm-retry", "log"}
    events = log(*one_turn(1, event("request/header", {"header": odd}), retry()))
    assert {f.owner for f in check(events, contract)} <= {"llm-retry", "log"}


def test_june_knows_no_retries() -> None:
    assert check(log(*one_turn(1, retry(7), started(8))), Contract.SEED) == []
