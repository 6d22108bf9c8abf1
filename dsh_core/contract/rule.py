"""What a rule is, and what a set of rules looks like to the checker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from dsh_core.contract.findings import Severity
from dsh_core.events import Contract

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dsh_core.contract.findings import Finding
    from dsh_core.contract.live import LiveFact
    from dsh_core.contract.run import Run
    from dsh_core.events import SessionEvent

    # Called with the event, of the type it is registered for, and its line.
    Handler = Callable[[Any, int], None]
    # Called with the fact, of the type it is registered for.
    LiveHandler = Callable[[Any], None]

ALL: Final = (Contract.SEED, Contract.V0, Contract.V4)
LATER: Final = (Contract.V0, Contract.V4)
EVERY: Final = "*"
"""Stands for all event types among a rule set's handlers."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the contract.

    Attributes:
        id: Public, stable id; it names the fault.
        fault: What is wrong when the rule trips, in one clause.
        advice: What to do about it.
        on: Types of the events that the rule is evaluated at, `EVERY` for all; none for a rule
            that is evaluated at the end of a log or on facts that no log holds.
        contracts: The contracts that contain the rule.
        severity: How bad a finding of it is.
        source: What the rule needs of its source: ``any``, ``log`` (durable and complete),
            ``end`` (the log's end must have been declared) or ``live`` (facts that no log holds).
    """

    id: str
    fault: str
    advice: str
    on: tuple[str, ...] = ()
    contracts: tuple[Contract, ...] = ALL
    severity: Severity = Severity.VIOLATION
    source: str = "any"


class RuleSet:
    """The rules of one owner, applied to one session.

    Subclasses are named ``Rules``, one per module. A rule judges with `Run.report` and never
    changes what another owner sees: turns, steps and calls move in `Run.timeline`, messages in
    `Run.surface`, after all rules have judged.

    Attributes:
        owner: The package that owns the rules.
        rules: All of them.
    """

    owner: ClassVar[str]
    rules: ClassVar[tuple[Rule, ...]]

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        self.run = run

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call with (event, line), by event type; `EVERY` for all types."""
        return {}

    def outside_step(self) -> Mapping[str, Handler]:
        """Return what to call, by event type, for events that lie outside the step they name.

        Events inside their step cost next to nothing this way.
        """
        return {}

    def inside_step(self) -> Mapping[str, Handler]:
        """Return what to call, by event type, for events that lie inside the step they name."""
        return {}

    def live(self) -> Mapping[type[LiveFact], LiveHandler]:
        """Return what to call, by type of fact, with facts that no log holds."""
        return {}

    def trip(
        self,
        rule: str,
        message: str,
        event: SessionEvent,
        line: int,
        **more: Any,  # noqa: ANN401 - as `Run.report` takes them
    ) -> Finding | None:
        """Report that an event breaks a rule.

        Args:
            rule: Id of one of `rules`.
            message: What is wrong, in one clause; it must quote no content.
            event: The event.
            line: Its line.
            more: As `Run.report` takes it.
        """
        return self.run.report(rule, message, seq=event.seq, line=line, **more)

    def finish(self, *, final: bool) -> None:
        """Judge what only the end of the input decides.

        Args:
            final: Whether the end of the log is declared: nothing will follow.
        """
