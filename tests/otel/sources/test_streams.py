"""Streams of notifications give the trees that the logs give, as far as they can know."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.trace import SpanContext, TraceFlags

from dsh_core.events import Contract
from dsh_otel.names import Attr
from dsh_otel.sources.durable import DurableLog
from dsh_otel.sources.session import MAX_PENDING
from dsh_otel.sources.told import Answered, Asked, Ended, told
from tests.otel.sources.driving import (
    RECORDED,
    Notification,
    Shown,
    Stream,
    findings,
    home,
    notifications,
    offline,
    shown,
)
from tests.otel.support import attributes, ids, named, only
from tests.strategies import legal_logs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

CALLER: Final = SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(1))
OTHER: Final = SpanContext(0x123, 0x456, is_remote=False, trace_flags=TraceFlags(1))
FORMATS: Final = {"old-0.1.1rc1--mixed": 0, "old-0.1.2rc1--otlp": 0}
UNKNOWN: Final = {
    # The repair of a crash is never told: a turn that it closes stays open until the next one.
    "crash": {
        "execute_tool bash": 1,
        # The result of a call that never began.
        "execute_tool unknown": 1,
        "dsh.step": 1,
        "invoke_agent dsh": 1,
    },
    "crash-stream": {"chat deepseek-v4-flash": 1, "dsh.step": 1, "invoke_agent dsh": 1},
}
"""How many spans of a name differ, by recording, where no log can be read."""


def told_by(name: str) -> list[Notification]:
    return notifications(name)


def follow(name: str, root: Path | None, **options: Any) -> tuple[Stream, list[ReadableSpan]]:
    stream = Stream(root, format=FORMATS.get(name, 4), options=options)
    return stream, stream.run(told_by(name))


def logs_of(name: str) -> Path:
    return home(name) / "sessions"


def without_lines(found: Iterable[ReadableSpan]) -> Any:
    """Return all there is to spans, but for the lines of findings, which a stream has not."""
    spans = shown(found)
    for *_, events, _links in spans.values():
        for _, _, values in events:  # type: ignore[attr-defined]
            values.pop("line", None)
    return spans


def is_part(some: Shown, others: Shown) -> bool:
    """Whether spans are, as they are, among others."""
    return all(others.get(one) == what for one, what in some.items())


class TestRecorded:
    """What real runtimes have told."""

    @pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
    @pytest.mark.parametrize("content", [False, True])
    def test_with_the_log_at_hand_the_tree_is_that_of_the_log(
        self, path: Path, content: bool
    ) -> None:
        from dsh_otel.clean import Privacy

        _, spans = follow(path.stem, logs_of(path.stem), content=content)
        expected = offline(home(path.stem), privacy=Privacy(content=content))
        assert without_lines(spans) == without_lines(expected)

    @pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
    def test_without_it_only_what_was_never_told_differs(self, path: Path) -> None:
        _, spans = follow(path.stem, None)
        mine, theirs = without_lines(spans), without_lines(offline(home(path.stem)))
        assert set(mine) <= set(theirs)
        different: dict[str, int] = {}
        for one, what in theirs.items():
            if mine.get(one) != what:
                different[what[0]] = different.get(what[0], 0) + 1
        assert different == UNKNOWN.get(path.stem, {})

    @pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
    @pytest.mark.parametrize("known", [True, False])
    def test_nothing_is_found_that_the_log_does_not_have(self, path: Path, known: bool) -> None:
        _, spans = follow(path.stem, logs_of(path.stem) if known else None)
        severities = {found["severity"] for found in findings(spans)}  # type: ignore[index]
        assert severities <= {"advice"}

    def test_any_stretch_that_is_dropped_is_filled_in(self) -> None:
        lossy: dict[str, Any] = {"lossy": lambda: True}
        every = told_by("subagent")
        expected = shown(offline(home("subagent")))
        for start in range(0, len(every), 4):
            stream = Stream(logs_of("subagent"), options=lossy)
            stream.run(every[:start] + every[start + 7 :])
            assert shown(stream.spans) == expected, start


class Growing:
    """A log that a runtime is writing, and what it tells."""

    def __init__(self, folder: Path, name: str) -> None:
        self.root = folder / "sessions"
        (log,) = logs_of(name).rglob("session*")
        self._lines = (
            (home(name).parent.parent / "decoded" / f"{name}.jsonl")
            .read_text("utf-8")
            .splitlines(keepends=True)
        )
        self.path = self.root / log.parent.parent.name / log.parent.name / "session.v4.jsonl"

    def write(self, count: int) -> None:
        """Write the header and so many events."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("".join(self._lines[: count + 1]), "utf-8")

    @property
    def events(self) -> list[Any]:
        return [json.loads(line) for line in self._lines[1:]]


def event(stream: Stream, one: Any, session_id: str = "crash-1") -> None:
    stream.tell(told(stream.process, session_id, one))


class TestWaiting:
    """What is not there yet is waited for, within bounds."""

    def test_nothing_is_placed_before_the_header_can_be_read(self, tmp_path: Path) -> None:
        log, stream = Growing(tmp_path, "text"), Stream(tmp_path / "sessions")
        stream.tell(*told_by("text"))
        stream.pass_time(1.5)
        assert stream.spans == []
        log.write(3)
        stream.pass_time(0.5)
        assert shown(stream.spans) == shown(offline(home("text")))

    def test_a_log_that_never_comes_is_given_up(self, tmp_path: Path) -> None:
        stream = Stream(tmp_path / "sessions")
        stream.tell(*told_by("text"))
        stream.pass_time(1.9)
        assert stream.spans == []
        stream.pass_time(0.2)
        assert [span.name for span in stream.spans][-1] == "invoke_agent dsh"

    def test_a_gap_is_waited_for_and_what_comes_meanwhile_waits_too(self, tmp_path: Path) -> None:
        log, stream = Growing(tmp_path, "crash"), Stream(tmp_path / "sessions")
        log.write(17)
        for one in log.events[:17]:
            event(stream, one)
        for one in log.events[22:]:
            event(stream, one)
        stream.pass_time(1)
        assert named(stream.spans, "invoke_agent") == []
        log.write(20)
        stream.pass_time(0.5)
        assert named(stream.spans, "invoke_agent") == []
        log.write(22)
        stream.pass_time(0.5)
        assert shown(stream.spans) == shown(offline(home("crash")))
        assert stream.sessions.counts == {"filled": 5, "missing": 0}

    def test_what_stays_away_stays_a_gap(self, tmp_path: Path) -> None:
        log, stream = Growing(tmp_path, "crash"), Stream(tmp_path / "sessions")
        log.write(19)
        for one in [*log.events[:17], *log.events[22:]]:
            event(stream, one)
        stream.pass_time(5)
        assert stream.sessions.counts == {"filled": 2, "missing": 3}
        first, second = named(stream.spans, "invoke_agent")
        assert attributes(first)[Attr.UNCLOSED] is True
        assert Attr.UNCLOSED not in attributes(second)
        assert findings(stream.spans) == []

    def test_a_log_that_goes_on_in_another_way_fills_nothing(self, tmp_path: Path) -> None:
        """After a crash it lacks what was told last, and its numbers are used again."""
        log, stream = Growing(tmp_path, "crash"), Stream(tmp_path / "sessions")
        log.write(22)
        lost = {**log.events[16], "time": log.events[16]["time"] - 1}
        for one in [*log.events[:16], lost, *log.events[22:]]:
            event(stream, one)
        stream.pass_time(5)
        assert stream.sessions.counts == {"filled": 0, "missing": 5}
        assert findings(stream.spans) == []

    def test_no_more_wait_for_it_than_there_is_room_for(self, tmp_path: Path) -> None:
        stream = Stream(tmp_path / "sessions")
        for seq in range(MAX_PENDING):
            event(stream, {"type": "x/y", "seq": seq, "time": 1, "data": {}})
        assert stream.sessions.waiting
        event(stream, {"type": "x/y", "seq": MAX_PENDING, "time": 1, "data": {}})
        assert not stream.sessions.waiting

    def test_the_log_is_read_only_when_it_has_changed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log, stream = Growing(tmp_path, "crash"), Stream(tmp_path / "sessions")
        log.write(17)
        reads: list[int] = []
        read = DurableLog.events

        def counted(self: DurableLog, first: int, end: int | None) -> Any:
            reads.append(first)
            return read(self, first, end)

        monkeypatch.setattr(DurableLog, "events", counted)
        for one in [*log.events[:17], *log.events[22:]]:
            event(stream, one)
        stream.pass_time(5)
        assert reads == [16]


class TestEnds:
    """What the end of a runtime leaves to be read."""

    def test_what_was_never_told_is_read_from_the_log(self) -> None:
        stream = Stream(logs_of("text"))
        stream.tell(*[one for one in told_by("text") if one["method"] == "session.event"][:14])
        stream.pass_time(5)
        assert stream.spans == []
        stream.tell(Ended(stream.process))
        assert shown(stream.spans) == shown(offline(home("text")))

    def test_nothing_is_waited_for_any_more(self, tmp_path: Path) -> None:
        stream = Stream(tmp_path / "sessions")
        stream.tell(*told_by("text"), Ended(stream.process))
        assert len(stream.spans) == 3

    def test_logs_of_sessions_that_are_at_rest_are_not_read_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stream = Stream(logs_of("text"))
        stream.tell(*told_by("text"))
        stream.pass_time(5)
        monkeypatch.setattr(DurableLog, "events", lambda *_: pytest.fail("it was read"))
        stream.tell(Ended(stream.process))
        stream.sessions.close()
        assert len(stream.spans) == 3

    def test_other_processes_go_on(self) -> None:
        stream = Stream(logs_of("text"))
        first = stream.process
        stream.restart()
        stream.tell(*told_by("text")[:10], Ended(first))
        stream.pass_time(5)
        assert stream.spans == []

    def test_a_turn_that_a_crash_left_open_is_closed_by_whoever_goes_on(
        self, tmp_path: Path
    ) -> None:
        log, stream = Growing(tmp_path, "crash"), Stream(tmp_path / "sessions")
        log.write(17)
        for one in log.events[:17]:
            event(stream, one)
        stream.tell(Ended(stream.process))
        stream.pass_time(9)
        assert named(stream.spans, "invoke_agent") == []
        log.write(22)
        stream.restart()
        for one in log.events[22:]:
            event(stream, one)
        stream.pass_time(5)
        assert shown(stream.spans) == shown(offline(home("crash")))

    def test_if_nobody_does_it_ends_and_is_not_traced_again(self) -> None:
        stream = Stream(logs_of("crash"))
        every = told_by("crash")
        crash = next(n for n, one in enumerate(every) if _seq(one) == 22)
        before = Stream(home("crash.before-resume") / "sessions")
        before.tell(*every[:crash], Ended(before.process))
        before.pass_time(11)
        (turn,) = named(before.spans, "invoke_agent")
        assert attributes(turn)[Attr.UNCLOSED] is True
        assert not before.sessions.waiting
        stream.sessions._forgotten[stream.root, "crash-1"] = 17
        stream.tell(*every[crash:])
        stream.pass_time(5)
        stream.sessions.close()
        (turn,) = named(stream.spans, "invoke_agent")
        assert attributes(turn)[Attr.TURN] == 2


def _seq(one: Notification) -> int:
    seq: int = one["payload"].get("event", {}).get("seq", -1)
    return seq


class TestPast:
    """Sessions that were there before the process that is listened to."""

    def resumed(self, name: str, first: int, **options: Any) -> list[ReadableSpan]:
        """Return the spans of a process that goes on with a session from a number on."""
        later = [one for one in told_by(name) if _seq(one) >= first]
        stream = Stream(logs_of(name), since=2**53, **options)
        stream.run(later)
        return stream.spans

    def test_turns_of_the_past_are_not_traced_again(self) -> None:
        spans = self.resumed("multi-turn", 17)
        expected = shown(offline(home("multi-turn")))
        assert len(named(spans, "invoke_agent")) == 2
        assert is_part(shown(spans), expected)

    def test_a_turn_that_the_resume_has_closed_is_traced(self) -> None:
        assert shown(self.resumed("crash", 22)) == shown(offline(home("crash")))

    def test_so_is_a_turn_in_which_it_is_met(self) -> None:
        spans = self.resumed("multi-turn", 22)
        expected = shown(offline(home("multi-turn")))
        assert len(named(spans, "invoke_agent")) == 2
        assert is_part(shown(spans), expected)

    def test_without_the_log_it_begins_where_it_is_met(self) -> None:
        later = [one for one in told_by("multi-turn") if _seq(one) >= 17]
        spans = Stream().run(later)
        assert len(named(spans, "invoke_agent")) == 2
        assert set(shown(spans)) <= set(shown(offline(home("multi-turn"))))

    def test_a_session_that_had_to_go_goes_on_where_it_was(self) -> None:
        stream = Stream(logs_of("multi-turn"), max_sessions=2)
        every = told_by("multi-turn")
        half = next(n for n, one in enumerate(every) if _seq(one) == 19)
        stream.tell(*every[:half])
        stream.pass_time(5)
        for name in ("a", "b", "c"):
            stream.tell(_idle(name))
        assert stream.sessions.counts["forgotten"] >= 2
        stream.tell(*every[half:])
        stream.pass_time(5)
        stream.sessions.close()
        names = [ids(span) for span in stream.spans]
        turns = named(offline(home("multi-turn")), "invoke_agent")
        assert [names.count(ids(turn)) for turn in turns] == [1, 1, 1]


def _idle(session_id: str) -> Notification:
    return {"method": "session.status", "payload": {"sessionId": session_id, "status": "idle"}}


class TestRestarts:
    """Numbers that are used again."""

    def test_another_process_goes_on_where_a_log_was_cut(self) -> None:
        stream = Stream()
        every = [one for one in told_by("multi-turn") if _seq(one) >= 0]
        again = [_later(one) for one in every[17:]]
        spans = stream.run([*every[:21], *again])
        assert findings(spans) == []
        assert len(named(spans, "invoke_agent")) == 4


def _later(one: Notification) -> Notification:
    payload = one["payload"]
    event = {**payload["event"], "time": payload["event"]["time"] + 10_000}
    return {**one, "payload": {**payload, "event": event}}


class TestCallers:
    """The spans of the program that stand behind turns."""

    def run(
        self, name: str, *callers: SpanContext | None, as_parent: bool = False
    ) -> dict[int, list[Any]]:
        """Tell a recording whose prompts have callers; return the links of turns by number."""
        stream = Stream(options={"as_parent": as_parent})
        waiting = list(callers)
        for one in told_by(name):
            event = one["payload"].get("event", {})
            inserted = event.get("data", {}).get("inserted", ()) if event else ()
            for message in inserted:
                if waiting and message["source"]["kind"] == "user":
                    session_id, token = one["payload"]["sessionId"], object()
                    stream.tell(Asked(stream.process, session_id, token, waiting.pop(0)))
                    stream.tell(one)
                    stream.tell(Answered(stream.process, session_id, token, message["id"]))
                    break
            else:
                stream.tell(one)
        stream.pass_time(5)
        stream.sessions.close()
        self.spans = stream.spans
        session = _session_of(told_by(name)[0])
        return {
            attributes(turn)[Attr.TURN]: [link.context for link in turn.links]
            for turn in named(stream.spans, "invoke_agent")
            if attributes(turn)[Attr.CONVERSATION] == session
        }

    def test_each_turn_has_the_caller_of_the_message_that_it_takes(self) -> None:
        links = self.run("queued-prompts", CALLER, None, OTHER)
        assert links == {1: [CALLER], 2: [], 3: [OTHER]}

    def test_what_starts_by_itself_after_the_run_has_none(self) -> None:
        assert self.run("background-bash", CALLER) == {1: [CALLER], 2: []}

    def test_children_have_that_of_who_started_them(self) -> None:
        assert self.run("subagent", CALLER) == {1: [CALLER], 2: []}
        turns = named(self.spans, "invoke_agent")
        (child,) = [turn for turn in turns if attributes(turn).get(Attr.DEPTH)]
        assert [link.context for link in child.links] == [CALLER]

    def test_on_request_it_is_their_parent(self) -> None:
        self.run("subagent", CALLER, as_parent=True)
        turns = named(self.spans, "invoke_agent")
        assert [turn.parent == CALLER for turn in turns].count(True) == 2
        call = only(self.spans, "execute_tool subagent")
        (child,) = [turn for turn in turns if attributes(turn).get(Attr.DEPTH)]
        (link,) = call.links
        assert (link.context.trace_id, link.context.span_id) == ids(child)

    def test_an_id_that_never_comes_is_waited_for_no_longer(self) -> None:
        stream = Stream()
        stream.tell(Asked(stream.process, "t-1", 1, CALLER))
        (first, *_) = told_by("text")
        stream = Stream()
        stream.tell(Asked(stream.process, _session_of(first), 1, CALLER), *told_by("text"))
        stream.pass_time(1.9)
        assert stream.spans == []
        stream.pass_time(0.2)
        assert len(stream.spans) == 3


def _session_of(one: Notification) -> str:
    found: str = one["payload"]["sessionId"]
    return found


class TestOdd:
    """What no runtime tells."""

    def test_events_of_any_quality_are_placed(self) -> None:
        stream = Stream(options={"wait_s": 0})
        odd: list[Any] = [
            {"type": "turn/start", "seq": 0, "time": 1, "data": {"turn": 1}},
            {"type": "turn/start", "seq": "x", "time": None, "data": None},
            {"type": 3, "seq": 1.0, "time": 2**70, "data": {"turn": 1}},
            {"type": "\ud800", "seq": 2, "time": 3, "data": {"a": {1: object()}}, "more": 1},
            {},
        ]
        for one in odd:
            event(stream, one, "s")
        stream.sessions.close()
        assert len(named(stream.spans, "invoke_agent")) >= 1

    def test_a_program_may_change_what_it_was_told(self) -> None:
        stream = Stream()
        one = {"type": "turn/start", "seq": 0, "time": 1, "data": {"turn": 1}}
        kept = told(stream.process, "s", one)
        one["data"] = {"turn": 7}
        stream.tell(kept)
        stream.sessions.close()
        assert attributes(stream.spans[0])[Attr.TURN] == 1

    @pytest.mark.parametrize("session_id", ["..", "a/b", "\0", "x" * 5000, "é"])
    def test_ids_of_any_kind_lead_nowhere_else(self, tmp_path: Path, session_id: str) -> None:
        shutil.copytree(logs_of("text"), tmp_path / "sessions")
        stream = Stream(tmp_path / "sessions", options={"wait_s": 0})
        event(stream, {"type": "turn/start", "seq": 5, "time": 1, "data": {"turn": 1}}, session_id)
        stream.sessions.close()
        assert stream.sessions.counts["filled"] == 0
        assert len(stream.spans) == 1


class TestAnyLog:
    """Random legal logs, of which anything may be told."""

    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.data())
    def test_whatever_is_told_of_it_the_tree_is_that_of_the_log(
        self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
    ) -> None:
        events = data.draw(legal_logs(Contract.V4))
        heard = [one for one in events if data.draw(st.booleans())]
        folder = tmp_path_factory.mktemp("home") / "sessions" / "--w--" / "s-1"
        folder.mkdir(parents=True)
        header = {"type": "session", "version": 4, "id": "s-1", "createdAt": 1}
        header |= {"isSeeded": False, "delegationDepth": 0}
        rows = "".join(json.dumps(one) + "\n" for one in [header, *events])
        (folder / "session.v4.jsonl").write_text(rows, "utf-8")
        stream = Stream(folder.parents[1], options={"lossy": lambda: True})
        for one in heard:
            event(stream, one, "s-1")
            stream.pass_time(data.draw(st.sampled_from([0.0, 0.5, 3.0])))
        stream.tell(Ended(stream.process))
        stream.sessions.close()
        expected = offline(folder) if heard else []
        assert names(stream.spans) == names(expected)
        assert [f for f in findings(stream.spans) if f["severity"] == "violation"] == []  # type: ignore[index]


def names(spans: Iterable[ReadableSpan]) -> list[object]:
    """Return what spans are, without what was found."""
    return [
        (ids(s), s.name, s.parent and s.parent.span_id, s.start_time, s.end_time) for s in spans
    ]
