"""Whatever stands in a log, what leaves can be encoded."""

from __future__ import annotations

import json
import math
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.json.common.trace_encoder import encode_spans as encode_json
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from dsh_core.events import SessionHeader
from dsh_otel.clean import (
    MAX_CONTENT,
    MAX_LIST,
    MAX_NAME,
    MAX_VALUE,
    Privacy,
    clean_name,
    clean_text,
    clean_value,
)
from tests.otel.support import Script, attributes, checked, only

HALF: Final = "a\ud800b"
"""A text with half a character, as a log may have it after a cut."""


# Texts


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain", "plain"),
        ("größer 漢字 😀", "größer 漢字 😀"),
        ("a\ud800b", "a\ufffdb"),
        ("\udc00\ud800", "\ufffd\ufffd"),
        ("\ud83d\ude00", "😀"),
        ("12345678", "12345678"),
        ("123456789", "1234567…"),
        ("a\x00b", "a\x00b"),
    ],
)
def test_a_text_is_made_fit_for_every_encoder(text: str, cleaned: str) -> None:
    assert clean_text(text, max(len(cleaned), 8)) == cleaned


@given(st.text(st.characters(codec=None, categories=None)), st.integers(1, 40))
def test_a_cleaned_text_can_be_encoded_and_is_short_enough(text: str, limit: int) -> None:
    cleaned = clean_text(text, limit)
    assert len(cleaned) <= limit
    cleaned.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("read", "read"),
        ("  read\n", "read"),
        ("a\x1b[31mb", "a [31mb"),
        ("a\r\n\tb", "a b"),
        ("a\x00\x9fb", "a b"),
        (HALF, "a\ufffdb"),
        ("\n", ""),
    ],
)
def test_a_name_has_one_line_and_no_control_characters(text: str, cleaned: str) -> None:
    assert clean_name(text) == cleaned


def test_a_name_has_an_end() -> None:
    assert clean_name("x" * 10_000) == "x" * (MAX_NAME - 1) + "…"


# Values


@pytest.mark.parametrize(
    ("value", "cleaned"),
    [
        ("text", "text"),
        (True, True),
        (False, False),
        (0, 0),
        (-1, -1),
        (2**63 - 1, 2**63 - 1),
        (2**63, None),
        (-(2**63), None),
        (-(2**64), None),
        (1.5, 1.5),
        (math.nan, None),
        (math.inf, None),
        (-math.inf, None),
        (["a", "b"], ("a", "b")),
        (("a", 1), ("a", "1")),
        ([HALF], ("a\ufffdb",)),
        (None, None),
        (b"bytes", None),
        ({"a": 1}, None),
        (object, None),
    ],
)
def test_a_value_becomes_what_otlp_can_carry_or_nothing(value: Any, cleaned: Any) -> None:
    assert clean_value(value) == cleaned
    assert type(clean_value(value)) is type(cleaned)


def test_values_have_an_end() -> None:
    assert clean_value(10**5000) is None
    assert clean_value("x" * 10_000) == "x" * (MAX_VALUE - 1) + "…"
    assert clean_value(["x"] * 10_000) == ("x",) * MAX_LIST
    assert clean_value(["x" * 10_000]) == ("x" * (MAX_VALUE - 1) + "…",)


def test_content_has_more_room_than_other_values_but_an_end_too() -> None:
    kept = Privacy(content=True).attributes({"gen_ai.input.messages": "x" * 100_000})
    assert kept == {"gen_ai.input.messages": "x" * (MAX_CONTENT - 1) + "…"}


@given(st.dictionaries(st.text(), st.recursive(st.none() | st.booleans() | st.floats(), st.lists)))
def test_cleaning_attributes_is_total(values: dict[str, Any]) -> None:
    for value in Privacy().attributes(dict(values)).values():
        assert isinstance(value, str | bool | int | float | tuple)


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8")),
        st.text(st.characters(codec=None, categories=None)) | st.integers() | st.booleans(),
    )
)
def test_the_quick_way_and_the_thorough_way_agree(values: dict[str, Any]) -> None:
    cleaned = {name: clean_value(value) for name, value in values.items()}
    thorough = {name: value for name, value in cleaned.items() if value is not None}
    assert Privacy().attributes(dict(values)) == thorough


# Whole batches


def hostile(text: str) -> Script:
    """Return a session that has a text wherever a text can stand."""
    source = {"kind": "model", "provider": text, "model": text}
    script = Script()
    script.add("request/context", provider=text, model=text)
    script.add("agent-preset/selected", agentPreset=text)
    script.opened()
    script.add("request/header", header={"config": {"provider": text, "model": text}}, reason=text)
    script.answer(message={"role": "assistant", "source": source, "id": text, "content": text})
    script.call(text, text, arguments=text)
    script.result(text, text, code=text, name=text)
    script.result(text, text, failed=True)
    script.attempt(text, text)
    script.add("llm/retry-started", turn=1, step=1, retry=1)
    reason = {"kind": text, "failure": {"code": text, "message": text}}
    script.add("assistant/chunk", turn=1, step=1, chunk={"type": "finish", "reason": reason})
    script.add(text)
    script.add("subagent/catalog", childId=text)
    script.add("agent/inbox/spliced", target=text, start=0, inserted=[{"id": text}])
    script.turn_end(2, text)
    script.turn_end(1, "error", error={"code": text, "message": text})
    return script


TEXTS = {
    "half a character": HALF,
    "control characters": "\x00\x07\x1b[31m\x7f\x9b",
    "huge": "x" * 100_000,
    "huge and beyond ASCII": "😀" * 50_000,
    "empty": "",
    "separators": "a\x1fb\u2028\u2029",
}


@pytest.mark.parametrize("content", [False, True])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_hostile_session_can_be_encoded_as_a_whole(text: str, content: bool) -> None:
    header = SessionHeader(
        id=text, version=4, parent_session=text, agent_preset=text, cwd=text, origin=text
    )
    spans = checked(header, privacy=Privacy(content=content)).run(hostile(text).events)
    assert len(spans) >= 7
    assert encode_spans(spans).SerializeToString()
    json.dumps(encode_json(spans).to_dict())
    for span in spans:
        assert len(span.name) <= MAX_NAME + len("invoke_agent ")
        assert span.name.isprintable()
        for value in attributes(span).values():
            assert len(str(value)) <= MAX_CONTENT


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 10**300, -(10**300)])
def test_a_number_beyond_64_bits_costs_no_span(number: int) -> None:
    script = Script()
    script.turn_start(number)
    script.step_start(number, number)
    script.attempt("SERVER", turn=number, step=number)
    script.add("llm/retry-started", turn=number, step=number, retry=number)
    script.answer(turn=number, step=number)
    script.call(turn=number, step=number)
    script.result(turn=number, step=number)
    script.step_end(number, number)
    script.turn_end(number)
    spans = checked().run(script.events)
    assert [span.name.split()[0] for span in spans] == [
        "chat",
        "chat",
        "execute_tool",
        "dsh.step",
        "invoke_agent",
    ]
    encode_spans(spans).SerializeToString()
    for span in spans:
        # No attribute changes its type: what cannot be said is left out.
        assert "dsh.turn" not in attributes(span)
        assert "dsh.step" not in attributes(span)


@pytest.mark.parametrize("time", [-(2**63), -1, 2**53, 2**63 - 1, 2**64])
def test_a_time_that_no_clock_shows_is_moved_into_range_and_marked(time: int) -> None:
    script = Script()
    script.turn_start().time = time
    turn = only(checked().run(script.events), "invoke_agent")
    assert turn.start_time is not None
    assert 0 <= turn.start_time < 2**63
    assert attributes(turn)["dsh.time.adjusted"] is True
    encode_spans([turn]).SerializeToString()


def test_session_and_conversation_are_one_name() -> None:
    header = SessionHeader(id="ß" * 5000, version=4)
    turn = only(checked(header).run([Script().turn_start()]), "invoke_agent")
    found = attributes(turn)
    assert found["session.id"] == found["gen_ai.conversation.id"]
