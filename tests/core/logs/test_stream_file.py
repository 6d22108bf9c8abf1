"""Recorded notifications and OTLP logs as files."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from dsh_core.check import check_session, check_sessions
from dsh_core.contract.findings import Severity
from dsh_core.logs.reader import UnsupportedFormatError
from dsh_core.logs.stream_file import StreamFile, is_stream_file
from tests.paths import CASES, DECODED, HOMES, NOTIFICATIONS, OTLP

if TYPE_CHECKING:
    from pathlib import Path

STREAMS = sorted([*NOTIFICATIONS.glob("*.json"), *OTLP.glob("*.json")])
LOGS = sorted([*DECODED.glob("*"), *CASES.glob("*.jsonl"), *HOMES.rglob("*.jsonl*")])


def notification(seq: int, session: str = "s", **event: Any) -> dict[str, Any]:
    made = {"type": "todo/write", "seq": seq, "time": 1000 + seq, "data": {"todos": []}} | event
    return {"method": "session.event", "payload": {"sessionId": session, "event": made}}


def as_lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def read(data: bytes) -> StreamFile:
    return StreamFile(io.BytesIO(data))


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_what_was_recorded_is_recognised_and_breaks_no_contract(path: Path) -> None:
    reports = list(check_sessions(str(path)))
    assert sum(report.events for report in reports) > 15
    for report in reports:
        assert report.stream
        assert report.reason == ""
        assert report.contract == ("v0" if path.name.startswith("old-") else "v4")
        assert report.count(Severity.VIOLATION) == report.count(Severity.DAMAGE) == 0


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_a_log_is_never_taken_for_one(path: Path) -> None:
    with path.open("rb") as source:
        assert not is_stream_file(source.read(512))


@pytest.mark.parametrize(
    "shape",
    [
        lambda values: json.dumps(values).encode(),
        lambda values: json.dumps(values, indent=2).encode(),
        lambda values: b"\xef\xbb\xbf \n" + json.dumps(values).encode(),
        lambda values: as_lines(*values),
        lambda values: as_lines(
            *(
                {"jsonrpc": "2.0", "method": one["method"], "params": one["payload"]}
                for one in values
            )
        ),
        lambda values: as_lines({"jsonrpc": "2.0", "id": 1, "result": {}}, *values),
    ],
)
def test_notifications_may_be_a_list_or_lines_of_either_form(shape: Any) -> None:
    values = json.loads((NOTIFICATIONS / "subagent.json").read_bytes())
    data = shape(values)
    assert is_stream_file(data[:512])
    file = read(data)
    assert [len(session.told) for session in file.sessions] == [33, 20]
    assert file.sessions[1].header.parent_session == "sub-1"
    assert file.problem == ""


def test_requests_may_be_one_a_line_and_repeated() -> None:
    request = json.loads((OTLP / "old-0.1.2rc1--otlp.otlp1.json").read_bytes())
    file = read(as_lines(request, request))
    (session,) = file.sessions
    assert len(session.told) == 60
    assert file.asides["duplicate"] == 60


def test_a_finding_of_lines_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "n.jsonl"
    path.write_bytes(as_lines(*map(notification, (0, 1)), notification(1)))
    report = check_session(str(path))
    assert [(one.rule, one.line) for one in report.findings] == [("seq.duplicate", 3)]
    assert report.name == f"{path}#s"


def test_a_file_of_several_sessions_has_a_report_of_each(tmp_path: Path) -> None:
    path = tmp_path / "n.jsonl"
    path.write_bytes(as_lines(*(notification(0, session) for session in "abc")))
    assert [one.session_id for one in check_sessions(str(path))] == ["a", "b", "c"]
    assert check_session(str(path)).reason.startswith("it holds 3 sessions")


def test_what_cannot_be_read_of_it_is_told(tmp_path: Path) -> None:
    path = tmp_path / "n.jsonl"
    path.write_bytes(as_lines(notification(0)) + b'{"method":\n' + as_lines(notification(1)))
    first, whole = check_sessions(str(path))
    assert (first.events, first.reason) == (2, "")
    assert "line 2" in whole.reason


@pytest.mark.parametrize(
    "data",
    [
        b'[{"method":',
        b'{"method":',
        b'{"resourceLogs": 3}',
        b'{"resourceLogs": []}',
        b'[{"method": "session.status", "payload": {}}]',
        b'[{"method": ' + b"[" * 100_000,
        b'{"method": "\xff"}',
    ],
)
def test_a_file_without_any_event_is_refused(data: bytes) -> None:
    assert is_stream_file(data[:512])
    with pytest.raises(UnsupportedFormatError):
        read(data)


def test_an_event_that_is_nested_too_deeply_is_damage(tmp_path: Path) -> None:
    deep: Any = []
    for _ in range(450):
        deep = [deep]
    path = tmp_path / "n.jsonl"
    path.write_bytes(as_lines(notification(0), notification(1, data={"x": deep}), notification(2)))
    report = check_session(str(path))
    assert [one.rule for one in report.findings] == ["line.too-deep"]
