"""Rules that other installed packages bring: the entry points of group ``dsh_core.rules``.

An entry point names a subclass of `RuleSet`. It is looked for when a command or plugin starts,
never at import; what cannot be used stops the start: a check without its rules would pass.
"""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from dsh_core.contract.catalogue import CATALOGUE, Catalogue
from dsh_core.contract.fields import is_filled
from dsh_core.contract.findings import Severity
from dsh_core.contract.rule import ALL, Rule, RuleSet

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.metadata import EntryPoint

GROUP: Final = "dsh_core.rules"
"""The group of entry points."""

SOURCES: Final = ("any", "log", "end", "live")
_ID: Final = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9-]+)+")
_OWNER: Final = re.compile(r"[\w.@/-]+", re.ASCII)


class BadRulesError(ValueError):
    """The rules that another package brings cannot be used; the message says whose and why."""


def installed_catalogue() -> Catalogue:
    """Return the catalogue of all rules that are installed.

    Raises:
        BadRulesError: An entry point cannot be loaded, or is no proper rule set.
    """
    return with_rules_of(CATALOGUE, entry_points(group=GROUP))


def with_rules_of(catalogue: Catalogue, found: Iterable[EntryPoint]) -> Catalogue:
    """Return a catalogue with the rules of some entry points.

    Args:
        catalogue: The catalogue to extend.
        found: The entry points.

    Raises:
        BadRulesError: One of them cannot be loaded, or is no proper rule set.
    """
    for point in sorted(found, key=lambda point: (point.name, point.value)):
        try:
            cls = point.load()
        except Exception as error:
            raise _bad(point, f"cannot be loaded: {type(error).__name__}: {error}") from error
        problem = _problem(cls)
        if problem:
            raise _bad(point, problem)
        try:
            catalogue = catalogue.extended([cls])
        except ValueError as error:
            raise _bad(point, str(error)) from error
    return catalogue


def _problem(cls: object) -> str:
    """Say what is wrong with what an entry point names, if anything."""
    if not (isinstance(cls, type) and issubclass(cls, RuleSet)):
        return "is no subclass of dsh_core.contract.rule.RuleSet"
    owner = getattr(cls, "owner", None)
    if not (isinstance(owner, str) and _OWNER.fullmatch(owner)):
        return "has no owner: set `owner` to the name of the package whose rules these are"
    rules = getattr(cls, "rules", None)
    if not isinstance(rules, tuple | list) or not rules:
        return "has no rules: set `rules` to a tuple of Rule"
    return next(filter(None, map(_rule_problem, rules)), "")


def _rule_problem(rule: object) -> str:
    if not isinstance(rule, Rule):
        return "has something in `rules` that is no Rule"
    if not _ID.fullmatch(rule.id):
        return f"has a rule id that is not like `area.fault`: {rule.id!r}"
    if rule.source not in SOURCES:
        return f"rule {rule.id} has source {rule.source!r}; use one of: {', '.join(SOURCES)}"
    return next((problem for problem, wrong in _checks(rule) if wrong), "")


def _checks(rule: Rule) -> Iterable[tuple[str, bool]]:
    """Return what may be wrong with a rule, and whether it is: people write what they like."""
    severity: object = rule.severity
    yield (
        f"rule {rule.id} says no fault or no advice",
        not (is_filled(rule.fault) and is_filled(rule.advice)),
    )
    yield (
        f"rule {rule.id} has no severity out of dsh_core.contract.findings.Severity",
        not isinstance(severity, Severity),
    )
    yield (
        f"rule {rule.id} has contracts other than: {', '.join(ALL)}",
        not rule.contracts or not set(rule.contracts) <= set(ALL),
    )
    yield (
        f"rule {rule.id} must name the events that it is evaluated at, in `on`",
        bool(rule.on) != (rule.source in ("any", "log")),
    )


def _bad(point: EntryPoint, problem: str) -> BadRulesError:
    dist = point.dist
    whose = f" of {dist.name} {dist.version}" if dist is not None else ""
    return BadRulesError(
        f"rules {point.name!r}{whose} ({point.value}): {problem}; mend or uninstall that package"
    )
