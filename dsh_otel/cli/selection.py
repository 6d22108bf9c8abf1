"""Options that say what logs are held to; the commands that check have them in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dsh_otel.cli.choices import ContractChoice, Source
from dsh_otel.cli.complete import complete_patterns

ChosenContract = Annotated[
    ContractChoice,
    typer.Option(help="Contract to hold the logs to; auto: that of each log's generation."),
]

Rules = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        help="Apply these rules only: a glob on the id, or owner:NAME. Repeatable.",
        autocompletion=complete_patterns,
        show_default=False,
    ),
]

Excluded = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        help="Leave these rules out. Repeatable.",
        autocompletion=complete_patterns,
        show_default=False,
    ),
]

FromSource = Annotated[
    Source,
    typer.Option(
        "--source",
        help="What the JSON lines are, one event a line either way. log: what a session wrote, and "
        "what is missing is a fault; stream: notifications or exports that somebody wrote down, "
        "which leave events out. Recorded notifications and OTLP logs are streams in any case.",
    ),
]

Severities = Annotated[
    list[str] | None,
    typer.Option(
        "--severity",
        metavar="PATTERN=LEVEL",
        help="Grade rules: violation, damage or advice. Repeatable; the last that fits counts.",
        show_default=False,
    ),
]

Presets = Annotated[
    list[str] | None,
    typer.Option(
        "--preset",
        metavar="NAME",
        help="A permission preset that is configured; with it, any other is a finding. Repeatable.",
        show_default=False,
    ),
]

STDOUT = Path("-")


def _file(path: Path | None) -> Path | None:
    """Return the file to write, None for standard output."""
    return None if path == STDOUT else path


Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to a file; - is standard output.",
        callback=_file,
        show_default=False,
    ),
]

IsFinal = Annotated[
    bool,
    typer.Option("--final", help="The logs are over: a turn that is still open is a finding."),
]
