"""Tests of the rules of the ``session`` package about calls and their results."""

from __future__ import annotations

import pytest

from dsh_core.contract.findings import Severity
from dsh_core.contract.rules import results
from dsh_core.decode import from_mapping
from dsh_core.events import Contract
from tests.checking import (
    Item,
    call,
    check,
    chunk,
    event,
    flat_result,
    log,
    make_checker,
    one_step,
    one_turn,
    replace,
    rules,
    step_end,
    step_start,
    summary,
    turn_end,
    turn_start,
    violations,
    wrapped_result,
)

V0 = Contract.V0
V4 = Contract.V4
TURN = one_turn(1, chunk(1, 1))


class TestResults:
    """Calls and their results."""

    def test_results_come_in_any_order(self) -> None:
        """Calls of a step may run side by side and be answered in another order."""
        inside = (
            call(1, 1, "a"),
            call(1, 1, "b"),
            flat_result(1, 1, "b"),
            flat_result(1, 1, "a"),
        )
        assert check(log(*one_turn(1, *inside))) == []

    def test_a_call_id_comes_again_in_the_next_turn(self) -> None:
        """Ids are unique in a step only; a provider may count from zero in every turn."""
        one = (call(1, 1, "c"), flat_result(1, 1, "c"))
        two = (call(2, 1, "c"), flat_result(2, 1, "c"))
        assert check(log(*one_turn(1, *one), *one_turn(2, *two))) == []

    def test_a_call_without_result_is_no_violation_in_june(self) -> None:
        """June lets a call go unanswered; only advice is given, and only if the turn completes."""
        found = check(log(*one_turn(1, call(1, 1, "c"))))
        assert [(f.rule, f.severity) for f in found] == [("tool.call-unanswered", Severity.ADVICE)]

    def test_the_repair_of_a_call_that_never_started_needs_no_call(self) -> None:
        """From August on a resume answers advertised calls that never started."""
        items = one_turn(1, wrapped_result(1, 1, "c", "TOOL_NOT_STARTED"))
        assert check(log(*items), V0) == []

    def test_june_knows_no_such_repair(self) -> None:
        """June wants a call for every result, whatever its error."""
        found = check(log(*one_turn(1, flat_result(1, 1, "c", "TOOL_NOT_STARTED"))))
        assert rules(violations(found)) == ["tool.result-without-call"]

    def test_the_repair_must_be_flagged_as_an_error(self) -> None:
        """The code alone does not make a result a repair."""
        kind, data, envelope = wrapped_result(1, 1, "c")
        data["error"] = {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}
        found = check(log(*one_turn(1, (kind, data, envelope))), V0)
        assert rules(violations(found)) == ["tool.result-without-call"]

    def test_a_replacing_result_needs_no_call(self) -> None:
        """A result that replaces another one is surface bookkeeping, not an answer."""
        pair = (call(1, 1, "c"), wrapped_result(1, 1, "c"))
        kind, data, _ = wrapped_result(1, 1, "c")
        pruned = event(kind, data, surfaceOp=replace(3, 3), sourceEventSeqs=[3])
        items = (*one_turn(1, *pair), turn_start(2), pruned, turn_end(2))
        assert check(log(*items), V0) == []

    def test_a_result_in_the_next_step_is_late(self) -> None:
        """A result with the right coordinates of the next step belongs to the call before it."""
        items = (
            turn_start(1),
            *one_step(1, 1, call(1, 1, "c")),
            *one_step(1, 2, flat_result(1, 2, "c")),
            turn_end(1),
        )
        found = check(log(*items))
        assert summary(found) == [("tool.result-late", 1, 5, 5)]
        assert (found[0].turn, found[0].step, found[0].call_id) == (1, 1, "c")

    def test_a_late_result_explains_the_unanswered_call(self) -> None:
        """A call that is answered too late is not reported as unanswered as well."""
        items = (turn_start(1), *one_step(1, 1, call(1, 1, "c")), flat_result(1, 1, "c"))
        assert rules(check(log(*items, turn_end(1)))) == ["tool.result-late"]

    def test_a_second_result_after_the_step_is_a_duplicate(self) -> None:
        """A result that repeats an answer of the step that just closed is named as what it is."""
        inside = (call(1, 1, "c"), flat_result(1, 1, "c"))
        items = (turn_start(1), *one_step(1, 1, *inside), flat_result(1, 1, "c"), turn_end(1))
        assert summary(check(log(*items))) == [("tool.result-duplicate", 1, 5, 5)]

    def test_several_results_without_a_call_are_one_finding(self) -> None:
        """Results of one call that was never made are counted in one finding."""
        stray = flat_result(1, 1, "c")
        found = check(log(*one_turn(1, stray, stray, stray)))
        assert summary(found) == [("tool.result-without-call", 3, 2, 4)]

    def test_results_without_calls_are_one_finding_for_each_call(self) -> None:
        """Two lost calls are two causes."""
        found = check(log(*one_turn(1, flat_result(1, 1, "a"), flat_result(1, 1, "b"))))
        assert [(f.rule, f.call_id) for f in found] == [
            ("tool.result-without-call", "a"),
            ("tool.result-without-call", "b"),
        ]

    def test_two_results_before_their_call(self) -> None:
        """A result that came too early, twice, is one finding with its call."""
        stray = flat_result(1, 1, "c")
        found = check(log(*one_turn(1, stray, stray, call(1, 1, "c"))))
        assert summary(found) == [("tool.result-before-call", 2, 2, 3)]

    def test_more_calls_than_are_followed_give_no_false_findings(self) -> None:
        """When a step has more calls than the checker remembers, it judges none of the others."""
        ids = [f"c{k}" for k in range(4100)]
        calls = [call(1, 1, id_) for id_ in ids]
        results = [flat_result(1, 1, id_) for id_ in ids]
        assert check(log(*one_turn(1, *calls, *results))) == []

    def test_the_next_step_is_followed_again(self) -> None:
        """The overflow of one step does not reach the next."""
        ids = [f"c{k}" for k in range(4100)]
        calls = [call(1, 1, id_) for id_ in ids]
        results = [flat_result(1, 1, id_) for id_ in ids]
        items = (turn_start(1), *one_step(1, 1, *calls, *results))
        stray = one_step(1, 2, flat_result(1, 2, "x"))
        assert rules(check(log(*items, *stray, turn_end(1)))) == ["tool.result-without-call"]


class TestDeferred:
    """Verdicts that have to wait for what follows."""

    def test_a_missing_call_is_judged_at_the_end_of_the_step(self) -> None:
        """Until its step ends, a result may still turn out to have come before its call."""
        events = log(*one_turn(1, flat_result(1, 1, "c"), chunk(1, 1)))
        checker = make_checker(Contract.SEED)
        found = [
            [(f.rule, f.seq, f.line, f.turn, f.step) for f in checker.observe(built, line)]
            for line, built in enumerate((from_mapping(source)[0] for source in events), 1)
        ]
        late = [("tool.result-without-call", 2, 3, 1, 1)]
        assert found == [[], [], [], [], late, []]

    @pytest.mark.parametrize("final", [False, True])
    def test_or_at_the_end_of_the_input(self, final: bool) -> None:
        """A log that ends inside the step is judged as far as it goes."""
        events = log(turn_start(1), step_start(1, 1), flat_result(1, 1, "c"))
        found = violations(check(events, final=final))
        assert summary(found) == [("tool.result-without-call", 1, 2, 2)]

    def test_the_result_is_the_offender_not_its_call(self) -> None:
        """The finding of a result before its call carries seq and line of the result."""
        found = check(log(*one_turn(1, flat_result(1, 1, "c"), chunk(1, 1), call(1, 1, "c"))))
        assert [(f.rule, f.seq, f.line, f.got) for f in found] == [
            ("tool.result-before-call", 2, 3, "the call at seq 4")
        ]

    @pytest.mark.parametrize(
        ("after", "also"),
        [
            (turn_start(2), "turn.overlap"),
            (step_start(1, 2), "step.overlap"),
            (turn_end(1), "turn.end-open-step"),
        ],
    )
    def test_or_when_the_step_is_over_in_another_way(self, after: Item, also: str) -> None:
        """However a step is left, its results are judged then."""
        events = log(turn_start(1), step_start(1, 1), flat_result(1, 1, "c"), after, chunk(7, 7))
        found = check(events)
        assert rules(found) == ["tool.result-without-call", also, "step.event-outside"]
        checker = make_checker(Contract.SEED)
        built = [from_mapping(source)[0] for source in events[:4]]
        found = checker.observe_all(built, range(4))
        assert sorted(rules(found)) == sorted(["tool.result-without-call", also])

    def test_endless_results_are_not_all_remembered(self) -> None:
        """The count of results of one call that is missing is bounded."""
        strays = [flat_result(1, 1, "c")] * (results.MAX_AGAIN + 50)
        found = check(log(*one_turn(1, *strays)))
        assert [(f.rule, f.count) for f in found] == [
            ("tool.result-without-call", results.MAX_AGAIN + 1)
        ]

    def test_a_repetition_that_follows_does_not_swallow_it(self) -> None:
        """A result without call stays a finding of its own when the step ends in a repetition."""
        events = log(turn_start(1), step_start(1, 1), flat_result(1, 1, "c"), chunk(1, 1))
        again = [dict(events[3]), *log(step_end(1, 1), turn_end(1), first=3)]
        found = check(events + again)
        assert summary(found) == [
            ("tool.result-without-call", 1, 2, 2),
            ("seq.duplicate", 2, 3, 3),
        ]
