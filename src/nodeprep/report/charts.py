"""Figures that a proof may bring along, made ready to be drawn: a matrix of pairs, a curve. Pure.

A verdict's `detail` may hold

    matrix   {"rows": [...], "cols": [...], "values": [[...]], "unit": "GB/s"}; None: no pair
    curve    {"x": [...], "y": [...], "unit": "GB/s", "x_unit": "B"}
    better   "higher" (also when left out) or "lower"
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field, ValidationError, model_validator

from nodeprep.model.base import Frozen
from nodeprep.model.verdict import Verdict

WIDTH, HEIGHT = 560, 170  # of a curve, in its own units
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 10, 10, 24
_LOG_FROM = 100  # an axis that spans more than this factor is logarithmic
_MOST = 4096  # points or cells; more is no picture


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


class Curve(Frozen):
    x: tuple[float, ...] = Field(min_length=2, max_length=_MOST)
    y: tuple[float, ...]
    unit: str = ""
    x_unit: str = ""

    @model_validator(mode="after")
    def _pairs(self) -> Curve:
        if len(self.x) != len(self.y) or not all(map(math.isfinite, (*self.x, *self.y))):
            raise ValueError("a finite y for each x")
        return self


@dataclass(frozen=True)
class HeatCell:
    """`heat` 0..1: from the smallest to the largest value; `bad`: on the wrong side of the gate.

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


@dataclass(frozen=True)
class Drawing:
    """A curve in the coordinates of its SVG: `points` for a polyline, `gate_y` or None."""

    points: str
    last: tuple[float, float]
    gate_y: float | None
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    unit: str


def heatmap(verdict: Verdict) -> Heatmap | None:
    """The verdict's matrix; None when it has none, or a malformed one."""
    try:
        matrix = Matrix.model_validate(verdict.detail["matrix"])
    except (KeyError, ValidationError):
        return None
    known = [v for line in matrix.values for v in line if v is not None and math.isfinite(v)]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    lines = tuple(
        (name, tuple(_cell(verdict, value, low, high) for value in line))
        for name, line in zip(matrix.rows, matrix.values, strict=True)
    )
    return Heatmap(matrix.cols, lines, matrix.unit)


def _cell(verdict: Verdict, value: float | None, low: float, high: float) -> HeatCell:
    if value is None or not math.isfinite(value):
        return HeatCell("", 0.0, bad=False)
    digits = 0 if high >= 1000 else 1 if high >= 10 else 2
    heat = 1.0 if high == low else (value - low) / (high - low)
    return HeatCell(f"{value:.{digits}f}", heat, bad=_is_bad(verdict, value))


def _is_bad(verdict: Verdict, value: float) -> bool:
    if verdict.gate is None:
        return False
    lower = verdict.detail.get("better") == "lower"
    return value > verdict.gate if lower else value < verdict.gate


def curve(verdict: Verdict) -> Drawing | None:
    """The verdict's curve; None when it has none, or a malformed one."""
    try:
        found = Curve.model_validate(verdict.detail["curve"])
    except (KeyError, ValidationError):
        return None
    logarithmic = min(found.x) > 0 and max(found.x) / min(found.x) > _LOG_FROM
    places = _scaled(found.x, _LEFT, WIDTH - _RIGHT, logarithmic=logarithmic)
    top = max((*found.y, verdict.gate or 0.0, 0.0)) * 1.08 or 1.0
    bottom = min((*found.y, 0.0))

    def down(value: float) -> float:
        share = (value - bottom) / (top - bottom)
        return round(HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM), 1)

    points = [(x, down(y)) for x, y in zip(places, found.y, strict=True)]
    middle = len(places) // 2
    return Drawing(
        points=" ".join(f"{x},{y}" for x, y in points),
        last=points[-1],
        gate_y=down(verdict.gate) if verdict.gate is not None else None,
        x_ticks=tuple(
            (places[n], quantity(found.x[n], found.x_unit, binary=_binary(found.x)))
            for n in sorted({0, middle, len(places) - 1})
        ),
        y_ticks=tuple((down(v), f"{v:.4g}") for v in _round_steps(bottom, top)),
        unit=found.unit,
    )


def _scaled(values: Sequence[float], start: float, end: float, *, logarithmic: bool) -> list[float]:
    shown = [math.log(v) for v in values] if logarithmic else list(values)
    low, high = min(shown), max(shown)
    span = (high - low) or 1.0
    return [round(start + (v - low) / span * (end - start), 1) for v in shown]


def _round_steps(low: float, high: float) -> list[float]:
    """Three to five round figures between the two."""
    size = 10 ** math.floor(math.log10((high - low) / 4))
    step = next(size * f for f in (1, 2, 5, 10) if (high - low) / (size * f) < 5)
    first = math.ceil(low / step)
    return [n * step for n in range(first, math.floor(high / step) + 1)]


def _binary(values: Sequence[float]) -> bool:
    """Whether these are sizes in powers of two, as message sizes are."""
    return all(v >= 1 and v == int(v) and int(v) & (int(v) - 1) == 0 for v in values)


def quantity(value: float, unit: str = "", *, binary: bool = False) -> str:
    """`8 Gi`, `1.5 M`: a figure short enough for an axis."""
    base, letters = (1024.0, ("Ki", "Mi", "Gi", "Ti")) if binary else (1000.0, "kMGT")
    for power in (4, 3, 2, 1):
        if abs(value) >= base**power:
            return f"{value / base**power:.3g} {letters[power - 1]}{unit}"
    return f"{value:.3g} {unit}".rstrip()
