"""The programs that these tests run: made once, kept in a folder that git ignores.

``python -m tests.e2e.programs`` makes them ahead of the tests, so that no test's time limit has to
allow for a build. Tests that need one which cannot be made are skipped, and the summary says why.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

HERE: Final = Path(__file__).parent
CACHE: Final = Path(os.environ.get("DSH_OTEL_E2E_CACHE") or HERE.parents[1] / ".cache" / "e2e")
COLLECTOR_SOURCES: Final = HERE / "collector"
ROTEL_LOCK: Final = HERE / "rotel.txt"
RUNTIME_LOCK: Final = HERE / "runtime.txt"
OLDER_LOCKS: Final = sorted(HERE.glob("runtime-*.txt"))
DISTRO_LOCK: Final = HERE / "distro.txt"
PIP: Final = ("--quiet", "--no-input", "--disable-pip-version-check", "--no-deps")
VENV: Final = (sys.executable, "-m", "venv", "--without-pip")
PATIENCE: Final = 1800
"""Seconds that a download and a build may take."""


class UnavailableError(Exception):
    """A program cannot be made here; the message says why."""


def collector() -> Path:
    """Return the OpenTelemetry Collector, built from `COLLECTOR_SOURCES`.

    Raises:
        UnavailableError: It cannot be built.
    """
    sources = [COLLECTOR_SOURCES / name for name in ("go.mod", "go.sum", "main.go")]
    program = CACHE / f"collector-{_fingerprint(*sources)}"
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        message = "Go is not installed (no `go` in PATH)"
        raise UnavailableError(message)
    CACHE.mkdir(parents=True, exist_ok=True)
    unfinished = program.with_name(f"{program.name}.{os.getpid()}")
    command = [go, "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w"]
    try:
        _make(
            "the Collector",
            [*command, f"-o={unfinished}", "."],
            cwd=COLLECTOR_SOURCES,
            env={**os.environ, "CGO_ENABLED": "0"},
        )
        # The name appears last, so that it stands for a whole program.
        unfinished.rename(program)
    finally:
        unfinished.unlink(missing_ok=True)
    return program


def rotel() -> Path:
    """Return rotel, an agent with an OTLP implementation of its own, in a folder of its own.

    Raises:
        UnavailableError: It cannot be installed.
    """
    folder = CACHE / f"rotel-{_fingerprint(ROTEL_LOCK)}"
    program = folder / "rotel" / "rotel-agent"
    if program.exists():
        return program
    CACHE.mkdir(parents=True, exist_ok=True)
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
    # The wheel carries the program; its Python part, and what that needs, are not used.
    pip = [sys.executable, "-m", "pip", "install", *PIP, "--require-hashes"]
    try:
        _make("rotel", [*pip, f"--requirement={ROTEL_LOCK}", f"--target={unfinished}"])
        made = unfinished / "rotel" / "rotel-agent"
        if not made.exists():
            message = "the wheel of rotel for this platform has no program in it"
            raise UnavailableError(message)
        made.chmod(0o755)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return program


def runtime(lock: Path = RUNTIME_LOCK) -> Path:
    """Return the interpreter of a virtual environment that has the real runtime in it.

    Args:
        lock: The release.

    Raises:
        UnavailableError: It cannot be installed, or there is none for this platform.
    """
    folder = CACHE / f"runtime-{_fingerprint(lock)}"
    program = Path("bin") / "python"
    if (folder / program).exists():
        return folder / program
    CACHE.mkdir(parents=True, exist_ok=True)
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
    pip = [
        sys.executable,
        "-m",
        "pip",
        f"--python={unfinished / program}",
        "install",
        *PIP,
        "--pre",
    ]
    # Wheels alone: the program is in one, and what the SDK's Python part needs is not used.
    pip += ["--only-binary=:all:", "--require-hashes", f"--requirement={lock}"]
    look = "import deepseek_harness_runtime as found; found.bundled_runtime_path()"
    try:
        _make("an environment for the runtime", [*VENV, str(unfinished)])
        _make("the runtime", pip)
        _make("the runtime's program", [str(unfinished / program), "-I", "-c", look])
        # One whose interpreter is gone may be in the way.
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder / program


def distro() -> Path:
    """Return a folder with what `opentelemetry-instrument` sets the SDK up with.

    Raises:
        UnavailableError: It cannot be installed.
    """
    folder = CACHE / f"distro-{_fingerprint(DISTRO_LOCK)}"
    if folder.exists():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
    pip = [sys.executable, "-m", "pip", "install", *PIP, "--require-hashes"]
    try:
        _make(
            "a distribution of OpenTelemetry",
            [*pip, f"--requirement={DISTRO_LOCK}", f"--target={unfinished}"],
        )
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _fingerprint(*sources: Path) -> str:
    """Return what changes when a program has to be made anew."""
    digest = hashlib.sha256(f"{sys.platform} {platform.machine()}".encode())
    for source in sources:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _make(
    what: str, command: list[str], *, cwd: Path | None = None, env: dict[str, str] | None = None
) -> None:
    print(f"e2e: making {what}", file=sys.stderr, flush=True)  # noqa: T201 - it takes minutes
    begin = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{what} cannot be made: {error}") from error
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        said = "; ".join(lines[-3:]) or "nothing was said"
        raise UnavailableError(f"{what} cannot be made (exit code {done.returncode}): {said}")
    seconds = time.monotonic() - begin
    print(f"e2e: made {what} in {seconds:.0f} s", file=sys.stderr, flush=True)  # noqa: T201


def main() -> int:
    """Make all programs, and say what cannot be made; the tests say it again."""
    missing = 0
    older = [partial(runtime, lock) for lock in OLDER_LOCKS]
    made: list[Callable[[], Path]] = [collector, rotel, runtime, distro, *older]
    for make in made:
        try:
            make()
        except UnavailableError as error:
            missing += 1
            print(f"e2e: WARNING: {error}", file=sys.stderr)  # noqa: T201 - as above
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
