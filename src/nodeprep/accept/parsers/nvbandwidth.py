"""What nvbandwidth prints: one matrix of GB/s per test."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nodeprep.accept.parsers.text import ParseError, clean, excerpt, number, whole

TOOL = "nvbandwidth"
_RUNNING = re.compile(r"^Running (?:benchmark )?(\w+?)\.?$")
_SUM = re.compile(r"^SUM (\w+) (\S+)")
_ABSENT = ("N/A", "[N/A]")


@dataclass(frozen=True)
class Bandwidths:
    """One test. `cells`: GB/s by (row, column); a pair that the tool leaves out is not there."""

    test: str
    columns: tuple[int, ...]
    cells: dict[tuple[int, int], float]

    @property
    def slowest(self) -> tuple[tuple[int, int], float]:
        """(row, column) and GB/s. A parsed test has at least one cell."""
        return min(self.cells.items(), key=lambda cell: cell[1])


def parse_nvbandwidth(text: str) -> dict[str, Bandwidths]:
    """By test name. ParseError without any matrix, or where a cell is neither a figure nor N/A."""
    found: dict[str, Bandwidths] = {}
    name, columns = "", tuple[int, ...]()
    for line in (raw.strip() for raw in clean(text).splitlines()):
        if match := _RUNNING.match(line):
            name, columns = match.group(1), ()
        elif _SUM.match(line) or not line:
            columns = () if line else columns
        elif name and not columns:
            columns = _heading(line)
        elif name:
            test = found.setdefault(name, Bandwidths(name, columns, {}))
            test.cells.update(_row(line, columns, name))
    whole_tests = {key: test for key, test in found.items() if test.cells}
    if not whole_tests:
        raise ParseError(TOOL, f"no matrix in: {excerpt(text) or 'nothing'}")
    return whole_tests


def _heading(line: str) -> tuple[int, ...]:
    numbers = [whole(word) for word in line.split()]
    return () if None in numbers else tuple(n for n in numbers if n is not None)


def _row(line: str, columns: tuple[int, ...], name: str) -> dict[tuple[int, int], float]:
    row, *words = line.split()
    index = whole(row)
    if index is None:
        return {}
    if len(words) != len(columns):
        raise ParseError(TOOL, f"{name}: row {row} has {len(words)} cells of {len(columns)}")
    cells: dict[tuple[int, int], float] = {}
    for column, word in zip(columns, words, strict=True):
        value = number(word)
        if value is None and word not in _ABSENT:
            raise ParseError(TOOL, f"{name}: {word!r} is no bandwidth")
        if value is not None:
            cells[index, column] = value
    return cells
