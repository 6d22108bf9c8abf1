"""History that cannot be changed: containers that refuse, and tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from dsh_core.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dsh_core.session.entry import Entry


class History:
    """One logged event, as its frozen payload knows it.

    Args:
        seq: Its seq.
        on_change: Called with the seq and what somebody was about to do.
    """

    __slots__ = ("_on_change", "seq")

    def __init__(self, seq: int, on_change: Callable[[int, str], object]) -> None:
        self.seq = seq
        self._on_change = on_change

    def refuse(self, operation: str) -> NoReturn:
        """Keep somebody from changing the event.

        Raises:
            InvariantError: Always.
        """
        self._on_change(self.seq, operation)
        raise InvariantError(
            f"history was about to change: {operation} on the event of seq {self.seq}"
        )


def freeze(entry: Entry, on_change: Callable[[int, str], object]) -> None:
    """Make all that an entry holds unchangeable; an entry itself is by nature.

    Whoever handed the payload over keeps the original, which is no part of the log any more.

    Args:
        entry: The entry.
        on_change: Called with its seq and what somebody was about to do.
    """
    history = History(entry.seq, on_change)
    for name in ("data", "source_event_seqs", "surface_op"):
        value = getattr(entry, name)
        if isinstance(value, dict | list) and not isinstance(value, FrozenDict | FrozenList):
            msgspec.structs.force_setattr(entry, name, _frozen(value, history))


def _frozen(value: Any, history: History) -> Any:  # noqa: ANN401 - JSON values
    if isinstance(value, dict):
        return FrozenDict({key: _frozen(item, history) for key, item in value.items()}, history)
    if isinstance(value, list):
        return FrozenList([_frozen(item, history) for item in value], history)
    return value


def thawed(value: Any) -> Any:  # noqa: ANN401 - JSON values
    """Return a copy that may be changed."""
    if isinstance(value, dict):
        return {key: thawed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [thawed(item) for item in value]
    return value


class FrozenDict(dict[str, Any]):
    """A mapping of history; copies of it may be changed."""

    __slots__ = ("_history",)

    def __init__(self, items: dict[str, Any], history: History) -> None:
        _require_new(self)
        super().__init__(items)
        self._history = history

    @classmethod
    def fromkeys(cls, keys: Iterable[str], value: Any = None) -> dict[str, Any]:  # type: ignore[override]  # noqa: ANN401 - JSON values
        """Return a plain mapping."""
        return dict.fromkeys(keys, value)

    def __copy__(self) -> dict[str, Any]:
        """Return a plain copy of this level."""
        return dict(self)

    def __deepcopy__(self, memo: object) -> Any:  # noqa: ANN401 - JSON values
        """Return a plain copy of all levels."""
        return thawed(self)

    def __reduce__(self) -> Any:  # noqa: ANN401 - what pickle wants
        """Pickle as a plain mapping."""
        return dict, (thawed(self),)


class FrozenList(list[Any]):
    """A list of history; copies of it may be changed."""

    __slots__ = ("_history",)

    def __init__(self, items: list[Any], history: History) -> None:
        _require_new(self)
        super().__init__(items)
        self._history = history

    def __copy__(self) -> list[Any]:
        """Return a plain copy of this level."""
        return list(self)

    def __deepcopy__(self, memo: object) -> Any:  # noqa: ANN401 - JSON values
        """Return a plain copy of all levels."""
        return thawed(self)

    def __reduce__(self) -> Any:  # noqa: ANN401 - what pickle wants
        """Pickle as a plain list."""
        return list, (thawed(self),)


def _require_new(container: FrozenDict | FrozenList) -> None:
    # Python lets anybody call `__init__` once more, which would replace what is there.
    history = getattr(container, "_history", None)
    if history is not None:
        history.refuse("__init__")


def _refusing(name: str) -> Callable[..., None]:
    def refuse(self: Any, *_args: object, **_named: object) -> None:  # noqa: ANN401 - either kind
        self._history.refuse(name)

    refuse.__name__ = name
    refuse.__doc__ = "Refuse: this is history."
    return refuse


def _forbid(cls: type, *names: str) -> None:
    for name in names:
        setattr(cls, name, _refusing(name))


_forbid(
    FrozenDict,
    "__setitem__",
    "__delitem__",
    "__ior__",
    "clear",
    "pop",
    "popitem",
    "setdefault",
    "update",
)
_forbid(
    FrozenList,
    "__setitem__",
    "__delitem__",
    "__iadd__",
    "__imul__",
    "append",
    "clear",
    "extend",
    "insert",
    "pop",
    "remove",
    "reverse",
    "sort",
)
