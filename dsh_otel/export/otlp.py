"""OTLP over HTTP, with an eye on what the receiver answers."""

from __future__ import annotations

import io
import os
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit, urlunsplit

from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from dsh_otel.export.sink import MissingExtraError, SinkReport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import requests
    from opentelemetry.sdk.trace import ReadableSpan

PROTOCOL_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL: Final = "http/protobuf"
TRACES_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
DEFAULT_ENDPOINT: Final = "http://localhost:4318"
TRACES_PATH: Final = "v1/traces"
SUCCESS: Final = range(200, 300)
HOPELESS: Final = (400, 413, 415, 422)
"""Refusals of what was sent; others are of who sent it, where, or when."""

MAX_ANSWER: Final = 300
"""Longest part of an answer that is shown, in characters."""

MAX_BODY: Final = 1 << 16
"""Longest answer that is read, in bytes; a receiver has little to say."""

PATIENCE: Final = 10.0
"""How long the body of an answer may take, in seconds."""

PAGE: Final = "text/html"
"""Content type of answers that no OTLP receiver gives."""


class SettingError(RuntimeError):
    """The environment asks for what is not available, or makes no sense."""


def endpoint_of(environ: Mapping[str, str]) -> str:
    """Return the URL that traces go to.

    The base of ``OTEL_EXPORTER_OTLP_ENDPOINT`` gets ``/v1/traces`` appended;
    ``OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`` is used as it is.
    """
    full = environ.get(TRACES_ENDPOINT, "").strip()
    if full:
        return full
    base = environ.get(ENDPOINT, "").strip() or DEFAULT_ENDPOINT
    return f"{base.rstrip('/')}/{TRACES_PATH}"


def shown(endpoint: str) -> str:
    """Return an endpoint without what it may hold in confidence: user, password, query."""
    try:
        parts = urlsplit(endpoint)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "an endpoint that is no URL"
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def check_endpoint(environ: Mapping[str, str]) -> str:
    """Return the URL that traces go to.

    Raises:
        SettingError: It is no URL of an HTTP server.
    """
    endpoint = endpoint_of(environ)
    try:
        parts = urlsplit(endpoint)
        port = parts.port
    except ValueError:
        usable = False
    else:
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0
    if not usable:
        name = TRACES_ENDPOINT if environ.get(TRACES_ENDPOINT, "").strip() else ENDPOINT
        message = f"{name} is no URL of an HTTP server: set it to one like {DEFAULT_ENDPOINT}"
        raise SettingError(message)
    return endpoint


def check_protocol(environ: Mapping[str, str]) -> str:
    """Return the protocol in use.

    Raises:
        SettingError: The environment asks for another one than HTTP with protobuf.
    """
    for name in PROTOCOL_VARIABLES:
        wanted = environ.get(name, "").strip().lower()
        if wanted and wanted != PROTOCOL:
            message = (
                f"{name}={wanted} is not supported: set it to {PROTOCOL}, "
                "and the endpoint to the receiver's HTTP port (usually 4318)"
            )
            raise SettingError(message)
        if wanted:
            break
    return PROTOCOL


class OtlpSink:
    """Sends spans to an OTLP endpoint, as the standard variables say.

    Args:
        environ: The environment; the process's own by default.

    Attributes:
        target: The endpoint.
        status: HTTP status of the last answer to the last batch, None if there was none.
        answer: What that answer says, in one line, if it is no success.

    Raises:
        MissingExtraError: The OTLP exporter is not installed.
        SettingError: Another protocol is asked for, or the endpoint is no URL.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        check_protocol(environ)
        endpoint = check_endpoint(environ)
        try:
            import requests  # noqa: PLC0415
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
                OTLPSpanExporter,
            )
        except ImportError:
            what = "sending to an OTLP endpoint"
            raise MissingExtraError(what) from None
        self.target = shown(endpoint)
        self.status: int | None = None
        self.answer = ""
        self._reason = ""
        self._kind = ""
        self._refused = 0
        self._problem = ""
        session = requests.Session()
        # The body is left to the first hook, which does not take just any amount.
        session.stream = True
        session.hooks["response"] += [_bound, self._see]
        inner = OTLPSpanExporter(endpoint=endpoint, session=session)
        self._exporter = _Heard(inner, self._begin, self._judge)

    @property
    def exporter(self) -> SpanExporter:
        """The exporter that sends."""
        return self._exporter

    @property
    def problem(self) -> str:
        """Why the last batch that was lost did not arrive."""
        return self._problem

    @property
    def hopeless(self) -> bool:
        """Whether the receiver has refused the last batch for what it holds."""
        return self.status in HOPELESS

    def _begin(self) -> None:
        self.status, self.answer = None, ""

    def _judge(self, *, accepted: bool) -> bool:
        """Note why a batch was lost, if it was; what a repetition has mended does not count."""
        status = self.status
        if accepted and status is not None and status not in SUCCESS:
            # The exporter takes a redirection for a success, but follows none.
            accepted = False
        if accepted and self._kind.startswith(PAGE):
            # Some other server took the request for one of its own.
            accepted, self.answer = False, f"a page ({self._kind}), so no OTLP receiver"
        if not accepted:
            self._problem = f"no answer from {self.target}"
            if status is not None:
                self._problem = f"HTTP {status} {self._reason}: {self.answer}".rstrip(": ")
        return accepted

    def _see(self, response: requests.Response, **_: object) -> None:
        """Note status and body of an answer; the exporter drops both."""
        self.status, self._reason, self.answer = response.status_code, response.reason, ""
        self._kind = response.headers.get("content-type", "")
        if self.status in SUCCESS:
            self._see_partial_success(response)
        else:
            self.answer = " ".join(_body(response)[:MAX_ANSWER].split())

    def _see_partial_success(self, response: requests.Response) -> None:
        from google.protobuf.message import DecodeError  # noqa: PLC0415
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415
            ExportTraceServiceResponse,
        )

        if not _is_protobuf(response):
            return
        try:
            partial = ExportTraceServiceResponse.FromString(response.content).partial_success
        except DecodeError:
            return
        self._refused += max(partial.rejected_spans, 0)
        if partial.error_message:
            self._problem = f"the receiver says: {partial.error_message[:MAX_ANSWER]}"

    def report(self) -> SinkReport:
        """Return how many spans the receiver refused, and the last problem."""
        return SinkReport(refused=self._refused, problem=self._problem)


class _Heard(SpanExporter):
    """Exports, and lets somebody else judge the result."""

    def __init__(
        self, exporter: SpanExporter, begin: Callable[[], None], judge: Callable[..., bool]
    ) -> None:
        self._exporter = exporter
        self._begin = begin
        self._judge = judge

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._begin()
        accepted = self._exporter.export(spans) is SpanExportResult.SUCCESS
        return (
            SpanExportResult.SUCCESS if self._judge(accepted=accepted) else SpanExportResult.FAILURE
        )

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _bound(response: requests.Response, **_: object) -> None:
    """Read an answer as far as it is of interest, and no further."""
    from urllib3.exceptions import HTTPError  # noqa: PLC0415

    deadline = time.monotonic() + PATIENCE
    body = b""
    try:
        while len(body) < MAX_BODY and time.monotonic() < deadline:
            part = response.raw.read1(MAX_BODY - len(body), decode_content=True)
            if not part:
                break
            body += part
    except (OSError, HTTPError):
        pass  # what has come so far is all there is
    response.close()
    response.raw = io.BytesIO(body)


def _is_protobuf(response: requests.Response) -> bool:
    return "protobuf" in response.headers.get("content-type", "")


def _body(response: requests.Response) -> str:
    """Return what an answer says; the Collector says it in protobuf."""
    from google.protobuf.message import DecodeError  # noqa: PLC0415
    from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # noqa: PLC0415

    if _is_protobuf(response):
        try:
            return str(Status.FromString(response.content).message)
        except DecodeError:
            pass
    return response.text
