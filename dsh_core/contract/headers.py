"""What a request header must say of itself, October."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsh_core.contract.fields import is_filled, plain
from dsh_core.parts import ABSENT

if TYPE_CHECKING:
    from dsh_core.payloads import RequestHeaderBody, RequestHeaderData

REASONS: Final = ("initial", "resume", "change", "series")


def header_problem(data: RequestHeaderData) -> str:
    """Return what is wrong with what a request header has beside model and tools.

    Args:
        data: Its payload; one without model is not judged.
    """
    config = data.header.config
    if not (config.provider and config.model):
        return ""
    if data.raw_reason is not ABSENT and data.reason not in REASONS:
        return "reason is none of those for a request/header"
    if data.starts_series is not ABSENT and bytes(data.starts_series) != b"true":
        return "startsSeries is not true"
    if config.reasoning_effort is not ABSENT and not is_filled(plain(config.reasoning_effort)):
        return "reasoningEffort is no text"
    return "" if data.header.adapter_defaults is ABSENT else _defaults_problem(data.header)


def _defaults_problem(header: RequestHeaderBody) -> str:
    config, defaults = header.config, plain(header.adapter_defaults)
    if not isinstance(defaults, dict) or not defaults:
        return "adapterDefaults names nothing"
    given = {"reasoningEffort": config.reasoning_effort, "maxTokens": config.max_tokens}
    known = {name for name, value in given.items() if value is not ABSENT}
    good = known >= defaults.keys() and all(value is True for value in defaults.values())
    return "" if good else "adapterDefaults names what the request does not set"
