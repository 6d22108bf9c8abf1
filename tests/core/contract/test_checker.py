"""Tests of the checker: wiring, filters, broken rules, and what holds for any sequence at all."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_core.contract.catalogue import CATALOGUE, Catalogue
from dsh_core.contract.checker import Checker
from dsh_core.contract.findings import Finding, Severity
from dsh_core.contract.foreign import BrokenSetError
from dsh_core.contract.live import StatusChanged
from dsh_core.contract.rule import EVERY, Rule, RuleSet
from dsh_core.contract.run import MAX_BLAMED, MAX_TEXT, Run, SourceKind
from dsh_core.decode import from_mapping
from dsh_core.events import Contract, SessionEvent, SessionHeader
from dsh_core.faults import Fault
from tests.checking import (
    call,
    check,
    chunk,
    event,
    flat_result,
    log,
    make_checker,
    one_step,
    one_turn,
    rules,
    step_end,
    step_start,
    turn_end,
    turn_start,
    violations,
)
from tests.strategies import Event, Events, arbitrary_events, legal_logs, mutated, renumbered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.live import LiveFact
    from dsh_core.contract.rule import Handler, LiveHandler

SEED = Contract.SEED
V0 = Contract.V0
V4 = Contract.V4
SESSION = CATALOGUE.select(["owner:session"])
LOG = log(*one_turn(1, chunk(1, 1)), *one_turn(2, chunk(2, 1)))


def built(events: Events) -> list[SessionEvent]:
    """Return events of plain mappings that have nothing wrong with their envelope."""
    found = []
    for source in events:
        one, problems = from_mapping(source)
        assert problems == []
        found.append(one)
    return found


class TestFilters:
    """Rules that nobody asked for."""

    FAULTY = log(
        turn_start(1),
        step_start(1, 1),
        call(1, 1, "c"),
        turn_start(2),
        flat_result(1, 1, "c"),
        step_end(1, 1),
        turn_end(1),
        turn_end(2),
    )

    def test_a_rule_that_is_not_chosen_is_silent(self) -> None:
        """Only chosen rules report."""
        assert rules(check(self.FAULTY)) == ["turn.overlap"]
        assert check(self.FAULTY, chosen=frozenset()) == []

    def test_nor_does_it_hide_what_it_explains(self) -> None:
        """What a rule would have explained is found when the rule itself is left out."""
        others = CATALOGUE.select(exclude=["turn.overlap"])
        found = check(self.FAULTY, chosen=others)
        assert rules(found) == ["tool.result-late", "step.end-mismatch"]

    def test_rules_of_other_contracts_are_silent(self) -> None:
        """A rule applies to the contracts that contain it."""
        odd = log(turn_start(5), turn_end(5))
        assert rules(check(odd, V0)) == ["turn.number"]
        assert check(odd, SEED) == []

    def test_the_contract_is_that_of_the_header(self) -> None:
        """Unless another is asked for, a session is held to the contract of its generation."""
        assert Checker(SessionHeader(id="x")).contract is SEED
        assert Checker(SessionHeader(id="x", version=3)).contract is V0
        assert Checker(SessionHeader(id="x", version=4)).contract is V4
        assert Checker(SessionHeader(id="x", version=4), contract=SEED).contract is SEED


class _Failing(RuleSet):
    """A set that cannot stand live facts."""

    owner = "failing"
    rules: ClassVar = ()

    def live(self) -> Mapping[type[LiveFact], LiveHandler]:
        def fail(_: object) -> None:
            raise RuntimeError("broken rule")

        return {StatusChanged: fail}


class TestLive:
    """Facts that no log holds."""

    FACT = StatusChanged("a", "idle")

    def test_a_set_that_raises_is_switched_off(self, caplog: pytest.LogCaptureFixture) -> None:
        """The others see the fact, and the host nothing of it."""
        checker = Checker(SessionHeader(id="s"), catalogue=Catalogue([_Failing, *CATALOGUE.sets]))
        assert checker.observe_live(self.FACT) == []
        assert checker.disabled == ["failing"]
        assert rules(checker.observe_live(self.FACT)) == ["agent.status-noop"]
        assert len(caplog.records) == 1

    def test_in_tests_it_raises(self) -> None:
        """Strict, an error of a rule is not hidden."""
        checker = Checker(SessionHeader(id="s"), catalogue=Catalogue([_Failing]), strict=True)
        with pytest.raises(RuntimeError, match="broken rule"):
            checker.observe_live(self.FACT)

    def test_a_filtered_rule_is_silent(self) -> None:
        """Filters hold for live rules too."""
        checker = Checker(SessionHeader(id="s"), chosen=SESSION)
        assert [checker.observe_live(self.FACT) for _ in range(2)] == [[], []]

    def test_a_live_session_is_told_at_once(self) -> None:
        """A log waits for what follows, to name the fault well; whoever writes cannot."""
        events = log(turn_start(1), step_start(1, 1), flat_result(1, 1, "c"), step_end(1, 1))
        for source, seqs in ((SourceKind.LOG, [3]), (SourceKind.LIVE, [2])):
            checker = make_checker(SEED, source=source)
            told = [checker.observe(one) for one in built(events)]
            assert [seq for seq, findings in enumerate(told) if findings] == seqs
            assert rules([one for findings in told for one in findings]) == [
                "tool.result-without-call"
            ]


class TestObserve:
    """Events in, findings out."""

    def test_findings_come_with_the_event_that_shows_them(self) -> None:
        """Each event gives what became known with it."""
        checker = make_checker(SEED)
        found = [rules(checker.observe(one, 0)) for one in built(log(*one_turn(1), turn_end(1)))]
        assert found == [[], [], [], [], ["turn.end-mismatch"]]

    def test_batches_give_the_same_as_single_events(self) -> None:
        """How events are cut into batches makes no difference."""
        events = log(*one_turn(1, flat_result(1, 1, "c")), chunk(1, 1), *one_turn(2))
        single = make_checker(SEED)
        one_by_one = [f for k, e in enumerate(built(events)) for f in single.observe(e, k)]
        batch = make_checker(SEED)
        assert batch.observe_all(built(events), range(len(events))) == one_by_one
        assert batch.events == single.events == len(events)
        assert rules(one_by_one) == ["tool.result-without-call", "step.event-outside"]

    def test_no_events_give_no_findings(self) -> None:
        """An empty batch is nothing."""
        checker = make_checker(V4)
        assert checker.observe_all([], []) == []
        assert checker.events == 0

    def test_findings_know_their_line(self) -> None:
        """The line of a finding is that of the offending event; without a file there is none."""
        checker = make_checker(SEED)
        (found,) = checker.observe_all(built(log(turn_end(1))), [70])
        assert found.line == 70
        (found,) = checker.observe(built(log(turn_end(2), first=1))[0])
        assert found.line is None

    def test_what_they_quote_is_short(self) -> None:
        """Whatever a log holds, the texts of a finding are bounded."""
        long = "c" * 5000
        found = check(log(*one_turn(1, flat_result(1, 1, long))))
        assert [len(f.call_id or "") for f in found] == [MAX_TEXT]
        assert found[0].message == "call another text was never made in this step"

    def test_what_is_blamed_is_bounded(self) -> None:
        """Ever new wrong coordinates do not fill the memory; the oldest are forgotten."""
        checker = make_checker(SEED)
        strays = log(turn_start(0), *(chunk(1000 + k, 1) for k in range(2 * MAX_BLAMED)))
        checker.observe_all(built(strays), range(len(strays)))
        assert len(checker._run._blame) == MAX_BLAMED

    def test_faults_of_unknown_rules_are_for_others(self) -> None:
        """A fault of a rule that is not chosen is taken in silently."""
        checker = make_checker(SEED, chosen=SESSION)
        assert checker.observe_fault(Fault("line.nul", "NUL", 3, lost=True)) == []


class TestFinish:
    """The end of the input."""

    EVENTS = log(turn_start(1), step_start(1, 1), call(1, 1, "a"), flat_result(1, 1, "b"))

    def test_an_end_that_is_not_declared(self) -> None:
        """Something may follow: an open turn is no fault, a result without call is one."""
        assert rules(check(self.EVENTS, final=False)) == ["tool.result-without-call"]

    def test_an_end_that_is_declared(self) -> None:
        """Nothing will follow: the open turn and step are advice, at the last event."""
        found = check(self.EVENTS, final=True)
        assert [(f.rule, f.seq, f.line, f.turn, f.step) for f in found] == [
            ("tool.result-without-call", 3, 4, 1, 1),
            ("turn.unclosed", 3, 4, 1, 1),
            ("step.unclosed", 3, 4, 1, 1),
        ]

    def test_the_end_of_a_repetition(self) -> None:
        """A log that ends in a repetition is unclosed all the same."""
        events = log(turn_start(1), step_start(1, 1), chunk(1, 1))
        found = check([*events, *events[1:]], final=True)
        assert sorted(rules(found)) == ["seq.regressed", "step.unclosed", "turn.unclosed"]

    def test_finishing_twice_adds_nothing(self) -> None:
        """What was settled is settled."""
        checker = make_checker(SEED)
        checker.observe_all(built(self.EVENTS), range(4))
        assert rules(checker.finish()) == ["tool.result-without-call"]
        assert checker.finish() == []


class Broken(RuleSet):
    """Rules with a bug."""

    owner = "broken"
    rules: ClassVar = (Rule("broken.rule", "never reported", "mend it"),)

    def handlers(self) -> Mapping[str, Handler]:
        """Fail on every turn."""
        return {"turn/start": self._fail}

    def _fail(self, _event: SessionEvent, _line: int) -> None:
        raise ZeroDivisionError


class BrokenOutside(Broken):
    """Rules with a bug in what concerns strays."""

    owner = "outside"
    rules: ClassVar = (Rule("outside.rule", "never reported", "mend it"),)

    def handlers(self) -> Mapping[str, Handler]:
        """Listen to nothing."""
        return {}

    def outside_step(self) -> Mapping[str, Handler]:
        """Fail on every stray chunk."""
        return {"assistant/chunk": self._fail}


class BrokenEnd(Broken):
    """Rules with a bug at the end."""

    owner = "end"
    rules: ClassVar = (Rule("end.rule", "never reported", "mend it"),)

    def handlers(self) -> Mapping[str, Handler]:
        """Listen to nothing."""
        return {}

    def finish(self, *, final: bool) -> None:
        """Fail."""
        raise ZeroDivisionError(final)


class Recorder(RuleSet):
    """Rules that report each event they see."""

    owner = "recorder"
    rules: ClassVar = (Rule("recorder.seen", "seen", "nothing", severity=Severity.ADVICE),)

    def handlers(self) -> Mapping[str, Handler]:
        """Listen to everything."""
        return {EVERY: self._see}

    def _see(self, event: SessionEvent, line: int) -> None:
        self.run.report("recorder.seen", event.type, seq=event.seq, line=line)

    def finish(self, *, final: bool) -> None:
        """Report the end, too."""
        self.run.report("recorder.seen", f"end {final}", seq=-1)


class Twin(Broken):
    """Another rule set with the same bug."""

    owner = "twin"
    rules: ClassVar = (Rule("twin.rule", "never reported", "mend it"),)


class TestBrokenRules:
    """A rule set that raises is switched off; nobody else notices."""

    def run(
        self, *sets: type[RuleSet], strict: bool = False, single: bool = False
    ) -> tuple[Checker, list[Finding]]:
        """Check a log with some rule sets and those of the session."""
        from dsh_core.contract.rules import session

        catalogue = Catalogue([*sets, session.Rules])
        checker = Checker(SessionHeader(id="x"), catalogue=catalogue, strict=strict)
        events = [*LOG, *log(chunk(9, 9), turn_end(7), first=10)]
        if single:
            found = [f for k, one in enumerate(built(events)) for f in checker.observe(one, k)]
        else:
            found = checker.observe_all(built(events), range(12))
        return checker, found + checker.finish()

    @pytest.mark.parametrize("broken", [Broken, BrokenOutside, BrokenEnd])
    @pytest.mark.parametrize("first", [True, False])
    @pytest.mark.parametrize("single", [True, False])
    def test_it_is_switched_off_and_others_go_on(
        self, broken: type[RuleSet], first: bool, single: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The other sets see every event, the one that raised included, in whatever order."""
        sets = [broken, Recorder] if first else [Recorder, broken]
        with caplog.at_level(logging.ERROR, "dsh_core"):
            checker, found = self.run(*sets, single=single)
        assert checker.disabled == [broken.owner]
        seen = [f.message for f in found if f.rule == "recorder.seen"]
        assert seen == [e.type for e in built(LOG)] + ["assistant/chunk", "turn/end", "end False"]
        assert rules(violations(found)) == ["step.event-outside", "turn.end-mismatch"]
        (record,) = caplog.records
        assert record.getMessage().startswith(f"the rules of {broken.owner} (")
        assert "switched off: ZeroDivisionError; " in record.getMessage()

    def test_two_may_break_at_once(self) -> None:
        """When the next set in line raises as well, both are off and a third one goes on."""
        checker, found = self.run(Broken, Twin, Recorder, BrokenEnd)
        assert checker.disabled == ["broken", "twin", "end"]
        assert len([f for f in found if f.rule == "recorder.seen"]) == 13

    @pytest.mark.parametrize("broken", [Broken, BrokenOutside, BrokenEnd])
    def test_in_tests_it_raises(self, broken: type[RuleSet]) -> None:
        """A strict checker lets the error through."""
        with pytest.raises(ZeroDivisionError):
            self.run(Recorder, broken, strict=True)

    def test_errors_that_are_not_of_a_rule_are_let_through(self) -> None:
        """An event that is none is the caller's mistake."""
        checker = Checker(SessionHeader(id="x"))
        with pytest.raises(AttributeError):
            checker.observe_all([object()], [1])  # type: ignore[list-item]


class Placeless(Recorder):
    """Rules that ask for strays of a type that has no place."""

    owner = "placeless"
    rules: ClassVar = (Rule("placeless.seen", "seen", "nothing"),)

    def handlers(self) -> Mapping[str, Handler]:
        """Listen to strays alone."""
        return {}

    def outside_step(self) -> Mapping[str, Handler]:
        """Listen to an event without turn and step."""
        return {"todo/write": self._see}


def test_asking_for_strays_of_a_type_without_a_place_is_a_mistake() -> None:
    """Such a set is told when it starts, not silently never called."""
    with pytest.raises(BrokenSetError, match="'todo/write', which lies in no step"):
        Checker(SessionHeader(id="x"), catalogue=Catalogue([Placeless]), strict=True)


class TestInsideAndOutside:
    """Sets that listen to an event always, beside sets that listen to strays only."""

    class Both(RuleSet):
        """Rules of both kinds for one type."""

        owner = "both"
        rules: ClassVar = (
            Rule("both.always", "always", "nothing", severity=Severity.ADVICE),
            Rule("both.stray", "stray", "nothing", severity=Severity.ADVICE),
        )

        def handlers(self) -> Mapping[str, Handler]:
            """Listen to all chunks."""
            return {"assistant/chunk": lambda e, _line: self._say("both.always", e)}

        def outside_step(self) -> Mapping[str, Handler]:
            """Listen to stray chunks."""
            return {"assistant/chunk": lambda e, _line: self._say("both.stray", e)}

        def _say(self, rule: str, event: SessionEvent) -> None:
            self.run.report(rule, "said", seq=event.seq)

    def test_each_sees_what_it_asked_for(self) -> None:
        """A stray goes to both, an event in its step to the first kind only."""
        checker = Checker(SessionHeader(id="x"), catalogue=Catalogue([self.Both]), strict=True)
        events = built(log(*one_turn(1, chunk(1, 1)), chunk(1, 1)))
        found = checker.observe_all(events, range(6))
        assert [(f.rule, f.seq) for f in found] == [
            ("both.always", 2),
            ("both.always", 5),
            ("both.stray", 5),
        ]

    def test_turns_and_steps_move_whoever_listens(self) -> None:
        """Strays are told from others even when no other rule listens to the boundaries."""

        class Strays(RuleSet):
            owner = "strays"
            rules: ClassVar = (Rule("strays.seen", "seen", "nothing"),)

            def outside_step(self) -> Mapping[str, Handler]:
                return dict.fromkeys(("tool/call", "step/end", "assistant/chunk"), self._see)

            def _see(self, event: SessionEvent, line: int) -> None:
                self.run.report("strays.seen", event.type, seq=event.seq, line=line)

        checker = Checker(SessionHeader(id="x"), catalogue=Catalogue([Strays]), strict=True)
        inside = (call(1, 1, "c"), chunk(1, 1))
        events = built(log(*one_turn(1, *inside), call(1, 1, "c"), step_end(1, 1)))
        assert [f.seq for f in checker.observe_all(events, range(8))] == [6, 7]

    def test_types_nobody_knows(self) -> None:
        """A rule set may listen to a type of its own."""

        class Own(RuleSet):
            owner = "own"
            rules: ClassVar = (Rule("own.seen", "seen", "nothing"),)

            def handlers(self) -> Mapping[str, Handler]:
                return {"own/event": self._see}

            def _see(self, event: SessionEvent, line: int) -> None:
                self.run.report("own.seen", event.type, seq=event.seq, line=line)

        checker = Checker(SessionHeader(id="x"), catalogue=Catalogue([Own]), strict=True)
        events = built(log(event("own/event"), event("other/event")))
        assert [f.seq for f in checker.observe_all(events, [1, 2])] == [0]

    def test_a_type_of_an_odd_name(self) -> None:
        """The name that stands for all types is no type."""
        checker = Checker(SessionHeader(id="x"), catalogue=Catalogue([Recorder]), strict=True)
        assert len(checker.observe_all(built(log(event(EVERY))), [1])) == 1


# -------------------------------------------------------------------- the original plugins, again


def june_verdict(events: Events) -> int | None:  # noqa: C901, PLR0911, PLR0912 - a table of rules
    """Return the index of the first event that the June plugin refuses, None if it takes all."""
    last, turn, step = -1, None, None
    pending: set[str] = set()
    for index, source in enumerate(events):
        kind, data = source["type"], source["data"]
        here = (data.get("turn"), data.get("step"))
        if source["seq"] <= last:
            return index
        last = source["seq"]
        if kind == "turn/start":
            if turn is not None:
                return index
            turn = data["turn"]
        elif kind == "turn/end":
            if data["turn"] != turn or step is not None:
                return index
            turn = None
        elif kind == "step/start":
            if data["turn"] != turn or step is not None:
                return index
            step = data["step"]
        elif kind in ENCLOSED:
            if turn is None or step is None or here != (turn, step):
                return index
            if kind == "step/end":
                step = None
                pending.clear()
            elif kind == "tool/call":
                pending.add(data["callId"])
            elif kind == "tool/result":
                if data["callId"] not in pending:
                    return index
                pending.remove(data["callId"])
    return None


ENCLOSED = ("step/end", "assistant/chunk", "assistant/message", "tool/call", "tool/result")


def august_verdict(events: Events) -> int | None:  # noqa: C901, PLR0911, PLR0912 - as above
    """Return the index of the first event that the August companion refuses, None if none."""
    last, turn, step, next_turn, next_step = -1, None, None, 1, 1
    pending: set[str] = set()
    for index, source in enumerate(events):
        kind, data = source["type"], source["data"]
        here = (data.get("turn"), data.get("step"))
        inside = turn is not None and step is not None and here == (turn, step)
        if source["seq"] <= last:
            return index
        last = source["seq"]
        if kind == "turn/start":
            if turn is not None or data["turn"] != next_turn:
                return index
            turn, next_step = data["turn"], 1
        elif kind == "turn/end":
            if data["turn"] != turn or step is not None:
                return index
            turn, next_turn = None, next_turn + 1
        elif kind == "step/start":
            if data["turn"] != turn or step is not None or data["step"] != next_step:
                return index
            step = data["step"]
        elif kind == "step/end":
            if not inside:
                return index
            step, next_step = None, next_step + 1
            pending.clear()
        elif kind in {"assistant/chunk", "assistant/message", "tool/call"} and not inside:
            return index
        elif kind == "tool/call":
            pending.add(data["callId"])
        elif kind == "tool/result" and source.get("surfaceOp", "append") != "append":
            if turn is None:
                return index
        elif kind == "tool/result":
            call_id = data["message"]["source"]["callId"]
            repaired = data.get("error", {}).get("code") == "TOOL_NOT_STARTED"
            failed = data["message"]["content"][0]["isError"]
            if not inside or (call_id not in pending and not (repaired and failed)):
                return index
            pending.discard(call_id)
        elif kind in {"todo/write", "request/header", "request/context"} and turn is None:
            return index
    return None


def first_violation(events: Events, contract: Contract) -> int | None:
    """Return the index of the first event at which the session's own rules are broken."""
    found = violations(check(events, contract, chosen=SESSION))
    return min((f.line or 0 for f in found), default=None)


class TestOracles:
    """The checker and the original plugins agree on the first violation of any log."""

    @given(mutated(legal_logs(SEED)))
    @settings(max_examples=200)
    def test_june(self, events: Events) -> None:
        """What the June plugin refuses first is what is found first, and nothing else is."""
        due = june_verdict(events)
        assert first_violation(events, SEED) == (None if due is None else due + 1)

    @given(mutated(legal_logs(V0)))
    @settings(max_examples=200)
    def test_august(self, events: Events) -> None:
        """What the August companion refuses first is what is found first, and nothing else is."""
        due = august_verdict(events)
        assert first_violation(events, V0) == (None if due is None else due + 1)

    @given(mutated(mutated(legal_logs(SEED))))
    @settings(max_examples=100)
    def test_two_faults_in_a_june_log(self, events: Events) -> None:
        """A second fault does not move the first."""
        due = june_verdict(events)
        assert first_violation(events, SEED) == (None if due is None else due + 1)

    @given(mutated(mutated(legal_logs(V0))))
    @settings(max_examples=100)
    def test_two_faults_in_an_august_log(self, events: Events) -> None:
        """A second fault does not move the first."""
        due = august_verdict(events)
        assert first_violation(events, V0) == (None if due is None else due + 1)

    def test_the_oracles_see_both_sides(self) -> None:
        """The two verdicts are not the same for everything."""
        skipped = log(turn_start(3), *one_step(3, 1), turn_end(3))
        assert june_verdict(skipped) is None
        assert august_verdict(skipped) == 0
        assert june_verdict(log(turn_end(1))) == 0


class TestAnything:
    """What holds for every sequence of events."""

    def assert_sound(self, found: list[Finding], contract: Contract) -> None:
        """Check that the fields of findings fit together."""
        for finding in found:
            entry = CATALOGUE.entries[finding.rule]
            assert contract in entry.rule.contracts
            assert (finding.owner, finding.severity) == (entry.owner, entry.rule.severity)
            assert finding.code == finding.severity.code
            assert finding.message
            assert finding.count >= 1
            if finding.first_seq is not None and finding.last_seq is not None:
                assert finding.first_seq <= finding.last_seq
            if finding.seq is not None:
                assert finding.first_seq is not None
                assert finding.last_seq is not None
                assert finding.first_seq <= finding.seq <= finding.last_seq

    @pytest.mark.parametrize("contract", list(Contract))
    @given(events=arbitrary_events(), final=st.booleans())
    @settings(max_examples=100)
    def test_nonsense_never_raises(self, contract: Contract, events: Events, final: bool) -> None:
        """No sequence of events makes a rule raise, and findings are sound."""
        self.assert_sound(check(events, contract, final=final), contract)

    @pytest.mark.parametrize("contract", list(Contract))
    @given(data=st.data())
    def test_legal_logs_have_no_violation(self, contract: Contract, data: st.DataObject) -> None:
        """Random programs of each generation keep its contract."""
        events = data.draw(legal_logs(contract))
        found = check(events, contract, final=True)
        assert violations(found) == []
        assert {f.rule for f in found} <= {"tool.call-unanswered", "tool.retry-storm"}

    @pytest.mark.parametrize("contract", list(Contract))
    @given(data=st.data())
    def test_broken_logs_are_judged_soundly(self, contract: Contract, data: st.DataObject) -> None:
        """A log with a fault gives sound findings, under its own contract and any other."""
        events = data.draw(mutated(legal_logs(contract)))
        for held_to in Contract:
            self.assert_sound(check(events, held_to, final=True), held_to)

    @given(mutated(legal_logs(SEED)), st.integers(0, 300))
    def test_prefixes_find_no_less_than_the_whole(self, events: Events, length: int) -> None:
        """What is found in the beginning of a log is found in the whole of it, too."""
        head = events[:length]
        places = {(f.rule, f.line) for f in violations(check(head, SEED))}
        whole = {(f.rule, f.line) for f in violations(check(events, SEED))}
        upgraded = {
            ("tool.result-without-call", line)
            for rule, line in whole
            if rule == "tool.result-before-call"
        }
        assert places <= whole | upgraded

    @given(legal_logs(SEED))
    def test_order_alone_matters(self, events: Events) -> None:
        """Numbering a legal log anew changes nothing."""
        assert violations(check(renumbered(events), SEED)) == []


def test_a_run_reports_nothing_about_rules_it_does_not_know() -> None:
    """A rule set can ask before it works for nothing."""
    header = SessionHeader(id="x")
    run = Run(CATALOGUE, header, SEED, make_checker(SEED)._run.source, frozenset({"seq.gap"}))
    assert not run.enabled("seq.gap")
    assert not run.enabled("seq.duplicate")
    assert run.report("seq.gap", "x", seq=1) is None
    row: Event | Any = run.header_row
    assert row is None
    assert rules(check(log(*one_step(1, 1)), chosen=frozenset({"step.outside-turn"}))) == [
        "step.outside-turn"
    ]
