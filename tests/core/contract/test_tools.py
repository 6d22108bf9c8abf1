"""Tests of the rules of the ``tools`` package: ids, arguments, codes, storms."""

from __future__ import annotations

import pytest

from dsh_core.contract.findings import Severity
from dsh_core.events import Contract
from tests.checking import (
    Item,
    call,
    check,
    event,
    flat_result,
    log,
    one_step,
    one_turn,
    rules,
    summary,
    turn_end,
    turn_start,
    wrapped_result,
)

SEED = Contract.SEED
V0 = Contract.V0


def fail(id_: str, code: str = "EACCES", *, step: int = 1, arguments: str = "{}") -> list[Item]:
    """Return a call that fails with a code, and its result."""
    return [call(1, step, id_, arguments=arguments), flat_result(1, step, id_, code)]


def storm(times: int, **options: str) -> tuple[Item, ...]:
    """Return a turn in which the same call fails again and again."""
    return one_turn(1, *(item for k in range(times) for item in fail(f"c{k}", **options)))  # type: ignore[arg-type]


class TestIds:
    """Ids of calls."""

    def test_the_result_that_is_one_too_many_is_a_consequence(self) -> None:
        """Two calls of one id get two results, the second of which has no call left."""
        inside = [call(1, 1, "c")] * 2 + [flat_result(1, 1, "c")] * 2
        found = check(log(*one_turn(1, *inside)))
        assert summary(found) == [("tool.call-id-duplicate", 2, 3, 5)]

    def test_in_the_next_turn_the_id_is_judged_again(self) -> None:
        """What explains a result in one turn explains none in another."""
        twice = [call(1, 1, "c")] * 2 + [flat_result(1, 1, "c")] * 2
        again = [call(2, 1, "c")] + [flat_result(2, 1, "c")] * 2
        found = check(log(*one_turn(1, *twice), *one_turn(2, *again)))
        assert rules(found) == ["tool.call-id-duplicate", "tool.result-duplicate"]

    def test_empty_ids_are_not_duplicates(self) -> None:
        """Calls without an id have one fault each, not two."""
        inside = [call(1, 1, "")] * 2 + [flat_result(1, 1, "")]
        assert rules(check(log(*one_turn(1, *inside)))) == ["tool.call-id-empty"] * 2


class TestUnanswered:
    """Calls that a completed turn leaves without a result."""

    def test_the_calls_of_a_step_are_one_finding(self) -> None:
        """The finding stands at the first call, and counts them."""
        calls = [call(1, 1, id_) for id_ in "abc"]
        found = check(log(*one_turn(1, *calls, flat_result(1, 1, "b"))))
        assert [(f.rule, f.seq, f.count, f.last_seq, f.call_id, f.message) for f in found] == [
            (
                "tool.call-unanswered",
                2,
                2,
                4,
                "a",
                "step 1 ended without a result for calls 'a', 'c'",
            )
        ]

    def test_each_step_has_its_own(self) -> None:
        """Two steps are two causes."""
        steps = [*one_step(1, 1, call(1, 1, "c")), *one_step(1, 2, call(1, 2, "c"))]
        found = check(log(turn_start(1), *steps, turn_end(1)))
        assert [(f.rule, f.step) for f in found] == [
            ("tool.call-unanswered", 1),
            ("tool.call-unanswered", 2),
        ]

    @pytest.mark.parametrize("kind", ["aborted", "disposed", "error", "interrupted"])
    def test_a_turn_that_does_not_complete_may_leave_calls_open(self, kind: str) -> None:
        """Nobody asks the model again after such a turn."""
        items = (turn_start(1), *one_step(1, 1, call(1, 1, "c")), turn_end(1, kind))
        assert check(log(*items)) == []

    def test_october_has_a_stricter_rule_for_it(self) -> None:
        """In v4 an unanswered call is a violation, and only that."""
        found = check(log(*one_turn(1, call(1, 1, "c"))), Contract.V4)
        assert rules(found) == ["tool.call-not-advertised"]

    def test_ends_of_other_turns_settle_nothing(self) -> None:
        """The turn whose end counts is the open one."""
        items = (turn_start(1), *one_step(1, 1, call(1, 1, "c")), turn_end(7), turn_end(1))
        found = check(log(*items))
        assert rules(found) == ["tool.call-unanswered", "turn.end-mismatch"]


class TestCodes:
    """Codes of failed results."""

    @pytest.mark.parametrize(
        ("words", "got"),
        [
            ("Error: EACCES: permission denied, open '/x'", "EACCES"),
            ("Error: something else", ""),
        ],
    )
    def test_an_errno_in_the_text_is_named(self, words: str, got: str) -> None:
        """The finding says which code the text speaks of, if any."""
        failed = flat_result(1, 1, "c", failed=True, words=words)
        found = check(log(*one_turn(1, call(1, 1, "c"), failed)))
        assert [(f.rule, f.severity, f.got) for f in found] == [
            ("tool.error-uncoded", Severity.ADVICE, got)
        ]

    def test_a_result_that_did_not_fail_needs_no_code(self) -> None:
        """A command that ends with a status other than 0 is a result like any other."""
        fine = flat_result(1, 1, "c", words="[exit code: 3]")
        assert check(log(*one_turn(1, call(1, 1, "c"), fine))) == []

    def test_the_flag_of_a_wrapped_result_counts(self) -> None:
        """Until v3 the flag lies on the block inside the message."""
        block = {"type": "tool-result", "toolCallId": "c", "isError": True, "content": []}
        failed = wrapped_result(1, 1, "c", content=[block])
        found = check(log(*one_turn(1, call(1, 1, "c"), failed)), V0)
        assert rules(found) == ["tool.error-uncoded"]

    def test_a_replacement_is_not_judged_again(self) -> None:
        """A result that replaces another one repeats its failure."""
        failed = wrapped_result(1, 1, "c", "EIO")
        pruned = event(failed[0], failed[1], surfaceOp={"op": "replace", "start": 3, "end": 3})
        pruned[1].pop("error")
        pruned[2]["sourceEventSeqs"] = [3]
        inside = (call(1, 1, "c"), wrapped_result(1, 1, "c", "EIO"), pruned)
        # That it dropped the code is another matter.
        assert rules(check(log(*one_turn(1, *inside)), V0)) == ["surface.tool-result-replace"]


class TestArguments:
    """Arguments of calls."""

    @pytest.mark.parametrize("good", ["{}", "", "null", '{"a":"\\ud800"}', " [1] "])
    def test_json_of_any_kind_is_fine(self, good: str) -> None:
        """Arguments are JSON text; no text means no arguments; half characters are JSON too."""
        inside = (call(1, 1, "c", arguments=good), flat_result(1, 1, "c"))
        assert check(log(*one_turn(1, *inside))) == []

    @pytest.mark.parametrize("bad", ["{", "{'a':1}", '{"x":NaN}', "[1]]", "ls", "[" * 20_000])
    def test_anything_else_is_advice(self, bad: str) -> None:
        """Validation will refuse such a call."""
        inside = (call(1, 1, "c", arguments=bad), flat_result(1, 1, "c"))
        found = check(log(*one_turn(1, *inside)))
        assert [(f.rule, f.severity) for f in found] == [
            ("tool.arguments-invalid-json", Severity.ADVICE)
        ]


class TestStorm:
    """The same call that fails for the same lasting reason."""

    def test_it_counts_on(self) -> None:
        """Six failures are one finding that counts all of them."""
        assert summary(check(log(*storm(6)))) == [("tool.retry-storm", 6, 3, 13)]

    def test_it_counts_over_steps(self) -> None:
        """Each try may be in a step of its own."""
        steps = [item for k in (1, 2, 3) for item in one_step(1, k, *fail("c", step=k))]
        assert summary(check(log(turn_start(1), *steps, turn_end(1)))) == [
            ("tool.retry-storm", 3, 3, 11)
        ]

    def test_a_passing_reason_is_no_storm(self) -> None:
        """It may help to repeat a call that timed out."""
        assert check(log(*storm(6, code="ETIMEDOUT"))) == []

    def test_other_arguments_are_another_call(self) -> None:
        """A call that was changed is not repeated."""
        inside = [item for k in range(6) for item in fail("c", arguments=f"[{k}]")]
        assert check(log(*one_turn(1, *inside))) == []

    def test_a_new_turn_counts_anew(self) -> None:
        """Somebody may have mended the reason in between."""
        turns = [
            item
            for turn in (1, 2)
            for item in one_turn(
                turn,
                *(
                    item
                    for _ in range(2)
                    for item in (call(turn, 1, "c"), flat_result(turn, 1, "c", "EACCES"))
                ),
            )
        ]
        assert check(log(*turns)) == []

    def test_a_code_found_in_the_text_counts(self) -> None:
        """Failures of the operating system have no code of their own in dsh."""
        words = "Error: EACCES: permission denied, open '/x'"
        inside = [
            item
            for _ in range(3)
            for item in (call(1, 1, "c"), flat_result(1, 1, "c", failed=True, words=words))
        ]
        found = check(log(*one_turn(1, *inside)), chosen=frozenset({"tool.retry-storm"}))
        assert summary(found) == [("tool.retry-storm", 3, 3, 7)]

    def test_many_different_failures_are_forgotten_in_turn(self) -> None:
        """The memory for failures is bounded; the oldest go first."""
        many = [item for k in range(1100) for item in fail("c", arguments=f"[{k}]")]
        inside = [*fail("c"), *fail("c"), *many, *fail("c")]
        assert check(log(*one_turn(1, *inside))) == []
