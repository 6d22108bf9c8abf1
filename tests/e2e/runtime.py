"""The real runtime, as a process of its own that is told what to do over its standard input."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from tests.e2e.cli import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Self

LAUNCH: Final = "from deepseek_harness_runtime import main; main()"
"""Makes the interpreter become the runtime: the process keeps its id."""

PROVIDER: Final = "deepseek-official"
MODEL: Final = "deepseek-v4-flash"
DEADLINE: Final = 60.0
"""Seconds that an answer or a turn may take."""

Message = dict[str, Any]


class RefusedError(Exception):
    """The runtime has refused a request; the message is its own."""


class Runtime:
    """A runtime that does not retry, ended with the block that it was started for.

    Args:
        program: An interpreter that finds it.
        folder: A folder of its own.
        home: The DSH home with its sessions.
        cwd: The working directory of new sessions.
        url: Base URL of the model's API.
        compress: Whether its logs are compressed.
        changes: Further changes to its profile.
        env: Further environment variables.
        model: The model that it asks for.
    """

    def __init__(
        self,
        program: Path,
        folder: Path,
        *,
        home: Path,
        cwd: Path,
        url: str,
        compress: bool = True,
        changes: Iterable[Message] = (),
        env: Mapping[str, str] | None = None,
        model: str = MODEL,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._about = {"cwd": str(cwd), "provider": PROVIDER, "model": model}
        self._log = folder / "runtime.log"
        self._messages: queue.Queue[Message | None] = queue.Queue()
        self._count = 0
        self._notified: list[Message] = []
        how = {"root": str(home / "sessions"), "compression": "zstd" if compress else "none"}
        patches: list[Message] = [
            {"id": "session-persistence-jsonl", "config": how},
            # What fails shall be seen at once, and alone.
            {"id": "llm-retry", "disabled": True},
            *changes,
        ]
        patch = folder / "patch.yml"
        # JSON is YAML.
        patch.write_text(json.dumps(patches))
        command = [program, "-I", "-c", LAUNCH, "--profile", "sdk", "--patch", patch]
        settings = {
            "HOME": str(folder),
            "DSH_HOME": str(home),
            "DSH_PERMISSION_MODE": "danger-full-access",
            "DSH_TELEMETRY_MODE": "DISABLED",
            "DEEPSEEK_BASE_URL": url,
            "DEEPSEEK_API_KEY": "made-up",
            **(env or {}),
        }
        with self._log.open("wb") as errors:
            self._popen = subprocess.Popen(
                list(map(str, command)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=cwd,
                env=environment(**settings),
            )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        try:
            self._request("initialize", self._about)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._request("shutdown")
        finally:
            self._end()

    def resume(self, session_id: str) -> None:
        """Have it go on with a stored session.

        Raises:
            RefusedError: It does not; the message says why.
        """
        self._request("session/resume", {"sessionId": session_id})

    def prompt(self, session_id: str, text: str) -> list[Message]:
        """Say something in a session, and wait until nothing is left to do.

        Args:
            session_id: The session; made if there is none.
            text: What to say.

        Returns:
            The events that came of it.

        Raises:
            RefusedError: It does not take it.
        """
        before = len(self._notified)
        blocks = [{"type": "text", "text": text}]
        result = self._request("session/prompt", {"sessionId": session_id, "contentBlocks": blocks})
        self._read_until(
            lambda: self._is_over(before, session_id, result["messageId"]), f"the turn of {text!r}"
        )
        return [one["event"] for one in self._of(before, session_id) if "event" in one]

    def _is_over(self, before: int, session_id: str, message_id: str) -> bool:
        received = False
        for one in self._of(before, session_id):
            event = one.get("event", {})
            if event.get("type") == "agent/inbox/spliced":
                received |= any(new["id"] == message_id for new in event["data"]["inserted"])
            if received and one.get("status") == "idle":
                return True
        return False

    def _of(self, before: int, session_id: str) -> list[Message]:
        found = [one.get("params", {}) for one in self._notified[before:]]
        return [params for params in found if params.get("sessionId") == session_id]

    # What goes to and fro

    def _request(self, method: str, params: Message | None = None) -> Message:
        self._count += 1
        message: Message = {"jsonrpc": "2.0", "id": str(self._count), "method": method}
        if params is not None:
            message["params"] = params
        assert self._popen.stdin is not None
        # One that has ended says so when its answer is read.
        with suppress(BrokenPipeError):
            self._popen.stdin.write(json.dumps(message).encode() + b"\n")
            self._popen.stdin.flush()
        answers: list[Message] = []
        self._read_until(lambda: bool(answers), method, answers)
        (answer,) = answers
        if "error" in answer:
            raise RefusedError(answer["error"]["message"])
        result: Message = answer["result"]
        return result

    def _read_until(
        self, condition: Callable[[], bool], what: str, answers: list[Message] | None = None
    ) -> None:
        end = time.monotonic() + DEADLINE
        while not condition():
            try:
                message = self._messages.get(timeout=max(end - time.monotonic(), 0))
            except queue.Empty:
                raise TimeoutError(f"{what}: not within {DEADLINE:.0f} s. {self._said()}") from None
            if message is None:
                raise EOFError(f"{what}: the runtime has ended. {self._said()}")
            if "method" in message:
                self._notified.append(message)
            elif answers is not None:
                answers.append(message)

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            self._messages.put(json.loads(line) if line.strip() else {"method": ""})
        self._messages.put(None)

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]

    def _end(self) -> None:
        """End the process; it may finish what it has begun."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        with suppress(BrokenPipeError):
            self._popen.stdin.close()
        try:
            self._popen.wait(10)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._reader.join()
        self._popen.stdout.close()
