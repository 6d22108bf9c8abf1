"""Tests of the rule about the tasks of teams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsh_core.contract.rules.agent_team import MAX_EDGES, MAX_TASKS
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract
from tests.checking import check, log, one_turn
from tests.core.contract.test_agent_team import deleted, faults, found, lossy, task

if TYPE_CHECKING:
    from tests.checking import Item


class TestTasks:
    """A task is revised, and waits for others."""

    def test_how_it_goes(self) -> None:
        items = [
            task("task-1"),
            task("write", 1, "task-1"),
            task("task-3", 1, "task-1", "write", ownerId="m-1"),
            task("task-1", 2, status="completed"),
            task("write", 2.0, "task-1", status="completed"),
            deleted("task-3", 2, "task-1", "write"),
            task("task-1", 3),
        ]
        assert found(*items) == []

    @pytest.mark.parametrize("revision", [0, 2, -1, 1.5, "1", None, True, [1]])
    def test_it_begins_at_revision_one(self, revision: Any) -> None:
        (message,) = faults("team.task", task("a", revision))
        assert message.startswith("'a' is at revision ")
        assert message.endswith(", not 1")

    @pytest.mark.parametrize("revision", [0, 1, 2, 4, "3", None])
    def test_revisions_have_no_gap(self, revision: Any) -> None:
        (message,) = faults("team.task", task("a"), task("a", 2), task("a", revision))
        assert message.endswith(", not 3")

    def test_it_goes_on_from_the_revision_it_has(self) -> None:
        items = [task("a", 3), task("a", 4), task("b"), task("b", "x"), task("b", 3)]
        assert len(faults("team.task", *items)) == 2

    def test_what_it_waits_for_is_there(self) -> None:
        items = [task("a", 1, "b"), task("a", 2, "b"), task("b")]
        assert faults("team.task", *items) == ["'a' waits for 'b', which is not there"]

    def test_and_not_deleted(self) -> None:
        items = [task("b"), deleted("b", 2), task("a", 1, "b"), task("a", 2, "b")]
        assert faults("team.task", *items) == ["'a' waits for 'b', which is deleted"]

    def test_what_another_waits_for_is_not_deleted(self) -> None:
        items = [task("b"), task("a", 1, "b"), deleted("b", 2), deleted("b", 3)]
        items.append(task("a", 2, "b"))
        assert faults("team.task", *items) == ["'b' is deleted while another waits for it"]
        assert faults("team.task", *items[:2], task("b", 9)) == ["'b' is at revision 9, not 2"]

    @pytest.mark.parametrize("last", [deleted("a", 2, "b"), task("a", 2)], ids=["deleted", "freed"])
    def test_unless_it_does_not_wait_any_more(self, last: Item) -> None:
        assert found(task("b"), task("a", 1, "b"), last, deleted("b", 2)) == []

    def test_a_deleted_task_may_wait_for_anything(self) -> None:
        assert found(task("a"), deleted("a", 2, "a", "b", "b")) == []

    def test_until_it_comes_back(self) -> None:
        items = [task("a"), deleted("a", 2, "b"), task("a", 3, "b")]
        assert faults("team.task", *items) == ["'a' waits for 'b', which is not there"]

    def test_none_waits_for_another_twice(self) -> None:
        items = [task("b"), task("c"), task("a", 1, "b", "b"), task("a", 2, "b", "b", "c")]
        assert faults("team.task", *items) == ["'a' waits for another twice"]
        assert len(faults("team.task", *items[:3])) == 1

    def test_none_waits_for_itself(self) -> None:
        items = [task("a", 1, "a"), task("a", 2, "a")]
        assert faults("team.task", *items) == ["'a' waits for itself"]

    def test_nor_through_others(self) -> None:
        items = [task("a"), task("b", 1, "a"), task("c", 1, "b"), task("d", 1, "b")]
        items += [task("a", 2, "c"), task("a", 3, "c"), task("b", 2, "a")]
        assert faults("team.task", *items) == ["'a' waits for itself through others"]

    def test_a_task_may_wait_for_those_that_do(self) -> None:
        items = [task("b"), task("c", 1, "b"), task("b", 2, "c"), task("a", 1, "b")]
        assert faults("team.task", *items) == ["'b' waits for itself through others"]

    def test_deleted_tasks_close_no_circle(self) -> None:
        items = [task("a"), task("b", 1, "a"), task("c", 1, "b"), deleted("b", 2, "a")]
        message = "'b' is deleted while another waits for it"
        assert faults("team.task", *items, task("a", 2, "c")) == [message]

    @pytest.mark.parametrize(
        ("id_", "fine"),
        [
            ("task-9007199254740991", True),
            ("task-0009007199254740991", True),
            ("task-9007199254740992", False),
            ("task-" + "9" * 5000, False),
            ("task-x9007199254740992", True),
            ("9007199254740992", True),
            ("task-\u0669" + "\u0669" * 20, True),
        ],
    )
    def test_its_number_is_exact(self, id_: str, fine: bool) -> None:
        messages = faults("team.task", task(id_))
        assert [m.rpartition("has a number")[1] for m in messages] == ["has a number"] * (not fine)

    @pytest.mark.parametrize(
        "items",
        [
            [task("a"), task("b"), task("b", 2)],
            [task("a"), task("a", 2), task("a", 3)],
            [task("a"), task("b"), task("a", 2, "b")],
            [task("a"), task("b"), task("c", 1, "b")],
        ],
    )
    def test_what_was_lost_may_have_come_between(self, items: list[Item]) -> None:
        assert lossy(*items) == []

    def test_what_was_lost_may_have_changed_what_waits(self) -> None:
        waiting = [task("a"), task("b", 1, "a"), task("b", 2)]
        assert lossy(*waiting, deleted("a", 2)) == []
        assert lossy(*waiting, task("a", 2, "b")) == []

    def test_but_a_revision_never_comes_back(self) -> None:
        items = [task("a"), task("a", 2), task("a", 3), task("a", 2)]
        assert lossy(*items) == ["'a' is at revision 2, not 3"]

    def test_unless_it_was_lost_with_the_process_that_wrote_it(self) -> None:
        events = log(*(item for item in (*one_turn(1), task("a"), task("a", 2))))
        (again,) = log(task("a", 2), first=4)
        later = {**again, "time": again["time"] + 1000}
        stream = [*events, later]
        assert check(stream, Contract.V4, header={"id": "s-1"}, source=SourceKind.STREAM) == []

    def test_more_tasks_than_are_followed(self) -> None:
        items = [task(f"a{number}") for number in range(MAX_TASKS + 1)]
        last = f"a{MAX_TASKS}"
        assert found(*items, task(last, 2), task("a0", 2, last), task("b", 7)) == []
        assert found(*items, task("z", 1, "a0"), deleted("a0", 2)) == []
        assert len(faults("team.task", *items, task("a0", 3), task("b", 0))) == 2
        assert len(faults("team.task", *items, deleted("a0", 2), task("a1", 2, "a0"))) == 1

    def test_more_waiting_than_is_followed(self) -> None:
        many = [f"a{number}" for number in range(MAX_EDGES // 4)]
        items = [task(name) for name in (*many, "y")]
        items += [task(f"b{number}", 1, *many) for number in range(4)]
        assert found(*items, task("z", 1, "y"), deleted("y", 2)) == []
        assert len(faults("team.task", *items, deleted("a0", 2))) == 1
