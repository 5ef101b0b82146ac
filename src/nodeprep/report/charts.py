"""A matrix of pairs that a proof brings along, made ready to be drawn. Pure.

A verdict's `detail` may hold

    matrix   {"rows": [...], "cols": [...], "values": [[...]], "unit": "GB/s"}; None: no pair
    better   "higher" (also when left out) or "lower"

Rows and columns of a matrix between nodes bear the nodes' names. Of a node's own links the columns
are its peers, and the one row bears its name, or the two are the ways: to the peer, and from it.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from statistics import median

from pydantic import Field, ValidationError, model_validator

from nodeprep.model.base import Frozen
from nodeprep.model.verdict import Verdict

FEWEST = 3  # values; of two there is no odd one
WAYS = ("to the peer", "from the peer")
_FULL = 0.20  # away from the median, a cell has its full colour
_NOISE = 0.02  # within this of the median a cell has none
_MOST = 4096  # cells; more is no picture


class Matrix(Frozen):
    rows: tuple[str, ...] = Field(min_length=1)
    cols: tuple[str, ...] = Field(min_length=1)
    values: tuple[tuple[float | None, ...], ...]
    unit: str = ""

    @model_validator(mode="after")
    def _square(self) -> Matrix:
        if len(self.values) != len(self.rows) or len(self.rows) * len(self.cols) > _MOST:
            raise ValueError("a row of values per row, and not too many")
        if any(len(line) != len(self.cols) for line in self.values):
            raise ValueError("a value per column")
        return self


@dataclass(frozen=True)
class HeatCell:
    """`heat` -1..1: worse to better than the median; `bad`: on the wrong side of the gate.

    `text`: the value with as many digits as its neighbours; empty: there is none.
    """

    text: str
    heat: float
    bad: bool


@dataclass(frozen=True)
class Heatmap:
    cols: tuple[str, ...]
    lines: tuple[tuple[str, tuple[HeatCell, ...]], ...]
    unit: str


def heatmap(verdict: Verdict) -> Heatmap | None:
    """The verdict's matrix; None when it has none, or a malformed one."""
    try:
        matrix = Matrix.model_validate(verdict.detail["matrix"])
    except (KeyError, ValidationError):
        return None
    known = [v for line in matrix.values for v in line if v is not None and math.isfinite(v)]
    middle = median(known) if len(known) >= FEWEST else None
    high = max(known, default=0.0)
    lines = tuple(
        (name, tuple(_cell(verdict, value, middle, high) for value in line))
        for name, line in zip(matrix.rows, matrix.values, strict=True)
    )
    return Heatmap(matrix.cols, lines, matrix.unit)


def is_between(verdict: Verdict, nodes: Collection[str]) -> bool:
    """Whether the verdict's matrix is of pairs of nodes: then it belongs to the fleet."""
    matrix = verdict.detail.get("matrix")
    rows = matrix.get("rows") if isinstance(matrix, dict) else None
    if not isinstance(rows, list | tuple) or len(rows) < 2:
        return False
    return all(isinstance(row, str) and row in nodes for row in rows)


def links_of(
    verdict: Verdict, name: str, nodes: Collection[str]
) -> dict[tuple[str, str], float | None]:
    """What a node tells of its own links, by sender and receiver; empty when it tells nothing."""
    try:
        matrix = Matrix.model_validate(verdict.detail["matrix"])
    except (KeyError, ValidationError):
        return {}
    if name in matrix.cols or not all(peer in nodes for peer in matrix.cols):
        return {}
    if matrix.rows == (name,):
        (both,) = matrix.values
        links = {(name, peer): value for peer, value in zip(matrix.cols, both, strict=True)}
        return links | {(peer, name): value for (_, peer), value in links.items()}
    if matrix.rows == WAYS:
        to, back = (zip(matrix.cols, line, strict=True) for line in matrix.values)
        return {(name, peer): v for peer, v in to} | {(peer, name): v for peer, v in back}
    return {}


def _cell(verdict: Verdict, value: float | None, middle: float | None, high: float) -> HeatCell:
    if value is None or not math.isfinite(value):
        return HeatCell("", 0.0, bad=False)
    digits = 0 if high >= 1000 else 1 if high >= 10 else 2
    heat = shade(verdict, value, middle)
    return HeatCell(f"{value:.{digits}f}", heat, bad=_is_bad(verdict, value))


def shade(verdict: Verdict, value: float, middle: float | None) -> float:
    """-1..1: how much worse or better than the median; noise is neither. None: there is none.

    Away from the median, not between the ends: one broken link must not make all others alike.
    """
    share = (value - middle) / abs(middle) if middle else 0.0
    if verdict.detail.get("better") == "lower":
        share = -share
    if not abs(share) >= _NOISE:
        return 0.0
    return max(-1.0, min(1.0, share / _FULL))


def _is_bad(verdict: Verdict, value: float) -> bool:
    if verdict.gate is None:
        return False
    lower = verdict.detail.get("better") == "lower"
    return value > verdict.gate if lower else value < verdict.gate
