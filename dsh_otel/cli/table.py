"""Tables for people: fitted to a terminal, one line a row anywhere else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dsh_otel.cli.output import is_terminal, stdout, wants_colour

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
    styles: Mapping[str, str] = field(default_factory=dict)
    wraps: bool = False


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their heads on standard output.

    Args:
        columns: The columns.
        rows: One text for each column.
    """
    out = stdout()
    if is_terminal(out):
        _print_fitted(columns, rows)
        return
    lines = [[column.title for column in columns], *rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        out.write("  ".join(cells).rstrip() + "\n")


def _print_fitted(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    out = stdout()
    console = Console(file=out, no_color=not wants_colour(out), highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold underline")
    for column in columns:
        table.add_column(
            column.title,
            overflow="fold",
            no_wrap=not column.wraps,
            # What wraps gives way to the rest, but stays wide enough to be read.
            min_width=24 if column.wraps else None,
        )
    for row in rows:
        cells = zip(columns, row, strict=True)
        table.add_row(
            *(Text(cell, column.styles.get(cell, column.style)) for column, cell in cells)
        )
    console.print(table)


def print_fields(title: str, fields: Sequence[tuple[str, str]]) -> None:
    """Print one thing in full on standard output: a title, and a line for each of its fields.

    Args:
        title: What it is.
        fields: Names and texts.
    """
    out = stdout()
    width = max(len(name) for name, _ in fields)
    if not is_terminal(out):
        out.write(f"{title}\n")
        for name, text in fields:
            out.write(f"  {name:<{width}}  {text}\n")
        return
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = Console(file=out, no_color=not wants_colour(out), highlight=False)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in fields:
        table.add_row(name, Text(text))
    console.print(Text(title, "bold"))
    console.print(Padding(table, (0, 0, 0, 2)))
