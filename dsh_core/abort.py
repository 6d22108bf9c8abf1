"""Cancelling work: who may abort it holds the controller, who does it holds the signal."""

from __future__ import annotations

import asyncio
from typing import Final

from dsh_core.errors import HarnessError

DEFAULT_REASON: Final = "aborted"

RAISED: Final = (Exception, asyncio.CancelledError)
"""What code of others may raise where nothing is waited for. There a cancellation is no wish to
stop but somebody's mistake, such as the result of a future that was cancelled."""


class AbortError(HarnessError):
    """Work was cancelled.

    Args:
        reason: Why, as whoever aborted said.
    """

    def __init__(self, reason: object = DEFAULT_REASON) -> None:
        self.reason = reason
        super().__init__(str(reason), "ABORTED")


class AbortSignal:
    """Tells work whether it is still wanted.

    Attributes:
        reason: Why it is not, None while it is.
    """

    def __init__(self) -> None:
        self.reason: object = None
        self._event = asyncio.Event()

    @property
    def aborted(self) -> bool:
        """Whether the work is no longer wanted."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Wait until the work is no longer wanted."""
        await self._event.wait()

    def raise_if_aborted(self) -> None:
        """Stop here if the work is no longer wanted.

        Raises:
            AbortError: It is not.
        """
        if self.aborted:
            raise AbortError(self.reason)

    def _abort(self, reason: object) -> None:
        if not self.aborted:
            self.reason = reason
            self._event.set()


class AbortController:
    """Aborts the work that holds its signal.

    Attributes:
        signal: What the work holds.
    """

    def __init__(self) -> None:
        self.signal = AbortSignal()

    def abort(self, reason: object = DEFAULT_REASON) -> None:
        """Abort; only the first reason counts.

        Args:
            reason: Why, for people.
        """
        self.signal._abort(reason)  # noqa: SLF001 - the two are one thing, seen from two sides
