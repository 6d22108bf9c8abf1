"""A log as a test: a module for pytest that holds the log and says what is found in it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dsh_core.contract.catalogue import CATALOGUE
from dsh_core.contract.run import SourceKind

if TYPE_CHECKING:
    from dsh_core.shrink import Question, Shrunk

LONG_RUN: Final = 100
"""So many equal characters in a row are written as a multiplication."""

WIDTH: Final = 88
"""Longest line of what can be broken into several."""

_MODULE: Final = '''\
"""The least log that gives {rule}."""

# {command}

{imports}

LOG = [
{log}
]


def test_{name}(tmp_path):
    path = tmp_path / "{file}"
    path.write_bytes({data})
    findings = {findings}
    assert {claim}
'''
_RUN: Final = re.compile(rf"(.)\1{{{LONG_RUN - 1},}}", re.DOTALL)


def as_test(found: Shrunk, command: str) -> str:
    """Return the module.

    Args:
        found: What is left of a log.
        command: The command line that has made it, on one line.
    """
    rule = found.finding.rule
    lines = found.data.removesuffix(b"\n").split(b"\n")
    letter = "" if _is_text(found.data) else "b"
    data = f'{letter}"\\n".join(LOG)' + ("" if letter else ".encode()")
    imports, findings = _findings(found.question, rule)
    claim = f'"{rule}" in [finding.rule for finding in findings]'
    return _MODULE.format(
        rule=rule,
        command=command,
        imports=imports,
        log="\n".join(f"    {_literal(line, letter)}," for line in lines),
        name=re.sub(r"\W", "_", rule),
        file=found.name,
        data=data + (' + b"\\n"' if found.data.endswith(b"\n") else ""),
        findings=findings,
        claim=f'findings[0].rule == "{rule}"' if found.findings[0].rule == rule else claim,
    )


def _findings(question: Question, rule: str) -> tuple[str, str]:
    """Return what to import, and how to find out what a check of the log finds."""
    names = ["check_session"]
    options: list[str] = []
    more = ""
    if question.contract is not None:
        names.insert(0, "Contract")
        options.append(f"contract=Contract.{question.contract.name}")
    if question.final:
        options.append("final=True")
    if question.presets is not None:
        presets = ", ".join(_quoted(name, "") for name in sorted(question.presets))
        options.append(f"presets=frozenset({{{presets}}})")
    if question.source is not SourceKind.LOG:
        more = "\nfrom dsh_core.contract.run import SourceKind"
        options.append(f"source=SourceKind.{question.source.name}")
    if rule not in CATALOGUE.entries:
        more = f"\nfrom dsh_core.contract.installed import installed_catalogue{more}"
        options.append("catalogue=installed_catalogue()")
    if not options:
        return "from dsh_otel.testing import findings_of", "findings_of(path)"
    call = f"check_session({', '.join(['str(path)', *options])})"
    if len(call) > WIDTH - len("    findings = .findings"):
        lines = "".join(f"        {option},\n" for option in ["str(path)", *options])
        call = f"check_session(\n{lines}    )"
    return f"from dsh_core import {', '.join(names)}{more}", f"{call}.findings"


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _literal(line: bytes, letter: str) -> str:
    """Return a line as an expression."""
    text = line.decode("latin-1" if letter else "utf-8")
    parts: list[str] = []
    place = 0
    for match in _RUN.finditer(text):
        start, end = match.span()
        if place < start:
            parts.append(_quoted(text[place:start], letter))
        parts.append(f"{_quoted(match[1], letter)} * {end - start}")
        place = end
    if place < len(text) or not parts:
        parts.append(_quoted(text[place:], letter))
    whole = " + ".join(parts)
    return whole if len(whole) < WIDTH - 4 else "\n    + ".join(parts)


def _quoted(text: str, letter: str) -> str:
    """Return a literal, in the quotes that a formatter would choose."""
    double = '"' in text
    if letter:
        literal = repr(text.encode("latin-1"))[1:]
    elif "\\" in text and text.isprintable() and "'" not in text and text[-1] != "\\":
        literal, letter = f"'{text}'", "r"
    else:
        literal = repr(text)
    return letter + (literal if double else f'"{literal[1:-1]}"')
