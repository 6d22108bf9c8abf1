"""Files that are no session logs: JSON over many lines, and what only looks like it."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

from dsh_core.logs.reader import SessionLog, UnsupportedFormatError
from dsh_otel.cli.exits import ExitCode
from tests.cli.helpers import encode, run

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = [json.loads(line) for line in encode(*[("turn/start", {"turn": 0})] * 400).splitlines()]
NOTIFICATIONS = [
    {"method": "session.event", "payload": {"sessionId": "s", "event": event}} for event in EVENTS
]
LOG = encode(("turn/start", {"turn": 0}), ("turn/end", {"turn": 0}))


def read(data: bytes) -> int:
    """Read a log; return its number of events."""
    return sum(1 for _ in SessionLog(io.BytesIO(data), "s"))


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize(
    ("document", "what"),
    [
        (NOTIFICATIONS, "SDK notifications, not a session log"),
        (NOTIFICATIONS[:1], "SDK notifications, not a session log"),
        ({"resourceSpans": [{"scopeSpans": []}]}, "an OTLP file, not a session log"),
        (EVENTS, "a JSON array over many lines, not a session log"),
        ({"events": EVENTS}, "a JSON document over many lines, not a session log"),
        (EVENTS[0], "a JSON document over many lines, not a session log"),
    ],
    ids=["notifications", "one notification", "OTLP", "array", "document", "one event"],
)
def test_a_json_document_over_many_lines_is_named_for_what_it_looks_like(
    document: object, what: str, end: str
) -> None:
    for lead in ("", "\N{BYTE ORDER MARK}", "\n"):
        text = lead + json.dumps(document, indent=1) + end
        with pytest.raises(UnsupportedFormatError) as error:
            read(text.encode())
        assert str(error.value) == what


def test_other_ways_to_spread_a_document_are_recognised_too() -> None:
    rows = [json.dumps(event) for event in EVENTS]
    for text in (
        "[" + ",\n".join(rows) + "]\n",
        "[\n" + ",\n".join(rows) + "\n]\n",
        '{"name": "x",\n"rows": 3}\n',
        "\n".join(json.dumps(event, indent=2) for event in EVENTS),
    ):
        with pytest.raises(UnsupportedFormatError, match=r"over many lines, not a session log"):
            read(text.encode())


@pytest.mark.parametrize(
    "text",
    [json.dumps(NOTIFICATIONS), "\n".join(map(json.dumps, NOTIFICATIONS))],
    ids=["an array", "lines"],
)
def test_notifications_on_whole_lines_are_recognised_too(text: str) -> None:
    with pytest.raises(UnsupportedFormatError, match="SDK notifications, not a session log"):
        read(text.encode())


@pytest.mark.parametrize("place", range(1, 78))
@pytest.mark.parametrize("tail", [b"", b"\n", b"\n" + LOG, b"\n" + LOG[:60], b"\n" + LOG[:-1]])
def test_a_log_whose_first_line_is_torn_anywhere_is_no_foreign_file(
    place: int, tail: bytes
) -> None:
    header = b'{"id":"s","type":"session","version":4,"createdAt":1,"cwd":"/a","x":[{"y":{}}]}\n'
    for line in (header, LOG.splitlines()[0]):
        assert read(line[:place] + tail) >= (2 if tail == b"\n" + LOG else 0)


def test_a_log_behind_a_spread_event_is_read() -> None:
    assert read(json.dumps(EVENTS[0], indent=1).encode() + b"\n" + LOG) == 2


def test_a_log_behind_a_stray_bracket_is_read() -> None:
    assert read(b"[\n" + LOG) == 2
    assert read(b"[\n" + LOG.splitlines(keepends=True)[0]) == 1


@pytest.mark.parametrize(
    "data", [b"[\n", b"{\n", b"[", b"{", b"[\n\n", b"[" * 9999 + b"\n[", b"[\n" * 3000, b"{\n{a}\n"]
)
def test_a_bracket_alone_tells_nothing(data: bytes) -> None:
    assert read(data) == 0


@pytest.mark.parametrize("command", ["check", "export"])
def test_a_document_over_many_lines_ends_as_any_other_foreign_file(
    command: str, tmp_path: Path
) -> None:
    path = tmp_path / "traces.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": []}]}, indent=1))
    result = run(command, path)
    assert result.exit_code == ExitCode.CANNOT_TELL
    assert "an OTLP file, not a session log" in result.output
    assert "line.not-json" not in result.output
