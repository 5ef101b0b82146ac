"""Matrices, made ready to be drawn."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.report import sample

from nodeprep.model.verdict import Outcome, Verdict
from nodeprep.report.charts import heatmap, is_between


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


def test_a_matrix_of_the_run_s_nodes_belongs_to_the_fleet() -> None:
    matrix = {"rows": ["a", "b"], "cols": ["a", "b"], "values": [[None, 1], [1, None]]}
    verdict = with_detail(matrix=matrix)
    assert is_between(verdict, {"a", "b", "c"})
    assert not is_between(verdict, {"a"})
    assert not is_between(sample.P2P, {"gpu1", "gpu2"})


@pytest.mark.parametrize("matrix", [None, [], {"rows": 3}, {"rows": [[], []]}, {"rows": []}])
def test_a_malformed_matrix_belongs_to_nobody(matrix: Any) -> None:
    assert not is_between(with_detail(matrix=matrix), {"a", "b"})
