"""The SDK path: what a program with the real SDK is told gives the tree that the log gives."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dsh_otel.ids import first_turn_of
from dsh_otel.replay import replay_provider, trace_session
from tests.e2e.cli import environment
from tests.e2e.driven import Model
from tests.e2e.model_server import calls, says
from tests.e2e.receivers import Sink, wait_until
from tests.e2e.rows import Row, read_rows, row_of
from tests.e2e.scenarios import NAME, SCENARIOS, Scenario
from tests.e2e.scenes import YES, bash, read
from tests.e2e.sdk_host import OTHER, ROOT, SdkHost, site_packages
from tests.e2e.spans import expected_spans
from tests.e2e.tailing import otlp, tailing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.e2e

Play = dict[str, Row]
"""Spans by trace and span id."""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Ends what a test has begun."""
    with ExitStack() as made:
        yield made


@pytest.fixture
def perform(runtime_program: Path, tmp_path: Path, stack: ExitStack) -> Callable[..., SdkHost]:
    """Plays a scenario to its end, and returns the program that it was played by."""

    def play(scenario: Scenario, **options: Any) -> SdkHost:
        folder, endpoint = tmp_path, options.pop("followed_to", None)
        if scenario.open_folder:
            folder = Path(tempfile.mkdtemp(prefix="dsh-otel-e2e-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            folder.chmod(0o755)
            if not _reaches(runtime_program):
                pytest.skip("another user does not reach the runtime here")
        model = stack.enter_context(Model())
        changes = scenario.changes
        if endpoint is not None:
            home, env = folder / "home", otlp(endpoint)
            tail = stack.enter_context(tailing(home, tmp_path, "--to", "otlp", **env))
        with SdkHost(runtime_program, folder, model, changes=changes, **options) as host:
            scenario.play(host, model)
        host.tail = None if endpoint is None else tail
        return host

    return play


def _reaches(program: Path) -> bool:
    """Whether somebody who is not root can run what lies beside an interpreter."""
    if os.geteuid() != 0:
        return True
    package = site_packages(program) / "deepseek_harness_runtime"
    look = f"test -r {package}/__init__.py"
    return subprocess.run(["/bin/sh", "-c", look], user=OTHER, check=False).returncode == 0


def of_logs(host: SdkHost) -> list[Row]:
    """Return the spans of all logs, as an export makes them."""
    exporter = InMemorySpanExporter()
    provider = replay_provider(SimpleSpanProcessor(exporter))
    for log in host.logs().values():
        trace_session(log, tracer_provider=provider, strict=True)
    return [row_of(span) for span in exporter.get_finished_spans()]


def check_tail(host: SdkHost, sink: Sink) -> None:
    """The tail path: what is followed while it is written gives the tree that the log gives."""
    assert host.tail is not None
    want = {span.key: span for span in expected_spans(host.home)}
    wait_until(lambda: len(sink.spans()) >= len(want), "all spans", log=host.tail.said)
    code, summary, _ = host.tail.stop()
    assert (code, summary["left"], summary["dropped"]) == (0, 0, 0)
    found = {span.key: span for span in sink.spans()}
    assert len(found) == len(sink.spans())
    assert found == want


def by_id(rows: list[Row]) -> Play:
    """Return spans by their ids, each of which is there once."""
    found = {f"{row['trace']}/{row['span']}": row for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_tree_is_that_of_the_log(
    perform: Callable[..., SdkHost], name: str, stack: ExitStack, tmp_path: Path
) -> None:
    scenario, sink = SCENARIOS[name], stack.enter_context(Sink())
    host = perform(scenario, followed_to=sink.endpoint)
    check_tail(host, sink)
    rows = read_rows(host.spans)
    assert by_id(rows) == by_id(of_logs(host))
    codes = {row["attributes"].get("dsh.error.code") for row in rows}
    assert scenario.codes <= codes
    assert all(any(kind in row["name"] for row in rows) for kind in scenario.kinds)
    assert {"dropped": host.counts["dropped"], "errors": host.counts["errors"]} == {
        "dropped": 0,
        "errors": 0,
    }
    assert not host.counts.get("missing")
    found = [one for row in rows for one in row["events"] if one[0] == "dsh.violation"]
    assert {one[2]["severity"] for one in found} <= {"advice"}


def test_older_releases_are_traced_too(older_program: Path, tmp_path: Path) -> None:
    release = site_packages(older_program).glob("deepseek_harness_sdk-*.dist-info")
    (version,) = (path.stem.partition("-")[2] for path in release)
    other: dict[str, object] = {"patches": None}
    with Model() as model, SdkHost(older_program, tmp_path, model) as host:
        model.add(calls(read("a"), bash("b", "echo 1")), says("y", "es", thinking="hm"), YES)
        if version == "0.1.1rc1":
            other |= {"dsh_home": None, "session_root": str(host.home / "sessions")}
        host.start(**other)
        for _ in range(2):
            assert host.run(NAME)[-1] == "turn/end"
        host.close()
    rows = read_rows(host.spans)
    assert by_id(rows) == by_id(of_logs(host))
    # The oldest comes without tools.
    codes = {row["attributes"].get("dsh.error.code") for row in rows}
    assert codes & {"FS_NOT_FOUND", "UNKNOWN_TOOL"}
    ends = [row["attributes"].get("dsh.turn.end_reason") for row in rows]
    assert [end for end in ends if end] == ["completed", "completed"]
    assert not [one for row in rows for one in row["events"] if one[0] == "dsh.violation"]


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.25, 0.6])
def test_whenever_it_is_killed_nothing_is_found_and_what_follows_is_traced(
    perform: Callable[..., SdkHost], after_s: float
) -> None:
    """What was told last may be lost, and its numbers used again."""

    def play(host: SdkHost, model: Model) -> None:
        model.when(NAME, YES, calls(bash("a", "sleep 0.2"), bash("b", "sleep 0.2")), *[YES] * 5)
        host.start()
        host.run(NAME, "hello")
        host.begin(NAME)
        time.sleep(after_s)
        host.kill()
        host.start()
        host.resume(NAME)
        host.run(NAME, "and on")
        host.close()

    host = perform(Scenario(play))
    assert host.counts["errors"] == 0
    rows = read_rows(host.spans)
    found = [one[2] for row in rows for one in row["events"] if one[0] == "dsh.violation"]
    assert [one for one in found if one["severity"] != "advice"] == []
    turns = [row for row in rows if row["name"].startswith("invoke_agent")]
    last = max(turns, key=lambda row: row["start"])
    logged = max(
        (row for row in of_logs(host) if row["name"] == last["name"]), key=lambda row: row["start"]
    )
    same = ("start", "end", "status")
    assert [last[name] for name in same] == [logged[name] for name in same]
    assert last["attributes"]["dsh.turn.end_reason"] == "completed"


class TestCallers:
    """The span of the program at the call."""

    def play(self, host: SdkHost, model: Model) -> None:
        """Run a session with a child within a span, and then once more without."""
        scenario = SCENARIOS["subagent"]
        run, host.run = host.run, lambda *a: host.run_under("mine", *a)  # type: ignore[method-assign, assignment]
        try:
            scenario.play(host, model)
        finally:
            host.run = run  # type: ignore[method-assign]

    def test_turns_link_to_it(self, perform: Callable[..., SdkHost]) -> None:
        rows = read_rows(perform(Scenario(self.play)).spans)
        mine = [[row["trace"], row["span"]] for row in rows if row["name"] == "mine"]
        turns = [row for row in rows if row["name"].startswith("invoke_agent")]
        linked = [row for row in turns if [one for one in row["links"] if one in mine]]
        own = [row["attributes"]["dsh.turn"] for row in linked if _session(row) == NAME]
        assert own[:2] == [1, 2]
        assert {_session(row) for row in linked} > {NAME}
        assert all(row["parent"] is None for row in turns)

    def test_or_are_its_children(self, perform: Callable[..., SdkHost]) -> None:
        host = perform(Scenario(self.play), options={"parent": "parent"})
        rows = read_rows(host.spans)
        mine = {row["span"]: row["trace"] for row in rows if row["name"] == "mine"}
        turns = [row for row in rows if row["name"].startswith("invoke_agent")]
        inner = [row for row in turns if row["parent"] in mine]
        assert len(inner) >= 3
        assert all(row["trace"] == mine[row["parent"]] for row in inner)
        logged = {row["span"] for row in of_logs(host)}
        assert {row["span"] for row in rows if row["name"] != "mine"} == logged


def _session(row: Row) -> str:
    found: str = row["attributes"]["gen_ai.conversation.id"]
    return found


APP: Final = """
import sys
from deepseek_harness import DeepSeekHarness

with DeepSeekHarness(base_url=sys.argv[1], api_key="x", dsh_home=sys.argv[2], cwd=sys.argv[3]) as h:
    print("said", h.run("go", session_id="s-1").final_response)
"""


LEAVES: Final = """
import sys
from deepseek_harness import DeepSeekHarness

harness = DeepSeekHarness(
    base_url=sys.argv[1], api_key="x", dsh_home=sys.argv[2], cwd=sys.argv[3]
)
harness.run("go", session_id="s-1")
sys.exit(3)
"""


class TestCommand:
    """``opentelemetry-instrument python app.py``, with nothing of ours in the program."""

    def run(
        self, runtime_program: Path, tmp_path: Path, *paths: Path, app: str = APP, **env: str
    ) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "app.py"
        file.write_text(app)
        (tmp_path / "ws").mkdir()
        every = [str(ROOT), *map(str, paths), str(site_packages(runtime_program))]
        with Model() as model:
            model.when("s-1", YES)
            return subprocess.run(
                [
                    Path(sys.executable).with_name("opentelemetry-instrument"),
                    sys.executable,
                    file,
                    model.url,
                    tmp_path / "home",
                    tmp_path / "ws",
                ],
                env=environment(
                    **{
                        "HOME": str(tmp_path),
                        "PYTHONPATH": os.pathsep.join(every),
                        "DSH_PERMISSION_MODE": "danger-full-access",
                        "OTEL_METRICS_EXPORTER": "none",
                        "OTEL_LOGS_EXPORTER": "none",
                        **env,
                    }
                ),
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )

    def test_it_traces_the_program(
        self, runtime_program: Path, distro: Path, tmp_path: Path
    ) -> None:
        done = self.run(runtime_program, tmp_path, distro, OTEL_TRACES_EXPORTER="console")
        assert done.returncode == 0, done.stderr
        assert "said yes" in done.stdout
        assert '"name": "invoke_agent dsh"' in done.stdout
        assert '"dsh.turn.end_reason": "completed"' in done.stdout
        assert '"name": "chat deepseek-v4-flash"' in done.stdout

    def test_a_program_that_leaves_its_runtime_running_ends_all_the_same(
        self, runtime_program: Path, distro: Path, tmp_path: Path
    ) -> None:
        done = self.run(
            runtime_program, tmp_path, distro, app=LEAVES, OTEL_TRACES_EXPORTER="console"
        )
        assert done.returncode == 3, done.stderr
        assert done.stdout.count('"name": "invoke_agent dsh"') == 1

    def test_its_ids_are_those_of_the_log_on_request(
        self, runtime_program: Path, distro: Path, tmp_path: Path
    ) -> None:
        settings = {"OTEL_TRACES_EXPORTER": "console", "OTEL_PYTHON_ID_GENERATOR": "dsh"}
        done = self.run(runtime_program, tmp_path, distro, **settings)
        assert done.returncode == 0, done.stderr
        trace_id, span_id = first_turn_of(NAME)
        assert f'"trace_id": "0x{trace_id:032x}"' in done.stdout
        assert f'"span_id": "0x{span_id:016x}"' in done.stdout

    def test_where_no_exporter_can_be_loaded_the_program_runs_as_ever(
        self, runtime_program: Path, distro: Path, tmp_path: Path
    ) -> None:
        """The default protocol is grpc, for which nothing is installed here."""
        done = self.run(runtime_program, tmp_path, distro)
        assert done.returncode == 0, done.stderr
        assert "said yes" in done.stdout
        assert "otlp_proto_grpc" in done.stderr

    def test_without_a_distro_it_says_so_too(self, runtime_program: Path, tmp_path: Path) -> None:
        done = self.run(runtime_program, tmp_path, OTEL_TRACES_EXPORTER="console")
        assert done.returncode == 0, done.stderr
        assert "said yes" in done.stdout
        assert done.stderr.count("no OpenTelemetry SDK is set up") == 1
        assert "opentelemetry-distro" in done.stderr

    def test_the_switch_is_honoured(
        self, runtime_program: Path, distro: Path, tmp_path: Path
    ) -> None:
        switch = {"DSH_TELEMETRY_DISABLED": "1", "OTEL_TRACES_EXPORTER": "console"}
        done = self.run(runtime_program, tmp_path, distro, **switch)
        assert done.returncode == 0, done.stderr
        assert "said yes" in done.stdout
        assert '"name":' not in done.stdout
        assert done.stderr.count("DSH_TELEMETRY_DISABLED is set") == 1
