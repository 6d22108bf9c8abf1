"""Tests of the rules about background jobs."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from dsh_core.contract.rules.jobs import MAX_FOLLOWED
from dsh_core.contract.run import SourceKind
from dsh_core.decode import to_raw
from dsh_core.events import Contract
from dsh_core.faults import Fault
from tests.checking import (
    Item,
    build,
    check,
    event,
    log,
    make_checker,
    one_turn,
    rules,
    summary,
    violations,
)
from tests.strategies import Event, header_row

V4 = Contract.V4
FORK = {**(header_row(V4) or {}), "isSeeded": True, "parentSession": "s-0"}
CUT = event("session/end-seed", {"inherited": True})
GONE = ...
ODD: list[Any] = [None, True, -1, 1.5, 2**53, "", "x", [], [1], {}, {"x": [None]}]


def job(id_: Any = "bash-1", **more: Any) -> Event:
    data: Event = {"jobId": id_, "owner": "s-1", "kind": "bash", "label": "ls", "startedAt": 5}
    data["toolCall"] = {"callId": "a", "rootCallId": "a"}
    return {key: value for key, value in (data | more).items() if value is not GONE}


def registered(id_: Any = "bash-1", **more: Any) -> Item:
    return event("job/registered", job(id_, **more))


def settled(id_: Any = "bash-1", **more: Any) -> Item:
    end = {"finishedAt": 9, "status": "completed", "cause": "producer", "producerReported": True}
    return event("job/settled", job(id_, **{**end, **more}))


LEGAL: dict[str, tuple[Item, ...]] = {
    "one": (registered(), settled()),
    "killed at once": (registered(), settled(status="killed", finishedAt=5)),
    "failed": (registered(), settled(status="failed", detail="exit code: 3")),
    "of no known status": (registered(), settled(status=GONE)),
    "settled before its end": (registered(), settled(status="running", finishedAt=GONE)),
    "never settled": (registered(), *one_turn(1)),
    "turns later": (*one_turn(1), registered(), *one_turn(2), *one_turn(3), settled()),
    "after a resume": (registered(), event("session/end-seed"), settled()),
    "two": (registered("a"), registered("b"), settled("b"), settled("a")),
    "any id": (registered("x y"), settled("x y")),
    "no id": (registered(GONE), settled(GONE)),
    "registered again": (registered(), settled(), registered(startedAt=7), settled(startedAt=7)),
    "the same number": (registered(startedAt=5.0), settled()),
    "another call": (registered(), settled(toolCall=GONE)),
    "at the dawn of time": (registered(startedAt=0), settled(startedAt=0, finishedAt=0)),
}


@pytest.mark.parametrize("items", LEGAL.values(), ids=LEGAL)
def test_what_is_legal_is_silent(items: tuple[Item, ...]) -> None:
    assert violations(check(log(*items), V4)) == []


@pytest.mark.parametrize(
    ("started", "finished", "written", "legal"),
    [
        (9000, 4000, 4000, True),
        (9000, 8999, 9990, True),
        (9000, 4000, 6000, True),
        (9000, 4000, 9000, False),
        (9000, 0, 20_000, False),
        (9000, 8999, 10_000, False),
    ],
)
def test_a_clock_that_is_set_back_may_end_a_job_before_it_began(
    started: int, finished: int, written: int, legal: bool
) -> None:
    """The clock that stamped the end stamped its event, too."""
    items = (registered(startedAt=started), settled(startedAt=started, finishedAt=finished))
    first, last = log(*items)
    found = check([{**first, "time": started}, {**last, "time": written}], V4)
    assert rules(violations(found)) == ([] if legal else ["job.times"])


OTHER = "'bash-1' settles with another kind, label, startedAt or owner than it was registered with"
BROKEN: dict[str, dict[str, tuple[int, str, tuple[Item, ...]]]] = {
    "times": {
        "start": (0, "startedAt is no time", (registered(startedAt=-1), settled(startedAt=-1))),
        "no start": (0, "startedAt is no time", (registered(startedAt=GONE),)),
        "a fraction": (0, "startedAt is no time", (registered(startedAt=1.5),)),
        "start at the end": (1, "startedAt is no time", (registered(), settled(startedAt="5"))),
        "label": (0, "label is empty", (registered(label=""), settled(label=""))),
        "no label": (0, "label is empty", (registered(label=GONE), settled())),
        "label at the end": (1, "label is empty", (registered(), settled(label=""))),
        "finished early": (
            *(0, "finishedAt is there before the job is done"),
            (registered(finishedAt=9), settled()),
        ),
        "not finished": (1, "finishedAt is missing", (registered(), settled(finishedAt=GONE))),
        "finished at no time": (
            1,
            "finishedAt is no time",
            (registered(), settled(finishedAt="9")),
        ),
        "finished before": (1, "finishedAt is too early", (registered(), settled(finishedAt=4))),
        "finished and running": (
            *(1, "finishedAt is there before the job is done"),
            (registered(), settled(status="running")),
        ),
    },
    "owner": {
        "start": (0, "the job is owned by 's-9'", (registered(owner="s-9"), settled())),
        "end": (1, "the job is owned by 's-9'", (registered(), settled(owner="s-9"))),
        "both": (
            *(0, "the job is owned by 's-9'"),
            (registered(owner="s-9"), settled(owner="s-9")),
        ),
        "nobody": (0, "the job is owned by nothing", (registered(owner=GONE),)),
    },
    "settle-unpaired": {
        "no start": (0, "'bash-1' settles and was not registered", (settled(),)),
        "twice": (2, "'bash-1' settles again", (registered(), settled(), settled())),
        "another kind": (1, OTHER, (registered(), settled(kind="pwsh"))),
        "no kind": (1, OTHER, (registered(), settled(kind=GONE))),
        "another label": (1, OTHER, (registered(), settled(label="rm"))),
        "another start": (1, OTHER, (registered(), settled(startedAt=6))),
    },
}
"""By rule and name: index of the event, message, and the log."""

CASES = {f"{rule}: {name}": (rule, *case) for rule in BROKEN for name, case in BROKEN[rule].items()}


@pytest.mark.parametrize(("rule", "index", "message", "items"), CASES.values(), ids=CASES)
def test_what_is_illegal_is_found_once_in_its_place(
    rule: str, index: int, message: str, items: tuple[Item, ...]
) -> None:
    (found,) = violations(check(log(*items), V4))
    assert (found.rule, found.owner) == (f"job.{rule}", "jobs")
    assert (found.seq, found.line, found.message) == (index, index + 1, message)


def test_an_owner_is_told_from_that_of_the_job() -> None:
    (found,) = check(log(registered(owner="s-9")), V4)
    assert (found.expected, found.got) == ("'s-1'", "'s-9'")


def test_another_owner_at_the_end_is_another_job_if_owners_are_not_judged() -> None:
    events = log(registered(), settled(owner="s-9"))
    (found,) = check(events, V4, chosen=frozenset({"job.settle-unpaired"}))
    assert (found.rule, found.message) == ("job.settle-unpaired", OTHER)


# Whose jobs they are


def test_inherited_jobs_are_the_parents() -> None:
    parents = (registered(owner="s-0"), settled(owner="s-0"))
    assert violations(check(log(*parents, CUT, registered(), settled()), V4, header=FORK)) == []
    own = log(*parents, CUT, registered("b", owner="s-0"))
    assert [(f.rule, f.seq) for f in check(own, V4, header=FORK)] == [("job.owner", 3)]


def test_the_jobs_of_all_ancestors_are_inherited() -> None:
    events = log(
        *(registered("a", owner="s-0"), CUT, registered("b", owner="s-00"), CUT),
        *(registered("c"), registered("d", owner="s-00")),
    )
    assert [(f.rule, f.seq) for f in check(events, V4, header=FORK)] == [("job.owner", 5)]


def test_what_is_inherited_is_judged_but_for_its_owner() -> None:
    events = log(registered(owner="s-0"), settled(owner="s-0", kind="pwsh"), CUT)
    assert rules(violations(check(events, V4, header=FORK))) == ["job.settle-unpaired"]


def test_every_foreign_owner_is_found() -> None:
    events = log(*[registered(f"j{n}", owner=f"s-{n}") for n in range(1, 9)])
    assert [f.seq for f in check(events, V4)] == list(range(1, 8))


def test_a_log_that_was_given_to_another_session_is_one_cause() -> None:
    items = [f(f"j{n}", owner="s-9") for n in range(20) for f in (registered, settled)]
    found = violations(check(log(*items, *one_turn(1), *one_turn(2), *items[:2]), V4))
    assert summary(found)[0][:3] == ("job.owner", 42, 0)
    assert rules(found[1:]) == []


def test_without_a_header_nobody_knows_whose_log_it_is() -> None:
    checker = make_checker(V4, header_row=None)
    found = [checker.observe(build(one, 1)[0], 1) for one in log(registered(owner="s-9"))]
    assert [f.rule for f in found[0] if f.rule.startswith("job.")] == []


def test_a_wrong_label_is_another_label_if_times_and_labels_are_not_judged() -> None:
    events = log(registered(), settled(label=""))
    (found,) = check(events, V4, chosen=frozenset({"job.settle-unpaired"}))
    assert found.message == OTHER


def test_a_job_that_was_not_registered_is_one_fault_however_often_it_settles() -> None:
    found = violations(check(log(settled(), settled()), V4))
    assert summary(found) == [("job.settle-unpaired", 2, 0, 1)]


# What is missing


def test_what_is_lost_is_not_held_against_the_rest() -> None:
    kept = log(registered(), *one_turn(1), *one_turn(2), settled(), settled("b"))[1:]
    lost = {0: Fault("line.not-json", "not JSON", 1, None, lost=True)}
    assert violations(check(kept, V4, faults=lost)) == []
    assert violations(check(kept, V4, source=SourceKind.STREAM)) == []


def test_a_burst_that_repeats_a_job_is_one_finding() -> None:
    events = log(registered(), settled(), *one_turn(1))
    again = [*events, *events[:2], *log(*one_turn(2), first=len(events))]
    assert rules(violations(check(again, V4))) == ["seq.regressed"]


def test_of_many_jobs_the_newest_are_followed() -> None:
    some = [registered(f"j{n}") for n in range(MAX_FOLLOWED)]
    assert rules(violations(check(log(*some, settled("x")), V4))) == ["job.settle-unpaired"]
    many = [*some, registered("last")]
    items = (*many, settled("j0"), settled("x"), settled("j9"), settled("j9"))
    (found,) = violations(check(log(*items), V4))
    assert (found.rule, found.message) == ("job.settle-unpaired", "'j9' settles again")


# Payloads of any shape


@pytest.mark.parametrize("data", ODD, ids=repr)
def test_no_payload_breaks_a_rule_set(data: Any) -> None:
    odd: list[Item] = [("job/registered", data, {}), ("job/settled", data, {})]
    for contract in Contract:
        check(log(*odd, registered(), *odd, settled()), contract)


@pytest.mark.parametrize("value", [*ODD, 2**70], ids=repr)
@pytest.mark.parametrize("name", [*job(), "finishedAt", "status"])
def test_no_field_breaks_a_rule_set(name: str, value: Any) -> None:
    found = check(log(registered(**{name: value}), settled(**{name: value}), settled("b")), V4)
    assert {f.rule for f in violations(found)} <= {"job.times", "job.owner", "job.settle-unpaired"}


@pytest.mark.parametrize("value", [value for value in ODD if not isinstance(value, dict)], ids=repr)
def test_what_is_no_object_explains_what_it_leads_to(value: Any) -> None:
    raw = [build(one, 1)[0] for one in log(registered(), settled())]
    raw[0] = structs.replace(raw[0], data=to_raw(value))
    assert rules(violations(make_checker(V4).observe_all(raw, [1, 2]))) == ["envelope.invalid"]


@pytest.mark.parametrize("contract", [Contract.SEED, Contract.V0])
def test_only_v4_logs_jobs(contract: Contract) -> None:
    assert check(log(settled(label="")), contract) == []
