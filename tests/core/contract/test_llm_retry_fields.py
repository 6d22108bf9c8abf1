"""Tests of the fields of retries."""

from __future__ import annotations

from typing import Any, Final

import pytest

from dsh_core.events import Contract, LlmRetry
from tests.checking import build, log
from tests.core.contract.retries import found_in, retry, started
from tests.strategies import FAILURE, header_row

V0, V4 = Contract.V0, Contract.V4
V3_HEADER: Final = {**(header_row(V0) or {}), "version": 3, "isSeeded": False}
NO_TEXTS: Final[tuple[Any, ...]] = ("", None, 5, ..., {}, [])

KEYS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    *[("retryId is empty", {"retryId": odd}) for odd in NO_TEXTS],
    *[("provider is empty", {"provider": odd}) for odd in NO_TEXTS],
    *[("retry is not at least 1", {"retry": odd}) for odd in (0, -1, 1.5, True, "1", ..., 2**53)],
)
POLICY: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    *[("policyKey is empty", {"policyKey": odd}) for odd in NO_TEXTS],
    ("mode is 'often'", {"mode": "often"}),
    ("mode is nothing", {"mode": ...}),
    ("mode is a list", {"mode": ["normal"]}),
    *[
        ("maxRetries is not at least 1", {"maxRetries": odd})
        for odd in (0, -1, 0.5, "9", None, True, ...)
    ],
    ("maxRetries is present in mode always", {"mode": "always"}),
    ("maxRetries is present in mode always", {"mode": "always", "maxRetries": None}),
    *[
        ("delayMs is not from 0 to 2147483647", {"delayMs": odd})
        for odd in (-0.5, 2147483648, 1e300, "1", None, True, ...)
    ],
)
FAILURES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    *[("failure.message is empty", {"message": odd}) for odd in ("", None, 5)],
    *[("failure.code is empty", {"code": odd}) for odd in ("", None, 5)],
    *[
        ("failure.status is not from 100 to 599", {"status": odd})
        for odd in (99, 600, 500.5, "500", None, True)
    ],
    *[
        ("failure.providerRetryAfterMs is not above 0", {"providerRetryAfterMs": odd})
        for odd in (0, -1, "1", None, True)
    ],
    *[("failure.requestId is empty", {"requestId": odd}) for odd in ("", None, 5)],
)
LEGAL_FIELDS: Final[tuple[dict[str, Any], ...]] = (
    {"retry": 1.0},
    {"maxRetries": 1},
    {"maxRetries": 9.0},
    {"mode": "always", "maxRetries": ...},
    {"delayMs": 0},
    {"delayMs": 2147483647},
    {"extra": 1},
    {"failure": {"message": "m", "code": "c"}},
    {"failure": {**FAILURE, "status": 100, "providerRetryAfterMs": 0.5, "requestId": "r"}},
    {"failure": {**FAILURE, "status": 599.0, "offloadImages": True}},
)


class TestKeys:
    """What retries are paired by."""

    @pytest.mark.parametrize("options", [{"contract": V0, "header": V3_HEADER}, {"contract": V4}])
    @pytest.mark.parametrize(("problem", "change"), KEYS)
    def test_each_odd_field_is_named(
        self, options: dict[str, Any], problem: str, change: dict[str, Any]
    ) -> None:
        found = found_in(retry(**{"number": 1, **change}), **options)
        assert [(f.rule, f.seq, f.message) for f in found] == [("retry.fields", 3, problem)]

    def test_july_wrote_retries_without_an_id(self) -> None:
        twice = [item(k, id_=...) for k in (1, 2) for item in (retry, started)]
        assert found_in(*twice, contract=V0) == []

    @pytest.mark.parametrize("id_", ["", None, 5, {}])
    def test_but_an_id_that_july_did_write_is_one(self, id_: object) -> None:
        (found,) = found_in(retry(id_=id_), contract=V0)
        assert (found.rule, found.message) == ("retry.fields", "retryId is empty")

    @pytest.mark.parametrize(("_problem", "change"), POLICY)
    def test_october_looks_at_nothing_else(self, _problem: str, change: dict[str, Any]) -> None:
        assert found_in(retry(**{"number": 1, **change}), contract=V4) == []

    @pytest.mark.parametrize("failure", [None, ..., [], 5, "boom", {}, {"status": 9}])
    def test_nor_at_the_failure(self, failure: object) -> None:
        assert found_in(retry(failure=failure), contract=V4) == []


@pytest.mark.parametrize("contract", [V0])
class TestFields:
    """Each other field of a retry by itself, as August had it."""

    @pytest.mark.parametrize(("problem", "change"), POLICY)
    def test_each_odd_field_is_named(
        self, contract: Contract, problem: str, change: dict[str, Any]
    ) -> None:
        found = found_in(retry(**{"number": 1, **change}), contract=contract)
        assert [(f.rule, f.seq, f.message) for f in found] == [("retry.fields", 3, problem)]

    def test_more_retries_than_the_most(self, contract: Contract) -> None:
        found = found_in(*[retry(k, maxRetries=2) for k in (1, 2, 3)], contract=contract)
        assert [(f.rule, f.seq, f.message) for f in found] == [
            ("retry.fields", 5, "retry is 3, maxRetries 2")
        ]

    def test_two_odd_fields_are_one_finding(self, contract: Contract) -> None:
        (found,) = found_in(retry(policyKey="", delayMs=-1), contract=contract)
        assert found.message == "policyKey is empty; delayMs is not from 0 to 2147483647"

    @pytest.mark.parametrize(("problem", "change"), FAILURES)
    def test_each_odd_field_of_the_failure_is_named(
        self, contract: Contract, problem: str, change: dict[str, Any]
    ) -> None:
        found = found_in(retry(failure={**FAILURE, **change}), contract=contract)
        assert [(f.rule, f.seq, f.message) for f in found] == [("retry.failure", 3, problem)]

    @pytest.mark.parametrize("failure", [None, ..., [], 5, "boom", {}])
    def test_a_failure_without_fields_is_one_finding(
        self, contract: Contract, failure: object
    ) -> None:
        found = found_in(retry(failure=failure), contract=contract)
        assert [(f.rule, f.message) for f in found] == [
            ("retry.failure", "failure.message is empty; failure.code is empty")
        ]

    @pytest.mark.parametrize("change", LEGAL_FIELDS)
    def test_what_merely_looks_odd_is_legal(
        self, contract: Contract, change: dict[str, Any]
    ) -> None:
        assert found_in(retry(**{"number": 1, **change}), contract=contract) == []

    def test_a_failure_is_not_quoted(self, contract: Contract) -> None:
        odd = {"message": "", "code": "", "status": "the user's secret"}
        (found,) = found_in(retry(failure=odd), contract=contract)
        assert "secret" not in str(found)


@pytest.mark.parametrize(
    ("failure", "status"), [(FAILURE, 529), ({**FAILURE, "status": 429.0}, 429), (5, None)]
)
def test_others_read_the_failure_as_far_as_that_goes(failure: Any, status: int | None) -> None:
    built, _ = build(log(retry(failure=failure))[0], 1)
    assert isinstance(built, LlmRetry)
    read = built.data.failure
    assert (None if read is None else read.status) == status
