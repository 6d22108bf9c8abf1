"""OTLP logs of the harness's telemetry plugin."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.faults import Fault
from dsh_core.logs.otlp_json import MAX_NESTING, plain, told_by_request
from dsh_core.logs.told import Aside, Told
from tests.paths import DECODED, OTLP

AUGUST = OTLP / "old-0.1.2rc1--otlp.otlp1.json"
OCTOBER = OTLP / "otlp.request1.json"


def attribute(key: str, value: Any) -> dict[str, Any]:
    kind = "intValue" if isinstance(value, int) else "stringValue"
    return {"key": key, "value": {kind: value}}


def request(*records: Any, scope: str = "s", release: str = "0.1.2-rc.1") -> dict[str, Any]:
    resource = {"attributes": [attribute("service.version", release)]}
    scoped = {"scope": {"name": scope}, "logRecords": list(records)}
    return {"resourceLogs": [{"resource": resource, "scopeLogs": [scoped]}]}


def record(body: Any = None, **values: Any) -> dict[str, Any]:
    named = {key.replace("_", "."): value for key, value in values.items()}
    known = {"session.id": "s-1", "event.type": "turn/start", "event.seq": 3} | named
    attributes = [attribute(key, value) for key, value in known.items() if value is not None]
    return {"timeUnixNano": "5000000", "attributes": attributes, "body": body}


def one(*records: Any, **more: Any) -> Told | Aside | Fault:
    (found,) = told_by_request(request(*records, **more))
    return found


@pytest.mark.parametrize("path", [AUGUST, OCTOBER], ids=["august", "october"])
def test_what_was_exported_is_what_the_log_holds(path: Any) -> None:
    name = path.name.split(".otlp1")[0].split(".request1")[0]
    rows = map(json.loads, (DECODED / f"{name}.jsonl").read_bytes().splitlines())
    logged = {row["seq"]: row for row in rows if "seq" in row}
    events = [
        found.event
        for found in told_by_request(json.loads(path.read_bytes()))
        if isinstance(found, Told)
    ]
    compared = [event for event in events if event["seq"] in logged]
    assert len(compared) > 15
    for event in compared:
        wanted = logged[event["seq"]]
        assert {key: event[key] for key in ("type", "seq")} == {
            key: wanted[key] for key in ("type", "seq")
        }
        assert event["data"].keys() == wanted["data"].keys()


def test_what_is_about_the_process_is_no_event() -> None:
    found = list(told_by_request(json.loads(AUGUST.read_bytes())))
    kinds = Counter(one.kind for one in found if isinstance(one, Aside))
    assert kinds == {"agent-error": 1, "shutdown": 1}
    assert not any(isinstance(one, Fault) for one in found)


def test_an_event_whose_text_was_left_out_is_none() -> None:
    assert one(record(content="[long text]")) == Aside("elided", "s-1")


@pytest.mark.parametrize("seq", [7, "7"])
def test_an_integer_may_come_as_a_text(seq: int | str) -> None:
    event = record({"kvlistValue": {"values": [{"key": "turn", "value": {"intValue": seq}}]}})
    found = one(event)
    assert isinstance(found, Told)
    assert found.event == {"type": "turn/start", "seq": 3, "time": 5, "data": {"turn": 7}}


@pytest.mark.parametrize(
    ("release", "version"),
    [("0.1.0rc6", 0), ("0.1.5rc1", 3), ("0.2.1-rc.2", 4), ("12.0.0", 4), ("odd", None)],
)
def test_the_release_tells_the_generation(release: str, version: int | None) -> None:
    found = one(record(), release=release)
    assert isinstance(found, Told)
    assert found.header.version == version


def test_the_generation_may_be_told_outright() -> None:
    found = one(record(session_format_version=4) | {}, release="0.1.2")
    assert isinstance(found, Told)
    assert found.header.version in {0, 4}


@pytest.mark.parametrize(
    ("odd", "kind"),
    [
        (record(session_id=None), Fault),
        (record(session_id="x" * 5000), Fault),
        (record(content="{"), Fault),
        (record(content=3), Fault),
        (record(content="{" * 5000), Fault),
        (record(content="[1]"), Aside),
        ({"attributes": []}, Aside),
        ({}, Aside),
        (None, Fault),
        ([], Fault),
        (3, Fault),
    ],
)
def test_what_is_no_event_is_told_apart(odd: Any, kind: type) -> None:
    assert isinstance(one(odd), kind)


def test_a_value_that_is_nested_too_deeply_costs_its_record_alone() -> None:
    deep: Any = {"stringValue": "x"}
    for _ in range(MAX_NESTING + 2):
        deep = {"arrayValue": {"values": [deep]}}
    first, second = told_by_request(request(record(deep), record()))
    assert isinstance(first, Fault)
    assert isinstance(second, Told)


KEYS = (
    *("resourceLogs", "scopeLogs", "logRecords", "scope", "resource", "attributes"),
    *("key", "value", "values", "body", "intValue", "kvlistValue", "arrayValue", "doubleValue"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_document_tells_something(document: Any) -> None:
    for found in told_by_request(document):
        assert isinstance(found, Told | Aside | Fault)
    plain(document)
