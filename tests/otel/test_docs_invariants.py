"""Tests of the page about the harness's invariants."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from dsh_core.contract.catalogue import CATALOGUE
from dsh_core.contract.findings import Severity
from dsh_otel.docs import rules_page
from dsh_otel.docs_coverage import OURS, SECTIONS
from dsh_otel.docs_invariants import invariants_page

if TYPE_CHECKING:
    from dsh_otel.docs_rows import Row, Section

ROWS = [row for section in SECTIONS for row in section.rows]


@pytest.fixture(scope="module")
def page() -> str:
    """The page."""
    return invariants_page()


class TestFacts:
    """What becomes of each invariant."""

    @pytest.mark.parametrize("row", [*ROWS, *OURS], ids=lambda row: row.name)
    def test_its_rules_exist(self, row: Row) -> None:
        assert [id_ for id_ in row.rules if id_ not in CATALOGUE.entries] == []
        assert len(set(row.rules)) == len(row.rules)

    @pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
    def test_without_a_rule_there_is_a_reason(self, row: Row) -> None:
        assert row.rules or row.note
        assert not row.note or row.note.endswith(".")

    @pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
    def test_what_only_a_live_session_shows_has_one_too(self, row: Row) -> None:
        live = [id_ for id_ in row.rules if CATALOGUE.entries[id_].rule.source == "live"]
        assert not live or row.note

    def test_no_violation_goes_unnamed(self) -> None:
        named = {id_ for row in (*ROWS, *OURS) for id_ in row.rules}
        violations = {
            id_
            for id_, entry in CATALOGUE.entries.items()
            if entry.rule.severity is Severity.VIOLATION
        }
        assert violations - named == set()

    @pytest.mark.parametrize("row", OURS, ids=lambda row: row.name)
    def test_what_is_ours_has_a_reason(self, row: Row) -> None:
        assert row.note.endswith(".")

    @pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.number)
    def test_names_are_unique_in_a_section(self, section: Section) -> None:
        assert [n for n, count in Counter(r.name for r in section.rows).items() if count > 1] == []

    def test_sections_come_once_and_in_order(self) -> None:
        numbers = [section.number for section in SECTIONS]
        third = [f"3.{number}" for number in range(1, 14)]
        assert numbers == ["1", "2", "2b", *third, "4"]


class TestPage:
    """What the page shows of it."""

    def test_every_invariant_has_a_row(self, page: str) -> None:
        for section in SECTIONS:
            head = f"## {section.number} {section.title}\n"
            table = page.partition(head)[2].partition("\n## ")[0]
            assert re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE) == [
                row.name for row in section.rows
            ]

    def test_its_links_lead_somewhere(self, page: str) -> None:
        anchors = set(re.findall(r'<a id="([^"]+)"></a>', rules_page()))
        linked = set(re.findall(r"\(rules\.md#([^)]+)\)", page))
        assert linked == {id_ for row in (*ROWS, *OURS) for id_ in row.rules}
        assert linked <= anchors

    def test_rules_name_what_they_are_bound_to(self, page: str) -> None:
        assert "[`turn.overlap`](rules.md#turn.overlap) |" in page
        assert "[`turn.number`](rules.md#turn.number) (v0, v4) |" in page
        assert "[`seq.gap`](rules.md#seq.gap) (v0, v4, log)<br>" in page
        assert "[`agent.history-mutated`](rules.md#agent.history-mutated) (live) |" in page
        assert "[`text.lone-surrogate`](rules.md#text.lone-surrogate) (advice) |" in page

    def test_what_no_rule_decides_says_why(self, page: str) -> None:
        for row in ROWS:
            if not row.rules:
                assert f"| `{row.name}` | none | {row.note} |" in page

    def test_every_row_of_a_table_has_as_many_cells(self, page: str) -> None:
        for line in page.splitlines():
            assert not line.startswith("|") or line.count(" | ") == 2
