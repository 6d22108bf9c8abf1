"""Messages whose place on the surface an export leaves out."""

from __future__ import annotations

from typing import Any

from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract
from dsh_core.logs.unmarked import Surfacing
from tests.checking import answer, call, check, log, one_step, one_turn, result, rules, violations


def bare(*items: Any) -> list[Any]:
    events = log(*items)
    for event in events:
        event.pop("surfaceOp", None)
        event.pop("sourceEventSeqs", None)
    return events


def test_a_message_is_appended_and_other_events_stay_as_they_are() -> None:
    surfacing = Surfacing()
    events = [surfacing.mark(one) for one in bare(*one_turn(1, answer(1, 1)))]
    marks = {one["type"]: one.get("surfaceOp") for one in events}
    assert marks.pop("assistant/message") == "append"
    assert set(marks.values()) == {None}


def test_a_further_result_of_a_call_replaces_it() -> None:
    first = (answer(1, 1, "a"), call(1, 1, "a"), result(1, 1, "a"))
    events = bare(*one_turn(1, *first), *one_turn(2, result(1, 1, "a")))
    surfacing = Surfacing()
    marked = [dict(surfacing.mark(one)) for one in events]
    found = check(marked, Contract.V0, header={}, source=SourceKind.STREAM)
    assert rules(violations(found)) == []
    *_, last = [one for one in marked if one["type"] == "tool/result"]
    assert last["surfaceOp"]["op"] == "replace"


def test_an_id_that_a_model_uses_again_replaces_nothing() -> None:
    step = (answer(1, 1, "a"), call(1, 1, "a"), result(1, 1, "a"))
    again = (answer(1, 2, "a"), call(1, 2, "a"), result(1, 2, "a"))
    surfacing = Surfacing()
    events = bare(*one_step(1, 1, *step), *one_step(1, 2, *again))
    marked = [surfacing.mark(one) for one in events]
    assert {one.get("surfaceOp") for one in marked} == {None, "append"}
