"""Law number one: the rules find nothing in what the real runtime writes and tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from dsh_core.check import check_session
from dsh_core.contract.findings import Severity
from dsh_core.contract.run import SourceKind
from dsh_core.events import Contract
from dsh_core.logs.find import LogFile
from dsh_core.logs.reader import Batch, SessionLog
from tests.checking import check
from tests.e2e import scenes, scenes_agents, scenes_context
from tests.e2e.driven import Model, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dsh_core.contract.findings import Finding

pytestmark = pytest.mark.e2e

SCENES: Final[dict[Callable[[Stage], None], tuple[str, ...]]] = {
    scenes.answers: ("assistant/attempt", "compaction/start", "tool/result"),
    scenes.retries: ("llm/retry", "llm/retry-started"),
    scenes.tools: ("job/registered", "job/settled", "todo/write"),
    scenes.code: ("tool/ptc-dispatch-start", "tool/ptc-dispatch"),
    scenes.approvals: ("approval/asked", "approval/decided", "permission/preset"),
    scenes_agents.goals: ("goal/change", "command/done"),
    scenes_agents.workflows: ("tool-workflow/agent-end", "tool-workflow/run-end", "job/settled"),
    scenes_agents.subagents: ("subagent/catalog", "agent/inbox/spliced"),
    scenes_agents.teams: ("team/member", "team/task"),
    scenes_agents.queues: ("agent/inbox/spliced", "working-directory/change"),
    scenes_agents.modes: ("plan/mode", "command/run", "compaction/end", "feedback/record"),
    scenes_context.compactions: ("compaction/prune", "compaction/summary", "compaction/end"),
    scenes_context.images: ("image/offload", "compaction/summary"),
    scenes_context.new_tools: ("developer/message", "system/message", "compaction/summary"),
    scenes_context.ends: ("job/settled", "compaction/end", "tool-workflow/run-end"),
    scenes_context.crashes: ("compaction/start", "llm/retry", "tool-workflow/run-start"),
    scenes_context.torn: ("turn/end",),
    scenes_context.forks: ("tool/result",),
}
"""What types of events show that a scene has come to what it is about."""


@pytest.fixture
def stage(runtime_program: Path, tmp_path: Path) -> Iterator[Stage]:
    """A home with a model."""
    with Model() as model:
        yield Stage(runtime_program, tmp_path, model)


def types_of(path: Path) -> set[str]:
    """Return the types of the events of a log."""
    with LogFile(str(path)).open() as stream:
        items = list(SessionLog(stream, str(path)).read())
    return {event.type for item in items if isinstance(item, Batch) for event in item.events}


def told(findings: list[Finding]) -> list[str]:
    """Return what is said of a session, but for advice."""
    return [
        f"{finding.rule} at {finding.seq}: {finding.message}"
        for finding in findings
        if finding.severity is not Severity.ADVICE
    ]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_the_rules_find_nothing_in_what_the_runtime_writes_and_tells(
    stage: Stage, scene: Callable[[Stage], None]
) -> None:
    scene(stage)
    logs = stage.logs()
    assert set(SCENES[scene]) <= {kind for log in logs.values() for kind in types_of(log)}
    assert set(stage.told) <= set(logs)
    for name, log in logs.items():
        for final in (False, True):
            report = check_session(str(log), final=final)
            assert (report.contract, report.error, report.disabled) == ("v4", "", [])
            assert (name, told(report.findings)) == (name, [])
    for name, events in stage.told.items():
        for final in (False, True):
            found = check(
                events,
                Contract.V4,
                header={"id": name},
                source=SourceKind.STREAM,
                final=final,
            )
            assert (name, told(found)) == (name, [])
