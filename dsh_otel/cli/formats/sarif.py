"""SARIF 2.1.0, which code scanning services and editors read."""

from __future__ import annotations

import hashlib
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from dsh_core.contract.findings import Severity
from dsh_otel.cli.formats.fields import dumps
from dsh_otel.cli.formats.words import switched_off, told
from dsh_otel.cli.plain import printable
from dsh_otel.cli.version import version

if TYPE_CHECKING:
    from typing import TextIO

    from dsh_core.check import SessionReport
    from dsh_core.contract.catalogue import Entry
    from dsh_core.contract.findings import Finding
    from dsh_otel.cli.formats.writer import Settings
    from dsh_otel.cli.totals import Totals

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"

_LEVELS: Final = {
    Severity.VIOLATION: "error",
    Severity.DAMAGE: "warning",
    Severity.ADVICE: "note",
}
_PROPERTIES: Final = ("seq", "turn", "step", "call_id", "first_seq", "last_seq")


class Format:
    """Writes one run; results are written as soon as their session is checked.

    Args:
        out: Where to write.
        settings: How to write; the run is always complete.
    """

    def __init__(self, out: TextIO, settings: Settings) -> None:
        self._out = out
        self._rules = settings.rules
        self._index = {entry.id: number for number, entry in enumerate(settings.rules)}
        self._separator = "\n"
        self._unreadable: list[dict[str, Any]] = []

    def begin(self) -> None:
        """Open the document with all rules that are applied."""
        driver = {
            "name": "dsh-otel",
            "version": version(),
            "rules": [_rule(entry) for entry in self._rules],
        }
        self._out.write(
            f'{{"$schema":{dumps(SCHEMA)},"version":"2.1.0","runs":[{{"tool":{{"driver":'
            f'{dumps(driver)}}},"columnKind":"unicodeCodePoints","results":['
        )

    def session(self, report: SessionReport) -> None:
        """Write a session's results."""
        for finding in report.findings:
            self._out.write(self._separator + dumps(self._result(report, finding)))
            self._separator = ",\n"
        problem = report.reason or switched_off(report)
        if problem:
            self._unreadable.append(
                {
                    "level": "error",
                    "message": {"text": printable(problem)},
                    "locations": [_location(report.path, None)],
                }
            )

    def end(self, totals: Totals) -> None:
        """Close the document; logs that cannot be read are notifications of the run."""
        invocation = {
            "executionSuccessful": not (totals.unreadable or totals.incomplete),
            "toolExecutionNotifications": self._unreadable,
        }
        self._out.write(f'\n],"invocations":[{dumps(invocation)}]}}]}}\n')

    def _result(self, report: SessionReport, finding: Finding) -> dict[str, Any]:
        properties = {name: getattr(finding, name) for name in _PROPERTIES}
        return {
            "ruleId": finding.rule,
            "ruleIndex": self._index[finding.rule],
            "level": _LEVELS[finding.severity],
            "message": {"text": told(finding)},
            "locations": [_location(report.path, finding.line)],
            "occurrenceCount": finding.count,
            "partialFingerprints": {"dshFinding/v1": _fingerprint(report, finding)},
            "properties": {
                "session_id": report.session_id,
                **{name: value for name, value in properties.items() if value is not None},
            },
        }


def _rule(entry: Entry) -> dict[str, Any]:
    rule = entry.rule
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.fault},
        "fullDescription": {"text": f"{rule.fault[0].upper()}{rule.fault[1:]}."},
        "help": {"text": rule.advice},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": [entry.owner], "contracts": list(rule.contracts)},
    }


def _location(path: str, line: int | None) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(path)}}
    if line is not None:
        place["region"] = {"startLine": line}
    return {"physicalLocation": place}


def _uri(path: str) -> str:
    pure = PurePath(path)
    if pure.is_absolute():
        return pure.as_uri()
    return quote(pure.as_posix().encode("utf-8", "surrogateescape"))


def _fingerprint(report: SessionReport, finding: Finding) -> str:
    """Tell a finding from others across runs, also when the log has moved."""
    parts = (report.session_id, finding.rule, finding.seq, finding.line, finding.call_id)
    text = "\0".join(map(str, parts))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
