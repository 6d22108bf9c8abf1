"""``dsh-otel codes``: what error codes mean, and what to do about them."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dsh_otel.cli.complete import complete_codes, complete_families
from dsh_otel.cli.exits import CannotTellError, say
from dsh_otel.cli.output import stdout
from dsh_otel.cli.quiet import Quiet, is_quiet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_core.codes import CodeInfo

_LONGEST: Final = 100
"""How much of a code is compared with the known ones, in characters."""

_CLOSE: Final = 0.85
"""How alike two codes have to be, at least, for one to be a slip for the other."""


def codes(
    context: typer.Context,
    code: Annotated[
        str | None,
        typer.Argument(metavar="CODE", hidden=True, autocompletion=complete_codes),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="List the codes of one family only.",
            autocompletion=complete_families,
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """List the error codes, or tell all about one.

    The family of a code says who should act next, and whether the same call may be repeated. CODE
    may be any code: one that is not in the table has a family by the way it is spelled.
    """
    from dsh_core.codes import CODES, lookup

    if code is not None and (not code or "*" in code or code.split() != [code]):
        raise typer.BadParameter(
            "a code is one word without *: `dsh-otel codes` lists all, --family NAME some"
        )
    if code is not None and family is not None:
        raise typer.BadParameter("a code and --family exclude each other")
    if code is not None:
        found = [lookup(code)]
    elif family is not None:
        _check_family(family)
        found = [info for info in CODES.values() if info.family == family]
    else:
        found = list(CODES.values())
    if json:
        _print_json(found)
    elif code is not None:
        _print_one(found[0])
    else:
        _print_list(found)
    if code is not None and not found[0].known and not is_quiet(context, quiet=quiet):
        _suggest(code)


def _suggest(code: str) -> None:
    """Propose known codes that are spelled much like one that is not."""
    from dsh_core.codes import CODES

    known = {_folded(each): each for each in CODES}
    close = difflib.get_close_matches(_folded(code[:_LONGEST]), known, cutoff=_CLOSE)
    if close:
        proposed = " or ".join(known[each] for each in close)
        say(f"{code!r} is not in the table; did you mean {proposed}?")


def _folded(code: str) -> str:
    return code.upper().replace("-", "_")


def _check_family(name: str) -> None:
    from dsh_core.codes import Family

    if name in list(Family):
        return
    close = difflib.get_close_matches(name, list(Family), n=1)
    hint = f"did you mean {close[0]}?" if close else f"families are: {', '.join(Family)}"
    raise CannotTellError(f"no family is called {name!r}; {hint}")


def _print_json(found: Sequence[CodeInfo]) -> None:
    from dsh_otel.cli.formats.fields import SCHEMA_VERSION, dumps

    document = {"schema_version": SCHEMA_VERSION, "codes": [_fields(info) for info in found]}
    stdout(exact=True).write(dumps(document) + "\n")


def _fields(info: CodeInfo) -> dict[str, Any]:
    return {
        "code": info.code,
        "meaning": info.meaning,
        "family": info.family,
        "route": info.route,
        "retryable": info.retryable,
        "errno": info.errno,
        "permission": info.permission,
        "where": info.where,
        "area": info.area,
        "known": info.known,
    }


def _print_list(found: Sequence[CodeInfo]) -> None:
    from dsh_otel.cli.table import Column, print_table

    columns = (
        Column("CODE", style="bold"),
        Column("FAMILY"),
        Column("ROUTE"),
        Column("RETRYABLE"),
        Column("ERRNO"),
        Column("MEANING", wraps=True),
    )
    rows = [
        (info.code, info.family, info.route, info.retryable, info.errno or "-", info.meaning)
        for info in found
    ]
    print_table(columns, rows)


def _print_one(info: CodeInfo) -> None:
    from dsh_otel.cli.advice import RETRYABLE_WORDS, ROUTE_WORDS, WHERE_WORDS
    from dsh_otel.cli.plain import printable
    from dsh_otel.cli.table import print_fields

    fields = (
        ("meaning", info.meaning),
        ("family", info.family),
        ("route", f"{info.route}: {ROUTE_WORDS[info.route]}"),
        ("retryable", f"{info.retryable}: {RETRYABLE_WORDS[info.retryable]}"),
        ("errno", info.errno or "none is near"),
        (
            "rights",
            "a right, an account or a sandbox decides" if info.permission else "not involved",
        ),
        ("found in", WHERE_WORDS.get(info.where, "")),
        ("area", info.area),
    )
    print_fields(printable(info.code), [(name, text) for name, text in fields if text])
