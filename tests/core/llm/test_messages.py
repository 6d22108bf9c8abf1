"""The adapter for the Messages API, against a scripted server."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from dsh_core.abort import AbortController
from dsh_core.errors import LlmError
from dsh_core.llm import BlockAssembler, GenerateOptions
from dsh_core.llm.messages import MessagesAdapter
from tests.core.llm.asking import HELLO_CHUNKS, HI, KEY, OPTIONS, answer, ask, encoded
from tests.core.llm.loopback import (
    Loopback,
    block,
    event,
    hang,
    hello,
    start,
    stop,
    streams,
    text_block,
)

if TYPE_CHECKING:
    from tests.core.llm.loopback import Request


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


class TestRequest:
    def test_it_is_posted_to_v1_messages_with_key_and_version(self) -> None:
        _, (request,) = ask(streams(encoded(hello())))
        assert request.line == "POST /v1/messages HTTP/1.1"
        assert request.headers["x-api-key"] == KEY
        assert request.headers["anthropic-version"] == "2023-06-01"
        assert request.headers["content-type"] == "application/json"
        assert request.headers["accept-encoding"] == "identity"
        assert "authorization" not in request.headers

    def test_its_body_has_the_conversation(self) -> None:
        _, (request,) = ask(streams(encoded(hello())), max_tokens=77)
        assert request.json == {
            "model": "m",
            "max_tokens": 77,
            "stream": True,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        }

    @pytest.mark.parametrize(
        "path",
        [
            "/anthropic",
            "/anthropic/",
            "/anthropic/v1",
            "/anthropic/v1/",
            "/anthropic//v1",
            "/anthropic/v1/messages",
            "/anthropic/v1/messages/",
        ],
    )
    def test_the_base_may_have_a_path_and_the_end_that_is_added(self, path: str) -> None:
        async def main() -> str:
            async with Loopback(streams(encoded(hello()))) as server:
                adapter = MessagesAdapter(server.url + path, KEY)
                _ = [chunk async for chunk in adapter.stream(OPTIONS)]
                return server.requests[0].line

        assert asyncio.run(main()) == "POST /anthropic/v1/messages HTTP/1.1"

    def test_a_malformed_request_is_not_sent(self) -> None:
        chunks, requests = ask(hang, GenerateOptions("m", [{"role": "robot", "content": []}]))
        assert chunks[-1]["reason"]["failure"]["code"] == "INVALID_REQUEST"
        assert requests == []

    def test_a_client_that_was_handed_in_is_used_and_stays_open(self) -> None:
        async def main() -> None:
            async with Loopback(*[streams(encoded(hello()))] * 2) as server:
                async with httpx.AsyncClient(headers={"x-mine": "1"}) as client:
                    adapter = MessagesAdapter(server.url, KEY, client=client)
                    for _ in range(2):
                        chunks = [chunk async for chunk in adapter.stream(OPTIONS)]
                        assert chunks == HELLO_CHUNKS
                    assert not client.is_closed
                assert [request.headers["x-mine"] for request in server.requests] == ["1", "1"]

        asyncio.run(main())

    def test_one_adapter_serves_several_event_loops(self) -> None:
        async def main(adapter: MessagesAdapter | None) -> MessagesAdapter:
            async with Loopback(streams(encoded(hello()))) as server:
                adapter = adapter or MessagesAdapter(server.url, KEY)
                adapter._url = adapter._url.copy_with(port=int(server.url.rpartition(":")[2]))
                assert [chunk async for chunk in adapter.stream(OPTIONS)] == HELLO_CHUNKS
                return adapter

        asyncio.run(main(asyncio.run(main(None))))


class TestStream:
    def test_an_answer_becomes_chunks(self) -> None:
        assert answer(encoded(hello())) == HELLO_CHUNKS

    def test_chunks_come_while_the_stream_is_open(self) -> None:
        async def main() -> list[Any]:
            async with Loopback(streams(encoded(hello()[:3]), end="hang")) as server:
                stream = MessagesAdapter(server.url, KEY).stream(OPTIONS)
                async with aclosing(stream):
                    return [await anext(stream), await anext(stream)]

        assert asyncio.run(main()) == HELLO_CHUNKS[:2]

    def test_nothing_is_read_after_the_end_of_the_message(self) -> None:
        assert answer(encoded(hello()), b"nonsense", end="hang") == HELLO_CHUNKS

    def test_characters_may_be_cut_between_two_pieces(self) -> None:
        raw = encoded([*text_block(0, "x"), *stop()]).replace(b'"x"', '"grün \U0001f600"'.encode())
        found = answer(*(raw[n : n + 1] for n in range(len(raw))))
        assert found[1]["text"] == "grün \U0001f600"

    def test_lines_may_end_with_carriage_returns(self) -> None:
        raw = encoded(hello()).replace(b"\n", b"\r\n")
        assert answer(raw) == HELLO_CHUNKS
        assert answer(*(raw[n : n + 7] for n in range(0, len(raw), 7))) == HELLO_CHUNKS

    def test_comments_and_pings_say_nothing(self) -> None:
        ping = b": keep-alive\n\n" + event({"type": "ping"})
        assert answer(*(ping + event(data) for data in hello())) == HELLO_CHUNKS

    def test_a_tool_call_and_reasoning_make_a_message(self) -> None:
        raw = encoded(
            [
                start(input_tokens=1, output_tokens=1),
                *block(
                    0,
                    {"type": "thinking_delta", "thinking": "hm"},
                    {"type": "signature_delta", "signature": "sig"},
                    type="thinking",
                ),
                *block(
                    1,
                    {"type": "input_json_delta", "partial_json": '{"a":1}'},
                    type="tool_use",
                    id="t1",
                    name="read",
                ),
                *stop("tool_use", output_tokens=9),
            ]
        )
        assembler = BlockAssembler()
        for chunk in answer(raw):
            assembler.add(chunk)
        assert assembler.finish == {"kind": "tool-calls"}
        assert assembler.message()["content"] == [
            {"type": "reasoning", "text": "hm", "signature": "sig"},
            {"type": "tool-call", "id": "t1", "name": "read", "arguments": '{"a":1}'},
        ]

    def test_a_stream_without_a_content_type_is_believed(self) -> None:
        async def play(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + encoded(hello()))
            await writer.drain()

        assert ask(play)[0] == HELLO_CHUNKS


class TestAbort:
    ABORTED: Any = {  # noqa: RUF012 - never changed
        "type": "finish",
        "reason": {"kind": "aborted", "failure": {"message": "user", "code": "ABORTED"}},
    }

    def test_an_aborted_request_is_not_sent(self) -> None:
        controller = AbortController()

        async def main() -> tuple[list[Any], list[Request]]:
            controller.abort("user")
            options = GenerateOptions("m", [HI], signal=controller.signal)
            async with Loopback(hang) as server:
                adapter = MessagesAdapter(server.url, KEY)
                return [chunk async for chunk in adapter.stream(options)], server.requests

        assert asyncio.run(main()) == ([self.ABORTED], [])

    @pytest.mark.parametrize("sent", [None, 0, 3], ids=["no headers", "no events", "amid events"])
    def test_an_abort_ends_the_stream_at_once(self, sent: int | None) -> None:
        async def main() -> list[Any]:
            controller = AbortController()
            options = GenerateOptions("m", [HI], signal=controller.signal)
            play = hang if sent is None else streams(encoded(hello()[:sent]) or b":\n", end="hang")
            async with Loopback(play) as server:

                async def abort() -> None:
                    await server.asked.wait()
                    controller.abort("user")

                found = []
                aborting = None if sent else asyncio.create_task(abort())
                async for chunk in MessagesAdapter(server.url, KEY).stream(options):
                    found.append(chunk)
                    if chunk["type"] == "text-delta":
                        controller.abort("user")
                if aborting is not None:
                    await aborting
                # The connection is given up, not left to itself.
                await asyncio.wait_for(server.gone.wait(), 5)
                return found

        found = asyncio.run(main())
        assert found == [*(HELLO_CHUNKS[:2] if sent else []), self.ABORTED]

    def test_an_abort_counts_between_two_chunks_that_came_together(self) -> None:
        async def main() -> list[Any]:
            controller = AbortController()
            options = GenerateOptions("m", [HI], signal=controller.signal)
            async with Loopback(streams(encoded(hello()))) as server:
                found = []
                async for chunk in MessagesAdapter(server.url, KEY).stream(options):
                    found.append(chunk)
                    controller.abort("user")
                return found

        assert asyncio.run(main()) == [HELLO_CHUNKS[0], self.ABORTED]

    def test_an_answer_that_nobody_aborts_comes_whole(self) -> None:
        async def main() -> list[Any]:
            options = GenerateOptions("m", [HI], signal=AbortController().signal)
            async with Loopback(streams(*map(event, hello()))) as server:
                adapter = MessagesAdapter(server.url, KEY)
                return [chunk async for chunk in adapter.stream(options)]

        assert asyncio.run(main()) == HELLO_CHUNKS

    def test_who_stops_reading_gives_the_connection_up(self) -> None:
        async def main() -> None:
            async with Loopback(streams(encoded(hello()[:3]), end="hang")) as server:
                stream: Any = MessagesAdapter(server.url, KEY).stream(OPTIONS)
                await anext(stream)
                await stream.aclose()
                await asyncio.wait_for(server.gone.wait(), 5)

        asyncio.run(main())

    @pytest.mark.parametrize("signal", [True, False])
    def test_a_cancelled_task_gives_the_connection_up(self, signal: bool) -> None:
        async def main() -> None:
            options = GenerateOptions(
                "m", [HI], signal=AbortController().signal if signal else None
            )
            async with Loopback(hang) as server:
                stream: Any = MessagesAdapter(server.url, KEY).stream(options)
                task = asyncio.ensure_future(anext(stream))
                await server.asked.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await asyncio.wait_for(server.gone.wait(), 5)

        asyncio.run(main())


class TestAdapter:
    def test_its_provider_may_be_named(self) -> None:
        assert MessagesAdapter("http://x", KEY).provider == "anthropic-messages"
        assert MessagesAdapter("http://x", KEY, provider="deepseek").provider == "deepseek"

    def test_its_repr_keeps_the_key(self) -> None:
        adapter = MessagesAdapter("https://api.example.com/base", KEY)
        assert repr(adapter) == "<MessagesAdapter 'anthropic-messages' at api.example.com>"

    def test_a_missing_key_is_refused(self) -> None:
        with pytest.raises(LlmError) as caught:
            MessagesAdapter("http://x", "")
        assert caught.value.code == "MISSING_CREDENTIAL"

    @pytest.mark.parametrize("key", ["sk\nx", "sk x", "schlüssel", "\x00", "sk\x7f"])
    def test_a_key_that_no_header_can_carry_is_refused_and_not_quoted(self, key: str) -> None:
        with pytest.raises(LlmError) as caught:
            MessagesAdapter("http://x", key)
        assert caught.value.code == "INVALID_CREDENTIAL"
        assert caught.value.message == "the API key has characters that no header can carry"

    @pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/v1/messages"])
    def test_a_base_without_a_path_may_have_the_end_that_is_added(self, path: str) -> None:
        adapter = MessagesAdapter(f"http://x{path}", KEY)
        assert str(adapter._url) == "http://x/v1/messages"

    @pytest.mark.parametrize("total", [0, -1, float("nan")])
    def test_there_must_be_time_for_an_answer(self, total: float) -> None:
        with pytest.raises(ValueError, match="total_s must be more than 0"):
            MessagesAdapter("http://x", KEY, total_s=total)

    @pytest.mark.parametrize(
        "url", ["", "api.example.com", "ftp://x", "http://", "http://user:pw@x", "http://x:y", "::"]
    )
    def test_a_base_that_is_no_web_address_is_refused(self, url: str) -> None:
        with pytest.raises(ValueError, match="base_url must be a web address"):
            MessagesAdapter(url, KEY)

    def test_the_key_is_not_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        ask(streams(encoded(hello())))
        assert KEY not in caplog.text

    def test_without_httpx_the_error_says_what_to_install(self) -> None:
        code = (
            "import sys\n"
            "sys.modules['httpx'] = None\n"
            "import dsh_core.llm\n"
            "try:\n"
            "    import dsh_core.llm.messages\n"
            "except ImportError as error:\n"
            "    print(error)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert done.stdout == (
            "dsh_core.llm.messages needs httpx: pip install '.[harness]' in the project's folder\n"
        )
