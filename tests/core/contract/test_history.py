"""The rule that history stays as it is."""

from __future__ import annotations

from dsh_core.contract.checker import Checker
from dsh_core.contract.live import HistoryMutated, LiveFact
from dsh_core.events import SessionHeader

CASES: dict[str, LiveFact] = {"agent.history-mutated": HistoryMutated(3, "__setitem__")}
"""What breaks the rule."""


def test_an_attempt_to_change_history_is_found_at_its_event() -> None:
    checker = Checker(SessionHeader(id="s"), strict=True)
    (finding,) = checker.observe_live(CASES["agent.history-mutated"])
    assert (finding.rule, finding.owner, finding.seq) == ("agent.history-mutated", "session", 3)
    assert finding.message == "__setitem__ on the event of seq 3"


def test_each_attempt_is_found() -> None:
    checker = Checker(SessionHeader(id="s"), strict=True)
    found = [checker.observe_live(HistoryMutated(seq, "pop")) for seq in (1, 1, 2)]
    assert [[finding.seq for finding in findings] for findings in found] == [[1], [1], [2]]
