"""What retries must say of themselves, and what is remembered of them."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dsh_core.contract.fields import fields, is_filled, is_number, is_whole, plain, shown
from dsh_core.contract.findings import Finding
from dsh_core.parts import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msgspec import Raw

    from dsh_core.payloads import RetryData

MODES: Final = ("normal", "always")
LONGEST_DELAY: Final = 2**31 - 1
"""The longest that a timer of the runtime can wait, in ms."""

STATUSES: Final = (100, 599)
MAX_SCHEDULED: Final = 128
"""How many retries are remembered for their starts."""

ANYWHERE: Final = -1
"""Stands for a place that is known to be wrong."""

STARTED: Final = -2
"""Stands for the place of a retry that has begun."""


class Chain(Struct, gc=False):
    """The last retry of a chain; hashes stand for ids, which may be long.

    Attributes:
        number: Its number.
        id: Its id, None without one.
        due: The number that it should have.
        due_id: The id that it should have.
        fault: What is wrong with it.
    """

    number: int = 0
    id: int | None = None
    due: int = 0
    due_id: int | None = None
    fault: Finding | None = None


FRESH: Final = Chain()
"""Stands for a chain without a retry."""


class Scheduled:
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
