"""Trace and span ids that follow from the log, so that live, replay and re-export agree."""

from __future__ import annotations

import hashlib
import threading
from typing import Final

from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator

_SEPARATOR: Final = "\x1f"


def derive_trace_id(session: str, turn: int | None, occurrence: int) -> int:
    """Return the id of the trace that holds one turn.

    Args:
        session: Session id.
        turn: Turn number, None for what lies outside turns.
        occurrence: How often the session has opened a turn of this number, from 1.
    """
    return _hash(16, "trace", session, turn, occurrence)


def derive_span_id(trace_id: int, kind: str, *parts: object) -> int:
    """Return the id of a span within its trace.

    Args:
        trace_id: Id of the trace.
        kind: What the span stands for: ``turn``, ``step``, ``attempt``, ``tool`` …
        parts: What tells it apart from others of its kind in the trace.
    """
    return _hash(8, "span", trace_id, kind, *parts)


def first_turn_of(session: str) -> tuple[int, int]:
    """Return trace and span id of a session's first turn, known before it runs."""
    trace_id = derive_trace_id(session, 1, 1)
    return trace_id, derive_span_id(trace_id, "turn")


def _hash(size: int, *parts: object) -> int:
    text = _SEPARATOR.join(map(str, parts))
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()
    # Zero is the one invalid id.
    return int.from_bytes(digest, "big") or 1


class DerivedIdGenerator(IdGenerator):
    """Hands out the ids that the session tracer asks for, and random ones to everybody else.

    Give it to a `TracerProvider` (``id_generator=``) to make exports repeatable.
    """

    def __init__(self) -> None:
        """Start without an id laid out."""
        self._random = RandomIdGenerator()
        self._next = threading.local()

    def lay_out(self, trace_id: int, span_id: int) -> None:
        """Set the ids of the next span that this thread starts.

        Args:
            trace_id: Id of its trace.
            span_id: Its own id.
        """
        self._next.ids = (trace_id, span_id)

    def clear(self) -> None:
        """Take back what was laid out and not used: the span did not ask for ids."""
        self._next.ids = None

    def generate_span_id(self) -> int:
        """Return the id laid out for the next span, else a random one."""
        ids: tuple[int, int] | None = getattr(self._next, "ids", None)
        if ids is None:
            return self._random.generate_span_id()
        # A span takes its own id last.
        self._next.ids = None
        return ids[1]

    def generate_trace_id(self) -> int:
        """Return the id laid out for the next trace, else a random one."""
        ids: tuple[int, int] | None = getattr(self._next, "ids", None)
        if ids is None:
            return self._random.generate_trace_id()
        return ids[0]
