"""Tests of the rules about the inbox: what may become of its two lists."""

from __future__ import annotations

from typing import Any, Final

import pytest

from dsh_core.contract.rules.inbox import MAX_FOLLOWED
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract
from dsh_core.faults import Fault
from tests.checking import Item, check, event, log, prompt, rules, summary, turn_end, turn_start
from tests.core.contract.inboxes import cancel, claim, insert, message, splice, turn
from tests.strategies import Event, header_row

V0, V4 = Contract.V0, Contract.V4
STREAM = SourceKind.STREAM
NEXT_STEP: Final = "next-step"
CHILD: Final = {**(header_row(V4) or {}), "isSeeded": True, "parentSession": "s-0"}
CUT: Final = event("session/end-seed", {"inherited": True})
USER: Final = {"kind": "user"}
RESUMED: Final = event("session/end-seed")
ODD: Final[tuple[Any, ...]] = (True, -1, 1.5, 2**53, "", "x", [], {}, [{}])
both = pytest.mark.parametrize("contract", [V0, V4])


def found(*items: Item, contract: Contract = V4, **options: Any) -> list[tuple[str, int | None]]:
    """Check a log and return what is found of the inbox, and where."""
    findings = check(log(*items), contract, **options)
    return [(f.rule, f.seq) for f in findings if f.owner == "agent"]


class TestBounds:
    """Where a list is changed, and by how much."""

    @pytest.mark.parametrize("kind", ["", "plugin", None, 5, [], ["x"], {}])
    def test_an_inserted_message_names_its_producer(self, kind: object) -> None:
        odd = splice(inserted=[{"id": "u", "source": {"kind": kind}}])
        taken = (turn_start(1), claim())
        assert found(odd, *taken) == [("inbox.bounds", 0)]
        assert found(odd, *taken, contract=V0) == []
        for source in (kind, "user"):
            assert found(splice(inserted=[{"id": "u", "source": source}])) == [("inbox.bounds", 0)]
        assert found(splice(inserted=[{"id": "u", "source": {"kind": "plugin:x"}}])) == []

    @both
    @pytest.mark.parametrize(
        "item",
        [
            insert("x", start=3),
            cancel(3),
            cancel(1, start=2),
            cancel(2, start=1),
            cancel(1, target=NEXT_STEP),
            insert("x", target=NEXT_STEP, start=1),
            splice(start=3),
        ],
    )
    def test_a_change_beyond_the_end(self, contract: Contract, item: Item) -> None:
        findings = check(log(insert("u", "v"), item), contract)
        assert [(f.rule, f.seq, f.line) for f in findings] == [("inbox.bounds", 1, 2)]

    @both
    @pytest.mark.parametrize("odd", [*ODD, None])
    def test_a_start_that_is_no_position(self, contract: Contract, odd: Any) -> None:
        assert found(insert("u", start=odd), contract=contract) == [("inbox.bounds", 0)]

    @both
    @pytest.mark.parametrize("odd", ODD)
    def test_a_removal_of_no_count(self, contract: Contract, odd: Any) -> None:
        items = insert("u"), splice(removedCount=odd, inserted=[message("v")], outcome="canceled")
        assert found(*items, contract=contract) == [("inbox.bounds", 1)]

    @both
    @pytest.mark.parametrize("odd", [None, "next-week", "", 5, [], {}])
    def test_a_list_that_is_none(self, contract: Contract, odd: Any) -> None:
        assert found(insert("u", target=odd), contract=contract) == [("inbox.bounds", 0)]

    @both
    @pytest.mark.parametrize("odd", [None, 5, "x", {}, [5], [None], [message("u"), []]])
    def test_what_is_inserted_and_no_list_of_messages(self, contract: Contract, odd: Any) -> None:
        assert found(splice(inserted=odd), contract=contract) == [("inbox.bounds", 0)]

    def test_in_october_the_list_of_what_is_inserted_is_never_missing(self) -> None:
        kind, data, envelope = cancel()
        bare = kind, {k: v for k, v in data.items() if k != "inserted"}, envelope
        assert found(insert("u"), bare, contract=V0) == []
        assert found(insert("u"), bare) == [("inbox.bounds", 1)]

    @both
    @pytest.mark.parametrize(
        "item",
        [
            insert("x", start=0),
            insert("x", start=2.0),
            insert("x", start=1, removedCount=None),
            cancel(1, start=1),
            cancel(2.0),
            insert("x", start=1, removedCount=1, outcome="canceled"),
        ],
    )
    def test_changes_within_a_list(self, contract: Contract, item: Item) -> None:
        assert found(insert("u", "v"), item, contract=contract) == []

    def test_the_list_is_as_long_afterwards_as_its_writer_takes_it_for(self) -> None:
        """One insertion that is missing is one finding."""
        items = insert("x", start=2), cancel(1, start=2), cancel(2), insert("y")
        assert found(*items) == [("inbox.bounds", 0)]
        assert found(*items, insert("z", start=2)) == [("inbox.bounds", 0), ("inbox.bounds", 4)]

    def test_after_one_that_cannot_be_followed_nothing_is_guessed_at(self) -> None:
        items = splice(inserted=5), insert("u", start=7), insert("u"), cancel(9)
        assert found(*items) == [("inbox.bounds", 0)]

    def test_the_message_says_what_is_wrong_and_quotes_nothing(self) -> None:
        items = [insert("u", start=1), insert("u", target="some words")]
        messages = [check(log(item), V4)[0].message for item in items]
        assert messages == [
            "it reaches to position 1 of 0 messages for the next-turn",
            "the list is another text",
        ]


class TestDuplicates:
    """Ids of messages that wait."""

    @both
    @pytest.mark.parametrize(
        ("items", "seq"),
        [
            ((insert("u"), insert("u")), 1),
            ((insert("u"), insert("u", start=1)), 1),
            ((insert("u"), insert("u", target=NEXT_STEP)), 1),
            ((insert("u", "v", "u"),), 0),
            ((insert("u", "v"), insert("v", removedCount=1, outcome="canceled")), 1),
            ((insert(5), insert(5.0)), 1),
            ((insert(""), insert("")), 1),
            ((splice(inserted=[{"source": USER}, {"source": USER}]),), 0),
        ],
    )
    def test_an_id_that_waits_already(
        self, contract: Contract, items: tuple[Item, ...], seq: int
    ) -> None:
        assert found(*items, contract=contract) == [("inbox.duplicate-id", seq)]

    @both
    @pytest.mark.parametrize(
        "items",
        [
            (insert("u"), cancel(), insert("u")),
            (insert("u"), cancel(), insert("u", target=NEXT_STEP)),
            (insert("u", "v"), insert("u", removedCount=1, outcome="canceled")),
            (insert("u", "v"), insert("v", "u", removedCount=2, outcome="canceled")),
            (insert(5), insert("5")),
            (insert({}), insert({}), insert([])),
            (insert(None), splice(inserted=[{"source": USER}])),
        ],
    )
    def test_ids_that_differ_or_are_free_again(
        self, contract: Contract, items: tuple[Item, ...]
    ) -> None:
        assert found(*items, contract=contract) == []

    def test_a_claimed_message_may_be_queued_again(self) -> None:
        assert found(insert("u"), *turn(claim(), said=["u"]), insert("u")) == []

    def test_an_old_duplicate_is_not_found_again(self) -> None:
        items = insert("u"), insert("u"), insert("v"), cancel(1, start=1), insert("w")
        assert found(*items) == [("inbox.duplicate-id", 1)]

    def test_the_ids_of_a_long_list_are_not_followed(self) -> None:
        many = insert(*map(str, range(MAX_FOLLOWED + 1)))
        assert found(many, insert("0")) == []
        assert found(many, insert("u", target=NEXT_STEP), insert("u")) == [
            ("inbox.duplicate-id", 2)
        ]

    def test_the_longest_list_whose_ids_are_followed(self) -> None:
        many = insert(*map(str, range(MAX_FOLLOWED)))
        assert found(many, insert("0", target=NEXT_STEP)) == [("inbox.duplicate-id", 1)]
        unseen = insert("x", start=MAX_FOLLOWED - 1), insert("x", target=NEXT_STEP)
        assert found(*unseen) == [("inbox.bounds", 0), ("inbox.duplicate-id", 1)]
        removed = cancel(1, start=MAX_FOLLOWED - 1), insert("x"), insert("x")
        assert found(*removed) == [("inbox.bounds", 0), ("inbox.duplicate-id", 2)]

    def test_once_a_long_list_is_empty_it_is_followed_again(self) -> None:
        many = insert(*map(str, range(MAX_FOLLOWED + 1)))
        emptied = many, cancel(MAX_FOLLOWED + 1), insert("u")
        assert found(*emptied, insert("v")) == []
        assert found(*emptied, insert("u")) == [("inbox.duplicate-id", 3)]

    def test_the_length_of_a_long_list_is_known(self) -> None:
        count = MAX_FOLLOWED + 1
        many = insert(*map(str, range(count)))
        assert found(many, insert("u", start=count)) == []
        assert found(many, insert("u", start=count + 1)) == [("inbox.bounds", 1)]


class TestNothing:
    """Changes that change nothing, and outcomes of nothing."""

    @both
    @pytest.mark.parametrize("item", [splice(), splice(removedCount=0), splice(start=1)])
    def test_a_change_of_nothing(self, contract: Contract, item: Item) -> None:
        assert found(insert("u"), item, contract=contract) == [("inbox.noop", 1)]

    @both
    @pytest.mark.parametrize("outcome", ["canceled", "x", "", 5, False, {}])
    def test_an_outcome_of_no_removal(self, contract: Contract, outcome: Any) -> None:
        item = insert("u", outcome=outcome)
        assert found(item, contract=contract) == [("inbox.cancel-unmarked", 0)]

    def test_an_outcome_of_nothing_at_all_is_one_fault(self) -> None:
        assert found(splice(outcome="canceled")) == [("inbox.noop", 0)]

    def test_an_outcome_of_null_is_none(self) -> None:
        assert found(insert("u", outcome=None)) == []


class TestClaimOrder:
    """Which messages the loop takes, and when."""

    @both
    @pytest.mark.parametrize(
        ("item", "message"),
        [
            (claim(start=1), "messages are claimed from position 1 on"),
            (claim(2), "2 messages are claimed for one turn"),
            (claim(inserted=[message("x")]), "messages are claimed and inserted at once"),
            (claim(1, target=NEXT_STEP), "1 of 2 messages are claimed for the step"),
            (claim(1, target=NEXT_STEP, start=1), "messages are claimed from position 1 on"),
        ],
    )
    def test_out_of_order(self, contract: Contract, item: Item, message: str) -> None:
        queue = insert("u", "v"), insert("a", "b", target=NEXT_STEP)
        findings = check(log(*queue, turn_start(1), item, turn_end(1, "aborted")), contract)
        assert [(f.rule, f.seq, f.message) for f in findings] == [("inbox.claim-order", 3, message)]

    @both
    def test_outside_a_turn(self, contract: Contract) -> None:
        assert found(insert("u"), claim(), contract=contract) == [("inbox.claim-order", 1)]

    @both
    def test_in_order(self, contract: Contract) -> None:
        queue = insert("u", "v"), insert("a", "b", target=NEXT_STEP)
        first = turn(claim(), claim(2, target=NEXT_STEP), said=["u", "a", "b"])
        assert found(*queue, *first, *turn(claim(), n=2, said=["v"]), contract=contract) == []

    def test_cancelled_messages_may_be_taken_from_anywhere_at_any_time(self) -> None:
        items = insert("u", "v", "w"), cancel(2, start=1), cancel()
        assert found(*items) == []

    def test_a_claim_beyond_the_list_is_one_fault(self) -> None:
        assert found(turn_start(1), claim(2), turn_end(1)) == [("inbox.bounds", 1)]

    def test_a_missing_start_of_the_turn_is_one_cause(self) -> None:
        """What else lies in the turn is a consequence."""
        items = turn(claim(), said=["u"])[1:]
        findings = check(log(insert("u"), *items), V4)
        assert summary(findings) == [("inbox.claim-order", 4, 1, 5)]

    def test_an_end_that_nothing_began_explains_what_lies_before_the_next_turn(self) -> None:
        items = insert("u"), *turn(), turn_end(2), claim(), *turn(n=3, said=["u"])
        findings = check(log(*items), V4)
        assert summary(findings) == [("turn.end-mismatch", 2, 5, 6)]


class TestHistory:
    """What was inherited, lost or repeated."""

    def test_what_was_inherited_is_not_judged(self) -> None:
        twisted = insert("u", start=-1), insert("u", target="x"), splice(inserted=5)
        items = *twisted, insert("u", start=5), splice(), claim(), insert("u", outcome="x")
        assert found(*items, CUT, insert("x"), header=CHILD) == []

    def test_of_an_empty_inheritance_the_own_lists_are_known(self) -> None:
        inherited = insert("u"), *turn(claim(), said=["u"]), CUT
        assert found(*inherited, insert("u"), cancel(), header=CHILD) == []
        own = len(inherited)
        assert found(*inherited, cancel(), header=CHILD) == [("inbox.bounds", own)]
        twice = insert("u"), insert("u")
        assert found(*inherited, *twice, header=CHILD) == [("inbox.duplicate-id", own + 1)]

    @pytest.mark.parametrize("item", [cancel(), insert("v", start=1), insert("u")])
    def test_of_messages_that_were_inherited_nothing_is_known(self, item: Item) -> None:
        assert found(insert("u"), CUT, item, header=CHILD) == []

    def test_what_needs_no_history_is_found_all_the_same(self) -> None:
        assert found(insert("u"), CUT, splice(), header=CHILD) == [("inbox.noop", 2)]

    @pytest.mark.parametrize(
        "items",
        [
            (insert("u", start=3),),
            (insert("u", start=-1),),
            (insert("u"), insert("u")),
            (splice(),),
            (insert("u", outcome="x"),),
            (insert("u"), claim()),
            (insert("u", "v"), turn_start(1), claim(2), turn_end(1)),
        ],
    )
    def test_what_looked_own_in_a_fork_of_a_fork_is_forgotten(
        self, items: tuple[Item, ...]
    ) -> None:
        assert len(found(CUT, *items, header=CHILD)) == 1
        assert found(CUT, *items, CUT, insert("x"), header=CHILD) == []

    def test_an_inherited_length_tells_the_own_part_too(self) -> None:
        """Formats v0 and v1 say where the inherited part ends in the header."""
        row = {**(header_row(V0) or {}), "seedLength": 1}
        events = log(insert("u", start=4), insert("v"), insert("v", start=1))
        assert rules(check(events, V0, header=row)) == ["inbox.bounds", "inbox.duplicate-id"]

    def test_a_resume_empties_no_list(self) -> None:
        assert found(insert("u"), RESUMED, cancel()) == []
        assert found(insert("u"), RESUMED, insert("u")) == [("inbox.duplicate-id", 2)]

    @pytest.mark.parametrize(
        "items",
        [
            (insert("u", "v"), turn_start(1), claim(), turn_end(1), turn_start(2), claim()),
            (
                insert("a", "b", target=NEXT_STEP),
                turn_start(1),
                cancel(target=NEXT_STEP),
                turn_end(1),
                turn_start(2),
                claim(1, target=NEXT_STEP),
            ),
        ],
    )
    def test_after_the_turn_of_a_gap_too(self, items: tuple[Item, ...]) -> None:
        events = log(*items)
        del events[2]
        assert rules(check(events, V4)) == ["seq.gap"]
        assert check(events, V4, source=STREAM) == []

    @pytest.mark.parametrize("item", [cancel(), insert("x", start=1), insert("v")])
    def test_changes_that_were_lost_explain_what_does_not_fit(self, item: Item) -> None:
        events = log(insert("v"), cancel(), item, *turn(claim(), said=["x", "v"]))
        lost = Fault("line.not-json", "not JSON", 2, lost=True)
        del events[1]
        assert rules(check(events, V4, faults={1: lost})) == ["line.not-json"]
        assert rules(check(events, V4)) == ["seq.gap"]
        assert check(events, V4, source=STREAM) == []

    def test_a_stream_that_begins_late_explains_it_too(self) -> None:
        assert check(log(*turn(claim(), n=3, said=["x"]), first=40), V4, source=STREAM) == []

    def test_repeated_changes_are_no_news(self) -> None:
        events = log(turn_start(1), insert("u"), insert("v"), turn_end(1), turn_start(2))
        again = log(cancel(), cancel(), insert("w"), turn_end(2), first=5)
        assert rules(check([*events, *events[1:3], *again], V4)) == ["seq.regressed"]

    def test_changes_that_only_look_repeated_may_be_news(self) -> None:
        events = log(turn_start(1), insert("u"), insert("v"), turn_end(1))
        new = log(insert("x", target=NEXT_STEP), first=2)
        tail = log(turn_end(1), turn_start(2), claim(target=NEXT_STEP), turn_end(2), first=3)
        assert rules(check([*events[:3], *new, *tail], V4)) == ["seq.duplicate"]

    @pytest.mark.parametrize("data", [None, 5, "x", [], [{}]])
    def test_a_change_that_cannot_be_read_explains_what_does_not_fit(self, data: Any) -> None:
        events = log(insert("u"), insert("v"), cancel(2), insert("v"))
        events[1]["data"] = data
        assert rules(check(events, V4)) == ["envelope.invalid"]

    def test_june_has_no_inbox(self) -> None:
        june: Event = {"contract": Contract.SEED}
        assert found(splice(), claim(), prompt(), **june) == []
