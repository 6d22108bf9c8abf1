"""`DshInstrumentor`, with a fake of the SDK; see `tests.otel.fake_sdk`."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import wrapt
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from packaging.requirements import Requirement
from pydantic import ValidationError

from dsh_otel.instrumentor import DshInstrumentor
from dsh_otel.names import Attr
from dsh_otel.processors.invariants import InvariantSpanProcessor
from dsh_otel.replay import replay_provider
from dsh_otel.sources import sdk
from tests.otel import fake_sdk
from tests.otel.fake_sdk import HarnessConfig
from tests.otel.sources.driving import home, notifications, offline, shown
from tests.otel.support import attributes, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import ReadableSpan

    from tests.otel.conftest import Logged


@pytest.fixture(autouse=True)
def package(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package of the fake SDK, as the one that is installed."""
    modules = fake_sdk.make()
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delenv("DSH_HOME", raising=False)
    monkeypatch.delenv("DSH_TELEMETRY_DISABLED", raising=False)
    return modules["deepseek_harness"]


@pytest.fixture(autouse=True)
def release(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The release that is installed; it may be changed."""
    installed = {"version": "0.2.1rc2"}

    def version(name: str) -> str:
        assert name == sdk.DISTRIBUTION
        return installed["version"]

    monkeypatch.setattr(sdk, "version", version)
    monkeypatch.setattr("opentelemetry.instrumentation.dependencies.version", version)
    return installed


class Spans:
    """A provider of ours and what it got."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = replay_provider(SimpleSpanProcessor(self._exporter))

    @property
    def all(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
def instrumentor() -> Iterator[DshInstrumentor]:
    made = DshInstrumentor()
    yield made
    if made.is_instrumented_by_opentelemetry:
        made.uninstrument()


def config(name: str = "text", **more: Any) -> HarnessConfig:
    return HarnessConfig(dsh_home=str(home(name)), script=notifications(name), **more)


def session(name: str = "text") -> str:
    found: str = notifications(name)[0]["payload"]["sessionId"]
    return found


def methods(package: Any) -> dict[str, int]:
    """Return what stands in the client's class; a wrapper equals what it wraps, but is not it."""
    return {name: id(value) for name, value in vars(package.HarnessClient).items()}


def test_it_can_be_found_by_its_entry_point() -> None:
    (found,) = entry_points(group="opentelemetry_instrumentor", name="dsh")
    assert found.load() is DshInstrumentor


class TestRuns:
    """Whatever a program does, its runs are traced, and it notices nothing."""

    @pytest.mark.parametrize("name", ["text", "subagent", "crash", "fs-errors"])
    def test_a_run_gives_the_tree_of_its_log(
        self, package: Any, spans: Spans, instrumentor: DshInstrumentor, name: str
    ) -> None:
        instrumentor.instrument(tracer_provider=spans.provider)
        with package.DeepSeekHarness(config(name)) as harness:
            harness.run("go", session_id=session(name))
        instrumentor.uninstrument()
        assert shown(spans.all) == shown(offline(home(name)))

    def test_callbacks_of_the_program_get_everything_and_may_do_anything(
        self, package: Any, spans: Spans, instrumentor: DshInstrumentor
    ) -> None:
        instrumentor.instrument(tracer_provider=spans.provider)
        told: list[str] = []

        def spoil(notification: Any) -> None:
            told.append(notification.method)
            notification.payload.clear() if len(told) < 9 else None

        with package.DeepSeekHarness(config()) as harness:
            harness.run("go", session_id=session(), on_notification=spoil)
        instrumentor.uninstrument()
        assert len(told) == len(notifications("text"))
        assert shown(spans.all) == shown(offline(home("text")))

    def test_what_a_program_raises_is_its_own(
        self, package: Any, spans: Spans, instrumentor: DshInstrumentor
    ) -> None:
        instrumentor.instrument(tracer_provider=spans.provider)

        def fail(_: object) -> None:
            raise KeyError("mine")

        with package.DeepSeekHarness(config()) as harness, pytest.raises(KeyError, match="mine"):
            harness.run("go", session_id=session(), on_notification=fail)
        with pytest.raises(EOFError, match="not running"):
            package.HarnessClient().session_prompt("s", [])
        instrumentor.uninstrument()
        assert len(spans.all) == 3

    def test_a_program_that_takes_notifications_itself_gets_them(
        self, package: Any, spans: Spans, instrumentor: DshInstrumentor
    ) -> None:
        instrumentor.instrument(tracer_provider=spans.provider)
        client = package.HarnessClient(config())
        client.start()
        client.session_prompt(session(), [])
        got = [client.next_notification().method for _ in notifications("text")]
        client.close()
        instrumentor.uninstrument()
        assert got == [one["method"] for one in notifications("text")]
        assert len(spans.all) == 3

    def test_a_client_that_has_been_started_before_is_traced_too(
        self, package: Any, spans: Spans, instrumentor: DshInstrumentor
    ) -> None:
        with package.DeepSeekHarness(config()) as harness:
            instrumentor.instrument(tracer_provider=spans.provider)
            harness.run("go", session_id=session())
        instrumentor.uninstrument()
        assert len(spans.all) == 3

    def test_a_client_that_is_started_again_is_traced_again(
        self, package: Any, spans: Spans, instrumentor: DshInstrumentor
    ) -> None:
        instrumentor.instrument(tracer_provider=spans.provider)
        harness = package.DeepSeekHarness(config())
        for name in ("text", "fs-errors"):
            harness.client.config = config(name)
            harness.client._script = notifications(name)
            with harness:
                harness.run("go", session_id=session(name))
        instrumentor.uninstrument()
        assert len(named(spans.all, "invoke_agent")) == 2

    @pytest.mark.parametrize(("parent", "linked"), [("link", True), ("parent", False)])
    def test_the_span_of_the_program_is_a_link_or_the_parent(
        self,
        package: Any,
        spans: Spans,
        instrumentor: DshInstrumentor,
        parent: str,
        linked: bool,
    ) -> None:
        instrumentor.instrument(tracer_provider=spans.provider, parent=parent)
        with (
            package.DeepSeekHarness(config()) as harness,
            TracerProvider().get_tracer("program").start_as_current_span("mine") as mine,
        ):
            harness.run("go", session_id=session())
        instrumentor.uninstrument()
        (turn,) = named(spans.all, "invoke_agent")
        caller = mine.get_span_context()
        if linked:
            assert [link.context for link in turn.links] == [caller]
            assert turn.parent is None
        else:
            assert turn.parent == caller
            assert {span.context.trace_id for span in spans.all if span.context} == {
                caller.trace_id
            }

    def test_a_flush_leaves_open_turns_open(
        self, package: Any, spans: Spans, instrumentor: DshInstrumentor
    ) -> None:
        instrumentor.instrument(tracer_provider=spans.provider)
        client = package.HarnessClient(config())
        client._script = client._script[:12]
        client.start()
        client.session_prompt(session(), [])
        assert instrumentor.flush(10)
        assert spans.all == []
        client.close()
        assert instrumentor.flush(10)
        assert len(spans.all) == 3

    def test_what_finds_no_room_is_counted_and_read_from_the_log(
        self, package: Any, spans: Spans, instrumentor: DshInstrumentor, logged: Logged
    ) -> None:
        instrumentor.instrument(tracer_provider=spans.provider, max_queued=1)
        with package.DeepSeekHarness(config("fs-errors")) as harness:
            harness.run("go", session_id=session("fs-errors"))
            instrumentor.flush(10)
        assert instrumentor.flush(10)
        counts = dict(instrumentor.counts)
        instrumentor.uninstrument()
        assert counts["dropped"] > 0
        assert len(logged.take()) == 1
        assert {k: v[0] for k, v in shown(spans.all).items()} == {
            k: v[0] for k, v in shown(offline(home("fs-errors"))).items()
        }


class TestPatches:
    """What is done to the SDK, and undone."""

    def test_uninstrument_restores_everything(
        self, package: Any, spans: Spans, instrumentor: DshInstrumentor
    ) -> None:
        before = methods(package)
        instrumentor.instrument(tracer_provider=spans.provider)
        assert methods(package) != before
        instrumentor.uninstrument()
        assert methods(package) == before

    @pytest.mark.parametrize("way", ["wrapt", "twice", "closure"])
    def test_even_where_somebody_has_wrapped_on_top(
        self, package: Any, spans: Spans, instrumentor: DshInstrumentor, way: str
    ) -> None:
        client, calls = package.HarnessClient, []
        instrumentor.instrument(tracer_provider=spans.provider)
        if way != "closure":

            def theirs(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
                calls.append(1)
                return wrapped(*args, **kwargs)

            for _ in range(2 if way == "twice" else 1):
                wrapt.wrap_function_wrapper(client, "session_prompt", theirs)
        else:
            ours = client.session_prompt

            def outer(*args: Any, **kwargs: Any) -> Any:
                calls.append(1)
                return ours(*args, **kwargs)

            client.session_prompt = outer
        instrumentor.uninstrument()
        with package.DeepSeekHarness(config()) as harness:
            harness.run("go", session_id=session())
        assert len(calls) == (2 if way == "twice" else 1)
        if way != "closure":
            layers = [client.__dict__["session_prompt"]]
            while hasattr(layers[-1], "__wrapped__"):
                layers.append(layers[-1].__wrapped__)
            assert len(layers) == len(calls) + 1
        assert spans.all == []

    def test_twice_is_harmless(
        self, package: Any, spans: Spans, instrumentor: DshInstrumentor, logged: Logged
    ) -> None:
        before = methods(package)
        for _ in range(2):
            instrumentor.instrument(tracer_provider=spans.provider)
        with package.DeepSeekHarness(config()) as harness:
            harness.run("go", session_id=session())
        instrumentor.uninstrument()
        instrumentor.uninstrument()
        assert len(logged.take()) == 2
        assert len(spans.all) == 3
        assert methods(package) == before

    def test_it_can_begin_again(
        self, package: Any, spans: Spans, instrumentor: DshInstrumentor
    ) -> None:
        instrumentor.instrument(tracer_provider=spans.provider)
        instrumentor.uninstrument()
        instrumentor.instrument(tracer_provider=spans.provider)
        with package.DeepSeekHarness(config()) as harness:
            harness.run("go", session_id=session())
        instrumentor.uninstrument()
        assert len(spans.all) == 3

    def test_no_client_is_kept_alive(
        self, package: Any, spans: Spans, instrumentor: DshInstrumentor
    ) -> None:
        import gc
        import weakref

        instrumentor.instrument(tracer_provider=spans.provider)
        client = package.HarnessClient(config())
        client.start()
        kept = weakref.ref(client)
        del client
        gc.collect()
        assert kept() is None


class TestSettings:
    """What is checked at the start."""

    @pytest.mark.parametrize(
        "wrong",
        [{"tracer_provider": 3}, {"parent": "x"}, {"redact": 3}, {"unknown": 1}, {"wait_s": -1}],
        ids=lambda one: next(iter(one)),
    )
    def test_wrong_ones_are_refused(
        self, package: Any, instrumentor: DshInstrumentor, wrong: dict[str, Any]
    ) -> None:
        before = methods(package)
        with pytest.raises(ValidationError, match=next(iter(wrong))):
            instrumentor.instrument(**wrong)
        assert methods(package) == before

    def test_what_all_instrumentors_are_given_is_taken(
        self, spans: Spans, instrumentor: DshInstrumentor
    ) -> None:
        more = {"meter_provider": object(), "logger_provider": object()}
        instrumentor.instrument(tracer_provider=spans.provider, **more)

    @pytest.mark.parametrize("content", [False, True])
    def test_content_stays_unless_it_is_asked_for(
        self, package: Any, spans: Spans, instrumentor: DshInstrumentor, content: bool
    ) -> None:
        instrumentor.instrument(tracer_provider=spans.provider, content=content)
        with package.DeepSeekHarness(config()) as harness:
            harness.run("go", session_id=session())
        instrumentor.uninstrument()
        (turn,) = named(spans.all, "invoke_agent")
        assert (Attr.INPUT_MESSAGES in attributes(turn)) is content

    def test_logs_may_be_said_to_lie_elsewhere(
        self, package: Any, spans: Spans, instrumentor: DshInstrumentor
    ) -> None:
        instrumentor.instrument(tracer_provider=spans.provider, home=home("subagent"))
        made = config("subagent")
        made.dsh_home = None
        with package.DeepSeekHarness(made) as harness:
            harness.run("go", session_id=session("subagent"))
        instrumentor.uninstrument()
        assert shown(spans.all) == shown(offline(home("subagent")))

    @pytest.mark.parametrize("mine", [True, False])
    def test_processors_may_be_chosen_and_know_a_stream_when_they_see_one(
        self,
        package: Any,
        spans: Spans,
        instrumentor: DshInstrumentor,
        tmp_path: Path,
        mine: bool,
    ) -> None:
        found: list[str] = []
        checking = InvariantSpanProcessor(on_finding=lambda one, _: found.append(one.rule))
        if mine:
            instrumentor.instrument(
                tracer_provider=spans.provider, processors=(checking,), home=tmp_path, wait_s=0
            )
        else:
            spans.provider.add_span_processor(checking)
            instrumentor.instrument(tracer_provider=spans.provider, home=tmp_path, wait_s=0)
        for name in ("crash", "denied-read"):
            with package.DeepSeekHarness(config(name)) as harness:
                harness.run("go", session_id=session(name))
        instrumentor.uninstrument()
        assert found == ["tool.error-uncoded"] * 2

    def test_a_redactor_sees_what_leaves(
        self, package: Any, spans: Spans, instrumentor: DshInstrumentor
    ) -> None:
        instrumentor.instrument(tracer_provider=spans.provider, redact=lambda name, _: name)
        with package.DeepSeekHarness(config()) as harness:
            harness.run("go", session_id=session())
        instrumentor.uninstrument()
        assert attributes(spans.all[0])[Attr.CONVERSATION] == Attr.CONVERSATION

    @pytest.mark.parametrize("value", ["1", "true", "yes"])
    def test_the_switch_is_honoured_and_told(
        self,
        package: Any,
        spans: Spans,
        instrumentor: DshInstrumentor,
        logged: Logged,
        monkeypatch: pytest.MonkeyPatch,
        value: str,
    ) -> None:
        monkeypatch.setenv("DSH_TELEMETRY_DISABLED", value)
        before = methods(package)
        instrumentor.instrument(tracer_provider=spans.provider)
        assert methods(package) == before
        assert instrumentor.counts == {}
        assert instrumentor.flush()
        assert logged.take() == ["DSH_TELEMETRY_DISABLED is set: dsh sessions are not traced"]

    def test_without_an_sdk_of_opentelemetry_it_says_once_what_to_do(
        self, package: Any, instrumentor: DshInstrumentor, logged: Logged
    ) -> None:
        assert not isinstance(trace.get_tracer_provider(), TracerProvider)
        instrumentor.instrument()
        for _ in range(2):
            with package.DeepSeekHarness(config()) as harness:
                assert harness.client._subscribers == {}
        (message,) = logged.take()
        assert "trace.set_tracer_provider()" in message
        assert "OTEL_EXPORTER_OTLP_PROTOCOL" in message

    def test_a_global_provider_may_come_later(
        self,
        package: Any,
        spans: Spans,
        instrumentor: DshInstrumentor,
        logged: Logged,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        instrumentor.instrument()
        with package.DeepSeekHarness(config()) as harness:
            monkeypatch.setattr(trace, "get_tracer_provider", lambda: spans.provider)
            harness.run("go", session_id=session())
        instrumentor.uninstrument()
        assert len(spans.all) == 3
        assert len(logged.take()) == 1


class TestReleases:
    """Which releases of the SDK are instrumented."""

    @pytest.mark.parametrize(
        ("version", "fits"),
        [
            ("0.1.0", False),
            ("0.1.1rc1", True),
            ("0.1.2rc1", True),
            ("0.1.5rc1", True),
            ("0.2.1rc2", True),
            ("0.2.1", True),
            ("0.3.0rc1", False),
            ("0.3.0", False),
        ],
    )
    def test_the_range(self, instrumentor: DshInstrumentor, version: str, fits: bool) -> None:
        (needed,) = instrumentor.instrumentation_dependencies()
        assert Requirement(needed).specifier.contains(version) is fits

    def test_another_is_left_alone_and_named(
        self,
        package: Any,
        spans: Spans,
        instrumentor: DshInstrumentor,
        release: dict[str, str],
        logged: Logged,
    ) -> None:
        release["version"] = "0.3.0"
        before = methods(package)
        instrumentor.instrument(tracer_provider=spans.provider)
        assert methods(package) == before
        (message,) = logged.take()
        assert sdk.SUPPORTED in message
        assert f"{sdk.DISTRIBUTION} 0.3.0" in message

    @pytest.mark.parametrize("missing", ["HarnessClient", "session_prompt"])
    def test_one_that_has_changed_inside_is_too(
        self,
        package: Any,
        spans: Spans,
        instrumentor: DshInstrumentor,
        logged: Logged,
        missing: str,
    ) -> None:
        owner = package.client if missing == "HarnessClient" else package.HarnessClient
        delattr(owner, missing)
        instrumentor.instrument(tracer_provider=spans.provider)
        (message,) = logged.take()
        assert message.startswith(
            "dsh sessions are not traced: deepseek-harness-sdk 0.2.1rc2 lacks"
        )
        assert missing in message

    @pytest.mark.parametrize(
        ("version", "kind"),
        [("0.1.1rc1", 0), ("0.1.2rc1", 0), ("0.1.5rc1", 3), ("0.2.1rc2", 4), ("0.2.0", 4)],
    )
    def test_each_writes_a_generation(
        self, release: dict[str, str], version: str, kind: int
    ) -> None:
        release["version"] = version
        assert sdk._format() == kind


def test_where_logs_are_is_taken_from_the_client_or_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "a"))
    assert sdk._sessions_root(None) == tmp_path / "a" / "sessions"
    made = HarnessConfig(env={"DSH_HOME": str(tmp_path / "b")})
    assert sdk._sessions_root(made) == tmp_path / "b" / "sessions"
    made.dsh_home = str(tmp_path / "c")
    assert sdk._sessions_root(made) == tmp_path / "c" / "sessions"
    made.env = {"DSH_SESSION_ROOT": str(tmp_path / "d")}
    assert sdk._sessions_root(made) == tmp_path / "d"
    monkeypatch.delenv("DSH_HOME")
    assert sdk._sessions_root(None) is None


def test_without_its_extra_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['opentelemetry.instrumentation'] = None\n"
        "import dsh_otel.instrumentor"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=_ROOT
    )
    assert done.returncode == 1
    assert "to instrument programs: pip install" in done.stderr


_ROOT = Path(__file__).parents[2]
