"""How long a turn's first message has queued."""

from __future__ import annotations

from typing import Any

from dsh_core.events import UNREADABLE, InboxSpliced
from dsh_otel.inbox import MAX_QUEUED, Inbox
from tests.otel.support import (
    NS_PER_MS,
    T0,
    Script,
    attributes,
    event,
    named,
    only,
    session_log,
    trace,
    trace_log,
)


def splice(after_ms: int, start: int = 0, target: str = "next-turn", **data: Any) -> InboxSpliced:
    made = event("agent/inbox/spliced", 0, T0 + after_ms, target=target, start=start, **data)
    assert isinstance(made, InboxSpliced)
    return made


def insert(after_ms: int, count: int = 1, **data: Any) -> InboxSpliced:
    messages = [{"id": f"m{number}"} for number in range(count)]
    return splice(after_ms, inserted=messages, **data)


def claim(after_ms: int, count: int = 1, **data: Any) -> InboxSpliced:
    return splice(after_ms, removedCount=count, inserted=[], **data)


def take(inbox: Inbox, one: InboxSpliced) -> float | None:
    return inbox.splice(one, one.time * NS_PER_MS)


def waits(*events: InboxSpliced) -> list[float | None]:
    inbox = Inbox()
    return [take(inbox, one) for one in events]


def test_a_claimed_message_has_waited_since_it_was_inserted() -> None:
    assert waits(insert(0), claim(1500)) == [None, 1.5]


def test_the_first_of_several_claimed_messages_counts() -> None:
    assert waits(insert(0), insert(100, start=1), claim(300, 2)) == [None, None, 0.3]


def test_a_message_in_front_of_others_keeps_its_own_time() -> None:
    assert waits(insert(0), insert(100), claim(300), claim(300)) == [None, None, 0.2, 0.3]


def test_a_cancelled_message_was_not_claimed() -> None:
    assert waits(insert(0), claim(5, outcome="canceled"), claim(9)) == [None, None, None]


def test_lists_are_kept_apart() -> None:
    found = waits(insert(0), insert(10, target="next-step"), claim(30, target="next-step"))
    assert found == [None, None, 0.02]


def test_a_claim_from_an_empty_list_has_not_waited() -> None:
    assert waits(claim(10)) == [None]


def test_positions_beyond_the_list_are_moved_into_it() -> None:
    assert waits(insert(0, start=-5), insert(10, start=99), claim(20, start=-1)) == [
        None,
        None,
        0.02,
    ]


def test_a_clock_that_steps_back_gives_no_negative_wait() -> None:
    assert waits(insert(100), claim(0)) == [None, 0.0]


def test_a_queue_has_an_end() -> None:
    inbox = Inbox()
    take(inbox, insert(0, MAX_QUEUED))
    take(inbox, insert(0, 5))
    assert sum(map(len, inbox._lists.values())) == MAX_QUEUED


def test_lists_without_end_are_forgotten() -> None:
    inbox = Inbox()
    for number in range(100):
        take(inbox, insert(0, target=f"list-{number}"))
    assert len(inbox._lists) < 10


def test_the_wait_stands_on_the_turn_that_the_message_starts() -> None:
    turns = named(trace_log(session_log("queued-prompts")), "invoke_agent")
    assert [attributes(turn)["dsh.queue.wait"] for turn in turns] == [0.002, 1.584, 1.621]


def test_only_the_first_claim_of_a_turn_counts() -> None:
    script = Script()
    message: dict[str, Any] = {"target": "next-turn", "start": 0, "inserted": [{"id": "m"}]}
    script.add("agent/inbox/spliced", **message)
    script.turn_start()
    script.add("agent/inbox/spliced", target="next-turn", start=0, removedCount=1)
    script.add("agent/inbox/spliced", **message)
    script.add("agent/inbox/spliced", 500, target="next-turn", start=0, removedCount=1)
    turn = only(trace(script.events), "invoke_agent")
    assert attributes(turn)["dsh.queue.wait"] == 0.02


def test_a_message_without_a_readable_time_waits_from_the_event_before() -> None:
    script = Script()
    script.add("sandbox/mode")
    inserted: dict[str, Any] = {"target": "next-turn", "start": 0, "inserted": [{"id": "m"}]}
    script.add("agent/inbox/spliced", **inserted).time = UNREADABLE
    script.turn_start()
    script.add("agent/inbox/spliced", target="next-turn", start=0, removedCount=1)
    turn = only(trace(script.events), "invoke_agent")
    assert attributes(turn)["dsh.queue.wait"] == 0.03
