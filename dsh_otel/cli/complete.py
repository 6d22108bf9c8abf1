"""What the shell proposes when TAB is pressed."""

from __future__ import annotations


def complete_rules(incomplete: str) -> list[str]:
    """Return the rule ids that start like a word."""
    from dsh_core.contract.catalogue import CATALOGUE

    return [id_ for id_ in CATALOGUE.entries if id_.startswith(incomplete)]


def complete_patterns(incomplete: str) -> list[str]:
    """Return the rule ids and owners that start like a word."""
    from dsh_core.contract.catalogue import CATALOGUE, OWNER_PREFIX

    owners = {OWNER_PREFIX + entry.owner for entry in CATALOGUE.entries.values()}
    return [
        *complete_rules(incomplete),
        *(owner for owner in sorted(owners) if owner.startswith(incomplete)),
    ]


def complete_codes(incomplete: str) -> list[str]:
    """Return the known error codes that start like a word."""
    from dsh_core.codes import CODES

    return [code for code in CODES if code.startswith(incomplete)]


def complete_families(incomplete: str) -> list[str]:
    """Return the families of error codes that start like a word."""
    from dsh_core.codes import Family

    return [family for family in Family if family.startswith(incomplete)]
