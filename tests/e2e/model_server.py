"""A server on a loopback port that plays a model over the Messages API, as a script says."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

from tests.e2e import chat
from tests.e2e.receivers import HOST, PAUSE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import TracebackType
    from typing import Self

Event = dict[str, Any]
"""An event of an answer."""

USAGE: Final = {
    "input_tokens": 11,
    "cache_read_input_tokens": 7,
    "cache_creation_input_tokens": 3,
    "output_tokens": 5,
}
"""What an answer says that it has used, unless it says something else."""

NO_MORE: Final = "the script is over"
NO_FILES: Final = "no files are taken"


@dataclass(frozen=True)
class Reply:
    """An answer to one request.

    Attributes:
        events: The events of a stream.
        status: The HTTP status; one that is not 200 comes with `body` and without events.
        body: What a refusal says.
        headers: Further headers.
        cut: Whether the connection ends with the last event, in the middle of the body.
        gate: What the events wait for, if for anything, when the first of them have come.
        ungated: How many these are.
    """

    events: tuple[Event, ...] = ()
    status: int = 200
    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    gate: threading.Event | None = None
    ungated: int = 0

    def first(self, count: int, *, cut: bool) -> Reply:
        """Return the beginning of it.

        Args:
            count: How many events.
            cut: Whether the connection breaks there; else the body ends as if it were complete.
        """
        return replace(self, events=self.events[:count], cut=cut)


def says(
    *texts: str, thinking: str = "", stop: str = "end_turn", usage: Mapping[str, int] = USAGE
) -> Reply:
    """Return an answer of text.

    Args:
        texts: The pieces that it is streamed in.
        thinking: Thought before it.
        stop: Why the model stops.
        usage: What it has used.
    """
    blocks = [_block({"type": "text", "text": ""}, "text", texts)]
    return _answer([*_thought(thinking), *blocks], stop, usage)


def calls(
    *named: tuple[str, str, Mapping[str, Any]],
    text: str = "",
    thinking: str = "",
    usage: Mapping[str, int] = USAGE,
) -> Reply:
    """Return an answer that calls tools.

    Args:
        named: Id, name and arguments of each call.
        text: Said before the calls.
        thinking: Thought before all.
        usage: What it has used.
    """
    blocks = _thought(thinking)
    if text:
        blocks.append(_block({"type": "text", "text": ""}, "text", [text]))
    for call_id, name, arguments in named:
        head = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        written = json.dumps(arguments)
        half = len(written) // 2
        blocks.append(_block(head, "input_json", [written[:half], written[half:]]))
    return _answer(blocks, "tool_use", usage)


def refuses(status: int, kind: str, message: str, **headers: str) -> Reply:
    """Return a refusal.

    Args:
        status: Its HTTP status.
        kind: Type of the error.
        message: What it says.
        headers: Further headers; a ``_`` stands for a ``-``.
    """
    body = {"type": "error", "error": {"type": kind, "message": message}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=status, body=body, headers=named)


def breaks_off(reply: Reply, count: int, kind: str, message: str) -> Reply:
    """Return the beginning of an answer with an error after it.

    Args:
        reply: The answer.
        count: How many of its events.
        kind: Type of the error.
        message: What it says.
    """
    error = {"type": "error", "error": {"type": kind, "message": message}}
    return replace(reply, events=(*reply.events[:count], error))


_DELTAS: Final = {"text": "text", "thinking": "thinking", "input_json": "partial_json"}


def _thought(thinking: str) -> list[list[Event]]:
    if not thinking:
        return []
    return [_block({"type": "thinking", "thinking": "", "signature": ""}, "thinking", [thinking])]


def _block(head: Event, kind: str, pieces: Iterable[str]) -> list[Event]:
    deltas = [{"type": f"{kind}_delta", _DELTAS[kind]: piece} for piece in pieces]
    return [
        {"type": "content_block_start", "content_block": head},
        *({"type": "content_block_delta", "delta": delta} for delta in deltas),
        {"type": "content_block_stop"},
    ]


def _answer(blocks: list[list[Event]], stop: str, usage: Mapping[str, int]) -> Reply:
    message: Event = {
        "id": "msg-1",
        "type": "message",
        "role": "assistant",
        "model": "played",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 1},
    }
    inner = [{**event, "index": index} for index, block in enumerate(blocks) for event in block]
    end = {"stop_reason": stop, "stop_sequence": None}
    return Reply(
        (
            {"type": "message_start", "message": message},
            *inner,
            {"type": "message_delta", "delta": end, "usage": dict(usage)},
            {"type": "message_stop"},
        )
    )


# ------------------------------------------------------------------------------ the requests


@dataclass(frozen=True)
class ModelRequest:
    """A request that came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    def texts(self, *roles: str) -> list[str]:
        """Return the texts of the conversation, without results, in order.

        Args:
            roles: Whose; everybody's by default.
        """
        return [
            part["text"]
            for role, part in self._parts()
            if part["type"] == "text" and (not roles or role in roles)
        ]

    def calls(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Return id, name and arguments of all calls of the conversation, in order."""
        found = [part for _, part in self._parts() if part["type"] == "tool_use"]
        return [(part["id"], part["name"], part["input"]) for part in found]

    def results(self) -> list[tuple[str, str, bool]]:
        """Return call id, text, and whether it is an error, of all results, in order."""
        found = [part for _, part in self._parts() if part["type"] == "tool_result"]
        return [
            (part["tool_use_id"], _text(part.get("content", "")), bool(part.get("is_error")))
            for part in found
        ]

    def _parts(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for message in self.body["messages"]:
            content = message["content"]
            whole = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for part in whole:
                yield message["role"], part


def _text(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if part["type"] == "text")


# -------------------------------------------------------------------------------- the server


def _lines(path: str, reply: Reply) -> Iterator[bytes]:
    if path.endswith(chat.PATH):
        yield from chat.lines(reply)
        return
    for event in reply.events:
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about a client that is gone."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class ModelServer:
    """Answers each request with the next reply of a script, and refuses what comes after the last.

    Args:
        script: The replies.

    Attributes:
        requests: The requests so far.
        url: Base URL of the API.
    """

    def __init__(self, script: Iterable[Reply] = ()) -> None:
        self.requests: list[ModelRequest] = []
        self._script = list(script)
        self._lock = threading.Lock()
        self._server = _Server((HOST, 0), self._handler())
        self.url = f"http://{HOST}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(PAUSE,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def last(self) -> ModelRequest:
        """The newest request."""
        return self.requests[-1]

    @property
    def left(self) -> int:
        """How many replies nobody has asked for."""
        return len(self._script)

    def add(self, *replies: Reply) -> None:
        """Add replies to the end of the script."""
        with self._lock:
            self._script += replies

    def _next(self, request: ModelRequest) -> Reply:
        with self._lock:
            self.requests.append(request)
            if self._script:
                return self._script.pop(0)
        return refuses(400, "invalid_request_error", NO_MORE)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 60

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers.get("content-length", 0)))
                if "json" not in self.headers.get("content-type", ""):
                    self._answer(refuses(404, "not_found_error", NO_FILES))
                    return
                body = json.loads(data)
                headers = {name.lower(): value for name, value in self.headers.items()}
                self._answer(server._next(ModelRequest(self.path, headers, body)))

            def _answer(self, reply: Reply) -> None:
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                if reply.events:
                    self._stream(reply)
                else:
                    self._refuse(reply)

            def _stream(self, reply: Reply) -> None:
                self.send_header("content-type", "text/event-stream")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for number, data in enumerate(_lines(self.path, reply)):
                    if reply.gate is not None and number == reply.ungated:
                        reply.gate.wait(self.timeout)
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                    self.wfile.flush()
                if reply.cut:
                    self.close_connection = True
                else:
                    self.wfile.write(b"0\r\n\r\n")

            def _refuse(self, reply: Reply) -> None:
                data = json.dumps(reply.body).encode()
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Keep quiet."""

        return Handler
