"""Tests of findings: counting consequences, order, and the way they travel."""

from __future__ import annotations

import msgspec

from dsh_core.contract.findings import Finding, Severity


def make(seq: int | None = 5, line: int | None = 9) -> Finding:
    """Return a finding."""
    return Finding(
        rule="a.rule",
        owner="a",
        severity=Severity.VIOLATION,
        code="INVARIANT",
        message="odd",
        seq=seq,
        line=line,
        first_seq=seq,
        last_seq=seq,
    )


class TestFold:
    """Consequences of a finding."""

    def test_they_widen_its_range(self) -> None:
        """Count, lowest and highest seq cover all events that a finding stands for."""
        finding = make()
        for seq in (7, 6, 3):
            finding.fold(seq)
        assert (finding.count, finding.first_seq, finding.last_seq) == (4, 3, 7)
        assert finding.seq == 5

    def test_events_without_a_number_are_counted(self) -> None:
        """An event whose seq is unknown moves no end of the range."""
        finding = make()
        finding.fold(-1)
        assert (finding.count, finding.first_seq, finding.last_seq) == (2, 5, 5)

    def test_a_fault_without_a_number_has_no_first(self) -> None:
        """Damage has no seq of its own; what follows from it has."""
        finding = make(None)
        finding.fold(8)
        finding.fold(7)
        assert (finding.count, finding.first_seq, finding.last_seq) == (3, None, 8)


class TestPlace:
    """The order of findings."""

    def test_lines_come_first_then_numbers(self) -> None:
        """Findings are sorted as a reader of the log meets them."""
        found = [make(3, 9), make(None, 9), make(1, 2), make(9, None)]
        found.sort(key=lambda finding: finding.place)
        assert [(f.line, f.seq) for f in found] == [(None, 9), (2, 1), (9, None), (9, 3)]


def test_findings_are_data() -> None:
    """A finding goes to JSON and back unchanged."""
    finding = make()
    assert msgspec.json.decode(msgspec.json.encode(finding), type=Finding) == finding
