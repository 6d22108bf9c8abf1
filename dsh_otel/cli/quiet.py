"""The option ``--quiet``, which is understood before and after the command."""

from __future__ import annotations

from typing import Annotated

import typer

Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Print data only: no progress, no summary, no notices."),
]


def is_quiet(context: typer.Context, *, quiet: bool) -> bool:
    """Tell whether either of the two places asks for quiet.

    Args:
        context: The command's context.
        quiet: What the command itself was given.
    """
    return quiet or bool(context.find_root().params.get("quiet"))
