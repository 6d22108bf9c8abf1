"""Entries of a log."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dsh_core.session import Entry
from tests.core.session.real import REAL, rows_of


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_a_row_of_the_runtime_is_written_back_as_it_was(path: Any) -> None:
    for row in rows_of(path)[1]:
        # But for the order of the envelope's keys, which is another one in repairs.
        written = msgspec.json.decode(row, type=Entry).row
        assert msgspec.json.decode(written) == msgspec.json.decode(row)
        assert len(written) == len(row)


def test_runs_of_cited_seqs_may_be_pairs() -> None:
    row = b'{"type":"a","seq":9,"time":1,"data":{},"sourceEventSeqs":[0,[2,5]]}'
    assert msgspec.json.decode(row, type=Entry).source_event_seqs == [0, [2, 5]]


def test_an_entry_cannot_be_changed() -> None:
    entry: Any = Entry("a", 0, 1, {})
    with pytest.raises(AttributeError):
        entry.seq = 1


def test_a_known_event_is_read_with_its_payload() -> None:
    event = Entry("step/start", 3, 7, {"turn": 1, "step": 2}).event
    assert (event.seq, event.time, event.data.turn, event.data.step) == (3, 7, 1, 2)


@pytest.mark.parametrize("data", [{"turn": "one"}, {"turn": 2**60}, {}, {"turn": None}])
def test_a_payload_of_a_wrong_shape_is_read_as_absent(data: dict[str, Any]) -> None:
    event = Entry("turn/start", 0, 1, data).event
    assert event.type == "turn/start"


def test_an_event_of_an_unknown_type_is_read_too() -> None:
    event = Entry("mine/thing", 0, 1, {"a": 1}, ignorable=True).event
    assert (event.type, bytes(event.ignorable)) == ("mine/thing", b"true")
