"""The service `llm`: models by name, and the three ways to ask one."""

from __future__ import annotations

import inspect
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from dsh_core.context import Service
from dsh_core.errors import LlmError
from dsh_core.llm.assembler import BlockAssembler
from dsh_core.llm.options import Generated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator

    from dsh_core.context import Context, Disposer
    from dsh_core.llm.chunks import Block, Chunk
    from dsh_core.llm.options import Adapter, GenerateOptions

ADAPTER_CHANGE: Final = "llm/adapter-change"
"""Emitted after models have come or gone."""

STREAM: Final = "llm/stream"
"""Waterfall around `Llm.stream`: listeners get the options and ``next``, and return a stream."""

GENERATE: Final = "llm/generate"
"""Waterfall around `Llm.generate`: listeners get the options and ``next``; they may be async."""


class Llm(Service):
    """Finds the adapter of a model and asks it.

    Args:
        ctx: Context of the plugin that offers the service.
    """

    def __init__(self, ctx: Context) -> None:
        self._adapters: dict[str, Adapter] = {}
        super().__init__(ctx, "llm")

    def register_adapter(self, models: Iterable[str], adapter: Adapter) -> Disposer:
        """Offer models until the service ends, or earlier.

        Args:
            models: Their names; a lone string is one name.
            adapter: Who answers for them.

        Returns:
            What takes them back.

        Raises:
            LlmError: A name is taken (``DUPLICATE_ADAPTER``); then none is registered.
        """
        names = dict.fromkeys((models,) if isinstance(models, str) else models)
        for name in names:
            if name in self._adapters:
                raise LlmError(
                    f'an adapter for model "{name}" is already registered', "DUPLICATE_ADAPTER"
                )
        disposer: Disposer = self.ctx.effect(lambda: self._offer(names, adapter), "llm adapter of")
        return disposer

    def _offer(self, names: Iterable[str], adapter: Adapter) -> Iterator[Callable[[], None]]:
        def take_back() -> None:
            for name in names:
                del self._adapters[name]
            self.ctx.emit(ADAPTER_CHANGE)

        self._adapters.update(dict.fromkeys(names, adapter))
        yield take_back
        # Once it can be undone: a listener that raises must not leave half a registration.
        self.ctx.emit(ADAPTER_CHANGE)

    def models(self) -> list[str]:
        """Return the names of all models, in order of registration."""
        return list(self._adapters)

    def adapter_of(self, model: str) -> Adapter:
        """Return who answers for a model.

        Args:
            model: Its name.

        Raises:
            LlmError: Nobody does (``NO_ADAPTER``).
        """
        adapter = self._adapters.get(model)
        if adapter is None:
            raise LlmError(f'no adapter registered for model "{model}"', "NO_ADAPTER")
        return adapter

    def stream(self, options: GenerateOptions) -> AsyncIterator[Chunk]:
        """Ask for an answer, piece by piece.

        Args:
            options: The request.

        Returns:
            The chunks.

        Raises:
            LlmError: No adapter has the model (``NO_ADAPTER``); raised at once, not by the stream.
        """
        answer = self.ctx.waterfall(
            STREAM,
            options,
            inner=lambda options: self.adapter_of(options.model).stream(options),
        )
        if inspect.isawaitable(answer):
            return _awaited_stream(cast("Awaitable[AsyncIterator[Chunk]]", answer))
        return cast("AsyncIterator[Chunk]", answer)

    async def generate(self, options: GenerateOptions) -> Generated:
        """Ask for a whole answer.

        Args:
            options: The request.

        Returns:
            The answer; look at its `finish`, it may have failed half-way.

        Raises:
            LlmError: No adapter has the model (``NO_ADAPTER``), or the stream makes no sense.
        """
        answer: Any = self.ctx.waterfall(GENERATE, options, inner=self._generate)
        if inspect.isawaitable(answer):
            answer = await answer
        return cast("Generated", answer)

    async def _generate(self, options: GenerateOptions) -> Generated:
        assembler = BlockAssembler()
        async with _closing(self.stream(options)) as chunks:
            async for chunk in chunks:
                assembler.add(chunk)
        return Generated(assembler.message(), assembler.usage, assembler.finish)

    def stream_blocks(self, options: GenerateOptions) -> AsyncIterator[Block]:
        """Ask for an answer, block by block.

        Args:
            options: The request.

        Returns:
            The blocks in order, each as soon as it and all before it are complete; at the end of
            the stream also those that are not. An answer that fails half-way just ends.

        Raises:
            LlmError: As for `stream`.
        """
        return _blocks(self.stream(options))


async def _blocks(stream: AsyncIterator[Chunk]) -> AsyncIterator[Block]:
    assembler = BlockAssembler()
    async with _closing(stream) as chunks:
        async for chunk in chunks:
            assembler.add(chunk)
            for block in assembler.take_closed():
                yield block
    for block in assembler.take_rest():
        yield block


async def _awaited_stream(answer: Awaitable[AsyncIterator[Chunk]]) -> AsyncIterator[Chunk]:
    """Return the stream that an asynchronous listener hands out."""
    stream: Any = await answer
    while inspect.isawaitable(stream):
        # The listener within was asynchronous too, and this one just passed on what `next` gave.
        stream = await stream
    async with _closing(stream) as chunks:
        async for chunk in chunks:
            yield chunk


@asynccontextmanager
async def _closing(stream: AsyncIterator[Chunk]) -> AsyncIterator[AsyncIterator[Chunk]]:
    """Close a stream in the end if it can be closed: nobody reads on after an exception."""
    try:
        yield stream
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
