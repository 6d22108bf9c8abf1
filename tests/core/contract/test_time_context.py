"""Tests of the rules about clock readings."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest

from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract
from dsh_core.faults import Fault
from dsh_core.parts import Source
from tests.checking import (
    Item,
    build,
    check,
    event,
    log,
    one_step,
    prompt,
    rules,
    step_end,
    step_start,
    turn_end,
    turn_start,
    violations,
)
from tests.strategies import START, Event, header_row, text

V0 = Contract.V0
V3_HEADER = {**(header_row(V0) or {}), "version": 3, "isSeeded": False}
AT = datetime.fromtimestamp(START / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00")
NOON = "2026-05-01T12:00:00"
HEADER = event("request/header", {"header": {"config": {"provider": "p", "model": "m"}}})
LOST = Fault("line.not-json", "no JSON", 2, lost=True)
NOTE = "[context]"
ODD: list[Any] = [None, True, 1, -1.5, 2**70, "", "x", [], [1], [[]], {}, {"text": "x"}, [{}]]


def words(turn: Any = 1, step: Any = 1, **more: str) -> str:
    """Return the text of a reading: with a time, a zone, a browser's zone, and what it is since."""
    since = "model-visible message" if step == 1 else "step context"
    said = {"time": AT, "zone": "UTC", "browser": "unavailable", "since": since, "passed": "5s"}
    said |= more
    return (
        f"Clock for turn {turn}, step {step}: {said['time']}[{said['zone']}]\n"
        f"Browser zone: {said['browser']}. What follows is not judged.\n"
        f"Time since the last {said['since']}: {said['passed']}."
    )


def source(said: Any, **more: Any) -> Event:
    """Return the source of a reading."""
    section = {"name": "time-context", "text": said}
    whole = {"kind": "plugin", "plugin": "time-context", "form": "snapshot", "sections": [section]}
    return {**whole, **more}


def reading(said: Any = None, **message: Any) -> Item:
    """Return a reading."""
    said = words() if said is None else said
    return prompt(**{"source": source(said), "content": text(said), **message})


def typed(zone: Any = None, **more: Any) -> Item:
    """Return what a user typed into a browser of a time zone."""
    whole = {"kind": "user", "rpcId": "r"} | ({"clientTimeZone": zone} if zone else {})
    return prompt(source={**whole, **more})


def bare(item: Item) -> Item:
    """Return a message as the earliest August logs have it."""
    kind, data, _ = item
    return kind, data, {}


def first_step(*items: Item) -> list[Item]:
    """Return the first step of a turn, and what it begins with."""
    return [turn_start(1), step_start(1, 1), *items]


def faults(rule: str, *items: Item, **options: Any) -> list[str]:
    """Check a log in which only one rule of readings may trip and return the messages."""
    found = violations(check(log(*items), V0, **options))
    assert {finding.rule for finding in found} <= {f"time-context.{rule}"}
    return [finding.message for finding in found]


class TestReadings:
    """A reading is well formed, and stands at the beginning of the step that it is for."""

    def test_how_it_goes(self) -> None:
        items = [
            *first_step(prompt(), reading(), HEADER, step_end(1, 1)),
            *one_step(1, 2, reading(words(1, 2)), HEADER),
            turn_end(1),
            turn_start(2),
            *one_step(2, 1, reading(words(2, 1, passed="unavailable"))),
        ]
        assert violations(check(log(*items), V0)) == []

    @pytest.mark.parametrize("passed", ["0s", "59m 59s", "1d 2h 3m 4s", "400d 0s", "unavailable"])
    def test_how_much_time_may_have_passed(self, passed: str) -> None:
        assert faults("reading", *first_step(reading(words(passed=passed)))) == []

    @pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "Etc/GMT+1", "Nowhere/At_All"])
    def test_where_no_browser_tells_the_time_may_be_that_of_any_zone(self, zone: str) -> None:
        assert faults("reading", *first_step(reading(words(zone=zone)))) == []

    @pytest.mark.parametrize(
        "content",
        [
            [],
            [*text(words()), *text(words())],
            [{"type": "image", "text": words()}],
            [{"type": "text"}],
            [{"type": "text", "text": 1}],
            [words()],
            words(),
            None,
            {"type": "text", "text": words()},
        ],
    )
    def test_it_is_one_block_of_text(self, content: Any) -> None:
        items = first_step(reading(content=content))
        assert faults("reading", *items) == ["it is not one block of text"]

    @pytest.mark.parametrize(
        "said",
        [
            "",
            "not a reading",
            words().replace("\n", " "),
            words() + "\n",
            words() + "\nmore",
            words().replace("turn 1", "turn one"),
            words().replace(", step 1", ""),
            words("9" * 5000),
            words("\u0661"),
            words(time=NOON),
            words(time=f"{NOON}.000Z"),
            words(time="2026-05-32T12:00:00Z"),
            words(time="2026-05-01T12:00:00+99:00"),
            words(zone=""),
            words().replace("[UTC]", ""),
            words().replace(". What", " What"),
            words().replace("zone: ", "zone "),
            words(browser=""),
            words(since="step"),
            words(passed="5"),
            words(passed="1h 5"),
            words(passed="5m 1h 2s"),
            words().removesuffix("."),
            "\n".join(words().split("\n")[::2]),
            "\n\n".join(words().split("\n")[::2]),
            "[one\ntwo]",
        ],
    )
    def test_its_text_is_that_of_a_reading(self, said: str) -> None:
        items = first_step(reading(said))
        assert faults("reading", *items) == ["the text is no reading of a clock"]

    @pytest.mark.parametrize(
        ("before", "open_"),
        [
            ([], "no turn"),
            ([turn_start(1)], "no step of turn 1"),
            ([turn_start(1), *one_step(1, 1)], "no step of turn 1"),
            ([turn_start(1), *one_step(1, 1), turn_end(1)], "no turn"),
            ([turn_start(1), *one_step(1, 1), step_start(1, 2)], "step 2 of turn 1"),
            ([turn_start(1), turn_end(1), turn_start(2), step_start(2, 1)], "step 1 of turn 2"),
        ],
    )
    def test_it_is_for_the_open_step(self, before: list[Item], open_: str) -> None:
        message = f"it comes for step 1 of turn 1 while {open_} is open"
        assert faults("reading", *before, reading()) == [message]

    def test_it_comes_before_the_request(self) -> None:
        message = "it comes after the request/header of its step"
        assert faults("reading", *first_step(HEADER, reading())) == [message]

    @pytest.mark.parametrize(
        "odd",
        [
            {"kind": "plugin", "plugin": "time-context"},
            source(words(), authority={}),
            source(words(), form="notice"),
            source(words(), sections=[]),
            source(words(), sections={"0": {"name": "time-context", "text": words()}}),
            source(words(), sections=["time-context"]),
            source(words(), sections=source(words())["sections"] * 2),
            source(words(), sections=[{"name": "time-context"}]),
            source(words(), sections=[{"name": "time-context", "text": words(), "more": 1}]),
            source(words(), sections=[{"name": "time", "text": words()}]),
            source(words(2)),
            source(None),
        ],
    )
    def test_its_source_says_just_the_same(self, odd: Event) -> None:
        assert len(faults("reading", *first_step(reading(source=odd)))) == 1

    @pytest.mark.parametrize(
        "other",
        [
            {"kind": "plugin", "plugin": "time"},
            {"kind": "time-context", "plugin": "other"},
            {"kind": "user", "plugin": "time-context"},
            {"kind": "plugin", "plugin": ["time-context"]},
        ],
    )
    def test_messages_of_others_are_none(self, other: Event) -> None:
        assert faults("reading", prompt(source=other)) == []

    def test_other_contracts_have_no_readings(self) -> None:
        items = log(reading("?"))
        for contract in (Contract.SEED, Contract.V4):
            found = rules(check(items, contract))
            assert not [rule for rule in found if rule.startswith("time-context")]

    def test_formats_up_to_v3_have_the_same(self) -> None:
        assert faults("reading", *first_step(reading()), header=V3_HEADER) == []
        assert len(faults("reading", *first_step(reading("?")), header=V3_HEADER)) == 1


class TestNotes:
    """A note in brackets may stand for a text: then only place and source are judged."""

    @pytest.mark.parametrize(
        ("said", "section"), [(NOTE, NOTE), (NOTE, "[other]"), (NOTE, words()), (words(), NOTE)]
    )
    def test_what_it_says_is_not_judged(self, said: str, section: str) -> None:
        items = first_step(reading(content=text(said), source=source(section)))
        assert faults("reading", *items) == []

    def test_its_place_is(self) -> None:
        message = "it comes while no step of turn 1 is open"
        assert faults("reading", turn_start(1), reading(NOTE)) == [message]
        assert len(faults("reading", *first_step(HEADER, reading(NOTE)))) == 1

    def test_its_source_is(self) -> None:
        assert len(faults("reading", *first_step(reading(NOTE, source=source(NOTE, x=1))))) == 1
        odd = source(NOTE, sections=[{"name": "time", "text": NOTE}])
        assert len(faults("reading", *first_step(reading(NOTE, source=odd)))) == 1


class TestEarlyLogs:
    """Before messages were marked, readings were shorter and their source said less."""

    SHORT = "\n".join(words().split("\n")[::2])
    PLAIN: ClassVar = {"kind": "plugin", "plugin": "time-context"}

    def test_how_they_were(self) -> None:
        items = first_step(bare(reading(self.SHORT, source=self.PLAIN)))
        assert faults("reading", *items) == []
        assert faults("reading", *first_step(bare(reading(source=self.PLAIN)))) == []

    def test_they_are_readings_all_the_same(self) -> None:
        for said in ("?", words(browser="")):
            odd = bare(reading(said, source=self.PLAIN))
            assert len(faults("reading", *first_step(odd))) == 1
        early = bare(reading(self.SHORT.replace("step 1", "step 2"), source=self.PLAIN))
        assert len(faults("reading", *first_step(early))) == 1
        wrong = bare(reading(self.SHORT.replace("model-visible message", "step context")))
        assert len(faults("baseline", *first_step(wrong))) == 1

    def test_later_messages_are_not_early(self) -> None:
        short = bare(reading(self.SHORT, source=self.PLAIN))
        assert "time-context.reading" in rules(check(log(*first_step(short)), V0, header=V3_HEADER))


class TestBaselines:
    """A reading counts from the right thing, and was not taken in the future."""

    @pytest.mark.parametrize(("step", "since"), [(1, "step context"), (2, "model-visible message")])
    def test_first_steps_count_from_messages_and_later_ones_from_readings(
        self, step: int, since: str
    ) -> None:
        before = [] if step == 1 else [*one_step(1, 1)]
        items = [turn_start(1), *before, step_start(1, step), reading(words(1, step, since=since))]
        assert faults("baseline", *items) == [f"step {step} counts from the last {since}"]

    @pytest.mark.parametrize(
        ("later", "fine"), [(0, True), (999, True), (60_000, True), (-1, False), (-60_000, False)]
    )
    def test_the_clock_was_read_before_the_event(self, later: int, fine: bool) -> None:
        kind, data, envelope = reading()
        items = first_step((kind, data, {**envelope, "time": START + later}))
        message = "the clock was read after the event"
        assert faults("baseline", *items) == ([] if fine else [message])

    def test_a_time_that_cannot_be_read_is_no_reason(self) -> None:
        kind, data, envelope = reading()
        items = first_step((kind, data, {**envelope, "time": "now"}))
        assert rules(violations(check(log(*items), V0))) == ["envelope.invalid"]


class TestOneCause:
    """One cause is one finding."""

    def test_what_is_no_reading_is_not_judged_further(self) -> None:
        said = words(1, 2, browser="UTC", since="model-visible message")
        assert len(faults("reading", *first_step(reading(said)))) == 1

    def test_a_step_that_was_not_opened_explains_it(self) -> None:
        items = [turn_start(1), step_start(2, 1), reading(words(2))]
        assert rules(violations(check(log(*items), V0))) == ["step.outside-turn"]

    @pytest.mark.parametrize(
        "items",
        [
            [turn_start(1), step_start(1, 1), reading()],
            [*first_step(HEADER, step_end(1, 1), step_start(1, 2), reading(words(1, 2)))],
            # A session that goes on may count from the beginning again.
            [*first_step(HEADER, step_end(1, 1), reading())],
        ],
    )
    def test_what_was_lost_does_too(self, items: list[Item]) -> None:
        events = log(*items)
        pieces = [*events[:-2], events[-1]]
        assert rules(check(pieces, V0, faults={len(pieces) - 1: LOST})) == ["line.not-json"]
        assert check(pieces, V0, source=SourceKind.STREAM) == []
        assert check(pieces, V0, chosen=frozenset({"time-context.reading"})) == []

    def test_a_repeated_stretch_is_one_finding(self) -> None:
        events = log(*first_step(typed("UTC"), reading(words(browser="UTC")), HEADER))
        more = log(step_end(1, 1), step_start(1, 2), first=5)
        found = check([*events, *events[1:], *more], V0)
        assert rules(found) == ["seq.regressed"]


class TestOddities:
    """Payloads may be of any shape."""

    @pytest.mark.parametrize("value", ODD)
    @pytest.mark.parametrize("field", ["source", "content"])
    def test_a_field_of_another_shape(self, field: str, value: Any) -> None:
        found = violations(check(log(*first_step(reading(**{field: value}))), V0))
        assert {f.rule for f in found} <= {"time-context.reading", "message.shape"}

    @pytest.mark.parametrize("value", ODD)
    @pytest.mark.parametrize("field", ["kind", "plugin", "form", "sections", "provider", "rpcId"])
    def test_a_field_of_the_source(self, field: str, value: Any) -> None:
        odd = reading(source=source(words(), **{field: value}))
        user = typed("UTC", **{field: value, "clientTimeZone": value})
        found = violations(check(log(*first_step(odd, user, reading())), V0))
        assert {f.rule.partition(".")[0] for f in found} <= {"time-context", "message"}

    def test_a_source_keeps_what_fits(self) -> None:
        odd = {"kind": "user", "provider": 1, "callId": [], "model": "m"}
        (built, _), (without, _) = (build(log(prompt(source=s))[0], 1) for s in (odd, ["user"]))
        assert built.data.source == Source(kind="user", model="m")
        assert without.data.source is None

    def test_content_is_not_quoted(self) -> None:
        secret = "my secret plan"
        items = [typed(secret), reading(words(browser=secret)), reading(secret), reading(words())]
        found = violations(check(log(*first_step(*items)), V0))
        assert len(found) == 3
        assert not [f for f in found if "secret" in f.message + f.expected + f.got]
