"""Curves that proofs bring along, made ready to be drawn: one node's, or those of all. Pure.

A verdict's `detail` may hold

    curve    {"x": [...], "y": [...], "unit": "GB/s", "x_unit": "B"}, and `fleet`: the median of
             the node's sisters for each x
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from pydantic import Field, ValidationError, model_validator

from nodeprep.model.base import Frozen
from nodeprep.model.verdict import Outcome, Verdict

WIDTH, HEIGHT = 560, 190  # of a drawing, in its own units
LEFT = 46
_RIGHT, _RIGHT_NAMED = 10, 64  # the names of nodes stand to the right of their curves
_TOP, _BOTTOM = 12, 24
_LOG_FROM = 100  # an axis that spans more than this factor is logarithmic
_MOST = 4096  # points; more is no picture
_FEWEST = 3  # curves that have a median worth drawing
_APART = 13  # between two labels, in units of the drawing


class Curve(Frozen):
    x: tuple[float, ...] = Field(min_length=2, max_length=_MOST)
    y: tuple[float, ...]
    unit: str = ""
    x_unit: str = ""
    fleet: tuple[float, ...] = ()

    @model_validator(mode="after")
    def _pairs(self) -> Curve:
        known = all(map(math.isfinite, (*self.x, *self.y, *self.fleet)))
        if len(self.x) != len(self.y) or len(self.fleet) not in (0, len(self.x)) or not known:
            raise ValueError("a finite y for each x")
        return self


@dataclass(frozen=True)
class Plot:
    """One line. `odd`: it failed, or is behind its sisters; `named`: there is room for its name."""

    name: str
    outcome: Outcome
    odd: bool
    points: str
    last: tuple[float, float]
    named: bool = False


@dataclass(frozen=True)
class Drawing:
    """In the coordinates of its SVG: `points` for polylines, `fleet` the median's, or empty."""

    right: float  # where the axes end
    plots: tuple[Plot, ...]
    fleet: str
    fleet_last: tuple[float, float]
    fleet_value: float
    gate: float | None
    gate_y: float | None
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    unit: str


def curve(verdict: Verdict) -> Drawing | None:
    """The verdict's curve; None when it has none, or a malformed one."""
    found = _curve(verdict)
    return _draw([("", verdict, found)], found.fleet, verdict.gate, _RIGHT) if found else None


def overlay(verdicts: Sequence[tuple[str, Verdict]]) -> Drawing | None:
    """The curves of several nodes by name, and their median; None of less than two.

    All have the first one's x and unit; others are left out.
    """
    found = [(name, v, c) for name, v in verdicts if (c := _curve(v))]
    found = [
        each for each in found if (each[2].x, each[2].unit) == (found[0][2].x, found[0][2].unit)
    ]
    if len(found) < 2:
        return None
    middle = tuple(median(points) for points in zip(*(c.y for _, _, c in found), strict=True))
    middle = middle if len(found) >= _FEWEST else ()
    gates = {verdict.gate for _, verdict, _ in found}
    return _draw(found, middle, gates.pop() if len(gates) == 1 else None, _RIGHT_NAMED)


def _curve(verdict: Verdict) -> Curve | None:
    try:
        return Curve.model_validate(verdict.detail["curve"])
    except (KeyError, ValidationError):
        return None


def _draw(
    named: Sequence[tuple[str, Verdict, Curve]],
    fleet: tuple[float, ...],
    gate: float | None,
    margin: float,
) -> Drawing:
    first = named[0][2]
    x = first.x
    logarithmic = min(x) > 0 and max(x) / min(x) > _LOG_FROM
    places = _scaled(x, LEFT, WIDTH - margin, logarithmic=logarithmic)
    heights = [y for _, _, c in named for y in c.y]
    top = max((*heights, *fleet, gate or 0.0, 0.0)) * 1.08 or 1.0
    bottom = min((*heights, *fleet, 0.0))

    def down(value: float) -> float:
        share = (value - bottom) / (top - bottom)
        return round(HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM), 1)

    middle = len(places) // 2
    return Drawing(
        right=WIDTH - margin,
        plots=_plots(named, places, down),
        fleet=_points(places, fleet, down) if fleet else "",
        fleet_last=(places[-1], down(fleet[-1])) if fleet else (0.0, 0.0),
        fleet_value=fleet[-1] if fleet else 0.0,
        gate=gate,
        gate_y=down(gate) if gate is not None else None,
        x_ticks=tuple(
            (places[n], quantity(x[n], first.x_unit, binary=_binary(x)))
            for n in sorted({0, middle, len(places) - 1})
        ),
        y_ticks=tuple((down(v), f"{v:.4g}") for v in _round_steps(bottom, top)),
        unit=first.unit,
    )


def _plots(
    named: Sequence[tuple[str, Verdict, Curve]],
    places: Sequence[float],
    down: Callable[[float], float],
) -> tuple[Plot, ...]:
    """The odd ones last, above the others; named where there is room for the name."""
    plots: list[Plot] = []
    taken: list[float] = []
    for name, verdict, found in sorted(named, key=lambda each: _odd(each[1])):
        last = (places[-1], down(found.y[-1]))
        room = all(abs(last[1] - y) >= _APART for y in taken)
        label = bool(name) and _odd(verdict) and room
        taken += [last[1]] * label
        points = _points(places, found.y, down)
        plots.append(Plot(name, verdict.verdict, _odd(verdict), points, last, label))
    return tuple(plots)


def _odd(verdict: Verdict) -> bool:
    return verdict.verdict.blocks or bool(verdict.detail.get("slow"))


def _points(
    places: Sequence[float], values: Sequence[float], down: Callable[[float], float]
) -> str:
    return " ".join(f"{x},{down(y)}" for x, y in zip(places, values, strict=True))


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
