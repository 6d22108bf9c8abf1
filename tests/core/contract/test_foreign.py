"""Tests of rule sets of others that are broken: what they get wrong stays theirs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from dsh_core.contract.catalogue import CATALOGUE
from dsh_core.contract.live import StatusChanged
from dsh_core.contract.rule import EVERY, Rule, RuleSet
from dsh_core.events import Contract
from tests.checking import build, chunk, log, make_checker, rules, turn_end, turn_start

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_core.contract.checker import Checker
    from dsh_core.contract.findings import Finding
    from dsh_core.contract.run import Run

EVENTS = log(turn_start(1), turn_start(2), chunk(9, 9), turn_end(7))
EXPECTED = ["turn.overlap", "step.event-outside", "turn.end-mismatch"]


class Base(RuleSet):
    """A rule set of somebody else."""

    owner = "acme"
    rules: ClassVar = (Rule("acme.x", "x", "x.", on=("turn/start",)),)


def made(**changes: Any) -> type[RuleSet]:
    """Return a rule set of which something is odd."""
    return type("Odd", (Base,), {"__module__": __name__, **changes})


def fails(*_given: Any, **_more: Any) -> Any:
    raise ZeroDivisionError


def leaves(*_given: Any, **_more: Any) -> Any:
    sys.exit(0)


def listening(function: Callable[..., Any], kind: str = "turn/start") -> type[RuleSet]:
    """Return a rule set with a handler."""
    return made(handlers=lambda _self: {kind: function})


def changing(change: Callable[[Run, Any], object]) -> type[RuleSet]:
    """Return a rule set whose handler changes something."""
    return made(handlers=lambda self: {EVERY: lambda event, _line: change(self.run, event)})


def check(
    cls: type[RuleSet], *, single: bool, origin: str = "acme-rules 1.2"
) -> tuple[Checker, list[Finding]]:
    """Check a log with a rule set of somebody else."""
    checker = make_checker(Contract.SEED, catalogue=CATALOGUE.extended([cls], origin), strict=False)
    events = [build(event, 0)[0] for event in EVENTS]
    if single:
        found = [finding for event in events for finding in checker.observe(event)]
    else:
        found = checker.observe_all(events, range(len(events)))
    return checker, found + checker.finish(final=False)


BROKEN = {
    "cannot be made": made(__init__=fails),
    "leaves when made": made(__init__=leaves),
    "cannot say what it listens to": made(handlers=fails),
    "cannot say what it listens to inside": made(inside_step=fails),
    "cannot say what it listens to outside": made(outside_step=fails),
    "cannot say what it listens to live": made(live=fails),
    "listens to nothing": made(handlers=lambda _self: None),
    "listens to a list": made(outside_step=lambda _self: ["turn/start"]),
    "listens to a number": made(handlers=lambda _self: {5: fails}),
    "has nothing to call": made(handlers=lambda _self: {"turn/start": 5}),
    "has no place inside": made(inside_step=lambda _self: {"turn/end": fails}),
    "wants fewer arguments": listening(lambda _event: None),
    "is no function of Python": listening(len),
    "raises": listening(fails),
    "raises at all events": listening(fails, EVERY),
    "leaves": listening(leaves),
    "fails at the end": made(finish=fails),
    "leaves at the end": made(finish=leaves),
    "changes an event": changing(lambda _run, event: setattr(event, "seq", "x")),
    "changes a payload": changing(lambda _run, event: setattr(event.data, "turn", "x")),
    "takes a field away": changing(lambda _run, event: delattr(event.data, "turn")),
    "moves the turn": changing(lambda run, _event: setattr(run.timeline, "turn", "x")),
    "takes the timeline away": changing(lambda run, _event: setattr(run, "timeline", None)),
    "deletes the timeline": changing(lambda run, _event: delattr(run, "timeline")),
    "takes the findings away": changing(lambda run, _event: setattr(run, "findings", None)),
}


class TestBrokenSets:
    """A broken set of somebody else is switched off, named, and changes nothing for others."""

    @pytest.mark.parametrize("single", [True, False])
    @pytest.mark.parametrize("kind", BROKEN)
    def test_the_others_go_on_with_right_results(
        self, kind: str, single: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        checker, found = check(BROKEN[kind], single=single)
        assert rules(found) == EXPECTED
        assert checker.disabled == ["acme"]
        (record,) = caplog.records
        text = record.getMessage()
        assert text.startswith(f"the rules of acme (acme-rules 1.2, {__name__}.Odd) failed at ")
        assert " and were switched off: " in text

    @pytest.mark.parametrize(
        ("cls", "function"),
        [
            (listening(fails), fails),
            (made(finish=fails), fails),
            (made(__init__=fails), fails),
            (listening(leaves), leaves),
        ],
    )
    def test_the_place_is_named(
        self, cls: type[RuleSet], function: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It is that of the line that raises."""
        check(cls, single=True)
        place = f"{__file__}:{function.__code__.co_firstlineno + 1} and"
        assert f" failed at {place} " in caplog.records[0].getMessage()

    def test_the_place_of_what_never_ran_is_where_it_is_defined(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        def short(_event: object) -> None:
            """Take one argument too few."""

        check(listening(short), single=True)
        place = f"{__file__}:{short.__code__.co_firstlineno} and"
        assert f" failed at {place} " in caplog.records[0].getMessage()

    @pytest.mark.parametrize("function", [fails, leaves, lambda: None])
    def test_live_facts(self, function: Any) -> None:
        """What no log holds is judged by the others."""
        checker = make_checker(
            Contract.SEED,
            catalogue=CATALOGUE.extended([made(live=lambda _self: {StatusChanged: function})]),
            strict=False,
        )
        fact = StatusChanged("a", "idle")
        assert checker.observe_live(fact) == []
        assert checker.disabled == ["acme"]
        assert rules(checker.observe_live(fact)) == ["agent.status-noop"]

    def test_one_that_is_sound_is_heard(self) -> None:
        """What keeps the others from harm does not stand in its way."""

        class Sound(Base):
            def handlers(self) -> Any:
                return {"turn/start": lambda e, line: self.trip("acme.x", "x", e, line)}

        checker, found = check(Sound, single=False)
        assert sorted(rules(found)) == sorted(["acme.x", "acme.x", *EXPECTED])
        assert checker.disabled == []


@pytest.mark.parametrize("single", [True, False])
def test_harm_that_is_not_put_back_ends_the_check_of_the_session(
    single: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing raises; what was found before is told, and whose rules may have done it."""

    def spoil(run: Run, event: Any) -> None:
        if event.type == "assistant/chunk":
            # Contents of collections are not kept, nor is what has no public name.
            vars(run)["_entries"] = None

    checker, found = check(changing(spoil), single=single)
    assert rules(found) == EXPECTED[:1]
    assert checker.disabled == ["acme"]
    (record,) = caplog.records
    assert record.getMessage().startswith("this session is checked no further than seq 2: ")
    assert record.getMessage().endswith(f": acme-rules 1.2, {__name__}.Odd")
