"""Curves, made ready to be drawn: one node's beside its sisters, and all of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.report import sample

from nodeprep.model.verdict import Outcome, Verdict
from nodeprep.report.curves import HEIGHT, WIDTH, curve, overlay, quantity


def with_detail(gate: float | None = None, **detail: Any) -> Verdict:
    return Verdict(claim="a/proof:b", role="a", verdict=Outcome.PASS, gate=gate, detail=detail)


def of(*y: float, **other: Any) -> Verdict:
    return with_detail(10, curve={"x": [1, 2], "y": list(y), "unit": "GB/s"}, **other)


def test_the_sisters_median_is_drawn_beside_a_node_s_own_curve() -> None:
    found = curve(with_detail(curve={"x": [1, 2], "y": [1, 5], "fleet": [1, 9]}))
    assert found is not None
    assert len(found.fleet.split()) == 2
    assert found.fleet_value == 9
    assert curve(of(1, 5)).fleet == ""  # type: ignore[union-attr]


def test_an_overlay_has_every_node_and_the_median() -> None:
    found = overlay([("a", of(1, 10)), ("b", of(1, 12)), ("c", of(1, 14))])
    assert found is not None
    assert [plot.name for plot in found.plots] == ["a", "b", "c"]
    assert found.fleet_value == 12
    assert found.gate == 10


def test_the_odd_one_is_named_and_drawn_above_the_others() -> None:
    found = overlay([("odd", of(1, 2, slow="behind")), ("b", of(1, 12)), ("c", of(1, 14))])
    assert found is not None
    assert [(plot.name, plot.named) for plot in found.plots] == [
        ("b", False), ("c", False), ("odd", True),
    ]  # fmt: skip


def test_names_that_would_lie_upon_each_other_are_left_out() -> None:
    slow = [(name, of(1, 2, slow="behind")) for name in "ab"]
    found = overlay([*slow, ("c", of(1, 14))])
    assert found is not None
    assert sum(plot.named for plot in found.plots) == 1


def test_two_curves_have_no_median() -> None:
    found = overlay([("a", of(1, 10)), ("b", of(1, 12))])
    assert found is not None
    assert found.fleet == ""


def test_one_curve_is_no_overlay_and_other_sizes_are_not_compared() -> None:
    other = with_detail(curve={"x": [1, 3], "y": [1, 2], "unit": "GB/s"})
    assert overlay([]) is None
    assert overlay([("a", of(1, 2))]) is None
    assert overlay([("a", of(1, 2)), ("b", other), ("c", with_detail(curve=None))]) is None


@pytest.mark.parametrize(
    "points",
    [None, {}, {"x": [1], "y": [1]}, {"x": [1, 2], "y": [1]},
     {"x": [1, 2], "y": [1, float("nan")]}],
)  # fmt: skip
def test_a_malformed_curve_is_not_drawn(points: Any) -> None:
    assert curve(with_detail(curve=points)) is None


def test_sizes_in_powers_of_two_are_labelled_so_on_a_logarithmic_axis() -> None:
    drawn = curve(sample.busbw(172.4, Outcome.FAIL))
    assert drawn is not None
    assert [label for _, label in drawn.x_ticks] == ["1 Mi", "128 Mi", "8 Gi"]
    assert drawn.x_ticks[1][0] - drawn.x_ticks[0][0] == pytest.approx(
        (drawn.x_ticks[2][0] - drawn.x_ticks[0][0]) * 7 / 13, abs=1
    )


FIGURES = st.floats(-1e12, 1e12)


@given(st.lists(st.tuples(FIGURES, FIGURES), min_size=2, max_size=50), st.none() | FIGURES)
def test_every_curve_stays_inside_its_frame(
    points: list[tuple[float, float]], gate: float | None
) -> None:
    data = {"x": [x for x, _ in points], "y": [y for _, y in points]}
    drawn = curve(with_detail(gate, curve=data))
    assert drawn is not None
    for point in drawn.plots[0].points.split():
        x, y = map(float, point.split(","))
        assert 0 <= x <= WIDTH
        assert 0 <= y <= HEIGHT
    assert len(drawn.y_ticks) <= 6


@pytest.mark.parametrize(
    ("value", "shown"), [(12, "12 B"), (1500, "1.5 kB"), (-2.5e9, "-2.5 GB"), (0, "0 B")]
)
def test_a_quantity_is_short(value: float, shown: str) -> None:
    assert quantity(value, "B") == shown
