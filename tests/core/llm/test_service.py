"""The service `llm`: adapters by model, and three ways to ask."""

from __future__ import annotations

import asyncio
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pytest

from dsh_core.context import Context
from dsh_core.errors import LlmError
from dsh_core.llm import Generated, GenerateOptions, Llm, ScriptedAdapter, calls, fails
from dsh_core.llm import chunks as make

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

OPTIONS = GenerateOptions("m", [])


def with_llm(body: Callable[[Context, Llm], Awaitable[None]]) -> None:
    async def main() -> None:
        ctx = Context()
        try:
            await body(ctx, Llm(ctx))
        finally:
            await ctx.dispose()

    asyncio.run(main())


async def drain(stream: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in stream]


class Recorded:
    """An adapter that plays chunks and tells when its stream is closed."""

    provider = "recorded"

    def __init__(self, *chunks: Any) -> None:
        self.chunks = chunks
        self.sent = 0
        self.closed = False

    async def stream(self, options: GenerateOptions) -> AsyncIterator[Any]:
        try:
            for chunk in self.chunks:
                self.sent += 1
                yield chunk
        finally:
            self.closed = True


class TestOptions:
    def test_a_request_needs_model_and_messages_and_nothing_else(self) -> None:
        everything = GenerateOptions(
            model="m",
            messages=[],
            system="",
            tools=(),
            prefill=None,
            temperature=None,
            max_tokens=None,
            stop=(),
            signal=None,
        )
        assert GenerateOptions("m", []) == everything
        assert [one.name for one in fields(GenerateOptions)] == [
            "model",
            "messages",
            "system",
            "tools",
            "prefill",
            "temperature",
            "max_tokens",
            "stop",
            "signal",
        ]


class TestRegistration:
    def test_the_service_is_found_as_llm(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            assert ctx.llm is llm

        with_llm(body)

    def test_the_service_is_a_plugin_too(self) -> None:
        async def main() -> None:
            ctx = Context()
            await ctx.plugin(Llm)
            assert isinstance(ctx.llm, Llm)
            await ctx.dispose()

        asyncio.run(main())

    def test_models_are_listed_in_order_of_registration(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            assert llm.models() == []
            llm.register_adapter(["b", "a"], ScriptedAdapter([]))
            llm.register_adapter("lone", ScriptedAdapter([]))
            assert llm.models() == ["b", "a", "lone"]

        with_llm(body)

    def test_the_adapter_of_a_model_is_who_registered_it(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            adapter = ScriptedAdapter([])
            llm.register_adapter(["a", "m"], adapter)
            assert llm.adapter_of("m") is adapter

        with_llm(body)

    def test_a_duplicate_model_is_refused(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            llm.register_adapter(["m"], ScriptedAdapter([]))
            with pytest.raises(LlmError) as caught:
                llm.register_adapter(["m"], ScriptedAdapter([]))
            assert caught.value.code == "DUPLICATE_ADAPTER"
            assert caught.value.message == 'an adapter for model "m" is already registered'

        with_llm(body)

    def test_registration_is_all_or_nothing(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            llm.register_adapter(["m"], ScriptedAdapter([]))
            with pytest.raises(LlmError):
                llm.register_adapter(["new", "m"], ScriptedAdapter([]))
            assert llm.models() == ["m"]

        with_llm(body)

    def test_a_model_named_twice_in_one_list_is_registered_once(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            llm.register_adapter(["m", "m"], ScriptedAdapter([]))
            assert llm.models() == ["m"]

        with_llm(body)

    def test_the_disposer_takes_the_models_back_once(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            stop = llm.register_adapter(["m"], ScriptedAdapter([]))
            await stop()
            assert llm.models() == []
            llm.register_adapter(["m"], ScriptedAdapter([]))
            await stop()
            assert llm.models() == ["m"]

        with_llm(body)

    def test_adapter_change_is_emitted_on_add_and_remove(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            seen: list[list[str]] = []
            ctx.on("llm/adapter-change", lambda: seen.append(llm.models()))
            stop = llm.register_adapter(["m", "n"], ScriptedAdapter([]))
            stop()
            assert seen == [["m", "n"], []]

        with_llm(body)

    def test_a_listener_that_raises_undoes_the_registration(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            def refuse() -> None:
                if llm.models():
                    raise ValueError("no")

            ctx.on("llm/adapter-change", refuse)
            with pytest.raises(ValueError, match="no"):
                llm.register_adapter(["m"], ScriptedAdapter([]))
            assert llm.models() == []

        with_llm(body)

    def test_models_end_with_the_service(self) -> None:
        async def main() -> None:
            ctx = Context()
            llm = Llm(ctx)
            llm.register_adapter(["m"], ScriptedAdapter([]))
            await ctx.dispose()
            assert llm.models() == []

        asyncio.run(main())


class TestStream:
    def test_the_chunks_are_the_adapters(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            chunks = [make.text_delta(0, "a"), make.finish("stop")]
            llm.register_adapter(["m"], ScriptedAdapter([chunks]))
            assert await drain(llm.stream(OPTIONS)) == chunks

        with_llm(body)

    def test_no_adapter_is_raised_synchronously(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            with pytest.raises(LlmError) as caught:
                llm.stream(OPTIONS)
            assert caught.value.code == "NO_ADAPTER"
            assert caught.value.message == 'no adapter registered for model "m"'

        with_llm(body)

    def test_the_adapter_is_looked_up_when_it_is_reached(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            def late(options: GenerateOptions, advance: Callable[[], Any]) -> Any:
                llm.register_adapter([options.model], ScriptedAdapter([[make.finish("stop")]]))
                return advance()

            ctx.on("llm/stream", late)
            assert await drain(llm.stream(OPTIONS)) == [make.finish("stop")]

        with_llm(body)

    def test_a_listener_may_answer_itself(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            async def own(options: GenerateOptions, advance: object) -> AsyncIterator[Any]:
                yield make.finish("max-tokens")

            ctx.on("llm/stream", own)
            assert await drain(llm.stream(OPTIONS)) == [make.finish("max-tokens")]

        with_llm(body)

    def test_a_listener_may_change_the_stream(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            async def loud(options: GenerateOptions, advance: Callable[[], Any]) -> Any:
                async for chunk in advance():
                    yield {**chunk, "seen": True}

            llm.register_adapter(["m"], ScriptedAdapter([[make.finish("stop")]]))
            ctx.on("llm/stream", loud)
            assert await drain(llm.stream(OPTIONS)) == [{**make.finish("stop"), "seen": True}]

        with_llm(body)

    def test_listeners_may_be_async_functions(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            order: list[str] = []

            async def outer(options: GenerateOptions, advance: Callable[[], Any]) -> Any:
                order.append("outer")
                return advance()

            async def inner(options: GenerateOptions, advance: Callable[[], Any]) -> Any:
                order.append("inner")
                return advance()

            llm.register_adapter(["m"], ScriptedAdapter([[make.finish("stop")]]))
            ctx.on("llm/stream", outer)
            ctx.on("llm/stream", inner)
            assert await drain(llm.stream(OPTIONS)) == [make.finish("stop")]
            assert order == ["outer", "inner"]

        with_llm(body)


class TestGenerate:
    def test_the_answer_has_message_usage_and_finish(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            llm.register_adapter(["m"], ScriptedAdapter([calls(("read", {}), text="ok")]))
            found = await llm.generate(OPTIONS)
            assert found == Generated(
                message={
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "ok"},
                        {"type": "tool-call", "id": "call-1-1", "name": "read", "arguments": "{}"},
                    ],
                },
                usage={"inputTokens": 1, "outputTokens": 25},
                finish={"kind": "tool-calls"},
            )

        with_llm(body)

    def test_without_usage_there_is_none(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            llm.register_adapter(["m"], ScriptedAdapter([[make.text_delta(0, "a")]]))
            found = await llm.generate(OPTIONS)
            assert found.usage is None
            assert found.finish == {"kind": "stop"}

        with_llm(body)

    def test_a_failed_answer_says_so_in_its_finish(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            llm.register_adapter(["m"], ScriptedAdapter([fails("SERVER", "down")]))
            found = await llm.generate(OPTIONS)
            assert found.finish == {
                "kind": "error",
                "failure": {"message": "down", "code": "SERVER"},
            }

        with_llm(body)

    def test_it_asks_through_the_waterfall_of_stream(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            async def own(options: GenerateOptions, advance: object) -> AsyncIterator[Any]:
                yield make.text_delta(0, "from the listener")

            ctx.on("llm/stream", own)
            found = await llm.generate(OPTIONS)
            assert found.message["content"] == [{"type": "text", "text": "from the listener"}]

        with_llm(body)

    def test_it_has_a_waterfall_of_its_own(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            async def short(options: GenerateOptions, advance: Callable[[], Any]) -> Any:
                return replace(await advance(), usage={"inputTokens": 7, "outputTokens": 7})

            llm.register_adapter(["m"], ScriptedAdapter(["a"]))
            ctx.on("llm/generate", short)
            assert (await llm.generate(OPTIONS)).usage == {"inputTokens": 7, "outputTokens": 7}

        with_llm(body)

    def test_a_listener_may_answer_without_waiting(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            cached = Generated({"role": "assistant", "content": []}, None, {"kind": "stop"})
            ctx.on("llm/generate", lambda options, advance: cached)
            assert await llm.generate(OPTIONS) is cached

        with_llm(body)

    def test_no_adapter_is_raised(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            with pytest.raises(LlmError) as caught:
                await llm.generate(OPTIONS)
            assert caught.value.code == "NO_ADAPTER"

        with_llm(body)

    def test_the_stream_is_closed_when_it_makes_no_sense(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            adapter = Recorded({"type": "text-delta"}, make.finish("stop"))
            llm.register_adapter(["m"], adapter)
            with pytest.raises(LlmError):
                await llm.generate(OPTIONS)
            assert (adapter.sent, adapter.closed) == (1, True)

        with_llm(body)

    def test_a_stream_that_cannot_be_closed_will_do(self) -> None:
        class Plain:
            provider = "plain"

            def stream(self, options: GenerateOptions) -> Any:
                return self

            def __aiter__(self) -> Any:
                return self

            async def __anext__(self) -> Any:
                raise StopAsyncIteration

        async def body(ctx: Context, llm: Llm) -> None:
            llm.register_adapter(["m"], Plain())
            assert (await llm.generate(OPTIONS)).message["content"] == []

        with_llm(body)


class TestStreamBlocks:
    A = {"type": "text", "text": "a"}  # noqa: RUF012 - never changed
    B = {"type": "text", "text": "b"}  # noqa: RUF012 - never changed

    def test_a_block_comes_as_soon_as_it_and_all_earlier_ones_are_closed(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            adapter = Recorded(
                make.block_start(1, "text"),
                make.block_end(0, self.A),
                make.block_end(1, self.B),
                make.finish("stop"),
            )
            llm.register_adapter(["m"], adapter)
            blocks = llm.stream_blocks(OPTIONS)
            assert await anext(blocks) == self.B
            assert adapter.sent == 3
            assert await anext(blocks) == self.A
            assert adapter.sent == 3
            assert await drain(blocks) == []

        with_llm(body)

    def test_the_rest_comes_at_the_end(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            llm.register_adapter(
                ["m"],
                ScriptedAdapter(
                    [
                        [
                            make.text_delta(0, "op"),
                            make.block_end(1, self.A),
                            make.text_delta(0, "en"),
                        ]
                    ]
                ),
            )
            assert await drain(llm.stream_blocks(OPTIONS)) == [
                {"type": "text", "text": "open"},
                self.A,
            ]

        with_llm(body)

    def test_no_adapter_is_raised_synchronously(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            with pytest.raises(LlmError) as caught:
                llm.stream_blocks(OPTIONS)
            assert caught.value.code == "NO_ADAPTER"

        with_llm(body)

    def test_who_stops_reading_closes_the_stream(self) -> None:
        async def body(ctx: Context, llm: Llm) -> None:
            adapter = Recorded(make.block_end(0, self.A), make.block_end(1, self.B))
            llm.register_adapter(["m"], adapter)
            blocks: Any = llm.stream_blocks(OPTIONS)
            await anext(blocks)
            await blocks.aclose()
            assert (adapter.sent, adapter.closed) == (1, True)

        with_llm(body)
