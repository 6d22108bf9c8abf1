"""The public names: what is written here is emitted, and nothing else is.

The tables are written out. A name that is missing in one of them is a name that nobody can rely on.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.trace import SpanKind

from dsh_core.faults import Fault
from dsh_otel import names
from dsh_otel.clean import Privacy
from dsh_otel.tree import NOTED
from tests.otel.support import LOGS, SEED, Script, checked, trace_log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan

SPANS: Final = {
    "invoke_agent": SpanKind.INTERNAL,
    "dsh.step": SpanKind.INTERNAL,
    "chat": SpanKind.CLIENT,
    "execute_tool": SpanKind.INTERNAL,
    "dsh.orphan": SpanKind.INTERNAL,
}
"""Names of spans up to the first space, and their kinds."""

ELSEWHERE: Final = {"dsh.doctor"}
"""Spans that the command line sends to try an endpoint."""

EVERYWHERE: Final = {
    "gen_ai.conversation.id",
    "dsh.turn",
    "dsh.seq.start",
    "dsh.seq.end",
    "dsh.span.unclosed",
    "dsh.span.synthetic",
    "dsh.time.adjusted",
    "dsh.violation.count",
    "dsh.violation.first",
    "dsh.violation.rules",
}
FAILED: Final = {
    "error.type",
    "dsh.error.code",
    "dsh.error.name",
    "dsh.error.family",
    "dsh.error.inferred",
    "dsh.route",
}
ATTRIBUTES: Final = {
    "invoke_agent": EVERYWHERE
    | (FAILED - {"dsh.error.name"})
    | {
        "gen_ai.operation.name",
        "gen_ai.agent.name",
        "gen_ai.input.messages",
        "session.id",
        "dsh.turn.end_reason",
        "dsh.contract",
        "dsh.harness.format",
        "dsh.session.parent_id",
        "dsh.session.depth",
        "dsh.queue.wait",
    },
    "dsh.step": (EVERYWHERE - {"dsh.span.synthetic"}) | {"dsh.step"},
    "chat": EVERYWHERE
    | (FAILED - {"dsh.error.name"})
    | {
        "gen_ai.operation.name",
        "gen_ai.provider.name",
        "gen_ai.request.model",
        "gen_ai.response.model",
        "gen_ai.response.finish_reasons",
        "gen_ai.response.time_to_first_chunk",
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.reasoning.output_tokens",
        "gen_ai.output.messages",
        "dsh.step",
        "dsh.attempt",
    },
    "execute_tool": EVERYWHERE
    | FAILED
    | {
        "gen_ai.operation.name",
        "gen_ai.tool.name",
        "gen_ai.tool.call.id",
        "gen_ai.tool.type",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "dsh.step",
        "dsh.tool.outcome",
    },
    "dsh.orphan": (EVERYWHERE - {"dsh.span.unclosed"})
    | (FAILED - {"dsh.error.name"})
    | {"session.id", "dsh.step"},
}
"""Attributes by the span that may have them."""

EVENTS: Final = {
    "dsh.violation": {
        *("rule", "owner", "severity", "code", "message", "seq", "line", "turn", "step"),
        *("call_id", "count", "first_seq", "last_seq", "expected", "got"),
    },
    "dsh.tool.error": {
        *("code", "name", "family", "route", "inferred", "tool", "call_id", "attempt_count"),
    },
    "dsh.agent/inbox/spliced": {"seq"},
    "dsh.approval/asked": {"seq"},
    "dsh.approval/decided": {"seq"},
    "dsh.compaction/end": {"seq"},
    "dsh.compaction/start": {"seq"},
    "dsh.error": {"seq"},
    "dsh.goal/change": {"seq"},
    "dsh.hook/invoked": {"seq"},
    "dsh.hook/result": {"seq"},
    "dsh.job/registered": {"seq"},
    "dsh.job/settled": {"seq"},
    "dsh.llm/retry": {"seq"},
    "dsh.session/title": {"seq"},
    "dsh.todo/write": {"seq"},
}
"""Attributes of span events by the event's name."""

VALUES: Final = {
    "gen_ai.operation.name": {"invoke_agent", "chat", "execute_tool"},
    "dsh.tool.outcome": {"ok", "error", "cancelled", "unanswered", "unknown"},
    "dsh.contract": {"seed", "v0", "v4"},
    "dsh.error.family": {
        *("missing", "denied", "policy", "sandbox-broken", "transient", "exhausted", "bad-args"),
        *("cancelled", "unknown-outcome", "contract", "uncoded"),
    },
    "dsh.route": {
        *("replan", "ask", "escalate", "operator", "retry", "self-correct", "rerun"),
        *("check-first", "report"),
    },
}
"""Attributes whose values are names too."""


def everything() -> Script:
    """A session that reaches the names that no sample reaches."""
    script = Script()
    script.add("sandbox/mode", surfaceOp="append")
    script.events[-1].seq = 0
    script.opened()
    for kind in sorted(NOTED):
        script.add(kind)
    usage = {"inputTokens": 1, "outputTokens": 1, "cacheWriteTokens": 1, "reasoningTokens": 1}
    script.answer(usage=usage)
    for code in ("QUOTA", "SANDBOX_UNAVAILABLE", "ABORTED", "INVARIANT", "SERVER"):
        script.call(code)
        script.result(code, code=code, name="SomeError")
    script.attempt("", "Error: ETIMEDOUT: timed out, connect")
    script.answer()
    script.call("open")
    script.turn_end(9, "error", error={"message": "Error: ETIMEDOUT: timed out, connect"})
    script.add("step/start", -5000, turn=1, step=2)
    script.attempt("SERVER", step=2)
    script.turn_end(9)
    script.add("session-log-deepseek/delivery-accepted")
    return script


@cache
def all_spans() -> tuple[ReadableSpan, ...]:
    """Everything that the samples and one made-up session give, content included."""
    found: list[ReadableSpan] = []
    for path in LOGS:
        found += trace_log(path, privacy=Privacy(content=True))
    found += checked(SEED, privacy=Privacy(content=True)).run(everything().events)
    tracing, script = checked(SEED), Script().opened()
    script.add("session-log-deepseek/delivery-accepted")
    for event in script.events:
        tracing.tracer.observe(event)
        tracing.tracer.observe_fault(Fault("line.nul", "4 NUL bytes", 3))
    tracing.tracer.close()
    return (*found, *tracing.spans)


def emitted(spans: Sequence[ReadableSpan]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for span in spans:
        found.setdefault(span.name.partition(" ")[0], set()).update(span.attributes or {})
    return found


def constants(holder: type) -> set[str]:
    return {value for name, value in vars(holder).items() if name.isupper()}


# Spans


def test_spans_have_the_names_and_kinds_of_the_table() -> None:
    assert {span.name.partition(" ")[0]: span.kind for span in all_spans()} == SPANS


def test_the_names_of_spans_are_those_of_the_module() -> None:
    no_names = {names.Span.DEFAULT_AGENT, names.Span.UNKNOWN_TOOL}
    assert constants(names.Span) - no_names == set(SPANS) | ELSEWHERE
    assert any(span.name == "invoke_agent dsh" for span in all_spans())
    assert any(span.name == "execute_tool unknown" for span in all_spans())


def test_all_spans_come_from_one_scope() -> None:
    scopes = {span.instrumentation_scope.name for span in all_spans() if span.instrumentation_scope}
    assert scopes == {"dsh_otel"} == {names.SCOPE}


# Attributes


def test_each_span_has_the_attributes_of_the_table() -> None:
    found = emitted(all_spans())
    assert {kind: sorted(found[kind] - known) for kind, known in ATTRIBUTES.items()} == {
        kind: [] for kind in ATTRIBUTES
    }


def test_the_table_names_no_attribute_in_vain() -> None:
    found = emitted(all_spans())
    assert {kind: sorted(known - found[kind]) for kind, known in ATTRIBUTES.items()} == {
        kind: [] for kind in ATTRIBUTES
    }


def test_the_names_of_attributes_are_those_of_the_module() -> None:
    assert constants(names.Attr) == set().union(*ATTRIBUTES.values())


def test_what_is_our_own_begins_with_dsh() -> None:
    others = {name for name in constants(names.Attr) if not name.startswith("dsh.")}
    assert {name for name in others if not name.startswith("gen_ai.")} == {
        "session.id",
        "error.type",
    }


def test_content_is_four_attributes() -> None:
    assert {
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
    } == names.CONTENT


def test_values_that_are_names_are_those_of_the_table() -> None:
    found: dict[str, set[Any]] = {name: set() for name in VALUES}
    for span in all_spans():
        for name in VALUES.keys() & (span.attributes or {}).keys():
            found[name].add((span.attributes or {})[name])
    assert found == VALUES
    assert constants(names.Operation) == VALUES["gen_ai.operation.name"]
    assert constants(names.Outcome) == VALUES["dsh.tool.outcome"]


# Events


def test_span_events_are_those_of_the_table() -> None:
    found: dict[str, set[str]] = {}
    for span in all_spans():
        for event in span.events:
            found.setdefault(event.name, set()).update(event.attributes or {})
    assert found == EVENTS


def test_the_names_of_events_are_those_of_the_module() -> None:
    notes = {names.Event.PREFIX + kind for kind in NOTED}
    assert {names.Event.VIOLATION, names.Event.TOOL_ERROR} | notes == set(EVENTS)
    assert constants(names.EventAttr) == set().union(*EVENTS.values())


def test_no_event_of_the_log_takes_the_name_of_one_of_ours() -> None:
    assert not {"dsh.violation", "dsh.tool.error"} & {names.Event.PREFIX + kind for kind in NOTED}


def test_a_failure_without_a_code_has_the_conventional_value() -> None:
    found = {(span.attributes or {}).get("error.type") for span in all_spans()}
    assert names.OTHER in found
    assert names.OTHER == "_OTHER"
