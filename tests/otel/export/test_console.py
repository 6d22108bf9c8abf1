"""The tree on the console."""

from __future__ import annotations

from io import StringIO, TextIOWrapper
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from dsh_core.events import SessionHeader
from dsh_otel.export import console as module
from dsh_otel.export.console import ConsoleSink, duration
from dsh_otel.replay import ReplaySpanProcessor, replay_provider, trace_session
from tests.otel.support import (
    SEED,
    Script,
    Tracing,
    case_log,
    checked,
    expected,
    session_log,
)

if TYPE_CHECKING:
    from pathlib import Path


def plain(**options: Any) -> Console:
    """Return a console as a pipe sees it."""
    return Console(file=StringIO(), width=80, force_terminal=False, **options)


def text_of(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def show(log: Path, console: Console | None = None) -> str:
    console = console or plain()
    provider = replay_provider(ReplaySpanProcessor(ConsoleSink(console).exporter))
    trace_session(str(log), tracer_provider=provider, strict=True)
    provider.shutdown()
    return text_of(console).rstrip("\n")


def show_events(script: Script, header: SessionHeader = SEED, **options: Any) -> str:
    console = plain(**options)
    provider = replay_provider(ReplaySpanProcessor(ConsoleSink(console).exporter))
    checked(header, provider=provider).run(script.events)
    provider.shutdown()
    return text_of(console).rstrip("\n")


def test_a_session_as_a_tree() -> None:
    assert show(session_log("denied-read")) == expected("""
    session denied-1  v4 log, v4 contract
    turn 1 invoke_agent dsh  858 ms  completed
    ├── step 1 dsh.step  61 ms
    │   ├── chat deepseek-v4-flash  50 ms  first chunk 44 ms  164 → 20 tokens
    │   └── execute_tool read  8 ms  EACCES (inferred)  denied → ask
    │       └── advice tool.error-uncoded: failed result without a code (EACCES by its text)  seq 16
    ├── step 2 dsh.step  20 ms
    │   ├── chat deepseek-v4-flash  11 ms  first chunk 10 ms  164 → 20 tokens
    │   └── execute_tool write  8 ms  EACCES (inferred)  denied → ask
    │       └── advice tool.error-uncoded: failed result without a code (EACCES by its text)  seq 22
    ├── step 3 dsh.step  74 ms
    │   ├── chat deepseek-v4-flash  15 ms  first chunk 9 ms  164 → 20 tokens
    │   └── execute_tool glob  58 ms  SEARCH_FAILED  denied (inferred) → ask
    └── step 4 dsh.step  11 ms
        └── chat deepseek-v4-flash  11 ms  first chunk 10 ms  164 → 20 tokens
    """)


def test_a_broken_session_as_trees() -> None:
    assert show(case_log("03")) == expected("""
    session 03-turn-never-closed  seed log, seed contract
    turn 0 invoke_agent dsh  160 ms  never closed
    └── step 0 dsh.step  80 ms  never closed
        ├── chat  40 ms
        └── execute_tool bash  0 ms  never closed
    turn 1 invoke_agent dsh  200 ms  completed
    ├── violation turn.overlap: turn 1 starts while turn 0 is open  seq 5
    └── step 0 dsh.step  80 ms
        └── chat  40 ms
    """)


def test_retries_are_numbered() -> None:
    lines = show(session_log("retry-529")).splitlines()
    assert [line.strip(" ├└─│") for line in lines[3:]] == [
        "chat deepseek-v4-flash  78 ms  SERVER  transient → retry",
        "attempt 2 chat deepseek-v4-flash  18 ms  RATE_LIMIT  transient → retry",
        "attempt 3 chat deepseek-v4-flash  52 ms  first chunk 33 ms  164 → 20 tokens",
    ]


def test_what_is_outside_turns_is_a_tree_of_its_own() -> None:
    script = Script()
    script.turn_end(4)
    script.turn_start()
    script.turn_end()
    assert show_events(script) == expected("""
    session s-1
    dsh.orphan  0 ms  synthetic
    └── violation turn.end-mismatch: turn 4 ends while no turn is open  seq 0
    turn 1 invoke_agent dsh  10 ms  completed
    """)


def test_findings_that_stand_for_several_events_say_so() -> None:
    script = Script().opened()
    for number in range(3):
        script.call(f"c{number}")
        script.result(f"c{number}", code="FS_NOT_FOUND")
    script.call("c4")
    script.result("c4", code="FS_NOT_FOUND")
    text = show_events(script.closed())
    assert "fails with 'FS_NOT_FOUND' again and again in this turn  seq 7  3 events" in text


def test_sessions_are_named_when_they_change() -> None:
    console = plain()
    provider = replay_provider(ReplaySpanProcessor(ConsoleSink(console).exporter))
    for name in ("a", "a", "b"):
        script = Script()
        script.turn_start()
        script.turn_end()
        Tracing(SessionHeader(id=name), provider=provider).run(script.events)
    provider.force_flush()
    heads = [line for line in text_of(console).splitlines() if line.startswith("session")]
    assert heads == ["session a  seed log, seed contract", "session b  seed log, seed contract"]


# Widths and terminals


@pytest.mark.parametrize("width", [20, 80, 500])
@pytest.mark.parametrize("soft_wrap", [False, True])
def test_lines_stay_whole_at_every_width(width: int, soft_wrap: bool) -> None:
    narrow = Console(file=StringIO(), width=width, force_terminal=False, soft_wrap=soft_wrap)
    log = session_log("denied-read")
    assert show(log, narrow) == show(log)


def test_a_long_name_stays_whole() -> None:
    script = Script().opened()
    script.call(name="x" * 120)
    assert f"execute_tool {'x' * 120}  " in show_events(script)


def test_without_colours_nothing_but_text_is_printed() -> None:
    assert "\x1b" not in show(session_log("denied-read"))


def test_on_a_terminal_failures_stand_out() -> None:
    console = Console(file=StringIO(), width=80, force_terminal=True, color_system="standard")
    assert "\x1b[1;31mEACCES\x1b[0m" in show(session_log("denied-read"), console)


def test_where_only_ascii_can_be_printed_the_guides_are_ascii() -> None:
    from io import BytesIO

    raw = BytesIO()
    stream = TextIOWrapper(raw, encoding="ascii", errors="replace", write_through=True)
    console = Console(file=stream, width=80, force_terminal=False)
    provider = replay_provider(ReplaySpanProcessor(ConsoleSink(console).exporter))
    trace_session(str(case_log("03")), tracer_provider=provider, strict=True)
    provider.shutdown()
    assert b"`-- step 0 dsh.step  80 ms  never closed\n    +-- chat  40 ms\n" in raw.getvalue()


# Hostile logs


HOSTILE = {
    "markup": "[bold]x[/]",
    "open markup": "[/nothing][link=file:///etc]",
    "escape": "a\x1b[31mb",
    "escape without ESC": "a\x9b31mb",
    "bell": "a\x07b",
    "carriage return": "real\rfake",
    "new line": "a\nturn 9 fake",
    "emoji code": ":smiley:",
    "other direction": "a\u202eb\u2066c",
}
CONTROL = {chr(code) for code in (*range(32), *range(0x7F, 0xA0))} - {"\n"}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_what_stands_in_a_log_cannot_drive_the_terminal(name: str) -> None:
    script = Script().opened()
    script.add("request/context", provider=name, model=name)
    script.call(name, name)
    script.result(name, code=name, name=name)
    script.call(name, name)
    script.answer()
    script.turn_end(1, name)
    header = SessionHeader(id=name, agent_preset=name)
    text = show_events(script, header)
    lines = len(show_events(script, SessionHeader(id="s")).splitlines())
    assert len(text.splitlines()) == lines
    assert not CONTROL & set(text)
    assert not {"\u202e", "\u2066"} & set(text)
    if name.startswith(("[", ":")):
        assert f"execute_tool {name}" in text


def test_a_session_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 3)
    console = plain()
    sink = ConsoleSink(console)
    provider = replay_provider(ReplaySpanProcessor(sink.exporter, 1))
    tracing = Tracing(SEED, provider=provider)
    script = Script().opened()
    for number in range(9):
        script.call(f"c{number}")
        script.result(f"c{number}")
    tracing.run(script.events, close=False)
    waiting = sink.exporter._waiting  # type: ignore[attr-defined]
    assert sum(map(len, waiting.values())) <= 3
    tracing.tracer.close()
    provider.shutdown()
    assert text_of(console).count("execute_tool") == 9


def test_what_never_gets_its_root_is_printed_at_the_end() -> None:
    console = plain()
    sink = ConsoleSink(console)
    provider = replay_provider(ReplaySpanProcessor(sink.exporter, 1))
    script = Script().opened()
    script.step_end()
    Tracing(SEED, provider=provider).run(script.events, close=False)
    assert text_of(console) == ""
    sink.exporter.shutdown()
    assert text_of(console) == "session s-1\nstep 1 dsh.step  10 ms\n"


def test_the_console_loses_nothing() -> None:
    sink = ConsoleSink(plain())
    assert sink.target == "console"
    assert (sink.report().refused, sink.report().problem) == (0, "")
    assert sink.exporter.force_flush()


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ms"),
        (1_400_000, "1 ms"),
        (999_400_000, "999 ms"),
        (999_600_000, "1.0 s"),
        (1_234_000_000, "1.2 s"),
        (59_940_000_000, "59.9 s"),
        (59_960_000_000, "1 min 0 s"),
        (61_000_000_000, "1 min 1 s"),
        (3_599_000_000_000, "59 min 59 s"),
        (3_600_000_000_000, "1 h 0 min"),
        (100 * 3_600_000_000_000, "100 h 0 min"),
    ],
)
def test_durations_for_people(ns: int, text: str) -> None:
    assert duration(ns) == text
