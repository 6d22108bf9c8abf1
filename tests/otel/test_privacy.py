"""What may leave, and what never does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from dsh_core.events import SessionHeader
from dsh_otel.clean import MAX_CONTENT, Privacy
from dsh_otel.names import CONTENT
from dsh_otel.processors.base import SessionSpanProcessor
from tests.otel.support import (
    LOGS,
    SEED,
    V4,
    Script,
    Tracing,
    attributes,
    checked,
    event_attributes,
    named,
    only,
    session_log,
    trace_log,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

SECRET: Final = "SECRET"

NO_CONTENT: Final = {
    *("type", "kind", "id", "role", "provider", "model", "name", "code", "callId", "toolCallId"),
    *("subCallId", "parentCallId", "rootCallId", "childId", "jobId", "runId", "compactionId"),
    *("retryId", "rpcId", "target", "outcome", "reason", "blockType", "mode", "policy", "preset"),
    *("agentPreset", "parentSession", "origin", "surfaceOp", "op"),
}
"""Keys whose strings say what something is, not what was said."""


def planted(value: Any, *, key: str = "") -> Any:
    """Return a JSON value in which every text is replaced by an unmistakable one."""
    if isinstance(value, str):
        return value if key in NO_CONTENT else f"{SECRET} {value[:20]}"
    if isinstance(value, dict):
        return {name: planted(inner, key=name) for name, inner in value.items()}
    if isinstance(value, list):
        return [planted(inner, key=key) for inner in value]
    return value


def strings(spans: list[ReadableSpan]) -> Iterator[str]:
    """Return every text that leaves with some spans."""
    for span in spans:
        yield from (span.name, span.status.description or "")
        for found in (span.attributes, *(event.attributes for event in span.events)):
            for name, value in (found or {}).items():
                yield name
                yield from map(str, value if isinstance(value, tuple) else [value])
        yield from (event.name for event in span.events)
        yield from (str(link.attributes) for link in span.links)


def leaks(spans: list[ReadableSpan]) -> list[str]:
    return [text for text in strings(spans) if SECRET in text]


# By default


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_no_text_of_a_sample_leaves(path: Path, tmp_path: Path) -> None:
    rows: list[str] = []
    for line in path.read_bytes().splitlines():
        try:
            rows.append(json.dumps(planted(json.loads(line))))
        except ValueError:
            rows.append(f"{SECRET} {line[:10]!r}")
    copy = tmp_path / path.name
    copy.write_text("\n".join(rows) + "\n")
    assert any(SECRET in row for row in rows)
    spans = trace_log(copy)
    assert spans
    assert leaks(spans) == []


def broken_rows() -> Iterator[tuple[str, str]]:
    yield "no JSON", f"{SECRET} of the prompt"
    yield "no object", f'["{SECRET}"]'
    yield "a text", f'"{SECRET}"'
    yield "an open string", f'{{"type":"user/message","seq":1,"data":{{"text":"{SECRET}'
    yield "a raw newline", f'{{"type":"user/message","seq":1,"data":{{"text":"a\n{SECRET}"}}}}'
    yield "a NUL", f'\0\0{{"type":"user/message","seq":1,"data":{{"text":"{SECRET}"}}}}'
    yield "a NaN", f'{{"type":"user/message","seq":1,"time":1,"data":{{"a":NaN,"b":"{SECRET}"}}}}'
    for name in ("type", "seq", "time", "data", "surfaceOp", "ignorable", "sourceEventSeqs"):
        for value in (SECRET, [SECRET], {"op": "replace", "text": SECRET}):
            row = {"type": "user/message", "seq": 1, "time": 1_700_000_000_001, "data": {}}
            if name == "type" and isinstance(value, str):
                continue
            yield f"{name} is {type(value).__name__}", json.dumps(row | {name: value})
    for name in ("role", "id", "source", "content"):
        row = {"type": "user/message", "seq": 1, "time": 1, "surfaceOp": "append"}
        yield f"{name} of a message", json.dumps(row | {"data": {name: SECRET}})


@pytest.mark.parametrize("version", [None, 0, 4])
@pytest.mark.parametrize(
    "row", [row for _, row in broken_rows()], ids=[i for i, _ in broken_rows()]
)
def test_no_text_of_a_damaged_line_leaves(row: str, version: int | None, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    start = '{"type":"turn/start","seq":0,"time":1700000000000,"data":{"turn":1}}'
    end = '{"type":"turn/end","seq":2,"time":1700000000002,"data":{"turn":1}}'
    header = "" if version is None else f'{{"type":"session","version":{version},"id":"s"}}\n'
    path.write_text(f"{header}{start}\n{row}\n{end}\n")
    spans = trace_log(path)
    assert spans
    assert leaks(spans) == []


def test_a_path_does_not_leave() -> None:
    header = SessionHeader(id="s", version=4, cwd=f"/home/{SECRET}")
    assert leaks(checked(header).run(Script().opened().events)) == []


def test_damage_is_told_without_quoting_it(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(f'{{"type":"turn/start","seq":0,"time":1,"data":{{}}}}\n{SECRET} x\n\n')
    told = [event_attributes(span, "dsh.violation") for span in trace_log(path)]
    (event,) = [event for events in told for event in events]
    assert event["rule"] == "line.not-json"
    assert SECRET not in str(event)


def test_content_is_absent_unless_it_is_switched_on() -> None:
    for path in LOGS:
        for span in trace_log(path):
            assert not CONTENT & set(attributes(span)), path.name


@pytest.mark.parametrize("value", ["text", ["text"], 5, 1.5, True])
def test_a_processor_cannot_write_content_past_the_switch(value: Any) -> None:
    class Writer(SessionSpanProcessor):
        def on_event(self, event: Any, span: Any) -> None:
            for name in CONTENT:
                span.set(name, value)
                span.add_event("app.event", {name: value}, span.session.now_ns)

    (turn,) = Tracing(V4, Writer()).run([Script().turn_start()])
    assert not CONTENT & set(attributes(turn))
    assert event_attributes(turn, "app.event") == [{}] * len(CONTENT)


# With content


def with_content(name: str) -> list[ReadableSpan]:
    return trace_log(session_log(name), privacy=Privacy(content=True))


def test_the_prompt_stands_on_the_turn() -> None:
    turns = named(with_content("multi-turn"), "invoke_agent")
    prompts = [json.loads(attributes(turn)["gen_ai.input.messages"]) for turn in turns]
    assert [prompt[0]["role"] for prompt in prompts] == ["user"] * 3
    assert prompts[0] == [{"role": "user", "parts": [{"type": "text", "content": "one"}]}]


def test_what_the_machine_says_to_the_model_is_not_the_prompt() -> None:
    script = Script()
    script.turn_start()
    text = [{"type": "text", "text": "environment"}]
    script.add("user/message", source={"kind": "runtime-context"}, content=text)
    script.add("user/message", source={"kind": "user"}, content=[{"type": "text", "text": "hi"}])
    script.add("user/message", source={"kind": "user"}, content=[{"type": "text", "text": "no"}])
    (turn,) = Tracing(privacy=Privacy(content=True)).run(script.events)
    assert json.loads(attributes(turn)["gen_ai.input.messages"])[0]["parts"] == [
        {"type": "text", "content": "hi"}
    ]


def test_the_answer_stands_on_the_attempt() -> None:
    attempt = named(with_content("tool-success"), "chat")[0]
    (message,) = json.loads(attributes(attempt)["gen_ai.output.messages"])
    assert message["role"] == "assistant"
    (call,) = [part for part in message["parts"] if part["type"] == "tool_call"]
    assert (call["id"], call["name"]) == ("toolu_m_1_0", "write")
    assert json.loads(call["arguments"])


def test_arguments_and_result_stand_on_the_call() -> None:
    call = attributes(only(with_content("tool-success"), "execute_tool read"))
    assert json.loads(call["gen_ai.tool.call.arguments"])
    assert call["gen_ai.tool.call.result"]


def test_everything_that_is_a_message_is_json() -> None:
    for path in LOGS:
        for span in trace_log(path, privacy=Privacy(content=True)):
            for name in ("gen_ai.input.messages", "gen_ai.output.messages"):
                if name in attributes(span):
                    assert isinstance(json.loads(attributes(span)[name]), list), path.name


def huge_session() -> Script:
    blocks = [
        {"type": "text", "text": 'say "hi"\n' * 20_000},
        {"type": "reasoning", "text": "x" * 99},
    ]
    call = {"type": "tool-call", "id": "c1", "name": "read", "arguments": "y" * 50_000}
    script = Script()
    script.turn_start()
    script.add("user/message", source={"kind": "user"}, content=blocks)
    script.step_start()
    script.answer(*blocks * 200, call)
    script.call(arguments="z" * 50_000)
    script.result(text="r" * 50_000)
    return script.closed()


def test_content_has_an_end() -> None:
    spans = Tracing(privacy=Privacy(content=True)).run(huge_session().events)
    found = {name: value for span in spans for name, value in attributes(span).items()}
    for name in CONTENT:
        assert 4096 < len(found[name]) <= MAX_CONTENT, name


def test_messages_are_shortened_inside_so_that_they_stay_json() -> None:
    spans = Tracing(privacy=Privacy(content=True)).run(huge_session().events)
    turn, attempt = only(spans, "invoke_agent"), only(spans, "chat")
    (prompt,) = json.loads(attributes(turn)["gen_ai.input.messages"])
    assert prompt["parts"][0]["content"].startswith('say "hi"\n')
    (answer,) = json.loads(attributes(attempt)["gen_ai.output.messages"])
    assert len(answer["parts"]) <= 64


@pytest.mark.parametrize("text", ['"' * 30_000, "\\" * 30_000, "\x01" * 30_000, "é" * 30_000])
def test_messages_that_grow_when_they_are_quoted_stay_json(text: str) -> None:
    script = Script()
    script.turn_start()
    script.add("user/message", source={"kind": "user"}, content=[{"type": "text", "text": text}])
    (turn,) = Tracing(privacy=Privacy(content=True)).run(script.events)
    (prompt,) = json.loads(attributes(turn)["gen_ai.input.messages"])
    assert text.startswith(prompt["parts"][0]["content"])


# Redaction


class Hook:
    """Notes what it is asked, and answers as it is told."""

    def __init__(self, answers: dict[str, Any] | None = None, *, raises: str = "") -> None:
        self.asked: dict[str, list[Any]] = {}
        self.answers = answers or {}
        self.raises = raises

    def __call__(self, name: str, value: Any) -> Any:
        self.asked.setdefault(name, []).append(value)
        if name == self.raises:
            raise ValueError(name)
        return self.answers.get(name, value)


def failing_session() -> Script:
    script = Script()
    script.turn_start()
    script.turn_start(2)
    script.step_start(2)
    script.call("c1", "read", turn=2)
    script.result("c1", turn=2, failed=True, code="FS_NOT_FOUND", name="FsError")
    return script


def redacted(hook: Hook, *, content: bool = False) -> list[ReadableSpan]:
    privacy = Privacy(content=content, redact=hook)
    return checked(SEED, privacy=privacy).run(failing_session().events)


def test_the_hook_sees_everything_that_leaves() -> None:
    hook = Hook()
    spans = redacted(hook, content=True)
    told = {"span": {"dsh", "read"}, "status": {"contract violated", "tool failed: FS_NOT_FOUND"}}
    assert {name: set(hook.asked[name]) for name in told} == told
    names = {name for span in spans for name in attributes(span)}
    of_events = {name for span in spans for event in span.events for name in event.attributes or {}}
    assert names | of_events | set(told) == set(hook.asked)


def test_the_hook_is_not_asked_about_what_does_not_leave() -> None:
    hook, script = Hook(), failing_session()
    script.call("c2", turn=2)
    script.result("c2", turn=2, failed=True)
    checked(SEED, privacy=Privacy(redact=hook)).run(script.events)
    assert not CONTENT & set(hook.asked)
    assert not [name for name, values in hook.asked.items() if None in values]


def test_what_the_hook_says_leaves_instead() -> None:
    answers = {"gen_ai.tool.call.id": "***", "status": "failed", "code": "C", "span": "x"}
    call = only(redacted(Hook(answers)), "execute_tool x")
    assert attributes(call)["gen_ai.tool.call.id"] == "***"
    assert call.status.description == "failed"
    assert event_attributes(call, "dsh.tool.error")[0]["code"] == "C"


def test_what_the_hook_drops_does_not_leave() -> None:
    answers = dict.fromkeys(("gen_ai.tool.call.id", "status", "code", "span"))
    call = only(redacted(Hook(answers)), "execute_tool")
    assert call.name == "execute_tool"
    assert "gen_ai.tool.call.id" not in attributes(call)
    assert call.status.description is None or call.status.description == ""
    assert "code" not in event_attributes(call, "dsh.tool.error")[0]


def test_a_span_whose_name_is_dropped_keeps_its_operation() -> None:
    assert {span.name for span in redacted(Hook({"span": None}))} == {
        "invoke_agent",
        "dsh.step",
        "execute_tool",
    }


@pytest.mark.parametrize("name", ["gen_ai.tool.call.id", "status", "code", "span"])
def test_what_the_hook_cannot_judge_does_not_leave_and_is_counted(name: str) -> None:
    hook = Hook(raises=name)
    privacy = Privacy(redact=hook)
    spans = checked(SEED, privacy=privacy).run(failing_session().events)
    assert privacy.refused == len(hook.asked[name]) > 0
    call = only(spans, "execute_tool")
    assert name not in attributes(call)
    assert name not in event_attributes(call, "dsh.tool.error")[0]
    if name == "span":
        assert call.name == "execute_tool"
    if name == "status":
        assert not call.status.description


@pytest.mark.parametrize("answer", ["x" * 100_000, "a\ud800b", 2**70, ["\ud800"], object()])
def test_what_the_hook_says_is_cleaned_too(answer: Any) -> None:
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    answers = dict.fromkeys(("gen_ai.tool.call.id", "status", "code", "span"), answer)
    spans = redacted(Hook(answers))
    encode_spans(spans).SerializeToString()
    assert max(len(text) for text in strings(spans)) <= 1024


def test_the_hook_sees_content_in_full_length_of_what_would_leave() -> None:
    hook = Hook({"gen_ai.tool.call.arguments": "[redacted]"})
    spans = checked(privacy=Privacy(content=True, redact=hook)).run(failing_session().events)
    assert hook.asked["gen_ai.tool.call.arguments"] == ["{}"]
    call = only(spans, "execute_tool")
    assert attributes(call)["gen_ai.tool.call.arguments"] == "[redacted]"
