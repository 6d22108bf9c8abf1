"""What is asked of a model, who answers, and the whole answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from dsh_core.abort import AbortSignal
    from dsh_core.llm.chunks import Chunk, FinishReason, TokenUsage


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """One request.

    Attributes:
        model: Name of the model.
        messages: The conversation: mappings with ``role`` and ``content`` (a list of blocks).
        system: Standing instructions.
        tools: What the model may call: mappings with ``name``, ``description``, ``parameters``.
        prefill: How the answer begins; the stream holds only what follows.
        temperature: How varied the answer may be, None for the provider's default.
        max_tokens: How long the answer may be, None for the adapter's default.
        stop: Texts that end the answer.
        signal: Aborts the request.
    """

    model: str
    messages: Sequence[Mapping[str, Any]]
    system: str = ""
    tools: Sequence[Mapping[str, Any]] = ()
    prefill: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    stop: Sequence[str] = ()
    signal: AbortSignal | None = None


@dataclass(frozen=True, slots=True)
class Generated:
    """A whole answer.

    Attributes:
        message: The assistant's message.
        usage: What the request used, None if the provider does not say.
        finish: Why the answer ended; it may have failed half-way.
    """

    message: dict[str, Any]
    usage: TokenUsage | None
    finish: FinishReason


class Adapter(Protocol):
    """Speaks with a provider of models."""

    @property
    def provider(self) -> str:
        """Name of the provider."""

    def stream(self, options: GenerateOptions) -> AsyncIterator[Chunk]:
        """Ask for an answer and return it piece by piece.

        A failure of the provider ends the stream with a finish chunk of kind ``error``; the abort
        of `options.signal` ends it with one of kind ``aborted``.
        """
