"""Logs written by real runtimes; see tests/data/README.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsh_core.check import check_session
from dsh_core.contract.findings import Severity
from dsh_core.logs.find import find_logs
from dsh_core.logs.reader import SessionLog
from tests.paths import DECODED, HOMES

if TYPE_CHECKING:
    from pathlib import Path

LOGS = sorted(DECODED.glob("*.jsonl"))
STORED = [log.path for log in find_logs([str(HOMES)])]
HOMES_AS_DECODED = [
    (path, home)
    for path in LOGS
    if len(home := find_logs([str(HOMES / path.stem)]) if (HOMES / path.stem).is_dir() else []) == 1
]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
@pytest.mark.parametrize("final", [False, True])
def test_decoded_sessions_are_clean(path: Path, final: bool) -> None:
    """What a runtime wrote keeps its contract, the logs that a crash left included."""
    report = check_session(str(path), final=final)
    assert (report.error, report.disabled) == ("", [])
    assert [f for f in report.findings if f.severity is not Severity.ADVICE] == []
    assert report.events > 10
    assert report.contract == ("v0" if path.name.startswith("old-") else "v4")


@pytest.mark.parametrize("path", STORED, ids=lambda path: "/".join(path.split("/")[-5:-1]))
def test_stored_sessions_are_clean(path: str) -> None:
    """The same holds for the files as they lie in a DSH home."""
    report = check_session(path)
    assert (report.error, report.disabled) == ("", [])
    assert [f for f in report.findings if f.severity is not Severity.ADVICE] == []
    assert report.session_id == path.split("/")[-2]


def test_all_sessions_are_there() -> None:
    """Each decoded log has its stored twin."""
    assert (len(LOGS), len(STORED), len(HOMES_AS_DECODED)) == (29, 29, 27)


@pytest.mark.parametrize(
    ("decoded", "stored"), HOMES_AS_DECODED, ids=[path.stem for path, _ in HOMES_AS_DECODED]
)
def test_both_hold_the_same_events(decoded: Path, stored: list[object]) -> None:
    """The decoded log and the stored one give the same events and the same header."""
    with decoded.open("rb") as plain, find_logs([str(HOMES / decoded.stem)])[0].open() as packed:
        one, two = SessionLog(plain, decoded.name), SessionLog(packed, "session.jsonl.zstd")
        assert list(one) == list(two)
        assert one.header == two.header
