"""The one tool that keeps our errors away from the host."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_logger: Final = logging.getLogger("dsh_otel")


class Guard:
    """Runs code of ours inside somebody else's program.

    An error is counted and logged once per place; the program goes on.

    Args:
        strict: Let errors through instead (for tests).

    Attributes:
        errors: Number of errors by place.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.errors: dict[str, int] = {}

    def failed(self, place: str, error: Exception) -> None:
        """Take in an error.

        Args:
            place: What failed, for the count and the log.
            error: The error; raised again in strict mode.
        """
        if self.strict:
            raise error
        seen = self.errors.get(place, 0)
        self.errors[place] = seen + 1
        if not seen:
            _logger.error("%s failed and is left out from here on: %r", place, error)

    def count(self, place: str) -> None:
        """Take in an error that was said already."""
        self.errors[place] = self.errors.get(place, 0) + 1

    def run(self, place: str, action: Callable[[], object]) -> bool:
        """Run an action.

        Returns:
            Whether it went well.
        """
        try:
            action()
        except Exception as error:  # noqa: BLE001 - that is what it is for
            self.failed(place, error)
            return False
        return True
