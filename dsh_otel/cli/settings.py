"""Settings of OpenTelemetry in the environment that are passed over, since they make no sense."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HEADERS: Final = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
TIMEOUTS: Final = ("OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT")
COMPRESSIONS: Final = ("OTEL_EXPORTER_OTLP_COMPRESSION", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION")
SAMPLER: Final = "OTEL_TRACES_SAMPLER"
RATIO: Final = "OTEL_TRACES_SAMPLER_ARG"

KNOWN_COMPRESSIONS: Final = ("none", "gzip", "deflate")
KNOWN_SAMPLERS: Final = (
    *("always_on", "always_off", "traceidratio"),
    *("parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"),
)


def passed_over(environ: Mapping[str, str]) -> Iterable[str]:
    """Say of each setting that is passed over why, without the values of headers.

    Args:
        environ: The environment.
    """
    for name in HEADERS:
        parts = [part.strip() for part in environ.get(name, "").split(",")]
        if any(part and "=" not in part for part in parts):
            yield f"{name} has a part without =, which is not sent: write name=value,name=value"
    for name in TIMEOUTS:
        if not _is_number(environ.get(name, "")):
            yield f"{name}={environ[name]} is no number of seconds, and is passed over"
    for name in COMPRESSIONS:
        yield from _unknown(environ, name, KNOWN_COMPRESSIONS)
    yield from _unknown(environ, SAMPLER, KNOWN_SAMPLERS)
    if "ratio" in environ.get(SAMPLER, "") and not _is_number(environ.get(RATIO, "")):
        yield f"{RATIO}={environ[RATIO]} is no number: every span is taken"


def _unknown(environ: Mapping[str, str], name: str, known: Iterable[str]) -> Iterable[str]:
    value = environ.get(name, "").strip()
    if value and value.lower() not in known:
        yield f"{name}={value} is not known, and is passed over; use one of: {', '.join(known)}"


def _is_number(text: str) -> bool:
    """Whether a text is a number, or there is none."""
    try:
        return not text.strip() or float(text) >= 0
    except ValueError:
        return False
