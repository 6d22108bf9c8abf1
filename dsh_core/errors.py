"""Exceptions of the harness contract: few, typed, each with a stable code."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "HarnessError",
    "InvariantError",
    "LlmError",
    "ToolArgsError",
    "error_code",
    "error_data",
    "is_harness_error",
    "to_error",
]

_UNKNOWN: Final = "UNKNOWN"

# Subclasses of OSError made in these modules put numbers of their own (resolver, TLS library) into
# `errno`: TLS failure 1 would otherwise read as EPERM.
_FOREIGN_NUMBERS: Final = frozenset({"socket", "ssl"})


class HarnessError(Exception):
    """An error with a code; every error the harness itself raises is one.

    Args:
        message: What went wrong, for people.
        code: Stable code, for programs.
        cause: What led to it: an exception (then also ``__cause__``) or any other value.
    """

    def __init__(
        self, message: str, code: str, *, cause: BaseException | object | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.cause = cause
        if isinstance(cause, BaseException):
            self.__cause__ = cause

    @property
    def name(self) -> str:
        """The concrete class name: what a session log stores beside the code."""
        return type(self).__name__

    def __reduce__(
        self,
    ) -> tuple[
        Callable[..., HarnessError], tuple[type[HarnessError], tuple[Any, ...]], dict[str, Any]
    ]:
        """Pickle and copy without ``__init__``, so that subclasses may have any signature."""
        state = dict(self.__dict__)
        if self.__cause__ is not None:
            # Exceptions lose their cause in a pickle unless it travels in the state.
            state["__cause__"] = self.__cause__
        return _rebuild, (type(self), self.args), state


class LlmError(HarnessError):
    """A model request failed.

    Args:
        message: What went wrong.
        code: Stable code, for example ``RATE_LIMIT``.
        status: HTTP status, if the provider answered with one.
        cause: What led to it.
        retry_after_ms: Wait the provider asked for, in milliseconds.
    """

    def __init__(
        self,
        message: str,
        code: str,
        *,
        status: int | None = None,
        cause: BaseException | object | None = None,
        retry_after_ms: float | None = None,
    ) -> None:
        super().__init__(message, code, cause=cause)
        self.status = status
        self.retry_after_ms = retry_after_ms


class ToolArgsError(HarnessError):
    """A tool was called with arguments its schema does not allow.

    Args:
        violations: One sentence for each broken rule.
    """

    def __init__(self, violations: Sequence[str]) -> None:
        # A lone string is a sequence of letters; nobody means that.
        self.violations = (violations,) if isinstance(violations, str) else tuple(violations)
        super().__init__(f"invalid arguments: {'; '.join(self.violations)}", "INVALID_ARGS")


class InvariantError(HarnessError):
    """A session broke the contract.

    Args:
        detail: Which rule, and how.
    """

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(f"invariant violated: {detail}", "INVARIANT")


def is_harness_error(value: object) -> bool:
    """Tell whether a value is an error of the harness.

    Args:
        value: Anything.

    Returns:
        True for instances of `HarnessError` and its subclasses.
    """
    return isinstance(value, HarnessError)


def to_error(value: object) -> Exception:
    """Make an exception of whatever was raised, returned or rejected.

    Args:
        value: Anything. An `Exception` passes as it is; all else is wrapped, also the exceptions
            that ask the interpreter to stop, since they must not be handled as ordinary failures.

    Returns:
        The exception itself, or a `HarnessError` with code ``UNKNOWN`` and the value as cause.
    """
    if isinstance(value, Exception):
        return value
    return HarnessError(_text(value), _UNKNOWN, cause=value)


def error_data(exc: BaseException) -> dict[str, str]:
    """Describe an exception as a log does.

    Args:
        exc: Any exception.

    Returns:
        Its ``message``, and its ``code`` if it has one, see `error_code`.
    """
    data = {"message": _text(exc)}
    code = error_code(exc)
    if code is not None:
        data["code"] = code
    return data


def error_code(exc: BaseException) -> str | None:
    """Read the code of an exception.

    Args:
        exc: Any exception.

    Returns:
        The code of a `HarnessError`; the symbolic name (``ENOENT``) of an `OSError` that carries a
        number of the operating system; else None.
    """
    if isinstance(exc, HarnessError):
        return exc.code
    if not isinstance(exc, OSError) or not isinstance(exc.errno, int):
        return None
    if any(cls.__module__ in _FOREIGN_NUMBERS for cls in type(exc).__mro__):
        return None
    return errno.errorcode.get(exc.errno)


def _rebuild(cls: type[HarnessError], args: tuple[Any, ...]) -> HarnessError:
    """Make an empty instance; its state follows."""
    exc = cls.__new__(cls)
    exc.args = args
    return exc


def _text(value: object) -> str:
    """Convert to text, also when the value refuses."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a broken __str__ must not replace the failure being reported
        return f"<unprintable {type(value).__name__}>"
