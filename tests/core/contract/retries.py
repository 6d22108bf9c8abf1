"""Ways to write retries, for the tests of their rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsh_core.events import Contract
from tests.checking import Item, check, event, log, one_turn
from tests.strategies import FAILURE, MODEL

if TYPE_CHECKING:
    from dsh_core.contract.findings import Finding


def header(provider: str = "p") -> Item:
    """Return the header of a request."""
    config = {**MODEL, "provider": provider}
    return event("request/header", {"header": {"config": config}, "reason": "initial"})


def retry(number: Any = 1, id_: Any = "t", turn: Any = 1, step: Any = 1, **more: Any) -> Item:
    """Return a retry; a field that is `...` is left out."""
    data = {
        "retryId": id_,
        "turn": turn,
        "step": step,
        "provider": "p",
        "mode": "normal",
        "policyKey": "k",
        "retry": number,
        "maxRetries": 9,
        "delayMs": 12.5,
        "failure": FAILURE,
        **more,
    }
    return event("llm/retry", {name: value for name, value in data.items() if value is not ...})


def started(number: Any = 1, id_: Any = "t", turn: Any = 1, step: Any = 1, **more: Any) -> Item:
    """Return the start of a retry."""
    data = {"retryId": id_, "turn": turn, "step": step, "retry": number, **more}
    return event("llm/retry-started", {k: value for k, value in data.items() if value is not ...})


def found_in(*items: Item, contract: Contract = Contract.V4, **options: Any) -> list[Finding]:
    """Check what happens in a step with a request; every finding counts."""
    return check(log(*one_turn(1, header(), *items)), contract, **options)
