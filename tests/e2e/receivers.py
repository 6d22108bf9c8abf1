"""Receivers on loopback ports: the real ones as processes, and a bare HTTP server of our own."""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

from tests.e2e.cli import environment
from tests.e2e.spans import from_json_lines, from_protobuf

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from tests.e2e.spans import Span

HOST: Final = "127.0.0.1"
DEADLINE: Final = 60.0
"""Seconds after which something that should have happened has not."""

PAUSE: Final = 0.05
"""Seconds between two looks."""


def wait_until(
    condition: Callable[[], bool], what: str, deadline: float = DEADLINE, log: Path | None = None
) -> None:
    """Wait for a condition.

    Raises:
        TimeoutError: It did not become true; the message has the end of the log.
    """
    end = time.monotonic() + deadline
    while not condition():
        if time.monotonic() > end:
            said = log.read_text(errors="replace")[-2000:] if log is not None else ""
            raise TimeoutError(f"{what}: not within {deadline:.0f} s. {said}")
        time.sleep(PAUSE)


def free_ports(count: int) -> list[int]:
    """Return ports on which nobody listens, each another."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Process:
    """A server that is a process of its own, ended with the block that it was started for."""

    def __init__(self, command: Sequence[str | Path], log: Path) -> None:
        self.log = log
        with log.open("wb") as out:
            self._popen = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                env=environment(),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def wait_for_port(self, port: int) -> None:
        """Wait until somebody listens."""
        wait_until(lambda: self._listens(port), f"port {port} of {self.log.stem}", log=self.log)

    def _listens(self, port: int) -> bool:
        if self._popen.poll() is not None:
            said = self.log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{self.log.stem} ended with {self._popen.returncode}: {said}")
        try:
            socket.create_connection((HOST, port), timeout=1).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        """End the process; it may finish what it has begun."""
        self._popen.terminate()
        try:
            self._popen.wait(20)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()


class Collector(Process):
    """A real OpenTelemetry Collector.

    Args:
        program: Where it is.
        folder: A folder of its own; what arrives is written there.
        reads: A file of OTLP JSON to read, with the settings that its receiver has by default.
    """

    def __init__(self, program: Path, folder: Path, reads: Path | None = None) -> None:
        (self.port,) = free_ports(1)
        self.endpoint = f"http://{HOST}:{self.port}"
        self._arrived = folder / "arrived.jsonl"
        receivers: dict[str, Any] = {
            "otlp": {"protocols": {"http": {"endpoint": f"{HOST}:{self.port}"}}}
        }
        if reads is not None:
            # It would add the file's name to every span.
            options = {"start_at": "beginning", "include_file_name": False}
            receivers["otlp_json_file"] = {"include": [str(reads)], **options}
        pipeline = {"receivers": list(receivers), "exporters": ["file"]}
        settings = {
            "receivers": receivers,
            "exporters": {"file": {"path": str(self._arrived), "flush_interval": "50ms"}},
            # No port for metrics of its own.
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"traces": pipeline},
            },
        }
        # JSON is YAML.
        config = folder / "collector.yaml"
        config.write_text(json.dumps(settings, indent=1))
        super().__init__([program, "--config", config], folder / "collector.log")
        try:
            self.wait_for_port(self.port)
        except BaseException:
            self.stop()
            raise

    def arrived(self) -> list[Span]:
        """Return the spans that have arrived and are written by now."""
        return from_json_lines(self._arrived.read_bytes())

    def wait_for(self, count: int) -> None:
        """Wait until at least so many spans have arrived."""
        wait_until(
            lambda: len(self.arrived()) >= count, f"{count} spans in the Collector", log=self.log
        )

    def stopped(self) -> list[Span]:
        """End the Collector and return all that has arrived in its life."""
        self.stop()
        return self.arrived()


class Rotel(Process):
    """A real rotel that passes on what it gets.

    Args:
        program: Where it is.
        folder: A folder of its own.
        target: Base URL of the next OTLP receiver.
    """

    def __init__(self, program: Path, folder: Path, target: str) -> None:
        http, grpc = free_ports(2)
        self.endpoint = f"http://{HOST}:{http}"
        options = {
            "otlp-http-endpoint": f"{HOST}:{http}",
            "otlp-grpc-endpoint": f"{HOST}:{grpc}",
            "exporter": "otlp",
            "otlp-exporter-endpoint": target,
            "otlp-exporter-protocol": "http",
            "pid-file": folder / "rotel.pid",
            "log-file": folder / "agent.log",
        }
        command: list[str | Path] = [program, "start"]
        command += [f"--{name}={value}" for name, value in options.items()]
        super().__init__(command, folder / "rotel.log")
        try:
            self.wait_for_port(http)
        except BaseException:
            self.stop()
            raise


@dataclass(frozen=True)
class Request:
    """A request that a sink got."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Sink:
    """A bare HTTP server that keeps what it gets.

    Attributes:
        status: What it answers.
        answer: The body of its answers.
        headers: Further headers of its answers.
        mute: Whether it takes requests and never answers.
        requests: What it got, uncompressed.
    """

    status: int = 200
    answer: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    mute: bool = False
    requests: list[Request] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._over = threading.Event()
        self._server = ThreadingHTTPServer((HOST, 0), self._handler())
        self._server.daemon_threads = True
        self.endpoint = f"http://{HOST}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(PAUSE,))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def spans(self) -> list[Span]:
        """Return the spans that have arrived by now."""
        return [
            span
            for request in list(self.requests)
            if request.path.endswith("/v1/traces")
            for span in from_protobuf(request.body)
        ]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                headers = {name.lower(): value for name, value in self.headers.items()}
                sink.requests.append(Request(self.path, headers, body))
                if sink.mute:
                    sink._over.wait()
                    self.close_connection = True
                    return
                self.send_response(sink.status)
                for name, value in {
                    "content-type": "application/x-protobuf",
                    **sink.headers,
                }.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(sink.answer)))
                self.end_headers()
                self.wfile.write(sink.answer)

            def log_message(self, *_: object) -> None:
                """Keep quiet."""

        return Handler
