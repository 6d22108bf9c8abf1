"""Rule sets that do not ship with this release: what they get wrong stays theirs.

Whatever such a set raises comes out of a frame that tells whose it is, and what it changed of the
things that all rules share is put back. Sets that ship are called without any of this.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import astuple

from dsh_core.contract.rule import RuleSet
from dsh_core.contract.run import MAX_TEXT, UndeclaredRuleError
from dsh_core.events import KNOWN_EVENTS, UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dsh_core.contract.live import LiveFact
    from dsh_core.contract.rule import Handler, LiveHandler
    from dsh_core.contract.run import Run

SHIPPED: Final = "dsh_core.contract.rules."
TABLES: Final = ("handlers", "inside_step", "outside_step", "live")
_SHARED: Final = (
    *("header", "contract", "source", "timeline", "surface"),
    *("presets", "findings", "cause", "cut"),
)
_shared: Final = attrgetter(*_SHARED)


class BrokenSetError(RuntimeError):
    """A rule set does what none may do; the message says what.

    Args:
        problem: What it does.
        culprit: What was called.
    """

    def __init__(self, problem: str, culprit: object) -> None:
        super().__init__(problem)
        self.culprit = culprit


class Foreign(RuleSet):
    """A rule set of somebody else, kept to itself.

    Args:
        cls: The rule set's class.
        run: The run that it judges with.

    Raises:
        Exception: It cannot even start: whatever its own code raises, or a `BrokenSetError`.
    """

    def __init__(self, cls: type[RuleSet], run: Run) -> None:
        super().__init__(run)
        self.cls = cls
        # Of each class there is one instance for a session, of this one there are several.
        self.owner = cls.owner  # type: ignore[misc]
        self.rules = cls.rules  # type: ignore[misc]
        kept = _Kept(run, frozenset(rule.id for rule in cls.rules))
        made = Listener(cls, kept).call(run)
        self._finish = Listener(made.finish, kept).call
        self._tables = {name: _table(made, name, kept) for name in TABLES}

    def handlers(self) -> Mapping[str, Handler]:
        """Return those of the set, as it named them at first."""
        return self._tables["handlers"]

    def outside_step(self) -> Mapping[str, Handler]:
        """Return those of the set, as it named them at first."""
        return self._tables["outside_step"]

    def inside_step(self) -> Mapping[str, Handler]:
        """Return those of the set, as it named them at first."""
        return self._tables["inside_step"]

    def live(self) -> Mapping[type[LiveFact], LiveHandler]:
        """Return those of the set, as it named them at first."""
        return self._tables["live"]

    def finish(self, *, final: bool) -> None:
        """Let the set judge the end."""
        self._finish(final=final)


class Listener:
    """Something of a foreign set, to be called through `call`.

    Args:
        function: What it is.
        kept: What it must leave as it is.
    """

    def __init__(self, function: Callable[..., Any], kept: _Kept) -> None:
        self._function = function
        self._kept = kept

    def call(self, *given: Any, **more: Any) -> Any:  # noqa: ANN401 - as what it stands for
        """Call it.

        Raises:
            BrokenSetError: It cannot be called so, wants to end the program, or has changed what
                it was given.
        """
        function, kept = self._function, self._kept
        event = given[0] if given and isinstance(given[0], msgspec.Struct) else None
        before = kept.state(event)
        kept.begin()
        try:
            done = function(*given, **more)
        except SystemExit as error:
            raise BrokenSetError("SystemExit", function) from error
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                raise BrokenSetError(f"TypeError: {error}", function) from error
            raise
        finally:
            changed = kept.put_back(event, before)
        if changed:
            raise BrokenSetError(f"it changes what it is given: {', '.join(changed)}", function)
        return done


class _Kept:
    """What all rules share, so that it can be put back. Contents of collections are not kept.

    Args:
        run: The run.
        own: Ids of the rules that the set may report.
    """

    def __init__(self, run: Run, own: frozenset[str]) -> None:
        self._run = run
        self._own = own
        self._parts = (run.timeline, run.surface)

    def begin(self) -> None:
        """Let nothing be reported but by the set's own rules."""
        self._run.only = self._own

    def state(self, event: msgspec.Struct | None) -> tuple[Any, ...]:
        data = getattr(event, "data", None)
        return (
            _shared(self._run),
            [dict(vars(part)) for part in self._parts],
            None if event is None else astuple(event),
            data,
            astuple(data) if isinstance(data, msgspec.Struct) else None,
        )

    def put_back(self, event: msgspec.Struct | None, before: tuple[Any, ...]) -> list[str]:
        """Put back what is not as it was, and return its names."""
        self._run.only = None
        try:
            if self.state(event) == before:
                return []
        except AttributeError:
            # Something was even taken away.
            pass
        shared, parts, fields, data, payload = before
        changed = _restore(self._run, _SHARED, shared)
        for part, values in zip(self._parts, parts, strict=True):
            changed += _restore(part, values, values.values())
        if event is not None:
            changed += _restore(event, event.__struct_fields__, fields)
            if payload is not None:
                changed += _restore(data, data.__struct_fields__, payload)
        return changed


def _restore(thing: object, names: Iterable[str], values: Iterable[Any]) -> list[str]:
    changed = []
    for name, value in zip(names, values, strict=True):
        if getattr(thing, name, UNREADABLE) is not value:
            setattr(thing, name, value)
            changed.append(name)
    return changed


def _table(made: RuleSet, name: str, kept: _Kept) -> Mapping[Any, Any]:
    """Return what a set listens to, ready to be called.

    Raises:
        BrokenSetError: It is no mapping of types to something that can be called.
    """
    method = getattr(made, name)
    table = Listener(method, kept).call()
    if not isinstance(table, Mapping):
        kind = type(table).__name__
        raise BrokenSetError(f"{name}() returns a {kind}, not what to call by type", method)
    for key, function in table.items():
        if not isinstance(key, type if name == "live" else str):
            raise BrokenSetError(f"{name}() names something that is no type: {key!r}", method)
        if not callable(function):
            raise BrokenSetError(f"{name}() has nothing to call for {key!r}", method)
        if name.endswith("_step") and not _has_step(str(key)):
            raise BrokenSetError(f"{name}() names {key!r}, which lies in no step", method)
    return {key: Listener(function, kept).call for key, function in table.items()}


def _has_step(kind: str) -> bool:
    cls = KNOWN_EVENTS.get(kind)
    data = None if cls is None else msgspec.structs.fields(cls)
    types = [field.type for field in data or () if field.name == "data"]
    return bool(types) and {"turn", "step"} <= set(getattr(types[0], "__struct_fields__", ()))


def is_foreign(cls: type[RuleSet]) -> bool:
    """Whether a rule set does not ship with this release."""
    return not cls.__module__.startswith(SHIPPED)


def switched_off(cls: type[RuleSet], origin: str, error: Exception) -> str:
    """Say that a rule set is switched off, whose it is, why, and where its failure is.

    It is the same text for all sessions, so that whoever speaks of many can say it once.

    Args:
        cls: Its class.
        origin: The package that brought it, with its version, empty if that is not known.
        error: What came out of it.
    """
    return (
        f"the rules of {cls.owner} ({_name(cls, origin)}) failed at {place(cls, error)} and were "
        f"switched off: {reason(error)}; tell its authors, or exclude 'owner:{cls.owner}'"
    )


def stopped(suspects: Iterable[tuple[type[RuleSet], str]], error: Exception, seq: int) -> str:
    """Say that a session is checked no further, and because of whose rules that may be.

    Args:
        suspects: The rule sets of others, each with the package that brought it.
        error: What went wrong.
        seq: The event at which it did.
    """
    end = f"no further than seq {seq}" if seq >= 0 else "no further than its start"
    return (
        f"this session is checked {end}: {type(error).__name__} "
        f"({place(Foreign, error)}), perhaps because of what rules of other packages have changed: "
        + "; ".join(_name(cls, origin) for cls, origin in suspects)
    )


def reason(error: BaseException) -> str:
    """Say what a rule set did wrong, without a word of what the session holds."""
    told = isinstance(error, BrokenSetError | UndeclaredRuleError)
    return str(error)[:MAX_TEXT] if told else type(error).__name__


def _name(cls: type[RuleSet], origin: str) -> str:
    name = f"{cls.__module__}.{cls.__qualname__}"
    return f"{origin}, {name}" if origin else name


def place(cls: type, error: BaseException) -> str:
    """Say where a failure is, as ``FILE:LINE``: in the module of a class if it is there."""
    own = getattr(sys.modules.get(cls.__module__), "__file__", None)
    broken = isinstance(error, BrokenSetError)
    cause = error.__cause__ if broken else error
    places = [] if cause is None else list(_places(cause))
    inside = [one for one in places if one[0] == own]
    if inside or (places and not broken):
        file, line = (inside or places)[-1]
        return f"{file}:{line}"
    function = getattr(error, "culprit", None)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return "no line is known" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def _places(error: BaseException) -> Iterable[tuple[str, int]]:
    traceback = error.__traceback__
    while traceback is not None:
        yield traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
        traceback = traceback.tb_next
