"""How to get what only some programs need."""

from __future__ import annotations


def install_hint(extra: str) -> str:
    """Return the command that installs an extra.

    Args:
        extra: Its name in ``pyproject.toml``.
    """
    return f"pip install '.[{extra}]' in the project's folder"
