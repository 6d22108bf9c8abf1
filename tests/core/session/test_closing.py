"""Closing what a log has left open, and forks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_core.events import Contract, SessionHeader
from dsh_core.session import Entry, Session
from dsh_core.session.closing import closed, closers, forked, open_place, result_message
from tests.core.session.real import (
    REAL,
    TIME,
    clock,
    entries_of,
    log,
    rows_of,
    types,
    violations,
)
from tests.strategies import arbitrary_events, legal_logs, to_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PLACE = {"turn": 1, "step": 1}


def answer(*ids: str) -> tuple[str, dict[str, Any], str]:
    content = [{"type": "tool-call", "id": id_, "name": "t", "arguments": "{}"} for id_ in ids]
    return ("assistant/message", {**PLACE, "message": {"content": content}}, "append")


def call(id_: str) -> tuple[str, dict[str, Any]]:
    return ("tool/call", {**PLACE, "callId": id_, "name": "t", "arguments": "{}"})


def result(id_: str) -> tuple[str, dict[str, Any], str]:
    return (
        "tool/result",
        {**PLACE, "message": result_message("r", id_, [], failed=False)},
        "append",
    )


START = ("turn/start", {"turn": 1})
END = ("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
STEP = ("step/start", PLACE)
STEP_END = ("step/end", PLACE)


@pytest.mark.parametrize(
    ("events", "place"),
    [
        ((), (None, None)),
        ((("x", {}),), (None, None)),
        ((START,), (1, None)),
        ((START, STEP), (1, 1)),
        ((START, STEP, STEP_END), (1, None)),
        ((START, STEP, STEP_END, ("step/start", {"turn": 1, "step": 2})), (1, 2)),
        ((START, STEP, END), (None, None)),
        ((START, STEP, STEP_END, END), (None, None)),
        ((START, END, ("turn/start", {"turn": 2})), (2, None)),
        # An end counts only for what it names.
        ((START, STEP, ("turn/end", {"turn": 9})), (1, 1)),
        ((START, STEP, ("step/end", {"turn": 1, "step": 9})), (1, 1)),
        ((START, STEP, ("step/end", {"turn": 9, "step": 1})), (1, 1)),
    ],
)
def test_what_is_open_is_the_last_start_without_an_end(
    events: Sequence[Any], place: tuple[int | None, int | None]
) -> None:
    assert open_place(log(*events)) == place


def test_nothing_closes_a_log_in_which_nothing_is_open() -> None:
    assert closers(log(), "interrupted") == []
    assert closers(log(START, STEP, STEP_END, END), "interrupted") == []


def test_a_turn_without_a_step_is_closed_by_its_end_alone() -> None:
    assert closers(log(START), "interrupted") == [
        ("turn/end", {"turn": 1, "reason": {"kind": "interrupted"}}, None, None)
    ]


def test_an_open_step_is_closed_before_its_turn() -> None:
    assert [one.type for one in closers(log(START, STEP), "forked")] == ["step/end", "turn/end"]


def test_a_call_that_was_started_gets_a_result_of_unknown_outcome_that_cites_it() -> None:
    found = closers(log(START, STEP, answer("c"), call("c")), "interrupted")[0]
    assert found == (
        "tool/result",
        {
            "turn": 1,
            "step": 1,
            "message": {
                "id": "interrupted-tool-result-c-4",
                "role": "tool",
                "toolCallId": "c",
                "source": {"kind": "tool", "callId": "c"},
                "content": [
                    {
                        "type": "text",
                        "text": "Error: the tool was started, and its outcome is not known",
                    }
                ],
                "isError": True,
            },
            "error": {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"},
        },
        [3],
        "append",
    )


def test_a_call_that_was_not_started_gets_a_result_that_says_so_and_cites_nothing() -> None:
    found = closers(log(START, STEP, answer("c")), "forked")[0]
    assert found.data["error"] == {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}
    assert found.data["message"]["id"] == "forked-tool-result-c-3"
    assert (found.sources, found.surface_op) == (None, "append")


def test_the_text_of_a_call_that_was_not_started_is_the_one_that_the_runtime_insists_on() -> None:
    found = closers(log(START, STEP, answer("c")), "interrupted")[0]
    text = (
        "The tool call was interrupted before the Harness recorded it as started. "
        "Retry it if it is still needed."
    )
    assert found.data["message"]["content"] == [{"type": "text", "text": text}]


def test_missing_results_come_in_the_order_of_the_answer_and_have_the_next_seqs() -> None:
    entries = log(START, STEP, answer("a", "b", "c"), call("c"), call("b"), result("b"))
    assert [
        one.data["message"]["id"] for one in closers(entries, "interrupted") if one.surface_op
    ] == ["interrupted-tool-result-a-6", "interrupted-tool-result-c-7"]


def test_calls_of_earlier_steps_get_none() -> None:
    entries = log(START, STEP, answer("a"), STEP_END, ("step/start", {"turn": 1, "step": 2}))
    assert [one.type for one in closers(entries, "interrupted")] == ["step/end", "turn/end"]


def test_a_call_advertised_again_while_it_runs_is_still_a_started_one() -> None:
    found = closers(log(START, STEP, answer("c"), call("c"), answer("c")), "interrupted")[0]
    assert found.sources == [3]


def test_the_turn_may_end_for_another_reason() -> None:
    reason = {"kind": "aborted", "reason": {"kind": "user"}}
    assert closers(log(START), "interrupted", reason)[-1].data == {"turn": 1, "reason": reason}


def test_a_closed_log_goes_on_with_the_next_seqs_at_the_time_of_its_last_event() -> None:
    entries = log(START, STEP, answer("c"), call("c"))
    found = closed(entries, "interrupted")
    assert found[:4] == entries
    assert types(found[4:]) == ["tool/result", "step/end", "turn/end"]
    assert [(entry.seq, entry.time) for entry in found[4:]] == [(k, TIME + 3) for k in (4, 5, 6)]
    assert (found[4].source_event_seqs, found[4].surface_op) == ([3], "append")
    assert found[5].row == (
        b'{"type":"step/end","seq":5,"time":1790000000003,"data":{"turn":1,"step":1}}'
    )


def test_closing_leaves_the_log_that_it_was_given_as_it_is() -> None:
    entries = log(START)
    closed(entries, "interrupted")
    assert types(entries) == ["turn/start"]


def test_a_closed_empty_log_is_empty() -> None:
    assert closed([], "interrupted") == []


def test_a_fork_begins_with_all_of_its_parent_closed_and_a_mark() -> None:
    parent = Session("s-1", log(START, STEP), clock=clock)
    found = forked(parent, TIME + 50)
    assert types(found) == ["turn/start", "step/start", "step/end", "turn/end", "session/end-seed"]
    assert found[3].data == {"turn": 1, "reason": {"kind": "forked"}}
    assert found[4] == Entry("session/end-seed", 4, TIME + 50, {"inherited": True})
    assert parent.seq == 2


def test_the_mark_of_a_fork_is_never_older_than_what_it_ends() -> None:
    parent = Session("s-1", log(START), clock=clock)
    assert forked(parent, 5)[-1].time == TIME


def test_a_fork_of_an_empty_session_is_a_mark() -> None:
    assert forked(Session("s-1", clock=clock), 5) == [
        Entry("session/end-seed", 0, 5, {"inherited": True})
    ]


# Whatever was logged before, and wherever it was cut.


@dataclass
class Cut:
    header: SessionHeader
    entries: list[Entry]

    def fork(self) -> tuple[SessionHeader, list[Entry]]:
        parent = Session(self.header.id, self.entries, header=self.header, clock=clock)
        header = SessionHeader(
            id="s-2", version=4, created_at=TIME, parent_session=parent.id, is_seeded=True
        )
        return header, forked(parent, clock())

    def interrupt(self) -> tuple[SessionHeader, list[Entry]]:
        found = closed(self.entries, "interrupted")
        time = found[-1].time if found else TIME
        return self.header, [*found, Entry("session/end-seed", len(found), time, {})]


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_a_fork_at_any_event_of_a_real_log_keeps_the_contract(path: Path) -> None:
    header, rows = rows_of(path)
    entries = entries_of(rows)
    assert violations(header, entries) == []
    for size in range(len(entries) + 1):
        assert violations(*Cut(header, entries[:size]).fork()) == [], size


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_a_real_log_that_was_interrupted_at_any_event_keeps_the_contract(path: Path) -> None:
    header, rows = rows_of(path)
    entries = entries_of(rows)
    for size in range(len(entries) + 1):
        assert violations(*Cut(header, entries[:size]).interrupt()) == [], size


@given(legal_logs(Contract.V4), st.data())
@settings(max_examples=40)
def test_a_random_log_cut_anywhere_keeps_the_contract_forked_or_interrupted(
    events: list[dict[str, Any]], data: st.DataObject
) -> None:
    entries = entries_of(map(to_line, events))
    size = data.draw(st.integers(0, len(entries)))
    header = SessionHeader(id="s-1", version=4, created_at=TIME, cwd="/w")
    # A log that was cut in the middle of a crash's repair is what it is.
    if violations(header, entries[:size]):
        return
    cut = Cut(header, entries[:size])
    assert violations(*cut.fork()) == []
    assert violations(*cut.interrupt()) == []


@given(arbitrary_events())
def test_whatever_was_logged_closing_never_raises(events: list[dict[str, Any]]) -> None:
    entries = [
        Entry(str(event.get("type")), seq, TIME, event.get("data"))
        for seq, event in enumerate(events)
    ]
    for found in (closed(entries, "interrupted"), forked(Session("s", entries), TIME)):
        assert found[: len(entries)] == entries
        assert open_place(found) == (None, None)
        assert [entry.seq for entry in found] == list(range(len(found)))


@pytest.mark.parametrize("data", [None, [], {}, {"turn": "1"}, {"turn": True}, {"message": 5}])
@pytest.mark.parametrize("kind", ["turn/end", "step/end", "assistant/message", "tool/result"])
def test_a_payload_of_another_shape_closes_nothing(kind: str, data: Any) -> None:
    assert open_place(log(START, STEP, (kind, data))) == (1, 1)
    assert len(closers(log(START, STEP, (kind, data)), "interrupted")) == 2


def test_entries_are_shared_with_the_parent_not_copied() -> None:
    parent = Session("s-1", log(START, END), clock=clock)
    assert forked(parent, TIME)[0] is parent.events[0]
    assert msgspec.UNSET is forked(parent, TIME)[-1].surface_op
