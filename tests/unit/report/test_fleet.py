"""The fleet as a whole: figures side by side, links once, curves together."""

from __future__ import annotations

from typing import Any

from tests.unit.report import sample

from nodeprep.model.lifecycle import State
from nodeprep.model.profile import Profile
from nodeprep.model.run import NodeResult
from nodeprep.model.verdict import Outcome, Verdict
from nodeprep.report import fleet

LINKS = {"rows": ["a", "b"], "cols": ["a", "b"], "values": [[None, 9.4], [9.3, None]],
         "unit": "Gb/s"}  # fmt: skip


def proof(value: float | None, outcome: Outcome = Outcome.PASS, **other: Any) -> Verdict:
    said: dict[str, Any] = {"claim": "a/proof:speed", "role": "a"}
    said |= {"unit": "GB/s", "gate": 180.0} if value is not None else {}
    return Verdict(verdict=outcome, value=value, **{**said, **other})


def node(name: str, *verdicts: Verdict, profile: str = "p") -> NodeResult:
    return NodeResult(
        name=name, state=State.JOINED, verdicts=verdicts, profile=Profile(name=profile)
    )


def laid_out(*nodes: NodeResult) -> fleet.Fleet:
    return fleet.lay_out(sample.run("accept", *nodes))


def test_a_measurement_is_a_row_with_its_median_and_gate() -> None:
    (row,) = laid_out(node("a", proof(200)), node("b", proof(220)), node("c", proof(240))).rows
    assert (row.name, row.median, row.gate, row.unit) == ("speed", "220", "180", "GB/s")
    assert [cell.text for cell in row.cells] == ["200", "220", "240"]
    assert [round(cell.heat, 2) for cell in row.cells] == [-0.45, 0, 0.45]


def test_where_lower_is_better_the_high_one_is_the_worse_one() -> None:
    lower = {"better": "lower"}
    (row,) = laid_out(
        *(node(n, proof(v, detail=lower)) for n, v in (("a", 1), ("b", 2), ("c", 3)))
    ).rows
    assert row.cells[0].heat > 0 > row.cells[2].heat


def test_of_two_nodes_there_is_no_median() -> None:
    (row,) = laid_out(node("a", proof(200)), node("b", proof(240))).rows
    assert row.median == ""
    assert [cell.heat for cell in row.cells] == [0, 0]


def test_a_node_that_could_not_measure_stands_there_as_unknown() -> None:
    odd = node("c", proof(None, Outcome.UNKNOWN))
    (row,) = laid_out(node("a", proof(200)), node("b", proof(220)), odd).rows
    assert row.cells[2].text == "unknown"
    assert row.cells[2].outcome is Outcome.UNKNOWN


def test_profiles_are_not_mixed() -> None:
    nodes = [node(n, proof(200), profile=n[0]) for n in ("p1", "p2", "q1", "q2")]
    assert [(row.profile, [c.text for c in row.cells]) for row in laid_out(*nodes).rows] == [
        ("p", ["200", "200", "", ""]), ("q", ["", "", "200", "200"]),
    ]  # fmt: skip


def test_a_single_node_is_no_fleet() -> None:
    assert not laid_out(node("a", proof(200), proof(1, claim="a/proof:other")))
    assert not laid_out(sample.nas())


def test_links_between_nodes_are_shown_once_whoever_tells_them() -> None:
    told = proof(9.3, detail={"matrix": LINKS})
    found = laid_out(node("a", told), node("b", told)).links
    assert [name for name, _ in found[0][1].lines] == ["a", "b"]
    assert len(found) == 1


def test_links_that_each_node_tells_for_itself_are_put_together() -> None:
    def told(name: str, *values: float) -> NodeResult:
        peers = [peer for peer in "abc" if peer != name]
        matrix = {"rows": [name], "cols": peers, "values": [list(values)], "unit": "Gb/s"}
        return node(name, proof(min(values), gate=9.0, detail={"matrix": matrix}))

    ((verdict, map_),) = laid_out(
        told("a", 9.4, 3.1), told("b", 9.4, 9.3), told("c", 3.1, 9.3)
    ).links
    assert verdict.gate == 9
    assert [(name, [cell.text for cell in cells]) for name, cells in map_.lines] == [
        ("a", ["", "9.40", "3.10"]), ("b", ["9.40", "", "9.30"]), ("c", ["3.10", "9.30", ""]),
    ]  # fmt: skip
    assert [cell.bad for cell in map_.lines[0][1]] == [False, False, True]


def test_a_link_that_differs_by_its_way_is_read_from_row_to_column() -> None:
    matrix = {"rows": ["to the peer", "from the peer"], "cols": ["b"], "values": [[9.4], [1.0]]}
    found = laid_out(node("a", proof(1, detail={"matrix": matrix})), node("b")).links
    assert [[cell.text for cell in cells] for _, cells in found[0][1].lines] == [
        ["", "9.40"], ["1.00", ""],
    ]  # fmt: skip


def test_links_of_gpus_are_a_node_s_own() -> None:
    assert not laid_out(node("a", sample.P2P), node("b", sample.P2P)).links


def test_curves_of_a_profile_are_drawn_together() -> None:
    found = laid_out(*(node(n, sample.busbw(172.4, Outcome.FAIL)) for n in "abc")).curves
    assert [(name, len(drawing.plots)) for name, drawing in found] == [("nccl/proof:all_reduce", 3)]
