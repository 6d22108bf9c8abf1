"""Tests of the generated reference pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dsh_core.codes import CODES, Family, Where
from dsh_core.contract.catalogue import CATALOGUE
from dsh_otel import docs

FOLDER = Path(__file__).parents[2] / "docs"
ANCHOR = re.compile(r'<a id="([^"]+)"></a>')


class TestPages:
    """What the pages say."""

    @pytest.mark.parametrize("name", list(docs.PAGES))
    def test_fresh(self, name: str) -> None:
        """The pages in the repository are those that the code makes: else run ``make docs``."""
        assert (FOLDER / name).read_text(encoding="utf-8") == docs.PAGES[name]()

    def test_rules(self) -> None:
        """Every rule has one anchor, under its owner, with its fault and what to do."""
        page = docs.rules_page()
        assert sorted(ANCHOR.findall(page)) == sorted(CATALOGUE.entries)
        sections = {part.partition("\n")[0]: part for part in page.split("\n## ")[1:]}
        for entry in CATALOGUE.entries.values():
            rule = sections[entry.owner].partition(f'<a id="{entry.id}"></a>')[2].split("###")[0]
            assert entry.rule.fault[1:] in rule
            assert f"**What to do:** {entry.rule.advice}" in rule
            assert f"**Severity:** {entry.rule.severity}" in rule

    def test_codes(self) -> None:
        """Every code of the harness has one anchor, and every family a row."""
        page = docs.codes_page()
        expected = [code for code, info in CODES.items() if info.where is not Where.ERRNO]
        assert sorted(ANCHOR.findall(page)) == sorted(expected)
        for family in Family:
            assert re.search(
                rf"^\| `{family}` \| \d+(, and .*)? \| `[a-z-]+` \|", page, re.MULTILINE
            )

    def test_same_everywhere(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """System errors that only this system has, and its texts, do not change the pages."""
        before = docs.codes_page()
        here = CODES["ENOENT"]
        other = {
            **CODES,
            "ENOENT": type(here)(
                *("ENOENT", "Gibt es nicht", "ENOENT", here.family, False, here.where, here.area)
            ),
            "EHERE": type(here)(
                *("EHERE", "?", "EHERE", Family.UNKNOWN_OUTCOME, False, Where.ERRNO, "system")
            ),
        }
        monkeypatch.setattr(docs, "CODES", other)
        assert docs.codes_page() == before

    def test_tables(self) -> None:
        """Every row of a table has as many cells as its head."""
        for make in docs.PAGES.values():
            for table in re.findall(r"(?:^\|.*\n)+", make(), re.MULTILINE):
                assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1


class TestProgram:
    """``python -m dsh_otel.docs``."""

    def test_writes(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Pages are written once, and again only if they are stale."""
        folder = tmp_path / "new" / "docs"
        assert docs.main(["--folder", str(folder)]) == 0
        assert sorted(path.name for path in folder.iterdir()) == sorted(docs.PAGES)
        assert capsys.readouterr().out.count("wrote ") == len(docs.PAGES)
        assert docs.main(["--folder", str(folder)]) == 0
        assert capsys.readouterr().out == ""

    def test_check(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """``--check`` fails on a page that is missing or stale, and writes nothing."""
        assert docs.main(["--folder", str(tmp_path), "--check"]) == 1
        assert list(tmp_path.iterdir()) == []
        assert f"{tmp_path}/codes.md is missing; run: make docs\n" in capsys.readouterr().err
        docs.main(["--folder", str(tmp_path)])
        capsys.readouterr()
        assert docs.main(["--folder", str(tmp_path), "--check"]) == 0
        (tmp_path / "codes.md").write_text("old")
        assert docs.main(["--folder", str(tmp_path), "--check"]) == 1
        assert capsys.readouterr().err == f"{tmp_path}/codes.md is stale; run: make docs\n"
        assert (tmp_path / "codes.md").read_text() == "old"

    def test_check_elsewhere(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where there are no pages at all, it is said that they are looked for in a checkout."""
        monkeypatch.chdir(tmp_path)
        assert docs.main(["--check"]) == 2
        assert capsys.readouterr().err == (
            "there is no folder docs: run this where the project is checked out, or name the "
            "folder with --folder\n"
        )
