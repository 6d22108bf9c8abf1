"""Tests of the catalogue: what rules there are, and how some of them are chosen."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

import pytest

from dsh_core.contract.catalogue import CATALOGUE, Catalogue, UnknownRuleError
from dsh_core.contract.findings import Severity
from dsh_core.contract.rule import ALL, EVERY, Rule, RuleSet
from dsh_core.events import KNOWN_EVENTS

if TYPE_CHECKING:
    from collections.abc import Sequence


class One(RuleSet):
    """A rule set with two rules."""

    owner = "one"
    rules: ClassVar = (Rule("b.second", "second", "mend it"), Rule("a.first", "first", "mend it"))


class Two(RuleSet):
    """A rule set of another owner."""

    owner = "two"
    rules: ClassVar = (Rule("a.third", "third", "mend it"),)


SMALL = Catalogue([One, Two])


class TestCatalogue:
    """A collection of rule sets."""

    def test_it_lists_all_rules_by_id(self) -> None:
        """Entries are in the order of their ids and know their owner."""
        assert [(e.id, e.owner) for e in SMALL.entries.values()] == [
            ("a.first", "one"),
            ("a.third", "two"),
            ("b.second", "one"),
        ]

    def test_ids_are_unique(self) -> None:
        """Two rules of one id are a mistake of the programmer."""
        with pytest.raises(ValueError, match=r"'b\.second' is defined twice"):
            Catalogue([One, Two, One])

    @pytest.mark.parametrize(
        ("include", "exclude", "chosen"),
        [
            ((), (), {"a.first", "a.third", "b.second"}),
            (("a.*",), (), {"a.first", "a.third"}),
            (("owner:one",), (), {"a.first", "b.second"}),
            (("owner:*",), ("a.first",), {"a.third", "b.second"}),
            ((), ("owner:one", "a.third"), set()),
            (("b.second", "a.third"), ("*.third",), {"b.second"}),
        ],
    )
    def test_patterns_choose_rules(
        self, include: Sequence[str], exclude: Sequence[str], chosen: set[str]
    ) -> None:
        """Globs on ids or owners include rules, others take some away again."""
        assert SMALL.select(include, exclude) == chosen

    @pytest.mark.parametrize("pattern", ["c.*", "owner:three", "A.first", "owner:", ""])
    @pytest.mark.parametrize("excluding", [False, True])
    def test_a_pattern_that_matches_nothing_is_a_mistake(
        self, pattern: str, excluding: bool
    ) -> None:
        """A misspelt pattern must not pass as one that is content with everything."""
        patterns: tuple[Sequence[str], Sequence[str]] = ((pattern,), ())
        with pytest.raises(UnknownRuleError, match="owners are: one, two"):
            SMALL.select(*(patterns[::-1] if excluding else patterns))


class TestRules:
    """The rules that ship."""

    @pytest.mark.parametrize("rule", [e.rule for e in CATALOGUE.entries.values()], ids=str)
    def test_each_is_fit_to_be_shown(self, rule: Rule) -> None:
        """Ids are dotted words; fault is a clause, advice a sentence; contracts are given."""
        assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*\.[a-z]+(-[a-z0-9]+)*", rule.id)
        assert rule.fault
        assert not rule.fault.endswith(".")
        assert rule.advice.endswith(".")
        assert set(rule.contracts) <= set(ALL)
        assert rule.contracts
        assert rule.source in {"any", "log", "end", "live"}
        # What a rule is evaluated at is an event, but for the end of a log and what no log holds.
        assert bool(rule.on) == (rule.source not in {"end", "live"})
        assert set(rule.on) <= {*KNOWN_EVENTS, EVERY}
        assert rule.severity in Severity

    def test_severities_have_codes(self) -> None:
        """The code of a finding follows from its severity."""
        assert {severity: severity.code for severity in Severity} == {
            "violation": "INVARIANT",
            "damage": "LOG_DAMAGE",
            "advice": "ADVICE",
        }
