"""Every public name of the telemetry: spans, attributes, events. They are API.

GenAI names follow the semantic conventions v1.41.1 plus the agent and tool durations that came
after; all names of our own begin with ``dsh.``. This module imports nothing.
"""

from __future__ import annotations

from typing import Final

SCOPE: Final = "dsh_otel"
"""Instrumentation scope of all spans."""


class Span:
    """Span names, and prefixes of those that end in a name from the log."""

    TURN: Final = "invoke_agent"
    STEP: Final = "dsh.step"
    ATTEMPT: Final = "chat"
    TOOL: Final = "execute_tool"
    ORPHAN: Final = "dsh.orphan"
    DEFAULT_AGENT: Final = "dsh"
    UNKNOWN_TOOL: Final = "unknown"
    DOCTOR: Final = "dsh.doctor"


class Attr:
    """Span attributes."""

    OPERATION: Final = "gen_ai.operation.name"
    PROVIDER: Final = "gen_ai.provider.name"
    REQUEST_MODEL: Final = "gen_ai.request.model"
    RESPONSE_MODEL: Final = "gen_ai.response.model"
    FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
    TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
    INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
    OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
    CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
    CACHE_CREATION_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
    REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
    AGENT: Final = "gen_ai.agent.name"
    CONVERSATION: Final = "gen_ai.conversation.id"
    TOOL: Final = "gen_ai.tool.name"
    TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
    TOOL_TYPE: Final = "gen_ai.tool.type"
    INPUT_MESSAGES: Final = "gen_ai.input.messages"
    OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
    TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
    TOOL_RESULT: Final = "gen_ai.tool.call.result"
    SESSION: Final = "session.id"
    ERROR_TYPE: Final = "error.type"
    TURN: Final = "dsh.turn"
    STEP: Final = "dsh.step"
    ATTEMPT: Final = "dsh.attempt"
    SEQ_START: Final = "dsh.seq.start"
    SEQ_END: Final = "dsh.seq.end"
    END_REASON: Final = "dsh.turn.end_reason"
    UNCLOSED: Final = "dsh.span.unclosed"
    SYNTHETIC: Final = "dsh.span.synthetic"
    TOOL_OUTCOME: Final = "dsh.tool.outcome"
    ERROR_CODE: Final = "dsh.error.code"
    ERROR_NAME: Final = "dsh.error.name"
    ERROR_FAMILY: Final = "dsh.error.family"
    ERROR_INFERRED: Final = "dsh.error.inferred"
    ROUTE: Final = "dsh.route"
    VIOLATION_COUNT: Final = "dsh.violation.count"
    VIOLATION_FIRST: Final = "dsh.violation.first"
    VIOLATION_RULES: Final = "dsh.violation.rules"
    CONTRACT: Final = "dsh.contract"
    PARENT_SESSION: Final = "dsh.session.parent_id"
    DEPTH: Final = "dsh.session.depth"
    FORMAT: Final = "dsh.harness.format"
    QUEUE_WAIT: Final = "dsh.queue.wait"
    TIME_ADJUSTED: Final = "dsh.time.adjusted"


CONTENT: Final = frozenset(
    {Attr.INPUT_MESSAGES, Attr.OUTPUT_MESSAGES, Attr.TOOL_ARGUMENTS, Attr.TOOL_RESULT}
)
"""Attributes that hold content: absent unless content is switched on."""


class Operation:
    """Values of `Attr.OPERATION`."""

    TURN: Final = "invoke_agent"
    ATTEMPT: Final = "chat"
    TOOL: Final = "execute_tool"


class Outcome:
    """Values of `Attr.TOOL_OUTCOME`."""

    OK: Final = "ok"
    ERROR: Final = "error"
    CANCELLED: Final = "cancelled"
    UNANSWERED: Final = "unanswered"
    UNKNOWN: Final = "unknown"


class Event:
    """Names of span events (and of log events)."""

    VIOLATION: Final = "dsh.violation"
    TURN_STARTED: Final = "dsh.turn.started"
    TOOL_ERROR: Final = "dsh.tool.error"
    PREFIX: Final = "dsh."


class EventAttr:
    """Attributes of the events."""

    RULE: Final = "rule"
    OWNER: Final = "owner"
    SEVERITY: Final = "severity"
    CODE: Final = "code"
    MESSAGE: Final = "message"
    SEQ: Final = "seq"
    LINE: Final = "line"
    TURN: Final = "turn"
    STEP: Final = "step"
    CALL_ID: Final = "call_id"
    COUNT: Final = "count"
    FIRST_SEQ: Final = "first_seq"
    LAST_SEQ: Final = "last_seq"
    EXPECTED: Final = "expected"
    GOT: Final = "got"
    NAME: Final = "name"
    FAMILY: Final = "family"
    ROUTE: Final = "route"
    INFERRED: Final = "inferred"
    TOOL: Final = "tool"
    ATTEMPT_COUNT: Final = "attempt_count"


OTHER: Final = "_OTHER"
"""Value of `Attr.ERROR_TYPE` for a failure without a code."""
