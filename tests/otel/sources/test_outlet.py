"""Spans that leave while sessions run: in order, each counted, nothing waited for too long."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from dsh_otel.export.sink import SinkReport
from dsh_otel.replay import replay_provider
from dsh_otel.sources import outlet as module
from dsh_otel.sources.outlet import Outlet
from dsh_otel.sources.places import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan

OK, FAILED = SpanExportResult.SUCCESS, SpanExportResult.FAILURE


class Receiver(SpanExporter):
    """Answers as it is told, and then well."""

    def __init__(self, *answers: SpanExportResult | Exception, gate: bool = False) -> None:
        self.answers = list(answers)
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        if not gate:
            self.gate.set()
        self.target = "memory"
        self.problem = "no"
        self.hopeless = False
        self.refused = 0

    @property
    def exporter(self) -> SpanExporter:
        return self

    def report(self) -> SinkReport:
        return SinkReport(refused=self.refused)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.gate.wait(20)
        self.batches.append([span.name for span in spans])
        answer = self.answers.pop(0) if self.answers else OK
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)


def emit(outlet: Outlet, *names: str) -> None:
    tracer = replay_provider(outlet).get_tracer("test")
    for name in names:
        tracer.start_span(name).end()


def test_what_arrives_is_told_in_order() -> None:
    arrived: list[str] = []
    receiver = Receiver(gate=True)
    outlet = Outlet(receiver, lambda tokens: arrived.extend(key for key, _ in tokens))
    emit(outlet, "a")
    outlet.mark(("first", None))
    emit(outlet, "b", "c")
    outlet.mark(("second", None))
    outlet.mark(("third", Place("f", 1)))
    receiver.gate.set()
    assert outlet.wait_until_idle(10)
    assert outlet.close(5).sent == 3
    assert arrived == ["first", "second", "third"]
    assert [name for batch in receiver.batches for name in batch] == ["a", "b", "c"]


@pytest.mark.parametrize("answer", [FAILED, OSError("down")])
def test_what_is_not_taken_is_sent_again(answer: SpanExportResult | Exception) -> None:
    receiver = Receiver(answer, answer)
    outlet = Outlet(receiver)
    emit(outlet, "a")
    assert outlet.wait_until_idle(10)
    assert receiver.batches == [["a"], ["a"], ["a"]]
    counts = outlet.close(5)
    assert (counts.sent, counts.dropped, counts.left) == (1, 0, 0)


def test_what_is_refused_for_good_is_dropped_and_counted() -> None:
    arrived: list[object] = []
    receiver = Receiver(FAILED)
    receiver.hopeless = True
    outlet = Outlet(receiver, arrived.extend)
    emit(outlet, "a")
    outlet.mark(("first", None))
    assert outlet.wait_until_idle(10)
    counts = outlet.close(5)
    assert (counts.sent, counts.dropped, counts.problem) == (0, 1, "no")
    assert arrived == [("first", None)]


def test_what_a_receiver_refuses_out_of_what_it_took_is_no_success() -> None:
    receiver = Receiver()
    receiver.refused = 1
    outlet = Outlet(receiver)
    emit(outlet, "a", "b")
    counts = outlet.close(5)
    assert (counts.sent, counts.dropped) == (1, 1)


def test_the_end_does_not_wait_for_a_receiver_that_never_answers() -> None:
    receiver = Receiver(gate=True)
    outlet = Outlet(receiver)
    emit(outlet, "a", "b")
    begin = time.monotonic()
    counts = outlet.close(0.1)
    assert time.monotonic() - begin < 5
    assert (counts.sent, counts.left) == (0, 2)
    assert outlet.close(5) is counts
    receiver.gate.set()


def test_the_end_tries_once_more_what_has_failed() -> None:
    receiver = Receiver(FAILED)
    outlet = Outlet(receiver)
    emit(outlet, "a")
    counts = outlet.close(10)
    assert (counts.sent, counts.left) == (1, 0)


def test_there_is_room_again_when_something_has_left() -> None:
    receiver = Receiver(gate=True)
    outlet = Outlet(receiver, limit=2)
    emit(outlet, "a")
    assert not outlet.full
    emit(outlet, "b")
    assert not outlet.wait_for_room(0.01)
    receiver.gate.set()
    assert outlet.wait_for_room(10)
    assert outlet.close(5).sent == 2


def test_size_counts_as_well_as_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", 5000)
    receiver = Receiver(gate=True)
    outlet = Outlet(receiver)
    emit(outlet, "x" * 6000)
    assert outlet.full
    receiver.gate.set()
    outlet.close(5)


def test_what_was_sent_before_is_left_out() -> None:
    outlet = Outlet(Receiver())
    outlet.skipping = True
    emit(outlet, "a")
    outlet.skipping = False
    emit(outlet, "b")
    assert outlet.close(5).sent == 1
    assert outlet.skipped == 1


def test_a_pipe_that_closes_ends_it() -> None:
    outlet = Outlet(Receiver(BrokenPipeError()))
    emit(outlet, "a")
    counts = outlet.close(5)
    assert outlet.broken
    assert counts.left == 1


def test_why_nothing_arrives_is_known_meanwhile() -> None:
    receiver = Receiver(*[FAILED] * 3)
    outlet = Outlet(receiver)
    seen: set[str] = set()
    emit(outlet, "a")
    while not outlet.wait_until_idle(0.001):
        seen.add(outlet.failing)
    assert "no" in seen
    assert outlet.failing == ""
    outlet.close(5)


def test_where_nobody_can_wait_what_does_not_fit_is_dropped_and_counted() -> None:
    receiver = Receiver(gate=True)
    outlet = Outlet(receiver, limit=3, lossy=True)
    emit(outlet, *"abcdefg")
    receiver.gate.set()
    counts = outlet.close(5)
    assert [name for batch in receiver.batches for name in batch] == ["a", "b", "c"]
    assert (counts.sent, counts.dropped, counts.left) == (3, 4, 0)
    assert counts.problem
