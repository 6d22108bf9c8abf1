"""Settings and fixtures for all tests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.paths import DATA

if TYPE_CHECKING:
    from pathlib import Path

# The same examples in every run, so that a test never fails by chance. To look for new ones:
# HYPOTHESIS_PROFILE=dev make test
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("dev", settings.get_profile("ci"), derandomize=False, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def data() -> Path:
    """Where the test data lies."""
    return DATA
