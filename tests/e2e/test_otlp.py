"""Spans sent to the OTLP receiver of a real Collector."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsh_otel.clean import Privacy
from tests.e2e import cli, logs
from tests.e2e.logs import SAMPLES
from tests.e2e.spans import assert_same, expected_spans
from tests.paths import CASES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.receivers import Collector, Sink

pytestmark = pytest.mark.e2e


def test_every_span_of_real_sessions_arrives_once_and_unchanged(collector: Collector) -> None:
    done = cli.export(SAMPLES, endpoint=collector.endpoint)
    assert (done.returncode, done.stdout) == (0, "")
    arrived = collector.stopped()
    assert_same(arrived, expected_spans(SAMPLES))
    assert cli.count("spans? went to", done.stderr) == len(arrived) > 0


def test_every_span_of_broken_sessions_arrives_once_and_unchanged(collector: Collector) -> None:
    done = cli.export(CASES, endpoint=collector.endpoint)
    arrived = collector.stopped()
    assert_same(arrived, expected_spans(CASES))
    assert cli.count("spans? went to", done.stderr) == len(arrived) > 0


def test_exporting_twice_gives_the_same_spans(collector: Collector) -> None:
    cli.export(SAMPLES, endpoint=collector.endpoint)
    cli.export(SAMPLES, endpoint=collector.endpoint)
    arrived = collector.stopped()
    half = len(arrived) // 2
    assert half > 0
    assert_same(arrived[half:], arrived[:half])


def test_every_span_arrives_with_headers_and_compression(collector: Collector) -> None:
    done = cli.export(
        SAMPLES,
        endpoint=collector.endpoint,
        OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20made-up,x-tenant=one",
        OTEL_EXPORTER_OTLP_COMPRESSION="gzip",
    )
    assert done.returncode == 0, done.stderr
    arrived = collector.stopped()
    assert_same(arrived, expected_spans(SAMPLES))
    assert cli.count("spans? went to", done.stderr) == len(arrived)


def test_headers_and_compression_are_those_of_the_environment(sink: Sink) -> None:
    done = cli.export(
        SAMPLES,
        endpoint=sink.endpoint,
        OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20made-up,x-tenant=one",
        OTEL_EXPORTER_OTLP_COMPRESSION="gzip",
    )
    assert done.returncode == 0, done.stderr
    (request,) = sink.requests
    assert request.path == "/v1/traces"
    assert request.headers["authorization"] == "Bearer made-up"
    assert request.headers["x-tenant"] == "one"
    assert request.headers["content-encoding"] == "gzip"
    assert_same(sink.spans(), expected_spans(SAMPLES))


def test_requests_with_content_are_not_too_large(collector: Collector, tmp_path: Path) -> None:
    turns = logs.turns(2, calls=300, text="\N{CAT FACE}" * 20_000)
    log = logs.write(tmp_path / "june.jsonl", turns)
    done = cli.export(log, "--content", endpoint=collector.endpoint)
    assert done.returncode == 0, done.stderr
    assert_same(collector.stopped(), expected_spans(log, privacy=Privacy(content=True)))
