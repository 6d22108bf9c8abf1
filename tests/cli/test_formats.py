"""Tests of the output formats for programs, each read back by what reads it."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from dsh_core.check import SessionReport
from dsh_core.contract.catalogue import CATALOGUE
from dsh_core.contract.findings import Finding, Severity
from dsh_otel.cli.choices import FailOn, OutputFormat
from dsh_otel.cli.formats import make_writer
from dsh_otel.cli.formats.fields import dumps
from dsh_otel.cli.formats.writer import Settings
from dsh_otel.cli.totals import Totals
from tests.cli.helpers import ADVICE, CLEAN, OVERLAP, TORN, run, write

if TYPE_CHECKING:
    from pathlib import Path

COUNT = {"type": "integer", "minimum": 0}
OPTIONAL_NUMBER = {"type": ["integer", "null"]}
FINDING = {
    "rule": {"enum": list(CATALOGUE.entries)},
    "owner": {"type": "string", "minLength": 1},
    "severity": {"enum": ["violation", "damage", "advice"]},
    "code": {"enum": ["INVARIANT", "LOG_DAMAGE", "ADVICE"]},
    "message": {"type": "string", "minLength": 1},
    "seq": OPTIONAL_NUMBER,
    "line": {"type": ["integer", "null"], "minimum": 1},
    "turn": OPTIONAL_NUMBER,
    "step": OPTIONAL_NUMBER,
    "call_id": {"type": ["string", "null"]},
    "count": {"type": "integer", "minimum": 1},
    "first_seq": OPTIONAL_NUMBER,
    "last_seq": OPTIONAL_NUMBER,
}
SESSION = {
    "path": {"type": "string"},
    "session_id": {"type": "string"},
    "format": {"type": "string"},
    "contract": {"type": "string"},
}


def closed(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The schema of an object with exactly these keys, besides optional ones."""
    return {
        "type": "object",
        "properties": properties | more,
        "required": list(properties),
        "additionalProperties": False,
    }


DOCUMENT = closed(
    {
        "schema_version": {"const": 1},
        "sessions": {
            "type": "array",
            "items": closed(
                {
                    **SESSION,
                    "events": COUNT,
                    "findings": {"type": "array", "items": closed(FINDING)},
                },
                error={"type": "string", "minLength": 1},
            ),
        },
        "totals": closed(
            {
                "sessions": COUNT,
                "unreadable": COUNT,
                "events": COUNT,
                "findings": closed({"violation": COUNT, "damage": COUNT, "advice": COUNT}),
                "rules": {"type": "object", "additionalProperties": COUNT},
                "incomplete": COUNT,
                "never_evaluated": {"type": "array", "items": {"type": "string"}},
            }
        ),
    }
)
LINE = {"oneOf": [closed(SESSION | FINDING), closed(SESSION | {"error": {"type": "string"}})]}

# What SARIF 2.1.0 demands of the parts that are used.
SARIF_PLACE = {
    "type": "object",
    "required": ["physicalLocation"],
    "properties": {
        "physicalLocation": {
            "type": "object",
            "required": ["artifactLocation"],
            "properties": {
                "artifactLocation": closed({"uri": {"type": "string", "format": "uri-reference"}}),
                "region": closed({"startLine": {"type": "integer", "minimum": 1}}),
            },
        }
    },
}
TEXT = closed({"text": {"type": "string", "minLength": 1}})
LEVEL = {"enum": ["none", "note", "warning", "error"]}
SARIF = closed(
    {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": closed(
                {
                    "tool": closed(
                        {
                            "driver": closed(
                                {
                                    "name": {"const": "dsh-otel"},
                                    "version": {"type": "string"},
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": closed(
                                            {
                                                "id": {"type": "string"},
                                                "shortDescription": TEXT,
                                                "fullDescription": TEXT,
                                                "help": TEXT,
                                                "defaultConfiguration": closed({"level": LEVEL}),
                                                "properties": {"type": "object"},
                                            }
                                        ),
                                    },
                                }
                            )
                        }
                    ),
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "results": {
                        "type": "array",
                        "items": closed(
                            {
                                "ruleId": {"type": "string"},
                                "ruleIndex": COUNT,
                                "level": LEVEL,
                                "message": TEXT,
                                "locations": {"type": "array", "items": SARIF_PLACE},
                                "occurrenceCount": {"type": "integer", "minimum": 1},
                                "partialFingerprints": {
                                    "type": "object",
                                    "additionalProperties": {"type": "string"},
                                },
                                "properties": {"type": "object"},
                            }
                        ),
                    },
                    "invocations": {
                        "type": "array",
                        "items": closed(
                            {
                                "executionSuccessful": {"type": "boolean"},
                                "toolExecutionNotifications": {
                                    "type": "array",
                                    "items": closed(
                                        {
                                            "level": LEVEL,
                                            "message": TEXT,
                                            "locations": {"type": "array", "items": SARIF_PLACE},
                                        }
                                    ),
                                },
                            }
                        ),
                    },
                }
            ),
        },
    }
)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A folder with a log of each kind."""
    write(tmp_path / "1-clean.jsonl", *CLEAN)
    write(tmp_path / "2-violation.jsonl", *OVERLAP)
    write(tmp_path / "3-damage.jsonl", *CLEAN, tail=TORN)
    write(tmp_path / "4-advice.jsonl", *ADVICE)
    write(tmp_path / "5-empty.jsonl")
    return tmp_path


def finding(rule: str = "turn.overlap", **fields: Any) -> Finding:
    """A finding of a rule."""
    entry = CATALOGUE.entries[rule]
    severity = entry.rule.severity
    known = {"owner": entry.owner, "severity": severity, "code": severity.code, "message": "wrong"}
    return Finding(rule=rule, **(known | fields))


def written(name: OutputFormat, *reports: SessionReport, **settings: Any) -> str:
    """What a format makes of some reports."""
    out, totals = io.StringIO(), Totals()
    usual: dict[str, Any] = {"fail_on": FailOn.VIOLATION, "max_findings": 0}
    chosen = list(CATALOGUE.entries.values())
    writer = make_writer(name, out, Settings(rules=chosen, **(usual | settings)))
    writer.begin()
    for report in reports:
        totals.add(report)
        writer.session(report)
    writer.end(totals)
    return out.getvalue()


class TestJson:
    """One document."""

    def test_schema(self, logs: Path) -> None:
        """The document has the published keys and no others."""
        document = json.loads(run("check", logs, "--format", "json").stdout)
        jsonschema.validate(document, DOCUMENT)
        errors = ["error" in session for session in document["sessions"]]
        assert errors == [False, False, False, False, True]

    def test_content(self, logs: Path) -> None:
        """Sessions, findings and totals say what was found."""
        document = json.loads(run("check", logs, "--json").stdout)
        assert document["sessions"][1] == {
            "path": f"{logs}/2-violation.jsonl",
            "session_id": "2-violation",
            "format": "seed",
            "contract": "seed",
            "events": 3,
            "findings": [
                {
                    "rule": "turn.overlap",
                    "owner": "session",
                    "severity": "violation",
                    "code": "INVARIANT",
                    "message": "turn 1 starts while turn 0 is open",
                    "seq": 1,
                    "line": 2,
                    "turn": 1,
                    "step": None,
                    "call_id": None,
                    "count": 1,
                    "first_seq": 1,
                    "last_seq": 1,
                }
            ],
        }
        unheard = document["totals"].pop("never_evaluated")
        assert unheard == sorted(unheard)
        assert {"turn.unclosed", "llm.no-finish"} <= set(unheard)
        # What no log of these can break is no omission.
        assert not {"turn.number", "approval.asked", "agent.status-noop"} & set(unheard)
        assert not {"turn.overlap", "tool.call-unanswered", "line.torn-tail"} & set(unheard)
        assert document["totals"] == {
            "sessions": 5,
            "unreadable": 1,
            "incomplete": 0,
            "events": 12,
            "findings": {"violation": 1, "damage": 1, "advice": 1},
            "rules": {"line.torn-tail": 1, "tool.call-unanswered": 1, "turn.overlap": 1},
        }

    def test_nothing(self) -> None:
        """Without a session the document is still one."""
        assert json.loads(written(OutputFormat.JSON))["sessions"] == []

    def test_never_capped(self, tmp_path: Path) -> None:
        """JSON leaves nothing out, whatever text would show."""
        events = [("turn/start", {"turn": turn}) for turn in range(1011)]
        log = write(tmp_path / "a.jsonl", *events)
        document = json.loads(run("check", log, "--json", "--max-findings", "1").stdout)
        assert len(document["sessions"][0]["findings"]) == 1010

    @pytest.mark.parametrize(
        "text", ["\x1b[31m", "\x7f", "\x9b31m", "\u202e", "\ufeff", "\u65e5\u672c", '"\\', "\u2028"]
    )
    def test_strings(self, text: str) -> None:
        """Strings survive, and what a terminal might act on is escaped."""
        encoded = dumps({"a": text})
        assert encoded.isprintable()
        assert json.loads(encoded) == {"a": text}

    def test_half_character(self) -> None:
        """Half a character, which JSON readers refuse, is replaced."""
        assert json.loads(dumps(["a\ud800", "\udcff"])) == ["a\ufffd", "\ufffd"]


class TestJsonLines:
    """One object a finding."""

    def test_lines(self, logs: Path) -> None:
        """Each finding is a line with its session, an unreadable log one with an error."""
        outcome = run("check", logs, "--format", "jsonl")
        lines = [json.loads(line) for line in outcome.stdout.splitlines()]
        for line in lines:
            jsonschema.validate(line, LINE)
        assert [(line["session_id"], line.get("rule")) for line in lines] == [
            ("2-violation", "turn.overlap"),
            ("3-damage", "line.torn-tail"),
            ("4-advice", "tool.call-unanswered"),
            ("5-empty", None),
        ]
        assert lines[3]["error"] == "the log is empty"

    def test_clean(self, tmp_path: Path) -> None:
        """A clean session is no line at all."""
        outcome = run("check", write(tmp_path / "a.jsonl", *CLEAN), "--format", "jsonl")
        assert (outcome.exit_code, outcome.output) == (0, "")


class TestGithub:
    """Workflow commands."""

    def test_annotations(self, logs: Path) -> None:
        """Severities become errors, warnings and notices at their lines; a sum ends the log."""
        lines = run("check", logs, "--format", "github").stdout.splitlines()
        assert [line.split("::")[1] for line in lines[:4]] == [
            f"error file={logs}/2-violation.jsonl,line=2,title=turn.overlap",
            f"warning file={logs}/3-damage.jsonl,line=3,title=line.torn-tail",
            f"notice file={logs}/4-advice.jsonl,line=3,title=tool.call-unanswered",
            f"error file={logs}/5-empty.jsonl,title=unreadable",
        ]
        assert lines[4:] == [
            "dsh-otel: 5 logs, 12 events, 1 unreadable: 1 violation, 1 damage, 1 advice"
        ]

    def test_escaping(self) -> None:
        """What would end a property or a command is escaped, in each as GitHub wants it."""
        report = SessionReport(
            path="a,b:c%.jsonl", findings=[finding(message="50%::x,\r\n::error::y", line=1)]
        )
        assert written(OutputFormat.GITHUB, report, summary=False) == (
            "::error file=a%2Cb%3Ac%25.jsonl,line=1,title=turn.overlap::50%25::x,\\r\\n::error::y\n"
        )

    def test_cap(self) -> None:
        """The number of annotations of a session is limited, and the rest is mentioned."""
        report = SessionReport(path="a", findings=[finding(line=line) for line in range(1, 6)])
        lines = written(OutputFormat.GITHUB, report, summary=False, max_findings=2).splitlines()
        assert len(lines) == 3
        assert lines[2].startswith("::notice file=a,title=not all shown::3 more findings")


class TestJunit:
    """XML for CI servers."""

    def test_suites(self, logs: Path) -> None:
        """Each session is a suite; what fails there is what fails the check."""
        root = ET.fromstring(run("check", logs, "--format", "junit").stdout)
        assert root.tag == "testsuites"
        counts = {
            suite.attrib["name"].rpartition("/")[2]: [
                int(suite.attrib[name]) for name in ("tests", "failures", "errors")
            ]
            for suite in root
        }
        assert counts == {
            "1-clean.jsonl": [1, 0, 0],
            "2-violation.jsonl": [2, 1, 0],
            "3-damage.jsonl": [2, 0, 0],
            "4-advice.jsonl": [2, 0, 0],
            "5-empty.jsonl": [1, 0, 1],
        }
        for suite in root:
            assert len(suite.findall("testcase")) == int(suite.attrib["tests"])
            assert len(suite.findall("testcase/failure")) == int(suite.attrib["failures"])
            assert len(suite.findall("testcase/error")) == int(suite.attrib["errors"])

    def test_failure(self, logs: Path) -> None:
        """A failure names the rule, the severity, the line and the fault."""
        root = ET.fromstring(run("check", logs, "--format", "junit").stdout)
        case = root.findall("testsuite")[1].findall("testcase")[1]
        assert case.attrib["name"] == "turn.overlap"
        assert case.attrib["classname"] == f"{logs}/2-violation.jsonl"
        failure = case.find("failure")
        assert failure is not None
        assert failure.attrib == {
            "type": "violation",
            "message": "turn 1 starts while turn 0 is open",
        }
        assert failure.text == "line 2: turn 1 starts while turn 0 is open"

    def test_fail_on(self, logs: Path) -> None:
        """Findings that do not count are the output of a test that passed."""
        usual = ET.fromstring(run("check", logs, "--format", "junit").stdout)
        damage = usual.findall("testsuite")[2].findall("testcase")[1]
        assert [child.tag for child in damage] == ["system-out"]
        strict = run("check", logs, "--format", "junit", "--fail-on", "advice").stdout
        assert len(ET.fromstring(strict).findall(".//failure")) == 3
        lax = run("check", logs, "--format", "junit", "--fail-on", "never").stdout
        assert ET.fromstring(lax).findall(".//failure") == []

    def test_many(self) -> None:
        """Findings of one rule share a test case, and its text is limited."""
        report = SessionReport(path="a", findings=[finding(line=line) for line in range(1, 1001)])
        case = ET.fromstring(written(OutputFormat.JUNIT, report)).findall(".//testcase")[1]
        failure = case.find("failure")
        assert failure is not None
        assert failure.attrib["message"] == "wrong, and 999 more"
        assert (failure.text or "").splitlines()[100:] == ["\u2026 900 more findings"]

    def test_invalid_characters(self) -> None:
        """Characters that XML cannot hold, and those that mean something in it, do no harm."""
        text = "\x00\x1b<a href='\"'>&]]>\ud800\ufffe\n"
        report = SessionReport(path=text, findings=[finding(message=text)], reason=text)
        root = ET.fromstring(written(OutputFormat.JUNIT, report).encode())
        shown = "\\x00\\x1b<a href='\"'>&]]>\\ud800\\ufffe\\n"
        assert root[0].attrib["name"] == shown
        assert root[0][1][0].attrib["message"] == shown
        assert root[0][1][0].text == shown
        assert root[0][0][0].attrib["message"] == shown


class TestSarif:
    """Code scanning."""

    def test_schema(self, logs: Path) -> None:
        """The document has the structure of SARIF 2.1.0."""
        jsonschema.validate(
            json.loads(run("check", logs, "--format", "sarif").stdout),
            SARIF,
            format_checker=jsonschema.FormatChecker(),
        )

    def test_results(self, logs: Path) -> None:
        """Results have level, place and a rule that is described in the run."""
        (sarif,) = json.loads(run("check", logs, "--format", "sarif").stdout)["runs"]
        rules = sarif["tool"]["driver"]["rules"]
        assert [rule["id"] for rule in rules] == list(CATALOGUE.entries)
        for rule in rules:
            assert rule["help"]["text"] == CATALOGUE.entries[rule["id"]].rule.advice
        seen = []
        for result in sarif["results"]:
            assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
            place = result["locations"][0]["physicalLocation"]
            seen.append((result["level"], result["ruleId"], place["region"]["startLine"]))
            assert place["artifactLocation"]["uri"].startswith("file:///")
        assert seen == [
            ("error", "turn.overlap", 2),
            ("warning", "line.torn-tail", 3),
            ("note", "tool.call-unanswered", 3),
        ]

    def test_unreadable(self, logs: Path) -> None:
        """A log that cannot be read makes the run unsuccessful, and is named."""
        (sarif,) = json.loads(run("check", logs, "--format", "sarif").stdout)["runs"]
        (invocation,) = sarif["invocations"]
        assert invocation["executionSuccessful"] is False
        (notification,) = invocation["toolExecutionNotifications"]
        assert notification["message"]["text"] == "the log is empty"

    def test_chosen_rules(self, logs: Path) -> None:
        """Only rules that were applied are listed."""
        options = ("--format", "sarif", "--rules", "turn.*")
        (sarif,) = json.loads(run("check", logs, *options).stdout)["runs"]
        assert {rule["id"].partition(".")[0] for rule in sarif["tool"]["driver"]["rules"]} == {
            "turn"
        }

    @pytest.mark.parametrize(
        ("path", "uri"),
        [
            ("logs/a b:c#?%.jsonl", "logs/a%20b%3Ac%23%3F%25.jsonl"),
            ("/logs/a b.jsonl", "file:///logs/a%20b.jsonl"),
            ("\u65e5.jsonl", "%E6%97%A5.jsonl"),
            ("-", "-"),
        ],
    )
    def test_uri(self, path: str, uri: str) -> None:
        """Paths become URIs; relative ones stay relative, as code scanning needs them."""
        report = SessionReport(path=path, findings=[finding()])
        (result,) = json.loads(written(OutputFormat.SARIF, report))["runs"][0]["results"]
        assert result["locations"] == [{"physicalLocation": {"artifactLocation": {"uri": uri}}}]

    def test_fingerprint(self) -> None:
        """A finding keeps its fingerprint when its log moves, and differs from others."""

        def fingerprint(path: str, **fields: Any) -> Any:
            report = SessionReport(path=path, session_id="s", findings=[finding(**fields)])
            (result,) = json.loads(written(OutputFormat.SARIF, report))["runs"][0]["results"]
            return result["partialFingerprints"]

        assert fingerprint("a", seq=1) == fingerprint("b", seq=1)
        assert fingerprint("a", seq=1) != fingerprint("a", seq=2)

    def test_repeats(self) -> None:
        """A finding that stands for several events says so."""
        report = SessionReport(path="a", findings=[finding(count=12, first_seq=5, last_seq=7)])
        (result,) = json.loads(written(OutputFormat.SARIF, report))["runs"][0]["results"]
        assert result["occurrenceCount"] == 12
        assert result["message"]["text"] == "wrong (\u00d712, seq 5\u20137)"


class TestWords:
    """What all formats for people say."""

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({}, ""),
            ({"count": 12, "first_seq": 5, "last_seq": 7}, " (\u00d712, seq 5\u20137)"),
            ({"count": 2, "first_seq": 5, "last_seq": 5}, " (\u00d72, seq 5)"),
            ({"count": 2, "last_seq": 5}, " (\u00d72, seq 5)"),
            ({"count": 2}, " (\u00d72)"),
        ],
    )
    def test_repeats(self, fields: dict[str, Any], text: str) -> None:
        """The number of events appears from two on, with the range of what is known of it."""
        shown = written(
            OutputFormat.TEXT, SessionReport(path="a", findings=[finding(**fields)]), summary=False
        )
        assert shown == f"a: violation turn.overlap: wrong{text}\n"

    def test_many_rules(self) -> None:
        """The summary names three rules of a severity and counts the others."""
        rules = [entry.id for entry in CATALOGUE.entries.values()]
        advice = [id_ for id_ in rules if CATALOGUE.entries[id_].rule.severity is Severity.ADVICE][
            :5
        ]
        report = SessionReport(path="a", findings=[finding(id_) for id_ in advice])
        last = written(OutputFormat.TEXT, report).splitlines()[-1]
        assert last == f"      5 advice      {', '.join(advice[:3])} and 2 more rules"
