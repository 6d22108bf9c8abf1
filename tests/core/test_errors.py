"""Tests of the exceptions: codes, causes, and the way they travel."""

from __future__ import annotations

import copy
import errno
import pickle
import socket
import ssl
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.errors import (
    HarnessError,
    InvariantError,
    LlmError,
    ToolArgsError,
    error_code,
    error_data,
    is_harness_error,
    to_error,
)


class StrangeError(HarnessError):
    """A plugin's error whose signature has nothing in common with its base."""

    def __init__(self, *, path: str, tries: int) -> None:
        super().__init__(f"{path} after {tries} tries", "STRANGE", cause=KeyError(path))
        self.path = path
        self.tries = tries


class Mute:
    """A value that cannot be shown."""

    def __str__(self) -> str:
        raise ValueError("no text")


SAMPLES = [
    HarnessError("plain", "PLAIN"),
    HarnessError("caused", "CAUSED", cause=OSError(errno.ENOENT, "gone", "/x")),
    HarnessError("odd cause", "ODD", cause={"status": [1, 2]}),
    LlmError("slow down", "RATE_LIMIT", status=429, cause="body", retry_after_ms=1500.0),
    ToolArgsError(["a is missing", "b is no number"]),
    InvariantError("result without call"),
    StrangeError(path="/tmp/x", tries=3),
]


class TestHarnessError:
    """The base of all coded errors."""

    def test_an_error_has_message_and_code_and_its_name_is_its_concrete_class(self) -> None:
        """It carries message and code, and its name is that of the concrete class."""
        error = HarnessError("it broke", "BROKEN")
        assert (error.message, error.code, error.name) == ("it broke", "BROKEN", "HarnessError")
        assert str(error) == "it broke"
        assert error.cause is None
        assert error.__cause__ is None
        assert StrangeError(path="p", tries=1).name == "StrangeError"

    def test_a_cause_that_is_an_exception_is_chained(self) -> None:
        """A cause that is an exception is chained, also one that is no ordinary exception."""
        for cause in (ValueError("x"), KeyboardInterrupt()):
            error = HarnessError("m", "C", cause=cause)
            assert error.cause is cause
            assert error.__cause__ is cause

    def test_any_other_cause_is_kept_and_not_chained(self) -> None:
        """Any other cause is kept and not chained."""
        cause = object()
        error = HarnessError("m", "C", cause=cause)
        assert error.cause is cause
        assert error.__cause__ is None

    def test_a_false_cause_is_still_a_cause(self) -> None:
        """A cause that is false in a condition is still a cause."""
        assert HarnessError("m", "C", cause=0).cause == 0


class TestKinds:
    """The errors with a meaning of their own."""

    def test_a_model_failure_has_a_code_and_may_have_status_wait_and_cause(self) -> None:
        """A model failure keeps status, wait and cause."""
        cause = OSError("reset")
        error = LlmError("later", "RATE_LIMIT", status=429, retry_after_ms=250, cause=cause)
        assert (error.message, error.code, error.status) == ("later", "RATE_LIMIT", 429)
        assert (error.retry_after_ms, error.cause, error.__cause__) == (250, cause, cause)
        bare = LlmError("m", "SERVER")
        assert (bare.status, bare.retry_after_ms, bare.cause) == (None, None, None)

    def test_violations_are_kept_one_by_one_and_joined_in_the_message(self) -> None:
        """Violations are joined in order and kept one by one."""
        error = ToolArgsError(["first", "second"])
        assert str(error) == "invalid arguments: first; second"
        assert error.violations == ("first", "second")
        assert error.code == "INVALID_ARGS"

    def test_a_lone_string_is_one_violation(self) -> None:
        """A lone string is one violation, not one for each letter."""
        error = ToolArgsError("missing path")
        assert error.violations == ("missing path",)
        assert error.message == "invalid arguments: missing path"

    def test_the_detail_of_a_broken_contract_is_kept_apart(self) -> None:
        """The detail is kept apart from the head of the message."""
        error = InvariantError("turn 2 opened twice")
        assert str(error) == "invariant violated: turn 2 opened twice"
        assert (error.code, error.detail) == ("INVARIANT", "turn 2 opened twice")

    @pytest.mark.parametrize("error", SAMPLES, ids=lambda e: e.code)
    def test_an_instance_of_a_harness_error_is_one(self, error: HarnessError) -> None:
        """Each of them is a harness error."""
        assert is_harness_error(error)

    @pytest.mark.parametrize("value", [ValueError("x"), HarnessError, "UNKNOWN", None])
    def test_nothing_else_is_a_harness_error(self, value: object) -> None:
        """Nothing else is, not even the class itself."""
        assert not is_harness_error(value)


class TestToError:
    """Whatever was raised becomes an exception."""

    @pytest.mark.parametrize("value", [ValueError("x"), OSError("y"), HarnessError("m", "C")])
    def test_an_exception_passes_as_it_is(self, value: Exception) -> None:
        """An exception is handed back, not wrapped."""
        assert to_error(value) is value

    @pytest.mark.parametrize(
        ("value", "message"),
        [("boom", "boom"), (None, "None"), (7, "7"), ({"a": 1}, "{'a': 1}"), ("", "")],
    )
    def test_anything_else_becomes_an_error_of_unknown_code_with_the_value_as_cause(
        self, value: object, message: str
    ) -> None:
        """Any other value becomes an error of unknown code that holds the value."""
        error = to_error(value)
        assert type(error) is HarnessError
        assert (error.code, error.message) == ("UNKNOWN", message)
        assert error.cause is value

    @pytest.mark.parametrize("value", [KeyboardInterrupt("^C"), SystemExit(3), GeneratorExit()])
    def test_what_stops_the_interpreter_is_wrapped_too(self, value: BaseException) -> None:
        """An exception that stops the interpreter is wrapped and chained."""
        error = to_error(value)
        assert type(error) is HarnessError
        assert error.code == "UNKNOWN"
        assert error.__cause__ is value

    def test_a_value_that_cannot_be_shown_is_wrapped_too(self) -> None:
        """A value whose text cannot be made is reported all the same."""
        value = Mute()
        error = to_error(value)
        assert isinstance(error, HarnessError)
        assert "Mute" in error.message
        assert error.cause is value


class TestErrorCode:
    """The code of any exception."""

    @pytest.mark.parametrize("error", SAMPLES, ids=lambda e: e.code)
    def test_harness_errors(self, error: HarnessError) -> None:
        """A harness error answers with its own code."""
        assert error_code(error) == error.code

    @pytest.mark.parametrize(
        ("number", "name"),
        [
            (errno.ENOENT, "ENOENT"),
            (errno.EACCES, "EACCES"),
            (errno.ENOSPC, "ENOSPC"),
            (errno.EROFS, "EROFS"),
        ],
    )
    def test_system_errors(self, number: int, name: str) -> None:
        """A system error answers with the name of its number."""
        assert error_code(OSError(number, "text", "/path")) == name

    def test_system_error_as_raised(self) -> None:
        """An error of a real system call has its name."""
        with pytest.raises(FileNotFoundError) as caught, open("/no/such/file"):  # noqa: PTH123
            pass
        assert error_code(caught.value) == "ENOENT"

    @pytest.mark.parametrize(
        "exc",
        [
            OSError("x"),
            OSError(),
            OSError(99_999, "no such number"),
            OSError([], "number of a wrong type"),
            TimeoutError("asyncio's has no number"),
            ValueError("x"),
            KeyboardInterrupt(),
            ExceptionGroup("several", [OSError(errno.ENOENT, "x")]),
        ],
        ids=repr,
    )
    def test_no_code(self, exc: BaseException) -> None:
        """Without a number of the system there is no code."""
        assert error_code(exc) is None

    @pytest.mark.parametrize(
        "exc",
        [
            ssl.SSLError(1, "handshake failed"),
            ssl.SSLEOFError(8, "EOF"),
            socket.gaierror(8, "name not known"),
            socket.herror(1, "host not found"),
        ],
        ids=repr,
    )
    def test_foreign_numbers(self, exc: OSError) -> None:
        """Numbers of the resolver and of the TLS library are not taken for the system's."""
        assert exc.errno in errno.errorcode
        assert error_code(exc) is None

    def test_code_attribute_of_others(self) -> None:
        """An attribute `code` of a foreign exception is not trusted."""
        exc = ValueError("x")
        exc.code = "EACCES"  # type: ignore[attr-defined]
        assert error_code(exc) is None


class TestErrorData:
    """What a log says of any exception."""

    def test_error_data_is_the_message_and_the_code(self) -> None:
        assert error_data(HarnessError("m", "C")) == {"message": "m", "code": "C"}

    def test_an_error_of_the_operating_system_has_its_symbolic_name_as_code(self) -> None:
        data = error_data(OSError(errno.ENOENT, "gone", "/x"))
        assert data == {"message": "[Errno 2] gone: '/x'", "code": "ENOENT"}

    @pytest.mark.parametrize(
        ("error", "message"),
        [(ValueError("m"), "m"), (OSError("m"), "m"), (ValueError(), ""), (KeyError("k"), "'k'")],
    )
    def test_without_a_code_there_is_only_the_message(self, error: Exception, message: str) -> None:
        assert error_data(error) == {"message": message}

    def test_a_code_of_an_attribute_is_none(self) -> None:
        error = ValueError("m")
        error.code = 5  # type: ignore[attr-defined]
        assert error_data(error) == {"message": "m"}

    def test_an_error_that_cannot_be_shown_is_named(self) -> None:
        class MuteError(ValueError):
            def __str__(self) -> str:
                raise ValueError("no text")

        assert error_data(MuteError()) == {"message": "<unprintable MuteError>"}

    def test_what_is_no_error_is_one_of_unknown_code(self) -> None:
        assert error_data(to_error("boom")) == {"message": "boom", "code": "UNKNOWN"}


def same(one: HarnessError, other: HarnessError) -> None:
    """Assert that two errors say the same."""
    assert type(one) is type(other)
    assert one.args == other.args
    assert str(one) == str(other)
    fields, others = dict(vars(one)), dict(vars(other))
    assert fields.keys() == others.keys()
    assert "code" in fields
    cause, other_cause = fields.pop("cause"), others.pop("cause")
    assert fields == others
    assert type(cause) is type(other_cause)
    assert str(cause) == str(other_cause)
    assert (one.__cause__ is None) == (other.__cause__ is None)
    if one.__cause__ is cause:
        assert other.__cause__ is other_cause


class TestTravel:
    """Errors cross processes and are copied."""

    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    @pytest.mark.parametrize("error", SAMPLES, ids=lambda e: e.code)
    def test_pickle(self, error: HarnessError, protocol: int) -> None:
        """Every error survives a pickle of every protocol with all it carries."""
        same(error, pickle.loads(pickle.dumps(error, protocol)))

    @pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
    @pytest.mark.parametrize("error", SAMPLES, ids=lambda e: e.code)
    def test_copy(self, error: HarnessError, duplicate: Any) -> None:
        """Every error can be copied."""
        other = duplicate(error)
        assert other is not error
        same(error, other)

    def test_deep_copy_is_deep(self) -> None:
        """A deep copy shares no cause with the original."""
        error = HarnessError("m", "C", cause={"list": []})
        assert copy.deepcopy(error).cause is not error.cause

    def test_raised_from(self) -> None:
        """The cause given by `raise ... from` and added notes travel too."""
        with pytest.raises(InvariantError) as caught:
            raise InvariantError("d") from KeyError("k")
        caught.value.add_note("seen in a test")
        other = pickle.loads(pickle.dumps(caught.value))
        assert isinstance(other.__cause__, KeyError)
        assert other.__notes__ == ["seen in a test"]

    @given(st.text(), st.text(), st.none() | st.integers() | st.text())
    def test_any_text(self, message: str, code: str, cause: object) -> None:
        """Whatever message, code and cause are, the copy equals the original."""
        same(
            HarnessError(message, code, cause=cause),
            pickle.loads(pickle.dumps(HarnessError(message, code, cause=cause))),
        )
