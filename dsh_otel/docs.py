"""Writes the reference pages under docs/ from the code; run by ``make docs``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dsh_core.codes import ADVICE, CODES, CodeInfo, Family, Where
from dsh_core.contract import example_logs
from dsh_core.contract.catalogue import CATALOGUE, Entry
from dsh_core.contract.findings import Severity
from dsh_otel.cli.advice import RETRYABLE_WORDS, ROUTE_WORDS, WHERE_WORDS
from dsh_otel.cli.needs import needed
from dsh_otel.cli.rules import SOURCES, contract_names, evaluated_at
from dsh_otel.docs_invariants import invariants_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_NOTE: Final = "<!-- Written by `make docs` from the code. Do not edit. -->"

_RULES_INTRO: Final = """\
What a session has to keep to, by the package of the harness that owns the rule. The id of a rule
names the fault; it is public and never changes its meaning. `dsh-otel rules` prints the same on the
command line; `dsh-otel check --rules` and `--exclude` choose among them, `--severity` grades them.

Each example is a shortest log that breaks its rule, and only that. `dsh-otel rules ID --example`
writes it. `dsh-otel rules --run LOG` says which rules were never evaluated on a log.

Contracts: `seed` for logs of June, `v0` for the formats v0 to v3, `v4` for format v4."""

_CODES_INTRO: Final = """\
What the codes of failed tools, model requests and turns mean, and what to do about them. Decisions
hang on families, not on codes: no list of codes is ever complete, and one that is not listed here
has a family by the way it is spelled; `dsh-otel codes CODE` tells which. A route proposes: nothing
here retries a call or widens a right."""

_SYSTEM_INTRO: Final = f"""\
Names of the operating system, found in texts that came without a code. Every other one is
`{Family.UNKNOWN_OUTCOME}`."""

_SEVERITIES: Final = {
    Severity.VIOLATION: "the contract is broken",
    Severity.DAMAGE: "bytes or lines cannot be read; what follows them is read",
    Severity.ADVICE: "legal, but people get hurt",
}


def rules_page() -> str:
    """Return the page about all rules, with an anchor for each."""
    owners = sorted({entry.owner for entry in CATALOGUE.entries.values()})
    parts = [
        "# Rules",
        _NOTE,
        _RULES_INTRO,
        _table(
            ("Severity", "Meaning", "Code"),
            [(f"`{name}`", text, f"`{name.code}`") for name, text in _SEVERITIES.items()],
        ),
        _table(
            ("Source", "What a rule needs"),
            [(f"`{name}`", text) for name, text in SOURCES.items()],
        ),
    ]
    for owner in owners:
        parts.append(f"## {owner}")
        parts += [_rule(entry) for entry in CATALOGUE.entries.values() if entry.owner == owner]
    return _page(parts)


def _rule(entry: Entry) -> str:
    rule = entry.rule
    example = example_logs.path(rule.id)
    lines = (
        f"- **Severity:** {rule.severity}",
        f"- **Contracts:** {contract_names(rule)}",
        f"- **Source:** {rule.source}",
        f"- **Evaluated at:** {evaluated_at(rule)}",
        f"- **What to do:** {_plain(rule.advice)}",
    )
    parts = [
        f'### <a id="{rule.id}"></a>`{rule.id}`',
        f"{_capital(_plain(rule.fault))}.",
        "\n".join(lines),
    ]
    if example.exists():
        option = needed(rule)
        if option:
            parts.append(f"`dsh-otel check` finds it with `{option}` only:")
        parts.append(_example(example, rule.id))
    return "\n\n".join(parts)


def _example(path: Path, rule: str) -> str:
    text = path.read_bytes().decode("utf-8", "replace")
    if path.suffix != ".jsonl" or "\0" in text or "\N{REPLACEMENT CHARACTER}" in text:
        return f"Example: `dsh-otel rules {rule} --example`; its bytes cannot be shown here."
    return f"```json\n{text.rstrip()}\n```"


def codes_page() -> str:
    """Return the page about error codes: families first, then every code."""
    parts = [
        "# Error codes",
        _NOTE,
        _CODES_INTRO,
        "## Families",
        _table(
            ("Family", "Codes listed", "Route", "Retryable"),
            [_family(family) for family in Family],
        ),
        "## Routes",
        _table(("Route", "What should happen"), _defined(ROUTE_WORDS)),
        "## Retryable",
        _table(("Value", "Whether the same call may be repeated"), _defined(RETRYABLE_WORDS)),
    ]
    areas: dict[str, dict[Where, list[CodeInfo]]] = {}
    for info in CODES.values():
        if info.where is not Where.ERRNO:
            areas.setdefault(info.area, {}).setdefault(info.where, []).append(info)
    parts.append("## Codes of the harness")
    for area, places in areas.items():
        parts.append(f"### {_capital(area)}")
        for where, infos in places.items():
            parts += [f"Found in {WHERE_WORDS[where]}:", _codes(infos)]
    parts += _system_errors()
    return _page(parts)


def _family(family: Family) -> tuple[str, ...]:
    route, retryable = ADVICE[family]
    number = sum(
        info.family is family and (info.where is not Where.ERRNO or _is_classed(info))
        for info in CODES.values()
    )
    listed = str(number)
    if family is Family.UNKNOWN_OUTCOME:
        listed += ", and all system errors that are not below"
    return (f"`{family}`", listed, f"`{route}`", f"`{retryable}`")


def _codes(infos: Iterable[CodeInfo]) -> str:
    return _table(
        ("Code", "Family", "Errno", "Rights", "Meaning"),
        [
            (
                f'<a id="{info.code}"></a>`{info.code}`',
                f"`{info.family}`",
                f"`{info.errno}`" if info.errno else "",
                "yes" if info.permission else "",
                info.meaning,
            )
            for info in infos
        ],
    )


def _system_errors() -> list[str]:
    """Name the system errors by family; their texts are left out, for each system has its own."""
    names = {
        family: ", ".join(
            f"`{info.code}`"
            for info in CODES.values()
            if info.family is family and info.where is Where.ERRNO and _is_classed(info)
        )
        for family in Family
    }
    return [
        "## System errors",
        _SYSTEM_INTRO,
        _table(
            ("Family", "Names"), [(f"`{name}`", listed) for name, listed in names.items() if listed]
        ),
    ]


def _is_classed(info: CodeInfo) -> bool:
    """Tell whether the table says something of a system error; which others exist differs."""
    return info.family is not Family.UNKNOWN_OUTCOME


def _defined(words: Mapping[Any, str]) -> list[tuple[str, str]]:
    return [(f"`{name}`", text) for name, text in words.items()]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(text) for text in line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _plain(text: str) -> str:
    return text.replace("<", "&lt;")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _page(parts: Iterable[str]) -> str:
    return "\n\n".join(parts) + "\n"


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "rules.md": rules_page,
    "codes.md": codes_page,
    "invariants.md": invariants_page,
}
"""What is written, by file name."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages, or compare them with those that are there.

    Args:
        arguments: The command line; that of the process by default.

    Returns:
        The exit code: 1 if ``--check`` finds a page that is missing or stale, 2 if it finds none of
        them.
    """
    parser = argparse.ArgumentParser(prog="python -m dsh_otel.docs", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a page is stale"
    )
    parser.add_argument("--folder", type=Path, default=Path("docs"), help="where the pages are")
    options = parser.parse_args(arguments)
    if options.check and not options.folder.is_dir():
        print(  # noqa: T201
            f"there is no folder {options.folder}: run this where the project is checked out, or "
            "name the folder with --folder",
            file=sys.stderr,
        )
        return 2
    stale = [name for name, make in PAGES.items() if _read(options.folder / name) != make()]
    if options.check:
        for name in stale:
            path = options.folder / name
            state = "stale" if path.exists() else "missing"
            print(f"{path} is {state}; run: make docs", file=sys.stderr)  # noqa: T201
        return int(bool(stale))
    for name in stale:
        options.folder.mkdir(parents=True, exist_ok=True)
        (options.folder / name).write_text(PAGES[name](), encoding="utf-8", newline="\n")
        print(f"wrote {options.folder / name}")  # noqa: T201 - it is a program
    return 0


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
