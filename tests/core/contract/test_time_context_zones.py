"""Tests of the rule about the time zones of clock readings."""

from __future__ import annotations

import pytest

from dsh_core.contract.rules.time_context import MAX_ZONE, MAX_ZONES
from dsh_core.contract.run import SourceKind
from tests.checking import (
    Item,
    check,
    log,
    prompt,
    rules,
    step_end,
    step_start,
    turn_end,
    turn_start,
)
from tests.core.contract.test_time_context import (
    LOST,
    NOON,
    V0,
    faults,
    first_step,
    reading,
    typed,
    words,
)


class TestZones:
    """A reading goes by the time zones of the browsers that the turn's messages came from."""

    def test_one(self) -> None:
        said = words(
            time="2026-05-01T20:00:00+08:00", zone="Asia/Shanghai", browser="Asia/Shanghai"
        )
        items = first_step(typed("Asia/Shanghai"), typed(), typed("Asia/Shanghai"), reading(said))
        assert faults("zone", *items) == []

    def test_several(self) -> None:
        said = words(browser='mixed ["America/Lima","Asia/Tokyo","UTC"]')
        zones = [typed("UTC"), typed("Asia/Tokyo"), typed("America/Lima")]
        assert faults("zone", *first_step(*zones, reading(said))) == []

    @pytest.mark.parametrize(
        "browser",
        [
            "unavailable",
            "UTC",
            "Asia/Tokyo",
            '["Asia/Tokyo","UTC"]',
            'mixed ["UTC","Asia/Tokyo"]',
            'mixed ["Asia/Tokyo"]',
            'mixed ["Asia/Tokyo","UTC","UTC"]',
            "mixed [Asia/Tokyo,UTC]",
            "mixed []",
        ],
    )
    def test_several_are_listed_in_order(self, browser: str) -> None:
        items = first_step(typed("UTC"), typed("Asia/Tokyo"), reading(words(browser=browser)))
        (message,) = faults("zone", *items)
        assert message.endswith("the turn's messages name 2 zones")

    @pytest.mark.parametrize("browser", ["unavailable", "Asia/Tokyo", 'mixed ["UTC"]'])
    def test_the_only_one_is_named(self, browser: str) -> None:
        (message,) = faults("zone", *first_step(typed("UTC"), reading(words(browser=browser))))
        assert message.endswith("the turn's messages name 'UTC'")

    @pytest.mark.parametrize(
        "other",
        [
            typed(),
            prompt(source={"kind": "user", "clientTimeZone": "UTC"}),
            typed("UTC", rpcId=1),
            typed("UTC", kind="schedule"),
            typed(["UTC"]),
        ],
    )
    def test_none_is_named_where_no_browser_tells(self, other: Item) -> None:
        assert faults("zone", *first_step(other, reading())) == []
        (message,) = faults("zone", *first_step(other, reading(words(browser="UTC"))))
        assert message.endswith("the turn's messages name none")

    @pytest.mark.parametrize(
        ("time", "zone", "fine"),
        [
            (f"{NOON}+02:00", "Europe/Berlin", True),
            # Summer time depends on the release of the time zone database.
            (f"{NOON}+01:00", "Europe/Berlin", True),
            (f"{NOON}+00:00", "Europe/Berlin", False),
            (f"{NOON}+08:00", "Europe/Berlin", False),
            (f"{NOON}+02:00", "Europe/Paris", False),
            (f"{NOON}+02:00", "UTC", False),
            ("0001-01-01T00:00:00+02:00", "Europe/Berlin", True),
        ],
    )
    def test_the_time_is_that_of_the_only_one(self, time: str, zone: str, fine: bool) -> None:
        said = words(time=time, zone=zone, browser="Europe/Berlin")
        found = faults("zone", *first_step(typed("Europe/Berlin"), reading(said)))
        assert found == ([] if fine else ["the time is not that of 'Europe/Berlin'"])

    @pytest.mark.parametrize(
        "zone", ["Mars/Base", "America", "../zone", "\u00e9/\u00e9", "a\u0000/b"]
    )
    def test_a_zone_that_is_not_known_here_is_not_judged(self, zone: str) -> None:
        said = words(time=f"{NOON}+03:00", zone=zone, browser=zone)
        assert faults("zone", *first_step(typed(zone), reading(said))) == []

    def test_each_turn_has_its_own(self) -> None:
        items = [*first_step(typed("UTC"), step_end(1, 1), turn_end(1)), prompt(), turn_start(2)]
        assert faults("zone", *items, step_start(2, 1), reading(words(2))) == []

    def test_each_step_adds_to_it(self) -> None:
        tokyo = words(time=f"{NOON}+09:00", zone="Asia/Tokyo", browser="Asia/Tokyo")
        both = words(1, 2, browser='mixed ["Asia/Tokyo","UTC"]')
        items = first_step(typed("Asia/Tokyo"), reading(tokyo), step_end(1, 1))
        assert faults("zone", *items, step_start(1, 2), typed("UTC"), reading(both)) == []

    def test_more_zones_than_are_followed(self) -> None:
        many = [typed(f"Etc/GMT+{number}") for number in range(MAX_ZONES + 1)]
        assert faults("zone", *first_step(*many, reading())) == []
        assert len(faults("zone", *first_step(*many[1:], reading()))) == 1
        assert faults("zone", *first_step(typed("x" * (MAX_ZONE + 1)), reading())) == []
        assert len(faults("zone", *first_step(typed("x" * MAX_ZONE), reading()))) == 1

    def test_a_message_that_was_not_seen_may_have_named_one(self) -> None:
        said = words(browser="Asia/Tokyo", zone="Asia/Tokyo", time=f"{NOON}+09:00")
        events = log(*first_step(typed("Asia/Tokyo"), reading(said)))
        pieces = [*events[:2], events[3]]
        assert check(pieces, V0, source=SourceKind.STREAM) == []
        assert rules(check(pieces, V0, faults={2: LOST})) == ["line.not-json"]
        assert check(pieces, V0, chosen=frozenset({"time-context.zone"})) == []
