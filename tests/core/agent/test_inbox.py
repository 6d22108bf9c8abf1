"""Tests of the lists of messages that wait, and of what is logged of them."""

from __future__ import annotations

from typing import Any

import pytest

from dsh_core.agent.inbox import NEXT_STEP, NEXT_TURN, Inbox
from dsh_core.session.lossless import DataError


def message(id_: str) -> dict[str, Any]:
    return {"id": id_}


class Log:
    """Notes what is logged; raises at the entries of some numbers."""

    def __init__(self, *raises_at: int) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self._raises_at = raises_at

    def __call__(self, type_: str, data: dict[str, Any]) -> None:
        self.events.append((type_, data))
        if len(self.events) in self._raises_at:
            raise ValueError(f"at {len(self.events)}")


def ids(messages: list[dict[str, Any]]) -> list[str]:
    return [one["id"] for one in messages]


def test_a_message_is_put_at_the_end_of_its_list_and_logged_with_its_place() -> None:
    log = Log()
    inbox = Inbox(log)
    inbox.put(NEXT_TURN, message("a"))
    inbox.put(NEXT_STEP, message("b"))
    inbox.put(NEXT_TURN, message("c"))
    spliced = "agent/inbox/spliced"
    assert log.events == [
        (spliced, {"target": "next-turn", "start": 0, "inserted": [{"id": "a"}]}),
        (spliced, {"target": "next-step", "start": 0, "inserted": [{"id": "b"}]}),
        (spliced, {"target": "next-turn", "start": 1, "inserted": [{"id": "c"}]}),
    ]
    assert (inbox.waiting(NEXT_TURN), inbox.waiting(NEXT_STEP), inbox.waiting()) == (2, 1, 3)


def test_what_begins_a_turn_is_claimed_one_by_one_from_the_front() -> None:
    log = Log()
    inbox = Inbox(log)
    inbox.put(NEXT_TURN, message("a"))
    inbox.put(NEXT_TURN, message("b"))
    into: list[dict[str, Any]] = []
    assert [inbox.claim_turn(into) for _ in range(3)] == [True, True, False]
    assert ids(into) == ["a", "b"]
    claimed = {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}
    assert [data for _, data in log.events[2:]] == [claimed, claimed]


def test_what_joins_a_turn_is_claimed_all_at_once() -> None:
    log = Log()
    inbox = Inbox(log)
    inbox.put(NEXT_STEP, message("a"))
    inbox.put(NEXT_STEP, message("b"))
    into = [message("before")]
    inbox.claim_step(into)
    inbox.claim_step(into)
    assert ids(into) == ["before", "a", "b"]
    claimed = {"target": "next-step", "start": 0, "removedCount": 2, "inserted": []}
    assert [data for _, data in log.events[2:]] == [claimed]


def test_what_is_postponed_is_canceled_and_waits_for_the_next_turn() -> None:
    log = Log()
    inbox = Inbox(log)
    inbox.put(NEXT_TURN, message("a"))
    inbox.put(NEXT_STEP, message("b"))
    inbox.postpone()
    inbox.postpone()
    assert [data for _, data in log.events[2:]] == [
        {
            "target": "next-step",
            "start": 0,
            "removedCount": 1,
            "inserted": [],
            "outcome": "canceled",
        },
        {"target": "next-turn", "start": 1, "inserted": [{"id": "b"}]},
    ]


def test_what_json_cannot_carry_is_not_added() -> None:
    log = Log()
    inbox = Inbox(log)
    with pytest.raises(DataError, match=r"^data\.inserted\[0\]\.content is of type object"):
        inbox.put(NEXT_TURN, {"id": "a", "content": object()})
    assert (inbox.waiting(), log.events) == (0, [])


def test_a_message_whose_coming_makes_a_listener_raise_waits_nevertheless() -> None:
    inbox = Inbox(Log(1))
    with pytest.raises(ValueError, match=r"^at 1$"):
        inbox.put(NEXT_TURN, message("a"))
    assert inbox.waiting(NEXT_TURN) == 1


@pytest.mark.parametrize("target", [NEXT_TURN, NEXT_STEP])
def test_a_message_whose_claim_makes_a_listener_raise_is_claimed(target: str) -> None:
    inbox = Inbox(Log(2))
    inbox.put(target, message("a"))
    into: list[dict[str, Any]] = []
    with pytest.raises(ValueError, match=r"^at 2$"):
        (inbox.claim_turn if target == NEXT_TURN else inbox.claim_step)(into)
    assert (ids(into), inbox.waiting()) == (["a"], 0)


@pytest.mark.parametrize("raises_at", [(3,), (4,), (5,), (3, 4, 5)])
def test_no_message_is_lost_when_a_listener_raises_while_they_are_postponed(
    raises_at: tuple[int, ...],
) -> None:
    log = Log(*raises_at)
    inbox = Inbox(log)
    inbox.put(NEXT_STEP, message("a"))
    inbox.put(NEXT_STEP, message("b"))
    with pytest.raises(ValueError, match=f"^at {raises_at[0]}$"):
        inbox.postpone()
    assert (inbox.waiting(NEXT_STEP), len(log.events)) == (0, 5)
    into: list[dict[str, Any]] = []
    while inbox.claim_turn(into):
        pass
    assert ids(into) == ["a", "b"]
