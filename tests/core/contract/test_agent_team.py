"""Tests of the rules about teams."""

from __future__ import annotations

from typing import Any

import pytest

from dsh_core.contract.rules.agent_team import MAX_MEMBERS, MAX_MESSAGES
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract
from dsh_core.faults import Fault
from tests.checking import Item, check, event, log, rules, turn_start
from tests.strategies import header_row

V0 = Contract.V0
V4 = Contract.V4
V3_HEADER = {**(header_row(V0) or {}), "version": 3, "isSeeded": False}
ODD: list[Any] = [None, True, 1, -1.5, 2**70, "", "x", [], [1], [[]], {}, {"id": []}, {"id": "x"}]
LOST = Fault("line.not-json", "no JSON", 2, lost=True)


def record(kind: str, **more: Any) -> Item:
    """Return a record of the team that the session of the tests leads."""
    return event(f"team/{kind}", {"version": 2, "teamId": "s-1", **more})


def member(id_: Any = "m-1", phase: Any = "provisioning", **more: Any) -> Item:
    """Return what is said of a member."""
    known = {"id": id_, "name": f"Ada {id_}", "description": "d", "provider": "spawn"}
    return record("member", member={**known, "context": "fresh", "phase": phase, **more})


def task(id_: Any = "task-1", revision: Any = 1, *blockers: Any, **more: Any) -> Item:
    """Return what is said of a task."""
    known = {"id": id_, "revision": revision, "subject": "s", "description": "d"}
    more = {"status": "pending", "blockedBy": list(blockers), "writeScopes": [], **more}
    return record("task", task={**known, **more})


def deleted(id_: str, revision: int, *blockers: str) -> Item:
    """Return that a task is deleted."""
    return task(id_, revision, *blockers, status="deleted")


def queued(id_: Any = "q-1", target: Any = "m-1") -> Item:
    """Return that a message waits for somebody."""
    known = {"id": id_, "senderId": "s-1", "senderName": "lead", "content": []}
    return record("message/queued", message={**known, "targetId": target})


def delivered(id_: Any = "q-1", target: Any = "m-1") -> Item:
    """Return that a message has reached somebody."""
    return record("message/delivered", messageId=id_, targetId=target)


def said(item: Item, **fields: Any) -> Item:
    """Return a record with other fields of its own."""
    kind, data, envelope = item
    return kind, {**data, **fields}, envelope


def found(*items: Item, contract: Contract = V4, **options: Any) -> list[tuple[str, str]]:
    """Check a log and return rules and messages of what is found."""
    return [(f.rule, f.message) for f in check(log(*items), contract, **options)]


def faults(rule: str, *items: Item) -> list[str]:
    """Check a log in which only one rule may trip and return the messages."""
    findings = found(*items)
    assert {name for name, _ in findings} <= {rule}
    return [message for _, message in findings]


def lossy(*items: Item) -> list[str]:
    """Check a log without its last record but one and return the messages, for lost and left out.

    The last record lies in another turn, where the gap does not explain everything any more.
    """
    events = log(*items[:-1], turn_start(1), items[-1])
    pieces = [*events[:-3], *events[-2:]]
    streamed = [finding.message for finding in check(pieces, V4, source=SourceKind.STREAM)]
    first, *lost = check(pieces, V4, faults={len(pieces) - 2: LOST})
    assert first.rule == "line.not-json"
    assert [finding.message for finding in lost] == streamed
    return streamed


class TestMembers:
    """A member is provisioned, and becomes active or failed."""

    @pytest.mark.parametrize("end", ["active", "failed"])
    def test_how_it_goes(self, end: str) -> None:
        items = [member("a"), member("b"), member("a", end, description="other", error="e")]
        assert found(*items) == []

    @pytest.mark.parametrize("phase", ["active", "failed", "gone", "", None, 1, ["provisioning"]])
    def test_it_begins_as_provisioning(self, phase: Any) -> None:
        (message,) = faults("team.member", member("a", phase))
        assert message.startswith("'a' begins as ")

    @pytest.mark.parametrize(
        ("before", "phase"),
        [
            ("provisioning", "provisioning"),
            ("provisioning", "gone"),
            ("provisioning", None),
            ("active", "failed"),
            ("active", "active"),
            ("active", "provisioning"),
            ("failed", "active"),
            ("failed", "failed"),
        ],
    )
    def test_it_ends_once(self, before: str, phase: Any) -> None:
        ended = [] if before == "provisioning" else [member("a", before)]
        (message,) = faults("team.member", member("a"), *ended, member("a", phase))
        assert message.startswith(f"'a' goes from {before} to ")

    @pytest.mark.parametrize(
        ("field", "value"), [("name", "Bo"), ("provider", "fork"), ("context", "fork")]
    )
    def test_it_keeps_what_it_is(self, field: str, value: str) -> None:
        items = [member("a"), member("a", "active", **{field: value})]
        assert faults("team.member", *items) == [f"'a' changes its {field}"]

    def test_no_other_takes_its_name(self) -> None:
        items = [member("a", name="Bo"), member("b", name="Bo")]
        assert faults("team.member", *items) == ["'b' has the name of another member"]

    def test_nor_later(self) -> None:
        items = [member("a", name="Bo"), member("b"), member("b", "active", name="Bo")]
        assert faults("team.member", *items) == ["'b' has the name of another member"]

    def test_a_shared_name_is_reported_once(self) -> None:
        items = [member("a", name="Bo"), member("b", name="Bo")]
        items += [member("a", "active", name="Bo"), member("b", "active", name="Bo")]
        assert len(faults("team.member", *items)) == 1

    def test_what_is_no_text_is_not_compared(self) -> None:
        items = [member("a", name=None, provider=1), member("b", name=None)]
        assert found(*items, member("a", "active")) == []

    def test_after_a_phase_that_nobody_knows_any_may_come(self) -> None:
        assert len(faults("team.member", member("a"), member("a", "gone"), member("a"))) == 1

    def test_a_member_that_was_not_seen_may_have_been_provisioned(self) -> None:
        assert lossy(member("b"), member("a"), member("a", "active")) == []

    def test_more_members_than_are_followed(self) -> None:
        items = [member(f"a{number}") for number in range(MAX_MEMBERS + 1)]
        assert found(*items, member(f"a{MAX_MEMBERS}", "active"), member("b", "active")) == []
        assert len(faults("team.member", *items, member("a0"))) == 1


class TestMessages:
    """A message is queued, then delivered."""

    def test_how_it_goes(self) -> None:
        items = [
            queued("a"),
            queued("b", "m-2"),
            delivered("b", "m-2"),
            delivered("a"),
            queued("c"),
        ]
        assert found(*items) == []

    @pytest.mark.parametrize("between", [[], [delivered("a")]])
    def test_it_is_queued_once(self, between: list[Item]) -> None:
        items = [queued("a"), *between, queued("a")]
        assert faults("team.message", *items) == ["'a' is queued twice"]

    def test_it_is_delivered_once(self) -> None:
        items = [queued("a"), delivered("a"), delivered("a")]
        assert faults("team.message", *items) == ["'a' is delivered twice"]

    def test_it_is_queued_before(self) -> None:
        items = [delivered("a"), delivered("a"), queued("a")]
        assert faults("team.message", *items) == ["'a' is delivered before it is queued"]
        assert faults("team.message", *items, delivered("a"))[1:] == ["'a' is delivered twice"]

    def test_it_reaches_whom_it_is_for(self) -> None:
        items = [queued("a", "m-1"), delivered("a", "m-2")]
        message = "'a' is delivered to another than it was queued for"
        assert faults("team.message", *items) == [message]
        assert found(queued("a", None), delivered("a"), queued("b"), delivered("b", 1)) == []

    def test_a_message_that_was_not_seen_may_have_been_queued(self) -> None:
        assert lossy(queued("a"), queued("b"), delivered("b")) == []

    def test_more_messages_than_are_followed(self) -> None:
        waiting = [queued(f"a{number}") for number in range(MAX_MESSAGES + 1)]
        assert found(*waiting, delivered(f"a{MAX_MESSAGES}"), delivered("b")) == []
        done = [
            item
            for number in range(MAX_MESSAGES + 1)
            for item in (queued(f"a{number}"), delivered(f"a{number}"))
        ]
        assert found(*done, delivered("a0"), queued("a0")) == []
        assert faults("team.message", *done, delivered("a1")) == ["'a1' is delivered twice"]


class TestVersions:
    """Records have the version of their generation."""

    ALL = (member(), task(), queued(), delivered())

    @pytest.mark.parametrize("item", ALL)
    @pytest.mark.parametrize("version", [None, 0, 1, 3, "2", True, 2.5, [2]])
    def test_in_october_it_is_two(self, item: Item, version: Any) -> None:
        findings = check(log(queued(), said(item, version=version)), V4)
        assert [(f.rule, f.seq) for f in findings] == [("team.version", 1)]
        assert findings[0].message.endswith(", not 2")

    @pytest.mark.parametrize("item", ALL)
    @pytest.mark.parametrize("version", [None, 0, 2, "1", True])
    def test_in_august_it_is_one(self, item: Item, version: Any) -> None:
        items = [said(queued("x"), version=1.0), said(item, version=version)]
        assert [rule for rule, _ in found(*items, contract=V0)] == ["team.version"]

    @pytest.mark.parametrize(("version", "fine"), [(1, True), (2, True), (0, False), (3, False)])
    def test_between_it_is_either(self, version: int, fine: bool) -> None:
        items = found(said(member(), version=version), contract=V0, header=V3_HEADER)
        assert [rule for rule, _ in items] == ["team.version"] * (not fine)

    def test_one_writer_is_one_finding(self) -> None:
        old = [said(item, version=1) for item in (member("a"), task("b"), member("a", "active"))]
        findings = check(log(*old), V4)
        assert [(f.rule, f.count, f.last_seq) for f in findings] == [("team.version", 3, 2)]

    def test_records_of_another_version_count_and_are_not_judged(self) -> None:
        items = [said(member("a"), version=1), said(member("a"), version=1), member("a", "active")]
        assert [rule for rule, _ in found(*items)] == ["team.version"]


class TestOtherTeams:
    """Only the records of the session's own team are judged."""

    @pytest.mark.parametrize("team", ["s-0", "", None, 1, ["s-1"]])
    def test_another_team(self, team: Any) -> None:
        items = [member("a", "active"), task("a", 7, "a"), queued(), queued(), delivered("x")]
        assert found(*(said(item, teamId=team, version=9) for item in items)) == []

    def test_does_not_count(self) -> None:
        items = [said(member("a"), teamId="s-0"), member("a", "active")]
        assert len(faults("team.member", *items)) == 1

    def test_a_repeated_stretch_is_one_finding(self) -> None:
        events = log(member("a"), task("a"), queued("a"), delivered("a"), task("a", 2))
        found_ = check([*events, *events[1:], *log(task("a", 3), first=5)], V4)
        assert rules(found_) == ["seq.regressed"]

    def test_a_repetition_changes_nothing(self) -> None:
        events = log(member("a"), task("a"), member("a", "active"))
        more = log(turn_start(1), member("a", "active"), first=3)
        found_ = check([*events, *events[:2], *more], V4)
        assert rules(found_) == ["seq.regressed", "team.member"]

    def test_june_had_no_teams(self) -> None:
        assert check(log(member("a", "active")), Contract.SEED) == []


class TestOddities:
    """Payloads may be of any shape."""

    @pytest.mark.parametrize("value", ODD)
    @pytest.mark.parametrize("field", ["member", "task", "message", "messageId", "targetId"])
    def test_a_field_of_another_shape(self, field: str, value: Any) -> None:
        own = [said(item, **{field: value}) for item in TestVersions.ALL]
        assert {rule.partition(".")[0] for rule, _ in found(*own, *own)} <= {"team"}

    @pytest.mark.parametrize("value", ODD)
    @pytest.mark.parametrize("field", ["name", "provider", "context", "blockedBy", "status", "id"])
    def test_a_field_inside(self, field: str, value: Any) -> None:
        items = [member("a", **{field: value}) if field != "id" else member(value)]
        items += [task("a", **{field: value}) if field != "id" else task(value)]
        items += [queued(value, value), delivered(value, value)]
        assert {rule.partition(".")[0] for rule, _ in found(*items, *items)} <= {"team"}

    def test_content_is_not_quoted(self) -> None:
        secret = "my secret plan"
        items = [member(secret, secret), task(secret, secret, secret), delivered(secret)]
        messages = [message for _, message in found(*items)]
        assert len(messages) == 3
        assert not [message for message in messages if "secret" in message]
