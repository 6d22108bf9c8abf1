"""Tests of what findings quote: anything in a log may be what a person or a model wrote."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from dsh_core.check import check_session
from dsh_core.contract import example_logs
from dsh_core.contract.catalogue import CATALOGUE
from dsh_core.shrink import InMemory

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

WORDS = "what somebody wrote"
IDS = frozenset({"id", "callId", "toolCallId", "subCallId", "name", "code", "type"})
PLAIN = sorted(
    id_
    for id_ in CATALOGUE.entries
    if (path := example_logs.path(id_)).exists()
    and path.suffix == ".jsonl"
    and not id_.startswith("line.")
)


def _replaced(value: Any, keys: AbstractSet[str], key: str = "") -> Any:
    """Return JSON with words in front of each text, or of those under some keys."""
    if isinstance(value, dict):
        return {name: _replaced(item, keys, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, keys, key) for item in value]
    return f"{WORDS} {value}" if isinstance(value, str) and (not keys or key in keys) else value


@pytest.mark.parametrize(
    "keys", [IDS, IDS - {"type"}, frozenset({"callId", "toolCallId"}), frozenset()]
)
def test_no_message_quotes_what_may_be_a_sentence(keys: AbstractSet[str]) -> None:
    """Ids and names are quoted only if they are single words."""
    tripped = set()
    for id_ in PLAIN:
        lines = []
        for line in example_logs.path(id_).read_bytes().splitlines():
            row = json.loads(line)
            if isinstance(row.get("data"), dict):
                row["data"] = _replaced(row["data"], keys)
            lines.append(json.dumps(row).encode() + b"\n")
        report = check_session(InMemory("session.jsonl", data=b"".join(lines)), final=True)
        assert report.disabled == []
        for finding in report.findings:
            tripped.add(finding.rule)
            assert WORDS not in f"{finding.message} {finding.expected} {finding.got}", finding
    assert len(tripped) > 30
