"""Tests of events and headers."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from dsh_core.events import (
    KNOWN_EVENTS,
    UNTYPED,
    Contract,
    SessionEvent,
    SessionHeader,
    TurnStart,
    UserMessage,
)
from dsh_core.parts import ABSENT
from dsh_core.payloads import TurnStartData, UserMessageData


class TestHeader:
    """What a header row says of a log."""

    @pytest.mark.parametrize(
        ("version", "contract", "name"),
        [
            (None, Contract.SEED, "seed"),
            (0, Contract.V0, "v0"),
            (1, Contract.V0, "v1"),
            (3, Contract.V0, "v3"),
            (4, Contract.V4, "v4"),
        ],
    )
    def test_each_generation_has_its_contract(
        self, version: int | None, contract: Contract, name: str
    ) -> None:
        """The version decides which contract a log promises to keep."""
        header = SessionHeader(id="x", version=version)
        assert (header.contract, header.format) == (contract, name)


class TestEvents:
    """Classes of events."""

    @pytest.mark.parametrize("kind", sorted(KNOWN_EVENTS))
    def test_types_are_names(self, kind: str) -> None:
        """A class knows the type that it stands for."""
        known: Any = KNOWN_EVENTS[kind]
        assert known.type == kind
        assert issubclass(known, SessionEvent)

    def test_there_are_that_many(self) -> None:
        """All types that some generation writes are known, each once."""
        assert len(KNOWN_EVENTS) == len(UNTYPED) + 22
        assert len(set(UNTYPED)) == len(UNTYPED)

    @pytest.mark.parametrize(
        ("op", "appends"),
        [
            (ABSENT, True),
            (Raw(b'"append"'), True),
            (Raw(b'{"op":"replace"}'), False),
            (Raw(b"null"), False),
        ],
    )
    def test_surface_operations(self, op: Raw, appends: bool) -> None:
        """An event appends unless it says otherwise."""
        event = UserMessage(seq=0, time=0, data=UserMessageData(), surface_op=op)
        assert event.appends is appends

    def test_events_are_compared_by_value(self) -> None:
        """Two events of the same content are equal."""
        one = TurnStart(seq=1, time=2, data=TurnStartData(3))
        assert one == TurnStart(seq=1, time=2, data=TurnStartData(3))
        assert one != TurnStart(seq=1, time=2, data=TurnStartData(4))
