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

SESSION = CATALOGUE.select(["owner:session"])


def vectors(contract: Contract) -> Iterator[dict[str, Any]]:
    """Yield the random logs of a contract."""
    with gzip.open(VECTORS / f"{contract}.jsonl.gz") as lines:
        for line in lines:
            yield json.loads(line)


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
        found = violations(check(vector["events"], Contract.V4, header=vector["header"]))
        assert rules(found) == [], vector["id"]
    assert len(accepted) == 156


def test_most_of_what_october_refuses_has_one() -> None:
    """Of the logs that the validator refuses, nearly all break a rule that is checked here."""
    refused = [vector for vector in vectors(Contract.V4) if not vector["accepted"]]
    missed = [
        vector["id"]
        for vector in refused
        if not violations(check(vector["events"], Contract.V4, header=vector["header"]))
    ]
    assert len(refused) == 144
    # Retries and titles that contradict themselves are left.
    assert len(missed) <= 10, missed
