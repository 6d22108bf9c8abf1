"""Plugins named in a file: found, configured and added to a context."""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import pydantic

from dsh_core.context.fiber import ContextError, FiberState
from dsh_core.context.loader_errors import MissingExtraError, PluginEntryError, PluginFileError
from dsh_core.context.plugins import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from os import PathLike

    from dsh_core.context.context import Context
    from dsh_core.context.fiber import Fiber
    from dsh_core.context.loader_file import Item

__all__ = [
    "ENTRY_POINTS",
    "Entry",
    "Loaded",
    "MissingExtraError",
    "PluginEntryError",
    "PluginFileError",
    "load_plugins",
]

ENTRY_POINTS: Final = "dsh_core.plugins"
"""Group of the entry points that installed distributions offer plugins by."""

_LONGEST_NAME: Final = 200
_TEXT: Final = 500
_IMPORTABLE: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*(:[^\W\d]\w*(\.[^\W\d]\w*)*)?")
_logger: Final = logging.getLogger("dsh_core")

_Name = Annotated[str, pydantic.StringConstraints(min_length=1, max_length=_LONGEST_NAME)]


class Entry(pydantic.BaseModel):
    """An entry of the file.

    Attributes:
        name: Which plugin: an entry point, ``module`` or ``module:attribute``.
        id: What the entry is called; made from the name if missing.
        config: The plugin's configuration.
        disabled: Whether to leave it out.
    """

    model_config = pydantic.ConfigDict(extra="forbid", strict=True, frozen=True)

    name: _Name
    id: _Name | None = None
    config: Any = None
    disabled: bool | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came of a file of plugins.

    Attributes:
        fibers: Lives of the plugins, by the ids of their entries; also of those that have failed
            and of those that wait for a service.
        errors: What is wrong, by the ids of the entries.
    """

    fibers: dict[str, Fiber] = field(default_factory=dict)
    errors: dict[str, Exception] = field(default_factory=dict)


async def load_plugins(ctx: Context, path: str | PathLike[str]) -> Loaded:
    """Add the plugins that a file names, and wait until nothing about them is under way.

    The file is a YAML list of entries with ``name`` and, if need be, ``id``, ``config`` and
    ``disabled``. What is wrong with one is logged and does not touch the others.

    Args:
        ctx: What to add them to; they are unloaded with it.
        path: The file.

    Returns:
        What came of the entries.

    Raises:
        PluginFileError: The file cannot be read, is too big, is no YAML or no list.
        MissingExtraError: PyYAML is not installed.
        ContextError: The context is unloaded.
    """
    file = Path(path)
    loaded = Loaded()
    entries = _named(await asyncio.to_thread(_items, file))
    points = metadata.entry_points(group=ENTRY_POINTS)
    for one in entries:
        problem, cause = one.problem, one.cause
        if one.entry is not None and not one.entry.disabled and not problem:
            try:
                loaded.fibers[one.id] = _start(ctx, one.entry, points)
            except _Misfit as misfit:
                problem, cause = str(misfit), misfit.__cause__
        if problem:
            _refuse(loaded, file, one, problem, cause)
    await _settle(loaded.fibers.values())
    for one in entries:
        fiber = loaded.fibers.get(one.id)
        if fiber is not None and fiber.state is FiberState.FAILED:
            _refuse(loaded, file, one, _failure(fiber), fiber.error)
    return loaded


class _Misfit(Exception):  # noqa: N818 - never leaves this module
    """Why an entry cannot be loaded, and what to do."""


@dataclass(frozen=True, slots=True)
class _Named:
    """An item of the file, read, with an id of its own."""

    item: Item
    id: str
    entry: Entry | None
    problem: str = ""
    cause: BaseException | None = None


def _items(path: Path) -> list[Item]:
    try:
        from dsh_core.context.loader_file import read_items  # noqa: PLC0415 - needs an extra
    except ImportError as error:
        raise MissingExtraError(error) from error
    return read_items(path)


def _named(items: Sequence[Item]) -> list[_Named]:
    """Give every item an id; the ids that are written down come first."""
    written = [_text(item.value, "id") for item in items]
    taken = set(written)
    used: set[str] = set()
    named = []
    for item, own in zip(items, written, strict=True):
        entry_id = own
        if not own or own in used:
            wish = own or _text(item.value, "name") or f"entry {item.position}"
            entry_id = next(made for made in _variants(wish) if made not in taken)
            taken.add(entry_id)
        entry, problem, cause = _entry(item)
        if own and own in used and not problem:
            problem = f"the id {own!r} is taken by an entry before; choose another one"
        used.add(own)
        named.append(_Named(item, entry_id, entry, problem, cause))
    return named


def _variants(wish: str) -> Iterator[str]:
    yield wish
    count = 2
    while True:
        yield f"{wish} ({count})"
        count += 1


def _text(value: object, key: str) -> str:
    """Return a name that an entry holds, also one that is wrong otherwise; '' if it has none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) and len(found) <= _LONGEST_NAME else ""


def _entry(item: Item) -> tuple[Entry | None, str, BaseException | None]:
    if item.problem:
        return None, f"{item.problem}; correct it", None
    try:
        return Entry.model_validate(item.value), "", None
    except pydantic.ValidationError as error:
        problems = "; ".join(
            f"{one['msg']} (at {'.'.join(map(str, one['loc'])) or 'the top'})"
            for one in error.errors(include_url=False, include_input=False)
        )
        advice = "an entry has `name` and, if need be, `id`, `config`, `disabled`"
        return None, f"{problems:.{_TEXT}}; {advice}", error


def _start(ctx: Context, entry: Entry, points: metadata.EntryPoints) -> Fiber:
    plugin = _find(entry.name, points)
    try:
        return ctx.plugin(plugin, entry.config)
    except ContextError:
        # Not the entry's fault: nothing can be added any more.
        raise
    except Exception as error:
        raise _Misfit(f"{error!s:.{_TEXT}}; name one that is") from error


def _find(name: str, points: metadata.EntryPoints) -> Any:  # noqa: ANN401 - whatever it is
    """Find a plugin by name: an entry point, else something to import."""
    found = {point.value: point for point in points.select(name=name)}
    if len(found) > 1:
        raise _Misfit(
            f"several distributions offer {name!r}: {', '.join(sorted(found)):.{_TEXT}}; "
            "name one of these instead"
        )
    if not found:
        if _IMPORTABLE.fullmatch(name) is None:
            raise _unknown(name)
        # Read like an entry point that is called what it stands for: the two are written alike.
        found[name] = metadata.EntryPoint(name, name, ENTRY_POINTS)
    point = next(iter(found.values()))
    try:
        return point.load()
    except ModuleNotFoundError as error:
        if point.value == name and f"{point.module}.".startswith(f"{error.name}."):
            raise _unknown(name) from error
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:
        # Importing runs whatever the module holds.
        raise _broken(name, error) from error


def _unknown(name: str) -> _Misfit:
    return _Misfit(
        f"there is no plugin {name!r}; install it, or name it as `module` or `module:attribute`"
    )


def _broken(name: str, error: BaseException) -> _Misfit:
    return _Misfit(f"importing {name!r} failed: {error!r:.{_TEXT}}; mend it, or disable the entry")


async def _settle(fibers: Iterable[Fiber]) -> None:
    """Wait until nothing is under way."""
    waiting = tuple(fibers)
    # One that is over may be what another has waited for; at worst each is what the next needs.
    for _ in range(len(waiting) + 1):
        busy = [fiber for fiber in waiting if fiber.busy]
        if not busy:
            break
        await asyncio.gather(*busy, return_exceptions=True)


def _failure(fiber: Fiber) -> str:
    if isinstance(fiber.error, ConfigError):
        problems = "; ".join(fiber.error.problems)
        return f"wrong configuration: {problems:.{_TEXT}}; correct `config`"
    return f"it has failed: {fiber.error!r:.{_TEXT}}; mend it, or disable the entry"


def _refuse(
    loaded: Loaded, path: Path, one: _Named, problem: str, cause: BaseException | None
) -> None:
    error = PluginEntryError(path, one.item.line, one.item.position, one.id, problem, cause=cause)
    loaded.errors[one.id] = error
    _logger.error("%s", error)
