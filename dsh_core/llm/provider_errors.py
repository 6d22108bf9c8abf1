"""What a provider's refusal means: from HTTP statuses and error events to codes."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from html import escape
from typing import TYPE_CHECKING, Any, Final

from dsh_core.errors import LlmError
from dsh_core.llm.text import clip

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_RETRY_AFTER_MS: Final = 2**31 - 1
"""Longest wait that is passed on, in ms: what a timer can hold."""

MAX_SEARCHED: Final = 64 * 1024
"""Characters of a message that are searched for a secret, far more than are kept."""

_CONTEXT: Final = re.compile(
    r"context[ _-]?(window|length|limit)|maximum context|prompt is too long"
    r"|too many (input )?tokens",
    re.IGNORECASE,
)
_QUOTA: Final = re.compile(
    r"(credit )?balance is too low|insufficient[ _](account )?(balance|quota|credits?|funds)"
    r"|exceeded your current quota",
    re.IGNORECASE,
)
_BY_STATUS: Final[Mapping[int, str]] = {
    400: "INVALID_REQUEST",
    401: "AUTH",
    402: "QUOTA",
    403: "AUTH",
    413: "INVALID_REQUEST",
    429: "RATE_LIMIT",
}
_BY_TYPE: Final[Mapping[str, str]] = {
    "invalid_request_error": "INVALID_REQUEST",
    "request_too_large": "INVALID_REQUEST",
    "authentication_error": "AUTH",
    "permission_error": "AUTH",
    "billing_error": "QUOTA",
    "not_found_error": "HTTP_404",
    "rate_limit_error": "RATE_LIMIT",
    "timeout_error": "TIMEOUT",
    "api_error": "SERVER",
    "overloaded_error": "SERVER",
}
_FIRST_SERVER_STATUS: Final = 500


def http_error(status: int, body: bytes, *, headers: Mapping[str, str], now: float) -> LlmError:
    """Make the error of an HTTP answer that is none.

    Args:
        status: Its status.
        body: Its body, or the beginning of it.
        headers: Its headers, found by lower-case names.
        now: The time, in seconds since the epoch.
    """
    kind, message = _read(body)
    code = _BY_STATUS.get(status) or ("SERVER" if status >= _FIRST_SERVER_STATUS else "")
    code = _refined(code or f"HTTP_{status}", kind, message)
    return LlmError(
        message or f"the provider answered with HTTP status {status}",
        code,
        status=status,
        retry_after_ms=retry_after_ms(headers, now),
    )


def event_error(data: Mapping[str, Any]) -> LlmError:
    """Make the error of an `error` event amid a stream.

    Args:
        data: What the event says.
    """
    kind, message = _fields(data)
    return LlmError(
        message or f"the provider broke off: {clip(kind, 80) or 'no reason'}",
        _refined(_BY_TYPE.get(kind, "SERVER"), kind, message),
    )


def retry_after_ms(headers: Mapping[str, str], now: float) -> float | None:
    """Read how long a provider asks to wait.

    Args:
        headers: Headers of its answer, found by lower-case names.
        now: The time, in seconds since the epoch.

    Returns:
        The wait in ms, more than 0; None if it does not ask, or for nonsense. Milliseconds
        (``retry-after-ms``) win over seconds or a date (``retry-after``).
    """
    wait = _number(headers.get("retry-after-ms"))
    if wait is None:
        value = headers.get("retry-after")
        wait = _number(value)
        wait = _until(value, now) if wait is None else wait * 1000
    if wait is None or wait <= 0:
        return None
    wait = min(wait, float(MAX_RETRY_AFTER_MS))
    return int(wait) if wait.is_integer() else wait


def redacted(text: str, secret: str) -> str:
    """Return a text, cut to a bearable length, without a secret.

    Args:
        text: Any text.
        secret: What must not appear, neither as it is nor as JSON, HTML or an address would
            escape it; empty for nothing.
    """
    if secret:
        text = re.sub("".join(map(_spelled, secret)), "[redacted]", text[:MAX_SEARCHED])
    return clip(text)


def _spelled(letter: str) -> str:
    """Return a pattern for a letter in all its spellings.

    Each begins with a literal, so that long texts are searched quickly.
    """
    code = ord(letter)
    bare = re.escape(letter)
    ways = [
        # Backslashes add up where JSON is quoted in JSON.
        rf"\\{{0,7}}(?:{bare}|u{_hex(code, 4)}|x{_hex(code, 2)})",
        f"%{_hex(code, 2)}",
        f"&#(?:0{{0,4}}{code}|[xX]0{{0,4}}{_hex(code, 1)});",
    ]
    if (named := escape(letter)) not in {letter, "&#x27;"}:
        ways.insert(0, re.escape(named))
    return f"(?:{'|'.join([*ways, bare])})"


def _hex(code: int, digits: int) -> str:
    """Return a pattern for a hexadecimal number, whatever the case of its letters."""
    return "".join(
        f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{code:0{digits}x}"
    )


def _refined(code: str, kind: str, message: str) -> str:
    """Tell apart what providers put under one status."""
    if kind == "billing_error" or (code != "SERVER" and _QUOTA.search(message)):
        return "QUOTA"
    if code == "INVALID_REQUEST" and _CONTEXT.search(message):
        return "CONTEXT_WINDOW_EXCEEDED"
    return code


def _read(body: bytes) -> tuple[str, str]:
    """Return type and message of an error's body; a body that is no JSON is the message."""
    text = body.decode("utf-8", "replace")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return "", text.strip()
    return _fields(data) if isinstance(data, dict) else ("", text.strip())


def _fields(data: Mapping[str, Any]) -> tuple[str, str]:
    """Return type and message, which may lie in `error` or at the top."""
    inner = data.get("error")
    source: Mapping[str, Any] = inner if isinstance(inner, dict) else data
    kind, message = source.get("type"), source.get("message")
    if not isinstance(message, str) and isinstance(inner, str):
        message = inner
    return (kind if isinstance(kind, str) else ""), (message if isinstance(message, str) else "")


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _until(value: str | None, now: float) -> float | None:
    """Return the ms from now to an HTTP date."""
    try:
        date = parsedate_to_datetime(value or "")
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        return (date.timestamp() - now) * 1000
    except (ValueError, TypeError, OverflowError):
        return None
