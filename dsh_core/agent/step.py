"""One step of a turn: a request to the model, its answer, and the tools that the answer calls."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from dsh_core.abort import AbortError
from dsh_core.agent.waiting import settled, until_aborted, while_wanted
from dsh_core.errors import LlmError, to_error
from dsh_core.llm import BlockAssembler, GenerateOptions, finish_error, pack
from dsh_core.llm.chunks import finish_failed
from dsh_core.llm.text import clip
from dsh_core.session.closing import result_message
from dsh_core.session.entry import APPEND
from dsh_core.session.lossless import DataError, require_lossless
from dsh_core.tool_types import ToolError, ToolExecution, ToolExecutionResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.agent.agent import Agent
    from dsh_core.context import Context
    from dsh_core.session import Entry

MAX_CHUNKS: Final = 1_000_000
"""Chunks of one answer; a longer stream is given up."""

_UNKNOWN_PROVIDER: Final = "unknown"


class Step:
    """Runs one step of a turn.

    Emits ``agent/stream-chunk`` (agent, chunk); asks ``agent/request`` (agent, options, next) for
    the request and ``agent/step-result`` (agent, message, next) for the message to log.

    Args:
        ctx: Where the services are.
        agent: The agent.
        turn: Number of the turn.
        number: Number of the step.

    Attributes:
        called_tools: Whether the answer called any.
    """

    def __init__(self, ctx: Context, agent: Agent, turn: int, number: int) -> None:
        self.called_tools = False
        self._ctx: Any = ctx
        self._agent = agent
        self._session = agent.session
        self._place = {"turn": turn, "step": number}

    def hear(self, messages: list[dict[str, Any]]) -> None:
        """Log the messages that the step begins with, and take each out of the list.

        Args:
            messages: What was claimed for it.
        """
        self._say_who_it_is()
        while messages:
            self._session.append("user/message", messages.pop(0), surface_op=APPEND)

    def _say_who_it_is(self) -> None:
        """Log the standing instructions if they are new.

        Without any, an empty message keeps their place: whoever goes on with the session may have
        some, the runtime always does, and behind other messages no reader accepts them.
        """
        prompt = self._agent.options.system_prompt
        head = self._latest("system/message")
        if head is not None and (not prompt or prompt == _text_of(head)):
            return
        if head is None and any(_is_message(entry) for entry in self._session.events):
            # Instructions stand at the head of the conversation, or nowhere in it.
            return
        message = {
            "id": self._agent.new_id(),
            "role": "system",
            "content": [{"type": "text", "text": prompt}] if prompt else [],
            "source": {"kind": "system-prompt"},
        }
        self._session.append(
            "system/message",
            {**self._place, "message": message},
            surface_op=APPEND
            if head is None
            else {"op": "replace", "startSeq": head.seq, "endSeq": head.seq},
            source_event_seqs=None if head is None else [head.seq],
        )

    async def run(self) -> str:
        """Ask the model, log the answer, and run the tools that it calls.

        Returns:
            Why the model stopped.

        Raises:
            Exception: The model failed, the step was aborted, or a listener raised.
        """
        options = await self._request()
        self._agent.work.signal.raise_if_aborted()
        provider = self._log_request(options)
        assembler, stream = await self._answer(options)
        message = await settled(
            self._ctx.waterfall(
                "agent/step-result",
                self._agent,
                assembler.message(),
                inner=lambda _agent, message: message,
            )
        )
        kind = str(assembler.finish.get("kind", "stop"))
        content = self._content(message, kind)
        data: dict[str, Any] = {
            **self._place,
            "message": {
                "id": self._agent.new_id(),
                "role": "assistant",
                "content": content,
                "source": {"kind": "model", "provider": provider, "model": options.model},
            },
        }
        if assembler.usage is not None:
            data["usage"] = dict(assembler.usage)
        data["stream"] = stream
        self._session.append("assistant/message", data, surface_op=APPEND)
        for block in content:
            if block.get("type") == "tool-call":
                self.called_tools = True
                await self._call(block)
        return kind

    # The request

    async def _request(self) -> GenerateOptions:
        agent = self._agent
        asked = agent.options
        options = GenerateOptions(
            model=asked.model,
            messages=self._session.derive_messages(),
            system=asked.system_prompt,
            tools=self._ctx.tools.schemas(),
            temperature=asked.temperature,
            max_tokens=asked.max_tokens,
            signal=agent.work.signal,
        )
        found = await settled(
            self._ctx.waterfall(
                "agent/request", agent, options, inner=lambda _agent, options: options
            )
        )
        if not isinstance(found, GenerateOptions):
            raise TypeError("a listener of agent/request returned no GenerateOptions")
        if not found.model:
            raise RuntimeError(
                f'agent "{agent.id}" has no model: create it with one, or name one in agent/request'
            )
        return found

    def _log_request(self, options: GenerateOptions) -> str:
        """Log where the request goes, if that is new.

        Returns:
            The provider.
        """
        try:
            provider = str(self._ctx.llm.adapter_of(options.model).provider)
        except LlmError:
            # A listener of llm/stream may answer in the adapter's place; else the request fails.
            provider = _UNKNOWN_PROVIDER
        limits = {"temperature": options.temperature, "maxTokens": options.max_tokens}
        config: dict[str, Any] = {"provider": provider, "model": options.model}
        config |= {name: value for name, value in limits.items() if value is not None}
        if options.stop:
            config["stop"] = list(options.stop)
        header = {"config": config, "tools": [dict(tool) for tool in options.tools]}
        before = self._latest("request/header")
        if before is None or before.data.get("header") != header:
            reason = "initial" if before is None else "change"
            self._session.append("request/header", {"header": header, "reason": reason})
            self._session.append("request/context", {"provider": provider, "model": options.model})
        return provider

    # The answer

    async def _answer(self, options: GenerateOptions) -> tuple[BlockAssembler, list[Any]]:
        agent, assembler = self._agent, BlockAssembler()
        timed: list[tuple[int, Mapping[str, Any]]] = []
        failure: Exception | None = None
        try:
            stream = self._ctx.llm.stream(options)
            reading = until_aborted(stream, agent.work.signal, agent.options.patience_s)
            async with aclosing(reading) as chunks:
                async for chunk in chunks:
                    assembler.add(chunk)
                    timed.append((self._session.now(), chunk))
                    self._ctx.emit("agent/stream-chunk", agent, chunk)
                    _require_end(len(timed))
        except Exception as error:  # noqa: BLE001 - logged, and raised again
            failure = to_error(error)
        else:
            failure = finish_error(assembler.finish)
        if failure is None:
            return assembler, pack(timed)
        if not timed or timed[-1][1].get("type") != "finish":
            timed.append((self._session.now(), finish_failed(failure)))
        self._log_attempt(timed)
        raise failure

    def _log_attempt(self, timed: list[tuple[int, Mapping[str, Any]]]) -> None:
        try:
            self._session.append("assistant/attempt", {**self._place, "stream": pack(timed)})
        except DataError:
            # What was streamed is no plain JSON, but the failure is.
            self._session.append("assistant/attempt", {**self._place, "stream": pack(timed[-1:])})

    def _content(self, message: Any, kind: str) -> list[dict[str, Any]]:  # noqa: ANN401 - a listener's
        """Return the blocks to log: calls that were cut off are left out, ids made unique."""
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
            raise TypeError("a listener of agent/step-result returned no message")
        blocks: list[dict[str, Any]] = []
        seen: set[str] = set()
        for block in content:
            if block.get("type") != "tool-call":
                blocks.append(block)
            elif kind != "max-tokens":
                call_id, name, text = (block.get(key) for key in ("id", "name", "arguments"))
                if not isinstance(call_id, str) or not call_id or call_id in seen:
                    call_id = f"call-{self._agent.new_id()}"
                seen.add(call_id)
                blocks.append(
                    {**block, "id": call_id, "name": str(name or ""), "arguments": str(text or "")}
                )
        return blocks

    # The tools

    async def _call(self, block: dict[str, Any]) -> None:
        signal = self._agent.work.signal
        signal.raise_if_aborted()
        call_id, name, text = block["id"], block["name"], block["arguments"]
        call = self._session.append(
            "tool/call", {**self._place, "callId": call_id, "name": name, "arguments": text}
        )
        execution = ToolExecution(call_id, name, _parsed(text), self._agent, signal)
        options = self._agent.options
        try:
            result = await while_wanted(
                lambda: self._ctx.tools.execute(execution),
                signal,
                grace_s=options.grace_s,
                patience_s=options.patience_s,
            )
        except AbortError as error:
            if not signal.aborted:
                raise
            told = [{"type": "text", "text": f"Error: {error.message}"}]
            result = ToolExecutionResult(call_id, told, True, ToolError(error.name, error.code))  # noqa: FBT003
        self._log_result(call, result)
        signal.raise_if_aborted()

    def _log_result(self, call: Entry, result: ToolExecutionResult) -> None:
        call_id = call.data["callId"]
        content, failed = result.content, bool(result.is_error)
        message = result_message(self._agent.new_id(), call_id, content, failed=failed)
        data: dict[str, Any] = {**self._place, "message": message}
        if failed and result.error is not None:
            data["error"] = {key: clip(str(getattr(result.error, key))) for key in ("name", "code")}
        problem = _problem(content)
        if problem:
            text = {"type": "text", "text": f"Error: the result cannot be logged: {problem}"}
            message |= {"content": [text], "isError": True}
        self._session.append("tool/result", data, surface_op=APPEND, source_event_seqs=[call.seq])

    def _latest(self, type_: str) -> Entry | None:
        return next((e for e in reversed(self._session.events) if e.type == type_), None)


def _text_of(entry: Entry) -> object:
    try:
        return entry.data["message"]["content"][0]["text"]
    except (LookupError, TypeError):
        # Somebody else has logged it.
        return None


def _is_message(entry: Entry) -> bool:
    return entry.type in ("user/message", "assistant/message", "tool/result")


def _problem(content: object) -> str:
    """Say why a result cannot be logged; nothing if it can."""
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        return "it is no list of content blocks"
    try:
        require_lossless(content, "content")
    except DataError as error:
        return str(error)
    return ""


def _require_end(count: int) -> None:
    if count > MAX_CHUNKS:
        raise LlmError(f"an answer of over {MAX_CHUNKS} pieces", "MALFORMED_RESPONSE")


def _parsed(text: str) -> Any:  # noqa: ANN401 - what the model wrote
    if not text:
        return {}
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        # The validator says what is wrong with it.
        return text
