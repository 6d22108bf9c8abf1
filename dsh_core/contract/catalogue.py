"""The catalogue: every rule that the checker knows, and how to choose among them."""

from __future__ import annotations

import fnmatch
import importlib
import pkgutil
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from dsh_core.contract import rules as rules_package

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dsh_core.contract.findings import Severity
    from dsh_core.contract.rule import Rule, RuleSet
    from dsh_core.events import Contract

OWNER_PREFIX: Final = "owner:"
MAX_KEPT: Final = 64
"""How many choices of rules are remembered."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A rule with its owner, and the package that brought it if it does not ship with us."""

    rule: Rule
    owner: str
    origin: str = ""

    @property
    def id(self) -> str:
        """The rule's id."""
        return self.rule.id


class UnknownRuleError(ValueError):
    """A pattern names no rule of the catalogue.

    Args:
        pattern: The pattern.
        owners: The owners that there are.
    """

    def __init__(self, pattern: str, owners: Iterable[str]) -> None:
        super().__init__(
            f"no rule matches {pattern!r}; `dsh-otel rules` lists the ids, "
            f"owners are: {', '.join(sorted(owners))}"
        )
        self.pattern = pattern


class Catalogue:
    """An immutable collection of rule sets.

    Args:
        sets: One class per owner.
        severities: Severities that rules have instead of their own, by rule id.
        origins: The packages that brought rule sets, with their versions, where that is known.

    Raises:
        ValueError: Two rules share an id.
    """

    def __init__(
        self,
        sets: Iterable[type[RuleSet]],
        severities: Mapping[str, Severity] | None = None,
        origins: Mapping[type[RuleSet], str] | None = None,
    ) -> None:
        self.sets: Sequence[type[RuleSet]] = tuple(sets)
        self.origins: Mapping[type[RuleSet], str] = dict(origins or {})
        self._severities = dict(severities or {})
        entries: dict[str, Entry] = {}
        for cls in self.sets:
            for rule in cls.rules:
                if rule.id in entries:
                    message = f"rule id {rule.id!r} is defined twice"
                    raise ValueError(message)
                severity = self._severities.get(rule.id, rule.severity)
                entries[rule.id] = Entry(
                    replace(rule, severity=severity), cls.owner, self.origins.get(cls, "")
                )
        self._applying: dict[tuple[Contract, frozenset[str], bool], frozenset[str]] = {}
        self.entries: Mapping[str, Entry] = MappingProxyType(dict(sorted(entries.items())))

    def extended(self, sets: Iterable[type[RuleSet]], origin: str = "") -> Catalogue:
        """Return a catalogue that has further rule sets.

        Args:
            sets: The further ones.
            origin: The package that brings them, with its version.

        Raises:
            ValueError: A rule has an id that is taken.
        """
        sets = tuple(sets)
        origins = {**self.origins, **dict.fromkeys(sets, origin)}
        return Catalogue((*self.sets, *sets), self._severities, origins)

    def graded(self, severities: Mapping[str, Severity]) -> Catalogue:
        """Return a catalogue in which some rules have another severity.

        Args:
            severities: Severities by pattern, see `select`; of several that match a rule the last
                one counts.

        Raises:
            UnknownRuleError: A pattern matches nothing.
        """
        changed = dict(self._severities)
        for pattern, severity in severities.items():
            changed |= dict.fromkeys(self._match([pattern]), severity)
        return Catalogue(self.sets, changed, self.origins)

    def select(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> frozenset[str]:
        """Return the ids that patterns choose.

        Args:
            include: Globs on the rule id, or ``owner:GLOB``; none means all rules.
            exclude: The same, taken away from what is included.

        Raises:
            UnknownRuleError: A pattern matches nothing.
        """
        chosen = self._match(include) if include else set(self.entries)
        return frozenset(chosen - self._match(exclude))

    def applying(
        self, contract: Contract, chosen: frozenset[str], *, durable: bool
    ) -> frozenset[str]:
        """Return the ids of those of some rules that apply to a session.

        Args:
            contract: What the session is held to.
            chosen: Ids of the rules to choose from.
            durable: Whether what is seen of the session is complete.
        """
        key = (contract, chosen, durable)
        known = self._applying.get(key)
        if known is None:
            rules = [self.entries[id_].rule for id_ in chosen]
            known = frozenset(
                rule.id
                for rule in rules
                if contract in rule.contracts and (durable or rule.source != "log")
            )
            if len(self._applying) >= MAX_KEPT:
                self._applying.clear()
            # Sessions share it: there may be thousands.
            self._applying[key] = known
        return known

    def _match(self, patterns: Sequence[str]) -> set[str]:
        found: set[str] = set()
        for pattern in patterns:
            glob = pattern.removeprefix(OWNER_PREFIX)
            by_owner = glob != pattern
            hits = {
                entry.id
                for entry in self.entries.values()
                if fnmatch.fnmatchcase(entry.owner if by_owner else entry.id, glob)
            }
            if not hits:
                owners = {entry.owner for entry in self.entries.values()}
                raise UnknownRuleError(pattern, owners)
            found |= hits
        return found


def _find_sets() -> Iterable[type[RuleSet]]:
    for info in sorted(pkgutil.iter_modules(rules_package.__path__), key=lambda m: m.name):
        module = importlib.import_module(f"{rules_package.__name__}.{info.name}")
        yield module.Rules


CATALOGUE: Final = Catalogue(_find_sets())
"""All rules that ship with this release."""
