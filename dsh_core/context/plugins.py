"""What can be a plugin, and what is read of it before it runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pydantic

if TYPE_CHECKING:
    from collections.abc import Callable


class ConfigError(ValueError):
    """A plugin cannot be configured so.

    Args:
        problems: Lines of the form ``message (at path)``.
    """

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin as the context sees it.

    Attributes:
        name: For people.
        body: Called with the context and the configuration.
        inject: Names of the services it needs, all of them.
        config: The pydantic type of its configuration, None if it takes anything.
    """

    name: str
    body: Callable[..., Any]
    inject: tuple[str, ...]
    config: Any

    @classmethod
    def of(cls, source: Any) -> Plugin:  # noqa: ANN401 - one of three forms
        """Read a plugin.

        Args:
            source: A class, made with (context, configuration), a function with these parameters,
                or an object, a module for example, with such a function ``apply``.

        Raises:
            TypeError: It is none of these, or does not say by name what it injects.
        """
        body = source if callable(source) else getattr(source, "apply", None)
        if not callable(body):
            raise TypeError(f"a plugin is a class, a function or has `apply`, not {source!r:.80}")
        inject = getattr(source, "inject", ())
        return cls(
            name=_name(source),
            body=_with_as_many_arguments_as_it_takes(body),
            # A method or function of that name is something else.
            inject=() if callable(inject) else names_of(inject),
            config=getattr(source, "Config", None),
        )

    def configured(self, config: object) -> Any:  # noqa: ANN401 - of the plugin's own type
        """Return the configuration as the plugin wants it.

        Raises:
            ConfigError: It does not fit.
        """
        if self.config is None:
            return config
        try:
            # Nothing given is an empty configuration: the type's defaults.
            return pydantic.TypeAdapter(self.config).validate_python(
                {} if config is None else config
            )
        except pydantic.ValidationError as error:
            raise ConfigError(
                [
                    f"{one['msg']} (at {'.'.join(map(str, one['loc'])) or 'the top'})"
                    for one in error.errors(include_url=False, include_input=False)
                ]
            ) from None
        except Exception as error:
            # A validator of the plugin's own, or a `Config` that is no type for pydantic.
            raise ConfigError([f"{error!r:.500} (at the top)"]) from error


def names_of(names: object) -> tuple[str, ...]:
    """Read names of services.

    Args:
        names: Some names, a mapping of such or a single one; None means none.

    Raises:
        TypeError: They are something else.
    """
    # A lone string is a sequence of letters; nobody means that.
    listed = (names,) if isinstance(names, str) else () if names is None else names
    found = tuple(listed) if isinstance(listed, Iterable) else (listed,)
    if not all(isinstance(name, str) and name for name in found):
        raise TypeError(f"`inject` holds names of services, not {names!r:.80}")
    return found


def _name(source: Any) -> str:  # noqa: ANN401 - as above
    name = getattr(source, "name", None)
    if isinstance(name, str) and name:
        return name
    return str(getattr(source, "__name__", type(source).__name__))


def _with_as_many_arguments_as_it_takes(body: Callable[..., Any]) -> Callable[..., Any]:
    try:
        parameters = inspect.signature(body).parameters.values()
    except (TypeError, ValueError):
        return body
    kinds = [parameter.kind for parameter in parameters]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return body
    room = sum(
        kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for kind in kinds
    )
    return lambda ctx, config: body(*(ctx, config)[:room])
