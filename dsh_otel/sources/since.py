"""Points in time as people name them."""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import Final

_AGE: Final = re.compile(r"(\d{1,9})\s*(s|m|h|d|w)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def since_ms(text: str, now_ms: int | None = None) -> int:
    """Return a point in time, Unix time in ms.

    Args:
        text: How long ago it was, like ``15m``; or date and time as in ISO 8601, of the local time
            zone unless it says another.
        now_ms: The time now, in ms.

    Raises:
        ValueError: It is neither.
    """
    text = text.strip()
    match = _AGE.fullmatch(text)
    if match is not None:
        now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        return max(now_ms - int(match[1]) * _SECONDS[match[2]] * 1000, 1)
    try:
        return max(int(datetime.fromisoformat(text).astimezone().timestamp() * 1000), 1)
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"{text!r} is no point in time: use 90s, 15m, 2h, 7d, or 2026-12-31T23:59"
        ) from None
