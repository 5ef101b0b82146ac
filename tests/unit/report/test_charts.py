"""Matrices and curves, made ready to be drawn."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.report import sample

from nodeprep.model.verdict import Outcome, Verdict
from nodeprep.report.charts import HEIGHT, WIDTH, curve, heatmap, quantity


def with_detail(gate: float | None = None, **detail: Any) -> Verdict:
    return Verdict(claim="a/proof:b", role="a", verdict=Outcome.PASS, gate=gate, detail=detail)


def test_a_heat_map_marks_what_is_on_the_wrong_side_of_the_gate() -> None:
    found = heatmap(sample.P2P)
    assert found is not None
    bad = [(name, n) for name, cells in found.lines for n, c in enumerate(cells) if c.bad]
    assert bad == [("GPU1", 3), ("GPU3", 1)]
    assert found.lines[0][1][0].text == ""  # no pair
    assert found.lines[2][1][0].text == "92.0"


def test_where_lower_is_better_a_high_cell_is_bad() -> None:
    matrix = {"rows": ["a"], "cols": ["x", "y"], "values": [[1, 3]], "unit": "us"}
    found = heatmap(with_detail(2, matrix=matrix, better="lower"))
    assert found is not None
    assert [cell.bad for cell in found.lines[0][1]] == [False, True]


@pytest.mark.parametrize(
    "matrix",
    [None, [], {}, {"rows": ["a"], "cols": ["x"], "values": []},
     {"rows": ["a"], "cols": ["x"], "values": [[1, 2]]},
     {"rows": ["a"], "cols": ["x"], "values": [["fast"]]}],
)  # fmt: skip
def test_a_malformed_matrix_is_not_drawn(matrix: Any) -> None:
    assert heatmap(with_detail(matrix=matrix)) is None


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
    for point in drawn.points.split():
        x, y = map(float, point.split(","))
        assert 0 <= x <= WIDTH
        assert 0 <= y <= HEIGHT
    assert len(drawn.y_ticks) <= 6


@pytest.mark.parametrize(
    ("value", "shown"), [(12, "12 B"), (1500, "1.5 kB"), (-2.5e9, "-2.5 GB"), (0, "0 B")]
)
def test_a_quantity_is_short(value: float, shown: str) -> None:
    assert quantity(value, "B") == shown
