"""Receivers that are not there, stop, hang or refuse: the export ends and says what is missing."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING, Final

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from tests.e2e import cli, logs
from tests.e2e.receivers import HOST, Sink, free_ports

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.receivers import Collector

pytestmark = pytest.mark.e2e

BOUND: Final = 60.0
"""Seconds within which an export ends, whatever the receiver does."""

TURNS: Final = 1000
TOTAL: Final = logs.spans_of_turns(TURNS)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log that takes many requests."""
    return logs.write(tmp_path / "june.jsonl", logs.turns(TURNS))


def assert_all_lost(log: Path, endpoint: str) -> str:
    """Check that an export to an endpoint loses everything and says so; return what it says."""
    done = cli.export(log, endpoint=endpoint, deadline=BOUND)
    assert done.returncode == 2, done.stderr
    assert cli.count("spans? lost", done.stderr) == TOTAL
    assert cli.count("spans? went to", done.stderr) == 0
    return done.stderr


def test_a_collector_that_stops_in_mid_export_costs_the_rest(collector: Collector) -> None:
    lines = list(logs.to_lines(logs.turns(TURNS)))
    half = len(lines) // 2
    process = cli.start(
        *("export", "-", "--to", "otlp"),
        env={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint},
        stdin=subprocess.PIPE,
    )
    with process:
        assert process.stdin is not None
        process.stdin.write(b"".join(lines[:half]))
        process.stdin.flush()
        collector.wait_for(TOTAL // 4)
        arrived = collector.stopped()
        begin = time.monotonic()
        _, stderr = process.communicate(b"".join(lines[half:]), timeout=BOUND)
    said = stderr.decode()
    assert process.returncode == 1, said
    assert time.monotonic() - begin < BOUND
    sent, lost = cli.count("spans? went to", said), cli.count("spans? lost", said)
    assert sent == len(arrived) > 0
    assert sent + lost == TOTAL


def test_an_endpoint_where_nobody_listens_loses_all(log: Path) -> None:
    (port,) = free_ports(1)
    assert "no answer from" in assert_all_lost(log, f"http://{HOST}:{port}")


def test_a_receiver_that_never_answers_loses_all(log: Path) -> None:
    with Sink(mute=True) as sink:
        assert "no answer from" in assert_all_lost(log, sink.endpoint)


def test_a_receiver_that_wants_us_to_wait_for_an_hour_loses_all(log: Path) -> None:
    with Sink(status=503, headers={"retry-after": "3600"}) as sink:
        assert "HTTP 503" in assert_all_lost(log, sink.endpoint)


def test_spans_that_the_receiver_refuses_are_told(log: Path) -> None:
    partly = ExportTracePartialSuccess(rejected_spans=3, error_message="no room")
    answer = ExportTraceServiceResponse(partial_success=partly).SerializeToString()
    with Sink(answer=answer) as sink:
        done = cli.export(log, endpoint=sink.endpoint, deadline=BOUND)
    assert done.returncode == 1
    assert cli.count("refused by", done.stderr) == 3 * len(sink.requests) > 0
    assert "the receiver says: no room" in done.stderr
    refused, sent = cli.count("refused by", done.stderr), cli.count("spans? went to", done.stderr)
    assert sent + refused == TOTAL
