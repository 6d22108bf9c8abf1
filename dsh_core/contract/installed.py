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
from dsh_core.contract.foreign import Foreign, place, reason
from dsh_core.contract.rule import ALL, Rule, RuleSet
from dsh_core.contract.run import Run, SourceKind
from dsh_core.events import Contract, SessionHeader

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from importlib.metadata import EntryPoint

GROUP: Final = "dsh_core.rules"
"""The group of entry points."""

SOURCES: Final = ("any", "log", "end", "live")
METHODS: Final = ("handlers", "inside_step", "outside_step", "live", "trip", "finish")
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
        catalogue = _with_rules_of(catalogue, point)
    return catalogue


def broken_rules() -> Sequence[str]:
    """Say of each installed rule set that cannot be used why not."""
    catalogue, wrong = CATALOGUE, []
    for point in entry_points(group=GROUP):
        try:
            catalogue = _with_rules_of(catalogue, point)
            _try(catalogue, point)
        except BadRulesError as error:
            wrong.append(str(error))
    return wrong


def _try(catalogue: Catalogue, point: EntryPoint) -> None:
    cls = catalogue.sets[-1]
    run = Run(catalogue, SessionHeader(id=""), Contract.SEED, SourceKind.LOG, frozenset())
    try:
        Foreign(cls, run)
    except Exception as error:
        text = f"fails when a session starts: {reason(error)} ({place(cls, error)})"
        raise _bad(point, text) from error


def _with_rules_of(catalogue: Catalogue, point: EntryPoint) -> Catalogue:
    try:
        cls = point.load()
        problem = _problem(cls)
    except (Exception, SystemExit) as error:
        raise _bad(point, f"cannot be loaded: {type(error).__name__}: {error}") from error
    if problem:
        raise _bad(point, problem)
    try:
        return catalogue.extended([cls], _origin(point))
    except ValueError as error:
        raise _bad(point, str(error)) from error


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
    for name in METHODS:
        if not callable(getattr(cls, name)):
            return f"has a {name} that is no method: write `def {name}(self…)`, as RuleSet has it"
    return next(filter(None, map(_rule_problem, rules)), "")


def _rule_problem(rule: object) -> str:
    if not isinstance(rule, Rule):
        return "has something in `rules` that is no Rule"
    id_: object = rule.id
    if not (isinstance(id_, str) and _ID.fullmatch(id_)):
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
        f"rule {rule.id} has contracts other than: {', '.join(ALL)}; write a tuple of them",
        not _is_tuple(rule.contracts) or not rule.contracts or not set(rule.contracts) <= set(ALL),
    )
    yield (
        f'rule {rule.id} has an `on` that is no tuple of event types, like on=("turn/start",)',
        not _is_tuple(rule.on),
    )
    yield (
        f"rule {rule.id} must name the events that it is evaluated at, in `on`",
        bool(rule.on) != (rule.source in ("any", "log")),
    )


def _is_tuple(names: object) -> bool:
    """Whether something is a tuple or list of texts."""
    return isinstance(names, tuple | list) and all(isinstance(name, str) for name in names)


def _origin(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else ""


def _bad(point: EntryPoint, problem: str) -> BadRulesError:
    origin = _origin(point)
    whose = f" of {origin}" if origin else ""
    return BadRulesError(
        f"rules {point.name!r}{whose} ({point.value}): {problem}; mend or uninstall that package"
    )
