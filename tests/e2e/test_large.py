"""A long session: the export goes at the receiver's pace and loses nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.e2e import cli, logs
from tests.e2e.spans import assert_same, expected_spans

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.receivers import Collector

pytestmark = pytest.mark.e2e

TURNS: Final = 2000
TOTAL: Final = 20_000
BOUND: Final = 120.0
"""Seconds that the export may take; it takes a few."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A session of June with 20,000 spans."""
    return logs.write(tmp_path / "june.jsonl", logs.turns(TURNS))


def test_all_of_many_spans_arrive_at_a_collector(log: Path, collector: Collector) -> None:
    done = cli.export(log, endpoint=collector.endpoint, deadline=BOUND)
    assert done.returncode == 0, done.stderr
    assert cli.count("spans? went to", done.stderr) == TOTAL
    arrived = collector.stopped()
    assert len(arrived) == TOTAL
    assert_same(arrived, expected_spans(log))
