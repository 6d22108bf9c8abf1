"""Tests of building events: from JSON the fast way, and from mappings of any quality."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from msgspec import Raw

from dsh_core.decode import (
    LEGACY_TYPES,
    Envelope,
    PackedRow,
    from_envelope,
    from_mapping,
    strict_decoder,
    to_raw,
)
from dsh_core.events import (
    KNOWN_EVENTS,
    MAX_SAFE_INTEGER,
    UNREADABLE,
    InboxSpliced,
    LlmRetry,
    ToolCall,
    ToolResult,
    TurnEnd,
    UnknownEvent,
    UserMessage,
)
from dsh_core.parts import ABSENT, NO_NUMBER, blocks
from tests.strategies import Event, Events, arbitrary_events

STRICT = strict_decoder(packed=False).decode
ENVELOPE = msgspec.json.Decoder(Envelope).decode


def make(kind: str, data: Any, **envelope: Any) -> Event:
    """Return an event as a mapping."""
    return {"type": kind, "seq": 1, "time": 2, "data": data, **envelope}


def encode(source: Any) -> bytes:
    """Return a mapping as JSON."""
    return json.dumps(source).encode()


class TestStrict:
    """The fast way."""

    @pytest.mark.parametrize("kind", sorted(KNOWN_EVENTS))
    def test_every_known_type_has_its_class(self, kind: str) -> None:
        """An event is of the class of its type, and knows the type's name."""
        event = STRICT(encode(make(kind, {})))
        assert type(event) is KNOWN_EVENTS[kind]
        assert event.type == kind
        assert (event.seq, event.time) == (1, 2)
        assert event.surface_op is ABSENT

    def test_fields_nobody_reads_are_skipped(self) -> None:
        """Further fields are no mistake."""
        event = STRICT(encode(make("turn/start", {"turn": 3, "trigger": {}})))
        assert event.data.turn == 3

    @pytest.mark.parametrize(
        "odd",
        [
            make("brand/new", {}),
            make("turn/start", {"turn": "1"}),
            make("turn/start", []),
            {"type": "turn/start", "seq": 1, "data": {}},
            make("turn/start", {}, more=[1]),
            make("turn/start", {}, seq=1.5),
            make("turn/start", {}, seq=None),
        ],
    )
    def test_anything_odd_is_refused(self, odd: Event) -> None:
        """What is not as declared is left to the more thorough ways."""
        with pytest.raises(msgspec.ValidationError):
            STRICT(encode(odd))

    def test_packed_rows_are_read_where_they_may_occur(self) -> None:
        """Rows are known to the decoder of early formats only."""
        row = encode({"type": "text-chunks", "seq0": 1, "time0": 2, "data": {"texts": ["a"]}})
        assert isinstance(strict_decoder(packed=True).decode(row), PackedRow)
        with pytest.raises(msgspec.ValidationError):
            STRICT(row)


class TestEnvelope:
    """Payload by payload."""

    def test_known_types(self) -> None:
        """An envelope of a known type gives the same event as the fast way."""
        line = encode(make("tool/call", {"turn": 1, "step": 2, "callId": "c"}, surfaceOp="append"))
        assert from_envelope(ENVELOPE(line)) == STRICT(line)

    def test_unknown_types(self) -> None:
        """An unknown type keeps its payload as it is."""
        event = from_envelope(ENVELOPE(b'{"type":"x","seq":1,"time":2,"data": {"a" : 1} }'))
        assert isinstance(event, UnknownEvent)
        assert (event.type, bytes(event.data)) == ("x", b'{"a" : 1}')

    @pytest.mark.parametrize(("old", "new"), LEGACY_TYPES.items())
    def test_old_names(self, old: str, new: str) -> None:
        """Events of July get the name that they have had since."""
        event = from_envelope(ENVELOPE(encode(make(old, {}))))
        assert event is not None
        assert event.type == new

    @pytest.mark.parametrize(
        "odd",
        [
            make("x", []),
            make("x", None),
            make("todo/write", "text"),
            make("turn/start", []),
            make("turn/start", {"turn": "1"}),
            make("", {}),
        ],
    )
    def test_other_shapes_are_left_to_the_lenient_way(self, odd: Event) -> None:
        """A payload that is not as declared gives no event here."""
        assert from_envelope(ENVELOPE(encode(odd))) is None


class TestMapping:
    """The lenient way."""

    def test_a_proper_event(self) -> None:
        """A proper event has no fault and is the same as by the fast way."""
        source = make("tool/call", {"turn": 1, "step": 2, "callId": "c"}, ignorable=True)
        assert from_mapping(source) == (STRICT(encode(source)), [])

    @pytest.mark.parametrize(
        ("value", "read"),
        [
            (0, 0),
            (3.0, 3),
            (-5, -5),
            (MAX_SAFE_INTEGER, MAX_SAFE_INTEGER),
            (float(MAX_SAFE_INTEGER), MAX_SAFE_INTEGER),
        ],
    )
    def test_numbers_that_can_be_read(self, value: Any, read: int) -> None:
        """Whole numbers of any notation are numbers."""
        event, faults = from_mapping(make("x", {}, seq=value))
        assert (event.seq, faults) == (read, [])

    @pytest.mark.parametrize(
        "value",
        [
            None,
            "3",
            True,
            [],
            {},
            1.5,
            -0.0,
            math.nan,
            math.inf,
            -math.inf,
            MAX_SAFE_INTEGER + 1,
            10**40,
        ],
    )
    @pytest.mark.parametrize("name", ["seq", "time"])
    def test_numbers_that_cannot(self, value: Any, name: str) -> None:
        """Anything else is unreadable and one fault."""
        event, faults = from_mapping(make("x", {}, **{name: value}), line=4)
        assert getattr(event, name) == UNREADABLE
        (fault,) = faults
        assert (fault.rule, fault.line, fault.partial) == ("envelope.invalid", 4, False)
        assert fault.message.startswith(name)
        assert fault.seq == (None if name == "seq" else 1)

    @pytest.mark.parametrize("data", [None, 5, "text", [], True])
    def test_payloads_that_are_none(self, data: Any) -> None:
        """An event whose payload is no object has an empty one, and is known in part only."""
        event, faults = from_mapping(make("turn/start", data))
        assert event.data.turn == NO_NUMBER
        assert [(fault.rule, fault.partial) for fault in faults] == [("envelope.invalid", True)]

    @pytest.mark.parametrize("kind", [None, 5, "", [], True])
    def test_types_that_are_none(self, kind: Any) -> None:
        """An event without a type is of an unknown one."""
        event, faults = from_mapping(make(kind, {"turn": 1}))
        assert (event.type, bytes(event.data)) == ("", b'{"turn":1}')
        assert [fault.partial for fault in faults] == [True]

    def test_what_is_known_already(self) -> None:
        """A note of the reader is part of the one fault."""
        _, faults = from_mapping(make("x", {}, seq=None), note="NaN is not JSON")
        assert [fault.message for fault in faults] == ["NaN is not JSON; seq is missing"]

    def test_messages_are_short(self) -> None:
        """What is shown of a wrong value is a few characters."""
        _, faults = from_mapping(make("x", {}, seq="9" * 5000))
        assert len(faults[0].message) < 90


class TestHalves:
    """Texts with half a character, which JavaScript writes."""

    @pytest.mark.parametrize(
        ("kind", "data", "kept"),
        [
            ("x", {"text": "a\ud83d"}, {"text": "a\ufffd"}),
            ("x", {"k\udc00": [{"a": "\udc00"}]}, {"k\ufffd": [{"a": "\ufffd"}]}),
            ("x", {"pair": "\U0001f600"}, {"pair": "\U0001f600"}),
            ("x", {"many": ("\ud83d", 1)}, {"many": ["\ufffd", 1]}),
        ],
    )
    def test_they_are_replaced_wherever_they_are(self, kind: str, data: Any, kept: Any) -> None:
        """The rest of the payload stays, and it is no fault of the envelope."""
        event, faults = from_mapping(make(kind, data), line=3)
        assert msgspec.json.decode(event.data) == kept
        lone = [] if kept == data else [("text.lone-surrogate", 3, False, False)]
        assert [(f.rule, f.line, f.lost, f.partial) for f in faults] == lone

    def test_in_decoded_fields_too(self) -> None:
        event, faults = from_mapping(make("tool/call", {"name": "\ud83d", "arguments": "\udc00"}))
        assert (event.data.name, event.data.arguments) == ("\ufffd", "\ufffd")
        assert [f.rule for f in faults] == ["text.lone-surrogate"]

    def test_what_is_wrong_besides_is_told_besides(self) -> None:
        _, faults = from_mapping(make("x\ud83d", {}, seq=None))
        assert [f.rule for f in faults] == ["text.lone-surrogate", "envelope.invalid"]

    def test_a_payload_that_holds_itself(self) -> None:
        """Nothing that somebody hands over raises."""
        data: Event = {"text": "\ud83d"}
        data["self"] = data
        event, _ = from_mapping(make("x", data))
        assert bytes(event.data) == b"null"


class TestLenient:
    """Payloads in which something is odd."""

    def test_one_odd_field_does_not_hide_the_others(self) -> None:
        """A field of a wrong kind keeps its default."""
        data = {"turn": "1", "step": 2, "callId": 7, "name": "bash", "arguments": None}
        event, faults = from_mapping(make("tool/call", data))
        assert isinstance(event, ToolCall)
        assert (event.data.turn, event.data.step) == (NO_NUMBER, 2)
        assert (event.data.call_id, event.data.name, event.data.arguments) == ("", "bash", "")
        assert faults == []

    @pytest.mark.parametrize("value", [{"command": "ls"}, ["ls"]])
    def test_arguments_as_an_object(self, value: Any) -> None:
        """Arguments that are not text are put into text."""
        event, _ = from_mapping(make("tool/call", {"arguments": value}))
        assert json.loads(event.data.arguments) == value

    @pytest.mark.parametrize("huge", [10**309, -(10**400), 10**5000], ids=["309", "-400", "5000"])
    def test_a_number_that_is_infinite_to_the_harness_is_none(self, huge: int) -> None:
        event, _ = from_mapping(make("turn/start", {"turn": huge}))
        assert event.data.turn == NO_NUMBER

    @pytest.mark.parametrize("value", [{"a": 1}, ["x"], []])
    def test_no_other_text_is_made_of_an_object(self, value: Any) -> None:
        """What should be an id, and is an object, is none."""
        call, _ = from_mapping(make("tool/call", {"callId": value}))
        message, _ = from_mapping(make("user/message", {"id": value, "role": value}))
        assert (call.data.call_id, message.data.id, message.data.role) == ("", "", "")

    def test_numbers_of_any_notation(self) -> None:
        """Whole floats are integers, also where a number may be missing."""
        failure = {"message": "x", "status": 429.0, "providerRetryAfterMs": 5}
        data = {"turn": 1.0, "retry": 2.0, "delayMs": 3, "failure": failure}
        event, _ = from_mapping(make("llm/retry", data))
        assert isinstance(event, LlmRetry)
        assert (event.data.turn, event.data.retry, event.data.delay_ms) == (1, 2, 3.0)
        assert event.data.failure is not None
        assert event.data.failure.status == 429
        assert event.data.failure.provider_retry_after_ms == 5.0

    def test_parts_inside_of_parts(self) -> None:
        """An odd field deep inside does not cost what is around it."""
        message = {"id": "m", "role": 5, "source": {"kind": "tool", "callId": 5}, "isError": True}
        event, _ = from_mapping(make("tool/result", {"turn": 1, "message": message}))
        assert isinstance(event, ToolResult)
        found = event.data.message
        assert found is not None
        assert (found.id, found.role, found.is_error) == ("m", "", True)
        assert found.source is not None
        assert (found.source.kind, found.source.call_id) == ("tool", "")

    @pytest.mark.parametrize("odd", [5, "text", [], True])
    def test_parts_that_are_none(self, odd: Any) -> None:
        """A part of another shape counts as missing."""
        event, _ = from_mapping(make("turn/end", {"turn": 1, "reason": odd}))
        assert isinstance(event, TurnEnd)
        assert (event.data.turn, event.data.reason.kind) == (1, "")

    def test_null_is_nothing(self) -> None:
        """A part that is null is missing, as if it were not there."""
        event, _ = from_mapping(make("user/message", {"source": None, "id": None}))
        assert isinstance(event, UserMessage)
        assert (event.data.source, event.data.id) == (None, "")

    @pytest.mark.parametrize(
        ("inserted", "ids"),
        [
            ([{"id": "a"}, {"id": "b"}], ["a", "b"]),
            ([{"id": "a"}, 5, None, {"id": 7}, {"id": "b"}], ["a", "", "b"]),
            ({"id": "a"}, []),
            ("a", []),
            (None, []),
        ],
    )
    def test_lists(self, inserted: Any, ids: list[str]) -> None:
        """One odd item does not hide its neighbours, and what is no list has no items."""
        event, _ = from_mapping(make("agent/inbox/spliced", {"inserted": inserted}))
        assert isinstance(event, InboxSpliced)
        assert [message.id for message in event.data.inserted] == ids

    def test_content_stays_raw(self) -> None:
        """Content of any shape is kept for whoever asks for it."""
        event, _ = from_mapping(make("user/message", {"content": [{"type": "text", "text": "x"}]}))
        assert [block.text for block in blocks(event.data.content)] == ["x"]


class TestRaw:
    """Plain values as raw JSON."""

    @pytest.mark.parametrize(
        ("value", "raw"),
        [
            ({"a": [1, None]}, b'{"a":[1,null]}'),
            (math.nan, b"null"),
            (math.inf, b"null"),
            ("\ud800", b"null"),
            ({"a": object()}, b'{"a":null}'),
            ({1: 2}, b'{"1":2}'),
            ({(): 2}, b"null"),
            (2**70, str(2**70).encode()),
        ],
    )
    def test_what_json_cannot_say_is_null(self, value: Any, raw: bytes) -> None:
        """Encoding never raises."""
        assert bytes(to_raw(value)) == raw

    def test_endless_nesting(self) -> None:
        """A value that contains itself is null."""
        endless: list[Any] = []
        endless.append(endless)
        assert bytes(to_raw(endless)) == b"null"


@given(arbitrary_events())
@settings(max_examples=100)
def test_nonsense_becomes_events(events: Events) -> None:
    """Any mapping gives an event that can be used like any other, and each fault is told once."""
    for source in events:
        event, faults = from_mapping(source, line=3)
        assert len({fault.rule for fault in faults}) == len(faults) <= 2
        assert isinstance(event.type, str)
        assert isinstance(event.seq, int)
        assert isinstance(event.time, int)
        assert event.seq == UNREADABLE or abs(event.seq) <= MAX_SAFE_INTEGER
        assert isinstance(event.appends, bool)
        data = event.data
        for field in () if isinstance(data, Raw) else msgspec.structs.fields(type(data)):
            value = getattr(data, field.name)
            assert value is None or isinstance(value, _runtime_type(field.type))


def _runtime_type(kind: Any) -> Any:
    return getattr(kind, "__origin__", kind)
