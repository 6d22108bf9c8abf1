"""What is told the same way on every path: small sessions of the real runtime, one for each matter.

A scenario sets up the model and drives a program that uses the SDK. Whoever compares paths follows
its home meanwhile, or reads it afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.e2e.driven import RETRIES
from tests.e2e.model_server import calls, refuses, says
from tests.e2e.scenes import YES, bash, lasting, llm, other_than, read

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.driven import Model
    from tests.e2e.runtime import Message
    from tests.e2e.sdk_host import SdkHost

NAME: Final = "s-1"
"""The session of a scenario."""


@dataclass(frozen=True)
class Scenario:
    """One of them.

    Attributes:
        play: Plays it.
        codes: Error codes that the spans have in the end.
        kinds: Parts of the names that they have.
        changes: Changes to the runtime's profile.
        open_folder: Whether it has to be played in a folder that other users reach.
    """

    play: Callable[[SdkHost, Model], None]
    codes: frozenset[str] = frozenset()
    kinds: tuple[str, ...] = ("invoke_agent", "dsh.step", "chat")
    changes: tuple[Message, ...] = field(default=())
    open_folder: bool = False


def plain(host: SdkHost, model: Model) -> None:
    """A turn of text, and another one."""
    model.when(NAME, says("hel", "lo", thinking="hm"), YES)
    host.start()
    host.run(NAME)
    host.run(NAME, "and on")
    host.close()


def parallel_tools(host: SdkHost, model: Model) -> None:
    """Calls side by side, of which one fails."""
    text = host.cwd / "a.txt"
    text.write_text("hello\n")
    write = ("w", "todo_write", {"todos": [{"content": "x", "status": "pending"}]})
    model.when(NAME, calls(bash("a", "echo 1"), read("b", text), read("c"), read("d", text), write))
    model.when(NAME, YES)
    host.start()
    host.run(NAME)
    host.close()


def not_found(host: SdkHost, model: Model) -> None:
    """A file that is not there."""
    model.when(NAME, calls(read("a", host.cwd / "nope")), YES)
    host.start()
    host.run(NAME)
    host.close()


def denied(host: SdkHost, model: Model) -> None:
    """Files that the operating system keeps to somebody else."""
    host.as_other_user()
    secret, folder = host.cwd / "secret", host.cwd / "theirs"
    secret.write_text("x")
    secret.chmod(0)
    folder.mkdir()
    folder.chmod(0o555)
    write = ("b", "write", {"file_path": str(folder / "new"), "content": "x"})
    model.when(NAME, calls(read("a", secret)), calls(write), YES)
    host.start()
    host.run(NAME)
    host.close()
    secret.chmod(0o600)
    folder.chmod(0o755)


def invalid_arguments(host: SdkHost, model: Model) -> None:
    """Arguments that are not those of the tool, and a tool that there is not."""
    model.when(NAME, calls(("a", "read", {}), ("b", "no_such_tool", {})), YES)
    host.start()
    host.run(NAME)
    host.close()


def overloaded(host: SdkHost, model: Model) -> None:
    """A model that is too busy, and then is not."""
    model.when(NAME, refuses(529, "overloaded_error", "busy", retry_after="0.05"), YES)
    host.start()
    host.run(NAME)
    host.close()


def dropped_stream(host: SdkHost, model: Model) -> None:
    """A stream that ends early."""
    model.when(NAME, says("a", "b").first(4, cut=False), YES)
    host.start()
    host.run(NAME)
    host.run(NAME, "again")
    host.close()


def subagent(host: SdkHost, model: Model) -> None:
    """A child that works by itself, and a fork of what was said so far."""

    def delegate(call_id: str, kind: str) -> tuple[str, str, Message]:
        return call_id, kind, {"description": "d", "prompt": f"look {call_id}"}

    both = delegate("a", "subagent"), delegate("b", "subagent_fork")
    model.when(NAME, YES, calls(*both), *[YES] * 9)
    model.when(other_than(NAME), calls(("g", "glob", {"pattern": "*"})), *[YES] * 9)
    host.start()
    host.run(NAME, "hello")
    host.run(NAME)
    host.wait(NAME)
    host.close()


def crash(host: SdkHost, model: Model) -> None:
    """A runtime that is killed in the middle of a call, and another that goes on."""
    flag = host.cwd / "flag"
    model.when(NAME, YES, calls(bash("a", lasting(flag)), bash("b", "echo")), YES)
    host.start()
    host.run(NAME, "hello")
    host.begin(NAME)
    host.until(NAME, "job/registered")
    host.kill()
    flag.unlink()
    host.start()
    host.resume(NAME)
    host.run(NAME, "and on")
    host.close()


def shutdown(host: SdkHost, model: Model) -> None:
    """A runtime that is ended in peace in the middle of an answer."""
    model.when(NAME, YES, model.held(says("a", "b", "c"), 4))
    host.start()
    host.run(NAME, "hello")
    host.begin(NAME)
    host.until(NAME, "session-log-deepseek/delivery-accepted", 2)
    host.close()
    model.gate.set()


SCENARIOS: Final = {
    "plain turn": Scenario(plain),
    "parallel tools": Scenario(parallel_tools, frozenset({"FS_NOT_FOUND"})),
    "FS_NOT_FOUND": Scenario(not_found, frozenset({"FS_NOT_FOUND"})),
    "EACCES": Scenario(denied, frozenset({"EACCES"}), open_folder=True),
    "invalid arguments": Scenario(invalid_arguments, frozenset({"INVALID_ARGS", "UNKNOWN_TOOL"})),
    "529 then success": Scenario(overloaded, frozenset({"SERVER"}), changes=(llm(), RETRIES)),
    "dropped stream": Scenario(dropped_stream, frozenset({"STREAM_CLOSED"})),
    "subagent": Scenario(subagent, kinds=("execute_tool subagent", "execute_tool glob")),
    "crash with resume": Scenario(crash, frozenset({"TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED"})),
    "shutdown in mid-turn": Scenario(shutdown),
}
