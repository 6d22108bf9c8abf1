"""The adapter for the Messages API: `POST /v1/messages`, streamed.

This module needs httpx, which the extra ``harness`` installs.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from dsh_core.abort import AbortError
from dsh_core.errors import HarnessError, LlmError
from dsh_core.extras import install_hint
from dsh_core.llm import chunks as make
from dsh_core.llm.messages_answer import Answer, malformed
from dsh_core.llm.messages_body import request_body
from dsh_core.llm.provider_errors import http_error, redacted
from dsh_core.llm.sse import SseError, SseParser
from dsh_core.llm.text import clip

try:
    import httpx
except ImportError as missing:
    raise ImportError(f"dsh_core.llm.messages needs httpx: {install_hint('harness')}") from missing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator

    from dsh_core.abort import AbortSignal
    from dsh_core.llm.chunks import Chunk
    from dsh_core.llm.options import GenerateOptions

T = TypeVar("T")

API_VERSION: Final = "2023-06-01"
"""Version of the API that is spoken here."""

DEFAULT_TIMEOUT_S: Final = 300.0
"""Longest silence of the provider, in seconds."""

DEFAULT_TOTAL_S: Final = 600.0
"""Longest time that a request may take from its sending to its last chunk, in seconds."""

DEFAULT_MAX_TOKENS: Final = 8192
"""How long an answer may be if the request does not say."""

ERROR_BODY_S: Final = 10.0
"""Seconds that an error's body may take; without it, its status alone tells what is wrong."""

MAX_ERROR_BODY: Final = 64 * 1024
"""Bytes of an error's body that are read."""

MAX_ANSWER: Final = 256 * 1024 * 1024
"""Bytes that an answer may have."""

_PRINTABLE: Final = range(0x21, 0x7F)
_OK: Final = 200


class MessagesAdapter:
    """Asks models that a Messages API offers.

    Each request has a connection of its own unless a client is given. All failures of the provider
    and of the way to it end the stream with a finish chunk; the key is in none of them.

    Args:
        base_url: Where the API is; ``/v1/messages``, or its second half, may be left out.
        api_key: The key.
        provider: Name of the provider.
        client: Sends the requests and stays open; None for one client per request.
        timeout_s: Longest silence of the provider, in seconds.
        total_s: Longest time that a request may take from its sending to its last chunk, in
            seconds; the time that the reader takes with each chunk does not count.
        max_tokens: How long an answer may be if the request does not say.
        now: Returns the time in seconds since the epoch.

    Attributes:
        provider: Name of the provider.

    Raises:
        LlmError: The key is missing, or holds what no header can carry (``MISSING_CREDENTIAL``,
            ``INVALID_CREDENTIAL``).
        ValueError: `base_url` is no web address, or there is no time for an answer.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        provider: str = "anthropic-messages",
        client: httpx.AsyncClient | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        total_s: float = DEFAULT_TOTAL_S,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        now: Callable[[], float] = time.time,
    ) -> None:
        if not api_key:
            raise LlmError("there is no API key", "MISSING_CREDENTIAL")
        # The HTTP library would quote a key that it cannot send.
        if not all(ord(letter) in _PRINTABLE for letter in api_key):
            raise LlmError(
                "the API key has characters that no header can carry", "INVALID_CREDENTIAL"
            )
        if not total_s > 0:
            raise ValueError("total_s must be more than 0")
        self.provider = provider
        self._url = _endpoint(base_url)
        self._key = api_key
        self._client = client
        self._timeout = httpx.Timeout(timeout_s)
        self._total = total_s
        self._max_tokens = max_tokens
        self._now = now
        # Reading the certificates takes longer than a request; they are shared by all clients.
        self._verify = (
            httpx.create_ssl_context() if client is None and self._url.scheme == "https" else True
        )

    def __repr__(self) -> str:
        return f"<MessagesAdapter {self.provider!r} at {self._url.host}>"

    async def stream(self, options: GenerateOptions) -> AsyncGenerator[Chunk, None]:
        """Ask for an answer and return it piece by piece, see `Adapter.stream`."""
        try:
            if options.signal is not None:
                options.signal.raise_if_aborted()
            body = request_body(options, self._max_tokens)
            async with AsyncExitStack() as stack:
                client = self._client
                if client is None:
                    client = httpx.AsyncClient(verify=self._verify)
                    await stack.enter_async_context(client)
                chunks = self._ask(client, body, options.signal)
                await stack.enter_async_context(aclosing(chunks))
                async for chunk in chunks:
                    yield chunk
        except HarnessError as error:
            failed = make.finish_failed(error)
            failed["reason"]["failure"]["message"] = redacted(error.message, self._key)
            yield failed

    async def _ask(
        self, client: httpx.AsyncClient, body: bytes, signal: AbortSignal | None
    ) -> AsyncGenerator[Chunk, None]:
        """Send the request and read the answer.

        Raises:
            LlmError: Something went wrong.
            AbortError: The signal fired.
        """
        request = client.build_request(
            "POST", self._url, headers=self._headers(), content=body, timeout=self._timeout
        )
        response: httpx.Response | None = None
        deadline = _Deadline(self._total)
        try:
            response = await deadline.wait(
                client.send(request, stream=True, follow_redirects=False), signal
            )
            async with aclosing(_pieces(response, deadline, signal)) as pieces:
                if response.status_code != _OK:
                    raise http_error(
                        response.status_code,
                        await self._error_body(pieces),
                        headers=response.headers,
                        now=self._now(),
                    )
                _check_kind(response)
                async with aclosing(_chunks(pieces)) as chunks:
                    async for chunk in chunks:
                        if signal is not None:
                            signal.raise_if_aborted()
                        with deadline.paused():
                            yield chunk
        except httpx.TimeoutException as error:
            raise LlmError("the provider took too long", "TIMEOUT") from error
        except TimeoutError as error:
            raise LlmError(f"the answer took longer than {self._total:g} s", "TIMEOUT") from error
        except httpx.RemoteProtocolError as error:
            if response is None:
                raise _transport(error) from error
            raise LlmError("the stream was cut", "STREAM_CLOSED") from error
        except httpx.HTTPError as error:
            raise _transport(error) from error
        finally:
            if response is not None:
                await response.aclose()

    def _headers(self) -> dict[str, str]:
        return {
            "accept": "text/event-stream",
            # Nothing to unpack: what is read is as long as what arrives.
            "accept-encoding": "identity",
            "anthropic-version": API_VERSION,
            "content-type": "application/json",
            "x-api-key": self._key,
        }

    async def _error_body(self, pieces: AsyncIterator[bytes]) -> bytes:
        """Return the beginning of an error's body, as much as comes in time."""
        body = bytearray()
        with suppress(httpx.HTTPError, TimeoutError):
            async with asyncio.timeout(min(self._timeout.read or ERROR_BODY_S, ERROR_BODY_S)):
                async for piece in pieces:
                    body += piece
                    if len(body) >= MAX_ERROR_BODY:
                        break
        return bytes(body[:MAX_ERROR_BODY])


def _endpoint(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, TypeError):
        url = httpx.URL("")
    if url.scheme not in {"http", "https"} or not url.host or url.userinfo:
        raise ValueError("base_url must be a web address, without a user name")
    # Both are common: clients differ in what they want to be told.
    base = url.path.rstrip("/").removesuffix("/v1/messages").removesuffix("/v1").rstrip("/")
    return url.copy_with(path=f"{base}/v1/messages", query=None, fragment=None)


def _transport(error: Exception) -> LlmError:
    return LlmError(f"the connection failed: {type(error).__name__}: {error}", "TRANSPORT")


def _check_kind(response: httpx.Response) -> None:
    """Refuse an answer that is no stream of events; one that does not say is believed."""
    kind = response.headers.get("content-type", "text/event-stream")
    if "text/event-stream" not in kind.lower():
        raise malformed(f"the content type is {clip(kind, 80)!r}")
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise malformed("the content is compressed")


async def _chunks(pieces: AsyncIterator[bytes]) -> AsyncGenerator[Chunk, None]:
    """Read an answer until it is over."""
    parser, answer, size = SseParser(), Answer(), 0
    async for piece in pieces:
        size += len(piece)
        if size > MAX_ANSWER:
            raise malformed(f"the answer is longer than {MAX_ANSWER} bytes")
        try:
            for event in parser.feed(piece):
                for chunk in answer.take(event):
                    yield chunk
                if answer.over:
                    return
        except SseError as error:
            raise malformed(str(error)) from error
    if not size:
        raise LlmError("the answer is empty", "EMPTY_RESPONSE")
    raise LlmError("the stream ended before the message did", "STREAM_CLOSED")


async def _pieces(
    response: httpx.Response, deadline: _Deadline, signal: AbortSignal | None
) -> AsyncGenerator[bytes, None]:
    """Read the body as it arrives."""
    # It is a generator, whatever its annotation says.
    async with aclosing(cast("AsyncGenerator[bytes, None]", response.aiter_raw())) as body:
        while (piece := await deadline.wait(_next(body), signal)) is not None:
            yield piece


async def _next(body: AsyncIterator[bytes]) -> bytes | None:
    return await anext(body, None)


class _Deadline:
    """The end of the time that a request may take.

    Each bound of the HTTP library is for a single wait, and whoever sends something now and then
    keeps within it for ever.

    Args:
        seconds: How long from now.
    """

    def __init__(self, seconds: float) -> None:
        self._clock = asyncio.get_running_loop().time
        self._end = self._clock() + seconds

    async def wait(self, work: Coroutine[Any, Any, T], signal: AbortSignal | None) -> T:
        """Wait for work, as long as there is time.

        Raises:
            TimeoutError: There is none left; the work is cancelled.
            AbortError: The signal fired; the same.
        """
        if self._clock() >= self._end:
            # Work that finds all it needs does not wait, and would never be cancelled.
            work.close()
            raise TimeoutError
        async with asyncio.timeout_at(self._end):
            return await _unless_aborted(work, signal)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let no time pass within."""
        began = self._clock()
        try:
            yield
        finally:
            self._end += self._clock() - began


async def _unless_aborted(work: Coroutine[Any, Any, T], signal: AbortSignal | None) -> T:
    """Wait for work, or for the signal, whichever comes first.

    Raises:
        AbortError: The signal fired; the work is cancelled.
    """
    if signal is None:
        return await work
    if signal.aborted:
        work.close()
        raise AbortError(signal.reason)
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(signal.wait())
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise AbortError(signal.reason)
        return task.result()
    finally:
        task.cancel()
        watch.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)
