"""Tests of the rules about hooks."""

from __future__ import annotations

from typing import Any, Final

import pytest

from dsh_core.contract.rules.hook_protocol import MAX_OPEN
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract
from dsh_core.faults import Fault
from tests.checking import Item, check, event, log, rules, summary, turn_end, turn_start

V0, V4 = Contract.V0, Contract.V4
ODD: Final[tuple[Any, ...]] = (None, True, -1, 1.5, 2**53, "", "x", [], {}, [{}])
both = pytest.mark.parametrize("contract", [V0, V4])


def invoked(turn: Any = 1, point: Any = "Stop", handler: Any = "h", **more: Any) -> Item:
    data = {"turn": turn, "point": point, "dialect": "codex", "handlerId": handler, **more}
    return event("hook/invoked", data)


def result(turn: Any = 1, point: Any = "Stop", handler: Any = "h", **more: Any) -> Item:
    data = {"turn": turn, "point": point, "handlerId": handler, "decision": "pass"}
    return event("hook/result", {**data, "durationMs": 1.5, **more})


def turn(*items: Item, n: int = 1) -> list[Item]:
    return [turn_start(n), *items, turn_end(n)]


def found(*items: Item, contract: Contract = V4, **options: Any) -> list[tuple[str, int | None]]:
    """Check a log and return what is found, and where."""
    return [(f.rule, f.seq) for f in check(log(*items), contract, **options)]


@both
def test_legal_hooks_are_silent(contract: Contract) -> None:
    other = invoked(point="PreToolUse", matcher="bash", dialect="claude-code")
    twice = invoked(), invoked(), result(), result(durationMs=0)
    items = turn(*twice, other, invoked(handler="never answers"), result(point="PreToolUse"))
    again = turn(invoked(2.0), result(2, exitCode=2, stderrSummary="no"), n=2)
    assert found(*items, *again, contract=contract) == []


class TestOutside:
    """Hooks outside the turn they name."""

    @both
    @pytest.mark.parametrize("item", [invoked(), result(), invoked(2), result(2)])
    def test_no_turn_is_open(self, contract: Contract, item: Item) -> None:
        assert found(*turn(), item, contract=contract) == [("hook.outside-turn", 2)]
        assert found(item, contract=contract) == [("hook.outside-turn", 0)]

    @both
    @pytest.mark.parametrize("odd", [0, 2, "1", *ODD])
    def test_another_turn_is_open(self, contract: Contract, odd: Any) -> None:
        for item in (invoked(odd), result(odd)):
            assert found(*turn(item), contract=contract) == [("hook.outside-turn", 1)]

    def test_the_message_names_both_turns(self) -> None:
        findings = check(log(*turn(invoked(7)), result()), V4)
        assert [f.message for f in findings] == [
            "hook/invoked names turn 7 while turn 1 is open",
            "hook/result names turn 1 while no turn is open",
        ]

    def test_a_hook_and_its_result_are_one_cause(self) -> None:
        assert summary(check(log(*turn(), invoked(), result()), V4)) == [
            ("hook.outside-turn", 2, 2, 3)
        ]
        assert summary(check(log(*turn(invoked(7), result(7))), V4)) == [
            ("hook.outside-turn", 2, 1, 2)
        ]

    def test_the_result_may_name_the_right_turn(self) -> None:
        assert summary(check(log(*turn(invoked(7), result(1))), V4)) == [
            ("hook.outside-turn", 2, 1, 2)
        ]

    def test_a_missing_start_of_the_turn_is_one_cause(self) -> None:
        assert summary(check(log(invoked(), result(), turn_end(1)), V4)) == [
            ("hook.outside-turn", 3, 0, 2)
        ]

    def test_an_end_that_nothing_began_explains_what_lies_before_the_next_turn(self) -> None:
        items = *turn(), turn_end(2), invoked(9), *turn(n=3)
        assert summary(check(log(*items), V4)) == [("turn.end-mismatch", 2, 2, 3)]

    def test_in_the_next_turn_it_is_judged_again(self) -> None:
        items = *turn(), invoked(), *turn(n=2), invoked(2)
        assert found(*items) == [("hook.outside-turn", 2), ("hook.outside-turn", 5)]

    def test_a_turn_that_started_in_a_gap_explains_it(self) -> None:
        events = log(*turn(), *turn(invoked(2), result(2), n=2))
        del events[2]
        assert rules(check(events, V4)) == ["seq.gap"]
        assert check(events, V4, source=SourceKind.STREAM) == []


class TestFields:
    """What a hook is called by."""

    @both
    @pytest.mark.parametrize("name", ["point", "handlerId"])
    @pytest.mark.parametrize("odd", [None, True, 5, "", [], {}])
    def test_an_empty_name(self, contract: Contract, name: str, odd: Any) -> None:
        item = invoked(**{"handler" if name == "handlerId" else name: odd})
        findings = check(log(*turn(item)), contract)
        assert [(f.rule, f.seq) for f in findings] == [("hook.fields", 1)]
        assert findings[0].message.startswith(f"{name} is ")

    @both
    @pytest.mark.parametrize("odd", [None, "", "claude", "CODEX", 5, [], ["codex"], {}])
    def test_a_dialect_that_is_none(self, contract: Contract, odd: Any) -> None:
        findings = check(log(*turn(invoked(dialect=odd))), contract)
        assert [(f.rule, f.seq) for f in findings] == [("hook.fields", 1)]
        assert findings[0].message.startswith("the dialect is ")

    def test_its_result_is_not_found_too(self) -> None:
        assert found(*turn(invoked(handler=""), result(handler=""))) == [("hook.fields", 1)]
        assert found(*turn(invoked(handler=5), result(handler=5))) == [("hook.fields", 1)]
        assert found(*turn(invoked(dialect=5), result())) == [("hook.fields", 1)]


class TestPairs:
    """Results and the hooks they belong to."""

    @both
    @pytest.mark.parametrize(
        "items",
        [
            (result(),),
            (result(), invoked()),
            (invoked(), result(point="PreToolUse")),
            (invoked(), result(handler="g")),
            (invoked(), result(), result()),
            (invoked(), invoked(handler="g"), result(), result()),
            (invoked(), result(handler=None)),
        ],
    )
    def test_a_result_without_a_call(self, contract: Contract, items: tuple[Item, ...]) -> None:
        assert [rule for rule, _ in found(*turn(*items), contract=contract)] == ["hook.unpaired"]

    def test_calls_of_another_turn_do_not_count(self) -> None:
        assert found(*turn(invoked()), *turn(result(2), n=2)) == [("hook.unpaired", 4)]

    def test_more_results_of_one_hook_are_one_cause(self) -> None:
        findings = check(log(*turn(result(), result(), result(handler="g"))), V4)
        assert summary(findings) == [("hook.unpaired", 2, 1, 2), ("hook.unpaired", 1, 3, 3)]

    def test_more_hooks_than_are_followed_are_not_guessed_at(self) -> None:
        many = [invoked(handler=f"h{number}") for number in range(MAX_OPEN + 1)]
        items = turn(*many, result(handler=f"h{MAX_OPEN}"), result(handler="other"))
        assert found(*items) == []
        assert found(*items, *turn(result(2), n=2)) == [("hook.unpaired", len(items) + 1)]

    def test_a_call_may_have_been_lost(self) -> None:
        events = log(*turn(invoked(handler="g"), invoked(), result()))
        lost = Fault("line.not-json", "not JSON", 3, lost=True)
        del events[2]
        assert rules(check(events, V4, faults={2: lost})) == ["line.not-json"]
        assert check(events, V4, source=SourceKind.STREAM) == []

    @pytest.mark.parametrize("data", [None, 5, "x", [], [{}]])
    def test_a_call_that_cannot_be_read_explains_its_result(self, data: Any) -> None:
        events = log(*turn(invoked(), result()))
        events[1]["data"] = data
        assert rules(check(events, V4)) == ["envelope.invalid"]

    def test_repeated_events_are_no_news(self) -> None:
        events = log(*turn(invoked(), result(), n=1))
        tail = log(*turn(invoked(2), result(2), n=2), first=4)
        assert rules(check([*events, *events[1:3], *tail], V4)) == ["seq.regressed"]

    def test_calls_that_only_look_repeated_may_be_answered_later(self) -> None:
        events = log(turn_start(1), invoked(), result(), invoked(handler="g"))
        new = log(invoked(handler="new"), first=2)
        tail = log(result(handler="new"), first=4)
        assert rules(check([*events, *new, *events[3:], *tail], V4)) == ["seq.regressed"]


class TestDuration:
    """How long a hook took."""

    @both
    @pytest.mark.parametrize("odd", [None, True, -1, -0.5, "5", "", [], {}])
    def test_a_duration_that_is_none(self, contract: Contract, odd: Any) -> None:
        items = turn(invoked(), result(durationMs=odd))
        assert found(*items, contract=contract) == [("hook.duration", 2)]

    @both
    @pytest.mark.parametrize("ms", [0, 0.1, 3, 1e300])
    def test_any_that_is_finite_and_not_negative(self, contract: Contract, ms: float) -> None:
        assert found(*turn(invoked(), result(durationMs=ms)), contract=contract) == []


def test_what_was_inherited_pairs_with_what_is_own() -> None:
    row = {"type": "session", "version": 4, "id": "s-1", "createdAt": 1, "isSeeded": True}
    cut = event("session/end-seed", {"inherited": True})
    items = turn_start(1), invoked(), cut, result(), turn_end(1)
    header = {**row, "delegationDepth": 0, "parentSession": "s-0"}
    assert check(log(*items), V4, header=header) == []
