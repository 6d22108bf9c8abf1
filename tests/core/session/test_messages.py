"""From a log to messages: the shapes of June, August and generation 4."""

from __future__ import annotations

from typing import Any

import pytest

from dsh_core.session import Entry, derive_messages
from dsh_core.session.frozen import freeze
from dsh_core.session.messages import surface, tagged
from tests.core.session.real import REAL, entries_of, log, message, rows_of

TEXT: list[dict[str, Any]] = [{"type": "text", "text": "hi"}]
CALL: list[dict[str, Any]] = [{"type": "tool-call", "id": "c", "name": "t", "arguments": "{}"}]
SOURCE = {"kind": "model", "provider": "p", "model": "m"}
ANSWER = {"id": "a", "role": "assistant", "source": SOURCE, "content": CALL}


def derive(*events: tuple[Any, ...]) -> list[dict[str, Any]]:
    return derive_messages(log(*events))


def test_a_user_message_of_june_is_role_user_with_its_content() -> None:
    assert derive(("user/message", {"content": TEXT, "source": {"kind": "user"}})) == [
        {"role": "user", "content": TEXT}
    ]


def test_a_user_message_of_generation_4_is_role_user_with_its_content() -> None:
    assert derive(("user/message", message(), "append")) == [{"role": "user", "content": TEXT}]


def test_an_assistant_message_of_june_is_role_assistant_with_its_content() -> None:
    assert derive(("assistant/message", {"turn": 1, "step": 1, "content": CALL})) == [
        {"role": "assistant", "content": CALL}
    ]


def test_an_assistant_message_of_august_and_later_is_role_assistant_with_its_content() -> None:
    data = {"turn": 1, "step": 1, "message": ANSWER}
    assert derive(("assistant/message", data, "append")) == [{"role": "assistant", "content": CALL}]


RESULT = {"type": "tool-result", "toolCallId": "c", "content": TEXT, "isError": True}
PLACE = {"turn": 1, "step": 1}
TOOL = {"kind": "tool", "callId": "c"}


@pytest.mark.parametrize(
    "data",
    [
        {**PLACE, "callId": "c", "content": TEXT, "isError": True},
        {**PLACE, "message": {"id": "r", "role": "user", "source": TOOL, "content": [RESULT]}},
        {
            **PLACE,
            "message": {
                "id": "r",
                "role": "tool",
                "toolCallId": "c",
                "source": TOOL,
                "content": TEXT,
                "isError": True,
            },
        },
    ],
    ids=["June", "August", "generation 4"],
)
def test_a_tool_result_is_role_user_with_one_block(data: dict[str, Any]) -> None:
    assert derive(("tool/result", data)) == [{"role": "user", "content": [RESULT]}]


def test_each_tool_result_is_a_message_of_its_own() -> None:
    one = {"callId": "c", "content": TEXT, "isError": False}
    assert derive(("tool/result", one), ("tool/result", {**one, "callId": "d"})) == [
        {"role": "user", "content": [{**RESULT, "isError": False}]},
        {"role": "user", "content": [{**RESULT, "toolCallId": "d", "isError": False}]},
    ]


def test_a_context_message_lies_between_tags_that_quote_its_kind_as_json() -> None:
    data = {"content": TEXT, "source": {"kind": 'a "b" é'}}
    assert derive(("context/message", data)) == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": '<context source="a \\"b\\" é">'},
                {"type": "text", "text": "hi"},
                {"type": "text", "text": "</context>"},
            ],
        }
    ]


def test_a_steering_message_lies_between_tags_named_steering() -> None:
    data = {"content": TEXT, "source": {"kind": "user"}}
    assert derive(("steering/message", data)) == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": '<steering source="user">'},
                {"type": "text", "text": "hi"},
                {"type": "text", "text": "</steering>"},
            ],
        }
    ]


@pytest.mark.parametrize(
    "kind",
    ["turn/start", "step/end", "tool/call", "usage", "error", "system/message", "plugin:x", ""],
)
def test_all_other_events_give_nothing(kind: str) -> None:
    assert derive((kind, {"content": TEXT, "message": ANSWER})) == []


def test_messages_come_in_the_order_of_the_log() -> None:
    texts = [message(text) for text in ("one", "two", "three")]
    found = derive(*(("user/message", data, "append") for data in texts))
    assert [item["content"][0]["text"] for item in found] == ["one", "two", "three"]


def test_content_is_copied_deeply_on_every_call() -> None:
    entries = log(("user/message", message()), ("context/message", message()))
    first = derive_messages(entries)
    first[0]["content"][0]["text"] = "changed"
    first[1]["content"][1]["text"] = "changed"
    second = derive_messages(entries)
    assert second[0]["content"] == TEXT
    assert second[1]["content"][1] == TEXT[0]
    assert entries[0].data["content"] == TEXT


def test_messages_of_frozen_history_can_be_changed() -> None:
    entries = log(
        ("user/message", message()),
        ("assistant/message", {"message": ANSWER}),
        ("tool/result", {"message": {"toolCallId": "c", "content": TEXT, "isError": False}}),
        ("tool/result", {"message": {"content": [RESULT]}}),
        ("context/message", message()),
    )
    for entry in entries:
        freeze(entry, lambda seq, operation: None)
    for item in derive_messages(entries):
        assert type(item["content"]) is list
        for block in item["content"]:
            assert type(block) is dict
            block["new"] = 1
            for inner in block.get("content", ()):
                inner["new"] = 1
        item["content"].append({})


# Not so in the original of June, which has no surface: a later message may stand for earlier ones.


def replace(start: int, end: int, first: str = "startSeq", last: str = "endSeq") -> dict[str, Any]:
    return {"op": "replace", first: start, last: end}


def texts_of(entries: list[Entry]) -> list[str]:
    return [item["content"][0]["text"] for item in derive_messages(entries)]


@pytest.mark.parametrize("names", [("startSeq", "endSeq"), ("start", "end")])
def test_a_replacement_stands_for_all_from_its_start_to_its_end(names: tuple[str, str]) -> None:
    entries = log(
        *(("user/message", message(text), "append") for text in "abc"),
        ("user/message", message("sum"), replace(0, 1, *names)),
    )
    assert texts_of(entries) == ["sum", "c"]


def test_start_and_end_are_places_on_the_surface_not_numbers() -> None:
    entries = log(
        *(("user/message", message(text), "append") for text in "abc"),
        ("user/message", message("sum"), replace(0, 1)),
        ("user/message", message("all"), replace(3, 2)),
    )
    assert texts_of(entries) == ["all"]


@pytest.mark.parametrize(
    "operation", [replace(7, 8), replace(1, 0), {"op": "replace"}, {"startSeq": [], "endSeq": 0}]
)
def test_a_replacement_of_what_is_not_there_loses_no_message(operation: dict[str, Any]) -> None:
    entries = log(
        *(("user/message", message(text), "append") for text in "ab"),
        ("user/message", message("new"), operation),
    )
    assert texts_of(entries) == ["a", "b", "new"]


def test_what_has_no_surface_operation_is_not_replaced() -> None:
    entries = log(
        ("user/message", message("a"), "append"),
        ("user/message", message("june")),
        ("user/message", message("b"), "append"),
        ("user/message", message("sum"), replace(0, 2)),
    )
    assert texts_of(entries) == ["sum", "june"]


@pytest.mark.parametrize("operation", ["prepend", None, 5])
def test_an_unknown_surface_operation_adds_nothing(operation: Any) -> None:
    assert surface(log(("user/message", message(), operation))) == []


@pytest.mark.parametrize(
    "data", [{}, {"content": "hi"}, {"message": 5}, {"message": {"content": None}}, [], None, 7]
)
@pytest.mark.parametrize("kind", ["user/message", "assistant/message", "tool/result"])
def test_a_message_without_a_list_of_content_gives_nothing(kind: str, data: Any) -> None:
    assert derive((kind, data)) == []


@pytest.mark.parametrize("source", [None, "user", {}, {"kind": 5}])
def test_a_context_message_without_a_kind_still_has_its_tags(source: Any) -> None:
    (found,) = derive(("context/message", {"content": [], "source": source}))
    assert found["content"][0]["text"].startswith('<context source="')


def test_tagged_copies_the_content() -> None:
    content = [{"type": "text", "text": "hi"}]
    tagged("context", "x", content)[1]["text"] = "changed"
    assert content == TEXT


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_every_real_log_gives_messages_of_the_two_roles(path: Any) -> None:
    found = derive_messages(entries_of(rows_of(path)[1]))
    assert {item["role"] for item in found} <= {"user", "assistant"}
    assert found
