"""Fixtures of all tests of dsh_otel."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

WATCHED = ("opentelemetry", "dsh_otel", "dsh_core")


class Logged(logging.Handler):
    """Warnings and errors that were logged and not yet asked for."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)

    def take(self) -> list[str]:
        """Return the messages; what is taken is expected."""
        records, self._records = self._records, []
        return [record.getMessage() for record in records]


@pytest.fixture(autouse=True)
def logged() -> Iterator[Logged]:
    """Fail a test that logs a warning or an error and does not expect it.

    The SDK is lenient: a second end, an attribute on an ended span, a lost batch are only logged.
    """
    handler = Logged()
    for name in WATCHED:
        logging.getLogger(name).addHandler(handler)
    yield handler
    for name in WATCHED:
        logging.getLogger(name).removeHandler(handler)
    assert handler.take() == []


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the settings of whoever runs the tests away from the SDK."""
    import os

    for name in tuple(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)
