"""Sessions that somebody tells of, with all that a transport does to what is told."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dsh_core.contract.findings import Severity
from dsh_core.events import SessionHeader
from dsh_core.logs.otlp_json import told_by_request
from dsh_core.logs.stream_file import StreamFile
from dsh_core.logs.told import Aside, Told
from dsh_otel.clean import Privacy
from dsh_otel.processors.errors import ErrorSpanProcessor
from dsh_otel.processors.invariants import InvariantSpanProcessor
from dsh_otel.replay import replay_provider, trace_session
from dsh_otel.sources.streams import StreamHub, StreamSetting
from tests.checking import log, one_turn, turn_end, turn_start
from tests.paths import DECODED, NOTIFICATIONS, OTLP

if TYPE_CHECKING:
    from pathlib import Path

    from dsh_core.contract.findings import Finding

V4 = SessionHeader(id="s", version=4)


class Told4:
    """A hub with what came out of it, and a clock that is set by hand."""

    def __init__(self, **options: Any) -> None:
        self.now = 0.0
        self.findings: list[Finding] = []
        self.exporter = InMemorySpanExporter()
        checks = InvariantSpanProcessor(on_finding=lambda one, _span: self.findings.append(one))
        setting = StreamSetting(
            provider=replay_provider(SimpleSpanProcessor(self.exporter)),
            processors=(ErrorSpanProcessor(), checks),
            privacy=Privacy,
            clock=lambda: self.now,
            **options,
        )
        self.hub = StreamHub(setting)
        self.counts = self.hub.counts

    def tell(self, *events: Any, header: SessionHeader = V4) -> None:
        for event in events:
            self.hub.tell(Told(header, event, shuffled=True, size=100))

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.hub.tick()

    @property
    def spans(self) -> dict[tuple[int, int], str]:
        return {
            (span.context.trace_id, span.context.span_id): span.name
            for span in self.exporter.get_finished_spans()
        }

    @property
    def violations(self) -> list[str]:
        return [one.rule for one in self.findings if one.severity is Severity.VIOLATION]


def exported(path: Path) -> list[Told]:
    found = told_by_request(json.loads(path.read_bytes()))
    return [one for one in found if isinstance(one, Told)]


def shuffled(told: list[Told], seed: int, reach: int = 12) -> list[Told]:
    """Told again and out of order, but nothing far from its place."""
    rng = random.Random(seed)
    told = told + rng.sample(told, len(told) // 3)
    places = {id(one): index for index, one in enumerate(told)}
    return sorted(told, key=lambda one: places[id(one)] % len(told) + rng.randrange(reach))


@pytest.mark.parametrize("path", sorted(OTLP.glob("*.json")), ids=lambda path: path.stem)
@pytest.mark.parametrize("seed", range(4))
def test_exports_give_the_same_spans_whatever_the_transport_does(path: Path, seed: int) -> None:
    plain, odd = Told4(), Told4()
    for one in exported(path):
        plain.hub.tell(one)
    for one in shuffled(exported(path), seed):
        odd.hub.tell(one)
        odd.wait(0.001)
    plain.hub.close()
    odd.hub.close()
    assert plain.spans == odd.spans
    assert plain.violations == odd.violations == []
    assert plain.counts.events == odd.counts.events
    assert odd.counts.asides["duplicate"] > 5
    assert not odd.counts.errors


@pytest.mark.parametrize("path", sorted(NOTIFICATIONS.glob("*.json")), ids=lambda path: path.stem)
@pytest.mark.parametrize("seed", range(2))
def test_lost_events_are_no_findings(path: Path, seed: int) -> None:
    """Whatever is lost, and wherever it comes to lie, nothing is said of the session."""
    rng = random.Random(seed)
    with path.open("rb") as source:
        sessions = StreamFile(source).sessions
    told = [one for session in sessions for one in session.told if rng.random() < 0.85]
    following = Told4()
    for one in told:
        following.tell(one.event, header=SessionHeader(id=one.header.id, version=4))
        following.wait(0.3)
    following.hub.close()
    if not path.name.startswith("old-"):
        assert following.violations == []
    assert following.counts.events <= len(told)


def test_spans_have_the_ids_of_the_log() -> None:
    """But for a repeated attempt, of which an export leaves out the first sign."""
    exporter = InMemorySpanExporter()
    provider = replay_provider(SimpleSpanProcessor(exporter))
    trace_session(str(DECODED / "old-0.1.2rc1--otlp.jsonl"), tracer_provider=provider)
    logged = {
        (span.context.trace_id, span.context.span_id): (span.attributes or {}).get("dsh.attempt")
        for span in exporter.get_finished_spans()
    }
    following = Told4()
    for one in exported(OTLP / "old-0.1.2rc1--otlp.otlp1.json"):
        following.hub.tell(one)
    following.hub.close()
    unlike = set(logged) - set(following.spans)
    assert [logged[ids] for ids in unlike] == [2]
    assert len(following.spans) == len(logged)


def test_what_waits_for_a_missing_event_goes_on_after_a_while() -> None:
    following = Told4(wait_s=1)
    first, second, *others = log(*one_turn(1))
    following.tell(first, *others)
    following.wait(0.5)
    assert following.counts.turns == 0
    following.wait(0.6)
    assert following.counts.turns == 1
    following.tell(second)
    assert following.counts.asides == {"missing": 1, "late": 1}
    assert following.violations == []


def test_the_session_told_of_least_recently_is_closed_when_there_are_too_many() -> None:
    following = Told4(max_sessions=3)
    for name in "abcad":
        following.tell(*log(turn_start(1)), header=SessionHeader(id=name, version=4))
    assert following.counts.asides["evicted"] == 1
    assert list(following.hub._open) == ["c", "a", "d"]
    assert len(following.spans) == 1
    # It goes on where it was, and what was told is known.
    following.tell(*log(turn_start(1), turn_end(1)), header=SessionHeader(id="b", version=4))
    assert following.counts.sessions == 4
    assert following.counts.asides["duplicate"] == 2
    assert following.violations == []


def test_an_idle_session_is_closed_sooner_between_turns_than_in_one() -> None:
    following = Told4(idle_s=10, open_idle_s=100)
    following.tell(*log(*one_turn(1)), header=SessionHeader(id="a", version=4))
    following.tell(*log(turn_start(1)), header=SessionHeader(id="b", version=4))
    following.wait(11)
    assert list(following.hub._open) == ["b"]
    following.wait(100)
    assert not following.hub._open
    assert following.counts.asides["idle"] == 2


def test_what_waits_has_a_bound_in_bytes() -> None:
    following = Told4()
    for seq in range(1, 100):
        event = {"type": "todo/write", "seq": 2 * seq, "time": seq, "data": {"todos": []}}
        following.hub.tell(Told(V4, event, shuffled=True, size=2 << 20))
        assert following.hub._held <= 64 << 20
    assert following.counts.events > 30
    following.hub.close()
    assert following.hub._held == 0
    assert following.counts.events == 99


def test_a_child_knows_its_parent() -> None:
    following = Told4()
    following.hub.tell(Aside("subagent.started", "s", "p"))
    following.tell(*log(turn_start(1)))
    (session,) = following.hub._open.values()
    assert session.tracer is not None
    assert session.tracer.session.header.parent_session == "p"


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"type": 3, "seq": "x", "time": None, "data": []},
        {"type": "turn/start", "seq": 0, "time": 0, "data": {"turn": 2**80}},
        {"type": "tool/result", "seq": 1e400, "time": float("nan"), "data": {"message": 1}},
        {"type": "\ud800", "seq": 0, "time": 0, "data": {"\ud800": "\ud800"}},
    ],
)
def test_whatever_is_told_nobody_suffers(event: Any) -> None:
    following = Told4()
    following.tell(event, event, *log(*one_turn(1), first=5))
    following.wait(5)
    following.hub.close()
    assert following.counts.turns == 1
    assert not following.counts.errors
