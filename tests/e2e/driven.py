"""The real runtime, driven as users do: several at once, from inside, and to its death."""

from __future__ import annotations

import json
import socket
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from tests.e2e.model_server import ModelServer
from tests.e2e.receivers import HOST
from tests.e2e.runtime import DEADLINE, MODEL, Message, Runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from tests.e2e.model_server import ModelRequest, Reply

INSIDE: Final = Path(__file__).with_name("inside.mjs")


class Model(ModelServer):
    """Plays the model of several sessions: each has a script of its own.

    A request goes to the first script that it is meant for and that is not over.
    """

    def __init__(self) -> None:
        super().__init__()
        self._scripts: list[tuple[Callable[[ModelRequest], bool], list[Reply]]] = []

    def when(self, meant: str | Callable[[ModelRequest], bool], *replies: Reply) -> None:
        """Add a script.

        Args:
            meant: Says which requests it is meant for; or the id of a session, or what its name
                begins with.
            replies: The replies.
        """
        if isinstance(meant, str):
            name = meant
            self._scripts.append((lambda request: session_of(request) == name, list(replies)))
        else:
            self._scripts.append((meant, list(replies)))

    @property
    def left(self) -> int:
        """How many replies nobody has asked for."""
        return super().left + sum(len(replies) for _, replies in self._scripts)

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


class Driven(Runtime):
    """A runtime that keeps what it notifies, and does what it is told from inside.

    Args:
        program: An interpreter that finds it.
        folder: A folder of its own.
        home: The DSH home with its sessions.
        cwd: The working directory of new sessions.
        url: Base URL of the model's API.
        changes: Changes to its profile.
        env: Further environment variables.
        model: The model.
    """

    def __init__(
        self,
        program: Path,
        folder: Path,
        *,
        home: Path,
        cwd: Path,
        url: str,
        changes: Iterable[Message] = (),
        env: Mapping[str, str] | None = None,
        model: str = MODEL,
    ) -> None:
        self._listener = socket.create_server((HOST, 0))
        self._listener.settimeout(DEADLINE)
        port = str(self._listener.getsockname()[1])
        self._inside: socket.socket | None = None
        self._over = False
        plugin = {"insert": [{"id": "inside", "name": INSIDE.as_uri()}]}
        super().__init__(
            program,
            folder,
            home=home,
            cwd=cwd,
            url=url,
            changes=[*changes, plugin],
            env={"INSIDE_PORT": port, **(env or {})},
            model=model,
        )

    def __enter__(self) -> Self:
        super().__enter__()
        self._inside, _ = self._listener.accept()
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

    def inside(self, body: str, **values: Any) -> Any:
        """Run a function inside and return what it returns.

        Args:
            body: The body of an async function, with ``ctx`` and `values` in its scope.
            values: Constants of it.
        """
        assert self._inside is not None
        constants = "".join(
            f"const {name} = {json.dumps(value)};" for name, value in values.items()
        )
        self._inside.sendall(json.dumps({"id": 0, "body": constants + body}).encode() + b"\n")
        answer = json.loads(self._lines.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["value"]

    def send(self, session_id: str, *blocks: str | Message) -> str:
        """Say something in a session without waiting; return the message's id."""
        content = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
        params = {"sessionId": session_id, "contentBlocks": content}
        found: str = self._request("session/prompt", params)["messageId"]
        return found

    def wait(self, session_id: str) -> None:
        """Wait until a session and its children have nothing left to do."""
        self._request("session/wait", {"sessionId": session_id})

    def wait_for(self, session_id: str, kind: str, count: int = 1) -> None:
        """Wait until events of a type were notified in a session."""
        self._read_until(
            lambda: sum(event["type"] == kind for event in self.events()[session_id]) >= count,
            f"{kind} in {session_id}",
        )

    def events(self) -> dict[str, list[Message]]:
        """Return the events that were notified, by session."""
        found: dict[str, list[Message]] = defaultdict(list)
        for message in self._notified:
            if message["method"] == "session.event":
                params = message["params"]
                found[params["sessionId"]].append(params["event"])
        return found

    def shut_down(self) -> None:
        """End it in peace, and take what it still notifies."""
        self._request("shutdown")
        self._popen.wait(DEADLINE)
        self._over = True
        with suppress(EOFError):
            self._read_until(lambda: False, "the end")

    def kill(self) -> None:
        """End it at once."""
        self._popen.kill()
        self._popen.wait()
        self._over = True
        with suppress(EOFError):
            self._read_until(lambda: False, "the end")

    def _end(self) -> None:
        super()._end()
        if self._inside is not None:
            self._lines.close()
            self._inside.close()
        self._listener.close()
