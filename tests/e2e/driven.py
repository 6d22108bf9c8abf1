"""The real runtime, driven through what users do: many at once, from inside, to its death."""

from __future__ import annotations

import json
import socket
import threading
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dsh_core.logs.find import find_logs
from dsh_core.logs.reader import SessionLog
from tests.e2e.model_server import ModelServer
from tests.e2e.receivers import HOST
from tests.e2e.runtime import DEADLINE, MODEL, Message, Runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

    from tests.e2e.model_server import ModelRequest, Reply

INSIDE: Final = Path(__file__).with_name("inside.mjs")

RETRIES: Final[Message] = {"id": "llm-retry", "disabled": False}
"""Makes the runtime retry."""

AGENT: Final = "const agent = ctx.get('agents').get(id);"
TELL: Final = """
    const message = (id, text) => (
        { id, role: 'user', content: [{ type: 'text', text }], source: { kind: 'user' } });
"""
COMMAND: Final = """
    const { signal } = new AbortController();
    const done = ctx.get('commands').execute(agent, line, [], signal)
        .catch((error) => ({ thrown: String(error) }));
    return wait ? await done : null;
"""
WATCH: Final = """
    globalThis.watched ??= {};
    watched[id] = new Promise((seen) => {
        ctx.on('agent/assistant-stream', ({ agent, frame }) => {
            if (agent.session.id === id && frame.chunk?.type === kind) seen();
        });
    });
"""
FLUSH: Final = "for (const one of ctx.get('sessions').list()) await ctx.get('sessions').flush(one);"


class Model(ModelServer):
    """Plays the model of several sessions: each has a script of its own.

    A request goes to the first script that is meant for it and that is not over.

    Attributes:
        gate: What replies that are held wait for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self._scripts: list[tuple[Callable[[ModelRequest], bool], list[Reply]]] = []

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.gate.set()
        super().__exit__(kind, error, trace)

    def when(
        self, meant: str | Callable[[ModelRequest], bool], *replies: Reply, first: bool = False
    ) -> None:
        """Add a script.

        Args:
            meant: Says which requests it is meant for; or the id of a session.
            replies: The replies.
            first: Whether it comes before the other scripts.
        """
        name = meant
        matches = meant if callable(meant) else (lambda request: session_of(request) == name)
        with self._lock:
            self._scripts.insert(0 if first else len(self._scripts), (matches, list(replies)))

    def held(self, reply: Reply, count: int) -> Reply:
        """Return a reply that is held up before its end, until the gate opens.

        Args:
            reply: The reply.
            count: How many of its events come before.
        """
        return replace(reply, gate=self.gate, ungated=count)

    def _next(self, request: ModelRequest) -> Reply:
        with self._lock:
            for meant, replies in self._scripts:
                if replies and meant(request):
                    self.requests.append(request)
                    return replies.pop(0)
        return super()._next(request)


def session_of(request: ModelRequest) -> str:
    """Return the id of the session that a request is about."""
    log = request.body.get("dsh_session_log", {})
    found: str = log.get("session", {}).get("id", "")
    return found


class Stage:
    """A DSH home, what plays the model there, and what its runtimes told.

    Args:
        program: An interpreter that finds the runtime.
        folder: A folder of its own.
        model: What plays the model.

    Attributes:
        cwd: The working directory of the sessions.
        told: The events that were notified, by session, in order.
    """

    def __init__(self, program: Path, folder: Path, model: Model) -> None:
        self.home = folder / "home"
        self.cwd = folder / "ws"
        self.cwd.mkdir()
        self.model = model
        self.told: dict[str, list[Message]] = defaultdict(list)
        self._program = program
        self._folder = folder

    def runtime(self, *changes: Message, model: str = MODEL, **env: str) -> Driven:
        """Make a runtime, to be used as ``with``.

        Args:
            changes: Changes to its profile.
            model: The model that it asks for.
            env: Environment variables.
        """
        return Driven(self, self._program, self._folder / "runtime", changes, model, env)

    def logs(self) -> dict[str, Path]:
        """Return the logs by session."""
        found = {}
        for log in find_logs([str(self.home)]):
            with log.open() as stream:
                found[SessionLog(stream, log.path).header.id] = Path(log.path)
        return found


class Driven(Runtime):
    """A runtime that keeps what it notifies, and does what it is told from inside.

    Args:
        stage: Where it plays.
        program: An interpreter that finds it.
        folder: A folder of its own.
        changes: Changes to its profile.
        model: The model that it asks for.
        env: Environment variables.
    """

    def __init__(
        self,
        stage: Stage,
        program: Path,
        folder: Path,
        changes: tuple[Message, ...],
        model: str,
        env: Mapping[str, str],
    ) -> None:
        self._stage = stage
        self._over = False
        self._inside: socket.socket | None = None
        self._listener = socket.create_server((HOST, 0))
        self._listener.settimeout(DEADLINE)
        port = str(self._listener.getsockname()[1])
        plugin = {"insert": [{"id": "inside", "name": INSIDE.as_uri()}]}
        super().__init__(
            program,
            folder,
            home=stage.home,
            cwd=stage.cwd,
            url=stage.model.url,
            changes=[*changes, plugin],
            env={"INSIDE_PORT": port, **env},
            model=model,
        )

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self._inside, _ = self._listener.accept()
        except BaseException:
            self._end()
            raise
        self._inside.settimeout(DEADLINE)
        self._lines = self._inside.makefile("rb")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._over:
            self._end()
        else:
            super().__exit__(kind, error, trace)

    # From outside

    def send(self, session_id: str, *blocks: str | Message) -> None:
        """Say something in a session, without waiting for what comes of it.

        Args:
            session_id: The session; made if there is none.
            blocks: Texts, and blocks of other kinds.
        """
        content = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
        self._request("session/prompt", {"sessionId": session_id, "contentBlocks": content})

    def wait(self, session_id: str) -> None:
        """Wait until a session and its children have nothing left to do."""
        self._request("session/wait", {"sessionId": session_id})

    def say(self, session_id: str, *prompts: str) -> None:
        """Say things in a session, and wait after each until nothing is left to do."""
        for prompt in prompts:
            self.send(session_id, prompt)
            self.wait(session_id)

    def move(self, session_id: str, path: Path) -> None:
        """Give a session another working directory."""
        params = {"sessionId": session_id, "path": str(path)}
        self._request("session/working-directory/set", params)

    def wait_for(self, session_id: str, kind: str, count: int = 1) -> list[Message]:
        """Wait until so many events of a type were notified in a session, and return them."""

        def found() -> list[Message]:
            return [event for event in self.events()[session_id] if event["type"] == kind]

        self._read_until(lambda: len(found()) >= count, f"{count} {kind} in {session_id}")
        return found()

    def events(self) -> dict[str, list[Message]]:
        """Return the events that were notified by now, by session."""
        told: dict[str, list[Message]] = defaultdict(list)
        for message in self._notified:
            if message["method"] == "session.event":
                params = message["params"]
                told[params["sessionId"]].append(params["event"])
        return told

    def shut_down(self) -> None:
        """End it in peace, whatever it is doing."""
        self._request("shutdown")
        self._popen.wait(DEADLINE)
        self._over = True

    def kill(self) -> None:
        """End it at once, but for what is on its way to the disk."""
        self.inside(FLUSH)
        self._popen.kill()
        self._popen.wait()
        self._over = True

    # From inside

    def inside(self, body: str, **values: Any) -> Any:
        """Run a function inside and return what it returns.

        Args:
            body: The body of an async function, with ``ctx`` and `values` in its scope.
            values: Constants of it.
        """
        assert self._inside is not None
        named = "".join(f"const {name} = {json.dumps(value)};" for name, value in values.items())
        self._inside.sendall(json.dumps({"body": named + body}).encode() + b"\n")
        answer = json.loads(self._lines.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["value"]

    def agent(self, session_id: str, body: str, **values: Any) -> Any:
        """Run a function inside with a session's ``agent``, and ``message(id, text)``."""
        return self.inside(AGENT + TELL + body, id=session_id, **values)

    def command(self, session_id: str, line: str, *, wait: bool = True) -> None:
        """Have a session execute a command, which may fail.

        Args:
            session_id: The session.
            line: The command.
            wait: Whether to wait until it is done.
        """
        self.agent(session_id, COMMAND, line=line, wait=wait)

    def cancel(self, session_id: str, *, keep: bool = False) -> None:
        """Cancel what a session does, and wait until it has stopped.

        Args:
            session_id: The session.
            keep: Whether it goes on with the messages that wait.
        """
        how = "agent.cancel({ kind: 'user' }, { keepInbox: keep }); await agent.whenIdle();"
        self.agent(session_id, how, keep=keep)

    def watch(self, session_id: str, kind: str) -> None:
        """Get ready for `watched`: the model will send a chunk of a kind."""
        self.inside(WATCH, id=session_id, kind=kind)

    def watched(self, session_id: str) -> None:
        """Wait for the chunk."""
        self.inside("await watched[id];", id=session_id)

    def _end(self) -> None:
        super()._end()
        while not self._messages.empty():
            message = self._messages.get()
            if message is not None and "method" in message:
                self._notified.append(message)
        for session_id, events in self.events().items():
            self._stage.told[session_id] += events
        if self._inside is not None:
            self._lines.close()
            self._inside.close()
        self._listener.close()
