"""Tables for people: fitted to a terminal, one line a row anywhere else."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dsh_otel.cli.output import console, is_terminal, stdout, wants_colour

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

_NARROWEST: Final = 20
"""Least width of a column whose cells are wrapped."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        title: Its head.
        style: Style of all its cells.
        styles: Style of a cell, by its text.
        wraps: Whether long cells go on in the next line on a terminal.
    """

    title: str
    style: str = ""
    styles: Mapping[Any, str] = field(default_factory=dict)
    wraps: bool = False


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their heads on standard output.

    Args:
        columns: The columns.
        rows: One text for each column.
    """
    out = stdout()
    lines = [[column.title for column in columns], *rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    if is_terminal(out) and _fits(columns, widths):
        _print_fitted(columns, rows)
        return
    if wants_colour(out):
        _print_coloured(columns, rows, widths)
        return
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        out.write("  ".join(cells).rstrip() + "\n")


def _print_coloured(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], widths: Sequence[int]
) -> None:
    """Print each row on one line, however long it becomes."""
    from rich.text import Text

    printer = console(stdout(), colour=True)
    heads = [(column.title, "bold underline") for column in columns]
    styled = [
        [
            (cell, column.styles.get(cell, column.style))
            for cell, column in zip(row, columns, strict=True)
        ]
        for row in rows
    ]
    for cells in (heads, *styled):
        parts = [
            part
            for (text, style), width in zip(cells, widths, strict=True)
            for part in ((text, style), " " * (width - len(text) + 2))
        ]
        line = Text.assemble(*parts)
        line.rstrip()
        printer.print(line)


def _fits(columns: Sequence[Column], widths: Sequence[int]) -> bool:
    """Tell whether the terminal is wide enough when just the cells that may be wrapped are."""
    needed = (
        min(width, _NARROWEST) if column.wraps else width
        for column, width in zip(columns, widths, strict=True)
    )
    return sum(needed) + 2 * (len(columns) - 1) <= shutil.get_terminal_size().columns


def _print_fitted(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold underline")
    for column in columns:
        table.add_column(column.title, no_wrap=not column.wraps)
    for row in rows:
        cells = zip(columns, row, strict=True)
        table.add_row(
            *(Text(cell, column.styles.get(cell, column.style)) for column, cell in cells)
        )
    _print(table)


def print_fields(title: str, fields: Sequence[tuple[str, str]]) -> None:
    """Print one thing in full on standard output: a title, and a line for each of its fields.

    Args:
        title: What it is.
        fields: Names and texts.
    """
    out = stdout()
    width = max(len(name) for name, _ in fields)
    if not is_terminal(out) and not wants_colour(out):
        out.write(f"{title}\n")
        for name, text in fields:
            out.write(f"  {name:<{width}}  {text}\n")
        return
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    if not is_terminal(out):
        printer = console(out, colour=True)
        printer.print(Text(title, "bold"))
        for name, text in fields:
            printer.print(Text.assemble("  ", (f"{name:<{width}}", "dim"), f"  {text}"))
        return

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in fields:
        table.add_row(name, Text(text))
    _print(Text(title, "bold"))
    _print(Padding(table, (0, 0, 0, 2)))


def _print(content: RenderableType) -> None:
    """Print on a terminal, to its width."""
    from rich.console import Console

    out = stdout()
    printer = Console(
        file=out,
        color_system="standard" if wants_colour(out) else None,
        highlight=False,
        width=shutil.get_terminal_size().columns,
    )
    printer.print(content)
