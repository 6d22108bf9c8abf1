"""Tests of the rules of the ``session-title`` package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from dsh_core.contract.rules import session_title
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract
from dsh_core.faults import Fault
from tests.checking import (
    Item,
    answer,
    check,
    event,
    log,
    one_turn,
    prompt,
    replace,
    rules,
)
from tests.strategies import header_row, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_core.contract.findings import Finding

V0, V4 = Contract.V0, Contract.V4
ODD: Final[tuple[Any, ...]] = (None, True, 0, 1, -1, 1.5, 2**53, "", "x", [], {}, [{}], [[0]])
FALLBACK: Final = {"kind": "fallback"}
USER: Final = {"kind": "user"}
both = pytest.mark.parametrize("contract", [V0, V4])


def title(seqs: Any, source: Any = FALLBACK) -> Item:
    return event("session/title", {"title": "A title", "messageSeqs": seqs, "source": source})


def request(seqs: Any, **message: Any) -> Item:
    """Return the request that asks a model for a title."""
    source = {"kind": "dsh-session-title-llm"}
    whole = {"id": "q", "role": "user", "source": source, "content": text("name it"), **message}
    return event("session/title-llm-request", {"messageSeqs": seqs, "messages": [whole]})


def found_in(*items: Item, contract: Contract = V4) -> list[Finding]:
    """Check what follows two messages of the user, the answer to them, and another message."""
    machine = prompt(id="v", source={"kind": "runtime-context"})
    inside = (prompt(), prompt(id="w"), machine, answer(1, 1))
    return check(log(*one_turn(1, *inside), *items), contract)


class TestWhetherAnyAreCited:
    """A title of the user cites nothing, any other does."""

    @both
    @pytest.mark.parametrize(
        ("seqs", "source"),
        [
            ([], FALLBACK),
            ([], {"kind": "provider", "provider": "p"}),
            ([], {"kind": "nonsense"}),
            ([], {"kind": None}),
            ([], {}),
            ([2], USER),
        ],
    )
    def test_it_is_just_the_others_that_cite(
        self, contract: Contract, seqs: Any, source: Any
    ) -> None:
        found = found_in(title(seqs, source), contract=contract)
        assert [(f.rule, f.seq) for f in found] == [("title.sources", 8)]

    @both
    @pytest.mark.parametrize(
        ("seqs", "source"),
        [
            ([], USER),
            ([2], FALLBACK),
            ([2, 3], FALLBACK),
            ([3.0, 2], {"kind": "provider", "provider": "p", "model": "m"}),
            ([2], {"kind": "nonsense"}),
            ([2], {}),
        ],
    )
    def test_what_merely_looks_odd_is_legal(
        self, contract: Contract, seqs: Any, source: Any
    ) -> None:
        assert found_in(title(seqs, source), contract=contract) == []

    def test_a_title_may_come_before_anything_else(self) -> None:
        assert check(log(title([], USER), *one_turn(1)), V4) == []


class TestWhatIsCited:
    """Cited messages, as October has them."""

    @pytest.mark.parametrize(
        ("seqs", "message"),
        [
            ([2, 2], "messageSeqs cites 2 twice"),
            ([2, 2.0], "messageSeqs cites 2.0 twice"),
            ([8], "messageSeqs cites 8, which is not earlier"),
            ([2, 9], "messageSeqs cites 9, which is not earlier"),
            ([-1], "messageSeqs cites -1, which is not earlier"),
            ([2.5], "messageSeqs cites 2.5, which is not earlier"),
            (["2"], "messageSeqs cites '2', which is not earlier"),
            ([None], "messageSeqs cites nothing, which is not earlier"),
            ([[2]], "messageSeqs cites a list, which is not earlier"),
            ([0], "messageSeqs cites 0, which is no message of the user"),
            ([2, 4], "messageSeqs cites 4, which is no message of the user"),
            ([5], "messageSeqs cites 5, which is no message of the user"),
            ("23", "messageSeqs is '23'"),
            (5, "messageSeqs is 5"),
            (True, "messageSeqs is true"),
            ({"0": 2}, "messageSeqs is an object"),
        ],
    )
    def test_it_is_earlier_messages_of_the_user(self, seqs: Any, message: str) -> None:
        found = found_in(title(seqs))
        assert [(f.rule, f.seq, f.message) for f in found] == [("title.sources", 8, message)]
        assert found_in(title(seqs), contract=V0) == []

    @pytest.mark.parametrize(
        ("source", "what"), [(None, "nothing"), ("user", "'user'"), ([], "a list"), (5, "5")]
    )
    def test_a_title_has_a_source(self, source: Any, what: str) -> None:
        for seqs in ([], [2]):
            found = found_in(title(seqs, source))
            assert [(f.rule, f.message) for f in found] == [("title.sources", f"source is {what}")]

    @pytest.mark.parametrize("seqs", [None, 0, "", {}])
    def test_a_title_of_the_user_has_an_empty_list(self, seqs: Any) -> None:
        assert rules(found_in(title(seqs, USER))) == ["title.sources"]

    def test_a_message_that_left_the_surface_may_be_cited(self) -> None:
        again = prompt(replace(2, 2), id="x")
        again[2]["sourceEventSeqs"] = [2]
        assert found_in(again, title([2, 8])) == []

    def test_what_was_inherited_may_be_cited(self) -> None:
        row = {**(header_row(V4) or {}), "isSeeded": True, "parentSession": "s-0"}
        cut = event("session/end-seed", {"inherited": True})
        assert check(log(prompt(), title([0]), cut, title([0])), V4, header=row) == []
        bad = check(log(prompt(), cut, title([1])), V4, header=row)
        assert [(f.rule, f.seq) for f in bad] == [("title.sources", 2)]


class TestRequests:
    """What asks a model for a title, as October has it."""

    @pytest.mark.parametrize(
        "item",
        [
            request([]),
            request(None),
            request([0]),
            request([2, 2]),
            request([8]),
            request([2], role="assistant"),
            request([2], source=USER),
            request([2], source=None),
            request([2], content=[]),
            request([2], content=[*text("a"), *text("b")]),
            request([2], content=[{"type": "image"}]),
            request([2], content="words"),
            event("session/title-llm-request", {"messageSeqs": [2]}),
            event("session/title-llm-request", {"messageSeqs": [2], "messages": []}),
            event("session/title-llm-request", {"messageSeqs": [2], "messages": [5]}),
            event(
                "session/title-llm-request",
                {"messageSeqs": [2], "messages": request([2])[1]["messages"] * 2},
            ),
        ],
    )
    def test_it_stands_for_the_messages_that_it_cites(self, item: Item) -> None:
        assert [(f.rule, f.seq) for f in found_in(item)] == [("title.sources", 8)]
        assert found_in(item, contract=V0) == []

    def test_a_proper_one_is_legal(self) -> None:
        assert found_in(request([2, 3]), title([2, 3], {"kind": "provider"})) == []


class TestMissing:
    """What was not seen is not missed."""

    @pytest.mark.parametrize("cited", [1, 5])
    def test_a_message_may_have_been_in_a_gap(self, cited: int) -> None:
        events = log(prompt(), title([0]), title([cited]))
        events[2]["seq"] = 9
        assert check(events, V4, source=SourceKind.STREAM) == []
        assert rules(check(events, V4)) == ["seq.gap"]
        lost = Fault("line.not-json", "not JSON", 3, lost=True)
        assert rules(check(events, V4, faults={2: lost})) == ["line.not-json"]

    @pytest.mark.parametrize(
        ("change", "rule"),
        [
            ({"type": None}, "envelope.invalid"),
            ({"data": None}, "envelope.invalid"),
            ({"data": {"id": "u", "role": "user", "content": []}}, "message.shape"),
        ],
    )
    def test_a_message_that_could_not_be_read_may_be_cited(
        self, change: dict[str, Any], rule: str
    ) -> None:
        events = log(prompt(), title([0]))
        events[0].update(change)
        assert rule in rules(check(events, V4))
        assert "title.sources" not in rules(check(events, V4))

    def test_old_messages_are_forgotten(self) -> None:
        many: Sequence[Item] = [prompt(id=f"u{k}") for k in range(session_title.MAX_PROMPTS + 1)]
        machine = prompt(source={"kind": "goal"})
        chosen = frozenset({"title.sources"})
        events = log(machine, *many, machine, title([0]), title([1, 2]), title([len(many) + 1]))
        assert [f.seq for f in check(events, V4, chosen=chosen)] == [events[-1]["seq"]]

    def test_a_burst_repeats_what_is_known(self) -> None:
        events = log(prompt(), title([0]), *one_turn(1))
        events[2:2] = events[:2]
        assert rules(check(events, V4)) == ["seq.regressed"]


@both
@pytest.mark.parametrize("odd", ODD)
def test_nothing_is_too_odd(contract: Contract, odd: object) -> None:
    """Whatever a field holds, or the payload itself, there is a verdict."""
    for kind, sample in (
        ("session/title", title([2])),
        ("session/title-llm-request", request([2])),
    ):
        for name in sample[1]:
            found = found_in(event(kind, {**sample[1], name: odd}), contract=contract)
            assert {f.owner for f in found} <= {"session-title"}
        events = log(prompt(), event(kind))
        events[1]["data"] = odd
        assert {f.owner for f in check(events, contract)} <= {"session-title", "log"}


def test_june_knows_no_titles() -> None:
    assert check(log(title([])), Contract.SEED) == []
