"""Random programs: what they are made of, and what it takes to run them."""

from __future__ import annotations

import asyncio
import errno
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from dsh_core.abort import AbortError
from dsh_core.errors import HarnessError
from dsh_core.llm import calls, fails, says
from dsh_core.llm import chunks as make
from dsh_core.tools import ToolError, ToolExecutionResult

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

MAX_ITERATIONS: Final = 20_000
"""Turns of the event loop that one program may take."""


class Loop(asyncio.SelectorEventLoop):
    """An event loop that gives a program up which does not end."""

    iterations = 0

    def _run_once(self) -> None:
        self.iterations += 1
        if self.iterations > MAX_ITERATIONS:
            raise AssertionError("the program does not end")
        super()._run_once()  # type: ignore[misc] # typeshed does not know it


class Stop(BaseException):
    """What is raised to stop everything."""


class Mute(Exception):  # noqa: N818 - its name is its nature
    """An error that cannot be shown."""

    def __str__(self) -> str:
        raise ValueError("no text")


ERRORS: Final[tuple[Callable[[], BaseException], ...]] = (
    lambda: ValueError("v"),
    lambda: HarnessError("h", "SOME_CODE"),
    lambda: HarnessError("odd", 5),  # type: ignore[arg-type]
    lambda: HarnessError("", ""),
    lambda: HarnessError("\ud800", "\ud800"),
    lambda: AbortError("no abort at all"),
    lambda: asyncio.CancelledError("mine"),
    lambda: ExceptionGroup("several", [ValueError("one")]),
    Mute,
    Stop,
    *((lambda number=number: OSError(number, "os")) for number in errno.errorcode),
)


EXCEPTIONS: Final = tuple(error for error in ERRORS if isinstance(error(), Exception))
"""Those that are ordinary."""


async def never() -> None:
    """Wait for something that does not come."""
    await asyncio.get_running_loop().create_future()


# Tools


async def _until_aborted(execution: Any) -> str:
    await execution.signal.wait()
    return "aborted"


async def _stubborn(_execution: Any) -> str:
    try:
        await never()
    except asyncio.CancelledError:
        await asyncio.sleep(0)
    return "I go on"


async def _later(_execution: Any) -> str:
    await asyncio.sleep(0)
    return "later"


def _fails(error: Callable[[], BaseException]) -> Callable[[Any], Any]:
    def tool(_execution: Any) -> Any:
        raise error()

    return tool


def _returns(value: Any) -> Callable[[Any], Any]:
    return lambda _execution: value


ODD: Final[tuple[Any, ...]] = (
    None,
    5,
    math.nan,
    b"bytes",
    {1, 2},
    {"a": [1]},
    [{"type": "text"}],
    [{"type": "text", "text": "\ud800"}],
    [{"type": "image", "data": object()}],
    object(),
    "",
)

TOOLS: Final[dict[str, Callable[[Any], Any]]] = {
    "now": _returns("now"),
    "later": _later,
    "wait": _until_aborted,
    "never": lambda _execution: never(),
    "stubborn": _stubborn,
    "send": lambda execution: execution.agent.send("from a tool"),
    "steer": lambda execution: execution.agent.steer("from a tool"),
    "inject": lambda execution: execution.agent.inject("from a tool", source={"kind": "tool"}),
    "abort": lambda execution: execution.agent.abort(),
    "dispose": lambda execution: execution.agent.dispose(),
    **{f"fails{n}": _fails(error) for n, error in enumerate(ERRORS)},
    **{f"odd{n}": _returns(value) for n, value in enumerate(ODD)},
}

# Streams


class _Breaks(list[Any]):
    """Chunks, and then an error."""

    def __init__(self, chunks: list[Any], error: BaseException) -> None:
        super().__init__(chunks)
        self._error = error

    def __iter__(self) -> Iterator[Any]:
        yield from list.__iter__(self)
        raise self._error


async def _hangs(_options: Any) -> Any:
    await never()


async def _waits(options: Any) -> Any:
    await options.signal.wait()
    return "too late"


def _call(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "block-end", "index": index, "block": {"type": "tool-call", **block}}


CHUNKS: Final[tuple[Any, ...]] = (
    make.block_start(0, "text"),
    make.text_delta(0, "a "),
    make.text_delta(0, "b"),
    make.block_end(0, {"type": "text", "text": "a b"}),
    make.reasoning_delta(1, "hm"),
    make.block_start(2, "tool-call"),
    make.tool_call_delta(2, "x", "{}", "now"),
    make.tool_call_delta(3, "", "{}", "later"),
    _call(4, id="x", name="now", arguments="{}"),
    _call(5, id="x", name="later", arguments="no json"),
    _call(6, id="", name="unknown", arguments=""),
    _call(7, name="now"),
    _call(8, id=5, name=7, arguments={"a": 1}),
    _call(9, id="y", name="now", arguments="[1]"),
    make.block_end(10, {}),
    make.block_end(11, {"type": 5}),
    make.block_start(12, "image"),
    make.usage_chunk({"inputTokens": 1, "outputTokens": 2}),
    {"type": "usage", "usage": {"inputTokens": "many"}},
    {"type": "usage"},
    {"type": "text-delta", "index": -1, "text": "x"},
    {"type": "text-delta", "index": 0, "text": 5},
    {"type": "text-delta", "index": 0, "text": "\ud800"},
    {"type": "odd", "value": object()},
    {"type": "new"},
    {},
    "no mapping",
    None,
)
FINISHES: Final = (
    [],
    *(
        [{"type": "finish", "reason": reason}]
        for reason in (
            {"kind": "stop"},
            {"kind": "tool-calls"},
            {"kind": "max-tokens"},
            {"kind": "aborted"},
            {"kind": "error"},
            {"kind": "error", "failure": {"message": "m", "code": "RATE_LIMIT", "status": 429}},
            {"kind": "weird"},
            {"kind": 5},
            {},
        )
    ),
)

_NAMES = st.sampled_from([*TOOLS, "unknown"])
_ARGUMENTS = st.sampled_from(["{}", "", "no json", "[]", '{"a": NaN}', "\ud800"])
_TOOL_CALLS = st.lists(st.tuples(_NAMES, _ARGUMENTS), min_size=1, max_size=3)
_RAW = st.lists(st.sampled_from(CHUNKS), max_size=5)
_ERROR = st.sampled_from(ERRORS).filter(lambda error: error is not Stop)


def _broken(chunks: list[Any], error: Callable[[], BaseException]) -> Any:
    return _Breaks(chunks, error())


REPLIES: Final[st.SearchStrategy[Any]] = st.one_of(
    st.builds(says, st.sampled_from(["yes", "", "two words"])),
    _TOOL_CALLS.map(lambda named: calls(*named)),
    _TOOL_CALLS.map(lambda named: calls(*named)),
    st.builds(fails, st.sampled_from(["SERVER", "AUTH", ""])),
    st.builds(lambda chunks, end: [*chunks, *end], _RAW, st.sampled_from(FINISHES)),
    st.builds(_broken, _RAW, _ERROR),
    st.sampled_from([_hangs, _waits, None, ValueError("no reply")]),
)

# Listeners


async def _awaited(next_: Callable[[], Any]) -> Any:
    await asyncio.sleep(0)
    return next_()


async def _raises_later(error: BaseException) -> Any:
    await asyncio.sleep(0)
    raise error


async def _stream(*chunks: Any) -> AsyncIterator[Any]:
    for chunk in chunks:
        yield chunk


async def _deaf_stream() -> AsyncIterator[Any]:
    yield make.text_delta(0, "a")
    try:
        await never()
    except asyncio.CancelledError:
        yield make.text_delta(0, "b")
    yield make.finish("stop")


ODD_ANSWERS: Final[dict[str, tuple[Callable[[], Any], ...]]] = {
    "agent/request": (lambda: None, lambda: "options"),
    "agent/step-result": (
        lambda: None,
        lambda: {"content": None},
        lambda: {"content": ["no block"]},
        lambda: {"content": []},
        lambda: {"content": [{"type": "tool-call"}, {"type": "tool-call", "id": "z"}]},
        lambda: {"content": [{"type": "text", "text": object()}]},
    ),
    "agent/turn-continuation": (lambda: None, lambda: False, lambda: "yes"),
    "tools/execute": (
        lambda: None,
        lambda: ToolExecutionResult("other", [{"type": "text", "text": "denied"}]),
        lambda: ToolExecutionResult("x", None),  # type: ignore[arg-type]
        lambda: ToolExecutionResult("x", [1], is_error=True),  # type: ignore[list-item]
        lambda: ToolExecutionResult("x", [{"a": object()}], error=ToolError("E", "C")),
        lambda: ToolExecutionResult(
            "x",
            [],
            is_error=5,  # type: ignore[arg-type]
            error=ToolError("\ud800", 5),  # type: ignore[arg-type]
        ),
    ),
    "llm/stream": (
        lambda: None,
        list,
        _stream,
        lambda: _stream(*(make.text_delta(0, "x") for _ in range(50))),
        lambda: _stream(make.text_delta(0, "x"), make.finish("stop")),
        _deaf_stream,
    ),
}
EMITTED: Final = (
    "session/created",
    "session/event",
    "session/closed",
    "agent/created",
    "agent/disposed",
    "agent/status",
    "agent/queued",
    "agent/steering",
    "agent/turn-start",
    "agent/turn-end",
    "agent/step-start",
    "agent/step-end",
    "agent/stream-chunk",
    "agent/error",
)


@dataclass(frozen=True)
class Listener:
    """What somebody does who listens.

    Attributes:
        name: The event.
        does: What: ``raise``, ``async raise``, ``pass``, ``async pass``, ``odd``, ``hang``, or
            something to do to the agents.
        which: Which error or odd answer.
        first: At which call, from 0.
        times: How often from there on.
    """

    name: str
    does: str
    which: int
    first: int
    times: int

    def answer(self, next_: Callable[[], Any] | None) -> Any:
        """Answer a call whose turn it is."""
        if self.does == "raise":
            # Who listens to what is just told is no place of its own: nothing can be cancelled.
            errors = EXCEPTIONS if next_ is None else ERRORS
            error = errors[self.which % len(errors)]()
            raise error
        if self.does == "async raise":
            return _raises_later(ERRORS[self.which % len(ERRORS)]())
        if self.does == "hang":
            return never()
        if next_ is None:
            return None
        if self.does == "async pass":
            return _awaited(next_)
        odd = ODD_ANSWERS[self.name]
        return odd[self.which % len(odd)]() if self.does == "odd" else next_()


ON_AGENTS: Final = ("send", "steer", "inject", "abort", "dispose")
_COUNTS: dict[str, Any] = {
    "which": st.integers(0, len(ERRORS) - 1),
    "first": st.integers(0, 8),
    "times": st.sampled_from([1, 1, 2, 10_000]),
}
LISTENERS: Final = st.one_of(
    st.builds(
        Listener,
        name=st.sampled_from(EMITTED),
        does=st.sampled_from(["raise", "raise", *ON_AGENTS]),
        **_COUNTS,
    ),
    st.builds(
        Listener,
        name=st.sampled_from([*ODD_ANSWERS]),
        does=st.sampled_from(["raise", "async raise", "pass", "async pass", "odd", "odd"]),
        **_COUNTS,
    ),
    st.builds(
        Listener,
        name=st.just("session/flush"),
        does=st.sampled_from(["raise", "async raise", "hang"]),
        **_COUNTS,
    ),
)

# Steps

AGENTS: Final = st.integers(0, 2)
STEPS: Final = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["send", "send", "send", *ON_AGENTS]), AGENTS),
        st.tuples(st.just("wait"), st.integers(1, 60)),
        st.tuples(st.sampled_from(["create", "fork", "cancel", "bad send"]), AGENTS),
        st.tuples(st.just("listen"), LISTENERS),
        st.tuples(st.sampled_from(["restart", "unload"]), st.integers(0, 5)),
        st.tuples(st.sampled_from(["load", "unlisten"]), st.integers(0, 5)),
    ),
    max_size=14,
)


@dataclass(frozen=True)
class Program:
    """A whole program.

    Attributes:
        script: What the model says.
        listeners: Who listens from the beginning.
        steps: What happens.
        guarded: Whether the invariants are enforced from the beginning.
        patience_s: How patient agents are at their end.
    """

    script: list[Any]
    listeners: list[Listener]
    steps: list[tuple[str, Any]]
    guarded: bool
    patience_s: float


PROGRAMS: Final = st.builds(
    Program,
    script=st.lists(REPLIES, min_size=1, max_size=8),
    listeners=st.lists(LISTENERS, max_size=3),
    steps=STEPS,
    guarded=st.booleans(),
    patience_s=st.sampled_from([0.0, 0.0, 0.002]),
)
