"""Files that a real Collector reads with its receiver for OTLP JSON."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

import pytest

from dsh_otel.clean import Privacy
from tests.e2e import cli, logs
from tests.e2e.logs import SAMPLES
from tests.e2e.spans import assert_same, expected_spans
from tests.paths import CASES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.conftest import StartCollector

pytestmark = pytest.mark.e2e

MAX_LINE: Final = 1 << 20
"""Longest line, in bytes, that the receiver reads in one piece; a longer one is lost in silence."""


class CheckFile(Protocol):
    """Checks that all spans of some logs come through a file."""

    def __call__(self, place: Path, *, content: bool = False) -> None:
        """Check it, with or without content."""


@pytest.fixture
def check_file(start_collector: StartCollector, tmp_path: Path) -> CheckFile:
    """Checks that all spans of some logs come through a file, once and unchanged."""

    def check(place: Path, *, content: bool = False) -> None:
        file = tmp_path / "traces.jsonl"
        options = ["--content"] if content else []
        done = cli.run("export", place, *options, "--to", "file", "-o", file)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        expected = expected_spans(place, privacy=Privacy(content=content))
        assert cli.count("spans? went to", done.stderr) == len(expected) > 0
        with file.open("rb") as lines:
            assert max(map(len, lines)) < MAX_LINE
        collector = start_collector(reads=file)
        collector.wait_for(len(expected))
        assert_same(collector.stopped(), expected)

    return check


def test_every_span_of_real_sessions_arrives_once_and_unchanged(check_file: CheckFile) -> None:
    check_file(SAMPLES)


def test_every_span_of_broken_sessions_arrives_once_and_unchanged(check_file: CheckFile) -> None:
    check_file(CASES)


def test_every_span_of_a_hostile_session_arrives(check_file: CheckFile, hostile_log: Path) -> None:
    check_file(hostile_log)


def test_every_span_of_a_long_session_arrives(check_file: CheckFile, tmp_path: Path) -> None:
    check_file(logs.write(tmp_path / "june.jsonl", logs.turns(2000)))


def test_every_span_with_content_arrives(check_file: CheckFile, tmp_path: Path) -> None:
    turns = logs.turns(100, text="a line of text\n" * 400)
    check_file(logs.write(tmp_path / "june.jsonl", turns), content=True)


def test_every_span_of_a_long_hostile_session_arrives(
    check_file: CheckFile, tmp_path: Path
) -> None:
    events = chain.from_iterable(logs.hostile_june() for _ in range(10))
    check_file(logs.write(tmp_path / "june.jsonl", events))
