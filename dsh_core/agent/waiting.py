"""Waiting for others: models, tools and listeners, and no longer than they are wanted."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from dsh_core.abort import AbortError
from dsh_core.errors import LlmError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

    from dsh_core.abort import AbortSignal

_logger: Final = logging.getLogger("dsh_core")


async def settled(value: Any) -> Any:  # noqa: ANN401 - whatever it is
    """Return what a waterfall comes to; listeners may be asynchronous, around each other too."""
    while inspect.isawaitable(value):
        value = await value
    return value


async def while_wanted(
    call: Callable[[], Awaitable[Any]], signal: AbortSignal, *, grace_s: float, patience_s: float
) -> Any:  # noqa: ANN401 - what the call returns
    """Wait for a call, and cancel it if it is not wanted any more.

    It runs in a task of its own: what it does to the task that it runs in stays with it.

    Args:
        call: Makes the call.
        signal: Says that it is not wanted.
        grace_s: How long it may then go on by itself, in seconds.
        patience_s: How long it may take to be cancelled, in seconds.

    Returns:
        What it returns, also if it answers its cancellation with a result.

    Raises:
        AbortError: It was cancelled, or given up because it does not end.
        BaseException: What it raises.
    """

    async def wanted() -> Any:  # noqa: ANN401 - as above
        signal.raise_if_aborted()
        return await call()

    task, stop = asyncio.ensure_future(wanted()), asyncio.ensure_future(signal.wait())
    try:
        await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            await asyncio.wait({task}, timeout=grace_s)
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=patience_s)
    finally:
        stop.cancel()
        task.cancel()
        task.add_done_callback(_seen)
    if not task.done():
        _logger.warning("a tool does not end though it was cancelled %g s ago", patience_s)
    if not task.done() or (task.cancelled() and signal.aborted):
        raise AbortError(signal.reason)
    return task.result()


async def until_aborted(
    stream: AsyncIterator[Mapping[str, Any]], signal: AbortSignal, patience_s: float
) -> AsyncGenerator[Mapping[str, Any], None]:
    """Yield what a stream yields, and stop waiting for it once it is not wanted any more.

    Args:
        stream: The stream.
        signal: Says that it is not wanted.
        patience_s: How long it may take to end, in seconds.
    """
    stop = asyncio.ensure_future(signal.wait())
    chunk: asyncio.Future[Mapping[str, Any]] | None = None
    try:
        while True:
            chunk = asyncio.ensure_future(anext(stream))
            chunk.add_done_callback(_seen)
            await asyncio.wait({chunk, stop}, return_when=asyncio.FIRST_COMPLETED)
            await _ended(chunk, patience_s)
            if chunk.cancelled() or not chunk.done():
                signal.raise_if_aborted()
                raise LlmError("the stream was cancelled", "STREAM_CLOSED")
            if isinstance(chunk.exception(), StopAsyncIteration):
                return
            found = chunk.result()
            if not isinstance(found, Mapping):
                raise LlmError(f"a chunk is a {type(found).__name__}", "MALFORMED_RESPONSE")
            if signal.aborted and found.get("type") != "finish":
                # One that never waits would never notice.
                signal.raise_if_aborted()
            yield found
    finally:
        stop.cancel()
        if chunk is not None:
            await _ended(chunk, patience_s)
        close = getattr(stream, "aclose", None)
        if callable(close) and (chunk is None or chunk.done()):
            closing = asyncio.ensure_future(settled(close()))
            # What it raises at its end must not hide why it ends.
            closing.add_done_callback(_seen)
            await asyncio.wait({closing}, timeout=patience_s)
            await _ended(closing, patience_s)


def _seen(task: asyncio.Future[Any]) -> None:
    """Take note of what a task has failed with: nobody may be left to do so."""
    if not task.cancelled():
        task.exception()


async def _ended(task: asyncio.Future[Any], patience_s: float) -> None:
    """Make a task end, if it has not; one that does not is left to itself."""
    if not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=patience_s)
    if not task.done():
        _logger.warning("a model's stream does not end: something swallows its cancellation")
