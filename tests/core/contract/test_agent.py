"""Rules about what agents say they are doing."""

from __future__ import annotations

import pytest

from dsh_core.contract.checker import Checker
from dsh_core.contract.live import LiveFact, StatusChanged, StatusesUnknown
from dsh_core.contract.rules.agent import MAX_AGENTS
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract, SessionHeader


def statuses(*names: str, agent: str = "a") -> list[LiveFact]:
    return [StatusChanged(agent, name) for name in names]


CASES: dict[str, tuple[list[LiveFact], list[LiveFact]]] = {
    "agent.status-noop": (
        statuses("idle", "running", "running"),
        statuses("idle", "running", "idle", "running", "disposed"),
    ),
    "agent.status-after-disposed": (
        statuses("running", "disposed", "idle"),
        [*statuses("running", "disposed"), *statuses("running", agent="b")],
    ),
}
"""By rule: facts that break it, with the last one, and facts that do not."""


def found(
    facts: list[LiveFact], contract: Contract = Contract.V4, source: SourceKind = SourceKind.LIVE
) -> list[list[str]]:
    checker = Checker(SessionHeader(id="s"), contract=contract, source=source, strict=True)
    return [[finding.rule for finding in checker.observe_live(fact)] for fact in facts]


@pytest.mark.parametrize("contract", list(Contract))
@pytest.mark.parametrize("rule", CASES)
def test_the_last_fact_breaks_the_rule(rule: str, contract: Contract) -> None:
    facts, _ = CASES[rule]
    assert found(facts, contract) == [[]] * (len(facts) - 1) + [[rule]]


@pytest.mark.parametrize("rule", CASES)
def test_legal_statuses_break_nothing(rule: str) -> None:
    _, facts = CASES[rule]
    assert found(facts) == [[]] * len(facts)


@pytest.mark.parametrize("source", list(SourceKind))
def test_live_facts_are_judged_whatever_the_events_come_from(source: SourceKind) -> None:
    assert found(statuses("idle", "idle"), source=source)[-1] == ["agent.status-noop"]


def test_every_status_of_an_agent_that_is_disposed_is_found() -> None:
    rule = "agent.status-after-disposed"
    assert found(statuses("disposed", "disposed", "idle")) == [[], [rule], [rule]]


def test_agents_beyond_a_limit_are_not_followed() -> None:
    checker = Checker(SessionHeader(id="s"), strict=True)
    for number in range(MAX_AGENTS + 5):
        assert checker.observe_live(StatusChanged(f"a{number}", "idle")) == []
    assert checker.observe_live(StatusChanged(f"a{MAX_AGENTS + 4}", "idle")) == []
    assert len(checker.observe_live(StatusChanged("a0", "idle"))) == 1


def test_a_finding_lies_where_the_session_stands() -> None:
    checker = Checker(SessionHeader(id="s"), strict=True)
    checker.observe_live(StatusChanged("a", "idle"))
    (finding,) = checker.observe_live(StatusChanged("a", "idle"))
    assert (finding.owner, finding.code, finding.seq) == ("agent", "INVARIANT", None)
    assert finding.message == "agent 'a' reports 'idle' after 'idle'"


def test_after_nobody_has_listened_for_a_while_statuses_are_free_again() -> None:
    assert found([*statuses("running"), StatusesUnknown(), *statuses("running")]) == [[], [], []]
