"""Fixtures of the end-to-end tests: the receivers, ready to take spans."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, Protocol

import pytest

from tests.e2e import logs, programs
from tests.e2e.receivers import Collector, Rotel, Sink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MISSING: Final = pytest.StashKey[dict[str, str]]()


class StartCollector(Protocol):
    """Starts a Collector that is stopped at the end of the test."""

    def __call__(self, reads: Path | None = None) -> Collector:
        """Start one; `reads` is a file of OTLP JSON for it to read."""


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say loudly what was not tested."""
    for what, reason in config.stash.get(MISSING, {}).items():
        line = f"e2e: WARNING: nothing was tested against {what}: {reason}"
        terminalreporter.write_line(line, red=True, bold=True)


def _made(config: pytest.Config, what: str, make: Callable[[], Path]) -> Path:
    try:
        return make()
    except programs.UnavailableError as error:
        config.stash.setdefault(MISSING, {})[what] = str(error)
        pytest.skip(f"nothing is tested against {what}: {error}")


@pytest.fixture(scope="session")
def collector_program(pytestconfig: pytest.Config) -> Path:
    """The OpenTelemetry Collector."""
    return _made(pytestconfig, "an OpenTelemetry Collector", programs.collector)


@pytest.fixture(scope="session")
def rotel_program(pytestconfig: pytest.Config) -> Path:
    """The rotel agent."""
    return _made(pytestconfig, "rotel", programs.rotel)


@pytest.fixture(scope="session")
def runtime_program(pytestconfig: pytest.Config) -> Path:
    """The interpreter of an environment with the real runtime."""
    return _made(pytestconfig, "the real runtime", programs.runtime)


@pytest.fixture(scope="session", params=programs.OLDER_LOCKS, ids=lambda lock: lock.stem)
def older_program(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> Path:
    """The interpreter of an environment with an older runtime."""
    lock: Path = request.param
    return _made(pytestconfig, lock.stem, lambda: programs.runtime(lock))


@pytest.fixture(scope="session")
def distro(pytestconfig: pytest.Config) -> Path:
    """A folder with a distribution of OpenTelemetry."""
    return _made(pytestconfig, "opentelemetry-instrument", programs.distro)


@pytest.fixture
def start_collector(
    collector_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartCollector]:
    """Starts Collectors that are stopped at the end of the test."""
    with ExitStack() as stack:

        def start(reads: Path | None = None) -> Collector:
            folder = tmp_path_factory.mktemp("collector")
            return stack.enter_context(Collector(collector_program, folder, reads))

        yield start


@pytest.fixture
def collector(start_collector: StartCollector) -> Collector:
    """A Collector with an OTLP receiver."""
    return start_collector()


@pytest.fixture
def sink() -> Iterator[Sink]:
    """A bare server that takes everything."""
    with Sink() as sink:
        yield sink


@pytest.fixture
def rotel(rotel_program: Path, sink: Sink, tmp_path: Path) -> Iterator[Rotel]:
    """A rotel that passes spans on to the sink."""
    with Rotel(rotel_program, tmp_path, sink.endpoint) as rotel:
        yield rotel


@pytest.fixture(params=["june", "v4"])
def hostile_log(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A log in which every name, code, id, number and text is hostile."""
    if request.param == "june":
        return logs.write(tmp_path / "june.jsonl", logs.hostile_june())
    return logs.write(tmp_path / "session.v4.jsonl", logs.hostile_v4(), logs.hostile_header())
