"""Turns that have begun are told at once."""

from __future__ import annotations

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor

from dsh_otel.processors.started import TurnStartedProcessor
from dsh_otel.sources.facts import FactProcessor
from tests.otel.support import V4, Script, Tracing, named


def test_a_turn_that_has_begun_is_a_log_event_in_its_trace() -> None:
    exporter = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    script = Script()
    script.turn_start(1)
    script.turn_end(1)
    script.turn_start(2)
    facts = FactProcessor(lambda _fact: None)
    spans = Tracing(V4, TurnStartedProcessor(provider, facts)).run(script.events)
    records = [one.log_record for one in exporter.get_finished_logs()]
    assert [record.event_name for record in records] == ["dsh.turn.started"] * 2
    assert [(record.attributes or {})["dsh.turn"] for record in records] == [1, 2]
    turns = named(spans, "invoke_agent dsh")
    assert [record.span_id for record in records] == [
        turn.context.span_id for turn in turns if turn.context
    ]
    facts.quiet = True
    Tracing(V4, TurnStartedProcessor(provider, facts)).run(script.events)
    assert len(exporter.get_finished_logs()) == 2
