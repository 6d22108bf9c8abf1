"""Rules of the ``time-context`` package: the clock readings that steps begin with.

A reading is a message of three lines: which turn and step it was taken for, and when; which time
zone the user's browser is in; how much time has passed, and since what. Only what the lines say is
judged, not how they are worded. The earliest August logs have messages without surfaceOp: their
readings have no line about the browser, and say less of their source.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Raw

from dsh_core.contract.fields import fields, is_redacted, plain, shown
from dsh_core.contract.places import open_place, places
from dsh_core.contract.rule import Rule, RuleSet
from dsh_core.events import UNREADABLE, Contract
from dsh_core.parts import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import RequestHeader, TurnStart, UserMessage

V0: Final = (Contract.V0,)
NAME: Final = "time-context"
MAX_ZONES: Final = 8
"""How many time zones of one turn are followed."""

MAX_ZONE: Final = 64
"""The longest name of a time zone that is followed."""

SINCE_FIRST: Final = "model-visible message"
SINCE_LATER: Final = "step context"
"""What a reading counts from: in the first step of a turn, and in later ones."""

_LINES: Final = 3
_TAKEN: Final = re.compile(
    r".*\bturn (\d{1,16}), step (\d{1,16}): "
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d))\[([^\]]+)\]",
    re.ASCII,
)
_BROWSER: Final = re.compile(r"[^:]*: (unavailable|mixed \[.*\]|\S+)\. .*")
_ELAPSED: Final = re.compile(
    rf".*\b({SINCE_FIRST}|{SINCE_LATER}): "
    r"(?:unavailable|(?:\d+d )?(?:\d+h )?(?:\d+m )?\d+s)\.",
    re.ASCII,
)
_SOURCE: Final = {"kind", "plugin", "form", "sections"}
_HALF_YEAR: Final = timedelta(days=183)


class Reading(NamedTuple):
    """What a reading says.

    Attributes:
        turn: The turn that it was taken for.
        step: The step.
        time: When it was taken.
        zone: The time zone that the time is given in.
        browser: What it says of the browser's time zone, None if nothing.
        since: What the time that has passed is counted from.
    """

    turn: int
    step: int
    time: datetime
    zone: str
    browser: str | None
    since: str


class Rules(RuleSet):
    """Readings are taken at the beginning of a step, in the user's time zone."""

    owner = NAME
    rules: ClassVar = (
        Rule(
            "time-context.reading",
            "a clock reading is malformed, or was not taken at the beginning of the open step",
            "Add one reading between the start of a step and its request/header, for that step.",
            on=("user/message",),
            contracts=V0,
        ),
        Rule(
            "time-context.zone",
            "a clock reading does not go by the time zones that the turn's messages came from",
            "Name the zone of the browser, or all of them if they differ, and give the time in the "
            "only one.",
            on=("user/message",),
            contracts=V0,
        ),
        Rule(
            "time-context.baseline",
            "a clock reading counts from the wrong thing, or was taken later than it was logged",
            "Count from the last message in the first step of a turn, from the last reading in "
            "later ones.",
            on=("user/message",),
            contracts=V0,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        # Zones that the open turn's messages came from; None if there are too many.
        self._zones: set[str] | None = set()
        # The step whose request was begun last.
        self._requested: tuple[int | None, int | None] = (None, None)

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        if self.run.contract is not Contract.V0:
            return {}
        return {
            "turn/start": self._turn_start,
            "request/header": self._request,
            "user/message": self._message,
        }

    def _turn_start(self, _event: TurnStart, _line: int) -> None:
        if not self.run.repeating:
            self._zones = set()
            self._requested = (None, None)

    def _request(self, _event: RequestHeader, _line: int) -> None:
        if not self.run.repeating:
            self._requested = (self.run.timeline.turn, self.run.timeline.step)

    def _message(self, event: UserMessage, line: int) -> None:
        source = fields(event.data.raw_source)
        if self.run.repeating:
            return
        if source.get("kind") == "plugin" and source.get("plugin") == NAME:
            self._judge(event, line, source)
        elif source.get("kind") == "user" and isinstance(source.get("rpcId"), str):
            self._see_zone(source.get("clientTimeZone"))

    def _see_zone(self, zone: object) -> None:
        if isinstance(zone, str) and self._zones is not None:
            self._zones.add(zone[: MAX_ZONE + 1])
            if len(self._zones) > MAX_ZONES or len(zone) > MAX_ZONE:
                self._zones = None

    def _judge(self, event: UserMessage, line: int, source: Mapping[str, Any]) -> None:
        is_early = event.surface_op is ABSENT and not self.run.header.version
        text, reading = _only_text(plain(event.data.content)), None
        if text is None:
            fault = "it is not one block of text"
        else:
            reading = _read(text, short=is_early)
            known = reading is not None or is_redacted(text)
            fault = "" if known else "the text is no reading of a clock"
            if not fault and not is_early:
                fault = _source_fault(source, text)
        fault = fault or self._place_fault(event, reading)
        if fault:
            self.trip("time-context.reading", fault, event, line)
        elif reading is not None:
            self._judge_zone(event, line, reading)
            self._judge_baseline(event, line, reading)

    def _place_fault(self, event: UserMessage, reading: Reading | None) -> str:
        """Say what is wrong with where a reading lies, empty if nothing is."""
        run, timeline = self.run, self.run.timeline
        here = (timeline.turn, timeline.step)
        said = here if reading is None else (reading.turn, reading.step)
        if None in here or said != here:
            named = [] if reading is None else places(timeline, reading.turn, reading.step)
            if run.explained(event, *named) or run.unseen(event):
                return ""
            for_step = "" if reading is None else f" for step {reading.step} of turn {reading.turn}"
            return f"it comes{for_step} while {open_place(timeline)} is open"
        if here != self._requested or run.unseen(event):
            return ""
        return "it comes after the request/header of its step"

    def _judge_zone(self, event: UserMessage, line: int, reading: Reading) -> None:
        if self._zones is None or reading.browser is None:
            return
        zones, fault = sorted(self._zones), ""
        if not _is_said(zones, reading.browser):
            many = f"{len(zones)} zones" if len(zones) > 1 else shown(zones[0]) if zones else "none"
            fault = f"the browser's time zone is wrong: the turn's messages name {many}"
        elif len(zones) == 1 and not _is_local(reading, zones[0]):
            fault = f"the time is not that of {shown(zones[0])}"
        if fault and not self.run.unseen(event):
            self.trip("time-context.zone", fault, event, line)

    def _judge_baseline(self, event: UserMessage, line: int, reading: Reading) -> None:
        due = SINCE_FIRST if reading.step == 1 else SINCE_LATER
        if reading.since != due:
            message = f"step {reading.step} counts from the last {reading.since}"
            self.trip("time-context.baseline", message, event, line, expected=due)
        elif event.time != UNREADABLE and reading.time.timestamp() * 1000 > event.time:
            message = "the clock was read after the event"
            self.trip("time-context.baseline", message, event, line)


def _only_text(content: object) -> str | None:
    """Return the text of content that is one block of text, else None."""
    block = content[0] if isinstance(content, list) and len(content) == 1 else None
    if not isinstance(block, dict) or block.get("type") != "text":
        return None
    text = block.get("text")
    return text if isinstance(text, str) else None


def _source_fault(source: Mapping[str, Any], text: str) -> str:
    """Say what is wrong with the source of a reading, empty if nothing is."""
    if source.keys() != _SOURCE or source["form"] != "snapshot":
        return "its source is no snapshot, or says more"
    sections = source["sections"]
    section = sections[0] if isinstance(sections, list) and len(sections) == 1 else None
    if not isinstance(section, dict) or section.keys() != {"name", "text"}:
        return "its source has not one section of a name and a text"
    said = section["text"]
    readable = isinstance(said, str) and not is_redacted(said) and not is_redacted(text)
    if section["name"] != NAME or not (said == text or (isinstance(said, str) and not readable)):
        return "the section of its source is another one"
    return ""


def _read(text: str, *, short: bool) -> Reading | None:
    """Read a clock reading, None if it is none; a short one may lack the line on the browser."""
    lines = text.split("\n")
    if short and len(lines) == _LINES - 1:
        lines.insert(1, "")
    if len(lines) != _LINES:
        return None
    taken, browser = _TAKEN.fullmatch(lines[0]), _BROWSER.fullmatch(lines[1])
    elapsed = _ELAPSED.fullmatch(lines[2])
    if taken is None or elapsed is None or (browser is None and (lines[1] or not short)):
        return None
    turn, step, time, zone = taken.groups()
    try:
        when = datetime.fromisoformat(time)
    except ValueError:
        return None
    said = None if browser is None else browser[1]
    return Reading(int(turn), int(step), when, zone, said, elapsed[1])


def _is_said(zones: list[str], browser: str) -> bool:
    """Whether a line names just some time zones."""
    if len(zones) > 1:
        listed = browser.removeprefix("mixed ")
        return listed != browser and plain(Raw(listed.encode(errors="replace"))) == zones
    return browser == (zones[0] if zones else "unavailable")


def _is_local(reading: Reading, zone: str) -> bool:
    """Whether the time of a reading is given in a zone, as far as that is known here.

    Two releases of the time zone database may disagree on whether a zone has summer time: what it
    has had within a year is taken for right.
    """
    if reading.zone != zone:
        return False
    try:
        known = ZoneInfo(zone)
        moments = [reading.time.astimezone(UTC) + _HALF_YEAR * number for number in range(-2, 3)]
        offsets = {moment.astimezone(known).utcoffset() for moment in moments}
    except (ZoneInfoNotFoundError, ValueError, OSError, OverflowError):
        return True
    return reading.time.utcoffset() in offsets
