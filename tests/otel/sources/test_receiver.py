"""The endpoint: what is taken, what is not, and what is answered."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from dsh_core.logs.told import Told
from dsh_otel.sources import receiver
from dsh_otel.sources.otlp_logs import Answer, Encoding
from dsh_otel.sources.receiver import HEALTH, PATH, Intake, Parcel, make_app, work_on
from tests.paths import OTLP

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from starlette.applications import Starlette

JSON = {"content-type": "application/json"}
AUGUST = (OTLP / "old-0.1.2rc1--otlp.otlp1.json").read_bytes()
FOREIGN = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "hello"}}]}]}]}


@contextmanager
def working(intake: Intake) -> Iterator[list[Any]]:
    """Work on what is taken, in a thread."""
    told: list[Any] = []
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            parcel = intake.get(0.02)
            if parcel is not None:
                parcel.answer(work_on(parcel, intake.max_body, told.append))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield told
    finally:
        over.set()
        thread.join()


def talk(
    app: Starlette, *requests: Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]
) -> Any:
    async def run() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await asyncio.gather(*(request(client) for request in requests))

    answers = asyncio.run(run())
    return answers if len(answers) > 1 else answers[0]


def post(body: Any, **headers: str) -> Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]:
    named = JSON | {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda client: client.post(PATH, content=body, headers=named)


def answer_to(body: Any, max_body: int = 1 << 20, token: str = "", **headers: str) -> Any:
    intake = Intake(max_body)
    with working(intake):
        answer = talk(make_app(intake, token), post(body, **headers))
    assert intake.empty
    assert intake.answers == {answer.status_code: 1}
    return answer


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_sent_is_told(packed: bool) -> None:
    intake = Intake()
    body, headers = (
        (gzip.compress(AUGUST), {"content_encoding": "gzip"}) if packed else (AUGUST, {})
    )
    with working(intake) as told:
        answer = talk(make_app(intake), post(body, **headers))
    assert (answer.status_code, answer.content) == (200, b"{}")
    assert sum(isinstance(one, Told) for one in told) == 60


def test_a_body_may_come_in_pieces() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for place in range(0, len(AUGUST), 1000):
            yield AUGUST[place : place + 1000]

    assert answer_to(pieces()).status_code == 200


def test_what_is_no_event_is_rejected_by_number() -> None:
    answer = answer_to(json.dumps(FOREIGN).encode())
    assert answer.json() == {
        "partialSuccess": {
            "rejectedLogRecords": "1",
            "errorMessage": "a record that is no event of a session",
        }
    }


@pytest.mark.parametrize("encoding", list(Encoding))
def test_garbage_is_answered_in_its_own_encoding(encoding: Encoding) -> None:
    answer = answer_to(b"\xff\xff", content_type=f"{encoding}; charset=utf-8")
    assert answer.status_code == 400
    assert answer.headers["content-type"] == encoding


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (AUGUST + b" " * (1 << 20), {}),
        (gzip.compress(bytes(50 << 20)), {"content_encoding": "gzip"}),
    ],
    ids=["large", "bomb"],
)
def test_what_is_too_large_is_refused(body: bytes, headers: Any) -> None:
    assert answer_to(body, **headers).status_code == 413


@pytest.mark.parametrize(
    "headers",
    [{"content_type": "text/plain"}, {"content_type": ""}, {"content_encoding": "br"}],
)
def test_what_nobody_can_read_is_refused(headers: Any) -> None:
    assert answer_to(AUGUST, **headers).status_code == 415


@pytest.mark.parametrize(
    ("shown", "status"),
    [
        *[("Bearer secret", 200), ("bearer  secret", 200), ("Basic secret", 401)],
        *[("Bearer other", 401), ("", 401), ("Bearer secrets", 401)],
    ],
)
def test_a_token_is_asked_for(shown: str, status: int) -> None:
    answer = answer_to(AUGUST, token="secret", authorization=shown)
    assert answer.status_code == status
    assert ("www-authenticate" in answer.headers) == (status == 401)


def test_other_paths_and_methods_are_refused() -> None:
    gone, method, health = talk(
        make_app(Intake()),
        lambda client: client.post("/v1/traces", content=b""),
        lambda client: client.get(PATH),
        lambda client: client.get(HEALTH),
    )
    assert (gone.status_code, method.status_code, health.status_code) == (404, 405, 200)
    assert method.headers["allow"] == "POST"


def test_under_pressure_clients_are_asked_to_come_back() -> None:
    """Nobody works: what fits waits, and all others know at once."""
    intake = Intake(max_requests=2)

    async def later(client: httpx.AsyncClient) -> httpx.Response:
        await asyncio.sleep(0.2)
        answer = await client.post(PATH, content=AUGUST, headers=JSON)
        while (parcel := intake.get(0)) is not None:
            parcel.answer(Answer())
        return answer

    *taken, refused = talk(make_app(intake), post(AUGUST), post(AUGUST), later)
    assert [one.status_code for one in taken] == [200, 200]
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 0
    assert intake.empty


def test_a_crowd_is_asked_to_come_back_in_its_own_encoding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receiver, "MAX_OPEN", 2)
    intake, gate = Intake(1 << 20), asyncio.Event()

    async def slow(client: httpx.AsyncClient) -> httpx.Response:
        async def body() -> AsyncIterator[bytes]:
            await gate.wait()
            yield b"{}"

        return await client.post(PATH, content=body(), headers=JSON)

    async def third(client: httpx.AsyncClient) -> httpx.Response:
        await asyncio.sleep(0)
        answer = await client.post(PATH, content=b"{}", headers=JSON)
        gate.set()
        return answer

    with working(intake):
        *first, last = talk(make_app(intake), slow, slow, third)
    assert [one.status_code for one in first] == [200, 200]
    assert (last.status_code, last.headers["retry-after"]) == (503, "1")
    assert last.json()["message"]


def test_requests_that_come_in_have_a_bound_in_bytes_together() -> None:
    intake = Intake(max_body=1000, max_bytes=1500)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(9):
            yield b" " * 100
            await asyncio.sleep(0.01)

    with working(intake):
        answers = talk(make_app(intake), *(post(pieces()) for _ in range(4)))
    statuses = [one.status_code for one in answers]
    assert 429 in statuses
    assert 400 in statuses
    assert intake.empty


def test_one_that_does_not_come_in_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "READ_S", 0.1)

    async def stalled() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(60)

    assert answer_to(stalled()).status_code == 408


def test_one_that_is_ending_takes_nothing() -> None:
    intake = Intake()
    intake.end()
    sent, health = talk(make_app(intake), post(AUGUST), lambda client: client.get(HEALTH))
    assert (sent.status_code, health.status_code) == (503, 503)
    assert "retry-after" in sent.headers


def test_whoever_has_gone_is_not_answered() -> None:
    intake = Intake()
    parcels: list[Parcel] = []

    async def leave(client: httpx.AsyncClient) -> httpx.Response:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await client.post(PATH, content=AUGUST, headers=JSON)
        found = intake.get(1)
        assert found is not None
        parcels.append(found)
        return httpx.Response(200)

    talk(make_app(intake), leave)
    parcels[0].answer(Answer())
    assert intake.empty
