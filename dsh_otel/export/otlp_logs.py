"""Log events over OTLP, beside the spans: few, batched, and never waited for too long."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from dsh_otel.export.otlp import ENDPOINT, TRACES_ENDPOINT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk.resources import Resource

LOGS_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"
LOGS_EXPORTER: Final = "OTEL_LOGS_EXPORTER"


def log_provider(resource: Resource, environ: Mapping[str, str]) -> LoggerProvider | None:
    """Return where log events go; None if they go nowhere.

    ``OTEL_LOGS_EXPORTER=none`` switches them off. Where only an endpoint for traces is set, nobody
    has said where logs shall go.

    Args:
        resource: What they are of.
        environ: The environment.
    """
    wanted = environ.get(LOGS_EXPORTER, "otlp").strip().lower()
    only_traces = environ.get(TRACES_ENDPOINT, "").strip() and not (
        environ.get(ENDPOINT, "").strip() or environ.get(LOGS_ENDPOINT, "").strip()
    )
    if wanted != "otlp" or only_traces:
        return None
    from opentelemetry.exporter.otlp.proto.http._log_exporter import (  # noqa: PLC0415 - an extra
        OTLPLogExporter,
    )
    from opentelemetry.sdk._logs import LoggerProvider  # noqa: PLC0415 - only needed here
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor  # noqa: PLC0415 - as above

    provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
    processor = BatchLogRecordProcessor(OTLPLogExporter(), schedule_delay_millis=500)
    provider.add_log_record_processor(processor)
    return provider


def close(provider: LoggerProvider, timeout_s: float) -> None:
    """Let what waits leave; a receiver that takes too long is left to itself.

    Args:
        provider: The provider.
        timeout_s: How long it may take, in seconds.
    """
    # The SDK does not keep to a timeout of its own.
    thread = threading.Thread(target=provider.shutdown, daemon=True)
    thread.start()
    thread.join(timeout_s)
