"""Random logs with the verdicts of the original checkers; see tests/data/README.md."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from dsh_core.contract.catalogue import CATALOGUE
from dsh_core.events import Contract
from tests.checking import check, rules, violations
from tests.paths import VECTORS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsh_core.contract.findings import Finding

SESSION = CATALOGUE.select(["owner:session"])
LOOKED_AT = ("session", "log", "tools", "llm-retry", "compaction", "commands")
OCTOBER = CATALOGUE.select(
    [f"owner:{name}" for name in (*LOOKED_AT, "session-title", "subagent", "session-log-deepseek")]
)
"""What the runtime's own validator looks at; other packages fold their events on use."""


def vectors(contract: Contract) -> Iterator[dict[str, Any]]:
    """Yield the random logs of a contract."""
    with gzip.open(VECTORS / f"{contract}.jsonl.gz") as lines:
        for line in lines:
            yield json.loads(line)


def october(vector: dict[str, Any]) -> list[Finding]:
    """Check a log of October."""
    return check(vector["events"], Contract.V4, header=vector["header"], chosen=OCTOBER)


@pytest.mark.parametrize(("contract", "clean"), [(Contract.SEED, 151), (Contract.V0, 136)])
def test_the_first_violation_is_that_of_the_original(contract: Contract, clean: int) -> None:
    """The session's rules first trip where the original did, for its reason, or never."""
    count = 0
    for vector in vectors(contract):
        found = violations(check(vector["events"], contract, chosen=SESSION))
        due = vector["first"]
        if due is None:
            count += 1
            assert rules(found) == [], vector["id"]
            continue
        assert found, vector["id"]
        assert (found[0].line or 0) - 1 == due["index"], vector["id"]
        assert found[0].rule in due["rules"], vector["id"]
    assert count == clean


def test_what_october_accepts_has_no_violation() -> None:
    """A log that the runtime's own validator accepts breaks no rule."""
    accepted = [vector for vector in vectors(Contract.V4) if vector["accepted"]]
    for vector in accepted:
        found = violations(october(vector))
        assert rules(found) == [], vector["id"]
    assert len(accepted) == 156


def test_what_october_refuses_has_one() -> None:
    """A log that the validator refuses breaks a rule that is checked here."""
    refused = [vector for vector in vectors(Contract.V4) if not vector["accepted"]]
    missed = [vector["id"] for vector in refused if not violations(october(vector))]
    assert len(refused) == 144
    assert missed == []
