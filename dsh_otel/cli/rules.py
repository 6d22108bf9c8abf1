"""``dsh-otel rules``: the catalogue of rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dsh_otel.cli.choices import Source
from dsh_otel.cli.complete import complete_patterns
from dsh_otel.cli.exits import CannotTellError, exit_code_lines, say
from dsh_otel.cli.output import stdout
from dsh_otel.cli.quiet import Quiet, is_quiet
from dsh_otel.cli.selection import FromSource, Presets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsh_core.contract.catalogue import Catalogue, Entry
    from dsh_core.contract.rule import Rule

SOURCES: Final = {
    "any": "any source of events",
    "log": "complete logs only: a live stream has gaps by nature",
    "end": "only when the end of the log is declared, as with check --final",
    "live": "only a running agent: no log holds what it needs",
}
"""What a rule needs of its source, in words."""

EPILOG: Final = exit_code_lines(
    "no rule is called so, with --run: no log can be read or rules failed, or wrong usage",
    "with --run: some of the logs cannot be read",
)

PLACES: Final = {"end": "the end of the log", "live": "what a running agent does"}
"""What rules are evaluated at that wait for no event, by their source."""


def rules(
    context: typer.Context,
    rule: Annotated[
        str,
        typer.Argument(metavar="ID", hidden=True, autocompletion=complete_patterns),
    ] = "",
    run: Annotated[
        list[str] | None,
        typer.Option(
            "--run",
            metavar="PATH",
            help="Check these logs, and say of each rule what became of it: the number of its "
            "findings, silent, or never evaluated. Repeatable.",
            show_default=False,
        ),
    ] = None,
    source: FromSource = Source.LOG,
    final: Annotated[
        bool, typer.Option("--final", help="With --run: the logs are over, as check --final.")
    ] = False,
    preset: Presets = None,
    example: Annotated[
        bool,
        typer.Option("--example", help="Write nothing but a log that breaks the rule ID."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """List the rules, or tell all about one.

    ID is the id of a rule; it names the fault and never changes its meaning. A pattern, as check
    --rules takes it, lists the rules it chooses.
    """
    from dsh_otel.cli.needs import needed
    from dsh_otel.cli.ruling import installed

    catalogue = installed()
    found = _select(catalogue, rule) if rule else list(catalogue.entries.values())
    if example and (json or run):
        raise typer.BadParameter("--example writes a log and nothing else")
    if example:
        _write_example(catalogue, rule)
        option = needed(catalogue.entries[rule].rule)
        if option and not is_quiet(context, quiet=quiet):
            say(f"check it with {option}: {rule} is not evaluated otherwise")
        return
    if not run and (final or preset or source is not Source.LOG):
        raise typer.BadParameter("--final, --preset and --source go with --run")
    done = Run()
    if run:
        done = _run(catalogue, run, source=source, final=final, presets=preset or (), json=json)
    if json:
        _print_json(found, done)
    elif rule in catalogue.entries:
        _print_one(found[0], done.fates)
    else:
        _print_list(found, done.fates)
    raise typer.Exit(done.code)


@dataclass(frozen=True)
class Run:
    """What became of the rules on some logs.

    Attributes:
        fates: Number of findings by rule, None where it was never evaluated; empty without logs.
        unreadable: Why places and logs could not be read, by path.
        code: How the command ends.
    """

    fates: Mapping[str, int | None] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    code: int = 0


def contract_names(rule: Rule) -> str:
    """Return the contracts that a rule is part of, in words."""
    from dsh_core.events import Contract

    return "all" if len(rule.contracts) == len(Contract) else " ".join(rule.contracts)


def evaluated_at(rule: Rule) -> str:
    """Return what a rule is evaluated at, in words."""
    from dsh_core.contract.rule import EVERY

    if rule.source in PLACES:
        return PLACES[rule.source]
    return "every event" if EVERY in rule.on else " ".join(dict.fromkeys(rule.on))


def _select(catalogue: Catalogue, pattern: str) -> list[Entry]:
    from dsh_core.contract.catalogue import UnknownRuleError
    from dsh_otel.cli.ruling import unknown

    try:
        chosen = catalogue.select([pattern])
    except UnknownRuleError as error:
        raise CannotTellError(unknown(catalogue, pattern)) from error
    return [catalogue.entries[id_] for id_ in sorted(chosen)]


def _write_example(catalogue: Catalogue, rule: str) -> None:
    from dsh_core.contract import example_logs
    from dsh_core.contract.catalogue import CATALOGUE

    if rule not in catalogue.entries:
        raise CannotTellError("--example goes with the id of one rule")
    path = example_logs.path(rule)
    if not path.exists():
        why = "no log can show it"
        if rule not in CATALOGUE.entries:
            entry = catalogue.entries[rule]
            whose = entry.origin or f"the package of {entry.owner!r}"
            why = f"it is a rule of {whose}, which brings none"
        raise CannotTellError(f"there is no example of {rule}: {why}")
    out = stdout(exact=True)
    out.flush()
    out.buffer.write(path.read_bytes())
    out.buffer.flush()


def _run(
    catalogue: Catalogue,
    places: Sequence[str],
    *,
    source: Source,
    final: bool,
    presets: Sequence[str],
    json: bool,
) -> Run:
    """Check logs with all rules: one that is left out explains nothing."""
    from dsh_core.check import check_session
    from dsh_core.contract.run import SourceKind
    from dsh_otel.cli.checking import choose_logs
    from dsh_otel.cli.exits import ExitCode

    counts: dict[str, int | None] = dict.fromkeys(catalogue.entries)
    found = choose_logs(places, None, needed=not json)
    unreadable, failed = dict(found.missing), bool(found.missing)
    for log in found.logs:
        report = check_session(
            log,
            catalogue=catalogue,
            source=SourceKind(source),
            final=final,
            presets=frozenset(presets) if presets else None,
        )
        if report.error:
            say(report.error)
            unreadable[report.path] = report.reason
        failed = failed or bool(report.disabled)
        for id_ in report.evaluated:
            counts[id_] = counts[id_] or 0
        for finding in report.findings:
            counts[finding.rule] = (counts[finding.rule] or 0) + 1
    if len(unreadable) - len(found.missing) == len(found.logs):
        failed = True
        if not json:
            raise CannotTellError("none of the logs can be read")
    code = ExitCode.FAILED if unreadable else ExitCode.OK
    return Run(counts, unreadable, ExitCode.CANNOT_TELL if failed else code)


def _fate(count: int | None) -> str:
    if count is None:
        return "never evaluated"
    return f"{count:,} found" if count else "silent"


def _print_json(entries: Sequence[Entry], done: Run) -> None:
    from dsh_core.contract import example_logs
    from dsh_otel.cli.formats.fields import SCHEMA_VERSION, dumps

    found, fates = [], done.fates
    for entry in entries:
        fields: dict[str, Any] = {
            "id": entry.id,
            "owner": entry.owner,
            "contracts": list(entry.rule.contracts),
            "severity": entry.rule.severity,
            "code": entry.rule.severity.code,
            "source": entry.rule.source,
            "on": list(dict.fromkeys(entry.rule.on)),
            "fault": entry.rule.fault,
            "advice": entry.rule.advice,
            "example": example_logs.path(entry.id).exists(),
        }
        if fates:
            fields |= {"evaluated": fates[entry.id] is not None, "findings": fates[entry.id] or 0}
        found.append(fields)
    document = {"schema_version": SCHEMA_VERSION, "rules": found}
    if fates:
        document["unreadable"] = done.unreadable
    stdout(exact=True).write(dumps(document) + "\n")


def _print_list(entries: Sequence[Entry], fates: Mapping[str, int | None]) -> None:
    from dsh_otel.cli.formats.text import STYLES
    from dsh_otel.cli.table import Column, print_table

    columns = [
        Column("RULE", style="bold"),
        Column("OWNER"),
        Column("SEVERITY", styles=STYLES),
        Column("CONTRACTS"),
        Column("SOURCE"),
        *([Column("RUN")] if fates else []),
        Column("FAULT", wraps=True),
    ]
    rows = [
        (
            entry.id,
            entry.owner,
            entry.rule.severity.value,
            contract_names(entry.rule),
            entry.rule.source,
            *([_fate(fates[entry.id])] if fates else []),
            entry.rule.fault,
        )
        for entry in entries
    ]
    print_table(columns, rows)


def _print_one(entry: Entry, fates: Mapping[str, int | None]) -> None:
    from dsh_core.contract import example_logs
    from dsh_otel.cli.needs import needed
    from dsh_otel.cli.table import print_fields

    rule = entry.rule
    fields = [
        ("fault", rule.fault),
        ("what to do", rule.advice),
        ("severity", f"{rule.severity} (code {rule.severity.code})"),
        ("owner", entry.owner),
        ("contracts", contract_names(rule)),
        ("source", SOURCES[rule.source]),
        ("evaluated at", evaluated_at(rule)),
    ]
    if example_logs.path(rule.id).exists():
        option = needed(rule)
        hint = f", to be checked with {option}" if option else ""
        fields.append(("example", f"dsh-otel rules {rule.id} --example{hint}"))
    if fates:
        fields.append(("run", _fate(fates[entry.id])))
    print_fields(rule.id, fields)
