"""Points in time as people name them."""

from __future__ import annotations

import pytest

from dsh_otel.sources.since import since_ms

NOW = 1_000_000_000_000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("2h", 7200), (" 7d ", 604_800), ("1w", 604_800)],
)
def test_an_age(text: str, seconds: int) -> None:
    assert since_ms(text, NOW) == NOW - 1000 * seconds


def test_an_age_beyond_all_time_is_the_beginning() -> None:
    assert since_ms("999999999w", NOW) == 1


def test_a_date_with_a_time_zone() -> None:
    assert since_ms("2001-09-09T01:46:40+00:00") == NOW


@pytest.mark.parametrize("text", ["", "yesterday", "5", "-5m", "5y", "2001-99-09"])
def test_what_is_neither_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="point in time"):
        since_ms(text)
