"""Chunks and failures: shapes, and what the end of a stream means."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.abort import AbortError
from dsh_core.errors import HarnessError, LlmError, ToolArgsError
from dsh_core.llm import chunks as make
from dsh_core.llm import failure_data, failure_of, finish_error


class MuteError(Exception):
    """Refuses to be shown."""

    def __str__(self) -> str:
        raise RuntimeError


class TestShapes:
    def test_a_block_start_has_index_and_type(self) -> None:
        assert make.block_start(0, "text") == {
            "type": "block-start",
            "index": 0,
            "blockType": "text",
        }

    def test_a_text_delta_has_index_and_text(self) -> None:
        assert make.text_delta(1, "a") == {"type": "text-delta", "index": 1, "text": "a"}

    def test_a_reasoning_delta_has_index_and_text(self) -> None:
        assert make.reasoning_delta(1, "a") == {"type": "reasoning-delta", "index": 1, "text": "a"}

    def test_a_tool_call_delta_without_a_name_has_no_name(self) -> None:
        assert make.tool_call_delta(2, "c1", "{") == {
            "type": "tool-call-delta",
            "index": 2,
            "id": "c1",
            "argumentsDelta": "{",
        }

    def test_a_tool_call_delta_may_have_a_name(self) -> None:
        assert make.tool_call_delta(2, "c1", "{", "read") == {
            "type": "tool-call-delta",
            "index": 2,
            "id": "c1",
            "name": "read",
            "argumentsDelta": "{",
        }

    def test_a_block_end_has_the_block(self) -> None:
        block = {"type": "text", "text": "a"}
        assert make.block_end(0, block) == {"type": "block-end", "index": 0, "block": block}

    def test_a_usage_chunk_has_the_usage(self) -> None:
        assert make.usage_chunk({"inputTokens": 1, "outputTokens": 2}) == {
            "type": "usage",
            "usage": {"inputTokens": 1, "outputTokens": 2},
        }

    def test_a_finish_has_a_reason(self) -> None:
        assert make.finish("stop") == {"type": "finish", "reason": {"kind": "stop"}}

    def test_a_failed_finish_nests_the_failure(self) -> None:
        error = LlmError("Overloaded", "SERVER", status=529, retry_after_ms=1000)
        assert make.finish_failed(error) == {
            "type": "finish",
            "reason": {
                "kind": "error",
                "failure": {
                    "message": "Overloaded",
                    "code": "SERVER",
                    "status": 529,
                    "providerRetryAfterMs": 1000,
                },
            },
        }

    def test_an_abort_finishes_as_aborted(self) -> None:
        assert make.finish_failed(AbortError("user")) == {
            "type": "finish",
            "reason": {"kind": "aborted", "failure": {"message": "user", "code": "ABORTED"}},
        }


class TestFailureData:
    def test_an_error_of_the_harness_keeps_its_code(self) -> None:
        assert failure_data(HarnessError("m", "C")) == {"message": "m", "code": "C"}
        assert failure_data(ToolArgsError(["a"])) == {
            "message": "invalid arguments: a",
            "code": "INVALID_ARGS",
        }

    def test_any_other_error_has_code_unknown(self) -> None:
        assert failure_data(ValueError("bad")) == {"message": "bad", "code": "UNKNOWN"}

    def test_the_code_of_a_system_error_does_not_leak(self) -> None:
        error = FileNotFoundError(2, "No such file", "/x")
        assert failure_data(error) == {
            "message": "[Errno 2] No such file: '/x'",
            "code": "UNKNOWN",
        }

    def test_the_message_of_an_unknown_error_is_its_chain_of_causes(self) -> None:
        error = ValueError("outer")
        error.__cause__ = KeyError()
        error.__cause__.__cause__ = HarnessError("inner", "C")
        assert failure_data(error) == {"message": "outer: KeyError: inner", "code": "UNKNOWN"}

    def test_the_chain_of_causes_is_bounded(self) -> None:
        error = ValueError("0")
        last: BaseException = error
        for n in range(1, 20):
            last.__cause__ = ValueError(str(n))
            last = last.__cause__
        assert failure_data(error)["message"] == "0: 1: 2: 3: 4: 5: 6: 7"

    def test_a_circle_of_causes_ends(self) -> None:
        one, other = ValueError("one"), ValueError("other")
        one.__cause__, other.__cause__ = other, one
        assert failure_data(one)["message"] == "one: other"

    def test_a_long_message_is_cut(self) -> None:
        assert len(failure_data(ValueError("x" * 5000))["message"]) == 2000
        assert len(failure_data(LlmError("x" * 5000, "C"))["message"]) == 2000

    def test_an_error_that_cannot_be_shown_is_named(self) -> None:
        assert failure_data(MuteError()) == {"message": "MuteError", "code": "UNKNOWN"}

    def test_message_and_code_are_never_empty(self) -> None:
        assert failure_data(LlmError("", "")) == {"message": "LlmError", "code": "UNKNOWN"}
        assert failure_data(ValueError()) == {"message": "ValueError", "code": "UNKNOWN"}

    @pytest.mark.parametrize("status", [99, 600, -1, True, None])
    def test_a_status_out_of_range_is_left_out(self, status: Any) -> None:
        assert failure_data(LlmError("m", "C", status=status)) == {"message": "m", "code": "C"}

    @pytest.mark.parametrize("wait", [0, -5, float("inf"), float("nan"), 10**309, True, None])
    def test_a_senseless_wait_is_left_out(self, wait: Any) -> None:
        assert failure_data(LlmError("m", "C", retry_after_ms=wait)) == {
            "message": "m",
            "code": "C",
        }


class TestFailureOf:
    def test_the_nested_shape_is_read(self) -> None:
        failure = {"message": "m", "code": "SERVER", "status": 503, "providerRetryAfterMs": 5}
        assert failure_of({"kind": "error", "failure": failure}) == failure

    def test_the_flat_shape_of_june_is_read(self) -> None:
        assert failure_of({"kind": "error", "message": "m", "code": "AUTH"}) == {
            "message": "m",
            "code": "AUTH",
        }

    @pytest.mark.parametrize("kind", ["stop", "tool-calls", "max-tokens", "", None, 7, "else"])
    def test_other_ends_are_no_failure(self, kind: Any) -> None:
        assert failure_of({"kind": kind, "message": "m"}) is None

    def test_a_failure_that_says_nothing_has_a_text_and_a_code(self) -> None:
        assert failure_of({"kind": "error"}) == {
            "message": "model stream failed",
            "code": "UNKNOWN",
        }
        assert failure_of({"kind": "aborted"}) == {
            "message": "model stream aborted",
            "code": "ABORTED",
        }

    @given(
        st.fixed_dictionaries(
            {"kind": st.sampled_from(["error", "aborted"])},
            optional=dict.fromkeys(
                ["failure", "message", "code"],
                st.none()
                | st.integers()
                | st.text()
                | st.dictionaries(
                    st.sampled_from(["message", "code", "status", "providerRetryAfterMs"]),
                    st.none() | st.integers() | st.floats() | st.text() | st.lists(st.none()),
                ),
            ),
        )
    )
    def test_any_reason_can_be_read(self, reason: dict[str, Any]) -> None:
        failure = failure_of(reason)
        assert failure is not None
        assert failure["message"]
        assert failure["code"]
        assert isinstance(finish_error(reason), Exception)


class TestFinishError:
    def test_an_error_has_its_message_and_code(self) -> None:
        error = finish_error(
            {
                "kind": "error",
                "failure": {
                    "message": "Overloaded",
                    "code": "SERVER",
                    "status": 529,
                    "providerRetryAfterMs": 1000,
                },
            }
        )
        assert isinstance(error, LlmError)
        assert (error.message, error.code) == ("Overloaded", "SERVER")
        assert (error.status, error.retry_after_ms) == (529, 1000)

    def test_a_flat_error_has_its_message_and_code(self) -> None:
        error = finish_error({"kind": "error", "message": "m", "code": "AUTH"})
        assert isinstance(error, LlmError)
        assert (error.message, error.code) == ("m", "AUTH")

    @pytest.mark.parametrize(
        "reason",
        [{"kind": "error", "message": "m"}, {"kind": "error", "failure": {"message": "m"}}],
    )
    def test_an_error_without_a_code_has_none(self, reason: dict[str, Any]) -> None:
        error = finish_error(reason)
        assert type(error) is RuntimeError
        assert str(error) == "m"

    def test_an_abort_has_a_fixed_text_and_code(self) -> None:
        error = finish_error({"kind": "aborted", "failure": {"message": "user", "code": "X"}})
        assert isinstance(error, AbortError)
        assert (error.message, error.code) == ("model stream aborted", "ABORTED")

    @pytest.mark.parametrize("kind", ["stop", "tool-calls", "max-tokens"])
    def test_other_ends_stand_for_no_error(self, kind: str) -> None:
        assert finish_error({"kind": kind}) is None

    def test_what_was_described_comes_back(self) -> None:
        error = LlmError("slow down", "RATE_LIMIT", status=429, retry_after_ms=2500.5)
        back = finish_error(make.finish_failed(error)["reason"])
        assert isinstance(back, LlmError)
        assert vars(back) == vars(error)
