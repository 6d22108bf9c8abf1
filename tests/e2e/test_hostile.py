"""Logs that nobody would want to meet, on their way into real receivers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsh_otel.clean import Privacy
from tests.e2e import cli
from tests.e2e.receivers import wait_until
from tests.e2e.spans import assert_same, expected_spans

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.receivers import Collector, Rotel, Sink

pytestmark = pytest.mark.e2e


def test_the_logs_are_as_hostile_as_they_should_be(hostile_log: Path) -> None:
    data = hostile_log.read_bytes()
    for part in (b"\\ud800", b"\\u0000", b"\\u001b", str(2**70).encode(), b"n" * 100_000):
        assert part in data
    assert len(expected_spans(hostile_log, strict=True)) > 40


@pytest.mark.parametrize("content", [False, True], ids=["plain", "content"])
def test_nothing_is_lost_on_the_way_to_a_collector(
    content: bool, hostile_log: Path, collector: Collector
) -> None:
    expected = expected_spans(hostile_log, privacy=Privacy(content=content))
    options = ["--content"] if content else []
    done = cli.export(hostile_log, *options, endpoint=collector.endpoint)
    assert done.returncode == 0, done.stderr
    arrived = collector.stopped()
    assert_same(arrived, expected)
    assert cli.count("spans? went to", done.stderr) == len(arrived)


def test_nothing_is_lost_on_the_way_through_rotel(
    hostile_log: Path, rotel: Rotel, sink: Sink
) -> None:
    done = cli.export(hostile_log, endpoint=rotel.endpoint)
    assert done.returncode == 0, done.stderr
    expected = expected_spans(hostile_log)
    wait_until(lambda: len(sink.spans()) >= len(expected), "all spans in the sink", log=rotel.log)
    rotel.stop()
    assert_same(sink.spans(), expected)
