"""Sessions and findings as the JSON formats publish them. These keys are part of the interface."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dsh_core.check import SessionReport
    from dsh_core.contract.findings import Finding

SCHEMA_VERSION: Final = 1
"""Version of the JSON documents; a key that changes its meaning or goes away raises it."""

_FINDING: Final = (
    *("rule", "owner", "severity", "code", "message", "seq", "line"),
    *("turn", "step", "call_id", "count", "first_seq", "last_seq"),
)

# JSON allows these inside strings, terminals act on some of them: C1 controls, marks of direction.
_ACTIVE: Final = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
_HALF: Final = re.compile("[\ud800-\udfff]")


def session_fields(report: SessionReport) -> dict[str, Any]:
    """Return what is published of a session besides its findings and the number of its events."""
    fields: dict[str, Any] = {
        "path": report.path,
        "session_id": report.session_id,
        "format": report.format,
        "contract": report.contract,
    }
    if report.disabled:
        # Not everything was checked: no finding does not mean that there is none.
        fields["disabled"] = report.disabled
    return fields


def finding_fields(finding: Finding) -> dict[str, Any]:
    """Return what is published of a finding."""
    return {name: getattr(finding, name) for name in _FINDING}


def dumps(value: object) -> str:
    """Encode a value as JSON on one line, with nothing in it that acts on a terminal."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = _HALF.sub("\N{REPLACEMENT CHARACTER}", text)
    return _ACTIVE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
