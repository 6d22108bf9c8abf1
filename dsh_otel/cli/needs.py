"""What rules need of a check before they can judge anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsh_core.contract.run import SourceKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dsh_core.contract.catalogue import Entry
    from dsh_core.contract.rule import Rule
    from dsh_core.events import Contract
    from dsh_otel.cli.ruling import Ruling

NAMED: Final = 3
"""So many rules are named that cannot be evaluated."""

_PRESETS: Final = "permission.preset-unknown"


def needed(rule: Rule) -> str:
    """Return the option without which a rule is evaluated on no log, empty if there is none."""
    if rule.source == "end":
        return "--final"
    return "--preset NAME" if rule.id == _PRESETS else ""


def idle(
    ruling: Ruling, *, contract: Contract | None, source: SourceKind, final: bool
) -> Mapping[str, str]:
    """Return the chosen rules that are evaluated on no log at all, each with the reason.

    Args:
        ruling: The rules.
        contract: The contract to hold logs to; None for that of each log's generation.
        source: What the logs are.
        final: Whether the logs are over.
    """

    def why(entry: Entry) -> str:
        rule, option = entry.rule, needed(entry.rule)
        if rule.source == "live":
            return "needs what no log holds"
        if contract is not None and contract not in rule.contracts:
            return f"is no part of contract {contract}"
        if rule.source == "log" and source is SourceKind.STREAM:
            return "needs --source log"
        given = final if rule.source == "end" else ruling.presets is not None
        return f"needs {option}" if option and not given else ""

    return {entry.id: reason for entry in ruling.entries if (reason := why(entry))}


def told(reasons: Mapping[str, str], chosen: Iterable[str], patterns: Sequence[str]) -> str:
    """Say which rules cannot be evaluated, of those that were asked for by name.

    Args:
        reasons: The rules that cannot, as `idle` returns them.
        chosen: All that were chosen.
        patterns: What the user asked for.
    """
    everything = set(reasons) == set(chosen)
    concerned = [id_ for id_ in reasons if everything or id_ in patterns]
    if not concerned:
        return ""
    parts = [f"{id_} {reasons[id_]}" for id_ in concerned[:NAMED]]
    rest = len(concerned) - NAMED
    text = "; ".join([*parts, f"and {rest:,} more"] if rest > 0 else parts)
    which = "none of the chosen rules can be evaluated here" if everything else "not evaluated here"
    return f"{which}: {text}"
