"""What the doctor says of receivers that work, and of those that do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e import cli
from tests.e2e.receivers import HOST, Sink, free_ports

if TYPE_CHECKING:
    import subprocess

    from tests.e2e.receivers import Collector

pytestmark = pytest.mark.e2e


def doctor(endpoint: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the doctor; it must be quick."""
    return cli.run("doctor", deadline=20, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, **env)


def test_a_collector_answers_200_and_has_the_span(collector: Collector) -> None:
    done = doctor(collector.endpoint)
    assert done.returncode == 0, done.stdout
    assert "HTTP 200" in done.stdout
    assert f"{collector.endpoint}/v1/traces" in done.stdout
    (span,) = collector.stopped()
    assert span.name == "dsh.doctor"
    assert span.trace_id in done.stdout


def test_the_values_of_headers_are_not_shown(collector: Collector) -> None:
    done = doctor(collector.endpoint, OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20made-up")
    assert done.returncode == 0, done.stdout
    assert "authorization" in done.stdout
    assert "made-up" not in done.stdout + done.stderr


def test_a_closed_port_is_a_problem() -> None:
    (port,) = free_ports(1)
    done = doctor(f"http://{HOST}:{port}")
    assert done.returncode == 2
    assert f"problem: no answer from http://{HOST}:{port}/v1/traces" in done.stdout


def test_a_receiver_that_never_answers_is_a_problem() -> None:
    with Sink(mute=True) as sink:
        done = doctor(sink.endpoint)
    assert done.returncode == 2
    assert "problem: no answer from" in done.stdout


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (401, "set OTEL_EXPORTER_OTLP_HEADERS"),
        (404, "takes the base URL, to which /v1/traces is appended"),
        (405, "is not an OTLP receiver for HTTP with protobuf; use its HTTP port (4318)"),
    ],
)
def test_an_answer_that_is_no_success_comes_with_a_hint(status: int, hint: str) -> None:
    with Sink(status=status) as sink:
        done = doctor(sink.endpoint)
    assert done.returncode == 2
    assert f"HTTP {status}" in done.stdout
    assert hint in done.stdout
