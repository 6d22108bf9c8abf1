"""The examples of the rules: for each a shortest log that breaks it, and one that nearly does."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "examples"
"""Where they lie, one log a file, named after the rule."""


def path(rule: str, *, silent: bool = False) -> Path:
    """Return the file of an example.

    Args:
        rule: Id of the rule.
        silent: Whether to return the log that nearly breaks it instead of the one that does.
    """
    suffix = ".silent.jsonl" if silent else ".jsonl"
    plain = FOLDER / f"{rule}{suffix}"
    packed = plain.with_name(f"{plain.name}.zstd")
    return packed if packed.exists() else plain
