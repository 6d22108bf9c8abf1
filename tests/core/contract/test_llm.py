"""Tests of the rules of the ``llm`` package: the grammar of model streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_core.contract.findings import Finding, Severity
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract
from dsh_core.faults import Fault
from tests.checking import (
    Item,
    answer,
    check,
    event,
    log,
    one_step,
    one_turn,
    rules,
    step_end,
    step_start,
    summary,
    turn_end,
    turn_start,
    violations,
)
from tests.strategies import Event, Events, legal_logs

if TYPE_CHECKING:
    from collections.abc import Sequence

SEED, V0, V4 = Contract.SEED, Contract.V0, Contract.V4
TIME = 1_780_000_000_000


def start(index: Any = 0, kind: str = "text") -> Event:
    return {"type": "block-start", "index": index, "blockType": kind}


def delta(index: Any = 0, kind: str = "text") -> Event:
    return {"type": f"{kind}-delta", "index": index, "text": "x"}


def end(index: Any = 0, kind: str = "text") -> Event:
    return {"type": "block-end", "index": index, "block": {"type": kind}}


USAGE: Event = {"type": "usage", "usage": {"inputTokens": 1, "outputTokens": 1}}


def finish(kind: str = "stop") -> Event:
    return {"type": "finish", "reason": {"kind": kind}}


WHOLE = (start(), delta(), delta(), end(), USAGE, finish())


def chunks(*stream: Event, turn: int = 1, step: int = 1) -> tuple[Item, ...]:
    """Return a stream as it is logged until v1."""
    at = {"turn": turn, "step": step}
    return tuple(event("assistant/chunk", {**at, "chunk": chunk}) for chunk in stream)


def reply(turn: int = 1, step: int = 1, **more: Any) -> Item:
    """Return the answer that a stream settles to."""
    kind, data, envelope = answer(turn, step)
    del data["stream"]
    return kind, {**data, **more}, envelope


def packed(*stream: Event) -> Events:
    """Return a stream as it is stored from v2 on: runs of pieces, everything else verbatim."""
    entries = []
    for chunk in stream:
        kind, _, is_delta = str(chunk.get("type")).rpartition("-")
        if is_delta == "delta":
            run = {"index": chunk["index"], "dt": [], "texts": ["x"]}
            entries.append({"type": f"{kind}-chunks", "time0": TIME, **run})
        else:
            entries.append({"type": "chunk", "time": TIME, "chunk": chunk})
    return entries


def logged(*stream: Event) -> list[Finding]:
    """Check a stream that is logged chunk by chunk, behind one that was whole."""
    first = (*chunks(*WHOLE), reply())
    second = one_step(1, 2, *chunks(*stream, step=2), reply(1, 2))
    items = (turn_start(1), *one_step(1, 1, *first), *second, turn_end(1))
    return check(log(*items), V0)


def stored(*stream: Event, **more: Any) -> list[Finding]:
    """Check a stream that an answer carries."""
    return check(log(*one_turn(1, reply(stream=packed(*stream), **more))), V4)


FAULTS: dict[str, tuple[str, Sequence[Event]]] = {
    "an index below zero": ("llm.index", (start(-1), finish())),
    "an index that is a fraction": ("llm.index", (start(0.5), finish())),
    "an index that is a text": ("llm.index", (start("0"), finish())),
    "an index beyond exact numbers": ("llm.index", (start(2**53), finish())),
    "no index": ("llm.index", ({"type": "block-start", "blockType": "text"}, finish())),
    "a piece without index": ("llm.index", (start(), delta(None), end(), finish())),
    "an end without index": ("llm.index", (start(), end(), end(-3), finish())),
    "a block that is open": ("llm.block-reopened", (start(), start(), end(), finish())),
    "a block open as another kind": (
        "llm.block-reopened",
        (start(0, "reasoning"), start(), delta(), end(), finish()),
    ),
    "a piece of a block that was never opened": (
        "llm.delta-without-block",
        (start(), end(), delta(3), finish()),
    ),
    "a piece of a block that is closed": (
        "llm.delta-without-block",
        (start(), delta(), end(), delta(), finish()),
    ),
    "a piece of another kind": (
        "llm.delta-without-block",
        (start(), delta(0, "reasoning"), end(), finish()),
    ),
    "a piece of arguments for a text": (
        "llm.delta-without-block",
        (start(), delta(0, "tool-call"), end(), finish()),
    ),
    "the end of nothing": ("llm.block-end-mismatch", (start(), end(), end(1), finish())),
    "the end of another kind": (
        "llm.block-end-mismatch",
        (start(), end(0, "reasoning"), finish()),
    ),
    "an end without block": (
        "llm.block-end-mismatch",
        (start(), {"type": "block-end", "index": 0}, finish()),
    ),
    "tokens counted twice": ("llm.usage-twice", (start(), end(), USAGE, USAGE, finish())),
    "a block open at the end": ("llm.finish-open-blocks", (start(), delta(), finish())),
    "a block open at the limit": ("llm.finish-open-blocks", (start(), finish("max-tokens"))),
    "no end": ("llm.no-finish", (start(), delta(), end(), USAGE)),
}

LEGAL: dict[str, Sequence[Event]] = {
    "a whole stream": WHOLE,
    "blocks side by side": (
        *(start(0, "reasoning"), start(1), delta(1), delta(0, "reasoning")),
        *(end(1), end(0, "reasoning"), finish()),
    ),
    "an index used again": (start(), delta(), end(), start(), delta(), end(), finish()),
    "a high index": (start(2**53 - 1), end(2**53 - 1), finish()),
    "a block without pieces": (start(0, "image"), end(0, "image"), finish()),
    "an error with open blocks": (start(), delta(), finish("error")),
    "an abort with open blocks": (start(), delta(), finish("aborted")),
    "nothing but an end": (finish("tool-calls"),),
    "a number as JavaScript writes it": (start(1.0), delta(1), end(1), finish()),
}


class TestGrammar:
    """One fault, one finding, in both forms of streams."""

    @pytest.mark.parametrize("name", FAULTS)
    def test_a_fault_in_a_stream_of_chunks(self, name: str) -> None:
        rule, stream = FAULTS[name]
        assert rules(logged(*stream)) == [rule]

    @pytest.mark.parametrize("name", FAULTS)
    def test_a_fault_in_a_stored_stream(self, name: str) -> None:
        rule, stream = FAULTS[name]
        found = stored(*stream)
        assert rules(found) == [rule]
        assert (found[0].seq, found[0].severity) == (2, Severity.VIOLATION)

    @pytest.mark.parametrize("name", LEGAL)
    def test_what_merely_looks_odd_is_silent(self, name: str) -> None:
        assert logged(*LEGAL[name]) == []
        assert stored(*LEGAL[name]) == []

    def test_a_chunk_after_the_end_of_a_stored_stream(self) -> None:
        found = stored(start(), end(), finish(), USAGE, delta())
        assert rules(found) == ["llm.after-finish", "llm.delta-without-block"]

    def test_a_chunk_after_the_end_begins_another_stream_of_chunks(self) -> None:
        assert logged(start(), finish("error"), start(), end(), finish()) == []

    def test_many_pieces_of_one_fault_are_one_finding(self) -> None:
        found = logged(start(), end(), *[delta()] * 5, finish())
        assert summary(found) == [("llm.delta-without-block", 5, 13, 17)]

    def test_the_end_of_a_block_that_was_never_opened_follows_from_its_pieces(self) -> None:
        assert rules(stored(start(), end(), delta(1), end(1), finish())) == [
            "llm.delta-without-block"
        ]

    def test_two_blocks_are_two_causes(self) -> None:
        found = stored(start(), start(), start(1), start(1), end(), end(1), finish())
        assert rules(found) == ["llm.block-reopened"] * 2


class TestNoFinish:
    """Streams that just stop."""

    def test_an_interrupted_answer_may_lack_its_end(self) -> None:
        assert stored(start(), delta(), interrupted=True) == []

    def test_a_failed_attempt_may_lack_its_end(self) -> None:
        data = {"turn": 1, "step": 1, "stream": packed(start(), delta())}
        assert check(log(*one_turn(1, event("assistant/attempt", data))), V4) == []

    def test_a_failed_attempt_keeps_the_grammar(self) -> None:
        data = {"turn": 1, "step": 1, "stream": packed(start(), start(), finish("error"))}
        found = check(log(*one_turn(1, event("assistant/attempt", data))), V4)
        assert rules(found) == ["llm.block-reopened"]

    def test_an_answer_without_a_stream_is_none(self) -> None:
        assert check(log(*one_turn(1, reply(stream=[]))), V4) == []
        assert check(log(*one_turn(1, reply())), V0) == []

    def test_a_step_that_ends_cuts_the_stream(self) -> None:
        items = one_step(1, 1, *chunks(start(), delta()))
        assert check(log(turn_start(1), *items, turn_end(1, "error")), V0) == []

    def test_a_retry_cuts_the_stream(self) -> None:
        retry = event("llm/retry", {"turn": 1, "step": 1, "retry": 1})
        inside = (*chunks(start(), delta()), retry, *chunks(*WHOLE), reply())
        found = check(log(*one_turn(1, *inside)), V0)
        assert [rule for rule in rules(found) if rule.startswith("llm.")] == []


class TestExcerpts:
    """Logs that hold no more of a stream than a few pieces."""

    @pytest.mark.parametrize("contract", [SEED, V0])
    def test_a_session_that_shows_no_blocks_is_not_judged(self, contract: Contract) -> None:
        texts = ({"type": "text-delta", "text": "x"}, delta())
        inside = (*chunks(*texts), reply())
        assert violations(check(log(*one_turn(1, *inside)), contract)) == []

    def test_a_session_that_shows_them_is(self) -> None:
        assert rules(logged(delta(), finish())) == ["llm.delta-without-block"]


class TestGaps:
    """Streams of which a part was not seen."""

    def test_a_lost_chunk_is_not_a_fault(self) -> None:
        events = log(*one_turn(1, *chunks(*WHOLE), reply()))
        for place in range(2, 8):
            fault = {place: Fault("line.not-json", "not JSON", place + 1, lost=True)}
            found = check([*events[:place], *events[place + 1 :]], V0, faults=fault)
            assert rules(found) == ["line.not-json"]

    def test_a_chunk_that_nobody_can_read_blinds_for_its_stream(self) -> None:
        inside = (*chunks({"type": "new-kind"}, delta(), end(), finish(), *WHOLE), reply())
        assert check(log(*one_turn(1, *inside)), V0) == []

    def test_an_entry_that_nobody_can_read_hides_no_end(self) -> None:
        stream = [*packed(start(), end()), {"type": "chunk", "time": TIME, "chunk": {"type": "?"}}]
        assert check(log(*one_turn(1, reply(stream=stream))), V4) == []

    def test_an_export_of_first_chunks_only_is_not_judged(self) -> None:
        """Exporters of August send only the first chunk of each step."""
        events = log(*one_turn(1, *chunks(*WHOLE), reply()))
        sent = [*events[:3], *events[8:]]
        assert check(sent, V0, source=SourceKind.STREAM) == []

    def test_a_gap_between_chunks_blinds_for_the_rest(self) -> None:
        events = log(*one_turn(1, *chunks(start(), end(), start(1), delta(1), finish()), reply()))
        sent = [*events[:4], *events[5:]]
        assert check(sent, V0, source=SourceKind.STREAM) == []

    def test_a_repeated_stretch_is_one_finding(self) -> None:
        events = log(*one_turn(1, *chunks(*WHOLE), reply()))
        assert rules(check([*events, *events[3:]], V0)) == ["seq.regressed"]

    def test_chunks_outside_their_step_are_not_judged(self) -> None:
        items = (turn_start(1), step_start(1, 1), step_end(1, 1), *chunks(delta(), delta()))
        assert rules(check(log(*items, turn_end(1)), V0)) == ["step.event-outside"]


class TestShapes:
    """Streams of any shape."""

    @pytest.mark.parametrize("odd", [[5], [[]], [{}], [{"type": 5}], [None]])
    def test_odd_streams_are_no_news(self, odd: Any) -> None:
        assert check(log(*one_turn(1, reply(stream=odd))), V4) == []

    @pytest.mark.parametrize("odd", [None, 5, "x", {}])
    def test_what_is_no_stream_is_a_fault_of_the_message(self, odd: Any) -> None:
        attempt = event("assistant/attempt", {"turn": 1, "step": 1, "stream": odd})
        for item in (reply(stream=odd), attempt):
            assert rules(check(log(*one_turn(1, item)), V4)) == ["message.shape"]
            assert check(log(*one_turn(1, item)), V0) == []

    @pytest.mark.parametrize("odd", [None, 5, "x", [], {}, {"type": 5}, {"type": "usage"}])
    def test_odd_chunks_are_no_news(self, odd: Any) -> None:
        inside = (event("assistant/chunk", {"turn": 1, "step": 1, "chunk": odd}), reply())
        assert set(rules(check(log(*one_turn(1, *inside)), V0))) <= {"llm.no-finish"}

    @settings(max_examples=30)
    @given(st.sampled_from(list(Contract)).flatmap(lambda c: st.tuples(st.just(c), legal_logs(c))))
    def test_legal_logs_are_silent(self, drawn: tuple[Contract, Events]) -> None:
        contract, events = drawn
        found = check(events, contract)
        assert [rule for rule in rules(found) if rule.startswith("llm.")] == []
