"""A node among its sisters: the odd one is named, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.judge import fleet
from nodeprep.model.verdict import Outcome, Verdict

CLAIM = "nccl/proof:nccl.all_reduce.busbw"


def measured(value: float | None, **other: Any) -> Verdict:
    said: dict[str, Any] = {
        "claim": CLAIM, "role": "nccl", "verdict": Outcome.PASS, "value": value, "gate": 180.0,
        "unit": "GB/s", "detail": {"better": "higher"},
    }  # fmt: skip
    return Verdict(**{**said, **other})


def compared(*values: float | None, profile: str = "a", **other: Any) -> list[Verdict]:
    nodes = {f"n{i}": (profile, (measured(v, **other),)) for i, v in enumerate(values)}
    return [verdicts[0] for verdicts in fleet.compare(nodes).values()]


def notes(verdict: Verdict) -> list[str]:
    return list(verdict.detail.get("notes", []))


def test_a_slow_sister_is_named_and_its_verdict_stays() -> None:
    *sisters, slow = compared(228, 227.5, 229, 228, 201)
    assert notes(slow) == ["12 % below its sisters: 201 against a median of 228 GB/s"]
    assert slow.detail["slow"] == notes(slow)[0]
    assert slow.verdict is Outcome.PASS
    assert not any(map(notes, sisters))


def test_healthy_sisters_are_not_named_however_many() -> None:
    assert not any(map(notes, compared(*[220 + n % 5 for n in range(13)])))


def test_exactly_ten_percent_is_not_more_than_ten_percent() -> None:
    assert not notes(compared(100, 100, 100, 90)[-1])
    assert notes(compared(100, 100, 100, 89.9)[-1])


def test_where_lower_is_better_the_high_one_is_named() -> None:
    *_, low, high = compared(2, 2, 2, 1, 3, unit="us", detail={"better": "lower"})
    assert not notes(low)
    assert notes(high) == ["50 % above its sisters: 3 against a median of 2 us"]


def test_three_nodes_are_no_fleet() -> None:
    assert compared(228, 228, 100)[-1].detail == {"better": "higher"}


def test_a_slow_node_does_not_pull_the_median_that_it_is_measured_against() -> None:
    first, second, *_ = compared(100, 100, 228, 228, 228)
    assert first.detail["fleet"] == {"median": 228, "mad": 0, "nodes": 4}
    assert notes(first)
    assert notes(second)


def test_a_wide_fleet_is_said_to_be_wide() -> None:
    assert notes(compared(100, 140, 180, 220, 120)[0])[0].endswith("spread as widely themselves")


def test_earlier_notes_stay() -> None:
    told = measured(100, detail={"notes": ["past the warning"]})
    nodes = {"odd": ("a", (told,)), **{f"n{i}": ("a", (measured(228),)) for i in range(3)}}
    assert [note.partition(":")[0] for note in notes(fleet.compare(nodes)["odd"][0])] == [
        "past the warning", "56 % below its sisters",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "odd",
    [measured(100, unit="us"), measured(100, simulated=True), measured(None),
     measured(float("nan")), measured(100, claim="nccl/proof:other")],
)  # fmt: skip
def test_only_the_same_figure_of_the_same_sort_of_node_is_compared(odd: Verdict) -> None:
    nodes = {"odd": ("a", (odd,)), **{f"n{i}": ("a", (measured(228),)) for i in range(4)}}
    assert fleet.compare(nodes)["odd"] == (odd,)


def test_another_profile_is_no_sister() -> None:
    nodes = {"odd": ("b", (measured(100),)), **{f"n{i}": ("a", (measured(228),)) for i in range(4)}}
    assert fleet.compare(nodes)["odd"] == (measured(100),)


def test_a_curve_gains_the_median_of_its_sisters() -> None:
    def curve(top: float) -> dict[str, Any]:
        return {"curve": {"x": [1, 2], "y": [1, top], "unit": "GB/s"}}

    nodes = {f"n{i}": ("a", (measured(v, detail=curve(v)),)) for i, v in enumerate((9, 8, 9, 7))}
    found = fleet.compare(nodes)["n3"][0].detail["curve"]
    assert found == {"x": [1, 2], "y": [1, 7], "unit": "GB/s", "fleet": [1, 9]}


@pytest.mark.parametrize("curve", [None, [], {"x": [1]}, {"x": [1], "y": ["fast"]}, {"x": 1}])
def test_a_malformed_curve_is_left_alone(curve: Any) -> None:
    found = compared(228, 228, 228, 228, detail={"curve": curve})
    assert all(verdict.detail["curve"] == curve for verdict in found)


def test_median_and_deviation() -> None:
    assert fleet.spread([1, 2, 3, 4, 100]) == (3, 1)
    with pytest.raises(ValueError, match="no values"):
        fleet.spread([])


@given(st.lists(st.floats(), max_size=9))
def test_whatever_was_measured_no_verdict_changes(values: list[float]) -> None:
    found = compared(*values)
    assert [(v.verdict, str(v.value)) for v in found] == [
        (Outcome.PASS, str(value)) for value in values
    ]
