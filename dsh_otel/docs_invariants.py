"""The page about the harness's invariants: which rules decide each, or why no log can."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsh_core.contract.catalogue import CATALOGUE
from dsh_core.contract.findings import Severity
from dsh_core.contract.rule import ALL
from dsh_otel.docs_coverage import OURS, SECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dsh_otel.docs_rows import Row

_INTRO: Final = """\
# Invariants

<!-- Written by `make docs` from the code. Do not edit. -->

Every invariant of the harness, by its name there, with the rules that decide it here, or the reason
why there is none: most often that no log can tell. A rule without a remark in brackets is a
violation, in all contracts and for every source of events; `log` rules need a complete log, `live`
rules a running agent, for what they judge is never logged."""

_OURS: Final = """\
## Rules of our own

Violations that the harness does not look for. Advice and damage (see [rules](rules.md)) are all
ours, except where a table above says otherwise."""

_HEAD: Final = ("Invariant", "Rules", "Remarks")


def invariants_page() -> str:
    """Return the page: a table for each section, and what is looked for beyond them."""
    parts = [_INTRO]
    for section in SECTIONS:
        parts += [f"## {section.number} {section.title}", _table(section.rows)]
    return "\n\n".join([*parts, _OURS, _table(OURS)]) + "\n"


def _table(rows: Iterable[Row]) -> str:
    body = [
        (f"`{row.name}`", "<br>".join(map(_rule, row.rules)) or "none", row.note) for row in rows
    ]
    return "\n".join(map(_line, [_HEAD, ["---"] * len(_HEAD), *body]))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _rule(id_: str) -> str:
    """Name a rule, with what it is bound to."""
    rule = CATALOGUE.entries[id_].rule
    bounds = [] if rule.contracts == ALL else list(map(str, rule.contracts))
    bounds += [rule.source] * (rule.source != "any")
    bounds += [str(rule.severity)] * (rule.severity is not Severity.VIOLATION)
    return f"[`{id_}`](rules.md#{id_})" + (f" ({', '.join(bounds)})" if bounds else "")
