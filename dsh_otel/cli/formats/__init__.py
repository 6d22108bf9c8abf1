"""What a check found, written in one of several formats: one module for each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from dsh_otel.cli.choices import OutputFormat

if TYPE_CHECKING:
    from typing import TextIO

    from dsh_otel.cli.formats.writer import Settings, Writer

_MODULES: Final = {
    OutputFormat.TEXT: "text",
    OutputFormat.JSON: "json_document",
    OutputFormat.JSONL: "json_lines",
    OutputFormat.GITHUB: "github",
    OutputFormat.JUNIT: "junit",
    OutputFormat.SARIF: "sarif",
}


def make_writer(name: OutputFormat, out: TextIO, settings: Settings) -> Writer:
    """Return the writer of a format.

    Args:
        name: The format.
        out: Where to write.
        settings: How to write.
    """
    module = import_module(f"{__name__}.{_MODULES[name]}")
    writer: Writer = module.Format(out, settings)
    return writer
