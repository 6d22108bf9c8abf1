"""Rules of the ``llm-retry`` package: what is repeated, where, and how often."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, ClassVar, Final

from dsh_core.contract.fields import fields, is_filled, is_number, is_whole, plain, shown
from dsh_core.contract.newest import Ids
from dsh_core.contract.places import blame_turn, open_place, places
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
    from dsh_core.payloads import RetryData

MODES: Final = ("normal", "always")
LONGEST_DELAY: Final = 2**31 - 1
"""The longest that a timer of the runtime can wait, in ms."""

STATUSES: Final = (100, 599)
MAX_CHAINS: Final = 8
"""How many chains of retries are followed in one step."""

MAX_IDS: Final = 128
"""How many ids of chains are remembered."""

MAX_SCHEDULED: Final = 128
"""How many retries are remembered for their starts."""

_STEPS: Final = 2**20
_TURNS: Final = 2**40
ANYWHERE: Final = -1
"""Stands for a place that is known to be wrong."""

STARTED: Final = -2
"""Stands for the place of a retry that has begun."""


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
        # Number and id of the last retry at that place, by provider and policy; hashes stand for
        # texts, which may be long. Without an id it is None.
        self._chains: dict[int, tuple[int, int | None]] = {}
        self._ids = Ids(MAX_IDS)
        self._scheduled = _Scheduled()
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
        if not self.run.repeating:
            self._provider = provider or ("" if self.run.cause is None else None)

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
            self._go_on(event, line, id_, judge=not other)
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
        problem = failure_problem(data.raw_failure)
        if problem and (finding is None or data.raw_failure is not ABSENT):
            self.trip("retry.failure", problem, event, line)
        return finding is not None

    def _blame(self, finding: Finding | None, event: LlmRetry) -> None:
        """Blame a finding for the start of a retry that was scheduled in another way."""
        for key in self._blamed_at(event):
            self.run.blame(finding or self.run.cause, key)

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
        return known is not None

    def _other_provider(self, event: LlmRetry, line: int) -> bool:
        """Judge the provider of a retry; return whether that is wrong, and explained."""
        run, provider, due = self.run, plain(event.data.provider), self._provider
        if due is None or provider == due or not is_filled(provider):
            return False
        named = f"a retry names provider {shown(provider)}"
        problem = f"{named}, the latest request/header {shown(due)}"
        key = ("retry-provider", due, provider[:64])
        if run.explained(event, key) or run.unseen(event):
            return True
        problem = problem if due else f"{named} before any request/header names one"
        finding = self.trip("retry.provider", problem, event, line)
        # What a writer goes on to do is one cause.
        run.blame(finding, key)
        return finding is not None

    def _go_on(self, event: LlmRetry, line: int, id_: Hashable, *, judge: bool) -> None:
        """Take a retry into its chain."""
        data = event.data
        place = (data.turn, data.step)
        chain = hash((_name(data.provider), _name(data.policy_key)))
        named = hash(id_) if is_filled(id_) else None
        if place != self._place:
            self._place, self._chains = place, {}
        last, known = self._chains.get(chain, (0, None))
        if not is_whole(data.retry, 1) or (not last and len(self._chains) >= MAX_CHAINS):
            return
        self._chains[chain] = (data.retry, named)
        rule = problem = ""
        if data.retry != last + 1:
            rule, problem = "retry.sequence", f"retry {data.retry} comes after {last or 'none'}"
        elif last and None not in (named, known) and named != known:
            rule, problem = "retry.chain-id", f"retry {data.retry} goes on as {shown(id_)}"
        elif not last and named is not None and id_ in self._ids:
            rule, problem = "retry.chain-id", f"{shown(id_)} was the id of another chain"
        if judge and problem and not self.run.unseen(event):
            finding = self.trip(rule, problem, event, line)
            if rule == "retry.sequence":
                self._blame(finding, event)

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
            self.trip("retry.started-unpaired", problem, event, line)


class _Scheduled:
    """The newest retries, and where each was scheduled; arrays keep them small.

    Attributes:
        forgotten: The last place of those that were forgotten.
    """

    def __init__(self) -> None:
        self._keys = array("q")
        self._places = array("q")
        self._started = bytearray()
        self.forgotten = ANYWHERE

    def add(self, key: int, place: int) -> None:
        """Take in a retry, also one that was scheduled already."""
        if key in self._keys:
            at = self._keys.index(key)
            self._places[at], self._started[at] = place, False
            return
        self._keys.append(key)
        self._places.append(place)
        self._started.append(False)
        if len(self._keys) > MAX_SCHEDULED:
            self.forgotten = max(self.forgotten, self._places[0])
            del self._keys[0], self._places[0], self._started[0]

    def start(self, key: int) -> int | None:
        """Note that a retry begins.

        Returns:
            Where it was scheduled, `STARTED` if it has begun before, None if it is not known.
        """
        if key not in self._keys:
            return None
        at = self._keys.index(key)
        begun, self._started[at] = self._started[at], True
        return STARTED if begun else self._places[at]


def key_problems(names: Mapping[str, Raw], retry: int) -> list[str]:
    """Return what is wrong with the fields that retries are paired by.

    Args:
        names: Those that must be texts, by their names.
        retry: Number of the retry.
    """
    problems = [f"{name} is empty" for name, raw in names.items() if not is_filled(plain(raw))]
    if not is_whole(retry, 1):
        problems.append("retry is not at least 1")
    return problems


def policy_problems(data: RetryData) -> list[str]:
    """Return what is wrong with the policy of a retry."""
    problems = [] if is_filled(plain(data.policy_key)) else ["policyKey is empty"]
    mode, most = plain(data.mode), plain(data.max_retries)
    if mode not in MODES:
        problems.append(f"mode is {shown(mode)}")
    elif mode == "always" and data.max_retries is not ABSENT:
        problems.append("maxRetries is present in mode always")
    elif mode == "normal" and not is_whole(most, 1):
        problems.append("maxRetries is not at least 1")
    elif mode == "normal" and is_whole(data.retry, 1) and data.retry > most:
        problems.append(f"retry is {data.retry}, maxRetries {most}")
    if not 0 <= data.delay_ms <= LONGEST_DELAY:
        problems.append("delayMs is not from 0 to 2147483647")
    return problems


def failure_problem(raw: Raw) -> str:
    """Return what is wrong with the failure of a retry."""
    failure, (least, most) = fields(raw), STATUSES
    problems = [
        f"{name} is empty" for name in ("message", "code") if not is_filled(failure.get(name))
    ]
    status, wait = failure.get("status"), failure.get("providerRetryAfterMs")
    if "status" in failure and not (is_whole(status, least) and status <= most):
        problems.append("status is not from 100 to 599")
    if "providerRetryAfterMs" in failure and not (is_number(wait) and wait > 0):
        problems.append("providerRetryAfterMs is not above 0")
    if "requestId" in failure and not is_filled(failure["requestId"]):
        problems.append("requestId is empty")
    return "; ".join(f"failure.{problem}" for problem in problems)


def _name(raw: Raw) -> Hashable:
    """Return a text, or the bytes of what stands in its place."""
    value = plain(raw)
    return value if isinstance(value, str) else bytes(raw)


def _at(turn: int, step: int) -> int:
    """Return the place of a step among all steps."""
    sane = 0 <= turn < _TURNS and 0 <= step < _STEPS
    return turn * _STEPS + step if sane else ANYWHERE
