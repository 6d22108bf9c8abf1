"""``dsh-otel rules``: the catalogue of rules."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Annotated, Final

import typer

from dsh_otel.cli.complete import complete_patterns
from dsh_otel.cli.exits import CannotTellError
from dsh_otel.cli.output import stdout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_core.contract.catalogue import Entry
    from dsh_core.contract.rule import Rule

SOURCES: Final = {
    "any": "any source of events",
    "log": "complete logs only: a live stream has gaps by nature",
    "end": "only when the end of the log is declared, as with check --final",
    "live": "only a running agent: no log holds what it needs",
}
"""What a rule needs of its source, in words."""


def rules(
    rule: Annotated[
        str,
        typer.Argument(metavar="ID", hidden=True, autocompletion=complete_patterns),
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """List the rules, or tell all about one.

    ID is the id of a rule; it names the fault and never changes its meaning. A pattern, as check
    --rules takes it, lists the rules it chooses.
    """
    from dsh_core.contract.catalogue import CATALOGUE

    found = _select(rule) if rule else list(CATALOGUE.entries.values())
    if json:
        _print_json(found)
    elif rule in CATALOGUE.entries:
        _print_one(found[0])
    else:
        _print_list(found)


def contract_names(rule: Rule) -> str:
    """Return the contracts that a rule is part of, in words."""
    from dsh_core.events import Contract

    return "all" if len(rule.contracts) == len(Contract) else " ".join(rule.contracts)


def _select(pattern: str) -> list[Entry]:
    from dsh_core.contract.catalogue import CATALOGUE, UnknownRuleError

    try:
        chosen = CATALOGUE.select([pattern])
    except UnknownRuleError as error:
        close = difflib.get_close_matches(pattern, CATALOGUE.entries, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else "`dsh-otel rules` lists all"
        raise CannotTellError(f"no rule is called {pattern!r}; {hint}") from error
    return [CATALOGUE.entries[id_] for id_ in sorted(chosen)]


def _print_json(entries: Sequence[Entry]) -> None:
    from dsh_otel.cli.formats.fields import SCHEMA_VERSION, dumps

    found = [
        {
            "id": entry.id,
            "owner": entry.owner,
            "contracts": list(entry.rule.contracts),
            "severity": entry.rule.severity,
            "code": entry.rule.severity.code,
            "source": entry.rule.source,
            "fault": entry.rule.fault,
            "advice": entry.rule.advice,
        }
        for entry in entries
    ]
    stdout(exact=True).write(dumps({"schema_version": SCHEMA_VERSION, "rules": found}) + "\n")


def _print_list(entries: Sequence[Entry]) -> None:
    from dsh_otel.cli.formats.text import STYLES
    from dsh_otel.cli.table import Column, print_table

    columns = (
        Column("RULE", style="bold"),
        Column("OWNER"),
        Column("SEVERITY", styles=STYLES),
        Column("CONTRACTS"),
        Column("SOURCE"),
        Column("FAULT", wraps=True),
    )
    rows = [
        (
            entry.id,
            entry.owner,
            entry.rule.severity.value,
            contract_names(entry.rule),
            entry.rule.source,
            entry.rule.fault,
        )
        for entry in entries
    ]
    print_table(columns, rows)


def _print_one(entry: Entry) -> None:
    from dsh_otel.cli.table import print_fields

    rule = entry.rule
    fields = (
        ("fault", rule.fault),
        ("what to do", rule.advice),
        ("severity", f"{rule.severity} (code {rule.severity.code})"),
        ("owner", entry.owner),
        ("contracts", contract_names(rule)),
        ("source", SOURCES[rule.source]),
    )
    print_fields(rule.id, fields)
