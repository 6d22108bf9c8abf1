"""Rules about the executions of tools."""

from __future__ import annotations

import pytest

from dsh_core.contract.checker import Checker
from dsh_core.contract.live import LiveFact, ResultMutated, StatusesUnknown, ToolStage
from dsh_core.contract.rules.tool_pipeline import MAX_EXECUTIONS
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract, SessionHeader

ORDER, FROZEN = "tools.pipeline-order", "tools.result-not-frozen"


def stages(*names: str, execution: int = 1) -> list[LiveFact]:
    return [ToolStage(execution, "c", "bash", name) for name in names]


LEGAL: dict[str, list[LiveFact]] = {
    "all": stages("pre-execute", "execute", "post-execute", "result"),
    "denied": stages("pre-execute", "post-execute", "result"),
    "no more than that": stages("pre-execute", "execute", "result"),
    "broken off": [
        *stages("pre-execute", "execute"),
        *stages("pre-execute", "execute", "result", execution=2),
    ],
    "two at once": [
        *(*stages("pre-execute"), *stages("pre-execute", execution=2)),
        *(*stages("execute", execution=2), *stages("execute", "result")),
        *stages("result", execution=2),
    ],
    "again when it is over": stages(*(("pre-execute", "execute", "result") * 2)),
}

BROKEN: dict[str, tuple[str, str, list[LiveFact]]] = {
    "announced again": (
        *(ORDER, "pre-execute of call 'c' after pre-execute"),
        stages("pre-execute", "pre-execute"),
    ),
    "announced while it runs": (
        *(ORDER, "pre-execute of call 'c' after execute"),
        stages("pre-execute", "execute", "pre-execute"),
    ),
    "not announced": (ORDER, "execute of call 'c' after no other stage", stages("execute")),
    "run again": (
        *(ORDER, "execute of call 'c' after execute"),
        stages("pre-execute", "execute", "execute"),
    ),
    "run when it is done": (
        *(ORDER, "execute of call 'c' after post-execute"),
        stages("pre-execute", "post-execute", "execute"),
    ),
    "done before it began": (
        *(ORDER, "post-execute of call 'c' after no other stage"),
        stages("post-execute"),
    ),
    "done again": (
        *(ORDER, "post-execute of call 'c' after post-execute"),
        stages("pre-execute", "post-execute", "post-execute"),
    ),
    "handed out with loose content": (
        *(FROZEN, "the content can be changed"),
        [ToolStage(1, "c", "bash", "result", ("content",))],
    ),
    "handed out loose": (
        *(FROZEN, "the result and the content can be changed"),
        [ToolStage(1, "c", "bash", "result", ("result", "content"))],
    ),
    "no name": (FROZEN, "the call names no tool", [ToolStage(1, "c", "", "result")]),
    "no id": (FROZEN, "the call has no id", [ToolStage(1, "", "bash", "result")]),
    "changed": (FROZEN, "append on the result of call 'c'", [ResultMutated("c", "append")]),
}
"""Rule and message that the last of some facts gives."""


def found(
    facts: list[LiveFact], contract: Contract = Contract.V4, source: SourceKind = SourceKind.LIVE
) -> list[list[tuple[str, str]]]:
    checker = Checker(SessionHeader(id="s"), contract=contract, source=source, strict=True)
    return [[(f.rule, f.message) for f in checker.observe_live(fact)] for fact in facts]


@pytest.mark.parametrize("facts", LEGAL.values(), ids=LEGAL)
def test_legal_executions_break_nothing(facts: list[LiveFact]) -> None:
    assert found(facts) == [[]] * len(facts)


@pytest.mark.parametrize("contract", list(Contract))
@pytest.mark.parametrize(("rule", "message", "facts"), BROKEN.values(), ids=BROKEN)
def test_the_last_fact_breaks_the_rule(
    rule: str, message: str, facts: list[LiveFact], contract: Contract
) -> None:
    assert found(facts, contract) == [[]] * (len(facts) - 1) + [[(rule, message)]]


def test_after_a_fault_an_execution_goes_on_from_where_it_is() -> None:
    told = found(stages("execute", "post-execute", "result", "execute"))
    assert [bool(one) for one in told] == [True, False, False, True]


def test_what_began_while_nobody_listened_is_not_judged() -> None:
    facts = [*stages("pre-execute"), StatusesUnknown(), *stages("post-execute", "result")]
    assert found(facts) == [[]] * 4
    seen = [StatusesUnknown(), *stages("pre-execute", "pre-execute", execution=2)]
    assert [bool(one) for one in found(seen)] == [False, False, True]


def test_executions_beyond_a_limit_are_not_followed() -> None:
    many = [fact for n in range(MAX_EXECUTIONS + 1) for fact in stages("pre-execute", execution=n)]
    last = stages("pre-execute", execution=MAX_EXECUTIONS)
    told = found([*many, *stages("execute", execution=0), *last])
    assert [bool(one) for one in told[len(many) :]] == [False, True]


def test_a_finding_lies_where_the_session_stands() -> None:
    checker = Checker(SessionHeader(id="s"), strict=True)
    (finding,) = checker.observe_live(*stages("execute"))
    assert (finding.owner, finding.code, finding.seq) == ("tools", "INVARIANT", None)
    assert (finding.call_id, finding.expected, finding.got) == (
        *("c", "pre-execute"),
        "no other stage",
    )
