"""Tests of files of plugins: what is right in them is loaded, what is wrong is named."""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_core.context import ConfigError, Context, ContextError
from dsh_core.context.loader import (
    Loaded,
    MissingExtraError,
    PluginEntryError,
    PluginFileError,
    load_plugins,
)
from dsh_core.context.loader_file import MAX_BYTES, MAX_DEPTH, MAX_ENTRIES, MAX_NODES, read_items
from dsh_core.errors import HarnessError
from tests.core.context.support import NOTHING, leftovers, sync

ROOT = Path(__file__).parents[3]


class Settings(pydantic.BaseModel):
    """A configuration."""

    tries: int


class Strict:
    """A plugin with a configuration."""

    Config = Settings

    def __init__(self, ctx: Context, config: Settings) -> None:
        ctx.provide("strict", config)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Offer the modules `good_plugins` and `bad_plugins`; return what their plugins were given."""
    got: list[Any] = []

    def apply(ctx: Context, config: object) -> None:
        got.append(config)

    def broken() -> None:
        raise ValueError("no luck")

    def needs_strict(ctx: Context) -> None:
        got.append(("with", ctx.strict))

    good = types.ModuleType("good_plugins")
    vars(good).update(apply=apply, Strict=Strict, broken=broken, needs_strict=needs_strict)
    vars(good).update(holder=types.SimpleNamespace(inner=apply), number=1)
    needs_strict.inject = ["strict"]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "good_plugins", good)
    return got


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that modules are imported from."""
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def write(folder: Path, text: str) -> Path:
    """Write a file of plugins."""
    path = folder / "plugins.yml"
    path.write_text(text, encoding="utf-8")
    return path


async def load(ctx: Context, path: Path) -> Loaded:
    """Load plugins and check that nothing stays behind in the end."""
    loaded = await load_plugins(ctx, path)
    await ctx.dispose()
    assert leftovers(ctx) == NOTHING
    return loaded


class TestLoading:
    """What is right."""

    @sync
    async def test_the_plugins_of_a_file_are_loaded_with_their_configurations(
        self, tmp_path: Path, log: list[Any]
    ) -> None:
        path = write(
            tmp_path,
            """\
- id: first
  name: good_plugins
  config: {a: [1, two, null, true]}
- id: second
  name: good_plugins:holder.inner
- id: third
  name: good_plugins:Strict
  config:
    tries: 3
""",
        )
        ctx = Context()
        loaded = await load_plugins(ctx, path)
        assert list(loaded.fibers) == ["first", "second", "third"]
        assert loaded.errors == {}
        assert [fiber.state for fiber in loaded.fibers.values()] == ["active"] * 3
        assert log == [{"a": [1, "two", None, True]}, None]
        assert ctx.strict == Settings(tries=3)
        await ctx.dispose()
        assert leftovers(ctx) == NOTHING

    @sync
    async def test_plugins_may_stand_before_those_they_need(
        self, tmp_path: Path, log: list[Any]
    ) -> None:
        path = write(
            tmp_path,
            "- name: good_plugins:needs_strict\n"
            "- {name: 'good_plugins:Strict', config: {tries: 1}}\n",
        )
        loaded = await load_plugins(Context(), path)
        assert [fiber.state for fiber in loaded.fibers.values()] == ["active", "active"]
        assert log == [("with", Settings(tries=1))]

    @sync
    async def test_a_plugin_whose_service_is_missing_waits_and_is_no_error(
        self, tmp_path: Path, log: list[Any]
    ) -> None:
        loaded = await load(Context(), write(tmp_path, "- name: good_plugins:needs_strict\n"))
        assert list(loaded.fibers) == ["good_plugins:needs_strict"]
        assert (loaded.errors, log) == ({}, [])

    @sync
    async def test_a_disabled_entry_is_not_even_imported(
        self, tmp_path: Path, modules: Path
    ) -> None:
        (modules / "explosive.py").write_text("raise SystemExit('boom')")
        path = write(tmp_path, "- {name: explosive, disabled: true}\n")
        loaded = await load(Context(), path)
        assert (loaded.fibers, loaded.errors) == ({}, {})
        assert "explosive" not in sys.modules

    @sync
    async def test_an_entry_that_is_disabled_false_or_null_is_loaded(
        self, tmp_path: Path, log: list[Any]
    ) -> None:
        path = write(
            tmp_path,
            "- {name: good_plugins, disabled: false}\n- {name: good_plugins, disabled: null}\n",
        )
        assert len((await load(Context(), path)).fibers) == 2
        assert log == [None, None]

    @sync
    async def test_missing_ids_are_made_from_the_name_and_never_take_a_written_one(
        self, tmp_path: Path, log: list[Any]
    ) -> None:
        path = write(
            tmp_path,
            """\
- name: good_plugins
- name: good_plugins
- {id: good_plugins, name: good_plugins}
- {id: good_plugins (3), name: good_plugins}
- name: good_plugins
""",
        )
        loaded = await load(Context(), path)
        assert list(loaded.fibers) == [
            "good_plugins (2)",
            "good_plugins (4)",
            "good_plugins",
            "good_plugins (3)",
            "good_plugins (5)",
        ]

    @sync
    async def test_an_empty_list_loads_nothing(self, tmp_path: Path) -> None:
        loaded = await load(Context(), write(tmp_path, "[]\n"))
        assert (loaded.fibers, loaded.errors) == ({}, {})

    @sync
    async def test_plugins_can_be_loaded_into_a_plugin_and_end_with_it(
        self, tmp_path: Path, log: list[Any]
    ) -> None:
        path, results = write(tmp_path, "- name: good_plugins\n"), list[Loaded]()

        async def host(own: Context) -> None:
            results.append(await load_plugins(own, str(path)))

        ctx = Context()
        fiber = await ctx.plugin(host)
        assert results[0].fibers["good_plugins"].state == "active"
        await fiber.dispose()
        assert results[0].fibers["good_plugins"].state == "disposed"

    @sync
    async def test_nothing_is_loaded_into_a_context_that_is_unloaded(
        self, tmp_path: Path, log: list[Any]
    ) -> None:
        ctx = Context()
        await ctx.dispose()
        with pytest.raises(ContextError) as caught:
            await load_plugins(ctx, write(tmp_path, "- name: good_plugins\n"))
        assert caught.value.code == "INACTIVE_EFFECT"


class TestEntryPoints:
    """Names that distributions offer."""

    @pytest.fixture
    def offer(self, modules: Path) -> Any:
        """Return what installs a distribution with entry points."""

        def install(name: str, *points: str) -> None:
            folder = modules / f"{name}-1.0.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            lines = "\n".join(("[dsh_core.plugins]", *points))
            (folder / "entry_points.txt").write_text(lines)
            importlib.invalidate_caches()

        return install

    @sync
    async def test_an_entry_point_is_found_by_its_name(
        self, tmp_path: Path, offer: Any, log: list[Any]
    ) -> None:
        offer("nice", "my-plugin = good_plugins:apply", "whole = good_plugins")
        path = write(tmp_path, "- {name: my-plugin, config: 1}\n- {name: whole, config: 2}\n")
        loaded = await load(Context(), path)
        assert list(loaded.fibers) == ["my-plugin", "whole"]
        assert log == [1, 2]

    @sync
    async def test_an_entry_point_goes_before_a_module_of_that_name(
        self, tmp_path: Path, offer: Any, log: list[Any]
    ) -> None:
        offer("nice", "json = good_plugins:apply")
        assert (await load(Context(), write(tmp_path, "- name: json\n"))).errors == {}
        assert log == [None]

    @sync
    async def test_the_same_entry_point_installed_twice_is_one(
        self, tmp_path: Path, offer: Any, log: list[Any]
    ) -> None:
        offer("nice", "mine = good_plugins:apply")
        offer("nice_too", "mine = good_plugins:apply")
        assert (await load(Context(), write(tmp_path, "- name: mine\n"))).errors == {}

    @sync
    async def test_a_name_that_several_distributions_offer_is_refused(
        self, tmp_path: Path, offer: Any
    ) -> None:
        offer("one", "mine = one.plugins:a")
        offer("two", "mine = two.plugins:b")
        loaded = await load(Context(), write(tmp_path, "- name: mine\n"))
        assert str(loaded.errors["mine"]) == (
            f"{tmp_path}/plugins.yml:1: entry 1 ('mine'): several distributions offer 'mine': "
            "one.plugins:a, two.plugins:b; name one of these instead"
        )

    @sync
    async def test_an_entry_point_that_leads_nowhere_is_an_import_error(
        self, tmp_path: Path, offer: Any
    ) -> None:
        offer("one", "mine = no_such_module_at_all")
        loaded = await load(Context(), write(tmp_path, "- name: mine\n"))
        assert "importing 'mine' failed: ModuleNotFoundError(" in str(loaded.errors["mine"])


class TestWrongEntries:
    """What is wrong fails loudly and alone."""

    @pytest.mark.parametrize(
        ("entry", "entry_id", "problem"),
        [
            (
                "{id: x}",
                "x",
                (
                    "Field required (at name); "
                    "an entry has `name` and, if need be, `id`, `config`, `disabled`"
                ),
            ),
            (
                "{name: good_plugins, colour: red}",
                "good_plugins",
                (
                    "Extra inputs are not permitted (at colour); "
                    "an entry has `name` and, if need be, `id`, `config`, `disabled`"
                ),
            ),
            (
                "{name: good_plugins, id: 7, disabled: 'no'}",
                "good_plugins",
                (
                    "Input should be a valid string (at id); "
                    "Input should be a valid boolean (at disabled); "
                    "an entry has `name` and, if need be, `id`, `config`, `disabled`"
                ),
            ),
            (
                "good_plugins",
                "entry 2",
                (
                    "Input should be a valid dictionary or instance of Entry (at the top); "
                    "an entry has `name` and, if need be, `id`, `config`, `disabled`"
                ),
            ),
            (
                "{name: ''}",
                "entry 2",
                (
                    "String should have at least 1 character (at name); "
                    "an entry has `name` and, if need be, `id`, `config`, `disabled`"
                ),
            ),
            (
                "{name: good_plugins, name: good_plugins}",
                "entry 2",
                "the key 'name' is there twice (line 2, column 24); correct it",
            ),
            (
                "{name: good_plugins, config: !!python/name:os.system }",
                "entry 2",
                (
                    "could not determine a constructor for the tag "
                    "'tag:yaml.org,2002:python/name:os.system' (line 2, column 32); correct it"
                ),
            ),
            (
                "{name: good_plugins, config: 2026-99-99}",
                "entry 2",
                "ValueError('month must be in 1..12'); correct it",
            ),
            (
                "!!map good_plugins",
                "entry 2",
                "expected a mapping node, but found scalar (line 2, column 3); correct it",
            ),
            (
                "{name: no_such_plugin}",
                "no_such_plugin",
                (
                    "there is no plugin 'no_such_plugin'; "
                    "install it, or name it as `module` or `module:attribute`"
                ),
            ),
            (
                "{name: good_plugins.no_such}",
                "good_plugins.no_such",
                (
                    "there is no plugin 'good_plugins.no_such'; "
                    "install it, or name it as `module` or `module:attribute`"
                ),
            ),
            (
                "{name: '../../etc/passwd'}",
                "../../etc/passwd",
                (
                    "there is no plugin '../../etc/passwd'; "
                    "install it, or name it as `module` or `module:attribute`"
                ),
            ),
            (
                "{name: 'good_plugins:missing'}",
                "good_plugins:missing",
                (
                    "importing 'good_plugins:missing' failed: "
                    "AttributeError(\"module 'good_plugins' has no attribute 'missing'\"); "
                    "mend it, or disable the entry"
                ),
            ),
            (
                "{name: 'good_plugins:number'}",
                "good_plugins:number",
                "a plugin is a class, a function or has `apply`, not 1; name one that is",
            ),
            (
                "{name: 'good_plugins:Strict', config: {tries: many}}",
                "good_plugins:Strict",
                (
                    "wrong configuration: Input should be a valid integer, "
                    "unable to parse string as an integer (at tries); correct `config`"
                ),
            ),
            (
                "{name: 'good_plugins:broken'}",
                "good_plugins:broken",
                "it has failed: ValueError('no luck'); mend it, or disable the entry",
            ),
        ],
    )
    @sync
    async def test_a_wrong_entry_is_named_and_the_others_are_loaded(
        self,
        tmp_path: Path,
        log: list[Any],
        caplog: pytest.LogCaptureFixture,
        entry: str,
        entry_id: str,
        problem: str,
    ) -> None:
        path = write(
            tmp_path,
            f"- {{id: before, name: good_plugins}}\n- {entry}\n- {{id: after, name: good_plugins}}",
        )
        loaded = await load(Context(), path)
        assert {"before", "after"} <= set(loaded.fibers)
        assert log == [None, None]
        assert list(loaded.errors) == [entry_id]
        text = f"{path}:2: entry 2 ({entry_id!r}): {problem}"
        error = loaded.errors[entry_id]
        assert str(error) == text
        assert text in caplog.messages
        assert isinstance(error, PluginEntryError)
        assert (error.code, error.path, error.line, error.position, error.entry_id) == (
            "PLUGIN_ENTRY",
            path,
            2,
            2,
            entry_id,
        )

    @sync
    async def test_the_cause_of_an_error_is_kept(self, tmp_path: Path, log: list[Any]) -> None:
        path = write(
            tmp_path,
            "- {id: a, name: 'good_plugins:Strict'}\n"
            "- {id: b, name: 'good_plugins:broken'}\n"
            "- {id: c, name: nowhere_at_all}\n"
            "- {id: d}\n",
        )
        errors = (await load(Context(), path)).errors
        assert {name: type(error.__cause__) for name, error in errors.items()} == {
            "a": ConfigError,
            "b": ValueError,
            "c": ModuleNotFoundError,
            "d": pydantic.ValidationError,
        }

    @sync
    async def test_an_id_that_is_taken_is_refused_and_its_first_owner_loaded(
        self, tmp_path: Path, log: list[Any]
    ) -> None:
        path = write(
            tmp_path,
            "- {id: x, name: good_plugins, config: 1}\n- {id: x, name: good_plugins, config: 2}\n",
        )
        loaded = await load(Context(), path)
        assert log == [1]
        assert list(loaded.fibers) == ["x"]
        assert str(loaded.errors["x (2)"]) == (
            f"{path}:2: entry 2 ('x (2)'): the id 'x' is taken by an entry before; "
            "choose another one"
        )

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("raise ValueError('boom')", "ValueError('boom')"),
            ("raise SystemExit('boom')", "SystemExit('boom')"),
            ("import no_such_module", "ModuleNotFoundError(\"No module named 'no_such_module'\")"),
            ("def apply(", "SyntaxError("),
        ],
    )
    @sync
    async def test_a_module_that_cannot_be_imported_is_an_error_of_its_entry(
        self,
        tmp_path: Path,
        modules: Path,
        monkeypatch: pytest.MonkeyPatch,
        text: str,
        problem: str,
    ) -> None:
        (modules / "faulty_plugin.py").write_text(text)
        monkeypatch.delitem(sys.modules, "faulty_plugin", raising=False)
        loaded = await load(Context(), write(tmp_path, "- name: faulty_plugin\n"))
        assert f"importing 'faulty_plugin' failed: {problem}" in str(loaded.errors["faulty_plugin"])

    @sync
    async def test_a_name_with_a_line_break_stays_in_its_line_of_the_log(
        self, tmp_path: Path
    ) -> None:
        loaded = await load(Context(), write(tmp_path, '- name: "a\\nb"\n'))
        assert "\n" not in str(loaded.errors["a\nb"])

    @sync
    async def test_overlong_names_are_refused_and_not_used_as_ids(self, tmp_path: Path) -> None:
        loaded = await load(Context(), write(tmp_path, f"- name: {'x' * 201}\n"))
        assert list(loaded.errors) == ["entry 1"]
        assert "String should have at most 200 characters (at name)" in str(
            loaded.errors["entry 1"]
        )


class TestWrongFiles:
    """Files that cannot be used at all."""

    @pytest.mark.parametrize(
        ("text", "line", "problem"),
        [
            ("", 1, "not a list; write `- name: …` for each plugin, or `[]`"),
            ("# only a remark\n", 1, "not a list; write `- name: …` for each plugin, or `[]`"),
            ("\n\nname: x\n", 3, "not a list; write `- name: …` for each plugin, or `[]`"),
            ("text", 1, "not a list; write `- name: …` for each plugin, or `[]`"),
            (
                "- name: x\n- name: [\n",
                3,
                "expected the node content, but found '<stream end>' (line 3, column 1)",
            ),
            ("- a\n---\n- b\n", 2, "but found another document (line 2, column 1)"),
            ("- a\n- b: \x07\n", 2, "the character U+0007 is not allowed; remove it"),
            (
                "- a\n- \tb: c\n\t- d",
                2,
                "found character '\\t' that cannot start any token (line 2, column 3)",
            ),
        ],
    )
    @sync
    async def test_what_is_no_yaml_or_no_list_is_refused_with_its_line(
        self, tmp_path: Path, text: str, line: int, problem: str
    ) -> None:
        path = write(tmp_path, text)
        with pytest.raises(PluginFileError) as caught:
            await load_plugins(Context(), path)
        assert str(caught.value) == f"{path}:{line}: {problem}"
        assert (caught.value.code, caught.value.path, caught.value.line) == (
            "PLUGIN_FILE",
            path,
            line,
        )
        assert isinstance(caught.value, HarnessError)

    @sync
    async def test_a_file_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(PluginFileError) as caught:
            await load_plugins(Context(), tmp_path / "none.yml")
        assert str(caught.value) == (
            f"{tmp_path}/none.yml: cannot be read: No such file or directory"
        )
        assert caught.value.line == 0
        assert isinstance(caught.value.__cause__, FileNotFoundError)

    @pytest.mark.parametrize("kind", ["folder", "pipe"])
    @sync
    async def test_what_is_no_file_is_refused_and_never_waited_for(
        self, tmp_path: Path, kind: str
    ) -> None:
        path = tmp_path / kind
        if kind == "folder":
            path.mkdir()
        else:
            os.mkfifo(path)
        with pytest.raises(PluginFileError, match="not a file"):
            await load_plugins(Context(), path)

    @sync
    async def test_a_path_that_no_file_can_have_is_refused(self) -> None:
        with pytest.raises(PluginFileError, match="cannot be read: "):
            await load_plugins(Context(), "a\0b")

    @sync
    async def test_a_file_that_is_not_utf_8_is_refused_with_its_line(self, tmp_path: Path) -> None:
        path = tmp_path / "plugins.yml"
        path.write_bytes(b"- name: a\n- name: \xe4\n")
        with pytest.raises(PluginFileError) as caught:
            await load_plugins(Context(), path)
        assert str(caught.value) == f"{path}:2: not UTF-8; save it as such"

    @sync
    async def test_a_byte_order_mark_is_no_error(self, tmp_path: Path, log: list[Any]) -> None:
        path = tmp_path / "plugins.yml"
        path.write_bytes(b"\xef\xbb\xbf- name: good_plugins\n")
        assert list((await load(Context(), path)).fibers) == ["good_plugins"]

    def test_without_pyyaml_the_error_says_what_to_install(self, tmp_path: Path) -> None:
        code = f"""
import asyncio, sys
sys.modules["yaml"] = None
from dsh_core.context import Context
from dsh_core.context.loader import load_plugins
try:
    asyncio.run(load_plugins(Context(), {str(tmp_path / "plugins.yml")!r}))
except Exception as error:
    print(type(error).__name__, error.code, error)
"""
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
        )
        assert done.stdout == (
            "MissingExtraError MISSING_EXTRA files of plugins need an extra: "
            "pip install '.[harness]' in the project's folder\n"
        )
        assert issubclass(MissingExtraError, HarnessError)


class TestBounds:
    """Files made to do harm."""

    @pytest.mark.parametrize(
        ("text", "line", "problem"),
        [
            ("- &a {name: x}\n- *a\n", 2, "aliases"),
            ("- &a [*a]\n", 1, "aliases"),
            ("- a: &a {b: 1}\n  c:\n    <<: *a\n", 3, "aliases"),
            (f"- {'[' * MAX_DEPTH}{']' * MAX_DEPTH}\n", 1, "more than 50 levels"),
            ("- " * 60 + "a\n", 1, "more than 50 levels"),
            ("[" * 100_000, 1, "more than 50 levels"),
            (f"- [{'a,' * MAX_NODES}]", 1, "more than 50000 values"),
            ("- a\n" * (MAX_ENTRIES + 1), 1001, "more than 1000 entries"),
            ("# " + "x" * MAX_BYTES, 1, "longer than 1048576 bytes"),
            ("\n" * (MAX_BYTES + 1), MAX_BYTES + 1, "longer than 1048576 bytes"),
        ],
        ids=lambda value: value if isinstance(value, str) and len(value) < 30 else "",
    )
    def test_what_is_too_much_is_refused(
        self, tmp_path: Path, text: str, line: int, problem: str
    ) -> None:
        path = write(tmp_path, text)
        with pytest.raises(PluginFileError) as caught:
            read_items(path)
        assert f"{path}:{line}: {problem}" in str(caught.value)

    def test_what_is_just_not_too_much_is_read(self, tmp_path: Path) -> None:
        deep = "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)
        items = read_items(write(tmp_path, f"- {deep}\n" + "- a\n" * (MAX_ENTRIES - 1)))
        assert len(items) == 1_000
        assert (items[-1].position, items[-1].line, items[-1].value) == (1_000, 1_000, "a")

    @pytest.mark.parametrize("number", ["1" + ":1" * 250_000, "0x" + "f" * 1_000, "1" * 1_001])
    def test_numbers_without_end_are_refused_at_once(self, tmp_path: Path, number: str) -> None:
        items = read_items(write(tmp_path, f"- {number}\n- '{number}'\n"))
        assert items[0].problem == (
            "more than 1000 characters that are no text; quote them (line 1, column 3)"
        )
        assert items[1].value == number

    def test_a_billion_laughs_are_no_joke(self, tmp_path: Path) -> None:
        text = "- &a0 [x, x]\n" + "".join(
            f"- &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10)
        )
        with pytest.raises(PluginFileError, match=r":2: aliases \(`\*name`\) are not supported"):
            read_items(write(tmp_path, text))

    @settings(max_examples=150, deadline=None)
    @given(st.text(st.sampled_from("-[]{}:,&*!|>'\"%@#?~<a1 \n\t\x00é"), max_size=40) | st.text())
    def test_any_text_is_read_or_refused_with_the_error_of_a_file(
        self, tmp_path_factory: pytest.TempPathFactory, text: str
    ) -> None:
        path = tmp_path_factory.getbasetemp() / "any.yml"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))

        async def main() -> int:
            try:
                return len((await load_plugins(Context(), path)).fibers)
            except PluginFileError as error:
                return 0 if error.line >= 1 else -1

        assert asyncio.run(main()) == 0
