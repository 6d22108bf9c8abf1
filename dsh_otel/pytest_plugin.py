"""The pytest plugin: fixture ``dsh_harness``, option ``--dsh-invariants``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from dsh_otel.testing import Harness

OPTION = "--dsh-invariants"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("dsh").addoption(
        OPTION,
        action="store_true",
        default=False,
        help="raise contract violations where they happen, in every test that uses dsh_harness",
    )


@pytest.fixture
def dsh_harness(request: pytest.FixtureRequest) -> Harness:
    """A program of dsh_core with its telemetry, see `dsh_otel.testing.Harness`."""
    # Imported when it is asked for: whoever has this installed pays nothing for other tests.
    from dsh_otel.testing import Harness  # noqa: PLC0415

    return Harness(dev_invariants=request.config.getoption(OPTION))
