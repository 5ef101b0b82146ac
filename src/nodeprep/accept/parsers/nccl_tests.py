"""The table that `all_reduce_perf` and its siblings of nccl-tests print."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nodeprep.accept.parsers.text import ParseError, clean, excerpt, number, whole

TOOL = "nccl-tests"
_RANK = re.compile(r"^#\s+Rank\s+(\d+)\s+.*?device\s+(\d+)\s+\[(\S+?)\]\s+(.*?)\s*$")
_BOUNDS = re.compile(r"^#\s*Out of bounds values\s*:\s*(\d+)\s*(\w*)")
_AVERAGE = re.compile(r"^#\s*Avg bus bandwidth\s*:\s*(\S+)")
# mpirun --tag-output writes before each line whose it is; logs indent.
_TAG = re.compile(r"^(?:\[\d+,\d+\]<std(?:out|err)>:)?[ \t]*(?=#)|^\[\d+,\d+\]<std(?:out|err)>:")
_SIDE = 4  # columns of one side: time, algbw, busbw, and #wrong or error
_MIN_FIELDS = 3 + 2 * _SIDE  # size, count, type before them; redop and root come and go
_NO_FIGURE = frozenset({"nan", "inf"})  # what printf makes of a time that was not measured


@dataclass(frozen=True)
class Side:
    """Out-of-place or in-place. Bandwidths in GB/s, time in us; `wrong` None: not validated."""

    time_us: float
    algbw: float
    busbw: float
    wrong: int | None


@dataclass(frozen=True)
class Row:
    size: int  # bytes
    out_of_place: Side
    in_place: Side


@dataclass(frozen=True)
class NcclTest:
    """A run. `out_of_bounds` None: the closing line is missing, so the run did not end."""

    rows: tuple[Row, ...]
    devices: tuple[str, ...]  # model, by rank
    out_of_bounds: int | None
    average_busbw: float | None

    def sides(self, at_least: int) -> tuple[Side, ...]:
        big = (row for row in self.rows if row.size >= at_least)
        return tuple(side for row in big for side in (row.out_of_place, row.in_place))

    def busbw(self, at_least: int = 512 << 20) -> float | None:
        """The median bus bandwidth, GB/s, of messages of `at_least` bytes; None without one."""
        sides = self.sides(at_least)
        return statistics.median(side.busbw for side in sides) if sides else None

    @property
    def wrong(self) -> int | None:
        """Wrong values in all rows. None: validation was off, or the run was cut short."""
        return self._count(self.sides(0))

    @property
    def wrong_out_of_place(self) -> int | None:
        """The same where in-place results are never checked, as those of alltoall."""
        return self._count([row.out_of_place for row in self.rows])

    def curve(self) -> dict[str, Any]:
        """Out-of-place bus bandwidth by size, as reports draw it."""
        sizes = [row.size for row in self.rows]
        speeds = [row.out_of_place.busbw for row in self.rows]
        return {"x": sizes, "y": speeds, "unit": "GB/s", "x_unit": "B"}

    def _count(self, sides: Sequence[Side]) -> int | None:
        counts = [side.wrong for side in sides]
        if self.out_of_bounds is None or not counts or None in counts:
            return None
        return sum(count for count in counts if count is not None) + self.out_of_bounds


def parse_nccl_test(text: str) -> NcclTest:
    """Rows, devices and the closing lines. ParseError without a heading or without any row."""
    lines = [_TAG.sub("", line) for line in clean(text).splitlines()]
    heading = next((line for line in lines if _is_heading(line)), None)
    if heading is None:
        raise ParseError(TOOL, f"no table in: {excerpt(text) or 'nothing'}")
    counts_wrong = "#wrong" in heading
    rows = tuple(row for line in lines if (row := _row(line, counts_wrong)) is not None)
    if not rows:
        raise ParseError(TOOL, "the table has no rows")
    ranks = (match.group(4) for line in lines if (match := _RANK.match(line)))
    bounds = next((match for line in lines if (match := _BOUNDS.match(line))), None)
    average = next((match.group(1) for line in lines if (match := _AVERAGE.match(line))), None)
    out = int(bounds.group(1)) if bounds else None
    if bounds and out == 0 and bounds.group(2) == "FAILED":
        raise ParseError(TOOL, "contradicts itself: no value out of bounds, and FAILED")
    return NcclTest(rows, tuple(ranks), out, number(average))


def _is_heading(line: str) -> bool:
    words = line.split()
    return line.startswith("#") and {"size", "algbw", "busbw"} <= set(words)


def _row(line: str, counts_wrong: bool) -> Row | None:
    fields = line.split()
    size = whole(fields[0]) if fields else None
    if size is None or size < 0 or len(fields) < _MIN_FIELDS:
        return None
    if not _NO_FIGURE.isdisjoint(field.lower().lstrip("+-") for field in fields[-2 * _SIDE :]):
        raise ParseError(TOOL, f"no figure for {size} bytes in: {excerpt(line)}")
    out = _side(fields[-2 * _SIDE : -_SIDE], counts_wrong)
    inside = _side(fields[-_SIDE:], counts_wrong)
    return Row(size, out, inside) if out and inside else None


def _side(fields: list[str], counts_wrong: bool) -> Side | None:
    time, algbw, busbw = (number(field) for field in fields[:3])
    if time is None or algbw is None or busbw is None or min(time, algbw, busbw) < 0:
        return None
    # Older ones print the size of the error instead, and count in the closing line alone.
    error = number(fields[3])
    wrong = whole(fields[3]) if counts_wrong else (None if error is None else 0)
    return Side(time, algbw, busbw, wrong if wrong is None or wrong >= 0 else None)
