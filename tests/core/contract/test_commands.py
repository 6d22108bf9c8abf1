"""Tests of the rules of the ``commands`` package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from dsh_core.contract.rules import commands
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract
from dsh_core.faults import Fault
from tests.checking import Item, check, event, log, one_turn, prompt, rules, summary

if TYPE_CHECKING:
    from collections.abc import Sequence

V0, V4 = Contract.V0, Contract.V4
ODD: Final[tuple[Any, ...]] = (None, True, 0, 1, -1, 1.5, 2**53, "", "x", [], {}, [{}])
NOT_EARLIER: Final[tuple[Any, ...]] = (3, 4, 999, -1, 1.5, "1", None, True, [])
both = pytest.mark.parametrize("contract", [V0, V4])


def run(id_: Any = "c") -> Item:
    return event("command/run", {"commandId": id_, "name": "plan", "source": {"kind": "user"}})


def done(id_: Any = "c", kind: Any = "success", **more: Any) -> Item:
    return event("command/done", {"commandId": id_, "kind": kind, **more})


class TestRuns:
    """Commands that run."""

    @both
    @pytest.mark.parametrize(("items", "seq"), [((run(), run()), 1), ((run(), done(), run()), 2)])
    def test_an_id_is_used_once(self, contract: Contract, items: Sequence[Item], seq: int) -> None:
        found = check(log(*items), contract)
        assert [(f.rule, f.seq, f.message) for f in found] == [
            ("command.run-duplicate", seq, "'c' has run already")
        ]

    @pytest.mark.parametrize("id_", ["", None, 5, True, [], {}])
    def test_in_october_it_has_one(self, id_: Any) -> None:
        found = check(log(run(id_), done(id_), done()), V4)
        assert [(f.rule, f.seq, f.message) for f in found] == [
            ("command.run-duplicate", 0, "commandId is empty")
        ]

    @pytest.mark.parametrize("id_", ["", None, 5, True])
    def test_in_august_any_id_may_be_used_but_once(self, id_: Any) -> None:
        assert check(log(run(id_), done(id_)), V0) == []
        assert rules(check(log(run(id_), run(id_)), V0)) == ["command.run-duplicate"]

    def test_old_ids_are_forgotten(self) -> None:
        many = [run(f"c{k}") for k in range(commands.MAX_RUNS + 1)]
        assert check(log(*many, run("c0")), V4) == []
        assert rules(check(log(*many, run("c1")), V4)) == ["command.run-duplicate"]

    def test_what_was_inherited_counts(self) -> None:
        cut = event("session/end-seed", {"inherited": True})
        row = {
            "type": "session",
            "version": 4,
            "id": "s-1",
            "createdAt": 1,
            "isSeeded": True,
            "delegationDepth": 0,
            "parentSession": "s-0",
        }
        assert check(log(run(), cut, done()), V4, header=row) == []
        again = check(log(run(), cut, run()), V4, header=row)
        assert [(f.rule, f.seq) for f in again] == [("command.run-duplicate", 2)]


class TestDone:
    """Commands that are done."""

    @both
    @pytest.mark.parametrize(
        ("items", "seq"),
        [((done(),), 0), ((done(), run()), 0), ((run("d"), done()), 1), ((run(), done("")), 1)],
    )
    def test_it_ran_before(self, contract: Contract, items: Sequence[Item], seq: int) -> None:
        found = check(log(*items), contract)
        assert [(f.rule, f.seq) for f in found] == [("command.done-unpaired", seq)]
        assert found[0].message.endswith("never ran")

    @both
    def test_it_may_be_done_more_than_once_or_never(self, contract: Contract) -> None:
        items = (run(), run("d"), done("d"), done("d", "error", text="no"), run("e"))
        assert check(log(*items), contract) == []

    def test_one_that_never_ran_is_one_cause(self) -> None:
        found = check(log(done(), done(), done("d")), V4)
        assert summary(found) == [
            ("command.done-unpaired", 2, 0, 1),
            ("command.done-unpaired", 1, 2, 2),
        ]

    @both
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            *[({"sourceEventSeq": odd}, "is not earlier") for odd in NOT_EARLIER],
            ({"sourceEventSeq": 0, "kind": "error"}, "the kind is 'error'"),
            ({"sourceEventSeq": 0, "kind": None}, "the kind is nothing"),
            ({"sourceEventSeq": 1}, "sourceEventSeq 1 is a command's own event"),
            ({"sourceEventSeq": 2}, "sourceEventSeq 2 is a command's own event"),
        ],
    )
    def test_it_cites_an_earlier_event_of_others(
        self, contract: Contract, change: dict[str, Any], message: str
    ) -> None:
        found = check(log(prompt(), run(), done(), done(**change)), contract)
        assert [(f.rule, f.seq) for f in found] == [("command.done-unpaired", 3)]
        assert found[0].message.endswith(message)

    @both
    @pytest.mark.parametrize("seq", [0, 0.0, 2])
    def test_any_other_event_may_be_its_result(self, contract: Contract, seq: float) -> None:
        items = (prompt(), run(), event("plan/mode", {"active": True}), done(sourceEventSeq=seq))
        assert check(log(*items), contract) == []

    @both
    def test_without_a_result_any_kind_will_do(self, contract: Contract) -> None:
        assert check(log(run(), done(kind="x"), done(kind=None)), contract) == []

    def test_more_than_is_followed_is_not_guessed_at(self) -> None:
        many = [run(f"c{k}") for k in range(commands.MAX_RUNS + 1)]
        assert check(log(*many, done("c0"), done("x")), V4) == []

    def test_a_run_that_could_not_be_read_explains_it(self) -> None:
        events = log(run(), done())
        events[0]["data"] = None
        assert rules(check(events, V4)) == ["envelope.invalid"]


class TestMissing:
    """What was not seen is not missed."""

    def test_a_run_may_have_been_in_a_gap(self) -> None:
        events = log(run("d"), done("d"), done())
        events[2]["seq"] = 7
        assert check(events, V0, source=SourceKind.STREAM) == []
        assert rules(check(events, V0)) == ["seq.gap"]
        lost = Fault("line.not-json", "not JSON", 3, lost=True)
        assert rules(check(events, V0, faults={2: lost})) == ["line.not-json"]

    def test_what_was_seen_is_judged_all_the_same(self) -> None:
        events = log(run(), *one_turn(1), run())
        for late in events[1:]:
            late["seq"] += 7
        found = check(events, V4, source=SourceKind.STREAM)
        assert rules(found) == ["command.run-duplicate"]

    def test_a_burst_repeats_what_is_known(self) -> None:
        events = log(prompt(), run(), done(), *one_turn(1))
        events[3:3] = events[:3]
        assert rules(check(events, V4)) == ["seq.regressed"]


@both
@pytest.mark.parametrize("odd", ODD)
def test_nothing_is_too_odd(contract: Contract, odd: object) -> None:
    """Whatever a field holds, or the payload itself, there is a verdict."""
    for kind, sample in (("command/run", run()), ("command/done", done(sourceEventSeq=0))):
        for name in sample[1]:
            items = (run(), event(kind, {**sample[1], name: odd}), done())
            assert {f.owner for f in check(log(*items), contract)} <= {"commands"}
        events = log(run(), event(kind), done())
        events[1]["data"] = odd
        assert {f.owner for f in check(events, contract)} <= {"commands", "log"}


def test_june_knows_no_commands() -> None:
    assert check(log(run(), run(), done("x")), Contract.SEED) == []
