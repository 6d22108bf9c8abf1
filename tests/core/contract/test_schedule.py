"""Tests of the rules about reminders."""

from __future__ import annotations

from typing import Any

import pytest

from dsh_core.contract.checker import Checker
from dsh_core.contract.rules.schedule import MAX_ACTIVE, MAX_TAKEN
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract, SessionHeader
from dsh_core.faults import Fault
from tests.checking import Item, build, check, event, log, rules, turn_start
from tests.strategies import header_row

V0 = Contract.V0
V4 = Contract.V4
V3_HEADER = {**(header_row(V0) or {}), "version": 3, "isSeeded": False}
CHILD = {**(header_row(V4) or {}), "isSeeded": True, "parentSession": "s-0"}
AT = "2026-08-01T08:00:00.000Z"
LATER = "2026-08-01T08:05:00.000Z"
EARLIER = "2026-08-01T07:59:59.999Z"
ODD: list[Any] = [None, True, 1, 1.5, "", " x", "x", [], [1], {}, {"x": 1}]


def change(operation: Any, **more: Any) -> Item:
    """Return a record about reminders."""
    return event("schedule/change", {"version": 1, "operation": operation, **more})


def create(id_: Any = "schedule-1", kind: Any = "at", **more: Any) -> Item:
    """Return the record of a new reminder."""
    record = {"id": id_, "kind": kind, "prompt": "tea", "scheduledAt": AT}
    return change("create", schedule={**record, **more})


def every(id_: str = "schedule-1", seconds: Any = 300) -> Item:
    """Return the record of a new reminder that recurs."""
    return create(id_, "every", everySeconds=seconds)


def dispatch(id_: Any = "schedule-1", **more: Any) -> Item:
    """Return the record that a reminder was sent off."""
    return change("dispatch", id=id_, **more)


def delete(id_: Any = "schedule-1") -> Item:
    """Return the record that a reminder was taken away."""
    return change("delete", id=id_)


def without(item: Item, *names: str) -> Item:
    """Return a record without some of the fields of its reminder."""
    kind, data, envelope = item
    record = {key: value for key, value in data["schedule"].items() if key not in names}
    return kind, {**data, "schedule": record}, envelope


def messages(*items: Item, contract: Contract = V0, **options: Any) -> list[str]:
    """Check a log and return the messages of what the rule finds."""
    found = check(log(*items), contract, **options)
    return [finding.message for finding in found if finding.rule == "schedule.fold"]


class TestRecords:
    """A record as such."""

    @pytest.mark.parametrize(
        "item",
        [
            create("after-1", "after", afterSeconds=1),
            create("after-1", "after", afterSeconds=2**53 - 1),
            create("after-1", "after", afterSeconds=60.0),
            create(prompt="a  b\nc"),
            create(prompt="[prompt]"),
            create(scheduledAt="0001-01-01T00:00:00.000Z"),
            create(scheduledAt="9999-12-31T23:59:59.999Z"),
            create(scheduledAt="2028-02-29T00:00:00.000Z"),
            every(seconds=300),
            every(seconds=9_007_199_254_740),
            event("schedule/change", {**create()[1], "version": 1.0}),
        ],
    )
    def test_what_a_record_may_say(self, item: Item) -> None:
        assert check(log(item), V0) == []

    @pytest.mark.parametrize("version", [None, 0, 2, "1", True, [1]])
    def test_the_version_is_one(self, version: Any) -> None:
        (message,) = messages(event("schedule/change", {**create()[1], "version": version}))
        assert message.startswith("the version is ")

    @pytest.mark.parametrize("operation", [None, "update", 1, ["create"], {}])
    def test_operations_are_known(self, operation: Any) -> None:
        (message,) = messages(change(operation, schedule=create()[1]["schedule"]))
        assert message.startswith("the operation is ")

    @pytest.mark.parametrize("kind", [None, "cron", "daily", 1, ["at"]])
    def test_kinds_are_known(self, kind: Any) -> None:
        (message,) = messages(create(kind=kind))
        assert message.startswith("the kind is ")

    @pytest.mark.parametrize(
        ("item", "message"),
        [
            (change("create"), "schedule is missing"),
            (change("delete"), "id is missing"),
            (change("dispatch", acceptedAt=AT), "id is missing"),
            (without(create(), "id"), "id is missing"),
            (without(create(), "prompt"), "prompt is missing"),
            (without(create(), "scheduledAt"), "scheduledAt is missing"),
            (create(kind="after"), "afterSeconds is missing"),
            (create(kind="every", afterSeconds=300), "everySeconds is missing"),
        ],
    )
    def test_no_field_is_missing(self, item: Item, message: str) -> None:
        assert messages(item) == [message]

    @pytest.mark.parametrize(
        "item",
        [
            change("create", id="schedule-1", schedule=create()[1]["schedule"]),
            create(afterSeconds=1),
            create(kind="after", afterSeconds=1, everySeconds=300),
            create(kind="every", everySeconds=300, timeZone="UTC"),
            create(title="Tea"),
            change("delete", id="schedule-1", acceptedAt=AT),
            dispatch(occurrenceAt=AT),
        ],
    )
    def test_no_field_is_foreign(self, item: Item) -> None:
        assert messages(item) == ["there is a field that does not belong there"]

    @pytest.mark.parametrize("id_", ["", " x", "x\n", "\ufeffx", None, 1, ["x"]])
    @pytest.mark.parametrize("make", [create, delete, dispatch])
    def test_ids_are_filled_and_trimmed(self, make: Any, id_: Any) -> None:
        assert messages(make(id_)) == ["the id is empty or untrimmed"]

    @pytest.mark.parametrize("prompt", ["", " tea", "tea ", None, 1, ["tea"]])
    def test_prompts_are_filled_and_trimmed(self, prompt: Any) -> None:
        assert messages(create(prompt=prompt)) == ["the prompt is empty or untrimmed"]

    @pytest.mark.parametrize(
        "instant",
        [
            None,
            1_785_571_200_000,
            "2026-08-01",
            "2026-08-01T08:00:00Z",
            "2026-08-01T08:00:00.000",
            "2026-08-01T08:00:00.000+00:00",
            "2026-08-01T08:00:00.0000Z",
            "2026-08-01t08:00:00.000z",
            "2026-02-29T08:00:00.000Z",
            "2026-13-01T08:00:00.000Z",
            "2026-08-01T24:00:00.000Z",
            "2026-08-01T08:00:60.000Z",
            "0000-08-01T08:00:00.000Z",
            "+02026-08-01T08:00:00.000Z",
            "\uff12026-08-01T08:00:00.000Z",
            "2026-08-01T08:00:00.000Z\n",
        ],
    )
    def test_instants_are_canonical(self, instant: Any) -> None:
        assert messages(create(scheduledAt=instant)) == ["scheduledAt is no instant in UTC"]
        assert messages(every(), dispatch(acceptedAt=instant)) == [
            "acceptedAt is no instant in UTC"
        ]

    @pytest.mark.parametrize("seconds", [0, -1, 1.5, "60", None, True, 2**53])
    def test_a_delay_is_a_second_or_more(self, seconds: Any) -> None:
        (message,) = messages(create(kind="after", afterSeconds=seconds))
        assert message.startswith("afterSeconds is ")

    @pytest.mark.parametrize("seconds", [0, 299, 299.5, "300", None, True, 9_007_199_254_741])
    def test_an_interval_is_five_minutes_or_more(self, seconds: Any) -> None:
        (message,) = messages(every(seconds=seconds))
        assert message.startswith("everySeconds is ")

    def test_content_is_not_quoted(self) -> None:
        secret = "my secret plan"
        found = messages(
            create(kind=secret),
            create(secret),
            create(secret),
            change(secret),
            create(prompt=f" {secret}"),
            create(scheduledAt=secret),
        )
        assert len(found) == 5
        assert not [message for message in found if "secret" in message]

    @pytest.mark.parametrize("data", ODD)
    def test_anything_else_is_malformed_too(self, data: Any) -> None:
        assert len(messages(change("create", schedule=data))) == 1
        assert len(messages(change(data, schedule=data, id=data, acceptedAt=data))) == 1
        assert len(messages(event("schedule/change", {"version": data}))) == 1


class TestLaterFormats:
    """From v1 on reminders have titles and may recur every minute."""

    @pytest.mark.parametrize(
        ("contract", "header"), [(V4, header_row(V4)), (V0, V3_HEADER)], ids=["v4", "v3"]
    )
    def test_what_was_allowed_later(self, contract: Contract, header: Any) -> None:
        items = [every(seconds=60), create("b", title="Tea"), dispatch("b")]
        assert check(log(*items), contract, header=header) == []
        short = messages(every(seconds=59), contract=contract, header=header)
        assert short == ["everySeconds is 59, not a whole number from 60 on"]

    def test_august_had_neither(self) -> None:
        assert messages(every(seconds=60)) == ["everySeconds is 60, not a whole number from 300 on"]
        assert len(messages(create(title="Tea"))) == 1


class TestOrder:
    """A record after those before it."""

    def test_reminders_come_and_go(self) -> None:
        items = [
            create("a"),
            every("b"),
            create("c", "after", afterSeconds=5),
            dispatch("a"),
            dispatch("b", acceptedAt=LATER),
            delete("c"),
            delete("b"),
        ]
        assert check(log(*items), V4) == []

    @pytest.mark.parametrize("between", [[], [delete("a")], [dispatch("a")]])
    def test_an_id_is_never_used_again(self, between: list[Item]) -> None:
        assert messages(create("a"), *between, create("a")) == ["'a' is created again"]

    @pytest.mark.parametrize(
        "before", [[], [create("a"), delete("a")], [create("a"), dispatch("a")]]
    )
    def test_only_what_is_active_is_deleted_or_dispatched(self, before: list[Item]) -> None:
        assert messages(*before, delete("a")) == ["'a' is deleted and not active"]
        assert messages(*before, dispatch("a")) == ["'a' is dispatched and not active"]

    @pytest.mark.parametrize("kind", [{"kind": "at"}, {"kind": "after", "afterSeconds": 9}])
    def test_what_is_due_once_has_no_time_of_acceptance(self, kind: dict[str, Any]) -> None:
        found = messages(create("a", **kind), dispatch("a", acceptedAt=AT))
        assert found == ["'a' is due once and has an acceptedAt"]

    def test_what_recurs_has_one(self) -> None:
        assert messages(every("a"), dispatch("a")) == ["'a' recurs and has no acceptedAt"]

    @pytest.mark.parametrize(
        ("accepted", "following", "fine"),
        [
            (AT, "2026-08-01T08:05:00.000Z", True),
            (AT, "2026-08-01T08:04:59.999Z", False),
            ("2026-08-01T08:04:59.999Z", "2026-08-01T08:05:00.000Z", True),
            # What was missed meanwhile is not made up for.
            ("2026-08-01T08:17:00.000Z", "2026-08-01T08:20:00.000Z", True),
            ("2026-08-01T08:17:00.000Z", "2026-08-01T08:19:59.999Z", False),
            ("2026-08-01T08:20:00.000Z", "2026-08-01T08:24:59.999Z", False),
        ],
    )
    def test_what_recurs_is_due_whole_intervals_later(
        self, accepted: str, following: str, fine: bool
    ) -> None:
        found = messages(
            every("a"), dispatch("a", acceptedAt=accepted), dispatch("a", acceptedAt=following)
        )
        assert found == ([] if fine else ["'a' is dispatched before it is due"])

    def test_what_would_be_due_after_the_last_year_is_not_active_any_more(self) -> None:
        last = "9999-12-31T23:59:59.999Z"
        early = "9999-12-31T23:54:59.999Z"
        items = [create("a", "every", everySeconds=300, scheduledAt=early)]
        items += [dispatch("a", acceptedAt=early), dispatch("a", acceptedAt=last)]
        assert messages(*items) == []
        assert messages(*items, delete("a")) == ["'a' is deleted and not active"]


class TestAfterAFault:
    """One cause is one finding."""

    def test_a_malformed_reminder_is_there_all_the_same(self) -> None:
        odd = create("a", "every", everySeconds=1)
        items = [odd, dispatch("a", acceptedAt=EARLIER), dispatch("a"), delete("a")]
        assert len(messages(*items)) == 1
        assert messages(odd, create("a"))[1:] == ["'a' is created again"]

    def test_a_reminder_nobody_made_is_reported_once(self) -> None:
        items = [dispatch("a", acceptedAt=AT) for _ in range(3)]
        assert messages(*items, delete("a")) == ["'a' is dispatched and not active"]

    def test_a_dispatch_that_came_too_early_changes_nothing(self) -> None:
        items = [every("a"), dispatch("a", acceptedAt="2026-08-01T07:00:00.000Z")]
        assert len(messages(*items, dispatch("a", acceptedAt=AT))) == 1
        assert len(messages(*items, dispatch("a", acceptedAt=EARLIER))) == 2

    def test_nor_does_one_without_time(self) -> None:
        items = [every("a"), dispatch("a"), dispatch("a", acceptedAt=AT)]
        assert len(messages(*items)) == 1

    def test_a_malformed_delete_deletes(self) -> None:
        assert len(messages(create("a"), change("delete", id="a", x=1), delete("a"))) == 2


class TestWhatIsNotSeen:
    """Records that are missing, inherited, repeated or too many."""

    @pytest.mark.parametrize("item", [delete(), dispatch(), dispatch(acceptedAt=AT)])
    def test_a_lost_line_may_have_made_the_reminder(self, item: Item) -> None:
        events = log(create("a"), create(), turn_start(1), item)
        lost = Fault("line.not-json", "no JSON", 2, lost=True)
        found = check([events[0], *events[2:]], V4, faults={1: lost})
        assert rules(found) == ["line.not-json"]

    def test_so_may_what_a_stream_left_out(self) -> None:
        events = log(create("a"), create(), turn_start(1), delete())
        assert check([events[0], *events[2:]], V4, source=SourceKind.STREAM) == []

    def test_but_not_what_was_seen(self) -> None:
        events = log(create("a"), create(), turn_start(1), delete(), create("a"))
        found = check([events[0], *events[2:]], V4, source=SourceKind.STREAM)
        assert [f.message for f in found] == ["'a' is created again"]

    def test_inherited_records_are_not_judged_and_do_not_count(self) -> None:
        seed = [create("a"), create("a"), every("b"), change("?")]
        cut = event("session/end-seed", {"inherited": True})
        assert check(log(*seed, cut, create("a"), dispatch("a")), V4, header=CHILD) == []
        found = messages(*seed, cut, delete("b"), contract=V4, header=CHILD)
        assert found == ["'b' is deleted and not active"]

    def test_of_a_fork_of_a_fork_neither(self) -> None:
        cut = event("session/end-seed", {"inherited": True})
        items = [create("a"), cut, create("b"), delete("c"), cut, create("b")]
        assert check(log(*items), V4, header=CHILD) == []

    def test_nor_those_that_the_header_counts(self) -> None:
        items = [create("a"), change("?"), create("a"), delete("b")]
        header = SessionHeader(id="s-1", version=0, seed_length=2)
        checker = Checker(header, header_row=header_row(V0), strict=True)
        found = [f for item in log(*items) for f in checker.observe(build(item, 0)[0])]
        assert [f.message for f in found] == ["'b' is deleted and not active"]

    def test_a_resume_forgets_nothing(self) -> None:
        assert check(log(create("a"), event("session/end-seed"), delete("a")), V4) == []

    def test_a_repeated_stretch_is_one_finding(self) -> None:
        events = log(create("a"), dispatch("a"), create("b"), delete("b"))
        found = check([*events, *events[1:], *log(create("c"), first=4)], V4)
        assert rules(found) == ["seq.regressed"]

    def test_a_repetition_changes_nothing(self) -> None:
        events = log(create("a"), create("b"), delete("a"))
        more = log(turn_start(1), delete("a"), first=3)
        found = check([*events, *events[:2], *more], V4)
        assert rules(found) == ["seq.regressed", "schedule.fold"]

    def test_more_reminders_than_are_followed(self) -> None:
        items = [every("e"), *[create(f"a{number}") for number in range(MAX_ACTIVE)]]
        twice = [dispatch("e", acceptedAt=AT), dispatch("e", acceptedAt=AT)]
        assert messages(*items, *twice, contract=V4) == ["'e' is dispatched before it is due"]
        assert messages(*items, delete(f"a{MAX_ACTIVE - 1}"), delete("b"), contract=V4) == []

    def test_of_the_ids_that_are_taken_the_newest_are_known(self) -> None:
        items = [
            item
            for number in range(MAX_TAKEN + 1)
            for item in (create(f"a{number}"), delete(f"a{number}"))
        ]
        assert messages(*items, create("a0"), contract=V4) == []
        assert messages(*items, create("a1"), contract=V4) == ["'a1' is created again"]

    def test_june_had_no_reminders(self) -> None:
        assert check(log(change("?")), Contract.SEED) == []
