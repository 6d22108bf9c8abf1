"""Tests of the rules about advertised calls, which v4 alone has."""

from __future__ import annotations

import pytest

from dsh_core.contract.repairs import NOT_STARTED_TEXT
from dsh_core.events import Contract
from tests.checking import (
    Item,
    answer,
    call,
    check,
    event,
    log,
    one_step,
    one_turn,
    repair,
    result,
    rules,
    step_end,
    step_start,
    summary,
    turn_end,
    turn_start,
    violations,
)
from tests.strategies import Event, text

V4 = Contract.V4
PAIR = (call(1, 1, "c"), result(1, 1, "c"))
LEGAL = log(*one_turn(1, answer(1, 1, "c"), *PAIR))


def unflagged(code: str = "EIO") -> Item:
    """Return a result with an error that is not flagged as one."""
    kind, data, envelope = result(1, 1, "c", code, isError=False)
    return kind, data, envelope


@pytest.mark.parametrize("contract", [Contract.SEED, Contract.V0])
def test_earlier_contracts_let_calls_run_unadvertised(contract: Contract) -> None:
    """Before v4 nobody compares calls with the answer."""
    found = check(log(*one_turn(1, *PAIR)), contract)
    assert violations(found) == []


class TestCalls:
    """Calls against the answer that asks for them."""

    @pytest.mark.parametrize(
        ("made", "problem"),
        [
            (call(1, 1, "x"), "call 'x' is not in the answer"),
            (call(1, 1, "c", name="read"), "call 'c' is for 'read', the answer asked for 'bash'"),
            (call(1, 1, "c", arguments="[]"), "call 'c' has other arguments than the answer"),
        ],
    )
    def test_a_call_must_be_as_advertised(self, made: Item, problem: str) -> None:
        """Id, name and arguments of a call are those of the answer."""
        inside = (answer(1, 1, "c"), made, result(1, 1, made[1]["callId"]), repair(1, 1, "c"))
        found = violations(check(log(*one_turn(1, *inside)), V4))
        assert found[0].message == problem
        assert rules(found)[0] == "tool.call-not-advertised"

    def test_a_call_runs_once(self) -> None:
        """A call that was answered must not start again."""
        inside = (answer(1, 1, "c"), *PAIR, *PAIR)
        found = check(log(*one_turn(1, *inside)), V4)
        assert [(f.rule, f.seq, f.message) for f in found] == [
            ("tool.call-not-advertised", 5, "call 'c' was started already")
        ]

    def test_a_repeated_call_is_one_finding(self) -> None:
        """A call that is repeated before its result breaks one rule, not two."""
        inside = (answer(1, 1, "c"), call(1, 1, "c"), *PAIR)
        found = check(log(*one_turn(1, *inside)), V4)
        assert rules(found) == ["tool.call-id-duplicate"]

    def test_unless_the_other_rule_is_filtered_out(self) -> None:
        """What one rule would have said is said by the other when the first is not asked."""
        inside = (answer(1, 1, "c"), call(1, 1, "c"), *PAIR)
        chosen = frozenset({"tool.call-not-advertised"})
        found = check(log(*one_turn(1, *inside)), V4, chosen=chosen)
        assert rules(found) == ["tool.call-not-advertised"]

    def test_a_missing_answer_is_one_finding(self) -> None:
        """Calls of a step whose answer is missing have one cause."""
        inside = [item for id_ in "abc" for item in (call(1, 1, id_), result(1, 1, id_))]
        found = check(log(*one_turn(1, *inside)), V4)
        assert summary(found) == [("tool.call-not-advertised", 3, 2, 6)]

    def test_calls_of_an_answer_with_wrong_coordinates(self) -> None:
        """An answer that names another step explains that its calls look unadvertised."""
        inside = (answer(1, 2, "c"), *PAIR)
        found = check(log(*one_turn(1, *inside)), V4)
        assert summary(found) == [("step.event-outside", 2, 2, 3)]

    def test_one_answer_that_repeats_several_ids_is_one_finding(self) -> None:
        """The ids are named in the message."""
        pairs = [item for id_ in "ab" for item in (call(1, 1, id_), result(1, 1, id_))]
        inside = (answer(1, 1, "a", "b"), answer(1, 1, "a", "b"), *pairs)
        found = check(log(*one_turn(1, *inside)), V4)
        assert [(f.rule, f.message) for f in found] == [
            ("tool.advertised-duplicate", "calls 'a', 'b' advertised again while open")
        ]

    def test_arguments_that_are_no_text_are_none_that_a_call_can_have(self) -> None:
        """A call has its arguments as the model wrote them: as text."""
        odd = {"type": "tool-call", "id": "c", "name": "bash", "arguments": {"a": 1}}
        inside = (answer(1, 1, content=[odd]), call(1, 1, "c", arguments='{"a":1}'), PAIR[1])
        assert rules(check(log(*one_turn(1, *inside)), V4)) == ["tool.call-not-advertised"]

    def test_a_call_without_arguments_is_advertised_without(self) -> None:
        """What is absent in both is the same in both."""
        bare = {"type": "tool-call", "id": "c", "name": "bash"}
        kind, data, envelope = PAIR[0]
        started = (kind, {k: v for k, v in data.items() if k != "arguments"}, envelope)
        inside = (answer(1, 1, content=[bare]), started, PAIR[1])
        assert check(log(*one_turn(1, *inside)), V4) == []

    def test_more_calls_than_are_followed_give_no_false_findings(self) -> None:
        """When an answer has more calls than the checker remembers, it judges no others."""
        ids = [f"c{k}" for k in range(4100)]
        pairs = [item for id_ in ids for item in (call(1, 1, id_), result(1, 1, id_))]
        assert check(log(*one_turn(1, answer(1, 1, *ids), *pairs)), V4) == []


class TestResults:
    """Results against the calls."""

    def test_a_result_before_its_call_is_one_finding(self) -> None:
        """The call that follows is a consequence."""
        inside = (answer(1, 1, "c"), *PAIR[::-1])
        found = check(log(*one_turn(1, *inside)), V4)
        assert summary(found) == [("tool.result-not-started", 2, 3, 4)]

    def test_a_result_nobody_asked_for(self) -> None:
        """A result that neither an answer nor a call knows is a result without a call."""
        found = check(log(*one_turn(1, answer(1, 1), result(1, 1, "c"))), V4)
        assert summary(found) == [("tool.result-without-call", 1, 3, 3)]

    def test_a_repair_nobody_asked_for(self) -> None:
        """Repair answers what was advertised, and nothing else."""
        found = check(log(*one_turn(1, answer(1, 1), repair(1, 1, "c"))), V4)
        assert [(f.rule, f.message) for f in found] == [
            ("tool.result-not-started", "a result answers call 'c', which was not advertised")
        ]

    @pytest.mark.parametrize(
        "change",
        [
            {"sourceEventSeqs": [2]},
            {"id": "r-c"},
            {"name": "ToolError"},
        ],
        ids=["cites a source", "has an ordinary id", "has another error"],
    )
    def test_repair_has_its_own_shape(self, change: dict[str, object]) -> None:
        """Only the exact shape that a resume writes passes as repair."""
        kind, data, envelope = repair(1, 1, "c")
        if "sourceEventSeqs" in change:
            envelope = {**envelope, **change}
        elif "id" in change:
            data = {**data, "message": {**data["message"], **change}}
        else:
            data = {**data, "error": {**data["error"], **change}}
        found = check(log(*one_turn(1, answer(1, 1, "c"), (kind, data, envelope))), V4)
        assert rules(found) == ["tool.result-not-started"]

    def test_repair_may_come_from_a_fork(self) -> None:
        """A fork repairs its inherited part like a resume does."""
        kind, data, envelope = repair(1, 1, "c")
        message = {**data["message"], "id": "forked-tool-result-c-3", "content": text("any")}
        data = {**data, "message": message}
        assert check(log(*one_turn(1, answer(1, 1, "c"), (kind, data, envelope))), V4) == []

    @pytest.mark.parametrize(
        "change",
        [
            {"id": "interrupted-tool-result-c-07"},
            {"id": "interrupted-tool-result-c-"},
            {"id": "interrupted-tool-result-c--1"},
            {"id": f"interrupted-tool-result-c-{2**53}"},
            {"id": "interrupted-tool-result-d-7"},
            {"id": "any"},
            {"id": "forked-tool-result-c-7"},
            {"id": "forked-tool-result-c-03"},
            {"id": "forked-tool-result-c-3", "content": []},
            {"id": "forked-tool-result-c-3", "content": [*text("a"), *text("b")]},
            {"content": text("another text")},
            {"content": []},
            {"content": [*text(NOT_STARTED_TEXT), *text("")]},
            {"content": [{"type": "reasoning", "text": NOT_STARTED_TEXT}]},
        ],
    )
    def test_a_repair_that_is_not_exact_is_none(self, change: Event) -> None:
        """Id and content of a repair are part of the format."""
        kind, data, envelope = repair(1, 1, "c")
        data = {**data, "message": {**data["message"], **change}}
        found = check(log(*one_turn(1, answer(1, 1, "c"), (kind, data, envelope))), V4)
        assert rules(found) == ["tool.result-not-started"]

    @pytest.mark.parametrize(("seq", "due"), [(4, []), (9, ["tool.result-not-started"])])
    def test_a_fork_marks_its_repairs_exactly(self, seq: int, due: list[str]) -> None:
        """Also that of a call that was made."""
        kind, data, envelope = repair(1, 1, "c")
        data = {**data, "message": {**data["message"], "id": f"forked-tool-result-c-{seq}"}}
        inside = (answer(1, 1, "c"), call(1, 1, "c"), (kind, data, envelope))
        assert rules(check(log(*one_turn(1, *inside)), V4)) == due

    @pytest.mark.parametrize(
        "inside",
        [
            (answer(1, 1, "c"), *PAIR, PAIR[1]),
            (answer(1, 1, "c"), *PAIR, repair(1, 1, "c")),
            (answer(1, 1, "c"), repair(1, 1, "c"), repair(1, 1, "c")),
            (answer(1, 1, "c"), repair(1, 1, "c"), PAIR[1]),
        ],
        ids=["result twice", "result, repair", "repair twice", "repair, result"],
    )
    def test_a_second_answer_is_a_duplicate(self, inside: tuple[Item, ...]) -> None:
        """Whatever answers a call second is one duplicate."""
        found = check(log(*one_turn(1, *inside)), V4)
        assert [(f.rule, f.count) for f in found] == [("tool.result-duplicate", 1)]


class TestUnresolved:
    """Calls that nothing answers."""

    def test_all_calls_of_the_step_are_one_finding(self) -> None:
        """The count says how many calls have no result, the message names the first of them."""
        inside = (answer(1, 1, *"abcde"), call(1, 1, "a"), result(1, 1, "a"))
        found = check(log(*one_turn(1, *inside)), V4)
        assert [(f.rule, f.count, f.call_id, f.message) for f in found] == [
            (
                "tool.unresolved",
                4,
                "b",
                "step/end without a result for calls 'b', 'c', 'd', 'e'",
            )
        ]

    def test_more_calls_than_a_message_names(self) -> None:
        """A message stays short."""
        found = check(log(*one_turn(1, answer(1, 1, *"abcde"))), V4)
        assert found[0].message == "step/end without a result for calls 'a', 'b', 'c', 'd' …"

    def test_a_turn_that_ends_in_an_open_step_is_one_finding(self) -> None:
        """A cancelled turn that closes nothing breaks one rule."""
        items = (turn_start(1), step_start(1, 1), answer(1, 1, "c"), turn_end(1))
        assert rules(check(log(*items), V4)) == ["turn.end-open-step"]

    def test_a_result_that_comes_yet_is_a_consequence(self) -> None:
        """A result after its step does not count as late when the step was found unresolved."""
        items = (turn_start(1), *one_step(1, 1, answer(1, 1, "c"), PAIR[0]), PAIR[1], turn_end(1))
        assert summary(check(log(*items), V4)) == [("tool.unresolved", 2, 4, 5)]

    def test_a_result_with_wrong_coordinates_is_one_finding(self) -> None:
        """A result that names another step explains that its call has none."""
        inside = (answer(1, 1, "c"), PAIR[0], result(1, 2, "c"))
        assert summary(check(log(*one_turn(1, *inside)), V4)) == [("step.event-outside", 1, 4, 4)]

    def test_a_call_with_wrong_coordinates_is_one_finding(self) -> None:
        """Its result is a consequence."""
        inside = (answer(1, 1, "c"), call(1, 2, "c"), PAIR[1])
        assert summary(check(log(*one_turn(1, *inside)), V4)) == [("step.event-outside", 2, 3, 4)]

    def test_a_step_that_never_ends_is_one_finding(self) -> None:
        """What the open step left unanswered is not blamed on the next."""
        items = (
            turn_start(1),
            step_start(1, 1),
            answer(1, 1, "c"),
            *one_step(1, 2, answer(1, 2)),
            turn_end(1),
        )
        assert rules(check(log(*items), V4)) == ["step.overlap"]

    def test_a_new_turn_starts_afresh(self) -> None:
        """Calls of a turn that never ended are not looked for in the next."""
        items = (turn_start(1), step_start(1, 1), answer(1, 1, "c"), *one_turn(2, answer(2, 1)))
        assert rules(check(log(*items), V4)) == ["turn.overlap"]

    def test_ends_of_other_steps_resolve_nothing(self) -> None:
        """A stray end does not make the checker forget what is open."""
        inside = (answer(1, 1, "c"), step_end(1, 9), *PAIR)
        found = check(log(*one_turn(1, *inside)), V4)
        assert rules(found) == ["step.end-mismatch"]

    def test_a_stray_start_makes_it_forget_nothing(self) -> None:
        """A start in a turn that is not open changes nothing about the open step."""
        inside = (answer(1, 1, "c"), step_start(7, 1), *PAIR, event("feedback/record"))
        found = check(log(*one_turn(1, *inside)), V4)
        assert rules(found) == ["step.outside-turn"]
