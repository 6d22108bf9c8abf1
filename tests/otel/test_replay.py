"""Replay: a log in, its spans out."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from dsh_core.events import Contract
from dsh_core.logs.reader import UnsupportedFormatError
from dsh_otel.clean import Privacy
from dsh_otel.export.file import FileSink
from dsh_otel.processors.errors import ErrorSpanProcessor
from dsh_otel.processors.invariants import InvariantSpanProcessor
from dsh_otel.replay import (
    ReplaySpanProcessor,
    default_processors,
    replay_provider,
    trace_session,
    trace_sessions,
)
from tests import paths
from tests.otel.support import (
    CASES,
    SESSIONS,
    attributes,
    case_log,
    ids,
    named,
    only,
    session_log,
    trace_log,
)
from tests.paths import DECODED, NOTIFICATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

    from dsh_otel.replay import Replay
    from tests.otel.conftest import Logged


class Receiving(SpanExporter):
    """Takes batches, and answers as it is told."""

    def __init__(self, *answers: SpanExportResult | Exception) -> None:
        self.answers = list(answers)
        self.batches: list[list[str]] = []
        self.shut = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.batches.append([span.name for span in spans])
        answer = self.answers.pop(0) if self.answers else SpanExportResult.SUCCESS
        if isinstance(answer, Exception):
            raise answer
        return answer

    def shutdown(self) -> None:
        self.shut += 1


def write(exporter: Receiving, spans: int, batch: int = 2) -> ReplaySpanProcessor:
    writer = ReplaySpanProcessor(exporter, batch)
    provider = replay_provider(writer)
    tracer = provider.get_tracer("test")
    for number in range(spans):
        tracer.start_span(f"span {number}").end()
    provider.shutdown()
    return writer


# Writing


def test_spans_are_written_in_batches_and_in_their_order() -> None:
    exporter = Receiving()
    writer = write(exporter, 5)
    assert exporter.batches == [["span 0", "span 1"], ["span 2", "span 3"], ["span 4"]]
    assert (writer.counts.sent, writer.counts.lost) == (5, 0)
    assert exporter.shut == 1


def test_a_full_batch_is_written_before_the_replay_goes_on() -> None:
    exporter = Receiving()
    writer = ReplaySpanProcessor(exporter, 2)
    tracer = replay_provider(writer).get_tracer("test")
    for number in range(4):
        assert len(exporter.batches) == number // 2
        tracer.start_span("span").end()
    assert len(exporter.batches) == 2


@pytest.mark.parametrize(
    "text", ["a" * 900, 'quote " and \\' * 50, "\n" * 300, "é" * 300, "\N{CAT FACE}" * 300]
)
def test_a_line_of_the_otlp_file_is_never_longer_than_a_collector_reads(
    text: str, tmp_path: Path
) -> None:
    path = tmp_path / "traces.jsonl"
    sink = FileSink(str(path))
    provider = replay_provider(ReplaySpanProcessor(sink.exporter))
    tracer = provider.get_tracer("test")
    for _ in range(600):
        span = tracer.start_span(text, attributes={f"key {k}": text for k in range(6)})
        span.add_event("event", {"message": text, "list": [text, text]})
        span.end()
    provider.shutdown()
    sink.report()
    lines = path.read_bytes().splitlines()
    assert len(lines) > 3
    assert max(map(len, lines)) < 1 << 20


def test_nothing_is_dropped_however_many_spans_there_are() -> None:
    """The queue of the SDK's own processor holds 2048 spans and drops the oldest."""
    exporter = Receiving()
    writer = write(exporter, 5000, batch=7)
    written = [name for batch in exporter.batches for name in batch]
    assert written == [f"span {number}" for number in range(5000)]
    assert (writer.counts.sent, writer.counts.lost) == (5000, 0)


def test_what_the_exporter_refuses_is_counted() -> None:
    exporter = Receiving(SpanExportResult.SUCCESS, SpanExportResult.FAILURE)
    writer = write(exporter, 5)
    assert (writer.counts.sent, writer.counts.lost) == (3, 2)
    assert writer.counts.last_error == ""
    assert len(exporter.batches) == 3


def test_an_exporter_that_raises_costs_its_batch_alone() -> None:
    exporter = Receiving(OSError("no route"))
    writer = write(exporter, 5)
    assert (writer.counts.sent, writer.counts.lost) == (3, 2)
    assert writer.counts.last_error == "OSError: no route"


def test_after_three_losses_in_a_row_no_more_is_tried() -> None:
    exporter = Receiving(*[SpanExportResult.FAILURE] * 3)
    writer = write(exporter, 20)
    assert len(exporter.batches) == 3
    assert writer.gave_up
    assert (writer.counts.sent, writer.counts.lost) == (0, 20)


def test_losses_that_a_success_interrupts_do_not_count_as_a_row() -> None:
    failure, success = SpanExportResult.FAILURE, SpanExportResult.SUCCESS
    exporter = Receiving(failure, failure, success, failure, failure)
    writer = write(exporter, 12)
    assert not writer.gave_up
    assert (writer.counts.sent, writer.counts.lost) == (4, 8)


def test_flushing_writes_what_waits_and_says_whether_all_arrived() -> None:
    exporter = Receiving(SpanExportResult.SUCCESS, SpanExportResult.FAILURE)
    provider = replay_provider(ReplaySpanProcessor(exporter, 100))
    for expected in (True, False):
        provider.get_tracer("test").start_span("span").end()
        assert provider.force_flush() is expected
    assert exporter.batches == [["span"], ["span"]]


def test_an_unsampled_span_is_not_written() -> None:
    from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult

    class Recording(Sampler):
        def should_sample(self, *_: Any, **__: Any) -> SamplingResult:
            return SamplingResult(Decision.RECORD_ONLY)

        def get_description(self) -> str:
            return "records only"

    exporter = Receiving()
    writer = ReplaySpanProcessor(exporter, 1)
    provider = replay_provider(writer)
    provider.sampler = Recording()
    provider.get_tracer("test").start_span("span").end()
    assert exporter.batches == []


# The provider


def test_a_replay_has_no_identity_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dict(replay_provider().resource.attributes) == {
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.version": replay_provider().resource.attributes["telemetry.sdk.version"],
        "service.name": "dsh",
    }
    assert replay_provider(service_version="1.2").resource.attributes["service.version"] == "1.2"


def test_the_settings_of_the_environment_are_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    provider = replay_provider()
    assert provider.resource.attributes["service.name"] == "mine"
    assert provider.resource.attributes["deployment.environment.name"] == "test"
    assert provider.sampler is ALWAYS_OFF


# Whole logs


def replay(path: Path | str, **options: Any) -> Replay:
    return trace_session(str(path), tracer_provider=replay_provider(), strict=True, **options)


def test_a_replay_says_what_it_did() -> None:
    done = replay(session_log("crash-stream.before-resume"))
    assert (done.session_id, done.format) == ("cs-1", "v4")
    assert (done.events, done.faults) == (14, 0)
    assert done.outcomes == {"outside": 4, "opened": 2, "noted": 2, "absorbed": 6}
    assert done.unclosed == {"attempt": 1, "step": 1, "turn": 1}
    assert done.errors == {}


@pytest.mark.parametrize("path", [*SESSIONS, *CASES], ids=lambda path: path.stem)
def test_every_event_of_a_log_is_accounted_for(path: Path) -> None:
    done = replay(path)
    assert done.events > 0
    assert sum(done.outcomes.values()) == done.events


def test_damage_is_counted_and_traced() -> None:
    done = replay(case_log("18"))
    assert done.faults == 1
    spans = trace_log(case_log("18"))
    rules = [attributes(span).get("dsh.violation.first") for span in spans]
    assert rules.count("line.torn-tail") == 1


def test_progress_is_told() -> None:
    told: list[int] = []
    done = replay(session_log("tool-success"), progress=told.append)
    assert sum(told) == done.events


def test_a_compressed_log_gives_the_spans_of_the_plain_one() -> None:
    (packed,) = (paths.HOMES / "tool-success").rglob("*.zstd")
    plain = trace_log(session_log("tool-success"))
    assert [ids(span) for span in trace_log(packed)] == [ids(span) for span in plain]


def test_a_log_may_come_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    with session_log("text").open("rb") as source:
        monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": source}))
        done = replay("-")
    assert (done.session_id, done.events) == ("text-1", 17)


def test_a_log_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        replay("/no/such/log.jsonl")


def test_a_log_of_the_future_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"type":"session","version":9,"id":"s"}\n')
    with pytest.raises(UnsupportedFormatError, match="version 9 is newer"):
        replay(path)


def test_something_that_is_no_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl.gz"
    path.write_bytes(gzip.compress(b"{}", mtime=0))
    with pytest.raises(UnsupportedFormatError, match="gzip"):
        replay(path)


def test_a_log_whose_reading_fails_midway_still_ends_its_spans(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from dsh_core.logs.reader import SessionLog

    whole = SessionLog.read

    def cut(log: SessionLog) -> Any:
        yield from whole(log)
        raise OSError("the disk is gone")

    monkeypatch.setattr(SessionLog, "read", cut)
    exporter = InMemorySpanExporter()
    provider = replay_provider(SimpleSpanProcessor(exporter))
    with pytest.raises(OSError, match="the disk is gone"):
        trace_session(str(session_log("crash-stream.before-resume")), tracer_provider=provider)
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans][-1] == "invoke_agent dsh"


def test_an_ordinary_session_is_judged_by_two_processors() -> None:
    provider = replay_provider()
    first, second = default_processors(provider)
    assert (type(first), type(second)) == (ErrorSpanProcessor, InvariantSpanProcessor)
    assert len({id(one) for one in (first, second, *default_processors(provider))}) == 4


def test_a_processor_of_the_provider_takes_the_place_of_the_default_one() -> None:
    exporter = InMemorySpanExporter()
    provider = replay_provider(ReplaySpanProcessor(exporter))
    provider.add_span_processor(InvariantSpanProcessor(exclude=["tool.*"]))
    assert [type(one) for one in default_processors(provider)] == [ErrorSpanProcessor]
    trace_session(str(session_log("denied-read")), tracer_provider=provider)
    provider.force_flush()
    events = [e.name for span in exporter.get_finished_spans() for e in span.events]
    # Its settings count, and nothing is written twice.
    assert events.count("dsh.violation") == 0
    assert events.count("dsh.tool.error") == 3


def test_what_sampling_leaves_out_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    writer = ReplaySpanProcessor(InMemorySpanExporter())
    done = trace_session(str(session_log("text")), tracer_provider=replay_provider(writer))
    assert (done.unsampled, writer.counts.sent) == (3, 0)


def test_processors_may_be_chosen() -> None:
    spans = trace_log(case_log("03"), processors=[])
    assert not any("dsh.violation.count" in attributes(span) for span in spans)


def test_the_contract_may_be_chosen() -> None:
    rules = {
        contract: {
            attributes(span).get("dsh.violation.first")
            for span in trace_log(case_log("07"), contract=contract)
        }
        for contract in (Contract.SEED, Contract.V0)
    }
    assert "seq.gap" not in rules[Contract.SEED]
    assert "seq.gap" in rules[Contract.V0]


def test_content_may_be_switched_on() -> None:
    turn = only(trace_log(session_log("text"), privacy=Privacy(content=True)), "invoke_agent")
    assert "gen_ai.input.messages" in attributes(turn)


def test_a_processor_that_raises_is_told_in_the_result(logged: Logged) -> None:
    class Broken(InvariantSpanProcessor):
        def on_event(self, *_: object) -> None:
            raise RuntimeError

    done = trace_session(
        str(session_log("text")), tracer_provider=replay_provider(), processors=[Broken()]
    )
    assert done.errors == {"Broken": 1}
    assert sum(done.outcomes.values()) == done.events
    assert len(logged.take()) == 1


def test_a_subagent_is_a_session_of_its_own() -> None:
    (turn,) = named(trace_log(session_log("subagent.child1")), "invoke_agent")
    assert attributes(turn)["dsh.session.parent_id"] == "sub-1"
    assert turn.parent is None


def ids_of(path: Path, **options: Any) -> dict[tuple[int, int], str]:
    exporter = InMemorySpanExporter()
    provider = replay_provider(SimpleSpanProcessor(exporter))
    list(trace_sessions(str(path), tracer_provider=provider, **options))
    return {
        (span.context.trace_id, span.context.span_id): span.name
        for span in exporter.get_finished_spans()
    }


@pytest.mark.parametrize("path", sorted(NOTIFICATIONS.glob("*.json")), ids=lambda path: path.stem)
def test_spans_of_notifications_have_the_ids_of_the_log(path: Path) -> None:
    """Nothing else is known of a session that both are of, and nothing of it has another id."""
    logged = ids_of(DECODED / f"{path.stem}.jsonl", strict=True)
    if path.stem == "subagent":
        logged |= ids_of(DECODED / "subagent.child1.jsonl", strict=True)
    told = ids_of(path, strict=True)
    assert told
    assert set(told) <= set(logged)
    # A crash costs what was not told: the closers, and what was repaired.
    assert len(told) >= len(logged) - (path.stem.startswith("crash") and 4)


def test_a_stream_of_several_sessions_is_traced_one_by_one() -> None:
    path = str(NOTIFICATIONS / "subagent.json")
    first, second = trace_sessions(path, tracer_provider=replay_provider(), strict=True)
    assert (first.session_id, first.stream, first.events) == ("sub-1", True, 33)
    assert second.events == 20
    with pytest.raises(UnsupportedFormatError, match="2 sessions"):
        trace_session(path, tracer_provider=replay_provider())
