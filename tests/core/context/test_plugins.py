"""Tests of what can be a plugin and how its configuration is read."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from dsh_core.context import ConfigError, Context
from dsh_core.context.plugins import Plugin, names_of
from tests.core.context.support import sync


class Settings(pydantic.BaseModel):
    """A configuration."""

    tries: int = 3
    hosts: list[str] = []


class Module:
    """An object with `apply`."""

    name = "a module"
    inject = ("tools",)
    Config = Settings

    def __init__(self) -> None:
        self.got: list[object] = []

    def apply(self, ctx: Context, config: Settings) -> None:
        self.got.extend((ctx, config))


class TestForms:
    """Class, function, object."""

    @sync
    async def test_a_class_is_made_with_context_and_configuration(self) -> None:
        ctx, got = Context(), list[object]()

        class Made:
            def __init__(self, own: Context, config: object) -> None:
                got.extend((own, config))

        fiber = await ctx.plugin(Made, {"a": 1})
        assert got == [fiber.ctx, {"a": 1}]
        assert fiber.ctx.parent is ctx
        assert fiber.name == "Made"

    @sync
    async def test_a_function_is_called_with_context_and_configuration(self) -> None:
        ctx, got = Context(), list[object]()

        def called(own: Context, config: object) -> None:
            got.extend((own, config))

        fiber = await ctx.plugin(called, "config")
        assert got == [fiber.ctx, "config"]
        assert fiber.name == "called"

    @sync
    async def test_an_object_with_apply_has_it_called_with_context_and_configuration(self) -> None:
        ctx, module = Context(), Module()
        ctx.provide("tools", 1)
        fiber = await ctx.plugin(module, {"tries": 1})
        assert module.got == [fiber.ctx, Settings(tries=1)]
        assert fiber.name == "a module"

    @sync
    async def test_a_module_with_apply_is_a_plugin(self) -> None:
        ctx, got, module = Context(), list[object](), types.ModuleType("some_module")
        module.apply = got.append  # type: ignore[attr-defined]
        fiber = await ctx.plugin(module)
        assert got == [fiber.ctx]
        assert fiber.name == "some_module"

    @pytest.mark.parametrize("wrong", [None, 1, "name", object(), types.SimpleNamespace(apply=1)])
    def test_anything_else_is_no_plugin(self, wrong: object) -> None:
        with pytest.raises(TypeError, match="a plugin is a class, a function or has `apply`, not"):
            Context().plugin(wrong)

    @sync
    async def test_a_body_gets_only_the_arguments_it_takes(self) -> None:
        ctx, got = Context(), list[object]()
        await ctx.plugin(lambda: got.append("none"))
        await ctx.plugin(lambda own: got.append(own.fiber.name))
        await ctx.plugin(lambda *args: got.append(len(args)), 1)
        await ctx.plugin(lambda own, config, *, more=1: got.append(config), 2)
        await ctx.plugin(got.append, 3)
        assert got[:4] == ["none", "<lambda>", 2, 2]
        assert isinstance(got[4], Context)

    def test_a_body_that_does_not_say_what_it_takes_gets_both(self) -> None:
        class Opaque:
            __signature__ = "unreadable"

            def __call__(self, *args: object) -> object:
                return args

        assert Plugin.of(Opaque()).body(1, 2) == (1, 2)


class TestDescription:
    """Name, inject, Config."""

    def test_name_inject_and_config_are_optional(self) -> None:
        plugin = Plugin.of(lambda: None)
        assert (plugin.name, plugin.inject, plugin.config) == ("<lambda>", (), None)

    def test_name_inject_and_config_are_read(self) -> None:
        plugin = Plugin.of(Module())
        assert (plugin.name, plugin.inject, plugin.config) == ("a module", ("tools",), Settings)

    @pytest.mark.parametrize("name", ["", None, 1, property(lambda self: "x")])
    def test_a_name_that_is_no_text_is_not_taken(self, name: object) -> None:
        assert Plugin.of(type("Odd", (), {"name": name})).name == "Odd"

    def test_an_object_without_a_name_is_called_like_its_class(self) -> None:
        assert Plugin.of(types.SimpleNamespace(apply=print)).name == "SimpleNamespace"

    @pytest.mark.parametrize(
        ("inject", "names"),
        [
            (["tools", "llm"], ("tools", "llm")),
            (("tools",), ("tools",)),
            ({"tools": None, "llm": {"model": "x"}}, ("tools", "llm")),
            ({"tools"}, ("tools",)),
            ("tools", ("tools",)),
            ([], ()),
            (None, ()),
            (lambda: None, ()),
        ],
    )
    def test_inject_is_a_list_of_names_or_a_mapping_of_them(
        self, inject: object, names: tuple[str, ...]
    ) -> None:
        assert Plugin.of(type("Some", (), {"inject": inject})).inject == names

    @pytest.mark.parametrize("wrong", [1, [1], ["tools", None], [""], b"tools"])
    def test_an_inject_that_names_nothing_is_refused(self, wrong: object) -> None:
        with pytest.raises(TypeError, match="`inject` holds names of services, not"):
            Plugin.of(type("Some", (), {"inject": wrong}))
        with pytest.raises(TypeError, match="`inject` holds names of services, not"):
            names_of(wrong)


class TestConfig:
    """Configurations."""

    def test_a_configuration_is_made_of_the_type_the_plugin_wants(self) -> None:
        plugin = Plugin.of(Module())
        assert plugin.configured({"tries": 5, "hosts": ["a"]}) == Settings(tries=5, hosts=["a"])

    def test_no_configuration_means_the_defaults(self) -> None:
        assert Plugin.of(Module()).configured(None) == Settings(tries=3, hosts=[])

    def test_without_config_anything_is_handed_on_as_it_is(self) -> None:
        config = {"a": object()}
        assert Plugin.of(print).configured(config) is config
        assert Plugin.of(print).configured(None) is None

    def test_a_wrong_configuration_lists_messages_with_their_paths(self) -> None:
        with pytest.raises(ConfigError) as caught:
            Plugin.of(Module()).configured({"tries": "x", "hosts": ["a", 1]})
        assert caught.value.problems == [
            "Input should be a valid integer, unable to parse string as an integer (at tries)",
            "Input should be a valid string (at hosts.1)",
        ]
        assert str(caught.value) == (
            "Input should be a valid integer, unable to parse string as an integer (at tries)\n"
            "Input should be a valid string (at hosts.1)"
        )

    def test_a_configuration_wrong_as_a_whole_is_wrong_at_the_top(self) -> None:
        with pytest.raises(ConfigError) as caught:
            Plugin.of(Module()).configured(1)
        assert caught.value.problems == [
            "Input should be a valid dictionary or instance of Settings (at the top)"
        ]

    def test_any_type_that_pydantic_knows_can_be_config(self) -> None:
        @dataclass
        class Point:
            x: int

        assert Plugin.of(type("P", (), {"Config": Point})).configured({"x": "1"}) == Point(1)

    @sync
    async def test_a_configuration_is_checked_at_once(self) -> None:
        fiber = Context().plugin(Module(), {"tries": "x"})
        assert isinstance(fiber.error, ConfigError)
        with pytest.raises(ConfigError):
            await fiber

    def test_a_validator_that_fails_in_its_own_way_is_a_wrong_configuration(self) -> None:
        class Broken(pydantic.BaseModel):
            value: int

            @pydantic.field_validator("value")
            @classmethod
            def check(cls, value: int) -> float:
                return 1 / value

        with pytest.raises(ConfigError) as caught:
            Plugin.of(type("P", (), {"Config": Broken})).configured({"value": 0})
        assert caught.value.problems == ["ZeroDivisionError('division by zero') (at the top)"]

    def test_a_config_that_is_no_type_for_pydantic_fails_the_plugin_only(self) -> None:
        class Plain:
            pass

        plugin: Any = type("P", (), {"Config": Plain})
        with pytest.raises(ConfigError, match="PydanticSchemaGenerationError"):
            Plugin.of(plugin).configured({})
