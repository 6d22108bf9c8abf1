"""Tests of rules that other packages bring."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from dsh_core.contract import installed
from dsh_core.contract.catalogue import CATALOGUE
from dsh_core.contract.findings import Severity
from dsh_core.contract.installed import (
    GROUP,
    BadRulesError,
    examined_rules,
    installed_catalogue,
    with_rules_of,
)
from dsh_core.contract.rule import EVERY, Rule, RuleSet
from dsh_core.events import Contract
from tests.checking import build, check, log, make_checker, one_turn, rules, turn_start

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import SessionEvent

HERE = __name__


class Budget(RuleSet):
    """A rule of somebody else: no turn but the first."""

    owner = "acme-budget"
    rules: ClassVar = (
        Rule("acme.turn-budget", "a second turn starts", "Stop.", on=("turn/start",)),
    )

    def handlers(self) -> Mapping[str, Handler]:
        return {"turn/start": self._turn}

    def _turn(self, event: SessionEvent, line: int) -> None:
        if event.data.turn > 1:
            self.trip("acme.turn-budget", "turn after turn", event, line)


class Raising(RuleSet):
    """A rule that is broken."""

    owner = "acme-broken"
    rules: ClassVar = (Rule("acme.broken", "never", "Never.", on=("turn/start",)),)

    def handlers(self) -> Mapping[str, Handler]:
        def fail(_event: SessionEvent, _line: int) -> None:
            raise RuntimeError

        return {"turn/start": fail}


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


def odd_rule(**changes: Any) -> Rule:
    """Return a rule of which something is odd."""
    good = {"id": "acme.x", "fault": "x", "advice": "x.", "on": ("turn/start",)}
    return Rule(**{**good, **changes})


def made(**changes: Any) -> type[RuleSet]:
    """Return a rule set of which something is odd."""
    good = {"owner": "acme", "rules": (odd_rule(),)}
    return type("Odd", (RuleSet,), good | changes)


def listening(*types: str, **changes: Any) -> type[RuleSet]:
    """Return a rule set that listens to some types."""
    return made(handlers=lambda _self: dict.fromkeys(types, lambda *_: None), **changes)


def brought(monkeypatch: pytest.MonkeyPatch, thing: object) -> EntryPoint:
    """Return the entry point of a thing."""
    monkeypatch.setattr(installed, "thing", thing, raising=False)
    return point("odd", f"{installed.__name__}:thing")


class TestWithRulesOf:
    """The catalogue with further rules."""

    def test_they_are_rules_like_any_others(self) -> None:
        """They are listed, chosen and checked like those that ship."""
        catalogue = with_rules_of(CATALOGUE, [point("budget", f"{HERE}:Budget")])
        assert catalogue.entries["acme.turn-budget"].owner == "acme-budget"
        events = log(*one_turn(1), *one_turn(2))
        found = check(events, catalogue=catalogue)
        assert [(f.rule, f.owner, f.seq) for f in found] == [("acme.turn-budget", "acme-budget", 4)]
        chosen = catalogue.select(exclude=["owner:acme-*"])
        assert check(events, catalogue=catalogue, chosen=chosen) == []

    def test_one_that_raises_is_switched_off_alone(self) -> None:
        """What it breaks is its own: the others go on, and somebody counts."""
        points = [point("a", f"{HERE}:Raising"), point("b", f"{HERE}:Budget")]
        catalogue = with_rules_of(CATALOGUE, points)

        checker = make_checker(Contract.SEED, catalogue=catalogue, strict=False)
        found = []
        for event in log(turn_start(1), turn_start(2)):
            found += checker.observe(build(event, 0)[0])
        assert sorted(rules(found)) == ["acme.turn-budget", "turn.overlap"]
        assert checker.disabled == ["acme-broken"]

    def test_one_that_reports_what_it_has_not_declared_has_failed(self) -> None:
        """A misspelt id would never be heard."""

        class Misspelt(Budget):
            def _turn(self, event: SessionEvent, line: int) -> None:
                self.trip("acme.trun-budget", "turn after turn", event, line)

        checker = make_checker(
            Contract.SEED, catalogue=CATALOGUE.extended([Misspelt]), strict=False
        )
        assert checker.observe(build(log(turn_start(1))[0], 0)[0]) == []
        assert checker.disabled == ["acme-budget"]

    @pytest.mark.parametrize("rule", ["acme.turn-budget", "turn.overlap"])
    def test_one_that_reports_a_rule_of_somebody_else_has_failed(
        self, rule: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """What a finding says of its owner is true, however it is reported."""

        class Pretender(Budget):
            owner = "pretender"
            rules: ClassVar = (odd_rule(),)

            def _turn(self, event: SessionEvent, line: int) -> None:
                self.run.report(rule, "x", seq=event.seq, line=line)

        catalogue = CATALOGUE.extended([Budget, Pretender])
        checker = make_checker(Contract.SEED, catalogue=catalogue, strict=False)
        assert checker.observe(build(log(turn_start(1))[0], 0)[0]) == []
        assert checker.disabled == ["pretender"]
        assert f"it reports {rule!r}, which is no rule of its own" in caplog.text

    @pytest.mark.parametrize(
        "cls",
        [
            Budget,
            listening(EVERY),
            listening("turn/start", "turn/end"),
            listening("turn/start", "acme/thing"),
            listening("acme/thing", rules=(odd_rule(on=("acme/thing",)),)),
            listening("turn/start", rules=(odd_rule(on=("turn/start", "turn/end")),)),
            made(
                inside_step=lambda _self: {"tool/call": print},
                rules=(odd_rule(on=("tool/call",)),),
            ),
            made(
                handlers=lambda self: {} if self.run.presets is None else {"turn/start": print},
            ),
            made(rules=(odd_rule(on=(), source="end"),)),
        ],
    )
    def test_what_may_judge_something_in_some_session_is_taken(
        self, monkeypatch: pytest.MonkeyPatch, cls: type[RuleSet]
    ) -> None:
        """Plugins log types of their own, and a set need not listen in every session."""
        assert with_rules_of(CATALOGUE, [brought(monkeypatch, cls)]).sets[-1] is cls

    def test_nothing_installed_is_the_catalogue_itself(self) -> None:
        """Without other packages there are the rules that ship."""
        assert with_rules_of(CATALOGUE, []) is CATALOGUE

    @pytest.mark.parametrize(
        ("thing", "problem"),
        [
            (5, "is no subclass of dsh_core.contract.rule.RuleSet"),
            (dict, "is no subclass of dsh_core.contract.rule.RuleSet"),
            (made(owner=""), "has no owner"),
            (made(owner=5), "has no owner"),
            (made(rules=()), "has no rules"),
            (made(rules=5), "has no rules"),
            (made(rules=("acme.x",)), "has something in `rules` that is no Rule"),
            (made(rules=(Rule("plain", "x", "x."),)), "not like `area.fault`: 'plain'"),
            (made(rules=(Rule("acme.x", "x", "x.", source="web"),)), "source 'web'; use one of"),
            (made(rules=(odd_rule(fault=""),)), "says no fault or no advice"),
            (made(rules=(odd_rule(advice=None),)), "says no fault or no advice"),
            (made(rules=(odd_rule(contracts=("v3",)),)), "has contracts other than"),
            (made(rules=(odd_rule(severity="bad"),)), "has no severity out of"),
            (made(rules=(odd_rule(contracts=([],)),)), "has contracts other than"),
            (made(rules=(odd_rule(id=5),)), "not like `area.fault`: 5"),
            (made(rules=(odd_rule(on=()),)), "must name the events"),
            (made(rules=(odd_rule(on="turn/start"),)), "no tuple of event types, like on="),
            (made(rules=(odd_rule(on=([],)),)), "no tuple of event types, like on="),
            (made(rules=(odd_rule(on=None),)), "no tuple of event types, like on="),
            (made(handlers={"turn/start": print}), "has a handlers that is no method"),
            (made(finish=None), "has a finish that is no method"),
            (made(rules=(odd_rule(source="end"),)), "must name the events"),
            (made(rules=(odd_rule(id="turn.overlap"),)), "'turn.overlap' is defined twice"),
            (made(owner="session"), "has owner 'session', which is the name of another package"),
            (made(), "acme.x is said to be evaluated at turn/start, but nothing listens there"),
            (made(rules=(odd_rule(on=(EVERY,)),)), "at every event, but nothing listens there"),
            (listening("turn/end"), "acme.x is said to be evaluated at turn/start, but nothing"),
            (
                listening("turn/start", rules=(odd_rule(on=("turn/strat",)),)),
                "but nothing listens there; did you mean 'turn/start'?",
            ),
            (listening("turn"), "listens to 'turn', which is no type of event"),
            (listening("turn-start"), "type of event; did you mean 'turn/start'?"),
        ],
    )
    def test_what_cannot_be_used_is_named(
        self, monkeypatch: pytest.MonkeyPatch, thing: object, problem: str
    ) -> None:
        """The message says whose entry point it is, and what is wrong with it."""
        with pytest.raises(BadRulesError) as error:
            with_rules_of(CATALOGUE, [brought(monkeypatch, thing)])
        assert str(error.value).startswith("rules 'odd' (dsh_core.contract.installed:thing): ")
        assert problem in str(error.value)

    def test_what_cannot_be_loaded_is_named(self) -> None:
        """A package that is half there is told from one that is not."""
        with pytest.raises(BadRulesError, match="cannot be loaded: ModuleNotFoundError"):
            with_rules_of(CATALOGUE, [point("odd", "no_such_package_here:Rules")])

    def test_what_leaves_the_program_when_loaded_is_named(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """It would end the host without a word."""
        (tmp_path / "leaving_rules.py").write_text("raise SystemExit(0)")
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(BadRulesError, match="cannot be loaded: SystemExit"):
            with_rules_of(CATALOGUE, [point("odd", "leaving_rules:Rules")])


def test_broken_rules_are_named_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that cannot be loaded, and those that fail only when a session starts."""

    def start(_self: RuleSet, _run: Run) -> None:
        raise RuntimeError

    monkeypatch.setattr(installed, "starting", made(__init__=start), raising=False)
    points = [
        point("gone", "no_such_package_here:Rules"),
        point("budget", f"{HERE}:Budget"),
        point("starting", f"{installed.__name__}:starting"),
    ]
    monkeypatch.setattr(installed, "entry_points", lambda **_: points)
    examined = examined_rules()
    gone, starting = examined.broken
    assert examined.working == {"acme-budget": f"{HERE}:Budget: 1 rule"}
    assert gone.startswith("rules 'gone' (no_such_package_here:Rules): cannot be loaded: ")
    assert "fails when a session starts: RuntimeError (" in starting


@pytest.mark.parametrize(
    ("cls", "slip"),
    [
        (listening("turn/start", "turn/strat"), "listens to 'turn/strat', which dsh itself does"),
        (listening("turn/start", "turn/strat"), "not log; did you mean 'turn/start'?"),
        (
            listening("turn/start", rules=(odd_rule(on=("turn/start", "turn/end")),)),
            "rule acme.x names turn/end in `on`, but nothing listens there",
        ),
    ],
)
def test_what_looks_like_a_slip_is_named(
    monkeypatch: pytest.MonkeyPatch, cls: type[RuleSet], slip: str
) -> None:
    """It may be meant so: nobody is kept from starting."""
    monkeypatch.setattr(installed, "entry_points", lambda **_: [brought(monkeypatch, cls)])
    examined = examined_rules()
    assert examined.broken == []
    assert slip in examined.doubtful[0]


def test_entry_points_of_the_group_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is installed under the group's name is taken in."""
    asked = []

    def entry_points(*, group: str) -> list[EntryPoint]:
        asked.append(group)
        return [point("budget", f"{HERE}:Budget")]

    monkeypatch.setattr(installed, "entry_points", entry_points)
    assert "acme.turn-budget" in installed_catalogue().entries
    assert asked == ["dsh_core.rules"]


class TestGraded:
    """Rules with another severity."""

    EVENTS = log(turn_start(1), turn_start(2))

    def test_findings_have_it(self) -> None:
        """Severity and code of a finding follow the grade."""
        catalogue = CATALOGUE.graded({"turn.*": Severity.ADVICE})
        found = check(self.EVENTS, catalogue=catalogue)
        assert [(f.rule, f.severity, f.code) for f in found] == [
            ("turn.overlap", "advice", "ADVICE")
        ]
        assert CATALOGUE.entries["turn.overlap"].rule.severity is Severity.VIOLATION

    def test_the_last_that_fits_counts(self) -> None:
        """A general grade may be taken back for a rule."""
        grades = {"owner:session": Severity.ADVICE, "turn.overlap": Severity.DAMAGE}
        entries = CATALOGUE.graded(grades).entries
        assert entries["turn.overlap"].rule.severity is Severity.DAMAGE
        assert entries["turn.number"].rule.severity is Severity.ADVICE

    def test_grades_survive_further_rules(self) -> None:
        """What is graded stays so when the catalogue is extended."""
        catalogue = CATALOGUE.graded({"turn.overlap": Severity.ADVICE}).extended([Budget])
        assert catalogue.entries["turn.overlap"].rule.severity is Severity.ADVICE
