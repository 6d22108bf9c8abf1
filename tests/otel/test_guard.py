"""The one tool that keeps errors of ours away from the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsh_otel.guard import Guard

if TYPE_CHECKING:
    from tests.otel.conftest import Logged


def fail() -> None:
    raise ValueError("boom")


def test_what_goes_well_is_run_and_said_so() -> None:
    done: list[int] = []
    assert Guard().run("place", lambda: done.append(1))
    assert done == [1]


def test_an_error_is_swallowed_and_said_so(logged: Logged) -> None:
    assert not Guard().run("place", fail)
    assert logged.take() == ["place failed and is left out from here on: ValueError('boom')"]


def test_errors_are_counted_by_place_and_logged_once_for_each(logged: Logged) -> None:
    guard = Guard()
    for place in ("one", "two", "one", "one"):
        guard.run(place, fail)
    assert guard.errors == {"one": 3, "two": 1}
    assert [message.split()[0] for message in logged.take()] == ["one", "two"]


def test_in_strict_mode_an_error_goes_through_and_is_not_logged() -> None:
    guard = Guard(strict=True)
    with pytest.raises(ValueError, match="boom"):
        guard.run("place", fail)
    assert guard.errors == {}


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_the_end_of_the_program_is_no_error_of_ours(error: type[BaseException]) -> None:
    def leave() -> None:
        raise error

    with pytest.raises(error):
        Guard().run("place", leave)
