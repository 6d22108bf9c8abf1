"""What routes and the like mean, in words for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsh_core.codes import Retryable, Route, Where

if TYPE_CHECKING:
    from collections.abc import Mapping

ROUTE_WORDS: Final[Mapping[Route, str]] = {
    Route.REPLAN: "what was asked for is not there; the model should try another way",
    Route.ASK: "a right is missing; ask the user",
    Route.ESCALATE: "a policy says no; only the host can offer more",
    Route.OPERATOR: "the model cannot mend it; somebody has to look after the machine or account",
    Route.RETRY: "it will probably pass; try again",
    Route.SELF_CORRECT: "the call was wrong; the model should mend it",
    Route.RERUN: "it was called off; it can run again",
    Route.CHECK_FIRST: "it may have taken effect; look before repeating it",
    Route.REPORT: "somebody has to mend a program",
}
"""What should happen next. A route proposes: nothing here retries a call or widens a right."""

RETRYABLE_WORDS: Final[Mapping[Retryable, str]] = {
    Retryable.NO: "the same call fails again",
    Retryable.WITH_BACKOFF: "yes, after a wait that grows",
    Retryable.AFTER_CHANGE: "only after the call was changed",
    Retryable.SAFE: "yes, it did not run",
    Retryable.NEVER_BLINDLY: "only after a look at what it did",
}
"""Whether the same call may be repeated."""

WHERE_WORDS: Final[Mapping[Where, str]] = {
    Where.LOG: "events of a session",
    Where.TEXT: "the text of a tool's result only",
    Where.HOST: "the program around the session; never in a session",
    Where.INFERRED: "no event: given here to a text that came without a code",
    Where.ERRNO: "texts, as a name of the operating system",
}
"""Where a code is found; nothing is known of one that is in no table."""
