"""One session: its log, and appending to it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from dsh_core.events import SessionHeader
from dsh_core.session import DataError, Entry, Session
from dsh_core.session.session import now_ms
from tests.core.session.real import TIME, clock, log

if TYPE_CHECKING:
    from collections.abc import Sequence


def make(seed: Sequence[Entry] = ()) -> tuple[Session, list[tuple[str, int]]]:
    """Return a session, and a list of what somebody attached to it hears."""
    session = Session("s-1", seed, clock=clock)
    heard: list[tuple[str, int]] = []
    session.attach(lambda of, entry: heard.append((entry.type, of.seq)))
    return session, heard


def test_a_new_session_is_of_generation_4_and_created_now() -> None:
    session, _ = make()
    assert session.header == SessionHeader(id="s-1", version=4, created_at=TIME)
    assert session.id == "s-1"
    assert session.now() == TIME


def test_the_default_clock_says_unix_time_in_milliseconds() -> None:
    assert abs(now_ms() - time.time() * 1000) < 5000


def test_the_seed_list_is_copied_shallowly() -> None:
    seed = log(("a", {}), ("b", {}))
    session, _ = make(seed)
    first = seed[0]
    seed.clear()
    assert len(session.events) == 2
    assert session.events[0] is first


def test_no_event_of_the_seed_is_told() -> None:
    session, heard = make(log(("a", {}), ("b", {})))
    session.append("c", {})
    assert heard == [("c", 3)]


def test_seqs_continue_at_the_length_of_the_seed() -> None:
    session, _ = make(log(("a", {}), ("b", {})))
    assert session.append("c", {}).seq == 2


def test_events_is_a_view_that_grows_with_the_log() -> None:
    session, _ = make()
    view = session.events
    session.append("a", {})
    session.append("b", {})
    assert [entry.type for entry in view] == ["a", "b"]
    assert [entry.type for entry in view[1:]] == ["b"]
    assert view[-1].type == "b"


def test_events_is_a_view_that_cannot_be_changed() -> None:
    session, _ = make(log(("a", {})))
    view: Any = session.events
    with pytest.raises(TypeError):
        view[0] = None
    with pytest.raises(TypeError):
        del view[0]
    assert not hasattr(view, "append")
    view[:].clear()
    assert session.seq == 1


def test_seq_is_the_length_of_the_log_and_the_next_seq() -> None:
    session, _ = make()
    assert session.seq == 0
    assert session.append("a", {}).seq == 0
    assert session.seq == 1


def test_append_builds_type_seq_time_data_and_returns_the_event() -> None:
    session, _ = make()
    entry = session.append("a", {"b": 1})
    assert entry == Entry("a", 0, TIME, {"b": 1})
    assert session.events[0] is entry


def test_append_writes_what_else_an_envelope_of_generation_4_has() -> None:
    session, _ = make()
    session.append("a", {})
    entry = session.append("b", {}, surface_op="append", source_event_seqs=(0,), ignorable=True)
    assert entry.row == (
        b'{"type":"b","seq":1,"time":1790000000000,"data":{},'
        b'"sourceEventSeqs":[0],"surfaceOp":"append","ignorable":true}'
    )


def test_append_pushes_the_event_first_and_then_tells() -> None:
    session, heard = make()
    session.append("a", {})
    # The log was one event long when it was told.
    assert heard == [("a", 1)]


def test_data_is_not_copied() -> None:
    session, _ = make()
    data = {"a": [1]}
    assert session.append("a", data).data is data


def test_what_a_listener_raises_reaches_the_appender_and_the_event_stays() -> None:
    session, _ = make()

    def refuse(_session: Session, _entry: Entry) -> None:
        raise ValueError("no")

    session.attach(refuse)
    with pytest.raises(ValueError, match=r"^no$"):
        session.append("a", {})
    assert [entry.type for entry in session.events] == ["a"]
    session.attach(None)
    assert session.append("b", {}).seq == 1


# Not so in the original, which validates nothing: what is logged can be written and read.


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ([], "data is no mapping"),
        (None, "data is no mapping"),
        ({"a": {"b": (1,)}}, "data.a.b is of type tuple, which JSON does not have"),
        ({"a": [1, float("nan")]}, "data.a[1] is nan, which JSON cannot say"),
    ],
)
def test_data_that_is_no_plain_json_is_refused_by_its_path_and_nothing_is_logged(
    data: object, problem: str
) -> None:
    session, heard = make()
    with pytest.raises(DataError) as caught:
        session.append("a", data)
    assert str(caught.value) == problem
    assert session.seq == 0
    assert heard == []


@pytest.mark.parametrize(
    ("kind", "options", "problem"),
    [
        ("", {}, "type is no text of 1 to 256 characters"),
        ("x" * 257, {}, "type is no text of 1 to 256 characters"),
        (5, {}, "type is no text of 1 to 256 characters"),
        ("\ud800", {}, "type holds half a character (a lone surrogate)"),
        (
            "a",
            {"surface_op": {"op": {1}}},
            "surfaceOp.op is of type set, which JSON does not have",
        ),
        (
            "a",
            {"source_event_seqs": [0, 2**53]},
            "sourceEventSeqs[1] is an integer beyond 2^53 - 1",
        ),
        (
            "a",
            {"source_event_seqs": range(2**18 + 1)},
            "sourceEventSeqs has more than 262144 items",
        ),
    ],
)
def test_an_envelope_that_cannot_be_written_is_refused_and_nothing_is_logged(
    kind: Any, options: dict[str, Any], problem: str
) -> None:
    session, heard = make()
    with pytest.raises(DataError) as caught:
        session.append(kind, {}, **options)
    assert str(caught.value) == problem
    assert (session.seq, heard) == (0, [])


def test_an_entry_is_read_for_checks_once_while_it_is_the_newest() -> None:
    session, _ = make()
    first, second = session.append("turn/start", {"turn": 1}), session.append("x", {})
    assert session.event_of(second) is session.event_of(second)
    assert session.event_of(first).data.turn == 1


def test_messages_are_derived_from_the_whole_log() -> None:
    session, _ = make(log(("user/message", {"content": []})))
    assert session.derive_messages() == [{"role": "user", "content": []}]


def test_what_plugins_keep_is_nothing_at_first() -> None:
    assert make()[0].kept == {}


def test_the_longest_line_that_append_lets_through_is_one_that_readers_read_whole() -> None:
    session, _ = make()
    with pytest.raises(DataError, match=r"^data is larger than 24 MiB as JSON$"):
        session.append("a", {"text": "x" * (24 << 20)})
    assert len(msgspec.json.encode(list(range(2**53 - 2**18, 2**53)))) < 5 << 20
