"""The contract of DeepSeek Harness sessions: events, logs, rules, error codes."""

from dsh_core.check import SessionReport, check_session, check_sessions
from dsh_core.contract.checker import Checker
from dsh_core.contract.findings import Finding, Severity
from dsh_core.decode import from_mapping
from dsh_core.errors import HarnessError, InvariantError, LlmError, ToolArgsError
from dsh_core.events import Contract, SessionEvent, SessionHeader
from dsh_core.logs.reader import SessionLog, UnsupportedFormatError

__all__ = [
    "Checker",
    "Contract",
    "Finding",
    "HarnessError",
    "InvariantError",
    "LlmError",
    "SessionEvent",
    "SessionHeader",
    "SessionLog",
    "SessionReport",
    "Severity",
    "ToolArgsError",
    "UnsupportedFormatError",
    "check_session",
    "check_sessions",
    "from_mapping",
]
