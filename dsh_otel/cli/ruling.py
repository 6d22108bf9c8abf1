"""What logs are held to: the rules that are installed, and which of them a user chose."""

from __future__ import annotations

import difflib
import fnmatch
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dsh_core.contract.catalogue import OWNER_PREFIX, Catalogue, Entry, UnknownRuleError
from dsh_core.contract.findings import Severity
from dsh_core.contract.installed import BadRulesError, installed_catalogue
from dsh_otel.cli.exits import CannotTellError

if TYPE_CHECKING:
    from collections.abc import Sequence


CLOSE: Final = 0.6
"""How alike a pattern and an id have to be, at least, for one to be a slip for the other."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What logs are held to.

    Attributes:
        catalogue: All rules that are installed, with the severities that they have here.
        chosen: Ids of those to apply.
        presets: Names of the permission presets that are configured; None if nobody said.
    """

    catalogue: Catalogue
    chosen: frozenset[str]
    presets: frozenset[str] | None

    @property
    def entries(self) -> Sequence[Entry]:
        """The rules to apply."""
        return [self.catalogue.entries[id_] for id_ in sorted(self.chosen)]


def installed() -> Catalogue:
    """Return the catalogue of all rules that are installed.

    Raises:
        CannotTellError: Those of another package cannot be used.
    """
    try:
        # Standard output is for data, whatever a package prints when it is loaded.
        with redirect_stdout(sys.stderr):
            return installed_catalogue()
    except BadRulesError as error:
        raise CannotTellError(str(error)) from error


def unknown(catalogue: Catalogue, pattern: str) -> str:
    """Say that a pattern matches no rule, and what may have been meant.

    Args:
        catalogue: All rules.
        pattern: The pattern.
    """
    told = f"no rule matches {pattern!r}"
    if "," in pattern:
        return f"{told}; give one pattern each, and repeat the option"
    folded = pattern.lower().removeprefix(OWNER_PREFIX)
    prefix = OWNER_PREFIX if folded != pattern.lower() else ""
    entries = catalogue.entries.values()
    known = {entry.owner if prefix else entry.id for entry in entries}
    if any(fnmatch.fnmatchcase(name, folded) for name in known):
        close = [folded]
    else:
        close = difflib.get_close_matches(folded, sorted(known), cutoff=CLOSE)
    if close:
        return f"{told}; did you mean {' or '.join(prefix + name for name in close)}?"
    return f"{told}; `dsh-otel rules` lists all, with their owners"


def choose_rules(
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    severities: Sequence[str] = (),
    presets: Sequence[str] = (),
) -> Ruling:
    """Return the rules that patterns choose.

    Args:
        include: Patterns of the rules to apply; none means all.
        exclude: Patterns of those to leave out.
        severities: Severities that rules have instead of their own, as ``PATTERN=LEVEL``.
        presets: Names of the permission presets that are configured; none means that it is not
            known.

    Raises:
        CannotTellError: A pattern matches no rule, a severity is none, or no rule is left.
    """
    if not all(presets):
        raise CannotTellError("--preset needs a name")
    levels = dict(map(_level, severities))
    everything = installed()
    try:
        catalogue = everything.graded(levels)
        chosen = catalogue.select(include, exclude)
    except UnknownRuleError as error:
        raise CannotTellError(unknown(everything, error.pattern)) from error
    if not chosen:
        raise CannotTellError("--rules and --exclude leave no rule to apply")
    return Ruling(catalogue, chosen, frozenset(presets) if presets else None)


def _level(text: str) -> tuple[str, Severity]:
    pattern, separator, level = text.rpartition("=")
    if not separator or level not in list(Severity):
        raise CannotTellError(
            f"--severity takes PATTERN=LEVEL with a level out of: {', '.join(Severity)}; "
            f"not {text!r}"
        )
    return pattern, Severity(level)
