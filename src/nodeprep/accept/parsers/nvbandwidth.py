"""What nvbandwidth prints: one matrix of GB/s per test, and three per bidirectional test."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from nodeprep.accept.parsers.text import ParseError, clean, excerpt, number, whole

TOOL = "nvbandwidth"
_RUNNING = re.compile(r"^Running (?:benchmark )?(\w+?)\.?$")
_SUM = re.compile(r"^SUM (\w+) (\S+)")
_WAIVED = re.compile(r"^(?:Waived|WAIVED|SKIPPED)\b")
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

    def matrix(self) -> dict[str, Any]:
        """As reports draw it; None where nothing was measured."""
        rows = sorted({row for row, _ in self.cells})
        values = [[self.cells.get((row, column)) for column in self.columns] for row in rows]
        names = [f"GPU{column}" for column in self.columns]
        heads = ["host"] if len(rows) == 1 < len(names) else [f"GPU{row}" for row in rows]
        return {"rows": heads, "cols": names, "values": values, "unit": "GB/s"}


def parse_nvbandwidth(text: str) -> dict[str, Bandwidths]:
    """By test name. ParseError without any matrix, or where a cell is neither a figure nor N/A.

    A matrix goes by the name in the line of its sum: a bidirectional test `t` prints `t_read1`,
    `t_read2` and `t_total` in newer versions, where `t` itself is then its total.
    """
    found: dict[str, Bandwidths] = {}
    name, columns = "", tuple[int, ...]()
    for line in (raw.strip() for raw in clean(text).splitlines()):
        if match := _RUNNING.match(line):
            name, columns = match.group(1), ()
        elif match := _SUM.match(line):
            _rename(found, name, match.group(1))
            columns = ()
        elif not line or _WAIVED.match(line):
            continue
        elif name and not columns:
            columns = _heading(line)
        elif name:
            test = found.setdefault(name, Bandwidths(name, columns, {}))
            test.cells.update(_row(line, columns, name))
    for key in [key for key in found if key.endswith("_total")]:
        found[key.removesuffix("_total")] = found[key]
    whole_tests = {key: test for key, test in found.items() if test.cells}
    if not whole_tests:
        raise ParseError(TOOL, f"no matrix in: {excerpt(text) or 'nothing'}")
    return whole_tests


def _rename(found: dict[str, Bandwidths], name: str, key: str) -> None:
    if name in found and key != name:
        test = found.pop(name)
        found[key] = Bandwidths(key, test.columns, test.cells)


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
        # Before 0.3 what is not measured, a GPU's copy to itself, is printed as 0.00.
        itself = value == 0 and index == column and name.startswith("device_to_device")
        if value is not None and not itself:
            cells[index, column] = value
    return cells
