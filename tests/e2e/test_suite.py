"""That the end-to-end tests are there and run, and that nobody can overlook it when they do not.

These tests need nothing but Python; they run with the unit tests.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.e2e import programs
from tests.e2e.logs import SAMPLES
from tests.e2e.spans import assert_same, expected_spans

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.e2e.spans import Span

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]


def run_pytest(
    *arguments: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run pytest on this folder, in a process of its own."""
    plain = ["--no-cov", "-p", "no:randomly", "-p", "no:cacheprovider", "--color=no"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plain, *arguments, str(HERE)],
        cwd=ROOT,
        env={**os.environ, "PYTEST_ADDOPTS": "", **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_make_test_e2e_runs_every_module_of_this_folder() -> None:
    recipe = re.search(r"^test-e2e:.*\n(?:\t.*\n)+", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    chosen = re.search(r'pytest -m "([^"]+)"', recipe[0])
    assert chosen is not None
    listed = run_pytest("-m", chosen[1], "--collect-only", "-q")
    assert listed.returncode == 0, listed.stdout
    tests = Counter(re.findall(r"^tests/e2e/(\w+\.py)::", listed.stdout, re.MULTILINE))
    assert set(tests) == {path.name for path in HERE.glob("test_*.py")} - {Path(__file__).name}
    assert tests.total() >= 30


def test_every_module_is_marked_so_that_the_unit_tests_leave_it_out() -> None:
    listed = run_pytest("-m", "not slow and not e2e", "--collect-only", "-q")
    tests = set(re.findall(r"^tests/e2e/(\w+\.py)::", listed.stdout, re.MULTILINE))
    assert tests == {Path(__file__).name}


def test_a_run_without_a_collector_is_skipped_loudly(tmp_path: Path) -> None:
    nothing = {"PATH": str(tmp_path), "DSH_OTEL_E2E_CACHE": str(tmp_path)}
    done = run_pytest("-m", "e2e", "-k", "test_a_collector_answers", env=nothing)
    reason = "Go is not installed (no `go` in PATH)"
    assert f"nothing is tested against an OpenTelemetry Collector: {reason}" in done.stdout
    warning = f"e2e: WARNING: nothing was tested against an OpenTelemetry Collector: {reason}"
    assert warning in done.stdout.splitlines()
    assert re.search(r"\b1 skipped\b", done.stdout)
    assert done.returncode == 0


def test_a_build_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho 'main.go:1: what is this?'\nexit 3\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")
    monkeypatch.setattr(programs, "CACHE", tmp_path / "cache")
    with pytest.raises(programs.UnavailableError, match=r"exit code 3\): main\.go:1: what is this"):
        programs.collector()
    assert list((tmp_path / "cache").iterdir()) == []


def test_what_is_built_needs_no_second_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    # Writes what `-o=` names.
    go.write_text('#!/bin/sh\nfor a; do case $a in -o=*) : > "${a#-o=}";; esac; done\n')
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")
    monkeypatch.setattr(programs, "CACHE", tmp_path / "cache")
    built = programs.collector()
    go.unlink()
    assert programs.collector() == built


@pytest.mark.parametrize(
    "change",
    [
        lambda spans: spans[1:],
        lambda spans: [*spans, spans[0]],
        lambda spans: [*spans, replace(spans[0], span_id="1" * 16)],
        lambda spans: [replace(spans[0], end=spans[0].end + 1), *spans[1:]],
        lambda spans: [replace(spans[0], parent_id=""), *spans[1:]],
        lambda spans: [replace(spans[0], events=()), *spans[1:]],
        lambda spans: [retyped(spans[0]), *spans[1:]],
    ],
    ids=["missing", "twice", "strange", "time", "parent", "events", "type"],
)
def test_the_comparison_sees_every_difference(change: Callable[[list[Span]], list[Span]]) -> None:
    spans = sorted(expected_spans(SAMPLES), key=lambda span: not (span.events and span.parent_id))
    assert_same(spans[::-1], spans)
    with pytest.raises(AssertionError):
        assert_same(change(spans), spans)


def retyped(span: Span) -> Span:
    """Return a span whose first integer is a floating-point number of the same value."""
    name, value = next((n, v) for n, (kind, v) in span.attributes.items() if kind == "int")
    return replace(span, attributes={**span.attributes, name: ("double", float(value))})
