"""DeepSeek Harness sessions as OpenTelemetry: spans, contract violations, error codes."""

from dsh_otel.clean import Privacy
from dsh_otel.ids import DerivedIdGenerator
from dsh_otel.processors.base import SessionSpanProcessor
from dsh_otel.processors.errors import ErrorSpanProcessor
from dsh_otel.processors.invariants import InvariantSpanProcessor
from dsh_otel.replay import trace_session
from dsh_otel.tracer import SessionTracer

__all__ = [
    "DerivedIdGenerator",
    "ErrorSpanProcessor",
    "InvariantSpanProcessor",
    "Privacy",
    "SessionSpanProcessor",
    "SessionTracer",
    "trace_session",
]
