"""OTLP over HTTP, with an eye on what the receiver answers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from dsh_otel.export.sink import MissingExtraError, SinkReport

if TYPE_CHECKING:
    from collections.abc import Mapping

    import requests
    from opentelemetry.sdk.trace.export import SpanExporter

PROTOCOL_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL: Final = "http/protobuf"
TRACES_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
DEFAULT_ENDPOINT: Final = "http://localhost:4318"
TRACES_PATH: Final = "v1/traces"
CLIENT_ERROR: Final = range(400, 500)
MAX_ANSWER: Final = 300


class UnsupportedProtocolError(RuntimeError):
    """The environment asks for a protocol that is not available."""


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


def check_protocol(environ: Mapping[str, str]) -> str:
    """Return the protocol in use.

    Raises:
        UnsupportedProtocolError: The environment asks for another one than HTTP with protobuf.
    """
    for name in PROTOCOL_VARIABLES:
        wanted = environ.get(name, "").strip().lower()
        if wanted and wanted != PROTOCOL:
            message = (
                f"{name}={wanted} is not supported: set it to {PROTOCOL}, "
                "and the endpoint to the receiver's HTTP port (usually 4318)"
            )
            raise UnsupportedProtocolError(message)
        if wanted:
            break
    return PROTOCOL


class OtlpSink:
    """Sends spans to an OTLP endpoint, as the standard variables say.

    Args:
        environ: The environment; the process's own by default.

    Raises:
        MissingExtraError: The OTLP exporter is not installed.
        UnsupportedProtocolError: Another protocol is asked for.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        check_protocol(environ)
        try:
            import requests  # noqa: PLC0415
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
                OTLPSpanExporter,
            )
        except ImportError:
            what = "sending to an OTLP endpoint"
            raise MissingExtraError(what) from None
        self.target = endpoint_of(environ)
        self.status: int | None = None
        self.answer = ""
        self._refused = 0
        self._problem = ""
        session = requests.Session()
        session.hooks["response"].append(self._see)
        self._exporter = OTLPSpanExporter(endpoint=self.target, session=session)

    @property
    def exporter(self) -> SpanExporter:
        """The exporter that sends."""
        return self._exporter

    def _see(self, response: requests.Response, **_: object) -> None:
        """Note status and body of an answer; the exporter drops both."""
        self.status = response.status_code
        if response.ok:
            self._see_partial_success(response)
            return
        self.answer = response.text[:MAX_ANSWER].strip()
        self._problem = f"HTTP {response.status_code} {response.reason}: {self.answer}".rstrip(": ")

    def _see_partial_success(self, response: requests.Response) -> None:
        from google.protobuf.message import DecodeError  # noqa: PLC0415
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415
            ExportTraceServiceResponse,
        )

        if "protobuf" not in response.headers.get("content-type", ""):
            return
        try:
            partial = ExportTraceServiceResponse.FromString(response.content).partial_success
        except DecodeError:
            return
        self._refused += partial.rejected_spans
        if partial.error_message:
            self._problem = f"the receiver says: {partial.error_message[:MAX_ANSWER]}"

    def report(self) -> SinkReport:
        """Return how many spans the receiver refused, and the last problem."""
        problem = self._problem
        if self.status is None:
            problem = problem or f"no answer from {self.target}"
        return SinkReport(refused=self._refused, problem=problem)
