"""A scripted HTTP server on the loopback interface, for tests of what speaks to a provider."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    Play = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Loopback:
    """Answers each connection with the next play of a script; every connection has one request."""

    def __init__(self, *script: Play) -> None:
        self.requests: list[Request] = []
        self.asked = asyncio.Event()
        self.gone = asyncio.Event()
        self._script = list(script)
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {
                name.lower(): value
                for name, _, value in (line.partition(": ") for line in head[1:])
            }
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.requests.append(Request(head[0], headers, body))
            self.asked.set()
            await self._script[len(self.requests) - 1](reader, writer)
        except (asyncio.CancelledError, ConnectionError):
            pass
        finally:
            self.gone.set()
            writer.close()


def respond(
    status: int,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    kind: str = "application/json",
) -> Play:
    """Answer with a status and a body."""

    async def play(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _head(writer, status, {"content-type": kind, "content-length": str(len(body))}, headers)
        writer.write(body)
        await writer.drain()

    return play


def streams(
    *pieces: bytes,
    end: str = "whole",
    headers: Mapping[str, str] | None = None,
    kind: str = "text/event-stream; charset=utf-8",
) -> Play:
    """Answer with chunks, and then: the end (`whole`), a `cut`, a `reset`, or nothing (`hang`)."""

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _head(writer, 200, {"content-type": kind, "transfer-encoding": "chunked"}, headers)
        for piece in pieces:
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        if end == "whole":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        elif end == "reset":
            writer.transport.abort()
        elif end == "hang":
            await reader.read()

    return play


async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Never answer."""
    await reader.read()


async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Cut the connection before any answer."""
    writer.transport.abort()


def _head(
    writer: asyncio.StreamWriter,
    status: int,
    headers: Mapping[str, str],
    more: Mapping[str, str] | None,
) -> None:
    lines = [f"HTTP/1.1 {status} Whatever"]
    lines += [f"{name}: {value}" for name, value in {**headers, **(more or {})}.items()]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())


def event(data: Mapping[str, Any]) -> bytes:
    """Return a server-sent event in the way of the API."""
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def start(**usage: int) -> dict[str, Any]:
    """Return the event that opens a message."""
    return {"type": "message_start", "message": {"id": "m1", "role": "assistant", "usage": usage}}


def block(index: int, *deltas: Mapping[str, Any], **head: Any) -> list[dict[str, Any]]:
    """Return the events of a block."""
    return [
        {"type": "content_block_start", "index": index, "content_block": head},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text_block(index: int, *texts: str) -> list[dict[str, Any]]:
    """Return the events of a text block."""
    return block(index, *({"type": "text_delta", "text": t} for t in texts), type="text", text="")


def stop(reason: str | None = "end_turn", **usage: int) -> list[dict[str, Any]]:
    """Return the events that close a message."""
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage},
        {"type": "message_stop"},
    ]


def hello() -> list[dict[str, Any]]:
    """Return the events of a short answer."""
    return [
        start(input_tokens=10, output_tokens=1),
        *text_block(0, "Hel", "lo"),
        *stop(output_tokens=4),
    ]
