"""What goes wrong between the adapter for the Messages API and a provider."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from dsh_core.abort import AbortController
from dsh_core.llm import GenerateOptions, messages
from dsh_core.llm.messages import MessagesAdapter
from tests.core.llm.asking import HELLO_CHUNKS, HI, KEY, OPTIONS, answer, ask, encoded, failure
from tests.core.llm.loopback import (
    Loopback,
    event,
    hang,
    hello,
    reset,
    respond,
    start,
    stop,
    streams,
    text_block,
)

if TYPE_CHECKING:
    from tests.core.llm.loopback import Play


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


def endless(first: bytes, piece: bytes) -> Play:
    """Answer with a beginning, and then with the same for ever."""

    async def play(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        while not writer.is_closing():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    return play


class TestHttpErrors:
    @pytest.mark.parametrize(
        ("status", "code"),
        [
            (400, "INVALID_REQUEST"),
            (401, "AUTH"),
            (402, "QUOTA"),
            (403, "AUTH"),
            (404, "HTTP_404"),
            (413, "INVALID_REQUEST"),
            (429, "RATE_LIMIT"),
            (500, "SERVER"),
            (529, "SERVER"),
        ],
    )
    def test_a_status_ends_the_stream_with_its_code(self, status: int, code: str) -> None:
        body = b'{"type":"error","error":{"type":"x","message":"the reason"}}'
        assert failure(respond(status, body)) == {
            "message": "the reason",
            "code": code,
            "status": status,
        }

    def test_the_context_bound_has_a_code_of_its_own(self) -> None:
        body = b'{"error":{"message":"prompt is too long: 2 tokens > 1 maximum"}}'
        assert failure(respond(400, body))["code"] == "CONTEXT_WINDOW_EXCEEDED"

    @pytest.mark.parametrize(
        ("headers", "wait"),
        [
            ({"Retry-After": "2"}, 2000),
            ({"Retry-After-Ms": "250"}, 250),
            ({"Retry-After": "Mon, 21 Sep 2026 14:13:30 GMT"}, 10_000),
        ],
    )
    def test_the_wait_is_passed_on(self, headers: dict[str, str], wait: float) -> None:
        found = failure(respond(429, b"{}", headers), now=lambda: 1_790_000_000.0)
        assert found["providerRetryAfterMs"] == wait

    def test_a_redirect_is_not_followed(self) -> None:
        headers = {"Location": "http://127.0.0.1:1/"}
        assert failure(respond(307, b"", headers))["code"] == "HTTP_307"

    def test_the_key_is_taken_out_of_the_message(self) -> None:
        body = json.dumps({"error": {"message": f"bad key {KEY}!"}}).encode()
        assert failure(respond(401, body))["message"] == "bad key [redacted]!"

    def test_the_key_is_taken_out_of_a_body_that_escapes_it(self) -> None:
        key = "sk/a+b"
        body = rb'<p>bad key "sk\/a\u002bb"</p>'

        async def main() -> Any:
            async with Loopback(respond(401, body, kind="text/html")) as server:
                return [one async for one in MessagesAdapter(server.url, key).stream(OPTIONS)]

        found = asyncio.run(main())[-1]["reason"]["failure"]["message"]
        assert found == '<p>bad key "[redacted]"</p>'

    def test_a_long_body_is_read_only_in_part(self) -> None:
        found = failure(respond(500, b"x" * 1_000_000, kind="text/plain"))
        assert found["message"] == "x" * 1999 + "…"

    def test_a_body_that_is_cut_is_used_as_far_as_it_came(self) -> None:
        found = failure(respond(503, b"busy", {"content-length": "99"}))
        assert found == {"message": "busy", "code": "SERVER", "status": 503}

    def test_a_body_that_does_not_come_in_time_is_not_waited_for(self) -> None:
        async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 503 Busy\r\ncontent-length: 9\r\n\r\nbus")
            await reader.read()

        assert failure(play, timeout_s=0.3)["message"] == "bus"


class TestTransport:
    def test_a_refused_connection_is_a_transport_failure(self) -> None:
        async def main() -> list[Any]:
            async with Loopback() as server:
                pass
            adapter = MessagesAdapter(server.url, KEY)
            return [chunk async for chunk in adapter.stream(OPTIONS)]

        found = asyncio.run(main())[-1]["reason"]["failure"]
        assert found["code"] == "TRANSPORT"
        assert found["message"].startswith("the connection failed: ConnectError: ")

    def test_a_reset_before_the_answer_is_a_transport_failure(self) -> None:
        assert failure(reset)["code"] == "TRANSPORT"

    def test_a_close_before_the_answer_is_a_transport_failure(self) -> None:
        async def play(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        assert failure(play)["code"] == "TRANSPORT"

    def test_an_answer_that_is_no_http_is_a_transport_failure(self) -> None:
        async def play(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
            await writer.drain()

        assert failure(play)["code"] == "TRANSPORT"

    def test_no_answer_in_time_is_a_timeout(self) -> None:
        assert failure(hang, timeout_s=0.05) == {
            "message": "the provider took too long",
            "code": "TIMEOUT",
        }

    def test_silence_amid_the_stream_is_a_timeout(self) -> None:
        chunks, _ = ask(streams(encoded(hello()[:3]), end="hang"), timeout_s=0.3)
        assert chunks[:2] == HELLO_CHUNKS[:2]
        assert chunks[2]["reason"]["failure"]["code"] == "TIMEOUT"

    @pytest.mark.parametrize(
        "piece", [b": ping\n\n", b"event: ping\n\n"], ids=["comments", "events"]
    )
    def test_a_stream_that_says_nothing_is_ended_in_time(self, piece: bytes) -> None:
        found = failure(endless(STREAM, piece), total_s=0.1)
        assert found == {"message": "the answer took longer than 0.1 s", "code": "TIMEOUT"}

    @pytest.mark.parametrize(
        ("first", "piece"),
        [(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"), (b"HTTP/1.1 200 OK\r\nx: ", b"y")],
        ids=["early hints", "one header"],
    )
    def test_an_answer_that_never_begins_is_ended_in_time(self, first: bytes, piece: bytes) -> None:
        assert failure(endless(first, piece), total_s=0.1)["code"] == "TIMEOUT"

    def test_what_came_before_the_end_of_the_time_is_told(self) -> None:
        chunks, _ = ask(endless(STREAM + encoded(hello()[:3]), b":\n"), total_s=0.1)
        assert chunks[:2] == HELLO_CHUNKS[:2]
        assert chunks[2]["reason"]["failure"]["code"] == "TIMEOUT"

    def test_the_time_ends_for_requests_that_can_be_aborted_too(self) -> None:
        options = GenerateOptions("m", [HI], signal=AbortController().signal)
        chunks, _ = ask(hang, options, total_s=0.05)
        assert chunks[-1]["reason"]["failure"]["code"] == "TIMEOUT"

    def test_an_error_whose_body_does_not_end_in_time_keeps_its_status(self) -> None:
        async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 503 Busy\r\ncontent-length: 9\r\n\r\nbus")
            await reader.read()

        found = failure(play, total_s=0.1)
        assert found == {"message": "bus", "code": "SERVER", "status": 503}

    def test_the_time_that_the_reader_takes_does_not_count(self) -> None:
        async def main() -> list[Any]:
            loop: Any = asyncio.get_running_loop()
            real, late = loop.time, 0.0
            loop.time = lambda: real() + late
            async with Loopback(streams(*map(event, hello()))) as server:
                found = []
                async for one in MessagesAdapter(server.url, KEY, total_s=30).stream(OPTIONS):
                    found.append(one)
                    late += 1_000
                return found

        assert asyncio.run(main()) == HELLO_CHUNKS

    def test_the_time_that_the_provider_takes_adds_up(self) -> None:
        async def main() -> list[Any]:
            loop: Any = asyncio.get_running_loop()
            real, late = loop.time, 0.0
            loop.time = lambda: real() + late
            asked = asyncio.Event()

            async def play(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                nonlocal late
                writer.write(STREAM)
                for one in hello()[1:]:
                    late += 20
                    writer.write(event(one))
                    await asked.wait()
                    asked.clear()

            async with Loopback(play) as server:
                found = []
                adapter = MessagesAdapter(server.url, KEY, total_s=50)
                async for one in adapter.stream(OPTIONS):
                    found.append(one)
                    asked.set()
                return found

        found = asyncio.run(main())
        assert found[:2] == HELLO_CHUNKS[:2]
        assert found[-1]["reason"]["failure"]["code"] == "TIMEOUT"

    @pytest.mark.parametrize("end", ["whole", "cut"])
    def test_a_stream_that_ends_before_its_message_is_closed(self, end: str) -> None:
        chunks = answer(encoded(hello()[:3]), end=end)
        assert chunks[:2] == HELLO_CHUNKS[:2]
        assert chunks[2]["reason"]["failure"]["code"] == "STREAM_CLOSED"

    def test_an_event_that_is_cut_is_no_event(self) -> None:
        chunks = answer(encoded(hello())[:-1])
        assert chunks[-1]["reason"]["failure"]["code"] == "STREAM_CLOSED"

    def test_a_reset_amid_the_stream_is_a_failure_of_the_way(self) -> None:
        chunks = answer(encoded(hello()[:3]), end="reset")
        assert chunks[-1]["reason"]["failure"]["code"] in {"TRANSPORT", "STREAM_CLOSED"}


class TestBrokenStreams:
    def test_an_answer_without_a_body_is_empty(self) -> None:
        assert failure(streams())["code"] == "EMPTY_RESPONSE"

    def test_an_answer_without_content_is_empty(self) -> None:
        assert failure(streams(encoded([start(), *stop()])))["code"] == "EMPTY_RESPONSE"

    def test_malformed_json_is_a_malformed_response(self) -> None:
        assert failure(streams(b"data: {bad json\n\n")) == {
            "message": "Messages stream: an event is no JSON",
            "code": "MALFORMED_RESPONSE",
        }

    @pytest.mark.parametrize("kind", ["application/json", "text/html"])
    def test_another_content_type_is_a_malformed_response(self, kind: str) -> None:
        found = failure(respond(200, b"{}", kind=kind))
        assert found == {
            "message": f"Messages stream: the content type is {kind!r}",
            "code": "MALFORMED_RESPONSE",
        }

    def test_compressed_content_is_a_malformed_response(self) -> None:
        found = failure(streams(b"x", headers={"content-encoding": "gzip"}))
        assert found["code"] == "MALFORMED_RESPONSE"

    def test_an_endless_line_is_a_malformed_response(self) -> None:
        found = failure(streams(*[b"x" * 1_000_000] * 9, end="hang"))
        assert found == {
            "message": "Messages stream: a line of the stream is longer than 8388608 bytes",
            "code": "MALFORMED_RESPONSE",
        }

    def test_an_endless_answer_is_a_malformed_response(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(messages, "MAX_ANSWER", 100)
        found = failure(streams(*[b": ping\n\n"] * 20, end="hang"))
        assert found["message"] == "Messages stream: the answer is longer than 100 bytes"

    def test_an_error_event_ends_the_stream_with_its_code(self) -> None:
        error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        chunks = answer(encoded([*hello()[:3], error]))
        assert chunks == [
            *HELLO_CHUNKS[:2],
            {
                "type": "finish",
                "reason": {
                    "kind": "error",
                    "failure": {"message": "Overloaded", "code": "SERVER"},
                },
            },
        ]

    def test_an_unknown_stop_reason_is_an_error_of_that_name(self) -> None:
        chunks = answer(encoded([*text_block(0, "no"), *stop("refusal", output_tokens=3)]))
        assert [chunk["type"] for chunk in chunks[-2:]] == ["usage", "finish"]
        assert chunks[-1]["reason"]["failure"]["code"] == "REFUSAL"
