"""The real runtime opens a random log just if `dsh_core` finds no violation in it.

The runtime holds a whole log to its format when it opens it. Packages that read their own events
may stumble later: such a log says nothing about the format.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import ExitStack
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from dsh_core.check import check_session
from dsh_core.contract.catalogue import CATALOGUE
from dsh_core.contract.example_logs import FOLDER
from dsh_core.contract.findings import Severity
from tests.e2e.model_server import ModelServer
from tests.e2e.october import legal
from tests.e2e.october_changes import CHANGES, changed
from tests.e2e.runtime import RefusedError, Runtime

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.e2e.october import Log

pytestmark = pytest.mark.e2e

UNCHANGED: Final = 50
CHANGED: Final = 250
SEED: Final = "october"
OWNERS: Final = (
    *("session", "log", "tools", "llm-retry", "compaction", "commands", "session-title"),
    *("subagent", "session-log-deepseek"),
)
CHOSEN: Final = CATALOGUE.select([f"owner:{owner}" for owner in OWNERS])
REFUSES: Final = {"event.unknown-required"}
"""Advice about what the runtime refuses."""

FORMAT: Final = re.compile(
    r"stored log is corrupt|failed validation|invalid seed event|contains (event type|an? )"
    r"|format v4 rejects"
)
"""How the runtime refuses a log for its format."""

CUT_OFF: Final = "the end of the log is cut off"


class Judged(NamedTuple):
    """What the runtime and the check make of a log.

    Attributes:
        path: The log.
        change: What was changed in it; empty for a legal one.
        refusal: Why the runtime does not open it whole; empty if it does.
        found: The violations.
    """

    path: Path
    change: str
    refusal: str
    found: list[str]

    @property
    def decided(self) -> bool:
        """Whether the runtime says anything about the format."""
        return not self.refusal or bool(FORMAT.search(self.refusal)) or self.refusal == CUT_OFF

    def __str__(self) -> str:
        said = self.refusal or "accepted"
        return f"{self.path} ({self.change or 'legal'}): {said} / {self.found or 'no violation'}"


def write(path: Path, log: Log) -> bytes:
    """Write a log and return what was written."""
    rows = (log.header, *log.events)
    data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return data


def violations(path: Path) -> list[str]:
    """Return the rules that a log breaks, with the number of the event."""
    report = check_session(str(path), chosen=CHOSEN)
    assert report.reason == ""
    assert report.disabled == []
    return [
        f"{finding.rule} at {finding.seq}"
        for finding in report.findings
        if finding.severity is Severity.VIOLATION or finding.rule in REFUSES
    ]


@pytest.fixture(scope="module")
def judged(runtime_program: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Judged]:
    """Legal logs and changed ones, judged by both."""
    folder = tmp_path_factory.mktemp("validator")
    home, cwd = folder / "home", folder / "ws"
    cwd.mkdir()
    changes: dict[Path, str] = {}
    written: dict[Path, bytes] = {}
    for number in range(UNCHANGED + CHANGED):
        rng = Random(f"{SEED} {number}")
        change, log = "", legal(rng, f"s-{number}")
        if number >= UNCHANGED:
            change, log = changed(rng, log)
        name = log.header.get("id", f"s-{number}")
        path = home / "sessions" / "--w--" / name / "session.v4.jsonl"
        changes[path], written[path] = change, write(path, log)
    found = {path: violations(path) for path in written}
    refusals = dict.fromkeys(written, "")
    with ExitStack() as stack:
        model = stack.enter_context(ModelServer())
        runtime = stack.enter_context(
            Runtime(
                runtime_program,
                folder / "runtime",
                home=home,
                cwd=cwd,
                url=model.url,
                compress=False,
            )
        )
        for path, data in written.items():
            name = path.parent.name
            try:
                runtime.resume(name)
                if path.read_bytes() == data:
                    # It cuts a damaged end off as soon as it has something to write.
                    runtime.prompt(name, "go on")
            except RefusedError as error:
                refusals[path] = str(error)
    for path, data in written.items():
        if not refusals[path] and not path.read_bytes().startswith(data):
            refusals[path] = CUT_OFF
    return [Judged(path, changes[path], refusals[path], found[path]) for path in written]


def listed(logs: Iterable[Judged]) -> str:
    """Return a text that names logs, for a failing test."""
    return "\n".join(map(str, logs))


def test_legal_logs_are_opened_and_have_no_violation(judged: list[Judged]) -> None:
    legal_ones = [log for log in judged if not log.change]
    assert len(legal_ones) == UNCHANGED
    assert not (wrong := [log for log in legal_ones if log.refusal or log.found]), listed(wrong)


def test_what_the_runtime_opens_has_no_violation(judged: list[Judged]) -> None:
    wrong = [log for log in judged if not log.refusal and log.found]
    assert not wrong, listed(wrong)


def test_what_the_runtime_refuses_has_a_violation(judged: list[Judged]) -> None:
    wrong = [log for log in judged if log.decided and log.refusal and not log.found]
    assert not wrong, listed(wrong)


def test_the_logs_are_of_all_kinds(judged: list[Judged]) -> None:
    decided = [log for log in judged if log.decided]
    assert len(decided) >= 0.95 * len(judged)
    refused = Counter(log.change for log in decided if log.refusal)
    assert 0.4 * CHANGED <= refused.total() <= 0.8 * CHANGED
    assert set(refused) == set(CHANGES)
    rules = {rule.split()[0] for log in judged for rule in log.found}
    assert len(rules) >= 30, sorted(rules)


def test_the_near_misses_of_the_rules_are_opened(runtime_program: Path, tmp_path: Path) -> None:
    """The example of what nearly breaks a rule of October is a proper log."""
    home, cwd = tmp_path / "home", tmp_path / "ws"
    cwd.mkdir()
    names = []
    for number, example in enumerate(sorted(FOLDER.glob("*.silent.jsonl"))):
        data = example.read_bytes()
        if b'"version":4' not in data.partition(b"\n")[0]:
            continue
        # Each is a session of its own name.
        name = f"s-1-{number}"
        path = home / "sessions" / "--w--" / name / "session.v4.jsonl"
        path.parent.mkdir(parents=True)
        path.write_bytes(data.replace(b'"s-1"', f'"{name}"'.encode()))
        names.append(name)
    assert len(names) > 60
    with ExitStack() as stack:
        model = stack.enter_context(ModelServer())
        runtime = Runtime(
            runtime_program, tmp_path / "runtime", home=home, cwd=cwd, url=model.url, compress=False
        )
        stack.enter_context(runtime)
        for name in names:
            runtime.resume(name)
