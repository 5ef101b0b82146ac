"""What is printed, before it is known where: headings, lines, tables, and how each is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from nodeprep.report.safe import clean, one_line

GOOD, BAD, UNSURE, QUIET, PLAIN, STRONG = "green", "red", "yellow", "dim", "", "bold"


CELL_WIDTH = 400  # a node may have printed megabytes


@dataclass(frozen=True)
class Cell:
    """A word and its style; colour never says what the word does not."""

    text: str
    style: str = PLAIN


@dataclass(frozen=True)
class Line:
    """One line, or (from a diff) several."""

    text: str
    style: str = PLAIN
    indent: int = 0


@dataclass(frozen=True)
class Table:
    """Columns under a header. The last column may be long; the others are short words.

    `plain`: what is printed instead of aligned columns where no terminal is, a line a row; for
    tables of which several columns are long.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    plain: tuple[str, ...] = ()


Block = Line | Table


def show(console: Console, blocks: Iterable[Block]) -> None:
    """Draw for a person on a terminal; else plain lines, aligned, never wrapped or shortened."""
    for number, block in enumerate(blocks):
        if isinstance(block, Line):
            _line(console, block)
        elif console.is_terminal:
            console.print(_rich_table(block))
        elif block.plain:
            _print(console, block.plain)
        else:
            if number and any(block.header):
                console.print()
            _print(console, plain_table(block))


def _print(console: Console, lines: Iterable[str]) -> None:
    for text in lines:
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def plain_table(table: Table) -> list[str]:
    """Columns two blanks apart, each as wide as its widest word."""
    rows: list[Sequence[str]] = [table.header] if any(table.header) else []
    rows += [[one_line(cell.text, CELL_WIDTH) or "-" for cell in row] for row in table.rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _line(console: Console, line: Line) -> None:
    for text in clean(line.text).split("\n"):
        shown = Text(" " * line.indent + text, style=line.style)
        console.print(shown, highlight=False, soft_wrap=not console.is_terminal)


def _rich_table(table: Table) -> RichTable:
    drawn = RichTable(box=SIMPLE_HEAD, show_header=any(table.header), pad_edge=False)
    for number, name in enumerate(table.header):
        drawn.add_column(name, no_wrap=number == 0, overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(one_line(cell.text, CELL_WIDTH), style=cell.style) for cell in row))
    return drawn
