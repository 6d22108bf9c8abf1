"""OTLP over HTTP, against a receiver on the loopback."""

from __future__ import annotations

import gzip
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from dsh_otel.export.otlp import OtlpSink, SettingError, endpoint_of, shown
from dsh_otel.export.sink import MissingExtraError
from dsh_otel.replay import ReplaySpanProcessor, replay_provider
from tests.otel.support import Script, Tracing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.otel.conftest import Logged

PROTOBUF = "application/x-protobuf"


@dataclass
class Answer:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def names(self) -> list[str]:
        """Names of the spans that arrived."""
        data = gzip.decompress(self.body) if "content-encoding" in self.headers else self.body
        return [
            span.name
            for resource in ExportTraceServiceRequest.FromString(data).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class Receiver(HTTPServer):
    """Answers as it is told, and keeps what it got."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[Answer] = []
        self.requests: list[Request] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append(Request(self.path, headers, body))
        answer = self.server.answers.pop(0) if self.server.answers else Answer()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "5")
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        yield server
        server.shutdown()
        thread.join()


def send(sink: OtlpSink, batch: int = 256) -> ReplaySpanProcessor:
    """Export a turn and a step."""
    writer = ReplaySpanProcessor(sink.exporter, batch)
    tracing = Tracing(provider=replay_provider(writer))
    tracing.run(Script().opened().closed().events)
    tracing.provider.shutdown()
    return writer


# What arrives


def test_spans_arrive(receiver: Receiver) -> None:
    sink = OtlpSink()
    writer = send(sink)
    (request,) = receiver.requests
    assert request.path == "/v1/traces"
    assert request.headers["content-type"] == PROTOBUF
    assert request.names == ["dsh.step", "invoke_agent dsh"]
    assert (writer.counts.sent, writer.counts.lost) == (2, 0)
    report = sink.report()
    assert (report.refused, report.problem) == (0, "")
    assert (sink.status, sink.answer) == (200, "")


def test_the_endpoint_for_traces_is_used_as_it_is(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{receiver.url}/my/path")
    sink = OtlpSink()
    send(sink)
    assert receiver.requests[0].path == "/my/path"
    assert sink.target == f"{receiver.url}/my/path"


@pytest.mark.parametrize(
    ("environ", "endpoint"),
    [
        ({}, "http://localhost:4318/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, "http://localhost:4318/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1"}, "http://a:1/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " http://a:1/ "}, "http://a:1/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1/otlp"}, "http://a:1/otlp/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://b:2"}, "http://b:2"),
        (
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1",
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://b:2/x/",
            },
            "http://b:2/x/",
        ),
    ],
)
def test_where_traces_go(environ: dict[str, str], endpoint: str) -> None:
    assert endpoint_of(environ) == endpoint


def test_headers_are_percent_decoded(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20dTpw,x-scope=a%2Cb")
    send(OtlpSink())
    (request,) = receiver.requests
    assert request.headers["authorization"] == "Basic dTpw"
    assert request.headers["x-scope"] == "a,b"


def test_requests_are_compressed_if_that_is_asked_for(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    send(OtlpSink())
    (request,) = receiver.requests
    assert request.headers["content-encoding"] == "gzip"
    assert request.names == ["dsh.step", "invoke_agent dsh"]


def test_an_empty_export_asks_nobody_and_has_no_problem(receiver: Receiver) -> None:
    sink = OtlpSink()
    writer = ReplaySpanProcessor(sink.exporter)
    assert writer.force_flush()
    assert sink.exporter.force_flush()
    writer.shutdown()
    assert receiver.requests == []
    assert sink.report().problem == ""


# What does not


def partial(refused: int, message: str) -> Answer:
    body = ExportTraceServiceResponse()
    body.partial_success.rejected_spans = refused
    body.partial_success.error_message = message
    return Answer(body=body.SerializeToString(), headers={"content-type": PROTOBUF})


def test_spans_that_the_receiver_refuses_are_counted(receiver: Receiver) -> None:
    receiver.answers = [partial(1, "too old"), partial(2, "too old")]
    sink = OtlpSink()
    writer = send(sink, batch=1)
    report = sink.report()
    assert (report.refused, report.problem) == (3, "the receiver says: too old")
    assert writer.counts.lost == 0


def test_a_warning_of_the_receiver_refuses_nothing(receiver: Receiver) -> None:
    receiver.answers = [partial(0, "use gzip")]
    sink = OtlpSink()
    send(sink)
    report = sink.report()
    assert (report.refused, report.problem) == (0, "the receiver says: use gzip")


@pytest.mark.parametrize(
    ("body", "kind"), [(b"{}", "application/json"), (b"\xff\xff", PROTOBUF), (b"", "")]
)
def test_a_success_in_another_form_is_a_success(body: bytes, kind: str, receiver: Receiver) -> None:
    receiver.answers = [Answer(body=body, headers={"content-type": kind})]
    sink = OtlpSink()
    assert send(sink).counts.sent == 2
    report = sink.report()
    assert (report.refused, report.problem) == (0, "")


def test_a_page_is_no_answer_of_an_otlp_receiver(receiver: Receiver) -> None:
    """Some other server on the port answers 200 to anything."""
    receiver.answers = [Answer(body=b"<html>hi</html>", headers={"content-type": "text/html"})]
    sink = OtlpSink()
    writer = send(sink)
    assert (writer.counts.sent, writer.counts.lost) == (0, 2)
    assert sink.report().problem == "HTTP 200 OK: a page (text/html), so no OTLP receiver"


def test_of_an_endless_answer_only_the_beginning_is_read(
    receiver: Receiver, logged: Logged
) -> None:
    receiver.answers = [Answer(400, b"x" * (8 << 20))]
    sink = OtlpSink()
    send(sink)
    assert sink.report().problem == f"HTTP 400 Bad Request: {'x' * 300}"
    logged.take()


@pytest.mark.parametrize(
    ("endpoint", "seen"),
    [
        ("http://user:s3cret@127.0.0.1:1/v1/traces", "http://127.0.0.1:1/v1/traces"),
        ("https://h/v1/traces?api-key=s3cret", "https://h/v1/traces"),
        ("http://[::1]:4318/v1/traces", "http://[::1]:4318/v1/traces"),
        ("http://[::1:s3cret", "an endpoint that is no URL"),
    ],
)
def test_what_an_endpoint_holds_in_confidence_is_not_shown(endpoint: str, seen: str) -> None:
    assert shown(endpoint) == seen


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer(400, b"no such\ntenant\n"), "HTTP 400 Bad Request: no such tenant"),
        (Answer(401), "HTTP 401 Unauthorized"),
        (Answer(404, b"x" * 5000), f"HTTP 404 Not Found: {'x' * 300}"),
        (
            Answer(400, Status(message="bad span").SerializeToString(), {"content-type": PROTOBUF}),
            "HTTP 400 Bad Request: bad span",
        ),
        (
            Answer(400, b"\xff\xff\xff", {"content-type": PROTOBUF}),
            "HTTP 400 Bad Request",
        ),
        (
            Answer(302, b"", {"location": "https://login.example"}),
            "HTTP 302 Found",
        ),
    ],
    ids=["text", "nothing", "long", "protobuf", "no protobuf", "redirection"],
)
def test_a_refused_batch_is_lost_and_the_receiver_says_why(
    answer: Answer, problem: str, receiver: Receiver, logged: Logged
) -> None:
    receiver.answers = [answer]
    sink = OtlpSink()
    writer = send(sink)
    assert (writer.counts.sent, writer.counts.lost) == (0, 2)
    assert sink.report().problem.startswith(problem)
    assert sink.status == answer.status
    assert "\n" not in sink.report().problem
    logged.take()


def test_a_batch_that_is_lost_is_remembered_when_the_next_one_arrives(
    receiver: Receiver, logged: Logged
) -> None:
    receiver.answers = [Answer(400, b"bad")]
    sink = OtlpSink()
    writer = send(sink, batch=1)
    assert (writer.counts.sent, writer.counts.lost) == (1, 1)
    assert sink.report().problem == "HTTP 400 Bad Request: bad"
    assert sink.status == 200
    assert len(logged.take()) == 1


def test_a_receiver_that_is_busy_is_asked_again(receiver: Receiver, logged: Logged) -> None:
    receiver.answers = [Answer(503, b"busy", {"retry-after": "0"})]
    sink = OtlpSink()
    writer = send(sink)
    assert len(receiver.requests) == 2
    assert receiver.requests[0].body == receiver.requests[1].body
    assert (writer.counts.sent, writer.counts.lost) == (2, 0)
    assert sink.report().problem == ""
    (warning,) = logged.take()
    assert warning.startswith("Transient error")


def test_where_nobody_listens_everything_is_lost(
    monkeypatch: pytest.MonkeyPatch, logged: Logged
) -> None:
    with Receiver() as closed:
        url = closed.url
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    sink = OtlpSink()
    writer = send(sink)
    assert (writer.counts.sent, writer.counts.lost) == (0, 2)
    assert sink.report().problem == f"no answer from {url}/v1/traces"
    assert sink.status is None
    logged.take()


def test_a_receiver_that_goes_away_is_noticed(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, logged: Logged
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.3")
    sink = OtlpSink()
    writer = ReplaySpanProcessor(sink.exporter, 1)
    tracer = replay_provider(writer).get_tracer("test")
    tracer.start_span("early").end()
    assert (writer.counts.sent, sink.report().problem) == (1, "")
    receiver.shutdown()
    receiver.server_close()
    tracer.start_span("late").end()
    assert (writer.counts.sent, writer.counts.lost) == (1, 1)
    assert sink.report().problem == f"no answer from {receiver.url}/v1/traces"
    logged.take()


# Protocols


@pytest.mark.parametrize(
    "name", ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"]
)
@pytest.mark.parametrize("protocol", ["grpc", "http/json", " GRPC "])
def test_another_protocol_is_refused_with_advice(name: str, protocol: str) -> None:
    with pytest.raises(SettingError) as caught:
        OtlpSink({name: protocol})
    message = str(caught.value)
    assert message.startswith(f"{name}={protocol.strip().lower()} is not supported")
    assert "4318" in message


@pytest.mark.parametrize(
    "name", ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]
)
@pytest.mark.parametrize(
    "endpoint",
    ["nonsense", "localhost:4318", "grpc://localhost:4317", "http://", "http://[::1", "http://h:x"],
)
def test_what_is_no_url_is_refused_with_advice(name: str, endpoint: str) -> None:
    with pytest.raises(SettingError) as caught:
        OtlpSink({name: endpoint})
    message = f"{name} is no URL of an HTTP server: set it to one like http://localhost:4318"
    assert str(caught.value) == message


def test_the_protocol_of_traces_wins() -> None:
    sink = OtlpSink(
        {
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        }
    )
    assert sink.target == "http://localhost:4318/v1/traces"


def test_without_the_extra_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[otlp\]' in the"):
        OtlpSink({})


def test_what_arrives_is_the_same_each_time(receiver: Receiver) -> None:
    send(OtlpSink())
    send(OtlpSink())
    first, second = receiver.requests
    assert first.body == second.body
    assert json.dumps(first.names) == json.dumps(second.names)
