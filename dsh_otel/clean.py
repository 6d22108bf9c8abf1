"""Strings and attribute values made fit for export, and the place where content is held back.

The SDK accepts what exporters choke on: one lone surrogate in a span name loses a whole OTLP batch,
one in an attribute loses the attribute, and so does an integer beyond 64 bits.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dsh_otel.names import CONTENT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    AttributeValue = str | bool | int | float | Sequence[str]
    Redactor = Callable[[str, Any], Any]

MAX_NAME: Final = 128
"""Longest span or event name, in characters."""

MAX_VALUE: Final = 1024
"""Longest string attribute that holds no content, in characters."""

MAX_CONTENT: Final = 16384
"""Longest content attribute, in characters."""

MAX_LIST: Final = 64
_MAX_INT: Final = 2**63 - 1
"""Largest integer that OTLP carries; -2**63 stands for an unreadable number and is left out too."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9_.:/@+-]{1,64}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def clean_text(text: str, limit: int) -> str:
    """Return a text that every encoder accepts.

    Args:
        text: Any string, also one with half characters.
        limit: Longest result, in characters.
    """
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean_name(text: str) -> str:
    """Return a text fit for a span name: short, on one line, without control characters."""
    if not text.isprintable():
        text = _CONTROL.sub(" ", text)
    return clean_text(text.strip(), MAX_NAME)


def is_token(text: str) -> bool:
    """Whether a text is a name, as codes are, and no sentence that somebody wrote."""
    return _TOKEN.fullmatch(text) is not None


def clean_value(value: Any, limit: int = MAX_VALUE) -> AttributeValue | None:  # noqa: ANN401 - any
    """Return a value that OTLP can carry, None if there is none.

    Args:
        value: Anything.
        limit: Longest string, in characters.
    """
    kind = type(value)
    if kind is str:
        return clean_text(value, limit)
    if kind is int:
        # The log's own numbers fit; one that does not must not change the attribute's type.
        return value if -_MAX_INT <= value <= _MAX_INT else None
    if kind is bool:
        return bool(value)
    if kind is float:
        return value if math.isfinite(value) else None
    if kind in (list, tuple):
        return tuple(clean_text(str(item), limit) for item in value[:MAX_LIST])
    return clean_text(str(value), limit) if isinstance(value, str) else None


def all_fit(values: Mapping[str, Any]) -> bool:
    """Whether nothing about some attributes needs to be changed or held back.

    It is nearly always so, and saying it is much cheaper than going through them one by one.
    """
    if not CONTENT.isdisjoint(values):
        return False
    for value in values.values():
        kind = type(value)
        if kind is str:
            if not value.isascii() or len(value) > MAX_VALUE:
                return False
        elif kind is int:
            if not -_MAX_INT <= value <= _MAX_INT:
                return False
        elif kind is not bool and (kind not in (float, tuple) or clean_value(value) != value):
            return False
    return True


@dataclass(slots=True)
class Privacy:
    """What may leave.

    Attributes:
        content: Whether prompts, answers, arguments and results are exported at all.
        redact: Called with the name and value of everything that leaves: attributes, event
            attributes (by their own names), status descriptions (``status``) and span names
            (``span``). What it returns is exported instead; None, or an exception, keeps the value
            back.
        refused: How many values were kept back because `redact` raised.
    """

    content: bool = False
    redact: Redactor | None = None
    refused: int = field(default=0, init=False)

    def attributes(self, values: dict[str, Any]) -> dict[str, AttributeValue]:
        """Return the attributes that may leave, in a form that can."""
        if self.redact is None and all_fit(values):
            return values
        found: dict[str, AttributeValue] = {}
        for name, value in values.items():
            if value is None or (name in CONTENT and not self.content):
                continue
            allowed = value if self.redact is None else self._ask(self.redact, name, value)
            cleaned = clean_value(allowed, MAX_CONTENT if name in CONTENT else MAX_VALUE)
            if cleaned is not None:
                found[name] = cleaned
        return found

    def text(self, name: str, text: str, fallback: str) -> str:
        """Return a name or description that may leave, else the fallback."""
        allowed = text if self.redact is None else self._ask(self.redact, name, text)
        return clean_name(allowed) if isinstance(allowed, str) and allowed else fallback

    def _ask(self, redact: Redactor, name: str, value: Any) -> Any:  # noqa: ANN401 - the user's hook
        try:
            return redact(name, value)
        except Exception:  # noqa: BLE001 - fail closed: what cannot be judged does not leave
            self.refused += 1
            return None
