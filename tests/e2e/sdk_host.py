"""A program with the real SDK, driven from a test; see `tests.e2e.host`."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dsh_core.logs.find import LogFile, search_logs
from dsh_core.logs.reader import SessionLog
from tests.e2e.cli import environment
from tests.e2e.receivers import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import Self

    from tests.e2e.driven import Model
    from tests.e2e.runtime import Message
    from tests.e2e.tailing import Tailing

ROOT: Final = Path(__file__).parents[2]
DEADLINE: Final = 120.0

PATIENCE: Final = {"wait_s": 30, "linger_s": 300}
"""A machine may be slow."""

OTHER: Final = 65534
"""A user who is nobody in particular."""

AS_OTHER: Final = """#!{python}
import os, sys
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({user})
    os.setuid({user})
os.execv({program!r}, [{program!r}, *sys.argv[1:]])
"""


def site_packages(program: Path) -> Path:
    """Return the packages of the environment that an interpreter belongs to."""
    (found,) = program.parents[1].glob("lib/python*/site-packages")
    return found


class SdkHost:
    """A program that uses the SDK, ended with the block that it was started for.

    Args:
        program: An interpreter that finds the SDK and its runtime.
        folder: A folder of its own.
        model: What plays the model.
        traced: Whether it is instrumented.
        options: How.
        changes: Changes to the profile of its runtimes.
        env: Further environment variables.

    Attributes:
        home: The DSH home.
        cwd: The working directory of its sessions.
        spans: The file with its spans, see `tests.e2e.rows`.
        counts: What did not go as usual; known when it has ended.
        tail: What follows its home, if something does.
    """

    def __init__(
        self,
        program: Path,
        folder: Path,
        model: Model,
        *,
        traced: bool = True,
        options: Mapping[str, Any] | None = None,
        changes: Iterable[Message] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.home, self.cwd, self.spans = folder / "home", folder / "ws", folder / "spans.jsonl"
        self.counts: dict[str, int] = {}
        self.tail: Tailing | None = None
        self._folder, self._model = folder, model
        self._packages = site_packages(program)
        for made in (self.home, self.cwd):
            made.mkdir(parents=True, exist_ok=True)
        self._patch = folder / "patch.yml"
        patches: list[Message] = [{"id": "llm-retry", "disabled": True}, *changes]
        self._patch.write_text(json.dumps(patches))
        self._runtime: dict[str, Any] = {}
        settings = {
            "spans": str(self.spans) if traced else "",
            "options": {**PATIENCE, **(options or {})},
        }
        # The SDK's packages come last: what both have is ours.
        python_path = os.pathsep.join([str(ROOT), *filter(None, sys.path), str(self._packages)])
        settings_env = {
            "HOME": str(folder),
            "PYTHONPATH": python_path,
            "DSH_PERMISSION_MODE": "danger-full-access",
            "DSH_TELEMETRY_MODE": "DISABLED",
            **(env or {}),
        }
        self._log = folder / "host.log"
        with self._log.open("wb") as errors:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "tests.e2e.host", json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                env=environment(**settings_env),
            )
        self._answers: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.counts = self._do("finish")
        finally:
            assert self._popen.stdin is not None
            assert self._popen.stdout is not None
            self._popen.stdin.close()
            try:
                self._popen.wait(20)
            except subprocess.TimeoutExpired:
                self._popen.kill()
                self._popen.wait()
            self._reader.join()
            self._popen.stdout.close()
        if error is None:
            assert self._popen.returncode == 0, self._said()

    def as_other_user(self) -> None:
        """Have runtimes run as somebody who is not root, and own what is there by now."""
        runtime = self._packages / "deepseek_harness_runtime" / "runtime"
        (program,) = (
            one
            for one in runtime.glob("deepseek-harness-sdk-runtime-*")
            if not one.name.endswith("-rg")
        )
        script = self._folder / "dsh"
        script.write_text(AS_OTHER.format(python=sys.executable, user=OTHER, program=str(program)))
        script.chmod(0o755)
        self._runtime["dsh_bin"] = str(script)
        if os.geteuid() == 0:
            for one in (self._folder, self.home, self.cwd):
                os.chown(one, OTHER, OTHER)
                one.chmod(0o755)

    def start(self, **changes: object) -> None:
        """Start a runtime; it is ended with `close` or `kill`.

        Args:
            changes: Other options for the SDK; None takes one away.
        """
        options = {
            "base_url": self._model.url,
            "api_key": "made-up",
            "dsh_home": str(self.home),
            "cwd": str(self.cwd),
            "patches": [str(self._patch)],
            "shutdown_timeout_seconds": 20.0,
            **self._runtime,
            **changes,
        }
        self._do("start", {name: one for name, one in options.items() if one is not None})

    def resume(self, session_id: str) -> None:
        """Go on with a stored session."""
        self._do("resume", session_id)

    def run(self, session_id: str, text: str = "go") -> list[str]:
        """Say something, wait for what comes of it, and return the types of the events."""
        found: list[str] = self._do("run", session_id, text)
        return found

    def run_under(self, name: str, session_id: str, text: str = "go") -> None:
        """Do so within a span of the program."""
        self._do("run_under", name, session_id, text)

    def begin(self, session_id: str, text: str = "go") -> None:
        """Say something, and do not wait for what comes of it."""
        self._do("begin", session_id, text)

    def until(self, session_id: str, kind: str, count: int = 1) -> None:
        """Wait until so many events of a type were told, and are in the log."""
        self._do("until", session_id, kind, count)
        wait_until(
            lambda: self._logged(session_id).count(kind) >= count,
            f"{kind} in the log of {session_id}",
        )

    def wait(self, session_id: str) -> None:
        """Wait until a session and its children have nothing left to do."""
        self._do("wait", session_id)

    def kill(self) -> None:
        """End the runtime at once."""
        self._do("kill")

    def close(self) -> None:
        """End the runtime in peace, whatever it is doing."""
        self._do("close")

    def logs(self) -> dict[str, LogFile]:
        """Return the logs by session."""
        found = {}
        for log in search_logs([str(self.home)])[0]:
            with log.open() as source:
                found[SessionLog(source, log.path).header.id] = log
        return found

    def _logged(self, session_id: str) -> list[str]:
        log = self.logs().get(session_id)
        if log is None:
            return []
        with log.open() as source:
            return [event.type for event in SessionLog(source, log.path)]

    def _do(self, name: str, *arguments: Any) -> Any:
        assert self._popen.stdin is not None
        self._popen.stdin.write(json.dumps([name, *arguments]).encode() + b"\n")
        self._popen.stdin.flush()
        try:
            line = self._answers.get(timeout=DEADLINE)
        except queue.Empty:
            raise TimeoutError(f"{name}{arguments}: {self._said()}") from None
        answer = json.loads(line) if line else {"error": "the program has ended"}
        if "error" in answer:
            raise RuntimeError(f"{name}{arguments}: {answer['error']}\n{self._said()}")
        return answer["value"]

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            self._answers.put(line)
        self._answers.put(b"")

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]
