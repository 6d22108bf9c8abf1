"""The model seam: adapters, streams of chunks, blocks, and the service `llm`.

The adapter for the Messages API is in `dsh_core.llm.messages`, which needs httpx.
"""

from dsh_core.llm.assembler import BlockAssembler
from dsh_core.llm.chunks import (
    Block,
    Chunk,
    Failure,
    FinishReason,
    TokenUsage,
    failure_data,
    failure_of,
    finish_error,
)
from dsh_core.llm.options import Adapter, Generated, GenerateOptions
from dsh_core.llm.scripted import ScriptedAdapter, calls, fails, says
from dsh_core.llm.service import Llm
from dsh_core.llm.stream import StreamError, pack, unpack

__all__ = [
    "Adapter",
    "Block",
    "BlockAssembler",
    "Chunk",
    "Failure",
    "FinishReason",
    "GenerateOptions",
    "Generated",
    "Llm",
    "ScriptedAdapter",
    "StreamError",
    "TokenUsage",
    "calls",
    "fails",
    "failure_data",
    "failure_of",
    "finish_error",
    "pack",
    "says",
    "unpack",
]
