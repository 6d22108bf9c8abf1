"""Streams: what notifications and exports leave out is not a fault."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract
from tests.checking import (
    answer,
    call,
    check,
    event,
    log,
    one_step,
    one_turn,
    prompt,
    result,
    rules,
    step_end,
    step_start,
    turn_end,
    turn_start,
    violations,
)
from tests.paths import DECODED, NOTIFICATIONS, OTLP
from tests.strategies import Event, Events, legal_logs

if TYPE_CHECKING:
    from pathlib import Path

STREAM = SourceKind.STREAM
V0, V4 = Contract.V0, Contract.V4


def contract_of(path: Path) -> Contract:
    """Return the contract of the runtime that a file came from."""
    return V0 if path.name.startswith("old-") else V4


def notified(path: Path) -> dict[str, Events]:
    """Return the events of each session that were notified."""
    found: dict[str, Events] = defaultdict(list)
    for notification in json.loads(path.read_bytes()):
        if notification["method"] == "session.event":
            payload = notification["payload"]
            found[payload["sessionId"]].append(payload["event"])
    return found


def exported(path: Path) -> Events:
    """Return the events of an OTLP export of either form."""
    document = json.loads(path.read_bytes())
    records = [
        record
        for resource in document["resourceLogs"]
        for scope in resource["scopeLogs"]
        if not scope["scope"]["name"].endswith("/ops")
        for record in scope["logRecords"]
    ]
    return [found for record in records if (found := _event(record)) is not None]


def _event(record: Event) -> Event | None:
    attributes = {item["key"]: plain(item["value"]) for item in record["attributes"]}
    if "content" in attributes:
        # Where a note stands for a long text the event is lost.
        content = attributes["content"]
        whole: Event | None = json.loads(content) if content.startswith("{") else None
        return whole
    return {
        "type": attributes["event.type"],
        "seq": int(attributes["event.seq"]),
        "time": int(record["timeUnixNano"]) // 1_000_000,
        "data": plain(record["body"]),
    }


def plain(value: Event) -> Any:
    """Return an OTLP value as a plain one."""
    kind: str
    inner: Any
    kind, inner = next(iter(value.items()), ("", None))
    if kind == "kvlistValue":
        return {item["key"]: plain(item["value"]) for item in inner.get("values", ())}
    if kind == "arrayValue":
        return [plain(item) for item in inner.get("values", ())]
    return int(inner) if kind == "intValue" else inner


class TestReal:
    """What real runtimes told."""

    @pytest.mark.parametrize("path", sorted(NOTIFICATIONS.glob("*.json")), ids=lambda p: p.stem)
    def test_notifications_are_silent(self, path: Path) -> None:
        sessions = notified(path)
        assert sessions
        for id_, events in sessions.items():
            found = check(events, contract_of(path), header={"id": id_}, source=STREAM)
            assert rules(violations(found)) == []

    @pytest.mark.parametrize("path", sorted(OTLP.glob("*.json")), ids=lambda p: p.stem)
    def test_exports_are_silent(self, path: Path) -> None:
        events = exported(path)
        assert len(events) > 15
        found = check(events, contract_of(path), header={"id": "otlp-1"}, source=STREAM)
        # Exports of August leave the fields of the surface out.
        assert set(rules(violations(found))) <= {"surface.marker"}

    @pytest.mark.parametrize("path", sorted(DECODED.glob("[a-z]*.jsonl")), ids=lambda p: p.stem)
    def test_with_any_stretch_left_out_they_are_silent(self, path: Path) -> None:
        header, *events = map(json.loads, path.read_bytes().splitlines())
        if any("seq" not in one for one in events):
            pytest.skip("packed rows")
        for length in (1, 3, 8):
            for place in range(0, len(events), 2):
                rest = events[:place] + events[place + length :]
                found = check(rest, contract_of(path), header=header, source=STREAM)
                assert rules(violations(found)) == [], (place, length)


class TestResume:
    """Sessions that another process goes on with."""

    def insert(self) -> Any:
        data = {
            "target": "next-turn",
            "start": 0,
            "inserted": [{"id": "u", "source": {"kind": "user"}}],
        }
        return event("agent/inbox/spliced", data)

    def test_numbers_that_were_lost_are_used_again(self) -> None:
        """A crash that lost the tail of the log, of which the stream had shown the events."""
        before = log(*one_turn(1), self.insert(), turn_start(2), step_start(2, 1))
        after = log(self.insert(), *one_turn(3), first=6)
        later = [{**one, "time": one["time"] + 1000} for one in after]
        assert check(before + later, V4, header={}, source=STREAM) == []

    def test_the_last_number_too(self) -> None:
        before = log(*one_turn(1), self.insert())
        later = [{**one, "time": one["time"] + 1000} for one in log(self.insert(), first=4)]
        assert check(before + later, V4, header={}, source=STREAM) == []

    def goes_on(self, *between: Any, reason: str = "resume") -> Events:
        """Return a stream whose numbers go on as if nothing had happened while a turn was open."""
        header = {"header": {"config": {"provider": "p", "model": "m"}}, "reason": reason}
        first = event("request/header", {**header, "reason": "initial"})
        before = [*one_turn(1, first), self.insert(), turn_start(2), step_start(2, 1)]
        after = [*between, turn_start(3), step_start(3, 1), event("request/header", header)]
        return log(*before, *after, step_end(3, 1), turn_end(3))

    @pytest.mark.parametrize("reason", ["resume", "initial"])
    def test_as_many_numbers_may_be_lost_as_the_repair_takes(self, reason: str) -> None:
        assert check(self.goes_on(reason=reason), V4, header={}, source=STREAM) == []

    @pytest.mark.parametrize("reason", ["change", "series"])
    def test_only_the_first_request_of_a_process_tells(self, reason: str) -> None:
        found = check(self.goes_on(reason=reason), V4, header={}, source=STREAM)
        assert rules(found) == ["turn.overlap"]

    def test_what_was_sure_before_is_told(self) -> None:
        events = self.goes_on(turn_start(3), step_start(3, 1), step_end(3, 1))
        found = check(events, V4, header={}, source=STREAM)
        assert rules(found)[:1] == ["turn.overlap"]

    def test_an_event_that_is_wrong_by_itself_is_told(self) -> None:
        events = self.goes_on(event("todo/write", {"todos": []}, ignorable=False))
        found = check(events, V4, header={}, source=STREAM)
        assert rules(found) == ["envelope.ignorable"]

    def test_a_turn_that_was_lost_as_a_whole_has_its_number_again(self) -> None:
        later = [{**one, "time": one["time"] + 1000} for one in log(*one_turn(2), first=4)]
        events = log(*one_turn(1), *one_turn(2)) + later
        assert check(events, V4, header={}, source=STREAM) == []

    @pytest.mark.parametrize("kind", ["command/run", "plan/mode", "working-directory/change"])
    def test_a_process_may_begin_with_anything_that_happens_between_turns(self, kind: str) -> None:
        data = {"commandId": "c", "name": "n", "source": {"kind": "user"}, "active": True}
        (later,) = log(event(kind, data), first=3)
        events = [*log(*one_turn(1)), {**later, "time": later["time"] + 1000}]
        assert check(events, V4, header={}, source=STREAM) == []

    def test_in_a_log_it_is_a_fault(self) -> None:
        before = log(*one_turn(1), self.insert())
        later = [{**one, "time": one["time"] + 1000} for one in log(self.insert(), first=4)]
        assert "seq.duplicate" in rules(check(before + later, V4))

    def test_what_is_sent_twice_is_no_resume(self) -> None:
        events = log(*one_turn(1), self.insert())
        found = check([*events, events[-1]], V4, header={}, source=STREAM)
        assert rules(found) == ["seq.duplicate"]

    def test_nor_is_any_other_event_with_a_used_number(self) -> None:
        events = log(turn_start(1), step_start(1, 1), *[event("todo/write", {"todos": []})] * 2)
        events[3] = {**events[3], "seq": 2}
        found = check(events, V4, header={}, source=STREAM)
        assert rules(found) == ["seq.duplicate"]


class TestTransport:
    """What is delivered twice, or out of order."""

    EVENTS: ClassVar = log(
        turn_start(1),
        step_start(1, 1),
        *(prompt(), answer(1, 1, "a", "b"), call(1, 1, "a"), result(1, 1, "a")),
        *(call(1, 1, "b"), result(1, 1, "b"), step_end(1, 1)),
        *one_step(1, 2, answer(1, 2, "a"), call(1, 2, "a"), result(1, 2, "a")),
        turn_end(1),
        *one_turn(2, prompt(), answer(2, 1, "c"), call(2, 1, "c"), result(2, 1, "c")),
        *one_turn(3, prompt(), answer(3, 1)),
    )

    @pytest.mark.parametrize("start", range(0, len(EVENTS), 2))
    def test_what_comes_again_is_one_finding(self, start: int) -> None:
        for length in (1, 2, 4, 9):
            for place in range(start + length, len(self.EVENTS) + 1):
                events = list(self.EVENTS)
                events[place:place] = events[start : start + length]
                found = violations(check(events, V4, header={}, source=STREAM))
                assert len(found) == 1, (length, place)
                assert found[0].rule.startswith("seq.")

    @pytest.mark.parametrize("seq", range(1, len(EVENTS)))
    def test_what_comes_too_early_is_only_out_of_order(self, seq: int) -> None:
        for place in range(seq):
            events = list(self.EVENTS)
            events.insert(place, events.pop(seq))
            found = rules(violations(check(events, V4, header={}, source=STREAM)))
            assert [rule for rule in found if not rule.startswith("seq.")] == [], place


class TestGaps:
    """Events that never arrived."""

    @settings(max_examples=40)
    @given(st.data())
    def test_legal_logs_with_a_gap_are_silent(self, data: st.DataObject) -> None:
        contract = data.draw(st.sampled_from(list(Contract)))
        events = data.draw(legal_logs(contract))
        place = data.draw(st.integers(0, len(events)))
        length = data.draw(st.integers(1, 12))
        rest = events[:place] + events[place + length :]
        assert rules(violations(check(rest, contract, source=STREAM))) == []

    def test_a_fault_in_the_turn_after_is_found(self) -> None:
        events = log(*one_turn(1), *one_turn(2), turn_start(3), turn_start(4))
        found = check(events[:1] + events[3:], V4, header={}, source=STREAM)
        assert rules(found) == ["turn.overlap"]

    def test_chunks_that_are_left_out_hide_no_fault(self) -> None:
        """Exporters of August send the first chunk of a step: that is no gap to forgive."""
        delta = {"type": "text-delta", "index": 0, "text": "x"}
        chunk = event("assistant/chunk", {"turn": 1, "step": 1, "chunk": delta})
        events = log(turn_start(1), step_start(1, 1), chunk)
        message = event("assistant/message", {"turn": 1, "step": 1, "content": []})
        tail = log(message, step_start(1, 2), first=11)
        found = check([*events, *tail], V0, header={}, source=STREAM)
        assert "step.overlap" in rules(found)


def header_of(version: int) -> Event:
    seeded = {"isSeeded": False} if version else {}
    about = {"createdAt": 1, "delegationDepth": 0, **seeded}
    return {"type": "session", "version": version, "id": "s-1", **about}


def goal(operation: str, revision: int, phase: str) -> Any:
    facts = {"id": "g", "revision": revision, "objective": "w", "phase": phase, "maxGoalRounds": 3}
    about = {"kind": "goal/change", "version": 1, "operation": operation, "goal": facts}
    return event("goal/change", {**about, "roundsStarted": 0, "createdAt": 10, "updatedAt": 10})


def task(revision: int) -> Any:
    facts = {"id": "task-1", "revision": revision, "subject": "s", "description": "d"}
    lists = {"status": "pending", "blockedBy": [], "writeScopes": []}
    return event("team/task", {"version": 1, "teamId": "s-1", "task": {**facts, **lists}})


def spliced(**data: Any) -> Any:
    whole = {"target": "next-turn", "start": 0, "inserted": [], **data}
    return event("agent/inbox/spliced", whole)


MESSAGE = {"id": "m", "role": "user", "source": {"kind": "user"}, "content": [{"type": "text"}]}
RETRY = {"retryId": "r", "turn": 1, "step": 1, "provider": "p", "mode": "always", "policyKey": "k"}
HEADER = {"header": {"config": {"provider": "p", "model": "m"}}, "reason": "initial"}
FAILURE = {"message": "m", "code": "c"}
HOOK = {"turn": 1, "point": "Stop", "handlerId": "h"}
PAIRS: dict[str, tuple[Any, Any]] = {
    "a header before a retry": (
        event("request/header", HEADER),
        event("llm/retry", {**RETRY, "retry": 1, "delayMs": 1, "failure": FAILURE}),
    ),
    "a goal before it changes": (goal("create", 1, "active"), goal("pause", 2, "paused")),
    "a command before it is done": (
        event("command/run", {"commandId": "c", "name": "n", "source": {"kind": "user"}}),
        event("command/done", {"commandId": "c", "kind": "success"}),
    ),
    "a message before it is claimed": (spliced(inserted=[MESSAGE]), spliced(removedCount=1)),
    "a task before it changes": (task(1), task(2)),
    "a run before it ends": (
        event("tool-workflow/run-start", {"runId": "r", "name": "n"}),
        event("tool-workflow/run-end", {"runId": "r", "stopReason": "completed"}),
    ),
    "a question before its answer": (
        event("approval/asked", {"id": "a", "toolName": "t"}),
        event("approval/decided", {"id": "a", "outcome": "cancelled"}),
    ),
    "a hook before its result": (
        event("hook/invoked", {**HOOK, "dialect": "codex"}),
        event("hook/result", {**HOOK, "decision": "x", "durationMs": 1}),
    ),
}
"""What refers to what came before it."""


class TestOneLost:
    """A stream that lacks one event, of whatever generation."""

    @pytest.mark.parametrize("version", [0, 3, 4])
    @pytest.mark.parametrize("pair", PAIRS)
    def test_what_refers_to_it_is_no_fault(self, pair: str, version: int) -> None:
        first, second = PAIRS[pair]
        contract = V4 if version == 4 else Contract.V0
        if first[0] == "team/task":
            # Records of teams have a version of their own.
            number = {0: 1, 3: 1, 4: 2}[version]
            first, second = ((k, {**data, "version": number}, e) for k, data, e in (first, second))
        same_step = [turn_start(1), step_start(1, 1), first, second, step_end(1, 1), turn_end(1)]
        later = [*same_step[:3], *same_step[4:], turn_start(2), second, turn_end(2)]
        for items in (same_step, later):
            events = log(*items)
            told = [one for one in events if one["seq"] != 2]
            found = check(told, contract, header=header_of(version), source=STREAM)
            assert rules(violations(found)) == []

    def test_nor_are_pieces_of_a_second_answer(self) -> None:
        blocks = [
            {"type": "block-start", "index": 0, "blockType": "text"},
            {"type": "text-delta", "index": 0, "text": "x"},
            {"type": "block-end", "index": 0, "block": {"type": "text", "text": "x"}},
            {"type": "finish", "reason": {"kind": "stop"}},
        ]
        chunks = [
            event("assistant/chunk", {"turn": 1, "step": 1, "chunk": chunk})
            for chunk in (*blocks, *blocks)
        ]
        events = log(turn_start(1), step_start(1, 1), *chunks, step_end(1, 1), turn_end(1))
        for length in (1, 2, 3):
            for place in range(1, len(events)):
                told = events[:place] + events[place + length :]
                found = check(told, Contract.V0, header=header_of(0), source=STREAM)
                assert rules(violations(found)) == [], (place, length)

    def test_an_answer_after_which_a_question_comes_again(self) -> None:
        asked = event("approval/asked", {"id": "a", "toolName": "t"})
        decided = event("approval/decided", {"id": "a", "outcome": "cancelled"})
        turns = [[turn_start(turn), asked, decided, turn_end(turn)] for turn in (1, 2)]
        told = [one for one in log(*turns[0], *turns[1]) if one["seq"] != 2]
        assert rules(violations(check(told, V4, header={}, source=STREAM))) == []


class TestAgain:
    """What is told again, where it could do most harm."""

    @pytest.mark.parametrize("start", range(4))
    def test_before_a_crash_whose_repair_is_not_told(self, start: int) -> None:
        before = [turn_start(1), step_start(1, 1), prompt(), answer(1, 1), step_end(1, 1)]
        repair = [turn_end(1, "interrupted"), event("session/end-seed")]
        events = log(*before, *repair, *one_turn(2))
        told = [*events[:5], *events[start:5], *events[7:]]
        found = violations(check(told, V4, header={}, source=STREAM))
        assert rules(found) == ["seq.regressed"]

    @pytest.mark.parametrize("source", [SourceKind.LOG, STREAM])
    @pytest.mark.parametrize("place", [3, 4, 5])
    def test_inside_an_answer(self, place: int, source: SourceKind) -> None:
        chunks = [
            event("assistant/chunk", {"turn": 1, "step": 1, "chunk": chunk})
            for chunk in (
                {"type": "block-start", "index": 0, "blockType": "text"},
                {"type": "text-delta", "index": 0, "text": "x"},
                {"type": "text-delta", "index": 0, "text": "y"},
                {"type": "block-end", "index": 0, "block": {"type": "text", "text": "xy"}},
                {"type": "finish", "reason": {"kind": "stop"}},
            )
        ]
        events = log(turn_start(1), step_start(1, 1), *chunks, step_end(1, 1), turn_end(1))
        for start in (0, 1):
            told = events[:place] + events[start:2] + events[place:]
            found = check(told, Contract.V0, header=header_of(0), source=source)
            assert len(violations(found)) == 1, start

    def test_from_its_beginning(self) -> None:
        first = event("request/header", HEADER)
        events = log(*one_turn(1, first, prompt(), answer(1, 1)), *one_turn(2))
        found = violations(check([*events, *events], V4, header={}, source=STREAM))
        assert rules(found) == ["seq.regressed"]
