"""``dsh-otel tail`` as a process that a test watches."""

from __future__ import annotations

import json
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.e2e import cli
from tests.e2e.receivers import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Tailing:
    """A ``dsh-otel tail``.

    Args:
        root: What it follows.
        folder: Where its output goes.
        arguments: Further arguments.
        env: Environment variables.
    """

    count = 0

    def __init__(self, root: Path, folder: Path, *arguments: str | Path, **env: str) -> None:
        Tailing.count += 1
        self.said = folder / f"said.{Tailing.count}"
        self.lines = folder / f"lines.{Tailing.count}"
        with self.said.open("wb") as err, self.lines.open("wb") as out:
            self.process = cli.start(
                "tail", root, "--jsonl", *arguments, env=env, stdout=out, stderr=err
            )

    def wait_until_ready(self) -> None:
        wait_until(lambda: b"following" in self.said.read_bytes(), "the tail", log=self.said)

    def facts(self) -> list[dict[str, Any]]:
        data = self.lines.read_bytes()
        return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]

    def wait_for(self, event: str, count: int = 1) -> None:
        def found() -> bool:
            return sum(1 for fact in self.facts() if fact["event"] == event) >= count

        wait_until(found, f"{count} {event}", log=self.said)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, dict[str, Any], float]:
        """End it; return its exit code, its summary, and how long that took."""
        begin = time.monotonic()
        self.process.send_signal(number)
        code = self.process.wait(60)
        return code, self.facts()[-1], time.monotonic() - begin


@contextmanager
def tailing(root: Path, folder: Path, *arguments: str | Path, **env: str) -> Iterator[Tailing]:
    made = Tailing(root, folder, *arguments, **env)
    try:
        made.wait_until_ready()
        yield made
    finally:
        if made.process.poll() is None:
            made.kill()


def otlp(endpoint: str) -> dict[str, str]:
    """Return the environment that has spans sent to an endpoint."""
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
