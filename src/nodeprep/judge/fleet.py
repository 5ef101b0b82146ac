"""Compares a node with its sisters: those of the same profile, in the same run. Pure.

What is found is a note beside a verdict, never another verdict: a fleet may be slow as a whole,
and the gate alone decides. (A gate that lets the fleet decide would say `fleet: true`.)

A measured verdict's `detail` gains

    fleet    {"median", "mad", "nodes"}: of its sisters, in the verdict's unit; `nodes`: how many
    notes    "12 % below its sisters: 201 against a median of 228 GB/s", when it is worse
    slow     that note
and its `curve` gains `fleet`: the sisters' median for each x.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from nodeprep.model.verdict import Verdict

WORSE = 0.10  # of the median; more than this is named
FEWEST = 4  # nodes that measured the same; with fewer there is no telling who is the odd one


class Spread(NamedTuple):
    """Median, and median absolute deviation from it, in the unit of the values."""

    median: float
    mad: float


def spread(values: Iterable[float]) -> Spread:
    """Of at least one value; ValueError of none."""
    known = list(values)
    if not known:
        raise ValueError("no values, no median")
    middle = median(known)
    return Spread(middle, median(abs(value - middle) for value in known))


class _Figure(NamedTuple):
    node: str
    verdict: Verdict
    value: float


def compare(
    nodes: Mapping[str, tuple[str, Sequence[Verdict]]],
) -> dict[str, tuple[Verdict, ...]]:
    """The verdicts of every node with what its sisters say of them.

    nodes   by name: the name of its profile, and its verdicts

    Compared are finite figures of the same claim in the same unit. A stand-in is no sister of a
    real node.
    """
    groups: dict[tuple[str, str, str, bool], list[_Figure]] = {}
    for name, (profile, verdicts) in nodes.items():
        for verdict in verdicts:
            if verdict.value is not None and math.isfinite(verdict.value):
                key = (profile, verdict.claim, verdict.unit, verdict.simulated)
                groups.setdefault(key, []).append(_Figure(name, verdict, verdict.value))
    told = {
        (figure.node, figure.verdict.claim): _told(figure, [o for o in group if o is not figure])
        for group in groups.values()
        if len(group) >= FEWEST
        for figure in group
    }
    return {
        name: tuple(told.get((name, verdict.claim), verdict) for verdict in verdicts)
        for name, (_, verdicts) in nodes.items()
    }


def _told(figure: _Figure, sisters: Sequence[_Figure]) -> Verdict:
    """One verdict beside those of its sisters; itself is not among them: it would pull at them."""
    verdict = figure.verdict
    found = spread(sister.value for sister in sisters)
    detail = {
        **verdict.detail,
        "fleet": {"median": found.median, "mad": found.mad, "nodes": len(sisters)},
    }
    note = _note(figure, found)
    if note:
        notes = verdict.detail.get("notes", ())
        before = list(notes) if isinstance(notes, list | tuple) else []
        detail |= {"notes": [*before, note], "slow": note}
    curve = _curve(verdict, [sister.verdict for sister in sisters])
    return verdict.model_copy(update={"detail": detail | ({"curve": curve} if curve else {})})


def _note(figure: _Figure, found: Spread) -> str:
    if not found.median:
        return ""
    lower = figure.verdict.detail.get("better") == "lower"
    share = (figure.value - found.median) / abs(found.median)
    worse = share if lower else -share
    if not worse > WORSE + 1e-9:  # nor where it is no number
        return ""
    side = "above" if lower else "below"
    unit = f" {figure.verdict.unit}".rstrip()
    text = (
        f"{worse:.0%} {side} its sisters: ".replace("%", " %")
        + f"{figure.value:.4g} against a median of {found.median:.4g}{unit}"
    )
    # Sisters that differ as much among themselves make no odd one out of it.
    wide = abs(figure.value - found.median) <= 3 * found.mad
    return f"{text}; they spread as widely themselves" if wide else text


def _curve(verdict: Verdict, sisters: Sequence[Verdict]) -> dict[str, object] | None:
    """The node's curve with the sisters' median for each of its x; None where they have none."""
    own = _points(verdict)
    others = [points for points in map(_points, sisters) if points.keys() >= own.keys()]
    if not own or len(others) < FEWEST - 1:
        return None
    return {**verdict.detail["curve"], "fleet": [median(o[x] for o in others) for x in own]}


def _points(verdict: Verdict) -> dict[float, float]:
    """y by x; empty when there is no curve, or one that is none."""
    curve = verdict.detail.get("curve")
    x, y = (curve.get("x"), curve.get("y")) if isinstance(curve, dict) else (None, None)
    if not isinstance(x, list | tuple) or not isinstance(y, list | tuple) or len(x) != len(y):
        return {}
    if not all(isinstance(v, int | float) and math.isfinite(v) for v in (*x, *y)):
        return {}
    return dict(zip(x, y, strict=True))
