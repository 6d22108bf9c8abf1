"""A program that runs agents with the real SDK, and does what it is told over its standard input.

Each line is a list of a method's name and its arguments; each answer is a line too. It runs with
the SDK in its path, in a process of its own.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from deepseek_harness import DeepSeekHarness  # type: ignore[import-not-found]
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from dsh_otel.ids import DerivedIdGenerator
from dsh_otel.instrumentor import DshInstrumentor
from tests.e2e.rows import RowExporter

DEADLINE = 60.0


class Host:
    """What the program can do.

    Args:
        spans: Where its spans go, empty for nowhere.
        options: How it instruments the SDK.
    """

    def __init__(self, spans: str, options: dict[str, Any]) -> None:
        self._harness: Any = None
        self._told: Counter[tuple[str, str]] = Counter()
        self._news = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._instrumentor: DshInstrumentor | None = None
        self._tracer = trace.get_tracer("program")
        if spans:
            provider = TracerProvider(id_generator=DerivedIdGenerator())
            provider.add_span_processor(SimpleSpanProcessor(RowExporter(Path(spans))))
            self._tracer = provider.get_tracer("program")
            self._instrumentor = DshInstrumentor()
            self._instrumentor.instrument(tracer_provider=provider, **options)

    def start(self, options: dict[str, Any]) -> None:
        """Start a runtime."""
        self._harness = DeepSeekHarness(**options)
        self._harness.start()

    def resume(self, session_id: str) -> None:
        """Go on with a session."""
        self._harness.resume_session(session_id)

    def run(self, session_id: str, text: str) -> list[str]:
        """Say something, and return the types of the events that came of it."""
        result = self._harness.run(text, session_id=session_id, on_notification=self._note)
        return [event["type"] for event in result.events]

    def run_under(self, name: str, session_id: str, text: str) -> None:
        """Do so within a span of the program."""
        with self._tracer.start_as_current_span(name):
            self.run(session_id, text)

    def begin(self, session_id: str, text: str) -> None:
        """Say something, and do not wait for what comes of it."""
        thread = threading.Thread(target=self._try, args=(session_id, text))
        thread.start()
        self._threads.append(thread)

    def until(self, session_id: str, kind: str, count: int) -> None:
        """Wait until so many events of a type were told."""
        with self._news:
            key = (session_id, kind)
            if not self._news.wait_for(lambda: self._told[key] >= count, DEADLINE):
                raise TimeoutError(f"{count} {kind} in {session_id}")

    def wait(self, session_id: str) -> None:
        """Wait until a session and its children have nothing left to do."""
        from deepseek_harness.client import _EmptyResponse  # type: ignore[import-not-found]

        params = {"sessionId": session_id}
        self._harness.client.request("session/wait", params, response_model=_EmptyResponse)

    def kill(self) -> None:
        """End the runtime at once."""
        process = self._harness.client._proc
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        self._join()
        self._harness.close()

    def close(self) -> None:
        """End the runtime in peace, whatever it is doing."""
        self._harness.close()
        self._join()

    def finish(self) -> dict[str, int]:
        """Have everything traced, and return what did not go as usual."""
        if self._instrumentor is None:
            return {}
        assert self._instrumentor.flush(DEADLINE)
        counts = dict(self._instrumentor.counts)
        self._instrumentor.uninstrument()
        return counts

    def _note(self, notification: Any) -> None:
        if notification.method == "session.event":
            payload = notification.payload
            with self._news:
                self._told[payload["sessionId"], payload["event"]["type"]] += 1
                self._news.notify_all()

    def _try(self, session_id: str, text: str) -> None:
        try:
            self.run(session_id, text)
        except Exception as error:  # noqa: BLE001 - the runtime may be ended meanwhile
            print(f"{type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201 - its log

    def _join(self) -> None:
        for thread in self._threads:
            thread.join(DEADLINE)
        self._threads.clear()


def main() -> None:
    """Do what is told until there is no more."""
    settings = json.loads(sys.argv[1])
    host = Host(settings["spans"], settings["options"])
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            answer = {"value": getattr(host, name)(*arguments)}
        except BaseException as error:  # noqa: BLE001 - it is told
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)  # noqa: T201 - as above


if __name__ == "__main__":
    main()
