"""The span on whose behalf a turn runs: a link, or the parent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanContext, TraceFlags

from dsh_otel.ids import first_turn_of
from tests.otel.support import Script, Tracing, ids, named, only

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

CALLER = SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
UNSAMPLED = SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(0))


def two_turns() -> Script:
    """Return two turns, the first with a call that starts a child."""
    script = Script().opened()
    script.answer()
    script.call()
    script.add("subagent/catalog", version=0, childId="child", mode="continuable")
    script.result()
    script.closed()
    script.turn_start(2)
    script.step_start(2)
    script.step_end(2)
    script.turn_end(2)
    return script


def run(tracing: Tracing, caller: SpanContext | None, *, as_parent: bool) -> list[ReadableSpan]:
    tracing.tracer.call_from(caller, as_parent=as_parent)
    return tracing.run(two_turns().events)


def own(spans: list[ReadableSpan]) -> list[tuple[str, int, int | None]]:
    """Return names, span ids and parents."""
    return [(s.name, ids(s)[1], None if s.parent is None else s.parent.span_id) for s in spans]


def test_turns_link_to_it_and_keep_their_ids() -> None:
    alone = run(Tracing(), None, as_parent=False)
    spans = run(Tracing(), CALLER, as_parent=False)
    assert [ids(span) for span in spans] == [ids(span) for span in alone]
    for turn in named(spans, "invoke_agent"):
        assert [link.context for link in turn.links] == [CALLER]
    assert not only(alone, "execute_tool").links[1:]
    assert all(not s.links for s in spans if not s.name.startswith(("invoke", "execute")))


def test_as_their_parent_it_gives_them_its_trace_and_they_keep_their_span_ids() -> None:
    alone = run(Tracing(), None, as_parent=True)
    spans = run(Tracing(), CALLER, as_parent=True)
    assert {ids(span)[0] for span in spans} == {CALLER.trace_id}
    expected = [(n, i, CALLER.span_id if parent is None else parent) for n, i, parent in own(alone)]
    assert own(spans) == expected
    assert all(not turn.links for turn in named(spans, "invoke_agent"))


@pytest.mark.parametrize("as_parent", [False, True])
def test_a_call_links_to_the_turn_of_its_child_where_that_is(as_parent: bool) -> None:
    trace_id, span_id = first_turn_of("child")
    (link,) = only(run(Tracing(), CALLER, as_parent=as_parent), "execute_tool").links
    expected = CALLER.trace_id if as_parent else trace_id
    assert (link.context.trace_id, link.context.span_id) == (expected, span_id)


def test_a_provider_with_ids_of_its_own_keeps_them() -> None:
    spans = run(Tracing(provider=TracerProvider()), CALLER, as_parent=True)
    assert {ids(span)[0] for span in spans} == {CALLER.trace_id}
    assert len({ids(span)[1] for span in spans}) == len(spans)


def test_only_turns_that_start_later_are_concerned() -> None:
    tracing, events = Tracing(), two_turns().events
    tracing.run(events[:2], close=False)
    tracing.tracer.call_from(CALLER)
    first, second = named(tracing.run(events[2:]), "invoke_agent")
    assert not first.links
    assert [link.context for link in second.links] == [CALLER]


def test_an_unsampled_parent_leaves_its_turns_unsampled() -> None:
    tracing = Tracing()
    assert run(tracing, UNSAMPLED, as_parent=True) == []
    assert tracing.tracer.unsampled == 6
    assert run(Tracing(), UNSAMPLED, as_parent=False) != []
