"""Rules of the ``llm-retry`` package: what is repeated, where, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from dsh_core.contract.fields import is_filled, is_whole, plain, shown
from dsh_core.contract.newest import Ids
from dsh_core.contract.places import blame_turn, open_place, places
from dsh_core.contract.retries import (
    ANYWHERE,
    FRESH,
    STARTED,
    Chain,
    Scheduled,
    failure_problem,
    key_problems,
    policy_problems,
)
from dsh_core.contract.rule import LATER, Rule, RuleSet
from dsh_core.events import Contract
from dsh_core.parts import ABSENT, NO_NUMBER

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from msgspec import Raw

    from dsh_core.contract.findings import Finding
    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import LlmRetry, LlmRetryStarted, RequestHeader

MAX_CHAINS: Final = 8
"""How many chains of retries are followed in one step."""

MAX_IDS: Final = 128
"""How many ids of chains are remembered."""

_STEPS: Final = 2**20
_TURNS: Final = 2**40


class Rules(RuleSet):
    """Retries are counted per step, provider and policy, and each begins once."""

    owner = "llm-retry"
    rules: ClassVar = (
        Rule(
            "retry.fields",
            "a retry lacks its id, provider or policy, or its numbers are out of bounds",
            "Count from 1 up to maxRetries (mode always has none), and wait 0 to 2^31 - 1 ms.",
            on=("llm/retry",),
            contracts=LATER,
        ),
        Rule(
            "retry.failure",
            "the failure of a retry has no message or code, or an impossible status or delay",
            "Log the provider's failure as it was, and leave out what the provider did not say.",
            on=("llm/retry",),
            contracts=(Contract.V0,),
        ),
        Rule(
            "retry.outside-step",
            "a retry names a step that is not open",
            "Schedule retries in the step whose request failed.",
            on=("llm/retry",),
            contracts=LATER,
        ),
        Rule(
            "retry.provider",
            "a retry names another provider than the latest request/header",
            "Retry with the provider that failed; another one needs a request/header first.",
            on=("llm/retry",),
            contracts=LATER,
        ),
        Rule(
            "retry.sequence",
            "a retry does not have the next number of its chain",
            "Count retries of one step, provider and policy from 1, without a gap or repetition.",
            on=("llm/retry",),
            contracts=LATER,
        ),
        Rule(
            "retry.chain-id",
            "a chain of retries changes its id, or takes one that was used before",
            "Give each chain a fresh retryId, and keep it to the end of the chain.",
            on=("llm/retry",),
            contracts=LATER,
        ),
        Rule(
            "retry.started-unpaired",
            "the start of a retry was not scheduled, names another step, or comes twice",
            "Log llm/retry before the wait, and one llm/retry-started after it.",
            on=("llm/retry-started",),
            contracts=LATER,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        # None if a header was seen that could not be read.
        self._provider: str | None = ""
        self._place = (0, 0)
        # At that place, by provider and policy.
        self._chains: dict[int, Chain] = {}
        # A retry that may belong to another chain than it says, and the step where it came.
        self._astray: tuple[Finding | None, tuple[int | None, int]] = (None, (None, 0))
        self._ids = Ids(MAX_IDS)
        self._scheduled = Scheduled()
        # July builds wrote retries without an id.
        self._legacy = run.contract is Contract.V0 and not run.header.version

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {
            "request/header": self._header,
            "llm/retry": self._retry,
            "llm/retry-started": self._started,
        }

    def _header(self, event: RequestHeader, _line: int) -> None:
        provider = event.data.header.config.provider
        # In October a header that names none is a fault itself.
        told = self.run.cause is not None or self.run.contract is Contract.V4
        if not self.run.repeating:
            self._provider = provider or (None if told else "")

    def _retry(self, event: LlmRetry, line: int) -> None:
        if self.run.repeating:
            return
        data, id_ = event.data, _name(event.data.retry_id)
        malformed = self._shape(event, line)
        outside = malformed and data.turn == NO_NUMBER
        if not outside:
            outside = self._is_outside(event, line)
        if not outside:
            other = self._other_provider(event, line)
            judge = not other and not (malformed and self._is_astray())
            self._go_on(event, line, id_, judge=judge)
        if is_filled(id_):
            self._ids.add(id_)
        place = ANYWHERE if outside else _at(data.turn, data.step)
        self._scheduled.add(hash((id_, data.retry)), place)

    def _shape(self, event: LlmRetry, line: int) -> bool:
        """Judge the fields of a retry; return whether any is wrong, and that was reported."""
        data = event.data
        due = {"retryId": data.retry_id, "provider": data.provider}
        nameless = self._legacy and data.retry_id is ABSENT
        if nameless:
            del due["retryId"]
        if self.run.contract is Contract.V4:
            # October looks at nothing but what it pairs retries by.
            if self._provider == "" and data.provider is ABSENT:
                del due["provider"]
            wrong = key_problems(due, data.retry)
        else:
            wrong = key_problems(due, data.retry) + policy_problems(data)
        finding = self.trip("retry.fields", "; ".join(wrong), event, line) if wrong else None
        if not (nameless or is_filled(plain(data.retry_id))) or not is_whole(data.retry, 1):
            self._blame(finding, event)
        if not (is_filled(plain(data.provider)) and is_whole(data.retry, 1)):
            self._stray(finding)
        problem = failure_problem(data.raw_failure)
        if problem and (finding is None or data.raw_failure is not ABSENT):
            self.trip("retry.failure", problem, event, line)
        return finding is not None

    def _blame(self, finding: Finding | None, event: LlmRetry) -> None:
        """Blame a finding for the start of a retry that was scheduled in another way."""
        for key in self._blamed_at(event):
            self.run.blame(finding or self.run.cause, key)

    def _stray(self, finding: Finding | None) -> None:
        """Note that a retry may be missing in its chain, and why."""
        timeline = self.run.timeline
        self._astray = finding or self.run.cause, (timeline.turn, timeline.next_step)

    def _is_astray(self) -> Finding | None:
        """Return what explains that a retry of the latest step is missing in its chain."""
        finding, place = self._astray
        timeline = self.run.timeline
        return finding if place == (timeline.turn, timeline.next_step) else None

    def _blamed_at(self, event: LlmRetry | LlmRetryStarted) -> Sequence[Hashable]:
        data, timeline = event.data, self.run.timeline
        return [("retry", data.turn, data.step), ("retry", timeline.turn, timeline.step)]

    def _is_outside(self, event: LlmRetry, line: int) -> bool:
        """Judge where a retry is scheduled; return whether that is wrong, and explained."""
        data, run, timeline = event.data, self.run, self.run.timeline
        due = timeline.step
        if due is None and run.contract is Contract.V4:
            # The step that was closed last.
            due = timeline.next_step - 1
        if timeline.turn == data.turn and due == data.step:
            return False
        known = run.explained(event, *places(timeline, data.turn, data.step))
        if known is None:
            if run.unseen(event):
                return True
            known = self.trip(
                "retry.outside-step",
                f"a retry names step {data.step} of turn {data.turn} while"
                f" {open_place(timeline)} is open",
                event,
                line,
                expected=open_place(timeline),
                got=f"step {data.step} of turn {data.turn}",
            )
            blame_turn(run, known, data.turn)
        run.blame(known, (data.turn, data.step))
        self._stray(known)
        return known is not None

    def _other_provider(self, event: LlmRetry, line: int) -> bool:
        """Judge the provider of a retry; return whether that is wrong, and explained."""
        run, provider, due = self.run, plain(event.data.provider), self._provider
        if due is None or provider == due or not is_filled(provider):
            return False
        named = f"a retry names provider {shown(provider)}"
        problem = f"{named}, the latest request/header {shown(due)}"
        key = ("retry-provider", due, provider[:64])
        known = run.explained(event, key)
        if known is not None or run.unseen(event):
            self._stray(known)
            return True
        problem = problem if due else f"{named} before any request/header names one"
        finding = self.trip("retry.provider", problem, event, line)
        # What a writer goes on to do is one cause.
        run.blame(finding, key)
        self._stray(finding)
        return finding is not None

    def _go_on(self, event: LlmRetry, line: int, id_: Hashable, *, judge: bool) -> None:
        """Take a retry into its chain."""
        data = event.data
        place = (data.turn, data.step)
        chain = hash((_name(data.provider), _name(data.policy_key)))
        named = hash(id_) if is_filled(id_) else None
        if place != self._place:
            self._place, self._chains = place, {}
        last = self._chains.get(chain, FRESH)
        if not is_whole(data.retry, 1) or (last is FRESH and len(self._chains) >= MAX_CHAINS):
            return
        now = self._chains[chain] = Chain(data.retry, named, data.retry, named)
        rule = problem = ""
        if data.retry != last.number + 1:
            rule = "retry.sequence"
            problem = f"retry {data.retry} comes after {last.number or 'none'}"
        elif last.number and None not in (named, last.id) and named != last.id:
            rule, problem = "retry.chain-id", f"retry {data.retry} goes on as {shown(id_)}"
        elif not last.number and named is not None and id_ in self._ids:
            rule, problem = "retry.chain-id", f"{shown(id_)} was the id of another chain"
        if not (judge and problem) or self._follows(event, rule, last, now):
            return
        if not self.run.unseen(event):
            now.fault = self.trip(rule, problem, event, line)
            now.due, now.due_id = last.number + 1, last.id
            self._blame(now.fault, event)
            if last is FRESH:
                self._stray(now.fault)

    def _follows(self, event: LlmRetry, rule: str, last: Chain, now: Chain) -> bool:
        """Whether a retry has the wrong place in its chain because another has; fold it then."""
        run, known = self.run, None
        if rule == "retry.chain-id":
            if now.id == last.due_id:
                known = last.fault
            elif run.explained(event, key := ("retry-start", *self._place)):
                run.forgive(key)
                return True
        elif now.number == last.due + 1:
            known = last.fault
        elif now.number == last.number + 2:
            known = self._is_astray()
            self._stray(None)
        if known is not None:
            known.fold(event.seq)
        return known is not None

    def _started(self, event: LlmRetryStarted, line: int) -> None:
        data, run = event.data, self.run
        if run.repeating:
            return
        id_ = _name(data.retry_id)
        due, here = self._scheduled.start(hash((id_, data.retry))), _at(data.turn, data.step)
        what = f"the start of retry {data.retry} of {shown(id_)}"
        if due is None:
            known = here <= self._scheduled.forgotten
            problem = "" if known else f"{what} was not scheduled"
        elif due == STARTED:
            problem = f"{what} comes again"
        else:
            right = due in (ANYWHERE, here)
            problem = "" if right else f"{what} names step {data.step} of turn {data.turn}"
        if (
            problem
            and (due is not None or run.explained(event, *self._blamed_at(event)) is None)
            and not run.unseen(event)
        ):
            finding = self.trip("retry.started-unpaired", problem, event, line)
            # The retry itself may have had the wrong id.
            run.blame(finding, ("retry-start", data.turn, data.step))


def _name(raw: Raw) -> Hashable:
    """Return a text, or the bytes of what stands in its place."""
    value = plain(raw)
    return value if isinstance(value, str) else bytes(raw)


def _at(turn: int, step: int) -> int:
    """Return the place of a step among all steps."""
    sane = 0 <= turn < _TURNS and 0 <= step < _STEPS
    return turn * _STEPS + step if sane else ANYWHERE
