"""Following logs as a process: killed, stopped, without a receiver, beside many sessions."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from tests import paths
from tests.e2e import cli, logs
from tests.e2e.receivers import HOST, Sink, free_ports, wait_until
from tests.e2e.spans import expected_spans
from tests.e2e.tailing import Tailing, otlp, tailing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.e2e.spans import Span

pytestmark = pytest.mark.e2e

SOURCES: Final = sorted(paths.HOMES.rglob("session.v4.jsonl.zstd"))

KILLS: Final = 20


class Writer(threading.Thread):
    """Writes copies of logs bit by bit, side by side.

    Args:
        root: The folder that they come to lie in.
        sources: The logs.
        seed: What the sizes of the bits depend on.
    """

    def __init__(self, root: Path, sources: Sequence[Path], seed: str) -> None:
        super().__init__(daemon=True)
        self._random = random.Random(seed)
        self._left = {}
        self.done = 0
        self.total = 0
        for source in sources:
            target = root / "sessions" / source.parent.parent.name / source.parent.name
            target.mkdir(parents=True)
            data = source.read_bytes()
            self.total += len(data)
            self._left[target / source.name] = data

    def wait_for(self, size: int) -> None:
        """Wait until so many bytes are written, or all are."""
        wait_until(lambda: self.done >= min(size, self.total), f"{size} bytes")

    def run(self) -> None:
        while self._left:
            path = self._random.choice(list(self._left))
            size = self._random.choice([7, 70, 700, 3000])
            data = self._left[path]
            with path.open("ab") as file:
                file.write(data[:size])
            self.done += len(data[:size])
            self._left[path] = data[size:]
            if not self._left[path]:
                del self._left[path]
            # A pace, not a wait for something.
            time.sleep(0.002)


def write_turns(root: Path, count: int) -> Path:
    folder = root / "sessions" / "--p--" / "many"
    folder.mkdir(parents=True)
    return logs.write(folder / "many.jsonl", logs.turns(count))


def expected(root: Path) -> dict[tuple[str, str], Span]:
    return {span.key: span for span in expected_spans(root)}


def of_turns(spans: Sequence[Span]) -> Counter[tuple[str, str]]:
    return Counter(span.key for span in spans if span.name.startswith("invoke_agent"))


def unique(sources: Sequence[Path]) -> list[Path]:
    """Return logs of different sessions."""
    return list({path.parent.name: path for path in sources}.values())


def test_killed_at_random_points_it_sends_every_turn(tmp_path: Path) -> None:
    state, rng = tmp_path / "state", random.Random("kill")
    (tmp_path / "home").mkdir()
    writer = Writer(tmp_path / "home", unique(SOURCES), "write")
    options = ("--to", "otlp", "--state", state, "--timeout", "20")
    with Sink() as sink:
        for kill in range(KILLS):
            made = Tailing(tmp_path / "home", tmp_path, *options, **otlp(sink.endpoint))
            made.wait_until_ready()
            if not kill:
                writer.start()
            writer.wait_for(writer.done + rng.randrange(writer.total // (2 * KILLS)))
            made.kill()
        writer.join()
        with tailing(tmp_path / "home", tmp_path, *options, **otlp(sink.endpoint)) as last:
            want = expected(tmp_path / "home")
            wait_until(lambda: {one.key for one in sink.spans()} >= closed(want), "all spans")
            code, summary, _ = last.stop()
        assert (code, summary["left"], summary["dropped"]) == (0, 0, 0)
        spans = sink.spans()
    found = {span.key: span for span in spans}
    assert {key: found[key] for key in closed(want)} == {key: want[key] for key in closed(want)}
    # What was sent and not noted yet when it was killed is sent again, as the same span.
    again = {key: count for key, count in of_turns(spans).items() if count > 1}
    assert sum(again.values()) - len(again) <= KILLS
    assert all(found[span.key] == span for span in spans)


def closed(spans: dict[tuple[str, str], Span]) -> set[tuple[str, str]]:
    """Return the spans that the logs close themselves."""
    traces = {key[0] for key, span in spans.items() if "dsh.span.unclosed" in span.attributes}
    return {key for key in spans if key[0] not in traces}


def test_an_open_turn_is_told_to_the_receiver_at_once(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    log = next(path for path in SOURCES if path.parent.name == "crash-1")
    with (
        Sink() as sink,
        tailing(tmp_path / "home", tmp_path, "--to", "otlp", **otlp(sink.endpoint)),
    ):
        Writer(tmp_path / "home", [log], "open").run()

        def told() -> bool:
            return any(
                request.path == "/v1/logs" and b"dsh.turn.started" in request.body
                for request in list(sink.requests)
            )

        wait_until(told, "a log event")


def test_a_second_follower_does_not_take_the_same_state(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with tailing(tmp_path / "home", tmp_path, "--state", tmp_path / "state"):
        done = cli.run("tail", tmp_path / "home", "--state", tmp_path / "state")
        assert done.returncode == 2
        assert "in use" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("kept", [True, False])
def test_a_dead_endpoint_costs_five_seconds_at_the_end(
    number: int, kept: bool, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    (tmp_path / "home").mkdir()
    writer = Writer(tmp_path / "home", SOURCES[:1], "dead")
    options = ("--to", "otlp", *(("--state", tmp_path / "state") if kept else ()))
    with tailing(tmp_path / "home", tmp_path, *options, **otlp(f"http://{HOST}:{port}")) as made:
        writer.run()
        made.wait_for("dsh.turn.ended")
        code, summary, seconds = made.stop(number)
    assert code == 1
    assert seconds < 7
    assert summary["sent"] == summary["dropped"] == 0
    assert summary["left"] > 0
    said = made.said.read_text()
    assert ("after a restart" in said) is kept
    assert f"{summary['left']} left" in said


def test_a_receiver_that_never_answers_does_not_hold_it_up(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with (
        Sink(mute=True) as sink,
        tailing(tmp_path / "home", tmp_path, "--to", "otlp", **otlp(sink.endpoint)) as made,
    ):
        Writer(tmp_path / "home", SOURCES[:1], "mute").run()
        made.wait_for("dsh.turn.ended")
        code, summary, seconds = made.stop()
    assert (code, summary["sent"]) == (1, 0)
    assert seconds < 7


def test_what_was_left_is_sent_when_the_receiver_is_back(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    state = ("--to", "otlp", "--state", tmp_path / "state")
    with (
        Sink(status=503) as sink,
        tailing(tmp_path / "home", tmp_path, *state, **otlp(sink.endpoint)) as made,
    ):
        Writer(tmp_path / "home", SOURCES[:2], "back").run()
        made.wait_for("dsh.turn.ended")
        wait_until(lambda: bool(sink.requests), "a request")
        sink.status = 200
        sink.requests.clear()
        want = expected(tmp_path / "home")
        wait_until(lambda: {one.key for one in sink.spans()} >= closed(want), "all spans")
        code, summary, _ = made.stop()
    assert (code, summary["left"]) == (0, 0)


def test_nobody_reads_the_lines_any_more(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    said = tmp_path / "said"
    with said.open("wb") as err:
        process = cli.start("tail", tmp_path / "home", env={}, stderr=err)
    with process:
        wait_until(lambda: b"following" in said.read_bytes(), "the tail")
        assert process.stdout is not None
        process.stdout.close()
        Writer(tmp_path / "home", SOURCES[:1], "pipe").run()
        assert process.wait(30) == 141


def test_a_folder_can_be_named_as_people_do(tmp_path: Path) -> None:
    (tmp_path / "h").mkdir()
    said, lines = tmp_path / "said", tmp_path / "lines"
    with said.open("wb") as err, lines.open("wb") as out:
        process = cli.start("tail", "h", "--jsonl", env={}, stdout=out, stderr=err, cwd=tmp_path)
    with process:
        wait_until(lambda: b"following" in said.read_bytes(), "the tail")
        Writer(tmp_path / "h", SOURCES[:1], "relative").run()
        wait_until(lambda: b"dsh.turn.ended" in lines.read_bytes(), "a turn", deadline=8)
        process.terminate()
        assert process.wait(30) == 0


def test_a_reader_that_stalls_does_not_hold_the_end_up(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    log = write_turns(tmp_path / "home", 3000)
    process = cli.start("tail", tmp_path / "home", "--from-start", "--jsonl", env={})
    with process:
        assert process.stderr is not None
        while b"following" not in process.stderr.readline():
            assert process.poll() is None
        begin = time.monotonic()
        process.terminate()
        assert process.wait(30) == 1
        assert time.monotonic() - begin < 8
        assert b"standard output" in process.stderr.read()
    assert log.exists()


def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        made = Tailing(tmp_path / "home", tmp_path)
    finally:
        signal.signal(signal.SIGHUP, before)
    made.wait_until_ready()
    made.process.send_signal(signal.SIGHUP)
    Writer(tmp_path / "home", SOURCES[:1], "hup").run()
    made.wait_for("dsh.turn.ended")
    assert made.stop()[0] == 0


def test_telemetry_that_is_switched_off_stays_off(tmp_path: Path) -> None:
    for arguments in (("tail", tmp_path), ("tail", tmp_path, "--to", "otlp")):
        done = cli.run(*arguments, DSH_TELEMETRY_DISABLED="1")
        assert (done.returncode, done.stdout) == (0, "")
        assert "DSH_TELEMETRY_DISABLED" in done.stderr
