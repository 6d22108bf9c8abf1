"""What rule sets of others listen to, and whether that fits what they say of their rules."""

from __future__ import annotations

import difflib
from itertools import product
from typing import TYPE_CHECKING, Final

from dsh_core.contract.foreign import TABLES, Foreign
from dsh_core.contract.rule import ALL, EVERY
from dsh_core.contract.run import Run, SourceKind
from dsh_core.events import KNOWN_EVENTS, SessionHeader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dsh_core.contract.catalogue import Catalogue
    from dsh_core.contract.rule import Rule, RuleSet

_PRESETS: Final = (None, frozenset[str]())


def listens(cls: type[RuleSet], catalogue: Catalogue) -> frozenset[str]:
    """Return the event types that a rule set listens to, in whatever session.

    Args:
        cls: The rule set.
        catalogue: A catalogue that has it.

    Raises:
        Exception: Whatever it raises when it starts.
    """
    chosen, found = catalogue.select(), set[str]()
    for contract, source, presets in product(ALL, SourceKind, _PRESETS):
        header = SessionHeader(id="")
        made = Foreign(cls, Run(catalogue, header, contract, source, chosen, presets=presets))
        # Facts that no log holds are no types of events.
        found.update(*(getattr(made, name)() for name in TABLES if name != "live"))
    return frozenset(found)


def misheard(rules: Iterable[Rule], types: frozenset[str]) -> str:
    """Say what keeps rules from ever judging anything, empty if nothing does.

    Args:
        rules: The rules of one set.
        types: What it listens to.
    """
    for kind in sorted(types):
        # Plugins log types of their own, but all of them name the plugin.
        if kind != EVERY and kind not in KNOWN_EVENTS and "/" not in kind:
            return f"listens to {kind!r}, which is no type of event{_meant(kind)}"
    for rule in rules:
        if rule.on and not types & {EVERY, *rule.on}:
            at = " ".join("every event" if kind == EVERY else kind for kind in rule.on)
            meant = "" if rule.on[0] in KNOWN_EVENTS else _meant(rule.on[0])
            text = f"rule {rule.id} is said to be evaluated at {at}, but nothing listens there"
            return text + meant
    return ""


def doubtful(rules: Iterable[Rule], types: frozenset[str]) -> Iterable[str]:
    """Say what looks like a slip in a set that can be used."""
    for kind in sorted(types):
        if kind != EVERY and kind not in KNOWN_EVENTS:
            yield f"listens to {kind!r}, which dsh itself does not log{_meant(kind)}"
    for rule in rules:
        for kind in rule.on:
            if kind not in types and EVERY not in types:
                yield f"rule {rule.id} names {kind} in `on`, but nothing listens there"


def _meant(kind: str) -> str:
    close = difflib.get_close_matches(kind, KNOWN_EVENTS, n=1, cutoff=0.8)
    return f"; did you mean {close[0]!r}?" if close else ""
