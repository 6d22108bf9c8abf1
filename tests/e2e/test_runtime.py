"""The real runtime and `dsh_core` go on with each other's sessions, and hear the same model."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest

from dsh_core.llm import calls as scripted_calls
from dsh_core.llm import unpack
from dsh_core.llm.messages import MessagesAdapter
from dsh_core.session import stored
from dsh_core.tools import define_tool
from dsh_otel.testing import assert_no_violations, findings_of
from tests.e2e import cli
from tests.e2e.model_server import (
    ModelServer,
    Reply,
    breaks_off,
    calls,
    refuses,
    says,
)
from tests.e2e.ours import CALLED, ENDS, RESULTS, SAID, STORIES, ours, tell
from tests.e2e.runtime import RefusedError, Runtime

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from dsh_core.session import Session

pytestmark = pytest.mark.e2e

Event = tuple[str, dict[str, Any]]
"""Type and payload of an event."""


class StartRuntime(Protocol):
    """Makes runtimes, to be used as ``with``."""

    def __call__(self, *, compress: bool = True) -> Runtime:
        """Make one; `compress` says whether its logs are compressed."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A DSH home."""
    return tmp_path / "home"


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    """A working directory."""
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A server that plays the model."""
    with ModelServer() as server:
        yield server


@pytest.fixture
def runtime(
    runtime_program: Path, tmp_path: Path, home: Path, cwd: Path, model: ModelServer
) -> StartRuntime:
    """Makes runtimes in the home."""

    def make(*, compress: bool = True) -> Runtime:
        folder = tmp_path / "runtime"
        return Runtime(
            runtime_program, folder, home=home, cwd=cwd, url=model.url, compress=compress
        )

    return make


def place(home: Path, cwd: Path, name: str, suffix: str = ".zstd") -> Path:
    """Return where a session lies; both the path and the name are plain."""
    key = "-".join(cwd.parts[1:])
    return home / "sessions" / f"--{key}--" / name / f"session.v4.jsonl{suffix}"


def of_type(events: Iterable[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the payloads of the events of a type."""
    return [event["data"] for event in events if event["type"] == kind]


def ends(session: Session) -> list[str]:
    """Return how the turns of a session end."""
    return [entry.data["reason"]["kind"] for entry in session.events if entry.type == "turn/end"]


def assert_clean(home: Path, *logs: Path, without: str = "") -> None:
    """Check that logs, and all of a home, keep the contract, but for the rules of a pattern."""
    for log in logs:
        assert_no_violations(log)
    options = ("--exclude", without) if without else ()
    done = cli.run("check", "--contract", "v4", "--fail-on", "damage", *options, home)
    assert done.returncode == 0, done.stdout


def assert_completed(events: list[dict[str, Any]], turn: int | None = None) -> None:
    """Check that the runtime has taken a turn to its end."""
    end = of_type(events, "turn/end")[-1]
    assert end["reason"] == {"kind": "completed"}
    assert turn is None or end["turn"] == turn


# ------------------------------------------------------------------------ ours, then theirs


@pytest.mark.parametrize("compress", [True, False], ids=["zstd", "plain"])
def test_the_runtime_goes_on_with_a_session_of_ours_and_tells_the_model_all_of_it(
    runtime: StartRuntime, model: ModelServer, home: Path, cwd: Path, compress: bool
) -> None:
    async def write() -> list[str]:
        async with ours(home, cwd, compress=compress) as us:
            session = us.session("story")
            await tell(us, session)
            return ends(session)

    assert asyncio.run(write()) == ENDS
    log = place(home, cwd, "story", ".zstd" if compress else "")
    assert_clean(home, log)
    model.add(says("I go on"), says("and on"))
    for number, prompt in enumerate(("go on", "and on"), len(ENDS) + 1):
        with runtime(compress=compress) as theirs:
            theirs.resume("story")
            assert_completed(theirs.prompt("story", prompt), number)
        assert model.last.texts()[: len(SAID) + 1] == [*SAID, "go on"]
        assert model.last.calls() == CALLED
        assert model.last.results() == RESULTS
        assert_clean(home, log)
    assert model.last.texts("assistant")[-1] == "I go on"
    assert model.left == 0


def test_no_session_of_ours_is_so_odd_that_the_runtime_refuses_it(
    runtime: StartRuntime, model: ModelServer, home: Path, cwd: Path
) -> None:
    async def write() -> None:
        async with ours(home, cwd) as us:
            for name, story in STORIES.items():
                await story(us, name)

    async def write_nothing() -> None:
        async with ours(home, cwd) as us:
            us.session("nothing")

    asyncio.run(write())
    # Some of the models here do not keep to the grammar of streams.
    assert_clean(home, without="owner:llm")
    asyncio.run(write_nothing())
    # Messages that still wait have turns of their own.
    model.add(*[says("yes")] * 100)
    # The second time it reads what it has added itself.
    for _ in range(2):
        refused = {}
        with runtime() as theirs:
            for name in (*STORIES, "nothing"):
                try:
                    theirs.resume(name)
                    assert_completed(theirs.prompt(name, "go on"))
                except RefusedError as error:
                    refused[name] = str(error)
        assert refused == {}
        assert_clean(home, without="owner:llm")


def test_the_runtime_refuses_what_the_check_finds(
    runtime: StartRuntime, home: Path, cwd: Path
) -> None:
    async def write() -> None:
        async with ours(home, cwd) as us:
            session = us.session("broken")
            await us.say(us.agent(session, "yes"), "hi")
            session.append("step/start", {"turn": 1, "step": 2})

    asyncio.run(write())
    (found,) = findings_of(place(home, cwd, "broken"))
    assert (found.rule, found.seq) == ("step.outside-turn", 11)
    refusal = "step/start does not match the open turn and next step"
    with runtime() as theirs, pytest.raises(RefusedError, match=refusal):
        theirs.resume("broken")


def test_an_injection_before_the_first_turn_leaves_no_place_for_the_runtimes_instructions(
    runtime: StartRuntime, model: ModelServer, home: Path, cwd: Path
) -> None:
    # It goes on nevertheless, puts them where its own reader does not accept them, and cannot read
    # the session again. The check says so.
    async def write() -> None:
        async with ours(home, cwd) as us:
            agent = us.agent(us.session("injected"))
            agent.inject("the sky is green", source={"kind": "weather"})

    asyncio.run(write())
    log = place(home, cwd, "injected")
    assert_clean(home, log)
    model.add(says("yes"))
    with runtime() as theirs:
        theirs.resume("injected")
        assert_completed(theirs.prompt("injected", "hi"))
    assert [found.rule for found in findings_of(log)] == ["surface.system-head"]
    refusal = "system/message requires a protected first surface head"
    with runtime() as theirs, pytest.raises(RefusedError, match=refusal):
        theirs.resume("injected")


# ------------------------------------------------------------------------ theirs, then ours


def test_we_go_on_with_a_session_of_the_runtime_and_then_the_runtime_does_again(
    runtime: StartRuntime, model: ModelServer, home: Path, cwd: Path
) -> None:
    missing = str(cwd / "missing.txt")
    model.add(calls(("toolu_1", "read", {"file_path": missing}), text="reading"), says("not there"))
    with runtime() as theirs:
        events = theirs.prompt("shared", "read it")
    assert_completed(events, 1)
    (result,) = of_type(events, "tool/result")
    assert result["error"] == {"name": "FsError", "code": "FS_NOT_FOUND"}
    log = place(home, cwd, "shared")

    async def go_on() -> None:
        async with ours(home, cwd) as us:
            session = stored.revive(us.ctx.sessions, log)
            agent = us.agent(session, scripted_calls(("look", {"path": "/nope"})), "neither")
            await us.say(agent, "look elsewhere")
            assert ends(session) == ["completed", "completed"]
            assert_no_violations(session)
            said = [
                block["text"]
                for message in session.derive_messages()
                for block in message["content"]
                if block["type"] == "text"
            ]
            assert [text for text in said if not text.startswith("Current runtime context")] == [
                *("read it", "reading", "not there", "look elsewhere", "neither"),
            ]

    asyncio.run(go_on())
    assert_clean(home, log)
    model.add(says("give up"))
    with runtime() as theirs:
        theirs.resume("shared")
        assert_completed(theirs.prompt("shared", "and now?"), 3)
    assert model.last.texts("assistant") == ["reading", "not there", "neither"]
    assert [call[1:] for call in model.last.calls()] == [
        ("read", {"file_path": missing}),
        ("look", {"path": "/nope"}),
    ]
    (_, first, first_failed), (_, second, second_failed) = model.last.results()
    assert first.startswith("Error: ")
    assert second == "Error: [Errno 2] No such file or directory: '/nope'"
    assert first_failed
    assert second_failed
    assert_clean(home, log)


def test_only_one_of_both_writes_to_a_session_at_a_time(
    runtime: StartRuntime, model: ModelServer, home: Path, cwd: Path
) -> None:
    async def try_both() -> None:
        model.add(says("mine"))
        log = place(home, cwd, "shared")
        async with ours(home, cwd) as us:
            with runtime() as theirs:
                theirs.prompt("shared", "hi")
                with pytest.raises(stored.StoredError, match="already owned by another writer"):
                    stored.revive(us.ctx.sessions, log)
            session = stored.revive(us.ctx.sessions, log)
            with runtime() as theirs:
                with pytest.raises(RefusedError, match="already owned by an active write handle"):
                    theirs.resume("shared")
                us.ctx.sessions.close(session)
                theirs.resume("shared")

    asyncio.run(try_both())
    assert_clean(home)


# ------------------------------------------------------------------------------------ forks


def test_the_runtime_goes_on_with_forks_wherever_they_were_made(
    runtime: StartRuntime, model: ModelServer, home: Path, cwd: Path
) -> None:
    model.add(says("hello"))
    with runtime() as theirs:
        theirs.prompt("theirs", "say hello")

    async def write() -> None:
        async with ours(home, cwd) as us:
            fork = us.ctx.sessions.fork
            parent = us.session("parent")

            def in_step(_: object) -> Any:
                fork(parent, "in step")
                return scripted_calls(("branch", {}), ("add", {"a": 1, "b": 1}))

            @define_tool
            def branch() -> str:
                """Fork."""
                fork(parent, "in call")
                return "branched"

            us.ctx.tools.register(branch)
            await us.say(us.agent(parent, in_step, "done"), "hi")
            fork(fork(parent, "after"), "of a fork")
            await us.say(us.agent(fork(parent, "with a turn"), "yes"), "in the fork")
            revived = stored.revive(us.ctx.sessions, place(home, cwd, "theirs"))
            await us.say(us.agent(fork(revived, "of theirs"), "yes"), "in the fork")

    asyncio.run(write())
    assert_clean(home)
    done = ["hi", "done", "go on"]
    expected = {
        "in step": ["hi", "go on"],
        "in call": ["hi", "go on"],
        "after": done,
        "of a fork": done,
        "with a turn": ["hi", "done", "in the fork", "yes", "go on"],
        "of theirs": ["say hello", "hello", "in the fork", "yes", "go on"],
        "parent": done,
    }
    results = {}
    with runtime() as theirs:
        for name, texts in expected.items():
            model.add(says("going on"))
            theirs.resume(name)
            assert_completed(theirs.prompt(name, "go on"))
            found = model.last.texts()
            context = [text for text in found if text.startswith("Current runtime context")]
            assert [text for text in found if text not in context] == texts
            results[name] = [(text, failed) for _, text, failed in model.last.results()]
    assert results["in step"] == []
    # Both calls have a result that says what is known of them in the fork.
    assert [failed for _, failed in results["in call"]] == [True, True]
    for name in ("after", "of a fork", "with a turn", "parent"):
        assert results[name] == [("branched", False), ("2.0", False)]
    assert_clean(home)
    with runtime() as theirs:
        for name in expected:
            theirs.resume(name)


# --------------------------------------------------------------------------- one model for both

ANSWER: Final = says("one ", "two", thinking="hm")

SCRIPTS: Final[dict[str, list[Reply]]] = {
    "a text": [ANSWER],
    "a call": [calls(("toolu_1", "read", {"file_path": "/nope"}), text="reading"), ANSWER],
    "several calls": [
        calls(*((f"toolu_{k}", "read", {"file_path": f"/nope/{k}"}) for k in range(3))),
        ANSWER,
    ],
    "a long answer": [says("one ", "two", stop="max_tokens")],
    "a stop sequence": [says("one ", "two", stop="stop_sequence")],
    "429": [refuses(429, "rate_limit_error", "slow down", retry_after="3")],
    "529": [refuses(529, "overloaded_error", "Overloaded", retry_after="0.5")],
    "500": [refuses(500, "api_error", "out of order")],
    "401": [refuses(401, "authentication_error", "invalid key")],
    "402": [refuses(402, "billing_error", "no money")],
    "403": [refuses(403, "permission_error", "not for you")],
    "404": [refuses(404, "not_found_error", "no such model")],
    "400": [refuses(400, "invalid_request_error", "bad request")],
    "400, context": [refuses(400, "invalid_request_error", "the maximum context length is 9")],
    "413": [refuses(413, "request_too_large", "too large")],
    "an early end": [ANSWER.first(4, cut=False)],
    "an error amid the answer": [breaks_off(ANSWER, 4, "overloaded_error", "Overloaded")],
    "a limit amid the answer": [breaks_off(ANSWER, 4, "rate_limit_error", "slow down")],
    "no content": [Reply((*ANSWER.events[:1], *ANSWER.events[-2:]))],
}
"""What the model says, where both hear the same."""

DIFFERENT: Final[dict[str, tuple[Reply, dict[str, Any], dict[str, Any]]]] = {
    "a broken connection": (
        ANSWER.first(4, cut=True),
        {"code": "TRANSPORT"},
        {"code": "STREAM_CLOSED"},
    ),
    "a refusal": (
        says("no", stop="refusal"),
        {"code": "MALFORMED_RESPONSE"},
        {"code": "REFUSAL"},
    ),
    "another text about the context": (
        refuses(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
        {"code": "INVALID_REQUEST", "status": 400},
        {"code": "CONTEXT_WINDOW_EXCEEDED", "status": 400},
    ),
    "a wait in ms": (
        refuses(429, "rate_limit_error", "slow down", retry_after_ms="1500"),
        {"code": "RATE_LIMIT", "status": 429},
        {"code": "RATE_LIMIT", "status": 429, "providerRetryAfterMs": 1500},
    ),
    "the id of a request": (
        refuses(429, "rate_limit_error", "slow down", request_id="req-1"),
        {"code": "RATE_LIMIT", "status": 429, "requestId": "req-1"},
        {"code": "RATE_LIMIT", "status": 429},
    ),
}
"""What the model says, and the failures that the runtime and we make of it."""

Heard = dict[str, list[Event]]
"""Events by script."""


@pytest.fixture(scope="module")
def heard(runtime_program: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Heard, Heard]:
    """What the runtime has logged of all scripts, and what we have."""
    folder = tmp_path_factory.mktemp("heard")
    scripts = {**SCRIPTS, **{name: [reply] for name, (reply, *_) in DIFFERENT.items()}}
    theirs: Heard = {}
    mine: Heard = {}

    @define_tool
    def read(file_path: str) -> str:
        """Read a file."""
        raise FileNotFoundError(file_path)

    async def hear(model: ModelServer) -> None:
        async with ours(folder / "ours", folder) as us:
            us.ctx.tools.register(read)
            adapter = MessagesAdapter(model.url, "made-up-key")
            for name, script in scripts.items():
                model.add(*script)
                session = us.session(name)
                await us.say(us.agent_with(adapter, session), "hi")
                mine[name] = [(entry.type, entry.data) for entry in session.events]
                assert model.left == 0

    with ModelServer() as model:
        home = folder / "theirs"
        with Runtime(runtime_program, folder, home=home, cwd=folder, url=model.url) as runtime:
            for name, script in scripts.items():
                model.add(*script)
                events = runtime.prompt(name, "hi")
                theirs[name] = [(event["type"], event["data"]) for event in events]
                assert model.left == 0
        asyncio.run(hear(model))
    return theirs, mine


def outcomes(events: list[Event]) -> list[Any]:
    """Return what comes of requests to the model: content, usage and finish, or the failure."""
    found: list[Any] = []
    for kind, data in events:
        if kind == "assistant/message":
            (finish,) = _finishes(data)
            found.append((data["message"]["content"], _usage(data["usage"]), finish))
        elif kind == "assistant/attempt":
            (finish,) = _finishes(data)
            found.append(_failure(finish["failure"]))
        elif kind == "tool/call":
            found.append((data["callId"], data["name"], data["arguments"]))
        elif kind == "turn/end":
            reason = data["reason"]
            failure = [_failure(reason["error"])] if "error" in reason else []
            found.append((reason["kind"], *failure))
    return found


def _finishes(data: dict[str, Any]) -> list[dict[str, Any]]:
    chunks = [chunk for _, chunk in unpack(data["stream"])]
    return [dict(chunk["reason"]) for chunk in chunks if chunk["type"] == "finish"]


def _usage(usage: dict[str, int]) -> dict[str, int]:
    """Return the parts of a usage; a total that is there must be their sum."""
    parts = {name: count for name, count in usage.items() if name != "totalTokens"}
    assert usage.get("totalTokens", sum(parts.values())) == sum(parts.values())
    return parts


def _failure(failure: dict[str, Any]) -> dict[str, Any]:
    """Return a failure; without its message where that is not the provider's."""
    if failure["code"] in {"STREAM_CLOSED", "EMPTY_RESPONSE"}:
        return {**failure, "message": ""}
    return failure


@pytest.mark.parametrize("name", SCRIPTS)
def test_our_adapter_and_the_runtime_make_the_same_of_what_the_model_says(
    heard: tuple[Heard, Heard], name: str
) -> None:
    theirs, mine = heard
    found = outcomes(mine[name])
    assert found == outcomes(theirs[name])
    assert len(found) >= 2


def test_the_wait_that_a_provider_asks_for_is_logged_by_both(heard: tuple[Heard, Heard]) -> None:
    failure = {
        "message": "slow down",
        "code": "RATE_LIMIT",
        "status": 429,
        "providerRetryAfterMs": 3000,
    }
    for logged in heard:
        assert outcomes(logged["429"]) == [failure, ("error", failure)]


@pytest.mark.parametrize("name", DIFFERENT)
def test_where_our_adapter_and_the_runtime_differ_is_known(
    heard: tuple[Heard, Heard], name: str
) -> None:
    for logged, expected in zip(heard, DIFFERENT[name][1:], strict=True):
        failure, _ = outcomes(logged[name])
        assert {key: value for key, value in failure.items() if key != "message"} == expected
