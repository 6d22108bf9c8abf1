"""Rules that other installed packages bring: the entry points of group ``dsh_core.rules``.

An entry point names a subclass of `RuleSet`. It is looked for when a command or plugin starts,
never at import; what cannot be used stops the start: a check without its rules would pass.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from dsh_core.contract.catalogue import CATALOGUE, Catalogue
from dsh_core.contract.fields import is_filled
from dsh_core.contract.findings import Severity
from dsh_core.contract.foreign import is_foreign, place, reason
from dsh_core.contract.listening import doubtful, listens, misheard
from dsh_core.contract.rule import ALL, Rule, RuleSet
from dsh_core.faults import counted

if TYPE_CHECKING:
    from collections.abc import Iterable
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


@dataclass(slots=True)
class Examined:
    """What is installed.

    Attributes:
        working: The package of each rule set that can be used, with its number of rules, by owner.
        broken: What is wrong with the others.
        doubtful: What looks like a slip in those that can be used.
    """

    working: dict[str, str] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    doubtful: list[str] = field(default_factory=list)


def examined_rules() -> Examined:
    """Look at each installed rule set."""
    catalogue, found = CATALOGUE, Examined()
    for point in entry_points(group=GROUP):
        try:
            catalogue = _with_rules_of(catalogue, point)
            cls = catalogue.sets[-1]
            types = _types(cls, catalogue, point)
        except BadRulesError as error:
            found.broken.append(str(error))
            continue
        found.doubtful += (_told(point, slip) for slip in doubtful(cls.rules, types))
        number = counted(len(cls.rules), "rule")
        before = found.working.get(cls.owner)
        told = f"{_origin(point) or point.value}: {number}"
        found.working[cls.owner] = f"{before}; {told}" if before else told
    return found


def _types(cls: type[RuleSet], catalogue: Catalogue, point: EntryPoint) -> frozenset[str]:
    try:
        return listens(cls, catalogue)
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
    if any(
        cls.owner == one.owner for one in catalogue.sets if _is_of_others(one, catalogue, point)
    ):
        raise _bad(point, f"has owner {cls.owner!r}, which is the name of another package")
    try:
        extended = catalogue.extended([cls], _origin(point))
    except ValueError as error:
        raise _bad(point, str(error)) from error
    try:
        types = listens(cls, extended)
    except Exception:  # noqa: BLE001 - it is switched off, and named, when a session starts
        return extended
    wrong = misheard(cls.rules, types)
    if wrong:
        raise _bad(point, wrong)
    return extended


def _is_of_others(cls: type[RuleSet], catalogue: Catalogue, point: EntryPoint) -> bool:
    return not is_foreign(cls) or catalogue.origins.get(cls, "") != _origin(point)


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
    return BadRulesError(f"{_told(point, problem)}; mend or uninstall that package")


def _told(point: EntryPoint, what: str) -> str:
    origin = _origin(point)
    whose = f" of {origin}" if origin else ""
    return f"rules {point.name!r}{whose} ({point.value}): {what}"
