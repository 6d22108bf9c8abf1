"""DeepSeek Harness sessions as OpenTelemetry: spans, contract violations, error codes.

The names are imported when they are first used: the command line needs few of them, and the
OpenTelemetry SDK refuses to be imported where one of its settings is malformed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dsh_otel.clean import Privacy
    from dsh_otel.ids import DerivedIdGenerator
    from dsh_otel.processors.base import SessionSpanProcessor
    from dsh_otel.processors.errors import ErrorSpanProcessor
    from dsh_otel.processors.invariants import InvariantSpanProcessor
    from dsh_otel.replay import trace_session, trace_sessions
    from dsh_otel.tracer import SessionTracer

__all__ = [
    "DerivedIdGenerator",
    "ErrorSpanProcessor",
    "InvariantSpanProcessor",
    "Privacy",
    "SessionSpanProcessor",
    "SessionTracer",
    "trace_session",
    "trace_sessions",
]

_HOME = {
    "DerivedIdGenerator": "ids",
    "ErrorSpanProcessor": "processors.errors",
    "InvariantSpanProcessor": "processors.invariants",
    "Privacy": "clean",
    "SessionSpanProcessor": "processors.base",
    "SessionTracer": "tracer",
    "trace_session": "replay",
    "trace_sessions": "replay",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
