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
    text = _SEPARATOR.join(map(str, ("trace", session, turn, occurrence)))
    return _id(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest())


class SpanIds:
    """The ids of the spans of one trace.

    Args:
        trace_id: Id of the trace.

    Attributes:
        trace_id: The same.
    """

    def __init__(self, trace_id: int) -> None:
        self.trace_id = trace_id
        self._start = hashlib.blake2b(f"span{_SEPARATOR}{trace_id}".encode(), digest_size=8)

    def derive(self, *parts: object) -> int:
        """Return the id of a span.

        Args:
            parts: What the span stands for (``turn``, ``step``, ``attempt``, ``tool`` …), and what
                tells it apart from others of its kind in the trace.
        """
        text = _SEPARATOR.join(("", *map(str, parts)))
        hashed = self._start.copy()
        hashed.update(text.encode("utf-8", "surrogatepass"))
        return _id(hashed.digest())


def first_turn_of(session: str) -> tuple[int, int]:
    """Return trace and span id of a session's first turn, known before it runs."""
    trace_id = derive_trace_id(session, 1, 1)
    return trace_id, SpanIds(trace_id).derive("turn")


def _id(digest: bytes) -> int:
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
