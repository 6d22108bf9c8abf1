"""The version of this distribution."""

from __future__ import annotations


def version() -> str:
    """Return the version, ``unknown`` if this was not installed."""
    from importlib import metadata

    try:
        return metadata.version("dsh-otel")
    except metadata.PackageNotFoundError:
        return "unknown"
