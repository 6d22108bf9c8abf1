"""What every destination has in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from dsh_core.extras import install_hint

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter


INSTALL_EXTRA: Final = install_hint("otlp")
"""How to get what the destinations need."""


class MissingExtraError(RuntimeError):
    """Something needs an extra that is not installed."""

    def __init__(self, what: str, extra: str = "otlp") -> None:
        """Say which.

        Args:
            what: What needs it.
            extra: Its name.
        """
        super().__init__(f"{what} needs an extra: {install_hint(extra)}")


@dataclass(slots=True)
class SinkReport:
    """What a destination knows beyond the exporter's yes or no.

    Attributes:
        refused: Spans that the receiver took note of and refused.
        problem: The last problem, in one line.
        pipe_closed: Whether the reader of a pipe has gone.
    """

    refused: int = 0
    problem: str = ""
    pipe_closed: bool = False


class Sink(Protocol):
    """A destination for spans.

    Attributes:
        target: Where it leads, for people.
    """

    target: str

    @property
    def problem(self) -> str:
        """Why the last batch did not arrive, in one line."""

    @property
    def hopeless(self) -> bool:
        """Whether the last batch would be refused again if it were sent again."""

    @property
    def exporter(self) -> SpanExporter:
        """The exporter that leads there."""

    def report(self) -> SinkReport:
        """Return what is known of losses."""
