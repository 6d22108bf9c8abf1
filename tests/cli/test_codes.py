"""Tests of ``dsh-otel codes``."""

from __future__ import annotations

import json
import re

import pytest

from dsh_core.codes import CODES, Family, Retryable, Route, Where
from dsh_core.contract.findings import Severity
from dsh_otel.cli.advice import RETRYABLE_WORDS, ROUTE_WORDS, WHERE_WORDS
from tests.cli.helpers import run


class TestList:
    """The table."""

    def test_complete(self) -> None:
        """Every known code is a line with its family and what follows from it."""
        head, *lines = run("codes").stdout.splitlines()
        assert head.split() == ["CODE", "FAMILY", "ROUTE", "RETRYABLE", "ERRNO", "MEANING"]
        assert [line.split()[0] for line in lines] == list(CODES)
        for line, info in zip(lines, CODES.values(), strict=True):
            assert line.split()[1:4] == [info.family, info.route, info.retryable]

    @pytest.mark.parametrize("family", list(Family))
    def test_family(self, family: Family) -> None:
        """A family lists its codes and no others."""
        document = json.loads(run("codes", "--family", family, "--json").stdout)
        listed = [info["code"] for info in document["codes"]]
        assert listed == [code for code, info in CODES.items() if info.family is family]

    def test_empty_family(self) -> None:
        """A family without a code is a table without a row."""
        outcome = run("codes", "--family", "uncoded")
        assert outcome.exit_code == 0
        assert len(outcome.stdout.splitlines()) == 1

    def test_json(self) -> None:
        """The table as data has all that is known of each code."""
        document = json.loads(run("codes", "--json").stdout)
        assert document["schema_version"] == 1
        assert {info["code"]: info for info in document["codes"]}["FS_NOT_FOUND"] == {
            "code": "FS_NOT_FOUND",
            "meaning": CODES["FS_NOT_FOUND"].meaning,
            "family": "missing",
            "route": "replan",
            "retryable": "no",
            "errno": "ENOENT",
            "permission": False,
            "where": "log",
            "area": "file system",
            "known": True,
        }


class TestOne:
    """One code in full."""

    @pytest.mark.parametrize("severity", list(Severity))
    def test_what_findings_carry(self, severity: Severity) -> None:
        """The codes of findings are known like those of failures."""
        outcome = run("codes", severity.code, "--json")
        assert json.loads(outcome.stdout)["codes"][0]["known"] is True

    def test_known(self) -> None:
        """A known code tells its meaning and what to do about it."""
        lines = run("codes", "RATE_LIMIT").stdout.splitlines()
        assert lines[0] == "RATE_LIMIT"
        assert f"  meaning    {CODES['RATE_LIMIT'].meaning}" in lines
        assert "  family     transient" in lines
        assert f"  route      retry: {ROUTE_WORDS[Route.RETRY]}" in lines
        assert "  found in   events of a session" in lines

    def test_by_rule(self) -> None:
        """A code that is in no table has a family by its spelling, and that is said."""
        outcome = run("codes", "acme-rate-limit")
        assert outcome.exit_code == 0
        assert "not in the table; classed by its spelling" in outcome.stdout
        assert "  family     transient\n" in outcome.stdout
        (info,) = json.loads(run("codes", "acme-rate-limit", "--json").stdout)["codes"]
        assert (info["known"], info["where"], info["family"]) == (False, "rule", "transient")

    @pytest.mark.parametrize(
        ("code", "meant"),
        [("eacces", "EACCES"), ("ENOENTT", "ENOENT"), ("rate-limit", "RATE_LIMIT")],
    )
    def test_a_code_that_is_nearly_a_known_one_gets_that_proposed(
        self, code: str, meant: str
    ) -> None:
        for options in ([], ["--json"]):
            outcome = run("codes", code, *options)
            assert outcome.exit_code == 0
            assert re.search(
                rf"^dsh-otel: '{code}' is not in the table; did you mean .*\b{meant}\b",
                outcome.stderr,
            )
        assert run("-q", "codes", code).stderr == ""

    @pytest.mark.parametrize("code", ["EACCES", "acme-rate-limit", "NOTHING_LIKE_IT"])
    def test_a_known_code_and_one_of_its_own_kind_get_nothing_proposed(self, code: str) -> None:
        assert run("codes", code).stderr == ""

    @pytest.mark.parametrize("code", ["\x1b[31mE", "x" * 1000])
    def test_any_word(self, code: str) -> None:
        """Any word has an answer, and none acts on the terminal."""
        for options in ([], ["--json"]):
            outcome = run("codes", code, *options)
            assert outcome.exit_code == 0
            assert outcome.stdout.replace("\n", "").isprintable()
            assert "unknown-outcome" in outcome.stdout

    def test_words(self) -> None:
        """Every route, answer and place of a listed code is described."""
        assert set(ROUTE_WORDS) == set(Route)
        assert set(RETRYABLE_WORDS) == set(Retryable)
        assert set(WHERE_WORDS) == set(Where) - {Where.RULE}


class TestUsage:
    """Wrong usage."""

    def test_unknown_family(self) -> None:
        """A mistyped family ends with 2 and the one that comes close."""
        outcome = run("codes", "--family", "deniied")
        assert (outcome.exit_code, outcome.stdout) == (2, "")
        assert outcome.stderr == ("dsh-otel: no family is called 'deniied'; did you mean denied?\n")

    def test_no_such_family(self) -> None:
        """A family that is like no other lists all."""
        stderr = run("codes", "--family", "zzz").stderr
        assert all(family in stderr for family in Family)

    def test_both(self) -> None:
        """A code and a family cannot be asked for at once."""
        outcome = run("codes", "ENOENT", "--family", "missing")
        assert outcome.exit_code == 2
        assert "exclude each other" in outcome.stderr


@pytest.mark.parametrize("code", ["", " ", "FS_*", "no such file", "E\n"])
def test_what_can_be_no_code_is_refused_with_advice(code: str) -> None:
    """An answer would look as if the code were known."""
    outcome = run("codes", code)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert "a code is one word without *: `dsh-otel codes` lists all" in outcome.stderr
