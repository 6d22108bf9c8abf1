"""OTLP JSON lines in a file."""

from __future__ import annotations

import json
import sys
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsh_otel.export.file import FileSink
from dsh_otel.export.sink import MissingExtraError
from dsh_otel.replay import ReplaySpanProcessor, replay_provider, trace_session
from tests.otel.support import LOGS, session_log

if TYPE_CHECKING:
    from tests.otel.conftest import Logged

FULL = Path("/dev/full")


def export(log: Path, sink: FileSink, batch: int = 256) -> ReplaySpanProcessor:
    writer = ReplaySpanProcessor(sink.exporter, batch)
    provider = replay_provider(writer)
    trace_session(str(log), tracer_provider=provider, strict=True)
    provider.shutdown()
    return writer


def names(text: str) -> list[str]:
    return [
        span["name"]
        for line in text.splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def test_each_batch_is_a_line(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    sink = FileSink(str(path))
    writer = export(session_log("text"), sink, batch=2)
    report = sink.report()
    text = path.read_text()
    assert names(text) == ["chat deepseek-v4-flash", "dsh.step", "invoke_agent dsh"]
    assert text.count("\n") == 2
    assert text.endswith("\n")
    assert (writer.counts.sent, writer.counts.lost) == (3, 0)
    assert (report.refused, report.problem) == (0, "")
    assert sink.target == str(path)


def test_a_line_is_what_the_collector_reads(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    sink = FileSink(str(path))
    export(session_log("text"), sink)
    sink.report()
    (resource,) = json.loads(path.read_text())["resourceSpans"]
    assert {one["key"]: one["value"] for one in resource["resource"]["attributes"]}[
        "service.name"
    ] == {"stringValue": "dsh"}
    (scope,) = resource["scopeSpans"]
    assert scope["scope"]["name"] == "dsh_otel"
    chat = scope["spans"][0]
    assert len(chat["traceId"]) == 32
    assert len(chat["spanId"]) == 16
    assert chat["kind"] == 3
    assert chat["startTimeUnixNano"].isdigit()
    assert {"key": "dsh.attempt", "value": {"intValue": "1"}} in chat["attributes"]


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_a_log_gives_the_same_file_each_time(log: Path, tmp_path: Path) -> None:
    written = []
    for number in range(2):
        path = tmp_path / f"{number}.jsonl"
        sink = FileSink(str(path))
        export(log, sink)
        sink.report()
        written.append(path.read_bytes())
    assert written[0] == written[1]
    assert written[0]


def test_a_file_that_exists_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_text("old\n" * 1000)
    sink = FileSink(str(path))
    export(session_log("text"), sink)
    sink.report()
    assert "old" not in path.read_text()


def test_a_dash_is_standard_output_and_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    sink = FileSink("-")
    export(session_log("text"), sink)
    assert sink.report().problem == ""
    assert names(stream.getvalue())[-1] == "invoke_agent dsh"
    assert not stream.closed


def test_a_file_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileSink(str(tmp_path / "no" / "spans.jsonl"))
    with pytest.raises(IsADirectoryError):
        FileSink(str(tmp_path))


@pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")
def test_a_full_disk_loses_spans_and_says_so(logged: Logged) -> None:
    sink = FileSink(str(FULL))
    writer = export(session_log("text"), sink, batch=1)
    assert (writer.counts.sent, writer.counts.lost) == (0, 3)
    report = sink.report()
    assert report.problem == "No space left on device"
    assert "No space left on device" in logged.take()[0]


class Closing(StringIO):
    """A file whose last block does not fit any more."""

    def close(self) -> None:
        if not self.closed:
            super().close()
            raise OSError(28, "No space left on device")


def test_a_disk_that_fills_up_at_the_end_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "open", lambda *_, **__: Closing())
    sink = FileSink(str(tmp_path / "spans.jsonl"))
    assert sink.report().problem == "No space left on device"


def test_the_report_may_be_asked_for_twice(tmp_path: Path) -> None:
    sink = FileSink(str(tmp_path / "spans.jsonl"))
    assert sink.report() == sink.report()


def test_without_the_extra_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.json.file.trace_exporter", None)
    path = tmp_path / "spans.jsonl"
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[otlp\]' in the"):
        FileSink(str(path))
    assert not path.exists()
