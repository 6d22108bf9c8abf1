"""Tests of ``dsh-otel receive`` that need no client."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest

from dsh_otel import cli
from dsh_otel.cli.receiving import Summary, is_loopback, url_of
from tests.cli.helpers import run

if TYPE_CHECKING:
    from pathlib import Path


def test_telemetry_that_is_switched_off_stays_off() -> None:
    outcome = run("receive", env={"DSH_TELEMETRY_DISABLED": "1"})
    assert outcome.exit_code == 0
    assert outcome.stderr == "dsh-otel: telemetry is switched off: DSH_TELEMETRY_DISABLED is set\n"


def test_without_its_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "dsh_otel.cli.receiving")
    monkeypatch.delattr(cli, "receiving")
    outcome = run("receive")
    assert outcome.exit_code == 2
    assert "pip install '.[receive]'" in outcome.stderr


@pytest.mark.parametrize("host", ["no.such.host.invalid", "256.1.1.1", "\N{SNOWMAN}" * 70])
def test_where_it_cannot_listen_it_says_so(host: str) -> None:
    outcome = run("receive", "--host", host)
    assert outcome.exit_code == 2
    assert "cannot listen on" in outcome.stderr


def test_an_output_without_its_destination_is_wrong_usage(tmp_path: Path) -> None:
    assert run("receive", "--output", tmp_path / "x").exit_code == 2


@pytest.mark.parametrize(
    ("host", "safe"),
    [
        *((host, True) for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost")),
        *((host, False) for host in ("0.0.0.0", "::", "10.0.0.1", "example.org")),
    ],
)
def test_who_reaches_it_depends_on_the_host(host: str, safe: bool) -> None:
    assert is_loopback(host) is safe


def test_the_url_of_an_address_with_colons_is_one() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 here")
    with listener:
        assert url_of(listener).startswith("http://[::1]:")


def summary(**values: Any) -> Summary:
    known: dict[str, Any] = {
        "requests": {200: 2, 400: 1},
        "sessions": 1,
        "events": 3,
        "turns": 1,
        "rejected": 2,
        "asides": {"duplicate": 4, "missing": 9},
        "findings": {},
        "target": "http://far",
        "sent": 5,
        "dropped": 0,
        "left": 0,
        "unread": 0,
        "problem": "",
        "errors": {},
    }
    return Summary(**(known | values))


def test_what_became_of_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    summary(dropped=3, left=1, problem="it does not answer").tell()
    assert capsys.readouterr().err.splitlines() == [
        (
            "dsh-otel: 3 requests: 1 session, 3 events, 1 turn ended; no findings; 4 told again, "
            "2 records rejected"
        ),
        "dsh-otel: 5 spans sent to http://far, 3 dropped, 1 left, lost (it does not answer)",
    ]


@pytest.mark.parametrize(
    ("values", "complete"),
    [
        *(({}, True), ({"unread": 1}, True)),
        *(({name: 1}, False) for name in ("left", "dropped")),
        ({"errors": {"x": 1}}, False),
    ],
)
def test_it_is_complete_if_everything_has_arrived(values: Any, complete: bool) -> None:
    assert summary(**values).complete is complete
