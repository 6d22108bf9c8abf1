"""Tests of the rules about sandbox modes, permission presets and plan mode: one word each."""

from __future__ import annotations

from typing import Any, Final

import pytest

from dsh_core.contract.findings import Severity
from dsh_core.events import Contract
from tests.checking import build, check, event, log, make_checker, rules

V0, V4 = Contract.V0, Contract.V4
PRESETS: Final = frozenset({"workspace-write", "mine"})
both = pytest.mark.parametrize("contract", [V0, V4])


def found(kind: str, data: Any, contract: Contract, **options: Any) -> list[str]:
    """Return the messages about one event outside turns."""
    findings = check(log(event(kind, data)), contract, **options)
    assert {f.severity for f in findings} <= {Severity.VIOLATION}
    assert all(f.rule.startswith(kind.partition("/")[0]) for f in findings)
    return [f.message for f in findings]


@both
class TestSandbox:
    """Modes of the sandbox."""

    @pytest.mark.parametrize("mode", ["read-only", "workspace-write", "danger-full-access"])
    def test_known_modes(self, contract: Contract, mode: str) -> None:
        assert found("sandbox/mode", {"mode": mode, "source": "delegation"}, contract) == []

    @pytest.mark.parametrize(
        ("mode", "shown"),
        [
            ("", "an empty text"),
            ("Read-Only", "'Read-Only'"),
            ("all of it", "another text"),
            (None, "nothing"),
            (True, "true"),
            (5, "5"),
            (["read-only"], "a list"),
            ({}, "an object"),
        ],
    )
    def test_any_other(self, contract: Contract, mode: Any, shown: str) -> None:
        assert found("sandbox/mode", {"mode": mode}, contract) == [f"the mode is {shown}"]


@both
class TestPresets:
    """Names of permission presets."""

    @pytest.mark.parametrize("preset", sorted(PRESETS))
    def test_configured_ones(self, contract: Contract, preset: str) -> None:
        data = {"preset": preset}
        assert found("permission/preset", data, contract, presets=PRESETS) == []

    @pytest.mark.parametrize("preset", ["read-only", "", None, 5, True, ["mine"], {}])
    def test_any_other(self, contract: Contract, preset: Any) -> None:
        data = {"preset": preset}
        assert len(found("permission/preset", data, contract, presets=PRESETS)) == 1
        assert len(found("permission/preset", data, contract, presets=frozenset())) == 1

    def test_without_configured_names_the_rule_is_never_evaluated(self, contract: Contract) -> None:
        for presets, evaluated in ((None, False), (PRESETS, True)):
            checker = make_checker(contract, presets=presets)
            (source,) = log(event("permission/preset", {"preset": "unheard-of"}))
            assert rules(checker.observe(build(source, 2)[0], 2)) == (
                ["permission.preset-unknown"] if evaluated else []
            )
            assert ("permission.preset-unknown" in checker.evaluated()) is evaluated


@both
class TestPlan:
    """Plan mode."""

    @pytest.mark.parametrize("active", [True, False])
    def test_on_or_off(self, contract: Contract, active: bool) -> None:
        assert found("plan/mode", {"active": active}, contract) == []

    @pytest.mark.parametrize("active", [None, 0, 1, "true", "", [], {}, [True]])
    def test_anything_else(self, contract: Contract, active: Any) -> None:
        assert len(found("plan/mode", {"active": active}, contract)) == 1


@pytest.mark.parametrize("kind", ["sandbox/mode", "permission/preset", "plan/mode"])
@pytest.mark.parametrize("data", [None, 5, "x", [], [{}]])
def test_what_cannot_be_read_is_one_finding(kind: str, data: Any) -> None:
    events = log(event(kind))
    events[0]["data"] = data
    assert rules(check(events, V4, presets=PRESETS)) == ["envelope.invalid"]


@pytest.mark.parametrize("kind", ["sandbox/mode", "permission/preset", "plan/mode"])
def test_june_knows_none_of_them(kind: str) -> None:
    assert check(log(event(kind)), Contract.SEED, presets=PRESETS) == []
