"""An endpoint for OTLP logs over HTTP: requests go into a queue, and are answered out of it.

Nothing is read out of a request where requests are taken: whoever works on the queue does that, in
a thread of its own. What waits has bounds in number and bytes; beyond them clients are asked to
come back later.
"""

from __future__ import annotations

import asyncio
import hmac
import queue
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from dsh_core.faults import Fault
from dsh_core.logs.told import FOREIGN, Aside, Told
from dsh_otel.sources.otlp_logs import (
    Answer,
    Encoding,
    GarbageError,
    TooLargeError,
    told_in,
    unpacked,
)

if TYPE_CHECKING:
    from collections.abc import Callable

GZIP: Final = "gzip"
PATH: Final = "/v1/logs"
HEALTH: Final = "/healthz"

MAX_BODY: Final = 16 << 20
"""Largest request by default, in bytes, packed and unpacked."""

MAX_REQUESTS: Final = 64
"""How many requests may wait."""

MAX_BYTES: Final = 64 << 20
"""How many bytes requests may take that wait or are being read; one of any size always may."""

READ_S: Final = 30.0
"""How long a request may take to come in, in seconds."""

RETRY_S: Final = 1
"""When to come back, in seconds."""

MAX_OPEN: Final = 256
"""How many requests may come in at a time."""

CROWDED: Final = Answer(503, "too many requests come in at a time", retry_after_s=RETRY_S)
BUSY: Final = Answer(429, "too much waits; come back later", retry_after_s=RETRY_S)
ENDING: Final = Answer(503, "it is ending; come back later", retry_after_s=RETRY_S)


@dataclass(frozen=True, slots=True)
class Parcel:
    """A request that waits.

    Attributes:
        body: Its body as it came.
        packed: Whether that is gzip.
        encoding: How it is written.
        answer: Called with the answer, from any thread.
    """

    body: bytes
    packed: bool
    encoding: Encoding
    answer: Callable[[Answer], object]


class Intake:
    """The requests that wait, for the threads on both sides.

    Args:
        max_body: Largest request, in bytes.
        max_requests: How many requests may wait.
        max_bytes: How many bytes they may take.

    Attributes:
        max_body: The same.
        answers: Requests by the status that they were answered with.
    """

    def __init__(
        self,
        max_body: int = MAX_BODY,
        max_requests: int = MAX_REQUESTS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.max_body = max_body
        self.answers: Counter[int] = Counter()
        self._max_bytes = max_bytes
        self._waiting: queue.Queue[Parcel] = queue.Queue(max_requests)
        self._lock = threading.Lock()
        self._bytes = 0
        self._ending = False

    @property
    def ending(self) -> bool:
        """Whether nothing is taken any more."""
        return self._ending

    @property
    def empty(self) -> bool:
        """Whether nothing waits or is being read."""
        return self._waiting.empty() and not self._bytes

    def reserve(self, size: int) -> bool:
        """Make room for some bytes.

        Returns:
            Whether there is.
        """
        with self._lock:
            if self._bytes and self._bytes + size > self._max_bytes:
                return False
            self._bytes += size
            return True

    def free(self, size: int) -> None:
        """Give room back."""
        with self._lock:
            self._bytes -= size

    def put(self, parcel: Parcel) -> bool:
        """Have a request wait.

        Returns:
            Whether it may.
        """
        try:
            self._waiting.put_nowait(parcel)
        except queue.Full:
            return False
        return True

    def get(self, timeout_s: float) -> Parcel | None:
        """Return the request that waits longest, None if there is none for a while."""
        try:
            return self._waiting.get(timeout=timeout_s) if timeout_s else self._waiting.get_nowait()
        except queue.Empty:
            return None

    def end(self) -> None:
        """Take nothing any more."""
        self._ending = True


def work_on(parcel: Parcel, limit: int, tell: Callable[[Told | Aside], object]) -> Answer:
    """Read a request, and tell what it holds; never raises.

    Args:
        parcel: The request.
        limit: Most bytes that it may hold.
        tell: Called with what it tells.

    Returns:
        What to answer.
    """
    rejected: Counter[str] = Counter()
    try:
        body = unpacked(parcel.body, limit) if parcel.packed else parcel.body
        for found in told_in(body, parcel.encoding):
            if isinstance(found, Fault):
                rejected[found.message] += 1
            elif isinstance(found, Aside) and found.kind == FOREIGN:
                rejected["a record that is no event of a session"] += 1
            else:
                tell(found)
    except TooLargeError as error:
        return Answer(413, str(error))
    except GarbageError as error:
        return Answer(400, str(error))
    if not rejected:
        return Answer()
    why, _ = rejected.most_common(1)[0]
    return Answer(rejected=rejected.total(), message=why)


def make_app(intake: Intake, token: str = "") -> Starlette:
    """Return the application.

    Args:
        intake: Where requests wait.
        token: What clients must show to be let in; empty if anybody may come in.
    """
    endpoint = _Endpoint(intake, token)
    return Starlette(
        routes=[
            Route(PATH, endpoint.logs, methods=["POST"]),
            Route(HEALTH, endpoint.health, methods=["GET"]),
        ]
    )


class _Endpoint:
    def __init__(self, intake: Intake, token: str) -> None:
        self._intake = intake
        self._wanted = token.encode()
        self._open = 0

    async def health(self, _request: Request) -> Response:
        if self._intake.ending:
            return Response("ending\n", 503, media_type="text/plain")
        return Response("ok\n", media_type="text/plain")

    async def logs(self, request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        known = next((one for one in Encoding if one == kind), None)
        encoding = known or Encoding.JSON
        answer = self._refusal(request, known)
        if answer is None:
            self._open += 1
            try:
                answer = await self._answer(request, encoding)
            finally:
                self._open -= 1
        self._intake.answers[answer.status] += 1
        headers = {}
        if answer.retry_after_s:
            headers["Retry-After"] = str(answer.retry_after_s)
        if answer.status == 401:  # noqa: PLR2004 - HTTP
            headers["WWW-Authenticate"] = "Bearer"
        return Response(answer.encoded(encoding), answer.status, headers, encoding)

    def _refusal(self, request: Request, encoding: Encoding | None) -> Answer | None:
        """Return why a request is not read, as far as its head tells."""
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        known = hmac.compare_digest(shown.strip().encode("latin-1", "replace"), self._wanted)
        if self._wanted and not (known and scheme.lower() == "bearer"):
            return Answer(401, "a bearer token is needed")
        packing = request.headers.get("content-encoding", "identity").strip().lower()
        if encoding is None or packing not in {GZIP, "identity"}:
            return Answer(415, "send JSON or protobuf, as it is or as gzip")
        if self._intake.ending:
            return ENDING
        return CROWDED if self._open >= MAX_OPEN else None

    async def _answer(self, request: Request, encoding: Encoding) -> Answer:
        packed = request.headers.get("content-encoding", "").strip().lower() == GZIP
        reader = _Reader(self._intake)
        try:
            async with asyncio.timeout(READ_S):
                body = await reader.read(request)
            if isinstance(body, Answer):
                return body
            return await self._wait(body, encoding, packed=packed)
        except TimeoutError:
            return Answer(408, "the request did not come in")
        except ClientDisconnect:
            # Nobody hears it.
            return Answer(400, "the request broke off")
        finally:
            reader.free()

    async def _wait(self, body: bytes, encoding: Encoding, *, packed: bool) -> Answer:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()

        def answer(given: Answer) -> None:
            # The client may have gone, and the loop with it.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, future, given)

        if not self._intake.put(Parcel(body, packed, encoding, answer)):
            return BUSY
        return await future


def _settle(future: asyncio.Future[Answer], answer: Answer) -> None:
    if not future.done():
        future.set_result(answer)


class _Reader:
    """Reads one body, and gives back the room that it took."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._size = 0

    async def read(self, request: Request) -> bytes | Answer:
        """Return the body, or why it is not taken."""
        parts: list[bytes] = []
        wrong: Answer | None = None
        passed = 0
        async for part in request.stream():
            if wrong is not None:
                # Most clients hear an answer only when they have sent everything.
                passed += len(part)
                if passed > self._intake.max_body:
                    break
                continue
            if self._size + len(part) > self._intake.max_body:
                wrong = Answer(413, f"more than {self._intake.max_body} bytes")
            elif not self._intake.reserve(len(part)):
                wrong = BUSY
            else:
                self._size += len(part)
                parts.append(part)
                continue
            parts.clear()
            self.free()
        return wrong or b"".join(parts)

    def free(self) -> None:
        """Give the room back."""
        self._intake.free(self._size)
        self._size = 0
