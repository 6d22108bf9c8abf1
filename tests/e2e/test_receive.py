"""Receiving as a process: real exporters, garbage, pressure, dead endpoints, signals."""

from __future__ import annotations

import gzip
import json
import random
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from tests import paths
from tests.e2e import cli
from tests.e2e.receive_api import API
from tests.e2e.receivers import HOST, Sink, free_ports, wait_until
from tests.e2e.spans import expected_spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schemathesis import Case

pytestmark = pytest.mark.e2e

BODIES: Final = sorted(paths.OTLP.glob("*.json"))
JSON: Final = {"content-type": "application/json"}
LOG: Final = paths.DECODED / "old-0.1.2rc1--otlp.jsonl"
ODD_BODIES: Final = 10_000


class Receiving:
    """A ``dsh-otel receive``.

    Args:
        folder: Where its output goes.
        arguments: Further arguments.
        env: Environment variables.
    """

    def __init__(self, folder: Path, *arguments: str | Path, **env: str) -> None:
        self.said, self.lines = folder / "said", folder / "lines"
        with self.said.open("wb") as err, self.lines.open("wb") as out:
            self.process = cli.start(
                *("receive", "--port", "0", "--jsonl"), *arguments, env=env, stdout=out, stderr=err
            )

    @property
    def url(self) -> str:
        def is_ready() -> bool:
            assert self.process.poll() is None, self.said.read_text()
            return "ready: " in self.said.read_text()

        wait_until(is_ready, "the endpoint", log=self.said)
        return self.said.read_text().partition("ready: ")[2].partition(";")[0]

    @property
    def memory(self) -> int:
        """How much of the process is in memory, in MiB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.partition("VmRSS:")[2].split()[0]) >> 10

    def facts(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines.read_bytes().splitlines()]

    def post(self, body: Any, **headers: str) -> requests.Response:
        named = JSON | {name.replace("_", "-"): value for name, value in headers.items()}
        return requests.post(self.url, data=body, headers=named, timeout=60)

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, dict[str, Any], float]:
        """End it; return its exit code, its summary, and how long that took."""
        begin = time.monotonic()
        self.process.send_signal(number)
        code = self.process.wait(60)
        return code, self.facts()[-1], time.monotonic() - begin


@contextmanager
def receiving(folder: Path, *arguments: str | Path, **env: str) -> Iterator[Receiving]:
    made = Receiving(folder, *arguments, **env)
    try:
        assert made.url
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
            made.process.wait()


def otlp(endpoint: str) -> dict[str, str]:
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}


def test_recorded_exports_break_no_contract(tmp_path: Path) -> None:
    with Sink() as sink, receiving(tmp_path, "--to", "otlp", **otlp(sink.endpoint)) as made:
        for _ in range(2):
            for path in BODIES:
                plain = made.post(path.read_bytes())
                packed = made.post(gzip.compress(path.read_bytes()), content_encoding="gzip")
                assert (plain.status_code, plain.json()) == (200, {})
                assert (packed.status_code, packed.json()) == (200, {})
        code, summary, _ = made.stop()
    assert code == 0
    assert summary["findings"].get("violation", 0) == 0
    assert summary["findings"].get("damage", 0) == 0
    assert (summary["sessions"], summary["events"]) == (2, 78)
    assert summary["asides"]["duplicate"] == 3 * 78
    assert summary["sent"] == len({one.key for one in sink.spans()}) == len(sink.spans()) > 20


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_a_real_exporter_gives_the_spans_of_the_log(
    compression: Compression, tmp_path: Path
) -> None:
    """Each event of a real session, sent as the harness sends it, by another program."""
    rows = [json.loads(line) for line in LOG.read_bytes().splitlines()[1:]]
    with Sink() as sink, receiving(tmp_path, "--to", "otlp", **otlp(sink.endpoint)) as made:
        resource = Resource({"service.name": "deepseek-harness", "service.version": "0.1.2-rc.1"})
        provider = LoggerProvider(resource=resource)
        exporter = OTLPLogExporter(endpoint=made.url, compression=compression)
        provider.add_log_record_processor(
            BatchLogRecordProcessor(exporter, schedule_delay_millis=50, max_export_batch_size=20)
        )
        logger = provider.get_logger("@deepseek-ai/dsh-session-telemetry-otel", "0.1.2-rc.1")
        for row in rows:
            if "seq" not in row:
                continue
            attributes = {"session.id": "old-1", "event.type": row["type"], "event.seq": row["seq"]}
            logger.emit(
                LogRecord(
                    timestamp=row["time"] * 1_000_000,
                    severity_number=SeverityNumber.INFO,
                    body=row["data"],
                    attributes=attributes,
                )
            )
        provider.shutdown()
        code, summary, _ = made.stop()
        assert code == 0
        assert summary["requests"] == {"200": summary["requests"]["200"]}
        assert summary["rejected"] == 0
        assert summary["findings"].get("violation", 0) == 0
        found = {one.key[1]: one.name for one in sink.spans()}
    exact = {one.key[1]: one.name for one in expected_spans(LOG)}
    assert set(found.values()) == set(exact.values())
    assert len(found) == len(exact)
    # An attempt has the id of its first sign; chunks that are packed in the log are not sent here.
    assert {name for key, name in found.items() if key not in exact} <= {"chat deepseek-v4-flash"}


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiving]:
    with receiving(tmp_path_factory.mktemp("receive")) as made:
        yield made
        code, summary, _ = made.stop()
        assert code == 0
        assert not summary["errors"]
        assert not [status for status in summary["requests"] if status.startswith("50")]


schemathesis.openapi.media_type("application/x-protobuf", st.binary(max_size=500))
schema = schemathesis.openapi.from_dict(API)


@schema.parametrize()
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_fuzzer_finds_no_answer_that_is_not_described(
    case: Case[Any], endpoint: Receiving
) -> None:
    case.call_and_validate(
        base_url=endpoint.url.removesuffix("/v1/logs"),
        timeout=30,
        # What OTLP does not know is passed over, and records are rejected by number.
        excluded_checks=[negative_data_rejection, positive_data_acceptance],
    )


def odd_body(rng: random.Random, bodies: list[bytes]) -> tuple[bytes, dict[str, str]]:
    """Return a body that is random, or real and changed, and its headers."""
    body = bytearray(
        rng.choice(bodies) if rng.random() < 0.8 else rng.randbytes(rng.randrange(500))
    )
    for _ in range(rng.randrange(8)):
        place = rng.randrange(len(body) + 1)
        body[place : place + rng.randrange(4)] = rng.choice(
            [rng.randbytes(rng.randrange(4)), b"[" * rng.randrange(300), b'"', b"9" * 30, b"null"]
        )
    headers = {"content_type": rng.choice(["application/json", "application/x-protobuf"])}
    data = bytes(body)
    if rng.random() < 0.3:
        headers["content_encoding"] = "gzip"
        data = gzip.compress(data, 1) if rng.random() < 0.8 else data
    return data, headers


def test_ten_thousand_odd_bodies_cost_nothing(tmp_path: Path) -> None:
    """No answer is an error of the server, and memory does not grow with their number."""
    from tests.otel.sources.test_otlp_logs import as_protobuf

    bodies = [path.read_bytes() for path in BODIES] + [as_protobuf(path) for path in BODIES]
    # Small ones are as odd as large ones.
    small = [body[: 1 << 12] for body in bodies]
    statuses: set[int] = set()
    with receiving(tmp_path, "--to", "file", "--output", tmp_path / "spans.json") as made:
        base = made.url

        def send(seed: int, count: int) -> None:
            rng = random.Random(seed)
            with requests.Session() as session:
                for index in range(count):
                    one = bodies if index % 20 == 0 else small
                    data, headers = odd_body(rng, one)
                    named = {name.replace("_", "-"): value for name, value in headers.items()}
                    answer = session.post(base, data=data, headers=named, timeout=60)
                    statuses.add(answer.status_code)

        def send_all(first: int, count: int) -> None:
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda seed: send(seed, count // 4), range(first, first + 4)))

        send_all(0, ODD_BODIES // 5)
        before = made.memory
        send_all(10, ODD_BODIES - ODD_BODIES // 5)
        after = made.memory
        assert made.process.poll() is None
        code, summary, _ = made.stop()
    assert statuses <= {200, 400, 413, 415, 429}
    assert {200, 400} <= statuses
    assert after - before < 32
    assert not summary["errors"]
    assert code == 0


def test_bombs_and_large_bodies_are_refused(tmp_path: Path) -> None:
    with receiving(tmp_path, "--max-body", "1") as made:
        assert made.post(BODIES[0].read_bytes()).status_code == 200
        before = made.memory
        bomb = gzip.compress(gzip.compress(bytes(1 << 28)))
        for body in (gzip.compress(bytes(1 << 29)), bomb, gzip.compress(bytes(1 << 21))):
            assert made.post(body, content_encoding="gzip").status_code in {400, 413}
        assert made.post(bytes(3 << 20)).status_code == 413

        def pieces() -> Iterator[bytes]:
            for _ in range(24):
                yield bytes(1 << 16)

        assert made.post(pieces()).status_code == 413
        assert made.memory - before < 32


def test_it_says_who_may_come_in(tmp_path: Path) -> None:
    body = BODIES[0].read_bytes()
    with receiving(tmp_path, DSH_OTEL_TOKEN="secret") as made:
        assert made.post(body).status_code == 401
        assert made.post(body, authorization="Bearer secret").status_code == 200
    with receiving(tmp_path, "--host", "0.0.0.0") as made:
        assert "anybody who reaches 0.0.0.0 may send" in made.said.read_text()


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with receiving(tmp_path) as made:
        port = made.url.rpartition(":")[2].partition("/")[0]
        done = cli.run("receive", "--port", port)
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1, port {port}" in done.stderr


def turns(number: int, count: int) -> bytes:
    """Return a request with so many turns of a session of that number."""

    def record(turn: int, kind: str, body: Any) -> dict[str, Any]:
        values = {"session.id": f"s-{number}", "event.type": kind}
        seq = 2 * turn + bool(body)
        named = [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]
        named.append({"key": "event.seq", "value": {"intValue": seq}})
        told = {"key": "turn", "value": {"intValue": turn + 1}}
        reason = {"key": "kind", "value": {"stringValue": "completed"}}
        nested = {"key": "reason", "value": {"kvlistValue": {"values": [reason]}}}
        values_ = [told, nested] if body else [told]
        return {
            "timeUnixNano": str(1_700_000_000_000_000_000 + seq),
            "body": {"kvlistValue": {"values": values_}},
            "attributes": named,
        }

    records = [
        one
        for turn in range(count)
        for one in (record(turn, "turn/start", False), record(turn, "turn/end", True))
    ]
    scope = {"scope": {"name": "x"}, "logRecords": records}
    return json.dumps({"resourceLogs": [{"scopeLogs": [scope]}]}).encode()


@pytest.mark.parametrize("mute", [False, True], ids=["dead", "mute"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_endpoint_that_takes_nothing_holds_nobody_up(
    number: int, mute: bool, tmp_path: Path
) -> None:
    """Requests are answered as ever, what waits has a bound, and the end comes in time."""
    (port,) = free_ports(1)
    with Sink(mute=True) as sink:
        where = sink.endpoint if mute else f"http://{HOST}:{port}"
        with receiving(tmp_path, "--to", "otlp", **otlp(where)) as made:
            slowest, before = 0.0, made.memory
            for session in range(40):
                begin = time.monotonic()
                assert made.post(turns(session, 500)).status_code == 200
                slowest = max(slowest, time.monotonic() - begin)
            grown = made.memory - before
            code, summary, seconds = made.stop(number)
    assert slowest < 5
    assert grown < 250
    assert code == 1
    assert seconds < 7
    assert summary["sent"] == 0
    assert summary["dropped"] > 0
    assert summary["left"] > 0
    assert summary["dropped"] + summary["left"] == summary["turns"] == 20_000
    said = made.said.read_text()
    assert f"{summary['dropped']:,} dropped" in said
    assert f"{summary['left']:,} left" in said


def test_requests_that_were_taken_are_worked_on_before_it_ends(tmp_path: Path) -> None:
    statuses: list[int] = []
    with Sink() as sink, receiving(tmp_path, "--to", "otlp", **otlp(sink.endpoint)) as made:
        base = made.url

        def send(number: int) -> None:
            try:
                answer = requests.post(base, data=turns(number, 50), headers=JSON, timeout=30)
                statuses.append(answer.status_code)
            except requests.ConnectionError:
                statuses.append(0)

        threads = [threading.Thread(target=send, args=(number,)) for number in range(30)]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        code, summary, seconds = made.stop()
        for thread in threads:
            thread.join()
    assert seconds < 7
    # Whoever was told yes was heard, to the end.
    assert summary["turns"] == 50 * statuses.count(200) == summary["sent"]
    assert set(statuses) <= {0, 200, 429, 503}
    assert code == 0


def test_killed_and_started_again_it_goes_on_with_what_it_is_told(tmp_path: Path) -> None:
    """It keeps nothing; an exporter that sends again gives the same spans again."""
    want: set[tuple[str, str]] = set()
    for run in range(2):
        folder = tmp_path / str(run)
        folder.mkdir()
        with Sink() as sink, receiving(folder, "--to", "otlp", **otlp(sink.endpoint)) as made:
            assert made.post(BODIES[0].read_bytes()).status_code == 200
            if run:
                made.stop()
                assert {one.key for one in sink.spans()} >= want
                continue
            wait_until(lambda sink=sink: len(sink.spans()) > 3, "spans")  # type: ignore[misc]
            made.process.kill()
            want = {one.key for one in sink.spans()}


def test_a_client_that_stalls_or_leaves_holds_nobody_up(tmp_path: Path) -> None:
    with receiving(tmp_path) as made:
        host, port = made.url.removeprefix("http://").partition("/")[0].split(":")
        head = b"POST /v1/logs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        stalled = [socket.create_connection((host, int(port))) for _ in range(20)]
        for one in stalled:
            one.sendall(head + b"content-length: 1000\r\n\r\n{")
        for _ in range(20):
            with socket.create_connection((host, int(port))) as gone:
                gone.sendall(head + b"content-length: 10\r\n\r\n{}        ")
        with socket.create_connection((host, int(port))) as odd:
            odd.sendall(b"\x00\xff not http\r\n\r\n")
        assert made.post(BODIES[0].read_bytes()).status_code == 200
        code, _, seconds = made.stop()
        for one in stalled:
            one.close()
    assert code == 0
    assert seconds < 7


def test_telemetry_that_is_switched_off_stays_off() -> None:
    done = cli.run("receive", DSH_TELEMETRY_DISABLED="1")
    assert (done.returncode, done.stdout) == (0, "")
    assert "DSH_TELEMETRY_DISABLED" in done.stderr
