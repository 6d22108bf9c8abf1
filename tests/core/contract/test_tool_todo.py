"""Tests of the rule about to-do lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsh_core.events import Contract
from tests.checking import check, event, log, one_turn, rules, violations

if TYPE_CHECKING:
    from tests.strategies import Event

V0, V4 = Contract.V0, Contract.V4
both = pytest.mark.parametrize("contract", [V0, V4])


def item(content: Any = "read", status: Any = "pending", **more: Any) -> Event:
    return {"content": content, "status": status, **more}


def messages(todos: Any, contract: Contract = V4) -> list[str]:
    """Return the messages about a to-do list that is written in a turn."""
    findings = check(log(*one_turn(1, event("todo/write", {"todos": todos}))), contract)
    assert {(f.rule, f.seq) for f in findings} <= {("todo.items", 2)}
    return [f.message for f in findings]


@both
@pytest.mark.parametrize(
    "todos",
    [
        [],
        [item()],
        [item(), item("write", "in_progress"), item("test", "completed")],
        [item("write", "in_progress"), item("test", "in_progress")],
        [item("Read"), item("read"), item("read  it")],
        [item(activeForm="reading")],
        [item("[redacted]"), item("[redacted]")],
    ],
)
def test_legal_lists(contract: Contract, todos: Any) -> None:
    assert messages(todos, contract) == []


@both
@pytest.mark.parametrize("todos", [None, True, 5, "", "read", {}, {"0": item()}])
def test_what_is_no_list(contract: Contract, todos: Any) -> None:
    (message,) = messages(todos, contract)
    assert message.startswith("todos is ")


@both
@pytest.mark.parametrize(
    "content", [None, True, 5, "", " ", " read", "read\n", "\u00a0read", "read\ufeff", [], {}]
)
def test_content_that_is_empty_or_untrimmed(contract: Contract, content: Any) -> None:
    assert messages([item("write"), item(content)], contract) == [
        "item 2 is empty, or begins or ends with white space"
    ]


@both
@pytest.mark.parametrize("odd", [None, 5, "read", [], [item()]])
def test_items_that_are_none(contract: Contract, odd: Any) -> None:
    assert len(messages([odd], contract)) == 1


@both
def test_content_that_is_repeated(contract: Contract) -> None:
    todos = [item(), item("write"), item("read", "completed")]
    assert messages(todos, contract) == ["item 3 repeats an earlier one"]


@both
@pytest.mark.parametrize("status", [None, "", "done", "PENDING", True, 5, [], ["pending"], {}])
def test_a_status_that_is_none(contract: Contract, status: Any) -> None:
    (message,) = messages([item(status=status)], contract)
    assert message.startswith("the status of item 1 is ")


def test_a_list_has_one_finding_however_many_faults() -> None:
    assert len(messages([item(""), item("x", "y"), None])) == 1


def test_each_list_is_judged_by_itself() -> None:
    bad, good = event("todo/write", {"todos": 5}), event("todo/write", {"todos": []})
    found = check(log(*one_turn(1, bad, good, bad)), V4)
    assert [(f.rule, f.seq) for f in found] == [("todo.items", 2), ("todo.items", 4)]


def test_nothing_of_a_list_is_quoted() -> None:
    (message,) = messages([item("call Bob", "as soon as possible")])
    assert message == "the status of item 1 is another text"


def test_in_october_a_list_may_be_written_outside_turns() -> None:
    assert check(log(event("todo/write", {"todos": [item()]})), V4) == []


@pytest.mark.parametrize("data", [None, 5, "x", [], [{}]])
def test_what_cannot_be_read_is_one_finding(data: Any) -> None:
    events = log(event("todo/write"))
    events[0]["data"] = data
    assert rules(check(events, V4)) == ["envelope.invalid"]


def test_june_knows_no_such_list() -> None:
    assert violations(check(log(event("todo/write", {"todos": 5})), Contract.SEED)) == []
