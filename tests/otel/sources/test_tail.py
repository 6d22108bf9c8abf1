"""Logs that are followed while they grow give the spans of the whole log, each once."""

from __future__ import annotations

import json
import random
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from dsh_core.logs.tree import LogTree
from dsh_otel.clean import Privacy
from dsh_otel.export.sink import SinkReport
from dsh_otel.names import Attr
from dsh_otel.processors.errors import ErrorSpanProcessor
from dsh_otel.processors.invariants import InvariantSpanProcessor
from dsh_otel.replay import replay_provider
from dsh_otel.sources.facts import FactProcessor
from dsh_otel.sources.outlet import Outlet
from dsh_otel.sources.places import Places
from dsh_otel.sources.tail import Setting, Tail
from tests import paths
from tests.checking import event, log, one_turn, step_end, step_start, turn_end, turn_start
from tests.otel.support import trace_log
from tests.strategies import header_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

    from dsh_otel.sources.facts import Fact
    from dsh_otel.sources.tail import Counts
    from tests.strategies import Event

TORN = next(paths.CASES.glob("18-*.jsonl"))
"""Ends inside a line, which may go on."""

PLAIN = sorted({*paths.DECODED.glob("*.jsonl"), *paths.CASES.glob("*.jsonl")} - {TORN})
PACKED = sorted(paths.HOMES.rglob("session*.zstd"))


class Receiver(SpanExporter):
    """Takes everything, or nothing."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []
        self.answers = True
        self.target = "memory"
        self.problem = ""
        self.hopeless = False

    @property
    def exporter(self) -> SpanExporter:
        return self

    def report(self) -> SinkReport:
        return SinkReport()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if not self.answers:
            return SpanExportResult.FAILURE
        self.spans += spans
        return SpanExportResult.SUCCESS


class Life:
    """One life of a follower."""

    def __init__(self, root: Path, state: Path | None, receiver: Receiver, **setting: Any) -> None:
        self.facts: list[Fact] = []
        self.places = Places(state, str(root), setting.pop("now_ms", 1))
        self.outlet = Outlet(receiver, self.places.put)
        self.teller = FactProcessor(self.facts.append)
        checks = InvariantSpanProcessor(on_finding=self.teller.on_finding)
        self.tree = LogTree(str(root))
        self.tail = Tail(
            Setting(
                provider=replay_provider(self.outlet),
                processors=(ErrorSpanProcessor(), checks, self.teller),
                facts=self.teller,
                outlet=self.outlet,
                places=self.places,
                since_ms=setting.pop("since_ms", None),
                privacy=Privacy,
                **setting,
            )
        )

    def begin(self) -> None:
        self.tail.begin(self.tree.look())

    def look(self) -> None:
        self.tail.follow(self.tree.look())
        assert self.outlet.wait_until_idle(10)

    def die(self) -> None:
        """Leave without a word, as after kill -9."""
        self.outlet.wait_until_idle(10)
        self.places.close()
        self.outlet.close(0)

    def told(self) -> list[str]:
        return [fact.event.removeprefix("dsh.") for fact in self.facts]


@contextmanager
def following(root: Path, receiver: Receiver, **setting: Any) -> Iterator[Life]:
    """Follow from the beginning, unless told otherwise."""
    life = Life(root, setting.pop("state", None), receiver, **setting)
    life.begin()
    assert life.outlet.wait_until_idle(10)
    try:
        yield life
    finally:
        life.tail.close(final=True)
        life.outlet.wait_until_idle(10)
        life.die()


def shape(spans: Sequence[ReadableSpan]) -> dict[int, tuple[Any, ...]]:
    """Return what matters of spans, by id; there must be one of each."""
    found = {}
    for span in spans:
        assert span.context is not None
        assert span.context.span_id not in found
        found[span.context.span_id] = (
            span.name,
            span.context.trace_id,
            None if span.parent is None else span.parent.span_id,
            span.start_time,
            span.end_time,
            dict(span.attributes or {}),
            [one.name for one in span.events],
        )
    return found


def folder_of(source: Path, root: Path) -> Path:
    """Return where a copy of a log is to grow: in a folder of the same name."""
    folder = root / "sessions" / "--p--" / source.parent.name
    folder.mkdir(parents=True)
    return folder / source.name


def growing(source: Path, target: Path, seed: str) -> Iterator[None]:
    """Copy a log bit by bit."""
    data, rng, place = source.read_bytes(), random.Random(seed), 0
    while place < len(data):
        size = rng.choice([1, 10, 100, 1000, 5000])
        with target.open("ab") as file:
            file.write(data[place : place + size])
        place += size
        yield


def whole(source: Path) -> dict[int, tuple[Any, ...]]:
    return shape(trace_log(source))


@pytest.mark.parametrize(
    "source", [*PLAIN, *PACKED], ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_a_log_that_grows_gives_the_spans_of_the_whole_log(source: Path, tmp_path: Path) -> None:
    receiver, target = Receiver(), folder_of(source, tmp_path)
    with following(tmp_path, receiver) as life:
        for _ in growing(source, target, source.name):
            life.look()
    assert shape(receiver.spans) == whole(source)


def test_a_line_that_does_not_end_is_waited_for(tmp_path: Path) -> None:
    receiver, target = Receiver(), folder_of(TORN, tmp_path)
    with following(tmp_path, receiver) as life:
        for _ in growing(TORN, target, TORN.name):
            life.look()
        assert "violation" not in life.told()
    assert shape(receiver.spans).keys() == whole(TORN).keys()


@pytest.mark.parametrize("source", PACKED, ids=lambda path: path.parent.name)
@pytest.mark.parametrize("seed", range(3))
def test_a_follower_that_dies_and_comes_back_sends_each_span_once(
    source: Path, seed: int, tmp_path: Path
) -> None:
    receiver, target = Receiver(), folder_of(source, tmp_path)
    rng, state = random.Random(f"{seed}{source.name}"), tmp_path / "state"
    life = Life(tmp_path / "sessions", state, receiver)
    life.begin()
    for _ in growing(source, target, f"{seed}{source}"):
        if rng.random() < 0.3:
            life.die()
            life = Life(tmp_path / "sessions", state, receiver)
            life.begin()
        if rng.random() < 0.7:
            life.look()
    life.look()
    life.tail.close(final=True)
    life.die()
    assert shape(receiver.spans) == whole(source)


# Made-up logs


def rows(*items: Any, first: int = 0) -> list[Event]:
    return log(*items, first=first)


class Written:
    """A log that a test writes."""

    def __init__(self, root: Path, name: str = "s-1") -> None:
        folder = root / "sessions" / "--p--" / name
        folder.mkdir(parents=True)
        self.path = folder / "session.v4.jsonl"
        self.write({**(header_row_v4() or {}), "id": name})

    def write(self, *some: Any) -> None:
        with self.path.open("a") as file:
            for row in some:
                file.write(json.dumps(row) + "\n")


def header_row_v4() -> Event | None:
    from dsh_core.events import Contract

    return header_row(Contract.V4)


def turns(spans: Sequence[ReadableSpan]) -> list[Any]:
    return [
        (span.attributes or {})[Attr.TURN] for span in spans if span.name.startswith("invoke_agent")
    ]


def names(spans: Sequence[ReadableSpan]) -> list[str]:
    return [span.name for span in spans]


def test_what_was_there_before_is_of_the_past_but_an_open_turn_is_not(tmp_path: Path) -> None:
    receiver, written = Receiver(), Written(tmp_path)
    written.write(*rows(*one_turn(1), turn_start(2), step_start(2, 1), step_end(2, 1)))
    with following(tmp_path, receiver) as life:
        assert life.told() == ["turn.started"]
        written.write(*rows(step_start(2, 2), step_end(2, 2), turn_end(2), first=7))
        life.look()
        assert life.told() == ["turn.started", "turn.ended"]
    assert names(receiver.spans) == ["dsh.step", "dsh.step", "invoke_agent dsh"]
    assert turns(receiver.spans) == [2]


def test_a_session_that_comes_later_is_followed_from_its_beginning(tmp_path: Path) -> None:
    receiver = Receiver()
    with following(tmp_path, receiver) as life:
        Written(tmp_path).write(*rows(*one_turn(1)))
        life.look()
    assert turns(receiver.spans) == [1]


def test_everything_counts_from_the_start(tmp_path: Path) -> None:
    receiver = Receiver()
    Written(tmp_path).write(*rows(*one_turn(1), *one_turn(2)))
    with following(tmp_path, receiver, since_ms=0):
        pass
    assert turns(receiver.spans) == [1, 2]


def test_turns_count_that_began_since_some_time(tmp_path: Path) -> None:
    receiver = Receiver()
    events = rows(*one_turn(1), *one_turn(2), *one_turn(3))
    Written(tmp_path).write(*events)
    with following(tmp_path, receiver, since_ms=events[4]["time"]):
        pass
    assert turns(receiver.spans) == [2, 3]


def test_sessions_that_came_while_nobody_looked_are_not_missed(tmp_path: Path) -> None:
    receiver, state = Receiver(), tmp_path / "state"
    old = Written(tmp_path, "old")
    old.write(*rows(*one_turn(1)))
    with following(tmp_path, receiver, state=state):
        pass
    Written(tmp_path, "new").write(*rows(*one_turn(1)))
    old.write(*rows(*one_turn(2), first=4))
    with following(tmp_path, receiver, state=state):
        pass
    assert sorted(turns(receiver.spans)) == [1, 2]


def test_what_a_dead_receiver_did_not_take_is_sent_after_a_restart(tmp_path: Path) -> None:
    receiver, state, written = Receiver(), tmp_path / "state", Written(tmp_path)
    life = Life(tmp_path, state, receiver)
    life.begin()
    receiver.answers = False
    written.write(*rows(*one_turn(1)))
    life.tail.follow(life.tree.look())
    counts = life.outlet.close(0.05)
    life.places.close()
    assert (counts.sent, counts.left) == (0, 2)
    receiver.answers = True
    with following(tmp_path, receiver, state=state):
        pass
    assert turns(receiver.spans) == [1]


def test_a_log_that_was_cut_goes_on_where_it_is_still_the_same(tmp_path: Path) -> None:
    receiver, written = Receiver(), Written(tmp_path)
    with following(tmp_path, receiver) as life:
        written.write(*rows(*one_turn(1)))
        life.look()
        kept = written.path.stat().st_size
        written.write(*rows(turn_start(2), step_start(2, 1), first=4))
        life.look()
        with written.path.open("r+b") as file:
            file.truncate(kept)
        again = rows(event("session/end-seed"), *one_turn(2), first=4)
        written.write(*[{**row, "time": row["time"] + 5000} for row in again])
        life.look()
        assert life.tail.counts.rewritten == 1
        assert "violation" not in life.told()
    assert names(receiver.spans) == ["dsh.step", "invoke_agent dsh"] * 2
    assert turns(receiver.spans) == [1, 2]


def test_a_newer_generation_goes_on_behind_the_last_turn(tmp_path: Path) -> None:
    receiver, written = Receiver(), Written(tmp_path)
    old = written.path.with_name("session.v3.jsonl")
    header = {**(header_row_v4() or {}), "id": "s-1", "version": 3}
    with following(tmp_path, receiver) as life:
        written.path.rename(old)
        events = rows(*one_turn(1), *one_turn(2))
        old.write_text("".join(json.dumps(row) + "\n" for row in (header, *events)))
        life.look()
        assert turns(receiver.spans) == [1, 2]
        # Numbers differ: the migration adds events.
        rewrite(
            written,
            rows(event("plan/mode", {"active": True}), *one_turn(1), *one_turn(2), *one_turn(3)),
        )
        life.look()
    assert turns(receiver.spans) == [1, 2, 3]


def rewrite(written: Written, events: Sequence[Event]) -> None:
    written.path.unlink(missing_ok=True)
    written.write({**(header_row_v4() or {}), "id": "s-1"}, *events)


def test_a_session_that_is_deleted_ends(tmp_path: Path) -> None:
    receiver, written = Receiver(), Written(tmp_path)
    with following(tmp_path, receiver) as life:
        written.write(*rows(turn_start(1), step_start(1, 1)))
        life.look()
        written.path.unlink()
        life.look()
        assert (receiver.spans[-1].attributes or {})[Attr.UNCLOSED] is True
        assert life.told() == ["turn.started", "turn.ended"]
        assert life.facts[-1].reason == "never closed"


def test_with_a_state_what_is_open_is_left_to_who_comes_next(tmp_path: Path) -> None:
    receiver, state, written = Receiver(), tmp_path / "state", Written(tmp_path)
    life = Life(tmp_path, state, receiver)
    life.begin()
    written.write(*rows(turn_start(1), step_start(1, 1), step_end(1, 1)))
    life.look()
    life.tail.close(final=False)
    life.die()
    assert names(receiver.spans) == ["dsh.step"]
    written.write(*rows(turn_end(1), first=3))
    with following(tmp_path, receiver, state=state) as again:
        assert again.told() == ["turn.ended"]
    assert names(receiver.spans) == ["dsh.step", "invoke_agent dsh"]


def test_what_is_no_log_is_told_and_harms_no_other(tmp_path: Path) -> None:
    receiver = Receiver()
    bad = Written(tmp_path, "bad")
    bad.path.write_text(json.dumps({"type": "session", "version": 99, "id": "x"}) + "\n")
    with following(tmp_path, receiver) as life:
        Written(tmp_path, "good").write(*rows(*one_turn(1)))
        life.look()
        counts: Counts = life.tail.counts
        assert list(counts.unreadable) == [str(bad.path)]
    assert turns(receiver.spans) == [1]


def test_sessions_that_were_let_go_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsh_otel.sources.tail.MAX_OPEN", 2)
    receiver = Receiver()
    with following(tmp_path, receiver) as life:
        written = [Written(tmp_path, f"s-{number}") for number in range(6)]
        for turn in (1, 2):
            for one in written:
                one.write(*rows(*one_turn(turn), first=4 * turn - 4))
            life.look()
        assert life.tail.counts.sessions == 6
    assert sorted(turns(receiver.spans)) == [1] * 6 + [2] * 6
    shape(receiver.spans)
