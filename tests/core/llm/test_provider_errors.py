"""What a provider's refusal means."""

from __future__ import annotations

import html
import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.llm.provider_errors import event_error, http_error, redacted, retry_after_ms

NOW = 1_790_000_000.0
"""2026-09-21 14:13:20 UTC."""


def body(message: str, kind: str = "some_error") -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()


def code(status: int, message: str = "no", kind: str = "some_error") -> str:
    return http_error(status, body(message, kind), headers={}, now=NOW).code


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, "INVALID_REQUEST"),
        (401, "AUTH"),
        (402, "QUOTA"),
        (403, "AUTH"),
        (404, "HTTP_404"),
        (408, "HTTP_408"),
        (413, "INVALID_REQUEST"),
        (418, "HTTP_418"),
        (429, "RATE_LIMIT"),
        (302, "HTTP_302"),
        (204, "HTTP_204"),
        (500, "SERVER"),
        (503, "SERVER"),
        (504, "SERVER"),
        (529, "SERVER"),
        (599, "SERVER"),
    ],
)
def test_the_status_gives_the_code(status: int, expected: str) -> None:
    assert code(status) == expected


@pytest.mark.parametrize("status", [400, 413])
@pytest.mark.parametrize(
    "message",
    [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "This model's maximum context length is 65536 tokens.",
        "input length and `max_tokens` exceed context limit: 1 + 2 > 2",
        "context_length_exceeded",
        "the Context Window is full",
    ],
)
def test_a_text_that_names_the_context_bound_gives_its_own_code(status: int, message: str) -> None:
    assert code(status, message) == "CONTEXT_WINDOW_EXCEEDED"


@pytest.mark.parametrize("status", [401, 429, 500])
def test_the_context_bound_counts_only_for_refused_requests(status: int) -> None:
    assert code(status, "prompt is too long") != "CONTEXT_WINDOW_EXCEEDED"


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (400, "Your credit balance is too low to access the API.", "invalid_request_error"),
        (403, "Insufficient Balance", "x"),
        (429, "You exceeded your current quota", "insufficient_quota"),
        (403, "no", "billing_error"),
    ],
)
def test_a_used_up_quota_is_told_by_any_status(status: int, message: str, kind: str) -> None:
    assert code(status, message, kind) == "QUOTA"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"type":"error","error":{"type":"x","message":"nested"}}', "nested"),
        (b'{"message":"flat"}', "flat"),
        (b'{"error":"text"}', "text"),
        (b" <html>Bad Gateway</html>\n", "<html>Bad Gateway</html>"),
        (b"", "the provider answered with HTTP status 502"),
        (b"{}", "the provider answered with HTTP status 502"),
        (b'{"error":{"message":7}}', "the provider answered with HTTP status 502"),
        (b"[1]", "[1]"),
        (b"\xff", "\ufffd"),
        (b"[" * 100_000, "[" * 100_000),
    ],
    ids=lambda value: str(value)[:30],
)
def test_the_message_is_what_the_body_says(raw: bytes, message: str) -> None:
    assert http_error(502, raw, headers={}, now=NOW).message == message


def test_an_http_error_has_its_status_and_wait() -> None:
    error = http_error(429, body("slow"), headers={"retry-after": "7"}, now=NOW)
    assert (error.message, error.code) == ("slow", "RATE_LIMIT")
    assert (error.status, error.retry_after_ms) == (429, 7000)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", "SERVER"),
        ("api_error", "SERVER"),
        ("rate_limit_error", "RATE_LIMIT"),
        ("authentication_error", "AUTH"),
        ("permission_error", "AUTH"),
        ("invalid_request_error", "INVALID_REQUEST"),
        ("request_too_large", "INVALID_REQUEST"),
        ("billing_error", "QUOTA"),
        ("not_found_error", "HTTP_404"),
        ("timeout_error", "TIMEOUT"),
        ("something_new", "SERVER"),
    ],
)
def test_the_type_of_an_error_event_gives_the_code(kind: str, expected: str) -> None:
    error = event_error({"type": "error", "error": {"type": kind, "message": "m"}})
    assert (error.message, error.code, error.status) == ("m", expected, None)


def test_an_error_event_may_name_the_context_bound() -> None:
    inner = {"type": "invalid_request_error", "message": "prompt is too long"}
    assert event_error({"error": inner}).code == "CONTEXT_WINDOW_EXCEEDED"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"type": "error", "error": {"type": "api_error"}}, "the provider broke off: api_error"),
        ({"error": None}, "the provider broke off: no reason"),
        ({}, "the provider broke off: no reason"),
    ],
)
def test_an_error_event_without_a_message_still_says_something(
    data: dict[str, Any], message: str
) -> None:
    assert event_error(data).message == message


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2000),
        ({"retry-after": " 2 "}, 2000),
        ({"retry-after": "0.25"}, 250),
        ({"retry-after": "0.0005"}, 0.5),
        ({"retry-after": "0"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e300"}, 2147483647),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Mon, 21 Sep 2026 14:13:30 GMT"}, 10_000),
        ({"retry-after": "Mon, 21 Sep 2026 14:13:30 -0000"}, 10_000),
        ({"retry-after": "Mon, 21 Sep 2026 14:13:10 GMT"}, None),
        ({"retry-after": "Mon, 21 Sep 9999 14:13:30 GMT"}, 2147483647),
        ({"retry-after": "Mon, 99 Sep 2026 14:13:30 GMT"}, None),
        ({"retry-after-ms": "1500"}, 1500),
        ({"retry-after-ms": "1500.5"}, 1500.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1500),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9000),
    ],
)
def test_the_wait_is_read_in_all_its_forms(headers: dict[str, str], expected: float | None) -> None:
    wait = retry_after_ms(headers, NOW)
    assert wait == expected
    assert type(wait) is type(expected)


@given(st.text() | st.from_regex(r"[A-Z][a-z]{2}, \d{1,3} Sep \d{1,6} \d\d:\d\d:\d\d \S{1,6}"))
def test_no_wait_is_nonsense(value: str) -> None:
    for name in ("retry-after", "retry-after-ms"):
        wait = retry_after_ms({name: value}, NOW)
        assert wait is None or 0 < wait <= 2147483647


def test_a_secret_is_taken_out_before_the_text_is_cut() -> None:
    assert redacted("bad key sk-secret, really", "sk-secret") == "bad key [redacted], really"
    assert "sk-" not in redacted("x" * 1995 + "sk-secret", "sk-secret")


@pytest.mark.parametrize(
    "spelled",
    [
        r"sk/a+b\"c\d&e",
        r"sk\/a+b\"c\\d&e",
        r"sk\\/a+b\\\"c\\\\d&e",
        r"sk\u002fa\u002Bb\u0022c\u005cd\u0026e",
        r"sk\\u002fa+b\\u0022c\\u005Cd&e",
        r"sk\x2fa\x2Bb\x22c\x5cd\x26e",
        "sk%2fa%2Bb%22c%5cd%26e",
        "sk/a+b&quot;c\\d&amp;e",
        "sk&#47;a&#x2b;b&#034;c&#X5C;d&#x00026;e",
        r"\u0073\u006B/a+b\"c\d&e",
    ],
)
def test_a_secret_is_found_however_it_is_escaped(spelled: str) -> None:
    secret = 'sk/a+b"c\\d&e'
    assert redacted(f"<{spelled}> and <{spelled}>", secret) == "<[redacted]> and <[redacted]>"


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1))
def test_any_secret_is_found_in_json_html_and_addresses(secret: str) -> None:
    for spelled in (secret, json.dumps(secret)[1:-1], html.escape(secret), quote(secret, safe="")):
        assert redacted(f" {spelled} ", secret) == " [redacted] "


def test_other_texts_are_left_alone() -> None:
    assert redacted(r"sk\/ sk%2 &#47; \u002f", "sk/a") == r"sk\/ sk%2 &#47; \u002f"


def test_without_a_secret_a_text_stays() -> None:
    assert redacted("text", "") == "text"


@given(st.binary())
def test_any_body_can_be_read(raw: bytes) -> None:
    assert http_error(500, raw, headers={}, now=NOW).code == "SERVER"
